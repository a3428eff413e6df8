/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole report against files. HT_UPDATE_EXPECTED=1 writes them anew: read the diff.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_recording.h"
#include "ht_check.h"
#include "report/report-priv.h"

static void write_report(struct fake *fake, struct ht_report_options options,
			 struct ht_buf *out)
{
	struct ht_err err = { HT_ERR_NONE, "" };

	ck_ok(ht_report_text.write(&fake->recording, &options, out, &err));
	ck_assert_int_eq(err.kind, HT_ERR_NONE);
}

static void compare(const char *name, struct fake *fake, struct ht_report_options options)
{
	struct ht_buf out = HT_BUF_INIT, expected = HT_BUF_INIT;
	const char *srcdir = getenv("HT_SRCDIR");
	char path[4096];

	snprintf(path, sizeof(path), "%s/tests/expected/%s", srcdir ? srcdir : "..", name);
	write_report(fake, options, &out);
	if (getenv("HT_UPDATE_EXPECTED")) {
		FILE *f = fopen(path, "we");

		ck_assert_ptr_nonnull(f);
		fwrite(out.data, 1, out.len, f);
		fclose(f);
	}
	ck_ok(ht_buf_read_file(&expected, AT_FDCWD, path, 1 << 20));
	if (strcmp(out.data, expected.data) != 0)
		printf("---- %s is now:\n%s----\n", name, out.data);
	ck_assert(strcmp(out.data, expected.data) == 0);
	ht_buf_fini(&out);
	ht_buf_fini(&expected);
}

START_TEST(sampled)
{
	struct fake fake;

	fake_init(&fake);
	fake_redis(&fake);
	compare("report-sampled.txt", &fake, (struct ht_report_options){ .width = 0 });
	compare("report-sampled-80.txt", &fake, (struct ht_report_options){ .width = 80 });
	fake_fini(&fake);
}
END_TEST

START_TEST(exact)
{
	struct fake fake;

	fake_init(&fake);
	fake.recording.interval = 0;
	fake_redis(&fake);
	compare("report-exact.txt", &fake, (struct ht_report_options){ .width = 110 });
	fake_fini(&fake);
}
END_TEST

START_TEST(losses_come_first)
{
	struct fake fake;

	fake_init(&fake);
	fake.recording.lost_allocs = 1204;
	fake.recording.lost_frees = 310;
	fake.recording.cut_stacks = 1;
	fake.recording.ended = "target exited";
	fake_redis(&fake);
	compare("report-lost.txt", &fake, (struct ht_report_options){ .width = 100, .limit = 1 });
	fake_fini(&fake);
}
END_TEST

/* What the report lists besides the first line. */
START_TEST(what_was_left_out)
{
	static const struct ht_untapped untapped[] = {
		{ "mi_valloc", "libmimalloc.so", "a call is in the way", true },
	};
	struct ht_buf out = HT_BUF_INIT;
	struct fake fake;

	fake_init(&fake);
	fake_redis(&fake);
	fake.recording.untapped = untapped;
	fake.recording.n_untapped = 1;
	fake_counters(&fake)->folded = 7;
	write_report(&fake, (struct ht_report_options){ .width = 0 }, &out);
	ck_assert_ptr_nonnull(strstr(out.data, "Not tapped: mi_valloc of libmimalloc.so: a call is in "
					       "the way; what it calls is counted.\n"));
	ck_assert_ptr_nonnull(strstr(out.data, "The table of call sites is full: 7 recorded "
					       "allocations are counted under one without a name.\n"));
	ck_assert_ptr_null(strstr(out.data, "NOT COMPLETE"));
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

START_TEST(little_is_live)
{
	struct fake fake;

	fake_init(&fake);
	fake.recording.interval = 0;
	fake.recording.min_size = 4096;
	struct ht_frame frames[] = { fake_function(&fake, 0, "parse", "src/parse.c", 7),
				     fake_function(&fake, 0, "main", "src/main.c", 9) };
	fake_site(&fake, frames, 2, HT_STACK_COMPLETE, 1000, 10, 10, 100);
	fake_reason(&fake, 0, "its debug sections are malformed", false);
	fake_reason(&fake, HT_MODULE_NONE, "there is no /tmp/perf-1.map", true);
	compare("report-freed.txt", &fake, (struct ht_report_options){ .width = 100 });
	fake_fini(&fake);
}
END_TEST

static void one_site(struct fake *fake, double live, double peak, uint64_t samples)
{
	struct ht_frame frame;

	fake_init(fake);
	fake->recording.interval = samples ? 65536 : 0;
	samples = samples ? samples : 1;
	frame = fake_function(fake, 0, "f", "f.c", 7);
	fake_site(fake, &frame, 1, HT_STACK_COMPLETE, live, 1, samples, 2);
	fake_peak(fake, peak, 1, samples);
}

/* The peak has a list of its own if it is more than 5 % and its error above what is live. */
START_TEST(when_the_peak_is_listed)
{
	static const struct {
		double peak;
		uint64_t samples;	/* 0: exact */
		bool listed;
	} cases[] = {
		{ 1050, 0, false }, { 1060, 0, true }, { 1000, 0, false },
		/* +-10 %, +-1 % */
		{ 1100, 384, false }, { 1120, 384, true },
		{ 1050, 38416, false }, { 1060, 38416, true },
	};
	static const char same[] = "  the peak is about what is live now, so its call sites aren't listed apart\n";

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ht_buf out = HT_BUF_INIT;
		struct fake fake;

		one_site(&fake, 1000, cases[i].peak, cases[i].samples);
		write_report(&fake, (struct ht_report_options){ .width = 80 }, &out);
		ck_assert_msg(!strstr(out.data, "\nPeak by call site") != cases[i].listed,
			      "%zu: %s", i, out.data);
		ck_assert_msg(!strstr(out.data, same) == cases[i].listed, "%zu: %s", i,
			      out.data);
		ht_buf_fini(&out);
		fake_fini(&fake);
	}
}
END_TEST

/* A few samples have no error that could tell them apart. */
START_TEST(a_peak_of_few_samples)
{
	struct ht_buf out = HT_BUF_INIT;
	struct fake fake;

	one_site(&fake, 192 << 10, 512 << 10, 3);
	write_report(&fake, (struct ht_report_options){ .width = 80 }, &out);
	ck_assert_ptr_null(strstr(out.data, "the peak is about"));
	ck_assert_ptr_nonnull(strstr(out.data, "\n  so few samples don't tell whether the peak "
					       "was above what is live now\n"));
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

/* Nothing but what is true of the recording. */
START_TEST(frees_of_unknown_blocks)
{
	static const struct {
		uint64_t interval, min_size;
		bool launched;
		const char *text;
	} cases[] = {
		{ 0, 0, false, ": older than the tap, or given back once more by libc as a thread ended\n" },
		{ 0, 0, true, ": given back once more by libc as a thread ended\n" },
		{ 0, 512, false, ": smaller than 512 B, older than the tap, or given back once more by libc as a thread ended\n" },
		{ 0, 512, true, ": smaller than 512 B, or given back once more by libc as a thread ended\n" },
		{ 65536, 0, false, "\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ht_buf out = HT_BUF_INIT;
		char want[256];
		struct fake fake;

		one_site(&fake, 1000, 1000, cases[i].interval ? 384 : 0);
		fake.recording.min_size = cases[i].min_size;
		fake.recording.launched = cases[i].launched;
		fake_counters(&fake)->unknown_frees = 7;
		snprintf(want, sizeof(want), "\n  not counted: 7 frees of blocks that weren't seen allocated%s",
			 cases[i].text);
		write_report(&fake, (struct ht_report_options){ .width = 0 }, &out);
		ck_assert_msg(strstr(out.data, want) != NULL, "%zu: %s", i, out.data);
		ht_buf_fini(&out);
		fake_fini(&fake);
	}
}
END_TEST

/* What is live is what the peak is; or nothing is live, and it can't be about that. */
START_TEST(the_peak_is_now_or_all_of_it_went)
{
	struct ht_buf out = HT_BUF_INIT;
	struct fake fake;

	one_site(&fake, 1000, 1000, 0);
	fake_counters(&fake)->peak_now = true;
	write_report(&fake, (struct ht_report_options){ .width = 80 }, &out);
	ck_assert_ptr_nonnull(strstr(out.data, "1,000 bytes            now\n"));
	ck_assert_ptr_null(strstr(out.data, "the peak is about"));
	ck_assert_ptr_null(strstr(out.data, "Peak by"));
	ht_buf_clear(&out);
	fake_fini(&fake);

	fake_init(&fake);
	struct ht_frame frame = fake_function(&fake, 0, "f", "f.c", 7);
	fake_site(&fake, &frame, 1, HT_STACK_COMPLETE, 0, 0, 0, 1);
	fake_peak(&fake, 1 << 20, 1, 1);
	fake_counters(&fake)->peak_time_ns = UINT64_C(2000000000);
	write_report(&fake, (struct ht_report_options){ .width = 80 }, &out);
	ck_assert_ptr_nonnull(strstr(out.data, " (1 sample)  at 2.0 s\n"));
	ck_assert_ptr_null(strstr(out.data, "the peak is about"));
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

/* Ten functions in the first list, five in those behind it, or as many as were asked for. */
START_TEST(lists_behind_the_first_are_short)
{
	static const struct {
		unsigned limit, more[3];
	} cases[] = { { 0, { 2, 7, 7 } }, { 11, { 1, 1, 1 } } };
	struct ht_buf out = HT_BUF_INIT;
	struct fake fake;
	char name[16];

	fake_init(&fake);
	for (int i = 0; i < 12; i++) {
		struct ht_frame frame;

		snprintf(name, sizeof(name), "f%d", i);
		frame = fake_function(&fake, 0, name, NULL, 0);
		fake_site(&fake, &frame, 1, HT_STACK_COMPLETE, 1 << 20, 1, 1000, 20);
		fake_peak(&fake, 2 << 20, 1, 1000);
	}
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *at;

		ht_buf_clear(&out);
		write_report(&fake, (struct ht_report_options){ .limit = cases[i].limit }, &out);
		at = out.data;
		for (int list = 0; list < 3; list++) {
			snprintf(name, sizeof(name), "\n  %u more ", cases[i].more[list]);
			at = strstr(at, name);
			ck_assert_msg(at != NULL, "no%s in %s", name, out.data);
			at++;
		}
	}
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

START_TEST(hostile_names)
{
	struct ht_buf out = HT_BUF_INIT;
	struct fake fake;
	unsigned width;
	size_t i;

	fake_init(&fake);
	fake_hostile(&fake);
	compare("report-hostile.txt", &fake, (struct ht_report_options){ .width = 80 });
	for (width = 0; width < 200; width += 3) {
		ht_buf_clear(&out);
		write_report(&fake, (struct ht_report_options){ .width = width,
								.limit = UINT_MAX }, &out);
		for (i = 0; i < out.len; i++)
			ck_assert((unsigned char)out.data[i] >= ' ' || out.data[i] == '\n');
	}
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

/* Tables and trees stay within the terminal; free text is broken at spaces. */
START_TEST(no_line_is_too_wide)
{
	struct ht_buf out = HT_BUF_INIT;
	char *line, *end;
	struct fake fake;
	unsigned width;

	fake_init(&fake);
	fake_redis(&fake);
	fake.recording.lost_frees = 7;
	for (width = 80; width < 160; width++) {
		ht_buf_clear(&out);
		write_report(&fake, (struct ht_report_options){ .width = width,
								.limit = UINT_MAX }, &out);
		for (line = out.data; *line; line = end + 1) {
			end = strchr(line, '\n');
			ck_assert_ptr_nonnull(end);
			*end = '\0';
			ck_assert_msg(ht_columns(line) <= width, "%u: %s", width, line);
		}
	}
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

/* Numbers of the summary are whole, remarks too, however narrow it is. */
START_TEST(the_summary_is_not_cut)
{
	static const unsigned widths[] = { 40, 60, 80 };
	static const uint64_t samples[] = { 0, 3, 384 };

	for (size_t i = 0; i < 9; i++) {
		struct ht_buf out = HT_BUF_INIT;
		struct fake fake;
		char *from, *to;

		one_site(&fake, 14330000000, 15000000000, samples[i / 3]);
		fake_counters(&fake)->peak_time_ns = UINT64_C(25000000000);
		write_report(&fake, (struct ht_report_options){ .width = widths[i % 3] }, &out);
		from = strstr(out.data, "\n  live now ");
		to = from ? strstr(from, "\n\n") : NULL;
		ck_assert(from && to);
		*to = '\0';
		ck_assert_msg(!strstr(from, "\342\200\246"), "%u: %s", widths[i % 3], from);
		ck_assert_ptr_nonnull(strstr(from, " 13.3 GiB"));
		if (widths[i % 3] == 80)
			ck_assert_msg(strstr(from, "at 25.0 s") && strstr(from, "since"), "%s", from);
		ht_buf_fini(&out);
		fake_fini(&fake);
	}
}
END_TEST

/* Without colours there is no escape, with them the text between is the same. */
START_TEST(colours)
{
	struct ht_buf plain = HT_BUF_INIT, coloured = HT_BUF_INIT;
	struct fake fake;
	char *from, *to;

	fake_init(&fake);
	fake_redis(&fake);
	write_report(&fake, (struct ht_report_options){ .width = 90 }, &plain);
	write_report(&fake, (struct ht_report_options){ .width = 90, .color = true }, &coloured);
	ck_assert_ptr_null(strchr(plain.data, '\033'));
	ck_assert_ptr_nonnull(strchr(coloured.data, '\033'));
	for (from = to = coloured.data; *from;) {
		if (*from == '\033')
			from += strcspn(from, "m") + 1;
		else
			*to++ = *from++;
	}
	*to = '\0';
	ck_assert(strcmp(plain.data, coloured.data) == 0);
	ht_buf_fini(&plain);
	ht_buf_fini(&coloured);
	fake_fini(&fake);
}
END_TEST

START_TEST(nothing_at_all)
{
	struct ht_buf out = HT_BUF_INIT;
	struct fake fake;

	fake_init(&fake);
	fake.recording.left = true;
	fake.recording.stops = 0;
	fake.recording.samples = 0;
	write_report(&fake, (struct ht_report_options){ .width = 80 }, &out);
	ck_assert_ptr_null(strstr(out.data, "call site"));
	ck_assert_ptr_null(strstr(out.data, "stopped"));
	ck_assert_ptr_nonnull(strstr(out.data, "complete: nothing lost"));
	ck_assert_ptr_nonnull(strstr(out.data, "\nCode of heaptap stays mapped in it, out of use"));
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

int main(void)
{
	return ht_check_run("text", (const TTest *const[]){
		sampled, exact, losses_come_first, what_was_left_out, little_is_live,
		when_the_peak_is_listed, a_peak_of_few_samples, frees_of_unknown_blocks,
		the_peak_is_now_or_all_of_it_went,
		lists_behind_the_first_are_short, hostile_names,
		no_line_is_too_wide, the_summary_is_not_cut, colours, nothing_at_all, NULL });
}
