/* SPDX-License-Identifier: Apache-2.0
 *
 * remote.h: system calls and function calls made by a stopped thread of the target on our
 * behalf. DESIGN: they end at PTRACE_SYSCALL stops, never at an int3; signals are held
 * back; everything that the thread had is put back; and if we are killed at any point the
 * thread heals itself through the rt_sigreturn frame that it stands on, and cleans up.
 */
#ifndef HT_ATTACH_REMOTE_H
#define HT_ATTACH_REMOTE_H

#include "attach/target.h"
#include "unwind/maps.h"

struct ht_remote;

/* Borrow stopped thread @i (see ht_target_hijackable_waiting(); -EAGAIN: not this one, not
 * now): saves registers, xstate and signal mask, maps a stack (stack_len bytes, 0: 64 KiB,
 * with a guard page) and the dead-man's stub. */
int ht_remote_begin(struct ht_target *target, size_t i, size_t stack_len,
		    struct ht_remote **ret_remote, struct ht_err *err)
	_must_check_ _nonnull_args_(1, 4);

/* Borrow a thread for nothing but one munmap, without the stack that there may be no memory
 * for. */
int ht_remote_unmap(struct ht_target *target, size_t i, ht_addr_t addr, uint64_t len,
		    struct ht_err *err) _must_check_ _nonnull_args_(1);

/* Perform @nr(@args). 0 and the kernel's result (may be -errno) in *ret_result, or a
 * negative errno when the call could not be made: -ESRCH, -EFAULT (it raised a signal),
 * -ETIMEDOUT. Never make one that sleeps. */
int ht_remote_syscall(struct ht_remote *remote, long nr, const uint64_t args[6],
		      long *ret_result) _must_check_ _nonnull_;

/* Perform the @n @calls, one after the other, up to the first that fails: struct ht_syscall says
 * what they did. All of them take one stop, where there is a signal to end it with, instead of
 * two each. Errors as above; then some of them may have been made. */
int ht_remote_calls(struct ht_remote *remote, struct ht_syscall *calls, size_t n) _must_check_
	_nonnull_;

/* Scratch memory on the borrowed stack for arguments and results, @len bytes aligned to 16;
 * 0 when there is no room. Good until ht_remote_end(). */
ht_addr_t ht_remote_scratch(struct ht_remote *remote, size_t len) _nonnull_;

/* Call the function at @fn with other threads running (the caller resumed them). Waits
 * until @deadline_ns; -ETIMEDOUT leaves the thread in the call, standing on its frame:
 * it finishes by itself, and ht_remote_end() then only lets go. -EFAULT: the function
 * raised a fault and was broken off. */
int ht_remote_call(struct ht_remote *remote, ht_addr_t fn, const uint64_t args[6],
		   uint64_t deadline_ns, uint64_t *ret_result) _must_check_ _nonnull_;

/* Where the borrowed thread's calls may put file descriptors (struct ht_deadman_fds): those
 * are closed by ht_remote_close_fds(), and also when we are killed. */
ht_addr_t ht_remote_fds(const struct ht_remote *remote) _nonnull_;
/* As ht_remote_syscall(), for a call that returns a file descriptor: it becomes the first of
 * the files there. */
int ht_remote_open(struct ht_remote *remote, long nr, const uint64_t args[6],
		   long *ret_result) _must_check_ _nonnull_;
int ht_remote_close_fds(struct ht_remote *remote) _must_check_ _nonnull_;

/* Unmap the stack and give the thread back as it was. The thread stays stopped (unless a
 * call timed out). Negative errno only if the target died or the thread was lost. */
int ht_remote_end(struct ht_remote *remote);

/* A stack that somebody borrowed and was killed before he could unmap it begins with @area:
 * *ret_end is where it ends. Threads may still be on it. */
bool ht_remote_leftover(const struct ht_target *target, const struct ht_area *area,
			ht_addr_t *ret_end) _nonnull_;

#endif
