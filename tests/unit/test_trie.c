/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/trie.h"

#include <errno.h>
#include <string.h>

#include "base/map.h"
#include "ht_check.h"

static struct ht_trie trie;

static void stack_of(struct ht_stack *stack, const uint64_t *offsets, uint32_t n)
{
	stack->n_frames = n;
	stack->end = HT_STACK_COMPLETE;
	for (uint32_t i = 0; i < n; i++)
		stack->frames[i] = (struct ht_frame){ offsets[i], 1, 0 };
}

static uint32_t intern(const uint64_t *offsets, uint32_t n)
{
	static struct ht_stack stack;
	uint32_t site = UINT32_MAX;

	stack_of(&stack, offsets, n);
	ck_ok(ht_trie_intern(&trie, &stack, 0, &site));
	return site;
}

static void assert_stack(uint32_t site, const struct ht_stack *want)
{
	static struct ht_stack got;

	ht_trie_stack(&trie, site, &got);
	ck_assert_uint_eq(got.n_frames, want->n_frames);
	ck_assert_uint_eq(got.end, want->end);
	ck_assert_mem_eq(got.frames, want->frames,
			 want->n_frames * sizeof(struct ht_frame));
}

START_TEST(equal_stacks_are_one_site)
{
	ck_ok(ht_trie_init(&trie, 1));
	ck_assert_uint_eq(intern((uint64_t[]){ 3, 2, 1 }, 3), 0);
	ck_assert_uint_eq(intern((uint64_t[]){ 4, 2, 1 }, 3), 1);
	ck_assert_uint_eq(intern((uint64_t[]){ 3, 2, 1 }, 3), 0);
	/* The end of another stack in the middle of a known one. */
	ck_assert_uint_eq(intern((uint64_t[]){ 2, 1 }, 2), 2);
	ck_assert_uint_eq(intern(NULL, 0), 3);
	ck_assert_uint_eq(intern(NULL, 0), 3);
	ht_trie_fini(&trie);
}
END_TEST

START_TEST(outer_frames_are_shared)
{
	ck_ok(ht_trie_init(&trie, 2));
	intern((uint64_t[]){ 3, 2, 1 }, 3);
	ck_assert_uint_eq(trie.nodes.len, 1 + 3);
	intern((uint64_t[]){ 4, 2, 1 }, 3);
	ck_assert_uint_eq(trie.nodes.len, 1 + 4);
	/* The same frames the other way round share nothing but the root. */
	intern((uint64_t[]){ 1, 2, 3 }, 3);
	ck_assert_uint_eq(trie.nodes.len, 1 + 7);
	ht_trie_fini(&trie);
}
END_TEST

START_TEST(every_part_distinguishes)
{
	static struct ht_stack stack, other;
	uint32_t site;

	ck_ok(ht_trie_init(&trie, 3));
	stack_of(&stack, (uint64_t[]){ 2, 1 }, 2);
	ck_ok(ht_trie_intern(&trie, &stack, 0, &site));
	ck_assert_uint_eq(site, 0);
	ck_ok(ht_trie_intern(&trie, &stack, 7, &site));
	ck_assert_uint_eq(site, 1);
	other = stack;
	other.end = HT_STACK_NO_CFI;
	ck_ok(ht_trie_intern(&trie, &other, 0, &site));
	ck_assert_uint_eq(site, 2);
	assert_stack(2, &other);
	other = stack;
	other.frames[0].module = HT_MODULE_NONE;
	ck_ok(ht_trie_intern(&trie, &other, 0, &site));
	ck_assert_uint_eq(site, 3);
	other = stack;
	other.frames[1].flags = HT_FRAME_GUESSED;
	ck_ok(ht_trie_intern(&trie, &other, 0, &site));
	ck_assert_uint_eq(site, 4);
	assert_stack(4, &other);
	assert_stack(0, &stack);
	ht_trie_fini(&trie);
}
END_TEST

/* Tables full of entries that differ in one part only: probing passes over many. */
START_TEST(what_differs_little_stays_apart)
{
	static struct ht_stack stack;
	uint32_t site;

	ck_ok(ht_trie_init(&trie, 8));
	stack_of(&stack, (uint64_t[]){ 1 }, 1);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 3000; i++) {
			ck_ok(ht_trie_intern(&trie, &stack, i, &site));
			ck_assert_uint_eq(site, i);
		}
	}
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 1; i < 3000; i++) {
			stack.frames[0].flags = i;
			ck_ok(ht_trie_intern(&trie, &stack, 0, &site));
			ck_assert_uint_eq(site, 2999 + i);
		}
	}
	ht_trie_fini(&trie);
}
END_TEST

#define RANDOM_STACKS 3000

static void random_stack(uint64_t *random, struct ht_stack *stack)
{
	memset(stack, 0, sizeof(*stack));
	*random = ht_hash64(*random + 1);
	stack->n_frames = *random % 12;
	stack->end = (enum ht_stack_end)(*random >> 32) % 2;
	for (uint32_t i = 0; i < stack->n_frames; i++) {
		*random = ht_hash64(*random + 1);
		stack->frames[i].offset = *random % 3;
		stack->frames[i].module = (*random >> 20) % 2;
		stack->frames[i].flags = (*random >> 21) % 2;
	}
}

static bool same_stack(const struct ht_stack *a, const struct ht_stack *b)
{
	return a->n_frames == b->n_frames && a->end == b->end &&
	       !memcmp(a->frames, b->frames, a->n_frames * sizeof(struct ht_frame));
}

/* Against a list that is searched from end to end; the tables grow several times. */
START_TEST(random_stacks_as_in_a_list)
{
	static struct ht_stack known[RANDOM_STACKS], stack;
	static uint32_t labels[RANDOM_STACKS];
	uint32_t n = 0, site, label, i;
	uint64_t random = 4;

	ck_ok(ht_trie_init(&trie, 4));
	for (int round = 0; round < RANDOM_STACKS; round++) {
		random_stack(&random, &stack);
		label = (uint32_t)(random >> 40) % 3;
		for (i = 0; i < n; i++)
			if (labels[i] == label && same_stack(&known[i], &stack))
				break;
		if (i == n) {
			labels[n] = label;
			known[n++] = stack;
		}
		ck_ok(ht_trie_intern(&trie, &stack, label, &site));
		ck_assert_uint_eq(site, i);
	}
	ck_assert_uint_gt(n, 1000);
	for (i = 0; i < n; i++)
		assert_stack(i, &known[i]);
	ht_trie_fini(&trie);
}
END_TEST

START_TEST(deepest_stack_survives)
{
	static struct ht_stack stack;
	uint32_t site;

	ck_ok(ht_trie_init(&trie, 5));
	stack.n_frames = HT_MAX_FRAMES;
	for (uint32_t i = 0; i < HT_MAX_FRAMES; i++)
		stack.frames[i] = (struct ht_frame){ ~(uint64_t)i, i, i % 8 };
	stack.end = HT_STACK_DEEP;
	ck_ok(ht_trie_intern(&trie, &stack, 0, &site));
	assert_stack(site, &stack);
	ht_trie_fini(&trie);
}
END_TEST

START_TEST(limits_add_nothing_and_keep_what_is_known)
{
	static struct ht_stack stack;
	uint32_t site = 77;

	ck_ok(ht_trie_init(&trie, 6));
	trie.max_nodes = 1 + 4;
	trie.max_sites = 3;
	intern((uint64_t[]){ 3, 2, 1 }, 3);
	stack_of(&stack, (uint64_t[]){ 9, 8, 1 }, 3);
	ck_assert_int_eq(ht_trie_intern(&trie, &stack, 0, &site), -ENOSPC);
	ck_assert_uint_eq(site, 77);
	ck_assert_uint_eq(trie.nodes.len, 1 + 3);
	ck_assert_uint_eq(intern((uint64_t[]){ 4, 2, 1 }, 3), 1);
	ck_assert_uint_eq(intern((uint64_t[]){ 2, 1 }, 2), 2);
	/* Sites are full now, for a new end of known frames too. */
	stack_of(&stack, (uint64_t[]){ 1 }, 1);
	ck_assert_int_eq(ht_trie_intern(&trie, &stack, 0, &site), -ENOSPC);
	ck_assert_uint_eq(intern((uint64_t[]){ 3, 2, 1 }, 3), 0);
	ck_assert_uint_eq(trie.sites.len, 3);
	ht_trie_fini(&trie);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		equal_stacks_are_one_site, what_differs_little_stays_apart,
		outer_frames_are_shared, every_part_distinguishes,
		random_stacks_as_in_a_list,
		deepest_stack_survives, limits_add_nothing_and_keep_what_is_known, NULL
	};

	return ht_check_run("trie", tests);
}
