/* SPDX-License-Identifier: Apache-2.0
 *
 * starter: says when its constructor ran and when main, and whether it was started with
 * SIGTRAP ignored and SIGUSR1 blocked ("mask") or not ("plain"), or to die with its parent
 * ("bound"). It allocates one block. Its exit status is 7. For launches; also built static.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static void say(const char *text, size_t len)
{
	if (write(1, text, len) != (ssize_t)len)
		_exit(1);
}

__attribute__((constructor)) static void construct(void)
{
	say("constructor\n", 12);
}

int main(void)
{
	void *volatile block = malloc(100);
	struct sigaction act;
	sigset_t set;
	int death = 0;

	sigprocmask(SIG_BLOCK, NULL, &set);
	sigaction(SIGTRAP, NULL, &act);
	prctl(PR_GET_PDEATHSIG, &death);
	if (death)
		say("bound\n", 6);
	else if (sigismember(&set, SIGUSR1) && act.sa_handler == SIG_IGN)
		say("mask\n", 5);
	else
		say("plain\n", 6);
	free(block);
	return 7;
}
