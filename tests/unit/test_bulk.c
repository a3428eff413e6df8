/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "ht_check.h"
#include "symbol/symbol-priv.h"

static struct ht_buf info, tables;

static void start(void)
{
	ht_buf_fini(&info);
	ht_buf_fini(&tables);
	info = tables = (struct ht_buf)HT_BUF_INIT;
}

static void put(struct ht_buf *buf, const void *data, size_t len)
{
	ck_ok(ht_buf_append(buf, data, len));
}

/* The header of a unit, and a byte. */
static void unit(uint16_t version, uint64_t table, bool wide)
{
	struct ht_buf body = HT_BUF_INIT;
	uint32_t escape = UINT32_MAX, narrow = (uint32_t)table, len;
	uint64_t wide_len;

	put(&body, &version, 2);
	if (version >= 5)
		put(&body, "\1\10", 2);
	put(&body, wide ? (void *)&table : (void *)&narrow, wide ? 8 : 4);
	put(&body, "\10\1", 2);
	len = (uint32_t)body.len;
	wide_len = body.len;
	if (wide)
		put(&info, &escape, 4);
	put(&info, wide ? (void *)&wide_len : (void *)&len, wide ? 8 : 4);
	put(&info, body.data, body.len);
	ht_buf_fini(&body);
}

static struct ht_span span(const struct ht_buf *buf)
{
	return (struct ht_span){ (const uint8_t *)buf->data, buf->len };
}

static int add(uint64_t *sum)
{
	struct ht_span i = span(&info), t = span(&tables);

	return ht_bulk_add_units(&i, &t, sum);
}

static void sum_is(uint64_t want)
{
	uint64_t sum = 0;

	ck_ok(add(&sum));
	ck_assert_uint_eq(sum, want);
}

START_TEST(each_has_its_copy)
{
	start();
	sum_is(0);
	/* 9 bytes, with a constant in the table; 1 byte. */
	put(&tables, "\1\x11\0\x3\x21\x7f\0\0\0" "\0", 10);
	sum_is(0);
	unit(4, 0, false);
	sum_is(9);
	unit(5, 0, false);
	unit(4, 9, true);
	unit(5, 0, true);
	unit(4, 10, false);	/* nowhere */
	unit(4, UINT64_MAX, true);
	sum_is(9 + 9 + 1 + 9);
	/* Not all of a unit is there. */
	put(&info, "\100\0\0\0\4\0", 6);
	sum_is(28);
	start();
}
END_TEST

/* libdw may read more of it than we can. */
START_TEST(tables_that_cannot_be_read)
{
	start();
	put(&tables, "\1\x11\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\0\0\0", 19);
	unit(4, 0, false);
	sum_is(19);
	start();
	put(&tables, "\1\x11\0\3", 4);
	unit(4, 1, false);
	sum_is(3);
	start();
}
END_TEST

/* The units of a small file share a large table. */
START_TEST(a_bomb)
{
	uint64_t sum = 0;

	start();
	for (size_t i = 0; i < 100000; i++)
		put(&tables, "\1\x34\0\0\0", 5);
	put(&tables, "", 1);
	for (size_t i = 0; i < 100; i++)
		unit(4, 0, false);
	ck_ok(add(&sum));
	for (size_t i = 0; i < 100; i++)
		unit(4, 5 * i, false);
	sum = 0;
	ck_assert_int_eq(add(&sum), -E2BIG);
	start();
}
END_TEST

int main(void)
{
	return ht_check_run("bulk", (const TTest *const[]){
		each_has_its_copy, tables_that_cannot_be_read, a_bomb, NULL });
}
