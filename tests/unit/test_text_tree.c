/* SPDX-License-Identifier: Apache-2.0
 *
 * One section of the text report: what is shown of a tree of callers, and what is run
 * together or left out. Whole reports, and widths, are in test_text.c.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "fake_recording.h"
#include "ht_check.h"
#include "report/report-priv.h"

static struct fake fake;
static struct ht_buf out;
static struct ht_report_options options;

static void start(void)
{
	fake_init(&fake);
	fake.recording.interval = 0;
	out = (struct ht_buf)HT_BUF_INIT;
	options = (struct ht_report_options){ .width = 0 };
}

static void end(void)
{
	ht_buf_fini(&out);
	fake_fini(&fake);
}

/* "leaf caller caller ...", each in "NAME.c", line 1. */
static void site(double bytes, const char *stack)
{
	struct ht_frame frames[40];
	char copy[256], file[64], *save = NULL;
	size_t n = 0;

	snprintf(copy, sizeof(copy), "%s", stack);
	for (char *name = strtok_r(copy, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
		snprintf(file, sizeof(file), "/src/%s.c", name);
		frames[n++] = fake_function(&fake, 0, name, file, 1);
	}
	fake_site(&fake, frames, n, HT_STACK_COMPLETE, bytes, 1, 1, 2);
}

static const char *section(enum ht_metric metric)
{
	ht_buf_clear(&out);
	ck_ok(ht_buf_puts(&out, ""));
	ck_ok(ht_text_sites(&fake.recording, &options, metric, &out));
	return out.data;
}

static void has(const char *text)
{
	if (!strstr(out.data, text))
		ck_abort_msg("no \"%s\" in:\n%s", text, out.data);
}

static void has_not(const char *text)
{
	if (strstr(out.data, text))
		ck_abort_msg("\"%s\" in:\n%s", text, out.data);
}

/* How often. */
static size_t count(const char *text)
{
	size_t n = 0;

	for (const char *at = out.data; (at = strstr(at, text)) != NULL; at++)
		n++;
	return n;
}

START_TEST(nothing_is_no_section)
{
	struct ht_frame frame;

	start();
	ck_assert_str_eq(section(HT_METRIC_LIVE), "");
	/* All of it was freed. */
	frame = fake_function(&fake, 0, "leaf", NULL, 0);
	fake_site(&fake, &frame, 1, HT_STACK_COMPLETE, 0, 0, 0, 1);
	ck_assert_str_eq(section(HT_METRIC_LIVE), "");
	end();
}
END_TEST

START_TEST(each_metric)
{
	start();
	site(1000, "leaf main");
	section(HT_METRIC_LIVE);
	ck_assert_int_eq(strncmp(out.data, "Live by call site ", 18), 0);
	has("  1000 B   100 %");
	section(HT_METRIC_TOTAL);
	ck_assert_int_eq(strncmp(out.data, "Allocated by call site ", 23), 0);
	has("  2.0 KiB   100 %");
	fake_peak(&fake, 5000, 7, 7);
	section(HT_METRIC_PEAK);
	ck_assert_int_eq(strncmp(out.data, "Peak by call site ", 18), 0);
	has("  4.9 KiB   100 %           7  5,000 bytes\n");
	end();
}
END_TEST

/* Half of the samples measure a peak that was: what they may have missed is twice as much. */
START_TEST(bounds_at_the_peak)
{
	start();
	fake.recording.interval = 1 << 20;
	site(1000, "leaf main");
	section(HT_METRIC_PEAK);
	has("at most 6.0 MiB (1 sample)\n");
	fake_peak(&fake, 1000, 1, 1);
	section(HT_METRIC_PEAK);
	has("at most 12.0 MiB (1 sample)\n");
	section(HT_METRIC_LIVE);
	has("at most 6.0 MiB (1 sample)\n");
	end();
}
END_TEST

/* Ten, or as many as were asked for; then one line for the rest. */
START_TEST(limits)
{
	char stack[32];

	start();
	for (int i = 0; i < 12; i++) {
		snprintf(stack, sizeof(stack), "leaf%02d main", i);
		site(100, stack);
	}
	section(HT_METRIC_LIVE);
	ck_assert_uint_eq(count("  leaf"), 10);
	has("\n  2 more functions, 200 B (17 %); --limit=all shows them\n");
	options.limit = 11;
	section(HT_METRIC_LIVE);
	ck_assert_uint_eq(count("  leaf"), 11);
	has("\n  1 more function, 100 B (8.3 %); --limit=all shows them\n");
	options.limit = 12;
	section(HT_METRIC_LIVE);
	ck_assert_uint_eq(count("  leaf"), 12);
	has_not("more");
	options.limit = UINT_MAX;
	section(HT_METRIC_LIVE);
	ck_assert_uint_eq(count("  leaf"), 12);
	end();
}
END_TEST

/* A chain of only callers: three lines, then the others in one. */
START_TEST(only_callers)
{
	start();
	site(100, "leaf a b c d e main");
	section(HT_METRIC_LIVE);
	has("\n    \342\224\224 a  src/a.c:1\n"
	    "      \342\224\224 b  src/b.c:1\n"
	    "        \342\224\224 c  src/c.c:1\n"
	    "          \342\224\224 d \342\206\222 e \342\206\222 main  [3 frames]\n");
	end();
}
END_TEST

/* The middle is what a terminal has no room for: the last one is known to everybody. */
START_TEST(chains_are_cut_in_the_middle)
{
	start();
	site(100, "leaf a b c dddddddddd eeeeeeeeee ffffffffff gggggggggg main");
	options.width = 60;
	section(HT_METRIC_LIVE);
	has(" dddddddddd \342\206\222 eeeeeeeeee \342\206\222 \342\200\246 \342\206\222 main  "
	    "[5 frames]\n");
	options.width = 20;
	section(HT_METRIC_LIVE);
	has("\342\200\246");
	end();
}
END_TEST

START_TEST(recursion)
{
	start();
	site(100, "leaf walk walk walk walk main");
	section(HT_METRIC_LIVE);
	has("\342\224\224 walk \303\2274  src/walk.c:1\n");
	ck_assert_uint_eq(count("walk \303"), 1);
	has("\342\224\224 main  src/main.c:1\n");
	end();
}
END_TEST

/* Branches with their shares, the largest first; four of them, none below 5 %. */
START_TEST(branches)
{
	start();
	site(400, "leaf one main");
	site(300, "leaf two main");
	site(100, "leaf three main");
	site(90, "leaf four main");
	site(80, "leaf five main");
	site(30, "leaf six main");
	section(HT_METRIC_LIVE);
	has("\342\224\234  40 % one ");
	has("\342\224\234  30 % two ");
	has("\342\224\234  10 % three ");
	has("\342\224\234 9.0 % four ");
	has("\342\224\224  11 % 2 more callers\n");
	has_not("five");
	end();
	start();
	site(900, "leaf one main");
	site(60, "leaf two main");
	site(40, "leaf three main");
	section(HT_METRIC_LIVE);
	has("\342\224\234 6.0 % two ");
	has("\342\224\224 4.0 % 1 more caller\n");
	end();
}
END_TEST

/* A caller of nearly everything is shown as the only one. */
START_TEST(dominant_callers)
{
	start();
	site(9800, "leaf a one main");
	site(200, "leaf a two main");
	section(HT_METRIC_LIVE);
	has("\342\224\224 a  src/a.c:1\n      \342\224\224 one  src/one.c:1\n");
	has_not("two");
	end();
	start();
	site(9790, "leaf a one main");
	site(210, "leaf a two main");
	section(HT_METRIC_LIVE);
	has("  98 % one");
	has("2.1 % 1 more caller\n");
	end();
}
END_TEST

/* Whole trees of branches end somewhere. */
START_TEST(branches_below_branches)
{
	char stack[128];

	start();
	for (unsigned i = 0; i < 256; i++) {
		int len = snprintf(stack, sizeof(stack), "leaf");

		for (unsigned bit = 0; bit < 8; bit++)
			len += snprintf(stack + len, sizeof(stack) - (size_t)len, " f%u%u", bit,
					i >> bit & 1);
		site(100 + (i == 0), stack);
	}
	section(HT_METRIC_LIVE);
	has("f30");
	has_not("f40");
	has("\342\224\224 \342\200\246\n");
	ck_assert_uint_lt(count("\n"), 40);
	end();
}
END_TEST

/* Where callers aren't shown, nobody must take the last one shown for the outermost. */
START_TEST(what_is_not_followed_is_open)
{
	start();
	site(500, "leaf hot main");
	site(200, "leaf cold mid one main");
	site(150, "leaf cold mid two main");
	site(80, "leaf last one main");
	site(70, "leaf last two main");
	section(HT_METRIC_LIVE);
	has(" 35 % cold \342\206\222 mid \342\206\222 \342\200\246  [2 frames]\n");
	has(" 15 % last \342\206\222 \342\200\246  [1 frame]\n");
	end();
}
END_TEST

/* All frames of a chain are on lines, or counted behind what stands for them. */
START_TEST(no_frame_of_a_chain_is_lost)
{
	struct ht_frame frames[64];
	char name[16], tail[64];

	for (size_t depth = 2; depth <= 64; depth += 3) {
		start();
		for (size_t i = 0; i < depth; i++) {
			snprintf(name, sizeof(name), "f%zu_", i);
			frames[i] = fake_function(&fake, 0, name, NULL, 0);
		}
		fake_site(&fake, frames, depth, HT_STACK_COMPLETE, 100, 1, 1, 1);
		for (options.width = 0; options.width < 200; options.width += 40) {
			section(HT_METRIC_LIVE);
			for (size_t i = 0; i < depth && i < 4; i++) {
				snprintf(name, sizeof(name), "f%zu_", i);
				has(name);
			}
			snprintf(name, sizeof(name), "f%zu_", depth - 1);
			has(name);
			snprintf(tail, sizeof(tail), "[%zu frames]\n", depth - 4);
			if (depth > 5)
				has(tail);
			for (size_t i = 4; i < depth && !options.width; i++) {
				snprintf(name, sizeof(name), "f%zu_", i);
				has(name);
			}
		}
		end();
	}
}
END_TEST

/* As deep as stacks can be. */
START_TEST(deep_stacks)
{
	struct ht_frame frames[64];
	char name[16];

	start();
	for (size_t i = 0; i < 64; i++) {
		snprintf(name, sizeof(name), "f%zu", i % 7 ? i : 0);
		frames[i] = fake_function(&fake, 0, name, NULL, 0);
	}
	fake_site(&fake, frames, 64, HT_STACK_WINDOW, 100, 1, 1, 1);
	for (options.width = 0; options.width < 120; options.width += 7) {
		section(HT_METRIC_LIVE);
		/* Why the stack ends is seen where there's room for it. */
		if (!options.width || options.width >= 80)
			has("[the copied stack was too short]  [61 frames]\n");
		ck_assert_uint_lt(count("\n"), 10);
	}
	end();
}
END_TEST

/* Where a function is: its file and line, or its module when they aren't known. */
START_TEST(places)
{
	static const struct {
		const char *file, *shown;
		uint32_t line;
	} cases[] = {
		{ "/a/b/c.c", "f  b/c.c:7", 7 }, { "b/c.c", "f  b/c.c:7", 7 },
		{ "c.c", "f  c.c:7", 7 }, { "/c.c", "f  c.c:7", 7 }, { "/a/b/c.c", "f  b/c.c ", 0 },
		{ "", "f  [redis-server]", 0 }, { NULL, "f  [redis-server]", 0 },
		{ "/", "f  /:7", 7 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ht_frame frame;

		start();
		frame = fake_function(&fake, 0, "f", cases[i].file, cases[i].line);
		fake_site(&fake, &frame, 1, HT_STACK_COMPLETE, 100, 1, 1, 1);
		section(HT_METRIC_LIVE);
		has(cases[i].shown);
		end();
	}
}
END_TEST

/* In a narrow terminal the objects go first, then what names have in brackets. */
START_TEST(columns_by_width)
{
	struct ht_frame frame;

	start();
	fake.recording.interval = 65536;
	frame = fake_function(&fake, 0, "std::map<int, std::string>::operator[](int const&)",
			      "map.h", 7);
	fake_site(&fake, &frame, 1, HT_STACK_COMPLETE, 1 << 20, 1, 1, 1);
	options.width = 130;
	section(HT_METRIC_LIVE);
	has("objects");
	has("  std::map<int, std::string>::operator[](int const&)  map.h:7 ");
	options.width = 60;
	section(HT_METRIC_LIVE);
	has_not("objects");
	has_not("int const&");
	has("  std::map<");
	end();
}
END_TEST

START_TEST(out_of_memory)
{
	start();
	site(100, "leaf main");
	out.failed = true;
	ck_assert_int_eq(ht_text_sites(&fake.recording, &options, HT_METRIC_LIVE, &out),
			 -ENOMEM);
	end();
}
END_TEST

/* Its figures stand below the others' then. */
START_TEST(a_long_name_stands_alone)
{
	char stack[128], *line;
	size_t at;

	start();
	snprintf(stack, sizeof(stack), "%0100d main", 7);
	site(1048576, stack);
	site(2097152, "short main");
	section(HT_METRIC_LIVE);
	line = strstr(out.data, "  short ");
	ck_assert_ptr_nonnull(line);
	at = (size_t)(strstr(line, "2.0 MiB") - line);
	line = strchr(strstr(out.data, "0007"), '\n') + 1;
	ck_assert_uint_eq((size_t)(strstr(line, "1.0 MiB") - line), at);
	end();
}
END_TEST

int main(void)
{
	return ht_check_run("text_tree", (const TTest *const[]){
		nothing_is_no_section, each_metric, bounds_at_the_peak, limits, only_callers,
		chains_are_cut_in_the_middle, recursion, branches, dominant_callers,
		branches_below_branches, deep_stacks, what_is_not_followed_is_open,
		no_frame_of_a_chain_is_lost, places, columns_by_width,
		out_of_memory, a_long_name_stands_alone, NULL });
}
