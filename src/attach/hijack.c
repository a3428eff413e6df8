/* SPDX-License-Identifier: Apache-2.0
 *
 * hijack.c: whether a stopped thread may be borrowed where it is (see target.h).
 */
#include <linux/kcmp.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "attach/attach-priv.h"
#include "attach/vma.h"

/* From the thread pointer to the end of the thread's stack mapping: struct pthread (glibc),
 * thread-specific data (musl). */
#define CONTROL_BLOCK_MAX 8192

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif
/* Since Linux 6.4. */
#define PTRACE_GET_SUD_CONFIG 0x4211

/*
 * A restartable sequence that is under way has its pc checked by the kernel at each
 * preemption. With the pc in our code it would be forgotten, and go on half done when it
 * gets its pc back.
 */
static bool in_rseq(const struct ht_target *target, const struct ht_thread *thread)
{
	struct {
		uint64_t area;
		uint32_t size, signature, flags, pad;
	} conf = { 0 };
	struct {
		uint32_t version, flags;
		uint64_t start, len, abort;
	} section;
	uint64_t pointer;
	long r = ht_ptrace(PTRACE_GET_RSEQ_CONFIGURATION, thread->tid, sizeof(conf),
			   (uintptr_t)&conf);

	/* A kernel before 5.13, or without rseq, or a thread that has none. */
	if (r < 0 || !conf.area)
		return false;
	if (ht_target_read(target, conf.area + 8, &pointer, sizeof(pointer)) < 0)
		return true;
	if (!pointer)
		return false;
	if (ht_target_read(target, pointer, &section, sizeof(section)) < 0)
		return true;
	return ht_regs_pc(&thread->regs) - section.start < section.len;
}

/*
 * Below SP must be stack and nothing else: what runs on a coroutine's stack, a goroutine's,
 * or an alternate signal stack has somebody's data right below its end. So SP has to be in
 * the kernel's own [stack], or in a mapping with the thread's control block at its top, as
 * both libcs lay out what pthread_create maps, with a guard below.
 */
static bool has_stack_room(const struct ht_target *target, const struct ht_thread *thread)
{
	ht_addr_t sp = ht_regs_sp(&thread->regs);
	ht_addr_t tp = ht_regs_thread_pointer(&thread->regs);
	struct ht_vma vma;

	if (ht_vma_find(target->procfd, sp, &vma) < 0 || !vma.writable)
		return false;
	/* The main thread's grows as it is written to, by us too; at its limit that fails. */
	if (vma.is_stack)
		return true;
	if (sp - vma.start < HT_OWN_STACK_ROOM)
		return false;
	return tp > sp && tp < vma.end && vma.end - tp <= CONTROL_BLOCK_MAX;
}

static bool has_shadow_stack(pid_t tid)
{
	uint64_t ssp;
	struct iovec iov = { &ssp, sizeof(ssp) };

	return ht_ptrace(PTRACE_GETREGSET, tid, HT_REGSET_SHADOW_STACK, (uintptr_t)&iov) >= 0;
}

bool ht_target_dispatches_syscalls(const struct ht_target *target, size_t i)
{
	struct {
		uint64_t mode, selector, offset, len;
	} conf = { 0 };

	return ht_ptrace(PTRACE_GET_SUD_CONFIG, target->threads[i].tid, sizeof(conf),
			 (uintptr_t)&conf) >= 0 &&
	       conf.mode;
}

bool ht_target_shares_files(const struct ht_target *target, size_t i)
{
	return syscall(SYS_kcmp, target->live_tid, target->threads[i].tid, KCMP_FILES, 0, 0) <= 0;
}

const char *ht_target_unborrowable(const struct ht_target *target, size_t i)
{
	const struct ht_thread *thread = &target->threads[i];

	if (thread->state != HT_THREAD_STOPPED)
		return "waits in the kernel";
	if (!ht_regs_is_native(&thread->regs))
		return "runs 32-bit code";
	if (in_rseq(target, thread))
		return "is in a restartable sequence";
	if (!has_stack_room(target, thread))
		return "runs on a stack of the program's own, or has little left of its stack";
	if (has_shadow_stack(thread->tid))
		return "has a shadow stack";
	if (ht_target_dispatches_syscalls(target, i))
		return "handles its system calls itself, as Wine's do";
	if (!ht_target_shares_files(target, i))
		return "has a table of open files of its own";
	return NULL;
}

bool ht_target_hijackable_waiting(const struct ht_target *target, size_t i)
{
	return !ht_target_unborrowable(target, i);
}

bool ht_target_hijackable(const struct ht_target *target, size_t i)
{
	return ht_target_hijackable_waiting(target, i) &&
	       !ht_regs_has_restart_block(&target->threads[i].regs);
}
