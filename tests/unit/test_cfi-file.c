/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/cfi.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "ht_cfi.h"

static struct ht_elf elf;

static uint64_t find(const struct opened *o, uint64_t pc)
{
	static struct ht_cfi_reader reader;
	struct ht_cfi_fde fde;
	int r = ht_cfi_find(&o->cfi, pc, NULL, &reader, &fde);

	ck_assert(r == 0 || r == -ENODATA);
	return r == 0 ? fde.start : 0;
}

static void check_two(const struct opened *o)
{
	ck_assert_uint_eq(find(o, HT_ELF_TEXT - 1), 0);
	ck_assert_uint_eq(find(o, HT_ELF_TEXT), HT_ELF_TEXT);
	ck_assert_uint_eq(find(o, HT_ELF_TEXT + 15), HT_ELF_TEXT);
	ck_assert_uint_eq(find(o, HT_ELF_TEXT + 16), 0);
	ck_assert_uint_eq(find(o, HT_ELF_TEXT + 32), HT_ELF_TEXT + 32);
	ck_assert_uint_eq(find(o, HT_ELF_TEXT + 47), HT_ELF_TEXT + 32);
	ck_assert_uint_eq(find(o, HT_ELF_TEXT + 48), 0);
}

START_TEST(find_with_and_without_a_table)
{
	struct opened o;

	make_two(&elf);
	open_elf(&elf, &o);
	ck_assert_uint_eq(o.cfi.n_search, 2);
	check_two(&o);
	close_elf(&o);
	/* "No table", which makes libunwind abort. */
	elf.hdr[3] = 0xff;
	open_elf(&elf, &o);
	ck_assert_uint_eq(o.cfi.n_search, 0);
	check_two(&o);
	close_elf(&o);
	/* A table that lies costs time, no answer. */
	elf.hdr[3] = 0x3b;
	elf.hdr[16] ^= 0x40;
	open_elf(&elf, &o);
	ck_assert_uint_eq(o.cfi.n_search, 2);
	check_two(&o);
	close_elf(&o);
	/* A count that the segment has no room for. */
	make_two(&elf);
	elf.hdr[10] = 0xff;
	open_elf(&elf, &o);
	ck_assert_uint_eq(o.cfi.n_search, 0);
	check_two(&o);
	close_elf(&o);
	elf.hdr_len = 0;
	open_elf(&elf, &o);
	check_two(&o);
	close_elf(&o);
}
END_TEST

/* As the table does it. */
/* Of a walk only; the table needs none. */
START_TEST(finding_has_a_budget)
{
	static struct ht_cfi_reader reader;
	struct ht_cfi_fde fde;
	size_t budget = 3;
	struct opened o;

	make_two(&elf);
	elf.hdr[3] = 0xff;
	open_elf(&elf, &o);
	ck_ok(ht_cfi_find(&o.cfi, HT_ELF_TEXT + 32, &budget, &reader, &fde));
	ck_assert_uint_eq(budget, 1);
	ck_assert_int_eq(ht_cfi_find(&o.cfi, HT_ELF_TEXT + 32, &budget, &reader, &fde), -E2BIG);
	ck_assert_uint_eq(budget, 0);
	close_elf(&o);
	elf.hdr[3] = 0x3b;
	open_elf(&elf, &o);
	ck_ok(ht_cfi_find(&o.cfi, HT_ELF_TEXT + 32, &budget, &reader, &fde));
	close_elf(&o);
}
END_TEST

START_TEST(find_the_first_of_overlapping)
{
	struct opened o;
	size_t cie;

	ht_elf_init(&elf);
	cie = ht_elf_plain_cie(&elf.eh);
	ht_elf_fde(&elf.eh, cie, HT_ELF_TEXT + 8, 16, HT_ELF_NO_CODE);
	ht_elf_fde(&elf.eh, cie, HT_ELF_TEXT, 16, HT_ELF_NO_CODE);
	ht_elf_fde(&elf.eh, cie, HT_ELF_TEXT + 4, 16, HT_ELF_NO_CODE);
	open_elf(&elf, &o);
	ck_assert_uint_eq(find(&o, HT_ELF_TEXT + 12), HT_ELF_TEXT);
	ck_assert_uint_eq(find(&o, HT_ELF_TEXT + 18), HT_ELF_TEXT + 4);
	ck_assert_uint_eq(find(&o, HT_ELF_TEXT + 23), HT_ELF_TEXT + 8);
	close_elf(&o);
}
END_TEST

START_TEST(open_by_the_program_header)
{
	struct opened o;

	make_two(&elf);
	elf.no_sections = true;
	open_elf(&elf, &o);
	ck_assert_uint_eq(o.cfi.n_sections, 1);
	ck_assert(o.cfi.sections[0].open_end);
	check_two(&o);
	close_elf(&o);
	/* Nothing at all. */
	elf.hdr_len = 0;
	open_elf(&elf, &o);
	ck_assert_uint_eq(o.cfi.n_sections, 0);
	ck_assert_uint_eq(find(&o, HT_ELF_TEXT), 0);
	close_elf(&o);
}
END_TEST

static void compress_debug(struct ht_elf_bytes *plain, size_t head)
{
	uLongf len = sizeof(elf.debug.at) - head;

	ck_assert_int_eq(compress(elf.debug.at + head, &len, plain->at, plain->len), Z_OK);
	elf.debug.len = head + len;
}

START_TEST(compressed_debug_frame)
{
	struct ht_elf_bytes plain = { .len = 0 };
	Elf64_Chdr chdr = { .ch_type = ELFCOMPRESS_ZLIB };
	struct opened o;
	int i;

	ht_elf_fde(&plain, ht_elf_plain_cie(&plain), HT_ELF_TEXT, 16, HT_ELF_NO_CODE);
	ht_elf_init(&elf);
	elf.debug_flags = SHF_COMPRESSED;
	compress_debug(&plain, sizeof(chdr));
	/* Right; of a kind that we can't; too short, too long, incredible. */
	for (i = 0; i < 5; i++) {
		chdr.ch_type = i == 1 ? 2 : ELFCOMPRESS_ZLIB;
		chdr.ch_size = i == 2 ? plain.len - 1 : i == 3 ? plain.len + 1 :
			       i == 4 ? UINT64_MAX : plain.len;
		memcpy(elf.debug.at, &chdr, sizeof(chdr));
		open_elf(&elf, &o);
		ck_assert_uint_eq(o.cfi.n_sections, i == 0);
		ck_assert_uint_eq(o.cfi.n_skipped, i != 0);
		ck_assert_uint_eq(find(&o, HT_ELF_TEXT), i == 0 ? HT_ELF_TEXT : 0);
		close_elf(&o);
	}
	elf.debug.len = 10;
	open_elf(&elf, &o);
	ck_assert_uint_eq(o.cfi.n_skipped, 1);
	close_elf(&o);
	/* As old binutils did it. */
	elf.debug_flags = 0;
	elf.debug_name = ".zdebug_frame";
	compress_debug(&plain, 12);
	memcpy(elf.debug.at, "ZLIB\0\0\0\0\0\0\0", 12);
	elf.debug.at[11] = (uint8_t)plain.len;
	open_elf(&elf, &o);
	ck_assert_uint_eq(find(&o, HT_ELF_TEXT), HT_ELF_TEXT);
	close_elf(&o);
	elf.debug.at[0] = 'Y';
	open_elf(&elf, &o);
	ck_assert_uint_eq(o.cfi.n_skipped, 1);
	close_elf(&o);
}
END_TEST

/* Where the table points is checked; so is what it finds there. */
START_TEST(tables_that_point_elsewhere)
{
	static const uint32_t offsets[] = { 0, 24, UINT32_MAX, 0x80000000, 1 };
	struct opened o;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(offsets); i++) {
		make_two(&elf);
		memcpy(elf.hdr + 16, &offsets[i], 4);
		open_elf(&elf, &o);
		ck_assert_uint_eq(o.cfi.n_search, 2);
		check_two(&o);
		close_elf(&o);
	}
}
END_TEST

START_TEST(headers_that_are_none)
{
	struct opened o;

	/* Another version; a pointer that is said to be indirect; no room for a count. */
	make_two(&elf);
	elf.hdr[0] = 2;
	open_elf(&elf, &o);
	ck_assert_uint_eq(o.cfi.n_search, 0);
	check_two(&o);
	close_elf(&o);
	make_two(&elf);
	elf.no_sections = true;
	elf.hdr[1] = 0x9b;
	open_elf(&elf, &o);
	ck_assert_uint_eq(o.cfi.n_sections, 0);
	close_elf(&o);
	/* .eh_frame where no file is. */
	make_two(&elf);
	elf.no_sections = true;
	memset(elf.hdr + 4, 0x7f, 4);
	open_elf(&elf, &o);
	ck_assert_uint_eq(o.cfi.n_sections, 0);
	ck_assert_uint_eq(find(&o, HT_ELF_TEXT), 0);
	close_elf(&o);
}
END_TEST

START_TEST(more_sections_than_we_keep)
{
	struct opened o;
	unsigned i;

	make_two(&elf);
	for (i = 0; i < 8; i++)
		ht_elf_add_section(&elf, ".eh_frame", SHT_PROGBITS, SHF_ALLOC, HT_ELF_EH,
				   elf.eh.len);
	open_elf(&elf, &o);
	ck_assert_uint_eq(o.cfi.n_sections, HT_CFI_MAX_SECTIONS);
	ck_assert_uint_eq(o.cfi.n_skipped, 1);
	close_elf(&o);
	ck_assert_uint_eq(o.cfi.n_sections, 0);
	/* Closing again is harmless. */
	ht_cfi_close(&o.cfi);
}
END_TEST

int main(void)
{
	return ht_check_run("cfi-file", (const TTest *const[]){
		find_with_and_without_a_table, finding_has_a_budget, find_the_first_of_overlapping,
		open_by_the_program_header, compressed_debug_frame, tables_that_point_elsewhere, headers_that_are_none,
		more_sections_than_we_keep, NULL });
}
