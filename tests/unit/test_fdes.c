/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/fdes.h"

#include <errno.h>
#include <string.h>

#include "ht_check.h"
#include "ht_elf.h"

#define TEXT HT_ELF_TEXT
#define FAR (UINT64_C(1) << 45)

static const struct ht_image_range text[] = {
	{ TEXT, TEXT + HT_ELF_TEXT_LEN, 0, 0 },
	{ FAR, FAR + (UINT64_C(1) << 40), 0, 0 },
};
static struct ht_elf elf;
static struct ht_fdes fdes;
static uint8_t *image;

static void add(void)
{
	struct ht_elfview view;
	size_t len;

	image = ht_elf_build(&elf, &len);
	ck_ok(ht_elfview_open(image, len, &view));
	ck_ok(ht_fdes_add(&fdes, &view, text, ARRAY_SIZE(text)));
}

static void put(struct ht_elf_bytes *b, uint64_t start, uint32_t len)
{
	ht_elf_fde(b, 0, start, len, HT_ELF_NO_CODE);
}

static void init(void)
{
	memset(&fdes, 0, sizeof(fdes));
	ht_elf_init(&elf);
	ht_elf_plain_cie(&elf.eh);
	ht_elf_plain_cie(&elf.debug);
}

START_TEST(only_what_touches_text)
{
	init();
	put(&elf.debug, 0, 16);
	put(&elf.debug, TEXT - 16, 16);
	put(&elf.debug, TEXT - 16, 17);
	put(&elf.debug, TEXT + HT_ELF_TEXT_LEN - 1, 64);
	put(&elf.debug, TEXT + HT_ELF_TEXT_LEN, 64);
	put(&elf.debug, FAR + 5, 1);
	put(&elf.debug, UINT64_MAX - 16, 16);
	add();
	ck_assert_uint_eq(fdes.layers[HT_FDES_EH].len, 0);
	ck_assert_uint_eq(fdes.layers[HT_FDES_DEBUG].len, 3);
	ck_assert_uint_eq(fdes.layers[HT_FDES_DEBUG].at[0].end, TEXT + 1);
	ck_assert_uint_eq(fdes.layers[HT_FDES_DEBUG].at[2].start, FAR + 5);
	ck_assert_uint_eq(fdes.n_bad, 0);
	ht_fdes_fini(&fdes);
	free(image);
}
END_TEST

/* Starts that differ in all parts of the address, so that no pass of the sort may be left
 * out, some of them equal. */
START_TEST(sorted_by_start_then_by_order)
{
	const struct ht_fde_ref *at;
	struct ht_cfi_fde fde;
	size_t i, n = 150;

	init();
	for (i = 0; i < n; i++)
		put(&elf.debug, i % 3 == 0 ? TEXT + i % 7
					   : FAR + ((i * 7919 % 61) << 33) + (i * 31 % 17 << 13) +
						     i * 97 % 59, (uint32_t)i + 1);
	add();
	ck_ok(ht_fdes_sort(&fdes));
	ck_assert_uint_eq(fdes.layers[HT_FDES_DEBUG].len, n);
	at = fdes.layers[HT_FDES_DEBUG].at;
	for (i = 0; i < n; i++) {
		ck_assert(i == 0 || at[i - 1].start < at[i].start ||
			  (at[i - 1].start == at[i].start && at[i - 1].offset < at[i].offset));
		ck_assert_int_eq(ht_fdes_read(&fdes, &at[i], &fde), 1);
		ck_assert_uint_eq(fde.start, at[i].start);
		ck_assert_uint_eq(fde.end, at[i].end);
	}
	/* Still a vector, to which can be added. */
	ck_assert_ptr_nonnull(ht_vec_push(&fdes.layers[HT_FDES_DEBUG]));
	ht_fdes_fini(&fdes);
	free(image);
}
END_TEST

START_TEST(two_files_in_two_layers)
{
	struct ht_cfi_fde fde;
	uint8_t *first;

	init();
	put(&elf.eh, TEXT + 32, 16);
	put(&elf.debug, TEXT + 64, 16);
	add();
	first = image;
	ht_elf_init(&elf);
	ht_elf_plain_cie(&elf.debug);
	put(&elf.debug, TEXT + 48, 16);
	add();
	ck_ok(ht_fdes_sort(&fdes));
	ck_assert_uint_eq(fdes.layers[HT_FDES_EH].len, 1);
	ck_assert_uint_eq(fdes.layers[HT_FDES_DEBUG].len, 2);
	/* Read through the reader of the file that each came from. */
	ck_assert_int_eq(ht_fdes_read(&fdes, &fdes.layers[HT_FDES_DEBUG].at[0], &fde), 1);
	ck_assert_uint_eq(fde.start, TEXT + 48);
	ck_assert_int_eq(ht_fdes_read(&fdes, &fdes.layers[HT_FDES_DEBUG].at[1], &fde), 1);
	ck_assert_uint_eq(fde.start, TEXT + 64);
	ht_fdes_fini(&fdes);
	free(first);
	free(image);
}
END_TEST

START_TEST(counts)
{
	init();
	put(&elf.eh, TEXT, 64);
	put(&elf.eh, TEXT + 16, 16);
	put(&elf.eh, TEXT + 48, 32);
	put(&elf.eh, TEXT + 80, 16);
	/* Of a CIE that isn't there. */
	ht_elf_fde(&elf.eh, 4000, TEXT, 16, HT_ELF_NO_CODE);
	/* Compressed in no way that we know. */
	elf.debug_flags = SHF_COMPRESSED;
	add();
	ck_ok(ht_fdes_sort(&fdes));
	ck_assert_uint_eq(ht_fdes_overlaps(&fdes, HT_FDES_EH), 2);
	ck_assert_uint_eq(ht_fdes_overlaps(&fdes, HT_FDES_DEBUG), 0);
	ck_assert_uint_eq(fdes.n_bad, 1);
	ck_assert_uint_eq(ht_fdes_skipped(&fdes), 1);
	ht_fdes_fini(&fdes);
	free(image);
}
END_TEST

START_TEST(nothing_is_fine)
{
	memset(&fdes, 0, sizeof(fdes));
	ck_ok(ht_fdes_sort(&fdes));
	ck_assert_uint_eq(ht_fdes_overlaps(&fdes, HT_FDES_EH), 0);
	ck_assert_uint_eq(ht_fdes_skipped(&fdes), 0);
	ht_fdes_fini(&fdes);
	init();
	elf.no_sections = true;
	add();
	ck_ok(ht_fdes_sort(&fdes));
	ck_assert_uint_eq(fdes.layers[HT_FDES_EH].len, 0);
	ht_fdes_fini(&fdes);
	ht_fdes_fini(&fdes);
	free(image);
}
END_TEST

int main(void)
{
	return ht_check_run("fdes", (const TTest *const[]){
		only_what_touches_text, sorted_by_start_then_by_order,
		two_files_in_two_layers, counts, nothing_is_fine, NULL });
}
