/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistical tests simulate many recordings with fixed seeds: they give the same
 * figures each time, so a failure is a change of the code and never bad luck.
 */
#include "ledger/sum.h"

#include <math.h>
#include <string.h>

#include "base/map.h"
#include "ht_check.h"

#define INTERVAL 65536

static uint64_t random_state;

static double uniform(void)
{
	random_state += UINT64_C(0x9e3779b97f4a7c15);
	return ((double)(ht_hash64(random_state) >> 11) + 0.5) * 0x1p-53;
}

START_TEST(probability)
{
	ck_assert_double_eq(ht_sample_probability(0, 0), 1);
	ck_assert_double_eq(ht_sample_probability(5, 0), 1);
	ck_assert_double_eq_tol(ht_sample_probability(65536, 65536), 1 - exp(-1), 1e-15);
	/* 1 - exp(-x) would be 0 or off by half here. */
	ck_assert_double_eq_tol(ht_sample_probability(1, UINT64_MAX) * 0x1p64, 1, 1e-12);
	/* An empty block is sampled like one of a byte. */
	ck_assert_double_eq(ht_sample_probability(0, 4096),
			    ht_sample_probability(1, 4096));
	ck_assert_double_eq(ht_sample_probability(UINT64_MAX, 1), 1);
}
END_TEST

START_TEST(exact_weights_are_whole)
{
	struct ht_weight w;

	ht_weigh(12345, 1, &w);
	ck_assert_double_eq(w.bytes, 12345);
	ck_assert_double_eq(w.objects, 1);
	ck_assert_double_eq(w.bytes_variance, 0);
	ck_assert_double_eq(w.objects_variance, 0);
	ht_weigh(0, ht_sample_probability(0, 4096), &w);
	ck_assert_double_eq(w.bytes, 0);
	ck_assert_double_eq(w.bytes_variance, 0);
	ck_assert_double_gt(w.objects, 4000);
}
END_TEST

START_TEST(taking_all_leaves_nothing)
{
	struct ht_sum sum = { 0 };
	struct ht_weight w;

	for (uint64_t i = 1; i < 1000; i++) {
		ht_weigh(i * 7919, ht_sample_probability(i * 7919, INTERVAL), &w);
		ht_sum_add(&sum, &w);
	}
	for (uint64_t i = 1; i < 1000; i++) {
		ht_weigh(i * 7919, ht_sample_probability(i * 7919, INTERVAL), &w);
		ht_sum_take(&sum, &w);
		ck_assert_double_ge(sum.bytes, 0);
		ck_assert_double_ge(sum.bytes_variance, 0);
	}
	ck_assert_uint_eq(sum.samples, 0);
	ck_assert_double_eq(sum.bytes, 0);
	ck_assert_double_eq(sum.objects, 0);
	/* One too many: a damaged stream must not make it negative. */
	ht_sum_take(&sum, &w);
	ck_assert_uint_eq(sum.samples, 0);
	ck_assert_double_eq(sum.bytes, 0);
}
END_TEST

START_TEST(bar)
{
	ck_assert_double_eq(ht_bar95(0), 0);
	ck_assert_double_eq_tol(ht_bar95(100), 19.6, 0.001);
}
END_TEST

/* The chance to see at most @n when @mean are expected, added up term by term. */
static double poisson_at_most(unsigned n, double mean)
{
	double term = exp(-mean), sum = term;

	for (unsigned i = 1; i <= n; i++) {
		term *= mean / i;
		sum += term;
	}
	return sum;
}

START_TEST(upper_is_the_exact_poisson_bound)
{
	for (unsigned n = 0; n < 300; n++) {
		/* n samples of blocks far smaller than the interval: of one weight. */
		struct ht_sum sum = { .bytes = n * (double)INTERVAL,
				      .bytes_variance = n * (double)INTERVAL * INTERVAL,
				      .samples = n };
		double mean = ht_sum_upper(&sum, INTERVAL) / INTERVAL;

		ck_assert_double_eq_tol(poisson_at_most(n, mean), 0.05,
					n < 190 ? 1e-6 : 1e-4);
	}
}
END_TEST

START_TEST(upper_of_certain_blocks_is_close)
{
	struct ht_sum sum = { 0 };
	struct ht_weight w;
	double gib = 1024. * 1024 * 1024;

	/* It was seen, so it is known: what may be missing is some intervals. */
	ht_weigh((uint64_t)gib, ht_sample_probability((uint64_t)gib, INTERVAL), &w);
	ht_sum_add(&sum, &w);
	ck_assert_double_gt(ht_sum_upper(&sum, INTERVAL), gib);
	ck_assert_double_lt(ht_sum_upper(&sum, INTERVAL), gib + 4. * INTERVAL);
	ck_assert_double_eq(ht_sum_upper(&sum, 0), gib);
}
END_TEST

/* One recording of a site that allocates until @samples are to be expected, sizes
 * log-uniform in [@low, @high]. The true bytes. */
static double record(double low, double high, double samples, struct ht_sum *ret_sum,
		     double *ret_objects)
{
	double truth = 0, expected = 0;

	memset(ret_sum, 0, sizeof(*ret_sum));
	*ret_objects = 0;
	while (expected < samples) {
		uint64_t size = (uint64_t)exp(log(low) + uniform() * log(high / low));
		double p = ht_sample_probability(size, INTERVAL);
		struct ht_weight w;

		truth += (double)size;
		expected += p;
		(*ret_objects)++;
		if (uniform() >= p)
			continue;
		ht_weigh(size, p, &w);
		ht_sum_add(ret_sum, &w);
	}
	return truth;
}

static const struct {
	double low, high;
} mixes[] = { { 64, 65 }, { 256, 16384 }, { 1024, 1048576 }, { 32768, 4194304 } };

/* The mean of many recordings is the truth, for bytes and objects, whatever the mix, and
 * the variance that each states is what they really vary by. */
START_TEST(unbiased)
{
	enum { RUNS = 1000 };

	for (size_t m = 0; m < ARRAY_SIZE(mixes); m++) {
		double bytes = 0, objects = 0, stated = 0, real = 0;

		random_state = m;
		for (int run = 0; run < RUNS; run++) {
			struct ht_sum sum;
			double n, t;

			t = record(mixes[m].low, mixes[m].high, 15, &sum, &n);
			bytes += sum.bytes / t / RUNS;
			objects += sum.objects / n / RUNS;
			stated += sum.bytes_variance / RUNS;
			real += (sum.bytes - t) * (sum.bytes - t) / RUNS;
		}
		/* Three standard errors of 1000 runs with 15 samples are 2.5 %. */
		ck_assert_double_eq_tol(bytes, 1, 0.03);
		ck_assert_double_eq_tol(objects, 1, 0.06);
		ck_assert_double_eq_tol(stated / real, 1, 0.2);
	}
}
END_TEST

/* The 95 % bar covers the truth about as often as it says from some 20 samples on: 93 to
 * 95 times in 100 (docs/sampling.md), one less at worst in a simulation of this size. */
START_TEST(bars_cover)
{
	enum { RUNS = 2000 };

	for (size_t m = 0; m < ARRAY_SIZE(mixes); m++) {
		int covered = 0;

		random_state = 100 + m;
		for (int run = 0; run < RUNS; run++) {
			struct ht_sum sum;
			double n, t;

			t = record(mixes[m].low, mixes[m].high, 30, &sum, &n);
			covered += fabs(sum.bytes - t) <= ht_bar95(sum.bytes_variance);
		}
		ck_assert_int_ge(covered, RUNS * 92 / 100);
		ck_assert_int_le(covered, RUNS * 97 / 100);
	}
}
END_TEST

/* The upper bound holds 95 times in 100 with few samples, where a bar doesn't. */
START_TEST(upper_bounds_cover)
{
	enum { RUNS = 2000 };
	static const double expected[] = { 0.5, 1, 2, 5, 10, 19 };

	for (size_t m = 0; m < ARRAY_SIZE(mixes); m++) {
		for (size_t e = 0; e < ARRAY_SIZE(expected); e++) {
			int above = 0;

			random_state = 1000 * m + e;
			for (int run = 0; run < RUNS; run++) {
				struct ht_sum sum;
				double n, t;

				t = record(mixes[m].low, mixes[m].high, expected[e],
					   &sum, &n);
				above += ht_sum_upper(&sum, INTERVAL) >= t;
			}
			ck_assert_msg(above >= RUNS * 94 / 100,
				      "mix %zu, %g samples expected: covers %g %%", m,
				      expected[e], 100. * above / RUNS);
		}
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		probability, exact_weights_are_whole, taking_all_leaves_nothing, bar,
		upper_is_the_exact_poisson_bound, upper_of_certain_blocks_is_close,
		unbiased, bars_cover, upper_bounds_cover, NULL
	};

	return ht_check_run("sum", tests);
}
