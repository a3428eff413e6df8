/* SPDX-License-Identifier: Apache-2.0
 *
 * busy: threads that work all the time and would notice if anything were wrong.
 *
 *	makers		allocate, resize and free blocks, and look whether they kept their bytes
 *	keeper		registers and red zone
 *	waiter		epoll_wait(-1), which a stop makes fail with EINTR
 *	sender, catcher	numbered signals, none of which may get lost
 *
 * READY
 * check: "ok N" once each of them went on; N calls have failed with EINTR so far. Or "BAD what".
 * rest, go: they all wait meanwhile, so that the process looks the same twice. "ok"
 * fork: a child allocates and looks, as they do. "ok", or "BAD what"
 * child: the same, but it goes on until it is killed; ends if something is wrong. "ok PID"
 * spawn: /bin/true by posix_spawn. "ok"
 * exec: starts anew. READY
 * quit: ends by exit(), while the threads work on.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAKERS 2
#define SLOTS 64
#define MAX_BLOCK 3000

enum { KEEPER = MAKERS, WAITER, SENDER, CATCHER, THREADS };

static atomic_ulong rounds[THREADS];
static atomic_uint interrupted;
static const char *_Atomic broken;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int resting;
static int n_at_rest;
static int wake_fd;

static void nap(long ns)
{
	struct timespec ts = { 0, ns };

	if (nanosleep(&ts, NULL) < 0)
		interrupted++;
}

static void rest(void)
{
	pthread_mutex_lock(&lock);
	if (resting) {
		n_at_rest++;
		pthread_cond_broadcast(&changed);
		while (resting)
			pthread_cond_wait(&changed, &lock);
		n_at_rest--;
	}
	pthread_mutex_unlock(&lock);
}

static int is_resting(void)
{
	int r;

	pthread_mutex_lock(&lock);
	r = resting;
	pthread_mutex_unlock(&lock);
	return r;
}

struct block {
	unsigned char *bytes;
	size_t size;
};

static void fill(struct block *b, int mark)
{
	memset(b->bytes, mark, b->size);
}

static void look(const struct block *b, int mark)
{
	for (size_t i = 0; i < b->size; i++)
		if (b->bytes[i] != mark)
			broken = "bytes of a block";
}

static size_t next_size(unsigned *state)
{
	*state = *state * 1103515245 + 12345;
	return 1 + (*state >> 8) % MAX_BLOCK;
}

static void turn(struct block *b, unsigned *state, int mark)
{
	size_t size = next_size(state);

	if (!b->bytes) {
		b->bytes = size & 1 ? malloc(size) : calloc(1, size);
		b->size = size;
		fill(b, mark);
		return;
	}
	look(b, mark);
	if (size & 2) {
		b->bytes = realloc(b->bytes, size);
		if (size < b->size)
			b->size = size;
		look(b, mark);
		b->size = size;
		fill(b, mark);
	} else {
		free(b->bytes);
		b->bytes = NULL;
	}
}

static void make(unsigned seed, int n)
{
	static __thread struct block blocks[SLOTS];
	unsigned state = seed;

	errno = 77;
	for (int i = 0; i < n; i++)
		turn(&blocks[i % SLOTS], &state, (int)(seed + (unsigned)i % SLOTS) & 0x7f);
	if (errno != 77)
		broken = "errno";
	errno = 0;
}

static void *maker(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg;

	for (;;) {
		make(id, 2 * SLOTS);
		rounds[id]++;
		nap(300000);
		rest();
	}
	return NULL;
}

#define PATTERN 0x1122334455667788UL

static void keep(void)
{
	static const char pattern[16] = "0123456789abcdef";
	char seen[16];
	uint64_t gpr, red;

	__asm__ volatile(
		"movdqu %3, %%xmm9\n\t"
		"mov %4, %%r12\n\t"
		"mov %4, -72(%%rsp)\n\t"
		"mov $20000, %%ecx\n"
		"1:\tcmp %%r12, -72(%%rsp)\n\t"
		"jne 2f\n\t"
		"dec %%ecx\n\t"
		"jnz 1b\n"
		"2:\tmovdqu %%xmm9, %2\n\t"
		"mov %%r12, %0\n\t"
		"mov -72(%%rsp), %1\n\t"
		: "=&r"(gpr), "=&r"(red), "=m"(seen)
		: "m"(pattern), "r"(PATTERN)
		: "xmm9", "r12", "rcx", "cc", "memory");
	if (gpr != PATTERN || red != PATTERN || memcmp(pattern, seen, sizeof(seen)) != 0)
		broken = "registers";
}

static void *keeper(void *arg)
{
	for (;;) {
		keep();
		rounds[KEEPER]++;
		nap(200000);
		rest();
	}
	return arg;
}

static void *waiter(void *arg)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = epoll_create1(EPOLL_CLOEXEC);
	uint64_t value;

	wake_fd = eventfd(0, EFD_CLOEXEC);
	epoll_ctl(fd, EPOLL_CTL_ADD, wake_fd, &event);
	for (;;) {
		rounds[WAITER]++;
		if (epoll_wait(fd, &event, 1, -1) < 0) {
			if (errno == EINTR)
				interrupted++;
			else
				broken = "epoll_wait";
		} else if (read(wake_fd, &value, sizeof(value)) != sizeof(value)) {
			broken = "eventfd";
		}
		rest();
	}
	return arg;
}

static pthread_t catcher_thread;

static void *sender(void *arg)
{
	union sigval value = { 0 };

	for (;;) {
		uint64_t one = 1;

		if (pthread_sigqueue(catcher_thread, SIGRTMIN, value) == 0)
			value.sival_int++;
		if (rounds[SENDER]++ % 16 == 0 && wake_fd)
			(void)!write(wake_fd, &one, sizeof(one));
		nap(500000);
		if (!is_resting())
			continue;
		/* They need a push to get to their rest. */
		pthread_sigqueue(catcher_thread, SIGRTMIN, (union sigval){ .sival_int = -1 });
		(void)!write(wake_fd, &one, sizeof(one));
		rest();
	}
	return arg;
}

static void *catcher(void *arg)
{
	int next = 0;

	for (;;) {
		siginfo_t info;
		sigset_t set;

		sigemptyset(&set);
		sigaddset(&set, SIGRTMIN);
		if (sigwaitinfo(&set, &info) < 0) {
			if (errno == EINTR)
				interrupted++;
			else
				broken = "sigwaitinfo";
			continue;
		}
		rounds[CATCHER]++;
		if (info.si_value.sival_int == -1)
			rest();
		else if (info.si_value.sival_int != next++)
			broken = "a signal got lost";
	}
	return arg;
}

static void check(void)
{
	unsigned long start[THREADS];
	unsigned tries = 0;

	for (int i = 0; i < THREADS; i++)
		start[i] = rounds[i];
	for (int i = 0; i < THREADS && !broken; i++) {
		while (rounds[i] < start[i] + 2 && !broken && tries++ < 50000)
			nap(200000);
		if (rounds[i] < start[i] + 2)
			broken = "a thread hangs";
	}
	if (broken)
		printf("BAD %s\n", broken);
	else
		printf("ok %u\n", interrupted);
}

static void set_resting(int value)
{
	pthread_mutex_lock(&lock);
	resting = value;
	pthread_cond_broadcast(&changed);
	while (value && n_at_rest < THREADS)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	printf("ok\n");
}

static void wait_for(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status)
		printf("BAD child: %#x\n", (unsigned)status);
	else
		printf("ok\n");
}

static void do_fork(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		make(5, 4000);
		_exit(broken ? 1 : 0);
	}
	wait_for(pid);
}

static void do_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (!broken) {
			make(5, 1000);
			nap(1000000);
		}
		_exit(1);
	}
	printf("ok %d\n", (int)pid);
}

static void do_spawn(void)
{
	char path[] = "/bin/true", *argv[] = { path, NULL };
	pid_t pid;

	if (posix_spawn(&pid, argv[0], NULL, NULL, argv, NULL))
		printf("BAD posix_spawn\n");
	else
		wait_for(pid);
}

static void start(void)
{
	void *(*const others[])(void *) = { keeper, waiter, sender, catcher };
	pthread_t thread;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	/* posix_spawn() blocks all signals meanwhile. The SIGCHLD of a child that is over by
	 * then isn't dropped, and would make another thread's sigwaitinfo() fail. */
	sigaddset(&set, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	/* The one heap of all grows to what it needs, and stays so. */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	mallopt(M_TOP_PAD, 4 << 20);
	if (pthread_create(&catcher_thread, NULL, catcher, NULL))
		exit(1);
	for (uintptr_t i = 0; i < MAKERS; i++)
		if (pthread_create(&thread, NULL, maker, (void *)i))
			exit(1);
	for (int i = 0; i < 3; i++)
		if (pthread_create(&thread, NULL, others[i], NULL))
			exit(1);
	sigdelset(&set, SIGRTMIN);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

int main(int argc, char **argv)
{
	char line[64];

	(void)argc;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	start();
	while (!rounds[0] || !rounds[1] || !rounds[CATCHER] || !rounds[WAITER])
		nap(100000);
	printf("READY\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strcmp(line, "check"))
			check();
		else if (!strcmp(line, "rest"))
			set_resting(1);
		else if (!strcmp(line, "go"))
			set_resting(0);
		else if (!strcmp(line, "fork"))
			do_fork();
		else if (!strcmp(line, "child"))
			do_child();
		else if (!strcmp(line, "spawn"))
			do_spawn();
		else if (!strcmp(line, "exec"))
			execv(argv[0], argv);
		else if (!strcmp(line, "quit"))
			exit(0);
		else
			printf("BAD line\n");
		fflush(stdout);
	}
	return 0;
}
