/* SPDX-License-Identifier: Apache-2.0
 *
 * outermost HOW: waits in code of its own, in main() or in a thread, so that what is below
 * these is all that a C library adds. Built with musl-gcc by test_step.
 *
 *	main	pthread	thrd
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <threads.h>

/* A system call that isn't made in the C library, whose code may have no unwind data. */
static __attribute__((noinline)) void wait_here(void)
{
	char buf[64];
	long r;

	__asm__ volatile("syscall" : "=a"(r)
			 : "a"(SYS_read), "D"(0), "S"(buf), "d"(sizeof(buf))
			 : "rcx", "r11", "memory");
}

static void *run_pthread(void *arg)
{
	wait_here();
	__asm__ volatile("" ::: "memory");
	return arg;
}

static int run_thrd(void *arg)
{
	(void)arg;
	wait_here();
	__asm__ volatile("" ::: "memory");
	return 0;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "main";
	pthread_t pthread;
	thrd_t thrd;

	printf("READY\n");
	fflush(stdout);
	if (!strcmp(how, "pthread")) {
		pthread_create(&pthread, NULL, run_pthread, NULL);
		pthread_join(pthread, NULL);
	} else if (!strcmp(how, "thrd")) {
		thrd_create(&thrd, run_thrd, NULL);
		thrd_join(thrd, NULL);
	} else {
		wait_here();
	}
	return 0;
}
