/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_table.h: tables compiled from files of ht_elf.h, for the tests of unwind/'s tables.
 * Asserts by itself.
 */
#ifndef HT_TESTS_HT_TABLE_H
#define HT_TESTS_HT_TABLE_H

#include <string.h>

#include "ht_check.h"
#include "ht_elf.h"
#include "unwind/image.h"
#include "unwind/table.h"

#define TEXT HT_ELF_TEXT
#define TEXT_END (HT_ELF_TEXT + HT_ELF_TEXT_LEN)

static inline struct ht_table *compile(const struct ht_elf *elf)
{
	struct ht_table *table;
	const void *image;
	uint8_t *file;
	size_t len;

	file = ht_elf_build(elf, &len);
	ck_ok(ht_table_compile(file, len, NULL, 0, &table));
	/* The table stands alone. */
	memset(file, 0xff, len);
	free(file);
	image = ht_table_image(table, &len);
	ck_assert(ht_table_valid(image, len));
	return table;
}

/* One function at TEXT + 0x100. */
static inline struct ht_table *compile_one(const uint8_t *code, size_t len)
{
	static struct ht_elf elf;

	ht_elf_init(&elf);
	ht_elf_fde(&elf.eh, ht_elf_plain_cie(&elf.eh), TEXT + 0x100, 0x100, code, len);
	return compile(&elf);
}

static inline struct ht_rule lookup(const struct ht_table *table, uint64_t pc)
{
	struct ht_rule rule;

	ck_assert_msg(ht_table_lookup(table, pc, &rule, NULL), "nothing at %#llx",
		      (unsigned long long)pc);
	return rule;
}

static inline uint64_t row_start(const struct ht_table *table, uint64_t pc)
{
	struct ht_rule rule;
	uint64_t start;

	ck_assert(ht_table_lookup(table, pc, &rule, &start));
	return start;
}

static inline void check_rule(const struct ht_rule *got, struct ht_rule want)
{
	ck_assert_msg(memcmp(got, &want, sizeof(want)) == 0,
		      "got cfa %d r%d%+d bp %d%+d ra %d aux %d", got->cfa_kind, got->cfa_reg,
		      got->cfa_offset, got->bp_kind, got->bp_offset, got->ra_kind, got->aux);
}

/* Look everywhere; the sanitizer tells if that leads out of the image. */
static inline void look_around(const void *image, size_t len)
{
	struct ht_image_view view;
	struct ht_image_spot spot;
	struct ht_rule rule;
	uint32_t i;
	uint64_t pc;

	if (!ht_image_open(image, len, &view))
		return;
	for (i = 0; i < view.n_ranges; i++) {
		for (pc = view.ranges[i].start; pc < view.ranges[i].start + 0x1800; pc += 61)
			if (ht_image_lookup(&view, pc, &rule, &spot))
				ht_image_row_start(&view, &spot);
		pc = view.ranges[i].end - 1;
		if (ht_image_lookup(&view, pc, &rule, &spot))
			ht_image_row_start(&view, &spot);
	}
	if (ht_image_lookup(&view, TEXT + 0x100, &rule, &spot))
		ht_image_row_start(&view, &spot);
}

#endif
