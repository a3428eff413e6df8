/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/live.h"

#include <errno.h>

#include "ht_chain.h"

static void walk_live(struct chain *c, enum ht_stack_end end)
{
	static struct ht_stack by_file;
	struct ht_live *live;

	ck_ok(ht_live_new(c->space, c->stopped.memfd, &live));
	ht_live_stack(live, c->stopped.input.regs, &by_file);
	ck_ok(ht_live_expect(live, c->stopped.tid));
	ck_ok(ht_live_thread(live, &c->stack));
	ht_live_free(live);
	ck_assert_uint_eq(by_file.n_frames, c->stack.n_frames);
	ck_assert_uint_eq(by_file.top, c->stack.top);
	ck_assert_int_eq(by_file.end, c->stack.end);
	ck_assert_msg(c->stack.end == end, "%s (not: %s):%s",
		      ht_stack_end_text(c->stack.end), ht_stack_end_text(end), dump(c));
}

/* The same of registers that aren't the thread's own. */
static void walk_registers(struct chain *c, enum ht_stack_end end)
{
	struct ht_live *live;

	ck_ok(ht_live_new(c->space, c->stopped.memfd, &live));
	ht_live_stack(live, c->stopped.input.regs, &c->stack);
	ht_live_free(live);
	ck_assert_msg(c->stack.end == end, "%s (not: %s):%s",
		      ht_stack_end_text(c->stack.end), ht_stack_end_text(end), dump(c));
}

/* Both walkers, which share the reading of unwind data only, find the same. */
static void check_same(const char *scenario)
{
	struct ht_stack sampled;
	struct chain c;
	unsigned i;

	start(&c, scenario, "8");
	ht_unwind(c.unwinder, &c.stopped.input, &sampled);
	ck_assert_int_eq(sampled.end, HT_STACK_COMPLETE);
	walk_live(&c, HT_STACK_COMPLETE);
	ck_assert_msg(c.stack.n_frames == sampled.n_frames, "%u frames, not %u:%s",
		      c.stack.n_frames, sampled.n_frames, dump(&c));
	for (i = 0; i < sampled.n_frames; i++) {
		ck_assert_uint_eq(c.stack.frames[i].offset, sampled.frames[i].offset);
		ck_assert_uint_eq(c.stack.frames[i].module, sampled.frames[i].module);
	}
	stop(&c);
}

START_TEST(agrees_with_the_sampler)
{
	static const char *const scenarios[] = {
		"plain", "qsort", "realign", "noreturn", "rbx", "expr", "signal", "ill",
		"context", "thread",
	};
	size_t i;

	for (i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		check_same(scenarios[i]);
}
END_TEST

/* All memory is there, the other stack too. */
START_TEST(crosses_an_alternate_stack)
{
	struct chain c;
	unsigned i, at = 0;

	start(&c, "altstack", NULL);
	walk_live(&c, HT_STACK_COMPLETE);
	for (i = 0; i < c.n_notes; i++)
		at = find(&c, at, c.notes[i]);
	stop(&c);
}
END_TEST

START_TEST(never_guesses)
{
	struct ht_live *live;
	struct chain c;

	start(&c, "fp", NULL);
	walk_live(&c, HT_STACK_NO_CFI);
	stop(&c);
	start(&c, "leaf", NULL);
	ck_ok(ht_live_new(c.space, c.stopped.memfd, &live));
	do {
		ck_ok(ht_stopped_step(&c.stopped));
		ck_ok(ht_stopped_sample(&c.stopped, STACK_MAX));
		ht_live_stack(live, c.stopped.input.regs, &c.stack);
	} while (c.stack.end == HT_STACK_COMPLETE);
	ht_live_free(live);
	ck_assert_int_eq(c.stack.end, HT_STACK_NO_CFI);
	ck_assert_uint_eq(c.stack.n_frames, 1);
	stop(&c);
	start(&c, "jump", NULL);
	walk_live(&c, HT_STACK_BAD_RETURN);
	stop(&c);
}
END_TEST

START_TEST(bad_unwind_data)
{
	struct chain c;

	start(&c, "bomb", "3");
	walk_live(&c, HT_STACK_BAD_CFI);
	stop(&c);
}
END_TEST

/* Where the target has these bytes of code; 0: nowhere. */
static uint64_t find_code(const struct chain *c, const void *code, size_t len)
{
	uint64_t found = 0;
	size_t i;

	for (i = 0; i < ht_space_count(c->space) && !found; i++) {
		const struct ht_mapping *m = ht_space_at(c->space, i);
		size_t size = m->end - m->start;
		uint8_t *bytes, *at = NULL;

		if (!m->module || !(m->prot & HT_PROT_EXEC))
			continue;
		bytes = malloc(size);
		ck_assert_ptr_nonnull(bytes);
		if (!ht_stopped_read(&c->stopped, m->start, bytes, size))
			at = memmem(bytes, size, code, len);
		if (at)
			found = m->start + (uint64_t)(at - bytes);
		free(bytes);
	}
	return found;
}

/* Both walkers lead from these registers on to frame @from of the whole stack. */
static void expect_rest(struct chain *c, const struct ht_stack *full, unsigned from)
{
	static struct ht_stack sampled;
	unsigned i;

	ht_unwind(c->unwinder, &c->stopped.input, &sampled);
	ck_assert_int_eq(sampled.end, HT_STACK_COMPLETE);
	ck_assert_uint_eq(sampled.n_frames, 1 + full->n_frames - from);
	walk_registers(c, HT_STACK_COMPLETE);
	ck_assert_uint_eq(c->stack.n_frames, 1 + full->n_frames - from);
	for (i = 1; i < sampled.n_frames; i++) {
		ck_assert_uint_eq(sampled.frames[i].offset, full->frames[from + i - 1].offset);
		ck_assert_uint_eq(c->stack.frames[i].offset, full->frames[from + i - 1].offset);
	}
}

/* vfork() keeps its return address in a register while its child has the stack. */
START_TEST(return_address_in_a_register)
{
	/* pop %rdi; mov $SYS_vfork, %eax; syscall; push %rdi */
	static const uint8_t code[] = { 0x5f, 0xb8, 0x3a, 0, 0, 0, 0x0f, 0x05, 0x57 };
	static struct ht_stack full;
	uint64_t *regs, at;
	struct chain c;

	start(&c, "plain", "8");
	ht_unwind(c.unwinder, &c.stopped.input, &full);
	at = find_code(&c, code, sizeof(code));
	if (!ht_check_have(at != 0, "usual vfork()")) {
		stop(&c);
		return;
	}
	/* As if read(), which has no frame, were it. */
	regs = c.stopped.input.regs;
	regs[HT_REG_RIP] = at + 6;
	memcpy(&regs[HT_REG_RDI], c.stopped.input.stack, 8);
	regs[HT_REG_RSP] += 8;
	c.stopped.input.stack += 8;
	c.stopped.input.stack_base += 8;
	c.stopped.input.stack_len -= 8;
	expect_rest(&c, &full, 1);
	c.stopped.input.stack -= 8;
	stop(&c);
}
END_TEST

/* The end of a function that realigned its stack: BP is the caller's, the unwind data still
 * says that it's saved where BP points. */
START_TEST(epilogue_of_a_realigned_frame)
{
	/* pop %rbp; lea -8(%r10), %rsp; ret */
	static const uint8_t code[] = { 0x5d, 0x49, 0x8d, 0x62, 0xf8, 0xc3 };
	static struct ht_stack full;
	const struct ht_unwind_input *in;
	uint64_t *regs, at, word = 0;
	unsigned i, from;
	size_t slot = 0;
	struct chain c;

	start(&c, "realign", "8");
	ht_unwind(c.unwinder, &c.stopped.input, &full);
	c.stack = full;
	at = find_code(&c, code, sizeof(code));
	if (!ht_check_have(at != 0, "realigned frame as gcc makes it")) {
		stop(&c);
		return;
	}
	in = &c.stopped.input;
	regs = c.stopped.input.regs;
	from = find(&c, 0, c.notes[1]);
	/* The innermost function's return address: its copy beside BP, then itself. */
	for (i = 0; i < 2; i++) {
		if (i == 1) {
			memcpy(&regs[HT_REG_RBP], in->stack + slot - 8, 8);
			regs[HT_REG_RSP] = in->stack_base + slot;
		}
		do {
			slot += 8;
			memcpy(&word, in->stack + slot, 8);
		} while (word != c.notes[1] && slot + 16 < in->stack_len);
	}
	regs[HT_REG_R10] = in->stack_base + slot + 8;
	regs[HT_REG_RIP] = at + 1;
	expect_rest(&c, &full, from);
	regs[HT_REG_RIP] = at + 5;
	regs[HT_REG_RSP] = in->stack_base + slot;
	expect_rest(&c, &full, from);
	stop(&c);
}
END_TEST

/* Its memory can't be read any more. */
START_TEST(target_that_is_gone)
{
	struct ht_live *live;
	struct chain c;

	start(&c, "plain", "3");
	ck_ok(ht_live_new(c.space, c.stopped.memfd, &live));
	ht_test_target_kill(&c.target);
	ht_live_stack(live, c.stopped.input.regs, &c.stack);
	ck_assert_int_eq(c.stack.end, HT_STACK_WINDOW);
	ck_ok(ht_live_expect(live, c.stopped.tid));
	ck_assert_int_eq(ht_live_thread(live, &c.stack), -ESRCH);
	ht_live_free(live);
	stop(&c);
}
END_TEST

int main(void)
{
	return ht_check_run("live", (const TTest *const[]){
		agrees_with_the_sampler, crosses_an_alternate_stack, never_guesses,
		return_address_in_a_register, epilogue_of_a_realigned_frame,
		bad_unwind_data, target_that_is_gone, NULL });
}
