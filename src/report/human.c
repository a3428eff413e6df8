/* SPDX-License-Identifier: Apache-2.0
 *
 * human.c: numbers for people. Bytes in powers of 1024, which is what allocators and
 * page sizes count in.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/report-priv.h"

const char *ht_human_bytes(char text[HT_HUMAN], double bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	size_t unit = 0;

	if (!(bytes >= 0))
		bytes = 0;
	/* What would be rounded up to 1024.0 belongs to the next unit. */
	while (unit + 1 < ARRAY_SIZE(units) && bytes >= (unit ? 1023.95 : 1023.5)) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, HT_HUMAN, "%.*f %s", unit ? 1 : 0, bytes, units[unit]);
	return text;
}

const char *ht_human_size(char text[HT_HUMAN], uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	uint64_t value = bytes;
	size_t unit = 0;

	/* What people set is mostly a round number; anything else in one decimal. */
	while (value && value % 1024 == 0 && unit + 1 < ARRAY_SIZE(units)) {
		value /= 1024;
		unit++;
	}
	if (value >= 10000)
		return ht_human_bytes(text, (double)bytes);
	snprintf(text, HT_HUMAN, "%" PRIu64 " %s", value, units[unit]);
	return text;
}

const char *ht_human_exact(char text[HT_HUMAN], double value)
{
	char digits[32];
	size_t len, i, at = 0;

	value = value > 0 ? value : 0;
	snprintf(digits, sizeof(digits), "%" PRIu64,
		 value < 1.8e19 ? (uint64_t)(value + 0.5) : UINT64_MAX);
	len = strlen(digits);
	for (i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = '\0';
	return text;
}

const char *ht_human_count(char text[HT_HUMAN], double count)
{
	double unit;

	/* Four digits are more than an estimate is worth. */
	if (count >= 10000) {
		unit = pow(10, floor(log10(count)) - 3);
		count = round(count / unit) * unit;
	}
	return ht_human_exact(text, count);
}

const char *ht_human_short(char text[HT_HUMAN], double count)
{
	if (count < 9.9995e6)
		return ht_human_count(text, count);
	if (count < 999.95e6)
		snprintf(text, HT_HUMAN, "%.1f M", count / 1e6);
	else
		snprintf(text, HT_HUMAN, "%.1f G", count / 1e9);
	return text;
}

const char *ht_human_percent(char text[HT_HUMAN], double part, double whole)
{
	double percent = whole > 0 ? 100 * part / whole : 0;

	if (percent > 0 && percent < 0.05)
		snprintf(text, HT_HUMAN, "<0.1 %%");
	else
		snprintf(text, HT_HUMAN, "%.*f %%", percent < 9.95 ? 1 : 0, percent);
	return text;
}

const char *ht_human_time(char text[HT_HUMAN], uint64_t ns)
{
	uint64_t s = ns / 1000000000;

	if (ns < 1000000)
		snprintf(text, HT_HUMAN, "%.0f us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(text, HT_HUMAN, "%.1f ms", (double)ns / 1e6);
	else if (s < 120)
		snprintf(text, HT_HUMAN, "%.1f s", (double)ns / 1e9);
	else if (s < 7200)
		snprintf(text, HT_HUMAN, "%" PRIu64 " min %" PRIu64 " s", s / 60, s % 60);
	else
		snprintf(text, HT_HUMAN, "%" PRIu64 " h %" PRIu64 " min", s / 3600,
			 s / 60 % 60);
	return text;
}

const char *ht_human_plural(char text[HT_HUMAN], uint64_t n, const char *one,
			    const char *many)
{
	char number[HT_HUMAN];

	snprintf(text, HT_HUMAN, "%.30s %.30s", ht_human_exact(number, (double)n),
		 n == 1 ? one : many);
	return text;
}

const char *ht_human_error(char text[HT_HUMAN], const struct ht_sum *sum, uint64_t interval)
{
	char bytes[HT_HUMAN], samples[HT_HUMAN], percent[HT_HUMAN];
	double bar;

	if (sum->samples < HT_FEW_SAMPLES || sum->bytes <= 0) {
		snprintf(text, HT_HUMAN, "at most %.20s (%.30s)",
			 ht_human_bytes(bytes, ht_sum_upper(sum, interval)),
			 ht_human_plural(samples, sum->samples, "sample", "samples"));
		return text;
	}
	/* "±0.1 %" is true of less, and reads better than "±<0.1 %". */
	bar = fmax(ht_bar95(sum->bytes_variance), sum->bytes / 1000);
	snprintf(text, HT_HUMAN, "\302\261%.20s", ht_human_percent(percent, bar, sum->bytes));
	return text;
}
