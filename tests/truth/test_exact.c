/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact recordings: every figure of every call site is the program's own, under each
 * allocator, and the report says so with right.
 */
#include <string.h>

#include "base/clock.h"
#include "compare.h"
#include "ht_patience.h"
#include "inject/plan.h"

static struct comparison comparison;
static struct session session;

static const char *const all[] = { "all", NULL };
static const char *const without_threads[] = { "calloc",  "malloc", "realloc", "fail",
					       "entries", "old",    "native",  "fork", NULL };

static bool is_musl(const struct allocator *a)
{
	return strstr(a->suffix, "musl") != NULL;
}

/* musl has no unwind data: the stack of what its own functions allocate ends there. */
static void compare_under(const struct allocator *a)
{
	compare(&session, &comparison);
	ck_assert_uint_gt(comparison.n, 0);
	if (is_musl(a))
		take_others_for(&comparison, "site_strdup");
}

/* Not what the program counted for @row, in its main thread. */
static void expect(struct row *row, enum figure f, double figure)
{
	comparison.threads[0].truth[f] += figure - row->truth[f];
	row->truth[f] = figure;
}

/* mi_pvalloc() can't be patched; what it calls is asked for whole pages. */
static void forgive_pvalloc(void)
{
	for (size_t i = 0; i < comparison.n; i++) {
		struct row *row = &comparison.rows[i];
		unsigned kind;

		if (sscanf(row->name, "site_new_%u", &kind) != 1 ||
		    strcmp(ht_entry_kinds[kind].name, "mi_pvalloc"))
			continue;
		ck_assert_uint_eq(row->truth[TOTAL_OBJECTS], row->tool.total.objects);
		expect(row, TOTAL_BYTES, row->truth[TOTAL_OBJECTS] * 4096);
		expect(row, LIVE_BYTES, row->truth[LIVE_OBJECTS] * 4096);
	}
}

/* Tap, do everything twice. */
static bool attach_and_go(const char *program, const struct allocator *a,
			       const char *const args[], const struct ht_tap_options *options)
{
	if (!session_start(&session, program, a, args))
		return false;
	session_attach(&session, options);
	session_ask(&session, "mark");
	session_ask(&session, "go");
	session_ask(&session, "go");
	session_cure(&session);
	compare_under(a);
	forgive_pvalloc();
	assert_exact(&session, &comparison, a->name, false);
	return true;
}

static bool attach_and_compare(const char *program, const struct allocator *a,
			       const char *const args[], const struct ht_tap_options *options)
{
	if (!attach_and_go(program, a, args, options))
		return false;
	session_end(&session);
	return true;
}

START_TEST(attach_every_workload)
{
	struct ht_tap_options options = options_exact();

	ck_assert(attach_and_compare("truth", &allocators[_i], all, &options) || _i);
}
END_TEST

START_TEST(attach_every_operator)
{
	/* Not "fail": who throws allocates an exception as well. */
	static const char *const args[] = { "new", NULL };
	struct ht_tap_options options = options_exact();

	attach_and_compare("truth_cxx", &allocators[_i], args, &options);
}
END_TEST

/* Linked in, libstdc++'s operators are entries of the program's allocator. */
START_TEST(attach_linked_operators)
{
	static const char *const args[] = { "new", NULL };
	struct ht_tap_options options = options_exact();

	attach_and_compare("truth_cxx", &allocators[n_dynamic], args, &options);
}
END_TEST

/* Where new fails exceptions are allocated, but nothing stays. */
START_TEST(attach_failing_operators)
{
	static const char *const args[] = { "fail", NULL };
	struct ht_tap_options options = options_exact();
	struct ht_tap_result result;
	struct ht_figures figures;

	if (!session_start(&session, "truth_cxx", &allocators[_i], args))
		return;
	session_attach(&session, &options);
	session_ask(&session, "go");
	session_cure(&session);
	ht_tap_result(session.tap, &result);
	ht_ledger_total(result.ledger, &figures);
	ck_assert_double_eq(figures.live.objects, 0);
	ck_assert_double_lt(figures.total.bytes, 1e6);
	assert_complete(&session, allocators[_i].name);
	session_end(&session);
}
END_TEST

/* An entry that works through another one counts once: a block that went twice would be one
 * that nobody knows the second time. */
static void every_entry_of(const struct allocator *a)
{
	static const char *const args[] = { "kinds", NULL };
	struct ht_tap_options options = options_exact();
	struct ht_ledger_counters counters;
	struct ht_tap_result result;

	if (!attach_and_go("truth_kinds", a, args, &options))
		return;
	ht_tap_result(session.tap, &result);
	ht_ledger_counters(result.ledger, &counters);
	ck_assert_uint_eq(counters.unknown_frees, 0);
	if (a->preload && strstr(a->preload, "mimalloc"))
		assert_indirect(&comparison);
	session_end(&session);
}

START_TEST(attach_every_entry)
{
	every_entry_of(&allocators[_i]);
}
END_TEST

START_TEST(attach_sized_frees)
{
	every_entry_of(&sized_allocators[_i]);
	assert_sized_frees(&comparison);
}
END_TEST

/* Nobody says which blocks a heap had that goes as a whole. */
START_TEST(a_heap_that_goes_is_told)
{
	static const char *const args[] = { "heap", NULL };
	struct ht_tap_options options = options_exact();

	if (!session_start(&session, "truth_kinds", &allocators[4], args))
		return;
	session_attach(&session, &options);
	session_ask(&session, "go");
	session_cure(&session);
	assert_report_says(&session, "NOT COMPLETE, so not exact: 1 call freed blocks without");
	session_end(&session);
}
END_TEST

/* Not of musl, which has no unwind data: no thread is known to be safe. */
START_TEST(attach_with_dlopen)
{
	struct ht_tap_options options = options_exact();

	options.loader = HT_LOADER_DLOPEN;
	attach_and_compare("truth", &allocators[_i], all, &options);
}
END_TEST

/* As exact as through shared memory, by either loader. */
START_TEST(attach_over_a_socket)
{
	struct ht_tap_options options = options_exact();

	options.transport = HT_TRANSPORT_SOCKET;
	ck_assert(attach_and_compare("truth", &allocators[_i], all, &options) || _i);
	options.loader = HT_LOADER_DLOPEN;
	if (_i == 0)
		ck_assert(attach_and_compare("truth", &allocators[_i], all, &options));
}
END_TEST

static void launch_and_compare(const struct allocator *a, const struct ht_tap_options *options)
{
	if (!session_launch(&session, "truth", a, all, options))
		return;
	session_ask(&session, "go");
	session_ask(&session, "go");
	session_cure(&session);
	compare(&session, &comparison);
	if (is_musl(a))
		for (int f = 0; f < FIGURES; f++)
			expect(row_named(&comparison, "site_strdup"), f, 0);
	/* Start-up allocates too. */
	assert_exact(&session, &comparison, a->name, true);
	session_end(&session);
}

START_TEST(launch_every_workload)
{
	struct ht_tap_options options = options_exact();

	launch_and_compare(&allocators[_i], &options);
}
END_TEST

START_TEST(launch_over_a_socket)
{
	struct ht_tap_options options = options_exact();

	options.transport = HT_TRANSPORT_SOCKET;
	launch_and_compare(&allocators[_i], &options);
}
END_TEST

/* To its end: what is drained after the target is gone is complete, too. */
START_TEST(launch_to_the_end)
{
	struct ht_tap_options options = options_exact();
	struct ht_err err;

	options.transport = _i ? HT_TRANSPORT_SOCKET : HT_TRANSPORT_RING;
	ck_assert(session_launch(&session, "truth", &allocators[0], all, &options));
	session_ask(&session, "go");
	compare(&session, &comparison);
	ck_ok(ht_test_target_send(&session.target, "go"));
	ck_ok(ht_test_target_send(&session.target, "quit"));
	do {
		ck_ok(ht_tap_serve(session.tap, 0, -1, &session.state, &err));
	} while (session.state == HT_TAP_RUNNING);
	ck_assert_int_eq(session.state, HT_TAP_EXITED);
	session_cure(&session);
	ck_assert_int_eq(ht_tap_wait_status(session.tap), 0);
	compare_tool(&session, &comparison);
	/* All workloads do the same each time. */
	for (int f = TOTAL_BYTES; f <= TOTAL_OBJECTS; f++)
		ck_assert_double_eq(tool_figure(row_named(&comparison, "site_calloc"), f),
				    2 * row_named(&comparison, "site_calloc")->truth[f]);
	assert_complete(&session, "to the end");
	assert_report_says(&session, "complete and exact: nothing lost");
	session.tap = ht_tap_free(session.tap);
}
END_TEST

/* Every block that the program holds at the attach is older than it: their frees are
 * counted, and nothing gets negative. */
START_TEST(older_blocks_are_counted_and_never_negative)
{
	static const char *const args[] = { "malloc", "calloc", "old", NULL };
	struct ht_tap_options options = options_exact();
	struct ht_ledger_counters counters;
	struct ht_tap_result result;
	const struct row *before;
	double held;

	if (!session_start(&session, "truth", &allocators[_i], args))
		return;
	/* "old" has 500; the other two hold what they made. */
	ck_ok(ht_test_target_send(&session.target, "go"));
	session_read(&session, session.target.ready, sizeof(session.target.ready));
	ask_program(&session, &comparison);
	held = 0;
	for (size_t i = 0; i < comparison.n; i++) {
		before = &comparison.rows[i];
		/* The last hundred of "old" stay. */
		held += before->truth[LIVE_OBJECTS];
	}
	held -= 100;
	session_attach(&session, &options);
	session_ask(&session, "mark");
	session_ask(&session, "go");
	session_cure(&session);
	compare_under(&allocators[_i]);
	assert_exact(&session, &comparison, allocators[_i].name, false);
	ht_tap_result(session.tap, &result);
	ht_ledger_counters(result.ledger, &counters);
	/* 50 of the hundred are reallocated. */
	ck_assert_double_eq((double)counters.unknown_frees, held + 50);
	session_end(&session);
}
END_TEST

/* As a thread ends glibc passes what its cache holds to free() once more. The next thread
 * gets the same addresses from malloc. */
START_TEST(threads_that_end_free_twice)
{
	static const char *const args[] = { "brief", NULL };
	struct ht_tap_options options = options_exact();
	struct ht_ledger_counters counters;
	struct ht_tap_result result;

	ck_assert(session_launch(&session, "truth_brief", &allocators[0], args, &options));
	for (int i = 0; i < 30; i++)
		session_ask(&session, "go");
	session_cure(&session);
	compare(&session, &comparison);
	assert_exact(&session, &comparison, "threads that end", true);
	ht_tap_result(session.tap, &result);
	ht_ledger_counters(result.ledger, &counters);
	ck_assert_uint_gt(counters.unknown_frees, 100);
	assert_report_says(&session, "weren't seen allocated: given back once more by libc");
	session_end(&session);
}
END_TEST

static void serve_samples(uint64_t n)
{
	struct ht_tap_result result;
	struct ht_err err = { HT_ERR_NONE, "" };
	int r;

	do {
		r = ht_tap_serve(session.tap, ht_deadline_ns(HT_NS_PER_MS), -1, &session.state,
				 &err);
		ht_tap_result(session.tap, &result);
	} while (r == 0 && session.state == HT_TAP_RUNNING && result.samples < n);
	ck_assert_msg(r == 0, "%s", err.text);
}

/* Threads are in allocators whenever the tap comes and goes. What was under way then has only
 * one of its ends in the recording, but nothing is missed between. */
static void tap_in_the_middle(const struct allocator *a, const struct ht_tap_options *options)
{
	static const char *const args[] = { "reuse", NULL };
	char line[64];

	if (!session_start(&session, "truth", a, args))
		return;
	session_send(&session, "loop");
	for (int i = 0; i < 3; i++) {
		session_attach(&session, options);
		serve_samples(20000);
		session_cure(&session);
		assert_complete(&session, a->name);
		assert_report_says(&session, "complete and exact");
		session.tap = ht_tap_free(session.tap);
	}
	session_send(&session, "mark");
	session_read(&session, line, sizeof(line));
	ck_assert_str_eq(line, "loop done");
	session_read(&session, line, sizeof(line));
	session_end(&session);
}

START_TEST(tapped_in_the_middle)
{
	struct ht_tap_options options = options_exact();

	tap_in_the_middle(&allocators[_i], &options);
}
END_TEST

/* It's full whenever the tap goes: what waits for room then has its place, or none. */
START_TEST(a_full_socket_in_the_middle)
{
	struct ht_tap_options options = options_exact();

	options.transport = HT_TRANSPORT_SOCKET;
	options.ring_size = 64 * 1024;
	tap_in_the_middle(&allocators[_i], &options);
}
END_TEST

/* Of each call site, and of all. */
static void assert_peak(void)
{
	struct ht_tap_result result;
	struct ht_figures figures;
	double sum = 0;

	for (size_t i = 0; i < comparison.n; i++) {
		const struct row *row = &comparison.rows[i];

		ck_assert_msg(row->tool.peak.bytes == row->peak[0] &&
				      row->tool.peak.objects == row->peak[1],
			      "%s at the peak: %.0f bytes, %.0f objects; true %.0f, %.0f",
			      row->name, row->tool.peak.bytes, row->tool.peak.objects,
			      row->peak[0], row->peak[1]);
		sum += row->peak[0];
	}
	ht_tap_result(session.tap, &result);
	ht_ledger_total(result.ledger, &figures);
	ck_assert_double_gt(sum, 0);
	ck_assert_double_eq(figures.peak.bytes, sum);
}

START_TEST(peak_and_its_breakdown)
{
	struct ht_tap_options options = options_exact();

	if (!session_start(&session, "truth", &allocators[_i], without_threads))
		return;
	session_attach(&session, &options);
	session_ask(&session, "peak");
	for (int i = 0; i < 3; i++)
		session_ask(&session, "go");
	session_cure(&session);
	compare_under(&allocators[_i]);
	assert_exact(&session, &comparison, allocators[_i].name, false);
	assert_peak();
	session_end(&session);
}
END_TEST

/* Where the peak came from, when all of that is gone. */
START_TEST(peak_in_the_report)
{
	static const char *const args[] = { "peak", NULL };
	struct ht_tap_options options = options_exact();

	ck_assert(session_start(&session, "truth", &allocators[0], args));
	session_attach(&session, &options);
	session_ask(&session, "peak");
	session_ask(&session, "go");
	session_ask(&session, "go");
	session_cure(&session);
	compare_under(&allocators[0]);
	assert_exact(&session, &comparison, "peak", false);
	assert_peak();
	ck_assert_double_eq(row_named(&comparison, "site_high")->truth[LIVE_BYTES], 0);
	assert_report_says(&session, "\n  peak           4.8 MiB           4,000   5,000,000 bytes\n");
	assert_report_says(&session, "\nPeak by call site ");
	/* The other lists have 3,000 of them nowhere. */
	assert_report_says(&session, "  3,000  4,500,000 bytes\n");
	session_end(&session);
}
END_TEST

/* All of so many bytes and more, nothing below. */
START_TEST(min_size)
{
	static const uint64_t floors[] = { 1, 100, 512, 100000 };
	const struct allocator *a = &allocators[_i / (int)ARRAY_SIZE(floors)];
	uint64_t floor = floors[_i % (int)ARRAY_SIZE(floors)];
	struct ht_tap_options options = options_exact();
	char line[64];

	/* Whatever the interval is: min_size is what counts. */
	options.interval = _i % 2 ? HT_DEFAULT_INTERVAL : 0;
	options.min_size = floor;
	options.block = true;
	if (!session_start(&session, "truth", a, all))
		return;
	session_attach(&session, &options);
	snprintf(line, sizeof(line), "floor %lu", floor);
	session_ask(&session, line);
	session_ask(&session, "mark");
	session_ask(&session, "go");
	session_ask(&session, "go");
	session_cure(&session);
	compare_under(a);
	assert_same(&session, &comparison, a->name, false);
	assert_report_says(&session, "and more recorded");
	session_end(&session);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("exact");
	TCase *tcase = tcase_create("exact");

	tcase_set_timeout(tcase, ht_test_patience(120));
	tcase_add_loop_test(tcase, attach_every_workload, 0, (int)n_allocators);
	tcase_add_loop_test(tcase, attach_every_operator, 0, (int)n_preloads);
	tcase_add_loop_test(tcase, attach_failing_operators, 0, (int)n_preloads);
	tcase_add_loop_test(tcase, attach_every_entry, 0, (int)n_dynamic);
	tcase_add_loop_test(tcase, attach_with_dlopen, 0, (int)n_preloads);
	tcase_add_loop_test(tcase, launch_every_workload, 0, (int)n_allocators);
	tcase_add_loop_test(tcase, launch_to_the_end, 0, 2);
	tcase_add_loop_test(tcase, older_blocks_are_counted_and_never_negative, 0,
			    (int)n_allocators);
	tcase_add_loop_test(tcase, tapped_in_the_middle, 0, (int)n_allocators);
	tcase_add_loop_test(tcase, peak_and_its_breakdown, 0, (int)n_allocators);
	tcase_add_test(tcase, peak_in_the_report);
	tcase_add_loop_test(tcase, min_size, 0, 4 * (int)n_allocators);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("socket");
	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, attach_over_a_socket, 0, (int)n_allocators);
	tcase_add_loop_test(tcase, launch_over_a_socket, 0, (int)n_allocators);
	tcase_add_loop_test(tcase, a_full_socket_in_the_middle, 0, (int)n_allocators);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("sized");
	tcase_set_timeout(tcase, ht_test_patience(120));
	tcase_add_loop_test(tcase, attach_sized_frees, 0, (int)n_sized);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("threads");
	tcase_set_timeout(tcase, ht_test_patience(120));
	tcase_add_test(tcase, threads_that_end_free_twice);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("linked");
	tcase_set_timeout(tcase, ht_test_patience(120));
	tcase_add_test(tcase, attach_linked_operators);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("heaps");
	tcase_set_timeout(tcase, ht_test_patience(120));
	tcase_add_test(tcase, a_heap_that_goes_is_told);
	suite_add_tcase(suite, tcase);
	return ht_check_run_suite(suite);
}
