/* SPDX-License-Identifier: Apache-2.0
 *
 * The hook's set of sampled blocks, and the filter in front of it that the stubs read:
 * it may say too much, never too little.
 */
#include <pthread.h>
#include <string.h>

#include "ht_check.h"

#include "hook/hook.h"

struct ht_hook_config ht_hook_config;

#define BUCKETS 1024

static uint8_t filter[HT_FILTER_SIZE];
static _Alignas(64) uint64_t slots[BUCKETS * HT_SET_BUCKET];

static void start(uint64_t buckets)
{
	memset(filter, 0, sizeof(filter));
	memset(slots, 0, sizeof(slots));
	ht_hook_config = (struct ht_hook_config){
		.filter = (uint64_t)(uintptr_t)filter, .set = (uint64_t)(uintptr_t)slots,
		.set_mask = buckets - 1,
	};
}

static unsigned filter_at(uint64_t addr)
{
	return filter[ht_filter_index(addr)];
}

static unsigned front_at(uint64_t addr)
{
	return filter[ht_front_index(addr)];
}

/* All of it, also what no address of the test belongs to. The front holds the same blocks, as
 * long as no counter of either is full. */
static uint64_t filter_sum(void)
{
	uint64_t sum = 0, front = 0;
	bool full = false;

	for (size_t i = 0; i < HT_FILTER_SIZE; i++) {
		*(i < HT_FRONT_OFFSET ? &sum : &front) += filter[i];
		full = full || filter[i] == UINT8_MAX;
	}
	if (!full)
		ck_assert_uint_eq(front, sum);
	return sum;
}

static uint64_t held(void)
{
	uint64_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(slots); i++)
		n += slots[i] != 0;
	return n;
}

static uint64_t block(uint64_t i)
{
	return UINT64_C(0x7f3210000010) + i * 0x30;
}

START_TEST(in_and_out)
{
	start(BUCKETS);
	ck_assert(!ht_set_remove(block(1)));
	ck_assert(ht_set_insert(block(1)));
	ck_assert_uint_eq(filter_at(block(1)), 1);
	ck_assert_uint_eq(front_at(block(1)), 1);
	/* Another one in the same place of the filter is still another one. */
	ck_assert(!ht_set_remove(block(2)));
	ck_assert(!ht_set_remove(block(1) + 8));
	ck_assert_uint_eq(filter_sum(), 1);
	ck_assert(ht_set_remove(block(1)));
	ck_assert(!ht_set_remove(block(1)));
	ck_assert_uint_eq(filter_sum(), 0);
	ck_assert_uint_eq(held(), 0);
}
END_TEST

START_TEST(hidden_ones)
{
	start(BUCKETS);
	ck_assert(!ht_set_hide(block(1)));
	ck_assert(ht_set_insert(block(1)));
	ck_assert(ht_set_hide(block(1)));
	/* The stub must still see it: the free of a block whose realloc failed counts. */
	ck_assert_uint_eq(filter_at(block(1)), 1);
	ck_assert(!ht_set_hide(block(1)));
	ck_assert(!ht_set_remove(block(1)));
	ht_set_unhide(block(1));
	ck_assert(ht_set_hide(block(1)));
	ht_set_drop(block(1));
	ck_assert_uint_eq(filter_sum(), 0);
	ck_assert_uint_eq(held(), 0);
	/* Of what isn't hidden nothing is taken. */
	ck_assert(ht_set_insert(block(1)));
	ht_set_drop(block(1));
	ht_set_unhide(block(2));
	ht_set_drop(block(3));
	ck_assert_uint_eq(held(), 1);
	ck_assert_uint_eq(filter_sum(), 1);
	ck_assert(ht_set_remove(block(1)));
}
END_TEST

/* A realloc moved the block away, and before it says so another thread is given the old
 * address: the two are kept apart. */
START_TEST(hidden_and_given_out_again)
{
	start(BUCKETS);
	ck_assert(ht_set_insert(block(1)));
	ck_assert(ht_set_hide(block(1)));
	ck_assert(ht_set_insert(block(1)));
	ck_assert_uint_eq(filter_at(block(1)), 2);
	ht_set_drop(block(1));
	ck_assert_uint_eq(filter_at(block(1)), 1);
	ck_assert(ht_set_remove(block(1)));
	ck_assert_uint_eq(held(), 0);
}
END_TEST

/* What finds both of its buckets full is refused, and leaves no trace. */
START_TEST(full_buckets)
{
	enum { FULL = 8, PLACES = FULL * HT_SET_BUCKET };
	uint64_t in[PLACES], n = 0, i, refused = 0;

	start(FULL);
	for (i = 0; n < PLACES; i++) {
		ck_assert_uint_lt(i, 10000);
		if (ht_set_insert(block(i))) {
			in[n++] = block(i);
		} else {
			refused++;
			ck_assert_uint_eq(filter_sum(), n);
			ck_assert(!ht_set_remove(block(i)));
		}
	}
	/* Some buckets are full before the others. */
	ck_assert_uint_gt(refused, 0);
	for (; i < 1000; i++)
		ck_assert(!ht_set_insert(block(i)));
	ck_assert_uint_eq(held(), n);
	ck_assert_uint_eq(filter_sum(), n);
	/* One that is hidden keeps its place, or it couldn't come back. */
	ck_assert(ht_set_hide(in[3]));
	ck_assert(!ht_set_insert(in[3]));
	ht_set_unhide(in[3]);
	for (i = 0; i < n; i++) {
		ck_assert(ht_set_remove(in[i]));
		ck_assert(ht_set_insert(in[i]));
	}
	for (i = 0; i < n; i++)
		ck_assert(ht_set_remove(in[i]));
	ck_assert_uint_eq(filter_sum(), 0);
}
END_TEST

/* Somewhere in 4 GiB of heap. */
static uint64_t anywhere(uint64_t i)
{
	uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return UINT64_C(0x7f3210000010) + (x >> 36) * 16;
}

/* One choice would be at its end with less than a third of the table. */
START_TEST(two_choices)
{
	uint64_t n = 0;

	start(BUCKETS);
	while (ht_set_insert(anywhere(n)))
		n++;
	ck_assert_msg(n > BUCKETS * HT_SET_BUCKET / 2, "full with %lu", (unsigned long)n);
	for (uint64_t i = 0; i < n; i++)
		ck_assert(ht_set_remove(anywhere(i)));
	ck_assert_uint_eq(held(), 0);
	ck_assert_uint_eq(filter_sum(), 0);
}
END_TEST

/* The @i-th block with the same place in the filter. */
static uint64_t twin(uint64_t i)
{
	return i << 24 | ((i ^ 0x12345) & 0xfffff) << 4;
}

/* The @i-th block with the same place in the front. */
static uint64_t front_twin(uint64_t i)
{
	return UINT64_C(0x7f3210054320) + (i << 20);
}

/* Nor can it in the front: what the stub asks first must not say too little either. */
START_TEST(a_front_that_is_full)
{
	start(BUCKETS);
	for (uint64_t i = 1; i <= 300; i++) {
		ck_assert(ht_set_insert(front_twin(i)));
		ck_assert_uint_eq(front_at(front_twin(0)), ht_min(i, (uint64_t)255));
	}
	for (uint64_t i = 1; i <= 300; i++)
		ck_assert(ht_set_remove(front_twin(i)));
	ck_assert_uint_eq(front_at(front_twin(0)), 255);
	ck_assert_uint_eq(held(), 0);
	ck_assert_uint_eq(filter_sum(), 0);
}
END_TEST

/* 255 can't be told from more: it's never lowered again, while blocks may be left that it
 * stands for. 254 can. */
START_TEST(counters_that_are_full)
{
	start(BUCKETS);
	for (uint64_t i = 1; i <= 254; i++) {
		ck_assert_uint_eq(ht_filter_index(twin(i)), 0x12345);
		ck_assert(ht_set_insert(twin(i)));
	}
	for (uint64_t i = 1; i <= 254; i++)
		ck_assert(ht_set_remove(twin(i)));
	ck_assert_uint_eq(filter_sum(), 0);
	for (uint64_t i = 1; i <= 300; i++) {
		ck_assert(ht_set_insert(twin(i)));
		ck_assert_uint_eq(filter_at(twin(i)), ht_min(i, (uint64_t)255));
	}
	for (uint64_t i = 1; i <= 300; i++) {
		ck_assert(ht_set_remove(twin(i)));
		ck_assert_uint_eq(filter_at(twin(i)), 255);
	}
	ck_assert_uint_eq(filter_sum(), 255);
}
END_TEST

enum { WORKERS = 6, OWN = 16, ROUNDS = 150000 };
static pthread_barrier_t barrier;
static unsigned wrong;
static bool in[WORKERS][OWN];

static void expect(bool right)
{
	if (!right)
		__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

/* Each worker has blocks of its own, all of them in few places of the filter. */
static uint64_t own(uint64_t worker, uint64_t i)
{
	return twin(1 + worker * OWN + i) + (i % 3 << 4);
}

static void *churn(void *arg)
{
	uint64_t worker = (uint64_t)(uintptr_t)arg, random = worker + 1;
	bool *mine = in[worker];

	pthread_barrier_wait(&barrier);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t i, addr;

		random = random * UINT64_C(6364136223846793005) + 1;
		i = (random >> 40) % OWN;
		addr = own(worker, i);
		if (!mine[i]) {
			mine[i] = ht_set_insert(addr);
			expect(!mine[i] || (filter_at(addr) > 0 && front_at(addr) > 0));
		} else if (random >> 63) {
			expect(filter_at(addr) > 0 && front_at(addr) > 0 &&
			       ht_set_remove(addr));
			mine[i] = false;
		} else {
			expect(ht_set_hide(addr) && filter_at(addr) > 0);
			if (random >> 62 & 1) {
				ht_set_drop(addr);
				mine[i] = false;
			} else {
				ht_set_unhide(addr);
			}
		}
	}
	return NULL;
}

static void run(void *(*act)(void *))
{
	pthread_t threads[WORKERS];

	ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, WORKERS), 0);
	for (int i = 0; i < WORKERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, act,
						(void *)(uintptr_t)i), 0);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
}

/* What is in now is all there is, and the filter says just that. */
static void settle(void)
{
	static unsigned want[HT_FILTER_SIZE];
	uint64_t n = 0;

	memset(want, 0, sizeof(want));
	for (uint64_t worker = 0; worker < WORKERS; worker++)
		for (uint64_t i = 0; i < OWN; i++)
			if (in[worker][i]) {
				want[ht_filter_index(own(worker, i))]++;
				want[ht_front_index(own(worker, i))]++;
				n++;
			}
	ck_assert_uint_eq(held(), n);
	for (size_t i = 0; i < sizeof(filter); i++)
		if (filter[i] != want[i])
			ck_abort_msg("%u in the filter, not %u", filter[i], want[i]);
	for (uint64_t worker = 0; worker < WORKERS; worker++)
		for (uint64_t i = 0; i < OWN; i++)
			if (in[worker][i])
				ck_assert(ht_set_remove(own(worker, i)));
	memset(in, 0, sizeof(in));
}

START_TEST(threads_at_once)
{
	/* Room for all, then for some. */
	for (uint64_t buckets = 64; buckets; buckets /= 8) {
		start(buckets);
		run(churn);
		ck_assert_uint_eq(wrong, 0);
		settle();
		ck_assert_uint_eq(held(), 0);
		ck_assert_uint_eq(filter_sum(), 0);
	}
}
END_TEST

static uint64_t removed;

static void *remove_all(void *arg)
{
	uint64_t mine = 0;

	pthread_barrier_wait(&barrier);
	for (uint64_t i = 0; i < 2000; i++)
		mine += ht_set_remove(block(i));
	__atomic_add_fetch(&removed, mine, __ATOMIC_RELAXED);
	return arg;
}

/* A double free in two threads is one record. */
START_TEST(each_is_removed_once)
{
	start(BUCKETS);
	for (uint64_t i = 0; i < 2000; i++)
		ck_assert(ht_set_insert(block(i)));
	run(remove_all);
	ck_assert_uint_eq(removed, 2000);
	ck_assert_uint_eq(held(), 0);
	ck_assert_uint_eq(filter_sum(), 0);
}
END_TEST

int main(void)
{
	return ht_check_run("hook_set", (const TTest *const[]){
		in_and_out, hidden_ones, hidden_and_given_out_again, full_buckets,
		two_choices, a_front_that_is_full, counters_that_are_full, threads_at_once, each_is_removed_once, NULL });
}
