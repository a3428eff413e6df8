/* SPDX-License-Identifier: Apache-2.0
 *
 * test_choose.c: one module's entries, as if collected and measured. How several modules
 * are told apart is test_plan's.
 */
#include "inject/draft.h"
#include "made_images.h"

static struct ht_planner p;
static struct ht_plan_box box;

#define FUNC STT_FUNC, STB_GLOBAL

static void choose(const struct made_symbol *symbols, size_t n)
{
	start_images(symbols, n);
	memset(&p, 0, sizeof(p));
	memset(&box, 0, sizeof(box));
	p.box = &box;
	p.images = images;
	ck_ok(ht_planner_collect(&p));
	p.candidates[0].allocator = true;
	for (size_t i = 0; i < p.drafts.len; i++) {
		p.drafts.at[i].patch_addr = p.drafts.at[i].site.addr;
		p.drafts.at[i].replaced_len = HT_JUMP_LEN;
	}
}

static void forget(void)
{
	for (size_t i = 0; i < box.texts.len; i++)
		free(box.texts.at[i]);
	ht_vec_fini(&box.texts);
	free(p.candidates[0].kinds);
	free(p.candidates);
	ht_vec_fini(&p.drafts);
	ht_map_fini(&p.by_addr);
	ht_map_fini(&p.by_name);
	stop_images();
}

static struct ht_draft *at(uint64_t offset)
{
	struct ht_draft *d = ht_planner_at(&p, made_pc(&made, offset));

	ck_assert_ptr_nonnull(d);
	return d;
}

static const struct made_symbol four[] = {
	{ "malloc", F(1), FUNC }, { "free", F(2), FUNC }, { "calloc", F(3), FUNC },
	{ "aligned_alloc", F(4), FUNC },
};

START_TEST(frames_only_where_needed)
{
	init_functions();
	put_branch(F(3) + 1, CALL, F(1));	/* calloc calls malloc */
	choose(four, ARRAY_SIZE(four));
	ht_planner_choose(&p);
	ck_assert(at(F(1))->site.frameless);
	ck_assert(at(F(2))->site.frameless);
	ck_assert(!at(F(3))->site.frameless);
	/* Proven to reach no other. */
	ck_assert(at(F(4))->site.frameless);
	ck_assert_str_eq(p.candidates[0].name + strlen(p.candidates[0].name) - 4,
			 ht_module_name(at(F(1))->site.module) +
				 strlen(ht_module_name(at(F(1))->site.module)) - 4);
	forget();
}
END_TEST

/* The same block would count twice. */
START_TEST(bare_jumps_drop_out)
{
	init_functions();
	put_branch(F(4), JUMP, F(1));
	put_branch(F(3) + 1, JUMP, F(1));	/* does something before */
	choose(four, ARRAY_SIZE(four));
	ht_planner_choose(&p);
	ck_assert_int_eq(at(F(4))->state, HT_DRAFT_DROPPED);
	ck_assert_int_eq(at(F(3))->state, HT_DRAFT_SITE);
	ck_assert_int_eq(at(F(1))->state, HT_DRAFT_SITE);
	forget();
}
END_TEST

/* Blocks that are seen to come but not to go would be leaks that there aren't. */
START_TEST(half_an_allocator)
{
	init_functions();
	choose(four, ARRAY_SIZE(four));
	ht_draft_refuse(at(F(2)), "of a test");
	ht_planner_choose(&p);
	ck_assert_str_eq(at(F(2))->site.refused, "of a test");
	ck_assert_str_eq(at(F(1))->site.refused, "'free' of the same module can't be patched");
	ck_assert(!ht_draft_patched(at(F(3))));
	ck_assert_ptr_eq(p.broken, at(F(2)));
	forget();
	/* Others may be missing. */
	init_functions();
	choose(four, ARRAY_SIZE(four));
	ht_draft_refuse(at(F(3)), "of a test");
	ht_planner_choose(&p);
	ck_assert(ht_draft_patched(at(F(1))));
	ck_assert(ht_draft_patched(at(F(4))));
	ck_assert_ptr_null(p.broken);
	forget();
}
END_TEST

/* Eight bytes are written at each: nobody's word may hold another's patch. */
START_TEST(patches_that_overlap)
{
	for (unsigned apart = 7; apart <= 8; apart++) {
		const struct made_symbol near[] = {
			{ "malloc", F(1), FUNC }, { "free", F(2), FUNC },
			{ "calloc", F(4), FUNC }, { "valloc", F(4) + apart, FUNC },
		};

		init_functions();
		choose(near, ARRAY_SIZE(near));
		ht_planner_choose(&p);
		ck_assert(ht_draft_patched(at(F(4))));
		ck_assert_int_eq(ht_draft_patched(at(F(4) + apart)), apart == 8);
		if (apart == 7)
			ck_assert_int_eq(at(F(4) + apart)->site.refusal, HT_INSN_TOO_SHORT);
		forget();
	}
}
END_TEST

START_TEST(what_throws_needs_a_sibling)
{
	static const struct made_symbol with[] = {
		{ "malloc", F(1), FUNC }, { "free", F(2), FUNC }, { "_Znwm", F(3), FUNC },
		{ "_ZnwmRKSt9nothrow_t", F(4), FUNC },
	};

	init_functions();
	/* The sibling is a jump to a third function that isn't patched: it's called as it is. */
	put_branch(F(4), JUMP, F(9));
	choose(with, ARRAY_SIZE(with));
	ht_planner_choose(&p);
	ck_assert_uint_eq(at(F(3))->site.nothrow_addr, made_pc(&made, F(4)));
	forget();
	/* To one that is patched: that one. */
	init_functions();
	put_branch(F(4), JUMP, F(1));
	choose(with, ARRAY_SIZE(with));
	ht_planner_choose(&p);
	ck_assert_uint_eq(at(F(3))->site.nothrow_addr, made_pc(&made, F(1)));
	forget();
	/* None, and it allocates by itself. */
	init_functions();
	choose(with, 3);
	ht_planner_choose(&p);
	ck_assert_ptr_nonnull(strstr(at(F(3))->site.refused, "_ZnwmRKSt9nothrow_t"));
	forget();
	/* None, but it calls malloc, which counts it. */
	init_functions();
	put_branch(F(3) + 1, CALL, F(1));
	choose(with, 3);
	ht_planner_choose(&p);
	ck_assert_int_eq(at(F(3))->state, HT_DRAFT_DROPPED);
	forget();
}
END_TEST

/* What can't be patched, and only calls what counts the same. */
START_TEST(wrappers_are_counted)
{
	static const struct made_symbol nothrow[] = {
		{ "malloc", F(1), FUNC }, { "free", F(2), FUNC }, { "_Znam", F(3), FUNC },
		{ "_ZnamRKSt9nothrow_t", F(4), FUNC }, { "_ZdlPv", F(5), FUNC },
		{ "aligned_alloc", F(6), FUNC },
	};
	static const struct { uint64_t entry, callee; bool counted; } rows[] = {
		{ F(4), F(1), true },		/* patched */
		{ F(4), F(3), true },		/* dropped: it calls malloc in a loop */
		{ F(4), F(8), true },		/* a jump to it */
		{ F(4), F(9), false },		/* nothing that is known */
		{ F(4), F(2), false },		/* as arguments go, free(size) */
		{ F(5), F(2), true },
		{ F(5), F(1), false },
		{ F(6), F(1), false },		/* what it is asked for is the second one */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		init_functions();
		put_branch(F(3) + 1, CALL, F(1));
		put_branch(F(8), JUMP, F(3));
		put_branch(rows[i].entry, CALL, rows[i].callee);
		choose(nothrow, ARRAY_SIZE(nothrow));
		/* There's none for _Znam, so it is counted by malloc. */
		p.candidates[0].kinds[ht_planner_kind(&p, "_ZnamRKSt9nothrow_t", 19)] = 0;
		ht_draft_refuse(at(rows[i].entry), "of a test");
		ht_planner_choose(&p);
		ck_assert_int_eq(at(F(3))->state, HT_DRAFT_DROPPED);
		ck_assert_msg(at(rows[i].entry)->site.counted == rows[i].counted, "row %zu", i);
		forget();
	}
	/* For some sizes only: jne to the return. */
	init_functions();
	memcpy(elf.text + F(4), "\x75\x05", 2);
	put_branch(F(4) + 2, CALL, F(1));
	choose(nothrow, ARRAY_SIZE(nothrow));
	ht_draft_refuse(at(F(4)), "of a test");
	ht_planner_choose(&p);
	ck_assert(!at(F(4))->site.counted);
	forget();
}
END_TEST

START_TEST(plain_names_under_prefixes)
{
	static const struct { const char *name; bool is_malloc, is_free; } rows[] = {
		{ "malloc", true, false }, { "free", false, true },
		{ "je_malloc", true, false }, { "_rjem_malloc", true, false },
		{ "tc_free", false, true }, { "mi_free", false, true },
		{ "__libc_malloc", true, false }, { "cfree", false, false },
		{ "xx_malloc", false, false }, { "je_mallocx", false, false },
		{ "je_", false, false }, { "tc_mi_free", false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct ht_entry_kind kind = { .name = rows[i].name };

		ck_assert_int_eq(ht_kind_is_malloc(&kind), rows[i].is_malloc);
		ck_assert_int_eq(ht_kind_is_free(&kind), rows[i].is_free);
	}
}
END_TEST

START_TEST(modules_that_are_no_allocator)
{
	init_functions();
	choose(four, ARRAY_SIZE(four));
	p.candidates[0].allocator = false;
	ht_planner_choose(&p);
	for (size_t i = 0; i < p.drafts.len; i++)
		ck_assert_int_eq(p.drafts.at[i].state, HT_DRAFT_DROPPED);
	forget();
}
END_TEST

int main(void)
{
	return ht_check_run("choose", (const TTest *const[]){
		frames_only_where_needed, bare_jumps_drop_out,
		half_an_allocator, patches_that_overlap, what_throws_needs_a_sibling,
		wrappers_are_counted, plain_names_under_prefixes, modules_that_are_no_allocator, NULL });
}
