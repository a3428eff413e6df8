/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds.c: see rounds.h.
 */
#include "rounds.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MAX_BAD 2000

struct rounds_thread *rounds_threads[ROUNDS_MAX];
size_t rounds_n;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char bad[MAX_BAD];
static size_t bad_len;

void rounds_bad(const char *fmt, ...)
{
	char text[512];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	pthread_mutex_lock(&lock);
	/* Once is enough. */
	if (n > 0 && (size_t)n < sizeof(text) && bad_len + (size_t)n + 3 < sizeof(bad) &&
	    !strstr(bad, text))
		bad_len += (size_t)sprintf(bad + bad_len, "%s%s", bad_len ? "; " : "", text);
	pthread_mutex_unlock(&lock);
}

static void *run(void *arg)
{
	struct rounds_thread *thread = arg;

	prctl(PR_SET_NAME, thread->name);
	for (;;) {
		thread->round(thread->arg);
		thread->rounds++;
	}
	return NULL;
}

void rounds_start(struct rounds_thread *thread)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 * 1024);
	rounds_threads[rounds_n++] = thread;
	if (pthread_create(&thread->id, &attr, run, thread))
		rounds_bad("can't start a thread");
}

unsigned long rounds_await(unsigned long n, void (*poke)(void))
{
	unsigned long before[ROUNDS_MAX], sum = 0;

	for (size_t i = 0; i < rounds_n; i++)
		before[i] = rounds_threads[i]->rounds;
	for (size_t i = 0; i < rounds_n; i++) {
		/* A hundred seconds, for a thread that never comes back. */
		for (int tries = 0; rounds_threads[i]->rounds < before[i] + n; tries++) {
			if (tries == 100000) {
				rounds_bad("%s hangs", rounds_threads[i]->name);
				break;
			}
			if (poke && tries % 10 == 0)
				poke();
			nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
		}
		sum += rounds_threads[i]->rounds;
	}
	return sum;
}

void rounds_answer(const char *ok, ...)
{
	char text[MAX_BAD + 64];
	va_list args;
	int n;

	va_start(args, ok);
	pthread_mutex_lock(&lock);
	if (bad_len)
		n = snprintf(text, sizeof(text), "BAD %s", bad);
	else
		n = vsnprintf(text, sizeof(text) - 1, ok, args);
	bad_len = 0;
	bad[0] = '\0';
	pthread_mutex_unlock(&lock);
	va_end(args);
	text[n++] = '\n';
	if (write(STDOUT_FILENO, text, (size_t)n) != n)
		_exit(1);
}

int rounds_next_line(char *line, size_t cap)
{
	size_t len = 0;

	while (len < cap - 1) {
		ssize_t n = read(STDIN_FILENO, line + len, 1);

		if (n < 0)
			rounds_bad("read of a line: %s", strerrorname_np(errno));
		if (n <= 0)
			return 0;
		if (line[len] == '\n')
			break;
		len++;
	}
	line[len] = '\0';
	return 1;
}

void rounds_ready(const char *program)
{
	if (!bad_len && write(STDOUT_FILENO, "READY\n", 6) == 6)
		return;
	fprintf(stderr, "%s: %s\n", program, bad);
	exit(1);
}
