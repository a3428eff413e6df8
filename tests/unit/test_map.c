/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#include "ht_check.h"

START_TEST(empty_answers)
{
	struct ht_map map = HT_MAP_INIT;
	size_t cursor = 0;

	ck_assert_ptr_null(ht_map_get(&map, 0));
	ck_assert(!ht_map_take(&map, 0, NULL));
	ck_assert_ptr_null(ht_map_next(&map, &cursor));
	ht_map_fini(&map);
}
END_TEST

START_TEST(any_key_is_legal)
{
	static const uint64_t keys[] = { 0, 1, UINT64_MAX, 0x7ffff000, 1ull << 63 };
	struct ht_map map = HT_MAP_INIT;
	uint64_t value;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(keys); i++)
		ck_ok(ht_map_put(&map, keys[i], i));
	ck_ok(ht_map_put(&map, 0, 77));
	ck_assert_uint_eq(map.len, ARRAY_SIZE(keys));
	ck_assert_uint_eq(*ht_map_get(&map, 0), 77);
	ck_assert(ht_map_take(&map, 0, &value));
	ck_assert_uint_eq(value, 77);
	ck_assert_ptr_null(ht_map_get(&map, 0));
	ck_assert_uint_eq(*ht_map_get(&map, UINT64_MAX), 2);
	ht_map_fini(&map);
}
END_TEST

START_TEST(texts_have_hashes)
{
	ck_assert_uint_eq(ht_hash_text("malloc"), ht_hash_text("malloc"));
	ck_assert_uint_ne(ht_hash_text("malloc"), ht_hash_text("mallod"));
	ck_assert_uint_ne(ht_hash_text("ab"), ht_hash_text("ba"));
	ck_assert_uint_ne(ht_hash_text(""), ht_hash_text("\xff"));
	ck_assert_uint_eq(ht_hash_text(""), ht_hash64(UINT64_C(0xcbf29ce484222325)));
}
END_TEST

/* Against an array that can't be wrong: keys in a small range collide and churn, so that
 * runs of slots form, wrap round the end, and are closed up by deletion. */
START_TEST(agrees_with_an_array_under_churn)
{
	enum { KEYS = 200, STEPS = 200000 };
	struct ht_map map = HT_MAP_INIT;
	uint64_t truth[KEYS], value, *found, random = 42;
	bool there[KEYS] = { false };
	size_t i, len = 0, k;

	for (i = 0; i < STEPS; i++) {
		random = ht_hash64(random + i);
		k = random % KEYS;
		if (random >> 63) {
			ck_ok(ht_map_put(&map, k << 12, i));
			len += !there[k];
			there[k] = true;
			truth[k] = i;
		} else {
			ck_assert_int_eq(ht_map_take(&map, k << 12, &value), there[k]);
			ck_assert(!there[k] || value == truth[k]);
			len -= there[k];
			there[k] = false;
		}
		ck_assert_uint_eq(map.len, len);
	}
	for (k = 0; k < KEYS; k++) {
		found = ht_map_get(&map, k << 12);
		ck_assert_int_eq(found != NULL, there[k]);
		ck_assert(!found || *found == truth[k]);
	}
	ht_map_fini(&map);
}
END_TEST

START_TEST(a_table_that_only_churns_never_grows)
{
	struct ht_map map = HT_MAP_INIT;
	uint64_t i;
	size_t cap;

	for (i = 0; i < 10; i++)
		ck_ok(ht_map_put(&map, i, i));
	cap = map.cap;
	for (i = 10; i < 100000; i++) {
		ck_assert(ht_map_take(&map, i - 10, NULL));
		ck_ok(ht_map_put(&map, i, i));
	}
	ck_assert_uint_eq(map.cap, cap);
	ht_map_fini(&map);
}
END_TEST

START_TEST(walk_sees_each_once)
{
	struct ht_map map = HT_MAP_INIT;
	const struct ht_map_slot *slot;
	unsigned char seen[1000] = { 0 };
	size_t cursor = 0, n = 0;
	uint64_t i;

	for (i = 0; i < 1000; i++)
		ck_ok(ht_map_put(&map, i * 4096, i));
	while ((slot = ht_map_next(&map, &cursor))) {
		ck_assert_uint_eq(slot->key, slot->value * 4096);
		ck_assert_uint_eq(seen[slot->value]++, 0);
		n++;
	}
	ck_assert_uint_eq(n, 1000);
	ht_map_fini(&map);
}
END_TEST

int main(void)
{
	return ht_check_run("map", (const TTest *const[]){
		empty_answers, any_key_is_legal, texts_have_hashes, agrees_with_an_array_under_churn,
		a_table_that_only_churns_never_grows, walk_sees_each_once, NULL });
}
