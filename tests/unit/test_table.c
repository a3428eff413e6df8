/* SPDX-License-Identifier: Apache-2.0 */
#include "ht_table.h"

static struct ht_elf elf;

START_TEST(rows_and_gaps)
{
	struct ht_table_stats stats;
	struct ht_table *table;
	struct ht_rule rule;
	uint64_t start;
	size_t cie;

	ht_elf_init(&elf);
	cie = ht_elf_plain_cie(&elf.eh);
	/* Not in order; a byte of padding; two that touch. */
	ht_elf_fde(&elf.eh, cie, TEXT + 0x20, 0x10, HT_ELF_NO_CODE);
	ht_elf_fde(&elf.eh, cie, TEXT + 0x30, 0x10, HT_ELF_CODE(0x41, 0x0e, 16, 0x41, 0x0e, 16));
	ht_elf_fde(&elf.eh, cie, TEXT + 0x10, 0x0f, HT_ELF_NO_CODE);
	/* Of a function that was dropped, and of one that spans several buckets. */
	ht_elf_fde(&elf.eh, cie, 0, 0x10, HT_ELF_NO_CODE);
	ht_elf_fde(&elf.eh, cie, TEXT + 0x3ff, 0xb00, HT_ELF_CODE(0x03, 0, 9, 0x0e, 16));
	table = compile(&elf);

	ck_assert_int_eq(lookup(table, TEXT).cfa_kind, HT_CFA_GAP);
	ck_assert_int_eq(lookup(table, TEXT + 0x0f).cfa_kind, HT_CFA_GAP);
	ck_assert_int_eq(lookup(table, TEXT + 0x10).cfa_kind, HT_CFA_SP);
	ck_assert_int_eq(lookup(table, TEXT + 0x1e).cfa_kind, HT_CFA_SP);
	ck_assert_int_eq(lookup(table, TEXT + 0x1f).cfa_kind, HT_CFA_GAP);
	ck_assert_int_eq(lookup(table, TEXT + 0x20).cfa_kind, HT_CFA_SP);
	ck_assert_int_eq(lookup(table, TEXT + 0x30).cfa_offset, 8);
	ck_assert_int_eq(lookup(table, TEXT + 0x31).cfa_offset, 16);
	ck_assert_int_eq(lookup(table, TEXT + 0x3f).cfa_offset, 16);
	ck_assert_int_eq(lookup(table, TEXT + 0x40).cfa_kind, HT_CFA_GAP);
	ck_assert_int_eq(lookup(table, TEXT + 0x3fe).cfa_kind, HT_CFA_GAP);
	ck_assert_int_eq(lookup(table, TEXT + 0x3ff).cfa_offset, 8);
	ck_assert_int_eq(lookup(table, TEXT + 0xcfe).cfa_offset, 8);
	ck_assert_int_eq(lookup(table, TEXT + 0xcff).cfa_offset, 16);
	ck_assert_int_eq(lookup(table, TEXT + 0xefe).cfa_offset, 16);
	ck_assert_int_eq(lookup(table, TEXT + 0xeff).cfa_kind, HT_CFA_GAP);
	ck_assert_int_eq(lookup(table, TEXT_END - 1).cfa_kind, HT_CFA_GAP);
	ck_assert(!ht_table_lookup(table, TEXT - 1, &rule, &start));
	ck_assert(!ht_table_lookup(table, TEXT_END, &rule, &start));
	ck_assert(!ht_table_lookup(table, 0, &rule, &start));
	ck_assert(!ht_table_lookup(table, UINT64_MAX, &rule, &start));

	ck_assert_uint_eq(row_start(table, TEXT + 5), TEXT);
	ck_assert_uint_eq(row_start(table, TEXT + 0x10), TEXT + 0x10);
	ck_assert_uint_eq(row_start(table, TEXT + 0x3f), TEXT + 0x31);
	ck_assert_uint_eq(row_start(table, TEXT + 0xcfe), TEXT + 0x3ff);
	ck_assert_uint_eq(row_start(table, TEXT + 0xefe), TEXT + 0xcff);
	ck_assert_uint_eq(row_start(table, TEXT_END - 1), TEXT + 0xeff);

	ck_assert(ht_table_starts_at(table, TEXT + 0x10));
	ck_assert(ht_table_starts_at(table, TEXT + 0x20));
	/* Also where nothing but the function changes. */
	ck_assert(ht_table_starts_at(table, TEXT + 0x30));
	ck_assert(ht_table_starts_at(table, TEXT + 0x3ff));
	ck_assert(!ht_table_starts_at(table, TEXT + 0x31));
	ck_assert(!ht_table_starts_at(table, TEXT + 0x11));
	ck_assert(!ht_table_starts_at(table, TEXT + 0x40));
	ck_assert(!ht_table_starts_at(table, TEXT));
	ck_assert(!ht_table_starts_at(table, 0));

	ht_table_stats(table, &stats);
	ck_assert_uint_eq(stats.fdes, 4);
	ck_assert_uint_eq(stats.bad_fdes, 0);
	ck_assert_uint_eq(stats.overlaps, 0);
	/* gap 10 gap 20 30 31 gap 3ff cff gap */
	ck_assert_uint_eq(stats.rows, 10);
	ck_assert_uint_eq(stats.text_bytes, HT_ELF_TEXT_LEN);
	ck_assert_uint_eq(stats.gap_bytes, HT_ELF_TEXT_LEN - 0x0f - 0x20 - 0xb00);
	ht_table_free(table);
}
END_TEST

int main(void)
{
	return ht_check_run("table", (const TTest *const[]){
		rows_and_gaps, NULL });
}
