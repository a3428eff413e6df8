/* SPDX-License-Identifier: Apache-2.0
 *
 * libunwind.c: see libunwind.h.
 *
 * What libunwind is shown lies at addresses of the kernel's half, which no target has:
 *
 *	IMAGE_BASE	search table: one pair of s32, { lowest, offset of the FDE }
 *	+ CIE_AT	CIE, whose initial instructions are the row
 *	+ fde_at	FDE for the one byte at pc, without instructions
 */
#include "unwind/libunwind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <libunwind.h>

#include "unwind/cfi.h"
#include "unwind/module-priv.h"

#define IMAGE_BASE UINT64_C(0xffffff5500000000)
#define IMAGE_SIZE 4096
#define CIE_AT 16
#define EXPR_MAX 128

enum {
	DW_CFA_undefined = 0x07, DW_CFA_same_value = 0x08, DW_CFA_register = 0x09,
	DW_CFA_def_cfa_expression = 0x0f, DW_CFA_expression = 0x10,
	DW_CFA_offset_extended_sf = 0x11, DW_CFA_def_cfa_sf = 0x12,
	DW_CFA_val_offset_sf = 0x15, DW_CFA_val_expression = 0x16,
};

/* Exported by libunwind for those who bring their own unwind data, but in no header. */
extern int _Ux86_64_dwarf_search_unwind_table(unw_addr_space_t as, unw_word_t ip,
					      unw_dyn_info_t *di, unw_proc_info_t *info,
					      int need_unwind_info, void *arg);

struct ht_libunwind {
	unw_addr_space_t as;
};

/* One step under way: what the accessors answer from. */
struct step {
	const struct ht_interp_memory *memory;
	const struct ht_interp_frame *frame;
	uint64_t pc;		/* in the target */
	bool fault;		/* memory couldn't be read */
	bool missed;		/* asked for something else than pc: it's guessing */
	bool signal;
	bool end;
	struct ht_cfi_row row;
	uint32_t fde_at;
	size_t len;
	uint8_t image[IMAGE_SIZE];
};

/* ---- checking ---- */

enum operand { FORBIDDEN, NO_OPERAND, BYTES_1, BYTES_2, BYTES_4, BYTES_8, LEB };

/* The operations that libunwind evaluates without harm: none that jumps or divides, none
 * that needs the load bias, and only registers that it has. */
static const uint8_t operands[256] = {
	[0x06] = NO_OPERAND,		/* deref */
	[0x08 ... 0x09] = BYTES_1,	/* const1u, const1s */
	[0x0a ... 0x0b] = BYTES_2,	/* const2u, const2s */
	[0x0c ... 0x0d] = BYTES_4,	/* const4u, const4s */
	[0x0e ... 0x0f] = BYTES_8,	/* const8u, const8s */
	[0x10 ... 0x11] = LEB,		/* constu, consts */
	[0x12 ... 0x14] = NO_OPERAND,	/* dup, drop, over */
	[0x15] = BYTES_1,		/* pick */
	[0x16 ... 0x17] = NO_OPERAND,	/* swap, rot */
	[0x19 ... 0x1a] = NO_OPERAND,	/* abs, and */
	[0x1c] = NO_OPERAND,		/* minus */
	[0x1e ... 0x22] = NO_OPERAND,	/* mul, neg, not, or, plus */
	[0x23] = LEB,			/* plus_uconst */
	[0x24 ... 0x27] = NO_OPERAND,	/* shl, shr, shra, xor */
	[0x29 ... 0x2e] = NO_OPERAND,	/* comparisons */
	[0x30 ... 0x4f] = NO_OPERAND,	/* lit0 .. lit31 */
	[0x70 ... 0x80] = LEB,		/* breg0 .. breg16 */
	[0x94] = BYTES_1,		/* deref_size */
	[0x96] = NO_OPERAND,		/* nop */
};

static bool expression_is_safe(const struct ht_cfi_rule *rule)
{
	struct ht_cursor c = { rule->expr, rule->expr + rule->expr_len, false };

	if (rule->expr_len > EXPR_MAX)
		return false;
	while (c.p < c.end && !c.bad) {
		enum operand operand = operands[ht_cursor_u8(&c)];

		if (operand == FORBIDDEN)
			return false;
		if (operand == LEB)
			ht_cursor_uleb(&c);
		else if (operand != NO_OPERAND)
			ht_cursor_take(&c, 1u << (operand - BYTES_1));
	}
	return !c.bad;
}

static bool has_expression(const struct ht_cfi_rule *rule)
{
	return rule->kind == HT_CFI_EXPR || rule->kind == HT_CFI_VAL_EXPR;
}

static bool row_is_safe(const struct ht_cfi_row *row)
{
	unsigned i;

	if (row->cfa.kind != HT_CFI_REGISTER && row->cfa.kind != HT_CFI_EXPR)
		return false;
	if (has_expression(&row->cfa) && !expression_is_safe(&row->cfa))
		return false;
	for (i = 0; i < HT_CFI_REGS; i++)
		if (has_expression(&row->regs[i]) && !expression_is_safe(&row->regs[i]))
			return false;
	return true;
}

/* ---- writing the row down ---- */

static void put(struct step *s, uint8_t byte)
{
	if (s->len < IMAGE_SIZE)
		s->image[s->len++] = byte;
}

static void put_bytes(struct step *s, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;

	while (len--)
		put(s, *p++);
}

static void put_u32(struct step *s, uint32_t value)
{
	put_bytes(s, &value, sizeof(value));
}

static void put_u64(struct step *s, uint64_t value)
{
	put_bytes(s, &value, sizeof(value));
}

static void put_uleb(struct step *s, uint64_t value)
{
	for (; value > 0x7f; value >>= 7)
		put(s, (value & 0x7f) | 0x80);
	put(s, (uint8_t)value);
}

static void put_sleb(struct step *s, int64_t value)
{
	for (; value < -64 || value > 63; value >>= 7)
		put(s, (value & 0x7f) | 0x80);
	put(s, value & 0x7f);
}

static void put_expression(struct step *s, const struct ht_cfi_rule *rule)
{
	put_uleb(s, rule->expr_len);
	put_bytes(s, rule->expr, rule->expr_len);
}

static void put_cfa(struct step *s, const struct ht_cfi_rule *rule)
{
	if (rule->kind == HT_CFI_EXPR) {
		put(s, DW_CFA_def_cfa_expression);
		put_expression(s, rule);
		return;
	}
	put(s, DW_CFA_def_cfa_sf);
	put_uleb(s, rule->reg);
	put_sleb(s, rule->value);
}

static void put_rule(struct step *s, unsigned reg, const struct ht_cfi_rule *rule)
{
	static const uint8_t ops[] = {
		[HT_CFI_UNDEFINED] = DW_CFA_undefined,
		[HT_CFI_SAME] = DW_CFA_same_value,
		[HT_CFI_OFFSET] = DW_CFA_offset_extended_sf,
		[HT_CFI_VAL_OFFSET] = DW_CFA_val_offset_sf,
		[HT_CFI_REGISTER] = DW_CFA_register,
		[HT_CFI_EXPR] = DW_CFA_expression,
		[HT_CFI_VAL_EXPR] = DW_CFA_val_expression,
	};

	if (rule->kind == HT_CFI_UNSPECIFIED)
		return;
	put(s, ops[rule->kind]);
	put_uleb(s, reg);
	if (rule->kind == HT_CFI_OFFSET || rule->kind == HT_CFI_VAL_OFFSET)
		put_sleb(s, rule->value);
	else if (rule->kind == HT_CFI_REGISTER)
		put_uleb(s, rule->reg);
	else if (has_expression(rule))
		put_expression(s, rule);
}

/* End an entry that started with its length field at @at. */
static void close_entry(struct step *s, size_t at)
{
	uint32_t len;

	while (s->len % 8 && s->len < IMAGE_SIZE)
		put(s, 0);
	len = (uint32_t)(s->len - at - 4);
	memcpy(s->image + at, &len, sizeof(len));
}

static int write_image(struct step *s, const struct ht_cfi_row *row, uint8_t ra_reg)
{
	unsigned i;

	s->len = CIE_AT;
	put_u32(s, 0);
	put_u32(s, 0);				/* it's a CIE */
	put(s, 1);
	put_bytes(s, s->signal ? "S" : "", s->signal ? 2 : 1);
	put_uleb(s, 1);
	put_sleb(s, 1);
	put(s, ra_reg);
	put_cfa(s, &row->cfa);
	for (i = 0; i < HT_CFI_REGS; i++)
		put_rule(s, i, &row->regs[i]);
	close_entry(s, CIE_AT);
	s->fde_at = (uint32_t)s->len;
	put_u32(s, 0);
	put_u32(s, (uint32_t)s->len - CIE_AT);	/* back to the CIE */
	put_u64(s, s->pc);
	put_u64(s, 1);
	close_entry(s, s->fde_at);
	memcpy(s->image, (int32_t[]){ INT32_MIN, (int32_t)s->fde_at }, 8);
	return s->len < IMAGE_SIZE ? 0 : -EINVAL;
}

/* Find the row for module address @pc and write it down. -ENODATA, -EINVAL, -E2BIG. */
static int prepare(struct step *s, struct ht_module *module, uint64_t pc)
{
	struct ht_cfi_reader reader;
	struct ht_cfi_fde fde;
	struct ht_cfi_run run;
	const struct ht_cfi *cfi = ht_module_cfi(module);
	size_t *budget = s->memory->budget;
	int r = cfi ? ht_cfi_find(cfi, pc, budget, &reader, &fde) : -ENODATA;

	if (r == 0)
		r = ht_cfi_run_to(&run, &fde, pc, budget);
	if (r < 0)
		return r;
	s->signal = fde.cie->signal;
	s->end = run.row.regs[fde.cie->ra_reg].kind == HT_CFI_UNDEFINED;
	if (s->end)
		return 0;
	if (!row_is_safe(&run.row))
		return -EINVAL;
	s->row = run.row;
	return write_image(s, &run.row, fde.cie->ra_reg);
}

/* ---- what libunwind asks ---- */

static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *info,
			  int need_unwind_info, void *arg)
{
	struct step *s = arg;
	unw_dyn_info_t di = {
		.start_ip = 0,
		.end_ip = UINT64_MAX,
		.format = UNW_INFO_FORMAT_REMOTE_TABLE,
		.u.rti = { .segbase = IMAGE_BASE,
			   .table_data = IMAGE_BASE,
			   .table_len = 1 },
	};

	if (ip != s->pc) {
		s->missed = true;
		return -UNW_ENOINFO;
	}
	return _Ux86_64_dwarf_search_unwind_table(as, ip, &di, info, need_unwind_info,
						  arg);
}

static void put_unwind_info(unw_addr_space_t as, unw_proc_info_t *info, void *arg)
{
	free(info->unwind_info);
	info->unwind_info = NULL;
}

static int no_dyn_info(unw_addr_space_t as, unw_word_t *addr, void *arg)
{
	return -UNW_ENOINFO;
}

static int access_mem(unw_addr_space_t as, unw_word_t addr, unw_word_t *value, int write,
		      void *arg)
{
	struct step *s = arg;
	uint64_t at = addr - IMAGE_BASE;

	if (write)
		return -UNW_EINVAL;
	if (at < IMAGE_SIZE - sizeof(*value)) {
		memcpy(value, s->image + at, sizeof(*value));
		return 0;
	}
	if (!s->memory->read(s->memory->arg, addr, value))
		return 0;
	s->fault = true;
	return -UNW_EINVAL;
}

static int access_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *value, int write,
		      void *arg)
{
	struct step *s = arg;

	if (write || reg < 0 || reg >= HT_UNWIND_REGS || !(s->frame->known & (1u << reg)))
		return -UNW_EBADREG;
	*value = reg == HT_REG_RIP ? s->pc : s->frame->regs[reg];
	return 0;
}

static int no_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *value, int write,
		    void *arg)
{
	return -UNW_EBADREG;
}

static int no_resume(unw_addr_space_t as, unw_cursor_t *cursor, void *arg)
{
	return -UNW_EINVAL;
}

static int no_name(unw_addr_space_t as, unw_word_t addr, char *name, size_t cap,
		   unw_word_t *offset, void *arg)
{
	return -UNW_ENOINFO;
}

/* ---- stepping ---- */

int ht_libunwind_new(struct ht_libunwind **ret_libunwind)
{
	static unw_accessors_t accessors = {
		find_proc_info, put_unwind_info, no_dyn_info, access_mem,
		access_reg, no_fpreg, no_resume, no_name,
	};
	struct ht_libunwind *libunwind = calloc(1, sizeof(*libunwind));

	if (!libunwind)
		return -ENOMEM;
	libunwind->as = unw_create_addr_space(&accessors, 0);
	if (!libunwind->as) {
		free(libunwind);
		return -ENOMEM;
	}
	/* Its cache is keyed by address only, and each of our rows is good for
	 * one step. */
	unw_set_caching_policy(libunwind->as, UNW_CACHE_NONE);
	*ret_libunwind = libunwind;
	return 0;
}

struct ht_libunwind *ht_libunwind_free(struct ht_libunwind *libunwind)
{
	if (!libunwind)
		return NULL;
	unw_destroy_addr_space(libunwind->as);
	free(libunwind);
	return NULL;
}

static bool take_register(unw_cursor_t *cursor, struct step *s, int reg,
			  unw_word_t *ret_value)
{
	unw_save_loc_t loc;
	unw_word_t cfa;

	if (unw_get_save_loc(cursor, reg, &loc) == 0 && loc.type == UNW_SLT_MEMORY &&
	    unw_get_reg(cursor, UNW_X86_64_RSP, &cfa) == 0 &&
	    (ht_interp_is_popped(s->frame, (unsigned)reg, loc.u.addr) ||
	     ((HT_INTERP_CALL_SAVED & (1u << reg)) &&
	      ht_interp_is_by_popped_bp(&s->row.regs[reg], loc.u.addr, cfa))))
		return access_reg(NULL, reg, ret_value, 0, s) == 0;
	return unw_get_reg(cursor, reg, ret_value) == 0;
}

/* Take the caller's registers over: all after a signal frame, else those that a call
 * leaves alone. libunwind says "same" of the others too. */
static int take_registers(unw_cursor_t *cursor, struct step *s,
			  struct ht_interp_frame *frame)
{
	const uint32_t needed = 1u << HT_REG_RSP | 1u << HT_REG_RIP;
	const uint32_t saved = HT_INTERP_CALL_SAVED | needed;
	struct ht_interp_frame caller = { .signal = s->signal };
	unw_word_t value;
	int i;

	for (i = 0; i < HT_UNWIND_REGS; i++) {
		if (!s->signal && !(saved & (1u << i)))
			continue;
		if (!take_register(cursor, s, i, &value))
			continue;
		caller.regs[i] = value;
		caller.known |= 1u << i;
	}
	if ((caller.known & needed) != needed)
		return s->fault ? -EFAULT : -EINVAL;
	caller.cfa = caller.regs[HT_REG_RSP];
	*frame = caller;
	return 0;
}

int ht_libunwind_step(struct ht_libunwind *libunwind, struct ht_module *module,
		      uint64_t bias, uint64_t pc, const struct ht_interp_memory *memory,
		      struct ht_interp_frame *frame)
{
	struct step s = { .memory = memory, .frame = frame, .pc = pc + bias };
	unw_cursor_t cursor;
	int r = prepare(&s, module, pc);

	if (r < 0)
		return r;
	if (s.end) {
		frame->end = true;
		return 0;
	}
	if (unw_init_remote(&cursor, libunwind->as, &s) < 0)
		return -ENODEV;
	r = unw_step(&cursor);
	if (s.fault)
		return -EFAULT;
	/* 0 is its end of a stack: the return address is 0, which the caller of this
	 * sees. */
	if (s.missed || r < 0)
		return -EINVAL;
	return take_registers(&cursor, &s, frame);
}
