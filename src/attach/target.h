/* SPDX-License-Identifier: Apache-2.0
 *
 * target.h: one process that is, or may be, under our control: identity, memory, stopping
 * and resuming its threads. All ptrace requests of the tool are made in this folder, by
 * the one thread that opened the target.
 *
 * Between a stop and its resume: no output, no file access but /proc of the target, no
 * allocation (the target may be our terminal, our pager or our file system).
 */
#ifndef HT_ATTACH_TARGET_H
#define HT_ATTACH_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/arch.h"
#include "base/addr.h"
#include "base/compiler.h"
#include "base/err.h"

struct ht_facts;
struct ht_target;

/* Take hold of @pid without touching it: pidfd, start time, exe, /proc and memory fds.
 * Refuses (err says why and what to do; see facts.h) kernel threads, zombies, ourselves and
 * our ancestors that trace us, 32-bit programs, and what we may not trace. */
int ht_target_open(pid_t pid, struct ht_target **ret_target, struct ht_err *err)
	_must_check_ _nonnull_args_(2);
/* The same for a cure: refusals say so. */
int ht_target_open_to_cure(pid_t pid, struct ht_target **ret_target, struct ht_err *err)
	_must_check_ _nonnull_args_(2);
/* Resumes and detaches whatever is still stopped. */
struct ht_target *ht_target_close(struct ht_target *target);

pid_t ht_target_pid(const struct ht_target *target) _nonnull_;
const char *ht_target_name(const struct ht_target *target) _nonnull_; /* comm */
/* What it was opened for: "tap" or "cure". */
const char *ht_target_verb(const struct ht_target *target) _nonnull_;
int ht_target_pidfd(const struct ht_target *target) _nonnull_;
/* A directory fd of /proc/PID, or of /proc/PID/task/TID when the leader is a zombie. */
int ht_target_procfd(const struct ht_target *target) _nonnull_;
/* /proc/PID/mem, O_RDWR. Bound to the memory that the process had when it was opened: after
 * an exec, reads give nothing and writes fail. */
int ht_target_memfd(const struct ht_target *target) _nonnull_;
bool ht_target_alive(const struct ht_target *target) _nonnull_;
/* The identity that was noted at open still holds: same start time, same exe, same memory.
 * 0, -ESRCH when it is gone, -EXDEV after an exec. */
int ht_target_verify(struct ht_target *target) _must_check_ _nonnull_;

/* Why did something fail with @error? 0: the target is there as before. Else as above, after
 * waiting for a moment for one that is ending or was killed. */
int ht_target_fate(struct ht_target *target, int error) _must_check_ _nonnull_;

/* Copy memory. 0, -EFAULT when part of it isn't mapped (nothing is promised about
 * @buf then), -ESRCH. Works while running. */
int ht_target_read(const struct ht_target *target, ht_addr_t addr, void *buf, size_t len)
	_must_check_ _nonnull_;
int ht_target_write(const struct ht_target *target, ht_addr_t addr, const void *buf,
		    size_t len) _must_check_ _nonnull_;
/* One 8-byte PTRACE_POKEDATA, also into read-only text; some thread must be stopped. */
int ht_target_poke(const struct ht_target *target, ht_addr_t addr, uint64_t word)
	_must_check_ _nonnull_;

/* The same for some bytes, whole words around them. Words are written one by one. */
int ht_target_poke_bytes(const struct ht_target *target, ht_addr_t addr, const void *bytes,
			 size_t len) _must_check_ _nonnull_;

/* Stop all threads (those that are stopped already stay), and repair spurious EINTR as each
 * stop is reaped. Until @deadline_ns (ht_deadline_ns()); when it passes everything is let
 * go again and err names the thread that didn't stop and what it waits in. -EXDEV: it execs
 * meanwhile. -EBUSY: another process traces a thread of it, which err names. */
int ht_target_stop(struct ht_target *target, uint64_t deadline_ns, struct ht_err *err)
	_must_check_ _nonnull_args_(1);
/* Stop one thread. */
int ht_target_stop_thread(struct ht_target *target, pid_t tid, uint64_t deadline_ns,
			  struct ht_err *err) _must_check_ _nonnull_args_(1);
/* Detach all that is stopped, leaving job-control stops as they were. Can't fail. */
void ht_target_resume(struct ht_target *target) _nonnull_;
/* Threads that an earlier stop could not stop in time (they sleep uninterruptibly) have to be
 * let go when they wake. Done by each stop and close; whoever keeps a target open for long
 * after a failed stop calls it now and then. Number of those still to come. */
size_t ht_target_settle(struct ht_target *target) _nonnull_;

/* What a stop's time goes into. */
enum ht_stop_phase {
	HT_STOP_SEIZE,		/* from the first thread's interrupt to the last one's stop */
	HT_STOP_CHECK,		/* it is still the same; PCs and stacks are looked at */
	HT_STOP_BORROW,		/* a thread makes system calls for us: map, unmap, close */
	HT_STOP_WRITE,		/* code and the gate */
	HT_STOP_RESUME,
	HT_STOP_PHASES,
};

struct ht_stop {
	uint64_t ns;		/* the sum of the phases */
	uint64_t phase_ns[HT_STOP_PHASES];
	unsigned threads;
};

/* A stop begins with SEIZE, and goes on to CHECK and ends with RESUME by itself; the others
 * are begun by those who do that work. Nothing happens while nothing is stopped. */
void ht_target_begin_phase(struct ht_target *target, enum ht_stop_phase phase) _nonnull_;
/* -ETIME: what is done to the stopped target must be broken off, taken back and tried again
 * later, so that it goes on within the deadline that ht_target_stop() was given. */
int ht_target_check_time(const struct ht_target *target, struct ht_err *err) _must_check_
	_nonnull_args_(1);
/* The last stop that ended. */
const struct ht_stop *ht_target_last_stop(const struct ht_target *target) _nonnull_;

/* Is the target the only process that runs in its memory, as a stop wants it? Looks, and waits
 * for a moment for children of vfork(2). 0, or the refusal in err. */
int ht_target_check_alone(struct ht_target *target, struct ht_err *err)
	_must_check_ _nonnull_args_(1);

/* The stopped threads. Indices are stable until resume. */
size_t ht_target_threads(const struct ht_target *target) _nonnull_;
pid_t ht_target_tid(const struct ht_target *target, size_t i) _nonnull_;
/* Job control (Ctrl-Z) had stopped it, with all its process, when we did. */
bool ht_target_is_job_stopped(const struct ht_target *target, size_t i) _nonnull_;
const struct ht_regs *ht_target_regs(const struct ht_target *target, size_t i) _nonnull_;
/* Its registers may be borrowed: not in an rseq section, no restart block, 16 KiB of stack
 * below SP, not stopped inside a vfork. */
bool ht_target_hijackable(const struct ht_target *target, size_t i) _nonnull_;
/* The same, but it may wait in a call with a restart block, as a program that sleeps in
 * poll() always does. In the normal way that goes on unharmed; if we are killed meanwhile the
 * call begins anew, or fails with EINTR if it had been interrupted before. */
bool ht_target_hijackable_waiting(const struct ht_target *target, size_t i) _nonnull_;
/* What the thread does that forbids either, as in "thread 12 ...". NULL: nothing. */
const char *ht_target_unborrowable(const struct ht_target *target, size_t i) _nonnull_;
/* System calls from outside of its allowed range become SIGSYS (Syscall User Dispatch). */
bool ht_target_dispatches_syscalls(const struct ht_target *target, size_t i) _nonnull_;
/* False: its file numbers aren't those that ht_target_take_fd() takes by (unshare(2)). */
bool ht_target_shares_files(const struct ht_target *target, size_t i) _nonnull_;

/* Copy the target's file descriptor @remote_fd; the copy is close-on-exec and shares the
 * open file. Works while running. -EBADF, -ESRCH, -EPERM. */
int ht_target_take_fd(const struct ht_target *target, int remote_fd, int *ret_fd)
	_must_check_ _nonnull_;
/* Is its @fd the socket with that inode number? Works while running. */
bool ht_target_is_socket(const struct ht_target *target, int fd, uint64_t inode) _nonnull_;
/* What /proc said when it was opened. */
const struct ht_facts *ht_target_facts(const struct ht_target *target) _nonnull_;

/* All thread ids, from /proc, without stopping anything; at most @cap. Number found. Those
 * come first that may be traced alone, while the others run: not the main thread, and no
 * parents, for whom signals would come that others see. */
size_t ht_target_list_threads(const struct ht_target *target, pid_t *tids, size_t cap)
	_nonnull_;

#endif
