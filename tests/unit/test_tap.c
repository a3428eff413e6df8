/* SPDX-License-Identifier: Apache-2.0 */
#include "tap/tap.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "ht_check.h"
#include "ht_patience.h"
#include "ht_snapshot.h"
#include "ht_target.h"
#include "ht_tool.h"

static struct ht_test_target t;
static struct ht_snapshot *before;
static struct ht_tap *tap;
static struct ht_err err;

static const struct ht_tap_options sampled = {
	.interval = 4096, .ring_size = 256 * 1024, .max_stack = 4096,
};
static const struct ht_tap_options exact = {
	.interval = 0, .ring_size = 1024 * 1024, .max_stack = 4096,
};

static void ask(const char *what, const char *want)
{
	char line[64];

	ck_ok(ht_test_target_ask(&t, what, line, sizeof(line)));
	ck_assert_msg(!strncmp(line, want, strlen(want)), "%s: %s", what, line);
}

static void start(void)
{
	ck_ok(ht_test_target_start(&t, "busy", NULL));
	ask("rest", "ok");
	ck_ok(ht_snapshot_take(t.pid, &before));
	ask("go", "ok");
}

static void attach(const struct ht_tap_options *options)
{
	int r = ht_tap_attach(t.pid, options, &tap, &err);

	ck_assert_msg(r == 0, "%s", err.text);
}

/* Until @n samples are there, or the target is not. */
static enum ht_tap_state serve(uint64_t n)
{
	enum ht_tap_state state = HT_TAP_RUNNING;
	struct ht_tap_result result = { 0 };
	uint64_t deadline = ht_test_deadline_ns();

	while (state == HT_TAP_RUNNING && result.samples < n) {
		ck_assert(!ht_deadline_passed(deadline));
		ck_ok(ht_tap_serve(tap, ht_deadline_ns(HT_NS_PER_MS), -1, &state, &err));
		ht_tap_result(tap, &result);
	}
	return state;
}

static void as_before(void)
{
	struct ht_buf why = HT_BUF_INIT;
	struct ht_snapshot *after;

	ask("check", "ok 0");
	ask("rest", "ok");
	ck_ok(ht_snapshot_take(t.pid, &after));
	ask("go", "ok");
	ck_assert_msg(!ht_snapshot_compare(before, after, 0, &why), "%s", why.data);
	ck_assert_uint_eq(ht_snapshot_leftovers(after), 0);
	ht_snapshot_free(after);
}

static void stop(void)
{
	tap = ht_tap_free(tap);
	before = ht_snapshot_free(before);
	ht_test_target_kill(&t);
}

static void whole_life(const struct ht_tap_options *options)
{
	struct ht_tap_result result;
	struct ht_figures figures;

	start();
	attach(options);
	ask("check", "ok 0");
	ck_assert_int_eq(serve(20), HT_TAP_RUNNING);
	ck_ok(ht_tap_cure(tap, &err));
	ht_tap_result(tap, &result);
	ck_assert_int_eq(result.pid, t.pid);
	ck_assert_str_eq(result.command, "busy");
	ck_assert_ptr_nonnull(strstr(result.exe, "/tests/targets/busy"));
	ck_assert_ptr_nonnull(strstr(result.allocators, "glibc"));
	ck_assert_uint_ge(result.samples, 20);
	ck_assert_uint_eq(result.lost_corrupt, 0);
	ck_assert_uint_gt(result.duration_ns, 0);
	ck_assert_uint_ge(result.stops, 3);
	ck_assert_uint_eq(result.threads, 7);
	ht_ledger_total(result.ledger, &figures);
	ck_assert(figures.total.bytes > 0);
	as_before();
	stop();
}

START_TEST(sampled_life)
{
	whole_life(&sampled);
}
END_TEST

START_TEST(exact_life)
{
	whole_life(&exact);
}
END_TEST

START_TEST(life_by_dlopen)
{
	struct ht_tap_options options = sampled;

	options.loader = HT_LOADER_DLOPEN;
	whole_life(&options);
}
END_TEST

START_TEST(again_and_again)
{
	start();
	for (int i = 0; i < 5; i++) {
		attach(i & 1 ? &exact : &sampled);
		serve(1);
		ck_ok(ht_tap_cure(tap, &err));
		tap = ht_tap_free(tap);
	}
	as_before();
	stop();
}
END_TEST

START_TEST(freeing_cures)
{
	start();
	attach(&sampled);
	tap = ht_tap_free(tap);
	as_before();
	stop();
}
END_TEST

START_TEST(serving_ends_when_told)
{
	enum ht_tap_state state = HT_TAP_CURED;
	int fds[2];

	ck_assert_int_eq(pipe(fds), 0);
	start();
	attach(&sampled);
	ck_ok(ht_tap_serve(tap, ht_deadline_ns(HT_NS_PER_MS), fds[0], &state, &err));
	ck_assert_int_eq(state, HT_TAP_RUNNING);
	ck_assert_int_eq(write(fds[1], "x", 1), 1);
	ck_ok(ht_tap_serve(tap, 0, fds[0], &state, &err));
	ck_assert_int_eq(state, HT_TAP_RUNNING);
	ck_ok(ht_tap_cure(tap, &err));
	ck_ok(ht_tap_serve(tap, 0, -1, &state, &err));
	ck_assert_int_eq(state, HT_TAP_CURED);
	as_before();
	stop();
}
END_TEST

START_TEST(the_target_ends)
{
	struct ht_tap_result result;

	start();
	attach(&sampled);
	serve(5);
	ck_ok(ht_test_target_send(&t, "quit"));
	ck_assert_int_eq(serve(UINT64_MAX), HT_TAP_EXITED);
	ck_ok(ht_tap_cure(tap, &err));
	ht_tap_result(tap, &result);
	ck_assert_uint_ge(result.samples, 5);
	stop();
}
END_TEST

START_TEST(the_target_becomes_another)
{
	char line[64];

	start();
	attach(&sampled);
	serve(5);
	ck_ok(ht_test_target_send(&t, "exec"));
	ck_assert_int_eq(serve(UINT64_MAX), HT_TAP_EXECED);
	ck_ok(ht_tap_cure(tap, &err));
	ck_ok(ht_test_target_read(&t, line, sizeof(line)));
	ck_assert_str_eq(line, "READY");
	ask("check", "ok 0");
	stop();
}
END_TEST

/* Their gate is wiped, the one of who shares its memory isn't. */
START_TEST(children_go_on_untapped)
{
	start();
	attach(&exact);
	ask("fork", "ok");
	ask("spawn", "ok");
	serve(5);
	ask("fork", "ok");
	ck_ok(ht_tap_cure(tap, &err));
	ask("fork", "ok");
	as_before();
	stop();
}
END_TEST

START_TEST(a_launched_program)
{
	char path[512], *argv[] = { path, NULL };
	const char *dir = getenv("HT_BUILDDIR");
	struct ht_tap_result result;

	snprintf(path, sizeof(path), "%s/tests/targets/starter", dir ? dir : ".");
	ck_assert_msg(ht_tap_launch(argv, &exact, &tap, &err) == 0, "%s", err.text);
	ck_assert_int_eq(serve(UINT64_MAX), HT_TAP_EXITED);
	ck_ok(ht_tap_cure(tap, &err));
	ck_assert_int_eq(WEXITSTATUS(ht_tap_wait_status(tap)), 7);
	ht_tap_result(tap, &result);
	ck_assert_uint_ge(result.samples, 1);
	ck_assert_uint_eq(result.lost_allocs + result.lost_corrupt, 0);
	tap = ht_tap_free(tap);
	snprintf(path, sizeof(path), "/nowhere/at/all");
	ck_assert_int_eq(ht_tap_launch(argv, &exact, &tap, &err), -ENOENT);
}
END_TEST

START_TEST(nobody_there)
{
	bool found, left;

	start();
	ht_test_target_kill(&t);
	t.pid = 0x3fffff;
	ck_assert_int_lt(ht_tap_attach(t.pid, &sampled, &tap, &err), 0);
	ck_assert_int_eq(err.kind, HT_ERR_GONE);
	ck_assert_int_lt(ht_tap_cure_pid(t.pid, &found, &left, &err), 0);
	ck_assert_int_eq(err.kind, HT_ERR_GONE);
	t.pid = 0;
	stop();
}
END_TEST

/* The second is refused, so is its cure, and the first goes on. */
START_TEST(two_at_once)
{
	struct ht_test_work work = { .attach = true, .serve_ms = 1 };
	struct ht_test_tool other;
	char want[2][HT_ERR_TEXT];

	start();
	work.pid = t.pid;
	attach(&sampled);
	for (int i = 0; i < 2; i++)
		snprintf(want[i], sizeof(want[i]),
			 "can't %s %d (busy): test_tap (pid %d) is tapping it; end that first",
			 i == 0 ? "tap" : "cure", (int)t.pid, (int)getpid());
	for (int i = 0; i < 2; i++) {
		work.attach = i == 0;
		ck_ok(ht_test_tool_run(&other, &work, NULL));
		ck_assert(other.finished);
		ck_assert_int_eq(other.result, -EBUSY);
		ck_assert_int_eq(other.err.kind, HT_ERR_PERM);
		ck_assert_str_eq(other.err.text, want[i]);
	}
	ask("check", "ok 0");
	ck_assert_int_eq(serve(20), HT_TAP_RUNNING);
	ck_ok(ht_tap_cure(tap, &err));
	as_before();
	stop();
}
END_TEST

START_TEST(what_a_killed_one_left)
{
	struct ht_test_work work = { .attach = true };
	struct ht_test_tool other;
	bool found = false, left = true;

	start();
	work.pid = t.pid;
	for (int i = 0; i < 2; i++) {
		ck_ok(ht_test_tool_start(&other, &work, NULL));
		ck_ok(ht_test_tool_await_tap(&other));
		kill(other.pid, SIGKILL);
		ck_ok(ht_test_tool_wait(&other));
		ask("check", "ok 0");
		/* By cure, and by the next tap. */
		if (i == 0) {
			ck_ok(ht_tap_cure_pid(t.pid, &found, &left, &err));
			ck_assert(found && !left);
			ck_ok(ht_tap_cure_pid(t.pid, &found, &left, &err));
			ck_assert(!found);
		} else {
			attach(&exact);
			serve(20);
			ck_ok(ht_tap_cure(tap, &err));
		}
		as_before();
	}
	stop();
}
END_TEST

#ifdef HT_FAULTS
/* The other one has looked for us already when we come. */
START_TEST(two_at_the_same_time)
{
	struct ht_test_work work = { .attach = true, .serve_ms = 1 };
	struct ht_test_tool other;
	char want[HT_ERR_TEXT];
	int status;

	start();
	work.pid = t.pid;
	ck_ok(ht_test_tool_start(&other, &work, "inject.plan:stop"));
	ck_assert_int_eq(waitpid(other.pid, &status, WUNTRACED), other.pid);
	ck_assert(WIFSTOPPED(status));
	attach(&sampled);
	ck_assert_int_eq(kill(other.pid, SIGCONT), 0);
	ck_ok(ht_test_tool_wait(&other));
	snprintf(want, sizeof(want),
		 "can't tap %d (busy): test_tap (pid %d) is tapping it; end that first",
		 (int)t.pid, (int)getpid());
	ck_assert_int_eq(other.result, -EBUSY);
	ck_assert_str_eq(other.err.text, want);
	ck_ok(ht_tap_cure(tap, &err));
	as_before();
	stop();
}
END_TEST

START_TEST(a_tap_that_nobody_would_serve)
{
	start();
	setenv("HEAPTAP_FAULT", "tap.listen:12", 1);
	ck_assert_int_eq(ht_tap_attach(t.pid, &sampled, &tap, &err), -ENOMEM);
	unsetenv("HEAPTAP_FAULT");
	ck_assert_int_eq(err.kind, HT_ERR_FAILED);
	as_before();
	stop();
}
END_TEST
#endif

int main(void)
{
	return ht_check_run("tap", (const TTest *const[]){
		sampled_life, exact_life, life_by_dlopen, again_and_again, freeing_cures,
		serving_ends_when_told, the_target_ends, the_target_becomes_another,
		children_go_on_untapped, a_launched_program, nobody_there, two_at_once,
		what_a_killed_one_left,
#ifdef HT_FAULTS
		two_at_the_same_time, a_tap_that_nobody_would_serve,
#endif
		NULL });
}
