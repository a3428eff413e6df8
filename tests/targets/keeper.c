/* SPDX-License-Identifier: Apache-2.0
 *
 * keeper: threads in all sorts of states that must keep what they have: registers (the
 * vector ones too), bytes in the red zone, the signal mask, errno, blocking calls.
 *
 *	main		read(stdin)			restarts by itself
 *	waiter		epoll_wait(-1)			fails with EINTR when stopped
 *	sleeper		nanosleep			has a restart block
 *	spinner		registers in a loop
 *
 * READY labs strlen slow fault clobber released: addresses of functions, in hex, and of
 * the int that lets slow() return when it isn't 0. clobber() gives 99 and overwrites all
 * vector registers.
 * deep: once over a MiB of the main thread's stack, then as
 * check: "ok ROUNDS" once the spinner went on since the last check, or "BAD what".
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t rounds;
static const char *volatile broken;
static volatile int released;
static volatile uintptr_t nowhere = 8;
static volatile pid_t waiter_tid, sleeper_tid;

__attribute__((noinline)) static long slow(long x)
{
	while (!released) {
		struct timespec ts = { 0, 1000000 };

		nanosleep(&ts, NULL);
	}
	return x + 1;
}

__attribute__((noinline)) static long fault(long x)
{
	/* Not by a constant, which the compiler would know better about. */
	*(volatile int *)nowhere = (int)x;
	return 0;
}

__attribute__((noinline)) static long clobber(void)
{
	__asm__ volatile("vzeroall" : : : "memory");
	if (__builtin_cpu_supports("avx512f"))
		__asm__ volatile("vpxorq %%zmm20, %%zmm20, %%zmm20" : : : "memory");
	return 99;
}

#define PATTERN 0x1122334455667788UL

/* One round: load, wait a little, look. In one asm, so that no compiler keeps a copy. */
static int keeps_registers(const uint8_t pattern[64], uint8_t seen[64], int wide)
{
	uint64_t gpr, red;

	if (wide)
		__asm__ volatile("vmovdqu64 %0, %%zmm20" : : "m"(*(const char(*)[64])pattern));
	__asm__ volatile(
		"vmovdqu %3, %%ymm7\n\t"
		"mov %4, %%r13\n\t"
		"mov %4, %%r14\n\t"
		"mov %4, -72(%%rsp)\n\t"
		"mov $300, %%ecx\n"
		"1:\tcmp %%r13, %%r14\n\t"
		"jne 2f\n\t"
		"cmp %%r13, -72(%%rsp)\n\t"
		"jne 2f\n\t"
		"dec %%ecx\n\t"
		"jnz 1b\n"
		"2:\tvmovdqu %%ymm7, %2\n\t"
		"mov %%r13, %0\n\t"
		"mov -72(%%rsp), %1\n\t"
		: "=&r"(gpr), "=&r"(red), "=m"(*(char(*)[32])seen)
		: "m"(*(const char(*)[32])pattern), "r"(PATTERN)
		: "xmm7", "r13", "r14", "rcx", "cc", "memory");
	if (gpr != PATTERN)
		broken = "general registers";
	if (red != PATTERN)
		broken = "red zone";
	if (memcmp(pattern, seen, 32) != 0)
		broken = "ymm7";
	if (wide) {
		__asm__ volatile("vmovdqu64 %%zmm20, %0" : "=m"(*(char(*)[64])seen));
		if (memcmp(pattern, seen, 64) != 0)
			broken = "zmm20";
	}
	return broken == NULL;
}

static void *spinner(void *arg)
{
	static const uint8_t pattern[64] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNO";
	int wide = __builtin_cpu_supports("avx512f");
	uint8_t seen[64];

	while (keeps_registers(pattern, seen, wide))
		rounds++;
	return arg;
}

static void *waiter(void *arg)
{
	struct epoll_event ev;
	sigset_t before, after;

	sigemptyset(&before);
	sigaddset(&before, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &before, NULL);
	errno = 77;
	waiter_tid = gettid();
	epoll_wait(epoll_create1(EPOLL_CLOEXEC), &ev, 1, -1);
	broken = errno == EINTR ? "epoll_wait: EINTR" : "epoll_wait";
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	if (!sigismember(&after, SIGUSR1))
		broken = "signal mask";
	return arg;
}

static void *sleeper(void *arg)
{
	struct timespec ts = { 100000, 0 };

	sleeper_tid = gettid();
	if (nanosleep(&ts, NULL) < 0)
		broken = "nanosleep";
	return arg;
}

/* Until the thread is blocked, for good, as it has nothing else to block in. */
static void await_blocked(volatile pid_t *tid)
{
	char path[64], text[256];
	const char *p = NULL;

	while (!p || p[2] != 'S') {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", *tid);
		f = fopen(path, "r");
		p = f && fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
		if (f)
			fclose(f);
	}
}

static void await_rounds(void)
{
	uint64_t start = rounds;

	while (!broken && rounds < start + 1000) {
		struct timespec ts = { 0, 100000 };

		nanosleep(&ts, NULL);
	}
}

static void go_deep(void)
{
	volatile char bytes[1 << 20];

	for (size_t i = 0; i < sizeof(bytes); i += 4096)
		bytes[i] = 1;
}

int main(void)
{
	void *(*const threads[])(void *) = { waiter, sleeper, spinner };
	char line[64];
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	for (int i = 0; i < 3; i++) {
		if (pthread_create(&thread, NULL, threads[i], NULL))
			return 1;
	}
	await_rounds();
	await_blocked(&waiter_tid);
	await_blocked(&sleeper_tid);
	printf("READY %lx %lx %lx %lx %lx %lx\n", (unsigned long)labs, (unsigned long)strlen,
	       (unsigned long)slow, (unsigned long)fault, (unsigned long)clobber,
	       (unsigned long)&released);
	fflush(stdout);
	for (;;) {
		ssize_t n = read(0, line, sizeof(line) - 1);

		if (n < 0) {
			printf("BAD read: %s\n", strerror(errno));
			fflush(stdout);
			return 1;
		}
		if (n == 0)
			return 0;
		line[n] = '\0';
		if (!strncmp(line, "deep", 4))
			go_deep();
		await_rounds();
		if (broken)
			printf("BAD %s\n", broken);
		else
			printf("ok %lu\n", (unsigned long)rounds);
		fflush(stdout);
	}
}
