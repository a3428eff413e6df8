/* SPDX-License-Identifier: Apache-2.0
 *
 * What the options do. Which values they refuse is in tests/cli/attach-options.test.
 */
#include <string.h>

#include "cmd/record.h"
#include "ht_check.h"

static const struct ht_option *const tables[] = { ht_record_option_table, NULL };
static const struct ht_command command = {
	.name = "try", .synopsis = "", .summary = "", .options = tables,
};

static struct ht_record_options o;
static struct ht_err err;

static int parse(const char *arg)
{
	char *argv[] = { (char *)"try", (char *)arg, NULL }, **operands;

	err = (struct ht_err){ HT_ERR_NONE, "" };
	return ht_cmd_parse(&command, 2, argv, &o, &operands, &err);
}

static void set(const char *arg)
{
	int r = parse(arg);

	ck_assert_msg(r == 0, "%s: %s", arg, err.text);
}

static void fresh(void)
{
	o = (struct ht_record_options)HT_RECORD_OPTIONS_INIT;
}

START_TEST(defaults)
{
	fresh();
	ck_assert_uint_eq(o.tap.interval, 64 * 1024);
	ck_assert_uint_eq(o.tap.ring_size, 8 * 1024 * 1024);
	ck_assert_uint_eq(o.tap.max_stack, 128 * 1024);
	ck_assert_uint_eq(o.duration_ns, 0);
	ck_assert(!o.tap.block && !o.quiet && !o.verbose && !o.no_progress && !o.format);
	ck_assert_int_eq(o.color, HT_COLOR_AUTO);
	ck_assert_int_eq(o.tap.loader, HT_LOADER_AUTO);
}
END_TEST

START_TEST(bytes)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{ "0", 0 }, { "1", 1 }, { "007", 7 }, { "1k", 1024 }, { "64K", 65536 },
		{ "64KiB", 65536 }, { "64kB", 65536 }, { "2M", 2 << 20 },
		{ "3MiB", 3 << 20 }, { "1024G", UINT64_C(1) << 40 }, { "1t", UINT64_C(1) << 40 },
		{ "1099511627776", UINT64_C(1) << 40 },
	};
	char arg[64];

	fresh();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		snprintf(arg, sizeof(arg), "--interval=%s", cases[i].text);
		set(arg);
		ck_assert_uint_eq(o.tap.interval, cases[i].bytes);
	}
	set("-i5");
	ck_assert_uint_eq(o.tap.interval, 5);
	set("--min-size=4K");
	ck_assert_uint_eq(o.tap.min_size, 4096);
	set("--ring-size=1G");
	ck_assert_uint_eq(o.tap.ring_size, UINT64_C(1) << 30);
	set("--max-stack=8M");
	ck_assert_uint_eq(o.tap.max_stack, UINT64_C(8) << 20);
}
END_TEST

/* One more than fits, where shifting would drop it. */
START_TEST(shifts_that_overflow)
{
	static const char *const large[] = {
		"--interval=16777217T", "--interval=18014398509481984K",
		"--interval=99999999999999999999999G", "--min-size=1025G",
	};

	fresh();
	for (size_t i = 0; i < ARRAY_SIZE(large); i++) {
		ck_assert_int_eq(parse(large[i]), -ERANGE);
		ck_assert_uint_eq(o.tap.interval, HT_DEFAULT_INTERVAL);
		ck_assert_uint_eq(o.tap.min_size, 0);
	}
}
END_TEST

START_TEST(durations)
{
	static const struct {
		const char *arg;
		uint64_t ns;
	} cases[] = {
		{ "-d1", UINT64_C(1000000000) }, { "-d.5", UINT64_C(500000000) },
		{ "--duration=3.", UINT64_C(3000000000) }, { "-d0.001", 1000000 },
		{ "-d316224000", UINT64_C(316224000000000000) },
	};

	fresh();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		set(cases[i].arg);
		ck_assert_uint_eq(o.duration_ns, cases[i].ns);
	}
	ck_assert_int_eq(parse("-d0.0009"), -ERANGE);
	ck_assert_int_eq(parse("-d316224001"), -ERANGE);
	ck_assert_uint_eq(o.duration_ns, UINT64_C(316224000000000000));
}
END_TEST

/* The last one counts, also when it says less than the one before. */
START_TEST(blocking)
{
	fresh();
	set("--block=100");
	ck_assert(o.tap.block && o.tap.block_us == 100);
	set("--block");
	ck_assert(o.tap.block && o.tap.block_us == 0);
	set("--block=10000000");
	ck_assert_uint_eq(o.tap.block_us, 10000000);
}
END_TEST

START_TEST(words)
{
	fresh();
	set("--loader=map");
	ck_assert_int_eq(o.tap.loader, HT_LOADER_MAP);
	set("--loader=dlopen");
	ck_assert_int_eq(o.tap.loader, HT_LOADER_DLOPEN);
	set("--loader=auto");
	ck_assert_int_eq(o.tap.loader, HT_LOADER_AUTO);
	set("--color=always");
	ck_assert_int_eq(o.color, HT_COLOR_ALWAYS);
	set("--color=never");
	ck_assert_int_eq(o.color, HT_COLOR_NEVER);
	set("--progress=never");
	ck_assert(o.no_progress);
	set("--progress=auto");
	ck_assert(!o.no_progress);
	set("--limit=all");
	ck_assert_uint_eq(o.limit, UINT_MAX);
	set("--limit=25");
	ck_assert_uint_eq(o.limit, 25);
	/* It stands for "all" inside, and isn't a number that can be given. */
	ck_assert_int_eq(parse("--limit=4294967295"), -EINVAL);
	ck_assert_int_eq(parse("--limit=4294967297"), -EINVAL);
	set("--limit=4294967294");
	ck_assert_uint_eq(o.limit, UINT_MAX - 1);
	set("-qv");
	ck_assert(o.quiet && o.verbose);
}
END_TEST

START_TEST(every_format_by_name)
{
	char arg[64];

	fresh();
	for (size_t i = 0; ht_report_formats[i]; i++) {
		snprintf(arg, sizeof(arg), "--format=%s", ht_report_formats[i]->name);
		set(arg);
		ck_assert_ptr_eq(o.format, ht_report_formats[i]);
	}
}
END_TEST

START_TEST(outputs)
{
	char args[HT_OUTPUTS_MAX + 1][32];

	fresh();
	for (int i = 0; i < HT_OUTPUTS_MAX; i++) {
		snprintf(args[i], sizeof(args[i]), "-of%d.txt", i);
		set(args[i]);
	}
	ck_assert_int_eq(parse("-oone-more.txt"), -E2BIG);
	ck_assert_uint_eq(o.n_paths, HT_OUTPUTS_MAX);
	ck_assert_str_eq(o.paths[0], "f0.txt");
	ck_assert_str_eq(o.paths[HT_OUTPUTS_MAX - 1], "f15.txt");
	fresh();
	set("-oa.txt");
	ck_assert_int_eq(parse("--output=a.txt"), -EEXIST);
	ck_assert_uint_eq(o.n_paths, 1);
}
END_TEST

/* Each has its own id and name, and --help lists them all within a terminal. */
START_TEST(the_table_is_consistent)
{
	size_t n = 0;

	for (const struct ht_option *a = ht_record_option_table; a->name; a++, n++) {
		ck_assert_ptr_nonnull(a->set);
		ck_assert_int_ne(a->id, 'h');
		for (const struct ht_option *b = a + 1; b->name; b++) {
			ck_assert_int_ne(a->id, b->id);
			ck_assert_str_ne(a->name, b->name);
		}
	}
	/* --help, and what a command has of its own. */
	ck_assert_uint_lt(n, HT_OPTIONS_MAX - 4);
}
END_TEST

int main(void)
{
	return ht_check_run("options", (const TTest *const[]){
		defaults, bytes, shifts_that_overflow, durations, blocking, words,
		every_format_by_name, outputs, the_table_is_consistent, NULL });
}
