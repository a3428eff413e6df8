/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ht_table.h"
#include "unwind/image-priv.h"

static struct ht_elf elf;

/* The rule that a function whose program starts with @code has at its first byte. */
#define check_first(want, ...)                                                            \
	do {                                                                              \
		struct ht_table *table_ = compile_one(HT_ELF_CODE(__VA_ARGS__));          \
		struct ht_rule got_ = lookup(table_, TEXT + 0x100);                       \
                                                                                          \
		check_rule(&got_, (struct ht_rule)want);                                  \
		ht_table_free(table_);                                                    \
	} while (0)

#define RULE(...) { __VA_ARGS__ }
#define SLOW RULE(HT_CFA_SLOW, 0, HT_BP_SLOW, HT_RA_SLOW, 0, 0, 0)

START_TEST(cfa_kinds)
{
	check_first(RULE(HT_CFA_SP, 0, 0, 0, 8, 0, -8), 0x00);
	check_first(RULE(HT_CFA_SP, 0, 0, 0, 200, 0, -8), 0x0e, 0xc8, 1);
	check_first(RULE(HT_CFA_BP, 0, 0, 0, 16, 0, -8), 0x0c, 6, 16);
	check_first(RULE(HT_CFA_REG, 10, 0, 0, 0, 0, -8), 0x0c, 10, 0);
	/* CFA = *(rbp - 8) of realigned frames, *(rsp + 64) + 8 of hand-made code. */
	check_first(RULE(HT_CFA_DEREF_BP, 0, 0, 0, -8, 0, 0), 0x0f, 3, 0x76, 0x78, 0x06);
	check_first(RULE(HT_CFA_DEREF_SP, 0, 0, 0, 64, 0, 8), 0x0f, 6, 0x77, 0xc0, 0, 0x06,
		    0x23, 8);
	check_first(RULE(HT_CFA_DEREF_SP, 0, 0, 0, 16, 0, 8), 0x0f, 5, 0x77, 16, 0x06, 0x38,
		    0x22);
	check_first(RULE(HT_CFA_DEREF_SP, 0, 0, 0, 16, 0, -1), 0x0f, 6, 0x77, 16, 0x06, 0x09,
		    0xff, 0x22);
	/* An expression that says what a plain rule could. */
	check_first(RULE(HT_CFA_SP, 0, 0, 0, 24, 0, -8), 0x0f, 2, 0x77, 24);
	check_first(RULE(HT_CFA_PLT, 0, 0, 0, 0, 0, 11), 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a,
		    0x3b, 0x2a, 0x33, 0x24, 0x22);
	check_first(RULE(HT_CFA_PLT, 0, 0, 0, 0, 0, 10), 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a,
		    0x3a, 0x2a, 0x33, 0x24, 0x22);
	check_first(SLOW, 0x0c, 0x11, 8);
	/* More than 32 bits. */
	check_first(SLOW, 0x0e, 0x80, 0x80, 0x80, 0x80, 0x08);
}
END_TEST

START_TEST(bp_kinds)
{
	check_first(RULE(HT_CFA_SP, 0, HT_BP_CFA, 0, 16, -16, -8), 0x0e, 16, 0x86, 2);
	check_first(RULE(HT_CFA_BP, 0, HT_BP_CFA, 0, 16, -16, -8), 0x0c, 6, 16, 0x86, 2);
	check_first(RULE(HT_CFA_SP, 0, HT_BP_SAME, 0, 8, 0, -8), 0x08, 6);
	check_first(RULE(HT_CFA_SP, 0, HT_BP_UNDEF, 0, 8, 0, -8), 0x07, 6);
	check_first(RULE(HT_CFA_SP, 0, HT_BP_SLOW, 0, 8, 0, -8), 0x09, 6, 3);
	check_first(RULE(HT_CFA_SP, 0, HT_BP_SLOW, 0, 8, 0, -8), 0x14, 6, 2);
	/* Popped, but gcc didn't say so: the slot is below SP. */
	check_first(RULE(HT_CFA_SP, 0, HT_BP_SAME, 0, 8, 0, -8), 0x0e, 8, 0x86, 2);
	/* gcc's realigned frames: at BP + 0. And at SP + 0. */
	check_first(RULE(HT_CFA_DEREF_BP, 0, HT_BP_BP, 0, -8, 0, 0), 0x0f, 3, 0x76, 0x78, 0x06,
		    0x10, 6, 2, 0x76, 0);
	check_first(RULE(HT_CFA_SP, 0, HT_BP_CFA, 0, 32, -32, -8), 0x0e, 32, 0x10, 6, 2, 0x77, 0);
	check_first(RULE(HT_CFA_SP, 0, HT_BP_SLOW, 0, 8, 0, -8), 0x10, 6, 2, 0x73, 0);
	check_first(RULE(HT_CFA_SP, 0, HT_BP_SLOW, 0, 8, 0, -8), 0x10, 6, 3, 0x76, 0, 0x06);
}
END_TEST

START_TEST(ra_kinds)
{
	check_first(RULE(HT_CFA_SP, 0, 0, HT_RA_CFA, 8, 0, -16), 0x90, 2);
	check_first(RULE(HT_CFA_SP, 0, 0, HT_RA_REG, 8, 0, 5), 0x09, 16, 5);
	check_first(RULE(HT_CFA_SP, 0, 0, HT_RA_SLOW, 8, 0, 0), 0x10, 16, 2, 0x77, 0);
	check_first(RULE(HT_CFA_SP, 0, 0, HT_RA_SLOW, 8, 0, 0), 0x09, 16, 17);
	check_first(RULE(HT_CFA_END), 0x07, 16);
	check_first(RULE(HT_CFA_END), 0x86, 2, 0x07, 16);
	/* Where aux is taken, only the usual place can be said. */
	check_first(RULE(HT_CFA_DEREF_BP, 0, 0, HT_RA_SLOW, -8, 0, 0), 0x0f, 3, 0x76, 0x78, 0x06,
		    0x90, 2);
}
END_TEST

START_TEST(no_return_address_rule_is_the_end)
{
	struct ht_table *table;

	ht_elf_init(&elf);
	ht_elf_fde(&elf.eh, ht_elf_cie(&elf.eh, "zR", HT_ELF_CODE(0x0c, 7, 8)), TEXT, 16,
		   HT_ELF_NO_CODE);
	table = compile(&elf);
	ck_assert_int_eq(lookup(table, TEXT).cfa_kind, HT_CFA_END);
	ht_table_free(table);
	/* Nor a CFA rule: nothing is known. */
	ht_elf_init(&elf);
	ht_elf_fde(&elf.eh, ht_elf_cie(&elf.eh, "zR", HT_ELF_CODE(0x90, 1)), TEXT, 16,
		   HT_ELF_NO_CODE);
	table = compile(&elf);
	ck_assert_int_eq(lookup(table, TEXT).cfa_kind, HT_CFA_GAP);
	ht_table_free(table);
}
END_TEST

START_TEST(signal_frames)
{
	struct ht_table *table;
	struct ht_rule rule;
	size_t cie;

	ht_elf_init(&elf);
	cie = ht_elf_cie(&elf.eh, "zRS", HT_ELF_CODE(0x00));
	/* glibc's: rsp at 160, rip at 168 of the ucontext. */
	ht_elf_fde(&elf.eh, cie, TEXT, 16, HT_ELF_CODE(0x0f, 4, 0x77, 0xa0, 1, 0x06, 0x10, 16, 3,
						       0x77, 0xa8, 1));
	/* The ucontext 8 further up; and something else. */
	ht_elf_fde(&elf.eh, cie, TEXT + 16, 16,
		   HT_ELF_CODE(0x0f, 4, 0x77, 0xa8, 1, 0x06, 0x10, 16, 3, 0x77, 0xb0, 1));
	ht_elf_fde(&elf.eh, cie, TEXT + 32, 16, HT_ELF_CODE(0x0c, 7, 8, 0x90, 1));
	table = compile(&elf);
	rule = lookup(table, TEXT);
	check_rule(&rule, (struct ht_rule)RULE(HT_CFA_SIGNAL));
	rule = lookup(table, TEXT + 16);
	check_rule(&rule, (struct ht_rule)RULE(HT_CFA_SIGNAL, 0, 0, 0, 8));
	rule = lookup(table, TEXT + 32);
	check_rule(&rule, (struct ht_rule)SLOW);
	ht_table_free(table);
}
END_TEST

/* What no simple rule can say stays an expression, for the interpreter. */
START_TEST(expressions_that_are_not_simple)
{
	static const uint8_t exprs[][12] = {
		/* The length first. The PLT's with another number of bytes, or words. */
		{ 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x2f, 0x2a, 0x33, 0x24, 0x22 },
		{ 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x50, 0x2a, 0x33, 0x24, 0x22 },
		{ 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x1c },
		{ 10, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24 },
		/* *(rbx), *rsp - 8, **rsp, *rsp + 8 + 8. */
		{ 3, 0x73, 0, 0x06 },
		{ 5, 0x77, 0, 0x06, 0x38, 0x1c },
		{ 4, 0x77, 0, 0x06, 0x06 },
		{ 7, 0x77, 0, 0x06, 0x23, 8, 0x23, 8 },
		/* Cut off; empty; offsets of more than 32 bits. */
		{ 1, 0x77 },
		{ 2, 0x77, 0x80 },
		{ 4, 0x77, 0, 0x06, 0x23 },
		{ 0 },
		{ 6, 0x77, 0x80, 0x80, 0x80, 0x80, 0x08 },
		{ 9, 0x77, 0, 0x06, 0x23, 0x80, 0x80, 0x80, 0x80, 0x08 },
		/* A register that no frame has. */
		{ 2, 0x80, 0 },
	};
	const struct ht_cfi_cie cie = { .ra_reg = 16 };
	struct ht_cfi_row row = { .cfa.kind = HT_CFI_EXPR };
	struct ht_rule rule;
	size_t i;

	row.regs[16] = (struct ht_cfi_rule){ .value = -8, .kind = HT_CFI_OFFSET };
	for (i = 0; i < ARRAY_SIZE(exprs); i++) {
		/* Not a byte more, for the sanitizer. */
		uint8_t *exact = malloc(exprs[i][0] + 1u);

		ck_assert_ptr_nonnull(exact);
		memcpy(exact + 1, exprs[i] + 1, exprs[i][0]);
		row.cfa.expr = exact + 1;
		row.cfa.expr_len = exprs[i][0];
		rule = ht_rule_make(&row, &cie);
		ck_assert_msg(rule.cfa_kind == HT_CFA_EXPR, "%zu: %u", i, rule.cfa_kind);
		ck_assert_int_eq(rule.ra_kind, HT_RA_CFA);
		free(exact);
	}
}
END_TEST

START_TEST(offsets_that_do_not_fit)
{
	const struct ht_cfi_cie cie = { .ra_reg = 16 };
	struct ht_cfi_row row = { .cfa = { .value = INT32_MAX, .reg = 7,
					   .kind = HT_CFI_REGISTER } };
	struct ht_rule rule;

	row.regs[16] = (struct ht_cfi_rule){ .value = INT32_MIN, .kind = HT_CFI_OFFSET };
	row.regs[6] = (struct ht_cfi_rule){ .value = INT32_MIN + 1, .kind = HT_CFI_OFFSET };
	rule = ht_rule_make(&row, &cie);
	check_rule(&rule, (struct ht_rule)RULE(HT_CFA_SP, 0, HT_BP_CFA, HT_RA_CFA, INT32_MAX,
					       INT32_MIN + 1, INT32_MIN));
	row.regs[6].value = (int64_t)INT32_MIN - 1;
	ck_assert_int_eq(ht_rule_make(&row, &cie).bp_kind, HT_BP_SLOW);
	row.regs[16].value = (int64_t)INT32_MIN - 1;
	ck_assert_int_eq(ht_rule_make(&row, &cie).ra_kind, HT_RA_SLOW);
	row.cfa.value = (int64_t)INT32_MAX + 1;
	rule = ht_rule_make(&row, &cie);
	check_rule(&rule, (struct ht_rule)SLOW);
}
END_TEST

/* Signal frames only where rsp and rip are side by side; else the interpreter must say
 * that the caller was interrupted. */
START_TEST(signal_frames_of_other_shapes)
{
	static const uint8_t sp[] = { 0x77, 0xa0, 1, 0x06 }, ip[] = { 0x77, 0xa8, 1 };
	static const uint8_t no_deref[] = { 0x77, 0xa0, 1 }, by_rbx[] = { 0x73, 0xa8, 1 };
	static const uint8_t far_ip[] = { 0x77, 0xb0, 1 };
	const struct ht_cfi_cie cie = { .ra_reg = 16, .signal = true };
	struct ht_cfi_row row = { .cfa = { .expr = sp, .expr_len = 4, .kind = HT_CFI_EXPR } };

	row.regs[16] = (struct ht_cfi_rule){ .expr = ip, .expr_len = 3, .kind = HT_CFI_EXPR };
	ck_assert_int_eq(ht_rule_make(&row, &cie).cfa_kind, HT_CFA_SIGNAL);
	row.regs[16].expr = far_ip;
	ck_assert_int_eq(ht_rule_make(&row, &cie).cfa_kind, HT_CFA_SLOW);
	row.regs[16].expr = by_rbx;
	ck_assert_int_eq(ht_rule_make(&row, &cie).cfa_kind, HT_CFA_SLOW);
	row.regs[16].expr = ip;
	row.cfa.expr = no_deref;
	row.cfa.expr_len = 3;
	ck_assert_int_eq(ht_rule_make(&row, &cie).cfa_kind, HT_CFA_SLOW);
}
END_TEST

int main(void)
{
	return ht_check_run("rule", (const TTest *const[]){
		cfa_kinds, bp_kinds, ra_kinds, no_return_address_rule_is_the_end,
		signal_frames, expressions_that_are_not_simple, offsets_that_do_not_fit,
		signal_frames_of_other_shapes, NULL });
}
