/* SPDX-License-Identifier: Apache-2.0
 *
 * test_peers.c: processes that share the target's memory.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/attach-priv.h"
#include "base/clock.h"
#include "ht_check.h"
#include "ht_target.h"

static struct ht_test_target t;

static struct ht_target *start(const char *name)
{
	struct ht_target *target = NULL;
	struct ht_err err = { 0 };
	int r;

	ck_ok(ht_test_target_start(&t, name, NULL));
	r = ht_target_open(t.pid, &target, &err);
	ck_assert_msg(r == 0, "%s", err.text);
	return target;
}

static void stop_and_resume(struct ht_target *target)
{
	struct ht_err err = { 0 };
	int r = ht_target_stop(target, ht_deadline_ns(20 * HT_NS_PER_SEC), &err);

	ck_assert_msg(r == 0, "%s", err.text);
	ht_target_resume(target);
}

START_TEST(a_peer_is_named_and_refused)
{
	struct ht_target *target = start("sharer");
	struct ht_err err = { 0 };
	char line[32], want[160];
	int peer = 0;

	ck_assert_int_eq(sscanf(t.ready, "READY %d", &peer), 1);
	ck_assert_int_eq(ht_target_find_peer(target), peer);
	ck_assert_int_eq(ht_target_stop(target, ht_deadline_ns(20 * HT_NS_PER_MS), &err),
			 -ETIMEDOUT);
	ck_assert_int_eq(err.kind, HT_ERR_UNSUPPORTED);
	snprintf(want, sizeof(want),
		 "can't tap %d (sharer): sharer (pid %d) shares its memory and would run on; end that one first",
		 (int)t.pid, peer);
	ck_assert_str_eq(err.text, want);
	/* Who only looks is told the same. */
	err = (struct ht_err){ 0 };
	ck_assert_int_eq(ht_target_check_alone(target, &err), -ETIMEDOUT);
	ck_assert_int_eq(err.kind, HT_ERR_UNSUPPORTED);
	ck_assert_str_eq(err.text, want);
	ck_ok(ht_test_target_ask(&t, "end", line, sizeof(line)));
	ck_assert_int_eq(ht_target_find_peer(target), 0);
	ck_ok(ht_target_check_alone(target, NULL));
	stop_and_resume(target);
	ht_target_close(target);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

/* Kernel threads have no memory, and nor has a main thread that has ended. */
START_TEST(nothing_in_common_is_no_peer)
{
	struct ht_target *target = start("leaderless");

	ck_assert_int_eq(ht_target_find_peer(target), 0);
	stop_and_resume(target);
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

int main(void)
{
	return ht_check_run("peers", (const TTest *const[]){
		a_peer_is_named_and_refused, nothing_in_common_is_no_peer, NULL });
}
