/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions and inlined calls in trees of DIEs made by hand: the odd ones, and those that
 * were made to use up time and stack. What compilers write is in test_lines.c.
 */
#include <dwarf.h>
#include <errno.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "ht_check.h"
#include "symbol/symbol-priv.h"

/* --- one unit of DWARF 4 --- */

enum { CU = 1, FUNC, BLOCK, BARE_BLOCK, INLINED, NAMESPACE, STRUCT, ENUM, VARIABLE, RANGED,
       DECL, LINKED };

static const uint8_t abbrevs[] = {
#define PLACE DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc, DW_FORM_data8
	CU, DW_TAG_compile_unit, 1, 0, 0,
	FUNC, DW_TAG_subprogram, 1, PLACE, 0, 0,
	BLOCK, DW_TAG_lexical_block, 1, PLACE, 0, 0,
	BARE_BLOCK, DW_TAG_lexical_block, 1, 0, 0,
	INLINED, DW_TAG_inlined_subroutine, 1, PLACE, 0, 0,
	NAMESPACE, DW_TAG_namespace, 1, 0, 0,
	STRUCT, DW_TAG_structure_type, 1, 0, 0,
	ENUM, DW_TAG_enumeration_type, 1, 0, 0,
	VARIABLE, DW_TAG_variable, 0, 0, 0,
	RANGED, DW_TAG_subprogram, 1, DW_AT_ranges, DW_FORM_sec_offset, 0, 0,
	DECL, DW_TAG_subprogram, 0, 0, 0,
	LINKED, DW_TAG_namespace, 1, DW_AT_sibling, DW_FORM_ref4, 0, 0,
	0,
};
#define HEADER 11	/* of a unit in 32-bit DWARF */

static struct ht_buf info, ranges, file;
static Elf *elf;
static Dwarf *dwarf;
static size_t n_dies;

/* Whether all of it got in is seen at the end: Check is slow. */
static void u32(struct ht_buf *buf, uint32_t value)
{
	ht_buf_append(buf, &value, 4);
}

static void u64(struct ht_buf *buf, uint64_t value)
{
	ht_buf_append(buf, &value, 8);
}

static void die(uint8_t abbrev)
{
	n_dies++;
	ht_buf_append(&info, &abbrev, 1);
}

/* Returns its offset. */
static size_t place(uint8_t abbrev, uint64_t lo, uint64_t hi)
{
	size_t at = info.len;

	die(abbrev);
	u64(&info, lo);
	u64(&info, hi - lo);
	return at;
}

static void end(void)
{
	ht_buf_append(&info, "", 1);
}

static void start(void)
{
	static const uint8_t header[HEADER] = { [4] = 4, [10] = 8 };

	info = ranges = file = (struct ht_buf)HT_BUF_INIT;
	ck_ok(ht_buf_append(&info, header, sizeof(header)));
	die(CU);
	n_dies = 0;
}

/* The bytes so far as a file, and the unit in it. */
static bool open_unit(Dwarf_Die *ret_cu)
{
	static const char names[] = "\0.debug_info\0.debug_abbrev\0.debug_ranges\0.shstrtab";
	Elf64_Ehdr header = { .e_type = ET_DYN, .e_version = EV_CURRENT,
			      .e_machine = EM_X86_64, .e_ehsize = sizeof(header),
			      .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 5,
			      .e_shstrndx = 4 };
	const struct {
		const void *data;
		size_t len;
		uint32_t name, type;
	} parts[5] = {
		[1] = { info.data, info.len, 1, SHT_PROGBITS },
		[2] = { abbrevs, sizeof(abbrevs), 13, SHT_PROGBITS },
		[3] = { ranges.data, ranges.len, 27, SHT_PROGBITS },
		[4] = { names, sizeof(names), 41, SHT_STRTAB },
	};
	uint64_t offset = sizeof(header) + sizeof(Elf64_Shdr) * 5;
	uint32_t len = (uint32_t)(info.len - 4);

	ck_assert(!info.failed && !ranges.failed);
	memcpy(info.data, &len, 4);
	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	header.e_ident[EI_VERSION] = EV_CURRENT;
	header.e_shoff = sizeof(header);
	ht_buf_clear(&file);
	ck_ok(ht_buf_append(&file, &header, sizeof(header)));
	for (size_t i = 0; i < 5; i++) {
		Elf64_Shdr section = { .sh_name = parts[i].name, .sh_type = parts[i].type,
				       .sh_offset = offset, .sh_size = parts[i].len,
				       .sh_addralign = 1 };

		offset += parts[i].len;
		ck_ok(ht_buf_append(&file, &section, sizeof(section)));
	}
	for (size_t i = 1; i < 5; i++)
		ck_ok(ht_buf_append(&file, parts[i].data, parts[i].len));
	elf_version(EV_CURRENT);
	elf = elf_memory(file.data, file.len);
	dwarf = elf ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL;
	return dwarf && dwarf_offdie(dwarf, HEADER, ret_cu);
}

static void close_unit(void)
{
	dwarf_end(dwarf);
	elf_end(elf);
}

static struct ht_dies *dies;

static void finish(void)
{
	size_t budget = 1 << 22;
	Dwarf_Die cu;

	ck_assert(open_unit(&cu));
	ck_ok(ht_dies_new(&cu, NULL, &budget, &dies));
	ck_ok(ht_dies_add_nested(dies, &cu, &budget));
}

static void done(void)
{
	dies = ht_dies_free(dies);
	ck_assert_ptr_null(dies);
	close_unit();
	ht_buf_fini(&info);
	ht_buf_fini(&ranges);
	ht_buf_fini(&file);
}

/* The chain at @addr has just these DIEs; 0 ends the list. */
static void chain_is(uint64_t addr, size_t a, size_t b, size_t c)
{
	size_t want[] = { a, b, c, 0 }, n;
	Dwarf_Die chain[8];

	n = ht_dies_chain(dies, dwarf, addr, chain, ARRAY_SIZE(chain));
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(dwarf_dieoffset(&chain[i]) == want[i], "%#lx: %zu is %#lx", addr,
			      i, (unsigned long)dwarf_dieoffset(&chain[i]));
	ck_assert_uint_eq(want[n], 0);
}

START_TEST(function_blocks_and_inlines)
{
	size_t func, outer, inner, other;
	Dwarf_Die chain[3];

	start();
	func = place(FUNC, 0x1000, 0x1100);
	die(VARIABLE);
	other = place(INLINED, 0x1010, 0x1020);
	end();
	place(BLOCK, 0x1040, 0x1080);
	outer = place(INLINED, 0x1050, 0x1070);
	inner = place(INLINED, 0x1060, 0x1068);
	end();
	end();
	end();
	end();
	end();
	finish();
	chain_is(0xfff, 0, 0, 0);
	chain_is(0x1000, func, 0, 0);
	chain_is(0x1010, func, other, 0);
	chain_is(0x101f, func, other, 0);
	chain_is(0x1020, func, 0, 0);
	chain_is(0x1048, func, 0, 0);
	chain_is(0x1050, func, outer, 0);
	chain_is(0x1060, func, outer, inner);
	chain_is(0x10ff, func, 0, 0);
	chain_is(0x1100, 0, 0, 0);
	/* What there's no room for is the inner end. */
	ck_assert_uint_eq(ht_dies_chain(dies, dwarf, 0x1060, chain, 0), 0);
	ck_assert_uint_eq(ht_dies_chain(dies, dwarf, 0x1060, chain, 1), 1);
	ck_assert_uint_eq(ht_dies_chain(dies, dwarf, 0x1060, chain, 2), 2);
	ck_assert_uint_eq(dwarf_dieoffset(&chain[1]), outer);
	done();
}
END_TEST

/* A block without a place is looked through, and what follows it too. */
START_TEST(blocks_without_a_place)
{
	size_t func, first, second;

	start();
	func = place(FUNC, 0x1000, 0x1100);
	die(BARE_BLOCK);
	first = place(INLINED, 0x1010, 0x1020);
	end();
	end();
	second = place(INLINED, 0x1030, 0x1040);
	end();
	end();
	end();
	finish();
	chain_is(0x1018, func, first, 0);
	chain_is(0x1038, func, second, 0);
	chain_is(0x1050, func, 0, 0);
	done();
}
END_TEST

START_TEST(where_functions_are)
{
	size_t in_namespace, in_struct, outer, inner;

	start();
	die(NAMESPACE);
	in_namespace = place(FUNC, 0x1000, 0x1010);
	end();
	die(STRUCT);
	die(DECL);
	in_struct = place(FUNC, 0x2000, 0x2010);
	end();
	end();
	end();
	outer = place(FUNC, 0x3000, 0x3100);
	inner = place(FUNC, 0x3040, 0x3050);
	end();
	end();
	/* Nobody has functions there, and looking would cost. */
	die(ENUM);
	place(FUNC, 0x4000, 0x4010);
	end();
	end();
	end();
	finish();
	chain_is(0x1008, in_namespace, 0, 0);
	chain_is(0x2008, in_struct, 0, 0);
	chain_is(0x3048, inner, 0, 0);
	chain_is(0x3050, outer, 0, 0);
	chain_is(0x4008, 0, 0, 0);
	done();
}
END_TEST

/* A function in two pieces, hot and cold. */
START_TEST(pieces)
{
	size_t func, between;

	start();
	func = info.len;
	die(RANGED);
	u32(&info, 0);
	end();
	between = place(FUNC, 0x1010, 0x2000);
	end();
	end();
	u64(&ranges, 0x1000);
	u64(&ranges, 0x1010);
	u64(&ranges, 0x2000);
	u64(&ranges, 0x2008);
	u64(&ranges, 0);
	u64(&ranges, 0);
	finish();
	chain_is(0x100f, func, 0, 0);
	chain_is(0x1010, between, 0, 0);
	chain_is(0x2007, func, 0, 0);
	chain_is(0x2008, 0, 0, 0);
	done();
}
END_TEST

/* What the linker dropped stays behind in the DWARF, at 0 or near the top. */
START_TEST(dropped_functions)
{
	size_t func;

	start();
	place(FUNC, 0, 0x1000000);
	end();
	place(FUNC, UINT64_MAX - 1, UINT64_MAX);
	end();
	place(FUNC, 0x1000, 0x1000);
	end();
	place(FUNC, 0x1008, 0x0800);
	end();
	func = place(FUNC, 0x1000, 0x1010);
	end();
	end();
	finish();
	chain_is(0x1000, func, 0, 0);
	chain_is(0x100f, func, 0, 0);
	chain_is(0x500, 0, 0, 0);
	chain_is(0x0, 0, 0, 0);
	chain_is(UINT64_MAX - 1, 0, 0, 0);
	done();
}
END_TEST

/* Functions that overlap: the one that starts last, of those that reach that far; but
 * there's an end to going back. */
START_TEST(overlapping_functions)
{
	size_t func, at[200];

	start();
	func = place(FUNC, 0x1000, 0x9000);
	end();
	for (size_t i = 0; i < 200; i++) {
		at[i] = place(FUNC, 0x2000 + 16 * i, 0x2008 + 16 * i);
		end();
	}
	end();
	finish();
	chain_is(0x1fff, func, 0, 0);
	chain_is(0x2000, at[0], 0, 0);
	chain_is(0x2008, func, 0, 0);
	chain_is(0x2008 + 16 * 60, func, 0, 0);
	chain_is(0x2000 + 16 * 199, at[199], 0, 0);
	chain_is(0x2008 + 16 * 199, 0, 0, 0);
	done();
}
END_TEST

START_TEST(the_budget)
{
	struct ht_dies *none = NULL;
	size_t budget, last;
	Dwarf_Die cu;

	start();
	for (int i = 0; i < 10; i++) {
		place(FUNC, 0x1000, 0x1010);
		die(VARIABLE);
		die(VARIABLE);
		end();
	}
	last = place(FUNC, 0x2000, 0x2010);
	end();
	end();
	ck_assert(open_unit(&cu));
	/* What is inside of functions isn't looked at yet. */
	budget = 11 + 5;
	ck_ok(ht_dies_new(&cu, NULL, &budget, &dies));
	ck_assert_uint_eq(budget, 5);
	/* It's shared: the next unit has what this one left. */
	ck_assert_int_eq(ht_dies_new(&cu, NULL, &budget, &none), -E2BIG);
	ck_assert_uint_eq(budget, 0);
	ck_assert_ptr_null(none);
	budget = n_dies;
	ck_ok(ht_dies_add_nested(dies, &cu, &budget));
	ck_assert_uint_eq(budget, 0);
	budget = n_dies - 1;
	ck_assert_int_eq(ht_dies_add_nested(dies, &cu, &budget), -E2BIG);
	/* What was found by then is there. */
	budget = n_dies;
	ck_ok(ht_dies_add_nested(dies, &cu, &budget));
	chain_is(0x2008, last, 0, 0);
	done();
}
END_TEST

/* Trees as deep as they're long must not use up the stack. What is very deep isn't
 * found. */
/* A list of ranges may be as long as a tree, and many DIEs may have the same. */
START_TEST(the_budget_for_ranges)
{
	struct ht_dies *none = NULL;
	size_t budget = 100;
	Dwarf_Die cu;

	start();
	for (int i = 0; i < 50; i++) {
		u64(&ranges, 0x1000 + 0x100 * (unsigned)i);
		u64(&ranges, 0x1010 + 0x100 * (unsigned)i);
	}
	u64(&ranges, 0);
	u64(&ranges, 0);
	for (int i = 0; i < 3; i++) {
		die(RANGED);
		u32(&info, 0);
		end();
	}
	end();
	ck_assert(open_unit(&cu));
	ck_assert_int_eq(ht_dies_new(&cu, NULL, &budget, &none), -E2BIG);
	budget = 3 + 3 * 49;
	ck_ok(ht_dies_new(&cu, NULL, &budget, &dies));
	ck_assert_uint_eq(budget, 0);
	done();
}
END_TEST

/* A sibling before, or among the children: the tree has loops, or is very many. */
START_TEST(siblings_that_lead_astray)
{
	size_t budget, first, func, links = 40;
	Dwarf_Die cu;

	start();
	func = place(FUNC, 0x1000, 0x2000);
	end();
	first = info.len;
	die(LINKED);
	u32(&info, (uint32_t)func);
	end();
	ck_assert(open_unit(&cu));
	budget = 1000;
	ck_ok(ht_dies_new(&cu, NULL, &budget, &dies));
	ck_assert_uint_ge(budget, 1000 - 4);
	chain_is(0x1800, func, 0, 0);
	done();
	/* Itself. */
	start();
	first = info.len;
	die(LINKED);
	u32(&info, (uint32_t)first);
	end();
	ck_assert(open_unit(&cu));
	budget = 1000;
	ck_ok(ht_dies_new(&cu, NULL, &budget, &dies));
	ck_assert_uint_ge(budget, 1000 - 4);
	done();
	/* The first child, which is the next one, at each level. */
	start();
	for (size_t i = 0; i < links; i++) {
		die(LINKED);
		u32(&info, (uint32_t)info.len + 4);
	}
	for (size_t i = 0; i <= links; i++)
		end();
	ck_assert(open_unit(&cu));
	budget = 1000;
	ck_ok(ht_dies_new(&cu, NULL, &budget, &dies));
	ck_assert_uint_ge(budget, 1000 - 2 * links);
	done();
}
END_TEST

START_TEST(deep_trees)
{
	size_t near = 0, func, first;

	start();
	for (int i = 0; i < 100000; i++) {
		if (i == 150) {
			near = place(FUNC, 0x1000, 0x1010);
			end();
		}
		if (i == 300) {
			place(FUNC, 0x2000, 0x2010);
			end();
		}
		die(NAMESPACE);
	}
	for (int i = 0; i < 100000; i++)
		end();
	func = place(FUNC, 0x3000, 0x4000);
	first = place(INLINED, 0x3000, 0x4000);
	for (int i = 0; i < 100000; i++)
		place(BLOCK, 0x3000, 0x4000);
	place(INLINED, 0x3000, 0x4000);
	for (int i = 0; i < 100003; i++)
		end();
	end();
	finish();
	chain_is(0x1000, near, 0, 0);
	chain_is(0x2000, 0, 0, 0);
	chain_is(0x3000, func, first, 0);
	done();
}
END_TEST

/* A question takes bounded time, whatever lies in front of the answer. */
START_TEST(long_functions)
{
	size_t func, found;

	start();
	func = place(FUNC, 0x1000, 0x1100);
	for (int i = 0; i < 1000; i++)
		die(VARIABLE);
	found = place(INLINED, 0x1000, 0x1010);
	end();
	for (int i = 0; i < 300000; i++)
		die(VARIABLE);
	place(INLINED, 0x1010, 0x1020);
	end();
	end();
	end();
	finish();
	chain_is(0x1000, func, found, 0);
	chain_is(0x1010, func, 0, 0);
	done();
}
END_TEST

/* Cut anywhere, and with abbreviations that aren't there: whatever it says, it says so. */
START_TEST(broken_units)
{
	struct ht_buf whole;
	Dwarf_Die cu, chain[4];

	start();
	place(FUNC, 0x1000, 0x1100);
	place(BLOCK, 0x1000, 0x1100);
	place(INLINED, 0x1000, 0x1100);
	end();
	end();
	end();
	die(RANGED);
	u32(&info, 0xfffffff0);
	end();
	end();
	whole = info;
	for (size_t len = HEADER + 1; len <= whole.len; len++) {
		for (int broken = 0; broken < 2; broken++) {
			size_t budget = 100;

			info = (struct ht_buf)HT_BUF_INIT;
			ck_ok(ht_buf_append(&info, whole.data, len));
			if (broken)
				info.data[len - 1] = 0x7f;
			dies = NULL;
			if (open_unit(&cu) && ht_dies_new(&cu, NULL, &budget, &dies) == 0)
				ck_assert_uint_le(
					ht_dies_chain(dies, dwarf, 0x1000, chain, 4), 4);
			ht_dies_free(dies);
			close_unit();
			ht_buf_fini(&info);
		}
	}
	ht_buf_fini(&whole);
	ht_buf_fini(&file);
}
END_TEST

int main(void)
{
	return ht_check_run("dies", (const TTest *const[]){
		function_blocks_and_inlines, blocks_without_a_place, where_functions_are,
		pieces, dropped_functions, overlapping_functions, the_budget,
		the_budget_for_ranges, siblings_that_lead_astray, deep_trees,
		long_functions, broken_units, NULL });
}
