/* SPDX-License-Identifier: Apache-2.0
 *
 * libunwind.h: steps made by libunwind's core, with unwind data that we found and
 * checked. Private to unwind/.
 *
 * Known to go wrong in libunwind 1.6: it aborts on a strange .eh_frame_hdr, loops for
 * ever in an expression that jumps back, divides INT64_MIN by -1, takes the wrong segment
 * of files laid out by lld, and guesses silently where there is no unwind data. So it
 * gets to see no file at all: our parser runs the FDE, and libunwind gets the one row
 * that counts, written down anew, if no expression in it can harm.
 */
#ifndef HT_UNWIND_LIBUNWIND_H
#define HT_UNWIND_LIBUNWIND_H

#include <stdint.h>

#include "base/compiler.h"
#include "unwind/interp.h"
#include "unwind/module.h"

struct ht_libunwind;

int ht_libunwind_new(struct ht_libunwind **ret_libunwind) _must_check_ _nonnull_;
struct ht_libunwind *ht_libunwind_free(struct ht_libunwind *libunwind);

/* As ht_interp_step(), for @module loaded at @bias. */
int ht_libunwind_step(struct ht_libunwind *libunwind, struct ht_module *module,
		      uint64_t bias, uint64_t pc, const struct ht_interp_memory *memory,
		      struct ht_interp_frame *frame) _must_check_ _nonnull_;

#endif
