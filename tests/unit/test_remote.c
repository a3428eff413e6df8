/* SPDX-License-Identifier: Apache-2.0
 *
 * Borrowed threads: what they do for us, that they get everything back, and that they do
 * so too when we are killed half-way.
 */
#include <elf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/faults.h"
#include "attach/remote.h"
#include "base/clock.h"

#include "ht_check.h"
#include "ht_snapshot.h"
#include "ht_target.h"

#define STOP_NS (10 * HT_NS_PER_SEC)

static struct ht_test_target t;
static unsigned long fn_labs, fn_strlen, fn_slow, fn_fault, fn_clobber, released;

static const uint64_t no_args[6];

static void start_keeper(void)
{
	ck_ok(ht_test_target_start(&t, "keeper", NULL));
	ck_assert_int_eq(sscanf(t.ready, "READY %lx %lx %lx %lx %lx %lx", &fn_labs, &fn_strlen,
				&fn_slow, &fn_fault, &fn_clobber, &released), 6);
}

static struct ht_target *open_stopped(pid_t pid)
{
	struct ht_target *target = NULL;
	struct ht_err err = { 0 };
	int r = ht_target_open(pid, &target, &err);

	ck_assert_msg(r == 0, "%s", err.text);
	r = ht_target_stop(target, ht_deadline_ns(STOP_NS), &err);
	ck_assert_msg(r == 0, "%s", err.text);
	return target;
}

static struct ht_remote *begin(struct ht_target *target, size_t i)
{
	struct ht_remote *remote = NULL;
	struct ht_err err = { 0 };
	int r = ht_remote_begin(target, i, 0, &remote, &err);

	ck_assert_msg(r == 0, "%s", err.text);
	return remote;
}

static void check(void)
{
	char line[128];

	ck_ok(ht_test_target_ask(&t, "check", line, sizeof(line)));
	ck_assert_msg(!strncmp(line, "ok", 2), "%s", line);
}

static long remote_mmap(struct ht_remote *remote)
{
	const uint64_t args[6] = { 0, 8192, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0 };
	long result = 0;

	ck_ok(ht_remote_syscall(remote, SYS_mmap, args, &result));
	ck_assert(result > 0 || result < -4095);
	return result;
}

/* All threads that can be borrowed, one after the other, several calls each. */
START_TEST(system_calls_from_every_thread)
{
	struct ht_snapshot *before, *after;
	struct ht_buf why = HT_BUF_INIT;
	struct ht_target *target;
	size_t borrowed = 0;
	long result;

	start_keeper();
	ck_ok(ht_snapshot_take(t.pid, &before));
	target = open_stopped(t.pid);
	ck_assert_uint_eq(ht_target_threads(target), 4);
	for (size_t i = 0; i < 4; i++) {
		struct ht_remote *remote;
		ht_addr_t scratch, mapped;
		char word[8];

		if (!ht_target_hijackable(target, i))
			continue;
		borrowed++;
		remote = begin(target, i);
		ck_ok(ht_remote_syscall(remote, SYS_getpid, no_args, &result));
		ck_assert_int_eq(result, t.pid);
		ck_ok(ht_remote_syscall(remote, SYS_gettid, no_args, &result));
		ck_assert_int_eq(result, ht_target_tid(target, i));
		mapped = (ht_addr_t)remote_mmap(remote);
		ck_ok(ht_target_write(target, mapped, "mapped", 7));
		ck_ok(ht_remote_syscall(remote, SYS_munmap, (const uint64_t[6]){ mapped, 8192 },
					&result));
		ck_assert_int_eq(result, 0);
		ck_assert_int_eq(ht_target_read(target, mapped, word, 7), -EFAULT);
		/* The kernel's errors are results. */
		ck_ok(ht_remote_syscall(remote, SYS_close, (const uint64_t[6]){ 1000 },
					&result));
		ck_assert_int_eq(result, -EBADF);
		scratch = ht_remote_scratch(remote, 16);
		ck_assert_uint_ne(scratch, 0);
		ck_assert_uint_eq(scratch % 16, 0);
		ck_assert_uint_ge(ht_remote_scratch(remote, 16), scratch + 16);
		ck_assert_uint_eq(ht_remote_scratch(remote, 1 << 20), 0);
		ck_ok(ht_remote_end(remote));
	}
	/* Not the sleeper: its restart block would be lost. */
	ck_assert_uint_eq(borrowed, 3);
	ht_target_resume(target);
	ht_target_close(target);
	check();
	ck_ok(ht_snapshot_take(t.pid, &after));
	ck_assert_msg(!ht_snapshot_compare(before, after, 0, &why), "%s", why.data);
	ht_snapshot_free(before);
	ht_snapshot_free(after);
	ht_buf_fini(&why);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

START_TEST(again_and_again)
{
	struct ht_target *target;
	long result;

	start_keeper();
	for (int i = 0; i < 100; i++) {
		target = open_stopped(t.pid);
		for (size_t j = 0; j < ht_target_threads(target); j++) {
			struct ht_remote *remote;

			if (!ht_target_hijackable(target, j))
				continue;
			remote = begin(target, j);
			ck_ok(ht_remote_syscall(remote, SYS_getpid, no_args, &result));
			ck_ok(ht_remote_end(remote));
		}
		/* Without a resume: closing has to see to that. */
		ht_target_close(target);
		check();
	}
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

static struct ht_target *stop_main(struct ht_remote **ret_remote)
{
	struct ht_target *target = NULL;
	struct ht_err err = { 0 };
	int r = ht_target_open(t.pid, &target, &err);

	ck_assert_msg(r == 0, "%s", err.text);
	/* Not while it prints its last answer: in read() at the latest. */
	for (;;) {
		r = ht_target_stop_thread(target, t.pid, ht_deadline_ns(STOP_NS), &err);
		ck_assert_msg(r == 0, "%s", err.text);
		if (ht_target_hijackable(target, 0) &&
		    ht_regs_syscall(ht_target_regs(target, 0)) == SYS_read)
			break;
		ht_target_resume(target);
	}
	*ret_remote = begin(target, 0);
	return target;
}

START_TEST(function_calls)
{
	struct ht_remote *remote;
	struct ht_target *target;
	uint64_t deadline, result = 0;
	ht_addr_t text;

	start_keeper();
	target = stop_main(&remote);
	deadline = ht_deadline_ns(STOP_NS);
	ck_ok(ht_remote_call(remote, fn_labs, (const uint64_t[6]){ (uint64_t)-42 }, deadline,
			     &result));
	ck_assert_uint_eq(result, 42);
	text = ht_remote_scratch(remote, 64);
	ck_ok(ht_target_write(target, text, "a string of 22 letters", 23));
	ck_ok(ht_remote_call(remote, fn_strlen, (const uint64_t[6]){ text }, deadline,
			     &result));
	ck_assert_uint_eq(result, 22);
	ck_ok(ht_remote_syscall(remote, SYS_getpid, no_args, (long *)&result));
	ck_assert_uint_eq(result, (uint64_t)t.pid);
	ck_ok(ht_remote_end(remote));
	ht_target_close(target);
	check();
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

/* Not by way of the frame, but by us: a restart block, say, would not survive that. */
START_TEST(registers_are_back_at_the_end)
{
	struct ht_target *target;
	uint64_t result = 0;

	start_keeper();
	target = open_stopped(t.pid);
	for (size_t i = 0; i < ht_target_threads(target); i++) {
		struct ht_regs before = *ht_target_regs(target, i), now;
		struct iovec iov = { &now.raw, sizeof(now.raw) };
		struct ht_remote *remote;

		if (!ht_target_hijackable(target, i))
			continue;
		remote = begin(target, i);
		ck_ok(ht_remote_call(remote, fn_clobber, no_args, ht_deadline_ns(STOP_NS),
				     &result));
		ck_assert_uint_eq(result, 99);
		ck_ok(ht_remote_end(remote));
		ck_assert_int_eq(ptrace(PTRACE_GETREGSET, ht_target_tid(target, i), NT_PRSTATUS,
					&iov), 0);
		ck_assert_mem_eq(&before, &now, sizeof(now));
	}
	ht_target_close(target);
	check();
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

START_TEST(fault_of_a_function_is_ours)
{
	struct ht_remote *remote;
	struct ht_target *target;
	uint64_t result = 0;

	start_keeper();
	target = stop_main(&remote);
	ck_assert_int_eq(ht_remote_call(remote, fn_fault, no_args, ht_deadline_ns(STOP_NS),
					&result), -EFAULT);
	ck_ok(ht_remote_call(remote, fn_labs, (const uint64_t[6]){ 7 },
			     ht_deadline_ns(STOP_NS), &result));
	ck_assert_uint_eq(result, 7);
	ck_ok(ht_remote_end(remote));
	ht_target_close(target);
	check();
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

START_TEST(call_that_takes_too_long_is_left)
{
	struct ht_remote *remote;
	struct ht_target *target;
	uint64_t result = 0;
	char line[64];

	start_keeper();
	target = stop_main(&remote);
	ck_assert_int_eq(ht_remote_call(remote, fn_slow, no_args,
					ht_deadline_ns(20 * HT_NS_PER_MS), &result), -ETIMEDOUT);
	ck_assert_int_eq(ht_remote_syscall(remote, SYS_getpid, no_args, (long *)&result),
			 -ESRCH);
	ck_ok(ht_remote_end(remote));
	ht_target_close(target);
	/* Main is in slow() yet; nobody else lets it go. */
	ck_ok(ht_test_target_send(&t, "check"));
	target = open_stopped(t.pid);
	for (size_t i = 0; i < ht_target_threads(target); i++) {
		const struct ht_regs *regs = ht_target_regs(target, i);
		uint64_t one = 1;

		if (ht_target_tid(target, i) != t.pid)
			continue;
		ck_assert_uint_ne(ht_regs_pc(regs), 0);
		ck_ok(ht_target_write(target, released, &one, 4));
	}
	ht_target_close(target);
	ck_ok(ht_test_target_read(&t, line, sizeof(line)));
	ck_assert_msg(!strncmp(line, "ok", 2), "%s", line);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

START_TEST(signals_wait)
{
	struct ht_remote *remote = NULL;
	struct ht_target *target = NULL;
	char line[32], want[32];
	int sent = 0;
	long result;

	ck_ok(ht_test_target_start(&t, "counter", NULL));
	for (int i = 0; i < 50; i++) {
		target = open_stopped(t.pid);
		if (!ht_target_hijackable(target, 0)) {
			ht_target_close(target);
			continue;
		}
		remote = begin(target, 0);
		ck_assert_int_eq(sigqueue(t.pid, SIGRTMIN,
					  (union sigval){ .sival_int = sent++ }), 0);
		ck_ok(ht_remote_syscall(remote, SYS_getpid, no_args, &result));
		ck_assert_int_eq(sigqueue(t.pid, SIGRTMIN,
					  (union sigval){ .sival_int = sent++ }), 0);
		/* Can't be held back, must stay. */
		if (i == 10) {
			ck_assert_int_eq(kill(t.pid, SIGSTOP), 0);
			ck_ok(ht_remote_syscall(remote, SYS_getpid, no_args, &result));
			ck_assert_int_eq(result, t.pid);
			ck_assert_int_eq(kill(t.pid, SIGCONT), 0);
		}
		ck_ok(ht_remote_end(remote));
		ht_target_close(target);
	}
	snprintf(want, sizeof(want), "%d", sent);
	ck_assert_int_gt(sent, 20);
	ck_ok(ht_test_target_ask(&t, "count", line, sizeof(line)));
	ck_assert_str_eq(line, want);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

static char state_of(pid_t pid)
{
	char path[64], text[512] = "", *p;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(text, sizeof(text), f));
	fclose(f);
	p = strrchr(text, ')');
	return p[2];
}

START_TEST(in_a_job_control_stop)
{
	struct ht_remote *remote;
	struct ht_target *target;
	char line[32];
	long result;

	ck_ok(ht_test_target_start(&t, "counter", NULL));
	ck_assert_int_eq(kill(t.pid, SIGSTOP), 0);
	while (state_of(t.pid) != 'T')
		sched_yield();
	target = open_stopped(t.pid);
	remote = begin(target, 0);
	ck_ok(ht_remote_syscall(remote, SYS_getpid, no_args, &result));
	ck_assert_int_eq(result, t.pid);
	ck_ok(ht_remote_end(remote));
	ht_target_close(target);
	while (state_of(t.pid) != 'T')
		sched_yield();
	ck_assert_int_eq(kill(t.pid, SIGCONT), 0);
	ck_ok(ht_test_target_ask(&t, "count", line, sizeof(line)));
	ck_assert_str_eq(line, "0");
	/* One that comes in the middle takes effect at the end. */
	target = open_stopped(t.pid);
	remote = begin(target, 0);
	ck_assert_int_eq(kill(t.pid, SIGSTOP), 0);
	ck_ok(ht_remote_syscall(remote, SYS_getpid, no_args, &result));
	ck_assert_int_eq(result, t.pid);
	ck_ok(ht_remote_end(remote));
	ht_target_close(target);
	while (state_of(t.pid) != 'T')
		sched_yield();
	ck_assert_int_eq(kill(t.pid, SIGCONT), 0);
	ck_ok(ht_test_target_ask(&t, "count", line, sizeof(line)));
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

START_TEST(target_dies_meanwhile)
{
	struct ht_remote *remote;
	struct ht_target *target;
	uint64_t result;

	start_keeper();
	target = stop_main(&remote);
	ck_assert_int_eq(kill(t.pid, SIGKILL), 0);
	ck_assert_int_eq(ht_remote_syscall(remote, SYS_getpid, no_args, (long *)&result),
			 -ESRCH);
	ck_assert_int_eq(ht_remote_call(remote, fn_labs, no_args, ht_deadline_ns(STOP_NS),
					&result), -ESRCH);
	ck_assert_int_eq(ht_remote_end(remote), -ESRCH);
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

static void pause_on(int sig)
{
	for (;;)
		pause();
}

/* Started by @prepare; stopped in its pause(). */
static struct ht_target *stop_pausing(void (*prepare)(void), pid_t *ret_pid)
{
	struct ht_target *target;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prepare();
		pause_on(0);
	}
	for (;;) {
		target = open_stopped(pid);
		if (ht_regs_syscall(ht_target_regs(target, 0)) == SYS_pause)
			break;
		ht_target_close(target);
	}
	*ret_pid = pid;
	return target;
}

static void end_pausing(struct ht_target *target, pid_t pid)
{
	ht_target_close(target);
	ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void borrow_pausing(struct ht_target *target, pid_t pid)
{
	struct ht_remote *remote = begin(target, 0);
	long result;

	ck_ok(ht_remote_syscall(remote, SYS_getpid, no_args, &result));
	ck_assert_int_eq(result, pid);
	ck_ok(ht_remote_end(remote));
}

static void use_alternate_stack(void)
{
	/* As coroutines have it: other data of the heap is right below. */
	static char heap[3 * 65536];
	stack_t stack = { .ss_sp = heap + 65536, .ss_size = 65536 };
	struct sigaction act = { .sa_handler = pause_on, .sa_flags = SA_ONSTACK };

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &act, NULL);
	raise(SIGUSR1);
}

START_TEST(only_real_stacks_are_written_to)
{
	struct ht_remote *remote = NULL;
	struct ht_err err = { 0 };
	pid_t pid;
	struct ht_target *target = stop_pausing(use_alternate_stack, &pid);

	ck_assert(!ht_target_hijackable(target, 0));
	ck_assert_int_eq(ht_remote_begin(target, 0, 0, &remote, &err), -EAGAIN);
	ck_assert_ptr_null(remote);
	end_pausing(target, pid);
}
END_TEST

static void allow_no_more_memory(void)
{
	struct rlimit limit = { 4096, 4096 };

	setrlimit(RLIMIT_AS, &limit);
}

START_TEST(mapping_that_fails_leaves_nothing)
{
	struct ht_snapshot *before, *after;
	struct ht_remote *remote = NULL;
	struct ht_buf why = HT_BUF_INIT;
	struct ht_err err = { 0 };
	pid_t pid;
	struct ht_target *target = stop_pausing(allow_no_more_memory, &pid);

	ht_target_resume(target);
	ck_ok(ht_snapshot_take(pid, &before));
	ck_ok(ht_target_stop(target, ht_deadline_ns(STOP_NS), &err));
	ck_assert_int_eq(ht_remote_begin(target, 0, 0, &remote, &err), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(err.text, "Cannot allocate memory"));
	ht_target_resume(target);
	ck_ok(ht_snapshot_take(pid, &after));
	ck_assert_msg(!ht_snapshot_compare(before, after, 0, &why), "%s", why.data);
	ht_snapshot_free(before);
	ht_snapshot_free(after);
	ht_buf_fini(&why);
	end_pausing(target, pid);
}
END_TEST

static void as_it_is(void)
{
}

/* Until there is room for a stack. */
START_TEST(what_takes_the_room_goes_without_one)
{
	struct ht_remote *remote = NULL;
	struct ht_err err = { 0 };
	struct rlimit limit;
	ht_addr_t page;
	pid_t pid;
	struct ht_target *target = stop_pausing(as_it_is, &pid);

	remote = begin(target, 0);
	page = (ht_addr_t)remote_mmap(remote);
	ck_ok(ht_remote_end(remote));
	ck_ok(prlimit(pid, RLIMIT_AS, NULL, &limit));
	limit.rlim_cur = 4096;
	ck_ok(prlimit(pid, RLIMIT_AS, &limit, NULL));
	ck_assert_int_eq(ht_remote_begin(target, 0, 0, &remote, &err), -ENOMEM);
	ck_ok(ht_remote_unmap(target, 0, page, 8192, &err));
	ck_assert_int_lt(ht_target_read(target, page, &limit, sizeof(limit)), 0);
	end_pausing(target, pid);
}
END_TEST

/* Only what a pausing program needs; anything else kills it. */
static void allow_nothing_else(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pause, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_SIZE(filter), filter };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

START_TEST(under_a_seccomp_filter)
{
	struct ht_remote *remote = NULL;
	struct ht_err err = { 0 };
	pid_t pid;
	struct ht_target *target = stop_pausing(allow_nothing_else, &pid);
	int r = ht_remote_begin(target, 0, 0, &remote, &err);

	/* Suspended, or refused: never tried. */
	if (r < 0) {
		ck_assert_int_eq(r, -EPERM);
		ck_assert_ptr_nonnull(strstr(err.text, "seccomp"));
	} else {
		ck_ok(ht_remote_end(remote));
		borrow_pausing(target, pid);
	}
	end_pausing(target, pid);
}
END_TEST

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

static void gain_no_execution(void)
{
	prctl(PR_SET_MDWE, 1, 0, 0, 0);
}

START_TEST(under_mdwe)
{
	pid_t pid;
	struct ht_target *target = stop_pausing(gain_no_execution, &pid);

	borrow_pausing(target, pid);
	end_pausing(target, pid);
}
END_TEST

static void nothing_special(void)
{
}

static void catch_urgent(void)
{
	signal(SIGURG, pause_on);
}

static void catch_all(void)
{
	signal(SIGURG, pause_on);
	signal(SIGWINCH, pause_on);
}

static void block_both(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGURG);
}

/* More than go at once; up to the first that fails. */
static void make_many(struct ht_remote *remote, pid_t pid)
{
	struct ht_syscall calls[40];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(calls); i++)
		calls[i] = (struct ht_syscall){ .nr = i % 2 ? SYS_getpid : SYS_gettid,
						.expect = i % 3 ? 0 : (uint64_t)pid };
	ck_ok(ht_remote_calls(remote, calls, ARRAY_SIZE(calls)));
	for (i = 0; i < ARRAY_SIZE(calls); i++)
		ck_assert_int_eq(calls[i].result, pid);
	calls[20] = (struct ht_syscall){ .nr = SYS_close, .args = { 1000 } };
	ck_ok(ht_remote_calls(remote, calls, ARRAY_SIZE(calls)));
	calls[19].expect = 1;
	ck_assert_int_eq(calls[19].result, pid);
	ck_assert_int_eq(calls[20].result, -EBADF);
	for (i = 21; i < ARRAY_SIZE(calls); i++)
		ck_assert_int_eq(calls[i].result, HT_SYSCALL_NOT_MADE);
	ck_ok(ht_remote_calls(remote, calls, ARRAY_SIZE(calls)));
	ck_assert_int_eq(calls[19].result, pid);
	ck_assert_int_eq(calls[20].result, HT_SYSCALL_NOT_MADE);
	ck_ok(ht_remote_calls(remote, calls, 0));
}

START_TEST(many_calls)
{
	static void (*const prepare[])(void) = { nothing_special, catch_urgent, catch_all,
						 block_both };
	struct ht_snapshot *before, *after;
	struct ht_buf why = HT_BUF_INIT;
	pid_t pid;

	for (size_t i = 0; i < ARRAY_SIZE(prepare); i++) {
		struct ht_target *target = stop_pausing(prepare[i], &pid);
		struct ht_remote *remote;

		ht_target_resume(target);
		ck_ok(ht_snapshot_take(pid, &before));
		ck_ok(ht_target_stop(target, ht_deadline_ns(STOP_NS), NULL));
		remote = begin(target, 0);
		make_many(remote, pid);
		/* Meant for the program, and of no effect but where it's caught. */
		kill(pid, SIGWINCH);
		make_many(remote, pid);
		ck_ok(ht_remote_end(remote));
		ht_target_resume(target);
		ck_ok(ht_snapshot_take(pid, &after));
		if (prepare[i] != catch_all && prepare[i] != block_both)
			ck_assert_msg(!ht_snapshot_compare(before, after, 0, &why), "%zu: %s", i,
				      why.data);
		ht_snapshot_free(before);
		ht_snapshot_free(after);
		end_pausing(target, pid);
	}
	ht_buf_fini(&why);
}
END_TEST

#ifdef HT_FAULTS
/* The short way is taken where it can be, and only there. */
START_TEST(one_stop_where_a_signal_is_free)
{
	pid_t pid;
	struct ht_target *target = stop_pausing(catch_all, &pid);
	struct ht_remote *remote;
	long result;

	setenv("HEAPTAP_FAULT", "remote.calls:5@4", 1);
	borrow_pausing(target, pid);
	borrow_pausing(target, pid);
	end_pausing(target, pid);
	target = stop_pausing(catch_urgent, &pid);
	borrow_pausing(target, pid);
	remote = begin(target, 0);
	ck_assert_int_eq(ht_remote_syscall(remote, SYS_getpid, no_args, &result), -5);
	ck_ok(ht_remote_end(remote));
	borrow_pausing(target, pid);
	end_pausing(target, pid);
}
END_TEST

static size_t count_hijackable(const struct ht_target *target)
{
	size_t n = 0;

	for (size_t i = 0; i < ht_target_threads(target); i++)
		n += ht_target_hijackable(target, i);
	return n;
}

/* What another heaptap does with the main thread, until it dies or fails at a point. */
static void use_target(pid_t pid)
{
	struct ht_target *target = NULL;
	struct ht_remote *remote = NULL;
	uint64_t value;
	long result;

	if (ht_target_open(pid, &target, NULL) < 0)
		_exit(2);
	for (;;) {
		if (ht_target_stop(target, ht_deadline_ns(STOP_NS), NULL) < 0)
			_exit(1);
		if (count_hijackable(target) == 3)
			break;
		ht_target_resume(target);
	}
	/* The main thread in read(), the waiter in epoll_wait(), the spinner. */
	for (size_t i = 0; i < ht_target_threads(target); i++) {
		if (!ht_target_hijackable(target, i))
			continue;
		if (ht_remote_begin(target, i, 0, &remote, NULL) < 0)
			continue;
		if (ht_remote_syscall(remote, SYS_getpid, no_args, &result) == 0)
			(void)!ht_remote_call(remote, fn_clobber, no_args,
					      ht_deadline_ns(STOP_NS), &value);
		/* A close that failed for a passing reason is tried once more. */
		if (ht_remote_open(remote, SYS_epoll_create1, no_args, &result) == 0 &&
		    ht_remote_close_fds(remote) < 0)
			(void)!ht_remote_close_fds(remote);
		(void)ht_remote_end(remote);
	}
	ht_target_close(target);
	_exit(0);
}

static int run_faulty(pid_t pid, const char *fault)
{
	int status = 0;
	pid_t tool = fork();

	ck_assert_int_ge(tool, 0);
	if (tool == 0) {
		setenv("HEAPTAP_FAULT", fault, 1);
		use_target(pid);
	}
	ck_assert_int_eq(waitpid(tool, &status, 0), tool);
	return status;
}

static void sweep(const char *const *points, const char *const *ways, int *fired)
{
	char fault[64], line[64];

	for (; *points; points++) {
		for (const char *const *way = ways; *way; way++) {
			int status;

			snprintf(fault, sizeof(fault), "%s:%s", *points, *way);
			status = run_faulty(t.pid, fault);
			*fired += WIFSIGNALED(status);
			ck_assert_msg(!WIFSIGNALED(status) || WTERMSIG(status) == SIGKILL,
				      "%s: %#x", fault, status);
			ck_ok(ht_test_target_ask(&t, "check", line, sizeof(line)));
			ck_assert_msg(!strncmp(line, "ok", 2), "%s: %s", fault, line);
		}
	}
}

/* Killed at each point, with each of the threads in hand. */
START_TEST(heals_when_we_are_killed)
{
	static const char *const ways[] = { "kill@1", "kill@2", "kill@3", "kill@8", NULL };
	int fired = 0;

	start_keeper();
	sweep(ht_remote_faults, ways, &fired);
	sweep(ht_remote_call_faults, ways, &fired);
	ck_assert_int_ge(fired, 60);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

static int begin_anywhere(pid_t pid, struct ht_err *err)
{
	struct ht_target *target = open_stopped(pid);
	struct ht_remote *remote = NULL;
	size_t i = 0;

	while (!ht_target_hijackable(target, i))
		i++;
	return ht_remote_begin(target, i, 0, &remote, err);
}

/* More registers than there is room for (errno 7), as with AMX and what comes after it. */
START_TEST(refuses_what_it_cant_save)
{
	pid_t tool;
	int status;

	start_keeper();
	tool = fork();
	ck_assert_int_ge(tool, 0);
	if (tool == 0) {
		struct ht_err err = { 0 };

		setenv("HEAPTAP_FAULT", "remote.save:7", 1);
		_exit(begin_anywhere(t.pid, &err) != -E2BIG ||
		      err.kind != HT_ERR_UNSUPPORTED || !strstr(err.text, "more registers"));
	}
	ck_assert_int_eq(waitpid(tool, &status, 0), tool);
	ck_assert_int_eq(status, 0);
	check();
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

START_TEST(nothing_stays_when_a_step_fails)
{
	static const char *const ways[] = { "12@1", "12@2", "12@3", "12@8", NULL };
	struct ht_snapshot *before, *after;
	struct ht_buf why = HT_BUF_INIT;
	int fired = 0;

	start_keeper();
	ck_ok(ht_snapshot_take(t.pid, &before));
	sweep(ht_remote_faults, ways, &fired);
	sweep(ht_remote_call_faults, ways, &fired);
	ck_ok(ht_snapshot_take(t.pid, &after));
	ck_assert_msg(!ht_snapshot_compare(before, after, 0, &why), "%s", why.data);
	ht_snapshot_free(before);
	ht_snapshot_free(after);
	ht_buf_fini(&why);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST
#endif

int main(void)
{
	return ht_check_run("remote", (const TTest *const[]){
					      system_calls_from_every_thread, again_and_again,
					      function_calls, registers_are_back_at_the_end,
					      fault_of_a_function_is_ours,
					      call_that_takes_too_long_is_left, signals_wait,
					      in_a_job_control_stop, target_dies_meanwhile,
					      many_calls, under_mdwe, only_real_stacks_are_written_to,
					      mapping_that_fails_leaves_nothing,
					      what_takes_the_room_goes_without_one,
					      under_a_seccomp_filter,
#ifdef HT_FAULTS
					      one_stop_where_a_signal_is_free,
					      heals_when_we_are_killed,
					      refuses_what_it_cant_save,
					      nothing_stays_when_a_step_fails,
#endif
					      NULL });
}
