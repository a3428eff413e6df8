/* SPDX-License-Identifier: Apache-2.0
 *
 * signals: none is lost, doubled or comes out of order in a target under a rain of them
 * (tests/targets/signals.c), and a stopped job stays stopped, over whole taps. HT_HARM=N does
 * everything N times as often.
 */
#include <signal.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "harm.h"
#include "ht_check.h"
#include "ht_patience.h"
#include "ht_snapshot.h"

static void rain(const struct ht_harm_kind *kind, const char *const args[])
{
	char reply[HT_HARM_REPLY];
	struct ht_test_target t;
	int n = ht_harm_rounds(4);

	ck_ok(ht_test_target_start(&t, "signals", args));
	ht_harm_ask(&t, "check", "before", reply);
	for (int i = 0; i < n; i++)
		(void)ht_harm_tap(&t, kind, "check", "check", reply);
	printf("%s: %d taps: %s\n", kind->name, n, reply);
	/* Those who wait see each stop of a job, without a tap, too. */
	ck_assert_msg(strstr(reply, " eintr=0") || (args && !strcmp(args[0], "stop")), "%s: %s",
		      kind->name, reply);
	ck_ok(ht_test_target_stop(&t, NULL));
}

START_TEST(none_is_lost)
{
	for (size_t i = 0; i < HT_HARM_KINDS; i++)
		rain(&ht_harm_kinds[i], NULL);
}
END_TEST

START_TEST(trap_stays_ignored)
{
	for (size_t i = 0; i < HT_HARM_KINDS; i++)
		rain(&ht_harm_kinds[i], (const char *const[]){ "ignore", NULL });
}
END_TEST

/* The kernel wakes each traced thread for a SIGCONT, be it stopped or not. */
START_TEST(none_is_lost_among_continues)
{
	for (size_t i = 0; i < HT_HARM_KINDS; i++) {
		rain(&ht_harm_kinds[i], (const char *const[]){ "cont", NULL });
		rain(&ht_harm_kinds[i], (const char *const[]){ "on-cont", NULL });
	}
}
END_TEST

/* A process that is stopped now and then is refused a load by dlopen. */
START_TEST(none_is_lost_among_stops)
{
	for (size_t i = 0; i < HT_HARM_KINDS; i++) {
		if (ht_harm_kinds[i].loader == HT_LOADER_MAP)
			rain(&ht_harm_kinds[i], (const char *const[]){ "stop", NULL });
	}
}
END_TEST

static char state_of(pid_t pid)
{
	char path[64], text[512] = "";
	const char *p;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(text, sizeof(text), f));
	fclose(f);
	p = strrchr(text, ')');
	ck_assert_ptr_nonnull(p);
	return p[2];
}

/* What a shell that started it would see: one change, and no other. */
static void one_change(pid_t pid, int want)
{
	uint64_t deadline = ht_test_deadline_ns();
	siginfo_t info = { 0 };

	while (info.si_pid != pid) {
		ck_assert(!ht_deadline_passed(deadline));
		ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info,
					WSTOPPED | WCONTINUED | WEXITED | WNOHANG), 0);
		sched_yield();
	}
	ck_assert_int_eq(info.si_code, want);
}

static void no_change(pid_t pid, const char *when)
{
	siginfo_t info = { 0 };

	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info,
				WSTOPPED | WCONTINUED | WEXITED | WNOHANG), 0);
	ck_assert_msg(info.si_pid == 0, "%s: its parent was told of %d", when, info.si_code);
}

static void stop_job(struct ht_test_target *t, int signal)
{
	ck_assert_int_eq(kill(t->pid, signal), 0);
	one_change(t->pid, CLD_STOPPED);
	ck_assert_int_eq(state_of(t->pid), 'T');
}

static void is_still_stopped(struct ht_test_target *t, const char *when)
{
	uint64_t deadline = ht_test_deadline_ns();

	no_change(t->pid, when);
	/* The kernel wakes a thread that is let go, for it to stop again. */
	while (state_of(t->pid) != 'T') {
		ck_assert_msg(!ht_deadline_passed(deadline), "%s: state %c", when,
			      state_of(t->pid));
		sched_yield();
	}
}

static void continue_job(struct ht_test_target *t, const char *when)
{
	char reply[HT_HARM_REPLY];

	ck_assert_int_eq(kill(t->pid, SIGCONT), 0);
	one_change(t->pid, CLD_CONTINUED);
	ht_harm_ask(t, "check", when, reply);
	no_change(t->pid, when);
}

static void tap_while_stopped(struct ht_test_target *t, const struct ht_harm_kind *kind,
			      int signal)
{
	struct ht_test_work work = ht_harm_work(t, kind);
	struct ht_test_tool tool;
	char when[64];
	int r;

	snprintf(when, sizeof(when), "%s, signal %d", kind->name, signal);
	stop_job(t, signal);
	ck_ok(ht_test_tool_start(&tool, &work, NULL));
	r = ht_test_tool_await_tap(&tool);
	is_still_stopped(t, when);
	ht_test_tool_end(&tool);
	ck_ok(ht_test_tool_wait(&tool));
	ck_assert(tool.finished);
	if (kind->loader == HT_LOADER_DLOPEN) {
		/* The thread that calls it could wait for one that doesn't run. */
		ck_assert_int_lt(r, 0);
		ck_assert_msg(strstr(tool.err.text, "stopped"), "%s: %s", when, tool.err.text);
	} else {
		ck_assert_msg(r == 0 && tool.result == 0, "%s: %s", when, tool.err.text);
	}
	is_still_stopped(t, when);
	continue_job(t, when);
}

START_TEST(a_stopped_job_stays_stopped)
{
	static const int signals[] = { SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU };
	struct ht_test_target t;

	ck_ok(ht_test_target_start(&t, "busy", NULL));
	for (size_t i = 0; i < HT_HARM_KINDS; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(signals); k++)
			tap_while_stopped(&t, &ht_harm_kinds[i], signals[k]);
	}
	ht_test_target_kill(&t);
}
END_TEST

/* Ctrl-Z, attach, fg. */
START_TEST(a_job_goes_on_while_tapped)
{
	struct ht_test_target t;

	ck_ok(ht_test_target_start(&t, "busy", NULL));
	for (size_t i = 0; i < HT_HARM_KINDS; i++) {
		struct ht_test_work work = ht_harm_work(&t, &ht_harm_kinds[i]);
		const char *when = ht_harm_kinds[i].name;
		struct ht_test_tool tool;

		if (work.loader == HT_LOADER_DLOPEN)
			continue;
		stop_job(&t, SIGTSTP);
		ck_ok(ht_test_tool_start(&tool, &work, NULL));
		ck_ok(ht_test_tool_await_tap(&tool));
		is_still_stopped(&t, when);
		continue_job(&t, when);
		ht_test_tool_end(&tool);
		ck_ok(ht_test_tool_wait(&tool));
		ck_assert_msg(tool.finished && tool.result == 0, "%s: %s", when, tool.err.text);
		ck_assert_uint_gt(tool.samples, 0);
		no_change(t.pid, when);
	}
	ht_test_target_kill(&t);
}
END_TEST

/* Tapped while it runs, stopped while it is tapped, and untapped while it is stopped. */
START_TEST(a_job_is_stopped_while_tapped)
{
	struct ht_test_target t;

	ck_ok(ht_test_target_start(&t, "busy", NULL));
	for (size_t i = 0; i < HT_HARM_KINDS; i++) {
		struct ht_test_work work = ht_harm_work(&t, &ht_harm_kinds[i]);
		const char *when = ht_harm_kinds[i].name;
		struct ht_test_tool tool;

		ck_ok(ht_test_tool_start(&tool, &work, NULL));
		ck_ok(ht_test_tool_await_tap(&tool));
		stop_job(&t, SIGTSTP);
		ht_test_tool_end(&tool);
		ck_ok(ht_test_tool_wait(&tool));
		ck_assert_msg(tool.finished && tool.result == 0, "%s: %s", when, tool.err.text);
		is_still_stopped(&t, when);
		continue_job(&t, when);
	}
	ht_test_target_kill(&t);
}
END_TEST

int main(void)
{
	return ht_check_run_for("signals", ht_harm_rounds(120),
				(const TTest *const[]){ none_is_lost, trap_stays_ignored,
							none_is_lost_among_continues,
							none_is_lost_among_stops,
							a_stopped_job_stays_stopped,
							a_job_goes_on_while_tapped,
							a_job_is_stopped_while_tapped, NULL });
}
