/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.c: see launch.h.
 *
 * The program is stopped at its exec, and a jump to itself is put where it is to wait: no
 * breakpoint, since SIGTRAP may be ignored (that is inherited), and with our death it
 * would be fatal. Then it runs, and is looked at now and then until it waits there. If we
 * die before it has waited it must not do so for ever: until then it has asked to be killed
 * at our death. Its own code has not begun.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/attach-priv.h"
#include "attach/launch.h"
#include "attach/loader.h"
#include "attach/remote.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"

/* Loaders read files, maybe from slow disks. */
#define LAUNCH_NS (60 * HT_NS_PER_SEC)
#define LOOK_MIN_NS (50 * HT_NS_PER_US)
#define LOOK_MAX_NS HT_NS_PER_MS

#define LAUNCH_OPTIONS (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC)

struct child {
	pid_t pid;
	int go;		/* write end: a byte lets it exec */
	int failed;	/* read end: errno of the exec, or closed by it */
	bool reaped;
};

/* One place where the program is to wait. */
struct trap {
	ht_addr_t addr;
	uint8_t original[HT_SPIN_LEN];
	bool set;
};

static _noreturn_ void run_child(char *const argv[], int go, int failed)
{
	ssize_t n;
	char byte;
	int error;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		_exit(127);
	do
		n = read(go, &byte, 1);
	while (n < 0 && errno == EINTR);
	/* Heaptap died. */
	if (n != 1)
		_exit(127);
	ht_fd_limit_restore();
	execvp(argv[0], argv);
	error = errno;
	(void)!write(failed, &error, sizeof(error));
	_exit(127);
}

static int start_child(char *const argv[], struct child *ret_child)
{
	int go[2], failed[2];
	pid_t pid;
	int r = ht_fault("launch.fork");

	if (r < 0)
		return r;
	if (pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(failed, O_CLOEXEC) < 0) {
		r = -errno;
		(void)ht_fd_close(go[0]);
		(void)ht_fd_close(go[1]);
		return r;
	}
	pid = fork();
	r = pid < 0 ? -errno : 0;
	if (pid == 0) {
		(void)ht_fd_close(go[1]);
		(void)ht_fd_close(failed[0]);
		run_child(argv, go[0], failed[1]);
	}
	(void)ht_fd_close(go[0]);
	(void)ht_fd_close(failed[1]);
	if (r < 0) {
		(void)ht_fd_close(go[1]);
		(void)ht_fd_close(failed[0]);
		return r;
	}
	*ret_child = (struct child){ .pid = pid, .go = go[1], .failed = failed[0] };
	return 0;
}

static void kill_child(pid_t pid)
{
	pid_t r;

	(void)kill(pid, SIGKILL);
	do
		r = waitpid(pid, NULL, __WALL);
	while (r == pid || (r < 0 && errno == EINTR));
}

/* waitpid() for a while. 0 and the event; -ETIMEDOUT. */
static int next_event(struct child *child, uint64_t deadline_ns, struct ht_event *ret_event)
{
	for (;;) {
		int status;
		pid_t r = waitpid(child->pid, &status, __WALL | WNOHANG);

		if (r == child->pid) {
			*ret_event = ht_event_decode(status);
			child->reaped = WIFEXITED(status) || WIFSIGNALED(status);
			return 0;
		}
		if (r < 0 && errno != EINTR)
			return -errno;
		if (ht_deadline_passed(deadline_ns))
			return -ETIMEDOUT;
		ht_thread_doze(deadline_ns);
	}
}

/* Let a stop that isn't the wanted one pass as if nobody traced. */
static void pass_on(pid_t pid, struct ht_event event)
{
	int request = event.kind == HT_EVENT_GROUP_STOP ? PTRACE_LISTEN : PTRACE_CONT;
	int sig = event.kind == HT_EVENT_SIGNAL ? event.value : 0;

	(void)ht_ptrace(request, pid, 0, (uintptr_t)sig);
}

static int ended_early(const char *name, struct ht_event event, struct ht_err *err)
{
	if (event.kind == HT_EVENT_EXITED)
		return ht_err_set(err, HT_ERR_GONE, -ESRCH,
				  "%s exited with status %d before its program began", name,
				  event.value);
	return ht_err_set(err, HT_ERR_GONE, -ESRCH,
			  "%s was killed by signal %d before its program began", name,
			  event.value);
}

/* Run to the exec event. */
static int await_exec(struct child *child, const char *name, uint64_t deadline_ns,
		      struct ht_err *err)
{
	struct ht_event event;
	int error;

	for (;;) {
		int r = next_event(child, deadline_ns, &event);

		if (r < 0)
			return ht_err_set(err, HT_ERR_FAILED, r, "can't start %s: %s", name,
					  strerror(-r));
		switch (event.kind) {
		case HT_EVENT_EXEC:
			return 0;
		case HT_EVENT_EXITED:
		case HT_EVENT_KILLED:
			if (read(child->failed, &error, sizeof(error)) == sizeof(error))
				return ht_err_set(err, HT_ERR_FAILED, -error,
						  "can't run %s: %s", name, strerror(error));
			return ended_early(name, event, err);
		default:
			pass_on(child->pid, event);
		}
	}
}

static int seize_and_exec(struct child *child, const char *name, uint64_t deadline_ns,
			  struct ht_err *err)
{
	int r = ht_fault("launch.seize");

	if (r == 0)
		r = (int)ht_ptrace(PTRACE_SEIZE, child->pid, 0, LAUNCH_OPTIONS);
	if (r < 0)
		return ht_err_set(err, HT_ERR_PERM, r,
				  "can't trace %s: %s; is ptrace allowed here (seccomp, kernel.yama.ptrace_scope)?",
				  name, strerror(-r));
	if (write(child->go, "", 1) != 1)
		return ht_err_set(err, HT_ERR_FAILED, -EPIPE, "can't start %s", name);
	return await_exec(child, name, deadline_ns, err);
}

/* The kernel ignores the set-user-ID bit of what is traced by those who may not. */
static int refuse_setuid(const struct ht_target *target, const char *name,
			 struct ht_err *err)
{
	struct stat st;

	if (geteuid() == 0 || fstatat(ht_target_procfd(target), "exe", &st, 0) < 0)
		return 0;
	if ((!(st.st_mode & S_ISUID) || st.st_uid == geteuid()) &&
	    (!(st.st_mode & S_ISGID) || st.st_gid == getegid()))
		return 0;
	return ht_err_set(err, HT_ERR_PERM, -EPERM,
			  "%s is set-user-ID or set-group-ID and would run without those rights; start heaptap as root",
			  name);
}

static int set_trap(struct ht_target *target, ht_addr_t addr, struct trap *ret_trap)
{
	struct trap trap = { .addr = addr, .set = true };
	int r = ht_target_read(target, addr, trap.original, sizeof(trap.original));

	if (r == 0)
		r = ht_fault("launch.poke");
	if (r == 0)
		r = ht_target_poke_bytes(target, addr, ht_spin_insn, HT_SPIN_LEN);
	if (r == 0)
		*ret_trap = trap;
	return r;
}

static int clear_trap(struct ht_target *target, struct trap *trap)
{
	int r = ht_fault("launch.unpoke");

	if (!trap->set || r < 0)
		return r;
	trap->set = false;
	return ht_target_poke_bytes(target, trap->addr, trap->original, HT_SPIN_LEN);
}

/* Let it run for a moment, then stop it again. 0; -ESRCH with *ret_event; -EXDEV. */
static int run_a_while(struct ht_target *target, uint64_t ns, struct ht_event *last)
{
	struct ht_thread *thread = &target->threads[0];
	uint64_t until_ns = ht_deadline_ns(ns);
	bool asked = false;

	pass_on(thread->tid, *last);
	for (;;) {
		int r = ht_thread_poll(target, thread->tid, last);

		if (r < 0)
			return -ESRCH;
		if (r == 0) {
			if (!asked && ht_deadline_passed(until_ns)) {
				(void)ht_ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0);
				asked = true;
			}
			ht_thread_doze(asked ? 0 : until_ns);
			continue;
		}
		if (last->kind == HT_EVENT_EXITED || last->kind == HT_EVENT_KILLED)
			return -ESRCH;
		if (last->kind == HT_EVENT_EXEC)
			return -EXDEV;
		if (last->kind == HT_EVENT_STOP || last->kind == HT_EVENT_GROUP_STOP) {
			r = ht_thread_get_regs(thread->tid, &thread->regs);
			if (r == 0 && ht_target_repair(target, &thread->regs))
				r = ht_thread_set_regs(thread->tid, &thread->regs);
			return r;
		}
		/* The stop took the INTERRUPT with it. */
		pass_on(thread->tid, *last);
		asked = false;
	}
}

static int return_from_brk(struct ht_target *target)
{
	struct ht_thread *thread = &target->threads[0];
	uint64_t top;
	int r = ht_target_read(target, ht_regs_sp(&thread->regs), &top, sizeof(top));

	if (r < 0)
		return r;
	if (!ht_regs_emulate_ret(&thread->regs, top))
		return -EINVAL;
	return ht_thread_set_regs(thread->tid, &thread->regs);
}

/* At the loader's call for debuggers. 1: all is mapped; 0: not yet, it goes on. */
static int look_at_loader(struct ht_target *target, const struct ht_ldso *loader,
			  bool *adding)
{
	enum ht_ldso_state state;
	int r = ht_ldso_state(target, loader, &state);

	/* The state is "consistent" before the loader begins, too. */
	if (r == 0 && state == HT_LDSO_CONSISTENT && *adding)
		return 1;
	if (r == 0 && state == HT_LDSO_ADDS)
		*adding = true;
	return return_from_brk(target);
}

static int run_to_traps(struct ht_target *target, const struct ht_ldso *loader,
			const struct trap traps[2], uint64_t deadline_ns,
			struct ht_event *ret_event)
{
	struct ht_event event = { HT_EVENT_EXEC, 0 };
	uint64_t ns = LOOK_MIN_NS;
	bool adding = false;

	for (;;) {
		int r = run_a_while(target, ns, &event);
		ht_addr_t pc;

		*ret_event = event;
		if (r < 0)
			return r;
		pc = ht_regs_pc(&target->threads[0].regs);
		if (pc == traps[0].addr)
			return 0;
		if (traps[1].set && pc == traps[1].addr) {
			r = look_at_loader(target, loader, &adding);
			if (r != 0)
				return r < 0 ? r : 0;
		}
		if (ht_deadline_passed(deadline_ns))
			return -ETIMEDOUT;
		ns = ht_min(2 * ns, LOOK_MAX_NS);
	}
}

static int run_to_start(struct ht_target *target, const char *name, uint64_t deadline_ns,
			struct ht_err *err)
{
	struct ht_event event = { HT_EVENT_NONE, 0 };
	struct trap traps[2] = { 0 };
	struct ht_ldso loader;
	int r = ht_ldso_read(target, &loader), r2;

	/* The entry is trapped in any case: a loader that isn't what it seems gets there. */
	if (r == 0)
		r = set_trap(target, loader.entry, &traps[0]);
	if (r == 0 && loader.brk)
		r = set_trap(target, loader.brk, &traps[1]);
	if (r == 0)
		r = run_to_traps(target, &loader, traps, deadline_ns, &event);
	if (r == -ESRCH && event.kind != HT_EVENT_NONE)
		return ended_early(name, event, err);
	(void)ht_fault("launch.break");
	r2 = clear_trap(target, &traps[1]);
	if (r == 0)
		r = r2;
	r2 = clear_trap(target, &traps[0]);
	if (r == 0)
		r = r2;
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "can't bring %s to its start: %s", name,
				  strerror(-r));
	return 0;
}

/* It is as if somebody else had started it: our death is none of its business. */
static int let_outlive_us(struct ht_target *target, struct ht_err *err)
{
	const uint64_t args[6] = { PR_SET_PDEATHSIG, 0 };
	struct ht_remote *remote;
	long result;
	int r = ht_remote_begin(target, 0, 0, &remote, err), end;

	if (r < 0)
		return r;
	r = ht_fault("launch.outlive");
	if (r == 0)
		r = ht_remote_syscall(remote, SYS_prctl, args, &result);
	end = ht_remote_end(remote);
	r = r < 0 ? r : end;
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "can't let %d (%s) go: %s",
				  target->pid, target->facts.name, strerror(-r));
	return 0;
}

static int open_launched(pid_t pid, const char *name, uint64_t deadline_ns,
			 struct ht_target **ret_target, struct ht_err *err)
{
	struct ht_target *target;
	struct ht_thread *thread;
	struct ht_facts facts;
	int r = ht_target_open_flags(pid, HT_OPEN_LAUNCHED, &target, err);

	if (r < 0) {
		kill_child(pid);
		return ht_err_prefix(err, r, "%s was not run", name);
	}
	thread = ht_thread_add(target, pid);
	thread->state = HT_THREAD_STOPPED;
	ht_stop_clock_start(target);
	r = refuse_setuid(target, name, err);
	if (r == 0)
		r = run_to_start(target, name, deadline_ns, err);
	/* Now that the libraries are there. */
	if (r == 0 && ht_facts_read(pid, &facts, NULL) == 0) {
		target->facts = facts;
		(void)ht_gadgets_find(target, &target->gadgets);
	}
	if (r == 0)
		r = let_outlive_us(target, err);
	if (r < 0) {
		/* Killed first: closing would let it run. */
		if (!target->is_reaped)
			kill_child(pid);
		thread->state = HT_THREAD_GONE;
		ht_target_close(target);
		return r;
	}
	ht_stop_clock_start(target);
	*ret_target = target;
	return 0;
}

static int launch(struct child *child, const char *name, struct ht_target **ret_target,
		  struct ht_err *err)
{
	uint64_t deadline_ns = ht_deadline_ns(LAUNCH_NS);
	int r = seize_and_exec(child, name, deadline_ns, err);

	if (r == 0 && ht_fault("launch.exec") < 0)
		r = ht_err_set(err, HT_ERR_FAILED, -EIO, "can't start %s", name);
	if (r < 0) {
		/* Its number may be another's when it was waited for. */
		if (!child->reaped)
			kill_child(child->pid);
		return r;
	}
	return open_launched(child->pid, name, deadline_ns, ret_target, err);
}

int ht_launch(char *const argv[], struct ht_target **ret_target, struct ht_err *err)
{
	struct child child = { .go = -1, .failed = -1 };
	sigset_t old;
	int r = start_child(argv, &child);

	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "can't start a process: %s",
				  strerror(-r));
	/* Only now: the child has the caller's mask. */
	ht_sigchld_block(&old);
	r = launch(&child, argv[0], ret_target, err);
	ht_sigchld_restore(&old);
	(void)ht_fd_close(child.go);
	(void)ht_fd_close(child.failed);
	return r;
}

int ht_target_wait(struct ht_target *target, int *ret_status)
{
	int status;
	pid_t r;

	if (!target->is_child)
		return -ECHILD;
	if (!target->is_reaped) {
		do
			r = waitpid(target->pid, &status, __WALL);
		while ((r < 0 && errno == EINTR) || (r > 0 && WIFSTOPPED(status)));
		if (r < 0)
			return -errno;
		target->is_reaped = true;
		target->wait_status = status;
	}
	*ret_status = target->wait_status;
	return 0;
}
