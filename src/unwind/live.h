/* SPDX-License-Identifier: Apache-2.0
 *
 * live.h: the stack of a thread that is stopped by ptrace now, with all its memory at
 * hand. For deciding whether a thread may be borrowed: an answer that can't be trusted
 * must not look complete, so nothing here guesses.
 */
#ifndef HT_UNWIND_LIVE_H
#define HT_UNWIND_LIVE_H

#include <sys/types.h>

#include "base/compiler.h"
#include "unwind/frame.h"
#include "unwind/space.h"
#include "unwind/unwind.h"

struct ht_live;

/* Read what a walk needs of each module, and take memory for it: while a target is stopped
 * neither may be done. @space and @memfd (/proc/PID/mem) are borrowed. 0 or -ENOMEM. */
int ht_live_new(struct ht_space *space, int memfd, struct ht_live **ret_live) _must_check_
	_nonnull_;
struct ht_live *ht_live_free(struct ht_live *live);

/* Walk the stopped thread that has these registers, numbered as in unwind.h. Never re-reads
 * the space: refresh it before ht_live_new(). ret_stack->end is COMPLETE only at a known outermost
 * frame. ret_stack->top is the stack pointer where the walk ended, COMPLETE or DEEP.
 * Allocates nothing. */
void ht_live_stack(struct ht_live *live, const uint64_t regs[HT_UNWIND_REGS],
		   struct ht_stack *ret_stack) _nonnull_;

/* Make what ht_live_thread() needs for thread @tid, before that is stopped. 0 or -ENOMEM. */
int ht_live_expect(struct ht_live *live, pid_t tid) _must_check_ _nonnull_;
/* The same walk of the thread that was expected, which the calling thread traces and which is
 * stopped, by ptrace. 0, or -ESRCH: its registers can't be read. Allocates nothing. */
int ht_live_thread(struct ht_live *live, struct ht_stack *ret_stack) _must_check_ _nonnull_;

#endif
