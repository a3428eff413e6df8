/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ht_table.h"
#include "unwind/image-priv.h"

static struct ht_elf elf;

START_TEST(images_with_wrong_bytes)
{
	const struct ht_image_header *header;
	struct ht_table *table;
	uint8_t *copy;
	size_t len, i;
	unsigned bit;

	table = compile_one(HT_ELF_CODE(0x41, 0x0e, 16, 0x41, 0x0f, 4, 0x77, 8, 0x06, 0x06));
	header = ht_table_image(table, &len);
	copy = aligned_alloc(16, ht_align_up(len, (size_t)16));
	ck_assert_ptr_nonnull(copy);
	ck_assert(ht_table_valid(header, len));
	ck_assert(!ht_table_valid(NULL, 0));
	for (i = 0; i < len; i++)
		ck_assert(!ht_table_valid(header, i));
	for (i = 0; i < len; i++) {
		for (bit = 0; bit < 8; bit++) {
			memcpy(copy, header, len);
			copy[i] ^= (uint8_t)(1 << bit);
			ck_assert_msg(!ht_table_valid(copy, len), "byte %zu bit %u", i, bit);
			look_around(copy, len);
		}
	}
	free(copy);
	ht_table_free(table);
}
END_TEST

static int fixed_valid(uint8_t *copy, size_t len)
{
	struct ht_image_header *header = (void *)copy;

	header->checksum = ht_image_checksum(copy, len);
	return ht_table_valid(copy, len);
}

/* What the checksum would miss: a maker's mistake. */
START_TEST(images_with_right_checksums)
{
	struct ht_image_header *header;
	struct ht_table *table;
	struct ht_rule *rules;
	uint8_t *copy;
	uint32_t *rows, *buckets;
	const void *image;
	size_t len;

	ht_elf_init(&elf);
	ht_elf_fde(&elf.eh, ht_elf_plain_cie(&elf.eh), TEXT + 0x100, 0x100,
		   HT_ELF_CODE(0x41, 0x0e, 16, 0x41, 0x0f, 4, 0x77, 8, 0x06, 0x06));
	elf.far_text = TEXT + (1 << 20);
	table = compile(&elf);
	image = ht_table_image(table, &len);
	copy = aligned_alloc(16, ht_align_up(len, (size_t)16));
	ck_assert_ptr_nonnull(copy);
#define CHANGED(change)                                                                   \
	({                                                                                \
		memcpy(copy, image, len);                                                 \
		header = (void *)copy;                                                    \
		rows = (void *)(copy + header->rows_at);                                  \
		buckets = (void *)(copy + header->buckets_at);                            \
		rules = (void *)(copy + header->rules_at);                                \
		change;                                                                   \
		look_around(copy, len);                                                   \
		fixed_valid(copy, len);                                                   \
	})
	ck_assert(CHANGED((void)rows));
	ck_assert(!CHANGED(rows[0] ^= UINT32_C(1) << 22));
	ck_assert(!CHANGED(rows[1] = rows[2]));
	ck_assert(!CHANGED(rows[2] |= UINT32_C(0x3fff) << 8));
	ck_assert(!CHANGED(buckets[1] = 0));
	ck_assert(!CHANGED(buckets[1] = UINT32_MAX));
	/* The end of the first range; the start of the second. */
	ck_assert(!CHANGED(buckets[4]--));
	ck_assert(!CHANGED(buckets[5]--));
	ck_assert(!CHANGED(buckets[5]++));
	ck_assert(!CHANGED(rules[2].cfa_kind = HT_CFA_SLOW + 1));
	ck_assert(!CHANGED(rules[2].bp_kind = HT_BP_SLOW + 1));
	ck_assert(!CHANGED(rules[2].ra_kind = HT_RA_SLOW + 1));
	ck_assert(!CHANGED(rules[2].ra_kind = HT_RA_REG));
	ck_assert(!CHANGED((rules[2].cfa_kind = HT_CFA_REG, rules[2].cfa_reg = 16)));
	ck_assert(!CHANGED(rules[header->n_rules - 1].aux = 1));
	ck_assert(!CHANGED(rules[header->n_rules - 1].aux = -1));
	ck_assert(!CHANGED(rules[header->n_rules - 1].aux = INT32_MAX));
	ck_assert(!CHANGED(header->machine = EM_AARCH64));
	ck_assert(!CHANGED(header->n_ranges = 0));
	ck_assert(!CHANGED(((struct ht_image_range *)(copy + header->ranges_at))->end += 0x400));
	ck_assert(!CHANGED(((struct ht_image_range *)(copy + header->ranges_at))->n_buckets = 9));
	ck_assert(!CHANGED(((struct ht_image_range *)(copy + header->ranges_at))->start = 0));
#undef CHANGED
	free(copy);
	ht_table_free(table);
}
END_TEST

/* Each part must be where the counts before it put it, to the byte. */
START_TEST(parts_have_one_place)
{
	static const size_t at[] = {
		offsetof(struct ht_image_header, ranges_at),
		offsetof(struct ht_image_header, buckets_at),
		offsetof(struct ht_image_header, rows_at),
		offsetof(struct ht_image_header, rules_at),
		offsetof(struct ht_image_header, exprs_at),
		offsetof(struct ht_image_header, size),
		offsetof(struct ht_image_header, n_buckets),
		offsetof(struct ht_image_header, n_rows),
		offsetof(struct ht_image_header, n_rules),
		offsetof(struct ht_image_header, expr_bytes),
	};
	static const uint32_t wrong[] = { 0, 1, 16, UINT32_MAX };
	struct ht_image_view view;
	struct ht_table *table;
	const void *image;
	uint32_t right, value;
	uint8_t *copy;
	size_t len, i, j;

	table = compile_one(HT_ELF_CODE(0x41, 0x0f, 4, 0x77, 8, 0x06, 0x06));
	image = ht_table_image(table, &len);
	copy = aligned_alloc(16, ht_align_up(len + 1, (size_t)16));
	ck_assert_ptr_nonnull(copy);
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		for (j = 0; j < ARRAY_SIZE(wrong); j++) {
			memcpy(copy, image, len);
			memcpy(&right, copy + at[i], sizeof(right));
			value = wrong[j] == UINT32_MAX ? wrong[j] : right ^ wrong[j];
			/* One row more may just fill the padding behind them. */
			if (at[i] == offsetof(struct ht_image_header, n_rows) && wrong[j] == 1)
				continue;
			memcpy(copy + at[i], &value, sizeof(value));
			ck_assert_msg(ht_image_open(copy, len, &view) == (value == right),
				      "field %zu, %u for %u", i, value, right);
		}
	}
	memcpy(copy, image, len);
	ck_assert(!ht_image_open(copy, len + 1, &view));
	ck_assert(!ht_image_open(copy, sizeof(struct ht_image_header) - 1, &view));
	/* Its words are read as words. */
	memmove(copy + 1, image, len - 1);
	ck_assert(!ht_image_open(copy + 1, len, &view));
	free(copy);
	ht_table_free(table);
}
END_TEST

START_TEST(ranges_in_order)
{
	struct ht_image_range *ranges, first;
	struct ht_image_header *header;
	struct ht_table *table;
	const void *image;
	uint8_t *copy;
	size_t len;

	ht_elf_init(&elf);
	ht_elf_fde(&elf.eh, ht_elf_plain_cie(&elf.eh), TEXT + 0x100, 0x100, HT_ELF_NO_CODE);
	elf.far_text = TEXT + (1 << 20);
	table = compile(&elf);
	image = ht_table_image(table, &len);
	copy = aligned_alloc(16, ht_align_up(len, (size_t)16));
	ck_assert_ptr_nonnull(copy);
	memcpy(copy, image, len);
	header = (void *)copy;
	ranges = (void *)(copy + header->ranges_at);
	first = ranges[0];
	/* Both at the place of the other: every bucket and row still fits. */
	ranges[0].start = ranges[1].start;
	ranges[0].end = ranges[1].end;
	ranges[1].start = first.start;
	ranges[1].end = first.end;
	ck_assert(!fixed_valid(copy, len));
	/* Touching is no overlap. */
	ranges[0].start = first.start;
	ranges[0].end = first.end;
	ranges[1].start = first.end;
	ranges[1].end = first.end + HT_ELF_TEXT_LEN;
	ck_assert(fixed_valid(copy, len));
	free(copy);
	ht_table_free(table);
}
END_TEST

int main(void)
{
	return ht_check_run("image", (const TTest *const[]){
		images_with_wrong_bytes, images_with_right_checksums, parts_have_one_place,
		ranges_in_order, NULL });
}
