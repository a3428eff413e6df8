/* SPDX-License-Identifier: Apache-2.0
 *
 * threads.c: N threads that wait, and some resident memory, so that the length of a stop can
 * be measured.
 *
 *	threads N [MIB]
 *
 * Prints READY once all of them wait, allocates a little at each line, ends with stdin.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_barrier_t started;
static pthread_mutex_t locked = PTHREAD_MUTEX_INITIALIZER;

static void *wait_for_ever(void *arg)
{
	pthread_barrier_wait(&started);
	pthread_mutex_lock(&locked);
	pthread_mutex_unlock(&locked);
	return arg;
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 1, i;
	size_t resident = argc > 2 ? strtoul(argv[2], NULL, 10) << 20 : 0;
	pthread_attr_t attr;
	pthread_t thread;
	char line[16], *memory = malloc(resident);

	if (!n || n > 100000)
		return 2;
	if (resident && !memory)
		return 1;
	memset(memory, 1, resident);
	pthread_mutex_lock(&locked);
	pthread_barrier_init(&started, NULL, (unsigned)n);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	for (i = 1; i < n; i++)
		if (pthread_create(&thread, &attr, wait_for_ever, NULL))
			return 1;
	pthread_barrier_wait(&started);
	puts("READY");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		free(malloc(100));
	exit(0);
}
