/* SPDX-License-Identifier: Apache-2.0
 *
 * test_remote-run.c: a borrowed thread between two stops. Here it is borrowed without more
 * ado than a stop; what it does is its own.
 */
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/attach-priv.h"
#include "attach/remote.h"
#include "base/clock.h"
#include "ht_check.h"

#define STOP_NS (10 * HT_NS_PER_SEC)

/* What the child and the test share. */
static struct shared {
	volatile int go;
	volatile long calls;
	volatile int handled;
} *shared;
static pid_t child;
static struct ht_target *target;
static struct ht_remote *remote;

static void spin_until_told(void)
{
	while (!shared->go)
		;
}

static void call_for_ever(void)
{
	for (;;) {
		syscall(SYS_getppid);
		shared->calls++;
	}
}

static void fault(void)
{
	spin_until_told();
	__asm__ volatile("ud2");
}

static void run_another(void)
{
	spin_until_told();
	execl("/bin/true", "true", NULL);
}

static void exit_when_told(void)
{
	spin_until_told();
	_exit(5);
}

static void on_signal(int sig)
{
	(void)sig;
	shared->handled++;
}

static void handle_signals(void)
{
	signal(SIGUSR1, on_signal);
	shared->calls = 1;
	spin_until_told();
	call_for_ever();
}

/* A child that does @what, stopped, borrowed. */
static void start(void (*what)(void))
{
	struct ht_err err = { 0 };

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(shared != MAP_FAILED);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		shared->handled = -1;
		while (shared->handled != 0)
			;
		what();
		_exit(0);
	}
	while (shared->handled != -1)
		sched_yield();
	ck_assert_msg(!ht_target_open(child, &target, &err), "%s", err.text);
	shared->handled = 0;
	if (what == handle_signals)
		while (!shared->calls)
			sched_yield();
	ck_assert_msg(!ht_target_stop(target, ht_deadline_ns(STOP_NS), &err), "%s", err.text);
	remote = &target->remote;
	remote->target = target;
	remote->thread = 0;
	ck_assert_int_eq(ht_remote_tid(remote), child);
}

static void end(void)
{
	target = ht_target_close(target);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	munmap(shared, 4096);
}

static int next_stop(bool *entry, struct ht_regs *regs)
{
	return ht_remote_to_syscall_stop(remote, ht_deadline_ns(STOP_NS), entry, regs);
}

static long number(const struct ht_regs *regs)
{
	return (long)regs->raw.orig_rax;
}

START_TEST(entry_and_exit_in_turn)
{
	struct ht_regs regs;
	bool entry, was;
	int i;

	start(call_for_ever);
	ck_ok(next_stop(&was, &regs));
	for (i = 0; i < 10; i++) {
		ck_ok(next_stop(&entry, &regs));
		ck_assert_int_eq(entry, !was);
		ck_assert_int_eq(number(&regs), SYS_getppid);
		if (!entry)
			ck_assert_int_eq((pid_t)regs.raw.rax, getpid());
		was = entry;
	}
	end();
}
END_TEST

/* Parked at the entry of a call, which is not made: the kernel gives it an error. */
START_TEST(parking_cancels_a_call)
{
	struct ht_regs at, parked, regs;
	bool entry;

	start(call_for_ever);
	do
		ck_ok(next_stop(&entry, &at));
	while (!entry);
	ck_ok(ht_remote_park(remote));
	ck_ok(ht_thread_get_regs(child, &parked));
	ck_assert_uint_eq(parked.raw.rip, at.raw.rip);
	ck_assert_int_eq((int)parked.raw.rax, -ENOSYS);
	/* Again, from a stop of its own kind, without an instruction. */
	ck_ok(ht_remote_park(remote));
	ck_ok(ht_thread_get_regs(child, &regs));
	ck_assert_mem_eq(&regs.raw, &parked.raw, sizeof(regs.raw));
	/* At an exit there is nothing to cancel. */
	do
		ck_ok(next_stop(&entry, &at));
	while (entry);
	ck_ok(ht_remote_park(remote));
	ck_ok(ht_thread_get_regs(child, &parked));
	ck_assert_int_eq((pid_t)parked.raw.rax, getpid());
	ck_assert_uint_eq(parked.raw.rip, at.raw.rip);
	end();
}
END_TEST

static void check_running(void)
{
	long calls = shared->calls;

	shared->go = 1;
	while (shared->calls == calls)
		sched_yield();
}

/* No call comes: the thread is let go where it is, and goes on. */
START_TEST(abandoned_when_late)
{
	struct ht_regs regs;
	bool entry;

	start(handle_signals);
	ck_assert_int_eq(ht_remote_to_syscall_stop(remote, 1, &entry, &regs), -ETIMEDOUT);
	ht_remote_abandon(remote);
	ck_assert_int_eq(target->threads[0].state, HT_THREAD_GONE);
	ck_assert_uint_eq(ht_target_settle(target), 0);
	check_running();
	end();
}
END_TEST

START_TEST(faults_of_its_own)
{
	struct ht_regs regs;
	bool entry;

	start(fault);
	shared->go = 1;
	ck_assert_int_eq(next_stop(&entry, &regs), -EFAULT);
	/* The signal is dropped: it stands at the fault, and would raise it again. */
	ck_ok(ht_remote_park(remote));
	ck_ok(ht_thread_get_regs(child, &regs));
	ck_assert_int_eq(next_stop(&entry, &regs), -EFAULT);
	end();
}
END_TEST

/* Signals from others run no handler on our stack; they come at the end. */
START_TEST(signals_are_put_off)
{
	struct ht_regs regs;
	bool entry;

	start(handle_signals);
	shared->go = 1;
	kill(child, SIGUSR1);
	kill(child, SIGSEGV);
	ck_ok(next_stop(&entry, &regs));
	ck_assert_int_eq(shared->handled, 0);
	ck_assert_uint_eq(remote->deferred,
			  UINT64_C(1) << (SIGUSR1 - 1) | UINT64_C(1) << (SIGSEGV - 1));
	end();
}
END_TEST

START_TEST(ends_and_execs)
{
	struct ht_regs regs;
	bool entry;

	start(exit_when_told);
	shared->go = 1;
	do
		ck_ok(next_stop(&entry, &regs));
	while (number(&regs) != SYS_exit_group);
	ck_assert_int_eq(next_stop(&entry, &regs), -ESRCH);
	ck_assert_int_eq(target->threads[0].state, HT_THREAD_GONE);
	end();
	start(call_for_ever);
	kill(child, SIGKILL);
	ck_assert_int_eq(ht_remote_park(remote), -ESRCH);
	end();
	start(run_another);
	shared->go = 1;
	do
		ck_ok(next_stop(&entry, &regs));
	while (number(&regs) != SYS_execve);
	ck_assert_int_eq(next_stop(&entry, &regs), -EXDEV);
	/* The new program isn't ours. */
	ck_assert_int_eq(target->threads[0].state, HT_THREAD_GONE);
	ht_target_close(target);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	target = NULL;
}
END_TEST

int main(void)
{
	return ht_check_run("remote-run", (const TTest *const[]){
		entry_and_exit_in_turn, parking_cancels_a_call, abandoned_when_late,
		faults_of_its_own, signals_are_put_off, ends_and_execs, NULL });
}
