/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/reach.h"

#include "made_images.h"

static uint64_t goal;		/* offset of what is looked for */

static bool is_goal(void *arg, ht_addr_t addr)
{
	(void)arg;
	return addr == made_pc(&made, goal);
}

static bool is_named(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return false;
}

static const struct ht_reach_goal want = { is_goal, is_named, NULL };

static struct ht_reach_result from_function(unsigned i, unsigned levels)
{
	return ht_reach_from(&images, made_pc(&made, F(i)), 0x40, levels, false, &want);
}

static void start(void)
{
	start_images(NULL, 0);
}

START_TEST(calls_by_levels)
{
	init_functions();
	goal = F(5);
	put_branch(F(0), CALL, F(1));
	put_branch(F(1) + 5, CALL, F(2));
	put_branch(F(2) + 9, CALL, F(5));
	start();
	ck_assert_int_eq(from_function(2, 1).reach, HT_REACH_SITE);
	ck_assert_int_eq(from_function(1, 2).reach, HT_REACH_SITE);
	ck_assert_int_eq(from_function(0, 3).reach, HT_REACH_SITE);
	/* Too deep is not known. */
	ck_assert_int_eq(from_function(0, 2).reach, HT_REACH_UNKNOWN);
	ck_assert(!from_function(0, 2).blind);
	ck_assert_int_eq(from_function(6, 3).reach, HT_REACH_NONE);
	stop_images();
}
END_TEST

/* What a jump leads to is as near as the jump. */
START_TEST(jumps_cost_no_level)
{
	init_functions();
	goal = F(5);
	put_branch(F(0) + 1, JUMP, F(1) + 8);
	put_branch(F(1) + 16, JUMP, F(2));
	put_branch(F(2) + 5, JUMP, F(5));
	/* Within itself, and back to its own start, which isn't what is looked for. */
	put_branch(F(3) + 1, JUMP, F(3) + 20);
	put_branch(F(4) + 1, JUMP, F(4));
	start();
	ck_assert_int_eq(from_function(0, 1).reach, HT_REACH_SITE);
	ck_assert_int_eq(from_function(3, 1).reach, HT_REACH_NONE);
	ck_assert_int_eq(from_function(4, 1).reach, HT_REACH_NONE);
	goal = F(4);
	ck_assert_int_eq(from_function(4, 1).reach, HT_REACH_SITE);
	stop_images();
}
END_TEST

START_TEST(rings_end)
{
	init_functions();
	goal = F(9);
	put_branch(F(0), CALL, F(1));
	put_branch(F(1) + 1, CALL, F(2));
	put_branch(F(2) + 1, CALL, F(0));
	/* Of bare jumps, which nothing ever leaves. */
	put_branch(F(3) + 1, CALL, F(4));
	put_branch(F(4), JUMP, F(5));
	put_branch(F(5), JUMP, F(4));
	start();
	ck_assert_int_eq(from_function(0, 8).reach, HT_REACH_NONE);
	ck_assert_int_eq(from_function(3, 8).reach, HT_REACH_UNKNOWN);
	ck_assert(from_function(3, 8).blind);
	ck_assert(!ht_reach_forwards(&images, made_pc(&made, F(4)), &want));
	stop_images();
}
END_TEST

START_TEST(pointers_and_blind_spots)
{
	struct ht_reach_result r;

	init_functions();
	goal = F(9);
	memcpy(elf.text + F(0), "\xff\xd0", 2);		/* call *%rax */
	put_branch(F(1), CALL, F(0));
	put_branch(F(2), CALL, F(N_FUNCTIONS) + 0x100);	/* no unwind data */
	memcpy(elf.text + F(3), "\x06", 1);		/* no instruction */
	memcpy(elf.text + F(4), "\xff\xd0", 2);
	put_branch(F(4) + 2, CALL, F(9));
	start();
	r = from_function(0, 2);
	ck_assert(r.reach == HT_REACH_UNKNOWN && !r.blind);
	r = from_function(1, 2);
	ck_assert(r.reach == HT_REACH_UNKNOWN && !r.blind);
	r = from_function(2, 2);
	ck_assert(r.reach == HT_REACH_UNKNOWN && r.blind);
	r = from_function(3, 2);
	ck_assert(r.reach == HT_REACH_UNKNOWN && r.blind);
	/* Found is found. */
	r = from_function(4, 2);
	ck_assert_int_eq(r.reach, HT_REACH_SITE);
	stop_images();
}
END_TEST

START_TEST(chains_of_jumps)
{
	init_functions();
	goal = F(20);
	/* Nine jumps: the first is the function, eight are followed. */
	for (unsigned i = 0; i < 9; i++)
		put_branch(F(i), JUMP, i < 8 ? F(i + 1) : F(20));
	/* Behind an endbr64; a jump that isn't bare. */
	memcpy(elf.text + F(10), "\xf3\x0f\x1e\xfa", 4);
	put_branch(F(10) + 4, JUMP, F(20));
	elf.text[F(11)] = 0x50;
	put_branch(F(11) + 1, JUMP, F(20));
	start();
	ck_assert(ht_reach_forwards(&images, made_pc(&made, F(8)), &want));
	ck_assert(ht_reach_forwards(&images, made_pc(&made, F(2)), &want));
	ck_assert(!ht_reach_forwards(&images, made_pc(&made, F(0)), &want));
	ck_assert(ht_reach_forwards(&images, made_pc(&made, F(10)), &want));
	ck_assert(!ht_reach_forwards(&images, made_pc(&made, F(11)), &want));
	/* What is looked for doesn't forward to itself. */
	ck_assert(!ht_reach_forwards(&images, made_pc(&made, F(20)), &want));
	stop_images();
}
END_TEST

int main(void)
{
	return ht_check_run("reach", (const TTest *const[]){
		calls_by_levels, jumps_cost_no_level, rings_end, pointers_and_blind_spots,
		chains_of_jumps, NULL });
}
