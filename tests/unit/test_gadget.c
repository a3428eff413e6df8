/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fake_proc.h"
#include "ht_check.h"

#define MAP_LINE "%llx-%llx %s 00000000 08:01 7 %s\n"

static const uint8_t call[] = { 0x0f, 0x05, 0xc3 }, pop[] = { 0x58, 0xc3 };
static const uint8_t checked[] = { 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x73, 0x01,
				   0xc3 };
static struct fake_proc fake;
static struct ht_gadgets found;
static char maps[1024];

static void start(void)
{
	fake_proc_start(&fake);
	maps[0] = '\0';
	memset(&found, 0, sizeof(found));
}

/* An area whose last byte is there, but no code. */
static void add_area(ht_addr_t at, size_t len, const char *prot, const char *path)
{
	size_t n = strlen(maps);

	snprintf(maps + n, sizeof(maps) - n, MAP_LINE, (unsigned long long)at,
		 (unsigned long long)at + len, prot, path);
	fake_proc_text(&fake, "maps", maps);
	fake_proc_poke(&fake, at + len - 1, "\xcc", 1);
}

#define PUT(at, code) fake_proc_poke(&fake, at, code, sizeof(code))

static int find(void)
{
	return ht_gadgets_find(&fake.target, &found);
}

START_TEST(libc_before_others)
{
	start();
	add_area(0x10000, 0x1000, "r-xp", "/usr/bin/app");
	add_area(0x20000, 0x1000, "r-xp", "/lib/libc.so.6");
	add_area(0x30000, 0x1000, "r-xp", "[vdso]");
	PUT(0x30100, call);
	PUT(0x30200, pop);
	ck_ok(find());
	ck_assert_uint_eq(found.syscall_ret, 0x30100);
	/* Each from the best that has it. */
	PUT(0x10100, call);
	ck_ok(find());
	ck_assert_uint_eq(found.syscall_ret, 0x10100);
	ck_assert_uint_eq(found.pop_result, 0x30200);
	PUT(0x20100, call);
	PUT(0x20ffe, pop);
	ck_ok(find());
	ck_assert_uint_eq(found.syscall_ret, 0x20100);
	ck_assert_uint_eq(found.pop_result, 0x20ffe);
	fake_proc_stop(&fake);
}
END_TEST

/* What can be unmapped, written or isn't code is no place to stand on. */
START_TEST(only_text_of_files)
{
	static const char *const rows[][2] = {
		{ "rwxp", "/lib/libc.so.6" }, { "r--p", "/lib/libc.so.6" },
		{ "--xp", "/lib/libc.so.6" }, { "r-xp", "" }, { "r-xp", "[heap]" },
		{ "r-xp", "[vsyscall]" },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		start();
		add_area(0x10000, 0x1000, rows[i][0], rows[i][1]);
		PUT(0x10100, call);
		PUT(0x10200, pop);
		ck_assert_msg(find() == -ENOENT, "%s %s", rows[i][0], rows[i][1]);
		ck_assert_uint_eq(found.syscall_ret, 0);
		fake_proc_stop(&fake);
	}
}
END_TEST

START_TEST(both_or_none)
{
	start();
	add_area(0x10000, 0x1000, "r-xp", "/lib/ld-musl-x86_64.so.1");
	ck_assert_int_eq(find(), -ENOENT);
	PUT(0x10100, call);
	ck_assert_int_eq(find(), -ENOENT);
	PUT(0x10200, pop);
	ck_ok(find());
	fake_proc_stop(&fake);
}
END_TEST

/* A call with libc's check of its result is the second choice, wherever it is. */
START_TEST(checked_calls_come_last)
{
	start();
	add_area(0x10000, 0x1000, "r-xp", "/lib/libc.so.6");
	add_area(0x20000, 0x1000, "r-xp", "[vdso]");
	PUT(0x10100, checked);
	PUT(0x10200, pop);
	ck_ok(find());
	ck_assert_uint_eq(found.syscall_ret, 0x10100);
	PUT(0x20100, call);
	ck_ok(find());
	ck_assert_uint_eq(found.syscall_ret, 0x20100);
	fake_proc_stop(&fake);
}
END_TEST

/* Large texts are read piece by piece; code may lie on a seam. */
START_TEST(across_the_pieces)
{
	size_t at;

	start();
	add_area(0x100000, 0x40000, "r-xp", "/lib/libc.so.6");
	PUT(0x100000 + 0x30000, pop);
	for (at = 0x10000 - 20; at < 0x10000 + 4; at++) {
		static const uint8_t none[sizeof(checked)];

		PUT(0x100000 + at, checked);
		ck_ok(find());
		ck_assert_uint_eq(found.syscall_ret, 0x100000 + at);
		PUT(0x100000 + at, none);
	}
	fake_proc_stop(&fake);
}
END_TEST

START_TEST(a_text_is_looked_at_for_64_MiB)
{
	const size_t limit = 64 << 20;

	start();
	add_area(0x100000, limit + 0x1000, "r-xp", "/lib/libc.so.6");
	PUT(0x100000 + limit - 2, call);
	PUT(0x100000 + 8, pop);
	ck_assert_int_eq(find(), -ENOENT);
	PUT(0x100000 + limit - 3, call);
	ck_ok(find());
	ck_assert_uint_eq(found.syscall_ret, 0x100000 + limit - 3);
	fake_proc_stop(&fake);
}
END_TEST

START_TEST(memory_that_is_gone)
{
	start();
	add_area(0x10000, 0x1000, "r-xp", "/lib/libc.so.6");
	PUT(0x10100, call);
	PUT(0x10200, pop);
	/* An area behind all memory costs nothing but itself. */
	snprintf(maps + strlen(maps), sizeof(maps) - strlen(maps), MAP_LINE, 0x7f0000000000ull,
		 0x7f0000001000ull, "r-xp", "/lib/libc.so.6");
	fake_proc_text(&fake, "maps", maps);
	ck_ok(find());
	fake_proc_text(&fake, "maps", "");
	ck_assert_int_lt(find(), 0);
	fake_proc_stop(&fake);
}
END_TEST

START_TEST(still_there)
{
	struct ht_gadgets *g = &fake.target.gadgets;

	start();
	add_area(0x10000, 0x1000, "r-xp", "/lib/libc.so.6");
	PUT(0x10100, call);
	PUT(0x10200, pop);
	PUT(0x10300, checked);
	ck_assert(!ht_gadgets_hold(&fake.target));
	ck_ok(ht_gadgets_find(&fake.target, g));
	ck_assert(ht_gadgets_hold(&fake.target));
	g->syscall_ret = 0x10300;
	ck_assert(ht_gadgets_hold(&fake.target));
	/* Beside it; changed; behind the end. */
	g->syscall_ret = 0x102ff;
	ck_assert(!ht_gadgets_hold(&fake.target));
	g->syscall_ret = 0x10100;
	fake_proc_poke(&fake, 0x10102, "\xcc", 1);
	ck_assert(!ht_gadgets_hold(&fake.target));
	PUT(0x10100, call);
	fake_proc_poke(&fake, 0x10201, "\xcc", 1);
	ck_assert(!ht_gadgets_hold(&fake.target));
	PUT(0x10200, pop);
	ck_assert(ht_gadgets_hold(&fake.target));
	/* At the very end of all memory. */
	PUT(0x10ffd, call);
	g->syscall_ret = 0x10ffd;
	ck_assert(ht_gadgets_hold(&fake.target));
	g->pop_result = 0x20000;
	ck_assert(!ht_gadgets_hold(&fake.target));
	fake_proc_stop(&fake);
}
END_TEST

int main(void)
{
	return ht_check_run("gadget", (const TTest *const[]){
		libc_before_others, only_text_of_files, both_or_none,
		checked_calls_come_last, across_the_pieces,
		a_text_is_looked_at_for_64_MiB, memory_that_is_gone, still_there, NULL });
}
