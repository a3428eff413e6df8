/* SPDX-License-Identifier: Apache-2.0
 *
 * thread.c: one thread under ptrace: seizing it, waiting for it, its registers, letting go.
 * Nothing here allocates. "It's gone" (ESRCH) is an ordinary answer everywhere.
 */
#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "attach/attach-priv.h"
#include "attach/proc.h"
#include "base/clock.h"
#include "base/fault.h"

#define DOZE_NS HT_NS_PER_MS

/*
 * Not here: TRACEFORK and TRACEVFORK would stop children, TRACEEXIT can leave a thread
 * frozen in its exit, EXITKILL would kill the target when we die.
 */
#define SEIZE_OPTIONS (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC)

/*
 * A thread that does an exec waits for all others of the process to end, and those that we
 * trace have ended only when we have waited for them. Meanwhile the kernel keeps us waiting
 * in a SEIZE of yet another thread until the exec is over: for ever, if nobody breaks the
 * circle. Signals come through.
 */
#define LOOK_US 5000
static struct ht_target *volatile seizing;	/* only a handler knows no better place */
static volatile sig_atomic_t watching;

/* A tracer's waitid() takes stops too, whatever it asks for: look first. */
static bool reap_if_dead(pid_t tid)
{
	siginfo_t info = { .si_pid = 0 };

	if (waitid(P_PID, (id_t)tid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 ||
	    !info.si_pid || info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED)
		return false;
	return waitid(P_PID, (id_t)tid, &info, WEXITED | WNOHANG | __WALL) == 0;
}

/* Once, LOOK_US from now: a timer that goes by itself would leave no time for anything
 * else where there are so many threads that looking at them takes as long. */
static void look_later(void)
{
	const struct itimerval once = { .it_value = { 0, LOOK_US } };

	setitimer(ITIMER_REAL, &once, NULL);
}

static void reap_dead(int sig)
{
	struct ht_target *target = seizing;
	int saved = errno;

	for (size_t i = 0; target && i < target->n_threads; i++) {
		struct ht_thread *thread = &target->threads[i];

		if (thread->state != HT_THREAD_GONE && thread->tid != target->pid &&
		    reap_if_dead(thread->tid))
			thread->state = HT_THREAD_GONE;
	}
	for (size_t i = 0; target && i < target->n_lingering; i++)
		(void)reap_if_dead(target->lingering[i]);
	if (watching)
		look_later();
	errno = saved;
	(void)sig;
}

void ht_thread_watch_seizes(struct ht_seize_watch *ret_watch)
{
	const struct sigaction act = { .sa_handler = reap_dead, .sa_flags = SA_RESTART };
	sigaction(SIGALRM, &act, &ret_watch->action);
	getitimer(ITIMER_REAL, &ret_watch->timer);
	watching = 1;
	look_later();
}

void ht_thread_unwatch_seizes(const struct ht_seize_watch *watch)
{
	const struct itimerval none = { 0 };

	/* None may come when the handler is gone. */
	watching = 0;
	setitimer(ITIMER_REAL, &none, NULL);
	sigaction(SIGALRM, &watch->action, NULL);
	setitimer(ITIMER_REAL, &watch->timer, NULL);
}

static long try_seize(struct ht_target *target, pid_t tid, uintptr_t options)
{
	long r;

	seizing = target;
	(void)ht_fault("attach.seizing");
	r = ht_ptrace(PTRACE_SEIZE, tid, 0, options);
	seizing = NULL;
	return r;
}

int ht_thread_seize(struct ht_target *target, pid_t tid)
{
	int r = ht_fault("attach.seize");

	return r < 0 ? r : (int)try_seize(target, tid, SEIZE_OPTIONS);
}

int ht_thread_suspend_seccomp(pid_t tid, bool suspend)
{
	return (int)ht_ptrace(PTRACE_SETOPTIONS, tid, 0,
			      SEIZE_OPTIONS | (suspend ? PTRACE_O_SUSPEND_SECCOMP : 0));
}

int ht_thread_interrupt(pid_t tid)
{
	int r = ht_fault("attach.interrupt");

	return r < 0 ? r : (int)ht_ptrace(PTRACE_INTERRUPT, tid, 0, 0);
}

int ht_thread_get_regs(pid_t tid, struct ht_regs *ret_regs)
{
	struct ht_regs regs;
	struct iovec iov = { &regs.raw, sizeof(regs.raw) };
	long r = ht_ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, (uintptr_t)&iov);

	if (r < 0)
		return (int)r;
	/* A thread in 32-bit code gives the shorter set. */
	if (iov.iov_len != sizeof(regs.raw))
		return -ENOTSUP;
	*ret_regs = regs;
	return 0;
}

bool ht_target_repair(const struct ht_target *target, struct ht_regs *regs)
{
	/* A filter that allows nanosleep but not restart_syscall would kill the target. */
	if (target->facts.seccomp && ht_regs_restart_anew(regs))
		return true;
	return ht_regs_repair_eintr(regs);
}

int ht_thread_set_regs(pid_t tid, const struct ht_regs *regs)
{
	struct user_regs_struct raw = regs->raw;
	struct iovec iov = { &raw, sizeof(raw) };

	return (int)ht_ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, (uintptr_t)&iov);
}

int ht_thread_poll(struct ht_target *target, pid_t tid, struct ht_event *ret_event)
{
	int status;
	pid_t r;

	do
		r = waitpid(tid, &status, __WALL | WNOHANG);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	if (r == 0)
		return 0;
	*ret_event = ht_event_decode(status);
	if (tid == target->pid && target->is_child &&
	    (ret_event->kind == HT_EVENT_EXITED || ret_event->kind == HT_EVENT_KILLED)) {
		target->is_reaped = true;
		target->wait_status = status;
	}
	return 1;
}

void ht_sigchld_block(sigset_t *ret_old)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &set, ret_old);
}

void ht_sigchld_restore(const sigset_t *old)
{
	sigset_t set;

	/* Others may have been blocked, or not, meanwhile. */
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (!sigismember(old, SIGCHLD))
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void ht_thread_doze(uint64_t deadline_ns)
{
	uint64_t now = ht_now_ns(), ns = DOZE_NS;
	struct timespec ts = { 0 };
	sigset_t set;

	if (deadline_ns)
		ns = now >= deadline_ns ? 0 : ht_min(ns, deadline_ns - now);
	ts.tv_nsec = (long)ns;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	(void)sigtimedwait(&set, NULL, &ts);
}

struct ht_thread *ht_thread_add(struct ht_target *target, pid_t tid)
{
	struct ht_thread *thread;

	if (target->n_threads == target->cap_threads)
		return NULL;
	thread = &target->threads[target->n_threads++];
	memset(thread, 0, sizeof(*thread));
	thread->tid = tid;
	thread->state = HT_THREAD_SEIZED;
	return thread;
}

struct ht_thread *ht_thread_find(struct ht_target *target, pid_t tid)
{
	for (size_t i = 0; i < target->n_threads; i++) {
		struct ht_thread *thread = &target->threads[i];

		/* The id of one that is gone may be another's by now. */
		if (thread->tid == tid && thread->state != HT_THREAD_GONE)
			return thread;
	}
	return NULL;
}

void ht_thread_linger(struct ht_target *target, pid_t tid)
{
	/* There is room for as many as there are records; a second stop that fails on the
	 * same threads must not add them twice. */
	for (size_t i = 0; i < target->n_lingering; i++) {
		if (target->lingering[i] == tid)
			return;
	}
	if (target->n_lingering < target->cap_lingering)
		target->lingering[target->n_lingering++] = tid;
}

void ht_thread_unlinger(struct ht_target *target, pid_t tid)
{
	for (size_t i = 0; i < target->n_lingering; i++) {
		if (target->lingering[i] == tid)
			target->lingering[i--] = target->lingering[--target->n_lingering];
	}
}

void ht_thread_detach(struct ht_target *target, struct ht_thread *thread, int sig)
{
	struct ht_event event;

	(void)ht_fault("attach.detach");
	if (ht_ptrace(PTRACE_DETACH, thread->tid, 0, (uintptr_t)sig) == -ESRCH &&
	    ht_thread_poll(target, thread->tid, &event) == 0) {
		/* Killed, but not dead yet: somebody must reap it, and while it is traced
		 * only we can. */
		ht_thread_linger(target, thread->tid);
	}
	thread->state = HT_THREAD_GONE;
}

static int take_stop(struct ht_target *target, struct ht_thread *thread, bool group)
{
	int r;

	if (thread->foreign) {
		ht_thread_detach(target, thread, 0);
		return 0;
	}
	r = ht_thread_get_regs(thread->tid, &thread->regs);
	/* Killed in between: its end is reported next. */
	if (r == -ESRCH)
		return 0;
	thread->state = HT_THREAD_STOPPED;
	thread->group_stop = group;
	if (r < 0)
		return r;
	r = ht_fault("attach.repair");
	/* At once: if we die or give up from here on, the thread doesn't see an EINTR. */
	if (ht_target_repair(target, &thread->regs))
		(void)ht_thread_set_regs(thread->tid, &thread->regs);
	return r;
}

/* A seized thread made another, which is seized now and will show its first stop. */
static void take_clone(struct ht_target *target, struct ht_thread *thread)
{
	unsigned long tid = 0;
	struct ht_thread *born;

	if (ht_ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, (uintptr_t)&tid) < 0 || !tid)
		return;
	if (ht_thread_find(target, (pid_t)tid))
		return;
	born = ht_thread_add(target, (pid_t)tid);
	if (!born) {
		ht_thread_linger(target, (pid_t)tid);
		return;
	}
	/* Also a process made by clone() without SIGCHLD comes as a clone event. */
	born->foreign = !target->stops_all || !ht_target_has_thread(target, (pid_t)tid);
}

/* A traced thread is stopped even for signals that nobody handles, a child's end mostly, and
 * the call that it waited in has failed for it. With a handler it is EINTR after all. */
void ht_thread_repair_at_signal(const struct ht_target *target, struct ht_thread *thread)
{
	if (ht_thread_get_regs(thread->tid, &thread->regs) == 0 &&
	    ht_target_repair(target, &thread->regs))
		(void)ht_thread_set_regs(thread->tid, &thread->regs);
}

int ht_thread_take_event(struct ht_target *target, struct ht_thread *thread,
			 struct ht_event event)
{
	pid_t tid = thread->tid;
	int sig = 0;

	switch (event.kind) {
	case HT_EVENT_EXITED:
	case HT_EVENT_KILLED:
		thread->state = HT_THREAD_GONE;
		return 0;
	case HT_EVENT_STOP:
	case HT_EVENT_GROUP_STOP:
		return take_stop(target, thread, event.kind == HT_EVENT_GROUP_STOP);
	case HT_EVENT_EXEC:
		thread->state = HT_THREAD_STOPPED;
		return -EXDEV;
	case HT_EVENT_CLONE:
		take_clone(target, thread);
		break;
	case HT_EVENT_SIGNAL:
		ht_thread_repair_at_signal(target, thread);
		sig = event.value;
		break;
	case HT_EVENT_SYSCALL:
	case HT_EVENT_OTHER:
		break;
	case HT_EVENT_NONE:
		return 0;
	}
	ht_thread_cont_to_stop(tid, sig);
	return 0;
}

/* Any stop takes a pending INTERRUPT with it (ptrace_stop() in the kernel), so it is asked
 * for anew; being pending, it takes effect before the next instruction, but after a
 * signal was delivered. */
void ht_thread_cont_to_stop(pid_t tid, int sig)
{
	(void)ht_ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	(void)ht_ptrace(PTRACE_CONT, tid, 0, (uintptr_t)sig);
}

void ht_thread_describe_wait(struct ht_target *target, pid_t tid, char *buf, size_t cap)
{
	char path[48], wchan[64] = "", text[128];
	long nr = -1;

	snprintf(path, sizeof(path), "%d/wchan", tid);
	if (ht_proc_read(target->taskfd, path, wchan, sizeof(wchan)) < 0 || wchan[0] == '0')
		wchan[0] = '\0';
	snprintf(path, sizeof(path), "%d/syscall", tid);
	if (ht_proc_read(target->taskfd, path, text, sizeof(text)) > 0)
		(void)sscanf(text, "%ld", &nr);
	if (wchan[0] && nr >= 0)
		snprintf(buf, cap, "thread %d waits in %s (system call %ld)", tid, wchan, nr);
	else if (wchan[0])
		snprintf(buf, cap, "thread %d waits in %s", tid, wchan);
	else if (nr >= 0)
		snprintf(buf, cap, "thread %d waits in system call %ld", tid, nr);
	else
		snprintf(buf, cap, "thread %d doesn't respond", tid);
}
