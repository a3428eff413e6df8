/* SPDX-License-Identifier: Apache-2.0
 *
 * arch.h: what differs by CPU, under one set of names. The code lives in arch/<cpu>/; no
 * other folder has an #ifdef on the CPU.
 */
#ifndef HT_ARCH_ARCH_H
#define HT_ARCH_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#include "base/addr.h"
#include "base/compiler.h"

/* regs.c: the general registers as PTRACE_GETREGSET(NT_PRSTATUS) gives them. */
struct ht_regs {
	struct user_regs_struct raw;
};

ht_addr_t ht_regs_pc(const struct ht_regs *regs) _nonnull_;
ht_addr_t ht_regs_sp(const struct ht_regs *regs) _nonnull_;
ht_addr_t ht_regs_thread_pointer(const struct ht_regs *regs) _nonnull_;
/* Those that frames are left by, numbered as DWARF does. */
#define HT_DWARF_REGS 17
void ht_regs_by_dwarf(const struct ht_regs *regs, uint64_t ret_values[HT_DWARF_REGS]) _nonnull_;
void ht_regs_set_sp(struct ht_regs *regs, ht_addr_t sp) _nonnull_;
long ht_regs_result(const struct ht_regs *regs) _nonnull_;
/* Number of the system call that the thread is in, -1 when it is in none. */
long ht_regs_syscall(const struct ht_regs *regs) _nonnull_;
/* Make the next instruction (a system call instruction at @pc) perform @nr(@args). Clears
 * what would make the kernel restart or trap. */
void ht_regs_prepare_syscall(struct ht_regs *regs, ht_addr_t pc, long nr,
			     const uint64_t args[6]) _nonnull_;
/* Call the function at @fn: up to six integer arguments, return address @ret_to stored by
 * the caller of this at the stack pointer that it sets. @sp must be 16-aligned; the
 * register state gets what the ABI wants at a function's entry. */
void ht_regs_prepare_call(struct ht_regs *regs, ht_addr_t fn, ht_addr_t sp,
			  const uint64_t args[6]) _nonnull_;
/* At a syscall-entry stop: make the kernel skip the call. */
void ht_regs_cancel_syscall(struct ht_regs *regs) _nonnull_;
/* Can the call @nr fail with EINTR when nothing but a stop, or a signal that nobody handles,
 * comes to its thread? Some do so only for sockets with a time-out. -1: no call. */
bool ht_syscall_fails_when_stopped(long nr);
/* The thread was interrupted in a call that fails with EINTR though no signal came, only
 * because we stopped it. Then make the kernel restart it, and return true. */
bool ht_regs_repair_eintr(struct ht_regs *regs) _nonnull_;
/* The thread waits in a call that the kernel would go on with by restart_syscall(). Make it
 * begin the call anew instead, for targets whose seccomp filter may not know that one.
 * Its whole time-out starts again. */
bool ht_regs_restart_anew(struct ht_regs *regs) _nonnull_;
/* The thread waits in a call with a restart block (-516): it must not be hijacked. */
bool ht_regs_has_restart_block(const struct ht_regs *regs) _nonnull_;
/* What a function called with ht_regs_prepare_call() returned, at the end of the dead-man's
 * stub, which it must have returned to. */
uint64_t ht_regs_call_result(const struct ht_regs *regs) _nonnull_;
/* To calls_offset of ht_deadman_stub, at @pc, for the @n calls at @calls. */
void ht_regs_prepare_calls(struct ht_regs *regs, ht_addr_t pc, ht_addr_t calls, size_t n)
	_nonnull_;
/* In 64-bit code with flat segments: the only mode that calls can be made in. */
bool ht_regs_is_native(const struct ht_regs *regs) _nonnull_;
/* Return from the function whose first instruction the thread is at; @top_of_stack is the
 * word at its stack pointer. False when that can't be a return address. */
bool ht_regs_emulate_ret(struct ht_regs *regs, uint64_t top_of_stack) _nonnull_;

/* sigframe.c: what rt_sigreturn reads. Builds, for a frame whose first byte will be at
 * target address @sp (returned), the bytes to write there, from the registers as they
 * must be afterwards, the xstate as PTRACE_GETREGSET(NT_X86_XSTATE) gave it, and the
 * signal mask. @top: highest address that may be used. -ENOSPC when @cap is too small. */
int ht_sigframe_build(const struct ht_regs *regs, const void *xstate, size_t xstate_len,
		      uint64_t sigmask, ht_addr_t top, void *buf, size_t cap,
		      size_t *ret_len, ht_addr_t *ret_sp) _must_check_ _nonnull_;
/* Words on a stack that a frame which the kernel made for a signal handler has in that order,
 * and hardly anything else: from the stack pointer of what was interrupted, *ret_sp, on. */
#define HT_SIGFRAME_WORDS 4
bool ht_sigframe_is_at(const uint64_t words[HT_SIGFRAME_WORDS], ht_addr_t *ret_sp) _nonnull_;
/* Code for the remote stack's code page, see deadman.S. It starts with a system call
 * instruction; called functions return to return_offset. Either way a thread whose heaptap
 * lives is next seen at the entry of a system call with its pc at clean_offset or
 * end_offset, the result where ht_regs_call_result() finds it; that call is to be cancelled.
 * So too after it was sent to close_offset, which closes what is in the table, or to
 * open_offset with a system call that opens a file, which becomes the first there.
 * Sent to calls_offset by ht_regs_prepare_calls(), and to close_offset if the data has a signal,
 * it sends itself that signal when it's done, and is seen at notified_offset. */
extern const uint8_t ht_deadman_stub[];
extern const size_t ht_deadman_stub_len;
extern const size_t ht_deadman_return_offset;
extern const size_t ht_deadman_end_offset;
extern const size_t ht_deadman_clean_offset;
extern const size_t ht_deadman_open_offset;
extern const size_t ht_deadman_close_offset;
extern const size_t ht_deadman_calls_offset;
extern const size_t ht_deadman_notified_offset;
extern const size_t ht_deadman_data_offset;
/* What stands at data_offset. */
#define HT_DEADMAN_NAME "heaptap:call"
struct ht_deadman {
	char name[16];
	uint64_t base, len;	/* of the mapping */
	uint64_t sp;		/* where the words below begin, on the thread's own stack */
	uint64_t syscall_ret;	/* of the target */
	uint64_t fds;		/* address of the table */
	uint64_t cleans;	/* may make calls by itself: no seccomp filter is there */
	uint64_t signal;	/* one that nobody would notice; 0: there is none */
};
/* One of the system calls at calls_offset. The first that fails is the last that is made. */
struct ht_syscall {
	int64_t nr;
	uint64_t args[6];
	uint64_t expect;	/* any other result is a failure; 0: only an error is */
	int64_t result;		/* maybe -errno; HT_SYSCALL_NOT_MADE */
};
#define HT_SYSCALL_NOT_MADE INT64_MIN
/* File descriptors that the kernel is to put there; -1: none. */
struct ht_deadman_fds {
	int pair[2];
	int header[4];		/* struct cmsghdr */
	int files[4];
	/* Of the first file, which isn't closed if it's another one by then; -1: not known. */
	uint64_t device, inode;
};
/* Where no code page is mapped yet: words to be put right below the frame, at which the
 * stack pointer stands while the thread makes a call through "syscall; ret" at
 * @syscall_ret. They lead it to the frame. @pop_result: see ht_find_pop_result(). Number
 * of words. */
#define HT_DEADMAN_WORDS 3
size_t ht_deadman_words(ht_addr_t pop_result, ht_addr_t syscall_ret,
			uint64_t words[HT_DEADMAN_WORDS]) _nonnull_;
/* The same with libc's check of the result in between, for code that has no other. */
#define HT_CHECKED_SYSCALL_LEN 15
bool ht_find_checked_syscall(const uint8_t *code, size_t len, size_t *ret_offset) _nonnull_;
/* Find code that pops the system call number's register and returns. */
bool ht_find_pop_result(const uint8_t *code, size_t len, size_t *ret_offset) _nonnull_;
/* Find a "syscall; ret" in code bytes; false when there is none. */
bool ht_find_syscall_ret(const uint8_t *code, size_t len, size_t *ret_offset) _nonnull_;

/* The thread's bytes that ht_sigframe_build() makes of an xstate of n bytes: at most n +
 * HT_SIGFRAME_EXTRA. */
#define HT_SIGFRAME_EXTRA 1024
/* Register sets of PTRACE_GETREGSET by number: everything beside the general registers, and
 * the shadow stack (an error when the thread has none). */
#define HT_REGSET_XSTATE 0x202
#define HT_REGSET_SHADOW_STACK 0x204
/* The byte that debuggers and uprobes put over the first one of an instruction. */
#define HT_BREAKPOINT 0xcc
/* An instruction that jumps to itself. */
#define HT_SPIN_LEN 2
extern const uint8_t ht_spin_insn[HT_SPIN_LEN];

/* insn.c: decoding and moving instructions (Zydis). */
enum ht_insn_refusal {
	HT_INSN_OK,
	HT_INSN_TOO_SHORT,	/* the function ends before the jump would */
	HT_INSN_UNDECODABLE,
	HT_INSN_CALL,		/* a call in the moved bytes: its return address would show */
	HT_INSN_NOT_MOVABLE,	/* loop, jrcxz, syscall, int, or a target out of reach */
	HT_INSN_BRANCH_BACK,	/* a branch from the body back into the moved bytes */
	HT_INSN_PAGE_CROSSING,	/* the 8 bytes of the one write cross a page */
};

#define HT_JUMP_LEN 5
#define HT_MOVED_MAX 64		/* room for the moved instructions */

struct ht_moved {
	/* First byte that the jump replaces: the entry, or behind its endbr64. */
	ht_addr_t patch_addr;
	unsigned replaced_len;	/* whole instructions, >= HT_JUMP_LEN */
	uint8_t bytes[HT_MOVED_MAX];	/* moved instructions, good at moved_addr only */
	unsigned len;
	bool jumps_away;	/* ends in an unconditional jump: nothing follows */
};

/* Look at the function at @entry, whose @len bytes are @code: which whole instructions
 * would a jump at its start replace, and what do they look like at @moved_addr. */
enum ht_insn_refusal ht_insn_move(const uint8_t *code, size_t len, ht_addr_t entry,
				  ht_addr_t moved_addr, struct ht_moved *ret_moved)
	_nonnull_;
const char *ht_insn_refusal_text(enum ht_insn_refusal refusal);

/* Where the branches of a function go. */
enum ht_flow_kind {
	HT_FLOW_JUMP,	/* conditional or not, to target */
	HT_FLOW_CALL,	/* to target */
	HT_FLOW_SLOT,	/* call or jump through the pointer at address target (GOT) */
	HT_FLOW_UNKNOWN,/* through a register or computed memory */
};
struct ht_flow {
	enum ht_flow_kind kind;
	ht_addr_t pc;
	ht_addr_t target;
};
/* Calls @visit for each branch. Stops at the first byte that doesn't decode: -EILSEQ. */
int ht_insn_flow(const uint8_t *code, size_t len, ht_addr_t addr,
		 void (*visit)(void *arg, const struct ht_flow *flow), void *arg);

/* Every byte position of @code that, read as a direct branch whether or not an
 * instruction starts there, goes into one of the @n ranges (sorted, no overlap): all real
 * branches and a few accidents, which ht_insn_boundary() tells apart. Costs about a
 * nanosecond a byte. */
struct ht_code_range {
	ht_addr_t start;
	ht_addr_t end;
};
void ht_insn_scan_into(const uint8_t *code, size_t len, ht_addr_t addr,
		       const struct ht_code_range *ranges, size_t n,
		       void (*visit)(void *arg, ht_addr_t pc, ht_addr_t target), void *arg);
/* Decoding @code from its start, does an instruction start at @offset? -EILSEQ when a
 * byte before doesn't decode, so that nobody knows. */
int ht_insn_boundary(const uint8_t *code, size_t len, size_t offset) _must_check_ _nonnull_;

/* The function is a bare jump (behind an endbr64): *ret_target is where it goes, for
 * "jmp *mem(%rip)" the address of the pointer and *ret_indirect true. */
bool ht_insn_is_forwarder(const uint8_t *code, size_t len, ht_addr_t addr,
			  ht_addr_t *ret_target, bool *ret_indirect) _nonnull_;

/* The function calls another one with the arguments that it was given and returns what that
 * one did: on its only way from the start to a return there's one call, before which no
 * argument is written, nor the result behind it. *ret_target and *ret_indirect as for a
 * forwarder. What isn't proven by this is false. */
bool ht_insn_is_wrapper(const uint8_t *code, size_t len, ht_addr_t addr,
			ht_addr_t *ret_target, bool *ret_indirect) _nonnull_;

/* jmp rel32. False when @to is out of reach. */
bool ht_encode_jump(uint8_t out[HT_JUMP_LEN], ht_addr_t from, ht_addr_t to) _must_check_;

#endif
