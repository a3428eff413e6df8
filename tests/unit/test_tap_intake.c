/* SPDX-License-Identifier: Apache-2.0
 *
 * From records to the ledger, with an unwinder that says what the test says: what a record
 * may claim, and what is learned of the target's stacks.
 */
#include <string.h>

#include "base/clock.h"
#include "ht_check.h"
#include "tap/intake.h"
#include "unwind/unwind.h"

/* --- in the place of the unwinder --- */

static struct ht_unwind_input input;
static unsigned unwound;
static enum ht_stack_end next_end;
static uint64_t next_top;
static uint64_t hidden[2];

int ht_unwinder_new(struct ht_space *space, int memfd, struct ht_unwinder **ret_unwinder)
{
	*ret_unwinder = (struct ht_unwinder *)(void *)&input;
	return 0;
}

struct ht_unwinder *ht_unwinder_free(struct ht_unwinder *unwinder)
{
	return NULL;
}

/* One frame: the pc. */
void ht_unwind(struct ht_unwinder *unwinder, const struct ht_unwind_input *in,
	       struct ht_stack *ret_stack)
{
	input = *in;
	unwound++;
	ret_stack->n_frames = 1;
	ret_stack->frames[0] = (struct ht_frame){ .offset = in->regs[HT_REG_RIP] };
	ret_stack->end = next_end;
	ret_stack->top = next_top;
}

int ht_unwinder_hide(struct ht_unwinder *unwinder, ht_addr_t start, ht_addr_t end)
{
	hidden[0] = start;
	hidden[1] = end;
	return 0;
}

/* --- records --- */

static struct ht_intake *intake;
static uint64_t seq;

static void start(uint64_t interval, uint64_t min_size)
{
	struct ht_space *space = (struct ht_space *)(void *)&input;

	ck_ok(ht_intake_new(space, -1, interval, min_size, &intake));
	seq = 0;
	unwound = 0;
	next_end = HT_STACK_COMPLETE;
	next_top = 0;
}

static void end(void)
{
	intake = ht_intake_free(intake);
	ck_assert_ptr_null(intake);
}

static struct ht_record_alloc alloc(uint64_t addr, uint64_t size)
{
	return (struct ht_record_alloc){
		.head = { .size = sizeof(struct ht_record_alloc), .type = HT_RECORD_ALLOC,
			  .seq = ++seq },
		.addr = addr, .size = size, .pc = 0x1000, .sp = 0x7000, .thread = 0x5000,
	};
}

static void take(struct ht_record_alloc record)
{
	ck_ok(ht_intake_record(intake, &record.head));
}

static void take_free(uint64_t addr, uint64_t at)
{
	struct ht_record_free record = {
		.head = { .size = sizeof(record), .type = HT_RECORD_FREE, .seq = at },
		.addr = addr,
	};

	ck_ok(ht_intake_record(intake, &record.head));
}

static struct ht_figures figures(void)
{
	struct ht_figures f;

	ck_ok(ht_ledger_settle(ht_intake_ledger(intake), true));
	ht_ledger_total(ht_intake_ledger(intake), &f);
	return f;
}

static struct ht_intake_counters counters(void)
{
	struct ht_intake_counters c;

	ht_intake_counters(intake, &c);
	return c;
}

START_TEST(into_the_ledger)
{
	struct ht_record_alloc record;

	start(0, 0);
	take(alloc(0x10, 100));
	take(alloc(0x20, 30));
	take_free(0x20, ++seq);
	seq++;
	record = alloc(0x30, 250);
	record.head.type = HT_RECORD_REALLOC;
	record.old_addr = 0x10;
	record.old_seq = seq - 1;
	record.pc = 0x2000;
	take(record);
	record = alloc(0x40, 7);
	record.head.flags = HT_RECORD_UNTRACKED;
	take(record);
	ck_assert(figures().live.bytes == 250 && figures().total.bytes == 387);
	ck_assert_uint_eq(counters().allocs, 4);
	ck_assert_uint_eq(counters().corrupt, 0);
	/* By where they were called from. */
	ck_assert_uint_eq(ht_ledger_site_count(ht_intake_ledger(intake)), 2);
	end();
}
END_TEST

/* What the hook saved are the registers after the call's return. */
START_TEST(registers_and_stack)
{
	struct {
		struct ht_record_alloc r;
		uint64_t stack[4];
	} record = { .stack = { 1, 2, 3, 4 } };

	start(0, 0);
	record.r = alloc(0x10, 1);
	record.r.bp = 2;
	record.r.bx = 3;
	record.r.r12 = 12;
	record.r.r13 = 13;
	record.r.r14 = 14;
	record.r.r15 = 15;
	record.r.stack_len = sizeof(record.stack);
	ck_ok(ht_intake_record(intake, &record.r.head));
	ck_assert(input.rip_is_return && !input.stack_cut);
	ck_assert_ptr_eq(input.stack, (uint8_t *)record.stack);
	ck_assert_uint_eq(input.stack_len, sizeof(record.stack));
	ck_assert_uint_eq(input.stack_base, 0x7000);
	ck_assert(input.regs[HT_REG_RIP] == 0x1000 && input.regs[HT_REG_RSP] == 0x7000 &&
		  input.regs[HT_REG_RBP] == 2 && input.regs[HT_REG_RBX] == 3 &&
		  input.regs[HT_REG_R12] == 12 && input.regs[HT_REG_R13] == 13 &&
		  input.regs[HT_REG_R14] == 14 && input.regs[HT_REG_R15] == 15);
	/* Those, and no other: the rest was overwritten since. */
	ck_assert_uint_eq(input.known, 1u << HT_REG_RIP | 1u << HT_REG_RSP |
				       1u << HT_REG_RBP | 1u << HT_REG_RBX |
				       0xfu << HT_REG_R12);
	record.r.head.flags = HT_RECORD_CUT;
	ck_ok(ht_intake_record(intake, &record.r.head));
	ck_assert(input.stack_cut);
	ck_ok(ht_intake_hide(intake, 0x11, 0x22));
	ck_assert(hidden[0] == 0x11 && hidden[1] == 0x22);
	end();
}
END_TEST

/* What the hook can't have written is counted, and neither unwound nor accounted. */
START_TEST(lies)
{
	struct ht_record_alloc record;

	start(4096, 100);
	record = alloc(0x10, 100);
	record.interval = 4096;
	take(record);
	ck_assert_uint_eq(unwound, 1);
	record.addr = 0;
	take(record);
	record.addr = 0x20;
	record.head.seq = 0;
	take(record);
	record.head.seq = 2;
	record.size = UINT64_C(1) << 47;
	take(record);
	record.size = UINT64_MAX;
	take(record);
	record.size = 99;	/* below the least size that is recorded */
	take(record);
	record.size = 200;
	record.interval = 1;	/* would count for nearly nothing */
	take(record);
	record.interval = UINT64_MAX;	/* for nearly everything */
	take(record);
	record.interval = 0;
	take(record);
	take_free(0, 2);
	take_free(0x10, 0);
	ck_assert_uint_eq(counters().corrupt, 10);
	ck_assert_uint_eq(counters().allocs, 1);
	ck_assert_uint_eq(unwound, 1);
	ck_assert_uint_eq(figures().live.samples, 1);
	end();
}
END_TEST

START_TEST(cut_stacks)
{
	start(0, 0);
	for (int i = 0; i < HT_STACK_ENDS; i++) {
		next_end = (enum ht_stack_end)i;
		take(alloc(0x10 + (uint64_t)i * 16, 1));
	}
	ck_assert_uint_eq(counters().cut_stacks, 1);
	end();
}
END_TEST

/* --- where stacks end --- */

static struct {
	uint64_t thread, top;
	unsigned n;
	bool lost;
} told;

static void tell(void *arg, uint64_t thread_pointer, uint64_t top)
{
	told.lost |= arg != &told;
	told.thread = thread_pointer;
	told.top = top;
	told.n++;
}

static void told_is(unsigned n, uint64_t thread, uint64_t top)
{
	ck_assert(!told.lost);
	ck_assert_uint_eq(told.n, n);
	ck_assert_uint_eq(told.thread, thread);
	ck_assert_uint_eq(told.top, top);
}

static void see(uint64_t thread, enum ht_stack_end stack_end, uint64_t top, uint32_t len)
{
	struct {
		struct ht_record_alloc r;
		uint8_t stack[4096];
	} record;

	record.r = alloc(seq * 16 + 16, 1);
	record.r.thread = thread;
	record.r.stack_len = len;
	next_end = stack_end;
	next_top = top;
	ck_ok(ht_intake_record(intake, &record.r.head));
}

static void start_learning(void)
{
	memset(&told, 0, sizeof(told));
	start(0, 0);
	ht_intake_on_top(intake, tell, &told);
}

START_TEST(a_top_is_told_once)
{
	start_learning();
	see(1, HT_STACK_NO_CFI, 0, 100);
	see(1, HT_STACK_WINDOW, 0, 100);
	ck_assert_uint_eq(told.n, 0);
	see(1, HT_STACK_COMPLETE, 0x7800, 4096);
	told_is(1, 1, 0x7800);
	see(1, HT_STACK_COMPLETE, 0x7800, 0x800);
	see(1, HT_STACK_COMPLETE, 0, 0x800);
	see(1, HT_STACK_NO_CFI, 0, 0x800);
	told_is(1, 1, 0x7800);
	see(2, HT_STACK_COMPLETE, 0x9000, 4096);
	told_is(2, 2, 0x9000);
	end();
}
END_TEST

/* A second end, or one that turned out to be none: never again for this thread. */
START_TEST(a_top_that_was_wrong)
{
	start_learning();
	see(1, HT_STACK_COMPLETE, 0x7800, 4096);
	see(1, HT_STACK_COMPLETE, 0x7900, 4096);
	told_is(2, 1, 0);
	see(2, HT_STACK_COMPLETE, 0x7800, 4096);
	told_is(3, 2, 0x7800);
	/* This one was cut before it: by a full ring. */
	see(2, HT_STACK_WINDOW, 0, 0x7f8);
	told_is(3, 2, 0x7800);
	see(2, HT_STACK_WINDOW, 0, 0x800);
	told_is(4, 2, 0);
	for (uint64_t thread = 1; thread <= 2; thread++) {
		see(thread, HT_STACK_COMPLETE, 0x7800, 4096);
		see(thread, HT_STACK_WINDOW, 0, 4096);
	}
	told_is(4, 2, 0);
	end();
}
END_TEST

START_TEST(nobody_wants_to_know)
{
	start(0, 0);
	see(1, HT_STACK_COMPLETE, 0x7800, 4096);
	see(1, HT_STACK_COMPLETE, 0x7900, 4096);
	ck_assert_uint_eq(counters().allocs, 2);
	end();
}
END_TEST

/* Thread pointers come from the target: it may make up any number of them. */
START_TEST(more_threads_than_there_are)
{
	start_learning();
	for (uint64_t thread = 1; thread <= 200000; thread++) {
		struct ht_record_alloc record = alloc(16, 1);

		record.thread = thread * 64;
		next_top = 0x7800;
		if (ht_intake_record(intake, &record.head) < 0)
			ck_abort();
	}
	ck_assert_uint_ge(told.n, 4096);
	ck_assert_uint_le(told.n, 1 << 16);
	ck_assert_uint_eq(counters().allocs, 200000);
	end();
}
END_TEST

int main(void)
{
	return ht_check_run("intake", (const TTest *const[]){
		into_the_ledger, registers_and_stack, lies, cut_stacks,
		a_top_is_told_once, a_top_that_was_wrong, nobody_wants_to_know,
		more_threads_than_there_are, NULL });
}
