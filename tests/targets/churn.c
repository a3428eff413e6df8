/* SPDX-License-Identifier: Apache-2.0
 *
 * churn [SPAWNERS [IDLE]]: threads that make and join short-lived threads all the time,
 * beside IDLE ones that only wait.
 *
 * READY
 * count: "N" threads have come and gone since the last one asked; at least one did.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static unsigned long made;

static void *nothing(void *arg)
{
	return arg;
}

static void *idle(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void *spawner(void *arg)
{
	pthread_t thread;

	for (;;) {
		if (pthread_create(&thread, NULL, nothing, NULL))
			continue;
		pthread_join(thread, NULL);
		__atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
	}
	return arg;
}

static void await_some(unsigned long than)
{
	while (__atomic_load_n(&made, __ATOMIC_RELAXED) == than) {
		struct timespec ts = { 0, 100000 };

		nanosleep(&ts, NULL);
	}
}

int main(int argc, char **argv)
{
	int spawners = argc > 1 ? atoi(argv[1]) : 4;
	int idlers = argc > 2 ? atoi(argv[2]) : 0;
	unsigned long before = 0;
	pthread_attr_t attr;
	pthread_t thread;
	char line[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	for (int i = 0; i < spawners + idlers; i++) {
		if (pthread_create(&thread, &attr, i < spawners ? spawner : idle, NULL))
			return 1;
	}
	if (spawners)
		await_some(0);
	printf("READY\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (spawners)
			await_some(before);
		printf("%lu\n", made - before);
		before = made;
		fflush(stdout);
	}
	_exit(0);
}
