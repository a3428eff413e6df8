/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fake_recording.h"
#include "ht_check.h"
#include "report/report-priv.h"

START_TEST(groups_by_leaf)
{
	struct ht_sites sites;
	ht_sites_tree tree = HT_VEC_INIT;
	struct fake fake;

	fake_init(&fake);
	fake.recording.interval = 0;
	fake_redis(&fake);
	ck_ok(ht_sites_group(&fake.recording, HT_METRIC_LIVE, &sites));
	ck_assert_uint_eq(sites.entries.len, 4);
	ck_assert_str_eq(sites.entries.at[0].leaf.name, "sdsnewlen");
	ck_assert_uint_eq(sites.entries.at[0].leaf.line, 101);	/* the heavier of two */
	ck_assert_uint_eq(sites.entries.at[0].n, 2);
	ck_assert(sites.entries.at[0].sum.bytes == 301 * (1048576.0 + 1));
	ck_assert_str_eq(sites.entries.at[1].leaf.name, "dictExpand");
	ck_ok(ht_sites_build(&fake.recording, &sites, 0, &tree));
	ck_assert_str_eq(tree.at[tree.at[0].child].step.name, "createStringObject");
	ck_assert_str_eq(tree.at[tree.at[tree.at[0].child].sibling].step.name, "appendCommand");
	ck_assert(tree.at[0].sum.bytes == sites.entries.at[0].sum.bytes);
	ht_vec_fini(&tree);
	ht_sites_fini(&sites);
	fake_fini(&fake);
}
END_TEST

/* What a tree says must be what counting by hand says, for stacks at random. */
START_TEST(agrees_with_brute_force)
{
	enum { FUNCS = 5, SITES = 300, DEPTH = 4 };
	double by_leaf[FUNCS] = { 0 }, by_pair[FUNCS][FUNCS] = { { 0 } };
	struct ht_frame funcs[FUNCS], frames[DEPTH];
	ht_sites_tree tree = HT_VEC_INIT;
	struct ht_sites sites;
	struct fake fake;
	unsigned seed = 7;
	double bytes;
	uint32_t child;
	size_t i, j;

	fake_init(&fake);
	fake.recording.interval = 0;
	for (i = 0; i < FUNCS; i++) {
		char name[2] = { (char)('a' + i), '\0' };

		funcs[i] = fake_function(&fake, 0, name, "x.c", 1);
	}
	for (i = 0; i < SITES; i++) {
		size_t pick[DEPTH];

		for (j = 0; j < DEPTH; j++) {
			seed = seed * 1103515245 + 12345;
			pick[j] = (seed >> 16) % FUNCS;
			frames[j] = funcs[pick[j]];
		}
		bytes = (double)(seed >> 8 & 1023) + 1;
		fake_site(&fake, frames, DEPTH, HT_STACK_COMPLETE, bytes, 1, 1, 1);
		by_leaf[pick[0]] += bytes;
		by_pair[pick[0]][pick[1]] += bytes;
	}
	ck_ok(ht_sites_group(&fake.recording, HT_METRIC_LIVE, &sites));
	ck_assert_uint_eq(sites.entries.len, FUNCS);
	for (i = 0; i < FUNCS; i++) {
		size_t leaf = (size_t)(sites.entries.at[i].leaf.name[0] - 'a');

		ck_assert(sites.entries.at[i].sum.bytes == by_leaf[leaf]);
		ck_assert(i == 0 || sites.entries.at[i - 1].sum.bytes >= by_leaf[leaf]);
		ck_ok(ht_sites_build(&fake.recording, &sites, i, &tree));
		bytes = 1e300;
		for (child = tree.at[0].child; child; child = tree.at[child].sibling) {
			ck_assert(tree.at[child].sum.bytes ==
				  by_pair[leaf][tree.at[child].step.name[0] - 'a']);
			ck_assert(tree.at[child].sum.bytes <= bytes);
			bytes = tree.at[child].sum.bytes;
		}
	}
	ht_vec_fini(&tree);
	ht_sites_fini(&sites);
	fake_fini(&fake);
}
END_TEST

START_TEST(nothing)
{
	struct ht_sites sites;
	struct fake fake;

	fake_init(&fake);
	ck_ok(ht_sites_group(&fake.recording, HT_METRIC_PEAK, &sites));
	ck_assert_uint_eq(sites.entries.len, 0);
	ht_sites_fini(&sites);
	fake_fini(&fake);
}
END_TEST

int main(void)
{
	return ht_check_run("sites", (const TTest *const[]){ groups_by_leaf,
							     agrees_with_brute_force, nothing,
							     NULL });
}
