/* SPDX-License-Identifier: Apache-2.0
 *
 * storms_stack.c: see storms.h.
 */
#include "storms.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#define PAGE 4096
#define STACK (4 * PAGE)
#define GUARD PAGE

/* A stack between two pages that nobody may touch. */
static char *map_stack(size_t size)
{
	char *pages = mmap(NULL, size + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED ||
	    mprotect(pages + GUARD, size, PROT_READ | PROT_WRITE)) {
		rounds_bad("no room for a stack");
		return NULL;
	}
	return pages + GUARD;
}

static void unmap_stack(char *stack, size_t size)
{
	munmap(stack - GUARD, size + 2 * GUARD);
}

static __thread ucontext_t outside, inside;

/* As deep as fits: what an allocation needs besides is a few hundred bytes. */
static void deep(int depth)
{
	volatile char frame[512];

	frame[0] = (char)depth;
	if (depth > 0)
		deep(depth - 1);
	storms_free(storms_alloc());
	frame[1] = frame[0];
}

static void coroutine(void)
{
	for (;;) {
		deep(16);
		swapcontext(&inside, &outside);
	}
}

static void coroutine_round(void *arg)
{
	/* The second one lies, more often than not, where the first one was. */
	for (size_t size = STACK; size >= STACK - PAGE; size -= PAGE) {
		char *stack = map_stack(size);

		if (!stack)
			return;
		getcontext(&inside);
		inside.uc_stack.ss_sp = stack;
		inside.uc_stack.ss_size = size;
		inside.uc_link = NULL;
		makecontext(&inside, coroutine, 0);
		for (int i = 0; i < 3; i++)
			swapcontext(&outside, &inside);
		unmap_stack(stack, size);
	}
}

void storms_coroutine(void)
{
	storms_start("coroutine", 3, coroutine_round);
}

static __thread volatile sig_atomic_t handled;

static void on_signal(int signal)
{
	deep(4);
	handled++;
}

static void altstack_round(void *arg)
{
	stack_t alt = { .ss_size = STACK };

	alt.ss_sp = map_stack(STACK);
	if (!alt.ss_sp || sigaltstack(&alt, NULL))
		return;
	handled = 0;
	/* Sent from where the allocator isn't: it may be entered from the handler. */
	for (int i = 0; i < 20; i++)
		raise(SIGUSR1);
	if (handled != 20)
		rounds_bad("%d of 20 signals were handled", (int)handled);
	alt.ss_flags = SS_DISABLE;
	if (sigaltstack(&alt, NULL))
		rounds_bad("the alternate stack stays");
	unmap_stack(alt.ss_sp, STACK);
}

void storms_altstack(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

	sigaction(SIGUSR1, &action, NULL);
	storms_start("altstack", 3, altstack_round);
}

static void give_back(void *block)
{
	storms_free(block);
}

static void *until_cancelled(void *arg)
{
	for (;;) {
		void *block = storms_alloc();

		pthread_cleanup_push(give_back, block);
		pthread_testcancel();
		pthread_cleanup_pop(1);
	}
	return arg;
}

static void cancel_round(void *arg)
{
	pthread_t thread;
	void *result;

	if (pthread_create(&thread, NULL, until_cancelled, NULL)) {
		rounds_bad("can't start a thread");
		return;
	}
	for (unsigned i = storms_random(2000); i > 0; i--)
		__builtin_ia32_pause();
	pthread_cancel(thread);
	if (pthread_join(thread, &result) || result != PTHREAD_CANCELED)
		rounds_bad("a thread wasn't cancelled");
}

void storms_cancel(void)
{
	storms_start("cancel", 3, cancel_round);
}

static void *in_thread(void *arg)
{
	deep(8);
	return NULL;
}

static void tiny_round(void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	void *result;

	pthread_attr_init(&attr);
	if (pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN) ||
	    pthread_create(&thread, &attr, in_thread, NULL))
		rounds_bad("can't start a thread on a small stack");
	else if (pthread_join(thread, &result))
		rounds_bad("can't join a thread on a small stack");
	pthread_attr_destroy(&attr);
}

void storms_tiny(void)
{
	storms_start("tiny", 3, tiny_round);
}
