/* SPDX-License-Identifier: Apache-2.0
 *
 * vforker: waits in vfork for a child that reads a line; then says "done", and again.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (write(1, "READY\n", 6) != 6)
		return 1;
	for (;;) {
		char c = 0;
		pid_t pid = vfork();

		if (pid == 0) {
			ssize_t n;

			do
				n = read(0, &c, 1);
			while (n == 1 && c != '\n');
			_exit(n == 1 ? 0 : 1);
		}
		if (pid < 0)
			return 1;
		int status;

		waitpid(pid, &status, 0);
		if (status)
			return 0;
		if (write(1, "done\n", 5) != 5)
			return 1;
	}
}
