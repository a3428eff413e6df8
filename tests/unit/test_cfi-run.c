/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/cfi.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ht_cfi.h"

static struct ht_elf elf;
static struct ht_cfi_run run;

/* One rule as text: "-", "undef", "same", "c-16", "=c-16", "r3", "expr2", "=expr2". */
static const char *rule_text(const struct ht_cfi_rule *rule, char *text, size_t size)
{
	switch (rule->kind) {
	case HT_CFI_UNSPECIFIED: return "-";
	case HT_CFI_UNDEFINED: return "undef";
	case HT_CFI_SAME: return "same";
	case HT_CFI_OFFSET: snprintf(text, size, "c%+lld", (long long)rule->value); break;
	case HT_CFI_VAL_OFFSET: snprintf(text, size, "=c%+lld", (long long)rule->value); break;
	case HT_CFI_REGISTER: snprintf(text, size, "r%u", rule->reg); break;
	case HT_CFI_EXPR: snprintf(text, size, "expr%u", rule->expr_len); break;
	default: snprintf(text, size, "=expr%u", rule->expr_len); break;
	}
	return text;
}

/* All rows of an FDE: "START-END cfa REG+OFF 3:c-16 ...;" with START and END relative to
 * it, and those registers that have a rule but not the usual one of 16. */
static void rows_text(const struct ht_cfi_fde *fde, char *text, size_t size)
{
	uint64_t start, end;
	char part[32];
	size_t n = 0;
	unsigned i;
	int r;

	text[0] = '\0';
	ht_cfi_run_init(&run, fde);
	while ((r = ht_cfi_run_next(&run, &start, &end)) != 0) {
		n += (size_t)snprintf(text + n, size - n, "%s%u-%u", n ? "; " : "",
				      (unsigned)(start - fde->start),
				      (unsigned)(end - fde->start));
		if (r < 0) {
			snprintf(text + n, size - n, " bad");
			ck_assert_int_eq(ht_cfi_run_next(&run, &start, &end), 0);
			return;
		}
		if (run.row.cfa.kind == HT_CFI_REGISTER)
			n += (size_t)snprintf(text + n, size - n, " r%u%+lld",
					      run.row.cfa.reg, (long long)run.row.cfa.value);
		else
			n += (size_t)snprintf(text + n, size - n, " %s",
					      rule_text(&run.row.cfa, part, sizeof(part)));
		for (i = 0; i < HT_CFI_REGS; i++) {
			const char *rule = rule_text(&run.row.regs[i], part, sizeof(part));

			if (strcmp(rule, i == 16 ? "c-8" : "-") != 0)
				n += (size_t)snprintf(text + n, size - n, " %u:%s", i, rule);
		}
	}
}

/* Run @code as the program of a 100-byte FDE. */
static void check_rows(const char *want, const uint8_t *code, size_t len)
{
	struct ht_cfi_fde fde;
	struct opened o;
	char text[1024];
	size_t offset;

	ht_elf_init(&elf);
	ht_elf_fde(&elf.eh, ht_elf_plain_cie(&elf.eh), HT_ELF_TEXT, 100, code, len);
	open_elf(&elf, &o);
	ck_assert_int_eq(ht_cfi_reader_next(&o.reader, &fde, &offset), 1);
	rows_text(&fde, text, sizeof(text));
	ck_assert_str_eq(text, want);
	close_elf(&o);
}

START_TEST(advances)
{
	check_rows("0-100 r7+8", HT_ELF_NO_CODE);
	check_rows("0-1 r7+8; 1-100 r7+16", HT_ELF_CODE(0x41, 0x0e, 16));
	check_rows("0-4 r7+8; 4-100 r7+16", HT_ELF_CODE(0x02, 4, 0x0e, 16));
	check_rows("0-5 r7+8; 5-100 r7+16", HT_ELF_CODE(0x03, 5, 0, 0x0e, 16));
	check_rows("0-6 r7+8; 6-100 r7+16", HT_ELF_CODE(0x04, 6, 0, 0, 0, 0x0e, 16));
	check_rows("0-7 r7+8; 7-100 r7+16",
		   HT_ELF_CODE(0x1d, 7, 0, 0, 0, 0, 0, 0, 0, 0x0e, 16));
	/* By nothing: the same row goes on. */
	check_rows("0-100 r7+16", HT_ELF_CODE(0x02, 0, 0x0e, 16));
	/* Beyond the end. */
	check_rows("0-100 r7+8", HT_ELF_CODE(0x02, 100, 0x0e, 16));
	check_rows("0-100 r7+8", HT_ELF_CODE(0x04, 0xff, 0xff, 0xff, 0xff, 0x0e, 16));
	check_rows("0-100 r7+8", HT_ELF_CODE(0x1d, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					     0xff, 0x0e, 16));
}
END_TEST

START_TEST(cfa_rules)
{
	check_rows("0-100 r6+16", HT_ELF_CODE(0x0c, 6, 16));
	check_rows("0-100 r6+8", HT_ELF_CODE(0x0d, 6));
	check_rows("0-100 r7+200", HT_ELF_CODE(0x0e, 0xc8, 1));
	check_rows("0-100 r6-16", HT_ELF_CODE(0x12, 6, 2));
	check_rows("0-100 r7-16", HT_ELF_CODE(0x13, 2));
	check_rows("0-100 expr2", HT_ELF_CODE(0x0f, 2, 0x77, 8));
	/* An offset or a register for a CFA that is an expression. */
	check_rows("0-100 bad", HT_ELF_CODE(0x0f, 2, 0x77, 8, 0x0e, 8));
	check_rows("0-100 bad", HT_ELF_CODE(0x0f, 2, 0x77, 8, 0x0d, 6));
}
END_TEST

START_TEST(register_rules)
{
	check_rows("0-100 r7+8 3:c-16", HT_ELF_CODE(0x83, 2));
	check_rows("0-100 r7+8 3:c-16", HT_ELF_CODE(0x05, 3, 2));
	check_rows("0-100 r7+8 3:c+16", HT_ELF_CODE(0x11, 3, 0x7e));
	check_rows("0-100 r7+8 3:c+16", HT_ELF_CODE(0x2f, 3, 2));
	check_rows("0-100 r7+8 3:undef", HT_ELF_CODE(0x07, 3));
	check_rows("0-100 r7+8 3:same", HT_ELF_CODE(0x08, 3));
	check_rows("0-100 r7+8 3:r12", HT_ELF_CODE(0x09, 3, 12));
	check_rows("0-100 r7+8 3:=c-16", HT_ELF_CODE(0x14, 3, 2));
	check_rows("0-100 r7+8 3:=c+16", HT_ELF_CODE(0x15, 3, 0x7e));
	check_rows("0-100 r7+8 3:expr2", HT_ELF_CODE(0x10, 3, 2, 0x76, 0));
	check_rows("0-100 r7+8 3:=expr2", HT_ELF_CODE(0x16, 3, 2, 0x76, 0));
	check_rows("0-100 r7+8 16:undef", HT_ELF_CODE(0x07, 16));
	/* No registers' business. */
	check_rows("0-100 r7+8", HT_ELF_CODE(0x2e, 8, 0x2d, 0x00));
}
END_TEST

START_TEST(registers_above_16_are_ignored)
{
	check_rows("0-100 r7+8 3:c-16", HT_ELF_CODE(0x05, 17, 2, 0x83, 2));
	check_rows("0-100 r7+8 3:c-16", HT_ELF_CODE(0xbf, 2, 0x83, 2));
	check_rows("0-100 r7+8", HT_ELF_CODE(0xff));
	check_rows("0-100 r7+8", HT_ELF_CODE(0x06, 0x90, 1));
	/* The one that makes libdw allocate a gigabyte. */
	check_rows("0-100 r7+8", HT_ELF_CODE(0x05, 0xff, 0xff, 0xff, 0x3f, 0x02));
	check_rows("0-100 r7+8", HT_ELF_CODE(0x05, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 2));
	check_rows("0-100 r7+8 3:r4294967295",
		   HT_ELF_CODE(0x09, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f));
}
END_TEST

START_TEST(restore_takes_the_initial_rule)
{
	check_rows("0-1 r7+8 3:c-16; 1-100 r7+8", HT_ELF_CODE(0x83, 2, 0x41, 0xc3));
	check_rows("0-1 r7+8 16:c-24; 1-100 r7+8", HT_ELF_CODE(0x90, 3, 0x41, 0x06, 16));
}
END_TEST

START_TEST(remember_saves_the_cfa_too)
{
	uint8_t code[2 * HT_CFI_MAX_DEPTH + 2];

	check_rows("0-1 r7+16 3:c-16; 1-2 r7+8 3:undef; 2-100 r7+16 3:c-16",
		   HT_ELF_CODE(0x0e, 16, 0x83, 2, 0x0a, 0x41, 0x0e, 8, 0x07, 3, 0x41, 0x0b));
	check_rows("0-100 bad", HT_ELF_CODE(0x0b));
	memset(code, 0x0a, HT_CFI_MAX_DEPTH);
	memset(code + HT_CFI_MAX_DEPTH, 0x0b, HT_CFI_MAX_DEPTH);
	check_rows("0-100 r7+8", code, 2 * HT_CFI_MAX_DEPTH);
	memset(code, 0x0a, HT_CFI_MAX_DEPTH + 1);
	memset(code + HT_CFI_MAX_DEPTH + 1, 0x0b, HT_CFI_MAX_DEPTH + 1);
	check_rows("0-100 bad", code, sizeof(code));
}
END_TEST

START_TEST(bad_programs_spare_what_came_before)
{
	/* 0x26 and 0x2d were the end of other people's agents. */
	check_rows("0-1 r7+8; 1-100 bad", HT_ELF_CODE(0x41, 0x26, 0x41, 0x0e, 16));
	check_rows("0-1 r7+8; 1-2 r7+16; 2-100 bad",
		   HT_ELF_CODE(0x41, 0x0e, 16, 0x41, 0x3f));
	/* Operands cut off by the end of the program; three bytes need no padding. */
	check_rows("0-100 bad", HT_ELF_CODE(0, 0x0c, 0x87));
	check_rows("0-100 bad", HT_ELF_CODE(0, 0, 0x02));
	check_rows("0-100 bad", HT_ELF_CODE(0x0f, 3, 0));
	/* Numbers that don't fit. */
	check_rows("0-100 bad", HT_ELF_CODE(0x83, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					    0xff, 0xff, 0x01));
	check_rows("0-100 bad", HT_ELF_CODE(0x0e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					    0xff, 0xff, 0x01));
	check_rows("0-100 bad", HT_ELF_CODE(0x0e, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
					    0x80, 0x80, 0x80, 0x80, 0x00));
}
END_TEST

START_TEST(set_loc_goes_forward_only)
{
	struct ht_cfi_fde fde;
	struct opened o;
	char text[256];
	size_t offset;
	int i;

	for (i = 0; i < 2; i++) {
		ht_elf_init(&elf);
		ht_elf_fde(&elf.debug, ht_elf_plain_cie(&elf.debug), HT_ELF_TEXT, 100,
			   HT_ELF_CODE(0x42, 0x01, i ? 1 : 9, 0x10, 0, 0, 0, 0, 0, 0, 0x0e, 16));
		open_elf(&elf, &o);
		ck_assert_int_eq(ht_cfi_reader_next(&o.reader, &fde, &offset), 1);
		rows_text(&fde, text, sizeof(text));
		ck_assert_str_eq(text, i ? "0-2 r7+8; 2-100 bad"
					 : "0-2 r7+8; 2-9 r7+8; 9-100 r7+16");
		close_elf(&o);
	}
}
END_TEST

static int run_cie(const uint8_t *code, size_t len, struct ht_cfi_cie *cie)
{
	return ht_cfi_run_cie((struct ht_cursor){ code, code + len, false }, cie);
}

START_TEST(initial_instructions)
{
	struct ht_cfi_cie cie = { .code_align = 1, .data_align = -8, .ra_reg = 16 };
	uint8_t nops[257] = { 0 };

	ck_ok(run_cie(HT_ELF_CODE(0x0c, 7, 8, 0x90, 1), &cie));
	ck_assert_int_eq(cie.initial.cfa.kind, HT_CFI_REGISTER);
	ck_assert_int_eq(cie.initial.regs[16].value, -8);
	ck_ok(run_cie(HT_ELF_NO_CODE, &cie));
	ck_assert_int_eq(cie.initial.cfa.kind, HT_CFI_UNSPECIFIED);
	/* They run again and again, so they must be short. */
	ck_ok(run_cie(nops, 256, &cie));
	ck_assert_int_eq(run_cie(nops, 257, &cie), -EINVAL);
	/* Nothing that needs a place, or a state. */
	ck_assert_int_eq(run_cie(HT_ELF_CODE(0x41), &cie), -EINVAL);
	ck_assert_int_eq(run_cie(HT_ELF_CODE(0x01, 0, 0, 0, 0, 0, 0, 0, 0), &cie), -EINVAL);
	ck_assert_int_eq(run_cie(HT_ELF_CODE(0x0a), &cie), -EINVAL);
	ck_assert_int_eq(run_cie(HT_ELF_CODE(0x0b), &cie), -EINVAL);
	ck_assert_int_eq(run_cie(HT_ELF_CODE(0xc3), &cie), -EINVAL);
}
END_TEST

/* Alignments that make numbers overflow. */
static void check_aligned(const char *want, uint64_t code_align, int64_t data_align,
			  const uint8_t *code, size_t len)
{
	struct ht_cfi_cie cie = { .code_align = code_align, .data_align = data_align,
				  .ra_reg = 16 };
	const struct ht_cfi_fde fde = { .cie = &cie, .start = 0x1000, .end = 0x1000 + 100,
					.code = code, .code_end = code + len };
	char text[256];

	cie.initial.regs[16] = (struct ht_cfi_rule){ .value = -8, .kind = HT_CFI_OFFSET };
	cie.initial.cfa = (struct ht_cfi_rule){ .value = 8, .reg = 7,
						.kind = HT_CFI_REGISTER };
	rows_text(&fde, text, sizeof(text));
	ck_assert_str_eq(text, want);
}

START_TEST(alignments)
{
	check_aligned("0-8 r7+8; 8-100 r7+16", 4, 1, HT_ELF_CODE(0x42, 0x0e, 16));
	check_aligned("0-100 r7+8", 60, 1, HT_ELF_CODE(0x42, 0x0e, 16));
	check_aligned("0-100 r7+8", UINT64_MAX, 1, HT_ELF_CODE(0x42, 0x0e, 16));
	check_aligned("0-100 r7+16", 0, 1, HT_ELF_CODE(0x42, 0x0e, 16));
	check_aligned("0-100 r7+8 3:c+0", 1, 0, HT_ELF_CODE(0x83, 2));
	check_aligned("0-100 bad", 1, INT64_MAX, HT_ELF_CODE(0x83, 2));
	check_aligned("0-100 bad", 1, INT64_MIN, HT_ELF_CODE(0x11, 3, 0x7f));
	check_aligned("0-100 r7+8 3:c-9223372036854775808", 1, INT64_MIN,
		      HT_ELF_CODE(0x2f, 3, 1));
}
END_TEST

START_TEST(a_row_by_its_address)
{
	struct ht_cfi_reader reader;
	struct ht_cfi_fde fde;
	struct opened o;
	size_t offset, budget = 1;

	ht_elf_init(&elf);
	ht_elf_fde(&elf.eh, ht_elf_plain_cie(&elf.eh), HT_ELF_TEXT, 100,
		   HT_ELF_CODE(0x41, 0x0e, 16, 0x41, 0x0e, 24, 0x41, 0x0e, 32));
	open_elf(&elf, &o);
	ht_cfi_reader_init(&reader, &o.cfi.sections[0]);
	ck_assert_int_eq(ht_cfi_reader_next(&reader, &fde, &offset), 1);
	for (int i = 0; i < 4; i++) {
		ck_ok(ht_cfi_run_to(&run, &fde, HT_ELF_TEXT + (unsigned)i, NULL));
		ck_assert_int_eq(run.row.cfa.value, 8 + 8 * i);
	}
	ck_assert_int_eq(ht_cfi_run_to(&run, &fde, HT_ELF_TEXT + 100, NULL), -EINVAL);
	ck_assert_int_eq(ht_cfi_run_to(&run, &fde, HT_ELF_TEXT - 1, NULL), -EINVAL);
	/* Each row that is passed over is one of it. */
	ck_ok(ht_cfi_run_to(&run, &fde, HT_ELF_TEXT + 1, &budget));
	ck_assert_uint_eq(budget, 0);
	ck_assert_int_eq(ht_cfi_run_to(&run, &fde, HT_ELF_TEXT + 1, &budget), -E2BIG);
	close_elf(&o);
}
END_TEST

int main(void)
{
	return ht_check_run("cfi-run", (const TTest *const[]){
		advances, cfa_rules, register_rules, registers_above_16_are_ignored,
		restore_takes_the_initial_rule, remember_saves_the_cfa_too,
		bad_programs_spare_what_came_before, set_loc_goes_forward_only, initial_instructions, alignments,
		a_row_by_its_address, NULL });
}
