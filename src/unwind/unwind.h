/* SPDX-License-Identifier: Apache-2.0
 *
 * unwind.h: from registers and a copied stack to frames.
 *
 * An unwinder belongs to one thread of the tool and one target. It never fails as such:
 * a stack that can't be followed further ends with the reason why.
 */
#ifndef HT_UNWIND_UNWIND_H
#define HT_UNWIND_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/compiler.h"
#include "unwind/frame.h"
#include "unwind/space.h"

struct ht_unwinder;

/* DWARF numbering of x86-64: rax rdx rcx rbx rsi rdi rbp rsp r8..r15 rip. A bit of @known
 * is set for each register whose value is meant. */
#define HT_UNWIND_REGS 17
enum { HT_REG_RAX, HT_REG_RDX, HT_REG_RCX, HT_REG_RBX, HT_REG_RSI, HT_REG_RDI, HT_REG_RBP,
       HT_REG_RSP, HT_REG_R8, HT_REG_R9, HT_REG_R10, HT_REG_R11, HT_REG_R12, HT_REG_R13,
       HT_REG_R14, HT_REG_R15, HT_REG_RIP };

struct ht_unwind_input {
	uint64_t regs[HT_UNWIND_REGS];
	uint32_t known;
	/* regs[RIP] is a return address (a sample taken in a callee), not an interrupted pc. */
	bool rip_is_return;
	const uint8_t *stack;		/* bytes from address stack_base upward */
	size_t stack_len;
	ht_addr_t stack_base;
	bool stack_cut;			/* there was more stack than was copied */
};

struct ht_unwind_stats {
	uint64_t stacks, frames;
	uint64_t cache_hits, table_frames, slow_frames, libunwind_frames, fp_frames;
	uint64_t refreshes;
	uint64_t ends[HT_STACK_ENDS];
};

/* @memfd as in ht_space_new(): for memory outside of the copied stack (read-only data,
 * expressions); -1 for none. Both are borrowed. */
int ht_unwinder_new(struct ht_space *space, int memfd, struct ht_unwinder **ret_unwinder)
	_must_check_ _nonnull_;
struct ht_unwinder *ht_unwinder_free(struct ht_unwinder *unwinder);

void ht_unwind(struct ht_unwinder *unwinder, const struct ht_unwind_input *input,
	       struct ht_stack *ret_stack) _nonnull_;

/* Frames in [start, end) are the tool's own code inside the target (stubs, hook): they are
 * passed over as if they weren't there. Up to 8 ranges; -ENOSPC beyond. */
int ht_unwinder_hide(struct ht_unwinder *unwinder, ht_addr_t start, ht_addr_t end)
	_must_check_ _nonnull_;
void ht_unwinder_stats(const struct ht_unwinder *unwinder,
		       struct ht_unwind_stats *ret_stats) _nonnull_;

/* A sentence for people: "no unwind data", ... */
const char *ht_stack_end_text(enum ht_stack_end end);

#endif
