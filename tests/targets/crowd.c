/* SPDX-License-Identifier: Apache-2.0
 *
 * crowd N: as many threads as there may be, N at most, that wait to be told to work.
 *
 * READY N: so many were made.
 * work: each of them allocates a block and frees it; "ok", or "BAD N" waits of theirs failed
 * so far.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_uint turn, busy, failures;

/* Until *@word isn't @value any more. */
static void wait_while(atomic_uint *word, unsigned value)
{
	while (atomic_load(word) == value)
		if (syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL) < 0 &&
		    errno != EAGAIN)
			atomic_fetch_add(&failures, 1);
}

static void wake_all(atomic_uint *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX);
}

static void *member(void *arg)
{
	for (unsigned seen = 0;; seen++) {
		void *block;

		wait_while(&turn, seen);
		block = malloc(100);
		__asm__ volatile("" : : "r"(block) : "memory");
		free(block);
		if (atomic_fetch_sub(&busy, 1) == 1)
			wake_all(&busy);
	}
	return arg;
}

static void work(unsigned n)
{
	unsigned left;

	atomic_store(&busy, n);
	atomic_fetch_add(&turn, 1);
	wake_all(&turn);
	while ((left = atomic_load(&busy)) > 0)
		wait_while(&busy, left);
}

int main(int argc, char **argv)
{
	unsigned want = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100, n = 0;
	pthread_attr_t attr;
	pthread_t thread;
	char line[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 32 * 1024);
	while (n < want && !pthread_create(&thread, &attr, member, NULL))
		n++;
	printf("READY %u\n", n);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		work(n);
		if (atomic_load(&failures))
			printf("BAD %u\n", atomic_load(&failures));
		else
			printf("ok\n");
		fflush(stdout);
	}
	_exit(0);
}
