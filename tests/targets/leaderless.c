/* SPDX-License-Identifier: Apache-2.0
 *
 * leaderless: its main thread has ended; another serves.
 *
 * READY
 * anything: the same back.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static void await_zombie(void)
{
	char path[64], text[512];
	const char *p = NULL;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	do {
		struct timespec ts = { 0, 1000000 };
		FILE *f = fopen(path, "r");

		if (f) {
			p = fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
			fclose(f);
		}
		nanosleep(&ts, NULL);
	} while (!p || p[2] != 'Z');
}

static void *serve(void *arg)
{
	char line[64];

	await_zombie();
	printf("READY\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		fputs(line, stdout);
		fflush(stdout);
	}
	_exit(0);
	return arg;
}

int main(void)
{
	pthread_t thread;

	/* Not PR_SET_PDEATHSIG: it would only reach the main thread. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (pthread_create(&thread, NULL, serve, NULL))
		return 1;
	pthread_exit(NULL);
}
