/* SPDX-License-Identifier: Apache-2.0
 *
 * step_program.c: see step.h. The program, its instructions, and what each of them does to
 * its shadow stack.
 */
#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

static void close_space(struct tracer *t)
{
	t->live = ht_live_free(t->live);
	t->unwinder = ht_unwinder_free(t->unwinder);
	t->space = ht_space_free(t->space);
	t->stopped.procfd = ht_fd_close(t->stopped.procfd);
	t->stopped.memfd = ht_fd_close(t->stopped.memfd);
}

static int stack_bounds(const struct tracer *t, uint64_t sp, uint64_t *ret_lo,
			uint64_t *ret_hi)
{
	const struct ht_area *area = ht_maps_find(ht_space_maps(t->space), sp);

	if (!area)
		return -ENOENT;
	/* It grows. */
	*ret_lo = area->end - (UINT64_C(64) << 20);
	*ret_hi = area->end;
	return 0;
}

static int read_regs(struct tracer *t)
{
	return ptrace(PTRACE_GETREGS, t->stopped.tid, NULL, &t->regs) < 0 ? -errno : 0;
}

static void forget_insns(struct tracer *t)
{
	memset(t->insns, 0, sizeof(t->insns));
	t->n_insns = 0;
}

/* A new program is in the process, or this look at it is the first. */
static int open_space(struct tracer *t)
{
	uint64_t lo, hi;
	char path[64];
	int r;

	close_space(t);
	snprintf(path, sizeof(path), "/proc/%d", t->stopped.pid);
	t->stopped.procfd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/mem", t->stopped.pid);
	t->stopped.memfd = open(path, O_RDONLY | O_CLOEXEC);
	r = ht_space_new(t->stopped.procfd, t->stopped.memfd, t->modules, &t->space);
	if (r < 0)
		return r;
	r = ht_unwinder_new(t->space, t->stopped.memfd, &t->unwinder);
	if (r < 0)
		return r;
	r = read_regs(t);
	if (r < 0)
		return r;
	r = stack_bounds(t, t->regs.rsp, &lo, &hi);
	if (r < 0)
		return r;
	forget_insns(t);
	shadow_start(&t->shadow, lo, hi);
	return 0;
}

static bool is_event(int status, int event)
{
	return WIFSTOPPED(status) && status >> 8 == (SIGTRAP | event << 8);
}

/* Wait for the next stop. False: it's gone. */
static bool wait_stop(struct tracer *t)
{
	if (waitpid(t->stopped.tid, &t->status, __WALL) != t->stopped.tid ||
	    !WIFSTOPPED(t->status)) {
		t->ended = true;
		return false;
	}
	return true;
}

/* The child: the same addresses each time, and its output is nobody's. */
_noreturn_ static void become(char **argv)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	dup2(null, 1);
	personality(ADDR_NO_RANDOMIZE);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	execvp(argv[0], argv);
	_exit(127);
}

int step_start(struct tracer *t, char **argv)
{
	const long options =
		PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;
	cpu_set_t cpu;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0)
		become(argv);
	t->stopped =
		(struct ht_stopped){.pid = pid, .tid = pid, .procfd = -1, .memfd = -1};
	if (!wait_stop(t) || ptrace(PTRACE_SETOPTIONS, pid, NULL, options) < 0)
		return -ESRCH;
	/* One CPU for both makes it several times as fast. */
	CPU_ZERO(&cpu);
	CPU_SET((unsigned)sched_getcpu(), &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	sched_setaffinity(pid, sizeof(cpu), &cpu);
	do {
		if (ptrace(PTRACE_CONT, pid, NULL, NULL) < 0 || !wait_stop(t))
			return -ENOEXEC;
	} while (!is_event(t->status, PTRACE_EVENT_EXEC));
	return open_space(t);
}

static enum shadow_insn kind_of(const ZydisDecodedInstruction *insn)
{
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_CALL:
		return SHADOW_CALL;
	case ZYDIS_MNEMONIC_RET:
		return SHADOW_RET;
	default:
		return SHADOW_OTHER;
	}
}

static struct insn *slot_of(struct tracer *t, uint64_t pc)
{
	uint32_t i = (uint32_t)(pc * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (INSNS - 1);

	while (t->insns[i].pc && t->insns[i].pc != pc)
		i = (i + 1) & (INSNS - 1);
	return &t->insns[i];
}

struct insn *step_insn(struct tracer *t, uint64_t pc)
{
	struct insn *insn = slot_of(t, pc);
	ZydisDecodedInstruction decoded;
	uint8_t code[ZYDIS_MAX_INSTRUCTION_LENGTH];
	ssize_t n;

	if (insn->pc)
		return insn;
	if (++t->n_insns > INSNS / 4 * 3) {
		forget_insns(t);
		insn = slot_of(t, pc);
	}
	*insn = (struct insn){.pc = pc};
	n = pread(t->stopped.memfd, code, sizeof(code), (off_t)pc);
	if (n > 0 && ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
			     &t->decoder, ZYAN_NULL, code, (size_t)n, &decoded))) {
		insn->kind = (uint8_t)kind_of(&decoded);
		insn->len = decoded.length;
		insn->is_syscall = decoded.mnemonic == ZYDIS_MNEMONIC_SYSCALL;
	}
	return insn;
}

/* What the system call that is about to be made does to code. */
static void note_syscall(struct tracer *t)
{
	const struct user_regs_struct *r = &t->regs;
	const struct ht_area *area;

	if (r->rax == SYS_munmap || r->rax == SYS_mremap) {
		area = ht_maps_find(ht_space_maps(t->space), r->rdi);
		if (!area || !(area->prot & HT_PROT_EXEC))
			return;
	} else if ((r->rax != SYS_mmap && r->rax != SYS_mprotect) ||
		   !(r->rdx & PROT_EXEC)) {
		return;
	}
	if (r->rax != SYS_mmap)
		forget_insns(t);
	t->stale = true;
}

/* Was a handler's frame made by this signal? Its context says where from. */
static bool note_handler(struct tracer *t, int sig, uint64_t old_pc)
{
	struct {
		uint64_t trampoline, flags, link, sp, ss_flags, size;
	} frame;
	uint64_t rip, sp = t->regs.rsp;

	if (t->regs.rdi != (uint64_t)sig || sp % 16 != 8 ||
	    ht_stopped_read(&t->stopped, sp, &frame, sizeof(frame)) ||
	    ht_stopped_read(&t->stopped, sp + 8 + 168, &rip, sizeof(rip)) ||
	    (rip != old_pc && rip != old_pc - 2))
		return false;
	shadow_signal(&t->shadow, sp, frame.trampoline, rip, frame.sp,
		      frame.sp + frame.size);
	return true;
}

/* A stop that isn't the end of a step. True: go on. */
static bool other_stop(struct tracer *t)
{
	if (is_event(t->status, PTRACE_EVENT_EXEC))
		return open_space(t) == 0;
	if (t->status >> 16)
		return true;
	t->signal = WSTOPSIG(t->status);
	return true;
}

bool step_once(struct tracer *t)
{
	struct shadow_step s = {.old_pc = t->regs.rip, .old_sp = t->regs.rsp};
	struct insn *insn = step_insn(t, s.old_pc);
	int sig = t->signal;

	s.insn = (enum shadow_insn)insn->kind;
	s.next = s.old_pc + insn->len;
	if (insn->is_syscall) {
		note_syscall(t);
		if (t->regs.rax == SYS_rt_sigreturn)
			s.insn = SHADOW_SIGRETURN;
	}
	t->signal = 0;
	if (ptrace(PTRACE_SINGLESTEP, t->stopped.tid, NULL, (long)sig) < 0 ||
	    !wait_stop(t))
		return false;
	if (WSTOPSIG(t->status) != SIGTRAP || t->status >> 16) {
		/* The instruction wasn't executed, unless it is a system call. */
		if (!other_stop(t) || read_regs(t) < 0)
			return false;
		return true;
	}
	t->n_steps++;
	if (read_regs(t) < 0)
		return false;
	s.pc = t->regs.rip;
	s.sp = t->regs.rsp;
	/* The first step behind a system call's own stop may be none. */
	if (s.pc == s.old_pc && s.sp == s.old_sp)
		return true;
	if (!sig || !note_handler(t, sig, s.old_pc))
		shadow_step(&t->shadow, &s);
	return true;
}


/* A system call of this number has returned. */
static bool is_behind(struct tracer *t, long nr)
{
	return WSTOPSIG(t->status) == (SIGTRAP | 0x80) && read_regs(t) == 0 &&
	       (long)t->regs.orig_rax == nr;
}

bool step_free(struct tracer *t, uint64_t calls, long nr)
{
	uint64_t stops = 0;
	int sig;

	/* One at the start of each, one at its end. */
	while (stops < 2 * calls && (nr < 0 || stops % 2 || !is_behind(t, nr))) {
		sig = t->signal;
		t->signal = 0;
		if (ptrace(PTRACE_SYSCALL, t->stopped.tid, NULL, (long)sig) < 0 || !wait_stop(t))
			return false;
		if (WSTOPSIG(t->status) == (SIGTRAP | 0x80))
			stops++;
		else if (WSTOPSIG(t->status) != SIGTRAP && !(t->status >> 16))
			t->signal = WSTOPSIG(t->status);
		if (is_event(t->status, PTRACE_EVENT_EXEC) && open_space(t) < 0)
			return false;
	}
	return true;
}

bool step_look(struct tracer *t)
{
	uint64_t lo, hi;

	forget_insns(t);
	t->live = ht_live_free(t->live);
	t->stale = false;
	if (read_regs(t) < 0 || ht_space_refresh(t->space) < 0 ||
	    stack_bounds(t, t->regs.rsp, &lo, &hi) < 0)
		return false;
	shadow_start(&t->shadow, lo, hi);
	return true;
}

int step_finish(struct tracer *t, bool now)
{
	if (!t->ended && now) {
		kill(t->stopped.pid, SIGKILL);
		waitpid(t->stopped.pid, NULL, __WALL);
		t->status = 0;
	} else if (!t->ended) {
		ptrace(PTRACE_DETACH, t->stopped.tid, NULL, (long)t->signal);
		waitpid(t->stopped.pid, &t->status, 0);
	}
	close_space(t);
	return t->status;
}
