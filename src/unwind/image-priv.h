/* SPDX-License-Identifier: Apache-2.0
 *
 * image-priv.h: what the makers of table images share.
 */
#ifndef HT_UNWIND_IMAGE_PRIV_H
#define HT_UNWIND_IMAGE_PRIV_H

#include "unwind/cfi.h"
#include "unwind/image.h"

struct ht_table {
	struct ht_image_view view;
	void *image;
	size_t len;
};

uint64_t ht_image_checksum(const void *image, size_t len) _nonnull_;

/* Say in a rule what a row of the CFI says. A rule with HT_CFA_EXPR still lacks its aux:
 * the place of row->cfa's expression. */
struct ht_rule ht_rule_make(const struct ht_cfi_row *row, const struct ht_cfi_cie *cie)
	_nonnull_;

/* Code without CFI that we know by its looks. */
enum ht_synth_kind {
	HT_SYNTH_SP8,		/* SP + 8 throughout: .plt.sec, .plt.got */
	HT_SYNTH_LAZY_PLT,	/* .plt: a header and entries that push their number */
};

struct ht_synth_plt {
	uint64_t start, end;
	enum ht_synth_kind kind;
	const uint8_t *code;
};

/* The PLT sections of @view in order of address. Returns how many, at most @max. */
unsigned ht_synth_find_plts(const struct ht_elfview *view, struct ht_synth_plt *ret_plts,
			    unsigned max) _nonnull_;

struct ht_synth_row {
	uint64_t start;
	struct ht_rule rule;
};

#define HT_SYNTH_PLT_ROWS 4

/* The rows of one PLT. Returns how many. */
unsigned ht_synth_plt_rows(const struct ht_synth_plt *plt,
			   struct ht_synth_row ret_rows[HT_SYNTH_PLT_ROWS]) _nonnull_;

/* The next "mov $15, %rax; syscall" in @code: its offset, or @len. It's what the
 * kernel has signal handlers return to in libcs that don't describe it (musl, Go). */
#define HT_SYNTH_SIGRETURN 9
size_t ht_synth_find_sigreturn(const uint8_t *code, size_t len) _nonnull_;

#endif
