/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks over frames that a JVM would have, on stacks made up word by word.
 */
#include "made_jvm.h"
#include "unwind/unwind.h"

#define STACK UINT64_C(0x5000)
#define WORD(i) (STACK + 8 * (uint64_t)(i))

static struct made_jvm made;
static struct ht_unwinder *unwinder;
static uint64_t words[64];
static struct ht_stack stack;
static struct ht_unwind_input input;

/* Segments 0, 1: compiled, with frames of 4 and 2 words. 2: a stub. */
static void start(void)
{
	made_jvm_start(&made);
	made.add(0, 1, "nmethod", 4, &made.jvm->method);
	made.add(1, 1, "nmethod", 2, &made.jvm->method);
	made.add(2, 1, "StubRoutines (1)", 0, NULL);
	made.add(FAKE_INTERPRETER, FAKE_INTERPRETER_LEN, "Interpreter", 0, NULL);
	ck_ok(ht_unwinder_new(made.space, made.memfd, &unwinder));
	memset(words, 0, sizeof(words));
	input = (struct ht_unwind_input){
		.known = 1u << HT_REG_RIP | 1u << HT_REG_RSP | 1u << HT_REG_RBP,
		.rip_is_return = true, .stack = (const uint8_t *)words,
		.stack_len = sizeof(words), .stack_base = STACK,
	};
	input.regs[HT_REG_RSP] = STACK;
}

static void stop(void)
{
	ht_unwinder_free(unwinder);
	made_jvm_stop(&made);
}

/* An interpreted frame whose BP is word @at, of a caller whose SP is word @sp. */
static void interpreted(unsigned at, unsigned sp, uint64_t bp, uint64_t pc)
{
	words[at - 3] = (uintptr_t)&made.jvm->method;
	words[at - 1] = WORD(sp);
	words[at] = bp;
	words[at + 1] = pc;
}

static void walk(uint64_t pc, uint64_t bp)
{
	input.regs[HT_REG_RIP] = pc;
	input.regs[HT_REG_RBP] = bp;
	ht_unwind(unwinder, &input, &stack);
}

static void check(uint32_t i, uint64_t offset, uint32_t flags)
{
	ck_assert_uint_lt(i, stack.n_frames);
	ck_assert_uint_eq(stack.frames[i].offset, offset);
	ck_assert_uint_eq(stack.frames[i].module, HT_MODULE_NONE);
	ck_assert_uint_eq(stack.frames[i].flags, flags);
}

START_TEST(mixed_frames)
{
	uint64_t method, interpreter;

	start();
	method = (uintptr_t)&made.jvm->method;
	interpreter = made_jvm_pc(&made, FAKE_INTERPRETER);
	/* Compiled, called by interpreted, called by compiled; the return addresses in the
	 * interpreter are behind no call. */
	words[2] = WORD(8);
	words[3] = interpreter;
	interpreted(8, 12, 0x1234, made_jvm_pc(&made, 1));
	words[12] = WORD(20);
	words[13] = interpreter + 1;
	interpreted(20, 24, 0, 0);
	walk(made_jvm_pc(&made, 0), 0x77);
	ck_assert_uint_eq(stack.n_frames, 4);
	check(0, made_jvm_pc(&made, 0), 0);
	check(1, method, HT_FRAME_EXACT | HT_FRAME_METHOD);
	check(2, made_jvm_pc(&made, 1), 0);
	check(3, method, HT_FRAME_EXACT | HT_FRAME_METHOD);
	/* Nothing calls Java but by a stub. */
	ck_assert_int_eq(stack.end, HT_STACK_BAD_RETURN);
	/* The same from the cache. */
	walk(made_jvm_pc(&made, 0), 0x77);
	ck_assert_uint_eq(stack.n_frames, 4);
	stop();
}
END_TEST

/* How Java is entered. */
START_TEST(stubs_have_frame_pointers)
{
	uint64_t stub;

	start();
	stub = made_jvm_pc(&made, 2);
	words[0] = WORD(6);
	words[1] = stub;
	words[6] = 0;
	words[7] = 0;
	walk(made_jvm_pc(&made, 1), 0);
	ck_assert_uint_eq(stack.n_frames, 2);
	check(0, made_jvm_pc(&made, 1), 0);
	check(1, stub, 0);
	ck_assert_int_eq(stack.end, HT_STACK_COMPLETE);
	stop();
}
END_TEST

START_TEST(frames_that_lie)
{
	uint64_t interpreter;

	start();
	interpreter = made_jvm_pc(&made, FAKE_INTERPRETER);
	/* The caller's SP below the frame, too far, askew; no method; BP below SP. */
	interpreted(8, 12, 0, made_jvm_pc(&made, 1));
	words[7] = WORD(8);
	walk(interpreter, WORD(8));
	ck_assert_uint_eq(stack.n_frames, 1);
	check(0, interpreter, 0);
	words[7] = WORD(1 << 20);
	walk(interpreter, WORD(8));
	ck_assert_uint_eq(stack.n_frames, 1);
	words[7] = WORD(12) + 1;
	walk(interpreter, WORD(8));
	ck_assert_uint_eq(stack.n_frames, 1);
	words[7] = WORD(12);
	words[5] = 0;
	walk(interpreter, WORD(8));
	ck_assert_uint_eq(stack.n_frames, 1);
	words[5] = 1;
	walk(interpreter, STACK - 8);
	ck_assert_uint_eq(stack.n_frames, 1);
	walk(interpreter, UINT64_MAX - 7);
	ck_assert_uint_eq(stack.n_frames, 1);
	/* A frame that reaches out of the copied stack. */
	made.add(0, 1, "nmethod", 4096, &made.jvm->method);
	walk(made_jvm_pc(&made, 0), 0);
	ck_assert_uint_eq(stack.n_frames, 1);
	ck_assert_int_eq(stack.end, HT_STACK_WINDOW);
	/* A return address to nowhere. */
	words[1] = 0x1000;
	walk(made_jvm_pc(&made, 1), 0);
	ck_assert_uint_eq(stack.n_frames, 1);
	ck_assert_int_eq(stack.end, HT_STACK_BAD_RETURN);
	stop();
}
END_TEST

/* An interrupted instruction may be before the frame is there. */
START_TEST(exact_frames_are_guessed)
{
	start();
	words[3] = made_jvm_pc(&made, 1);
	input.rip_is_return = false;
	walk(made_jvm_pc(&made, 0), 0);
	ck_assert_uint_eq(stack.n_frames, 1);
	ck_assert_int_eq(stack.end, HT_STACK_NO_MODULE);
	stop();
}
END_TEST

int main(void)
{
	return ht_check_run("java", (const TTest *const[]){
		mixed_frames, stubs_have_frame_pointers, frames_that_lie,
		exact_frames_are_guessed, NULL });
}
