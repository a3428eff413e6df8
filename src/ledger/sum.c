/* SPDX-License-Identifier: Apache-2.0
 *
 * sum.c: the probability of a sample, and how far an estimate may be from the truth.
 */
#include "ledger/sum.h"

#include <math.h>

double ht_sample_probability(uint64_t size, uint64_t interval)
{
	if (!interval)
		return 1;
	/* expm1 because 1 - exp(-x) has no correct digit left for a small x. */
	return -expm1(-(double)ht_max(size, UINT64_C(1)) / (double)interval);
}

double ht_bar95(double variance)
{
	return variance > 0 ? 1.959963984540054 * sqrt(variance) : 0;
}

#define MAX_TERMS 10000

/* Regularised lower incomplete gamma function P(a, x): the chance that a gamma variable
 * of shape @a and scale 1 is at most @x. By its series: all terms are positive, and @x is
 * never far above @a here, so it converges and loses no digits. */
static double gamma_at_most(double a, double x)
{
	double term = 1 / a, sum = term;
	int sign;

	for (int n = 1; n < MAX_TERMS && term > sum * 1e-15; n++) {
		term *= x / (a + n);
		sum += term;
	}
	return ht_min(sum * exp(a * log(x) - x - lgamma_r(a, &sign)), 1.0);
}

/* Wilson and Hilferty: the cube root of a gamma variable is nearly normal. Within 1e-4 of
 * the truth from shape 100 on, and a good start below. */
static double gamma_quantile95_large(double a)
{
	double t = 1 - 1 / (9 * a) + 1.6448536269514722 / (3 * sqrt(a));

	return a * t * t * t;
}

/* x so that P(a, x) = 0.95. */
static double gamma_quantile95(double a)
{
	double low = 0, high;

	if (a > 200)
		return gamma_quantile95_large(a);
	high = 4 * a + 8;
	while (high - low > 1e-9 * high) {
		double mid = (low + high) / 2;

		if (gamma_at_most(a, mid) < 0.95)
			low = mid;
		else
			high = mid;
	}
	return high;
}

double ht_sum_upper(const struct ht_sum *sum, uint64_t interval)
{
	double unseen = (double)interval, mean, variance;

	if (!interval)
		return sum->bytes;
	/* The gamma with the mean and the variance of what was seen plus one sample more.
	 * With n equal weights w it is the exact Poisson bound times w: n + 1 = shape. */
	mean = sum->bytes + unseen;
	variance = sum->bytes_variance + unseen * unseen;
	return variance / mean * gamma_quantile95(mean * mean / variance);
}
