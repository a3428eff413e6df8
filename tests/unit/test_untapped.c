/* SPDX-License-Identifier: Apache-2.0
 *
 * What came late is listed first, then what a plan left out, module by module, those that
 * nothing counts first.
 */
#include <string.h>

#include "cmd/record.h"
#include "fake_modules.h"
#include "ht_check.h"
#include "inject/plan.h"

static void check(const struct ht_untapped *u, const char *names, const char *module,
		  const char *why, bool counted)
{
	ck_assert_msg(names ? u->names && !strcmp(u->names, names) : !u->names, "%s", u->names);
	ck_assert_str_eq(u->module, module);
	ck_assert_str_eq(u->why, why);
	ck_assert_int_eq(u->counted, counted);
}

static void check_late(const struct ht_untapped *u, const char *module, const char *late)
{
	ck_assert(!u->names && !u->counted);
	ck_assert_str_eq(u->module, module);
	ck_assert_str_eq(u->late, late);
}

START_TEST(module_by_module)
{
	struct ht_modules *modules;
	struct ht_module *one, *two;
	struct ht_allocator allocators[] = {
		{ .n_sites = 1 },
		{ .left_out = "'free' can't be patched: why" },
	};
	struct ht_site sites[] = {
		{ .names = "a" },
		{ .names = "b, bb", .refused = "x", .counted = true },
		{ .names = "c", .refused = "y" },
		{ .names = "d", .refused = "z" },
	};
	const struct ht_plan plan = { sites, ARRAY_SIZE(sites), allocators,
				      ARRAY_SIZE(allocators) };
	const struct ht_module *late[2];
	struct ht_tap_result result = { .plan = &plan, .late = late };
	ht_untapped_list list = HT_VEC_INIT;

	ck_ok(ht_modules_new(&modules));
	fake_modules_add(modules, "/usr/lib/one.so", NULL, "");
	fake_modules_add(modules, "/usr/lib/two.so", NULL, "");
	fake_modules_add(modules, "/usr/lib/three.so", NULL, "");
	one = ht_modules_at(modules, 0);
	two = ht_modules_at(modules, 1);
	allocators[0].module = sites[0].module = sites[1].module = sites[2].module = one;
	allocators[1].module = sites[3].module = two;
	ck_ok(ht_untapped_of(&result, &list));
	ck_assert_uint_eq(list.len, 3);
	check(&list.at[0], "c", "one.so", "y", false);
	check(&list.at[1], "b, bb", "one.so", "x", true);
	check(&list.at[2], NULL, "two.so", "'free' can't be patched: why", false);
	ht_vec_clear(&list);
	late[0] = ht_modules_at(modules, 2);
	late[1] = one;
	result.n_late = 2;
	ck_ok(ht_untapped_of(&result, &list));
	ck_assert_uint_eq(list.len, 5);
	check_late(&list.at[0], "three.so", "loaded");
	check_late(&list.at[1], "one.so", "loaded again");
	check(&list.at[2], "c", "one.so", "y", false);
	ht_vec_fini(&list);
	ht_modules_free(modules);
}
END_TEST

int main(void)
{
	return ht_check_run("untapped", (const TTest *const[]){ module_by_module, NULL });
}
