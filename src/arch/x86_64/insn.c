/* SPDX-License-Identifier: Apache-2.0
 *
 * insn.c: which instructions a jump at a function's start would replace, and what they
 * must look like elsewhere; where a function's branches go. Zydis decodes, what to do with
 * an instruction is decided here. Pure computation over byte arrays: code bytes come from
 * the target and may be anything.
 */
#include "arch/arch.h"

#include <Zydis/Zydis.h>

#include <errno.h>
#include <string.h>

#define PAGE 4096
#define WRITE_LEN 8	/* a patch is one POKEDATA */
#define OP_JMP_REL32 0xe9

static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

static void decoder_init(ZydisDecoder *decoder)
{
	ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

static bool decode(const ZydisDecoder *decoder, const uint8_t *code, size_t len,
		   ZydisDecodedInstruction *ret)
{
	return ZYAN_SUCCESS(
		ZydisDecoderDecodeInstruction(decoder, ZYAN_NULL, code, len, ret));
}

static size_t endbr_len(const uint8_t *code, size_t len)
{
	return len >= sizeof(endbr64) && !memcmp(code, endbr64, sizeof(endbr64)) ?
		       sizeof(endbr64) :
		       0;
}

/* The operand is memory at a fixed distance from the instruction. */
static bool rip_relative(const ZydisDecodedInstruction *insn)
{
	return (insn->attributes & ZYDIS_ATTRIB_HAS_MODRM) && insn->raw.modrm.mod == 0 &&
	       insn->raw.modrm.rm == 5 && insn->raw.disp.size == 32;
}

static ht_addr_t rip_target(const ZydisDecodedInstruction *insn, ht_addr_t pc)
{
	return pc + insn->length + (uint64_t)insn->raw.disp.value;
}

static bool branches_directly(const ZydisDecodedInstruction *insn)
{
	return insn->raw.imm[0].is_relative;
}

static ht_addr_t branch_target(const ZydisDecodedInstruction *insn, ht_addr_t pc)
{
	return pc + insn->length + (uint64_t)insn->raw.imm[0].value.s;
}

static bool is_call(const ZydisDecodedInstruction *insn)
{
	return insn->meta.category == ZYDIS_CATEGORY_CALL;
}

static bool ends_flow(const ZydisDecodedInstruction *insn)
{
	return insn->meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
	       insn->meta.category == ZYDIS_CATEGORY_RET;
}

/* Prefix 66, which Intel ignores before a near branch and AMD takes for a rel16. */
static bool has_operand_size(const ZydisDecodedInstruction *insn)
{
	for (unsigned i = 0; i < insn->raw.prefix_count; i++) {
		if (insn->raw.prefixes[i].value == 0x66)
			return true;
	}
	return false;
}

/* Instructions whose own address, or the one behind them, is seen by somebody: by the
 * kernel, a debugger, an abort handler. And branches that have no wide form. */
static bool stays_put(const ZydisDecodedInstruction *insn)
{
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_LOOP:
	case ZYDIS_MNEMONIC_LOOPE:
	case ZYDIS_MNEMONIC_LOOPNE:
	case ZYDIS_MNEMONIC_JCXZ:
	case ZYDIS_MNEMONIC_JECXZ:
	case ZYDIS_MNEMONIC_JRCXZ:
	case ZYDIS_MNEMONIC_XBEGIN:
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
		return true;
	default:
		break;
	}
	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_SYSRET:
	case ZYDIS_CATEGORY_INTERRUPT:
	case ZYDIS_CATEGORY_SYSTEM:
		return true;
	default:
		break;
	}
	return branches_directly(insn) && has_operand_size(insn);
}

/* Signed distance from @from to @to, when it fits 32 bits. */
static bool distance32(ht_addr_t from, ht_addr_t to, int32_t *ret_distance)
{
	int64_t d = (int64_t)(to - from);

	if (d != (int32_t)d)
		return false;
	*ret_distance = (int32_t)d;
	return true;
}

bool ht_encode_jump(uint8_t out[HT_JUMP_LEN], ht_addr_t from, ht_addr_t to)
{
	int32_t rel;

	if (!distance32(from + HT_JUMP_LEN, to, &rel))
		return false;
	out[0] = OP_JMP_REL32;
	memcpy(out + 1, &rel, sizeof(rel));
	return true;
}

/* The condition is the low nibble of the last opcode byte, in the short form (7x) as well
 * as in the near one (0f 8x). */
static bool encode_jcc(uint8_t out[6], uint8_t opcode, ht_addr_t from, ht_addr_t to)
{
	int32_t rel;

	if (!distance32(from + 6, to, &rel))
		return false;
	out[0] = 0x0f;
	out[1] = 0x80 | (opcode & 0x0f);
	memcpy(out + 2, &rel, sizeof(rel));
	return true;
}

/* Append the instruction at @src (address @pc), made to mean the same at its new place. */
static enum ht_insn_refusal move_one(const ZydisDecodedInstruction *insn,
				     const uint8_t *src, ht_addr_t pc,
				     ht_addr_t moved_addr, struct ht_moved *moved)
{
	uint8_t *dst = moved->bytes + moved->len;
	ht_addr_t at = moved_addr + moved->len;
	int32_t disp;

	if (moved->len + 16 > sizeof(moved->bytes))
		return HT_INSN_NOT_MOVABLE;
	if (branches_directly(insn)) {
		ht_addr_t to = branch_target(insn, pc);
		bool always = insn->meta.category == ZYDIS_CATEGORY_UNCOND_BR;

		if (always ? !ht_encode_jump(dst, at, to) :
			     !encode_jcc(dst, insn->opcode, at, to))
			return HT_INSN_NOT_MOVABLE;
		moved->len += always ? HT_JUMP_LEN : 6;
		return HT_INSN_OK;
	}
	memcpy(dst, src, insn->length);
	if (rip_relative(insn)) {
		/* Counted from the end of the instruction, behind a possible immediate. */
		if (insn->address_width != 64 ||
		    !distance32(at + insn->length, rip_target(insn, pc), &disp))
			return HT_INSN_NOT_MOVABLE;
		memcpy(dst + insn->raw.disp.offset, &disp, sizeof(disp));
	}
	moved->len += insn->length;
	return HT_INSN_OK;
}

/* Does a direct branch in @code (at @addr) go to (@lo, @hi)? Where bytes don't decode, each
 * further byte is taken for a start, so that data in the code can't hide a branch. */
static bool branches_into(const ZydisDecoder *decoder, const uint8_t *code, size_t len,
			  ht_addr_t addr, ht_addr_t lo, ht_addr_t hi)
{
	ZydisDecodedInstruction insn;
	ht_addr_t to;

	for (size_t off = 0; off < len;) {
		if (!decode(decoder, code + off, len - off, &insn)) {
			off++;
			continue;
		}
		if (branches_directly(&insn)) {
			to = branch_target(&insn, addr + off);
			if (to > lo && to < hi)
				return true;
		}
		off += insn.length;
	}
	return false;
}

/* Move whole instructions from @off on until a jump fits in. */
static enum ht_insn_refusal move_head(const ZydisDecoder *decoder, const uint8_t *code,
				      size_t len, size_t off, ht_addr_t entry,
				      ht_addr_t moved_addr, struct ht_moved *moved)
{
	ZydisDecodedInstruction insn;
	enum ht_insn_refusal refusal;

	while (moved->replaced_len < HT_JUMP_LEN) {
		size_t at = off + moved->replaced_len;

		if (at >= len || moved->jumps_away)
			return HT_INSN_TOO_SHORT;
		if (!decode(decoder, code + at, len - at, &insn))
			/* Cut by the function's end, or no instruction at all. */
			return len - at < ZYDIS_MAX_INSTRUCTION_LENGTH &&
					       len - off < HT_JUMP_LEN ?
				       HT_INSN_TOO_SHORT :
				       HT_INSN_UNDECODABLE;
		if (is_call(&insn))
			return HT_INSN_CALL;
		if (stays_put(&insn))
			return HT_INSN_NOT_MOVABLE;
		refusal = move_one(&insn, code + at, entry + at, moved_addr, moved);
		if (refusal)
			return refusal;
		moved->replaced_len += insn.length;
		moved->jumps_away = ends_flow(&insn);
	}
	return HT_INSN_OK;
}

enum ht_insn_refusal ht_insn_move(const uint8_t *code, size_t len, ht_addr_t entry,
				  ht_addr_t moved_addr, struct ht_moved *ret_moved)
{
	struct ht_moved moved = { .replaced_len = 0 };
	enum ht_insn_refusal refusal;
	ZydisDecoder decoder;
	size_t off = endbr_len(code, len);

	decoder_init(&decoder);
	moved.patch_addr = entry + off;
	refusal = move_head(&decoder, code, len, off, entry, moved_addr, &moved);
	if (refusal)
		return refusal;
	if (branches_into(&decoder, code, len, entry, moved.patch_addr,
			  moved.patch_addr + moved.replaced_len))
		return HT_INSN_BRANCH_BACK;
	if (moved.patch_addr % PAGE > PAGE - WRITE_LEN)
		return HT_INSN_PAGE_CROSSING;
	*ret_moved = moved;
	return HT_INSN_OK;
}

const char *ht_insn_refusal_text(enum ht_insn_refusal refusal)
{
	switch (refusal) {
	case HT_INSN_OK:
		return "can be patched";
	case HT_INSN_TOO_SHORT:
		return "the function is shorter than a jump";
	case HT_INSN_UNDECODABLE:
		return "its first bytes are no known instruction";
	case HT_INSN_CALL:
		return "a call is among its first instructions";
	case HT_INSN_NOT_MOVABLE:
		return "one of its first instructions works at its own place only";
	case HT_INSN_BRANCH_BACK:
		return "its code branches back into its first bytes";
	case HT_INSN_PAGE_CROSSING:
		return "its first bytes cross a page boundary";
	}
	return "unknown reason";
}

/* What kind of branch @insn is. False: none, or a return. */
static bool flow_of(const ZydisDecodedInstruction *insn, ht_addr_t pc,
		    struct ht_flow *ret_flow)
{
	bool call = is_call(insn);

	ret_flow->pc = pc;
	ret_flow->target = 0;
	if (branches_directly(insn)) {
		ret_flow->kind = call ? HT_FLOW_CALL : HT_FLOW_JUMP;
		ret_flow->target = branch_target(insn, pc);
		return true;
	}
	if (!call && insn->meta.category != ZYDIS_CATEGORY_UNCOND_BR)
		return false;
	ret_flow->kind = HT_FLOW_UNKNOWN;
	if (rip_relative(insn) && insn->address_width == 64 &&
	    !(insn->attributes & (ZYDIS_ATTRIB_HAS_SEGMENT_FS | ZYDIS_ATTRIB_HAS_SEGMENT_GS))) {
		ret_flow->kind = HT_FLOW_SLOT;
		ret_flow->target = rip_target(insn, pc);
	}
	return true;
}

int ht_insn_flow(const uint8_t *code, size_t len, ht_addr_t addr,
		 void (*visit)(void *arg, const struct ht_flow *flow), void *arg)
{
	ZydisDecodedInstruction insn;
	ZydisDecoder decoder;
	struct ht_flow flow;

	decoder_init(&decoder);
	for (size_t off = 0; off < len; off += insn.length) {
		if (!decode(&decoder, code + off, len - off, &insn))
			return -EILSEQ;
		if (flow_of(&insn, addr + off, &flow))
			visit(arg, &flow);
	}
	return 0;
}

bool ht_insn_is_forwarder(const uint8_t *code, size_t len, ht_addr_t addr,
			  ht_addr_t *ret_target, bool *ret_indirect)
{
	size_t off = endbr_len(code, len);
	ZydisDecodedInstruction insn;
	ZydisDecoder decoder;
	struct ht_flow flow;

	decoder_init(&decoder);
	if (!decode(&decoder, code + off, len - off, &insn) ||
	    insn.meta.category != ZYDIS_CATEGORY_UNCOND_BR ||
	    !flow_of(&insn, addr + off, &flow) || flow.kind == HT_FLOW_UNKNOWN)
		return false;
	*ret_target = flow.target;
	*ret_indirect = flow.kind == HT_FLOW_SLOT;
	return true;
}

static bool is_argument(ZydisRegister reg)
{
	return reg == ZYDIS_REGISTER_RDI || reg == ZYDIS_REGISTER_RSI ||
	       reg == ZYDIS_REGISTER_RDX || reg == ZYDIS_REGISTER_RCX ||
	       reg == ZYDIS_REGISTER_R8 || reg == ZYDIS_REGISTER_R9;
}

static bool is_result(ZydisRegister reg)
{
	return reg == ZYDIS_REGISTER_RAX;
}

/* Does it write a register that @watched says is looked for, whole or in part? */
static bool writes(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *operands,
		   bool (*watched)(ZydisRegister reg))
{
	for (unsigned i = 0; i < insn->operand_count; i++) {
		if (operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    (operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
		    watched(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64,
							     operands[i].reg.value)))
			return true;
	}
	return false;
}

/* Nothing but what @insn does happens here. */
static bool goes_straight_on(const ZydisDecodedInstruction *insn)
{
	return !branches_directly(insn) && !stays_put(insn) && !is_call(insn) &&
	       insn->meta.category != ZYDIS_CATEGORY_COND_BR && !ends_flow(insn);
}

bool ht_insn_is_wrapper(const uint8_t *code, size_t len, ht_addr_t addr,
			ht_addr_t *ret_target, bool *ret_indirect)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;
	struct ht_flow flow = { 0 };
	ZydisDecoder decoder;
	bool called = false;

	decoder_init(&decoder);
	for (size_t off = 0; off < len; off += insn.length) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + off, len - off, &insn,
							 operands)))
			return false;
		if (called && insn.meta.category == ZYDIS_CATEGORY_RET) {
			*ret_target = flow.target;
			*ret_indirect = flow.kind == HT_FLOW_SLOT;
			return true;
		}
		if (is_call(&insn)) {
			if (called || has_operand_size(&insn) ||
			    !flow_of(&insn, addr + off, &flow) || flow.kind == HT_FLOW_UNKNOWN)
				return false;
			called = true;
		} else if (!goes_straight_on(&insn) ||
			   writes(&insn, operands, called ? is_result : is_argument)) {
			return false;
		}
	}
	return false;
}

static bool in_ranges(const struct ht_code_range *ranges, size_t n, ht_addr_t addr)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (addr >= ranges[mid].end)
			lo = mid + 1;
		else if (addr < ranges[mid].start)
			hi = mid;
		else
			return true;
	}
	return false;
}

/* The opcode that a rel32 at @i belongs to: e8, e9, 0f 8x, xbegin (c7 f8). */
static size_t rel32_opcode(const uint8_t *code, size_t i)
{
	if (i >= 1 && (code[i - 1] == 0xe8 || code[i - 1] == 0xe9))
		return 1;
	if (i >= 2 && ((code[i - 2] == 0x0f && (code[i - 1] & 0xf0) == 0x80) ||
		       (code[i - 2] == 0xc7 && code[i - 1] == 0xf8)))
		return 2;
	return 0;
}

/* jcc, loop and jrcxz, jmp with a rel8. */
static bool rel8_opcode(uint8_t byte)
{
	return (byte & 0xf0) == 0x70 || (byte & 0xfc) == 0xe0 || byte == 0xeb;
}

static void scan_rel8(const uint8_t *code, size_t len, ht_addr_t addr,
		      const struct ht_code_range *range,
		      void (*visit)(void *arg, ht_addr_t pc, ht_addr_t target), void *arg)
{
	/* The instruction may start up to 129 bytes before the range, or behind it. */
	uint64_t from = range->start > addr + 130 ? range->start - addr - 130 : 0;
	uint64_t to = range->end > addr ? ht_min(range->end - addr + 130, (uint64_t)len) : 0;
	ht_addr_t target;

	for (uint64_t i = from; i + 1 < to; i++) {
		if (!rel8_opcode(code[i]))
			continue;
		target = addr + i + 2 + (uint64_t)(int64_t)(int8_t)code[i + 1];
		if (target >= range->start && target < range->end)
			visit(arg, addr + i, target);
	}
}

void ht_insn_scan_into(const uint8_t *code, size_t len, ht_addr_t addr,
		       const struct ht_code_range *ranges, size_t n,
		       void (*visit)(void *arg, ht_addr_t pc, ht_addr_t target), void *arg)
{
	uint64_t lo, span;

	if (!n || len < 2)
		return;
	lo = ranges[0].start;
	span = ranges[n - 1].end - lo;
	for (size_t i = 1; i + 4 <= len; i++) {
		ht_addr_t target;
		size_t opcode;
		int32_t rel;

		memcpy(&rel, code + i, sizeof(rel));
		target = addr + i + 4 + (uint64_t)(int64_t)rel;
		if (likely(target - lo >= span) || !in_ranges(ranges, n, target))
			continue;
		opcode = rel32_opcode(code, i);
		if (opcode)
			visit(arg, addr + i - opcode, target);
	}
	for (size_t i = 0; i < n; i++)
		scan_rel8(code, len, addr, &ranges[i], visit, arg);
}

int ht_insn_boundary(const uint8_t *code, size_t len, size_t offset)
{
	ZydisDecodedInstruction insn;
	ZydisDecoder decoder;
	size_t off = 0;

	decoder_init(&decoder);
	while (off < offset && off < len) {
		if (!decode(&decoder, code + off, len - off, &insn))
			return -EILSEQ;
		off += insn.length;
	}
	return off == offset;
}
