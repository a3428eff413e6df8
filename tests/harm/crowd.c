/* SPDX-License-Identifier: Apache-2.0
 *
 * crowd: a target with thousands of threads (tests/targets/crowd.c) is stopped, tapped and let
 * go as any other is, and nothing that its threads do is missed.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "harm.h"
#include "ht_check.h"

/* So many that to look at each takes longer than the time between two such looks. */
#define MANY 10000
#define ENOUGH 2000

static struct ht_test_target t;

/* So many were made. */
static unsigned start(unsigned n)
{
	char arg[16];

	snprintf(arg, sizeof(arg), "%u", n);
	ck_ok(ht_test_target_start(&t, "crowd", (const char *const[]){ arg, NULL }));
	return (unsigned)strtoul(t.ready + strlen("READY"), NULL, 10);
}

/* Where there may be no more of them, some are left for others. 0: too few. */
static unsigned start_crowd(void)
{
	unsigned n = start(MANY);

	if (n == MANY)
		return n;
	ht_test_target_kill(&t);
	n -= n / 4;
	if (!ht_check_have(n >= ENOUGH, "room for thousands of threads"))
		return 0;
	ck_assert_uint_eq(start(n), n);
	return n;
}

/* On a machine that is busy with other things they may not all stop in time, or none of them
 * in a safe place, or stand still for too long: heaptap says so and lets go. */
static bool was_busy(int result)
{
	return result == -ETIMEDOUT || result == -EAGAIN || result == -ETIME;
}

static struct ht_test_tool tap(const struct ht_harm_kind *kind)
{
	struct ht_test_work work = ht_harm_work(&t, kind);
	char reply[HT_HARM_REPLY];
	struct ht_test_tool tool;

	/* Room for what they all do at once. */
	work.ring_size = 16 << 20;
	do {
		ck_ok(ht_test_tool_start(&tool, &work, NULL));
		if (ht_test_tool_await_tap(&tool) == 0)
			ht_harm_ask(&t, "work", kind->name, reply);
		ht_test_tool_end(&tool);
		ck_ok(ht_test_tool_wait(&tool));
		ck_assert(tool.finished);
		ht_harm_ask(&t, "work", kind->name, reply);
	} while (was_busy(tool.result));
	ck_assert_msg(tool.result == 0, "%s: %s", kind->name, tool.err.text);
	return tool;
}

START_TEST(each_is_seen)
{
	unsigned n = start_crowd();
	char reply[HT_HARM_REPLY];

	if (!n)
		return;
	ht_harm_ask(&t, "work", "before", reply);
	for (size_t i = 0; i < HT_HARM_KINDS; i++) {
		struct ht_test_tool tool;

		if (!ht_harm_kinds[i].exact)
			continue;
		tool = tap(&ht_harm_kinds[i]);
		ck_assert_uint_le(tool.samples, n);
		ck_assert_uint_ge(tool.samples + tool.lost, n);
	}
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

int main(void)
{
	return ht_check_run_for("crowd", 120, (const TTest *const[]){ each_is_seen, NULL });
}
