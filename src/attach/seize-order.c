/* SPDX-License-Identifier: Apache-2.0
 *
 * seize-order.c: in which order threads are seized, and let go.
 *
 * The end of a child, or another signal that nobody handles, is thrown away when it is sent
 * to a thread that isn't traced: the parent of the child, or the main thread. If that one is
 * traced the signal is kept instead and wakes any thread of the process, even one that
 * isn't traced, whose epoll_wait() then fails with EINTR (sig_ignored() and
 * complete_signal() in the kernel's signal.c). We can mend that only for a thread that we
 * trace. So all others are seized before those who draw such signals, and are let go after
 * them: also who isn't in such a call, as it may be on its way there.
 */
#include <stdio.h>
#include <string.h>

#include "attach/attach-priv.h"
#include "attach/proc.h"

enum rank {
	RANK_CHILDLESS_WAITER,	/* would see an EINTR, and draws no signals */
	RANK_CHILDLESS,		/* might see one in a moment */
	RANK_WAITER,		/* would see one, and draws them */
	RANK_PARENT,
	RANKS = HT_ORDER_RANKS
};

long ht_thread_syscall(const struct ht_target *target, pid_t tid)
{
	char path[48], text[128];
	long nr = -1;

	snprintf(path, sizeof(path), "%d/syscall", tid);
	if (ht_proc_read(target->taskfd, path, text, sizeof(text)) < 0 ||
	    sscanf(text, "%ld", &nr) != 1)
		return -1;
	return nr;
}

/* Kernels without CONFIG_PROC_CHILDREN don't tell. */
static bool has_children(const struct ht_target *target, pid_t tid)
{
	char path[48], text[16];

	snprintf(path, sizeof(path), "%d/children", tid);
	return ht_proc_read(target->taskfd, path, text, sizeof(text)) > 0;
}

static enum rank rank_of(const struct ht_target *target, pid_t tid)
{
	bool waits = ht_syscall_fails_when_stopped(ht_thread_syscall(target, tid));

	if (tid == target->pid || has_children(target, tid))
		return waits ? RANK_WAITER : RANK_PARENT;
	return waits ? RANK_CHILDLESS_WAITER : RANK_CHILDLESS;
}

void ht_order_seizes(struct ht_target *target, size_t n, size_t ret_runs[HT_ORDER_RANKS])
{
	size_t count[RANKS] = { 0 }, at[RANKS];

	for (size_t i = 0; i < n; i++) {
		target->ranks[i] = (uint8_t)rank_of(target, target->scan[i]);
		count[target->ranks[i]]++;
	}
	at[0] = 0;
	for (unsigned i = 1; i < RANKS; i++)
		at[i] = at[i - 1] + count[i - 1];
	memcpy(ret_runs, at, sizeof(at));
	for (size_t i = 0; i < n; i++)
		target->order[at[target->ranks[i]]++] = target->scan[i];
	memcpy(target->scan, target->order, n * sizeof(*target->scan));
}

bool ht_order_is_childless(const size_t runs[HT_ORDER_RANKS], size_t i)
{
	return i < runs[RANK_WAITER];
}

unsigned ht_detach_round(const struct ht_thread *thread)
{
	unsigned waits = ht_syscall_fails_when_stopped(ht_regs_syscall(&thread->regs));

	return thread->childless ? 2 + waits : waits;
}

void ht_order_candidates(const struct ht_target *target, pid_t *tids, size_t n)
{
	size_t childless = 0;

	for (size_t i = 0; i < n; i++) {
		pid_t tid = tids[i];

		if (tid == target->pid || has_children(target, tid))
			continue;
		memmove(tids + childless + 1, tids + childless,
			(i - childless) * sizeof(*tids));
		tids[childless++] = tid;
	}
}
