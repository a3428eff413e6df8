/* SPDX-License-Identifier: Apache-2.0
 *
 * attach-priv.h: what the files of this folder share: the target's insides and the states
 * of a thread.
 *
 *		seize, or born of a seized thread
 *	(none) ----------------------------------> SEIZED
 *						     | its stop is reaped
 *		          detach		     v
 *	(none) <---------------------------------- STOPPED --- remote.c runs and re-stops it
 *						     | death, at any time
 *						     v
 *						    GONE   (keeps its index until resume)
 *
 * A SEIZED thread that can't be stopped in time (uninterruptible sleep) can't be let go
 * either: the kernel wants it stopped for that. It goes to the list of lingering ones,
 * and ht_target_settle() detaches it as soon as it shows up.
 */
#ifndef HT_ATTACH_PRIV_H
#define HT_ATTACH_PRIV_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/types.h>

#include "arch/arch.h"
#include "attach/event.h"
#include "attach/facts.h"
#include "attach/target.h"

enum ht_thread_state {
	HT_THREAD_SEIZED,
	HT_THREAD_STOPPED,
	HT_THREAD_GONE,
};

struct ht_thread {
	pid_t tid;
	enum ht_thread_state state;
	bool group_stop;	/* it was stopped by job control and must stay so */
	bool foreign;		/* came along with a clone, but isn't wanted: let go */
	bool childless;		/* seen to have no children, and not the main thread */
	struct ht_regs regs;
};

/* Code of the target that the first and last remote call go through; see remote.c. */
struct ht_gadgets {
	ht_addr_t syscall_ret;
	ht_addr_t pop_result;
};

/* At most this much xstate, so that a frame with it fits below a thread's own SP: AMX needs
 * 11 KiB. */
#define HT_XSTATE_MAX 14336

/* What must be below SP of a thread that is borrowed. */
#define HT_OWN_STACK_ROOM 16384

struct ht_remote {
	struct ht_target *target;
	size_t thread;		/* index */
	bool active;
	bool lost;		/* let go in the middle of a call */
	bool filtered;		/* it has a seccomp filter */
	bool suspended;		/* its filter, while it is borrowed */
	bool unfiltered;	/* none, or none that looks at its calls while we live */
	struct ht_regs saved;
	uint64_t sigmask;
	uint64_t deferred;	/* signals to send again at the end */
	uint64_t caught;	/* signals that the process has a handler for */
	int signal;		/* of struct ht_deadman */
	size_t xstate_len;
	ht_addr_t own_sp;	/* frame on the thread's own stack */
	ht_addr_t base;		/* mapping: code, stack, scratch; 0: none yet */
	size_t len;
	ht_addr_t frame_sp;	/* frame on the mapped stack */
	ht_addr_t fds;		/* see ht_remote_fds() */
	ht_addr_t calls;	/* room for those of one stop */
	ht_addr_t scratch;	/* next free byte */
	ht_addr_t scratch_end;
	uint8_t xstate[HT_XSTATE_MAX];
	uint8_t frame[HT_XSTATE_MAX + HT_SIGFRAME_EXTRA];
};

struct ht_target {
	pid_t pid;
	pid_t live_tid;		/* pid unless the leader is a zombie */
	enum ht_purpose purpose;	/* that refusals speak of */
	struct ht_facts facts;
	int pidfd;
	int live_pidfd;		/* of live_tid; -1: same as pidfd */
	int procfd;
	int memfd;
	int taskfd;
	uint64_t exe_dev, exe_ino;
	uint64_t start_stack;
	bool is_child;		/* ours to wait for */
	bool is_reaped;
	int wait_status;
	struct ht_thread *threads;
	size_t n_threads;
	size_t cap_threads;
	pid_t *scan;		/* room for a pass over task/, cap_threads of them */
	pid_t *order;		/* and for putting them in order */
	uint8_t *ranks;
	pid_t *lingering;
	size_t n_lingering;
	size_t cap_lingering;
	bool is_alone;		/* no other process shared its memory */
	bool leader_dead;	/* seen during this stop */
	bool stops_all;		/* threads born meanwhile are to be stopped too */
	uint64_t stop_begin_ns;	/* 0: nothing is stopped */
	uint64_t phase_begin_ns;
	uint64_t overdue_ns;	/* when a stop of all should be over; 0: no such stop */
	enum ht_stop_phase phase;
	struct ht_stop stop;	/* its phases so far */
	struct ht_stop last_stop;
	bool hurries;		/* our own priority is raised */
	int nice;		/* as it was */
	bool holds_signals;	/* those of job control */
	sigset_t signals;	/* as they were blocked */
	struct ht_gadgets gadgets;
	struct ht_remote remote;
};

/* 0/value or negative errno. PTRACE_PEEK* are not for this. */
static inline long ht_ptrace(int request, pid_t tid, uintptr_t addr, uintptr_t data)
{
	long r = ptrace((enum __ptrace_request)request, tid, addr, data);

	return r < 0 ? -errno : r;
}

/* stop.c: the clock of a stop, from its first thread on. */
void ht_stop_clock_start(struct ht_target *target) _nonnull_;

/* thread.c: one thread. */

/* Seize @tid with our options, and INTERRUPT it if asked to. */
int ht_thread_seize(struct ht_target *target, pid_t tid) _must_check_;
/* The seccomp filters of stopped thread @tid, or its strict mode, let all calls pass from now
 * on, or do so no more. That they do needs CAP_SYS_ADMIN, no filter on ourselves, and a kernel
 * with CONFIG_CHECKPOINT_RESTORE: -EPERM, -EINVAL. */
int ht_thread_suspend_seccomp(pid_t tid, bool suspend);
int ht_thread_interrupt(pid_t tid);
/* Around seizing several: an exec of the target would block it for ever. */
struct ht_seize_watch {
	struct sigaction action;
	struct itimerval timer;
};
void ht_thread_watch_seizes(struct ht_seize_watch *ret_watch);
void ht_thread_unwatch_seizes(const struct ht_seize_watch *watch);
int ht_thread_get_regs(pid_t tid, struct ht_regs *ret_regs) _must_check_;
int ht_thread_set_regs(pid_t tid, const struct ht_regs *regs);
/* What a stop did to the call that the thread waits in, made good in @regs. True: they
 * were changed. */
bool ht_target_repair(const struct ht_target *target, struct ht_regs *regs) _nonnull_;
/* The same at a stop for a signal, which is still to be passed on. */
void ht_thread_repair_at_signal(const struct ht_target *target, struct ht_thread *thread)
	_nonnull_;
/* waitpid(@tid) without waiting. 1: *ret_event; 0: nothing yet; -ECHILD: not ours. Notes
 * the exit status of a launched target. */
int ht_thread_poll(struct ht_target *target, pid_t tid, struct ht_event *ret_event)
	_must_check_;
/* Sleep until some thread may have news, at most 1 ms and at most until @deadline_ns.
 * SIGCHLD must be blocked for it to be woken early; one that is pending is taken. */
void ht_sigchld_block(sigset_t *ret_old);
void ht_sigchld_restore(const sigset_t *old);
void ht_thread_doze(uint64_t deadline_ns);
/* A record for @tid, from the room reserved before; NULL when that is used up. */
struct ht_thread *ht_thread_add(struct ht_target *target, pid_t tid);
struct ht_thread *ht_thread_find(struct ht_target *target, pid_t tid);
/* Handle what a SEIZED thread showed: stop it for good, or let it run on to its stop.
 * -EXDEV after an exec, -ENOTSUP in 32-bit code. */
int ht_thread_take_event(struct ht_target *target, struct ht_thread *thread,
			 struct ht_event event) _must_check_;
/* Let a stopped thread go on to its next stop by PTRACE_INTERRUPT, with signal @sig. */
void ht_thread_cont_to_stop(pid_t tid, int sig);
/* Detach a stopped thread; ESRCH is no failure. */
void ht_thread_detach(struct ht_target *target, struct ht_thread *thread, int sig);
void ht_thread_linger(struct ht_target *target, pid_t tid);
/* It is wanted stopped after all: settling must not let it go. */
void ht_thread_unlinger(struct ht_target *target, pid_t tid);
/* "thread 7 waits in do_sys_poll (system call 7)" */
void ht_thread_describe_wait(struct ht_target *target, pid_t tid, char *buf, size_t cap);

/* peers.c: another process that shares the target's memory; 0: there is none, or it can't be
 * told. */
pid_t ht_target_find_peer(const struct ht_target *target) _nonnull_;
/* The refusal for that reason. -ETIMEDOUT. */
int ht_target_refuse_peer(const struct ht_target *target, pid_t peer, struct ht_err *err)
	_nonnull_args_(1);

/* seize-order.c: the order in which no other thread sees a signal that draws attention only while
 * its receiver is traced. */

/* Put the first @n of target->scan in the order to seize them. They are in runs, in which
 * their order stays; *ret_runs: where each begins. */
#define HT_ORDER_RANKS 4
void ht_order_seizes(struct ht_target *target, size_t n, size_t ret_runs[HT_ORDER_RANKS])
	_nonnull_;
/* Has the ith none whose end would be told to it? */
bool ht_order_is_childless(const size_t runs[HT_ORDER_RANKS], size_t i) _nonnull_;
/* When to let the stopped @thread go: 0 to HT_DETACH_ROUNDS - 1, before HT_CHILDLESS_ROUND if
 * it draws signals. */
#define HT_DETACH_ROUNDS 4
#define HT_CHILDLESS_ROUND 2
unsigned ht_detach_round(const struct ht_thread *thread) _nonnull_;
/* Put those of @tids that may be traced alone, while the others run, first. */
void ht_order_candidates(const struct ht_target *target, pid_t *tids, size_t n) _nonnull_;
/* Number of the system call that a thread sleeps in; -1: none, or it runs. */
long ht_thread_syscall(const struct ht_target *target, pid_t tid) _nonnull_;

/* remote-run.c: moving the borrowed thread. Results: 0, or a negative errno of which
 *	-ESRCH		it died
 *	-EFAULT		it raised a fault of its own (the signal is dropped)
 *	-EXDEV		an exec
 *	-ETIMEDOUT
 * All leave a live thread stopped, but for the last. */

/* Go on to the next system call stop; at it, its registers. */
int ht_remote_to_syscall_stop(struct ht_remote *remote, uint64_t deadline_ns,
			      bool *ret_entry, struct ht_regs *ret_regs) _must_check_;
/* Go on until the stub says that its calls are made. */
int ht_remote_to_notice(struct ht_remote *remote, uint64_t deadline_ns) _must_check_;
/* From any stop to a PTRACE_EVENT_STOP, without executing an instruction. */
int ht_remote_park(struct ht_remote *remote) _must_check_;
/* Let go of it where it runs. */
void ht_remote_abandon(struct ht_remote *remote);
pid_t ht_remote_tid(const struct ht_remote *remote);

/* stop.c */
/* Room for @n threads beside newborn ones; only while nothing is stopped. */
int ht_target_reserve(struct ht_target *target, size_t n) _must_check_;

/* target.c */
bool ht_target_has_thread(const struct ht_target *target, pid_t tid);
enum ht_open_flags {
	HT_OPEN_LAUNCHED = 1 << 0,	/* we trace it already: it's our stopped child */
	HT_OPEN_TO_CURE = 1 << 1,
};
int ht_target_open_flags(pid_t pid, unsigned flags, struct ht_target **ret_target,
			 struct ht_err *err) _must_check_;

/* gadget.c: -ENOENT when the target's code has none. */
int ht_gadgets_find(const struct ht_target *target, struct ht_gadgets *ret_gadgets);
/* Still there? */
bool ht_gadgets_hold(const struct ht_target *target);
/* Look again if not: a target that was opened just after an exec had no libc yet. To be called
 * while it runs, since that takes a while. */
void ht_gadgets_renew(struct ht_target *target);

#endif
