/* SPDX-License-Identifier: Apache-2.0
 *
 * cure.h: take everything of ours out of a target. The same code ends a normal tap and
 * repairs what a killed heaptap left.
 */
#ifndef HT_INJECT_CURE_H
#define HT_INJECT_CURE_H

#include <stdbool.h>

#include "attach/target.h"
#include "base/err.h"
#include "inject/traces.h"
#include "unwind/space.h"

/* More than any but a very busy target takes. */
#define HT_STOPS_LOGGED 64

struct ht_cure_stats {
	unsigned stops;
	struct ht_stop log[HT_STOPS_LOGGED];	/* the first of them */
	uint64_t stop_max_ns, stop_total_ns;
	unsigned threads;
	unsigned foreign;	/* patches that somebody else had overwritten */
	bool left;		/* code stayed mapped: something may still lead into it */
};

/* Stop all threads, trying again while some can't be stopped in time, for up to 5 s.
 * Counts into @stats. */
int ht_stop_all(struct ht_target *target, struct ht_cure_stats *stats, struct ht_err *err)
	_must_check_ _nonnull_args_(1, 2);
void ht_resume_all(struct ht_target *target, struct ht_cure_stats *stats) _nonnull_;
/* Wait for @ms or the target's death. */
void ht_target_nap(const struct ht_target *target, int ms) _nonnull_;

/* A stopped thread that may be borrowed. -EAGAIN: none. @any: also one that waits in a call
 * with a restart block, which gets one EINTR if we are killed meanwhile. */
int ht_find_victim(const struct ht_target *target, bool any, size_t *ret_i) _must_check_
	_nonnull_;

/* What to write back where @now is read in place of the patch @p: the original, but that
 * breakpoints which others have set there since stay. false: it isn't our patch any more. */
bool ht_cure_word(const struct ht_journal_patch *p, const uint8_t now[8],
		  uint8_t ret_word[8]) _must_check_ _nonnull_;

/* Gate off, patches back, and when two looks some time apart saw no stack lead into it,
 * everything is closed and unmapped; what the loader loaded, it unloads. What fails for a
 * passing reason is tried again. -EBUSY: another heaptap's, which lives. @traces shrinks to
 * what is left. */
int ht_cure(struct ht_target *target, struct ht_space *space, struct ht_traces *traces,
	    struct ht_cure_stats *stats, struct ht_err *err) _must_check_
	_nonnull_args_(1, 2, 3, 4);

#endif
