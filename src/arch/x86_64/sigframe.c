/* SPDX-License-Identifier: Apache-2.0
 *
 * sigframe.c: the frame that rt_sigreturn reads, built by hand, and the code and the stack
 * words that lead a thread to it when nobody is left to give it its registers back.
 *
 *	top  +--------------------------------------+
 *	     | FP_XSTATE_MAGIC2                     |
 *	     | xstate, 64-aligned                   | <- uc_mcontext.fpregs
 *	     +--------------------------------------+
 *	     | ucontext as the kernel lays it out   |
 *	sp   +--------------------------------------+ 16-aligned; rsp at rt_sigreturn
 *
 * The kernel's own frame starts with the handler's return address and ends with siginfo;
 * rt_sigreturn reads neither.
 */
#include <asm/sigcontext.h>
#include <cpuid.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include "arch/arch.h"

/* asm/ucontext.h can't be included beside libc's: these are its flags. */
#define UC_FP_XSTATE 0x1
#define UC_SIGCONTEXT_SS 0x2
#define UC_STRICT_RESTORE_SS 0x4

/* struct ucontext of the kernel: its signal mask has 8 bytes where libc's has 128. */
struct kernel_ucontext {
	uint64_t uc_flags;
	uint64_t uc_link;
	/* All zero: a size below the minimum leaves the alternate stack as it is. */
	uint64_t ss_sp;
	uint64_t ss_flags;
	uint64_t ss_size;
	struct sigcontext uc_mcontext;
	uint64_t uc_sigmask;
};

#define XSTATE_SW_BYTES 464	/* in the FXSAVE area: struct _fpx_sw_bytes */
#define XSTATE_LEGACY_LEN 512
#define XSTATE_MIN_LEN (XSTATE_LEGACY_LEN + 64)
/* Allocated only for threads that asked for it; the kernel rejects a frame that is longer
 * than what the thread may have, and would then restore SSE state only. */
#define XFEATURE_TILE_DATA (UINT64_C(1) << 18)

#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516
#define SYSCALL_INSN_LEN 2

const uint8_t ht_spin_insn[HT_SPIN_LEN] = { 0xeb, 0xfe };

/* deadman.S knows these. */
_Static_assert(offsetof(struct ht_deadman, base) == 16, "deadman.S");
_Static_assert(offsetof(struct ht_deadman, cleans) == 56, "deadman.S");
_Static_assert(offsetof(struct ht_deadman, signal) == 64, "deadman.S");
_Static_assert(offsetof(struct ht_syscall, expect) == 56, "deadman.S");
_Static_assert(offsetof(struct ht_syscall, result) == 64, "deadman.S");
_Static_assert(sizeof(struct ht_syscall) == 72, "deadman.S");
_Static_assert(offsetof(struct ht_deadman_fds, files) == 6 * sizeof(int), "deadman.S");
_Static_assert(offsetof(struct ht_deadman_fds, device) == 10 * sizeof(int), "deadman.S");
_Static_assert(offsetof(struct ht_deadman_fds, inode) == 12 * sizeof(int), "deadman.S");

/* What the kernel would do at resume: rt_sigreturn says "no system call", so that a restart
 * has to be in the frame's registers already. */
static void resolve_restart(struct user_regs_struct *r)
{
	if ((long)r->orig_rax < 0)
		return;
	switch (-(long)r->rax) {
	case ERESTARTSYS:
	case ERESTARTNOINTR:
	case ERESTARTNOHAND:
	/* rt_sigreturn forgets the restart block, so the call begins anew with its whole
	 * time-out. If it was restart_syscall already, the kernel makes that EINTR. */
	case ERESTART_RESTARTBLOCK:
		r->rax = r->orig_rax;
		r->rip -= SYSCALL_INSN_LEN;
		break;
	default:
		break;
	}
}

static void fill_sigcontext(struct sigcontext *sc, const struct user_regs_struct *r,
			    ht_addr_t fpstate)
{
	sc->r8 = r->r8;
	sc->r9 = r->r9;
	sc->r10 = r->r10;
	sc->r11 = r->r11;
	sc->r12 = r->r12;
	sc->r13 = r->r13;
	sc->r14 = r->r14;
	sc->r15 = r->r15;
	sc->rdi = r->rdi;
	sc->rsi = r->rsi;
	sc->rbp = r->rbp;
	sc->rbx = r->rbx;
	sc->rdx = r->rdx;
	sc->rax = r->rax;
	sc->rcx = r->rcx;
	sc->rsp = r->rsp;
	sc->rip = r->rip;
	sc->eflags = r->eflags;
	sc->cs = (uint16_t)r->cs;
	sc->ss = (uint16_t)r->ss;
	sc->fpstate = (void *)(uintptr_t)fpstate;
}

/* Bytes that the standard (not compacted) layout takes for @features. */
static size_t xstate_size(uint64_t features)
{
	size_t end = XSTATE_MIN_LEN;

	for (unsigned i = 2; i < 63; i++) {
		unsigned size, offset, c, d;

		if (!(features & (UINT64_C(1) << i)))
			continue;
		if (!__get_cpuid_count(0xd, i, &size, &offset, &c, &d))
			continue;
		end = ht_max(end, (size_t)offset + size);
	}
	return end;
}

/* Put the software-defined bytes that say how long the xstate is and what it holds. 0 when
 * the state isn't in the XSAVE format. */
static size_t seal_xstate(uint8_t *xstate, size_t len)
{
	struct _fpx_sw_bytes sw = { .magic1 = FP_XSTATE_MAGIC1 };
	uint64_t features, in_use;
	uint32_t magic2 = FP_XSTATE_MAGIC2;
	size_t size;

	/* NT_X86_XSTATE has XCR0 there, the XSAVE header has what isn't in its first state. */
	memcpy(&features, xstate + XSTATE_SW_BYTES, sizeof(features));
	memcpy(&in_use, xstate + XSTATE_LEGACY_LEN, sizeof(in_use));
	if (!(in_use & XFEATURE_TILE_DATA))
		features &= ~XFEATURE_TILE_DATA;
	size = xstate_size(features);
	if (size > len)
		return 0;
	sw.extended_size = (uint32_t)(size + sizeof(magic2));
	sw.xfeatures = features;
	sw.xstate_size = (uint32_t)size;
	memcpy(xstate + XSTATE_SW_BYTES, &sw, sizeof(sw));
	memcpy(xstate + size, &magic2, sizeof(magic2));
	return size + sizeof(magic2);
}

int ht_sigframe_build(const struct ht_regs *regs, const void *xstate, size_t xstate_len,
		      uint64_t sigmask, ht_addr_t top, void *buf, size_t cap,
		      size_t *ret_len, ht_addr_t *ret_sp)
{
	struct kernel_ucontext uc = {
		.uc_flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS,
		.uc_sigmask = sigmask,
	};
	struct user_regs_struct r = regs->raw;
	ht_addr_t fpstate, sp;
	size_t len;

	if (xstate_len < XSTATE_MIN_LEN)
		return -EINVAL;
	if (top < xstate_len + sizeof(uc) + 256)
		return -ENOSPC;
	fpstate = ht_align_down(top - xstate_len - sizeof(uint32_t), (ht_addr_t)64);
	sp = ht_align_down(fpstate - sizeof(uc), (ht_addr_t)16);
	len = (size_t)(fpstate - sp) + xstate_len + sizeof(uint32_t);
	if (len > cap)
		return -ENOSPC;
	memset(buf, 0, len);
	memcpy((uint8_t *)buf + (fpstate - sp), xstate, xstate_len);
	len = seal_xstate((uint8_t *)buf + (fpstate - sp), xstate_len);
	if (!len)
		return -EINVAL;
	len += (size_t)(fpstate - sp);
	resolve_restart(&r);
	fill_sigcontext(&uc.uc_mcontext, &r, fpstate);
	memcpy(buf, &uc, sizeof(uc));
	*ret_len = len;
	*ret_sp = sp;
	return 0;
}

bool ht_sigframe_is_at(const uint64_t words[HT_SIGFRAME_WORDS], ht_addr_t *ret_sp)
{
	/* rsp, rip, eflags; cs, gs, fs and ss as all 64-bit programs of Linux have them. */
	static const uint64_t segments = UINT64_C(0x002b000000000033);
	const uint64_t always = 0x202, ever = 0x3fffff;

	if (words[3] != segments || (words[2] & always) != always || words[2] & ~ever)
		return false;
	*ret_sp = words[0];
	return true;
}

static bool find_bytes(const uint8_t *code, size_t len, const uint8_t *what, size_t what_len,
		       size_t *ret_offset)
{
	const uint8_t *at = memmem(code, len, what, what_len);

	if (!at)
		return false;
	*ret_offset = (size_t)(at - code);
	return true;
}

bool ht_find_syscall_ret(const uint8_t *code, size_t len, size_t *ret_offset)
{
	static const uint8_t syscall_ret[] = { 0x0f, 0x05, 0xc3 };

	return find_bytes(code, len, syscall_ret, sizeof(syscall_ret), ret_offset);
}

bool ht_find_checked_syscall(const uint8_t *code, size_t len, size_t *ret_offset)
{
	/* syscall; cmp $-4095, %rax; jae/ja ...; ret. A failure goes another way, but with
	 * the same stack, and comes back by a ret too: it only costs errno. */
	static const uint8_t checked[] = { 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff };
	size_t from = 0, at;

	while (find_bytes(code + from, len - from, checked, sizeof(checked), &at)) {
		const uint8_t *p = code + from + at + sizeof(checked);
		size_t left = len - from - at - sizeof(checked);

		if ((left >= 3 && (p[0] == 0x73 || p[0] == 0x77) && p[2] == 0xc3) ||
		    (left >= 7 && p[0] == 0x0f && (p[1] == 0x83 || p[1] == 0x87) &&
		     p[6] == 0xc3)) {
			*ret_offset = from + at;
			return true;
		}
		from += at + 1;
	}
	return false;
}

bool ht_find_pop_result(const uint8_t *code, size_t len, size_t *ret_offset)
{
	static const uint8_t pop_rax_ret[] = { 0x58, 0xc3 };

	return find_bytes(code, len, pop_rax_ret, sizeof(pop_rax_ret), ret_offset);
}

size_t ht_deadman_words(ht_addr_t pop_result, ht_addr_t syscall_ret,
			uint64_t words[HT_DEADMAN_WORDS])
{
	/* The ret behind the system call goes to "pop %rax; ret", that one to the second
	 * system call, at which rsp stands on the frame. */
	words[0] = pop_result;
	words[1] = SYS_rt_sigreturn;
	words[2] = syscall_ret;
	return 3;
}
