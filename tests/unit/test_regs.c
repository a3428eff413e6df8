/* SPDX-License-Identifier: Apache-2.0
 *
 * Registers: what they say of a thread, how a call is put into them, which interrupted
 * calls are repaired.
 */
#include <linux/bpf.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "arch/arch.h"

#include "ht_check.h"

static struct ht_regs regs_of(long rax, long orig_rax)
{
	struct ht_regs regs;

	memset(&regs, 0x11, sizeof(regs));
	regs.raw.rax = (uint64_t)rax;
	regs.raw.orig_rax = (uint64_t)orig_rax;
	regs.raw.rip = 0x401000;
	regs.raw.rsp = 0x7ffe0010;
	regs.raw.fs_base = 0x7f0001;
	regs.raw.eflags = 0x246;
	return regs;
}

START_TEST(accessors_read_the_right_ones)
{
	struct ht_regs regs = regs_of(7, SYS_poll);

	ck_assert_uint_eq(ht_regs_pc(&regs), 0x401000);
	ck_assert_uint_eq(ht_regs_sp(&regs), 0x7ffe0010);
	ck_assert_uint_eq(ht_regs_thread_pointer(&regs), 0x7f0001);
	ck_assert_int_eq(ht_regs_result(&regs), 7);
	ck_assert_int_eq(ht_regs_syscall(&regs), SYS_poll);
	regs.raw.orig_rax = (uint64_t)-1;
	ck_assert_int_eq(ht_regs_syscall(&regs), -1);
}
END_TEST

START_TEST(by_number)
{
	struct ht_regs regs = { .raw = { .rax = 0, .rdx = 1, .rcx = 2, .rbx = 3, .rsi = 4, .rdi = 5,
					 .rbp = 6, .rsp = 7, .r8 = 8, .r9 = 9, .r10 = 10,
					 .r11 = 11, .r12 = 12, .r13 = 13, .r14 = 14, .r15 = 15,
					 .rip = 16 } };
	uint64_t values[HT_DWARF_REGS];

	ht_regs_by_dwarf(&regs, values);
	for (uint64_t i = 0; i < HT_DWARF_REGS; i++)
		ck_assert_uint_eq(values[i], i);
}
END_TEST

START_TEST(syscall_leaves_nothing_to_restart_or_trap)
{
	struct ht_regs regs = regs_of(-512, SYS_read);

	regs.raw.eflags |= 0x100 | 0x400 | 0x10000 | 0x40000;
	ht_regs_prepare_syscall(&regs, 0x500000, SYS_mmap,
				(const uint64_t[6]){ 1, 2, 3, 4, 5, 6 });
	ck_assert_uint_eq(regs.raw.rip, 0x500000);
	ck_assert_uint_eq(regs.raw.rax, SYS_mmap);
	ck_assert_uint_eq(regs.raw.orig_rax, UINT64_MAX);
	ck_assert_uint_eq(regs.raw.rdi, 1);
	ck_assert_uint_eq(regs.raw.rsi, 2);
	ck_assert_uint_eq(regs.raw.rdx, 3);
	ck_assert_uint_eq(regs.raw.r10, 4);
	ck_assert_uint_eq(regs.raw.r8, 5);
	ck_assert_uint_eq(regs.raw.r9, 6);
	ck_assert_uint_eq(regs.raw.eflags, 0x246);
	ck_assert_uint_eq(regs.raw.rsp, 0x7ffe0010);
}
END_TEST

START_TEST(call_enters_as_the_abi_wants)
{
	struct ht_regs regs = regs_of(-516, SYS_poll);

	ht_regs_prepare_call(&regs, 0x600000, 0x10000,
			     (const uint64_t[6]){ 1, 2, 3, 4, 5, 6 });
	ck_assert_uint_eq(regs.raw.rip, 0x600000);
	ck_assert_uint_eq(regs.raw.rsp, 0x10000 - 8);
	ck_assert_uint_eq(regs.raw.rax, 0);
	ck_assert_uint_eq(regs.raw.orig_rax, UINT64_MAX);
	ck_assert_uint_eq(regs.raw.rcx, 4);
	ck_assert_uint_eq(regs.raw.r9, 6);
}
END_TEST

START_TEST(eintr_is_repaired_where_no_signal_came)
{
	static const long repaired[] = {
		SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_connect, SYS_accept,
		SYS_sendto, SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_semop,
		SYS_rt_sigtimedwait, SYS_io_getevents, SYS_semtimedop, SYS_epoll_wait,
		SYS_epoll_pwait, SYS_accept4, SYS_recvmmsg, SYS_sendmmsg, SYS_io_pgetevents,
		SYS_preadv2, SYS_pwritev2, SYS_splice, SYS_sendfile, SYS_fallocate, SYS_select,
		SYS_pselect6, SYS_ppoll, SYS_pread64, SYS_getdents64, SYS_openat, SYS_newfstatat,
		SYS_unlink, SYS_chmod, SYS_execve, SYS_bind, SYS_lgetxattr, SYS_utimensat,
		SYS_copy_file_range, 426, 437, 441, 452, 464, 469,
	};
	struct ht_regs regs;

	for (size_t i = 0; i < ARRAY_SIZE(repaired); i++) {
		regs = regs_of(-4, repaired[i]);
		ck_assert_msg(ht_regs_repair_eintr(&regs), "system call %ld", repaired[i]);
		ck_assert_int_eq(ht_regs_result(&regs), -514);
		ck_assert_int_eq(ht_regs_syscall(&regs), repaired[i]);
	}
	/* One that has closed the file when it says EINTR; another result; no call at all. */
	regs = regs_of(-4, SYS_close);
	ck_assert(!ht_regs_repair_eintr(&regs));
	regs = regs_of(-11, SYS_epoll_wait);
	ck_assert(!ht_regs_repair_eintr(&regs));
	regs = regs_of(-4, -1);
	ck_assert(!ht_regs_repair_eintr(&regs));
	ck_assert_int_eq(ht_regs_result(&regs), -4);
}
END_TEST

static bool repairs_ioctl(uint32_t request, uint64_t arg)
{
	struct ht_regs regs = regs_of(-4, SYS_ioctl);

	regs.raw.rsi = request;
	regs.raw.rdx = arg;
	return ht_regs_repair_eintr(&regs) && ht_regs_result(&regs) == -514;
}

START_TEST(eintr_is_repaired_in_ioctls_that_only_wait)
{
	ck_assert(repairs_ioctl(TCSBRK, 1));
	ck_assert(repairs_ioctl(SECCOMP_IOCTL_NOTIF_RECV, 0x7f0000));
	/* A break may have been sent. */
	ck_assert(!repairs_ioctl(TCSBRK, 0));
	ck_assert(!repairs_ioctl(TCSBRKP, 1));
}
END_TEST

static bool repairs_bpf(uint32_t command, long result)
{
	struct ht_regs regs = regs_of(result, SYS_bpf);

	regs.raw.rdi = command;
	return ht_regs_repair_eintr(&regs) && ht_regs_result(&regs) == -514;
}

START_TEST(eintr_is_repaired_in_a_bpf_test_run)
{
	ck_assert(repairs_bpf(BPF_PROG_TEST_RUN, -4));
	ck_assert(!repairs_bpf(BPF_PROG_TEST_RUN, -11));
	ck_assert(!repairs_bpf(BPF_MAP_LOOKUP_ELEM, -4));
}
END_TEST

START_TEST(call_begins_anew)
{
	struct ht_regs regs = regs_of(-516, SYS_clock_nanosleep);

	ck_assert(ht_regs_restart_anew(&regs));
	ck_assert_int_eq(ht_regs_result(&regs), -514);
	ck_assert_int_eq(ht_regs_syscall(&regs), SYS_clock_nanosleep);
	/* What it was at first isn't known any more; another result; no call at all. */
	regs = regs_of(-516, SYS_restart_syscall);
	ck_assert(!ht_regs_restart_anew(&regs));
	regs = regs_of(-512, SYS_read);
	ck_assert(!ht_regs_restart_anew(&regs));
	regs = regs_of(-516, -1);
	ck_assert(!ht_regs_restart_anew(&regs));
}
END_TEST

START_TEST(restart_block_is_seen)
{
	struct ht_regs regs = regs_of(-516, SYS_poll);

	ck_assert(ht_regs_has_restart_block(&regs));
	regs.raw.rax = (uint64_t)-514;
	ck_assert(!ht_regs_has_restart_block(&regs));
	regs = regs_of(-516, -1);
	ck_assert(!ht_regs_has_restart_block(&regs));
}
END_TEST

START_TEST(ret_goes_where_the_stack_says)
{
	struct ht_regs regs = regs_of(-512, SYS_read);

	ck_assert(ht_regs_emulate_ret(&regs, 0x1234));
	ck_assert_uint_eq(ht_regs_pc(&regs), 0x1234);
	ck_assert_uint_eq(ht_regs_sp(&regs), 0x7ffe0018);
	ck_assert(!ht_regs_emulate_ret(&regs, 0));
}
END_TEST

START_TEST(only_flat_64_bit_code_is_native)
{
	struct ht_regs regs = regs_of(0, -1);

	regs.raw.cs = 0x33;
	regs.raw.ss = 0x2b;
	ck_assert(ht_regs_is_native(&regs));
	regs.raw.cs = 0x23;
	ck_assert(!ht_regs_is_native(&regs));
}
END_TEST

int main(void)
{
	return ht_check_run("regs",
			    (const TTest *const[]){ accessors_read_the_right_ones, by_number,
						    syscall_leaves_nothing_to_restart_or_trap,
						    call_enters_as_the_abi_wants,
						    eintr_is_repaired_where_no_signal_came,
						    eintr_is_repaired_in_ioctls_that_only_wait,
						    eintr_is_repaired_in_a_bpf_test_run,
						    call_begins_anew, restart_block_is_seen,
						    ret_goes_where_the_stack_says,
						    only_flat_64_bit_code_is_native, NULL });
}
