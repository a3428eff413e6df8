/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/unwind.h"

#include <errno.h>
#include <string.h>

#include "ht_chain.h"

static void unwind(struct chain *c, enum ht_stack_end end)
{
	ht_unwind(c->unwinder, &c->stopped.input, &c->stack);
	ck_assert_msg(c->stack.end == end, "%s (not: %s):%s",
		      ht_stack_end_text(c->stack.end), ht_stack_end_text(end), dump(c));
}

/* All notes follow each other without a frame between. */
static void expect_chain(const struct chain *c)
{
	unsigned i, at = find(c, 0, c->notes[0]);

	for (i = 0; i < c->n_notes; i++) {
		ck_assert_msg(at + i < c->stack.n_frames, "too short:%s", dump(c));
		ck_assert_msg(address(c, at + i) == c->notes[i], "note %u is %llx:%s", i,
			      (unsigned long long)c->notes[i], dump(c));
		ck_assert_uint_eq(c->stack.frames[at + i].flags, 0);
	}
}

/* Walk twice: with a cold and with a warm cache. */
static void check_simple(const char *scenario, const char *depth)
{
	struct ht_unwind_stats stats;
	struct ht_stack first;
	struct chain c;

	start(&c, scenario, depth);
	unwind(&c, HT_STACK_COMPLETE);
	expect_chain(&c);
	ck_assert_uint_eq(c.stack.frames[0].flags, HT_FRAME_EXACT);
	first = c.stack;
	unwind(&c, HT_STACK_COMPLETE);
	ck_assert_uint_eq(c.stack.n_frames, first.n_frames);
	ck_assert_mem_eq(c.stack.frames, first.frames,
			 first.n_frames * sizeof(first.frames[0]));
	ht_unwinder_stats(c.unwinder, &stats);
	ck_assert_uint_eq(stats.stacks, 2);
	ck_assert_uint_eq(stats.frames, 2 * first.n_frames);
	ck_assert_uint_gt(stats.cache_hits, 0);
	ck_assert_uint_eq(stats.ends[HT_STACK_COMPLETE], 2);
	stop(&c);
}

START_TEST(plain_chain)
{
	check_simple("plain", "30");
}
END_TEST

START_TEST(through_the_c_library)
{
	struct chain c;
	unsigned i, at = 0;

	start(&c, "qsort", NULL);
	unwind(&c, HT_STACK_COMPLETE);
	for (i = 0; i < c.n_notes; i++)
		at = find(&c, at, c.notes[i]);
	stop(&c);
}
END_TEST

START_TEST(realigned_frames)
{
	check_simple("realign", "7");
}
END_TEST

START_TEST(calls_that_never_return)
{
	check_simple("noreturn", "5");
}
END_TEST

START_TEST(thread_to_its_start)
{
	struct chain c;

	start(&c, "thread", NULL);
	/* The outermost note is the other thread's. */
	c.n_notes = 3;
	unwind(&c, HT_STACK_COMPLETE);
	expect_chain(&c);
	stop(&c);
}
END_TEST

START_TEST(frame_pointers_without_cfi)
{
	unsigned guessed = 0, at, i;
	struct chain c;

	start(&c, "fp", NULL);
	unwind(&c, HT_STACK_COMPLETE);
	/* wait_here, middle, fp_below are called from each other; chain_no_cfi from
	 * run_fp. */
	at = find(&c, 0, c.notes[0]);
	for (i = 0; i < c.n_notes; i++)
		at = find(&c, at, c.notes[i]);
	for (i = 0; i < c.stack.n_frames; i++)
		guessed += (c.stack.frames[i].flags & HT_FRAME_GUESSED) != 0;
	ck_assert_uint_eq(guessed, 1);
	stop(&c);
}
END_TEST

/* A frame pointer chain is followed only to addresses behind a call. */
START_TEST(guesses_are_checked)
{
	struct ht_unwind_input *in;
	uint64_t word, guess;
	struct chain c;
	unsigned i;
	size_t at;

	start(&c, "fp", NULL);
	unwind(&c, HT_STACK_COMPLETE);
	for (i = 0; !(c.stack.frames[i].flags & HT_FRAME_GUESSED); i++)
		;
	guess = address(&c, i);
	in = &c.stopped.input;
	for (at = 0; at + 8 <= in->stack_len; at += 8) {
		memcpy(&word, in->stack + at, 8);
		word += word == guess;
		memcpy((uint8_t *)in->stack + at, &word, 8);
	}
	unwind(&c, HT_STACK_NO_CFI);
	ck_assert_uint_eq(c.stack.n_frames, i);
	stop(&c);
}
END_TEST

static void check_slow(const char *scenario)
{
	struct ht_unwind_stats stats;
	struct chain c;
	unsigned i, at = 0;

	start(&c, scenario, "6");
	unwind(&c, HT_STACK_COMPLETE);
	for (i = 0; i < c.n_notes; i++)
		at = find(&c, at, c.notes[i]);
	ht_unwinder_stats(c.unwinder, &stats);
	ck_assert_uint_eq(stats.slow_frames, 1);
	unwind(&c, HT_STACK_COMPLETE);
	stop(&c);
}

START_TEST(cfa_in_another_register)
{
	check_slow("rbx");
}
END_TEST

START_TEST(cfa_by_expression)
{
	check_slow("expr");
}
END_TEST

START_TEST(unwind_data_that_loops)
{
	struct chain c;

	start(&c, "bomb", "6");
	unwind(&c, HT_STACK_BAD_CFI);
	find(&c, 0, c.notes[0]);
	find(&c, 0, c.notes[6]);
	stop(&c);
}
END_TEST

/* Frames of the handler, then the trampoline, then the interrupted function. Returns the
 * index of the latter. */
static unsigned expect_signal(const struct chain *c)
{
	unsigned i;

	for (i = 0; i < c->stack.n_frames; i++)
		if (c->stack.frames[i].flags & HT_FRAME_SIGNAL)
			break;
	ck_assert_msg(i + 1 < c->stack.n_frames, "no signal frame:%s", dump(c));
	ck_assert_uint_eq(c->stack.frames[i + 1].flags, HT_FRAME_EXACT);
	return i + 1;
}

START_TEST(signal_on_the_same_stack)
{
	unsigned at, i;
	struct chain c;

	start(&c, "signal", NULL);
	unwind(&c, HT_STACK_COMPLETE);
	at = expect_signal(&c);
	/* notes: wait_here, middle | run_signal, main and its caller */
	for (i = 2; i < c.n_notes; i++)
		at = find(&c, at, c.notes[i]);
	ck_assert_uint_lt(find(&c, 0, c.notes[0]), find(&c, 0, c.notes[1]));
	stop(&c);
}
END_TEST

START_TEST(signal_on_another_stack)
{
	struct chain c;

	start(&c, "altstack", NULL);
	unwind(&c, HT_STACK_SWITCHED);
	/* The interrupted function itself is known still. */
	ck_assert_uint_eq(expect_signal(&c), c.stack.n_frames - 1);
	stop(&c);
}
END_TEST

START_TEST(signal_at_the_first_byte)
{
	uint8_t code[2];
	unsigned at;
	struct chain c;

	start(&c, "ill", NULL);
	unwind(&c, HT_STACK_COMPLETE);
	at = expect_signal(&c);
	ck_ok(ht_stopped_read(&c.stopped, address(&c, at), code, 2));
	ck_assert_mem_eq(code, "\x0f\x0b", 2);
	ck_assert_uint_gt(find(&c, at, c.notes[2]), at + 1);
	stop(&c);
}
END_TEST

START_TEST(jump_to_nowhere)
{
	unsigned at;
	struct chain c;

	start(&c, "jump", NULL);
	unwind(&c, HT_STACK_COMPLETE);
	at = expect_signal(&c);
	ck_assert_uint_eq(c.stack.frames[at].module, HT_MODULE_NONE);
	ck_assert_uint_eq(c.stack.frames[at].offset, 8);
	ck_assert_uint_eq(c.stack.frames[at + 1].flags, HT_FRAME_GUESSED);
	ck_assert_uint_eq(find(&c, at, c.notes[2]), at + 2);
	stop(&c);
}
END_TEST

START_TEST(coroutine_to_its_start)
{
	unsigned at;
	struct chain c;

	start(&c, "context", NULL);
	unwind(&c, HT_STACK_COMPLETE);
	/* notes: wait_here, middle, in_context; its "return address" is the
	 * last frame. */
	at = find(&c, 0, c.notes[2]);
	ck_assert_uint_eq(at, c.stack.n_frames - 1);
	ck_assert_uint_eq(c.stack.frames[at].flags, HT_FRAME_EXACT);
	stop(&c);
}
END_TEST

START_TEST(interrupted_leaf_without_cfi)
{
	struct chain c;

	start(&c, "leaf", NULL);
	/* It may still be on its way from write() to there. */
	while (c.stack.n_frames < 2 || !(c.stack.frames[1].flags & HT_FRAME_GUESSED)) {
		ck_ok(ht_stopped_step(&c.stopped));
		ck_ok(ht_stopped_sample(&c.stopped, STACK_MAX));
		unwind(&c, HT_STACK_COMPLETE);
	}
	ck_assert_uint_eq(find(&c, 0, c.notes[0]), 2);
	stop(&c);
}
END_TEST

/* Code that wasn't there when the maps were read: they're read again, once. */
START_TEST(code_that_came_later)
{
	struct ht_unwind_stats stats;
	unsigned at;
	struct chain c;

	start(&c, "late", NULL);
	unwind(&c, HT_STACK_COMPLETE);
	ht_stopped_resume(&c.stopped);
	ck_ok(ht_test_target_ask(&c.target, "go", c.target.ready,
				 sizeof(c.target.ready)));
	ck_ok(ht_stopped_stop(&c.stopped));
	ck_ok(ht_stopped_sample(&c.stopped, STACK_MAX));
	read_notes(&c);
	ck_assert_uint_eq(c.n_notes, 3);
	unwind(&c, HT_STACK_COMPLETE);
	/* middle() returns into the new code, that to a frame that had to be guessed. */
	at = find(&c, 0, c.notes[1]);
	ck_assert_uint_eq(c.stack.frames[at].module, HT_MODULE_NONE);
	ck_assert_uint_eq(c.stack.frames[at + 1].flags, HT_FRAME_GUESSED);
	find(&c, at, c.notes[2]);
	ht_unwinder_stats(c.unwinder, &stats);
	ck_assert_uint_eq(stats.refreshes, 1);
	ck_assert_uint_eq(ht_space_generation(c.space), 2);
	unwind(&c, HT_STACK_COMPLETE);
	ht_unwinder_stats(c.unwinder, &stats);
	ck_assert_uint_eq(stats.refreshes, 1);
	stop(&c);
}
END_TEST

START_TEST(short_window)
{
	struct chain c;
	unsigned full;

	start(&c, "large", "5");
	unwind(&c, HT_STACK_COMPLETE);
	full = c.stack.n_frames;
	ck_ok(ht_stopped_sample(&c.stopped, 150000));
	unwind(&c, HT_STACK_WINDOW);
	ck_assert_uint_lt(c.stack.n_frames, full);
	ck_assert_uint_ge(c.stack.n_frames, 4);
	c.stopped.input.stack_len = 0;
	unwind(&c, HT_STACK_WINDOW);
	ck_assert_uint_eq(c.stack.n_frames, 1);
	stop(&c);
}
END_TEST

START_TEST(deeper_than_kept)
{
	struct chain c;

	start(&c, "plain", "600");
	unwind(&c, HT_STACK_DEEP);
	ck_assert_uint_eq(c.stack.n_frames, HT_MAX_FRAMES);
	unwind(&c, HT_STACK_DEEP);
	ck_assert_uint_eq(c.stack.n_frames, HT_MAX_FRAMES);
	stop(&c);
}
END_TEST

/* A sample whose pc is a return address: as the hook takes it. */
START_TEST(from_a_return_address)
{
	struct ht_unwind_input *in;
	struct ht_stack full;
	struct chain c;
	unsigned at;

	start(&c, "noreturn", "5");
	unwind(&c, HT_STACK_COMPLETE);
	full = c.stack;
	/* Frame 0 is read() in the C library, which has no frame: its caller is
	 * on top. */
	in = &c.stopped.input;
	memcpy(&in->regs[HT_REG_RIP], in->stack, 8);
	at = find(&c, 0, in->regs[HT_REG_RIP]);
	in->regs[HT_REG_RSP] += 8;
	in->rip_is_return = true;
	in->known = 1u << HT_REG_RIP | 1u << HT_REG_RSP | 1u << HT_REG_RBP;
	unwind(&c, HT_STACK_COMPLETE);
	ck_assert_uint_eq(c.stack.n_frames, full.n_frames - at);
	ck_assert_mem_eq(c.stack.frames, full.frames + at,
			 c.stack.n_frames * sizeof(full.frames[0]));
	stop(&c);
}
END_TEST

START_TEST(hidden_frames_are_passed_over)
{
	const struct ht_mapping *m;
	struct ht_stack full;
	unsigned i, shown = 0;
	struct chain c;

	start(&c, "qsort", NULL);
	unwind(&c, HT_STACK_COMPLETE);
	full = c.stack;
	m = ht_space_find(c.space, c.notes[0]);
	ck_assert_ptr_nonnull(m);
	ck_ok(ht_unwinder_hide(c.unwinder, m->start, m->end));
	unwind(&c, HT_STACK_COMPLETE);
	for (i = 0; i < full.n_frames; i++) {
		if (full.frames[i].module == ht_module_id(m->module))
			continue;
		ck_assert_uint_eq(full.frames[i].offset, c.stack.frames[shown].offset);
		shown++;
	}
	ck_assert_uint_eq(c.stack.n_frames, shown);
	ck_assert_uint_lt(shown, full.n_frames);
	for (i = 1; i < 8; i++)
		ck_ok(ht_unwinder_hide(c.unwinder, i, i + 1));
	ck_assert_int_eq(ht_unwinder_hide(c.unwinder, 1, 2), -ENOSPC);
	stop(&c);
}
END_TEST

START_TEST(garbage_ends_with_a_reason)
{
	struct ht_unwind_input *in;
	struct chain c;
	size_t i;

	start(&c, "plain", "30");
	in = &c.stopped.input;
	/* Return addresses that point nowhere: the first frame remains. */
	for (i = 0; i + 8 <= in->stack_len; i += 8)
		memset((uint8_t *)in->stack + i, 0x41, 8);
	unwind(&c, HT_STACK_BAD_RETURN);
	ck_assert_uint_eq(c.stack.n_frames, 1);
	memset((uint8_t *)in->stack, 0, in->stack_len);
	unwind(&c, HT_STACK_COMPLETE);
	in->regs[HT_REG_RIP] = UINT64_C(0x123456789000);
	in->rip_is_return = true;
	unwind(&c, HT_STACK_NO_MODULE);
	ck_assert_uint_eq(c.stack.n_frames, 1);
	ck_assert_uint_eq(c.stack.frames[0].module, HT_MODULE_NONE);
	in->rip_is_return = false;
	unwind(&c, HT_STACK_BAD_RETURN);
	in->known = 0;
	unwind(&c, HT_STACK_BAD_CFI);
	ck_assert_uint_eq(c.stack.n_frames, 0);
	stop(&c);
}
END_TEST

/* Unwind data that leads down the stack instead of up. */
START_TEST(stack_pointer_must_rise)
{
	const uint64_t low = 0x1000;
	struct ht_unwind_input *in;
	size_t at;
	struct chain c;

	start(&c, "realign", "4");
	in = &c.stopped.input;
	/* A return address into realign(), whose CFA is read from where BP points. */
	in->regs[HT_REG_RIP] = c.notes[1];
	in->rip_is_return = true;
	in->regs[HT_REG_RBP] = in->stack_base + 512;
	in->regs[HT_REG_RSP] += 1024;
	for (at = 0; at + 8 <= in->stack_len; at += 8)
		memcpy((uint8_t *)in->stack + at, &low, 8);
	unwind(&c, HT_STACK_LOOP);
	ck_assert_uint_eq(c.stack.n_frames, 1);
	stop(&c);
}
END_TEST

/* Random stacks and registers: a sanitizer watches, and it ends. */
START_TEST(noise_is_survived)
{
	struct ht_unwind_input *in;
	uint64_t seed = 1, word;
	struct chain c;
	unsigned i, j;

	start(&c, "plain", "30");
	in = &c.stopped.input;
	for (i = 0; i < 3000; i++) {
		for (j = 0; j < 400; j++) {
			const struct ht_mapping *m;

			seed = seed * UINT64_C(6364136223846793005) +
			       1442695040888963407u;
			m = ht_space_at(c.space, (seed >> 40) % ht_space_count(c.space));
			word = seed & 3 ? m->start + (seed >> 20) % (m->end - m->start)
					: in->stack_base + (seed >> 33) % 4096;
			memcpy((uint8_t *)in->stack + (seed >> 8) % 4000, &word, 8);
			if (j < HT_UNWIND_REGS && j != HT_REG_RSP)
				in->regs[j] = word;
		}
		in->rip_is_return = i & 1;
		ht_unwind(c.unwinder, in, &c.stack);
		ck_assert_uint_le(c.stack.n_frames, HT_MAX_FRAMES);
	}
	stop(&c);
}
END_TEST

/*
 * Single steps through prologues, epilogues, the loader's lazy binding and the vdso,
 * while a shadow stack is kept from what the instructions do: a push of an address just
 * behind the old pc is a call, and whatever SP rose above has returned. It knows nothing
 * of CFI.
 */
struct shadow {
	struct { uint64_t ra, at; } calls[256];
	unsigned n;
	unsigned base;		/* frames below, as they were at the start */
};

static void shadow_update(struct shadow *s, const struct chain *c, uint64_t old_pc,
			  uint64_t old_sp)
{
	const struct ht_unwind_input *in = &c->stopped.input;
	uint64_t sp = in->regs[HT_REG_RSP], top;

	memcpy(&top, in->stack, 8);
	if (sp == old_sp - 8 && top > old_pc && top <= old_pc + 15 && s->n < 256) {
		s->calls[s->n].ra = top;
		s->calls[s->n++].at = sp;
	}
	while (s->n && s->calls[s->n - 1].at < sp)
		s->n--;
}

static void shadow_compare(const struct shadow *s, const struct chain *c)
{
	unsigned i;

	ck_assert_msg(c->stack.n_frames == 1 + s->n + s->base,
		      "%u calls and %u frames:%s", s->n, s->base, dump(c));
	for (i = 0; i < s->n; i++)
		ck_assert_msg(address(c, 1 + i) == s->calls[s->n - 1 - i].ra,
			      "call %u isn't %llx:%s", i,
			      (unsigned long long)s->calls[s->n - 1 - i].ra, dump(c));
}

/* It's about to enter read(2). */
static bool is_at_read(const struct chain *c)
{
	const uint64_t *regs = c->stopped.input.regs;
	uint8_t code[2];

	ck_ok(ht_stopped_read(&c->stopped, regs[HT_REG_RIP], code, 2));
	return !memcmp(code, "\x0f\x05", 2) && regs[HT_REG_RAX] == 0;
}

static void step(struct chain *c)
{
	ck_ok(ht_stopped_step(&c->stopped));
	ck_ok(ht_stopped_sample(&c->stopped, 16384));
}

START_TEST(every_instruction)
{
	struct shadow shadow = { .n = 0 };
	unsigned steps, vdso = 0;
	uint64_t pc, sp;
	struct chain c;

	start(&c, "work", NULL);
	/* It may have been anywhere near; this round takes it to a place that we know,
	 * and the loader through its lazy binding. */
	ck_ok(ht_test_target_send(&c.target, "go"));
	for (steps = 0; steps < 1000 || !is_at_read(&c); steps++) {
		step(&c);
		unwind(&c, HT_STACK_COMPLETE);
	}
	ck_ok(ht_test_target_send(&c.target, "go"));
	unwind(&c, HT_STACK_COMPLETE);
	shadow.base = c.stack.n_frames - 1;
	steps = 0;
	do {
		pc = c.stopped.input.regs[HT_REG_RIP];
		sp = c.stopped.input.regs[HT_REG_RSP];
		step(&c);
		/* read() returned: one less of the frames that were there. */
		if (!shadow.n && c.stopped.input.regs[HT_REG_RSP] == sp + 8 && steps < 20)
			shadow.base--;
		shadow_update(&shadow, &c, pc, sp);
		unwind(&c, HT_STACK_COMPLETE);
		shadow_compare(&shadow, &c);
		vdso += !strcmp(ht_module_name(ht_modules_at(c.modules,
				c.stack.frames[0].module)), "[vdso]");
	} while (++steps < 1000 || !is_at_read(&c));
	ck_assert_uint_gt(vdso, 5);
	stop(&c);
}
END_TEST

int main(void)
{
	/* Single steps are slow on a busy machine. */
	return ht_check_run_for("unwind", 300,
			    (const TTest *const[]){ plain_chain,
						    through_the_c_library,
						    realigned_frames,
						    calls_that_never_return,
						    thread_to_its_start,
						    frame_pointers_without_cfi,
						    guesses_are_checked,
						    cfa_in_another_register,
						    cfa_by_expression,
						    unwind_data_that_loops,
						    signal_on_the_same_stack,
						    signal_on_another_stack,
						    signal_at_the_first_byte,
						    jump_to_nowhere,
						    coroutine_to_its_start,
						    interrupted_leaf_without_cfi,
						    code_that_came_later,
						    short_window,
						    deeper_than_kept,
						    from_a_return_address,
						    hidden_frames_are_passed_over,
						    garbage_ends_with_a_reason,
						    stack_pointer_must_rise,
						    noise_is_survived,
						    every_instruction,
						    NULL });
}
