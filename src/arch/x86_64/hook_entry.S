/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_entry.S: from a stub into the hook's C code and back.
 *
 * A stub arrives by a jump with r11 = its struct ht_entry; everything else is as the
 * caller of malloc & co. left it. ht_hook_dispatch() says how to leave: 0, return to the
 * caller with frame.result in rax; else jump there with the arguments as they came, as
 * if we had never been here.
 */
	.macro	PUSH reg
	pushq	%\reg
	.cfi_adjust_cfa_offset 8
	.endm

	.macro	PUSH_SAVED reg
	PUSH	\reg
	.cfi_rel_offset \reg, 0
	.endm

	.macro	POP reg
	popq	%\reg
	.cfi_adjust_cfa_offset -8
	.endm

	.text
	.globl	ht_hook_enter
	.type	ht_hook_enter, @function
	.p2align 4
ht_hook_enter:
	.cfi_startproc
	endbr64
	cmpl	$0, ht_hook_over(%rip)
	je	2f
	/* Of struct ht_entry, real is the first word. */
	movq	(%r11), %r11
	notrack jmp *%r11
2:	PUSH	r11
	PUSH_SAVED r15
	PUSH_SAVED r14
	PUSH_SAVED r13
	PUSH_SAVED r12
	PUSH_SAVED rbp
	PUSH_SAVED rbx
	PUSH	rax
	PUSH	r9
	PUSH	r8
	PUSH	rcx
	PUSH	rdx
	PUSH	rsi
	PUSH	rdi
	movq	%rsp, %rdi
	/* 14 pushes on top of the return address: 8 more make it 16-aligned. */
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	ht_hook_dispatch
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	testq	%rax, %rax
	jnz	1f
	movq	48(%rsp), %rax
	/* C code kept the callee-saved registers: their slots are only passed over. */
	addq	$112, %rsp
	.cfi_remember_state
	.cfi_def_cfa_offset 8
	ret
1:	.cfi_restore_state
	movq	%rax, %r11
	POP	rdi
	POP	rsi
	POP	rdx
	POP	rcx
	POP	r8
	POP	r9
	POP	rax
	addq	$56, %rsp
	.cfi_def_cfa_offset 8
	/* The moved instructions don't begin with endbr64. */
	notrack jmp *%r11
	.cfi_endproc
	.size	ht_hook_enter, . - ht_hook_enter

	.section .note.GNU-stack, "", @progbits
	/* GNU_PROPERTY_X86_FEATURE_1_AND: IBT and SHSTK. */
	.section .note.gnu.property, "a"
	.p2align 3
	.long	4
	.long	16
	.long	5
	.asciz	"GNU"
	.long	0xc0000002
	.long	4
	.long	3
	.long	0
