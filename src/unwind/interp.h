/* SPDX-License-Identifier: Apache-2.0
 *
 * interp.h: one unwind step with the full register set, straight from the CFI, for the
 * few frames that the compact table can't express (CFA from another register, DWARF
 * expressions). Bounded in steps, stack depth and memory.
 */
#ifndef HT_UNWIND_INTERP_H
#define HT_UNWIND_INTERP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/unwind.h"

struct ht_interp_memory {
	/* Read 8 bytes of the target. 0 or negative errno. */
	int (*read)(void *arg, uint64_t addr, uint64_t *ret_value);
	void *arg;
	/* How many entries and rows of unwind data may still be looked at, lowered by each step;
	 * NULL: all. Without a search table a step may look at all that there is, so a walk
	 * of many must have an end of its own. */
	size_t *budget;
};

/* Of one walk: some ten milliseconds. */
#define HT_INTERP_BUDGET ((size_t)1 << 20)

/* What a call must leave as it was, by the ABI. */
#define HT_INTERP_CALL_SAVED (1u << HT_REG_RBX | 1u << HT_REG_RBP | 1u << HT_REG_R12 |   \
			      1u << HT_REG_R13 | 1u << HT_REG_R14 | 1u << HT_REG_R15)

struct ht_interp_frame {
	uint64_t regs[HT_UNWIND_REGS];
	uint32_t known;		/* bits of regs that are meant */
	uint64_t cfa;
	bool signal;		/* the FDE was marked as a signal frame */
	bool end;		/* return address undefined: outermost frame */
};

/* Unwind the frame in @frame, whose code is at module address @pc (for a return address:
 * that minus 1) of the ELF image @elf loaded at @bias. On success @frame holds the caller.
 * -ENODATA: no FDE covers pc; -EINVAL: bad CFI; -EFAULT: memory; -ENODEV: a register
 * that isn't known was needed; -E2BIG: the budget is used up. */
int ht_interp_step(const uint8_t *elf, size_t elf_len, uint64_t bias, uint64_t pc,
		   const struct ht_interp_memory *memory, struct ht_interp_frame *frame)
	_must_check_ _nonnull_;

/* The same over sections that are open already: no headers to read and, where
 * .debug_frame is compressed, nothing to inflate at each step. */
struct ht_cfi;
int ht_interp_step_cfi(const struct ht_cfi *cfi, uint64_t bias, uint64_t pc,
		       const struct ht_interp_memory *memory, struct ht_interp_frame *frame)
	_must_check_ _nonnull_;

/* The rule says that the caller's @reg is at @addr, but it's back in @reg itself: an
 * epilogue popped it. gcc says nothing about that, and the slot is below SP by then, where
 * anything may have been written since. */
bool ht_interp_is_popped(const struct ht_interp_frame *frame, unsigned reg, uint64_t addr)
	_nonnull_;
/* The same of a rule that says by RBP where a register is, in frames that were realigned: it
 * is at @addr, above the frame, since RBP was popped too and is the caller's. */
struct ht_cfi_rule;
bool ht_interp_is_by_popped_bp(const struct ht_cfi_rule *rule, uint64_t addr, uint64_t cfa)
	_nonnull_;

#endif
