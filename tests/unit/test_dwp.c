/* SPDX-License-Identifier: Apache-2.0
 *
 * .dwp files made by hand: two units, in an index with collisions, and what is wrong with
 * hostile ones. Those that tools make are in test_lines.c.
 */
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "ht_check.h"
#include "symbol/symbol-priv.h"

enum { SLOTS = 4, COLUMNS = 3, UNITS = 2 };

/* Both begin in slot 3; the second goes on to slot 0. */
#define FIRST UINT64_C(0x1000000000000003)
#define SECOND UINT64_C(0x2000000000000007)

struct index {
	uint32_t version, columns, units, slots;
	uint64_t signatures[SLOTS];
	uint32_t rows[SLOTS];
	uint32_t kinds[COLUMNS];
	uint32_t offsets[UNITS][COLUMNS];
	uint32_t sizes[UNITS][COLUMNS];
};
#define INDEX_LEN (offsetof(struct index, sizes) + sizeof(((struct index *)0)->sizes))

static struct index fresh_index(void)
{
	return (struct index){
		.version = 5, .columns = COLUMNS, .units = UNITS, .slots = SLOTS,
		.signatures = { [3] = FIRST, [0] = SECOND },
		.rows = { [3] = 2, [0] = 1 },
		.kinds = { 1, 3, 8 },
		.offsets = { { 0, 0, 2 }, { 4, 3, 0 } },
		.sizes = { { 4, 3, 3 }, { 6, 2, 0 } },
	};
}

static int make_file(const void *index, size_t len)
{
	static const char names[] = "\0.debug_cu_index\0.debug_info.dwo\0.debug_abbrev.dwo\0"
				    ".debug_rnglists.dwo\0.debug_str.dwo\0.shstrtab";
	const struct {
		const void *data;
		size_t len;
		uint32_t name;
	} parts[] = {
		{ NULL, 0, 0 },
		{ index, len, 1 },
		{ "iiiiIIIIII", 10, 17 },
		{ "aaaAA", 5, 33 },
		{ "--rrr", 5, 51 },
		{ "strings", 8, 71 },
		{ names, sizeof(names), 86 },
	};
	Elf64_Ehdr header = { .e_type = ET_REL, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
			      .e_ehsize = sizeof(header), .e_shoff = sizeof(header),
			      .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = ARRAY_SIZE(parts),
			      .e_shstrndx = ARRAY_SIZE(parts) - 1 };
	uint64_t offset = sizeof(header) + ARRAY_SIZE(parts) * sizeof(Elf64_Shdr);
	int fd = memfd_create("dwp", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	header.e_ident[EI_VERSION] = EV_CURRENT;
	ck_ok(ht_fd_write_all(fd, &header, sizeof(header)));
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		Elf64_Shdr section = { .sh_name = parts[i].name,
				       .sh_type = i == 0 ? SHT_NULL : SHT_PROGBITS,
				       .sh_offset = offset, .sh_size = parts[i].len,
				       .sh_addralign = 1 };

		if (i == ARRAY_SIZE(parts) - 1)
			section.sh_type = SHT_STRTAB;
		ck_ok(ht_fd_write_all(fd, &section, sizeof(section)));
		offset += parts[i].len;
	}
	for (size_t i = 1; i < ARRAY_SIZE(parts); i++)
		ck_ok(ht_fd_write_all(fd, parts[i].data, parts[i].len));
	return fd;
}

static void part_is(const struct ht_unit_parts *parts, enum ht_part part, const char *text)
{
	ck_assert_uint_eq(parts->at[part].len, strlen(text));
	ck_assert_int_eq(memcmp(parts->at[part].data, text, strlen(text)), 0);
}

START_TEST(two_units)
{
	struct ht_unit_parts parts = { .base = 0 };
	struct index index = fresh_index();
	size_t budget = 1000;
	struct ht_dwp *dwp;

	ck_ok(ht_dwp_new(make_file(&index, INDEX_LEN), &dwp));
	ck_ok(ht_dwp_unit(dwp, FIRST, &budget, &parts));
	part_is(&parts, HT_PART_INFO, "IIIIII");
	part_is(&parts, HT_PART_ABBREV, "AA");
	ck_assert_uint_eq(parts.at[HT_PART_RNGLISTS].len, 0);
	ck_assert_uint_eq(parts.at[HT_PART_STR].len, 8);
	ck_assert_uint_eq(budget, 1000 - 6 - 2 - 8);
	parts = (struct ht_unit_parts){ .base = 0 };
	ck_ok(ht_dwp_unit(dwp, SECOND, &budget, &parts));
	part_is(&parts, HT_PART_INFO, "iiii");
	part_is(&parts, HT_PART_ABBREV, "aaa");
	part_is(&parts, HT_PART_RNGLISTS, "rrr");
	/* The strings are read and counted once. */
	ck_assert_uint_eq(parts.at[HT_PART_STR].len, 8);
	ck_assert_uint_eq(budget, 1000 - 6 - 2 - 8 - 4 - 3 - 3);
	ck_assert_int_eq(ht_dwp_unit(dwp, FIRST + 1, &budget, &parts), -ENOENT);
	ck_assert_int_eq(ht_dwp_unit(dwp, FIRST + 8, &budget, &parts), -ENOENT);
	budget = 5;
	ck_assert_int_eq(ht_dwp_unit(dwp, FIRST, &budget, &parts), -E2BIG);
	ck_assert_ptr_null(ht_dwp_free(dwp));
}
END_TEST

/* What GNU's version calls by the same numbers. */
START_TEST(the_older_version)
{
	struct ht_unit_parts parts = { .base = 0 };
	struct index index = fresh_index();
	size_t budget = 1000;
	struct ht_dwp *dwp;

	index.version = 2;
	ck_ok(ht_dwp_new(make_file(&index, INDEX_LEN), &dwp));
	ck_ok(ht_dwp_unit(dwp, SECOND, &budget, &parts));
	part_is(&parts, HT_PART_INFO, "iiii");
	ck_assert_uint_eq(parts.at[HT_PART_RNGLISTS].len, 0);	/* 8 is of macros there */
	ht_dwp_free(dwp);
}
END_TEST

static int new_of(const struct index *index, size_t len)
{
	struct ht_dwp *dwp = NULL;
	int r = ht_dwp_new(make_file(index, len), &dwp);

	ht_dwp_free(dwp);
	return r;
}

START_TEST(malformed_indices)
{
	struct index index = fresh_index();

	for (size_t len = 0; len < INDEX_LEN; len++)
		ck_assert_int_lt(new_of(&index, len), 0);
	ck_ok(new_of(&index, INDEX_LEN));
	index.version = 3;
	ck_assert_int_eq(new_of(&index, INDEX_LEN), -EBADMSG);
	index = fresh_index();
	index.columns = UINT32_MAX;
	ck_assert_int_eq(new_of(&index, INDEX_LEN), -EBADMSG);
	index = fresh_index();
	index.units = UINT32_MAX;
	ck_assert_int_eq(new_of(&index, INDEX_LEN), -EBADMSG);
	index = fresh_index();
	index.slots = UINT32_C(1) << 31;
	ck_assert_int_eq(new_of(&index, INDEX_LEN), -EBADMSG);
	index.slots = 3;
	ck_assert_int_eq(new_of(&index, INDEX_LEN), -EBADMSG);
}
END_TEST

static int unit_of(const struct index *index, uint64_t id)
{
	struct ht_unit_parts parts = { .base = 0 };
	size_t budget = 1000;
	struct ht_dwp *dwp;
	int r;

	ck_ok(ht_dwp_new(make_file(index, INDEX_LEN), &dwp));
	r = ht_dwp_unit(dwp, id, &budget, &parts);
	ht_dwp_free(dwp);
	return r;
}

START_TEST(hostile_rows)
{
	struct index index = fresh_index();

	/* A table without a free slot: looking must end. */
	for (size_t i = 0; i < SLOTS; i++)
		index.rows[i] = 1;
	ck_assert_int_eq(unit_of(&index, 99), -ENOENT);
	index = fresh_index();
	index.rows[3] = 3;
	ck_assert_int_eq(unit_of(&index, FIRST), -ENOENT);
	index = fresh_index();
	index.offsets[1][0] = 5;	/* of 10 bytes, 6 from 5 on */
	ck_assert_int_eq(unit_of(&index, FIRST), -EBADMSG);
	index.offsets[1][0] = UINT32_MAX;
	ck_assert_int_eq(unit_of(&index, FIRST), -EBADMSG);
	index = fresh_index();
	index.sizes[1][0] = UINT32_MAX;
	ck_assert_int_eq(unit_of(&index, FIRST), -EBADMSG);
	/* No units at all, as dwp of binutils 2.40 makes it of DWARF 5. */
	index = (struct index){ .version = 2 };
	ck_assert_int_eq(unit_of(&index, 0), -ENOENT);
}
END_TEST

/* Without a free slot, each unit that isn't there would be looked for everywhere. */
START_TEST(a_full_table)
{
	enum { MANY = 1 << 16 };
	static struct {
		uint32_t version, columns, units, slots;
		uint64_t signatures[MANY];
		uint32_t rows[MANY];
		uint32_t kinds[1], offsets[1], sizes[1];
	} full = { .version = 5, .columns = 1, .units = 1, .slots = MANY, .kinds = { 1 },
		   .sizes = { 4 } };
	struct ht_unit_parts parts = { .base = 0 };
	size_t budget = 1000;
	struct ht_dwp *dwp;

	for (size_t i = 0; i < MANY; i++)
		full.rows[i] = 1;
	/* Where it should be, and as far from there as can be. */
	full.signatures[3] = FIRST;
	full.signatures[2] = SECOND & ~UINT64_C(7);
	full.signatures[2] |= 3;
	ck_ok(ht_dwp_new(make_file(&full, sizeof(full)), &dwp));
	ck_ok(ht_dwp_unit(dwp, FIRST, &budget, &parts));
	ck_assert_int_eq(ht_dwp_unit(dwp, full.signatures[2], &budget, &parts), -ENOENT);
	ht_dwp_free(dwp);
}
END_TEST

int main(void)
{
	return ht_check_run("dwp", (const TTest *const[]){
		two_units, the_older_version, malformed_indices, hostile_rows,
		a_full_table, NULL });
}
