/* SPDX-License-Identifier: Apache-2.0
 *
 * watch: a target that watches itself (tests/targets/watcher.c) sees nothing of a tap, of any
 * kind, however often it comes and goes. HT_HARM=N does everything N times as often.
 */
#include <stdio.h>

#include "harm.h"
#include "ht_check.h"
#include "ht_snapshot.h"

static void watch(const struct ht_harm_kind *kind, int n)
{
	struct ht_snapshot *before, *after;
	struct ht_buf why = HT_BUF_INIT;
	struct ht_test_target t;
	unsigned long fds = 1;
	char reply[HT_HARM_REPLY];

	ck_ok(ht_test_target_start(&t, "watcher", NULL));
	ht_harm_ask(&t, "look", "before", reply);
	ck_ok(ht_snapshot_take(t.pid, &before));
	for (int i = 0; i < n; i++)
		(void)ht_harm_tap(&t, kind, "tapped", "look", reply);
	ck_ok(ht_snapshot_take(t.pid, &after));
	/* It opens and closes files all the time, and compares its table itself. */
	ck_assert_msg(!ht_snapshot_compare(before, after, HT_SNAPSHOT_FDS, &why), "%s: %s",
		      kind->name, why.data);
	ck_assert_uint_eq(ht_snapshot_leftovers(after), 0);
	printf("%s: %d taps: %s\n", kind->name, n, reply);
	/* What is loaded by dlopen is a file for a moment. */
	ck_assert_int_eq(sscanf(reply, "ok %*u fds=%lu", &fds), 1);
	if (kind->loader == HT_LOADER_MAP && kind->transport == HT_TRANSPORT_RING)
		ck_assert_uint_eq(fds, 0);
	ck_ok(ht_test_target_stop(&t, NULL));
	ht_snapshot_free(before);
	ht_snapshot_free(after);
	ht_buf_fini(&why);
}

START_TEST(it_sees_nothing)
{
	for (size_t i = 0; i < HT_HARM_KINDS; i++)
		watch(&ht_harm_kinds[i], ht_harm_rounds(6));
}
END_TEST

/* A load by dlopen whose file is closed under it fails, and that's all. */
START_TEST(its_files_stay_its_own)
{
	struct ht_test_target t;
	struct ht_test_tool tool;
	char reply[HT_HARM_REPLY];
	unsigned refused = 0;

	ck_ok(ht_test_target_start(&t, "zygote", NULL));
	for (size_t i = 0; i < HT_HARM_KINDS; i++) {
		struct ht_test_work work = ht_harm_work(&t, &ht_harm_kinds[i]);

		work.serve_ms = 1;
		for (int k = 0; k < ht_harm_rounds(10); k++) {
			ck_ok(ht_test_tool_run(&tool, &work, NULL));
			ck_assert(tool.finished);
			refused += tool.result < 0;
			ck_assert_msg(tool.result == 0 || work.loader == HT_LOADER_DLOPEN,
				      "%s: %s", ht_harm_kinds[i].name, tool.err.text);
			ht_harm_ask(&t, "check", ht_harm_kinds[i].name, reply);
		}
	}
	printf("%u loads refused; files closed: %s\n", refused, reply);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

/* The hundred ways to block, over whole taps. */
START_TEST(blocking_calls_go_on)
{
	struct ht_test_target t;
	struct ht_test_tool tool;
	char reply[HT_HARM_REPLY];

	ck_ok(ht_test_target_start(&t, "blocked", NULL));
	for (size_t i = 0; i < HT_HARM_KINDS; i++) {
		struct ht_test_work work = ht_harm_work(&t, &ht_harm_kinds[i]);

		work.serve_ms = 1;
		for (int k = 0; k < ht_harm_rounds(2); k++) {
			ck_ok(ht_test_tool_run(&tool, &work, NULL));
			ck_assert_msg(tool.finished && tool.result == 0, "%s: %s",
				      ht_harm_kinds[i].name, tool.err.text);
			ht_harm_ask(&t, "check", ht_harm_kinds[i].name, reply);
		}
	}
	ck_ok(ht_test_target_ask(&t, "cut", reply, sizeof(reply)));
	printf("came back with a part of their work: %s\n", reply);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

int main(void)
{
	return ht_check_run_for("watch", ht_harm_rounds(180),
				(const TTest *const[]){ it_sees_nothing, its_files_stay_its_own,
							blocking_calls_go_on, NULL });
}
