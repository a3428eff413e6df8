/* SPDX-License-Identifier: Apache-2.0
 *
 * intake.h: from records to the ledger: unwind, give the call site, account.
 */
#ifndef HT_TAP_INTAKE_H
#define HT_TAP_INTAKE_H

#include <stdint.h>

#include "base/compiler.h"
#include "heaptap/wire.h"
#include "ledger/ledger.h"
#include "unwind/space.h"

struct ht_intake;
struct ht_jit;

/* @space and @memfd are borrowed. @interval, @min_size: as configured; records that say
 * something else are corrupt. */
int ht_intake_new(struct ht_space *space, int memfd, uint64_t interval, uint64_t min_size,
		  struct ht_intake **ret_intake) _must_check_ _nonnull_;
struct ht_intake *ht_intake_free(struct ht_intake *intake);
int ht_intake_hide(struct ht_intake *intake, uint64_t start, uint64_t end) _must_check_
	_nonnull_;

/* What is taken in from now on happened until now, as far as is known: records carry no
 * time. Reading a clock costs the target a system call, or an instruction that it may have
 * forbidden itself (PR_SET_TSC). Call it before each drain. */
void ht_intake_tick(struct ht_intake *intake) _nonnull_;

/* Called when it was seen where the stack of a thread ends, or that this was wrong (0). */
typedef void (*ht_intake_top_fn)(void *arg, uint64_t thread_pointer, uint64_t top);
void ht_intake_on_top(struct ht_intake *intake, ht_intake_top_fn fn, void *arg)
	_nonnull_args_(1);

/* Tell @jit, borrowed, of the frames of each new call site. */
void ht_intake_set_jit(struct ht_intake *intake, struct ht_jit *jit) _nonnull_;

/* An ht_ring_visit: @arg is the intake. */
int ht_intake_record(void *arg, const struct ht_record *record) _must_check_ _nonnull_;

struct ht_ledger *ht_intake_ledger(struct ht_intake *intake) _nonnull_;

struct ht_intake_counters {
	uint64_t allocs;	/* records of allocations, reallocs included */
	uint64_t corrupt;
	uint64_t cut_stacks;
};
void ht_intake_counters(const struct ht_intake *intake,
			struct ht_intake_counters *ret_counters) _nonnull_;

#endif
