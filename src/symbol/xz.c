/* SPDX-License-Identifier: Apache-2.0
 *
 * xz.c: .gnu_debugdata ("mini debuginfo"): an ELF file with a symbol table of the local
 * functions, xz-compressed in a section. Fedora and others ship it in every binary.
 */
#include "symbol/symbol-priv.h"

#include <errno.h>
#include <lzma.h>
#include <stdlib.h>

#include "base/buf.h"

#define MAX_COMPRESSED (64 << 20)
#define MAX_IMAGE ((size_t)64 << 20)
#define CHUNK (256 << 10)
#define MAX_DECODER_MEMORY (128 << 20)

/* lzma_stream_buffer_decode() can't tell a short input from a short output. */
static int decompress(const uint8_t *data, size_t len, struct ht_buf *out)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	lzma_ret r = lzma_stream_decoder(&stream, MAX_DECODER_MEMORY, 0);

	stream.next_in = data;
	stream.avail_in = len;
	while (r == LZMA_OK && out->len <= MAX_IMAGE) {
		if (ht_buf_reserve(out, CHUNK) < 0)
			break;
		stream.next_out = (uint8_t *)out->data + out->len;
		stream.avail_out = CHUNK;
		r = lzma_code(&stream, LZMA_FINISH);
		out->len += CHUNK - stream.avail_out;
	}
	lzma_end(&stream);
	if (out->failed || r == LZMA_MEM_ERROR)
		return -ENOMEM;
	if (r == LZMA_OK || (r == LZMA_STREAM_END && out->len > MAX_IMAGE))
		return -EFBIG;
	return r == LZMA_STREAM_END ? 0 : -EBADMSG;
}

int ht_debugdata_load(const struct ht_elf *elf, uint8_t **ret_image, size_t *ret_len)
{
	const Elf64_Shdr *section = ht_elf_section(elf, ".gnu_debugdata");
	struct ht_buf out = HT_BUF_INIT;
	uint8_t *data;
	size_t len;
	int r;

	if (!section)
		return -ENOENT;
	r = ht_elf_load(elf, section, MAX_COMPRESSED, &data, &len);
	if (r < 0)
		return r;
	r = decompress(data, len, &out);
	free(data);
	if (r < 0) {
		ht_buf_fini(&out);
		return r;
	}
	*ret_image = (uint8_t *)out.data;
	*ret_len = out.len;
	return 0;
}
