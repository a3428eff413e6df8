/* SPDX-License-Identifier: Apache-2.0
 *
 * stop.c: stopping all threads of a target, and letting them go.
 *
 * Seize and interrupt all threads that task/ shows, wait until all have stopped, look
 * again: a pass that finds nobody new, at a moment when all known ones are stopped and
 * their number is the kernel's, has found all. One deadline for everything.
 *
 * From the first stop on nothing allocates: records are reserved before, and if they don't
 * suffice (the target makes threads meanwhile) all is let go and tried again with more.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/attach-priv.h"
#include "attach/proc.h"
#include "base/clock.h"
#include "base/fault.h"

#define SPARE_THREADS 32
#define MOST_URGENT (-20)
/* That may let a thread go just before it is looked for who they are, and take it again. */
#define TRACERS_MAX 100
#define LATE_NS (50 * HT_NS_PER_MS)
/* A child of vfork(2) shares the memory until it starts its program. */
#define VFORK_NS (100 * HT_NS_PER_MS)

/* ---- how long it lasts, and what for ---- */

/* What else wants the processors can wait, the target can't. Without the right to it this
 * changes nothing. */
static void hurry(struct ht_target *target)
{
	errno = 0;
	target->nice = getpriority(PRIO_PROCESS, 0);
	target->hurries = errno == 0 && setpriority(PRIO_PROCESS, 0, MOST_URGENT) == 0;
}

static void hurry_no_more(struct ht_target *target)
{
	if (target->hurries)
		(void)setpriority(PRIO_PROCESS, 0, target->nice);
	target->hurries = false;
}

/* Ctrl-Z would stop us, and the target with us, until somebody comes back to it. */
static const int job_signals[] = { SIGTSTP, SIGTTIN, SIGTTOU };

static void hold_job_signals(struct ht_target *target)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(job_signals); i++)
		sigaddset(&set, job_signals[i]);
	pthread_sigmask(SIG_BLOCK, &set, &target->signals);
	target->holds_signals = true;
}

/* Nothing is said of others, which may have been blocked since. */
static void release_job_signals(struct ht_target *target)
{
	sigset_t set;

	if (!target->holds_signals)
		return;
	target->holds_signals = false;
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(job_signals); i++) {
		if (!sigismember(&target->signals, job_signals[i]))
			sigaddset(&set, job_signals[i]);
	}
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void ht_stop_clock_start(struct ht_target *target)
{
	if (!target->hurries)
		hurry(target);
	if (!target->holds_signals)
		hold_job_signals(target);
	target->stop = (struct ht_stop){ 0 };
	target->phase = HT_STOP_SEIZE;
	target->stop_begin_ns = target->phase_begin_ns = ht_now_ns();
}

void ht_target_begin_phase(struct ht_target *target, enum ht_stop_phase phase)
{
	uint64_t now;

	if (!target->stop_begin_ns)
		return;
	now = ht_now_ns();
	target->stop.phase_ns[target->phase] += now - target->phase_begin_ns;
	target->phase_begin_ns = now;
	target->phase = phase;
}

static void stop_clock(struct ht_target *target, size_t threads)
{
	if (!target->stop_begin_ns)
		return;
	ht_target_begin_phase(target, HT_STOP_PHASES);
	target->stop.ns = target->phase_begin_ns - target->stop_begin_ns;
	target->stop.threads = (unsigned)threads;
	target->last_stop = target->stop;
	target->stop_begin_ns = target->overdue_ns = 0;
	hurry_no_more(target);
	release_job_signals(target);
}

int ht_target_check_time(const struct ht_target *target, struct ht_err *err)
{
	if (!target->overdue_ns || !ht_deadline_passed(target->overdue_ns))
		return 0;
	return ht_err_set(err, HT_ERR_FAILED, -ETIME,
			  "can't %s %d (%s): the machine is so busy that all its threads would stand still for too long; it goes on, try again later",
			  ht_purpose_verb(target->purpose), target->pid, target->facts.name);
}

const struct ht_stop *ht_target_last_stop(const struct ht_target *target)
{
	return &target->last_stop;
}

/* ---- stop ---- */

/* Each record can make one more (a clone that was under way when it was seized). */
static size_t seizable(const struct ht_target *target)
{
	return target->cap_threads / 2;
}

static int grow(void **array, size_t n, size_t size)
{
	void *bigger = reallocarray(*array, n, size);

	if (!bigger)
		return -ENOMEM;
	*array = bigger;
	return 0;
}

int ht_target_reserve(struct ht_target *target, size_t n)
{
	size_t cap = 2 * (n + n / 4 + SPARE_THREADS);
	int r;

	if (target->cap_threads >= cap)
		return 0;
	r = grow((void **)&target->threads, cap, sizeof(*target->threads));
	if (r < 0)
		return r;
	r = grow((void **)&target->scan, cap, sizeof(*target->scan));
	if (r < 0)
		return r;
	r = grow((void **)&target->order, cap, sizeof(*target->order));
	if (r < 0)
		return r;
	r = grow((void **)&target->ranks, cap, sizeof(*target->ranks));
	if (r < 0)
		return r;
	/* Those left from one failed stop, and those of the next. */
	r = grow((void **)&target->lingering, 2 * cap, sizeof(*target->lingering));
	if (r < 0)
		return r;
	target->cap_threads = cap;
	target->cap_lingering = 2 * cap;
	return 0;
}

static bool is_vfork(long nr)
{
	return nr == SYS_vfork || nr == SYS_clone || nr == 435 /* clone3 */;
}

/* An uninterruptible sleep in one of these calls lasts until a child execs or ends. */
static bool waits_for_vfork(struct ht_target *target, pid_t tid)
{
	struct ht_proc_stat stat;
	char path[48];

	if (!is_vfork(ht_thread_syscall(target, tid)))
		return false;
	snprintf(path, sizeof(path), "%d/stat", tid);
	return ht_proc_stat(target->taskfd, path, &stat) == 0 && stat.state == 'D';
}

static pid_t find_vfork_parent(struct ht_target *target)
{
	int n = ht_proc_tasks(target->taskfd, target->scan, target->cap_threads);

	for (int i = 0; i < ht_min(n, (int)target->cap_threads); i++)
		if (waits_for_vfork(target, target->scan[i]))
			return target->scan[i];
	return n < 0 ? n : 0;
}

/*
 * A vfork parent can't be interrupted, and once it was seized it can't be let go before
 * the child is done. So look first; the race that is left ends as a lingering thread. The
 * child, and whoever else shares the memory, must not run while code is changed either.
 */
static int await_sharers(struct ht_target *target, uint64_t deadline_ns, struct ht_err *err)
{
	for (;;) {
		pid_t waits = find_vfork_parent(target), peer = 0;

		if (waits < 0)
			return waits;
		if (!waits && !target->is_alone)
			peer = ht_target_find_peer(target);
		if (!waits && !peer) {
			target->is_alone = true;
			return 0;
		}
		if (!ht_deadline_passed(deadline_ns)) {
			ht_thread_doze(deadline_ns);
			continue;
		}
		if (peer)
			return ht_target_refuse_peer(target, peer, err);
		return ht_err_set(err, HT_ERR_FAILED, -ETIMEDOUT,
				  "can't stop %d (%s): thread %d waits in vfork for a child to start its program; try again later",
				  target->pid, target->facts.name, waits);
	}
}

int ht_target_check_alone(struct ht_target *target, struct ht_err *err)
{
	int r = await_sharers(target, ht_deadline_ns(VFORK_NS), err);

	if (r < 0 && r != -ETIMEDOUT)
		return ht_err_set(err, HT_ERR_GONE, r, "%d (%s) has ended", target->pid,
				  target->facts.name);
	return r;
}

/* The kernel lets us open its memory, but not trace it. */
static int cant_trace(const struct ht_target *target, int error, struct ht_err *err)
{
	return ht_err_set(err, HT_ERR_PERM, error,
			  "can't %s %d (%s): the kernel lets heaptap read it but not trace it: a seccomp filter on heaptap, a security module or a tracer outside of this container forbids it; run heaptap on the host",
			  ht_purpose_verb(target->purpose), target->pid, target->facts.name);
}

/* Why SEIZE said EPERM. -EAGAIN: the thread is dying, look again; -EEXIST: it's ours
 * already; 0: the dead leader, which needs no stop; -EBUSY: another's; -EPERM: nobody's (any
 * more). */
static int explain_eperm(struct ht_target *target, pid_t tid, struct ht_err *err)
{
	char path[48], text[HT_PROC_TEXT];
	struct ht_proc_stat stat;
	uint64_t tracer = 0;
	char name[32];
	pid_t pid;

	snprintf(path, sizeof(path), "%d/stat", tid);
	if (ht_proc_stat(target->taskfd, path, &stat) < 0)
		return -EAGAIN;
	if (stat.state == 'Z' || stat.state == 'X')
		return tid == target->pid ? 0 : -EAGAIN;
	snprintf(path, sizeof(path), "%d/status", tid);
	if (ht_proc_read(target->taskfd, path, text, sizeof(text)) < 0)
		return -EAGAIN;
	if (!ht_proc_field(text, "TracerPid:", 10, &tracer) || !tracer)
		return -EPERM;
	pid = ht_facts_process_of((pid_t)tracer, name);
	/* While a tracer comes, the kernel names the parent for a moment, which we may be. */
	if (pid == getpid())
		return ht_thread_interrupt(tid) == -ESRCH ? -EPERM : -EEXIST;
	return ht_err_set(err, HT_ERR_PERM, -EBUSY,
			  "can't %s %d (%s): %s (pid %d) traces its thread %d; end that first",
			  ht_purpose_verb(target->purpose), target->pid, target->facts.name,
			  *name ? name : "another process", pid, tid);
}

struct census {
	size_t added;
	size_t dead_leader;	/* 0 or 1 */
	bool again;		/* somebody was dying */
};

static int seize_new(struct ht_target *target, pid_t tid, bool childless,
		     struct census *census, struct ht_err *err)
{
	struct ht_thread *thread;
	int r = ht_thread_seize(target, tid);

	for (int tries = 1; r == -EPERM; tries++) {
		r = explain_eperm(target, tid, err);
		if (r == 0) {
			census->dead_leader = 1;
			return 0;
		}
		if (r != -EPERM)
			break;
		if (tries == TRACERS_MAX)
			return cant_trace(target, r, err);
		r = ht_thread_seize(target, tid);
	}
	if (r == -ESRCH) {
		census->again = true;
		return 0;
	}
	if (r == -EAGAIN) {
		census->again = true;
		return 0;
	}
	if (r < 0 && r != -EEXIST)
		return r;
	/* Late for an earlier stop, and seized since then. */
	if (r == -EEXIST)
		ht_thread_unlinger(target, tid);
	thread = ht_thread_add(target, tid);
	if (thread)
		thread->childless = childless;
	census->added++;
	if (!target->stop_begin_ns)
		ht_stop_clock_start(target);
	/* Also what is ours already: a newborn thread would stop by itself, but one that an
	 * earlier stop gave up on might not. */
	r = ht_thread_interrupt(tid);
	return r == -ESRCH ? 0 : r;
}

/* Do we have @tid? task/ and each run of our records are in the order of birth, mostly. */
static bool is_known(struct ht_target *target, pid_t tid, size_t runs[HT_ORDER_RANKS])
{
	for (unsigned i = 0; i < HT_ORDER_RANKS; i++) {
		while (runs[i] < target->n_threads &&
		       target->threads[runs[i]].state == HT_THREAD_GONE)
			runs[i]++;
		if (runs[i] < target->n_threads && target->threads[runs[i]].tid == tid) {
			runs[i]++;
			return true;
		}
	}
	return ht_thread_find(target, tid) != NULL;
}

/* Look through task/ once. The first time, when nothing is stopped yet, *@runs is found. */
static int seize_pass(struct ht_target *target, uint64_t *deadline_ns,
		      size_t runs[HT_ORDER_RANKS], struct census *ret_census,
		      struct ht_err *err)
{
	struct census census = { 0 };
	uint64_t begin_ns = ht_now_ns();
	bool first = !target->n_threads;
	size_t at[HT_ORDER_RANKS];
	int n = ht_proc_tasks(target->taskfd, target->scan, target->cap_threads);

	if (n < 0)
		return n;
	if ((size_t)n > seizable(target))
		return -ENOBUFS;
	if (first) {
		ht_order_seizes(target, (size_t)n, runs);
		/* It counts from the first seize on. */
		*deadline_ns += ht_now_ns() - begin_ns;
	}
	memcpy(at, runs, sizeof(at));
	for (size_t i = 0; i < (size_t)n; i++) {
		int r;

		if (is_known(target, target->scan[i], at))
			continue;
		if (target->n_threads >= seizable(target))
			return -ENOBUFS;
		r = seize_new(target, target->scan[i],
			      first && ht_order_is_childless(runs, i), &census, err);
		if (r < 0)
			return r;
		if (ht_deadline_passed(*deadline_ns))
			return -ETIMEDOUT;
	}
	*ret_census = census;
	return 0;
}

/* The thread whose id we waited for isn't ours any more without an end being reported: it
 * did an exec, and is called by the leader's id from then on. Its stop comes there. */
static int await_exec(struct ht_target *target, uint64_t deadline_ns)
{
	struct ht_event event = { HT_EVENT_NONE, 0 };
	struct ht_thread *leader = ht_thread_find(target, target->pid);

	if (!leader)
		leader = ht_thread_add(target, target->pid);
	while (leader) {
		int r = ht_thread_poll(target, target->pid, &event);

		if (r == 1)
			r = ht_thread_take_event(target, leader, event);
		if (r < 0 || ht_deadline_passed(deadline_ns))
			break;
		if (r == 0)
			ht_thread_doze(deadline_ns);
	}
	return -EXDEV;
}

/* The leader can end while others live; no wait reports that before all have ended. */
static bool leader_died(struct ht_target *target)
{
	struct ht_proc_stat stat;
	char path[32];

	snprintf(path, sizeof(path), "%d/stat", target->pid);
	return ht_proc_stat(target->taskfd, path, &stat) == 0 && stat.state == 'Z';
}

static int reap_one(struct ht_target *target, struct ht_thread *thread,
		    uint64_t deadline_ns, bool *ret_progress)
{
	struct ht_event event;
	int r = ht_thread_poll(target, thread->tid, &event);

	if (r == 0)
		return 0;
	*ret_progress = true;
	if (r < 0) {
		thread->state = HT_THREAD_GONE;
		return thread->tid == target->pid ? 0 : await_exec(target, deadline_ns);
	}
	return ht_thread_take_event(target, thread, event);
}

/* Until no thread is on its way to a stop. *ret_tid: who wasn't in time. */
static int await_stops(struct ht_target *target, uint64_t deadline_ns, pid_t *ret_tid)
{
	for (;;) {
		bool progress = false;
		struct ht_thread *pending = NULL;

		for (size_t i = 0; i < target->n_threads; i++) {
			struct ht_thread *thread = &target->threads[i];
			int r;

			if (thread->state != HT_THREAD_SEIZED)
				continue;
			r = reap_one(target, thread, deadline_ns, &progress);
			if (r < 0)
				return r;
			if (thread->state == HT_THREAD_SEIZED)
				pending = thread;
		}
		if (!pending)
			return 0;
		if (ht_deadline_passed(deadline_ns)) {
			*ret_tid = pending->tid;
			return -ETIMEDOUT;
		}
		if (progress)
			continue;
		ht_thread_doze(deadline_ns);
		if (pending->tid == target->pid && leader_died(target)) {
			ht_thread_linger(target, pending->tid);
			pending->state = HT_THREAD_GONE;
			target->leader_dead = true;
		}
	}
}

static size_t count_stopped(const struct ht_target *target)
{
	size_t n = 0;

	for (size_t i = 0; i < target->n_threads; i++)
		n += target->threads[i].state == HT_THREAD_STOPPED;
	return n;
}

/* All that the kernel counts are stopped: nobody can have been missed. */
static bool is_complete(struct ht_target *target, const struct census *census)
{
	struct ht_proc_stat stat;
	size_t dead = census->dead_leader || target->leader_dead;

	if (census->added || census->again)
		return false;
	if (ht_proc_stat(target->procfd, "stat", &stat) < 0)
		return false;
	return stat.threads == count_stopped(target) + dead;
}

static int stop_once(struct ht_target *target, uint64_t deadline_ns, pid_t *ret_tid,
		     struct ht_err *err)
{
	size_t runs[HT_ORDER_RANKS] = { 0 };

	for (;;) {
		struct ht_seize_watch watch;
		struct census census;
		int r;

		ht_thread_watch_seizes(&watch);
		r = seize_pass(target, &deadline_ns, runs, &census, err);
		ht_thread_unwatch_seizes(&watch);
		if (r < 0)
			return r;
		r = await_stops(target, deadline_ns, ret_tid);
		if (r < 0)
			return r;
		r = ht_fault("attach.rescan");
		if (r < 0)
			return r;
		if (is_complete(target, &census))
			return count_stopped(target) ? 0 : -ESRCH;
		if (ht_deadline_passed(deadline_ns))
			return -ETIMEDOUT;
		/* Nothing new and yet not complete: somebody is on the way out. */
		if (!census.added)
			ht_thread_doze(deadline_ns);
	}
}

/* Records of threads that came and went during the stop. Those of an earlier stop of one
 * thread stay where they are, their index is known. */
static void compact(struct ht_target *target, size_t keep)
{
	size_t n = keep;

	for (size_t i = keep; i < target->n_threads; i++) {
		if (target->threads[i].state == HT_THREAD_STOPPED)
			target->threads[n++] = target->threads[i];
	}
	target->n_threads = n;
}

static int explain(struct ht_target *target, int error, pid_t tid, struct ht_err *err)
{
	char wait[192];

	switch (error) {
	case -ETIMEDOUT:
		if (!tid)
			return ht_err_set(err, HT_ERR_FAILED, error,
					  "can't stop %d (%s): its threads are too many, or come and go too fast, to be stopped in time; try again",
					  target->pid, target->facts.name);
		ht_thread_describe_wait(target, tid, wait, sizeof(wait));
		return ht_err_set(err, HT_ERR_FAILED, error,
				  "can't stop %d (%s) in time: %s; all threads were let go, try again later",
				  target->pid, target->facts.name, wait);
	case -EXDEV:
		return ht_err_set(err, HT_ERR_GONE, error,
				  "%d (%s) started another program meanwhile; nothing was changed, try again",
				  target->pid, target->facts.name);
	case -ESRCH:
		return ht_err_set(err, HT_ERR_GONE, error, "%d (%s) has ended", target->pid,
				  target->facts.name);
	case -ENOTSUP:
		return ht_err_set(err, HT_ERR_UNSUPPORTED, error,
				  "can't %s %d (%s): a thread runs 32-bit code; heaptap taps x86_64 only",
				  ht_purpose_verb(target->purpose), target->pid,
				  target->facts.name);
	case -EBUSY:
		return error;
	case -EPERM:
		/* Mostly said already, with more. */
		if (!err || err->kind == HT_ERR_PERM)
			return error;
		return cant_trace(target, error, err);
	default:
		return ht_err_set(err, HT_ERR_FAILED, error, "can't stop %d (%s): %s",
				  target->pid, target->facts.name, strerror(-error));
	}
}

static int stop_all(struct ht_target *target, uint64_t deadline_ns, struct ht_err *err)
{
	size_t keep = target->n_threads;
	size_t want = ht_max(target->facts.threads, 1u);
	pid_t tid = 0;
	int r;

	for (;;) {
		/* Thread records of an earlier stop_thread() must not move then. */
		r = keep ? 0 : ht_target_reserve(target, want);
		if (r < 0)
			return ht_err_set(err, HT_ERR_FAILED, r, "out of memory");
		if (!keep)
			ht_gadgets_renew(target);
		r = keep ? 0 : await_sharers(target, deadline_ns, err);
		if (r == -ETIMEDOUT)
			return r;
		if (r < 0)
			return explain(target, r, 0, err);
		tid = 0;
		target->leader_dead = false;
		r = stop_once(target, deadline_ns, &tid, err);
		if (r != -ENOBUFS || keep)
			break;
		ht_target_resume(target);
		want = 2 * ht_max(want, target->cap_threads / 2);
	}
	if (r == 0)
		r = ht_target_verify(target);
	if (r == 0)
		r = ht_fault("attach.stopped");
	if (r < 0) {
		ht_target_resume(target);
		return explain(target, r, tid, err);
	}
	compact(target, keep);
	ht_target_begin_phase(target, HT_STOP_CHECK);
	return 0;
}

int ht_target_stop(struct ht_target *target, uint64_t deadline_ns, struct ht_err *err)
{
	sigset_t old;
	int r;

	(void)ht_target_settle(target);
	ht_sigchld_block(&old);
	target->stops_all = true;
	r = stop_all(target, deadline_ns, err);
	/* A quarter of the time is for taking back what was begun. */
	if (r == 0 && deadline_ns > target->stop_begin_ns)
		target->overdue_ns = deadline_ns - (deadline_ns - target->stop_begin_ns) / 4;
	ht_sigchld_restore(&old);
	return r;
}

static int stop_one(struct ht_target *target, pid_t tid, uint64_t deadline_ns,
		    pid_t *ret_tid, struct ht_err *err)
{
	struct census census = { 0 };
	struct ht_seize_watch watch;
	int r;

	if (!ht_target_has_thread(target, tid))
		return -ESRCH;
	if (waits_for_vfork(target, tid)) {
		*ret_tid = tid;
		return -ETIMEDOUT;
	}
	ht_thread_watch_seizes(&watch);
	r = seize_new(target, tid, false, &census, err);
	ht_thread_unwatch_seizes(&watch);
	if (r < 0)
		return r;
	if (!census.added)
		return -ESRCH;
	r = await_stops(target, deadline_ns, ret_tid);
	if (r < 0)
		return r;
	return ht_thread_find(target, tid) ? 0 : -ESRCH;
}

int ht_target_stop_thread(struct ht_target *target, pid_t tid, uint64_t deadline_ns,
			  struct ht_err *err)
{
	size_t keep = target->n_threads;
	pid_t late = 0;
	sigset_t old;
	int r;

	(void)ht_target_settle(target);
	if (ht_thread_find(target, tid))
		return 0;
	r = keep ? 0 : ht_target_reserve(target, 1);
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "out of memory");
	if (target->n_threads >= seizable(target))
		return ht_err_set(err, HT_ERR_FAILED, -ENOBUFS,
				  "too many threads were stopped one by one");
	if (!keep)
		ht_gadgets_renew(target);
	ht_sigchld_block(&old);
	target->stops_all = false;
	r = stop_one(target, tid, deadline_ns, &late, err);
	ht_sigchld_restore(&old);
	if (r == -ESRCH && ht_target_alive(target)) {
		compact(target, keep);
		return ht_err_set(err, HT_ERR_GONE, -ESRCH, "thread %d of %d has ended", tid,
				  target->pid);
	}
	if (r < 0) {
		ht_target_resume(target);
		return explain(target, r, late, err);
	}
	compact(target, keep);
	return 0;
}

/* Let go of a thread that showed @event after all. False: it didn't stop. */
static void let_go_late(struct ht_target *target, struct ht_thread *thread,
			struct ht_event event)
{
	switch (event.kind) {
	case HT_EVENT_SIGNAL:
		ht_thread_repair_at_signal(target, thread);
		ht_thread_detach(target, thread, event.value);
		break;
	case HT_EVENT_NONE:
	case HT_EVENT_EXITED:
	case HT_EVENT_KILLED:
		thread->state = HT_THREAD_GONE;
		break;
	case HT_EVENT_CLONE: {
		unsigned long born = 0;

		if (!ht_ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, (uintptr_t)&born) && born)
			ht_thread_linger(target, (pid_t)born);
		ht_thread_detach(target, thread, 0);
		break;
	}
	case HT_EVENT_STOP:
	case HT_EVENT_GROUP_STOP:
		if (!ht_thread_get_regs(thread->tid, &thread->regs) &&
		    ht_target_repair(target, &thread->regs))
			(void)ht_thread_set_regs(thread->tid, &thread->regs);
		ht_thread_detach(target, thread, 0);
		break;
	default:
		ht_thread_detach(target, thread, 0);
	}
}

size_t ht_target_settle(struct ht_target *target)
{
	size_t n = target->n_lingering;

	/* Letting one go can add another (a clone), behind those that are looked at. */
	for (size_t i = 0; i < n;) {
		struct ht_thread thread = { .tid = target->lingering[i],
					    .state = HT_THREAD_SEIZED };
		struct ht_event event;
		int r = ht_thread_poll(target, thread.tid, &event);

		if (r == 0) {
			i++;
			continue;
		}
		target->lingering[i] = target->lingering[--target->n_lingering];
		n = ht_min(n, target->n_lingering);
		if (r > 0)
			let_go_late(target, &thread, event);
	}
	return target->n_lingering;
}

static void detach_round(struct ht_target *target, unsigned first, unsigned end)
{
	for (unsigned round = first; round < end; round++)
		for (size_t i = 0; i < target->n_threads; i++) {
			struct ht_thread *thread = &target->threads[i];

			if (thread->state == HT_THREAD_STOPPED &&
			    ht_detach_round(thread) == round)
				ht_thread_detach(target, thread, 0);
		}
}

/* Who didn't stop in time would draw signals, as we trace him, that those see who are let
 * go: give him a little longer. */
static void await_late(struct ht_target *target)
{
	uint64_t deadline_ns = ht_deadline_ns(LATE_NS);

	if (ht_fault("attach.late") < 0)
		return;
	for (;;) {
		size_t late = 0;

		for (size_t i = 0; i < target->n_threads; i++) {
			struct ht_thread *thread = &target->threads[i];
			struct ht_event event;
			int r;

			if (thread->state != HT_THREAD_SEIZED)
				continue;
			r = ht_thread_poll(target, thread->tid, &event);
			if (r == 1)
				let_go_late(target, thread, event);
			else if (r < 0)
				thread->state = HT_THREAD_GONE;
			else
				late++;
		}
		if (!late || ht_deadline_passed(deadline_ns))
			return;
		ht_thread_doze(deadline_ns);
	}
}

void ht_target_resume(struct ht_target *target)
{
	ht_target_begin_phase(target, HT_STOP_RESUME);
	(void)ht_fault("attach.resume");
	detach_round(target, 0, HT_CHILDLESS_ROUND);
	await_late(target);
	detach_round(target, HT_CHILDLESS_ROUND, HT_DETACH_ROUNDS);
	for (size_t i = 0; i < target->n_threads; i++) {
		struct ht_thread *thread = &target->threads[i];

		if (thread->state != HT_THREAD_SEIZED)
			continue;
		/* Only a stopped one can be let go. Mostly that is on its way. */
		(void)ht_ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0);
		ht_thread_linger(target, thread->tid);
	}
	stop_clock(target, target->n_threads);
	target->n_threads = 0;
}
