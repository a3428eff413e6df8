/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c: one step up the stack: by a rule of the table, out of a signal frame, or by
 * guessing where there is no unwind data.
 *
 * Guesses are checked: the new return address has to follow a call instruction. That
 * alone sorts out nearly all garbage, such as that of programs which use BP for other
 * things.
 */
#include <unistd.h>

#include "unwind/walk-priv.h"

/* Largest frame that a frame pointer is believed to span. */
#define MAX_FP_FRAME (256 * UINT64_C(1024))
/* Words that are searched for the way out of our own stubs. */
#define HIDDEN_WORDS 64

bool ht_walk_read(struct ht_walk *walk, uint64_t addr, uint64_t *ret_value)
{
	const struct ht_unwinder *u = walk->unwinder;
	const struct ht_area *area;

	if (ht_walk_peek(walk, addr, ret_value))
		return true;
	/* What the target may have written since the sample was taken is
	 * worth nothing. */
	area = u->memfd < 0 ? NULL : ht_maps_find(ht_space_maps(u->space), addr);
	if (area && (area->prot & HT_PROT_READ) && !(area->prot & HT_PROT_WRITE) &&
	    pread(u->memfd, ret_value, sizeof(*ret_value), (off_t)addr) ==
		    sizeof(*ret_value))
		return true;
	walk->fault_addr = addr;
	return false;
}

bool ht_walk_window_end(struct ht_walk *walk)
{
	return ht_walk_end(walk, walk->switched ? HT_STACK_SWITCHED : HT_STACK_WINDOW);
}

/* Enter the caller's frame. */
static bool enter(struct ht_walk *walk, uint64_t pc, uint64_t sp)
{
	walk->pc = pc;
	walk->sp = sp;
	walk->exact = false;
	walk->depth++;
	/* What starts a stack puts a 0 where the outermost function would return to. */
	return pc ? true : ht_walk_end(walk, HT_STACK_COMPLETE);
}

static bool cfa_by_rule(struct ht_walk *walk, const struct ht_rule *rule,
			uint64_t *ret_cfa)
{
	uint64_t base = rule->cfa_kind == HT_CFA_BP || rule->cfa_kind == HT_CFA_DEREF_BP
				? walk->bp : walk->sp;

	base += (uint64_t)(int64_t)rule->cfa_offset;
	switch (rule->cfa_kind) {
	case HT_CFA_SP:
	case HT_CFA_BP:
		*ret_cfa = base;
		return true;
	case HT_CFA_PLT:
		*ret_cfa = walk->sp + 8;
		if ((walk->pc & 15) >= (uint64_t)rule->aux)
			*ret_cfa += 8;
		return true;
	default:
		if (!ht_walk_read(walk, base, ret_cfa))
			return false;
		*ret_cfa += (uint64_t)(int64_t)rule->aux;
		return true;
	}
}

static bool aux_is_taken(const struct ht_rule *rule)
{
	return rule->cfa_kind == HT_CFA_PLT || rule->cfa_kind == HT_CFA_DEREF_BP ||
	       rule->cfa_kind == HT_CFA_DEREF_SP;
}

/* The caller's BP by the rule. Not knowing it is no failure: maybe nobody asks. */
static void restore_bp(struct ht_walk *walk, const struct ht_rule *rule, uint64_t cfa)
{
	uint64_t slot = cfa;

	if (rule->bp_kind == HT_BP_SAME)
		return;
	if (rule->bp_kind == HT_BP_UNDEF) {
		walk->bp_known = false;
		return;
	}
	if (rule->bp_kind == HT_BP_BP)
		slot = walk->bp;
	slot += (uint64_t)(int64_t)rule->bp_offset;
	/* A slot that SP has passed, or one by BP that is above the frame: BP was popped
	 * already, gcc doesn't say so. */
	if (slot < walk->sp || (rule->bp_kind == HT_BP_BP && slot >= cfa))
		return;
	walk->bp_known = ht_walk_peek(walk, slot, &walk->bp);
}

/* The rule needs more than pc, sp and bp. */
static bool needs_registers(const struct ht_walk *walk, const struct ht_rule *rule)
{
	bool bp = rule->cfa_kind == HT_CFA_BP || rule->cfa_kind == HT_CFA_DEREF_BP ||
		  rule->bp_kind == HT_BP_BP;

	if (rule->cfa_kind == HT_CFA_REG || rule->cfa_kind == HT_CFA_EXPR ||
	    rule->cfa_kind == HT_CFA_SLOW || rule->bp_kind == HT_BP_SLOW ||
	    rule->ra_kind != HT_RA_CFA)
		return true;
	return bp && !walk->bp_known;
}

bool ht_walk_by_rule(struct ht_walk *walk, const struct ht_rule *rule)
{
	int64_t ra_offset = aux_is_taken(rule) ? -8 : rule->aux;
	uint64_t cfa, ra;

	if (needs_registers(walk, rule))
		return ht_walk_slowly(walk);
	if (!cfa_by_rule(walk, rule, &cfa))
		return ht_walk_window_end(walk);
	if (cfa <= walk->sp)
		return ht_walk_end(walk, HT_STACK_LOOP);
	if (!ht_walk_read(walk, cfa + (uint64_t)ra_offset, &ra))
		return ht_walk_window_end(walk);
	restore_bp(walk, rule, cfa);
	walk->unwinder->stats.table_frames++;
	return enter(walk, ra, cfa);
}

/* Order of the registers in the ucontext, 40 bytes behind its start. */
static const uint8_t context_regs[HT_UNWIND_REGS] = {
	HT_REG_R8, HT_REG_R9, HT_REG_R10, HT_REG_R11, HT_REG_R12, HT_REG_R13,
	HT_REG_R14, HT_REG_R15, HT_REG_RDI, HT_REG_RSI, HT_REG_RBP, HT_REG_RBX,
	HT_REG_RDX, HT_REG_RAX, HT_REG_RCX, HT_REG_RSP, HT_REG_RIP,
};

bool ht_walk_signal(struct ht_walk *walk, const struct ht_pc_entry *entry)
{
	uint64_t at = walk->sp + (uint64_t)(int64_t)entry->cfa_offset + 40;
	struct ht_interp_frame frame = { .known = (1u << HT_UNWIND_REGS) - 1 };
	uint64_t base = walk->input->stack_base;
	size_t i;

	for (i = 0; i < HT_UNWIND_REGS; i++, at += 8)
		if (!ht_walk_read(walk, at, &frame.regs[context_regs[i]]))
			return ht_walk_window_end(walk);
	walk->unwinder->stats.table_frames++;
	walk->pc = frame.regs[HT_REG_RIP];
	walk->sp = frame.regs[HT_REG_RSP];
	walk->bp = frame.regs[HT_REG_RBP];
	walk->bp_known = true;
	walk->exact = true;
	walk->depth++;
	walk->full = frame;
	walk->full_exact = true;
	walk->full_depth = walk->depth;
	/* From an alternate signal stack back to a stack that wasn't copied. If the copy
	 * was cut, what lies above it may be the same stack. */
	walk->switched = walk->sp < base || (walk->sp - base >= walk->input->stack_len &&
					     !walk->input->stack_cut);
	return true;
}

/* Enter a frame that was found without unwind data. */
static bool enter_guessed(struct ht_walk *walk, uint64_t ra, uint64_t sp)
{
	bool found = enter(walk, ra, sp);

	walk->guessed = true;
	walk->unwinder->stats.fp_frames++;
	ht_walk_reset_full(walk, walk->depth);
	return found;
}

/* An interrupted function that has no frame yet, or none at all: the return address is on
 * top of the stack. */
static bool guess_leaf(struct ht_walk *walk)
{
	uint64_t ra;

	if (!walk->exact || !ht_walk_peek(walk, walk->sp, &ra) ||
	    !ht_walk_after_call(walk, ra))
		return false;
	return enter_guessed(walk, ra, walk->sp + 8);
}

static bool frame_pointer_is_plausible(const struct ht_walk *walk)
{
	return walk->bp_known && walk->bp >= walk->sp &&
	       walk->bp - walk->sp <= MAX_FP_FRAME && walk->bp % 8 == 0;
}

static bool guess_by_frame_pointer(struct ht_walk *walk)
{
	uint64_t bp, ra;

	if (!frame_pointer_is_plausible(walk) || !ht_walk_peek(walk, walk->bp, &bp) ||
	    !ht_walk_peek(walk, walk->bp + 8, &ra))
		return false;
	/* The outermost frame of a chain: no caller, and no frame of a caller. */
	if ((ra || bp) && !ht_walk_after_call(walk, ra))
		return false;
	walk->sp = walk->bp + 16;
	walk->bp = bp;
	enter_guessed(walk, ra, walk->sp);
	return true;
}

/* Our own stub called the hook: what it pushed is between SP and the return address. */
static bool guess_hidden(struct ht_walk *walk)
{
	uint64_t at, ra;
	unsigned i;

	for (i = 0, at = walk->sp; i < HIDDEN_WORDS; i++, at += 8) {
		if (!ht_walk_peek(walk, at, &ra))
			return false;
		if (ht_walk_after_call(walk, ra))
			return enter_guessed(walk, ra, at + 8);
	}
	return false;
}

static enum ht_stack_end end_of_guessing(const struct ht_walk *walk,
					 const struct ht_pc_entry *entry)
{
	const struct ht_mapping *mapping = ht_space_find(walk->unwinder->space, walk->pc);
	const struct ht_module *module = mapping ? mapping->module : NULL;
	uint64_t top = walk->input->stack_base + walk->input->stack_len, value;

	if (walk->switched)
		return HT_STACK_SWITCHED;
	if (frame_pointer_is_plausible(walk) && walk->input->stack_cut &&
	    walk->bp + 16 > top && !ht_walk_peek(walk, walk->bp + 8, &value))
		return HT_STACK_WINDOW;
	if (entry->module == HT_MODULE_NONE)
		return HT_STACK_NO_MODULE;
	if (mapping && !walk->exact &&
	    ht_code_ends_program(mapping, walk->unwinder->memfd, walk->pc))
		return HT_STACK_COMPLETE;
	/* Go runs C on another stack than its goroutines; BP points back to theirs. */
	if (module && module->is_elf && module->binary.is_go && walk->bp_known &&
	    walk->bp && !ht_walk_peek(walk, walk->bp, &value))
		return HT_STACK_SWITCHED;
	return HT_STACK_NO_CFI;
}

bool ht_walk_guess(struct ht_walk *walk, const struct ht_pc_entry *entry)
{
	bool found = guess_leaf(walk) || guess_by_frame_pointer(walk);

	if (!found && (entry->flags & HT_PC_HIDDEN))
		found = guess_hidden(walk);
	if (!found)
		return ht_walk_end(walk, end_of_guessing(walk, entry));
	return walk->pc != 0;
}

/* A call through a bad pointer: nothing was executed since the call. */
bool ht_walk_jumped(struct ht_walk *walk)
{
	bool known = walk->full_depth == walk->depth;
	struct ht_interp_frame full = walk->full;

	if (!guess_leaf(walk))
		return ht_walk_end(walk, HT_STACK_BAD_RETURN);
	if (known) {
		walk->full = full;
		walk->full.regs[HT_REG_RIP] = walk->pc;
		walk->full.regs[HT_REG_RSP] = walk->sp;
	}
	return true;
}
