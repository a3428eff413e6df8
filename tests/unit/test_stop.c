/* SPDX-License-Identifier: Apache-2.0
 *
 * Stopping and resuming all threads, as often as it takes, must not be seen by the target.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/attach-priv.h"
#include "attach/faults.h"
#include "attach/proc.h"
#include "attach/target.h"
#include "base/clock.h"

#include "ht_check.h"
#include "ht_target.h"

/* Long, for a loaded machine with sanitizers; it passes only when something is broken. */
#define STOP_NS (10 * HT_NS_PER_SEC)

static struct ht_test_target t;

static struct ht_target *start(const char *name, const char *const args[])
{
	struct ht_target *target = NULL;
	struct ht_err err = { 0 };
	int r;

	ck_ok(ht_test_target_start(&t, name, args));
	r = ht_target_open(t.pid, &target, &err);
	ck_assert_msg(r == 0, "%s", err.text);
	return target;
}

static void stop(struct ht_target *target)
{
	struct ht_err err = { 0 };
	int r = ht_target_stop(target, ht_deadline_ns(STOP_NS), &err);

	ck_assert_msg(r == 0, "%s", err.text);
}

static char state_of(pid_t pid)
{
	struct ht_proc_stat stat;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	ck_ok(ht_proc_stat(-1, path, &stat));
	return stat.state;
}

static uint64_t tracer_of(pid_t tid)
{
	char path[64], text[HT_PROC_TEXT];
	uint64_t tracer = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	if (ht_proc_read(-1, path, text, sizeof(text)) < 0)
		return 0;
	ck_assert(ht_proc_field(text, "TracerPid:", 10, &tracer));
	return tracer;
}

static void await_state(pid_t pid, char state)
{
	while (state_of(pid) != state)
		sched_yield();
}

START_TEST(blocking_calls_see_nothing)
{
	struct ht_target *target = start("blocked", NULL);
	unsigned blocked = 0;
	char line[1024];
	size_t threads;

	ck_assert_int_eq(sscanf(t.ready, "READY %u", &blocked), 1);
	ck_assert_uint_ge(blocked, 90);
	for (int i = 0; i < 200; i++) {
		stop(target);
		threads = ht_target_threads(target);
		ck_assert_uint_ge(threads, blocked);
		ht_target_resume(target);
		ck_assert_uint_eq(ht_target_threads(target), 0);
	}
	ck_ok(ht_test_target_ask(&t, "check", line, sizeof(line)));
	ck_assert_str_eq(line, "ok");
	ht_target_close(target);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

/* It ends the seizing, too, which for thousands of threads takes long by itself. */
START_TEST(deadline_ends_the_seizing)
{
	struct ht_target *target = start("blocked", NULL);
	struct ht_err err = { 0 };

	ck_assert_int_eq(ht_target_stop(target, ht_deadline_ns(1), &err), -ETIMEDOUT);
	ck_assert_uint_eq(ht_target_last_stop(target)->threads, 1);
	while (ht_target_settle(target))
		sched_yield();
	ht_target_close(target);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

/* Too short for some: a bit longer each time. */
static uint64_t brief_deadline(int i)
{
	return ht_deadline_ns((uint64_t)(i % 50) * 20000);
}

/* A deadline that nobody can keep: whoever is late is let go when he shows up. */
START_TEST(late_ones_are_let_go)
{
	struct ht_target *target = start("blocked", NULL);
	struct ht_err err = { 0 };
	char line[1024];
	pid_t tids[128];
	int late = 0;
	size_t n;

	for (int i = 0; i < 50 || (!late && i < 2000); i++) {
		int r = ht_target_stop(target, brief_deadline(i), &err);

		if (r == 0)
			ht_target_resume(target);
		else
			ck_assert_msg(r == -ETIMEDOUT, "%d: %s", r, err.text);
		late += r != 0;
		ck_assert_uint_eq(ht_target_threads(target), 0);
		while (ht_target_settle(target))
			sched_yield();
	}
	ck_assert_int_gt(late, 0);
	n = ht_target_list_threads(target, tids, ARRAY_SIZE(tids));
	for (size_t i = 0; i < n; i++)
		ck_assert_uint_eq(tracer_of(tids[i]), 0);
	ck_ok(ht_test_target_ask(&t, "check", line, sizeof(line)));
	ck_assert_str_eq(line, "ok");
	ht_target_close(target);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

#ifdef HT_FAULTS
/* Wanted stopped again before they showed up, they must not be let go as late ones. */
START_TEST(late_ones_are_stopped_after_all)
{
	struct ht_target *target = start("blocked", NULL);
	struct ht_err err = { 0 };
	char fault[64];
	int again = 0;

	for (int i = 0; i < 50 || (!again && i < 2000); i++) {
		/* It isn't waited for them, at every other end of a stop. */
		snprintf(fault, sizeof(fault), "attach.late:1@%d", 2 * i + 1);
		setenv("HEAPTAP_FAULT", fault, 1);
		if (ht_target_stop(target, brief_deadline(i), &err) == 0)
			ht_target_resume(target);
		again += target->n_lingering != 0;
		stop(target);
		ck_assert_uint_eq(ht_target_settle(target), 0);
		for (size_t j = 0; j < ht_target_threads(target); j++)
			ck_assert_uint_eq(tracer_of(ht_target_tid(target, j)),
					  (uint64_t)getpid());
		ht_target_resume(target);
	}
	ck_assert_int_gt(again, 0);
	ht_target_close(target);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST
#endif

static void *wait_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* More threads than there was room for when it was opened. */
#ifdef HT_FAULTS
/* The timer that looks for the dead during a long seize must leave the stops of the living
 * for those who wait for them. */
START_TEST(timer_takes_no_stop)
{
	struct ht_target *target = start("blocked", NULL);
	char fault[64];
	size_t n;

	stop(target);
	n = ht_target_threads(target);
	ht_target_resume(target);
	/* The point's passings are counted over all rounds. */
	for (size_t i = 0; i < 8; i++) {
		snprintf(fault, sizeof(fault), "attach.seizing:alarm@%zu", i * n + n - i);
		setenv("HEAPTAP_FAULT", fault, 1);
		stop(target);
		ht_target_resume(target);
	}
	ht_target_close(target);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST
#endif

START_TEST(grows)
{
	struct ht_target *target = NULL;
	struct ht_err err = { 0 };
	int to[2], from[2];
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(to), 0);
	ck_assert_int_eq(pipe(from), 0);
	pid = fork();
	if (pid == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(to[0], &byte, 1) != 1)
			_exit(1);
		for (int i = 0; i < 400; i++)
			pthread_create(&thread, NULL, wait_for_ever, NULL);
		if (write(from[1], "x", 1) == 1)
			wait_for_ever(NULL);
	}
	ck_ok(ht_target_open(pid, &target, &err));
	ck_assert_int_eq(write(to[1], "x", 1), 1);
	ck_assert_int_eq(read(from[0], &byte, 1), 1);
	stop(target);
	ck_assert_uint_eq(ht_target_threads(target), 401);
	ht_target_close(target);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
END_TEST

START_TEST(all_are_stopped_and_let_go)
{
	static const char *const args[] = { "0", "200", NULL };
	struct ht_target *target = start("churn", args);
	pid_t tids[300];
	size_t n;

	stop(target);
	n = ht_target_list_threads(target, tids, ARRAY_SIZE(tids));
	ck_assert_uint_eq(n, 201);
	ck_assert_uint_eq(ht_target_threads(target), n);
	for (size_t i = 0; i < n; i++) {
		ck_assert_int_eq(state_of(tids[i]), 't');
		ck_assert_uint_ne(ht_regs_pc(ht_target_regs(target, i)), 0);
	}
	/* Again, with all of them stopped already. */
	stop(target);
	ck_assert_uint_eq(ht_target_threads(target), n);
	ht_target_resume(target);
	ck_assert_uint_gt(ht_target_last_stop(target)->ns, 0);
	ck_assert_uint_eq(ht_target_last_stop(target)->threads, n);
	for (size_t i = 0; i < n; i++) {
		ck_assert_int_ne(state_of(tids[i]), 't');
		ck_assert_uint_eq(tracer_of(tids[i]), 0);
	}
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

static uint64_t sum_of_phases(const struct ht_stop *stop)
{
	uint64_t ns = 0;

	for (int i = 0; i < HT_STOP_PHASES; i++)
		ns += stop->phase_ns[i];
	return ns;
}

START_TEST(phases)
{
	struct ht_target *target = start("keeper", NULL);
	const struct ht_stop *last = ht_target_last_stop(target);

	/* Nothing is stopped. */
	ht_target_begin_phase(target, HT_STOP_WRITE);
	ht_target_resume(target);
	ck_assert_uint_eq(last->ns, 0);
	stop(target);
	ht_target_begin_phase(target, HT_STOP_WRITE);
	ht_target_begin_phase(target, HT_STOP_CHECK);
	ht_target_resume(target);
	ck_assert_uint_eq(sum_of_phases(last), last->ns);
	ck_assert_uint_eq(last->phase_ns[HT_STOP_BORROW], 0);
	for (int i = 0; i < HT_STOP_PHASES; i++)
		ck_assert(last->phase_ns[i] || i == HT_STOP_BORROW);
	/* The next one counts from 0. */
	stop(target);
	ht_target_resume(target);
	ck_assert_uint_eq(sum_of_phases(last), last->ns);
	ck_assert_uint_eq(last->phase_ns[HT_STOP_WRITE], 0);
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

static bool is_blocked(int sig)
{
	sigset_t set;

	ck_ok(pthread_sigmask(SIG_BLOCK, NULL, &set));
	return sigismember(&set, sig);
}

/* Others can wait. And nobody stops us by Ctrl-Z. */
START_TEST(we_are_urgent_meanwhile)
{
	struct ht_target *target = start("keeper", NULL);
	int usual = getpriority(PRIO_PROCESS, 0);
	bool may = setpriority(PRIO_PROCESS, 0, -20) == 0;
	struct ht_err err = { 0 };

	ck_ok(setpriority(PRIO_PROCESS, 0, usual));
	for (int i = 0; i < 2; i++) {
		stop(target);
		ck_assert_int_eq(getpriority(PRIO_PROCESS, 0), may ? -20 : usual);
		ck_assert(is_blocked(SIGTSTP) && is_blocked(SIGTTIN) && is_blocked(SIGTTOU));
		ht_target_resume(target);
		ck_assert_int_eq(getpriority(PRIO_PROCESS, 0), usual);
		ck_assert(!is_blocked(SIGTSTP) && !is_blocked(SIGTTIN));
	}
	ck_assert_int_eq(ht_target_stop(target, 1, &err), -ETIMEDOUT);
	ck_assert_int_eq(getpriority(PRIO_PROCESS, 0), usual);
	ck_assert(!is_blocked(SIGTSTP) && !is_blocked(SIGCHLD));
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

/* The libc in which heaptap looks for code to use comes a moment after an exec. */
START_TEST(opened_just_after_an_exec)
{
	const struct ht_gadgets none = { 0 };
	struct ht_target *target = start("keeper", NULL);
	struct ht_err err = { 0 };

	target->gadgets = none;
	stop(target);
	ck_assert(ht_gadgets_hold(target));
	ht_target_resume(target);
	target->gadgets = none;
	ck_ok(ht_target_stop_thread(target, t.pid, ht_deadline_ns(STOP_NS), &err));
	ck_assert(ht_gadgets_hold(target));
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

/* Others trace it for a moment, again and again: that's told from what forbids it for ever. */
START_TEST(tracers_pass_by)
{
	struct ht_target *target = start("keeper", NULL);
	struct ht_err err = { 0 };
	int met = 0, status;
	pid_t other = fork();

	if (other == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			if (ptrace(PTRACE_SEIZE, t.pid, 0, 0) < 0)
				continue;
			ptrace(PTRACE_INTERRUPT, t.pid, 0, 0);
			waitpid(t.pid, NULL, __WALL);
			ptrace(PTRACE_DETACH, t.pid, 0, 0);
		}
	}
	while (met < 200) {
		int r = ht_target_stop(target, ht_deadline_ns(STOP_NS), &err);

		ck_assert_msg(r == 0 || r == -EBUSY, "%d: %s", r, err.text);
		met += r == -EBUSY;
		if (r == 0)
			ht_target_resume(target);
	}
	kill(other, SIGKILL);
	ck_assert_int_eq(waitpid(other, &status, 0), other);
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

START_TEST(one_thread)
{
	static const char *const args[] = { "0", "3", NULL };
	struct ht_target *target = start("churn", args);
	struct ht_err err = { 0 };
	pid_t tids[4];

	ck_assert_uint_eq(ht_target_list_threads(target, tids, 4), 4);
	ck_ok(ht_target_stop_thread(target, tids[2], ht_deadline_ns(STOP_NS), &err));
	ck_assert_uint_eq(ht_target_threads(target), 1);
	ck_assert_int_eq(ht_target_tid(target, 0), tids[2]);
	ck_assert_int_eq(state_of(tids[2]), 't');
	ck_assert_int_ne(state_of(tids[1]), 't');
	/* The rest joins; the index stays. */
	stop(target);
	ck_assert_uint_eq(ht_target_threads(target), 4);
	ck_assert_int_eq(ht_target_tid(target, 0), tids[2]);
	ht_target_resume(target);
	ck_assert_int_eq(ht_target_stop_thread(target, getpid(), ht_deadline_ns(STOP_NS), &err),
			 -ESRCH);
	ck_assert_int_eq(err.kind, HT_ERR_GONE);
	ht_target_close(target);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

START_TEST(job_control_stop_stays)
{
	struct ht_target *target = start("counter", NULL);
	char line[32];

	ck_assert_int_eq(kill(t.pid, SIGSTOP), 0);
	await_state(t.pid, 'T');
	for (int i = 0; i < 20; i++) {
		stop(target);
		ck_assert_int_eq(state_of(t.pid), 't');
		ht_target_resume(target);
		await_state(t.pid, 'T');
	}
	ck_assert_int_eq(kill(t.pid, SIGCONT), 0);
	ck_ok(ht_test_target_ask(&t, "count", line, sizeof(line)));
	ck_assert_str_eq(line, "0");
	/* One that comes while it is stopped by us. */
	stop(target);
	ck_assert_int_eq(kill(t.pid, SIGSTOP), 0);
	ht_target_resume(target);
	await_state(t.pid, 'T');
	stop(target);
	ck_assert_int_eq(kill(t.pid, SIGCONT), 0);
	ht_target_resume(target);
	ck_ok(ht_test_target_ask(&t, "count", line, sizeof(line)));
	ht_target_close(target);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

#define SENT 20000

/* As fast as the queue takes them. */
static void send_signals(pid_t pid)
{
	for (int i = 0; i < SENT;) {
		if (sigqueue(pid, SIGRTMIN, (union sigval){ .sival_int = i }) == 0)
			i++;
		else if (errno != EAGAIN)
			_exit(1);
	}
	_exit(0);
}

START_TEST(no_signal_is_lost)
{
	struct ht_target *target = start("counter", NULL);
	char line[32], want[32];
	int status = -1;
	pid_t sender = fork();

	ck_assert_int_ge(sender, 0);
	if (sender == 0)
		send_signals(t.pid);
	while (waitpid(sender, &status, WNOHANG) == 0) {
		stop(target);
		ht_target_resume(target);
	}
	ck_assert_int_eq(status, 0);
	snprintf(want, sizeof(want), "%d", SENT);
	ck_ok(ht_test_target_ask(&t, "count", line, sizeof(line)));
	ck_assert_str_eq(line, want);
	ht_target_close(target);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

START_TEST(threads_come_and_go)
{
	static const char *const args[] = { "8", "10", NULL };
	struct ht_target *target = start("churn", args);
	struct ht_err err = { 0 };
	char line[32];
	pid_t tids[64];

	for (int i = 0; i < 100; i++) {
		int r = ht_target_stop(target, ht_deadline_ns(STOP_NS), &err);

		ck_assert_msg(r == 0, "%s", err.text);
		ck_assert_uint_ge(ht_target_threads(target), 19);
		/* Nobody was missed, whether he runs now or is being born. */
		ck_assert_uint_eq(ht_target_list_threads(target, tids, ARRAY_SIZE(tids)),
				  ht_target_threads(target));
		ht_target_resume(target);
		ck_ok(ht_test_target_ask(&t, "count", line, sizeof(line)));
	}
	ck_assert_uint_eq(ht_target_settle(target), 0);
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

/* SIGCHLD, which the kernel doesn't throw away for a traced process. */
START_TEST(unhandled_signals_fail_no_call)
{
	struct ht_target *target = start("parent", NULL);
	unsigned failed, children;
	char line[64];

	for (int i = 0; i < 500; i++) {
		stop(target);
		ht_target_resume(target);
	}
	ck_ok(ht_test_target_ask(&t, "check", line, sizeof(line)));
	ck_assert_int_eq(sscanf(line, "ok %u %u", &failed, &children), 2);
	ck_assert_uint_gt(children, 0);
	ck_assert_uint_eq(failed, 0);
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

START_TEST(leaderless)
{
	struct ht_target *target = start("leaderless", NULL);
	char line[32];

	for (int i = 0; i < 20; i++) {
		stop(target);
		ck_assert_uint_eq(ht_target_threads(target), 1);
		ck_assert_int_ne(ht_target_tid(target, 0), t.pid);
		ht_target_resume(target);
		ck_ok(ht_test_target_ask(&t, "x", line, sizeof(line)));
	}
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

START_TEST(vfork_parent_times_out_unharmed)
{
	struct ht_target *target = start("vforker", NULL);
	struct ht_err err = { 0 }, look = { 0 };
	char line[32];

	await_state(t.pid, 'D');
	ck_assert_int_eq(ht_target_stop(target, ht_deadline_ns(20 * HT_NS_PER_MS), &err),
			 -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(err.text, "vfork"));
	/* Who only looks is told the same. */
	ck_assert_int_eq(ht_target_check_alone(target, &look), -ETIMEDOUT);
	ck_assert_str_eq(look.text, err.text);
	ck_assert_int_eq(look.kind, err.kind);
	ck_assert_uint_eq(tracer_of(t.pid), 0);
	ck_ok(ht_test_target_ask(&t, "", line, sizeof(line)));
	ck_assert_str_eq(line, "done");
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

/* What the look before the stop can't exclude: a thread that was seized on its way into a
 * vfork. It can neither be stopped nor let go until the child is done. */
START_TEST(vfork_parent_lingers)
{
	struct ht_target *target = start("vforker", NULL);
	struct ht_thread *thread;
	char line[32];

	await_state(t.pid, 'D');
	thread = ht_thread_add(target, t.pid);
	ck_ok(ht_thread_seize(target, t.pid));
	ck_ok(ht_thread_interrupt(t.pid));
	ck_assert_int_eq(thread->state, HT_THREAD_SEIZED);
	ht_target_resume(target);
	ck_assert_uint_eq(ht_target_settle(target), 1);
	ck_assert_uint_eq(tracer_of(t.pid), (uint64_t)getpid());
	ck_ok(ht_test_target_send(&t, ""));
	while (ht_target_settle(target))
		sched_yield();
	ck_assert_uint_eq(tracer_of(t.pid), 0);
	ck_ok(ht_test_target_read(&t, line, sizeof(line)));
	ck_assert_str_eq(line, "done");
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

START_TEST(death_is_said)
{
	struct ht_target *target = start("counter", NULL);
	struct ht_err err = { 0 };

	stop(target);
	ck_assert_int_eq(kill(t.pid, SIGKILL), 0);
	ht_target_resume(target);
	ck_assert_int_eq(ht_target_stop(target, ht_deadline_ns(STOP_NS), &err), -ESRCH);
	ck_assert_int_eq(err.kind, HT_ERR_GONE);
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

static pid_t start_execer(void)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* A shell that turns into itself for ever. */
		execl("/bin/sh", "sh", "-c", "exec sh -c \"$0\" \"$0\"",
		      "exec sh -c \"$0\" \"$0\"", NULL);
		_exit(1);
	}
	return pid;
}

START_TEST(exec_during_a_stop)
{
	pid_t pid = start_execer();
	int execed = 0;

	for (int i = 0; i < 200 || !execed; i++) {
		struct ht_target *target = NULL;
		struct ht_err err = { 0 };
		int r = ht_target_open(pid, &target, &err);

		if (r == 0)
			r = ht_target_stop(target, ht_deadline_ns(STOP_NS), &err);
		if (r == 0)
			ht_target_resume(target);
		else
			ck_assert_msg(r == -EXDEV || r == -ESRCH, "%d: %s", r, err.text);
		execed += r == -EXDEV;
		ht_target_close(target);
		ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
END_TEST

/* The exec waits for the thread that we have, and our next seize for the exec. */
START_TEST(exec_meets_a_single_seize)
{
	struct ht_target *target = start("busy", NULL);
	struct ht_err err = { 0 };
	char line[64];
	pid_t tids[16];
	int r;

	ck_assert_uint_gt(ht_target_list_threads(target, tids, ARRAY_SIZE(tids)), 1);
	ck_assert_int_ne(tids[0], t.pid);
	ck_ok(ht_target_stop_thread(target, tids[0], ht_deadline_ns(STOP_NS), &err));
	ck_ok(ht_test_target_send(&t, "exec"));
	await_state(t.pid, 'D');
	r = ht_target_stop_thread(target, t.pid, ht_deadline_ns(STOP_NS), &err);
	ck_assert_msg(r == -EXDEV || r == -ESRCH || r == 0, "%d: %s", r, err.text);
	ht_target_close(target);
	ck_ok(ht_test_target_read(&t, line, sizeof(line)));
	ck_assert_str_eq(line, "READY");
	ht_test_target_kill(&t);
}
END_TEST

#ifdef HT_FAULTS
/* Another heaptap, which dies or fails at a point. */
static int tool_with_fault(pid_t pid, const char *fault)
{
	struct ht_target *target = NULL;
	int status = 0;
	pid_t tool = fork();

	ck_assert_int_ge(tool, 0);
	if (tool == 0) {
		setenv("HEAPTAP_FAULT", fault, 1);
		if (ht_target_open(pid, &target, NULL) < 0)
			_exit(2);
		if (ht_target_stop(target, ht_deadline_ns(STOP_NS), NULL) < 0) {
			ht_target_close(target);
			_exit(1);
		}
		ht_target_resume(target);
		ht_target_close(target);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(tool, &status, 0), tool);
	return status;
}

START_TEST(faults)
{
	static const char *const ways[] = { "kill@1", "kill@2", "1@1", "1@2" };
	char fault[64], line[64];
	int fired = 0;

	ck_ok(ht_test_target_start(&t, "keeper", NULL));
	for (const char *const *point = ht_stop_faults; *point; point++) {
		for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
			int status;

			snprintf(fault, sizeof(fault), "%s:%s", *point, ways[i]);
			status = tool_with_fault(t.pid, fault);
			fired += status != 0;
			ck_assert_msg(!WIFSIGNALED(status) || WTERMSIG(status) == SIGKILL,
				      "%s: status %#x", fault, status);
			ck_ok(ht_test_target_ask(&t, "check", line, sizeof(line)));
			/* The one EINTR that the man page owns up to. */
			if (!strcmp(line, "BAD epoll_wait: EINTR") &&
			    !strncmp(fault, "attach.", 7)) {
				ht_test_target_kill(&t);
				ck_ok(ht_test_target_start(&t, "keeper", NULL));
				continue;
			}
			ck_assert_msg(!strncmp(line, "ok", 2), "%s: %s", fault, line);
			ck_assert_uint_eq(tracer_of(t.pid), 0);
		}
	}
	ck_assert_int_ge(fired, 10);
	ht_test_target_kill(&t);
}
END_TEST
#endif

int main(void)
{
	return ht_check_run("stop", (const TTest *const[]){
					    blocking_calls_see_nothing,
					    deadline_ends_the_seizing, late_ones_are_let_go,
					    grows,
					    all_are_stopped_and_let_go, phases,
					    we_are_urgent_meanwhile, opened_just_after_an_exec,
					    tracers_pass_by, one_thread,
					    job_control_stop_stays, no_signal_is_lost,
					    threads_come_and_go, leaderless,
					    unhandled_signals_fail_no_call,
					    vfork_parent_times_out_unharmed, vfork_parent_lingers,
					    death_is_said,
					    exec_during_a_stop, exec_meets_a_single_seize,
#ifdef HT_FAULTS
					    faults, timer_takes_no_stop, late_ones_are_stopped_after_all,
#endif
					    NULL });
}
