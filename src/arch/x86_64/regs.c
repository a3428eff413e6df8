/* SPDX-License-Identifier: Apache-2.0
 *
 * regs.c: the general registers of a stopped x86-64 thread: reading them, turning them into
 * a system call or a function call, and what the kernel will do with them at resume.
 */
#include <linux/bpf.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "arch/arch.h"

#ifndef SYS_io_uring_enter
#define SYS_io_uring_enter 426
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#define SYS_getxattrat 464
#define SYS_listxattrat 465
#define SYS_removexattrat 466
#endif
#ifndef SYS_file_getattr
#define SYS_file_getattr 468
#define SYS_file_setattr 469
#endif

/* Never seen by a program: the kernel turns them into a restart or into EINTR on its way
 * back to user space. From include/linux/errno.h, which isn't exported. */
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516
#define EINTR_NR 4

#define EFLAGS_TF (UINT64_C(1) << 8)
#define EFLAGS_DF (UINT64_C(1) << 10)
#define EFLAGS_RF (UINT64_C(1) << 16)
#define EFLAGS_AC (UINT64_C(1) << 18)
#define EFLAGS_UNWANTED (EFLAGS_TF | EFLAGS_DF | EFLAGS_RF | EFLAGS_AC)

/* No system call: the kernel has nothing to restart. */
#define NO_SYSCALL UINT64_MAX

ht_addr_t ht_regs_pc(const struct ht_regs *regs)
{
	return regs->raw.rip;
}

ht_addr_t ht_regs_sp(const struct ht_regs *regs)
{
	return regs->raw.rsp;
}

ht_addr_t ht_regs_thread_pointer(const struct ht_regs *regs)
{
	return regs->raw.fs_base;
}

void ht_regs_by_dwarf(const struct ht_regs *regs, uint64_t ret_values[HT_DWARF_REGS])
{
	const struct user_regs_struct *r = &regs->raw;
	const uint64_t values[HT_DWARF_REGS] = { r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi,
						 r->rbp, r->rsp, r->r8, r->r9, r->r10, r->r11,
						 r->r12, r->r13, r->r14, r->r15, r->rip };

	memcpy(ret_values, values, sizeof(values));
}

void ht_regs_set_sp(struct ht_regs *regs, ht_addr_t sp)
{
	regs->raw.rsp = sp;
}

long ht_regs_result(const struct ht_regs *regs)
{
	return (long)regs->raw.rax;
}

long ht_regs_syscall(const struct ht_regs *regs)
{
	long nr = (long)regs->raw.orig_rax;

	return nr < 0 ? -1 : nr;
}

void ht_regs_prepare_syscall(struct ht_regs *regs, ht_addr_t pc, long nr,
			     const uint64_t args[6])
{
	regs->raw.rip = pc;
	regs->raw.rax = (uint64_t)nr;
	regs->raw.orig_rax = NO_SYSCALL;
	regs->raw.rdi = args[0];
	regs->raw.rsi = args[1];
	regs->raw.rdx = args[2];
	regs->raw.r10 = args[3];
	regs->raw.r8 = args[4];
	regs->raw.r9 = args[5];
	regs->raw.eflags &= ~EFLAGS_UNWANTED;
}

void ht_regs_prepare_calls(struct ht_regs *regs, ht_addr_t pc, ht_addr_t calls, size_t n)
{
	ht_regs_prepare_syscall(regs, pc, 0, (const uint64_t[6]){ 0 });
	regs->raw.rbx = calls;
	regs->raw.r12 = n;
}

void ht_regs_prepare_call(struct ht_regs *regs, ht_addr_t fn, ht_addr_t sp,
			  const uint64_t args[6])
{
	regs->raw.rip = fn;
	/* As after the push of a call: 8 below a multiple of 16. */
	regs->raw.rsp = sp - 8;
	regs->raw.rbp = 0;
	/* Number of vector registers used, for variadic functions. */
	regs->raw.rax = 0;
	regs->raw.orig_rax = NO_SYSCALL;
	regs->raw.rdi = args[0];
	regs->raw.rsi = args[1];
	regs->raw.rdx = args[2];
	regs->raw.rcx = args[3];
	regs->raw.r8 = args[4];
	regs->raw.r9 = args[5];
	regs->raw.eflags &= ~EFLAGS_UNWANTED;
}

uint64_t ht_regs_call_result(const struct ht_regs *regs)
{
	/* The dead-man's stub moved it there before it loaded its own call's number. */
	return regs->raw.rdi;
}

void ht_regs_cancel_syscall(struct ht_regs *regs)
{
	regs->raw.orig_rax = NO_SYSCALL;
}

/*
 * Calls that go to a file or its name, which may be on a file system that is a process (FUSE).
 * It is told of the interruption and may give up: what it fails with EINTR then it hasn't done.
 */
static bool goes_to_a_file(long nr)
{
	switch (nr) {
	case SYS_pread64:
	case SYS_preadv:
	case SYS_pwrite64:
	case SYS_pwritev:
	case SYS_lseek:
	case SYS_copy_file_range:
	case SYS_fallocate:
	case SYS_getdents:
	case SYS_getdents64:
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_sync_file_range:
	case SYS_ftruncate:
	case SYS_truncate:
	case SYS_open:
	case SYS_openat:
	case SYS_openat2:
	case SYS_creat:
	case SYS_name_to_handle_at:
	case SYS_open_by_handle_at:
	case SYS_stat:
	case SYS_lstat:
	case SYS_fstat:
	case SYS_newfstatat:
	case SYS_statx:
	case SYS_statfs:
	case SYS_fstatfs:
	case SYS_access:
	case SYS_faccessat:
	case SYS_faccessat2:
	case SYS_chmod:
	case SYS_fchmod:
	case SYS_fchmodat:
	case SYS_fchmodat2:
	case SYS_chown:
	case SYS_lchown:
	case SYS_fchown:
	case SYS_fchownat:
	case SYS_utime:
	case SYS_utimes:
	case SYS_futimesat:
	case SYS_utimensat:
	case SYS_readlink:
	case SYS_readlinkat:
	case SYS_symlink:
	case SYS_symlinkat:
	case SYS_link:
	case SYS_linkat:
	case SYS_mknod:
	case SYS_mknodat:
	case SYS_mkdir:
	case SYS_mkdirat:
	case SYS_rmdir:
	case SYS_unlink:
	case SYS_unlinkat:
	case SYS_rename:
	case SYS_renameat:
	case SYS_renameat2:
	case SYS_getxattr:
	case SYS_lgetxattr:
	case SYS_fgetxattr:
	case SYS_getxattrat:
	case SYS_setxattr:
	case SYS_lsetxattr:
	case SYS_fsetxattr:
	case SYS_setxattrat:
	case SYS_listxattr:
	case SYS_llistxattr:
	case SYS_flistxattr:
	case SYS_listxattrat:
	case SYS_removexattr:
	case SYS_lremovexattr:
	case SYS_fremovexattr:
	case SYS_removexattrat:
	case SYS_file_getattr:
	case SYS_file_setattr:
	case SYS_chdir:
	case SYS_fchdir:
	case SYS_chroot:
	case SYS_mount:
	case SYS_umount2:
	case SYS_execve:
	case SYS_execveat:
	case SYS_inotify_add_watch:
	case SYS_fanotify_mark:
	case SYS_bind:
		return true;
	default:
		return false;
	}
}

/*
 * Calls that return EINTR, and not a restart code, whenever they are woken without an
 * event, so also when it was only a tracer that stopped them (signal(7), "interruption by
 * stop signals"; ptrace(2) BUGS names two of them). The plain socket and file calls, splice
 * and sendfile do so only with SO_RCVTIMEO or SO_SNDTIMEO; select, pselect6 and ppoll only
 * when they can't write the rest of the time back, as it lies in read-only memory; ioctl only
 * by two requests and bpf by one command, see below.
 */
bool ht_syscall_fails_when_stopped(long nr)
{
	switch (nr) {
	case SYS_read:
	case SYS_write:
	case SYS_readv:
	case SYS_writev:
	case SYS_preadv2:
	case SYS_pwritev2:
	case SYS_splice:
	case SYS_sendfile:
	case SYS_ioctl:
	case SYS_bpf:
	case SYS_connect:
	case SYS_accept:
	case SYS_accept4:
	case SYS_sendto:
	case SYS_recvfrom:
	case SYS_sendmsg:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_sendmmsg:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_rt_sigtimedwait:
	case SYS_io_getevents:
	case SYS_io_pgetevents:
	case SYS_io_uring_enter:
	case SYS_select:
	case SYS_pselect6:
	case SYS_ppoll:
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
		return true;
	default:
		return goes_to_a_file(nr);
	}
}

/* tcdrain() waits until a line has sent all; before Linux 6.6 who supervises others by seccomp
 * waits so, too. Any other request may have done something by then, as a break is sent. */
static bool ioctl_fails_when_stopped(const struct user_regs_struct *r)
{
	uint32_t request = (uint32_t)r->rsi;

	return (request == TCSBRK && r->rdx) || request == SECCOMP_IOCTL_NOTIF_RECV;
}

/* Runs a program so many times, looks for signals in between, and writes nothing back when it
 * has seen one. Loading a program fails with EAGAIN then, as it does for other reasons. */
static bool bpf_fails_when_stopped(const struct user_regs_struct *r)
{
	return (uint32_t)r->rdi == BPF_PROG_TEST_RUN;
}

bool ht_regs_repair_eintr(struct ht_regs *regs)
{
	if ((long)regs->raw.rax != -EINTR_NR || (long)regs->raw.orig_rax < 0)
		return false;
	if (!ht_syscall_fails_when_stopped((long)regs->raw.orig_rax))
		return false;
	if (regs->raw.orig_rax == SYS_ioctl && !ioctl_fails_when_stopped(&regs->raw))
		return false;
	if (regs->raw.orig_rax == SYS_bpf && !bpf_fails_when_stopped(&regs->raw))
		return false;
	/*
	 * The kernel looks at this after the stop: EINTR after all when a handler is about
	 * to run, otherwise the call is made again with its arguments, which are untouched.
	 */
	regs->raw.rax = (uint64_t)-ERESTARTNOHAND;
	return true;
}

bool ht_regs_restart_anew(struct ht_regs *regs)
{
	if (!ht_regs_has_restart_block(regs) ||
	    (long)regs->raw.orig_rax == SYS_restart_syscall)
		return false;
	regs->raw.rax = (uint64_t)-ERESTARTNOHAND;
	return true;
}

bool ht_regs_has_restart_block(const struct ht_regs *regs)
{
	return (long)regs->raw.orig_rax >= 0 &&
	       (long)regs->raw.rax == -ERESTART_RESTARTBLOCK;
}

bool ht_regs_is_native(const struct ht_regs *regs)
{
	/* __USER_CS and __USER_DS: 64-bit code in flat segments, not 32-bit code or an LDT. */
	return regs->raw.cs == 0x33 && regs->raw.ss == 0x2b;
}

bool ht_regs_emulate_ret(struct ht_regs *regs, uint64_t top_of_stack)
{
	if (!top_of_stack)
		return false;
	regs->raw.rip = top_of_stack;
	regs->raw.rsp += 8;
	regs->raw.orig_rax = NO_SYSCALL;
	return true;
}
