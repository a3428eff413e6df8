/* SPDX-License-Identifier: Apache-2.0
 *
 * remote.c: borrowing a stopped thread for system calls and function calls.
 *
 *	base	+----------------------------+ r-x
 *		| dead-man's stub, our name  |
 *		| guard: writing here faults |
 *		+----------------------------+ rw-
 *		| stack of called functions  |  grows down
 *	frame_sp+----------------------------+
 *		| rt_sigreturn frame         |
 *		+----------------------------+
 *		| scratch                    |  grows up
 *		+----------------------------+
 *
 * It is one mapping, made readable and executable; its stack part then loses the latter for
 * being writable. Nothing ever is both or gains execution, so PR_SET_MDWE allows it, and
 * the stub is written by ptrace.
 *
 * Whenever the thread isn't where it belongs, its stack pointer stands on a frame (or on
 * three words below one) and its pc in code that ends in rt_sigreturn. If we are killed,
 * the kernel resumes it, and it finishes the call, closes what was passed, unmaps this, gets
 * back all that it had, and goes on. Under a seccomp filter it makes no call but the last.
 * While heaptap lives, many calls cost one stop: the stub makes them and sends the thread a
 * signal that is ignored where nobody traces, which a tracer sees all the same.
 * While there is no mapping (the first call and the last) the frame is on the thread's own
 * stack, below the red zone.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "attach/attach-priv.h"
#include "attach/proc.h"
#include "attach/remote.h"
#include "base/clock.h"
#include "base/fault.h"

#define CODE_LEN 16384
#define STACK_DEFAULT (64 * 1024)
#define STACK_MIN (32 * 1024)
#define STACK_MAX (64 * 1024 * 1024)
#define RED_ZONE 128
_Static_assert(RED_ZONE + HT_XSTATE_MAX + HT_SIGFRAME_EXTRA +
			       HT_DEADMAN_WORDS * sizeof(uint64_t) <= HT_OWN_STACK_ROOM,
	       "the largest frame is written to what was seen to be there");
/* None that we make waits for anything but the kernel's own locks. */
#define SYSCALL_NS (5 * HT_NS_PER_SEC)

/* Where it is asked for: between the mapping and the writing of its code nothing but the
 * address ("htap") tells whose it is. */
#define HINT UINT64_C(0x687461700000)
#define HINT_LEN (UINT64_C(64) << 20)
#define STUB_MAX 512
/* As many as are made in one stop. */
#define REMOTE_CALLS 16

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

static struct ht_thread *thread_of(const struct ht_remote *remote)
{
	return &remote->target->threads[remote->thread];
}

/* Make @nr(@args) with the pc at a system call instruction and the stack at @sp, from any
 * stop but a syscall-entry one. */
static int make_call(struct ht_remote *remote, ht_addr_t pc, ht_addr_t sp, long nr,
		     const uint64_t args[6], long *ret_result)
{
	uint64_t deadline_ns = ht_deadline_ns(SYSCALL_NS);
	struct ht_regs regs = remote->saved;
	bool entry = false;
	int r;

	ht_regs_prepare_syscall(&regs, pc, nr, args);
	ht_regs_set_sp(&regs, sp);
	r = ht_thread_set_regs(ht_remote_tid(remote), &regs);
	if (r < 0)
		return r;
	/* The exit-stop of a call that was under way comes first, if there was one. */
	while (!entry) {
		r = ht_remote_to_syscall_stop(remote, deadline_ns, &entry, &regs);
		if (r < 0)
			return r;
	}
	r = ht_fault("remote.entry");
	if (r < 0)
		return r;
	r = ht_remote_to_syscall_stop(remote, deadline_ns, &entry, &regs);
	if (r < 0)
		return r;
	(void)ht_fault("remote.exit");
	*ret_result = ht_regs_result(&regs);
	return 0;
}

/* The kernel's answer as a failure: what mmap() and its like return. */
static int make_call_ok(struct ht_remote *remote, ht_addr_t pc, ht_addr_t sp, long nr,
			const uint64_t args[6], long *ret_result)
{
	long result;
	int r = make_call(remote, pc, sp, nr, args, &result);

	if (r < 0)
		return r;
	if (result < 0 && result > -4096)
		return (int)result;
	*ret_result = result;
	return 0;
}

/* Build the frame with what the thread had, topmost byte below @top. */
static int write_frame(struct ht_remote *remote, ht_addr_t top, ht_addr_t *ret_sp)
{
	size_t len;
	ht_addr_t sp;
	int r = ht_sigframe_build(&remote->saved, remote->xstate, remote->xstate_len,
				  remote->sigmask, top, remote->frame,
				  sizeof(remote->frame), &len, &sp);

	if (r < 0)
		return r;
	r = ht_target_write(remote->target, sp, remote->frame, len);
	if (r < 0)
		return r;
	*ret_sp = sp;
	return 0;
}

/* The same on the thread's own stack, with the words that lead to it. */
static int write_own_frame(struct ht_remote *remote)
{
	const struct ht_gadgets *gadgets = &remote->target->gadgets;
	uint64_t words[HT_DEADMAN_WORDS];
	size_t n = ht_deadman_words(gadgets->pop_result, gadgets->syscall_ret, words);
	ht_addr_t sp;
	int r = write_frame(remote, ht_regs_sp(&remote->saved) - RED_ZONE, &sp);

	if (r < 0)
		return r;
	r = ht_target_write(remote->target, sp - n * sizeof(*words), words,
			    n * sizeof(*words));
	if (r < 0)
		return r;
	remote->own_sp = sp;
	return 0;
}

/* A call through the target's own code, on its own stack. */
static int make_own_call(struct ht_remote *remote, long nr, const uint64_t args[6],
			 long *ret_result)
{
	return make_call_ok(remote, remote->target->gadgets.syscall_ret,
			    remote->own_sp - HT_DEADMAN_WORDS * sizeof(uint64_t), nr, args,
			    ret_result);
}

static int set_sigmask(pid_t tid, uint64_t mask)
{
	return (int)ht_ptrace(PTRACE_SETSIGMASK, tid, sizeof(mask), (uintptr_t)&mask);
}

static uint64_t bit_of(int sig)
{
	return UINT64_C(1) << (sig - 1);
}

/* All but those that a fault of our own code would raise (blocked, they'd kill), and that of
 * the stub. */
static uint64_t held_signals(const struct ht_remote *remote)
{
	static const int not_held[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS };
	uint64_t mask = UINT64_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(not_held); i++)
		mask &= ~bit_of(not_held[i]);
	return remote->signal ? mask & ~bit_of(remote->signal) : mask;
}

/* One that is ignored by default, and by this thread: should we be killed before we take it,
 * nothing comes of it. Under a filter the stub makes no calls by itself. */
static int choose_signal(const struct ht_remote *remote)
{
	static const int ignored[] = { SIGURG, SIGWINCH };

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		if (!((remote->caught | remote->sigmask) & bit_of(ignored[i])) &&
		    !remote->filtered)
			return ignored[i];
	return 0;
}

static int save_state(struct ht_remote *remote)
{
	pid_t tid = ht_remote_tid(remote);
	struct iovec iov = { remote->xstate, sizeof(remote->xstate) };
	long r;

	remote->saved = thread_of(remote)->regs;
	r = ht_ptrace(PTRACE_GETREGSET, tid, HT_REGSET_XSTATE, (uintptr_t)&iov);
	if (r < 0)
		return (int)r;
	/* As long as the buffer: probably cut. */
	if (iov.iov_len == sizeof(remote->xstate))
		return -E2BIG;
	r = ht_fault("remote.save");
	if (r < 0)
		return (int)r;
	remote->xstate_len = iov.iov_len;
	r = ht_ptrace(PTRACE_GETSIGMASK, tid, sizeof(remote->sigmask),
		      (uintptr_t)&remote->sigmask);
	remote->signal = r < 0 ? 0 : choose_signal(remote);
	return (int)r;
}

/* Put everything back; in this order a thread that is let go at any point gets the rest
 * from its frame. */
static int restore_state(struct ht_remote *remote)
{
	pid_t tid = ht_remote_tid(remote);
	struct iovec iov = { remote->xstate, remote->xstate_len };
	long r;

	(void)ht_fault("remote.restore");
	r = ht_ptrace(PTRACE_SETREGSET, tid, HT_REGSET_XSTATE, (uintptr_t)&iov);
	if (r < 0)
		return (int)r;
	(void)ht_fault("remote.unmask");
	r = set_sigmask(tid, remote->sigmask);
	if (r < 0)
		return (int)r;
	(void)ht_fault("remote.regs");
	return ht_thread_set_regs(tid, &remote->saved);
}

static void send_deferred(struct ht_remote *remote)
{
	for (int sig = 1; remote->deferred; sig++, remote->deferred >>= 1) {
		if (remote->deferred & 1)
			(void)syscall(SYS_tgkill, remote->target->pid,
				      ht_remote_tid(remote), sig);
	}
}

static void stop_suspending(struct ht_remote *remote)
{
	if (remote->suspended)
		(void)ht_thread_suspend_seccomp(ht_remote_tid(remote), false);
	remote->suspended = false;
}

/* Back to where it was when it was borrowed. */
static int give_back(struct ht_remote *remote)
{
	int r;

	(void)ht_fault("remote.stop");
	r = ht_remote_park(remote);
	if (r == 0)
		r = restore_state(remote);
	stop_suspending(remote);
	if (r == 0)
		thread_of(remote)->regs = remote->saved;
	if (r == -ETIMEDOUT) {
		ht_remote_abandon(remote);
		remote->lost = true;
	}
	send_deferred(remote);
	remote->active = false;
	return r;
}

static int map_region(struct ht_remote *remote, size_t stack_len)
{
	const uint64_t args[6] = { HINT, CODE_LEN + stack_len, PROT_READ | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0 };
	long result;
	int r = make_own_call(remote, SYS_mmap, args, &result);

	if (r < 0)
		return r;
	remote->base = (ht_addr_t)result;
	remote->len = CODE_LEN + stack_len;
	remote->scratch_end = remote->base + remote->len;
	remote->fds = remote->scratch_end - stack_len / 4;
	remote->calls = remote->fds + sizeof(struct ht_deadman_fds);
	remote->scratch = remote->calls + REMOTE_CALLS * sizeof(struct ht_syscall);
	return ht_fault("remote.mmap");
}

static int write_code(struct ht_remote *remote)
{
	const struct ht_deadman data = {
		.name = HT_DEADMAN_NAME,
		.base = remote->base,
		.len = remote->len,
		.sp = remote->own_sp - HT_DEADMAN_WORDS * sizeof(uint64_t),
		.syscall_ret = remote->target->gadgets.syscall_ret,
		.fds = remote->fds,
		.cleans = !remote->filtered,
		.signal = (uint64_t)remote->signal,
	};
	uint8_t code[STUB_MAX];
	struct ht_deadman_fds fds;
	int r;

	memset(&fds, 0xff, sizeof(fds));
	r = ht_target_write(remote->target, remote->fds, &fds, sizeof(fds));
	if (r < 0)
		return r;
	memcpy(code, ht_deadman_stub, ht_deadman_stub_len);
	memcpy(code + ht_deadman_data_offset, &data, sizeof(data));
	r = ht_target_poke_bytes(remote->target, remote->base, code, ht_deadman_stub_len);
	return r < 0 ? r : ht_fault("remote.stub");
}

/* Where the stub tells when it's done. */
static int run_to_notice(struct ht_remote *remote, struct ht_regs *regs)
{
	int r;

	ht_regs_set_sp(regs, remote->frame_sp);
	r = ht_thread_set_regs(ht_remote_tid(remote), regs);
	if (r == 0)
		r = ht_fault("remote.calls");
	if (r == 0)
		r = ht_remote_to_notice(remote, ht_deadline_ns(SYSCALL_NS));
	(void)ht_fault("remote.notice");
	return r;
}

/* At most REMOTE_CALLS. Of what comes back only the results count: the rest is ours. */
static int make_calls(struct ht_remote *remote, struct ht_syscall *calls, size_t n)
{
	struct ht_syscall made[REMOTE_CALLS];
	struct ht_regs regs = remote->saved;
	int r = ht_target_write(remote->target, remote->calls, calls, n * sizeof(*calls)), read;

	if (r < 0)
		return r;
	ht_regs_prepare_calls(&regs, remote->base + ht_deadman_calls_offset, remote->calls, n);
	r = run_to_notice(remote, &regs);
	/* Those that were made before something happened have to be undone. */
	read = ht_target_read(remote->target, remote->calls, made, n * sizeof(*made));
	for (size_t i = 0; i < n && read == 0; i++)
		calls[i].result = made[i].result;
	return r < 0 ? r : read;
}

static bool has_failed(const struct ht_syscall *call)
{
	return call->result == HT_SYSCALL_NOT_MADE ||
	       (call->result < 0 && call->result > -4096) ||
	       (call->expect && (uint64_t)call->result != call->expect);
}

/* The same for one, with a stop before it and one behind. */
static int make_slow_call(struct ht_remote *remote, struct ht_syscall *call)
{
	long result;
	int r = make_call(remote, remote->base, remote->frame_sp, call->nr, call->args, &result);

	if (r == 0)
		call->result = result;
	return r;
}

/* As many as go at once. */
static int make_some_calls(struct ht_remote *remote, struct ht_syscall *calls, size_t n,
			   size_t *ret_n)
{
	*ret_n = remote->signal ? ht_min(n, (size_t)REMOTE_CALLS) : 1;
	return remote->signal ? make_calls(remote, calls, *ret_n) :
				make_slow_call(remote, calls);
}

/* From here on calls go through the stub, with the frame still on the thread's stack. */
static int open_stack(struct ht_remote *remote)
{
	const uint64_t protect[6] = { remote->base + CODE_LEN, remote->len - CODE_LEN,
				      PROT_READ | PROT_WRITE };
	struct ht_syscall name = {
		.nr = SYS_prctl,
		.args = { PR_SET_VMA, PR_SET_VMA_ANON_NAME, remote->base, remote->len,
			  remote->base + ht_deadman_data_offset },
	};
	size_t one = 1;
	long result;
	int r = make_call_ok(remote, remote->base, remote->own_sp, SYS_mprotect, protect,
			     &result);

	if (r < 0)
		return r;
	r = ht_fault("remote.protect");
	if (r < 0)
		return r;
	r = write_frame(remote, remote->fds, &remote->frame_sp);
	/* What a killed heaptap leaves mapped can be told apart then. Not all kernels can,
	 * and a seccomp filter might kill for it. */
	if (r == 0 && remote->unfiltered)
		r = make_some_calls(remote, &name, 1, &one);
	return r < 0 ? r : ht_fault("remote.stack");
}

static int unmap_region(struct ht_remote *remote)
{
	const uint64_t args[6] = { remote->base, remote->len };
	long result;
	int r;

	if (!remote->base)
		return 0;
	(void)ht_fault("remote.munmap");
	r = write_own_frame(remote);
	if (r == 0)
		r = make_own_call(remote, SYS_munmap, args, &result);
	if (r < 0)
		return r;
	remote->base = 0;
	(void)ht_fault("remote.unmapped");
	return 0;
}

/* Lead the thread away. From the registers on it is in good hands without us: its frame
 * also has its mask, so that comes after. */
static int divert(struct ht_remote *remote)
{
	pid_t tid = ht_remote_tid(remote);
	struct ht_regs regs = remote->saved;
	int r = ht_fault("remote.begin");

	if (r < 0)
		return r;
	r = write_own_frame(remote);
	if (r < 0)
		return r;
	r = ht_fault("remote.frame");
	if (r < 0)
		return r;
	ht_regs_prepare_syscall(&regs, remote->target->gadgets.syscall_ret, SYS_gettid,
				(const uint64_t[6]){ 0 });
	ht_regs_set_sp(&regs, remote->own_sp - HT_DEADMAN_WORDS * sizeof(uint64_t));
	r = ht_thread_set_regs(tid, &regs);
	if (r < 0)
		return r;
	(void)ht_fault("remote.divert");
	r = set_sigmask(tid, held_signals(remote));
	(void)ht_fault("remote.mask");
	return r;
}

/*
 * A filter that can't be suspended may kill for any call. Ours are harmless if it is the
 * one that we live under ourselves (the same container), as we have made the same calls.
 */
static int check_seccomp(struct ht_target *target, pid_t tid, struct ht_err *err)
{
	const struct ht_facts *facts = &target->facts;
	char path[32], text[HT_PROC_TEXT];
	uint64_t mode = 0, filters = 0;

	/* Of the thread itself, and now: it may have got one since the facts were read. */
	snprintf(path, sizeof(path), "%d/status", tid);
	if (ht_proc_read(target->taskfd, path, text, sizeof(text)) < 0)
		return ht_err_set(err, HT_ERR_GONE, -ESRCH, "thread %d of %d has ended", tid,
				  target->pid);
	(void)ht_proc_field(text, "Seccomp:", 10, &mode);
	(void)ht_proc_field(text, "Seccomp_filters:", 10, &filters);
	/* If it isn't there, all of them. */
	target->remote.caught = UINT64_MAX;
	(void)ht_proc_field(text, "SigCgt:", 16, &target->remote.caught);
	target->remote.filtered = mode != 0;
	/* Others may give it one while it is borrowed. No other thread's is suspended, nor its
	 * own while it runs its own code. */
	target->remote.suspended = ht_thread_suspend_seccomp(tid, true) == 0;
	target->remote.unfiltered = !mode || target->remote.suspended;
	if (target->remote.unfiltered || (mode == HT_SECCOMP_FILTER && filters &&
					  filters == facts->our_seccomp_filters))
		return 0;
	return ht_facts_refuse_filter(facts, target->purpose, err);
}

static int check_borrowable(struct ht_target *target, size_t i, struct ht_err *err)
{
	const struct ht_facts *facts = &target->facts;

	if (target->remote.active)
		return ht_err_set(err, HT_ERR_FAILED, -EBUSY,
				  "a thread of %d is borrowed already", target->pid);
	if (i >= target->n_threads || target->threads[i].state != HT_THREAD_STOPPED)
		return ht_err_set(err, HT_ERR_GONE, -ESRCH, "the thread of %d has ended",
				  target->pid);
	if (!ht_gadgets_hold(target))
		return ht_err_set(err, HT_ERR_UNSUPPORTED, -ENOTSUP,
				  "can't %s %d (%s): its code has no system call that could be used",
				  ht_purpose_verb(target->purpose), target->pid, facts->name);
	if (!ht_target_hijackable_waiting(target, i))
		return ht_err_set(err, HT_ERR_FAILED, -EAGAIN,
				  "thread %d of %d can't be borrowed where it is now",
				  target->threads[i].tid, target->pid);
	return check_seccomp(target, target->threads[i].tid, err);
}

static int begin_failed(const struct ht_remote *remote, int error, struct ht_err *err)
{
	const struct ht_target *target = remote->target;

	if (error == -ESRCH || error == -EXDEV)
		return ht_err_set(err, HT_ERR_GONE, error, "%d (%s) has ended", target->pid,
				  target->facts.name);
	if (error == -E2BIG)
		return ht_err_set(err, HT_ERR_UNSUPPORTED, error,
				  "can't %s %d (%s): its threads have more registers on this CPU than heaptap can save and put back",
				  ht_purpose_verb(target->purpose), target->pid,
				  target->facts.name);
	return ht_err_set(err, HT_ERR_FAILED, error,
			  "can't map a stack in %d (%s): %s; the target is as it was",
			  target->pid, target->facts.name, strerror(-error));
}

static int begin(struct ht_remote *remote, size_t stack_len)
{
	int r = save_state(remote);

	if (r < 0) {
		stop_suspending(remote);
		remote->active = false;
		return r;
	}
	r = divert(remote);
	if (r == 0)
		r = map_region(remote, stack_len);
	if (r == 0)
		r = write_code(remote);
	if (r == 0)
		r = open_stack(remote);
	if (r < 0)
		(void)ht_remote_end(remote);
	return r;
}

static void set_up(struct ht_remote *remote, struct ht_target *target, size_t i)
{
	remote->target = target;
	remote->thread = i;
	remote->active = true;
	remote->lost = false;
	remote->deferred = 0;
	remote->base = remote->frame_sp = remote->scratch = remote->scratch_end = 0;
	remote->fds = remote->calls = 0;
}

int ht_remote_begin(struct ht_target *target, size_t i, size_t stack_len,
		    struct ht_remote **ret_remote, struct ht_err *err)
{
	struct ht_remote *remote = &target->remote;
	sigset_t old;
	int r;

	stack_len = ht_max(stack_len ? stack_len : STACK_DEFAULT, (size_t)STACK_MIN);
	if (stack_len > STACK_MAX)
		return ht_err_set(err, HT_ERR_FAILED, -EINVAL, "that stack is too large");
	r = check_borrowable(target, i, err);
	if (r < 0)
		return r;
	ht_target_begin_phase(target, HT_STOP_BORROW);
	set_up(remote, target, i);
	ht_sigchld_block(&old);
	r = begin(remote, ht_align_up(stack_len, (size_t)4096));
	ht_sigchld_restore(&old);
	if (r < 0)
		return begin_failed(remote, r, err);
	*ret_remote = remote;
	return 0;
}

int ht_remote_unmap(struct ht_target *target, size_t i, ht_addr_t addr, uint64_t len,
		    struct ht_err *err)
{
	struct ht_remote *remote = &target->remote;
	const uint64_t args[6] = { addr, len };
	sigset_t old;
	long result;
	int r = check_borrowable(target, i, err), end;

	if (r < 0)
		return r;
	ht_target_begin_phase(target, HT_STOP_BORROW);
	set_up(remote, target, i);
	ht_sigchld_block(&old);
	r = save_state(remote);
	if (r == 0) {
		r = divert(remote);
		if (r == 0)
			r = make_own_call(remote, SYS_munmap, args, &result);
		end = ht_remote_end(remote);
		r = r < 0 ? r : end;
	}
	stop_suspending(remote);
	remote->active = false;
	ht_sigchld_restore(&old);
	return r < 0 ? begin_failed(remote, r, err) : 0;
}

/* After a failure the thread is at some stop, or gone, or runs on without us. */
static int settle_failure(struct ht_remote *remote, int error)
{
	if (error == -ETIMEDOUT) {
		ht_remote_abandon(remote);
		remote->lost = true;
	}
	return error;
}

int ht_remote_calls(struct ht_remote *remote, struct ht_syscall *calls, size_t n)
{
	size_t done = 0, some;
	sigset_t old;
	int r = 0;

	if (!remote->active || remote->lost)
		return -ESRCH;
	for (size_t i = 0; i < n; i++)
		calls[i].result = HT_SYSCALL_NOT_MADE;
	ht_sigchld_block(&old);
	while (done < n && r == 0) {
		r = make_some_calls(remote, calls + done, n - done, &some);
		done += some;
		if (r == 0 && has_failed(&calls[done - 1]))
			break;
	}
	if (r < 0)
		r = settle_failure(remote, r);
	ht_sigchld_restore(&old);
	return r;
}

int ht_remote_syscall(struct ht_remote *remote, long nr, const uint64_t args[6],
		      long *ret_result)
{
	struct ht_syscall call = { .nr = nr };
	int r;

	memcpy(call.args, args, sizeof(call.args));
	r = ht_remote_calls(remote, &call, 1);
	*ret_result = (long)call.result;
	return r;
}

ht_addr_t ht_remote_scratch(struct ht_remote *remote, size_t len)
{
	ht_addr_t at = ht_align_up(remote->scratch, (ht_addr_t)16);

	if (!remote->active || remote->lost || at > remote->scratch_end ||
	    len > remote->scratch_end - at)
		return 0;
	remote->scratch = at + len;
	return at;
}

/* Until it stands at the call behind what the function returned to; that is not made. */
static int run_to_return(struct ht_remote *remote, uint64_t deadline_ns,
			 struct ht_regs *ret_regs)
{
	for (;;) {
		bool entry;
		int r = ht_remote_to_syscall_stop(remote, deadline_ns, &entry, ret_regs);
		ht_addr_t at;

		if (r < 0)
			return r;
		at = ht_regs_pc(ret_regs) - remote->base;
		if (entry && (at == ht_deadman_end_offset || at == ht_deadman_clean_offset))
			break;
	}
	(void)ht_fault("remote.return");
	/* The restart of the interrupted call would be lost by an rt_sigreturn. */
	ht_regs_cancel_syscall(ret_regs);
	return ht_thread_set_regs(ht_remote_tid(remote), ret_regs);
}

static int call(struct ht_remote *remote, ht_addr_t fn, const uint64_t args[6],
		uint64_t deadline_ns, uint64_t *ret_result)
{
	pid_t tid = ht_remote_tid(remote);
	struct ht_regs regs = remote->saved;
	uint64_t return_to = remote->base + ht_deadman_return_offset;
	int r;

	/* A call that was under way (an exit-stop) must be over: it'd show as an entry. */
	r = ht_remote_park(remote);
	if (r < 0)
		return r;
	ht_regs_prepare_call(&regs, fn, remote->frame_sp, args);
	r = ht_target_write(remote->target, ht_regs_sp(&regs), &return_to, sizeof(return_to));
	if (r == 0)
		r = ht_fault("remote.call");
	if (r == 0)
		r = ht_thread_set_regs(tid, &regs);
	if (r < 0)
		return r;
	(void)ht_fault("remote.called");
	r = run_to_return(remote, deadline_ns, &regs);
	if (r < 0)
		return r;
	*ret_result = ht_regs_call_result(&regs);
	(void)ht_fault("remote.cancel");
	return ht_remote_park(remote);
}

int ht_remote_call(struct ht_remote *remote, ht_addr_t fn, const uint64_t args[6],
		   uint64_t deadline_ns, uint64_t *ret_result)
{
	sigset_t old;
	int r;

	if (!remote->active || remote->lost)
		return -ESRCH;
	ht_sigchld_block(&old);
	r = call(remote, fn, args, deadline_ns, ret_result);
	if (r < 0)
		r = settle_failure(remote, r);
	ht_sigchld_restore(&old);
	return r;
}

ht_addr_t ht_remote_fds(const struct ht_remote *remote)
{
	return remote->fds;
}

/* Run the stub from @offset on, to its end. */
static int run_stub(struct ht_remote *remote, size_t offset, long nr, const uint64_t args[6],
		    struct ht_regs *ret_regs)
{
	int r = ht_remote_park(remote);

	if (r < 0)
		return r;
	*ret_regs = remote->saved;
	ht_regs_prepare_syscall(ret_regs, remote->base + offset, nr, args);
	ht_regs_set_sp(ret_regs, remote->frame_sp);
	r = ht_thread_set_regs(ht_remote_tid(remote), ret_regs);
	if (r == 0)
		r = run_to_return(remote, ht_deadline_ns(SYSCALL_NS), ret_regs);
	return r < 0 ? r : ht_remote_park(remote);
}

static int close_fds(struct ht_remote *remote)
{
	struct ht_regs regs = remote->saved;

	if (!remote->signal)
		return run_stub(remote, ht_deadman_close_offset, 0, (const uint64_t[6]){ 0 },
				&regs);
	ht_regs_prepare_syscall(&regs, remote->base + ht_deadman_close_offset, 0,
				(const uint64_t[6]){ 0 });
	return run_to_notice(remote, &regs);
}

int ht_remote_open(struct ht_remote *remote, long nr, const uint64_t args[6],
		   long *ret_result)
{
	struct ht_regs regs;
	sigset_t old;
	int r;

	if (!remote->active || remote->lost)
		return -ESRCH;
	ht_sigchld_block(&old);
	r = ht_fault("remote.open");
	if (r == 0)
		r = run_stub(remote, ht_deadman_open_offset, nr, args, &regs);
	if (r < 0)
		r = settle_failure(remote, r);
	else
		*ret_result = (long)ht_regs_call_result(&regs);
	ht_sigchld_restore(&old);
	return r;
}

int ht_remote_close_fds(struct ht_remote *remote)
{
	sigset_t old;
	int r;

	/* One that was let go closes them by itself. */
	if (remote->active && remote->lost && !remote->filtered)
		return 0;
	if (!remote->active || remote->lost)
		return -ESRCH;
	ht_sigchld_block(&old);
	r = ht_fault("remote.close");
	if (r == 0)
		r = close_fds(remote);
	if (r < 0)
		r = settle_failure(remote, r);
	ht_sigchld_restore(&old);
	return r;
}

/* Zeros where the stub would be, but for the words of it that had been written. */
static bool is_unfinished(const uint8_t *code)
{
	static const uint8_t blank[8];

	for (size_t i = 0; i < STUB_MAX; i += 8) {
		size_t len = ht_min(sizeof(blank), STUB_MAX - i);

		if (memcmp(code + i, blank, len) == 0)
			continue;
		if (i >= ht_deadman_stub_len)
			return false;
		if (i < ht_deadman_data_offset &&
		    memcmp(code + i, ht_deadman_stub + i,
			   ht_min(len, ht_deadman_data_offset - i)) != 0)
			return false;
	}
	return true;
}

bool ht_remote_leftover(const struct ht_target *target, const struct ht_area *area,
			ht_addr_t *ret_end)
{
	uint8_t code[STUB_MAX];
	struct ht_deadman data;

	if (area->prot != (HT_PROT_READ | HT_PROT_EXEC) || area->inode ||
	    (*area->path && strcmp(area->path, "[anon:" HT_DEADMAN_NAME "]")) ||
	    ht_target_read(target, area->start, code, sizeof(code)) < 0)
		return false;
	memcpy(&data, code + ht_deadman_data_offset, sizeof(data));
	if (memcmp(code, ht_deadman_stub, ht_deadman_data_offset) == 0 &&
	    !strncmp(data.name, HT_DEADMAN_NAME, sizeof(data.name)) &&
	    data.base == area->start && data.len % 4096 == 0 &&
	    data.len >= CODE_LEN + STACK_MIN && data.len <= CODE_LEN + STACK_MAX) {
		*ret_end = data.base + data.len;
		return true;
	}
	*ret_end = area->end;
	return area->start - HINT < HINT_LEN && is_unfinished(code);
}

int ht_remote_end(struct ht_remote *remote)
{
	sigset_t old;
	int r = 0, back;

	if (!remote || !remote->active)
		return 0;
	if (remote->lost) {
		/* It stands on the mapping, and gives itself back. */
		remote->active = false;
		return 0;
	}
	ht_sigchld_block(&old);
	/* Nothing may stay: what failed for a passing reason is tried once more. */
	if (thread_of(remote)->state == HT_THREAD_STOPPED && unmap_region(remote) < 0 &&
	    thread_of(remote)->state == HT_THREAD_STOPPED)
		r = unmap_region(remote);
	back = thread_of(remote)->state == HT_THREAD_STOPPED ? give_back(remote) : -ESRCH;
	remote->active = false;
	ht_sigchld_restore(&old);
	return back < 0 ? back : r;
}
