/* SPDX-License-Identifier: Apache-2.0
 *
 * cfi-run.c: running the programs of CIEs and FDEs.
 */
#include "unwind/cfi.h"

#include <errno.h>
#include <string.h>

/* CIEs have two to five instructions. Theirs run again whenever the small cache lost
 * them, so that length times number must stay linear in the input. */
#define MAX_CIE_CODE 256

enum {
	OP_NOP = 0x00, OP_SET_LOC = 0x01, OP_ADVANCE_LOC1 = 0x02, OP_ADVANCE_LOC2 = 0x03,
	OP_ADVANCE_LOC4 = 0x04, OP_OFFSET_EXTENDED = 0x05, OP_RESTORE_EXTENDED = 0x06,
	OP_UNDEFINED = 0x07, OP_SAME_VALUE = 0x08, OP_REGISTER = 0x09,
	OP_REMEMBER_STATE = 0x0a, OP_RESTORE_STATE = 0x0b, OP_DEF_CFA = 0x0c,
	OP_DEF_CFA_REGISTER = 0x0d, OP_DEF_CFA_OFFSET = 0x0e, OP_DEF_CFA_EXPRESSION = 0x0f,
	OP_EXPRESSION = 0x10, OP_OFFSET_EXTENDED_SF = 0x11, OP_DEF_CFA_SF = 0x12,
	OP_DEF_CFA_OFFSET_SF = 0x13, OP_VAL_OFFSET = 0x14, OP_VAL_OFFSET_SF = 0x15,
	OP_VAL_EXPRESSION = 0x16, OP_ADVANCE_LOC8 = 0x1d, OP_WINDOW_SAVE = 0x2d,
	OP_ARGS_SIZE = 0x2e, OP_NEGATIVE_OFFSET = 0x2f,
	/* The operand is in the low six bits. */
	OP_ADVANCE_LOC = 0x40, OP_OFFSET = 0x80, OP_RESTORE = 0xc0,
};

enum operand {
	UNKNOWN,	/* as the first one: no such instruction */
	NONE,
	REG,
	UNUM,		/* ULEB128 as it is */
	UOFF,		/* ULEB128 times the data alignment */
	SOFF,		/* SLEB128 times the data alignment */
	DELTA1, DELTA2, DELTA4, DELTA8,
	ADDR,
	BLOCK,
};

static const struct {
	uint8_t first, second;
} operands[OP_ADVANCE_LOC] = {
	[OP_NOP] = { NONE, NONE },
	[OP_SET_LOC] = { ADDR, NONE },
	[OP_ADVANCE_LOC1] = { DELTA1, NONE },
	[OP_ADVANCE_LOC2] = { DELTA2, NONE },
	[OP_ADVANCE_LOC4] = { DELTA4, NONE },
	[OP_ADVANCE_LOC8] = { DELTA8, NONE },
	[OP_OFFSET_EXTENDED] = { REG, UOFF },
	[OP_RESTORE_EXTENDED] = { REG, NONE },
	[OP_UNDEFINED] = { REG, NONE },
	[OP_SAME_VALUE] = { REG, NONE },
	[OP_REGISTER] = { REG, UNUM },
	[OP_REMEMBER_STATE] = { NONE, NONE },
	[OP_RESTORE_STATE] = { NONE, NONE },
	[OP_DEF_CFA] = { REG, UNUM },
	[OP_DEF_CFA_REGISTER] = { REG, NONE },
	[OP_DEF_CFA_OFFSET] = { UNUM, NONE },
	[OP_DEF_CFA_EXPRESSION] = { BLOCK, NONE },
	[OP_EXPRESSION] = { REG, BLOCK },
	[OP_OFFSET_EXTENDED_SF] = { REG, SOFF },
	[OP_DEF_CFA_SF] = { REG, SOFF },
	[OP_DEF_CFA_OFFSET_SF] = { SOFF, NONE },
	[OP_VAL_OFFSET] = { REG, UOFF },
	[OP_VAL_OFFSET_SF] = { REG, SOFF },
	[OP_VAL_EXPRESSION] = { REG, BLOCK },
	/* aarch64 uses the number for another thing; here it can only be SPARC's. */
	[OP_WINDOW_SAVE] = { NONE, NONE },
	[OP_ARGS_SIZE] = { UNUM, NONE },
	[OP_NEGATIVE_OFFSET] = { REG, UOFF },
};

/* An instruction with its operands read. */
struct insn {
	uint8_t op;
	uint32_t reg;
	int64_t num;		/* offset, number or second register */
	uint64_t delta;		/* unscaled */
	const uint8_t *block;
	uint32_t block_len;
};

static void read_operand(struct ht_cfi_run *run, enum operand kind, struct insn *insn)
{
	struct ht_cursor *c = &run->code;
	uint64_t u;

	switch (kind) {
	case UNKNOWN:
		c->bad = true;
		break;
	case NONE:
		break;
	case REG:
		u = ht_cursor_uleb(c);
		insn->reg = (uint32_t)ht_min(u, (uint64_t)UINT32_MAX);
		break;
	case UNUM:
		u = ht_cursor_uleb(c);
		c->bad |= u > INT64_MAX;
		insn->num = (int64_t)u;
		break;
	case UOFF:
		u = ht_cursor_uleb(c);
		c->bad |= u > INT64_MAX ||
			  __builtin_mul_overflow((int64_t)u, run->cie->data_align,
						 &insn->num);
		break;
	case SOFF:
		c->bad |= __builtin_mul_overflow(ht_cursor_sleb(c), run->cie->data_align,
						 &insn->num);
		break;
	case DELTA1:
		insn->delta = ht_cursor_u8(c);
		break;
	case DELTA2:
		insn->delta = ht_cursor_u16(c);
		break;
	case DELTA4:
		insn->delta = ht_cursor_u32(c);
		break;
	case DELTA8:
		insn->delta = ht_cursor_u64(c);
		break;
	case ADDR:
		if (run->fde)
			insn->delta = ht_cfi_pointer(c, run->cie->encoding,
						     run->fde->section);
		break;
	case BLOCK:
		u = ht_cursor_uleb(c);
		c->bad |= u > UINT32_MAX;
		insn->block = ht_cursor_take(c, u);
		insn->block_len = (uint32_t)u;
		break;
	}
}

static bool read_insn(struct ht_cfi_run *run, struct insn *ret_insn)
{
	uint8_t byte = ht_cursor_u8(&run->code), low = byte & 0x3f;
	struct insn insn = { .op = byte & 0xc0 };

	switch (insn.op) {
	case OP_ADVANCE_LOC:
		insn.delta = low;
		break;
	case OP_OFFSET:
		insn.reg = low;
		read_operand(run, UOFF, &insn);
		break;
	case OP_RESTORE:
		insn.reg = low;
		break;
	default:
		insn.op = low;
		read_operand(run, operands[low].first, &insn);
		read_operand(run, operands[low].second, &insn);
		break;
	}
	*ret_insn = insn;
	return !run->code.bad;
}

static void set_reg(struct ht_cfi_run *run, const struct insn *insn, uint8_t kind)
{
	struct ht_cfi_rule rule = { .value = insn->num, .kind = kind };

	/* Vector and segment registers have numbers, but no say in where frames are. */
	if (insn->reg >= HT_CFI_REGS)
		return;
	if (kind == HT_CFI_REGISTER)
		rule.reg = (uint32_t)ht_min(insn->num, (int64_t)UINT32_MAX);
	if (kind == HT_CFI_EXPR || kind == HT_CFI_VAL_EXPR) {
		rule.expr = insn->block;
		rule.expr_len = insn->block_len;
	}
	run->row.regs[insn->reg] = rule;
}

static bool advance(struct ht_cfi_run *run, uint64_t delta)
{
	uint64_t bytes;

	if (!run->fde)
		return false;
	if (__builtin_mul_overflow(delta, run->cie->code_align, &bytes) ||
	    bytes > run->end - run->loc)
		run->loc = run->end;
	else
		run->loc += bytes;
	return true;
}

static bool set_loc(struct ht_cfi_run *run, uint64_t loc)
{
	if (!run->fde || loc < run->loc)
		return false;
	run->loc = ht_min(loc, run->end);
	return true;
}

/* The state is the CFA and the registers: forgetting the CFA is a classic. */
static bool remember(struct ht_cfi_run *run)
{
	if (!run->fde || run->depth == HT_CFI_MAX_DEPTH)
		return false;
	run->saved[run->depth++] = run->row;
	return true;
}

static bool restore(struct ht_cfi_run *run)
{
	if (run->depth == 0)
		return false;
	run->row = run->saved[--run->depth];
	return true;
}

static bool set_cfa(struct ht_cfi_run *run, const struct insn *insn)
{
	struct ht_cfi_rule *cfa = &run->row.cfa;

	switch (insn->op) {
	case OP_DEF_CFA:
	case OP_DEF_CFA_SF:
		cfa->kind = HT_CFI_REGISTER;
		cfa->reg = insn->reg;
		cfa->value = insn->num;
		return true;
	case OP_DEF_CFA_REGISTER:
		cfa->reg = insn->reg;
		return cfa->kind == HT_CFI_REGISTER;
	case OP_DEF_CFA_OFFSET:
	case OP_DEF_CFA_OFFSET_SF:
		cfa->value = insn->num;
		return cfa->kind == HT_CFI_REGISTER;
	default:
		cfa->kind = HT_CFI_EXPR;
		cfa->expr = insn->block;
		cfa->expr_len = insn->block_len;
		return true;
	}
}

/* False: not an instruction that may stand here. */
static bool obey(struct ht_cfi_run *run, struct insn *insn)
{
	switch (insn->op) {
	case OP_ADVANCE_LOC:
	case OP_ADVANCE_LOC1:
	case OP_ADVANCE_LOC2:
	case OP_ADVANCE_LOC4:
	case OP_ADVANCE_LOC8:
		return advance(run, insn->delta);
	case OP_SET_LOC:
		return set_loc(run, insn->delta);
	case OP_OFFSET:
	case OP_OFFSET_EXTENDED:
	case OP_OFFSET_EXTENDED_SF:
		set_reg(run, insn, HT_CFI_OFFSET);
		return true;
	case OP_NEGATIVE_OFFSET:
		insn->num = (int64_t)-(uint64_t)insn->num;
		set_reg(run, insn, HT_CFI_OFFSET);
		return true;
	case OP_RESTORE:
	case OP_RESTORE_EXTENDED:
		if (run->fde && insn->reg < HT_CFI_REGS)
			run->row.regs[insn->reg] = run->cie->initial.regs[insn->reg];
		return run->fde != NULL;
	case OP_UNDEFINED:
		set_reg(run, insn, HT_CFI_UNDEFINED);
		return true;
	case OP_SAME_VALUE:
		set_reg(run, insn, HT_CFI_SAME);
		return true;
	case OP_REGISTER:
		set_reg(run, insn, HT_CFI_REGISTER);
		return true;
	case OP_VAL_OFFSET:
	case OP_VAL_OFFSET_SF:
		set_reg(run, insn, HT_CFI_VAL_OFFSET);
		return true;
	case OP_EXPRESSION:
		set_reg(run, insn, HT_CFI_EXPR);
		return true;
	case OP_VAL_EXPRESSION:
		set_reg(run, insn, HT_CFI_VAL_EXPR);
		return true;
	case OP_REMEMBER_STATE:
		return remember(run);
	case OP_RESTORE_STATE:
		return restore(run);
	case OP_DEF_CFA:
	case OP_DEF_CFA_SF:
	case OP_DEF_CFA_REGISTER:
	case OP_DEF_CFA_OFFSET:
	case OP_DEF_CFA_OFFSET_SF:
	case OP_DEF_CFA_EXPRESSION:
		return set_cfa(run, insn);
	default:
		return true;
	}
}

static bool step(struct ht_cfi_run *run)
{
	struct insn insn;

	return read_insn(run, &insn) && obey(run, &insn);
}

int ht_cfi_run_cie(struct ht_cursor code, struct ht_cfi_cie *cie)
{
	struct ht_cfi_run run;

	if (ht_cursor_left(&code) > MAX_CIE_CODE)
		return -EINVAL;
	run.fde = NULL;
	run.cie = cie;
	run.code = code;
	run.depth = 0;
	memset(&run.row, 0, sizeof(run.row));
	while (run.code.p < run.code.end)
		if (!step(&run))
			return -EINVAL;
	cie->initial = run.row;
	return 0;
}

void ht_cfi_run_init(struct ht_cfi_run *run, const struct ht_cfi_fde *fde)
{
	run->fde = fde;
	run->cie = fde->cie;
	run->code = (struct ht_cursor){ fde->code, fde->code_end, false };
	run->loc = fde->start;
	run->end = fde->end;
	run->done = false;
	run->depth = 0;
	run->row = fde->cie->initial;
}

int ht_cfi_run_next(struct ht_cfi_run *run, uint64_t *ret_start, uint64_t *ret_end)
{
	uint64_t start = run->loc;

	if (run->done)
		return 0;
	*ret_start = start;
	while (run->loc == start && run->code.p < run->code.end) {
		if (step(run))
			continue;
		run->done = true;
		*ret_end = run->end;
		return -EINVAL;
	}
	if (run->loc == start)
		run->loc = run->end;
	run->done = run->loc == run->end;
	*ret_end = run->loc;
	return 1;
}

int ht_cfi_run_to(struct ht_cfi_run *run, const struct ht_cfi_fde *fde, uint64_t pc,
		  size_t *budget)
{
	uint64_t start, end;

	ht_cfi_run_init(run, fde);
	while (ht_cfi_run_next(run, &start, &end) > 0) {
		if (pc >= start && pc < end)
			return 0;
		if (!ht_cfi_spend(budget))
			return -E2BIG;
	}
	return -EINVAL;
}
