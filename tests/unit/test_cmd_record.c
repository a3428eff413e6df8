/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop between tap and report: what ends it, what is told, and that there is a report
 * whatever went wrong.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/target.h"
#include "base/clock.h"
#include "capture.h"
#include "cmd/record.h"
#include "fake_tap.h"
#include "inject/plan.h"
#include "tool.h"

static struct ht_record_options options;
static bool launched;

static void start(void)
{
	fake_tap_init();
	options = (struct ht_record_options)HT_RECORD_OPTIONS_INIT;
	options.format = &fake_format;
	launched = false;
}

static int record(void *arg)
{
	struct ht_recorder recorder = HT_RECORDER_INIT;
	struct ht_err err = { HT_ERR_NONE, "" };
	int r;

	recorder.options = &options;
	recorder.launched = launched;
	if (ht_outputs_open(&recorder.outputs, &options, STDOUT_FILENO, &err) < 0)
		return 99;
	ht_signals_catch(launched);
	if (ht_signals_open(&recorder.signal_fd, &err) < 0)
		return 99;
	recorder.tap = &fake_tap;
	r = ht_record(&recorder, &err);
	if (r < 0)
		ht_cmd_talk("error: %s", err.text);
	ht_recorder_fini(&recorder);
	return r < 0;
}

static void check(int status, const char *out, const char *err)
{
	struct captured c;

	capture(record, NULL, &c);
	captured_is(&c, status, out, err);
	captured_fini(&c);
}

#define TAPPING "heaptap: tapping server (42): libc\n"
#define ONE_STOP "heaptap: /usr/bin/server: stop 1: 1.260 ms (seize 0.500, check 0.060, borrow 0.200, write 0.400, resume 0.100), threads: 4\n"
#define NAMES_ONLY "heaptap: the report has names only, no lines and inlined calls\n"

START_TEST(the_target_exits)
{
	start();
	check(0, "report: server, target exited, with lines\n",
	      TAPPING "heaptap: 42 (server) exited after 12.5 s; the report covers until then\n");
	ck_assert_str_eq(fake_tap_log, "serve until; cure; free; ");
	fake_tap_fini();
}
END_TEST

static int serve_exec(struct ht_tap *tap, int wake_fd, enum ht_tap_state *ret_state,
		      struct ht_err *err)
{
	*ret_state = HT_TAP_EXECED;
	return 0;
}

START_TEST(the_target_runs_another)
{
	start();
	fake_tap.serve = serve_exec;
	fake_tap.result.allocators = NULL;
	fake_tap.result.successor = "worker";
	check(0, "report: server, target ran exec, with lines\n",
	      "heaptap: tapping server (42): its allocator\n"
	      "heaptap: 42 (server) runs another program (worker) after 12.5 s; the report covers until then; attach again to tap that one\n"
	      "heaptap: server (42): NOT COMPLETE: another program (worker) took its place within 12.5 s, and isn't tapped.\n");
	fake_tap_fini();
}
END_TEST

static int serve_cut(struct ht_tap *tap, int wake_fd, enum ht_tap_state *ret_state,
		     struct ht_err *err)
{
	*ret_state = HT_TAP_CUT;
	return 0;
}

START_TEST(the_target_cuts_it)
{
	start();
	fake_tap.serve = serve_cut;
	fake_tap.result.cut = "it closed the socket";
	check(0, "report: server, the target cut it off, with lines\n",
	      TAPPING
	      "heaptap: 42 (server): it closed the socket, after 12.5 s; the report covers until then; --transport=ring doesn't depend on that\n"
	      "heaptap: server (42): NOT COMPLETE: it closed the socket, so that nothing is seen from 12.5 s on.\n");
	ck_assert_str_eq(fake_tap_log, "serve until; cure; free; ");
	fake_tap_fini();
}
END_TEST

START_TEST(what_is_not_seen_is_told)
{
	struct ht_allocator allocators[] = {
		{ .name = "a", .n_refused = 1, .left_out = "'free' can't be patched: why" },
		{ .name = "b", .n_sites = 2, .n_refused = 2, .n_unseen = 1 },
	};
	struct ht_site sites[] = { { .names = "mi_strdup", .refused = "a call is in the way" },
				   { .names = "mi_valloc", .refused = "x", .counted = true } };
	const struct ht_plan plan = { sites, ARRAY_SIZE(sites), allocators,
				      ARRAY_SIZE(allocators) };

	start();
	allocators[0].module = ht_modules_at(fake_tap.fake.modules, 2);
	allocators[1].module = ht_modules_at(fake_tap.fake.modules, 1);
	sites[0].module = sites[1].module = allocators[1].module;
	fake_tap.result.plan = &plan;
	check(0, "report: server, target exited, with lines\n",
	      TAPPING
	      "heaptap: nothing of libplugin.so is seen: 'free' can't be patched: why\n"
	      "heaptap: functions that aren't seen: 1; the report names them\n"
	      "heaptap: 42 (server) exited after 12.5 s; the report covers until then\n"
	      "heaptap: server (42): NOT COMPLETE: nothing of libplugin.so is seen; mi_strdup of libc.so.6 isn't seen.\n");
	fake_tap_fini();
}
END_TEST

static const struct ht_module *late[2];

/* One while it is served, one more by the end. */
static int serve_late(struct ht_tap *tap, int wake_fd, enum ht_tap_state *ret_state,
		      struct ht_err *err)
{
	if (tap->served <= 2)
		*ret_state = HT_TAP_RUNNING;
	tap->result.n_late = 1;
	return 0;
}

static int cure_late(struct ht_tap *tap, struct ht_err *err)
{
	tap->result.n_late = 2;
	return 0;
}

START_TEST(what_comes_late_is_told_once)
{
#define LATE "heaptap: server (42): NOT COMPLETE: libplugin.so was loaded during the recording and isn't seen; libc.so.6 was loaded during the recording and isn't seen.\n"
	start();
	late[0] = ht_modules_at(fake_tap.fake.modules, 2);
	late[1] = ht_modules_at(fake_tap.fake.modules, 1);
	fake_tap.result.late = late;
	fake_tap.serve = serve_late;
	fake_tap.cure = cure_late;
	check(0, "report: server, target exited, with lines\n",
	      TAPPING
	      "heaptap: libplugin.so was loaded during the recording and isn't seen; attach after that to tap it\n"
	      "heaptap: libc.so.6 was loaded during the recording and isn't seen; attach after that to tap it\n"
	      "heaptap: 42 (server) exited after 12.5 s; the report covers until then\n" LATE);
	options.quiet = true;
	check(0, "report: server, target exited, with lines\n", LATE);
	fake_tap_fini();
}
END_TEST

static int full[2];

/* Its reader comes to it only now. */
static int serve_reader(struct ht_tap *tap, int wake_fd, enum ht_tap_state *ret_state,
			struct ht_err *err)
{
	static char bytes[1 << 16];

	if (tap->served > 1)
		return 0;
	ck_assert_int_gt(read(full[0], bytes, sizeof(bytes)), 0);
	*ret_state = HT_TAP_RUNNING;
	return 0;
}

/* Who reads what we say may be the target itself. */
START_TEST(nobody_is_waited_for)
{
	int saved = dup(STDERR_FILENO), r;
	char text[4096] = "";

	start();
	fake_tap.serve = serve_reader;
	ck_assert_int_eq(pipe2(full, O_NONBLOCK), 0);
	while (write(full[1], "x", 1) == 1)
		;
	ck_assert_int_eq(fcntl(full[1], F_SETFL, 0), 0);
	dup2(full[1], STDERR_FILENO);
	r = record(NULL);
	dup2(saved, STDERR_FILENO);
	ck_ok(r);
	ck_assert_int_gt(read(full[0], text, sizeof(text) - 1), 0);
	ck_assert_mem_eq(text, TAPPING, strlen(TAPPING));
	fake_tap_fini();
}
END_TEST

static int to_send;

static int serve_signal(struct ht_tap *tap, int wake_fd, enum ht_tap_state *ret_state,
			struct ht_err *err)
{
	fake_tap_note("signal %d", to_send);
	kill(getpid(), to_send);
	*ret_state = HT_TAP_RUNNING;
	return 0;
}

START_TEST(signals_end_it)
{
	start();
	fake_tap.serve = serve_signal;
	to_send = SIGINT;
	check(0, "report: server, Ctrl-C, with lines\n", TAPPING);
	to_send = SIGTERM;
	check(0, "report: server, SIGTERM, with lines\n", TAPPING);
	to_send = SIGHUP;
	fake_tap_log[0] = '\0';
	check(0, "report: server, SIGHUP, with lines\n", TAPPING);
	ck_assert_str_eq(fake_tap_log, "serve until; signal 1; cure; free; ");
	fake_tap_fini();
}
END_TEST

static int serve_time(struct ht_tap *tap, int wake_fd, enum ht_tap_state *ret_state,
		      struct ht_err *err)
{
	*ret_state = HT_TAP_RUNNING;
	return 0;
}

START_TEST(the_duration_ends_it)
{
	start();
	fake_tap.serve = serve_time;
	options.duration_ns = 1000000;
	check(0, "report: server, duration over, with lines\n", TAPPING);
	fake_tap_fini();
}
END_TEST

static int serve_badly(struct ht_tap *tap, int wake_fd, enum ht_tap_state *ret_state,
		       struct ht_err *err)
{
	*ret_state = HT_TAP_RUNNING;
	return ht_err_set(err, HT_ERR_FAILED, -EIO, "serving failed");
}

static int cure_badly(struct ht_tap *tap, struct ht_err *err)
{
	return ht_err_set(err, HT_ERR_FAILED, -EIO, "curing failed");
}

/* The first failure is the error, later ones are told; the report comes in any case. */
START_TEST(failures_still_report)
{
	start();
	fake_tap.serve = serve_badly;
	check(1, "report: server, it failed, with lines\n",
	      TAPPING "heaptap: error: serving failed\n");
	ck_assert_str_eq(fake_tap_log, "serve until; cure; free; ");
	fake_tap.cure = cure_badly;
	check(1, "report: server, it failed, with lines\n",
	      TAPPING "heaptap: curing failed\nheaptap: error: serving failed\n");
	fake_tap.serve = NULL;
	options.quiet = true;
	check(1, "report: server, target exited, with lines\n",
	      "heaptap: error: curing failed\n");
	fake_tap_fini();
}
END_TEST

START_TEST(a_report_that_fails)
{
	if (!ht_check_have(!access("/dev/full", W_OK), "/dev/full"))
		return;
	start();
	options.paths[0] = "/dev/full";
	options.n_paths = 1;
	options.quiet = true;
	check(1, "", "heaptap: error: can't write /dev/full: No space left on device\n");
	fake_tap.serve = serve_badly;
	check(1, "", "heaptap: can't write /dev/full: No space left on device\n"
		     "heaptap: error: serving failed\n");
	fake_tap_fini();
}
END_TEST

static pid_t target;

static int serve_launched(struct ht_tap *tap, int wake_fd, enum ht_tap_state *ret_state,
			  struct ht_err *err)
{
	int status;

	*ret_state = HT_TAP_RUNNING;
	if (tap->served == 1) {
		target = fork();
		if (target == 0) {
			ht_signals_default();
			for (;;)
				pause();
		}
		tap->result.pid = target;
	} else {
		waitpid(target, &status, 0);
		fake_tap_note("target died of %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	}
	kill(getpid(), SIGTERM);
	return 0;
}

/* Of a launched program the first signal is for it: one that only we got is handed on. The
 * next one is for us. */
START_TEST(launched_gets_the_first)
{
	char want[64];

	start();
	launched = true;
	options.quiet = true;
	fake_tap.serve = serve_launched;
	check(0, "report: server, SIGTERM, with lines\n", "");
	snprintf(want, sizeof(want), "serve; target died of %d; cure; free; ", SIGTERM);
	ck_assert_str_eq(fake_tap_log, want);
	fake_tap_fini();
}
END_TEST

static int serve_both(struct ht_tap *tap, int wake_fd, enum ht_tap_state *ret_state,
		      struct ht_err *err)
{
	kill(getpid(), SIGINT);
	*ret_state = HT_TAP_EXITED;
	return 0;
}

/* A Ctrl-C that ended the program and reached us too is no haste; one that came at the end
 * of somebody else's program is. */
START_TEST(ctrl_c_that_ended_the_program)
{
	start();
	options.quiet = true;
	fake_tap.serve = serve_both;
	launched = true;
	check(0, "report: server, target exited, with lines\n", "");
	launched = false;
	check(0, "report: server, target exited, names only\n", "");
	fake_tap_fini();
}
END_TEST

START_TEST(quiet_and_verbose)
{
	static const struct ht_stop stops[] = {
		{ 1260000, { 500000, 60000, 200000, 400000, 100000 }, 4 },
	};

	start();
	options.quiet = true;
	check(0, "report: server, target exited, with lines\n", "");
	options.quiet = false;
	options.verbose = true;
	launched = true;	/* whose end everybody sees */
	fake_tap.result.stops = 1;
	fake_tap.result.stop_max_ns = 1260000;
	fake_tap.result.stop_log = stops;
	fake_tap.result.n_stop_log = 1;
	check(0, "report: server, target exited, with lines\n", TAPPING ONE_STOP);
	fake_tap.result.stops = 3;
	check(0, "report: server, target exited, with lines\n",
	      TAPPING ONE_STOP "heaptap: /usr/bin/server: more stops: 2, none of them longer than 1.260 ms\n");
	options.quiet = true;
	check(0, "report: server, target exited, with lines\n", "");
	fake_tap_fini();
}
END_TEST

/* Who sent the report to a file sees the figures at least. */
START_TEST(figures_when_the_report_is_elsewhere)
{
	struct captured c;
	char dir[64];

	start();
	tool_mkdir(dir);
	ck_assert_int_eq(chdir(dir), 0);
	options.paths[0] = "x";
	options.n_paths = 1;
	capture(record, NULL, &c);
	captured_has(&c, "heaptap: wrote x\nheaptap: server (42) 12 s: live at most 192 KiB, 0 B allocated, 41,210 samples, lost 0\n");
	captured_fini(&c);
	options.quiet = true;
	check(0, "", "");
	ck_assert_int_eq(chdir("/"), 0);
	tool_rmdir(dir);
	fake_tap_fini();
}
END_TEST

static int cure_not_all(struct ht_tap *tap, struct ht_err *err)
{
	tap->result.left = true;
	return 0;
}

START_TEST(what_stays_is_told)
{
	struct captured c;

	start();
	fake_tap.cure = cure_not_all;
	capture(record, NULL, &c);
	ck_assert_int_eq(c.status, 0);
	captured_has(&c, "heaptap: code of heaptap stays mapped in 42 (server), out of use,");
	captured_has(&c, "heaptap cure 42 takes it out later\n");
	captured_fini(&c);
	options.quiet = true;
	capture(record, NULL, &c);
	captured_has(&c, "heaptap: code of heaptap stays mapped in 42 (server), out of use,");
	captured_has_not(&c, "tapping");
	captured_fini(&c);
	fake_tap_fini();
}
END_TEST

START_TEST(fini_of_what_never_began)
{
	struct ht_recorder recorder = HT_RECORDER_INIT;

	fake_tap_init();
	ht_recorder_fini(&recorder);
	ht_recorder_fini(&recorder);
	ck_assert_str_eq(fake_tap_log, "");
	fake_tap_fini();
}
END_TEST

int main(void)
{
	return ht_check_run("cmd_record", (const TTest *const[]){
		the_target_exits, the_target_cuts_it, the_target_runs_another, what_is_not_seen_is_told, what_comes_late_is_told_once, nobody_is_waited_for, signals_end_it,
		the_duration_ends_it, failures_still_report, a_report_that_fails, launched_gets_the_first,
		ctrl_c_that_ended_the_program, quiet_and_verbose,
		figures_when_the_report_is_elsewhere, what_stays_is_told,
		fini_of_what_never_began, NULL });
}
