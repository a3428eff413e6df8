/* SPDX-License-Identifier: Apache-2.0
 *
 * slow.c: steps with the full register set, for the few frames whose rule needs more than
 * pc, sp and bp.
 *
 * The frames below were passed without keeping the other registers. So the walk is
 * repeated with all of them from the last frame where they were known, which is the
 * sample's first, one that a signal interrupted, or the last slow one.
 */
#include <errno.h>

#include "unwind/walk-priv.h"

void ht_walk_reset_full(struct ht_walk *walk, uint32_t depth)
{
	walk->full = (struct ht_interp_frame){
		.known = 1u << HT_REG_RIP | 1u << HT_REG_RSP |
			 (walk->bp_known ? 1u << HT_REG_RBP : 0),
	};
	walk->full.regs[HT_REG_RIP] = walk->pc;
	walk->full.regs[HT_REG_RSP] = walk->sp;
	walk->full.regs[HT_REG_RBP] = walk->bp;
	walk->full_exact = walk->exact;
	walk->full_depth = depth;
}

static int read_word(void *arg, uint64_t addr, uint64_t *ret_value)
{
	return ht_walk_read(arg, addr, ret_value) ? 0 : -EFAULT;
}

static int step_with_libunwind(struct ht_walk *walk, const struct ht_mapping *mapping,
			       uint64_t pc, const struct ht_interp_memory *memory,
			       struct ht_interp_frame *frame)
{
	struct ht_unwinder *u = walk->unwinder;
	int r = u->libunwind ? 0 : ht_libunwind_new(&u->libunwind);

	if (r < 0)
		return r;
	r = ht_libunwind_step(u->libunwind, mapping->module, mapping->bias, pc, memory,
			      frame);
	if (!r)
		u->stats.libunwind_frames++;
	return r;
}

/* Replace walk->full by its caller. */
static int step_full(struct ht_walk *walk)
{
	struct ht_interp_memory memory = { read_word, walk, &walk->budget };
	struct ht_interp_frame frame = walk->full;
	struct ht_located located;
	const struct ht_mapping *m;
	const struct ht_cfi *cfi;
	uint64_t pc;
	int r;

	ht_walk_locate(walk, frame.regs[HT_REG_RIP], walk->full_exact, &located);
	m = located.mapping;
	cfi = m && m->module ? ht_module_cfi(m->module) : NULL;
	if (!cfi)
		return -ENODATA;
	pc = located.entry.offset -
	     !(walk->full_exact || (located.entry.flags & HT_PC_EXACT));
	r = ht_interp_step_cfi(cfi, m->bias, pc, &memory, &frame);
	if (r == -EINVAL || r == -ENODATA)
		r = step_with_libunwind(walk, m, pc, &memory, &frame);
	if (r < 0)
		return r;
	walk->full = frame;
	walk->full_exact = frame.signal;
	walk->full_depth++;
	return 0;
}

/* Bring walk->full to the frame that the walk stands on. */
static int catch_up(struct ht_walk *walk)
{
	int r;

	while (walk->full_depth < walk->depth) {
		r = step_full(walk);
		if (r < 0)
			return r;
	}
	/* Both ways must have come to the same frame. */
	if (walk->full.regs[HT_REG_RIP] != walk->pc ||
	    walk->full.regs[HT_REG_RSP] != walk->sp)
		return -EINVAL;
	return 0;
}

bool ht_walk_slowly(struct ht_walk *walk)
{
	uint64_t sp = walk->sp;
	bool exact = walk->exact;
	int r = catch_up(walk);

	if (!r)
		r = step_full(walk);
	if (r == -EFAULT)
		return ht_walk_window_end(walk);
	if (r < 0)
		return ht_walk_end(walk, HT_STACK_BAD_CFI);
	walk->unwinder->stats.slow_frames++;
	walk->depth++;
	if (walk->full.end)
		return ht_walk_end(walk, HT_STACK_COMPLETE);
	walk->pc = walk->full.regs[HT_REG_RIP];
	walk->sp = walk->full.regs[HT_REG_RSP];
	walk->bp = walk->full.regs[HT_REG_RBP];
	walk->bp_known = walk->full.known & (1u << HT_REG_RBP);
	walk->exact = walk->full_exact;
	if (!walk->pc)
		return ht_walk_end(walk, HT_STACK_COMPLETE);
	/* An interrupted function may have its return address in a register (vfork). */
	if (!walk->full.signal && (walk->sp < sp || (walk->sp == sp && !exact)))
		return ht_walk_end(walk, HT_STACK_LOOP);
	return true;
}
