/* SPDX-License-Identifier: Apache-2.0
 *
 * frame.h: one frame of a stack, independent of where its module is loaded. The
 * vocabulary that unwind/, ledger/, symbol/ and report/ share; header only.
 */
#ifndef HT_UNWIND_FRAME_H
#define HT_UNWIND_FRAME_H

#include <stdint.h>

#define HT_MODULE_NONE UINT32_MAX	/* code in no file: JIT, anonymous, unmapped */
#define HT_MAX_FRAMES 512

enum ht_frame_flags {
	/* offset is the very instruction (frame 0 of an interrupted thread, the frame under
	 * a signal frame), not a return address: symbolise it as it is, others at -1. */
	HT_FRAME_EXACT = 1 << 0,
	HT_FRAME_GUESSED = 1 << 1,	/* found by frame pointer or call check, not by tables */
	HT_FRAME_SIGNAL = 1 << 2,	/* a signal trampoline */
	HT_FRAME_METHOD = 1 << 3,	/* interpreted Java: offset is where HotSpot has its Method */
};

struct ht_frame {
	uint64_t offset;	/* ELF virtual address in the module; absolute if none */
	uint32_t module;	/* ht_module_id(), or HT_MODULE_NONE */
	uint32_t flags;		/* enum ht_frame_flags */
};

/* Why a stack ends. Everything but COMPLETE is shown to people as a placeholder frame. */
enum ht_stack_end {
	HT_STACK_COMPLETE,	/* a known outermost frame: _start, a thread's start */
	HT_STACK_WINDOW,	/* the copied stack was too short */
	HT_STACK_NO_CFI,	/* code without unwind data, frame pointer not plausible */
	HT_STACK_NO_MODULE,	/* a pc outside of every mapped file */
	HT_STACK_BAD_RETURN,	/* a return address that points to no code */
	HT_STACK_BAD_CFI,	/* unwind data that is malformed or not supported */
	HT_STACK_LOOP,		/* the stack pointer didn't rise */
	HT_STACK_DEEP,		/* more than HT_MAX_FRAMES */
	HT_STACK_SWITCHED,	/* another stack follows (goroutine, coroutine) */
	HT_STACK_ENDS
};

struct ht_stack {
	struct ht_frame frames[HT_MAX_FRAMES];	/* innermost first */
	uint32_t n_frames;
	enum ht_stack_end end;
	/* When it is complete: no byte of the stack from this address on was needed to say so;
	 * 0 otherwise. Of a live thread: see live.h. */
	uint64_t top;
};

#endif
