/* SPDX-License-Identifier: Apache-2.0
 *
 * counter: counts queued real-time signals, whose values must come in order, 0, 1, 2, ...
 * SIGTRAP is ignored, and must stay so.
 *
 * READY
 * count: "N" signals came so far, or "BAD what".
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile int next;
static volatile int wrong;

static void count(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	if (info->si_value.sival_int != next)
		wrong = 1;
	next++;
}

int main(void)
{
	struct sigaction act = { .sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigaction old;
	char line[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	signal(SIGTRAP, SIG_IGN);
	sigaction(SIGRTMIN, &act, NULL);
	printf("READY\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		sigaction(SIGTRAP, NULL, &old);
		if (old.sa_handler != SIG_IGN)
			printf("BAD SIGTRAP isn't ignored any more\n");
		else if (wrong)
			printf("BAD order\n");
		else
			printf("%d\n", next);
		fflush(stdout);
	}
	return 0;
}
