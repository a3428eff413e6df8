/* SPDX-License-Identifier: Apache-2.0
 *
 * remote-run.c: moving a borrowed thread from stop to stop, whatever else comes in between:
 * job control from outside, faults of its own, clones, its end.
 */
#include <signal.h>

#include "attach/attach-priv.h"
#include "attach/remote.h"
#include "base/clock.h"

/* A thread between two stops of ours executes next to nothing. */
#define PARK_NS (1000 * HT_NS_PER_MS)

static struct ht_thread *thread_of(const struct ht_remote *remote)
{
	return &remote->target->threads[remote->thread];
}

pid_t ht_remote_tid(const struct ht_remote *remote)
{
	return thread_of(remote)->tid;
}

static bool is_synchronous(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGILL || sig == SIGFPE ||
	       sig == SIGTRAP || sig == SIGSYS;
}

/* Raised by the instruction that it executes, not sent by somebody? */
static bool is_own_fault(pid_t tid, int sig)
{
	siginfo_t info;

	if (!is_synchronous(sig))
		return false;
	if (ht_ptrace(PTRACE_GETSIGINFO, tid, 0, (uintptr_t)&info) < 0)
		return true;
	return info.si_code > 0;
}

/* A signal that our mask doesn't hold back. *ret_inject: what to give at resume. */
static int take_signal(struct ht_remote *remote, int sig, int *ret_inject)
{
	*ret_inject = 0;
	if (is_own_fault(ht_remote_tid(remote), sig))
		return -EFAULT;
	if (sig == SIGSTOP) {
		/* The stop then takes effect when we detach. */
		*ret_inject = sig;
		return 0;
	}
	/* Sent by kill(): no handler may run on our stack. It gets it at the end. */
	remote->deferred |= UINT64_C(1) << (sig - 1);
	return 0;
}

static void take_clone(struct ht_remote *remote)
{
	unsigned long born = 0;

	if (!ht_ptrace(PTRACE_GETEVENTMSG, ht_remote_tid(remote), 0, (uintptr_t)&born) && born)
		ht_thread_linger(remote->target, (pid_t)born);
}

/* The signal that the stub sends when its calls are made. Somebody else's of that kind, which
 * nobody would notice either, comes elsewhere. */
static bool is_notice(const struct ht_remote *remote, int sig)
{
	struct ht_regs regs;

	return sig == remote->signal && !ht_thread_get_regs(ht_remote_tid(remote), &regs) &&
	       ht_regs_pc(&regs) == remote->base + ht_deadman_notified_offset;
}

enum goal {
	TO_SYSCALL,	/* the next system call stop */
	TO_STOP,	/* the one by INTERRUPT */
	TO_NOTICE,
};

static void resume(pid_t tid, enum goal goal, int inject)
{
	switch (goal) {
	case TO_SYSCALL:
		(void)ht_ptrace(PTRACE_SYSCALL, tid, 0, (uintptr_t)inject);
		break;
	case TO_STOP:
		ht_thread_cont_to_stop(tid, inject);
		break;
	case TO_NOTICE:
		(void)ht_ptrace(PTRACE_CONT, tid, 0, (uintptr_t)inject);
		break;
	}
}

static int run_to(struct ht_remote *remote, enum goal goal, uint64_t deadline_ns)
{
	struct ht_thread *thread = thread_of(remote);
	struct ht_event event;
	int inject = 0, r;

	for (;;) {
		resume(thread->tid, goal, inject);
		while ((r = ht_thread_poll(remote->target, thread->tid, &event)) == 0) {
			if (ht_deadline_passed(deadline_ns))
				return -ETIMEDOUT;
			ht_thread_doze(deadline_ns);
			(void)ht_target_settle(remote->target);
		}
		if (r < 0 || event.kind == HT_EVENT_EXITED || event.kind == HT_EVENT_KILLED) {
			thread->state = HT_THREAD_GONE;
			return -ESRCH;
		}
		inject = 0;
		switch (event.kind) {
		case HT_EVENT_SYSCALL:
			if (goal == TO_SYSCALL)
				return 0;
			break;
		case HT_EVENT_STOP:
		case HT_EVENT_GROUP_STOP:
			if (goal == TO_STOP)
				return 0;
			break;
		case HT_EVENT_SIGNAL:
			if (goal == TO_NOTICE && is_notice(remote, event.value))
				return 0;
			r = take_signal(remote, event.value, &inject);
			/* On the way to a park the fault is reported already. */
			if (r < 0 && goal != TO_STOP)
				return r;
			break;
		case HT_EVENT_CLONE:
			take_clone(remote);
			break;
		case HT_EVENT_EXEC:
			/* Another program: its registers are none of our business. */
			ht_thread_detach(remote->target, thread, 0);
			return -EXDEV;
		default:
			break;
		}
	}
}

/* At a syscall-entry stop the call would still be made. */
static int cancel_pending_call(pid_t tid)
{
	struct __ptrace_syscall_info info;
	struct ht_regs regs;
	long r = ht_ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), (uintptr_t)&info);

	if (r < 0 || info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return r < 0 ? (int)r : 0;
	r = ht_thread_get_regs(tid, &regs);
	if (r < 0)
		return (int)r;
	ht_regs_cancel_syscall(&regs);
	return ht_thread_set_regs(tid, &regs);
}

int ht_remote_to_syscall_stop(struct ht_remote *remote, uint64_t deadline_ns,
			      bool *ret_entry, struct ht_regs *ret_regs)
{
	struct __ptrace_syscall_info info;
	pid_t tid = ht_remote_tid(remote);
	int r = run_to(remote, TO_SYSCALL, deadline_ns);

	if (r < 0)
		return r;
	r = (int)ht_ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), (uintptr_t)&info);
	if (r < 0)
		return r;
	r = ht_thread_get_regs(tid, ret_regs);
	if (r < 0)
		return r;
	*ret_entry = info.op == PTRACE_SYSCALL_INFO_ENTRY;
	return 0;
}

int ht_remote_to_notice(struct ht_remote *remote, uint64_t deadline_ns)
{
	return run_to(remote, TO_NOTICE, deadline_ns);
}

/*
 * The pending INTERRUPT is looked at on the way back to user space, whatever kind of stop
 * the thread comes from, so that not one instruction is executed; and it is the only stop
 * after which the kernel still evaluates the restart of an interrupted call.
 */
int ht_remote_park(struct ht_remote *remote)
{
	pid_t tid = ht_remote_tid(remote);
	int r = cancel_pending_call(tid);

	if (r < 0 && r != -ESRCH)
		return r;
	return run_to(remote, TO_STOP, ht_deadline_ns(PARK_NS));
}

void ht_remote_abandon(struct ht_remote *remote)
{
	struct ht_thread *thread = thread_of(remote);
	uint64_t deadline_ns = ht_deadline_ns(PARK_NS / 10);
	struct ht_event event;
	int r;

	(void)ht_ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0);
	do {
		r = ht_thread_poll(remote->target, thread->tid, &event);
		if (r == 1 && event.kind != HT_EVENT_STOP && event.kind != HT_EVENT_GROUP_STOP) {
			int inject = event.kind == HT_EVENT_SIGNAL ? event.value : 0;

			if (event.kind == HT_EVENT_CLONE)
				take_clone(remote);
			ht_thread_cont_to_stop(thread->tid, inject);
			r = event.kind == HT_EVENT_EXITED || event.kind == HT_EVENT_KILLED ?
				-ESRCH : 0;
		}
		if (r == 0)
			ht_thread_doze(deadline_ns);
	} while (r == 0 && !ht_deadline_passed(deadline_ns));
	if (r == 1) {
		/* It may wait for a lock just now, in a call that the stop made fail. */
		if (!ht_thread_get_regs(thread->tid, &thread->regs) &&
		    ht_target_repair(remote->target, &thread->regs))
			(void)ht_thread_set_regs(thread->tid, &thread->regs);
		ht_thread_detach(remote->target, thread, 0);
	} else if (r == 0) {
		ht_thread_linger(remote->target, thread->tid);
	}
	thread->state = HT_THREAD_GONE;
}
