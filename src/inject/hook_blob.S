/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_blob.S: the hook's shared object, embedded: heaptap is one file.
 */
	.section .rodata
	.globl	ht_hook_blob, ht_hook_blob_end
	.p2align 4
ht_hook_blob:
	.incbin "src/hook/heaptap-hook.so"
ht_hook_blob_end:

	.section .note.GNU-stack, "", @progbits
