/* SPDX-License-Identifier: Apache-2.0
 *
 * handlers: signal handlers that allocate, jump away, fork or end their thread, in the middle of an
 * allocation that is being recorded (tests/targets/handlers.c). The program goes on, and its
 * own count is heaptap's. HT_HARM=N does everything N times as often.
 */
#include <inttypes.h>
#include <stdio.h>

#include "harm.h"
#include "ht_check.h"

/* Children that died there; @may: as it is documented. */
static void count_crashed(const char *reply, bool may)
{
	unsigned long forked, crashed;

	ck_assert_int_eq(sscanf(reply, "ok %*u %*u %lu %lu", &forked, &crashed), 2);
	if (forked)
		printf("%lu children, %lu crashed\n", forked, crashed);
	ck_assert(!crashed || may);
}

static void count(struct ht_test_target *t, const struct ht_harm_kind *kind, bool may_crash)
{
	struct ht_test_work work = ht_harm_work(t, kind);
	uint64_t begun, done, seen;
	struct ht_test_tool tool;
	char reply[HT_HARM_REPLY];

	work.ring_size = 4 << 20;
	ck_ok(ht_test_tool_start(&tool, &work, NULL));
	ck_ok(ht_test_tool_await_tap(&tool));
	ht_harm_ask(t, "go", kind->name, reply);
	ht_test_tool_end(&tool);
	ck_ok(ht_test_tool_wait(&tool));
	ck_assert_msg(tool.finished && tool.result == 0, "%s: %s", kind->name, tool.err.text);
	count_crashed(reply, may_crash);
	ck_assert_int_eq(sscanf(reply, "ok %" SCNu64 " %" SCNu64, &begun, &done), 2);
	seen = tool.samples + tool.lost_allocs;
	printf("%" PRIu64 " to %" PRIu64 " allocations, %" PRIu64 " seen, %" PRIu64 " lost\n",
	       done, begun, tool.samples, tool.lost_allocs);
	fflush(stdout);
	if (kind->exact)
		ck_assert_msg(done <= seen && seen <= begun, "%" PRIu64 " of %" PRIu64
			      " to %" PRIu64, seen, done, begun);
	ht_harm_ask(t, "go", kind->name, reply);
	count_crashed(reply, false);
}

static void endure(const char *what, bool may_crash)
{
	struct ht_test_target t;

	ck_ok(ht_test_target_start(&t, "handlers", (const char *const[]){ what, NULL }));
	for (int k = 0; k < ht_harm_rounds(2); k++)
		/* By dlopen nothing else would be between the program and its allocator. */
		for (size_t i = 0; i < 2; i++)
			count(&t, &ht_harm_kinds[i], may_crash);
	ck_ok(ht_test_target_stop(&t, NULL));
}

START_TEST(that_allocate)
{
	endure("nest", false);
}
END_TEST

START_TEST(that_jump_away)
{
	endure("jump", false);
}
END_TEST

START_TEST(that_end_the_thread)
{
	endure("vanish", false);
}
END_TEST

START_TEST(that_have_children)
{
	endure("fork", false);
}
END_TEST

/* What the parent was about to write to isn't there in the child. Nothing worse happens. */
START_TEST(whose_children_return)
{
	endure("return", true);
}
END_TEST

int main(void)
{
	return ht_check_run_for("handlers", ht_harm_rounds(60),
				(const TTest *const[]){ that_allocate, that_jump_away,
							that_end_the_thread, that_have_children,
							whose_children_return, NULL });
}
