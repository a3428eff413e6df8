/* SPDX-License-Identifier: Apache-2.0
 *
 * interp.c: see interp.h. One step with all registers, for the frames that the compact
 * table leaves open.
 */
#include "unwind/interp.h"

#include <errno.h>
#include <string.h>

#include "unwind/cfi.h"

_Static_assert(HT_CFI_REGS == HT_UNWIND_REGS, "one numbering");

#define MAX_STEPS 256
#define MAX_STACK 64

/* How far below SP an epilogue's slots are; a CFA on another stack is further away. */
#define POPPED_MAX 4096

enum {
	DW_OP_addr = 0x03, DW_OP_deref = 0x06, DW_OP_const1u = 0x08, DW_OP_const1s = 0x09,
	DW_OP_const2u = 0x0a, DW_OP_const2s = 0x0b, DW_OP_const4u = 0x0c,
	DW_OP_const4s = 0x0d, DW_OP_const8u = 0x0e, DW_OP_const8s = 0x0f,
	DW_OP_constu = 0x10, DW_OP_consts = 0x11, DW_OP_dup = 0x12, DW_OP_drop = 0x13,
	DW_OP_over = 0x14, DW_OP_pick = 0x15, DW_OP_swap = 0x16, DW_OP_rot = 0x17,
	DW_OP_abs = 0x19, DW_OP_and = 0x1a, DW_OP_div = 0x1b, DW_OP_minus = 0x1c,
	DW_OP_mod = 0x1d, DW_OP_mul = 0x1e, DW_OP_neg = 0x1f, DW_OP_not = 0x20,
	DW_OP_or = 0x21, DW_OP_plus = 0x22, DW_OP_plus_uconst = 0x23, DW_OP_shl = 0x24,
	DW_OP_shr = 0x25, DW_OP_shra = 0x26, DW_OP_xor = 0x27, DW_OP_bra = 0x28,
	DW_OP_eq = 0x29, DW_OP_ge = 0x2a, DW_OP_gt = 0x2b, DW_OP_le = 0x2c,
	DW_OP_lt = 0x2d, DW_OP_ne = 0x2e, DW_OP_skip = 0x2f, DW_OP_lit0 = 0x30,
	DW_OP_lit31 = 0x4f, DW_OP_breg0 = 0x70, DW_OP_breg31 = 0x8f, DW_OP_bregx = 0x92,
	DW_OP_deref_size = 0x94, DW_OP_nop = 0x96, DW_OP_call_frame_cfa = 0x9c,
};

/* An expression being evaluated. Operations fail by setting error. */
struct machine {
	const struct ht_interp_frame *frame;
	const struct ht_interp_memory *memory;
	uint64_t bias;
	uint64_t cfa;
	struct ht_cursor code;
	uint64_t stack[MAX_STACK];
	unsigned depth;
	int error;
};

static void fail(struct machine *m, int error)
{
	if (m->error == 0)
		m->error = error;
}

static void push(struct machine *m, uint64_t value)
{
	if (m->depth == MAX_STACK)
		fail(m, -EINVAL);
	else
		m->stack[m->depth++] = value;
}

static uint64_t pop(struct machine *m)
{
	if (m->depth == 0) {
		fail(m, -EINVAL);
		return 0;
	}
	return m->stack[--m->depth];
}

/* The value @down below the top. */
static uint64_t peek(struct machine *m, unsigned down)
{
	if (down >= m->depth) {
		fail(m, -EINVAL);
		return 0;
	}
	return m->stack[m->depth - 1 - down];
}

static int read_reg(const struct ht_interp_frame *frame, uint64_t reg, uint64_t *ret_value)
{
	if (reg >= HT_UNWIND_REGS || !(frame->known & (1u << reg)))
		return -ENODEV;
	*ret_value = frame->regs[reg];
	return 0;
}

static int read_memory(const struct ht_interp_memory *memory, uint64_t addr,
		       uint64_t *ret_value)
{
	return memory->read(memory->arg, addr, ret_value) < 0 ? -EFAULT : 0;
}

static void push_reg(struct machine *m, uint64_t reg)
{
	int64_t offset = ht_cursor_sleb(&m->code);
	uint64_t value = 0;
	int r = read_reg(m->frame, reg, &value);

	if (r < 0)
		fail(m, r);
	push(m, value + (uint64_t)offset);
}

static void deref(struct machine *m, unsigned size)
{
	uint64_t value = 0;
	int r = read_memory(m->memory, pop(m), &value);

	if (r < 0)
		fail(m, r);
	if (size == 0 || size > 8)
		fail(m, -EINVAL);
	else if (size < 8)
		value &= (UINT64_C(1) << size * 8) - 1;
	push(m, value);
}

static void rotate(struct machine *m)
{
	uint64_t first = pop(m), second = pop(m), third = pop(m);

	push(m, first);
	push(m, third);
	push(m, second);
}

/* Only forward: no loop means no end of it to wait for. */
static void skip(struct machine *m, bool taken)
{
	int16_t by = (int16_t)ht_cursor_u16(&m->code);

	if (!taken)
		return;
	if (by < 0)
		fail(m, -EINVAL);
	else
		ht_cursor_take(&m->code, (uint64_t)by);
}

static uint64_t divide(struct machine *m, int64_t a, int64_t b)
{
	if (b == 0)
		fail(m, -EINVAL);
	if (b == 0)
		return 0;
	return b == -1 ? -(uint64_t)a : (uint64_t)(a / b);
}

static uint64_t modulo(struct machine *m, uint64_t a, uint64_t b)
{
	if (b == 0)
		fail(m, -EINVAL);
	return b == 0 ? 0 : a % b;
}

/* False: not an operation of two operands. */
static bool binary(struct machine *m, uint8_t op)
{
	uint64_t b, a;

	if (op < DW_OP_and || op > DW_OP_ne || op == DW_OP_neg || op == DW_OP_not ||
	    op == DW_OP_plus_uconst || op == DW_OP_bra)
		return false;
	b = pop(m);
	a = pop(m);
	switch (op) {
	case DW_OP_and: a &= b; break;
	case DW_OP_div: a = divide(m, (int64_t)a, (int64_t)b); break;
	case DW_OP_minus: a -= b; break;
	case DW_OP_mod: a = modulo(m, a, b); break;
	case DW_OP_mul: a *= b; break;
	case DW_OP_or: a |= b; break;
	case DW_OP_plus: a += b; break;
	case DW_OP_shl: a = b < 64 ? a << b : 0; break;
	case DW_OP_shr: a = b < 64 ? a >> b : 0; break;
	case DW_OP_shra: a = (uint64_t)((int64_t)a >> ht_min(b, UINT64_C(63))); break;
	case DW_OP_xor: a ^= b; break;
	case DW_OP_eq: a = a == b; break;
	case DW_OP_ge: a = (int64_t)a >= (int64_t)b; break;
	case DW_OP_gt: a = (int64_t)a > (int64_t)b; break;
	case DW_OP_le: a = (int64_t)a <= (int64_t)b; break;
	case DW_OP_lt: a = (int64_t)a < (int64_t)b; break;
	case DW_OP_ne: a = a != b; break;
	}
	push(m, a);
	return true;
}

/* False: not an operation that pushes a constant. */
static bool constant(struct machine *m, uint8_t op)
{
	struct ht_cursor *c = &m->code;

	switch (op) {
	case DW_OP_addr: push(m, ht_cursor_u64(c) + m->bias); return true;
	case DW_OP_const1u: push(m, ht_cursor_u8(c)); return true;
	case DW_OP_const1s: push(m, (uint64_t)(int8_t)ht_cursor_u8(c)); return true;
	case DW_OP_const2u: push(m, ht_cursor_u16(c)); return true;
	case DW_OP_const2s: push(m, (uint64_t)(int16_t)ht_cursor_u16(c)); return true;
	case DW_OP_const4u: push(m, ht_cursor_u32(c)); return true;
	case DW_OP_const4s: push(m, (uint64_t)(int32_t)ht_cursor_u32(c)); return true;
	case DW_OP_const8u:
	case DW_OP_const8s: push(m, ht_cursor_u64(c)); return true;
	case DW_OP_constu: push(m, ht_cursor_uleb(c)); return true;
	case DW_OP_consts: push(m, (uint64_t)ht_cursor_sleb(c)); return true;
	}
	if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
		push(m, op - DW_OP_lit0);
		return true;
	}
	return false;
}

static void other(struct machine *m, uint8_t op)
{
	uint64_t a;

	switch (op) {
	case DW_OP_deref: deref(m, 8); break;
	case DW_OP_deref_size: deref(m, ht_cursor_u8(&m->code)); break;
	case DW_OP_dup: push(m, peek(m, 0)); break;
	case DW_OP_drop: pop(m); break;
	case DW_OP_over: push(m, peek(m, 1)); break;
	case DW_OP_pick: push(m, peek(m, ht_cursor_u8(&m->code))); break;
	case DW_OP_swap:
		a = pop(m);
		push(m, a);
		if (m->depth >= 2) {
			m->stack[m->depth - 1] = m->stack[m->depth - 2];
			m->stack[m->depth - 2] = a;
		} else {
			fail(m, -EINVAL);
		}
		break;
	case DW_OP_rot: rotate(m); break;
	case DW_OP_abs:
		a = pop(m);
		push(m, (int64_t)a < 0 ? -a : a);
		break;
	case DW_OP_neg: push(m, -pop(m)); break;
	case DW_OP_not: push(m, ~pop(m)); break;
	case DW_OP_plus_uconst: push(m, pop(m) + ht_cursor_uleb(&m->code)); break;
	case DW_OP_skip: skip(m, true); break;
	case DW_OP_bra: skip(m, pop(m) != 0); break;
	case DW_OP_bregx: push_reg(m, ht_cursor_uleb(&m->code)); break;
	case DW_OP_call_frame_cfa: push(m, m->cfa); break;
	case DW_OP_nop: break;
	default:
		if (op >= DW_OP_breg0 && op <= DW_OP_breg31)
			push_reg(m, op - DW_OP_breg0);
		else
			fail(m, -EINVAL);
	}
}

static int evaluate(struct machine *m, const struct ht_cfi_rule *rule, uint64_t *ret_value)
{
	unsigned steps = 0;
	uint64_t value;
	uint8_t op;

	m->code = (struct ht_cursor){ rule->expr, rule->expr + rule->expr_len, false };
	while (m->error == 0 && m->code.p < m->code.end) {
		if (++steps > MAX_STEPS)
			return -EINVAL;
		op = ht_cursor_u8(&m->code);
		if (!binary(m, op) && !constant(m, op))
			other(m, op);
		if (m->code.bad)
			fail(m, -EINVAL);
	}
	value = pop(m);
	if (m->error == 0)
		*ret_value = value;
	return m->error;
}

static void machine_init(struct machine *m, const struct ht_interp_frame *frame,
			 const struct ht_interp_memory *memory, uint64_t bias)
{
	m->frame = frame;
	m->memory = memory;
	m->bias = bias;
	m->cfa = 0;
	m->depth = 0;
	m->error = 0;
}

static int find_cfa(struct machine *m, const struct ht_cfi_rule *rule, uint64_t *ret_cfa)
{
	uint64_t value;
	int r;

	if (rule->kind == HT_CFI_EXPR)
		return evaluate(m, rule, ret_cfa);
	if (rule->kind != HT_CFI_REGISTER)
		return -EINVAL;
	r = read_reg(m->frame, rule->reg, &value);
	if (r == 0)
		*ret_cfa = value + (uint64_t)rule->value;
	return r;
}

bool ht_interp_is_popped(const struct ht_interp_frame *frame, unsigned reg, uint64_t addr)
{
	uint64_t sp = frame->regs[HT_REG_RSP];

	return (HT_INTERP_CALL_SAVED & (1u << reg)) && (frame->known & (1u << HT_REG_RSP)) &&
	       addr < sp && sp - addr <= POPPED_MAX;
}

bool ht_interp_is_by_popped_bp(const struct ht_cfi_rule *rule, uint64_t addr, uint64_t cfa)
{
	const uint8_t breg6 = 0x76;

	return rule->kind == HT_CFI_EXPR && rule->expr_len > 0 && rule->expr[0] == breg6 &&
	       addr >= cfa;
}

/* The caller's register @reg, which is at @addr. */
static int read_saved(const struct machine *m, unsigned reg, uint64_t addr,
		      uint64_t *ret_value)
{
	if (ht_interp_is_popped(m->frame, reg, addr))
		return read_reg(m->frame, reg, ret_value);
	return read_memory(m->memory, addr, ret_value);
}

/* The caller's register @reg. -ENOENT: the CFI says that it's lost. */
static int find_reg(struct machine *m, const struct ht_cfi_rule *rule, unsigned reg,
		    uint64_t cfa, uint64_t *ret_value)
{
	uint64_t value;
	int r;

	switch (rule->kind) {
	case HT_CFI_UNSPECIFIED:
		if (!(HT_INTERP_CALL_SAVED & (1u << reg)))
			return -ENOENT;
		return read_reg(m->frame, reg, ret_value);
	case HT_CFI_SAME:
		return read_reg(m->frame, reg, ret_value);
	case HT_CFI_OFFSET:
		return read_saved(m, reg, cfa + (uint64_t)rule->value, ret_value);
	case HT_CFI_VAL_OFFSET:
		*ret_value = cfa + (uint64_t)rule->value;
		return 0;
	case HT_CFI_REGISTER:
		return read_reg(m->frame, rule->reg, ret_value);
	case HT_CFI_EXPR:
	case HT_CFI_VAL_EXPR:
		m->cfa = cfa;
		m->depth = 0;
		m->error = 0;
		push(m, cfa);
		r = evaluate(m, rule, &value);
		if (r < 0)
			return r;
		if (rule->kind == HT_CFI_EXPR && (HT_INTERP_CALL_SAVED & (1u << reg)) &&
		    ht_interp_is_by_popped_bp(rule, value, cfa))
			return read_reg(m->frame, reg, ret_value);
		if (rule->kind == HT_CFI_EXPR)
			return read_saved(m, reg, value, ret_value);
		*ret_value = value;
		return 0;
	default:
		return -ENOENT;
	}
}

static int apply(const struct ht_cfi_row *row, const struct ht_cfi_cie *cie,
		 const struct ht_interp_memory *memory, uint64_t bias,
		 struct ht_interp_frame *frame)
{
	const struct ht_cfi_rule *ra = &row->regs[cie->ra_reg];
	struct ht_interp_frame caller = { .signal = cie->signal };
	struct machine machine;
	unsigned i;
	int r;

	if (ra->kind == HT_CFI_UNDEFINED || ra->kind == HT_CFI_UNSPECIFIED) {
		frame->signal = cie->signal;
		frame->end = true;
		return 0;
	}
	machine_init(&machine, frame, memory, bias);
	r = find_cfa(&machine, &row->cfa, &caller.cfa);
	if (r < 0)
		return r;
	r = find_reg(&machine, ra, HT_REG_RIP, caller.cfa, &caller.regs[HT_REG_RIP]);
	if (r < 0)
		return r == -ENOENT ? -EINVAL : r;
	caller.known = 1u << HT_REG_RIP;
	/* A register that can't be had is a gap in the caller's, no reason to stop. */
	for (i = 0; i < HT_REG_RIP; i++) {
		if (i == HT_REG_RSP && row->regs[i].kind == HT_CFI_UNSPECIFIED) {
			caller.regs[i] = caller.cfa;
			caller.known |= 1u << i;
		} else if (find_reg(&machine, &row->regs[i], i, caller.cfa,
				    &caller.regs[i]) == 0) {
			caller.known |= 1u << i;
		}
	}
	*frame = caller;
	return 0;
}

static void cfi_closep(struct ht_cfi *cfi)
{
	ht_cfi_close(cfi);
}

int ht_interp_step_cfi(const struct ht_cfi *cfi, uint64_t bias, uint64_t pc,
		       const struct ht_interp_memory *memory, struct ht_interp_frame *frame)
{
	struct ht_cfi_reader reader;
	struct ht_cfi_fde fde;
	struct ht_cfi_run run;
	int r;

	r = ht_cfi_find(cfi, pc, memory->budget, &reader, &fde);
	if (r == 0)
		r = ht_cfi_run_to(&run, &fde, pc, memory->budget);
	if (r < 0)
		return r;
	return apply(&run.row, fde.cie, memory, bias, frame);
}

int ht_interp_step(const uint8_t *elf, size_t elf_len, uint64_t bias, uint64_t pc,
		   const struct ht_interp_memory *memory, struct ht_interp_frame *frame)
{
	_cleanup_(cfi_closep) struct ht_cfi cfi = { .n_sections = 0 };
	struct ht_elfview view;
	int r;

	r = ht_elfview_open(elf, elf_len, &view);
	if (r == 0)
		r = ht_cfi_open(&view, &cfi);
	if (r < 0)
		return r;
	return ht_interp_step_cfi(&cfi, bias, pc, memory, frame);
}
