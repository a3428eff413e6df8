/* SPDX-License-Identifier: Apache-2.0
 *
 * rule.c: from a row of call frame information to a rule of the compact table.
 */
#include "unwind/image-priv.h"

#include <string.h>

#include "unwind/unwind.h"

/* In struct ucontext of the kernel: general registers at 40, there rsp is the 16th and
 * rip the 17th. */
#define UC_RSP (40 + 15 * 8)
#define UC_RIP (40 + 16 * 8)

enum {
	DW_OP_deref = 0x06, DW_OP_const1u = 0x08, DW_OP_const1s = 0x09, DW_OP_plus = 0x22,
	DW_OP_plus_uconst = 0x23, DW_OP_lit0 = 0x30, DW_OP_lit31 = 0x4f,
	DW_OP_breg0 = 0x70, DW_OP_breg31 = 0x8f,
};

/* The expressions that compilers and assembly really use: reg + offset, or
 * *(reg + offset) + add. */
struct simple {
	uint32_t reg;
	int64_t offset;
	bool deref;
	int64_t add;
};

static bool read_add(struct ht_cursor *c, int64_t *ret_add)
{
	uint8_t op = ht_cursor_u8(c);

	if (op == DW_OP_plus_uconst) {
		*ret_add = (int64_t)ht_cursor_uleb(c);
		return true;
	}
	if (op >= DW_OP_lit0 && op <= DW_OP_lit31)
		*ret_add = op - DW_OP_lit0;
	else if (op == DW_OP_const1u)
		*ret_add = ht_cursor_u8(c);
	else if (op == DW_OP_const1s)
		*ret_add = (int8_t)ht_cursor_u8(c);
	else
		return false;
	return ht_cursor_u8(c) == DW_OP_plus;
}

static bool read_simple(const struct ht_cfi_rule *rule, struct simple *ret_simple)
{
	struct ht_cursor c = { rule->expr, rule->expr + rule->expr_len, false };
	struct simple simple = { .deref = false };
	uint8_t op = ht_cursor_u8(&c);

	if (op < DW_OP_breg0 || op > DW_OP_breg31)
		return false;
	simple.reg = op - DW_OP_breg0;
	simple.offset = ht_cursor_sleb(&c);
	if (c.p < c.end && *c.p == DW_OP_deref) {
		simple.deref = true;
		c.p++;
		if (c.p < c.end && !read_add(&c, &simple.add))
			return false;
	}
	if (c.bad || c.p < c.end)
		return false;
	*ret_simple = simple;
	return true;
}

static bool fits(int64_t value)
{
	return value == (int32_t)value;
}

/* rsp + 8 + ((rip & 15) >= n) * 8, in the only wording there is; bfd and gold. */
static bool read_plt(const struct ht_cfi_rule *rule, int32_t *ret_n)
{
	static const uint8_t bytes[11] = { 0x77, 8,    0x80, 0,	   0x3f, 0x1a,
					   0,	 0x2a, 0x33, 0x24, 0x22 };

	if (rule->expr_len != sizeof(bytes) || memcmp(rule->expr, bytes, 6) != 0 ||
	    memcmp(rule->expr + 7, bytes + 7, 4) != 0 || rule->expr[6] < DW_OP_lit0 ||
	    rule->expr[6] > DW_OP_lit31)
		return false;
	*ret_n = rule->expr[6] - DW_OP_lit0;
	return true;
}

static void make_cfa(const struct ht_cfi_rule *cfa, struct ht_rule *rule)
{
	struct simple simple = { .reg = cfa->reg, .offset = cfa->value };

	rule->cfa_kind = HT_CFA_SLOW;
	if (cfa->kind == HT_CFI_EXPR) {
		if (read_plt(cfa, &rule->aux)) {
			rule->cfa_kind = HT_CFA_PLT;
			return;
		}
		rule->cfa_kind = HT_CFA_EXPR;
		if (!read_simple(cfa, &simple))
			return;
	}
	if (!fits(simple.offset) || !fits(simple.add) || simple.reg > 15)
		return;
	if (simple.deref && simple.reg != HT_REG_RBP && simple.reg != HT_REG_RSP)
		return;
	rule->cfa_offset = (int32_t)simple.offset;
	if (simple.deref) {
		rule->cfa_kind = simple.reg == HT_REG_RBP ? HT_CFA_DEREF_BP : HT_CFA_DEREF_SP;
		rule->aux = (int32_t)simple.add;
		return;
	}
	rule->cfa_kind = simple.reg == HT_REG_RSP ? HT_CFA_SP :
			 simple.reg == HT_REG_RBP ? HT_CFA_BP : HT_CFA_REG;
	if (rule->cfa_kind == HT_CFA_REG)
		rule->cfa_reg = (uint8_t)simple.reg;
}

/* gcc doesn't say "restored" behind the "pop %rbp" of an epilogue, so that the slot lies
 * below SP: BP is back already, and a copied stack starts at SP. */
static void set_bp_slot(struct ht_rule *rule, int64_t offset)
{
	rule->bp_kind = HT_BP_SLOW;
	if (!fits(offset))
		return;
	if (rule->cfa_kind == HT_CFA_SP && rule->cfa_offset + offset < 0) {
		rule->bp_kind = HT_BP_SAME;
		return;
	}
	rule->bp_kind = HT_BP_CFA;
	rule->bp_offset = (int32_t)offset;
}

static void make_bp(const struct ht_cfi_rule *bp, struct ht_rule *rule)
{
	struct simple simple;

	switch (bp->kind) {
	case HT_CFI_UNSPECIFIED:
	case HT_CFI_SAME:
		rule->bp_kind = HT_BP_SAME;
		return;
	case HT_CFI_UNDEFINED:
		rule->bp_kind = HT_BP_UNDEF;
		return;
	case HT_CFI_OFFSET:
		set_bp_slot(rule, bp->value);
		return;
	case HT_CFI_EXPR:
		if (!read_simple(bp, &simple) || simple.deref || !fits(simple.offset))
			break;
		if (simple.reg == HT_REG_RSP && rule->cfa_kind == HT_CFA_SP) {
			set_bp_slot(rule, simple.offset - rule->cfa_offset);
			return;
		}
		if (simple.reg != HT_REG_RBP)
			break;
		rule->bp_kind = HT_BP_BP;
		rule->bp_offset = (int32_t)simple.offset;
		return;
	default:
		break;
	}
	rule->bp_kind = HT_BP_SLOW;
}

static void make_ra(const struct ht_cfi_rule *ra, struct ht_rule *rule)
{
	/* These kinds need aux themselves. */
	bool taken = rule->cfa_kind == HT_CFA_PLT || rule->cfa_kind == HT_CFA_EXPR ||
		     rule->cfa_kind == HT_CFA_DEREF_BP || rule->cfa_kind == HT_CFA_DEREF_SP;

	rule->ra_kind = HT_RA_SLOW;
	if (ra->kind == HT_CFI_OFFSET && (taken ? ra->value == -8 : fits(ra->value))) {
		rule->ra_kind = HT_RA_CFA;
		if (!taken)
			rule->aux = (int32_t)ra->value;
	}
	if (ra->kind == HT_CFI_REGISTER && ra->reg < HT_CFI_REGS && !taken) {
		rule->ra_kind = HT_RA_REG;
		rule->aux = (int32_t)ra->reg;
	}
}

/* Signal trampolines say with an expression for each register that it is in the ucontext;
 * the two of rsp and rip suffice to be sure where that is. */
static bool make_signal(const struct ht_cfi_row *row, const struct ht_cfi_cie *cie,
			struct ht_rule *rule)
{
	const struct ht_cfi_rule *ra = &row->regs[cie->ra_reg];
	struct simple sp, ip;

	if (row->cfa.kind != HT_CFI_EXPR || ra->kind != HT_CFI_EXPR ||
	    !read_simple(&row->cfa, &sp) || !read_simple(ra, &ip))
		return false;
	if (!sp.deref || sp.add != 0 || sp.reg != HT_REG_RSP || ip.deref ||
	    ip.reg != HT_REG_RSP || !fits(sp.offset) || !fits(ip.offset) ||
	    ip.offset - sp.offset != UC_RIP - UC_RSP || !fits(sp.offset - UC_RSP))
		return false;
	rule->cfa_kind = HT_CFA_SIGNAL;
	rule->cfa_offset = (int32_t)(sp.offset - UC_RSP);
	return true;
}

struct ht_rule ht_rule_make(const struct ht_cfi_row *row, const struct ht_cfi_cie *cie)
{
	static const struct ht_rule slow = { HT_CFA_SLOW, 0, HT_BP_SLOW, HT_RA_SLOW, 0, 0, 0 };
	const struct ht_cfi_rule *ra = &row->regs[cie->ra_reg];
	struct ht_rule rule = { .cfa_kind = HT_CFA_GAP };

	if (ra->kind == HT_CFI_UNDEFINED || ra->kind == HT_CFI_UNSPECIFIED) {
		rule.cfa_kind = HT_CFA_END;
		return rule;
	}
	if (row->cfa.kind == HT_CFI_UNSPECIFIED)
		return rule;
	/* Anything else with 'S' has to go to the interpreter, which says that the caller
	 * was interrupted; no other kind of rule can. */
	if (cie->signal)
		return make_signal(row, cie, &rule) ? rule : slow;
	make_cfa(&row->cfa, &rule);
	if (rule.cfa_kind == HT_CFA_SLOW)
		return slow;
	make_bp(&row->regs[HT_REG_RBP], &rule);
	make_ra(ra, &rule);
	return rule;
}
