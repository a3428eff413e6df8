/* SPDX-License-Identifier: Apache-2.0
 *
 * .gnu_debugdata: what is decompressed, and where it stops. A real one is in
 * test_debugfile.c.
 */
#include <errno.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>

#include "ht_check.h"
#include "symbol/symbol-priv.h"

#define LIMIT ((size_t)64 << 20)

/* An ELF file with @data as its section; NULL: without one. */
static uint8_t *wrap(const void *data, size_t len, size_t *ret_len)
{
	static const char names[] = "\0.gnu_debugdata\0.shstrtab";
	Elf64_Ehdr header = { .e_type = ET_DYN, .e_shoff = sizeof(header),
			      .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = data ? 3 : 2,
			      .e_shstrndx = 1 };
	Elf64_Shdr sections[3] = {
		[1] = { .sh_name = 16, .sh_type = SHT_STRTAB, .sh_size = sizeof(names),
			.sh_offset = sizeof(header) + sizeof(sections) },
		[2] = { .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_size = len,
			.sh_offset = sizeof(header) + sizeof(sections) + sizeof(names) },
	};
	uint8_t *image = malloc(sections[2].sh_offset + len);

	ck_assert_ptr_nonnull(image);
	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(image, &header, sizeof(header));
	memcpy(image + sizeof(header), sections, sizeof(sections));
	memcpy(image + sections[1].sh_offset, names, sizeof(names));
	if (data)
		memcpy(image + sections[2].sh_offset, data, len);
	*ret_len = sections[2].sh_offset + len;
	return image;
}

/* The result of loading @data, which must be @want when that isn't NULL. */
static int load(const void *data, size_t len, const void *want, size_t want_len)
{
	uint8_t *image, *out = NULL;
	size_t image_len, out_len = 77;
	struct ht_elf elf;
	int r;

	image = wrap(data, len, &image_len);
	ck_ok(ht_elf_init_image(&elf, image, image_len));
	r = ht_debugdata_load(&elf, &out, &out_len);
	ck_assert(r == 0 ? out != NULL : !out && out_len == 77);
	if (r == 0 && want) {
		ck_assert_uint_eq(out_len, want_len);
		ck_assert(!memcmp(out, want, want_len));
	}
	free(out);
	ht_elf_fini(&elf);
	free(image);
	return r;
}

/* @len zeros, compressed with a preset; the caller frees. */
static uint8_t *zeros(size_t len, uint32_t preset, size_t *ret_len)
{
	size_t max = lzma_stream_buffer_bound(len);
	uint8_t *in = calloc(1, len + 1), *out = malloc(max);

	ck_assert(in && out);
	*ret_len = 0;
	ck_assert_int_eq(lzma_easy_buffer_encode(preset, LZMA_CHECK_CRC32, NULL, in, len,
						 out, ret_len, max), LZMA_OK);
	free(in);
	return out;
}

static uint8_t *text_xz(const char *text, size_t *ret_len)
{
	uint8_t *out = malloc(4096);

	ck_assert_ptr_nonnull(out);
	*ret_len = 0;
	ck_assert_int_eq(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, NULL,
						 (const uint8_t *)text, strlen(text), out,
						 ret_len, 4096), LZMA_OK);
	return out;
}

START_TEST(whole_streams)
{
	uint8_t *xz;
	size_t len;

	ck_assert_int_eq(load(NULL, 0, NULL, 0), -ENOENT);
	xz = text_xz("hello, symbols", &len);
	ck_ok(load(xz, len, "hello, symbols", 14));
	free(xz);
	xz = text_xz("", &len);
	ck_ok(load(xz, len, "", 0));
	free(xz);
}
END_TEST

/* Cut anywhere, or with a bit turned: an error, never half an image. */
START_TEST(broken_streams)
{
	uint8_t *xz;
	size_t len;

	ck_assert_int_eq(load("", 0, NULL, 0), -EBADMSG);
	ck_assert_int_eq(load("not xz at all", 13, NULL, 0), -EBADMSG);
	xz = text_xz("hello, symbols; hello, symbols; hello, symbols", &len);
	for (size_t cut = 0; cut < len; cut++)
		ck_assert_int_eq(load(xz, cut, NULL, 0), -EBADMSG);
	for (size_t i = 0; i < len; i++) {
		int r;

		xz[i] ^= 0x10;
		r = load(xz, len, NULL, 0);
		ck_assert(r == -EBADMSG || r == -ENOMEM);
		xz[i] ^= 0x10;
	}
	free(xz);
}
END_TEST

START_TEST(as_much_as_is_allowed)
{
	uint8_t *xz, *want = calloc(1, LIMIT);
	size_t len;

	ck_assert_ptr_nonnull(want);
	xz = zeros(LIMIT, 0, &len);
	ck_ok(load(xz, len, want, LIMIT));
	free(xz);
	free(want);
	xz = zeros(LIMIT + 1, 0, &len);
	ck_assert_int_eq(load(xz, len, NULL, 0), -EFBIG);
	free(xz);
}
END_TEST

/* In a block's header: its size, flags, the sizes that they promise (here below 128), the
 * id of LZMA2, the length of its properties, the window as 2^(code / 2 + 12). */
static void set_window(uint8_t *block, uint8_t code)
{
	size_t size = ((size_t)block[0] + 1) * 4;
	size_t at = 2 + (block[1] >> 6 & 1) + (block[1] >> 7);
	uint32_t crc;

	ck_assert_uint_eq(block[at], 0x21);
	ck_assert_uint_eq(block[at + 1], 1);
	block[at + 2] = code;
	crc = lzma_crc32(block, size - 4, 0);
	memcpy(block + size - 4, &crc, 4);
}

/* The window that a stream asks for is memory too: level 9 wants 64 MiB. One of 1 GiB, of
 * which next to nothing is used, is refused. */
START_TEST(large_windows)
{
	lzma_options_lzma options;
	lzma_filter filters[] = { { LZMA_FILTER_LZMA2, &options },
				  { LZMA_VLI_UNKNOWN, NULL } };
	uint8_t out[512], *xz;
	size_t len;

	xz = zeros(100, 9, &len);
	ck_ok(load(xz, len, NULL, 0));
	free(xz);
	/* Made with a small window, then the size in the header set to 1 GiB. */
	ck_assert(!lzma_lzma_preset(&options, 0));
	options.dict_size = 1 << 16;
	len = 0;
	ck_assert_int_eq(lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC32, NULL,
						   (const uint8_t *)"hello", 5, out, &len,
						   sizeof(out)), LZMA_OK);
	ck_ok(load(out, len, "hello", 5));
	set_window(out + LZMA_STREAM_HEADER_SIZE, 36);
	ck_assert_int_lt(load(out, len, NULL, 0), 0);
}
END_TEST

int main(void)
{
	return ht_check_run("xz", (const TTest *const[]){
		whole_streams, broken_streams, as_much_as_is_allowed, large_windows,
		NULL });
}
