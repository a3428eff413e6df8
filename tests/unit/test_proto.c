/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <zlib.h>

#include "ht_check.h"
#include "report/report-priv.h"

static void check(const struct ht_buf *out, const char *bytes, size_t len)
{
	ck_assert_uint_eq(out->len, len);
	ck_assert_mem_eq(out->data, bytes, len);
}

START_TEST(varints)
{
	struct ht_buf out = HT_BUF_INIT;

	ht_proto_varint(&out, 0);
	check(&out, "\0", 1);
	ht_buf_clear(&out);
	ht_proto_varint(&out, 127);
	ht_proto_varint(&out, 128);
	ht_proto_varint(&out, 300);
	check(&out, "\x7f\x80\x01\xac\x02", 5);
	ht_buf_clear(&out);
	ht_proto_varint(&out, UINT64_MAX);
	check(&out, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10);
	ht_buf_fini(&out);
}
END_TEST

START_TEST(fields)
{
	struct ht_buf out = HT_BUF_INIT, inner = HT_BUF_INIT;

	ht_proto_uint(&out, 1, 150);	/* the example of the protocol buffers' manual */
	check(&out, "\x08\x96\x01", 3);
	ht_proto_uint(&out, 2, 0);	/* left out */
	ck_assert_uint_eq(out.len, 3);
	ht_buf_clear(&out);
	ht_proto_bytes(&out, 2, "testing", 7);
	check(&out, "\x12\x07testing", 9);
	ht_buf_clear(&out);
	ht_proto_uint(&inner, 1, 150);
	ht_proto_message(&out, 16, &inner);
	check(&out, "\x82\x01\x03\x08\x96\x01", 6);
	ht_buf_clear(&out);
	ht_buf_clear(&inner);
	ht_proto_message(&out, 3, &inner);
	check(&out, "\x1a\x00", 2);
	inner.failed = true;
	ht_proto_message(&out, 3, &inner);
	ck_assert(out.failed);
	ht_buf_fini(&out);
	ht_buf_fini(&inner);
}
END_TEST

START_TEST(gzip_round_trip)
{
	struct ht_buf data = HT_BUF_INIT, out = HT_BUF_INIT, again = HT_BUF_INIT;
	size_t len = 3 << 20;
	char *back = malloc(len);
	z_stream z = { 0 };
	unsigned seed = 1;

	while (data.len < len) {
		seed = seed * 1103515245 + 12345;
		ht_buf_putc(&data, (char)(seed >> 16));
	}
	ck_ok(ht_gzip(&data, &out));
	ck_ok(ht_gzip(&data, &again));
	check(&out, again.data, again.len);	/* no time, no name in it */
	ck_assert_int_eq(inflateInit2(&z, 16 + MAX_WBITS), Z_OK);
	z.next_in = (Bytef *)out.data;
	z.avail_in = (uInt)out.len;
	z.next_out = (Bytef *)back;
	z.avail_out = (uInt)len;
	ck_assert_int_eq(inflate(&z, Z_FINISH), Z_STREAM_END);
	ck_assert_uint_eq(z.avail_in, 0);
	ck_assert_uint_eq(z.total_out, len);
	ck_assert_int_eq(memcmp(back, data.data, len), 0);
	inflateEnd(&z);
	ht_buf_clear(&data);
	ht_buf_clear(&out);
	ck_ok(ht_gzip(&data, &out));
	ck_assert_uint_gt(out.len, 10);
	free(back);
	ht_buf_fini(&data);
	ht_buf_fini(&out);
	ht_buf_fini(&again);
}
END_TEST

int main(void)
{
	return ht_check_run("proto", (const TTest *const[]){ varints, fields, gzip_round_trip,
							     NULL });
}
