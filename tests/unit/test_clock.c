/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <limits.h>
#include <string.h>

#include "ht_check.h"

START_TEST(time_does_not_go_back)
{
	uint64_t last = ht_now_ns(), now;
	int i;

	ck_assert_uint_gt(last, 0);
	for (i = 0; i < 1000; i++) {
		now = ht_now_ns();
		ck_assert_uint_ge(now, last);
		last = now;
	}
}
END_TEST

START_TEST(no_deadline_never_passes)
{
	ck_assert(!ht_deadline_passed(0));
	ck_assert_int_eq(ht_deadline_poll_ms(0), -1);
}
END_TEST

START_TEST(passed_and_not_yet)
{
	ck_assert(ht_deadline_passed(1));
	ck_assert_int_eq(ht_deadline_poll_ms(1), 0);
	ck_assert(ht_deadline_passed(ht_deadline_ns(0)));
	ck_assert(!ht_deadline_passed(ht_deadline_ns(3600 * HT_NS_PER_SEC)));
}
END_TEST

START_TEST(poll_time_is_rounded_up)
{
	int ms = ht_deadline_poll_ms(ht_deadline_ns(3600 * HT_NS_PER_SEC));
	uint64_t soon;

	ck_assert_int_le(ms, 3600 * 1000);
	ck_assert_int_gt(ms, 1800 * 1000);
	/* Less than a millisecond left isn't 0: that would spin. */
	soon = ht_deadline_ns(HT_NS_PER_MS / 2);
	ck_assert(ht_deadline_poll_ms(soon) > 0 || ht_deadline_passed(soon));
}
END_TEST

START_TEST(a_deadline_past_all_time_is_far_not_passed)
{
	uint64_t deadline = ht_deadline_ns(UINT64_MAX);

	ck_assert(!ht_deadline_passed(deadline));
	ck_assert_int_eq(ht_deadline_poll_ms(deadline), INT_MAX);
}
END_TEST

int main(void)
{
	return ht_check_run("clock", (const TTest *const[]){
		time_does_not_go_back, no_deadline_never_passes, passed_and_not_yet,
		poll_time_is_rounded_up, a_deadline_past_all_time_is_far_not_passed, NULL });
}
