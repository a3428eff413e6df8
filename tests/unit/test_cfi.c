/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/cfi.h"

#include <errno.h>
#include <string.h>

#include "ht_cfi.h"

static struct ht_elf elf;

/* The first FDE behind what @elf holds: its start, or 0 when it's refused. */
static uint64_t first_start(bool *ret_signal)
{
	struct ht_cfi_fde fde;
	struct opened o;
	uint64_t start;
	size_t offset;
	int r;

	open_elf(&elf, &o);
	ck_assert_uint_eq(o.cfi.n_sections, 1);
	r = ht_cfi_reader_next(&o.reader, &fde, &offset);
	ck_assert(r == 1 || r == -EINVAL);
	start = r == 1 ? fde.start : 0;
	if (ret_signal && r == 1)
		*ret_signal = fde.cie->signal;
	if (r == 1)
		ck_assert_uint_eq(fde.end - fde.start, 16);
	ck_assert_int_eq(ht_cfi_reader_next(&o.reader, &fde, &offset), 0);
	close_elf(&o);
	return start;
}

START_TEST(augmentations)
{
	static const char *const good[] = { "zR", "zRS", "zPLR", "zPLRS", "zLR", "zRB", "zRG",
					    "zR?PL" };
	bool signal;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(good); i++) {
		ht_elf_init(&elf);
		ht_elf_fde(&elf.eh, ht_elf_cie(&elf.eh, good[i], HT_ELF_CODE(0x0c, 7, 8)),
			   HT_ELF_TEXT, 16, HT_ELF_NO_CODE);
		ck_assert_uint_eq(first_start(&signal), HT_ELF_TEXT);
		ck_assert_int_eq(signal, strchr(good[i], 'S') != NULL);
	}
	/* Without a length, what isn't known can't be passed over. */
	ht_elf_init(&elf);
	ht_elf_fde(&elf.eh, ht_elf_cie(&elf.eh, "R", HT_ELF_CODE(0x0c, 7, 8)), HT_ELF_TEXT,
		   16, HT_ELF_NO_CODE);
	ck_assert_uint_eq(first_start(NULL), 0);
}
END_TEST

/* A CIE from its version on, and an FDE with 8-byte addresses. */
static void put_raw_cie(struct ht_elf_bytes *b, const void *body, size_t len)
{
	ht_elf_u32(b, 0);
	ht_elf_u32(b, b->eh ? 0 : UINT32_MAX);
	ht_elf_put(b, body, len);
	ht_elf_close(b, 0);
	ht_elf_u32(b, 24);
	ht_elf_u32(b, b->eh ? (uint32_t)b->len : 0);
	ht_elf_u64(b, HT_ELF_TEXT);
	ht_elf_u64(b, 16);
	ht_elf_u32(b, 0);
}

START_TEST(versions)
{
	static const struct {
		uint8_t body[20];
		size_t len;
		bool good;
	} cies[] = {
		{ { 1, 0, 1, 0x78, 16, 0x0c, 7, 8 }, 8, true },
		{ { 3, 0, 1, 0x78, 16, 0x0c, 7, 8 }, 8, true },
		{ { 3, 0, 1, 0x78, 0x90, 0, 0x0c, 7, 8 }, 9, true },
		{ { 4, 0, 8, 0, 1, 0x78, 16, 0x0c, 7, 8 }, 10, true },
		{ { 1, 'e', 'h', 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0x78, 16, 0x0c, 7, 8 }, 18,
		  true },
		{ { 0, 0, 1, 0x78, 16, 0x0c, 7, 8 }, 8, false },
		{ { 2, 0, 1, 0x78, 16, 0x0c, 7, 8 }, 8, false },
		{ { 5, 0, 8, 0, 1, 0x78, 16, 0x0c, 7, 8 }, 10, false },
		/* Addresses of 4 bytes, segments, no return address that we know. */
		{ { 4, 0, 4, 0, 1, 0x78, 16, 0x0c, 7, 8 }, 10, false },
		{ { 4, 0, 8, 2, 1, 0x78, 16, 0x0c, 7, 8 }, 10, false },
		{ { 1, 0, 1, 0x78, 17, 0x0c, 7, 8 }, 8, false },
		/* No movement in a CIE, nothing to restore, no such instruction. */
		{ { 1, 0, 1, 0x78, 16, 0x41 }, 6, false },
		{ { 1, 0, 1, 0x78, 16, 0xc3 }, 6, false },
		{ { 1, 0, 1, 0x78, 16, 0x0a }, 6, false },
		{ { 1, 0, 1, 0x78, 16, 0x3e }, 6, false },
	};
	size_t i;
	int debug;

	for (i = 0; i < ARRAY_SIZE(cies); i++) {
		for (debug = 0; debug < 2; debug++) {
			ht_elf_init(&elf);
			put_raw_cie(debug ? &elf.debug : &elf.eh, cies[i].body, cies[i].len);
			ck_assert_msg(first_start(NULL) == (cies[i].good ? HT_ELF_TEXT : 0),
				      "cie %zu", i);
		}
	}
}
END_TEST

START_TEST(pointer_encodings)
{
	static const struct {
		uint8_t encoding;
		unsigned size;
		bool good;
	} encodings[] = {
		{ 0x00, 8, true }, { 0x04, 8, true }, { 0x0c, 8, true }, { 0x03, 4, true },
		{ 0x0b, 4, true }, { 0x02, 2, true }, { 0x0a, 2, true }, { 0x1b, 4, true },
		{ 0x10, 8, true }, { 0x1c, 8, true }, { 0x01, 2, true }, { 0x09, 2, true },
		/* Relative to text, data, function; aligned; indirect; none at all. */
		{ 0x2b, 4, false }, { 0x3b, 4, false }, { 0x4b, 4, false }, { 0x50, 8, false },
		{ 0x9b, 4, false }, { 0xff, 0, false }, { 0x05, 4, false },
	};
	uint64_t pc;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(encodings); i++) {
		struct ht_elf_bytes *b = &elf.eh;
		size_t start;

		ht_elf_init(&elf);
		ht_elf_put(b, "\x10\0\0\0\0\0\0\0\1zR\0\1\x78\x10\1", 16);
		ht_elf_u8(b, encodings[i].encoding);
		ht_elf_put(b, "\x0c\7\10", 3);
		start = b->len;
		ht_elf_u32(b, 0);
		ht_elf_u32(b, (uint32_t)b->len);
		pc = HT_ELF_TEXT;
		if (encodings[i].encoding & 0x10)
			pc -= HT_ELF_EH + b->len;
		if ((encodings[i].encoding & 7) == 1)
			pc = 0x20a0;	/* as ULEB and SLEB: 0x1020 */
		ht_elf_put(b, &pc, encodings[i].size);
		pc = (encodings[i].encoding & 7) == 1 ? 0x90 : 16;
		ht_elf_put(b, &pc, encodings[i].size);
		ht_elf_u8(b, 0);
		ht_elf_close(b, start);
		ck_assert_msg((first_start(NULL) != 0) == encodings[i].good, "encoding %#x",
			      encodings[i].encoding);
	}
}
END_TEST

START_TEST(lengths_of_64_bits)
{
	int debug;

	for (debug = 0; debug < 2; debug++) {
		struct ht_elf_bytes *b = debug ? &elf.debug : &elf.eh;

		ht_elf_init(&elf);
		ht_elf_u32(b, UINT32_MAX);
		ht_elf_u64(b, debug ? 16 : 12);
		if (debug)
			ht_elf_u64(b, UINT64_MAX);
		else
			ht_elf_u32(b, 0);
		ht_elf_put(b, "\1\0\1\x78\x10\x0c\7\10", 8);
		ht_elf_u32(b, UINT32_MAX);
		ht_elf_u64(b, debug ? 24 : 20);
		if (debug)
			ht_elf_u64(b, 0);
		else
			ht_elf_u32(b, (uint32_t)b->len);
		ht_elf_u64(b, HT_ELF_TEXT);
		ht_elf_u64(b, 16);
		ck_assert_uint_eq(first_start(NULL), HT_ELF_TEXT);
	}
}
END_TEST

START_TEST(terminators_and_tails)
{
	struct ht_cfi_fde fde;
	struct opened o;
	size_t cie, offset;

	ht_elf_init(&elf);
	cie = ht_elf_plain_cie(&elf.eh);
	ht_elf_fde(&elf.eh, cie, HT_ELF_TEXT, 16, HT_ELF_NO_CODE);
	ht_elf_u32(&elf.eh, 0);
	/* An FDE without code, a CIE pointer that leads to an FDE, one to nowhere. */
	ht_elf_fde(&elf.eh, cie, HT_ELF_TEXT, 0, HT_ELF_NO_CODE);
	ht_elf_fde(&elf.eh, 24, HT_ELF_TEXT, 16, HT_ELF_NO_CODE);
	ht_elf_fde(&elf.eh, 1000, HT_ELF_TEXT, 16, HT_ELF_NO_CODE);
	ht_elf_fde(&elf.eh, cie, HT_ELF_TEXT + 32, 16, HT_ELF_NO_CODE);
	/* Longer than the section. */
	ht_elf_u32(&elf.eh, 5);
	ht_elf_u32(&elf.eh, 4);
	open_elf(&elf, &o);
	ck_assert_int_eq(ht_cfi_reader_next(&o.reader, &fde, &offset), 1);
	ck_assert_uint_eq(offset, 24);
	ck_assert_int_eq(ht_cfi_reader_next(&o.reader, &fde, &offset), -EINVAL);
	ck_assert_int_eq(ht_cfi_reader_next(&o.reader, &fde, &offset), -EINVAL);
	ck_assert_int_eq(ht_cfi_reader_next(&o.reader, &fde, &offset), 1);
	ck_assert_uint_eq(fde.start, HT_ELF_TEXT + 32);
	ck_assert_int_eq(ht_cfi_reader_next(&o.reader, &fde, &offset), -EINVAL);
	ck_assert_int_eq(ht_cfi_reader_next(&o.reader, &fde, &offset), 0);
	ck_assert_int_eq(ht_cfi_reader_next(&o.reader, &fde, &offset), 0);
	close_elf(&o);
}
END_TEST

static struct ht_cfi_run run;

static void walk_all(const uint8_t *image, size_t len)
{
	static struct ht_cfi_reader reader;
	struct ht_elfview view;
	struct ht_cfi_fde fde;
	uint64_t start, end;
	struct ht_cfi cfi;
	unsigned i;
	size_t at;
	int r;

	if (ht_elfview_open(image, len, &view) < 0)
		return;
	ck_ok(ht_cfi_open(&view, &cfi));
	for (i = 0; i < cfi.n_sections; i++) {
		ht_cfi_reader_init(&reader, &cfi.sections[i]);
		while ((r = ht_cfi_reader_next(&reader, &fde, &at)) != 0) {
			if (r < 0)
				continue;
			ht_cfi_run_init(&run, &fde);
			while ((r = ht_cfi_run_next(&run, &start, &end)) != 0)
				ck_assert(fde.start <= start && start < end && end <= fde.end);
		}
	}
	r = ht_cfi_find(&cfi, HT_ELF_TEXT + 40, NULL, &reader, &fde);
	ck_assert(r == 0 || r == -ENODATA);
	ht_cfi_close(&cfi);
}

/* A bit of everything. */
static void make_rich(void)
{
	size_t cie;

	make_two(&elf);
	cie = ht_elf_cie(&elf.eh, "zPLRS", HT_ELF_CODE(0x0c, 7, 8, 0x90, 1));
	ht_elf_fde(&elf.eh, cie, HT_ELF_TEXT + 64, 100,
		   HT_ELF_CODE(0x41, 0x0e, 16, 0x83, 2, 0x0a, 0x02, 3, 0x05, 14, 3, 0x0b, 0x03, 1,
			       0, 0x0f, 3, 0x77, 8, 6, 0x44, 0x10, 6, 2, 0x76, 0x70, 0x04, 1, 0,
			       0, 0, 0x16, 3, 2, 0x76, 0));
	ht_elf_fde(&elf.debug, ht_elf_plain_cie(&elf.debug), HT_ELF_TEXT + 256, 16,
		   HT_ELF_CODE(0x42, 0x0c, 6, 16));
}

START_TEST(truncated_at_every_byte)
{
	size_t len, whole, cut;
	uint8_t *image, *part;

	make_rich();
	image = ht_elf_build(&elf, &whole);
	free(image);
	/* The file, whose section headers come last; then each section. */
	for (cut = 0; cut <= whole; cut += cut < HT_ELF_TEXT || cut >= HT_ELF_EH ? 1 : 512) {
		image = ht_elf_build(&elf, &len);
		part = malloc(cut ? cut : 1);
		ck_assert_ptr_nonnull(part);
		memcpy(part, image, cut);
		walk_all(part, cut);
		free(part);
		free(image);
	}
	for (cut = elf.eh.len; cut-- > 0;) {
		elf.eh.len = cut;
		image = ht_elf_build(&elf, &len);
		walk_all(image, len);
		free(image);
	}
	for (cut = elf.debug.len; cut-- > 0;) {
		elf.debug.len = cut;
		image = ht_elf_build(&elf, &len);
		walk_all(image, len);
		free(image);
	}
}
END_TEST

int main(void)
{
	return ht_check_run("cfi", (const TTest *const[]){
		augmentations, versions, pointer_encodings, lengths_of_64_bits,
		terminators_and_tails, truncated_at_every_byte, NULL });
}
