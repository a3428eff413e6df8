/* SPDX-License-Identifier: Apache-2.0
 *
 * Line number programs made by hand: the odd ones, and those that were made to use up time and
 * memory. What compilers write is compared with libdw.
 */
#include <dwarf.h>
#include <errno.h>
#include <fcntl.h>
#include <libelf.h>
#include <string.h>

#include "ht_check.h"
#include "symbol/symbol-priv.h"
#include "tool.h"

/* --- one program --- */

enum { SPECIAL = 13, LINE_BASE = -5, LINE_RANGE = 14 };

static struct ht_buf bytes;
static struct ht_linetable *table;
static size_t header_at;

static void u8(uint8_t value)
{
	ht_buf_append(&bytes, &value, 1);
}

static void u16(uint16_t value)
{
	ht_buf_append(&bytes, &value, 2);
}

static void u32(uint32_t value)
{
	ht_buf_append(&bytes, &value, 4);
}

static void u64(uint64_t value)
{
	ht_buf_append(&bytes, &value, 8);
}

static void text(const char *value)
{
	ht_buf_append(&bytes, value, strlen(value) + 1);
}

static void put_u32(size_t at, uint32_t value)
{
	memcpy(bytes.data + at, &value, 4);
}

static void start(uint16_t version)
{
	static const uint8_t lengths[] = { 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1 };

	bytes = (struct ht_buf)HT_BUF_INIT;
	u32(0);
	u16(version);
	if (version >= 5) {
		u8(8);
		u8(0);
	}
	header_at = bytes.len;
	u32(0);
	u8(1);
	if (version >= 4)
		u8(1);
	u8(1);
	u8((uint8_t)LINE_BASE);
	u8(LINE_RANGE);
	u8(SPECIAL);
	ht_buf_append(&bytes, lengths, sizeof(lengths));
}

static void begin_program(void)
{
	put_u32(header_at, (uint32_t)(bytes.len - header_at - 4));
}

/* A header of DWARF 4: directory 1 is "inc", file 1 "one.c" in directory 0, file 2 "two.h" in
 * 1, file 3 "/abs/three.h", file 4 in a directory that isn't there. */
static void start_usual(void)
{
	start(4);
	text("inc");
	u8(0);
	text("one.c");
	u8(0), u8(0), u8(0);
	text("two.h");
	u8(1), u8(0), u8(0);
	text("/abs/three.h");
	u8(1), u8(0), u8(0);
	text("four.h");
	u8(9), u8(0), u8(0);
	u8(0);
	begin_program();
}

static void set_address(uint64_t addr)
{
	u8(0);
	u8(9);
	u8(DW_LNE_set_address);
	u64(addr);
}

/* A row @addr bytes and @line lines further. */
static void special(unsigned addr, int line)
{
	u8((uint8_t)(SPECIAL + (unsigned)(line - LINE_BASE) + LINE_RANGE * addr));
}

static void set_file(uint8_t file)
{
	u8(DW_LNS_set_file);
	u8(file);
}

static void end_sequence(uint8_t advance)
{
	u8(DW_LNS_advance_pc);
	u8(advance);
	u8(0);
	u8(1);
	u8(DW_LNE_end_sequence);
}

static int try_new(size_t budget)
{
	struct ht_line_sections sections = { .line = { (uint8_t *)bytes.data, bytes.len } };

	ck_assert(!bytes.failed);
	put_u32(0, (uint32_t)bytes.len - 4);
	return ht_linetable_new(&sections, 0, "/dir", &budget, &table);
}

static void finish(void)
{
	ck_ok(try_new(bytes.len));
}

static void done(void)
{
	table = ht_linetable_free(table);
	ck_assert_ptr_null(table);
	ht_buf_fini(&bytes);
}

static void refused(int error)
{
	ck_assert_int_eq(try_new(bytes.len), error);
	ck_assert_ptr_null(table);
	ht_buf_fini(&bytes);
}

/* Line 0 is for nothing. */
static void place_is(uint64_t addr, uint64_t want_file, uint32_t want_line)
{
	uint64_t file = 0;
	uint32_t line = 0;

	ck_assert_int_eq(ht_linetable_find(table, addr, &file, &line), want_line != 0);
	ck_assert_uint_eq(line, want_line);
	ck_assert_uint_eq(file, want_line ? want_file : 0);
}

START_TEST(rows_hold_until_the_next)
{
	start_usual();
	set_address(0x1000);
	special(0, 8);			/* 9 */
	special(4, 1);			/* 10 */
	special(4, 0);			/* the same */
	set_file(2);
	special(4, -3);			/* 7 */
	end_sequence(16);
	finish();
	place_is(0xfff, 0, 0);
	place_is(0x1000, 1, 9);
	place_is(0x1003, 1, 9);
	place_is(0x1004, 1, 10);
	place_is(0x100b, 1, 10);
	place_is(0x100c, 2, 7);
	place_is(0x101b, 2, 7);
	place_is(0x101c, 0, 0);
	done();
}
END_TEST

/* The last one is where a statement begins, after what the function's entry is for. */
START_TEST(the_last_row_of_an_address_counts)
{
	start_usual();
	set_address(0x1000);
	special(0, 4);
	special(4, 1);
	special(0, 1);
	special(0, -2);
	special(4, 0);
	end_sequence(4);
	finish();
	place_is(0x1000, 1, 5);
	place_is(0x1004, 1, 5);
	place_is(0x1008, 1, 5);
	place_is(0x100c, 0, 0);
	done();
}
END_TEST

START_TEST(sequences_in_any_order)
{
	start_usual();
	set_address(0x3000);
	special(0, 2);
	end_sequence(16);
	set_address(0x1000);
	set_file(3);
	special(0, 4);
	end_sequence(16);
	/* Dropped by the linker, empty, before its own start. */
	set_address(0);
	special(0, 6);
	end_sequence(16);
	set_address(UINT64_MAX);
	special(0, 6);
	end_sequence(0);
	set_address(0x5000);
	special(0, 6);
	end_sequence(0);
	finish();
	place_is(0, 0, 0);
	place_is(0x100f, 3, 5);
	place_is(0x1010, 0, 0);
	place_is(0x3000, 1, 3);
	place_is(0x3010, 0, 0);
	place_is(0x5000, 0, 0);
	place_is(UINT64_MAX, 0, 0);
	done();
}
END_TEST

/* No compiler does that. */
START_TEST(addresses_that_fall)
{
	start_usual();
	set_address(0x2000);
	special(0, 2);
	special(8, 1);
	set_address(0x1000);
	special(0, 1);
	special(8, 1);
	set_address(UINT64_C(0x200001000));
	special(0, 1);
	end_sequence(8);
	finish();
	place_is(0x2000, 1, 3);
	place_is(0x2007, 1, 3);
	place_is(0x1000, 1, 5);
	place_is(0x1007, 1, 5);
	place_is(0x1008, 0, 0);
	place_is(UINT64_C(0x200001007), 1, 7);
	done();
}
END_TEST

START_TEST(all_opcodes)
{
	start_usual();
	set_address(0x1000);
	u8(DW_LNS_advance_line), u8(0xe3), u8(0);	/* 99 */
	u8(DW_LNS_set_column), u8(0x85), u8(1);
	u8(DW_LNS_negate_stmt);
	u8(DW_LNS_set_basic_block);
	u8(DW_LNS_set_prologue_end);
	u8(DW_LNS_set_epilogue_begin);
	u8(DW_LNS_set_isa), u8(1);
	u8(DW_LNS_copy);				/* 100 */
	u8(DW_LNS_const_add_pc);			/* (255 - 13) / 14 = 17 */
	special(0, 1);
	u8(DW_LNS_fixed_advance_pc), u16(0x101);
	special(0, 1);
	u8(0), u8(2), u8(DW_LNE_set_discriminator), u8(3);
	u8(0), u8(5), u8(0x80), u32(0x12345678);	/* somebody's own */
	u8(0), u8(5), u8(DW_LNE_set_address), u32(0x2000);
	special(0, 1);
	u8(0), u8(11), u8(DW_LNE_define_file), text("five.h"), u8(1), u8(0), u8(0);
	set_file(5);
	special(1, 1);
	end_sequence(1);
	finish();
	place_is(0x1000, 1, 100);
	place_is(0x1010, 1, 100);
	place_is(0x1011, 1, 101);
	place_is(0x1111, 1, 101);
	place_is(0x1112, 1, 102);
	place_is(0x2000, 1, 103);
	place_is(0x2001, 5, 104);
	ck_assert_str_eq(ht_linetable_file(table, 5), "inc/five.h");
	done();
}
END_TEST

START_TEST(a_program_that_stops_early)
{
	start_usual();
	set_address(0x1000);
	special(0, 2);
	special(8, 1);
	finish();
	place_is(0x1007, 1, 3);
	place_is(0x1008, 0, 0);
	done();
	/* An instruction that isn't whole. */
	start_usual();
	set_address(0x1000);
	special(0, 2);
	special(8, 1);
	u8(0), u8(200), u8(DW_LNE_set_address);
	finish();
	place_is(0x1007, 1, 3);
	done();
	start_usual();
	finish();
	place_is(0x1000, 0, 0);
	done();
}
END_TEST

START_TEST(files_and_directories)
{
	start_usual();
	finish();
	ck_assert_ptr_null(ht_linetable_file(table, 0));
	ck_assert_str_eq(ht_linetable_file(table, 1), "/dir/one.c");
	ck_assert_str_eq(ht_linetable_file(table, 2), "inc/two.h");
	ck_assert_ptr_eq(ht_linetable_file(table, 2), ht_linetable_file(table, 2));
	ck_assert_str_eq(ht_linetable_file(table, 3), "/abs/three.h");
	ck_assert_str_eq(ht_linetable_file(table, 4), "four.h");
	ck_assert_ptr_null(ht_linetable_file(table, 5));
	ck_assert_ptr_null(ht_linetable_file(table, UINT64_MAX));
	done();
}
END_TEST

static void start_5(void)
{
	start(5);
	u8(1), u8(DW_LNCT_path), u8(DW_FORM_string);
	u8(2), text("/five"), text("inc");
}

START_TEST(files_of_dwarf_5)
{
	start_5();
	u8(5);
	u8(DW_LNCT_path), u8(DW_FORM_string);
	u8(DW_LNCT_directory_index), u8(DW_FORM_udata);
	u8(DW_LNCT_MD5), u8(DW_FORM_data16);
	u8(DW_LNCT_size), u8(DW_FORM_block);
	u8(0x33), u8(DW_FORM_data4);
	u8(2);
	text("zero.c"), u8(0), u64(0), u64(0), u8(2), u16(0), u32(0);
	text("one.h"), u8(1), u64(0), u64(0), u8(0), u32(0);
	begin_program();
	set_address(0x1000);
	special(0, 1);
	end_sequence(1);
	finish();
	place_is(0x1000, 1, 2);
	ck_assert_str_eq(ht_linetable_file(table, 0), "/five/zero.c");
	ck_assert_str_eq(ht_linetable_file(table, 1), "inc/one.h");
	ck_assert_ptr_null(ht_linetable_file(table, 2));
	done();
}
END_TEST

START_TEST(headers_that_lie)
{
	start(6);
	refused(-EBADMSG);
	start(1);
	refused(-EBADMSG);
	start_usual();
	put_u32(header_at, UINT32_MAX);
	refused(-EBADMSG);
	/* It ends before its last file. */
	start_usual();
	put_u32(header_at, 30);
	refused(-EBADMSG);
	start_usual();
	bytes.data[header_at + 8] = 0;		/* line range */
	refused(-EBADMSG);
	start_usual();
	bytes.data[header_at + 5] = 4;		/* operations in an instruction */
	refused(-EBADMSG);
	/* Names without an end. */
	start(4);
	u8('a');
	begin_program();
	refused(-EBADMSG);
	/* More files than bytes, of nothing and of forms that nobody knows. */
	start_5();
	u8(0);
	u8(0xff), u8(0xff), u8(0xff), u8(0x7f);
	begin_program();
	refused(-EBADMSG);
	start_5();
	u8(1), u8(DW_LNCT_path), u8(DW_FORM_flag_present);
	u8(0xff), u8(0x7f);
	begin_program();
	refused(-EBADMSG);
	start_5();
	u8(1), u8(DW_LNCT_path), u8(DW_FORM_string);
	u8(0xff), u8(0xff), u8(0xff), u8(0x7f);
	begin_program();
	refused(-EBADMSG);
}
END_TEST

START_TEST(lengths_that_lie)
{
	struct ht_line_sections sections;
	size_t budget = SIZE_MAX;

	sections = (struct ht_line_sections){ .line = { NULL, 0 } };
	ck_assert_int_eq(ht_linetable_new(&sections, 0, NULL, &budget, &table), -EBADMSG);
	start_usual();
	sections = (struct ht_line_sections){ .line = { (uint8_t *)bytes.data, bytes.len } };
	put_u32(0, (uint32_t)bytes.len - 3);
	ck_assert_int_eq(ht_linetable_new(&sections, 0, NULL, &budget, &table), -EBADMSG);
	ck_assert_int_eq(ht_linetable_new(&sections, bytes.len, NULL, &budget, &table), -EBADMSG);
	ck_assert_int_eq(ht_linetable_new(&sections, UINT64_MAX, NULL, &budget, &table),
			 -EBADMSG);
	put_u32(0, UINT32_MAX);
	ck_assert_int_eq(ht_linetable_new(&sections, 0, NULL, &budget, &table), -EBADMSG);
	ck_assert_ptr_null(table);
	ht_buf_fini(&bytes);
}
END_TEST

START_TEST(the_budget)
{
	start_usual();
	ck_assert_int_eq(try_new(bytes.len - 5), -E2BIG);
	ck_assert_ptr_null(table);
	ck_ok(try_new(bytes.len - 4));
	done();
}
END_TEST

/* --- what compilers write --- */

/* A row where its sequence ends holds for nothing; libdw says that it goes on. */
static bool is_an_end(Dwarf_Lines *lines, size_t n, Dwarf_Line *row)
{
	Dwarf_Addr want, addr;
	bool end;

	dwarf_lineaddr(row, &want);
	for (size_t i = 0; i < n; i++) {
		Dwarf_Line *line = dwarf_onesrcline(lines, i);

		if (dwarf_lineaddr(line, &addr) == 0 && addr == want &&
		    dwarf_lineendsequence(line, &end) == 0 && end)
			return true;
	}
	return false;
}

/* Each address of the unit's sequences, ours and libdw's. */
static void compare_unit(const struct ht_line_sections *sections, Dwarf_Die *cu,
			 size_t *compared)
{
	size_t budget = SIZE_MAX, n;
	Dwarf_Attribute attr;
	Dwarf_Lines *lines;
	Dwarf_Addr first, last;
	Dwarf_Word offset;

	ck_assert_int_eq(dwarf_formudata(dwarf_attr(cu, DW_AT_stmt_list, &attr), &offset), 0);
	ck_ok(ht_linetable_new(sections, offset,
			       dwarf_formstring(dwarf_attr(cu, DW_AT_comp_dir, &attr)),
			       &budget, &table));
	ck_assert_int_eq(dwarf_getsrclines(cu, &lines, &n), 0);
	ck_assert_uint_gt(n, 0);
	dwarf_lineaddr(dwarf_onesrcline(lines, 0), &first);
	dwarf_lineaddr(dwarf_onesrcline(lines, n - 1), &last);
	ck_assert_uint_lt(last - first, 1 << 20);
	for (Dwarf_Addr addr = first; addr <= last; addr++) {
		Dwarf_Line *row = dwarf_getsrc_die(cu, addr);
		uint64_t file;
		uint32_t line;
		int want;

		if (!ht_linetable_find(table, addr, &file, &line)) {
			ck_assert_msg(!row || is_an_end(lines, n, row),
				      "only libdw knows of %#lx", (unsigned long)addr);
			continue;
		}
		ck_assert_msg(row != NULL, "only we know of %#lx", (unsigned long)addr);
		ck_assert_int_eq(dwarf_lineno(row, &want), 0);
		ck_assert_uint_eq(line, (uint32_t)want);
		ck_assert_str_eq(ht_linetable_file(table, file), dwarf_linesrc(row, NULL, NULL));
		(*compared)++;
	}
	table = ht_linetable_free(table);
}

static void compare(const char *path)
{
	struct ht_line_sections sections;
	struct ht_buf file = HT_BUF_INIT;
	size_t compared = 0;
	Dwarf_CU *unit = NULL;
	Dwarf *dwarf;
	Dwarf_Die cu;
	Elf *elf;

	ck_ok(ht_buf_read_file(&file, AT_FDCWD, path, 64 << 20));
	elf_version(EV_CURRENT);
	elf = elf_memory(file.data, file.len);
	dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	ck_assert_ptr_nonnull(dwarf);
	ck_ok(ht_sections_get(elf, ".debug_line", SIZE_MAX, &sections.line));
	ck_ok(ht_sections_get(elf, ".debug_line_str", SIZE_MAX, &sections.line_str));
	ck_ok(ht_sections_get(elf, ".debug_str", SIZE_MAX, &sections.str));
	while (dwarf_get_units(dwarf, unit, &unit, NULL, NULL, &cu, NULL) == 0)
		compare_unit(&sections, &cu, &compared);
	ck_assert_uint_gt(compared, 100);
	dwarf_end(dwarf);
	elf_end(elf);
	ht_buf_fini(&file);
}

static void compare_builds(const char *cc)
{
	static const char *const kinds[] = {
		"-O2 -g -gdwarf-5", "-O2 -g -gdwarf-4", "-O1 -g -gdwarf-3 -gstrict-dwarf",
		"-O2 -g -gdwarf-2 -gstrict-dwarf", "-O0 -g", "-O2 -g -ffunction-sections",
		"-O2 -g -gz=zlib", "-O2 -g -gdwarf64",
	};
	char dir[64], prog[128];

	tool_mkdir(dir);
	snprintf(prog, sizeof(prog), "%s/prog", dir);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		ck_assert_int_eq(tool_run("%s %s '%s/tests/unit/inlines.c' -o %s", cc, kinds[i],
					  getenv("HT_SRCDIR") ? getenv("HT_SRCDIR") : "..",
					  prog), 0);
		compare(prog);
	}
	tool_rmdir(dir);
}

START_TEST(agrees_with_libdw)
{
	compare_builds("cc");
	if (ht_check_have(tool_present("clang"), "clang"))
		compare_builds("clang");
}
END_TEST

int main(void)
{
	return ht_check_run("linetable", (const TTest *const[]){
		rows_hold_until_the_next, the_last_row_of_an_address_counts,
		sequences_in_any_order, addresses_that_fall, all_opcodes,
		a_program_that_stops_early, files_and_directories, files_of_dwarf_5,
		headers_that_lie, lengths_that_lie, the_budget, agrees_with_libdw, NULL });
}
