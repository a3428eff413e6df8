/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ht_check.h"
#include "symbol/jit-priv.h"

static struct ht_ranges ranges;

static void add(uint64_t start, uint64_t size, const char *name)
{
	ck_ok(ht_ranges_add(&ranges, start, size, name, strlen(name)));
}

static void check(uint64_t addr, const char *expected)
{
	const char *name = ht_ranges_find(&ranges, addr);

	if (expected) {
		ck_assert_msg(name != NULL, "%#lx", addr);
		ck_assert_str_eq(name, expected);
	} else {
		ck_assert_msg(name == NULL, "%#lx: %s", addr, name);
	}
}

START_TEST(ends_and_gaps)
{
	ck_ok(ht_ranges_index(&ranges));
	check(0, NULL);
	add(0x2000, 0x10, "b");
	add(0x1000, 0x10, "a");
	ck_ok(ht_ranges_index(&ranges));
	check(0xfff, NULL);
	check(0x1000, "a");
	check(0x100f, "a");
	check(0x1010, NULL);
	check(0x1fff, NULL);
	check(0x200f, "b");
	check(0x2010, NULL);
	ht_ranges_clear(&ranges);
	ck_ok(ht_ranges_index(&ranges));
	check(0x1000, NULL);
	ht_ranges_fini(&ranges);
}
END_TEST

START_TEST(the_newer_one_hides)
{
	add(0x1000, 0x100, "large");
	add(0x1040, 0x10, "inside");
	add(0x10f0, 0x20, "over the end");
	add(0x0ff0, 0x18, "over the start");
	ck_ok(ht_ranges_index(&ranges));
	check(0x0ff0, "over the start");
	check(0x1007, "over the start");
	check(0x1008, "large");
	check(0x1040, "inside");
	check(0x1050, "large");
	check(0x10ef, "large");
	check(0x10f0, "over the end");
	check(0x110f, "over the end");
	check(0x1110, NULL);
	/* The same place once more, and then all of it. */
	add(0x1040, 0x10, "again");
	ck_ok(ht_ranges_index(&ranges));
	check(0x1040, "again");
	add(0, 0x10000, "all");
	ck_ok(ht_ranges_index(&ranges));
	check(0x1040, "all");
	check(0xffff, "all");
	ck_assert_uint_eq(ranges.pieces.len, 1);
	ht_ranges_fini(&ranges);
}
END_TEST

/* Beside a table of names, one for each address. */
START_TEST(any_order)
{
	enum { SPACE = 512, MANY = 300 };
	int owner[SPACE];
	unsigned round, i, at;

	srand(1);
	for (round = 0; round < 50; round++) {
		memset(owner, 0xff, sizeof(owner));
		ht_ranges_clear(&ranges);
		for (i = 0; i < MANY; i++) {
			unsigned start = (unsigned)rand() % (SPACE - 1);
			unsigned size = 1 + (unsigned)rand() % ht_min(SPACE - start, 64u);
			char name[16];

			snprintf(name, sizeof(name), "%u", i);
			add(start, size, name);
			for (at = start; at < start + size; at++)
				owner[at] = (int)i;
			if (i % 7 == 0)
				ck_ok(ht_ranges_index(&ranges));
		}
		ck_ok(ht_ranges_index(&ranges));
		for (at = 0; at < SPACE; at++) {
			const char *name = ht_ranges_find(&ranges, at);

			ck_assert_int_eq(name ? atoi(name) : -1, owner[at]);
		}
	}
	ht_ranges_fini(&ranges);
}
END_TEST

START_TEST(what_is_refused)
{
	size_t i;

	ck_assert_int_eq(ht_ranges_add(&ranges, 0x1000, 0, "a", 1), -EINVAL);
	ck_assert_int_eq(ht_ranges_add(&ranges, 0x1000, 1, "", 0), -EINVAL);
	ck_assert_int_eq(ht_ranges_add(&ranges, UINT64_MAX, 1, "a", 1), -EINVAL);
	ck_assert_int_eq(ht_ranges_add(&ranges, 0x1000, UINT64_MAX, "a", 1), -EINVAL);
	for (i = 0; i < HT_RANGES_MAX; i++)
		ck_ok(ht_ranges_add(&ranges, i, 1, "a", 1));
	ck_assert_int_eq(ht_ranges_add(&ranges, i, 1, "a", 1), -ENOSPC);
	ck_ok(ht_ranges_index(&ranges));
	check(HT_RANGES_MAX - 1, "a");
	check(HT_RANGES_MAX, NULL);
	ht_ranges_fini(&ranges);
}
END_TEST

int main(void)
{
	return ht_check_run("ranges", (const TTest *const[]){
		ends_and_gaps, the_newer_one_hides, any_order, what_is_refused, NULL });
}
