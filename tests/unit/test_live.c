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
		bad_unwind_data, target_that_is_gone, NULL });
}
