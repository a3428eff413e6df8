/* SPDX-License-Identifier: Apache-2.0
 *
 * test_attach_thread.c: one thread under ptrace, and the records of threads.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/remote.h"
#include "base/clock.h"
#include "fake_proc.h"
#include "ht_check.h"

#define STOP_NS (10 * HT_NS_PER_SEC)

static struct ht_target target;
static struct ht_thread threads[4];
static pid_t lingering[4];

/* A target of which only the records count. */
static void init(void)
{
	memset(&target, 0, sizeof(target));
	memset(threads, 0x55, sizeof(threads));
	target.threads = threads;
	target.lingering = lingering;
	target.cap_threads = target.cap_lingering = ARRAY_SIZE(threads);
}

static pid_t start_child(void)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		for (;;)
			pause();
	}
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static struct ht_event await(pid_t tid)
{
	const uint64_t deadline = ht_deadline_ns(10 * HT_NS_PER_SEC);
	struct ht_event event = { HT_EVENT_NONE, 0 };
	int r;

	while ((r = ht_thread_poll(&target, tid, &event)) == 0 && !ht_deadline_passed(deadline))
		ht_thread_doze(deadline);
	ck_assert_int_eq(r, 1);
	return event;
}

/* ---- records ---- */

START_TEST(records_have_room_or_not)
{
	struct ht_thread *t;
	pid_t tid;

	init();
	for (tid = 1; tid <= 4; tid++) {
		t = ht_thread_add(&target, tid);
		ck_assert_ptr_eq(t, &threads[tid - 1]);
		ck_assert_int_eq(t->state, HT_THREAD_SEIZED);
		ck_assert(!t->group_stop && !t->foreign);
	}
	ck_assert_ptr_null(ht_thread_add(&target, 5));
	ck_assert_uint_eq(target.n_threads, 4);
	ck_assert_ptr_eq(ht_thread_find(&target, 3), &threads[2]);
	ck_assert_ptr_null(ht_thread_find(&target, 5));
	/* The number of one that is gone may be another's by now. */
	threads[2].state = HT_THREAD_GONE;
	ck_assert_ptr_null(ht_thread_find(&target, 3));
	threads[3].tid = 3;
	ck_assert_ptr_eq(ht_thread_find(&target, 3), &threads[3]);
}
END_TEST

START_TEST(lingering_ones_are_listed_once)
{
	pid_t tid;

	init();
	ht_thread_linger(&target, 1);
	ht_thread_linger(&target, 1);
	ck_assert_uint_eq(target.n_lingering, 1);
	for (tid = 2; tid < 9; tid++)
		ht_thread_linger(&target, tid);
	ck_assert_uint_eq(target.n_lingering, 4);
	ck_assert_int_eq(lingering[3], 4);
}
END_TEST

START_TEST(events_change_states)
{
	struct ht_thread *t;

	/* The thread is nobody's: what is asked of it is answered by "gone". */
	init();
	t = ht_thread_add(&target, getpid());
	ck_ok(ht_thread_take_event(&target, t, (struct ht_event){ HT_EVENT_NONE, 0 }));
	ck_assert_int_eq(t->state, HT_THREAD_SEIZED);
	ck_ok(ht_thread_take_event(&target, t, (struct ht_event){ HT_EVENT_SIGNAL, SIGUSR1 }));
	ck_assert_int_eq(t->state, HT_THREAD_SEIZED);
	/* Killed before its registers could be read: its end comes next. */
	ck_ok(ht_thread_take_event(&target, t, (struct ht_event){ HT_EVENT_STOP, SIGTRAP }));
	ck_assert_int_eq(t->state, HT_THREAD_SEIZED);
	ck_ok(ht_thread_take_event(&target, t, (struct ht_event){ HT_EVENT_CLONE, 0 }));
	ck_assert_uint_eq(target.n_threads, 1);
	ck_assert_int_eq(ht_thread_take_event(&target, t, (struct ht_event){ HT_EVENT_EXEC, 0 }),
			 -EXDEV);
	ck_assert_int_eq(t->state, HT_THREAD_STOPPED);
	ck_ok(ht_thread_take_event(&target, t, (struct ht_event){ HT_EVENT_KILLED, SIGKILL }));
	ck_assert_int_eq(t->state, HT_THREAD_GONE);
}
END_TEST

/* ---- the kernel's side ---- */

START_TEST(seized_stopped_and_let_go)
{
	struct ht_regs regs, again;
	struct ht_thread *t;
	struct ht_event event;
	pid_t pid;

	init();
	pid = start_child();
	t = ht_thread_add(&target, pid);
	ck_ok(ht_thread_seize(&target, pid));
	ck_assert_int_eq(ht_thread_seize(&target, pid), -EPERM);
	/* It runs: no registers. */
	ck_assert_int_eq(ht_thread_get_regs(pid, &regs), -ESRCH);
	ck_ok(ht_thread_interrupt(pid));
	event = await(pid);
	ck_assert_int_eq(event.kind, HT_EVENT_STOP);
	ck_ok(ht_thread_take_event(&target, t, event));
	ck_assert_int_eq(t->state, HT_THREAD_STOPPED);
	ck_ok(ht_thread_get_regs(pid, &regs));
	regs.raw.r12 ^= 0x1234;
	ck_ok(ht_thread_set_regs(pid, &regs));
	ck_ok(ht_thread_get_regs(pid, &again));
	ck_assert_uint_eq(again.raw.r12, regs.raw.r12);
	ht_thread_detach(&target, t, 0);
	ck_assert_int_eq(t->state, HT_THREAD_GONE);
	ck_assert_uint_eq(target.n_lingering, 0);
	ck_assert_int_eq(ht_thread_get_regs(pid, &regs), -ESRCH);
	end_child(pid);
}
END_TEST

START_TEST(one_that_is_gone)
{
	struct ht_event event;
	struct ht_regs regs;
	pid_t pid;

	init();
	pid = start_child();
	end_child(pid);
	ck_assert_int_eq(ht_thread_seize(&target, pid), -ESRCH);
	ck_assert_int_eq(ht_thread_interrupt(pid), -ESRCH);
	ck_assert_int_eq(ht_thread_get_regs(pid, &regs), -ESRCH);
	memset(&regs, 0, sizeof(regs));
	ck_assert_int_eq(ht_thread_set_regs(pid, &regs), -ESRCH);
	ck_assert_int_eq(ht_thread_poll(&target, pid, &event), -ECHILD);
}
END_TEST

/* Killed while it was stopped: somebody must reap it, and only we can. */
START_TEST(detached_too_late)
{
	struct ht_thread *t;
	pid_t pid;

	init();
	pid = start_child();
	t = ht_thread_add(&target, pid);
	ck_ok(ht_thread_seize(&target, pid));
	ck_ok(ht_thread_interrupt(pid));
	ck_ok(ht_thread_take_event(&target, t, await(pid)));
	kill(pid, SIGKILL);
	ht_thread_detach(&target, t, 0);
	ck_assert_int_eq(t->state, HT_THREAD_GONE);
	/* Its end may have been seen by the detach already. */
	if (target.n_lingering)
		ck_assert_int_eq(await(pid).kind, HT_EVENT_KILLED);
	ck_assert_int_eq(waitpid(pid, NULL, __WALL | WNOHANG), -1);
}
END_TEST

START_TEST(exit_of_a_launched_target_is_noted)
{
	int launched;
	pid_t pid;

	for (launched = 0; launched < 2; launched++) {
		init();
		pid = fork();
		if (pid == 0)
			_exit(3);
		target.pid = pid;
		target.is_child = launched;
		ck_assert_int_eq(await(pid).kind, HT_EVENT_EXITED);
		ck_assert_int_eq(target.is_reaped, launched);
		ck_assert_int_eq(target.wait_status, launched ? 3 << 8 : 0);
	}
}
END_TEST

/* A signal that stops it on the way goes on with it. */
START_TEST(signals_are_passed_on)
{
	struct ht_event event;
	struct ht_thread *t;
	pid_t pid;

	init();
	pid = start_child();
	t = ht_thread_add(&target, pid);
	ck_ok(ht_thread_seize(&target, pid));
	kill(pid, SIGUSR1);
	event = await(pid);
	ck_assert_int_eq(event.kind, HT_EVENT_SIGNAL);
	ck_assert_int_eq(event.value, SIGUSR1);
	ck_ok(ht_thread_take_event(&target, t, event));
	do {
		event = await(pid);
		if (event.kind == HT_EVENT_STOP)
			ht_thread_cont_to_stop(pid, 0);
	} while (event.kind == HT_EVENT_STOP);
	ck_assert_int_eq(event.kind, HT_EVENT_KILLED);
	ck_assert_int_eq(event.value, SIGUSR1);
}
END_TEST

/* News that came before the sleep end it, and are taken. */
START_TEST(sleep_ends_with_news)
{
	sigset_t old, pending;

	ht_sigchld_block(&old);
	raise(SIGCHLD);
	ht_thread_doze(0);
	sigpending(&pending);
	ck_assert(!sigismember(&pending, SIGCHLD));
	/* So does a deadline in the past. */
	ht_thread_doze(1);
	ht_sigchld_restore(&old);
	pthread_sigmask(SIG_BLOCK, NULL, &pending);
	ck_assert(!sigismember(&pending, SIGCHLD));
}
END_TEST

/* ---- words for people ---- */

static void check_wait(const char *want, const char *wchan, const char *call)
{
	struct fake_proc fake;
	char text[128];

	fake_proc_start(&fake);
	if (wchan)
		fake_proc_text(&fake, "7/wchan", wchan);
	if (call)
		fake_proc_text(&fake, "7/syscall", call);
	ht_thread_describe_wait(&fake.target, 7, text, sizeof(text));
	ck_assert_str_eq(text, want);
	ht_thread_describe_wait(&fake.target, 7, text, 10);
	ck_assert_uint_eq(strlen(text), 9);
	fake_proc_stop(&fake);
}

START_TEST(waits_are_described)
{
	check_wait("thread 7 waits in do_sys_poll (system call 7)", "do_sys_poll",
		   "7 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8\n");
	check_wait("thread 7 waits in nfs_wait", "nfs_wait", "running\n");
	check_wait("thread 7 waits in nfs_wait", "nfs_wait", NULL);
	/* "0": the kernel doesn't say. */
	check_wait("thread 7 waits in system call 0", "0", "0 0x1\n");
	check_wait("thread 7 doesn't respond", "0", "-1 0x7f 0x8\n");
	check_wait("thread 7 doesn't respond", NULL, NULL);
}
END_TEST

/* What threads of the target find that go on calling what their filter answers. */
static struct {
	volatile unsigned long calls, past;
} *filtered;

static void *call_on(void *arg)
{
	for (;;) {
		errno = 0;
		filtered->past += syscall(SYS_getppid) != -1 || errno != EXFULL;
		filtered->calls++;
	}
	return arg;
}

static _Noreturn void call_under_a_filter(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXFULL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_SIZE(filter), filter };
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
	for (int i = 0; i < 2; i++)
		pthread_create(&thread, NULL, call_on, NULL);
	for (;;)
		pause();
}

/* If we may. */
static void call_there(struct ht_target *filtering)
{
	struct ht_remote *remote = NULL;
	struct ht_err err = { 0 };
	size_t i = 0;
	long result;
	int r;

	while (!ht_target_hijackable_waiting(filtering, i))
		i++;
	r = ht_remote_begin(filtering, i, 0, &remote, &err);
	ck_assert_msg(r == 0 || r == -EPERM, "%s", err.text);
	if (r < 0)
		return;
	ck_ok(ht_remote_syscall(remote, SYS_getppid, (const uint64_t[6]){ 0 }, &result));
	ck_assert_int_eq(result, getpid());
	ck_ok(ht_remote_end(remote));
}

/* But for the calls that we make there. */
START_TEST(filters_hold_all_the_time)
{
	struct ht_target *filtering = NULL;
	pid_t pid;

	filtered = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = fork();
	if (pid == 0)
		call_under_a_filter();
	ck_ok(ht_target_open(pid, &filtering, NULL));
	for (int i = 0; i < 200; i++) {
		unsigned long calls = filtered->calls;

		while (filtered->calls < calls + 10)
			sched_yield();
		ck_ok(ht_target_stop(filtering, ht_deadline_ns(STOP_NS), NULL));
		call_there(filtering);
		ht_target_resume(filtering);
	}
	ck_assert_uint_eq(filtered->past, 0);
	ht_target_close(filtering);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
END_TEST

int main(void)
{
	return ht_check_run("attach_thread", (const TTest *const[]){
		records_have_room_or_not, lingering_ones_are_listed_once,
		events_change_states, seized_stopped_and_let_go, one_that_is_gone,
		detached_too_late, exit_of_a_launched_target_is_noted,
		signals_are_passed_on, filters_hold_all_the_time, sleep_ends_with_news, waits_are_described, NULL });
}
