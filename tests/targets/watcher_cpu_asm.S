/* SPDX-License-Identifier: Apache-2.0
 *
 * watcher_cpu_asm.S: load all of a CPU's registers, do something that must keep them, and
 * store what they are then. All data is found through the gs base (struct watcher_cpu in
 * watcher_cpu.c, with the same offsets), so that no register is left out.
 *
 *	void watcher_cpu_run_{sse,avx,avx512}(long what);
 *
 * what: 0 spin, 1 make a system call, 2 call a function.
 */
#define SP	0x008
#define WANT	0x010
#define SEEN	0x090
#define FLAGS	0x110
#define FLAGS_S	0x118
#define MXCSR	0x120
#define MXCSR_S	0x124
#define CW	0x128
#define CW_S	0x12a
#define SW_S	0x12c
#define FN	0x130
#define FS_S	0x138
#define WHAT	0x140
#define X87	0x150
#define X87_S	0x1d0
#define K	0x250
#define K_S	0x290
#define VEC	0x300
#define VEC_S	0xb00
#define RED	0x1300
#define RED_S	0x1380
#define MXCSR_D	0x1400

/* In the order of the instruction set, rsp left out. */
.macro	each_gpr op:vararg
	.irp	pair, "rax,0", "rcx,1", "rdx,2", "rbx,3", "rbp,5", "rsi,6", "rdi,7", "r8,8", \
		"r9,9", "r10,10", "r11,11", "r12,12", "r13,13", "r14,14", "r15,15"
	\op	\pair
	.endr
.endm

.macro	load_gpr reg, n
	mov	%gs:WANT + 8 * \n, %\reg
.endm

.macro	store_gpr reg, n
	mov	%\reg, %gs:SEEN + 8 * \n
.endm

.macro	each_vector level, op:vararg
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	\op	\n
	.endr
	.if	\level == 2
	.irp	n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	\op	\n
	.endr
	.endif
.endm

.macro	load_vector0 n
	movdqu	%gs:VEC + 64 * \n, %xmm\n
.endm
.macro	store_vector0 n
	movdqu	%xmm\n, %gs:VEC_S + 64 * \n
.endm
.macro	load_vector1 n
	vmovdqu	%gs:VEC + 64 * \n, %ymm\n
.endm
.macro	store_vector1 n
	vmovdqu	%ymm\n, %gs:VEC_S + 64 * \n
.endm
.macro	load_vector2 n
	vmovdqu64 %gs:VEC + 64 * \n, %zmm\n
.endm
.macro	store_vector2 n
	vmovdqu64 %zmm\n, %gs:VEC_S + 64 * \n
.endm

/* 16 bits are what every CPU with mask registers has. */
.macro	each_mask op, base
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7
	.ifc	\op, load
	kmovw	%gs:\base + 8 * \n, %k\n
	.else
	kmovw	%k\n, %gs:\base + 8 * \n
	.endif
	.endr
.endm

.macro	run name, level
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	sub	$8, %rsp
	mov	%rsp, %gs:SP
	mov	%rdi, %gs:WHAT

	fninit
	fldcw	%gs:CW
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7
	fldt	%gs:X87 + 16 * \n
	.endr
	ldmxcsr	%gs:MXCSR
	each_vector \level, load_vector\level
	.if	\level == 2
	each_mask load, K
	.endif

	/* From here on nothing may change the flags. */
	pushq	%gs:FLAGS
	popfq
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	mov	%gs:RED + 8 * \n, %rax
	mov	%rax, -128 + 8 * \n(%rsp)
	.endr
	mov	%gs:WHAT, %rcx
	jrcxz	5f
	lea	-1(%rcx), %rcx
	jrcxz	6f
	jmp	7f
	/* jrcxz, which asks no flags, reaches no farther. */
5:	jmp	1f
6:	jmp	3f
7:	each_gpr load_gpr
	call	*%gs:FN
	jmp	4f
1:	each_gpr load_gpr
	mov	$100000, %ecx
2:	lea	-1(%rcx), %rcx
	jrcxz	9f
	jmp	2b
9:	jmp	4f
3:	each_gpr load_gpr
	syscall
4:	each_gpr store_gpr
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	mov	-128 + 8 * \n(%rsp), %rax
	mov	%rax, %gs:RED_S + 8 * \n
	.endr
	pushfq
	popq	%gs:FLAGS_S
	pushq	$0x202
	popfq

	.if	\level == 2
	each_mask store, K_S
	.endif
	each_vector \level, store_vector\level
	stmxcsr	%gs:MXCSR_S
	fnstcw	%gs:CW_S
	fnstsw	%gs:SW_S
	.irp	n, 7, 6, 5, 4, 3, 2, 1, 0
	fstpt	%gs:X87_S + 16 * \n
	.endr
	fninit
	mov	%fs:0, %rax
	mov	%rax, %gs:FS_S
	.if	\level
	vzeroupper
	.endif
	/* As the ABI wants it. */
	ldmxcsr	%gs:MXCSR_D

	add	$8, %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret
	.size	\name, . - \name
.endm

	.text
	run	watcher_cpu_run_sse, 0
	run	watcher_cpu_run_avx, 1
	run	watcher_cpu_run_avx512, 2

	.section .note.GNU-stack, "", @progbits
