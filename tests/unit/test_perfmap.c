/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ht_check.h"
#include "symbol/jit-priv.h"

static struct ht_perfmap map;

static void add(const char *text)
{
	ck_ok(ht_perfmap_add(&map, text, strlen(text)));
}

static void check(uint64_t addr, const char *expected)
{
	const char *name;

	ck_ok(ht_ranges_index(&map.ranges));
	name = ht_ranges_find(&map.ranges, addr);
	if (expected) {
		ck_assert_msg(name != NULL, "%#lx", addr);
		ck_assert_str_eq(name, expected);
	} else {
		ck_assert_msg(name == NULL, "%#lx: %s", addr, name);
	}
}

START_TEST(lines_of_several_writers)
{
	add("7f0000001000 40 JS:*keep /srv/app.js:12:3\n"
	    "0x00007f0000002000 0x0000000000000100 void Foo.bar(int)\n"
	    "7F0000003000\t1A\tpy::main:/srv/a.py\r\n"
	    "7f0000004000 10   two spaces   \n");
	check(0x7f0000001000, "JS:*keep /srv/app.js:12:3");
	check(0x7f000000103f, "JS:*keep /srv/app.js:12:3");
	check(0x7f0000001040, NULL);
	check(0x7f00000020ff, "void Foo.bar(int)");
	check(0x7f0000003019, "py::main:/srv/a.py");
	check(0x7f000000301a, NULL);
	check(0x7f0000004000, "two spaces");
	ht_perfmap_fini(&map);
}
END_TEST

START_TEST(the_last_one_wins)
{
	add("1000 100 old\n2000 100 other\n1000 80 new\n");
	check(0x1000, "new");
	check(0x107f, "new");
	check(0x1080, "old");
	add("1000 100 newest\n");
	check(0x1080, "newest");
	ht_perfmap_fini(&map);
}
END_TEST

START_TEST(lines_without_sense)
{
	static const char nul[] = "1000 10 a\0b\n";
	static const char *const lines[] = {
		"", "\n", " \n", "1000\n", "1000 \n", "1000 10\n", "1000 10 \n", "1000 10  \t \n",
		" 1000 10 a\n", "g000 10 a\n", "1000 1g a\n", "-1000 10 a\n", "1000 -1 a\n",
		"1000 0 a\n", "0x 10 a\n", "1000 0x a\n", "11111111111111111 10 a\n",
		"ffffffffffffffff 10 a\n", "1000 ffffffffffffffff a\n",
		"8000000000000000 1 a\n", "1000,10,a\n",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lines); i++)
		add(lines[i]);
	ck_ok(ht_perfmap_add(&map, nul, sizeof(nul) - 1));
	ck_assert_uint_eq(map.ranges.all.len, 0);
	ck_assert(!map.full);
	/* They don't take others along. */
	add("2000 10 good\n");
	check(0x2000, "good");
	ht_perfmap_fini(&map);
}
END_TEST

START_TEST(in_pieces)
{
	static const char text[] = "1000 10 first\n2000 10 second\n3000 10 third";
	size_t i;

	for (i = 0; i < strlen(text); i++)
		ck_ok(ht_perfmap_add(&map, text + i, 1));
	check(0x1000, "first");
	check(0x2000, "second");
	/* Somebody is about to write the rest. */
	check(0x3000, NULL);
	add(" part\n");
	check(0x3000, "third part");
	ht_perfmap_restart(&map, true);
	add("10 the end of a line\n4000 10 whole\n");
	check(0x1000, NULL);
	check(0x10, NULL);
	check(0x4000, "whole");
	ht_perfmap_fini(&map);
}
END_TEST

START_TEST(long_lines_are_cut)
{
	enum { LEN = 3 * HT_PERFMAP_LINE_MAX };
	char *line = malloc(LEN + 1);
	const char *name;

	memset(line, 'x', LEN);
	memcpy(line, "1000 10 ", 8);
	line[LEN] = '\n';
	ck_ok(ht_perfmap_add(&map, line, LEN + 1));
	add("2000 10 next\n");
	check(0x2000, "next");
	name = ht_ranges_find(&map.ranges, 0x1000);
	ck_assert_ptr_nonnull(name);
	ck_assert_uint_eq(strlen(name), HT_PERFMAP_LINE_MAX - 8);
	/* One that never ends takes no memory. */
	memset(line, '1', LEN);
	ck_ok(ht_perfmap_add(&map, line, LEN));
	ck_ok(ht_perfmap_add(&map, line, LEN));
	add("\n3000 10 last\n");
	check(0x3000, "last");
	ck_assert_uint_eq(map.ranges.all.len, 3);
	free(line);
	ht_perfmap_fini(&map);
}
END_TEST

START_TEST(too_many)
{
	size_t i;

	for (i = 0; i < HT_RANGES_MAX + 3; i++)
		add("1 1 a\n");
	ck_assert(map.full);
	ck_assert_uint_eq(map.ranges.all.len, HT_RANGES_MAX);
	ht_perfmap_restart(&map, false);
	ck_assert(!map.full);
	ht_perfmap_fini(&map);
}
END_TEST

int main(void)
{
	return ht_check_run("perfmap", (const TTest *const[]){
		lines_of_several_writers, the_last_one_wins, lines_without_sense, in_pieces,
		long_lines_are_cut, too_many, NULL });
}
