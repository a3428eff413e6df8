/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ht_check.h"
#include "symbol/symbol-priv.h"

static struct ht_strings strings;

START_TEST(one_copy_of_each)
{
	char text[] = "operator new";
	const char *first = ht_strings_intern(&strings, text), *other;

	ck_assert_str_eq(first, "operator new");
	ck_assert_ptr_ne(first, text);
	ck_assert_ptr_eq(ht_strings_intern(&strings, "operator new"), first);
	other = ht_strings_intern(&strings, "operator ne");
	ck_assert_ptr_ne(other, first);
	/* What was given is not kept. */
	memset(text, 'x', sizeof(text) - 1);
	ck_assert_str_eq(first, "operator new");
	ck_assert_str_eq(ht_strings_intern(&strings, ""), "");
	ck_assert_ptr_eq(ht_strings_intern(&strings, ""), ht_strings_intern(&strings, ""));
	ck_assert_uint_eq(strings.all.len, 3);
	ht_strings_fini(&strings);
}
END_TEST

/* The pointers are good until the end, however much comes after. */
START_TEST(growing)
{
	enum { N = 20000 };
	const char **at = calloc(N, sizeof(*at));
	char text[32];

	ck_assert_ptr_nonnull(at);
	for (int i = 0; i < N; i++) {
		snprintf(text, sizeof(text), "\xff name %d\n", i);
		at[i] = ht_strings_intern(&strings, text);
		ck_assert_ptr_nonnull(at[i]);
	}
	for (int i = 0; i < N; i++) {
		snprintf(text, sizeof(text), "\xff name %d\n", i);
		ck_assert_str_eq(at[i], text);
		ck_assert_ptr_eq(ht_strings_intern(&strings, text), at[i]);
	}
	ck_assert_uint_eq(strings.all.len, N);
	ht_strings_fini(&strings);
	free(at);
}
END_TEST

/* Two names with one hash: the place of the second is taken by force. */
START_TEST(colliding_names)
{
	const char *first = ht_strings_intern(&strings, "first"), *second;
	struct ht_strings other = { .by_hash = HT_MAP_INIT };
	size_t cursor = 0;
	uint64_t key;

	second = ht_strings_intern(&other, "second");
	ck_assert_ptr_nonnull(second);
	key = ht_map_next(&other.by_hash, &cursor)->key;
	ht_strings_fini(&other);
	/* "first" under the key of "second" too. */
	ck_ok(ht_map_put(&strings.by_hash, key, 0));
	second = ht_strings_intern(&strings, "second");
	ck_assert_str_eq(second, "second");
	ck_assert_ptr_eq(ht_strings_intern(&strings, "second"), second);
	ck_assert_ptr_eq(ht_strings_intern(&strings, "first"), first);
	ck_assert_uint_eq(strings.all.len, 2);
	ht_strings_fini(&strings);
}
END_TEST

START_TEST(fini_of_nothing)
{
	ht_strings_fini(&strings);
	ht_strings_fini(&strings);
	ck_assert_str_eq(ht_strings_intern(&strings, "again"), "again");
	ht_strings_fini(&strings);
}
END_TEST

int main(void)
{
	return ht_check_run("strings", (const TTest *const[]){
		one_copy_of_each, growing, colliding_names, fini_of_nothing, NULL });
}
