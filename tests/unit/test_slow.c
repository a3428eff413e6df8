/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ht_check.h"
#include "made_code.h"

#define S(i) (MADE_STACK + 8 * (i))

static struct ht_elf elf;
static struct made made;
static struct ht_walk *const walk = &made.walk;
static size_t plain_cie, signal_cie;

static void init(void)
{
	ht_elf_init(&elf);
	plain_cie = ht_elf_plain_cie(&elf.eh);
	signal_cie = ht_elf_cie(&elf.eh, "zRS", HT_ELF_CODE(0x0c, 7, 8, 0x90, 1));
}

/* A function of 16 bytes, with unwind data. */
#define FUNCTION(at, ...)                                                                 \
	ht_elf_fde(&elf.eh, plain_cie, HT_ELF_TEXT + (at), 16, HT_ELF_CODE(__VA_ARGS__))

static void start(void)
{
	made_start(&made, &elf);
	made_walk(&made, 0, true);
}

static void check_end(enum ht_stack_end end)
{
	ck_assert(!ht_walk_slowly(walk));
	ck_assert_msg(walk->end == end, "%s (not: %s)", ht_stack_end_text(walk->end),
		      ht_stack_end_text(end));
}

START_TEST(one_step_with_all_registers)
{
	struct ht_unwind_stats stats;

	/* CFA = rbx + 16; rbp and r12 in the frame. */
	init();
	FUNCTION(0, 0x0c, 3, 16, 0x86, 3, 0x8c, 4);
	start();
	walk->full.regs[HT_REG_RBX] = S(8);
	made.words[9] = 0xabcd;
	made.words[7] = 0xb;
	made.words[6] = 0xc;
	ck_assert(ht_walk_slowly(walk));
	ck_assert_uint_eq(walk->pc, 0xabcd);
	ck_assert_uint_eq(walk->sp, S(10));
	ck_assert_uint_eq(walk->bp, 0xb);
	ck_assert(walk->bp_known && !walk->exact);
	ck_assert_uint_eq(walk->depth, 1);
	/* And from here the next slow step can start. */
	ck_assert_uint_eq(walk->full_depth, 1);
	ck_assert_uint_eq(walk->full.regs[HT_REG_R12], 0xc);
	ht_unwinder_stats(made.unwinder, &stats);
	ck_assert_uint_eq(stats.slow_frames, 1);
	ck_assert_uint_eq(stats.libunwind_frames, 0);
	made_stop(&made);
}
END_TEST

/* The walk passes frames by pc, sp and bp only, and comes to one that needs rbx. */
static void catch_up(bool exact)
{
	struct ht_stack stack;

	made_walk(&made, 1, exact);
	ht_unwind(made.unwinder, &made.input, &stack);
	ck_assert_msg(stack.end == HT_STACK_COMPLETE, "%s after %u",
		      ht_stack_end_text(stack.end), stack.n_frames);
	ck_assert_uint_eq(stack.n_frames, 3);
}

START_TEST(registers_are_fetched_from_further_down)
{
	init();
	FUNCTION(0, 0x0e, 24, 0x83, 2);	/* rbx saved */
	FUNCTION(16, 0x0e, 16);		/* kept */
	FUNCTION(32, 0x0c, 3, 16);	/* needed */
	start();
	made.words[1] = S(8);
	made.words[2] = made_pc(&made, 20);
	made.words[4] = made_pc(&made, 36);
	made.words[9] = 0;
	catch_up(true);
	/* The same from the cache. */
	catch_up(true);
	made_stop(&made);
}
END_TEST

/* Behind the pop of an epilogue the rule names a slot below SP still: rbx is itself. */
START_TEST(popped_registers_are_back)
{
	init();
	FUNCTION(0, 0x83, 2, 0x86, 3);
	FUNCTION(16, 0x0e, 16);
	FUNCTION(32, 0x0c, 3, 16);
	start();
	made.words[0] = made_pc(&made, 20);
	made.words[2] = made_pc(&made, 36);
	made_walk(&made, 1, true);
	made.input.regs[HT_REG_RBX] = S(8);
	made.words[9] = 0;
	for (unsigned i = 0; i < 2; i++) {
		struct ht_stack stack;

		ht_unwind(made.unwinder, &made.input, &stack);
		ck_assert_msg(stack.end == HT_STACK_COMPLETE, "%s after %u",
			      ht_stack_end_text(stack.end), stack.n_frames);
	}
	made_stop(&made);
}
END_TEST

/* Frame 1 has it in what the copy holds below its SP: whatever was called since may have
 * written there. */
START_TEST(slots_below_sp_are_stale)
{
	init();
	FUNCTION(0, 0x0e, 24, 0x83, 2);
	FUNCTION(16, 0x83, 3);
	FUNCTION(32, 0x0c, 3, 16);
	start();
	made.words[1] = S(8);
	made.words[2] = made_pc(&made, 20);
	made.words[3] = made_pc(&made, 36);
	made.words[9] = 0;
	catch_up(true);
	made_stop(&made);
}
END_TEST

START_TEST(both_ways_must_agree)
{
	init();
	FUNCTION(0, 0x0c, 3, 16);
	start();
	walk->full.regs[HT_REG_RBX] = S(8);
	made.words[9] = 0xabcd;
	walk->sp += 8;
	check_end(HT_STACK_BAD_CFI);
	made_walk(&made, 0, true);
	walk->pc++;
	check_end(HT_STACK_BAD_CFI);
	made_stop(&made);
}
END_TEST

/* Behind a guess only these are known. */
START_TEST(after_a_guess)
{
	init();
	FUNCTION(0, 0x0c, 3, 16);	/* by rbx */
	FUNCTION(16, 0x09, 16, 6);	/* return address in rbp */
	start();
	walk->depth = 5;
	ht_walk_reset_full(walk, 5);
	ck_assert_uint_eq(walk->full.known, 1u << HT_REG_RIP | 1u << HT_REG_RSP |
						    1u << HT_REG_RBP);
	ck_assert_uint_eq(walk->full.regs[HT_REG_RIP], walk->pc);
	ck_assert_uint_eq(walk->full.regs[HT_REG_RSP], walk->sp);
	ck_assert_uint_eq(walk->full.regs[HT_REG_RBP], walk->bp);
	ck_assert(walk->full_exact);
	ck_assert_uint_eq(walk->full_depth, 5);
	check_end(HT_STACK_BAD_CFI);
	made_walk(&made, 16, true);
	ht_walk_reset_full(walk, 0);
	ck_assert(ht_walk_slowly(walk));
	ck_assert_uint_eq(walk->pc, MADE_STACK + 16);
	made_walk(&made, 16, true);
	walk->bp_known = false;
	ht_walk_reset_full(walk, 0);
	ck_assert(!(walk->full.known & 1u << HT_REG_RBP));
	check_end(HT_STACK_BAD_CFI);
	made_stop(&made);
}
END_TEST

/* vfork() pops its return address: SP doesn't rise any more. */
START_TEST(return_address_in_a_register)
{
	init();
	FUNCTION(0, 0x0e, 0, 0x09, 16, 5);
	start();
	walk->full.regs[HT_REG_RDI] = 0xabcd;
	ck_assert(ht_walk_slowly(walk));
	ck_assert_uint_eq(walk->pc, 0xabcd);
	ck_assert_uint_eq(walk->sp, MADE_STACK);
	made_stop(&made);
}
END_TEST

START_TEST(out_of_a_signal_frame)
{
	init();
	ht_elf_fde(&elf.eh, signal_cie, HT_ELF_TEXT, 16, HT_ELF_CODE(0x16, 7, 2, 0x77, 0x78));
	start();
	made.words[0] = 0xabcd;
	ck_assert(ht_walk_slowly(walk));
	/* The caller was interrupted, and may be on a stack further down. */
	ck_assert(walk->exact && walk->full_exact);
	ck_assert_uint_eq(walk->sp, MADE_STACK - 8);
	made_stop(&made);
}
END_TEST

START_TEST(ends)
{
	init();
	FUNCTION(0, 0x0c, 3, 16);
	FUNCTION(16, 0x07, 16);
	FUNCTION(32, 0x16, 7, 2, 0x77, 0);		/* SP stays */
	FUNCTION(48, 0x0f, 3, 0x2f, 0xfd, 0xff);	/* loops */
	FUNCTION(64, 0x3f);
	start();
	/* No memory where the CFA is. */
	walk->full.regs[HT_REG_RBX] = 0x10;
	check_end(HT_STACK_WINDOW);
	ck_assert_uint_eq(walk->fault_addr, 0x18);
	walk->switched = true;
	check_end(HT_STACK_SWITCHED);
	/* Outermost by its unwind data; by a return address of 0. */
	made_walk(&made, 16, true);
	check_end(HT_STACK_COMPLETE);
	made_walk(&made, 0, true);
	walk->full.regs[HT_REG_RBX] = S(8);
	made.words[9] = 0;
	check_end(HT_STACK_COMPLETE);
	made_walk(&made, 33, false);
	made.words[0] = 0xabcd;
	check_end(HT_STACK_LOOP);
	made_walk(&made, 48, true);
	check_end(HT_STACK_BAD_CFI);
	made_walk(&made, 64, true);
	check_end(HT_STACK_BAD_CFI);
	/* No unwind data; no code. */
	made_walk(&made, 128, true);
	check_end(HT_STACK_BAD_CFI);
	made_walk(&made, 0, true);
	walk->pc = walk->full.regs[HT_REG_RIP] = 8;
	check_end(HT_STACK_BAD_CFI);
	made_stop(&made);
}
END_TEST

/* Without a search table each step looks at all unwind data that there is. */
START_TEST(the_budget)
{
	init();
	FUNCTION(0, 0x0c, 3, 16);
	start();
	walk->full.regs[HT_REG_RBX] = S(8);
	made.words[9] = 0xabcd;
	walk->budget = 1;
	ck_assert(ht_walk_slowly(walk));
	ck_assert_uint_eq(walk->budget, 0);
	made_walk(&made, 0, true);
	walk->full.regs[HT_REG_RBX] = S(8);
	walk->budget = 0;
	check_end(HT_STACK_BAD_CFI);
	made_stop(&made);
}
END_TEST

int main(void)
{
	return ht_check_run("slow", (const TTest *const[]){
		one_step_with_all_registers, registers_are_fetched_from_further_down,
		popped_registers_are_back, slots_below_sp_are_stale, both_ways_must_agree,
		after_a_guess, return_address_in_a_register, out_of_a_signal_frame, ends, the_budget,
		NULL });
}
