/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "fake_recording.h"
#include "ht_check.h"
#include "report/report-priv.h"

static char text[HT_HUMAN];

START_TEST(bytes)
{
	ck_assert_str_eq(ht_human_bytes(text, 0), "0 B");
	ck_assert_str_eq(ht_human_bytes(text, 1023), "1023 B");
	ck_assert_str_eq(ht_human_bytes(text, 1023.9), "1.0 KiB");
	ck_assert_str_eq(ht_human_bytes(text, 1024), "1.0 KiB");
	ck_assert_str_eq(ht_human_bytes(text, 1536), "1.5 KiB");
	ck_assert_str_eq(ht_human_bytes(text, 1048570), "1.0 MiB");
	ck_assert_str_eq(ht_human_bytes(text, 432293912), "412.3 MiB");
	ck_assert_str_eq(ht_human_bytes(text, 6549825126), "6.1 GiB");
	ck_assert_str_eq(ht_human_bytes(text, -5), "0 B");
	ck_assert_str_eq(ht_human_bytes(text, NAN), "0 B");
	ck_assert_uint_lt(strlen(ht_human_bytes(text, 1e300)), HT_HUMAN);
	ck_assert_str_eq(ht_human_size(text, 65536), "64 KiB");
	ck_assert_str_eq(ht_human_size(text, 1), "1 B");
	ck_assert_str_eq(ht_human_size(text, 0), "0 B");
	ck_assert_str_eq(ht_human_size(text, 1500), "1500 B");
	ck_assert_str_eq(ht_human_size(text, 100000), "97.7 KiB");
	ck_assert_str_eq(ht_human_size(text, UINT64_C(1) << 63), "8 EiB");
}
END_TEST

START_TEST(counts)
{
	ck_assert_str_eq(ht_human_exact(text, 0), "0");
	ck_assert_str_eq(ht_human_exact(text, 999), "999");
	ck_assert_str_eq(ht_human_exact(text, 1000), "1,000");
	ck_assert_str_eq(ht_human_exact(text, 123456), "123,456");
	ck_assert_str_eq(ht_human_exact(text, 432293912), "432,293,912");
	ck_assert_str_eq(ht_human_exact(text, 1e30), "18,446,744,073,709,551,615");
	ck_assert_str_eq(ht_human_count(text, 9999), "9,999");
	ck_assert_str_eq(ht_human_count(text, 2104846), "2,105,000");
	ck_assert_str_eq(ht_human_short(text, 146912), "146,900");
	ck_assert_str_eq(ht_human_short(text, 1604846), "1,605,000");
	ck_assert_str_eq(ht_human_short(text, 9999900), "10.0 M");
	ck_assert_str_eq(ht_human_short(text, 999960000), "1.0 G");
	ck_assert_str_eq(ht_human_plural(text, 1, "free", "frees"), "1 free");
	ck_assert_str_eq(ht_human_plural(text, 1204, "free", "frees"), "1,204 frees");
	ck_assert_str_eq(ht_human_plural(text, 0, "free", "frees"), "0 frees");
}
END_TEST

START_TEST(shares_and_times)
{
	ck_assert_str_eq(ht_human_percent(text, 0, 0), "0.0 %");
	ck_assert_str_eq(ht_human_percent(text, 1, 1), "100 %");
	ck_assert_str_eq(ht_human_percent(text, 73.4, 100), "73 %");
	ck_assert_str_eq(ht_human_percent(text, 9.96, 100), "10 %");
	ck_assert_str_eq(ht_human_percent(text, 4.25, 100), "4.2 %");
	ck_assert_str_eq(ht_human_percent(text, 0.01, 100), "<0.1 %");
	ck_assert_str_eq(ht_human_time(text, 800000), "800 us");
	ck_assert_str_eq(ht_human_time(text, 1100000), "1.1 ms");
	ck_assert_str_eq(ht_human_time(text, UINT64_C(30000000000)), "30.0 s");
	ck_assert_str_eq(ht_human_time(text, UINT64_C(125000000000)), "2 min 5 s");
	ck_assert_str_eq(ht_human_time(text, UINT64_C(11100000000000)), "3 h 5 min");
}
END_TEST

/* No bar below 20 samples: nobody could trust it. */
START_TEST(errors)
{
	struct ht_sum sum = { .bytes = 1e6, .bytes_variance = 1e10 * 0.01, .samples = 20 };

	ck_assert_str_eq(ht_human_error(text, &sum, 65536), "\302\2612.0 %");
	sum.bytes_variance = 1;
	ck_assert_str_eq(ht_human_error(text, &sum, 65536), "\302\2610.1 %");
	sum.samples = 19;
	ck_assert_ptr_nonnull(strstr(ht_human_error(text, &sum, 65536), "at most "));
	ck_assert_ptr_nonnull(strstr(text, "(19 samples)"));
	sum = (struct ht_sum){ 0 };
	ck_assert_str_eq(ht_human_error(text, &sum, 65536), "at most 192.0 KiB (0 samples)");
	sum = (struct ht_sum){ .bytes = 1e300, .bytes_variance = INFINITY, .samples = 100 };
	ck_assert_uint_lt(strlen(ht_human_error(text, &sum, 65536)), HT_HUMAN);
}
END_TEST

int main(void)
{
	return ht_check_run("human", (const TTest *const[]){ bytes, counts, shares_and_times,
							     errors, NULL });
}
