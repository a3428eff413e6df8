/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vec.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "ht_check.h"

START_TEST(push_zeroes_and_keeps)
{
	ht_vec(int) v = HT_VEC_INIT;
	int i, *p;

	for (i = 0; i < 1000; i++) {
		p = ht_vec_push(&v);
		ck_assert_ptr_nonnull(p);
		ck_assert_int_eq(*p, 0);
		*p = i;
	}
	ck_assert_uint_eq(v.len, 1000);
	for (i = 0; i < 1000; i++)
		ck_assert_int_eq(v.at[i], i);
	ht_vec_fini(&v);
	ck_assert_ptr_null(v.at);
}
END_TEST

START_TEST(foreach_visits_all_and_none)
{
	ht_vec(int) v = HT_VEC_INIT;
	int *p, sum = 0;

	ht_vec_foreach(p, &v)
		sum += 1000;
	for (int i = 1; i <= 3; i++) {
		p = ht_vec_push(&v);
		ck_assert_ptr_nonnull(p);
		*p = i;
	}
	ht_vec_foreach(p, &v)
		sum += *p;
	ck_assert_int_eq(sum, 6);
	ht_vec_fini(&v);
}
END_TEST

START_TEST(reserved_room_cannot_fail)
{
	ht_vec(uint64_t) v = HT_VEC_INIT;
	uint64_t *first;
	int i;

	ck_ok(ht_vec_reserve(&v, 100));
	first = v.at;
	for (i = 0; i < 100; i++)
		ck_assert_ptr_nonnull(ht_vec_push(&v));
	ck_assert_ptr_eq(v.at, first);
	ck_assert_int_eq(ht_vec_reserve(&v, SIZE_MAX / 4), -ENOMEM);
	ck_assert_int_eq(ht_vec_reserve(&v, SIZE_MAX), -ENOMEM);
	ck_assert_uint_eq(v.len, 100);
	ht_vec_fini(&v);
}
END_TEST

int main(void)
{
	return ht_check_run("vec", (const TTest *const[]){ push_zeroes_and_keeps,
							   foreach_visits_all_and_none,
							   reserved_room_cannot_fail, NULL });
}
