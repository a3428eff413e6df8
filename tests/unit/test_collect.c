/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "inject/draft.h"
#include "made_images.h"

static struct ht_planner p;

#define FUNC STT_FUNC, STB_GLOBAL

static void collect(const struct made_symbol *symbols, size_t n)
{
	init_functions();
	start_images(symbols, n);
	memset(&p, 0, sizeof(p));
	p.images = images;
	ck_ok(ht_planner_collect(&p));
	ck_assert_uint_eq(p.candidates[0].first, 0);
	ck_assert_uint_eq(p.candidates[0].end, p.drafts.len);
}

static void forget(void)
{
	free(p.candidates[0].kinds);
	free(p.candidates);
	ht_vec_fini(&p.drafts);
	ht_map_fini(&p.by_addr);
	ht_map_fini(&p.by_name);
	stop_images();
}

static struct ht_draft *at(uint64_t offset)
{
	return ht_planner_at(&p, made_pc(&made, offset));
}

START_TEST(one_draft_an_address)
{
	static const struct made_symbol symbols[] = {
		{ "free", F(2), FUNC },	   { "malloc", F(1), FUNC },
		{ "cfree", F(2), FUNC },   { "main", F(0), FUNC },
		{ "_Znwm", F(3), FUNC },   { "_ZN3foo6mallocEm", F(4), FUNC },
		{ "__libc_free", F(2), FUNC },
	};
	int64_t kind;

	collect(symbols, ARRAY_SIZE(symbols));
	ck_assert_uint_eq(p.drafts.len, 3);
	ck_assert_str_eq(at(F(1))->site.names, "malloc");
	ck_assert_str_eq(at(F(2))->site.names, "free, cfree, __libc_free");
	ck_assert_str_eq(at(F(2))->site.kind->name, "free");
	ck_assert_str_eq(at(F(3))->site.names, "_Znwm");
	ck_assert_uint_eq(at(F(1))->site.size, 0x40);
	ck_assert_int_eq(at(F(1))->state, HT_DRAFT_SITE);
	ck_assert_ptr_eq(at(F(1))->site.module, images.all.at[0].module);
	ck_assert_ptr_null(at(F(0)));
	ck_assert_ptr_null(at(F(1) + 1));
	/* Each name's address is kept, aliases too. */
	kind = ht_planner_kind(&p, "cfree", 5);
	ck_assert_int_ge(kind, 0);
	ck_assert_uint_eq(p.candidates[0].kinds[kind], made_pc(&made, F(2)));
	kind = ht_planner_kind(&p, "calloc", 6);
	ck_assert_uint_eq(p.candidates[0].kinds[kind], 0);
	forget();
}
END_TEST

START_TEST(names_are_matched_whole)
{
	collect(NULL, 0);
	ck_assert_uint_eq(p.drafts.len, 0);
	ck_assert_int_ge(ht_planner_kind(&p, "malloc", 6), 0);
	ck_assert_int_ge(ht_planner_kind(&p, "malloc_more", 6), 0);
	ck_assert_int_eq(ht_planner_kind(&p, "malloc", 5), -ENOENT);
	ck_assert_int_eq(ht_planner_kind(&p, "mallocy", 7), -ENOENT);
	ck_assert_int_eq(ht_planner_kind(&p, "", 0), -ENOENT);
	for (size_t i = 0; i < ht_entry_kinds_len; i++)
		ck_assert_int_eq(ht_planner_kind(&p, ht_entry_kinds[i].name,
						 strlen(ht_entry_kinds[i].name)), (int64_t)i);
	forget();
}
END_TEST

START_TEST(what_symbols_say)
{
	static const struct made_symbol symbols[] = {
		/* A local one, then the global one that is meant; data of that name. */
		{ "malloc", F(1), STT_FUNC, STB_LOCAL },
		{ "malloc", F(2), FUNC },
		{ "malloc", F(3), FUNC },
		{ "free", F(4), STT_FUNC, STB_LOCAL },
		{ "calloc", F(5), STT_OBJECT, STB_GLOBAL },
		/* Chosen at run time, but nobody is bound to it. */
		{ "realloc", F(6), STT_GNU_IFUNC, STB_GLOBAL },
	};

	collect(symbols, ARRAY_SIZE(symbols));
	ck_assert_uint_eq(p.drafts.len, 3);
	ck_assert_ptr_null(at(F(1)));
	ck_assert_ptr_nonnull(at(F(2)));
	ck_assert_ptr_nonnull(at(F(4)));
	ck_assert_ptr_null(at(F(5)));
	ck_assert(ht_draft_patched(at(F(4))));
	ck_assert(!ht_draft_patched(at(F(6))));
	ck_assert_ptr_nonnull(strstr(at(F(6))->site.refused, "IFUNC"));
	forget();
}
END_TEST

/* All names at one address: as many as fit, none of them cut. */
START_TEST(names_that_do_not_fit)
{
	struct made_symbol symbols[40];
	const char *names, *comma;
	size_t n = 0, len;

	for (size_t i = 0; i < ht_entry_kinds_len && n < ARRAY_SIZE(symbols); i++)
		symbols[n++] = (struct made_symbol){ ht_entry_kinds[i].name, F(1), FUNC };
	collect(symbols, n);
	ck_assert_uint_eq(p.drafts.len, 1);
	names = at(F(1))->site.names;
	ck_assert_uint_lt(strlen(names), sizeof(p.drafts.at->site.names));
	for (; names; names = comma ? comma + 2 : NULL) {
		comma = strstr(names, ", ");
		len = comma ? (size_t)(comma - names) : strlen(names);
		ck_assert_int_ge(ht_planner_kind(&p, names, len), 0);
	}
	forget();
}
END_TEST

int main(void)
{
	return ht_check_run("collect", (const TTest *const[]){
		one_draft_an_address, names_are_matched_whole, what_symbols_say,
		names_that_do_not_fit, NULL });
}
