/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.c: see guard.h.
 *
 * A signal handler gets no argument, so the ranges have to be in a global; that and the
 * handler are never undone.
 */
#include "unwind/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "base/err.h"

#define PAGE ((uintptr_t)4096)
#define MAX_RANGES 256

static struct {
	/* start is the owner word: 0 free, 1 being filled. end is 0 while it
	 * isn't valid. */
	_Atomic uintptr_t start;
	_Atomic uintptr_t end;
} ranges[MAX_RANGES];

static struct sigaction former;

static bool is_guarded(uintptr_t addr)
{
	size_t i;

	for (i = 0; i < MAX_RANGES; i++)
		if (addr >= atomic_load(&ranges[i].start) &&
		    addr < atomic_load(&ranges[i].end))
			return true;
	return false;
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	uintptr_t addr = (uintptr_t)info->si_addr;
	void *page = (void *)ht_align_down(addr, PAGE);
	int saved = errno;

	if (is_guarded(addr) &&
	    mmap(page, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		    page) {
		errno = saved;
		return;
	}
	if (former.sa_flags & SA_SIGINFO) {
		former.sa_sigaction(sig, info, context);
		return;
	}
	if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
		former.sa_handler(sig);
		return;
	}
	/* On return the access faults again, this time without us. */
	signal(sig, SIG_DFL);
}

static void install(void)
{
	struct sigaction action = { .sa_sigaction = on_sigbus,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, &former);
}

static bool enter(uintptr_t start, size_t len)
{
	uintptr_t unused;
	size_t i;

	for (i = 0; i < MAX_RANGES; i++) {
		unused = 0;
		if (!atomic_compare_exchange_strong(&ranges[i].start, &unused, 1))
			continue;
		atomic_store(&ranges[i].start, start);
		atomic_store(&ranges[i].end, start + len);
		return true;
	}
	return false;
}

int ht_guard_map(int fd, size_t len, const uint8_t **ret_bytes)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	void *at;

	pthread_once(&once, install);
	at = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	if (!enter((uintptr_t)at, len)) {
		munmap(at, len);
		return -ENOSPC;
	}
	*ret_bytes = at;
	return 0;
}

void ht_guard_unmap(const uint8_t *bytes, size_t len)
{
	size_t i;

	if (!bytes)
		return;
	munmap((void *)bytes, len);
	for (i = 0; i < MAX_RANGES; i++) {
		if (atomic_load(&ranges[i].start) != (uintptr_t)bytes)
			continue;
		atomic_store(&ranges[i].end, 0);
		atomic_store(&ranges[i].start, 0);
		return;
	}
}
