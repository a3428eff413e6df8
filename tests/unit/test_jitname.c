/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ht_check.h"
#include "symbol/jit-priv.h"
#include "symbol/symbol.h"
#include "unwind/module.h"

static struct ht_modules *modules;
static struct ht_jit jit;

static void stop(void)
{
	ht_modules_free(modules);
	ht_map_fini(&jit.seen);
	ht_vec_fini(&jit.nameless);
	ht_vec_fini(&jit.names);
	ht_strings_fini(&jit.strings);
}

static struct ht_frame frame_at(uint64_t addr)
{
	return (struct ht_frame){ .offset = addr, .module = HT_MODULE_NONE };
}

static void see(uint64_t addr)
{
	const struct ht_frame frame = frame_at(addr);

	ck_ok(ht_jit_see(&jit, &frame));
}

START_TEST(each_once)
{
	struct ht_frame frame = frame_at(0x1000);
	const char *kind;

	see(0x1000);
	see(0x1000);
	see(0);
	ck_assert_uint_eq(jit.nameless.len, 2);
	ck_assert_ptr_null(ht_jit_name(&jit, &frame, &kind));
	ck_ok(ht_jit_give_name(&jit, 0xfff, "name", "jit"));
	ck_assert_str_eq(ht_jit_name(&jit, &frame, &kind), "name");
	/* The instruction itself is another place. */
	frame.flags = HT_FRAME_EXACT;
	ck_assert_ptr_null(ht_jit_name(&jit, &frame, &kind));
	ck_ok(ht_jit_see(&jit, &frame));
	ck_assert_uint_eq(jit.nameless.len, 3);
	frame.module = 1;
	ck_ok(ht_jit_see(&jit, &frame));
	ck_assert_uint_eq(jit.nameless.len, 3);
	stop();
}
END_TEST

START_TEST(garbage_is_bounded)
{
	uint64_t addr;

	for (addr = 1; addr < 1 << 19; addr++)
		see(addr << 12);
	ck_assert_uint_lt(jit.seen.len, 1 << 19);
	ck_assert_uint_eq(jit.nameless.len, jit.seen.len);
	stop();
}
END_TEST

/* As reports show them. */
START_TEST(as_they_are_shown)
{
	struct ht_symbol_options options = { .no_lines = true };
	const struct ht_symbol *found;
	struct ht_symbols *symbols;
	struct ht_frame frame = frame_at(0x1004);
	size_t n;

	see(0x1004);
	see(0x2004);
	see(0x3004);
	see(0x4004);
	ck_ok(ht_jit_give_name(&jit, 0x4003, "JS:*keep /srv/a\a.js:12:3", "jit"));
	ck_ok(ht_jit_give_name(&jit, 0x1003, "evil\033[2Jname @x.cold", "jit"));
	ck_ok(ht_jit_give_name(&jit, 0x2003, "_ZN3foo3barEv", "java"));
	options.jit = &jit;
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_symbols_new(modules, &options, &symbols));
	ck_ok(ht_symbols_lookup(symbols, &frame, &found, &n));
	ck_assert_uint_eq(n, 1);
	ck_assert_str_eq(found->name, "evil\\x1b[2Jname @x.cold [jit]");
	ck_assert(!found->unknown && !found->inlined && !found->file);
	frame = frame_at(0x2004);
	ck_ok(ht_symbols_lookup(symbols, &frame, &found, &n));
	ck_assert_str_eq(found->name, "foo::bar() [java]");
	ck_assert_ptr_null(ht_symbols_jit_reason(symbols));
	frame = frame_at(0x4004);
	ck_ok(ht_symbols_lookup(symbols, &frame, &found, &n));
	ck_assert_str_eq(found->name, "keep [jit]");
	ck_assert_str_eq(found->file, "/srv/a\\x07.js");
	ck_assert(found->line == 12 && found->decl_line == 12);
	frame = frame_at(0x3004);
	ck_ok(ht_symbols_lookup(symbols, &frame, &found, &n));
	ck_assert_str_eq(found->name, "0x3003");
	ck_assert(found->unknown);
	ht_symbols_free(symbols);
	stop();
}
END_TEST

START_TEST(why_there_are_none)
{
	struct ht_symbol_options options = { .no_lines = true };
	const struct ht_symbol *found;
	struct ht_symbols *symbols;
	struct ht_frame frame = frame_at(0x1004);
	size_t n;

	strcpy(jit.file.reason, "for a reason");
	see(0x1004);
	options.jit = &jit;
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_symbols_new(modules, &options, &symbols));
	ck_assert_ptr_null(ht_symbols_jit_reason(symbols));
	ck_ok(ht_symbols_lookup(symbols, &frame, &found, &n));
	ck_assert_str_eq(ht_symbols_jit_reason(symbols), "for a reason");
	ht_symbols_free(symbols);
	stop();
}
END_TEST

int main(void)
{
	return ht_check_run("jitname", (const TTest *const[]){
		each_once, garbage_is_bounded, as_they_are_shown, why_there_are_none, NULL });
}
