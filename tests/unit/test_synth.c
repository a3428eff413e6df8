/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ht_table.h"
#include "unwind/image-priv.h"

static struct ht_elf elf;

static void check_plt(const char *name, const void *code, size_t len, const char *want)
{
	struct ht_table *table;
	char text[256] = "";
	struct ht_rule rule;
	size_t n = 0, i;
	uint64_t pc;

	ht_elf_init(&elf);
	memcpy(elf.text + 0x200, code, len);
	ht_elf_fde(&elf.eh, ht_elf_plain_cie(&elf.eh), TEXT, 16, HT_ELF_NO_CODE);
	ht_elf_add_section(&elf, name, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT + 0x200,
			   len);
	table = compile(&elf);
	for (i = 0; i < len; i++) {
		pc = TEXT + 0x200 + i;
		rule = lookup(table, pc);
		ck_assert_int_ne(rule.cfa_kind, HT_CFA_GAP);
		ck_assert_int_eq(ht_rule_ra_offset(&rule), -8);
		if (row_start(table, pc) != pc)
			continue;
		if (rule.cfa_kind == HT_CFA_PLT)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%zu:plt%d ", i, rule.aux);
		else
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%zu:sp%+d ", i,
					      rule.cfa_offset);
	}
	ck_assert_str_eq(text, want);
	ck_assert_int_eq(lookup(table, TEXT + 0x200 + len).cfa_kind, HT_CFA_GAP);
	ht_table_free(table);
}

START_TEST(plts_without_cfi)
{
	static const uint8_t lld[48] = {
		0xff, 0x35, 1, 2, 3, 4, 0xff, 0x25, 1, 2, 3, 4, 0x0f, 0x1f, 0x40, 0,
		0xff, 0x25, 1, 2, 3, 4, 0x68, 0, 0, 0, 0, 0xe9, 1, 2, 3, 4,
	};
	static const uint8_t ibt[48] = {
		0xff, 0x35, 1, 2, 3, 4, 0xf2, 0xff, 0x25, 1, 2, 3, 4, 0x0f, 0x1f, 0,
		0xf3, 0x0f, 0x1e, 0xfa, 0x68, 0, 0, 0, 0, 0xf2, 0xe9, 1, 2, 3, 4, 0x90,
	};
	static const uint8_t mold[48] = {
		0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x53, 0xff, 0x35, 1, 2, 3, 4, 0xff, 0x25, 1, 2,
		3, 4, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc,
		0xcc, 0xcc, 0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0xbb, 0, 0, 0, 0, 0xff, 0x25,
	};

	check_plt(".plt", lld, sizeof(lld), "0:sp+16 6:sp+24 16:plt11 ");
	check_plt(".plt", ibt, sizeof(ibt), "0:sp+16 6:sp+24 16:plt9 ");
	check_plt(".plt", mold, sizeof(mold), "0:sp+8 6:sp+16 12:sp+24 32:sp+8 ");
	check_plt(".plt.sec", lld, sizeof(lld), "0:sp+8 ");
	check_plt(".plt.got", lld, 8, "0:sp+8 ");
	/* Static programs: entries only. */
	check_plt(".iplt", lld + 16, 16, "0:plt11 ");
	check_plt(".plt", "\xcc", 1, "0:sp+8 ");
}
END_TEST

START_TEST(trampolines_without_cfi)
{
	static const uint8_t code[] = { 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05 };
	struct ht_table *table;

	ht_elf_init(&elf);
	memcpy(elf.text + 0x300, code, sizeof(code));
	memcpy(elf.text + 0xff7, code, sizeof(code));
	memcpy(elf.text + 4, code, sizeof(code));
	ht_elf_fde(&elf.eh, ht_elf_plain_cie(&elf.eh), TEXT, 16, HT_ELF_NO_CODE);
	table = compile(&elf);
	/* Who has CFI is believed. */
	ck_assert_int_eq(lookup(table, TEXT + 4).cfa_kind, HT_CFA_SP);
	ck_assert_int_eq(lookup(table, TEXT + 0x2ff).cfa_kind, HT_CFA_GAP);
	ck_assert_int_eq(lookup(table, TEXT + 0x300).cfa_kind, HT_CFA_SIGNAL);
	ck_assert_int_eq(lookup(table, TEXT + 0x308).cfa_kind, HT_CFA_SIGNAL);
	ck_assert_int_eq(lookup(table, TEXT + 0x309).cfa_kind, HT_CFA_GAP);
	/* The kernel has the handler return to its first byte. */
	ck_assert(ht_table_starts_at(table, TEXT + 0x300));
	ck_assert_int_eq(lookup(table, TEXT_END - 1).cfa_kind, HT_CFA_SIGNAL);
	ht_table_free(table);
}
END_TEST

static unsigned find(struct ht_synth_plt *plts, unsigned max)
{
	struct ht_elfview view;
	uint8_t *file;
	unsigned n;
	size_t len;

	file = ht_elf_build(&elf, &len);
	ck_ok(ht_elfview_open(file, len, &view));
	n = ht_synth_find_plts(&view, plts, max);
	/* Only addresses and kinds are looked at. */
	free(file);
	return n;
}

START_TEST(plts_are_found_in_order)
{
	const uint64_t flags = SHF_ALLOC | SHF_EXECINSTR;
	struct ht_synth_plt plts[8];

	ht_elf_init(&elf);
	ht_elf_add_section(&elf, ".plt.sec", SHT_PROGBITS, flags, TEXT + 0x300, 32);
	ht_elf_add_section(&elf, ".plt", SHT_PROGBITS, flags, TEXT + 0x100, 48);
	ht_elf_add_section(&elf, ".plt.got", SHT_PROGBITS, flags, TEXT + 0x200, 16);
	ck_assert_uint_eq(find(plts, 8), 3);
	ck_assert_uint_eq(plts[0].start, TEXT + 0x100);
	ck_assert_uint_eq(plts[0].end, TEXT + 0x130);
	ck_assert_int_eq(plts[0].kind, HT_SYNTH_LAZY_PLT);
	ck_assert_uint_eq(plts[1].start, TEXT + 0x200);
	ck_assert_int_eq(plts[1].kind, HT_SYNTH_SP8);
	ck_assert_uint_eq(plts[2].start, TEXT + 0x300);
	ck_assert_uint_eq(find(plts, 2), 2);
	ck_assert_uint_eq(plts[0].start, TEXT + 0x100);
	ck_assert_uint_eq(plts[1].start, TEXT + 0x300);
	ck_assert_uint_eq(find(plts, 0), 0);
}
END_TEST

START_TEST(sections_that_are_no_plt)
{
	struct ht_synth_plt plts[8];

	ht_elf_init(&elf);
	ht_elf_add_section(&elf, ".plt", SHT_PROGBITS, SHF_ALLOC, TEXT, 16);
	ht_elf_add_section(&elf, ".plt", SHT_NOBITS, SHF_EXECINSTR, TEXT, 16);
	ht_elf_add_section(&elf, ".plt", SHT_PROGBITS, SHF_EXECINSTR, TEXT, 0);
	ht_elf_add_section(&elf, ".plt", SHT_PROGBITS, SHF_EXECINSTR, TEXT, UINT64_MAX);
	ck_assert_uint_eq(find(plts, 8), 0);
	elf.n_more = 0;
	ht_elf_add_section(&elf, ".plt.sec2", SHT_PROGBITS, SHF_EXECINSTR, TEXT, 16);
	/* Behind the end of the address space. */
	ht_elf_add_section(&elf, ".plt", SHT_PROGBITS, SHF_EXECINSTR, TEXT, 16);
	elf.more[1].addr = UINT64_MAX - 8;
	ck_assert_uint_eq(find(plts, 8), 0);
}
END_TEST

/* Entries are told by their low address bits, so they must be where these say. */
START_TEST(crooked_plt)
{
	static const uint8_t code[32] = { 0xff, 0x25, 1, 2, 3, 4, 0x68, 0, 0, 0, 0, 0xe9 };
	struct ht_synth_plt plt = { TEXT + 8, TEXT + 40, HT_SYNTH_LAZY_PLT, code };
	struct ht_synth_row rows[HT_SYNTH_PLT_ROWS];

	ck_assert_uint_eq(ht_synth_plt_rows(&plt, rows), 1);
	ck_assert_int_eq(rows[0].rule.cfa_kind, HT_CFA_SP);
	ck_assert_int_eq(rows[0].rule.cfa_offset, 8);
	plt.start -= 8;
	plt.end -= 8;
	ck_assert_uint_eq(ht_synth_plt_rows(&plt, rows), 1);
	ck_assert_int_eq(rows[0].rule.cfa_kind, HT_CFA_PLT);
}
END_TEST

START_TEST(sigreturn_in_bytes)
{
	static const uint8_t code[] = { 0x48, 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05 };
	uint8_t *exact = malloc(sizeof(code));
	size_t cut;

	ck_assert_ptr_nonnull(exact);
	memcpy(exact, code, sizeof(code));
	ck_assert_uint_eq(ht_synth_find_sigreturn(exact, sizeof(code)), 1);
	for (cut = 0; cut < sizeof(code); cut++)
		ck_assert_uint_eq(ht_synth_find_sigreturn(exact, cut), cut);
	exact[4] = 16;
	ck_assert_uint_eq(ht_synth_find_sigreturn(exact, sizeof(code)), sizeof(code));
	free(exact);
}
END_TEST

int main(void)
{
	return ht_check_run("synth", (const TTest *const[]){
		plts_without_cfi, trampolines_without_cfi, plts_are_found_in_order,
		sections_that_are_no_plt, crooked_plt, sigreturn_in_bytes, NULL });
}
