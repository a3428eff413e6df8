/* SPDX-License-Identifier: Apache-2.0
 *
 * step_compare.c: see step.h. The shadow stack against what the unwinder makes of the same
 * registers and stack, in three ways, and which differences are none.
 */
#include "step.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXTS 3
/* The other walker is slow. */
#define EVERY_LIVE 5
/* From where longjmp()'s unwind data is about its destination, to its jump. */
#define LEAP_STEPS 64
#define MAX_PRINTED 8

/* Frame @i, counted from the innermost, as it should be. @first: what stands above the
 * shadow's own: the pc itself, a return address that is in a register. */
static unsigned wanted(const struct tracer *t, const struct shadow_frame *first,
		       unsigned n_first, unsigned i, struct shadow_frame *ret_frame)
{
	const struct shadow *s = &t->shadow;

	if (i < n_first)
		*ret_frame = first[i];
	else if (i - n_first < s->n)
		*ret_frame = s->frames[s->n - 1 - (i - n_first)];
	return n_first + s->n;
}

/* A return address may have been replaced (exceptions do). What is in memory counts. */
static void reread(struct tracer *t)
{
	const struct ht_unwind_input *in = &t->stopped.input;
	struct shadow *s = &t->shadow;
	uint64_t now, at;
	unsigned i;

	for (i = s->n; i-- > 0;) {
		at = s->frames[i].at - in->stack_base;
		if (s->frames[i].kind == SHADOW_INTERRUPTED ||
		    s->frames[i].at == UINT64_MAX)
			continue;
		if (s->frames[i].at < in->stack_base || at + 8 > in->stack_len)
			break;
		memcpy(&now, in->stack + at, sizeof(now));
		t->rewritten += now != s->frames[i].pc;
		s->frames[i].pc = now;
	}
}

static bool is_frame(const struct tracer *t, const struct ht_frame *frame,
		     const struct shadow_frame *want)
{
	bool exact = want->kind == SHADOW_INTERRUPTED;
	const struct ht_mapping *m = ht_space_find(t->space, want->pc - !exact);

	if (!m)
		m = ht_space_find(t->space, want->pc);
	if (exact && !(frame->flags & HT_FRAME_EXACT))
		return false;
	if ((want->kind == SHADOW_TRAMPOLINE) != !!(frame->flags & HT_FRAME_SIGNAL))
		return false;
	if (!m || !m->module)
		return frame->module == HT_MODULE_NONE && frame->offset == want->pc;
	return frame->module == ht_module_id(m->module) &&
	       frame->offset == want->pc - m->bias;
}

static void print_place(const struct tracer *t, FILE *out, uint64_t pc)
{
	const struct ht_mapping *m = ht_space_find(t->space, pc);

	if (m && m->module)
		fprintf(out, " %s+%#" PRIx64, ht_module_name(m->module), pc - m->bias);
	else
		fprintf(out, " %#" PRIx64, pc);
}

static void print_frames(const struct tracer *t, FILE *out, const struct ht_stack *stack)
{
	unsigned i;

	fprintf(out, "  ours:");
	for (i = 0; i < stack->n_frames; i++) {
		const struct ht_module *m = ht_modules_at(t->modules, stack->frames[i].module);

		fprintf(out, " %s+%#" PRIx64 "/%u", m ? ht_module_name(m) : "?",
			stack->frames[i].offset, stack->frames[i].flags);
	}
	fprintf(out, " (%s)\n", ht_stack_end_text(stack->end));
}

/* The complaint, malloced; NULL when there were enough of them. */
static char *describe(struct tracer *t, const char *what, const struct ht_stack *stack,
		      const struct shadow_frame *first, unsigned n_first)
{
	struct shadow_frame want = { .pc = 0 };
	unsigned i, n = wanted(t, first, n_first, 0, &want);
	char *text = NULL;
	size_t len;
	FILE *out = t->printed < MAX_PRINTED ? open_memstream(&text, &len) : NULL;

	if (!out)
		return NULL;
	fprintf(out, "step %" PRIu64 ", %s, sp %#llx:\n", t->n_steps, what, t->regs.rsp);
	print_frames(t, out, stack);
	fprintf(out, "  truth:");
	for (i = 0; i < n; i++) {
		wanted(t, first, n_first, i, &want);
		print_place(t, out, want.pc);
		if (want.kind)
			fprintf(out, "/%s", want.kind == SHADOW_TRAMPOLINE ? "signal" : "exact");
	}
	fprintf(out, "\n");
	fclose(out);
	return text;
}

static void complain(struct tracer *t, char *text)
{
	if (text && t->printed++ < MAX_PRINTED)
		printf("%s", text);
	free(text);
}

/* How many frames agree. */
static unsigned agreeing(const struct tracer *t, const struct ht_stack *stack,
			 const struct shadow_frame *first, unsigned n_first)
{
	struct shadow_frame want = {.pc = 0};
	unsigned i, n = wanted(t, first, n_first, 0, &want);

	for (i = 0; i < stack->n_frames && i < n; i++) {
		wanted(t, first, n_first, i, &want);
		if (!is_frame(t, &stack->frames[i], &want))
			break;
	}
	return i;
}

/* Does the frame under the last one belong to another stack? */
static bool leaves_stack(const struct tracer *t, unsigned above)
{
	const struct shadow *s = &t->shadow;

	/* All of this stack's, and where the signal came. */
	return s->n_stacks > 1 && above == s->n - s->stacks[s->n_stacks - 1].floor;
}

static enum verdict judge(const struct tracer *t, const struct ht_stack *stack,
			  const struct shadow_frame *first, unsigned n_first)
{
	unsigned n = n_first + t->shadow.n, same = agreeing(t, stack, first, n_first);

	if (same < stack->n_frames)
		return same && (stack->frames[same].flags & HT_FRAME_GUESSED) ? MISGUESSED : WRONG;
	if (stack->end == HT_STACK_COMPLETE)
		return same == n ? RIGHT : WRONG;
	if (stack->end == HT_STACK_DEEP)
		return same == HT_MAX_FRAMES ? RIGHT : WRONG;
	if (stack->end == HT_STACK_NO_CFI)
		return NO_CFI;
	if (stack->end == HT_STACK_SWITCHED && same >= n_first &&
	    leaves_stack(t, same - n_first))
		return SWITCHED;
	return WRONG;
}

static bool is_libgcc(const struct tracer *t, uint64_t pc)
{
	const struct ht_mapping *m = ht_space_find(t->space, pc);

	return m && m->module && !strncmp(ht_module_name(m->module), "libgcc_s", 8);
}

/* All is well down to the frames of libgcc: how will they be left? */
static bool may_be_landing(const struct tracer *t, const struct ht_stack *stack,
			   const struct shadow_frame *first, unsigned *ret_floor)
{
	const struct shadow *s = &t->shadow;
	unsigned i = s->n, same = agreeing(t, stack, first, 1);

	if (!is_libgcc(t, t->regs.rip))
		return false;
	while (i > 0 && is_libgcc(t, s->frames[i - 1].pc))
		i--;
	*ret_floor = i - 1;
	return i > 0 && same >= 1 + s->n - i;
}

/* The same callers as those that were found before, from where they will be jumped to on? */
static bool is_same_leap(const struct ht_stack *a, const struct ht_stack *b)
{
	return a->n_frames == b->n_frames && a->end == b->end &&
	       !memcmp(a->frames + 1, b->frames + 1,
		       (a->n_frames - 1) * sizeof(a->frames[0]));
}

/* From an alternate stack it can't be followed. */
static bool may_be_leaping(const struct tracer *t, const struct ht_stack *stack)
{
	return stack->end == HT_STACK_COMPLETE ||
	       (stack->end == HT_STACK_WINDOW && t->shadow.n_stacks > 1);
}

/* What is wrong now may be what the next jump makes right: see LEAPING and LANDING. */
static bool doubt(struct tracer *t, const struct ht_stack *stack,
		  const struct shadow_frame *first, unsigned n_first, const char *how)
{
	struct doubt *d = &t->doubt;
	enum verdict verdict = LEAPING;
	unsigned floor = 0;

	/* SP has been set, the jump is next. */
	if (t->shadow.leaping && agreeing(t, stack, first, 1) == 1) {
		t->verdicts[is_libgcc(t, t->regs.rip) ? LANDING : LEAPING]++;
		return true;
	}
	if (may_be_landing(t, stack, first, &floor))
		verdict = LANDING;
	else if (agreeing(t, stack, first, 1) < 1 || !may_be_leaping(t, stack))
		return false;
	if (d->n && (d->verdict != verdict ||
		     (verdict == LEAPING && !is_same_leap(&d->stack, stack))))
		return false;
	if (d->n++)
		return true;
	d->verdict = verdict;
	d->floor = floor;
	d->since = t->n_steps;
	d->leaps = t->shadow.stats.leaps + t->shadow.stats.replaced;
	d->stack = *stack;
	d->text = describe(t, how, stack, first, n_first);
	return true;
}

static void resolve(struct tracer *t, bool good)
{
	struct doubt *d = &t->doubt;

	t->verdicts[good ? d->verdict : WRONG] += d->n;
	t->frames += d->n * d->stack.n_frames;
	if (good)
		free(d->text);
	else
		complain(t, d->text);
	*d = (struct doubt){ .n = 0 };
}

/* Has it been decided? */
static void settle(struct tracer *t)
{
	struct shadow_frame to = { t->regs.rip, t->regs.rip, 0, SHADOW_CALLED };
	const struct shadow *s = &t->shadow;
	struct doubt *d = &t->doubt;
	struct ht_stack *stack = &d->stack;
	bool leapt = s->stats.leaps + s->stats.replaced != d->leaps;

	if (!d->n || s->leaping || s->held_for)
		return;
	if (d->verdict == LANDING) {
		if (s->n <= d->floor || t->regs.rip == 0)
			resolve(t, leapt);
		return;
	}
	if (!leapt) {
		if (t->n_steps - d->since > LEAP_STEPS)
			resolve(t, false);
		return;
	}
	/* Its first frame is the function that jumped. */
	memmove(stack->frames, stack->frames + 1,
		(stack->n_frames - 1) * sizeof(stack->frames[0]));
	stack->n_frames--;
	resolve(t, stack->end == HT_STACK_COMPLETE ?
			   judge(t, stack, &to, 1) == RIGHT :
			   agreeing(t, stack, &to, 1) == stack->n_frames);
}

static void count(struct tracer *t, enum verdict verdict, const struct ht_stack *stack,
		  const struct shadow_frame *first, unsigned n_first, const char *how)
{
	if (verdict == WRONG && n_first && doubt(t, stack, first, n_first, how))
		return;
	t->verdicts[verdict]++;
	t->frames += stack->n_frames;
	if (verdict == WRONG || (verdict == NO_CFI && !t->options.quiet))
		complain(t, describe(t, how, stack, first, n_first));
}

/* As a thread that is stopped. */
static void compare_stopped(struct tracer *t)
{
	static struct ht_stack stack;
	struct shadow_frame first[2] = { { t->regs.rip, t->regs.rip, 0, SHADOW_INTERRUPTED } };
	unsigned n_first = 1;

	if (t->shadow.held_for)
		first[n_first++] = t->shadow.held;
	ht_unwind(t->unwinder, &t->stopped.input, &stack);
	t->compared++;
	/* The trampoline itself is no interrupted function. */
	if (stack.n_frames)
		stack.frames[0].flags &= ~(uint32_t)HT_FRAME_SIGNAL;
	count(t, judge(t, &stack, first, n_first), &stack, first, n_first, "stopped");
}

/* As the hook takes it in a callee that was just called: the caller's registers, those that
 * a call keeps, as they will be after the return. */
static void compare_hooked(struct tracer *t)
{
	struct ht_unwind_input in = t->stopped.input;
	static struct ht_stack stack;

	if (in.stack_len < 8)
		return;
	memcpy(&in.regs[HT_REG_RIP], in.stack, 8);
	in.regs[HT_REG_RSP] += 8;
	in.known = 1u << HT_REG_RBX | 1u << HT_REG_RBP | 1u << HT_REG_RSP | 1u << HT_REG_R12 |
		   1u << HT_REG_R13 | 1u << HT_REG_R14 | 1u << HT_REG_R15 | 1u << HT_REG_RIP;
	in.rip_is_return = true;
	in.stack += 8;
	in.stack_base += 8;
	in.stack_len -= 8;
	ht_unwind(t->unwinder, &in, &stack);
	t->as_hooked++;
	count(t, judge(t, &stack, NULL, 0), &stack, NULL, 0, "as hooked");
}

/* By the walker for threads that are to be borrowed, which never guesses, and may give up. */
static void compare_live(struct tracer *t)
{
	struct shadow_frame first = { t->regs.rip, t->regs.rip, 0, SHADOW_INTERRUPTED };
	static struct ht_stack stack;
	enum verdict verdict;

	if (!t->live && ht_live_new(t->space, t->stopped.memfd, &t->live) < 0)
		return;
	ht_live_stack(t->live, t->stopped.input.regs, &stack);
	t->as_live++;
	if (stack.n_frames)
		stack.frames[0].flags &= ~(uint32_t)HT_FRAME_SIGNAL;
	verdict = judge(t, &stack, &first, 1);
	if (verdict == WRONG && stack.end != HT_STACK_COMPLETE && stack.end != HT_STACK_DEEP &&
	    agreeing(t, &stack, &first, 1) == stack.n_frames)
		verdict = GAVE_UP;
	count(t, verdict, &stack, &first, 1, "live");
}

static bool worth_comparing(struct tracer *t, struct insn *insn)
{
	if (insn->seen < CONTEXTS) {
		t->places += insn->seen == 0;
		insn->seen++;
		return true;
	}
	return t->n_steps % t->options.every == 0;
}

void step_compare(struct tracer *t, bool called)
{
	settle(t);
	if (!shadow_known(&t->shadow))
		step_forget_doubt(t);
	if (!shadow_known(&t->shadow) || !worth_comparing(t, step_insn(t, t->regs.rip)))
		return;
	if (t->stale && ht_space_refresh(t->space) >= 0) {
		t->live = ht_live_free(t->live);
		t->stale = false;
	}
	if (ht_stopped_sample(&t->stopped, STACK_MAX) < 0)
		return;
	reread(t);
	compare_stopped(t);
	/* While a doubt is open nobody knows better. */
	if (t->doubt.n || t->shadow.leaping || t->shadow.held_for)
		return;
	if (called && t->shadow.n)
		compare_hooked(t);
	if (t->compared % EVERY_LIVE == 0)
		compare_live(t);
}

void step_forget_doubt(struct tracer *t)
{
	free(t->doubt.text);
	t->doubt = (struct doubt){ .n = 0 };
}
