/* SPDX-License-Identifier: Apache-2.0
 *
 * stub.h: the code that a patched function's first jump leads to.
 *
 *	+0	struct ht_entry			read by the hook
 *	+32	fast path			falls through to "real" when nothing is due
 *	real:	the moved instructions		also what the hook calls
 *		jmp back into the function
 *	(FILTER: a second look, from where it may go to "real" after all)
 *	slow:	lea entry(%rip), %r11; jmp *hook(%rip)
 *
 * Fast paths touch only registers that no allocator gets arguments in and that callers
 * give up: rax, r10, r11 and the flags.
 */
#ifndef HT_ARCH_STUB_H
#define HT_ARCH_STUB_H

#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "heaptap/wire.h"

enum ht_fast_path {
	HT_FAST_NONE,		/* always to the hook */
	HT_FAST_COUNTDOWN,	/* size against the thread's countdown */
	HT_FAST_MIN_SIZE,	/* size against a constant */
	HT_FAST_FILTER,		/* address against the filter */
};

struct ht_stub {
	enum ht_fast_path fast;
	int arg;		/* argument that is the size or the address: 0 to 2 */
	ht_addr_t threads;	/* COUNTDOWN: the thread table */
	uint64_t min_size;	/* MIN_SIZE */
	ht_addr_t filter;	/* FILTER */
	ht_addr_t hook_pointer;	/* address of the word that holds ht_hook_enter's address */
	ht_addr_t at;		/* where the stub will be; 32-aligned */
};

#define HT_STUB_MAX 256		/* bytes, at most, a multiple of 32 */

/* Where the moved instructions will be, relative to @stub.at: what ht_insn_move() wants to
 * know before ht_stub_emit(). */
size_t ht_stub_real_offset(const struct ht_stub *stub) _nonnull_;

/* Write the stub to @out (HT_STUB_MAX bytes). @entry->real is set to its place.
 * -ERANGE: the way back is out of reach of a jump. */
int ht_stub_emit(const struct ht_stub *stub, struct ht_entry *entry,
		 const struct ht_moved *moved, uint8_t *out) _must_check_ _nonnull_;

#endif
