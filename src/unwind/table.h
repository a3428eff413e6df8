/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h: the compact unwind table of one module, compiled from .eh_frame and
 * .debug_frame to a read-only, position-independent image that can be mapped anywhere,
 * the target included. See docs/unwind-table.md for the layout.
 *
 *	header | ranges | buckets, one u32 per KiB of text | rows, 4 bytes | rules, 16 bytes
 *	| expressions
 *
 * The reader touches nothing but the image and stays inside it whatever its bytes are. It
 * is inline in image.h, for code that has only an image; here are the calls around it.
 */
#ifndef HT_UNWIND_TABLE_H
#define HT_UNWIND_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum ht_cfa_kind {
	HT_CFA_GAP,	/* no unwind data here */
	HT_CFA_END,	/* return address undefined: outermost frame */
	HT_CFA_SP,	/* SP + cfa_offset */
	HT_CFA_BP,	/* BP + cfa_offset */
	HT_CFA_REG,	/* DWARF register cfa_reg + cfa_offset: needs the full registers */
	HT_CFA_PLT,	/* SP + 8 + ((pc & 15) >= aux ? 8 : 0) */
	HT_CFA_DEREF_BP,/* *(BP + cfa_offset) + aux */
	HT_CFA_DEREF_SP,/* *(SP + cfa_offset) + aux */
	/* Signal frame: the ucontext is at SP + cfa_offset, which is 0 nearly always; 40
	 * bytes further are r8..r15 rdi rsi rbp rbx rdx rax rcx rsp rip. */
	HT_CFA_SIGNAL,
	HT_CFA_EXPR,	/* expression aux of the blob: the interpreter's */
	HT_CFA_SLOW,	/* something else: the interpreter's */
};

enum ht_bp_kind {
	HT_BP_SAME,
	HT_BP_CFA,	/* at CFA + bp_offset */
	HT_BP_BP,	/* at BP + bp_offset (gcc's realigned frames) */
	HT_BP_UNDEF,
	HT_BP_SLOW,
};

enum ht_ra_kind {
	HT_RA_CFA,	/* at CFA + ht_rule_ra_offset(), which is -8 nearly always */
	HT_RA_REG,	/* in DWARF register aux (vfork) */
	HT_RA_UNDEF,
	HT_RA_SLOW,
};

struct ht_rule {
	uint8_t cfa_kind;	/* enum ht_cfa_kind */
	uint8_t cfa_reg;
	uint8_t bp_kind;	/* enum ht_bp_kind */
	uint8_t ra_kind;	/* enum ht_ra_kind */
	int32_t cfa_offset;
	int32_t bp_offset;
	int32_t aux;		/* see the kinds; RA offset where the CFA kind needs no aux */
};

/* Where the return address is, from the CFA, if ra_kind is HT_RA_CFA. */
static inline int32_t ht_rule_ra_offset(const struct ht_rule *rule)
{
	switch (rule->cfa_kind) {
	case HT_CFA_PLT:
	case HT_CFA_DEREF_BP:
	case HT_CFA_DEREF_SP:
	case HT_CFA_EXPR:
		return -8;
	default:
		return rule->aux;
	}
}

struct ht_table;

/* Compile from the ELF image of a whole file. @debug may be the image of the file with the
 * separate debug info, or NULL; its .debug_frame fills gaps. The table is owned by the
 * caller. -ENODATA: no unwind data at all; -EINVAL: not an ELF file that we read; -ENOMEM.
 * Bad CFI costs its own FDE only. */
int ht_table_compile(const uint8_t *elf, size_t elf_len, const uint8_t *debug,
		     size_t debug_len, struct ht_table **ret_table) _must_check_
	_nonnull_args_(1, 5);
struct ht_table *ht_table_free(struct ht_table *table);

/* The position-independent image, for mapping into targets. */
const void *ht_table_image(const struct ht_table *table, size_t *ret_len) _nonnull_;
/* Check all of an image that came from elsewhere: magic, version, sizes, offsets. */
bool ht_table_valid(const void *image, size_t len);

/* The rule for module address @pc. False: outside of the text. A gap is a rule (GAP).
 * @ret_row_start: module address where the row starts, may be NULL. */
bool ht_table_lookup(const struct ht_table *table, uint64_t pc, struct ht_rule *ret_rule,
		     uint64_t *ret_row_start) _nonnull_args_(1, 3);

/* True when an FDE starts exactly at module address @pc, or a signal trampoline that was
 * found by its code. */
bool ht_table_starts_at(const struct ht_table *table, uint64_t pc) _nonnull_;

struct ht_table_stats {
	uint32_t fdes, bad_fdes, overlaps, rows, slow_rows, rules, exprs;
	uint32_t skipped_sections;	/* compressed in a way that we don't read */
	uint64_t text_bytes, gap_bytes;
};
void ht_table_stats(const struct ht_table *table, struct ht_table_stats *ret_stats)
	_nonnull_;

#endif
