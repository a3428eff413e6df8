/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_allocs.c: see ht_allocs.h.
 */
#include "ht_allocs.h"

#include <errno.h>
#include <execinfo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"

#define THREADS_MAX 256
#define SHOWN 4
#define DEPTH 24

static pid_t stopped[THREADS_MAX];
static unsigned n_stopped, stops, calls;
static bool watching, inside;
static struct {
	void *frames[DEPTH];
	int n;
} shown[SHOWN];

/* ---- what is stopped: from the order to stop on, until it's let go or has ended ---- */

static void forget(pid_t tid)
{
	for (unsigned i = 0; i < n_stopped; i++)
		if (stopped[i] == tid)
			stopped[i--] = stopped[--n_stopped];
}

static void add(pid_t tid)
{
	forget(tid);
	if (n_stopped == THREADS_MAX)
		_exit(99);
	stopped[n_stopped++] = tid;
	stops += watching;
}

long __real_ptrace(int request, pid_t tid, void *addr, void *data);
long __wrap_ptrace(int request, pid_t tid, void *addr, void *data);
long __wrap_ptrace(int request, pid_t tid, void *addr, void *data)
{
	long r;

	if (request == PTRACE_INTERRUPT)
		add(tid);
	r = __real_ptrace(request, tid, addr, data);
	if (request == PTRACE_DETACH)
		forget(tid);
	return r;
}

pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
	pid_t r = __real_waitpid(pid, status, options);

	if ((r < 0 && errno == ECHILD) || (r > 0 && status && !WIFSTOPPED(*status)))
		forget(pid);
	return r;
}

/* ---- the allocator ---- */

static void note(void)
{
	if (likely(!n_stopped || !watching || inside))
		return;
	inside = true;
	if (calls < SHOWN)
		shown[calls].n = backtrace(shown[calls].frames, DEPTH);
	calls++;
	inside = false;
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_HOOKS
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_HOOKS
#endif

#ifdef HAS_HOOKS

int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
					      void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *block, size_t size)
{
	note();
}

static void on_free(const volatile void *block)
{
	note();
}

bool ht_allocs_can_watch(void)
{
	static bool installed;

	installed = installed || __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
	return installed;
}

#elif defined(__GLIBC__)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

/* Those of the C library, also for what it calls itself. */
void *malloc(size_t size)
{
	note();
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	note();
	return __libc_calloc(n, size);
}

void *realloc(void *block, size_t size)
{
	note();
	return __libc_realloc(block, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	note();
	return __libc_memalign(alignment, size);
}

void free(void *block)
{
	if (block)
		note();
	__libc_free(block);
}

bool ht_allocs_can_watch(void)
{
	return true;
}

#else

bool ht_allocs_can_watch(void)
{
	return false;
}

#endif

void ht_allocs_watch(void)
{
	void *frame;

	/* The first one loads the unwinder. */
	(void)backtrace(&frame, 1);
	stops = calls = 0;
	watching = true;
}

unsigned ht_allocs_stops(void)
{
	return stops;
}

unsigned ht_allocs_made(void)
{
	for (unsigned i = 0; i < calls && i < SHOWN; i++) {
		fprintf(stderr, "while stopped, call %u of the allocator:\n", i + 1);
		backtrace_symbols_fd(shown[i].frames, shown[i].n, STDERR_FILENO);
	}
	return calls;
}
