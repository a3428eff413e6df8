/* SPDX-License-Identifier: Apache-2.0
 *
 * deadman.S: what stands at the start of a borrowed thread's code page (attach/remote.c), as
 * bytes to be copied there. A live heaptap stops the thread at one of the marked system
 * calls, or takes the signal by which the thread says that several calls are done, and goes on
 * from there. When it has died nothing stops the thread: it closes the
 * file descriptors that were passed to it, unmaps its borrowed stack through code of the
 * target, and gets back all that it had by rt_sigreturn, from the frame on its own stack.
 *
 * Closing takes each number out of the table in one instruction before the call, so that
 * none is closed twice, whenever heaptap dies. While a library is loaded other threads run,
 * and one may have closed our file and been given its number: it is closed only if it's still
 * the same file. Between that look and the close no check is possible, nor between its making
 * and heaptap's note of which it is.
 */
#define NR_close 3
#define NR_fstat 5
#define NR_munmap 11
#define NR_rt_sigreturn 15
#define NR_getpid 39
#define NR_gettid 186
#define NR_tgkill 234

	.macro	BYTES name, value
	.globl	\name
	.type	\name, @object
	.p2align 3
\name:	.quad	\value
	.size	\name, 8
	.endm

	.section .rodata
	.globl	ht_deadman_stub
	.type	ht_deadman_stub, @object
	.p2align 4
ht_deadman_stub:
	syscall
from_call:
	mov	%rax, %rdi		/* where a live heaptap looks for it */
	cmpq	$0, data_cleans(%rip)
	jne	clean
1:	mov	$NR_rt_sigreturn, %eax
	syscall
end:	jmp	1b

clean:	mov	$NR_getpid, %eax
	syscall
clean_end:
	mov	$1, %r12d
	jmp	close_all

open:	syscall
	mov	data_fds(%rip), %rbx
	mov	%eax, 24(%rbx)		/* the first of the files */
	jmp	from_call

calls:	mov	(%rbx), %rax		/* struct ht_syscall */
	mov	8(%rbx), %rdi
	mov	16(%rbx), %rsi
	mov	24(%rbx), %rdx
	mov	32(%rbx), %r10
	mov	40(%rbx), %r8
	mov	48(%rbx), %r9
	syscall
	mov	%rax, 64(%rbx)
	cmp	$-4095, %rax
	jae	notify
	mov	56(%rbx), %rcx
	test	%rcx, %rcx
	jz	6f
	cmp	%rax, %rcx
	jne	notify
6:	add	$72, %rbx
	dec	%r12d
	jnz	calls
notify:	mov	$NR_getpid, %eax
	syscall
	mov	%eax, %ebp
	mov	$NR_gettid, %eax
	syscall
	mov	%ebp, %edi
	mov	%eax, %esi
	mov	data_signal(%rip), %edx
	mov	$NR_tgkill, %eax
	syscall
notified:
	jmp	from_call

close:	xor	%r12d, %r12d
close_all:
	mov	data_fds(%rip), %rbx
	xor	%ebp, %ebp
2:	mov	$-1, %edi
	xchg	%edi, (%rbx, %rbp, 4)
	test	%edi, %edi
	js	3f
	cmp	$6, %ebp
	jne	5f
	cmpq	$-1, 48(%rbx)		/* its inode */
	je	5f
	lea	-256(%rsp), %rsi	/* struct stat, of 144 bytes */
	mov	$NR_fstat, %eax
	syscall
	test	%eax, %eax
	jnz	3f
	mov	(%rsi), %rdx
	cmp	40(%rbx), %rdx
	jne	3f
	mov	8(%rsi), %rdx
	cmp	48(%rbx), %rdx
	jne	3f
5:	mov	$NR_close, %eax
	syscall
3:	inc	%ebp
	cmp	$2, %ebp		/* struct ht_deadman_fds: the header is passed over */
	jne	4f
	mov	$6, %ebp
4:	cmp	$10, %ebp
	jne	2b
	xor	%eax, %eax
	test	%r12d, %r12d
	jnz	7f
	cmpq	$0, data_signal(%rip)
	jne	notify
	jmp	from_call
7:	mov	data_sp(%rip), %rsp
	mov	data_base(%rip), %rdi
	mov	data_len(%rip), %rsi
	mov	$NR_munmap, %eax
	jmp	*data_syscall_ret(%rip)

	.p2align 3
data:	.zero	16			/* struct ht_deadman */
data_base:
	.quad	0
data_len:
	.quad	0
data_sp:
	.quad	0
data_syscall_ret:
	.quad	0
data_fds:
	.quad	0
data_cleans:
	.quad	0
data_signal:
	.quad	0
stub_end:
	.size	ht_deadman_stub, . - ht_deadman_stub

	BYTES	ht_deadman_stub_len, (stub_end - ht_deadman_stub)
	BYTES	ht_deadman_return_offset, (from_call - ht_deadman_stub)
	BYTES	ht_deadman_end_offset, (end - ht_deadman_stub)
	BYTES	ht_deadman_clean_offset, (clean_end - ht_deadman_stub)
	BYTES	ht_deadman_open_offset, (open - ht_deadman_stub)
	BYTES	ht_deadman_close_offset, (close - ht_deadman_stub)
	BYTES	ht_deadman_calls_offset, (calls - ht_deadman_stub)
	BYTES	ht_deadman_notified_offset, (notified - ht_deadman_stub)
	BYTES	ht_deadman_data_offset, (data - ht_deadman_stub)

	.section .note.GNU-stack, "", @progbits
