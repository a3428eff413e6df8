/* SPDX-License-Identifier: Apache-2.0
 *
 * proto.c: writing protocol buffers, and gzip around them. The wire format is a list of
 * (field number, kind, value); nothing of it needs a library.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "report/report-priv.h"

enum { WIRE_VARINT = 0, WIRE_BYTES = 2 };

void ht_proto_varint(struct ht_buf *out, uint64_t value)
{
	uint8_t bytes[10];
	size_t n = 0;

	do {
		bytes[n] = (uint8_t)(value | 0x80);
		value >>= 7;
		n++;
	} while (value);
	bytes[n - 1] &= 0x7f;
	ht_buf_append(out, bytes, n);
}

void ht_proto_uint(struct ht_buf *out, unsigned field, uint64_t value)
{
	if (value == 0)
		return;
	ht_proto_varint(out, (uint64_t)field << 3 | WIRE_VARINT);
	ht_proto_varint(out, value);
}

void ht_proto_bytes(struct ht_buf *out, unsigned field, const void *data, size_t len)
{
	ht_proto_varint(out, (uint64_t)field << 3 | WIRE_BYTES);
	ht_proto_varint(out, len);
	ht_buf_append(out, data, len);
}

void ht_proto_message(struct ht_buf *out, unsigned field, const struct ht_buf *message)
{
	ht_proto_bytes(out, field, message->data, message->len);
	out->failed |= message->failed;
}

int ht_gzip(const struct ht_buf *data, struct ht_buf *out)
{
	enum { GZIP = 16 };	/* added to the window bits: a gzip header, without a time */
	z_stream z = { .next_in = (Bytef *)data->data };
	size_t left = data->len;
	int r = Z_OK;

	if (data->failed ||
	    deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + GZIP, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	while (r == Z_OK && ht_buf_reserve(out, 64 * 1024) == 0) {
		if (z.avail_in == 0) {
			z.avail_in = (uInt)ht_min(left, (size_t)1 << 30);
			left -= z.avail_in;
		}
		z.next_out = (Bytef *)out->data + out->len;
		z.avail_out = 64 * 1024;
		r = deflate(&z, left ? Z_NO_FLUSH : Z_FINISH);
		out->len += 64 * 1024 - z.avail_out;
	}
	deflateEnd(&z);
	if (out->data)
		out->data[out->len] = '\0';
	return r == Z_STREAM_END ? 0 : -ENOMEM;
}
