/* SPDX-License-Identifier: Apache-2.0
 *
 * handlers KIND: signals hit threads anywhere in an allocation, and the handlers allocate. The
 * allocator is the program's own and needs no lock, so a handler may; it's what finds out
 * whether everything in front of it bears that, too.
 *
 *	nest	the handler allocates, and goes back
 *	jump	it goes back to where the thread began, out of whatever it interrupted
 *	vanish	it ends the thread there, by the system call
 *	fork	it makes a child that ends there
 *	return	it makes a child that goes back, allocates more, and then ends
 *
 * READY
 * go: threads have allocated for a while, and rest; "ok BEGUN DONE FORKED CRASHED" of the
 *	allocations since READY or the last go, which differ by those that never returned, and of
 *	the children, those among them that died of SIGSEGV. Any other end is bad.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rounds.h"

/* ---- the allocator: equal slots, each taken by one exchange ---- */

/* Of each half: the workers', and libc's. */
#define SLOTS 2048
#define SLOT 8192

static _Alignas(4096) unsigned char heap[2 * SLOTS][SLOT];
static atomic_bool taken[2 * SLOTS];
static atomic_uint next;

static atomic_ulong begun, done;
static __thread int is_worker;

static void *take(size_t size)
{
	for (int tries = 0; tries < SLOTS && size <= SLOT; tries++) {
		unsigned i = atomic_fetch_add(&next, 1) % SLOTS + (is_worker ? 0 : SLOTS);

		if (!atomic_exchange(&taken[i], true))
			return heap[i];
	}
	errno = ENOMEM;
	return NULL;
}

/* What libc allocates isn't interrupted. */
static void count_libc(void)
{
	if (!is_worker) {
		begun++;
		done++;
	}
}

__attribute__((noinline)) void *malloc(size_t size)
{
	count_libc();
	return take(size);
}

__attribute__((noinline)) void free(void *block)
{
	if (block)
		atomic_store(&taken[((unsigned char *)block - heap[0]) / SLOT], false);
}

__attribute__((noinline)) void *calloc(size_t n, size_t size)
{
	void *block = size && n > SLOT / size ? NULL : take(n * size);

	count_libc();
	return block ? memset(block, 0, n * size) : NULL;
}

__attribute__((noinline)) void *realloc(void *old, size_t size)
{
	void *block = take(size);

	count_libc();
	if (block && old) {
		memcpy(block, old, SLOT);
		free(old);
	}
	return block;
}

/* ---- the threads ---- */

static const char *const kinds[] = { "nest", "jump", "vanish", "fork", "return" };
enum { NEST, JUMP, VANISH, FORK, RETURN, KINDS };

#define WORKERS 4
#define GO_NS 300000000L
/* Each may leave a slot taken. */
#define MAX_LEAPS (SLOTS / 2)

static int kind;
static atomic_bool go;
static pthread_t ids[WORKERS];
static atomic_bool ready[WORKERS];
static __thread sigjmp_buf start;
static atomic_ulong forked, crashed;
static atomic_bool is_child;

static void *allocate(size_t size)
{
	void *block;

	begun++;
	block = malloc(size);
	if (!block)
		rounds_bad("out of memory");
	done++;
	return block;
}

/* The child has this thread only. */
static void have_child(void)
{
	int status = 0;
	pid_t pid = _Fork();

	if (pid == 0) {
		if (kind == FORK)
			_exit(0);
		is_child = true;
		return;
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		rounds_bad("no child");
		return;
	}
	forked++;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV)
		crashed++;
	else if (status)
		rounds_bad("a child ended with status %#x", status);
}

static void on_signal(int signal)
{
	void *blocks[3];

	for (int i = 0; i < 3; i++)
		blocks[i] = allocate(100);
	for (int i = 0; i < 3; i++)
		free(blocks[i]);
	if (kind == JUMP)
		siglongjmp(start, 1);
	if (kind == VANISH)
		syscall(SYS_exit, 0);
	if (kind == FORK || kind == RETURN)
		have_child();
}

static void set_blocked(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(how, &set, NULL);
}

static void *work(void *arg)
{
	is_worker = 1;
	if (!sigsetjmp(start, 1))
		ready[(intptr_t)arg] = true;
	set_blocked(SIG_UNBLOCK);
	while (go) {
		free(allocate(500));
		if (is_child) {
			free(allocate(500));
			_exit(0);
		}
	}
	/* What is still on its way must not hit a thread that is being taken down. */
	set_blocked(SIG_BLOCK);
	return NULL;
}

static void start_one(intptr_t i)
{
	ready[i] = false;
	if (pthread_create(&ids[i], NULL, work, (void *)i))
		rounds_bad("can't start a thread");
	while (!ready[i])
		sched_yield();
}

static long now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000L + ts.tv_nsec;
}

static void hit(int i)
{
	pthread_kill(ids[i], SIGUSR1);
	if (kind == VANISH) {
		pthread_join(ids[i], NULL);
		start_one(i);
	}
}

static void run(void)
{
	long end = now_ns() + GO_NS;

	/* None is in use. */
	for (int i = 0; i < SLOTS; i++)
		taken[i] = false;
	begun = done = forked = crashed = 0;
	go = true;
	for (int i = 0; i < WORKERS; i++)
		start_one(i);
	for (int n = 0; now_ns() < end; n++) {
		if ((kind != JUMP && kind != VANISH) || n < MAX_LEAPS)
			hit(n % WORKERS);
		nanosleep(&(struct timespec){ 0, 20000 }, NULL);
	}
	go = false;
	for (int i = 0; i < WORKERS; i++)
		pthread_join(ids[i], NULL);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	const struct rlimit no_core = { 0, 0 };
	char line[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	while (kind < KINDS && (argc < 2 || strcmp(argv[1], kinds[kind]) != 0))
		kind++;
	if (kind == KINDS)
		return 2;
	setrlimit(RLIMIT_CORE, &no_core);
	set_blocked(SIG_BLOCK);
	sigaction(SIGUSR1, &action, NULL);
	run();
	rounds_ready("handlers");
	while (rounds_next_line(line, sizeof(line))) {
		run();
		rounds_answer("ok %lu %lu %lu %lu", (unsigned long)begun, (unsigned long)done,
			      (unsigned long)forked, (unsigned long)crashed);
	}
	_exit(0);
}
