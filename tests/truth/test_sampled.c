/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampled recordings: estimates are unbiased, as precise as they say, and count what goes
 * through several entries once. The hook's seed is random: every limit here is one that a
 * right tool passes but in one of 10^7 runs or less.
 *
 * HT_TRUTH_ROUNDS=200 makes the limits of the long series finer.
 */
#include <math.h>
#include <string.h>

#include "compare.h"
#include "ht_patience.h"
#include "inject/plan.h"

static struct comparison comparison, before;
static struct session session;

static void tell(const char *command, uint64_t number)
{
	char line[64];

	snprintf(line, sizeof(line), "%s %lu", command, number);
	session_ask(&session, line);
}

/* Tap, and make both sides know the interval. */
static bool start(const char *program, const struct allocator *a, const char *workload,
		  uint64_t interval, uint64_t scale)
{
	const char *args[] = { workload, NULL };
	struct ht_tap_options options = options_sampled(interval);

	if (!session_start(&session, program, a, args))
		return false;
	session_attach(&session, &options);
	tell("interval", interval);
	tell("scale", scale);
	session_ask(&session, "mark");
	return true;
}

/* What mimalloc asks itself for in the name of mi_pvalloc(), which can't be patched. */
static void drop_pvalloc(void)
{
	for (size_t i = 0; i < comparison.n; i++) {
		unsigned kind;

		if (sscanf(comparison.rows[i].name, "site_new_%u", &kind) == 1 &&
		    !strcmp(ht_entry_kinds[kind].name, "mi_pvalloc"))
			comparison.rows[i] = (struct row){ .name = "none" };
	}
}

/* Each entry that there is: some 400 samples each, so that counting one twice, or only half
 * of the blocks, would be far out of every limit. */
static void every_entry_of(const struct allocator *a)
{
	if (!start("truth_kinds", a, "kinds", 4096, 40))
		return;
	session_ask(&session, "go");
	session_cure(&session);
	compare(&session, &comparison);
	drop_pvalloc();
	assert_estimates(&comparison, a->name);
	assert_complete(&session, a->name);
	if (a->preload && strstr(a->preload, "mimalloc"))
		assert_indirect(&comparison);
	session_end(&session);
}

START_TEST(every_entry)
{
	every_entry_of(&allocators[_i]);
}
END_TEST

START_TEST(sized_frees)
{
	every_entry_of(&sized_allocators[_i]);
	assert_sized_frees(&comparison);
}
END_TEST

/* Threads that free each other's blocks, and use addresses again at speed. */
START_TEST(threads)
{
	const char *const workloads[] = { "cross", "reuse" };

	for (int i = 0; i < 2; i++) {
		if (!start("truth", &allocators[_i], workloads[i], 4096, 10))
			return;
		session_ask(&session, "go");
		session_ask(&session, "go");
		session_cure(&session);
		compare(&session, &comparison);
		assert_estimates(&comparison, allocators[_i].name);
		assert_complete(&session, allocators[_i].name);
		session_end(&session);
	}
}
END_TEST

struct series {
	double sum[FIGURES], squares[FIGURES], bars[FIGURES];
	double relative[FIGURES];	/* sum of sigmas, each over its true figure */
	int beyond[FIGURES];		/* errors of more than 3 sigma */
	int n;
};

/* What one round added to the totals, or holds. Rounds are independent: each allocates
 * anew and frees what the one before left. */
static void take_round(struct series *series)
{
	const struct row *now = row_named(&comparison, "site_mix");
	const struct row *then = before.n ? row_named(&before, "site_mix") : NULL;

	for (int f = 0; f < FIGURES; f++) {
		bool total = f == TOTAL_BYTES || f == TOTAL_OBJECTS;
		double figure = tool_figure(now, f), bar = tool_variance(now, f), z;

		if (total && then) {
			figure -= tool_figure(then, f);
			bar -= tool_variance(then, f);
		}
		z = (figure - now->truth[f]) / sqrt(now->variance[f]);
		series->sum[f] += z;
		series->squares[f] += z * z;
		series->bars[f] += bar / now->variance[f];
		series->beyond[f] += fabs(z) > 3;
		series->relative[f] += sqrt(now->variance[f]) / now->truth[f];
	}
	series->n++;
	before = comparison;
}

static void add_series(struct series *to, const struct series *series)
{
	for (int f = 0; f < FIGURES; f++) {
		to->sum[f] += series->sum[f];
		to->squares[f] += series->squares[f];
		to->bars[f] += series->bars[f];
		to->relative[f] += series->relative[f];
		to->beyond[f] += series->beyond[f];
	}
	to->n += series->n;
}

/* Where the mean of @n squared errors lies (Wilson and Hilferty), @sigmas out. */
static double mean_square(double n, double sigmas)
{
	double root = 1 - 2 / (9 * n) + sigmas * sqrt(2 / (9 * n));

	return root > 0 ? root * root * root : 0;
}

/* How many of @n errors may lie beyond 3 sigma, each with 0.27 %: more of them do by chance
 * once in 10^9 series. */
static int most_beyond(int n)
{
	double p = 0.0027, term = pow(1 - p, n), tail = 1 - term;
	int k = 0;

	while (tail > 1e-9) {
		k++;
		term *= (n - k + 1) / (double)k * p / (1 - p);
		tail -= term;
	}
	return k;
}

/*
 * Each round's error is within 3 sigma, but for as many as chance allows; their mean is within
 * 6 standard errors of nothing; and errors are as large as they should be. A right tool misses
 * one of these in 10^9 cases or less (the bars' limit is far from what chance does); there are
 * some 200 in a run of this program, so it fails by chance less than once in 10^6 runs.
 *
 * With 5 % added to each estimate the series of one interval fail by the total bytes alone 99
 * times in 100: by the sigmas that are printed 5 % are 8.5 standard errors and more.
 */
static void check_series(const struct series *s, const char *what)
{
	static const char *const names[] = { "total bytes", "total objects", "live bytes",
					     "live objects" };

	for (int f = 0; f < FIGURES; f++) {
		double n = s->n, mean = s->sum[f] / n;

		printf("%s, %s: %d rounds, mean error %+.2f sigma, spread %.2f, bar %.3f, %d beyond 3 sigma of %.2f %%\n",
		       what, names[f], s->n, mean, sqrt(s->squares[f] / n),
		       sqrt(s->bars[f] / n), s->beyond[f], 100 * s->relative[f] / n);
		ck_assert_msg(s->beyond[f] <= most_beyond(s->n),
			      "%s, %s: %d of %d errors are beyond 3 sigma", what, names[f],
			      s->beyond[f], s->n);
		ck_assert_msg(fabs(mean) < 6 / sqrt(n),
			      "%s, %s: mean error %.2f sigma in %d rounds", what, names[f],
			      mean, s->n);
		ck_assert_msg(s->squares[f] / n < mean_square(n, 6.5) &&
				      s->squares[f] / n > mean_square(n, -6),
			      "%s, %s: errors are %.2f times what they should be", what,
			      names[f], sqrt(s->squares[f] / n));
		ck_assert_msg(fabs(s->bars[f] / n - 1) < 0.15,
			      "%s, %s: the variance told is %.2f times the true one", what,
			      names[f], s->bars[f] / n);
	}
}

/* Some rounds of one tap; each tap has a seed of its own. */
static void run_rounds(const struct ht_tap_options *options, int rounds, struct series *series)
{
	session_attach(&session, options);
	before.n = 0;
	for (int i = 0; i < rounds; i++) {
		session_ask(&session, "mark");
		session_ask(&session, "go");
		compare(&session, &comparison);
		take_round(series);
	}
	session_cure(&session);
	assert_complete(&session, "mix");
	session.tap = ht_tap_free(session.tap);
}

#define TAPS 3

static const struct way {
	size_t allocator;
	enum ht_transport transport;
} ways[] = {
	{ 0, HT_TRANSPORT_RING },   { 1, HT_TRANSPORT_RING }, { 2, HT_TRANSPORT_RING },
	{ 4, HT_TRANSPORT_RING },   { 7, HT_TRANSPORT_RING }, { 0, HT_TRANSPORT_SOCKET },
};

START_TEST(estimates_are_unbiased_and_so_are_their_bars)
{
	static const struct {
		uint64_t interval, scale;
	} runs[] = { { 4096, 1 }, { 65536, 18 }, { 524288, 18 } };
	const struct allocator *a = &allocators[ways[_i].allocator];
	bool socket = ways[_i].transport == HT_TRANSPORT_SOCKET;
	static const char *const args[] = { "mix", NULL };
	const char *more = getenv("HT_TRUTH_ROUNDS");
	int rounds = more ? atoi(more) / TAPS : 8;
	struct series whole = { 0 };
	char what[64];

	if (!session_start(&session, "truth", a, args))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(runs); i++) {
		struct ht_tap_options options = options_sampled(runs[i].interval);
		struct series series = { 0 };

		options.transport = ways[_i].transport;
		tell("interval", runs[i].interval);
		tell("scale", runs[i].scale);
		for (int tap = 0; tap < TAPS; tap++)
			run_rounds(&options, rounds, &series);
		snprintf(what, sizeof(what), "%s%s, interval %lu", a->name,
			 socket ? " by socket" : "", runs[i].interval);
		check_series(&series, what);
		add_series(&whole, &series);
	}
	snprintf(what, sizeof(what), "%s%s, all intervals", a->name, socket ? " by socket" : "");
	check_series(&whole, what);
	session_end(&session);
}
END_TEST

/* Half of the samples measured the peak: twice the interval. All blocks of a site have the
 * same size. */
static void assert_peak_of(const struct row *row, double interval)
{
	const struct ht_sum *peak = &row->tool.peak;
	double size = row->peak[0] / row->peak[1], p = -expm1(-size / 2 / interval);
	double variance = (1 - p) / p * row->peak[1], limit = estimate_limit(variance, 1 / p);

	printf("%s at the peak: %.0f objects, true %.0f, bar %.0f\n", row->name, peak->objects,
	       row->peak[1], ht_bar95(peak->objects_variance));
	ck_assert_double_lt(fabs(peak->objects - row->peak[1]), limit);
	ck_assert_double_lt(fabs(peak->bytes - row->peak[0]), limit * size);
	ck_assert_double_lt(fabs(peak->objects_variance / variance - 1),
			    8 / sqrt((double)peak->samples));
}

START_TEST(peak_and_its_breakdown)
{
	ck_assert(start("truth", &allocators[0], "peak", 4096, 1));
	session_ask(&session, "peak");
	session_ask(&session, "go");
	session_ask(&session, "go");
	session_cure(&session);
	compare(&session, &comparison);
	assert_peak_of(row_named(&comparison, "site_high"), 4096);
	assert_peak_of(row_named(&comparison, "site_low"), 4096);
	ck_assert_double_eq(row_named(&comparison, "site_late")->tool.peak.bytes, 0);
	assert_report_says(&session, "\nPeak by call site ");
	assert_complete(&session, "peak");
	session_end(&session);
}
END_TEST

static struct ht_sum minus(const struct ht_sum *a, const struct ht_sum *b)
{
	return (struct ht_sum){
		.bytes = a->bytes - b->bytes,
		.objects = a->objects - b->objects,
		.bytes_variance = a->bytes_variance - b->bytes_variance,
		.objects_variance = a->objects_variance - b->objects_variance,
		.samples = a->samples - b->samples,
	};
}

/* With few samples a figure gets a bound: at least 94 % of them hold. */
START_TEST(bounds_hold)
{
	static const struct ht_figures none;
	uint64_t interval = HT_DEFAULT_INTERVAL;
	double few = 0, held[2] = { 0 };

	ck_assert(start("truth_kinds", &allocators[0], "few", interval, 1));
	before.n = 0;
	for (int round = 0; round < 20; round++) {
		session_ask(&session, "mark");
		session_ask(&session, "go");
		compare(&session, &comparison);
		for (size_t i = 0; i < comparison.n; i++) {
			const struct row *now = &comparison.rows[i];
			const struct ht_figures *then =
				before.n ? &row_named(&before, now->name)->tool : &none;
			struct ht_sum total = minus(&now->tool.total, &then->total);

			if (total.samples >= HT_FEW_SAMPLES || !now->truth[TOTAL_BYTES])
				continue;
			few++;
			held[0] += ht_sum_upper(&total, interval) >= now->truth[TOTAL_BYTES];
			held[1] += ht_sum_upper(&now->tool.live, interval) >=
				   now->truth[LIVE_BYTES];
		}
		before = comparison;
	}
	printf("%.0f bounds: of totals %.1f %% hold, of live %.1f %%\n", few,
	       100 * held[0] / few, 100 * held[1] / few);
	ck_assert_double_gt(few, 1500);
	ck_assert_double_gt(held[0], 0.90 * few);
	ck_assert_double_gt(held[1], 0.90 * few);
	session_cure(&session);
	session_end(&session);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sampled");
	TCase *tcase = tcase_create("sampled");

	tcase_set_timeout(tcase, ht_test_patience(300));
	tcase_add_loop_test(tcase, every_entry, 0, (int)n_dynamic);
	tcase_add_loop_test(tcase, threads, 0, (int)n_allocators);
	tcase_add_test(tcase, peak_and_its_breakdown);
	tcase_add_test(tcase, bounds_hold);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("series");
	tcase_set_timeout(tcase, ht_test_patience(300));
	tcase_add_loop_test(tcase, estimates_are_unbiased_and_so_are_their_bars, 0,
			    (int)ARRAY_SIZE(ways));
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("sized");
	tcase_set_timeout(tcase, ht_test_patience(120));
	tcase_add_loop_test(tcase, sized_frees, 0, (int)n_sized);
	suite_add_tcase(suite, tcase);
	return ht_check_run_suite(suite);
}
