/* SPDX-License-Identifier: Apache-2.0
 *
 * unwind.c: see unwind.h. The loop over the frames, and the cache that makes it fast.
 *
 * Nearly every frame of nearly every sample is at a return address that was seen before,
 * so the cache maps return addresses to what has to be done there: with a hit a frame
 * costs two loads from the copied stack. Whatever needs more goes the long way for one
 * frame.
 */
#include "unwind/unwind.h"

#include <errno.h>
#include <stdlib.h>

#include "unwind/walk-priv.h"

int ht_unwinder_new(struct ht_space *space, int memfd, struct ht_unwinder **ret_unwinder)
{
	struct ht_unwinder *u = calloc(1, sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->space = space;
	u->memfd = memfd;
	u->generation = ht_space_generation(space);
	*ret_unwinder = u;
	return 0;
}

struct ht_unwinder *ht_unwinder_free(struct ht_unwinder *u)
{
	if (!u)
		return NULL;
	ht_libunwind_free(u->libunwind);
	ht_hotspot_free(u->hotspot);
	free(u);
	return NULL;
}

static void forget(struct ht_unwinder *u)
{
	memset(u->cache, 0, sizeof(u->cache));
}

int ht_unwinder_hide(struct ht_unwinder *u, ht_addr_t start, ht_addr_t end)
{
	if (u->n_hidden == HT_HIDDEN_RANGES)
		return -ENOSPC;
	u->hidden[u->n_hidden].start = start;
	u->hidden[u->n_hidden].end = end;
	u->n_hidden++;
	forget(u);
	return 0;
}

void ht_unwinder_stats(const struct ht_unwinder *u, struct ht_unwind_stats *ret_stats)
{
	*ret_stats = u->stats;
}

/* Entries carry 16 bits of the generation, which come around one day. */
void ht_unwinder_sync(struct ht_unwinder *u)
{
	uint64_t generation = ht_space_generation(u->space);

	if (generation >> 16 != u->generation >> 16)
		forget(u);
	u->generation = generation;
}

/* What must be as here for a fast entry: its generation is @state's, and its kind and flags are
 * none but those of the fast way. */
static const struct ht_pc_entry fast = {
	.generation = UINT16_MAX, .kind = (uint8_t)~(HT_PC_GENERAL - 1), .flags = HT_PC_HIDDEN,
};

static inline bool is_fast(const struct ht_pc_entry *entry, uint64_t pc, uint32_t state)
{
	return entry->pc == pc && (entry->state & fast.state) == state;
}

/* Follow the stack while the cache knows what to do. Leaves the walk on the first frame
 * that it doesn't know, or that it can't leave; that one isn't in @stack. Each frame waits for
 * the loads of the one before, so what stands between two loads counts: stack addresses are
 * counted from the start of the copy. */
static void walk_cached(struct ht_walk *walk, struct ht_stack *stack)
{
	struct ht_unwinder *u = walk->unwinder;
	const struct ht_pc_entry now = { .generation = (uint16_t)u->generation };
	/* The compiler can't know that writing to @stack changes nothing of @walk. */
	const struct ht_window window = walk->window;
	uint64_t pc = walk->pc, sp = walk->sp - window.base, bp = walk->bp - window.base;
	uint64_t cfa, ra, slot;
	bool bp_known = walk->bp_known;
	uint32_t n = stack->n_frames;

	while (n < HT_MAX_FRAMES) {
		const struct ht_pc_entry *e = &u->cache[ht_pc_slot(pc)];

		if (!is_fast(e, pc, now.state))
			break;
		if ((e->kind & HT_PC_FAST_CFA_BP) && !bp_known)
			break;
		cfa = (e->kind & HT_PC_FAST_CFA_BP ? bp : sp) +
		      (uint64_t)(int64_t)e->cfa_offset;
		if (cfa <= sp || !ht_window_read(&window, cfa - 8, &ra) || !ra)
			break;
		slot = cfa + (uint64_t)(int64_t)e->bp_offset;
		/* See restore_bp() for slots below SP, which may be before the copy. */
		if ((e->kind & HT_PC_FAST_BP_SAVED) && (int64_t)(slot - sp) >= 0) {
			bp_known = ht_window_read(&window, slot, &bp);
			bp -= window.base;
		}
		stack->frames[n++] = (struct ht_frame){
			.offset = e->offset, .module = e->module,
			.flags = e->flags & HT_PC_EXACT ? HT_FRAME_EXACT : 0,
		};
		pc = ra;
		sp = cfa;
	}
	u->stats.cache_hits += n - stack->n_frames;
	walk->depth += n - stack->n_frames;
	stack->n_frames = n;
	walk->pc = pc;
	walk->sp = sp + window.base;
	walk->bp = bp + window.base;
	walk->bp_known = bp_known;
}

static void add_frame(const struct ht_walk *walk, const struct ht_pc_entry *entry,
		      struct ht_stack *stack)
{
	struct ht_frame *frame;

	if (entry->flags & HT_PC_HIDDEN)
		return;
	frame = &stack->frames[stack->n_frames++];
	frame->offset = entry->offset;
	frame->module = entry->module;
	frame->flags = 0;
	if (walk->exact || (entry->flags & HT_PC_EXACT))
		frame->flags |= HT_FRAME_EXACT;
	if (walk->guessed)
		frame->flags |= HT_FRAME_GUESSED;
	if (entry->kind == HT_PC_INTERPRETED)
		frame->flags |= HT_FRAME_METHOD;
	if (entry->kind == HT_PC_SIGNAL)
		frame->flags |= HT_FRAME_SIGNAL;
}

/* Leave a frame by what a fast entry says, with its failures. */
static bool step_fast(struct ht_walk *walk, const struct ht_pc_entry *entry)
{
	struct ht_rule rule = {
		.cfa_kind = entry->kind & HT_PC_FAST_CFA_BP ? HT_CFA_BP : HT_CFA_SP,
		.bp_kind = entry->kind & HT_PC_FAST_BP_SAVED ? HT_BP_CFA : HT_BP_SAME,
		.ra_kind = HT_RA_CFA,
		.cfa_offset = entry->cfa_offset,
		.bp_offset = entry->bp_offset,
		.aux = -8,
	};

	return ht_walk_by_rule(walk, &rule);
}

static bool step(struct ht_walk *walk, const struct ht_located *located)
{
	const struct ht_pc_entry *entry = &located->entry;

	walk->guessed = false;
	switch ((enum ht_pc_kind)entry->kind) {
	case HT_PC_GENERAL:
		return ht_walk_by_rule(walk, &located->rule);
	case HT_PC_SIGNAL:
		return ht_walk_signal(walk, entry);
	case HT_PC_END:
		return ht_walk_end(walk, HT_STACK_COMPLETE);
	case HT_PC_GAP:
		return ht_walk_guess(walk, entry);
	case HT_PC_COMPILED:
		return ht_walk_compiled(walk, &located->rule);
	case HT_PC_INTERPRETED:
		return ht_walk_interpreted(walk);
	case HT_PC_UNMAPPED:
		return ht_walk_jumped(walk);
	default:
		return step_fast(walk, entry);
	}
}

/* From the cache if that is enough, else looked up and put there. */
static void locate(struct ht_walk *walk, struct ht_located *located)
{
	struct ht_unwinder *u = walk->unwinder;
	struct ht_pc_entry *slot = &u->cache[ht_pc_slot(walk->pc)];
	bool cached = !walk->exact && slot->pc == walk->pc &&
		      slot->generation == (uint16_t)u->generation;

	if (cached && slot->kind != HT_PC_GENERAL) {
		u->stats.cache_hits++;
		located->entry = *slot;
	} else {
		ht_walk_locate(walk, walk->pc, walk->exact, located);
		if (!walk->exact && located->entry.kind != HT_PC_UNMAPPED)
			*slot = located->entry;
	}
	/* Guesses are made from calls only. */
	if (walk->guessed && slot->pc == walk->pc)
		slot->flags |= HT_PC_AFTER_CALL;
	if (located->entry.kind == HT_PC_GAP && located->entry.module == HT_MODULE_NONE &&
	    !walk->exact)
		ht_walk_locate_java(walk, located);
}

/* One frame the long way. */
static bool walk_one(struct ht_walk *walk, struct ht_stack *stack)
{
	struct ht_located located;
	bool lost;

	/* Hidden frames don't fill the stack, so the depth is bounded on its own. */
	if (stack->n_frames == HT_MAX_FRAMES || walk->depth > 2 * HT_MAX_FRAMES)
		return ht_walk_end(walk, HT_STACK_DEEP);
	locate(walk, &located);
	lost = located.entry.kind == HT_PC_UNMAPPED && !walk->exact;
	if (lost && walk->depth)
		return ht_walk_end(walk, HT_STACK_BAD_RETURN);
	add_frame(walk, &located.entry, stack);
	if (lost)
		return ht_walk_end(walk, HT_STACK_NO_MODULE);
	return step(walk, &located);
}

static void start(struct ht_walk *walk, struct ht_unwinder *u,
		  const struct ht_unwind_input *input)
{
	/* Zeroing full, which is copied anyway, would cost as much as two frames. */
	memset(walk, 0, offsetof(struct ht_walk, full));
	walk->unwinder = u;
	walk->input = input;
	walk->window.bytes = input->stack;
	walk->window.base = input->stack_base;
	walk->window.limit = input->stack_len >= 8 ? input->stack_len - 7 : 0;
	walk->pc = input->regs[HT_REG_RIP];
	walk->sp = input->regs[HT_REG_RSP];
	walk->bp = input->regs[HT_REG_RBP];
	walk->bp_known = input->known & (1u << HT_REG_RBP);
	walk->exact = walk->full_exact = !input->rip_is_return;
	walk->budget = HT_INTERP_BUDGET;
	memcpy(walk->full.regs, input->regs, sizeof(walk->full.regs));
	walk->full.known = input->known;
	walk->full.cfa = 0;
	walk->full.signal = walk->full.end = false;
}

void ht_unwind(struct ht_unwinder *u, const struct ht_unwind_input *input,
	       struct ht_stack *ret_stack)
{
	const uint32_t needed = 1u << HT_REG_RIP | 1u << HT_REG_RSP;
	struct ht_walk walk;

	ht_unwinder_sync(u);
	start(&walk, u, input);
	ret_stack->n_frames = 0;
	walk.end = HT_STACK_BAD_CFI;
	if ((input->known & needed) == needed) {
		do {
			if (!walk.exact && !walk.guessed)
				walk_cached(&walk, ret_stack);
		} while (walk_one(&walk, ret_stack));
	}
	ret_stack->end = walk.end;
	/* A null return address was read above SP; nothing else is at the end. */
	ret_stack->top = walk.end == HT_STACK_COMPLETE ? walk.sp + 2 * sizeof(uint64_t) : 0;
	u->stats.stacks++;
	u->stats.frames += ret_stack->n_frames;
	u->stats.ends[walk.end]++;
}

const char *ht_stack_end_text(enum ht_stack_end end)
{
	static const char *const texts[HT_STACK_ENDS] = {
		[HT_STACK_COMPLETE] = "complete",
		[HT_STACK_WINDOW] = "the copy of the stack was too short",
		[HT_STACK_NO_CFI] = "no unwind data",
		[HT_STACK_NO_MODULE] = "code outside of any file",
		[HT_STACK_BAD_RETURN] = "a return address that points to no code",
		[HT_STACK_BAD_CFI] = "unwind data that is malformed or not supported",
		[HT_STACK_LOOP] = "the stack pointer did not rise",
		[HT_STACK_DEEP] = "more frames than are kept",
		[HT_STACK_SWITCHED] = "continued on another stack",
	};

	return end < HT_STACK_ENDS && texts[end] ? texts[end] : "unknown";
}
