/* SPDX-License-Identifier: Apache-2.0
 *
 * cfi.h: call frame information (.eh_frame, .debug_frame), read without believing it.
 *
 *	ht_cfi_open()		find the sections of a file
 *	ht_cfi_reader_next()	walk the FDEs of one section
 *	ht_cfi_run_next()	run an FDE's program, row by row
 *
 * Every loop here eats input bytes or a budget, so the time is linear in the size of the
 * sections; nothing allocates but the inflating of a compressed section.
 */
#ifndef HT_UNWIND_CFI_H
#define HT_UNWIND_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/cursor.h"
#include "unwind/elfview.h"

#define HT_CFI_REGS 17		/* DWARF registers 0..16; others are read over */
#define HT_CFI_MAX_DEPTH 32	/* of DW_CFA_remember_state */
#define HT_CFI_MAX_SECTIONS 8

/* One section of call frame information. */
struct ht_cfi_section {
	const uint8_t *data;
	size_t len;
	uint64_t addr;		/* module address of data[0], which pointers may be based on */
	bool eh;		/* .eh_frame, not .debug_frame */
	bool open_end;		/* found without a section header: a terminator ends it */
};

struct ht_cfi {
	struct ht_cfi_section sections[HT_CFI_MAX_SECTIONS];
	unsigned n_sections;
	unsigned n_skipped;	/* compressed in a way that we don't read, or too large */
	/* The sorted table of .eh_frame_hdr: pairs of s32 relative to its own address. */
	const uint8_t *search;
	size_t n_search;
	uint64_t search_base;
	uint8_t *inflated[HT_CFI_MAX_SECTIONS];
};

/* Find the sections of @view, whose image must outlive @ret_cfi. Finding none isn't an
 * error; only -ENOMEM is. */
int ht_cfi_open(const struct ht_elfview *view, struct ht_cfi *ret_cfi)
	_must_check_ _nonnull_;
void ht_cfi_close(struct ht_cfi *cfi);

enum ht_cfi_kind {
	HT_CFI_UNSPECIFIED,	/* nothing said: the ABI decides */
	HT_CFI_UNDEFINED,
	HT_CFI_SAME,
	HT_CFI_OFFSET,		/* at CFA + value */
	HT_CFI_VAL_OFFSET,	/* is CFA + value */
	HT_CFI_REGISTER,	/* in reg; as a CFA: reg + value */
	HT_CFI_EXPR,		/* at the address that the expression gives; as a CFA: is it */
	HT_CFI_VAL_EXPR,	/* is what the expression gives */
};

struct ht_cfi_rule {
	union {
		int64_t value;
		const uint8_t *expr;
	};
	union {
		uint32_t reg;
		uint32_t expr_len;
	};
	uint8_t kind;		/* enum ht_cfi_kind */
};

struct ht_cfi_row {
	struct ht_cfi_rule cfa;	/* UNSPECIFIED, REGISTER or EXPR */
	struct ht_cfi_rule regs[HT_CFI_REGS];
};

struct ht_cfi_cie {
	uint64_t code_align;
	int64_t data_align;
	uint8_t ra_reg;		/* below HT_CFI_REGS */
	uint8_t encoding;	/* DW_EH_PE_* of addresses in the FDEs */
	bool augmented;		/* FDEs have an augmentation length */
	bool signal;		/* 'S': a signal trampoline */
	struct ht_cfi_row initial;
};

struct ht_cfi_fde {
	const struct ht_cfi_section *section;
	const struct ht_cfi_cie *cie;	/* the reader's, until its next call */
	uint64_t start, end;		/* module addresses, start < end */
	const uint8_t *code, *code_end;
};

/* A walk over one section. The CIEs that its FDEs name are parsed once and kept in a small
 * cache, since linkers share a handful between all. */
#define HT_CFI_CIES 16

struct ht_cfi_reader {
	const struct ht_cfi_section *section;
	size_t pos;
	struct ht_cfi_cie_slot {
		uint64_t offset;
		enum { HT_CFI_CIE_FREE, HT_CFI_CIE_GOOD, HT_CFI_CIE_BAD } state;
		struct ht_cfi_cie cie;
	} cies[HT_CFI_CIES];
};

void ht_cfi_reader_init(struct ht_cfi_reader *reader,
			const struct ht_cfi_section *section) _nonnull_;

/* 1: @ret_fde is the next FDE, whose entry starts at @ret_offset of the section; 0: the end;
 * -EINVAL: a malformed FDE was passed over, go on. FDEs without any code are passed over
 * silently. */
int ht_cfi_reader_next(struct ht_cfi_reader *reader, struct ht_cfi_fde *ret_fde,
		       size_t *ret_offset) _must_check_ _nonnull_;

/* The FDE whose entry starts at @offset. 1, or -EINVAL (also for a CIE there). */
int ht_cfi_reader_at(struct ht_cfi_reader *reader, size_t offset,
		     struct ht_cfi_fde *ret_fde) _must_check_ _nonnull_;

/* The FDE that covers module address @pc: by the search table when there is a good one,
 * else by walking. @reader keeps the CIE. @budget: how many entries may still be looked at,
 * lowered; NULL: all. -ENODATA: none; -E2BIG: the budget is used up. */
int ht_cfi_find(const struct ht_cfi *cfi, uint64_t pc, size_t *budget,
		struct ht_cfi_reader *reader, struct ht_cfi_fde *ret_fde) _must_check_
	_nonnull_args_(1, 4, 5);

struct ht_cfi_run {
	const struct ht_cfi_fde *fde;
	const struct ht_cfi_cie *cie;
	struct ht_cursor code;
	uint64_t loc;		/* where the row being made starts */
	uint64_t end;
	bool done;
	unsigned depth;
	struct ht_cfi_row row;
	struct ht_cfi_row saved[HT_CFI_MAX_DEPTH];
};

void ht_cfi_run_init(struct ht_cfi_run *run, const struct ht_cfi_fde *fde) _nonnull_;

/* 1: run->row holds for [@ret_start, @ret_end), which isn't empty and lies in the FDE; 0:
 * no more; -EINVAL: the program is malformed, nothing is known from @ret_start on. Rows
 * come in order and without holes. */
int ht_cfi_run_next(struct ht_cfi_run *run, uint64_t *ret_start, uint64_t *ret_end)
	_must_check_ _nonnull_;

/* Run @fde's program up to the row for @pc, which is in run->row then. @budget as above, in
 * rows. 0; -EINVAL: there is none; -E2BIG. */
int ht_cfi_run_to(struct ht_cfi_run *run, const struct ht_cfi_fde *fde, uint64_t pc,
		  size_t *budget) _must_check_ _nonnull_args_(1, 2);

/* Take one of *budget, if that isn't NULL; false: there is none left. */
static inline bool ht_cfi_spend(size_t *budget)
{
	if (budget && !*budget)
		return false;
	if (budget)
		--*budget;
	return true;
}

/* Parse a CIE's initial instructions into its initial row; the rest of @cie is set. For
 * the reader. 0 or -EINVAL. */
int ht_cfi_run_cie(struct ht_cursor code, struct ht_cfi_cie *cie) _must_check_ _nonnull_;

/* A pointer in encoding @encoding. Those relative to something but the pointer itself set
 * bad, so does DW_EH_PE_indirect: none can be in an FDE that a linker made. */
uint64_t ht_cfi_pointer(struct ht_cursor *c, uint8_t encoding,
			const struct ht_cfi_section *section) _nonnull_;

#endif
