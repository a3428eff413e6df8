/* SPDX-License-Identifier: Apache-2.0
 *
 * stress: taps that come and go, at once, beside forks and execs, and are killed or stopped at
 * any moment. HT_STRESS=N does everything N times as often.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "busy.h"
#include "ht_check.h"

static uint64_t random_state = 88172645463325252;

static uint64_t next_random(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

static int rounds(int few)
{
	const char *times = getenv("HT_STRESS");

	return few * (times ? atoi(times) : 1);
}

/* A moment somewhere in what takes @ns. */
static void let_pass(uint64_t ns)
{
	const struct timespec ts = { 0, (long)next_random(ns) };

	nanosleep(&ts, NULL);
}

/* What one tap of the busy target takes here and now. */
static uint64_t time_of_a_tap(struct ht_test_work work)
{
	uint64_t start = ht_now_ns();

	work.serve_ms = 1;
	ck_assert(ht_busy_works(&work));
	return ht_min(ht_now_ns() - start, HT_NS_PER_SEC - 1);
}

START_TEST(taps_come_and_go)
{
	struct ht_test_work work = { .attach = true, .serve_ms = 5 };
	unsigned eintr = 0;
	int n = rounds(10);

	ht_busy_start();
	work.pid = ht_busy.pid;
	for (int i = 0; i < n; i++) {
		snprintf(ht_busy_when, sizeof(ht_busy_when), "tap %d", i);
		work.loader = i & 1 ? HT_LOADER_DLOPEN : HT_LOADER_MAP;
		work.exact = i & 2;
		work.block = i & 4;
		ck_assert(ht_busy_works(&work));
		ck_assert(ht_busy_check(&eintr));
		ck_assert_uint_eq(eintr, 0);
	}
	ck_assert(ht_busy_as_before());
	ht_busy_stop();
}
END_TEST

/* Other targets are looked at less closely. */
static void tap_others(const char *name, const char *const args[], const char *question,
		       const char *want, int n)
{
	struct ht_test_work work = { .attach = true, .serve_ms = 1 };
	struct ht_snapshot *after;
	struct ht_test_target t;
	struct ht_test_tool tool;
	char line[1024];

	ck_ok(ht_test_target_start(&t, name, args));
	work.pid = t.pid;
	for (int i = 0; i < n; i++) {
		work.loader = i & 1 ? HT_LOADER_DLOPEN : HT_LOADER_MAP;
		ck_ok(ht_test_tool_run(&tool, &work, NULL));
		ck_assert_msg(tool.finished && tool.result == 0, "%s: tap %d: %s", name, i,
			      tool.err.text);
		ck_ok(ht_test_target_ask(&t, question, line, sizeof(line)));
		ck_assert_msg(!strncmp(line, want, strlen(want)), "%s: %s", name, line);
	}
	if (strcmp(name, "leaderless")) {
		ck_ok(ht_snapshot_take(t.pid, &after));
		ck_assert_uint_eq(ht_snapshot_leftovers(after), 0);
		ht_snapshot_free(after);
	}
	ht_test_target_kill(&t);
}

START_TEST(of_other_targets)
{
	tap_others("churn", (const char *const[]){ "4", "20", NULL }, "count", "", rounds(10));
	tap_others("blocked", NULL, "check", "ok", rounds(2));
	tap_others("leaderless", NULL, "are you there", "are you there", rounds(2));
	tap_others("keeper", NULL, "check", "ok", rounds(4));
}
END_TEST

START_TEST(killed_at_any_moment)
{
	struct ht_test_work work = { .attach = true }, cure = { 0 };
	struct ht_test_tool tool;
	unsigned eintr = 0, before = 0, most = 0;
	int n = rounds(25);
	uint64_t ns;

	ht_busy_start();
	work.pid = cure.pid = ht_busy.pid;
	ns = time_of_a_tap(work);
	for (int i = 0; i < n; i++) {
		snprintf(ht_busy_when, sizeof(ht_busy_when), "kill %d", i);
		work.loader = i % 3 ? HT_LOADER_MAP : HT_LOADER_DLOPEN;
		/* Some threads wait for room in the ring when nobody makes any, any more. */
		work.exact = i & 2;
		work.block = i & 4;
		work.serve_ms = 1 + (uint64_t)i % 8;
		ck_ok(ht_test_tool_start(&tool, &work, NULL));
		let_pass(ns);
		kill(tool.pid, SIGKILL);
		ck_ok(ht_test_tool_wait(&tool));
		ck_assert(ht_busy_check(&eintr));
		most = ht_max(most, eintr - before);
		before = eintr;
		/* The next tap mends it, too. */
		work.serve_ms = 20;
		if (i & 1)
			ck_assert(ht_busy_works(&work));
		else
			ck_assert(ht_busy_works(&cure));
		ck_assert(ht_busy_as_before());
		ck_assert(ht_busy_check(&eintr));
		ck_assert_uint_eq(eintr, before);
	}
	printf("%d kills: %u calls failed with EINTR, %u at most at once\n", n, eintr, most);
	/* Once a thread. */
	ck_assert_uint_le(most, 7);
	ht_busy_stop();
}
END_TEST

START_TEST(cures_killed_at_any_moment)
{
	struct ht_test_work work = { .attach = true }, cure = { 0 };
	struct ht_test_tool tool;
	unsigned eintr = 0;
	int n = rounds(10);

	ht_busy_start();
	work.pid = cure.pid = ht_busy.pid;
	for (int i = 0; i < n; i++) {
		snprintf(ht_busy_when, sizeof(ht_busy_when), "killed cure %d", i);
		ck_ok(ht_test_tool_start(&tool, &work, NULL));
		ck_ok(ht_test_tool_await_tap(&tool));
		kill(tool.pid, SIGKILL);
		ck_ok(ht_test_tool_wait(&tool));
		ck_ok(ht_test_tool_start(&tool, &cure, NULL));
		let_pass(100 * HT_NS_PER_MS);
		kill(tool.pid, SIGKILL);
		ck_ok(ht_test_tool_wait(&tool));
		ck_assert(ht_busy_check(&eintr));
		ck_assert(ht_busy_works(&cure));
		ck_assert(ht_busy_as_before());
	}
	ht_busy_stop();
}
END_TEST

/* One of the two, or both one after the other; but neither harms the other. */
START_TEST(two_at_once)
{
	struct ht_test_work work = { .attach = true, .serve_ms = 20 };
	struct ht_test_tool a, b;
	unsigned eintr = 0;
	int n = rounds(8), both = 0;
	uint64_t ns;

	ht_busy_start();
	work.pid = ht_busy.pid;
	ns = time_of_a_tap(work);
	for (int i = 0; i < n; i++) {
		snprintf(ht_busy_when, sizeof(ht_busy_when), "two, %d", i);
		ck_ok(ht_test_tool_start(&a, &work, NULL));
		let_pass(ns / 2);
		ck_ok(ht_test_tool_start(&b, &work, NULL));
		ck_ok(ht_test_tool_wait(&a));
		ck_ok(ht_test_tool_wait(&b));
		ck_assert(a.finished && b.finished);
		ck_assert_msg(a.result == 0 || b.result == 0, "%s; %s", a.err.text, b.err.text);
		both += a.result == 0 && b.result == 0;
		for (int k = 0; k < 2; k++) {
			const struct ht_test_tool *other = k ? &b : &a;

			ck_assert_msg(other->result == 0 || other->err.kind == HT_ERR_PERM ||
				      other->err.kind == HT_ERR_UNSUPPORTED ||
				      other->err.kind == HT_ERR_FAILED, "%s",
				      other->err.text);
			if (other->result < 0)
				printf("the other one says: %s\n", other->err.text);
		}
		ck_assert(ht_busy_check(&eintr));
		ck_assert_uint_eq(eintr, 0);
		ck_assert(ht_busy_as_before());
	}
	printf("%d pairs, both went well %d times\n", n, both);
	ht_busy_stop();
}
END_TEST

/* Its ring runs full, and nothing worse happens. */
static void stopped_for_long(bool exact)
{
	struct ht_test_work work = { .attach = true, .exact = exact, .interval = 512,
				     .ring_size = 64 * 1024 };
	struct ht_test_tool tool;
	unsigned eintr;

	ht_busy_start();
	snprintf(ht_busy_when, sizeof(ht_busy_when), "stopped%s", exact ? ", exact" : "");
	work.pid = ht_busy.pid;
	ck_ok(ht_test_tool_start(&tool, &work, NULL));
	ck_ok(ht_test_tool_await_tap(&tool));
	kill(tool.pid, SIGSTOP);
	for (int i = 0; i < 10; i++)
		ck_assert(ht_busy_check(&eintr));
	kill(tool.pid, SIGCONT);
	ck_assert(ht_busy_check(&eintr));
	ht_test_tool_end(&tool);
	ck_ok(ht_test_tool_wait(&tool));
	ck_assert_msg(tool.finished && tool.result == 0, "%s", tool.err.text);
	ck_assert_uint_gt(tool.samples, 0);
	ck_assert_uint_gt(tool.lost, 0);
	ck_assert(ht_busy_check(&eintr));
	ck_assert_uint_eq(eintr, 0);
	ck_assert(ht_busy_as_before());
	ht_busy_stop();
}

START_TEST(heaptap_is_stopped)
{
	stopped_for_long(false);
	stopped_for_long(true);
}
END_TEST

/* They have the patches, but neither gate nor ring. */
START_TEST(children)
{
	struct ht_test_work work = { .attach = true }, cure = { 0 };
	struct ht_test_tool tool;
	char reply[64];
	unsigned eintr = 0, seen = 0, most = 0;
	int n = rounds(2);

	ht_busy_start();
	work.pid = ht_busy.pid;
	for (int i = 0; i < n; i++) {
		snprintf(ht_busy_when, sizeof(ht_busy_when), "child %d", i);
		work.loader = i & 1 ? HT_LOADER_DLOPEN : HT_LOADER_MAP;
		ck_ok(ht_test_tool_start(&tool, &work, NULL));
		ck_ok(ht_test_tool_await_tap(&tool));
		ck_assert(ht_busy_ask("fork", reply, sizeof(reply)));
		ck_assert(ht_busy_ask("spawn", reply, sizeof(reply)));
		ck_assert(ht_busy_ask("child", reply, sizeof(reply)));
		ck_assert_int_eq(sscanf(reply, "ok %d", &cure.pid), 1);
		/* While its parent is tapped, and once more when it isn't. */
		ck_assert(ht_busy_works(&cure));
		ck_assert(ht_busy_has_text(cure.pid));
		ck_assert_int_eq(kill(cure.pid, SIGKILL), 0);
		ck_assert(ht_busy_ask("child", reply, sizeof(reply)));
		ck_assert_int_eq(sscanf(reply, "ok %d", &cure.pid), 1);
		ht_test_tool_end(&tool);
		ck_ok(ht_test_tool_wait(&tool));
		ck_assert_msg(tool.finished && tool.result == 0, "%s", tool.err.text);
		ck_assert(ht_busy_works(&cure));
		ck_assert(ht_busy_has_text(cure.pid));
		ck_assert_int_eq(kill(cure.pid, SIGKILL), 0);
		/* The end of a child while some threads are traced is the named exception. */
		ck_assert(ht_busy_check(&eintr));
		most = ht_max(most, eintr - seen);
		seen = eintr;
		ck_assert(ht_busy_as_before());
	}
	/* Two children a round. */
	ck_assert_uint_le(most, 2);
	ht_busy_stop();
}
END_TEST

START_TEST(it_ends_or_becomes_another_at_any_moment)
{
	struct ht_test_work work = { .attach = true, .serve_ms = 5 };
	struct ht_test_tool tool;
	char line[64];
	unsigned eintr;
	int n = rounds(12);
	uint64_t ns;

	ht_busy_start();
	work.pid = ht_busy.pid;
	ns = time_of_a_tap(work);
	for (int i = 0; i < n; i++) {
		bool ends = i % 3 == 0;

		snprintf(ht_busy_when, sizeof(ht_busy_when), "end %d", i);
		work.loader = i & 1 ? HT_LOADER_DLOPEN : HT_LOADER_MAP;
		ck_ok(ht_test_tool_start(&tool, &work, NULL));
		let_pass(ns);
		ck_ok(ht_test_target_send(&ht_busy, ends ? "quit" : "exec"));
		ck_ok(ht_test_tool_wait(&tool));
		ck_assert(tool.finished);
		ck_assert_msg(tool.result == 0 || tool.err.kind == HT_ERR_GONE, "%s",
			      tool.err.text);
		if (ends) {
			ht_busy_stop();
			ht_busy_start();
			work.pid = ht_busy.pid;
			continue;
		}
		ck_ok(ht_test_target_read(&ht_busy, line, sizeof(line)));
		ck_assert_str_eq(line, "READY");
		ck_assert(ht_busy_check(&eintr) && ht_busy_is_clean());
	}
	ht_busy_stop();
}
END_TEST

int main(void)
{
	return ht_check_run_for("stress", rounds(120), (const TTest *const[]){
		taps_come_and_go, of_other_targets, killed_at_any_moment,
		cures_killed_at_any_moment, two_at_once, heaptap_is_stopped, children,
		it_ends_or_becomes_another_at_any_moment, NULL });
}
