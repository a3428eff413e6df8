/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/order.h"

#include <errno.h>
#include <string.h>

#include "base/map.h"
#include "ht_check.h"

#define LOG 200000

static struct ht_order order;
static struct {
	uint64_t seq[LOG];
	bool late[LOG];
	uint32_t n;
	uint64_t fail_at;	/* the seq that can't be applied */
} taken;

static int take(void *context, const struct ht_event *event, bool late)
{
	ck_assert_ptr_eq(context, &taken);
	ck_assert_uint_lt(taken.n, LOG);
	ck_assert_uint_eq(event->addr, event->seq * 2);
	taken.seq[taken.n] = event->seq;
	taken.late[taken.n++] = late;
	return event->seq == taken.fail_at ? -ENOMEM : 0;
}

static void start(void)
{
	memset(&taken, 0, sizeof(taken));
	taken.fail_at = UINT64_MAX / 3;
	ht_order_init(&order, take, &taken);
}

static int put(uint64_t seq)
{
	return ht_order_put(&order, &(struct ht_event){ .seq = seq, .addr = seq * 2 });
}

static void assert_taken(const uint64_t *seq, uint32_t n)
{
	ck_assert_uint_eq(taken.n, n);
	ck_assert_mem_eq(taken.seq, seq, n * sizeof(*seq));
}

#define assert_seqs(...) \
	assert_taken((uint64_t[]){ __VA_ARGS__ }, \
		     sizeof((uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

START_TEST(in_order_passes_at_once)
{
	start();
	for (uint64_t seq = 1; seq <= 1000; seq++) {
		ck_ok(put(seq));
		ck_assert_uint_eq(taken.n, seq);
		ck_assert(!taken.late[seq - 1]);
	}
	/* No window was needed. */
	ck_assert_uint_eq(order.cap, 0);
	ck_assert_uint_eq(order.gap_end, 0);
	ht_order_fini(&order);
}
END_TEST

START_TEST(a_gap_holds_what_is_behind_it)
{
	start();
	ck_ok(put(1));
	ck_ok(put(4));
	ck_ok(put(3));
	assert_seqs(1);
	ck_ok(put(2));
	assert_seqs(1, 2, 3, 4);
	ck_assert_uint_eq(order.gap_end, 0);
	ht_order_fini(&order);
}
END_TEST

/* Only gaps older than the previous settle are hopeless. */
START_TEST(settle_gives_up_old_gaps_only)
{
	start();
	ck_ok(put(1));
	ck_ok(put(3));
	ck_ok(put(6));
	ck_ok(ht_order_settle(&order, false));
	assert_seqs(1);
	ck_ok(put(8));
	ck_ok(ht_order_settle(&order, false));
	assert_seqs(1, 3, 6);
	ck_assert_uint_eq(order.gap_end, 6);
	ck_ok(put(7));
	assert_seqs(1, 3, 6, 7, 8);
	ck_ok(put(5));
	assert_seqs(1, 3, 6, 7, 8, 5);
	ck_assert(taken.late[5]);
	ck_assert(!taken.late[4]);
	ht_order_fini(&order);
}
END_TEST

START_TEST(final_settle_leaves_nothing)
{
	start();
	ck_ok(put(9));
	ck_ok(put(5));
	ck_ok(ht_order_settle(&order, true));
	assert_seqs(5, 9);
	ck_assert_uint_eq(order.pending, 0);
	ck_ok(put(10));
	assert_seqs(5, 9, 10);
	ht_order_fini(&order);
}
END_TEST

/* A full window never waits, however long the gap: the oldest gap is given up. */
START_TEST(a_full_window_gives_up_the_oldest_gap)
{
	start();
	order.max = 1024;
	for (uint64_t seq = 2; seq <= 1024; seq++)
		ck_ok(put(seq));
	ck_assert_uint_eq(taken.n, 0);
	ck_ok(put(1025));
	ck_assert_uint_eq(taken.n, 1024);
	ck_ok(put(1));
	ck_assert(taken.late[1024]);
	ck_ok(put(1027));
	ck_ok(put(1026));
	ck_assert_uint_eq(taken.n, 1027);
	ck_assert_uint_eq(order.cap, 1024);
	ht_order_fini(&order);
}
END_TEST

/* What a target that lies can send: any number, twice, and jumps as wide as they go. */
START_TEST(absurd_numbers_are_survived)
{
	start();
	ck_ok(put(3));
	ck_ok(put(3));
	ck_assert_uint_eq(taken.n, 1);
	ck_assert(taken.late[0]);
	ck_ok(put(0));
	ck_assert(!taken.late[1]);
	ck_ok(put(UINT64_MAX));
	ck_assert(taken.late[2]);
	ck_ok(put(UINT64_MAX / 2));
	assert_seqs(3, 0, UINT64_MAX, 3);
	ck_ok(put(UINT64_MAX - 1));
	ck_ok(put(UINT64_MAX - 1));
	ck_ok(ht_order_settle(&order, true));
	ck_ok(put(UINT64_MAX - 1));
	ck_ok(put(UINT64_MAX));
	ck_assert_uint_eq(taken.n, 9);
	ck_assert_uint_eq(order.pending, 0);
	ht_order_fini(&order);
}
END_TEST

/* Each jump leaves one event waiting: this takes ages if gaps are walked one by one. */
START_TEST(wide_jumps_cost_little)
{
	start();
	for (uint64_t i = 1; i <= 5000; i++)
		ck_ok(put(i << 40));
	ck_ok(ht_order_settle(&order, true));
	ck_assert_uint_eq(taken.n, 5000);
	ht_order_fini(&order);
}
END_TEST

/* Shuffled within a window: out comes 1, 2, 3, ... without a late one. */
START_TEST(shuffled_within_a_window_comes_out_sorted)
{
	static uint64_t seq[LOG];
	uint64_t random = 5, swap;

	for (uint32_t window = 2; window <= 20000; window *= 10) {
		start();
		for (uint32_t i = 0; i < LOG; i++)
			seq[i] = i + 1;
		for (uint32_t i = 0; i < LOG; i++) {
			uint32_t block = i / window * window, span, j;

			span = ht_min(window, LOG - block);
			random = ht_hash64(random + 1);
			j = block + (uint32_t)(random % span);
			swap = seq[i];
			seq[i] = seq[j];
			seq[j] = swap;
		}
		for (uint32_t i = 0; i < LOG; i++)
			ck_ok(put(seq[i]));
		ck_assert_uint_eq(taken.n, LOG);
		for (uint32_t i = 0; i < LOG; i++) {
			ck_assert_uint_eq(taken.seq[i], i + 1);
			ck_assert(!taken.late[i]);
		}
		ck_assert_uint_le(order.cap, ht_max(window * 2, 1024u));
		ht_order_fini(&order);
	}
}
END_TEST

START_TEST(a_failure_is_told_and_the_rest_goes_on)
{
	start();
	taken.fail_at = 2;
	ck_ok(put(3));
	ck_ok(put(2));
	ck_assert_int_eq(put(1), -ENOMEM);
	assert_seqs(1, 2, 3);
	ck_ok(put(4));
	ht_order_fini(&order);
}
END_TEST

START_TEST(find_sees_what_waits)
{
	start();
	ck_assert_ptr_null(ht_order_find(&order, 3));
	ck_ok(put(3));
	ck_assert_ptr_nonnull(ht_order_find(&order, 3));
	ck_assert_uint_eq(ht_order_find(&order, 3)->addr, 6);
	ck_assert_ptr_null(ht_order_find(&order, 3 + 1024));
	ck_assert_ptr_null(ht_order_find(&order, 2));
	ck_assert_ptr_null(ht_order_find(&order, 0));
	ht_order_fini(&order);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		in_order_passes_at_once, a_gap_holds_what_is_behind_it,
		settle_gives_up_old_gaps_only, final_settle_leaves_nothing,
		a_full_window_gives_up_the_oldest_gap, absurd_numbers_are_survived,
		wide_jumps_cost_little, shuffled_within_a_window_comes_out_sorted,
		a_failure_is_told_and_the_rest_goes_on, find_sees_what_waits, NULL
	};

	return ht_check_run("order", tests);
}
