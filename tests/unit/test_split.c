/* SPDX-License-Identifier: Apache-2.0
 *
 * Units of split DWARF made by hand: their ranges, and what is wrong with hostile ones. What
 * compilers write is in test_lines.c.
 */
#include <dwarf.h>
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "ht_check.h"
#include "symbol/symbol-priv.h"

#define ID UINT64_C(0x123456789abcdef)
#define BASE 0x1000

enum { CU = 1, INDEXED, PLACED, NUMBERED, OLD_CU, ADDRESSED };

static const uint8_t abbrevs[] = {
	CU, DW_TAG_compile_unit, 1, 0, 0,
	INDEXED, DW_TAG_subprogram, 0, DW_AT_ranges, DW_FORM_rnglistx, 0, 0,
	PLACED, DW_TAG_subprogram, 0, DW_AT_low_pc, DW_FORM_addrx, DW_AT_high_pc,
	DW_FORM_data1, 0, 0,
	NUMBERED, DW_TAG_subprogram, 0, DW_AT_ranges, DW_FORM_sec_offset, 0, 0,
	/* DW_AT_GNU_dwo_id */
	OLD_CU, DW_TAG_compile_unit, 1, 0xb1, 0x42, DW_FORM_data8, 0, 0,
	ADDRESSED, DW_TAG_subprogram, 0, DW_AT_low_pc, 0x81, 0x3e, DW_AT_high_pc,
	DW_FORM_data1, 0, 0,		/* DW_FORM_GNU_addr_index */
	0,
};

static const uint64_t addresses[] = { 0x5000, 0x6000 };

static struct ht_buf info, lists;
static struct ht_unit_parts parts;
static struct ht_split *split;

static void bytes(struct ht_buf *buf, const char *data, size_t len)
{
	ck_ok(ht_buf_append(buf, data, len));
}
#define BYTES(buf, text) bytes(buf, text, sizeof(text) - 1)

static void u64(struct ht_buf *buf, uint64_t value)
{
	ck_ok(ht_buf_append(buf, &value, 8));
}

static void start_new(void)
{
	info = lists = (struct ht_buf)HT_BUF_INIT;
	BYTES(&info, "....\5\0\5\10\0\0\0\0");
	u64(&info, ID);
	BYTES(&info, "\1");
}

static void start_old(void)
{
	info = lists = (struct ht_buf)HT_BUF_INIT;
	BYTES(&info, "....\4\0\0\0\0\0\10\5");
	u64(&info, ID);
}

static struct ht_span span(const struct ht_buf *buf)
{
	return (struct ht_span){ (const uint8_t *)buf->data, buf->len };
}

static int make(void)
{
	uint32_t len;

	BYTES(&info, "\0");
	len = (uint32_t)info.len - 4;
	memcpy(info.data, &len, 4);
	parts = (struct ht_unit_parts){ .base = BASE };
	parts.at[HT_PART_INFO] = span(&info);
	parts.at[HT_PART_ABBREV] = (struct ht_span){ abbrevs, sizeof(abbrevs) };
	parts.at[HT_PART_ADDR] = (struct ht_span){ (const uint8_t *)addresses,
						   sizeof(addresses) };
	parts.at[HT_PART_RNGLISTS] = span(&lists);
	parts.ranges = span(&lists);
	split = NULL;
	return ht_split_new(&parts, ID, &split);
}

static void done(void)
{
	split = ht_split_free(split);
	ck_assert_ptr_null(split);
	ht_buf_fini(&info);
	ht_buf_fini(&lists);
}

/* The nth child's ranges, as "lo-hi lo-hi", in hex. */
static void ranges_are(unsigned n, const char *want)
{
	_cleanup_(ht_buf_fini) struct ht_buf text = HT_BUF_INIT;
	struct ht_pcs_at at = { .offset = 0 };
	uint64_t lo, hi;
	Dwarf_Die die;

	ck_assert_int_eq(dwarf_child(ht_split_cu(split), &die), 0);
	while (n--)
		ck_assert_int_eq(dwarf_siblingof(&die, &die), 0);
	while (ht_pcs_next(split, &die, &at, &lo, &hi))
		ht_buf_printf(&text, "%s%lx-%lx", text.len ? " " : "", lo, hi);
	ck_assert(!ht_pcs_next(split, &die, &at, &lo, &hi));
	ck_assert_str_eq(text.data ? text.data : "", want);
}

/* The header of .debug_rnglists.dwo with two lists. */
static void header(const char *offsets)
{
	BYTES(&lists, "\100\0\0\0\5\0\10\0\2\0\0\0");
	bytes(&lists, offsets, 8);
}

START_TEST(lists_by_index)
{
	start_new();
	BYTES(&info, "\2\0" "\2\1" "\2\2" "\2\377\377\377\377\377\377\1" "\3\1\20" "\3\7\20");
	header("\10\0\0\0\14\0\0\0");
	BYTES(&lists, "\4\1\2\0" "\4\20\40\1\1\4\1\2\3\0\5");
	ck_assert_uint_lt(lists.len, 64);
	while (lists.len < 68)
		BYTES(&lists, "\0");
	ck_ok(make());
	ranges_are(0, "1001-1002");
	/* A pair by the unit's base, a base by index, a pair, a start by index with a length. */
	ranges_are(1, "1010-1020 6001-6002 5000-5005");
	ranges_are(2, "");
	ranges_are(3, "");
	ranges_are(4, "6000-6010");
	ranges_are(5, "");
	done();
}
END_TEST

START_TEST(lists_by_place)
{
	start_new();
	BYTES(&info, "\4\24\0\0\0" "\4\0\0\0\0" "\4\1\0\0\0" "\4\377\377\377\377");
	header("\10\0\0\0\14\0\0\0");
	BYTES(&lists, "\4\1\2\0");
	while (lists.len < 68)
		BYTES(&lists, "\0");
	ck_ok(make());
	ranges_are(0, "1001-1002");
	ranges_are(1, "");
	ranges_are(2, "");
	ranges_are(3, "");
	done();
}
END_TEST

START_TEST(older_lists)
{
	start_old();
	BYTES(&info, "\4\0\0\0\0" "\4\60\0\0\0" "\4\377\377\377\377" "\6\1\20");
	u64(&lists, 1);
	u64(&lists, 2);
	u64(&lists, UINT64_MAX);
	u64(&lists, 0x7000);
	u64(&lists, 3);
	u64(&lists, 4);
	u64(&lists, 0);		/* the end; the list from 0x30 on */
	u64(&lists, 0);
	u64(&lists, 5);
	u64(&lists, 6);
	u64(&lists, 7);		/* cut short */
	ck_ok(make());
	ranges_are(0, "1001-1002 7003-7004");
	ranges_are(1, "");
	ranges_are(2, "");
	ranges_are(3, "6000-6010");
	ht_split_free(split);
	/* From where the skeleton says. */
	parts.ranges_base = 0x40;
	ck_ok(ht_split_new(&parts, ID, &split));
	ranges_are(0, "1005-1006");
	parts.ranges_base = UINT64_MAX;
	ht_split_free(split);
	ck_ok(ht_split_new(&parts, ID, &split));
	ranges_are(1, "");
	done();
}
END_TEST

START_TEST(not_this_unit)
{
	start_new();
	ck_ok(make());
	ht_split_free(split);
	split = NULL;
	ck_assert_int_eq(ht_split_new(&parts, ID + 1, &split), -ESTALE);
	parts.at[HT_PART_ABBREV].len = 0;
	ck_assert_int_eq(ht_split_new(&parts, ID, &split), -EBADMSG);
	parts.at[HT_PART_ABBREV].len = 3;
	ht_split_free(ht_split_new(&parts, ID, &split) == 0 ? split : NULL);
	split = NULL;
	done();
}
END_TEST

/* Cut anywhere, and any byte wrong: any answer, but from inside the parts. */
START_TEST(hostile_units)
{
	struct ht_pcs_at at;
	uint64_t lo, hi;
	Dwarf_Die die;

	for (size_t len = 5; len < 40; len++) {
		for (unsigned wrong = 0; wrong < 256; wrong += 51) {
			start_new();
			BYTES(&info, "\2\1\3\1\20\4\24\0\0\0");
			header("\10\0\0\0\14\0\0\0");
			BYTES(&lists, "\4\1\2\0\4\20\40\1\1\4\1\2\3\0\5");
			info.len = ht_min(info.len, len);
			info.data[info.len - 1] = (char)wrong;
			if (make() == 0 && dwarf_child(ht_split_cu(split), &die) == 0) {
				at = (struct ht_pcs_at){ .offset = 0 };
				while (ht_pcs_next(split, &die, &at, &lo, &hi))
					;
			}
			done();
		}
	}
}
END_TEST

int main(void)
{
	return ht_check_run("split", (const TTest *const[]){
		lists_by_index, lists_by_place, older_lists, not_this_unit, hostile_units,
		NULL });
}
