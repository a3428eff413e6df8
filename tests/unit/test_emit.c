/* SPDX-License-Identifier: Apache-2.0
 *
 * From a recording to its reports, whatever happens on the way.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture.h"
#include "cmd/record.h"
#include "fake_tap.h"
#include "tool.h"

static struct ht_record_options options;
static int signal_now;		/* comes before the reports are made */

static void start(void)
{
	fake_tap_init();
	options = (struct ht_record_options)HT_RECORD_OPTIONS_INIT;
	options.format = &fake_format;
	signal_now = 0;
}

/* What ht_record() does with it: the error is printed last. */
static int emit(void *arg)
{
	struct ht_outputs outputs = { .n = 0 };
	struct ht_err err = { HT_ERR_NONE, "" };
	int fd, r;

	ht_signals_catch(false);
	if (ht_signals_open(&fd, &err) < 0 ||
	    ht_outputs_open(&outputs, &options, STDOUT_FILENO, &err) < 0)
		return 99;
	if (signal_now)
		raise(signal_now);
	r = ht_emit(&options, &fake_tap, false, "the end", fd, &outputs, &err);
	if (r < 0)
		ht_cmd_talk("error: %s", err.text);
	else if (err.kind != HT_ERR_NONE)
		return 98;
	ht_outputs_close(&outputs);
	return r < 0;
}

#define NAMES_ONLY "heaptap: the report has names only, no lines and inlined calls\n"
#define FAILED                                                                           \
	"heaptap: the report has names only, no lines and inlined calls: what reads them failed, for want of memory or of a well-formed file\n"

static void check(int status, const char *out, const char *err)
{
	struct captured c;

	capture(emit, NULL, &c);
	captured_is(&c, status, out, err);
	captured_fini(&c);
}

START_TEST(with_lines)
{
	start();
	check(0, "report: server, the end, with lines\n", "");
	fake_tap_fini();
}
END_TEST

static void crash(bool lines)
{
	if (lines)
		raise(SIGKILL);
}

static void give_up(bool lines)
{
	if (lines)
		_exit(1);
}

/* What reads the DWARF dies of it: the names still come. */
START_TEST(names_survive_a_crash)
{
	start();
	fake_tap.symbols = crash;
	check(0, "report: server, the end, names only\n", FAILED);
	fake_tap.symbols = give_up;
	check(0, "report: server, the end, names only\n", FAILED);
	options.quiet = true;
	check(0, "report: server, the end, names only\n", "");
	fake_tap_fini();
}
END_TEST

static void note_fork(void)
{
	fake_tap_note("fork");
}

static int emit_and_note(void *arg)
{
	return pthread_atfork(note_fork, NULL, NULL) == 0 ? emit(arg) : 97;
}

/* It came before: no child is made at all, or it would take its time. */
START_TEST(a_signal_before)
{
	struct captured c;

	start();
	capture(emit_and_note, NULL, &c);
	captured_is(&c, 0, "report: server, the end, with lines\n", "");
	captured_fini(&c);
	ck_assert_str_eq(fake_tap_log, "fork; ");
	signal_now = SIGINT;
	capture(emit_and_note, NULL, &c);
	captured_is(&c, 0, "report: server, the end, names only\n", NAMES_ONLY);
	captured_fini(&c);
	ck_assert_str_eq(fake_tap_log, "fork; ");
	fake_tap_fini();
}
END_TEST

/* The child says that it's there, and would go on for ever. */
static void hang(bool lines)
{
	if (!lines)
		return;
	kill(getppid(), SIGTERM);
	for (;;)
		pause();
}

START_TEST(a_signal_meanwhile)
{
	start();
	fake_tap.symbols = hang;
	check(0, "report: server, the end, names only\n", NAMES_ONLY);
	fake_tap_fini();
}
END_TEST

/* The signals that we only note kill the child, as they do every other program. */
static void killed(bool lines)
{
	if (lines)
		raise(SIGTERM);
}

START_TEST(the_child_can_be_killed)
{
	start();
	fake_tap.symbols = killed;
	check(0, "report: server, the end, names only\n", NAMES_ONLY);
	fake_tap_fini();
}
END_TEST

/* More than a pipe holds goes from the child to us. */
static int write_much(const struct ht_recording *recording,
		      const struct ht_report_options *report_options, struct ht_buf *out,
		      struct ht_err *err)
{
	for (int i = 0; i < 300000; i++)
		ht_buf_puts(out, "0123456\n");
	return 0;
}

static const struct ht_report_format much_format = { "much", ".much", "", write_much };

START_TEST(large_reports)
{
	struct captured c;

	start();
	options.format = &much_format;
	capture(emit, NULL, &c);
	ck_assert_int_eq(c.status, 0);
	ck_assert_uint_eq(c.out.len, 2400000);
	captured_fini(&c);
	fake_tap_fini();
}
END_TEST

static int write_badly(const struct ht_recording *recording,
		       const struct ht_report_options *report_options, struct ht_buf *out,
		       struct ht_err *err)
{
	ht_buf_puts(out, "half a report");
	return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
}

static const struct ht_report_format bad_format = { "bad", ".bad", "", write_badly };

/* Nothing is written of a report that isn't whole. */
START_TEST(a_format_that_fails)
{
	start();
	options.format = &bad_format;
	check(1, "", FAILED "heaptap: error: out of memory\n");
	fake_tap_fini();
}
END_TEST

static int write_unnoticed(const struct ht_recording *recording,
			   const struct ht_report_options *report_options,
			   struct ht_buf *out, struct ht_err *err)
{
	ht_buf_puts(out, "half a report");
	out->failed = true;
	return 0;
}

static const struct ht_report_format unnoticed_format = { "x", ".x", "", write_unnoticed };

START_TEST(a_buffer_that_failed)
{
	start();
	options.format = &unnoticed_format;
	check(1, "", FAILED "heaptap: error: out of memory\n");
	fake_tap_fini();
}
END_TEST

/* Each file is tried, the first failure is the result, and the others are told. */
START_TEST(every_output_is_tried)
{
	char dir[64];
	struct stat st;

	if (!ht_check_have(!access("/dev/full", W_OK), "/dev/full"))
		return;
	start();
	tool_mkdir(dir);
	ck_assert_int_eq(chdir(dir), 0);
	ck_assert_int_eq(symlink("/dev/full", "second"), 0);
	options.paths[0] = "/dev/full";
	options.paths[1] = "second";
	options.paths[2] = "good";
	options.n_paths = 3;
	check(1, "", "heaptap: can't write second: No space left on device\n"
		     "heaptap: wrote good\n"
		     "heaptap: error: can't write /dev/full: No space left on device\n");
	ck_assert(stat("good", &st) == 0 &&
		  st.st_size == (off_t)strlen("report: server, the end, with lines\n"));
	options.paths[0] = "also-good";
	options.quiet = true;
	check(1, "", "heaptap: error: can't write second: No space left on device\n");
	ck_assert_int_eq(chdir("/"), 0);
	tool_rmdir(dir);
	fake_tap_fini();
}
END_TEST

static int write_figures(const struct ht_recording *r,
			 const struct ht_report_options *report_options, struct ht_buf *out,
			 struct ht_err *err)
{
	return ht_buf_printf(out, "%s %s %d %s %llu %llu %llu %s %u %llu %llu %u\n"
			     "lost %llu %llu %llu %llu, cut %llu, limit %u, width %u, color %d\n",
			     r->command, r->exe, r->pid, r->allocators,
			     (unsigned long long)r->interval,
			     (unsigned long long)r->min_size,
			     (unsigned long long)r->samples, r->ended, r->stops,
			     (unsigned long long)r->stop_max_ns,
			     (unsigned long long)r->stop_total_ns, r->threads,
			     (unsigned long long)r->lost_allocs,
			     (unsigned long long)r->lost_frees,
			     (unsigned long long)r->lost_corrupt,
			     (unsigned long long)r->untracked,
			     (unsigned long long)r->cut_stacks, report_options->limit,
			     report_options->width, report_options->color);
}

static const struct ht_report_format figures_format = { "f", ".f", "", write_figures };

START_TEST(figures_reach_the_report)
{
#define LOST "heaptap: server (42): NOT COMPLETE: 1 of 41,211 samples (<0.1 %) was lost, so the figures are too low by about as much, on top of their error; 2 frees of samples were lost; 3 damaged records were dropped; 4 samples were not followed to a free and so not live; leaks can't be told from lost frees.\n"
	start();
	options.format = &figures_format;
	options.tap.interval = 4096;
	options.limit = 25;
	options.color = HT_COLOR_ALWAYS;
	fake_tap.result.lost_allocs = 1;
	fake_tap.result.lost_frees = 2;
	fake_tap.result.lost_corrupt = 3;
	fake_counters(&fake_tap.fake)->untracked = 4;
	fake_tap.result.cut_stacks = 5;
	fake_tap.result.stops = 2;
	fake_tap.result.stop_max_ns = 6;
	fake_tap.result.stop_total_ns = 8;
	check(0, "server /usr/bin/server 42 libc 4096 0 41210 the end 2 6 8 4\n"
		 "lost 1 2 3 4, cut 5, limit 25, width 0, color 1\n", LOST);
	/* Of what is recorded with a least size every one is. */
	options.tap.min_size = 7;
	check(0, "server /usr/bin/server 42 libc 0 7 41210 the end 2 6 8 4\n"
		 "lost 1 2 3 4, cut 5, limit 25, width 0, color 1\n", "heaptap: server (42): NOT COMPLETE, so not exact: 1 allocation and 2 frees were lost; 3 damaged records were dropped; 4 allocations were not followed to a free and so not live; leaks can't be told from lost frees.\n");
	fake_tap_fini();
}
END_TEST

/* Where no text report is shown the warning is all that says so. */
START_TEST(losses_are_warned_of)
{
#define ONE_LOST "heaptap: server (42): NOT COMPLETE: 1 of 41,211 samples (<0.1 %) was lost, so the figures are too low by about as much, on top of their error.\n"
	char dir[64];

	start();
	fake_tap.result.lost_allocs = 1;
	tool_mkdir(dir);
	ck_assert_int_eq(chdir(dir), 0);
	options.format = &ht_report_folded;
	check(0, "", ONE_LOST);
	options.paths[0] = "x.folded";
	options.paths[1] = "x.txt";
	options.n_paths = 2;
	options.format = NULL;
	options.quiet = true;
	check(0, "", ONE_LOST);
	fake_tap.result.lost_allocs = 0;
	check(0, "", "");
	ck_assert_int_eq(chdir("/"), 0);
	tool_rmdir(dir);
	fake_tap_fini();
}
END_TEST

START_TEST(losses_that_the_text_tells)
{
	struct captured c;

	start();
	options.format = &ht_report_text;
	fake_tap.result.lost_allocs = 1;
	capture(emit, NULL, &c);
	captured_has_not(&c, "heaptap: server");
	ck_assert_int_eq(strncmp(c.out.data, "NOT COMPLETE: ", 14), 0);
	captured_fini(&c);
	fake_tap_fini();
}
END_TEST

int main(void)
{
	return ht_check_run("emit", (const TTest *const[]){
		with_lines, names_survive_a_crash, a_signal_before, a_signal_meanwhile,
		the_child_can_be_killed, large_reports, a_format_that_fails,
		a_buffer_that_failed, every_output_is_tried, figures_reach_the_report,
		losses_are_warned_of, losses_that_the_text_tells, NULL });
}
