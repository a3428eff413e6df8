/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulations have fixed seeds: they give the same figures each time.
 */
#include "ledger/book.h"

#include <math.h>
#include <string.h>

#include "base/map.h"
#include "ht_check.h"
#include "ledger/sum.h"

#define INTERVAL 65536

static struct ht_book book;
static uint64_t seq;
static uint64_t random_state;

static uint64_t dice(uint64_t sides)
{
	random_state += UINT64_C(0x9e3779b97f4a7c15);
	return (ht_hash64(random_state) >> 16) % sides;
}

static void start(uint32_t sites, uint64_t seed)
{
	ck_ok(ht_book_init(&book, seed));
	while (book.sites.len < sites)
		ck_assert_ptr_nonnull(ht_vec_push(&book.sites));
	random_state = seed * 1000003;
	/* The halves are dealt by seq: another part of that for each run. */
	seq = (seed << 32) + 1;
}

static void alloc(uint64_t addr, uint32_t site, uint64_t size, uint64_t interval)
{
	struct ht_event event = { .seq = seq, .addr = addr, .size = size, .site = site,
				  .interval = interval, .time_ns = seq };

	seq++;
	ck_ok(ht_book_alloc(&book, &event));
}

static void dealloc(uint64_t addr)
{
	struct ht_event event = { .seq = seq, .addr = addr, .time_ns = seq };

	seq++;
	ht_book_free(&book, &event);
}

static struct ht_figures figures(uint32_t site)
{
	struct ht_figures f;

	ht_book_figures(&book, &book.sites.at[site], &f);
	return f;
}

static struct ht_figures all(void)
{
	struct ht_figures f;

	ht_book_figures(&book, &book.all, &f);
	return f;
}

/* As the hook does it: sampled or not seen at all. True: seen. */
static bool maybe(uint64_t addr, uint32_t site, uint64_t size, uint64_t interval)
{
	if ((double)dice(1u << 30) / (1u << 30) >= ht_sample_probability(size, interval))
		return false;
	alloc(addr, site, size, interval);
	return true;
}

START_TEST(a_full_table_counts_to_total_only)
{
	start(2, 1);
	book.live.max = 2;
	alloc(1, 0, 10, 0);
	alloc(2, 0, 20, 0);
	alloc(3, 1, 30, 0);
	ck_assert_uint_eq(book.counters.untracked, 1);
	ck_assert_double_eq(all().live.bytes, 30);
	ck_assert_double_eq(all().total.bytes, 60);
	dealloc(3);
	ck_assert_uint_eq(book.counters.unknown_frees, 1);
	dealloc(1);
	alloc(4, 1, 5, 0);
	ck_assert_double_eq(figures(1).live.bytes, 5);
	ck_assert_double_eq(figures(1).total.bytes, 35);
	ht_book_fini(&book);
}
END_TEST

START_TEST(empty_blocks_are_objects_without_bytes)
{
	start(1, 1);
	alloc(1, 0, 0, 0);
	alloc(2, 0, 8, 0);
	alloc(3, 0, 0, 0);
	ck_assert_double_eq(all().live.bytes, 8);
	ck_assert_double_eq(all().live.objects, 3);
	dealloc(1);
	dealloc(3);
	dealloc(2);
	ck_assert_double_eq(all().live.objects, 0);
	ck_assert_double_eq(all().peak.bytes, 8);
	ht_book_fini(&book);
}
END_TEST

START_TEST(lifetimes_and_temporaries)
{
	start(1, 1);
	alloc(1, 0, 8, 0);
	dealloc(1);
	alloc(1, 0, 8, 0);
	alloc(2, 0, 8, 0);
	dealloc(1);
	ck_assert_double_eq(figures(0).temporary_objects, 1);
	ck_assert_double_eq(figures(0).lifetime_ns, 1 + 2);
	ck_assert_double_eq(all().lifetime_ns, 3);
	ht_book_fini(&book);
}
END_TEST

/* Exact first, then sampled: what was exact stays exact, in the peak too. */
START_TEST(sampling_may_start_later)
{
	start(2, 1);
	alloc(1, 0, 1000, 0);
	alloc(2, 1, 500, 0);
	dealloc(2);
	alloc(3, 1, 20 * INTERVAL, INTERVAL);
	ck_assert_double_eq(figures(0).live.bytes, 1000);
	ck_assert_double_eq_tol(figures(1).live.bytes, 20 * INTERVAL, 1);
	dealloc(3);
	ck_assert_double_eq(all().live.bytes, 1000);
	ck_assert_double_eq_tol(all().peak.bytes, 1000 + 20 * INTERVAL, 100);
	ck_assert_uint_eq(all().peak.samples, 2);
	ck_assert_double_eq(figures(0).peak.bytes, 1000);
	ck_assert_double_eq_tol(figures(1).peak.bytes, 20 * INTERVAL, 100);
	dealloc(1);
	ck_assert_double_eq(all().live.bytes, 0);
	ck_assert_uint_eq(all().live.samples, 0);
	ht_book_fini(&book);
}
END_TEST

/* The interval may change while blocks live: each goes with the weight it came with. */
START_TEST(interval_may_change)
{
	uint64_t interval = 4096;

	start(3, 1);
	for (uint64_t i = 1; i <= 2000; i++) {
		if (i % 500 == 0)
			interval *= 2;
		alloc(i, i % 3, 1 + i * 7, interval);
	}
	for (uint64_t i = 2000; i; i--) {
		dealloc(i);
		ck_assert_double_ge(all().live.bytes, 0);
		ck_assert_double_ge(all().live.bytes_variance, 0);
	}
	for (uint32_t site = 0; site < 3; site++)
		ck_assert_double_eq(figures(site).live.bytes, 0);
	ck_assert_double_eq_tol(all().total.bytes / all().freed.bytes, 1, 1e-12);
	ck_assert_uint_eq(all().total.samples, 2000);
	ht_book_fini(&book);
}
END_TEST

START_TEST(sites_add_up_to_all)
{
	enum { SITES = 5, BLOCKS = 4000 };
	bool seen[BLOCKS] = { false };
	struct ht_sum live = { 0 }, peak = { 0 };

	start(SITES, 3);
	for (int i = 0; i < 300000; i++) {
		uint64_t at = dice(BLOCKS);

		if (seen[at])
			dealloc(at + 1);
		seen[at] = maybe(at + 1, (uint32_t)dice(SITES), 1 + dice(1 << 15),
				 INTERVAL);
	}
	for (uint32_t site = 0; site < SITES; site++) {
		live.bytes += figures(site).live.bytes;
		live.samples += figures(site).live.samples;
		peak.bytes += figures(site).peak.bytes;
		peak.bytes_variance += figures(site).peak.bytes_variance;
		peak.samples += figures(site).peak.samples;
	}
	ck_assert_uint_gt(live.samples, 500);
	ck_assert_double_eq_tol(live.bytes / all().live.bytes, 1, 1e-9);
	ck_assert_double_eq_tol(peak.bytes / all().peak.bytes, 1, 1e-9);
	ck_assert_double_eq_tol(peak.bytes_variance / all().peak.bytes_variance, 1, 1e-9);
	ck_assert_uint_eq(live.samples, all().live.samples);
	ck_assert_uint_eq(peak.samples, all().peak.samples);
	ht_book_fini(&book);
}
END_TEST

#define HELD 16384

/* A program that holds shape(x) * 16 MiB in blocks of 1 KiB while x goes from 0 to 1, and
 * replaces a random one at each step. What is reported as its peak over the true one when
 * it has @freed all, or not. */
static double peak_of(double (*shape)(double x), bool freed, uint64_t seed)
{
	static bool seen[HELD + 1];
	enum { STEPS = 200000 };
	uint32_t held = 0, most = 0;
	double peak;

	start(1, seed);
	for (int step = 0; step < STEPS; step++) {
		uint32_t want = (uint32_t)(shape((double)step / STEPS) * HELD);
		uint32_t victim = held ? 1 + (uint32_t)dice(held) : 0;

		for (; held < want; held++)
			seen[held + 1] = maybe(held + 1, 0, 1024, INTERVAL);
		for (; held > want; held--)
			if (seen[held])
				dealloc(held);
		most = ht_max(most, held);
		if (!victim || victim > held)
			continue;
		if (seen[victim])
			dealloc(victim);
		seen[victim] = maybe(victim, 0, 1024, INTERVAL);
	}
	for (; freed && held; held--)
		if (seen[held])
			dealloc(held);
	peak = all().peak.bytes / (most * 1024.);
	ck_assert(!freed || all().live.bytes < 1);
	ht_book_fini(&book);
	return peak;
}

static double mean_peak(double (*shape)(double x), bool freed, int runs,
			double *ret_error)
{
	double sum = 0, squares = 0, mean;

	for (int run = 1; run <= runs; run++) {
		double peak = peak_of(shape, freed, (uint64_t)run);

		sum += peak;
		squares += peak * peak;
	}
	mean = sum / runs;
	*ret_error = sqrt((squares / runs - mean * mean) / runs);
	return mean;
}

static double flat(double x)
{
	return 1;
}

static double tent(double x)
{
	return x < 0.5 ? 2 * x : 2 - 2 * x;
}

static double spike(double x)
{
	return x > 0.5 && x < 0.51 ? 1 : 0.7;
}

/* The highest of many noisy figures would be 15 % too high on the flat one. */
START_TEST(sampled_peak_is_not_biased_upward)
{
	enum { RUNS = 40 };
	double error, mean;

	mean = mean_peak(flat, true, RUNS, &error);
	ck_assert_msg(fabs(mean - 1) < 0.04, "flat: %g +- %g", mean, error);
	mean = mean_peak(tent, true, RUNS, &error);
	ck_assert_msg(mean > 0.94 && mean < 1.03, "tent: %g +- %g", mean, error);
	mean = mean_peak(spike, true, RUNS, &error);
	ck_assert_msg(mean > 0.92 && mean < 1.03, "spike: %g +- %g", mean, error);
	/* Or what is live, if that is higher: a third of a bar of 15 % or so. */
	mean = mean_peak(flat, false, RUNS, &error);
	ck_assert_msg(mean > 1.01 && mean < 1.07, "flat to the end: %g +- %g", mean, error);
}
END_TEST

/* A program that only grows: its peak is what it holds, not what half the samples say. */
START_TEST(peak_is_never_below_live)
{
	start(2, 9);
	for (uint64_t i = 1; i < 20000; i++) {
		maybe(i, i % 2, 1024, INTERVAL);
		ck_assert_double_ge(all().peak.bytes, all().live.bytes);
	}
	ck_assert_double_ge(figures(0).peak.bytes, figures(0).live.bytes * 0.5);
	ht_book_fini(&book);
}
END_TEST

/* Both halves of the samples are unbiased and independent: what the peak rests on. */
START_TEST(halves_are_unbiased_and_independent)
{
	enum { RUNS = 1500 };
	static const uint64_t sizes[] = { 64, 20000, 65536, 200000, 2000000 };

	for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
		double a = 0, b = 0, aa = 0, bb = 0, ab = 0;
		uint64_t blocks = ht_max(UINT64_C(1), 10 * INTERVAL / sizes[s]);

		for (uint64_t run = 1; run <= RUNS; run++) {
			double truth = (double)(blocks * sizes[s]), x, y;

			start(1, run);
			for (uint64_t i = 1; i <= blocks; i++)
				maybe(i, 0, sizes[s], INTERVAL);
			x = book.peak.bytes / truth;
			y = book.all.measured.bytes / truth;
			a += x / RUNS;
			b += y / RUNS;
			aa += x * x / RUNS;
			bb += y * y / RUNS;
			ab += x * y / RUNS;
			ht_book_fini(&book);
		}
		ck_assert_double_eq_tol(a, 1, 0.05);
		ck_assert_double_eq_tol(b, 1, 0.05);
		/* Correlation, where there is any variation. */
		if (aa - a * a > 1e-9)
			ck_assert_double_lt(fabs(ab - a * b), 0.08 * sqrt((aa - a * a) *
									  (bb - b * b)));
	}
}
END_TEST

/* What a half measures has bars, and with few samples bounds, of twice the interval. */
START_TEST(bars_and_bounds_of_a_half)
{
	enum { RUNS = 1000 };
	static const uint64_t expected[] = { 1, 5, 20, 100 };

	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		double truth = (double)(expected[i] * INTERVAL);
		int above = 0, below = 0;

		for (uint64_t run = 1; run <= RUNS; run++) {
			const struct ht_sum *half;
			double bar;

			start(1, run);
			for (uint64_t block = 1; block <= expected[i] * 64; block++)
				maybe(block, 0, INTERVAL / 64, INTERVAL);
			half = &book.all.measured;
			bar = half->samples < HT_FEW_SAMPLES ?
				      ht_sum_upper(half, 2 * INTERVAL) - half->bytes :
				      ht_bar95(half->bytes_variance);
			above += half->bytes + bar >= truth;
			below += half->samples < HT_FEW_SAMPLES || half->bytes - bar <= truth;
			ht_book_fini(&book);
		}
		/* 95 % of bounds; of bars on both sides together. */
		ck_assert_msg(above + below - RUNS > 0.925 * RUNS,
			      "%lu samples: above in %d of %d, below in %d", expected[i], above,
			      RUNS, below);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		a_full_table_counts_to_total_only,
		empty_blocks_are_objects_without_bytes, lifetimes_and_temporaries,
		sampling_may_start_later, interval_may_change, sites_add_up_to_all,
		sampled_peak_is_not_biased_upward, peak_is_never_below_live,
		halves_are_unbiased_and_independent, bars_and_bounds_of_a_half, NULL
	};

	return ht_check_run("book", tests);
}
