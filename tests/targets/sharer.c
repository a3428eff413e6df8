/* SPDX-License-Identifier: Apache-2.0
 *
 * sharer: another process runs in its memory, made by clone(CLONE_VM).
 *
 * READY PID, of the other one. end: it ends. "ok"
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int run(void *arg)
{
	for (;;)
		pause();
	return arg != NULL;
}

int main(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	char line[64];
	pid_t pid = clone(run, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (pid < 0)
		return 1;
	printf("READY %d\n", (int)pid);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "end\n") == 0) {
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
		}
		printf("ok\n");
		fflush(stdout);
	}
	kill(pid, SIGKILL);
	return 0;
}
