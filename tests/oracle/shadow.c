/* SPDX-License-Identifier: Apache-2.0
 *
 * shadow.c: see shadow.h.
 */
#include "shadow.h"

#include <string.h>

/* What vfork() needs between its pop and its push. */
#define HELD_STEPS 16

void shadow_start(struct shadow *s, uint64_t lo, uint64_t hi)
{
	struct shadow_stats stats = s->stats;

	memset(s, 0, sizeof(*s));
	s->stats = stats;
	s->stacks[0].lo = lo;
	s->stacks[0].hi = hi;
	s->n_stacks = 1;
}

static void push(struct shadow *s, uint64_t pc, uint64_t at, enum shadow_kind kind)
{
	if (s->n == SHADOW_MAX) {
		s->lost = true;
		return;
	}
	s->frames[s->n++] = (struct shadow_frame){ pc, pc, at, kind };
}

void shadow_believe(struct shadow *s, uint64_t pc, enum shadow_kind kind)
{
	push(s, pc, UINT64_MAX, kind);
}

static bool is_on(const struct shadow *s, unsigned stack, uint64_t sp)
{
	return sp >= s->stacks[stack].lo && sp < s->stacks[stack].hi;
}

static unsigned floor_of(const struct shadow *s)
{
	return s->stacks[s->n_stacks - 1].floor;
}

/* Back from an alternate stack, however that was left; or onto one that we don't know. */
static void find_stack(struct shadow *s, const struct shadow_step *step)
{
	unsigned i = s->n_stacks;

	while (i > 0 && !is_on(s, i - 1, step->sp))
		i--;
	s->foreign = i == 0;
	if (s->foreign)
		return;
	s->leaping = step->insn != SHADOW_SIGRETURN;
	while (s->n_stacks > i)
		s->n = s->stacks[--s->n_stacks].floor;
}

static struct shadow_frame *top(struct shadow *s)
{
	return s->n > floor_of(s) ? &s->frames[s->n - 1] : NULL;
}

static void on_return(struct shadow *s, const struct shadow_step *step)
{
	struct shadow_frame *frame = top(s);

	s->stats.returns++;
	if (!frame || (frame->at != step->old_sp && frame->at != UINT64_MAX)) {
		s->stats.pushed_returns++;
		return;
	}
	if (frame->at == UINT64_MAX) {
		s->stats.believed++;
		s->stats.wrong += frame->pc != step->pc;
	}
	s->stats.replaced += frame->called != step->pc;
	s->n--;
}

/* What SP has risen above, other than by a return. */
static void drop_dead(struct shadow *s, const struct shadow_step *step)
{
	struct shadow_frame *frame, last;
	unsigned n = 0;

	while ((frame = top(s)) && frame->at < step->sp) {
		last = *frame;
		s->n--;
		n++;
	}
	if (n == 0 || step->insn == SHADOW_SIGRETURN)
		return;
	if (n == 1 && step->sp == step->old_sp + 8 && last.at == step->old_sp) {
		if (last.pc == step->old_pc) {
			/* "call 1f; 1: pop" */
			s->stats.getpc++;
			return;
		}
		s->stats.held++;
		s->held = last;
		s->held_for = HELD_STEPS;
		return;
	}
	s->stats.leaps++;
	s->leaping = true;
	/* How many of those that were there before are left, nobody knows. */
	if (frame && frame->at == UINT64_MAX) {
		s->stats.lost++;
		s->lost = true;
	}
}

/* Pushed again, or jumped to: exceptions do that, and then it isn't what was called from. */
static void put_back(struct shadow *s, const struct shadow_step *step)
{
	if (step->pc != step->next) {
		s->stats.replaced += step->pc != s->held.called;
		s->held_for = 0;
	} else if (step->sp == s->held.at && step->old_sp == s->held.at + 8) {
		push(s, s->held.pc, s->held.at, s->held.kind);
		s->held_for = 0;
	} else {
		s->held_for--;
	}
}

void shadow_step(struct shadow *s, const struct shadow_step *step)
{
	if (step->pc != step->next)
		s->leaping = false;
	if (s->foreign || !is_on(s, s->n_stacks - 1, step->sp))
		find_stack(s, step);
	if (s->foreign) {
		s->stats.foreign++;
		return;
	}
	if (s->held_for)
		put_back(s, step);
	if (step->insn == SHADOW_CALL && step->sp == step->old_sp - 8) {
		s->stats.calls++;
		push(s, step->next, step->sp, SHADOW_CALLED);
	} else if (step->insn == SHADOW_RET) {
		on_return(s, step);
	} else if (step->insn == SHADOW_SIGRETURN) {
		s->stats.sigreturns++;
	}
	drop_dead(s, step);
}

void shadow_signal(struct shadow *s, uint64_t sp, uint64_t trampoline,
		   uint64_t interrupted, uint64_t lo, uint64_t hi)
{
	s->stats.signals++;
	if (!is_on(s, s->n_stacks - 1, sp)) {
		if (s->n_stacks == SHADOW_STACKS) {
			s->lost = true;
			return;
		}
		s->stacks[s->n_stacks].lo = lo;
		s->stacks[s->n_stacks].hi = hi;
		s->stacks[s->n_stacks++].floor = s->n;
	}
	/* The context begins behind the return address, and lives until it is restored.
	 */
	push(s, interrupted, sp + 8, SHADOW_INTERRUPTED);
	push(s, trampoline, sp, SHADOW_TRAMPOLINE);
}

bool shadow_known(const struct shadow *s)
{
	return !s->foreign && !s->lost;
}
