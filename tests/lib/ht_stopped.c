/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_stopped.c: see ht_stopped.h. Uses nothing of attach/, which is tested with it.
 */
#include "ht_stopped.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

int ht_stopped_stop(struct ht_stopped *stopped)
{
	int status;

	if (ptrace(PTRACE_SEIZE, stopped->tid, NULL, NULL) < 0 ||
	    ptrace(PTRACE_INTERRUPT, stopped->tid, NULL, NULL) < 0 ||
	    waitpid(stopped->tid, &status, __WALL) != stopped->tid)
		return -errno;
	return WIFSTOPPED(status) ? 0 : -ESRCH;
}

void ht_stopped_resume(struct ht_stopped *stopped)
{
	ptrace(PTRACE_DETACH, stopped->tid, NULL, NULL);
}

int ht_stopped_open(pid_t pid, pid_t tid, struct ht_stopped *ret_stopped)
{
	struct ht_stopped s = { .pid = pid, .tid = tid, .procfd = -1, .memfd = -1 };
	char path[64];
	int r = ht_stopped_stop(&s);

	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/%d", pid);
	s.procfd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	s.memfd = open(path, O_RDWR | O_CLOEXEC);
	if (s.procfd < 0 || s.memfd < 0)
		return -errno;
	*ret_stopped = s;
	return 0;
}

int ht_stopped_read(const struct ht_stopped *stopped, uint64_t addr, void *buf,
		    size_t len)
{
	return ht_fd_pread_all(stopped->memfd, buf, len, addr);
}

static int read_regs(struct ht_stopped *stopped)
{
	struct user_regs_struct r;
	struct ht_unwind_input *in = &stopped->input;

	if (ptrace(PTRACE_GETREGS, stopped->tid, NULL, &r) < 0)
		return -errno;
	in->regs[HT_REG_RAX] = r.rax;
	in->regs[HT_REG_RDX] = r.rdx;
	in->regs[HT_REG_RCX] = r.rcx;
	in->regs[HT_REG_RBX] = r.rbx;
	in->regs[HT_REG_RSI] = r.rsi;
	in->regs[HT_REG_RDI] = r.rdi;
	in->regs[HT_REG_RBP] = r.rbp;
	in->regs[HT_REG_RSP] = r.rsp;
	in->regs[HT_REG_R8] = r.r8;
	in->regs[HT_REG_R9] = r.r9;
	in->regs[HT_REG_R10] = r.r10;
	in->regs[HT_REG_R11] = r.r11;
	in->regs[HT_REG_R12] = r.r12;
	in->regs[HT_REG_R13] = r.r13;
	in->regs[HT_REG_R14] = r.r14;
	in->regs[HT_REG_R15] = r.r15;
	in->regs[HT_REG_RIP] = r.rip;
	in->known = (1u << HT_UNWIND_REGS) - 1;
	in->rip_is_return = false;
	return 0;
}

int ht_stopped_sample(struct ht_stopped *stopped, size_t max)
{
	struct ht_unwind_input *in = &stopped->input;
	ssize_t n;
	int r = read_regs(stopped);

	if (r < 0)
		return r;
	if (stopped->stack_cap < max) {
		free((void *)in->stack);
		in->stack = malloc(max);
		stopped->stack_cap = in->stack ? max : 0;
		if (!in->stack)
			return -ENOMEM;
	}
	in->stack_base = in->regs[HT_REG_RSP];
	/* Ends where the mapping ends. */
	n = pread(stopped->memfd, (void *)in->stack, max, (off_t)in->stack_base);
	if (n < 0)
		return -errno;
	in->stack_len = (size_t)n;
	in->stack_cut = (size_t)n == max;
	return 0;
}

int ht_stopped_step(struct ht_stopped *stopped)
{
	int status;

	if (ptrace(PTRACE_SINGLESTEP, stopped->tid, NULL, NULL) < 0)
		return -errno;
	if (waitpid(stopped->tid, &status, __WALL) != stopped->tid)
		return -errno;
	return WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP && !(status >> 16) ? 0
									       : -ENODATA;
}

void ht_stopped_close(struct ht_stopped *stopped)
{
	ht_stopped_resume(stopped);
	free((void *)stopped->input.stack);
	stopped->input.stack = NULL;
	stopped->procfd = ht_fd_close(stopped->procfd);
	stopped->memfd = ht_fd_close(stopped->memfd);
}
