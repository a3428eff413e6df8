/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds.h: for targets whose threads each do one thing again and again and see whether it
 * goes as it should. A thread counts its rounds, so that a check can wait until all went on.
 */
#ifndef HT_TESTS_ROUNDS_H
#define HT_TESTS_ROUNDS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

/* Something differs; the first few are kept. Any thread may call it; it never allocates. */
void rounds_bad(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A thread whose @round is run again and again, with @arg. */
struct rounds_thread {
	const char *name;
	void (*round)(void *arg);
	void *arg;
	atomic_ulong rounds;
	pthread_t id;
};
#define ROUNDS_MAX 64
extern struct rounds_thread *rounds_threads[ROUNDS_MAX];
extern size_t rounds_n;

void rounds_start(struct rounds_thread *thread);
/* Until each thread has done @n rounds more; @poke (may be NULL) is called now and then.
 * Returns all rounds so far. */
unsigned long rounds_await(unsigned long n, void (*poke)(void));

/* The next line of stdin, by a read that may take a stop as it likes, and nothing that
 * allocates. 0: there is none. */
int rounds_next_line(char *line, size_t cap);
/* Write "BAD what; what" of all that was bad since the last answer, else @ok, as a line. */
void rounds_answer(const char *ok, ...) __attribute__((format(printf, 1, 2)));
/* Write READY, or leave with what was bad. */
void rounds_ready(const char *program);

#endif
