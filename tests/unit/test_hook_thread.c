/* SPDX-License-Identifier: Apache-2.0
 *
 * The hook's table of threads, and its countdowns: that they are floor(Exp(I)) is what all
 * sampled figures stand on. Seeds are fixed, so nothing here is left to chance.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "ht_check.h"

#include "hook/hook.h"

struct ht_hook_config ht_hook_config;

static struct ht_thread slots[HT_THREAD_SLOTS + HT_THREAD_SPARES];
static struct ht_thread *const spares = slots + HT_THREAD_SLOTS;

static void start(uint64_t interval)
{
	memset(slots, 0, sizeof(slots));
	ht_hook_config = (struct ht_hook_config){
		.interval = interval, .seed = 42, .threads = (uint64_t)(uintptr_t)slots,
	};
}

/* --- countdowns --- */

#define BINS 64

/* Bins of about the same probability, between whole numbers, for small intervals fewer. */
struct bins {
	double interval;
	uint64_t bound[BINS];	/* countdowns below it, and not below the one before */
	double p[BINS];
	uint64_t count[BINS];
	size_t n;
	uint64_t draws;
	double sum;
	double before, cross;	/* with the one before it */
};

static double below(double bound, double interval)
{
	return -expm1(-bound / interval);
}

static void bins_init(struct bins *bins, uint64_t interval)
{
	uint64_t before = 0;

	memset(bins, 0, sizeof(*bins));
	bins->interval = (double)interval;
	for (int i = 1; i <= BINS; i++) {
		double share = (double)i / BINS;
		uint64_t bound = i == BINS ? UINT64_MAX :
			(uint64_t)ceil(-log1p(-share) * bins->interval);

		if (bound == before)
			continue;
		bins->bound[bins->n] = bound;
		bins->p[bins->n] = below((double)bound, bins->interval) -
				   below((double)before, bins->interval);
		bins->n++;
		before = bound;
	}
}

static void bins_add(struct bins *bins, uint64_t countdown)
{
	size_t i = 0;

	while (countdown >= bins->bound[i])
		i++;
	bins->count[i]++;
	bins->draws++;
	bins->sum += (double)countdown;
	bins->cross += bins->before * ((double)countdown - bins->interval);
	bins->before = (double)countdown - bins->interval;
}

/* Chi-square within four sigmas (what is too even is not random either), the mean of the
 * floors, and that one tells nothing of the next. */
static void bins_check(const struct bins *bins)
{
	double n = (double)bins->draws, df = (double)bins->n - 1, chi2 = 0;
	double mean = 1 / expm1(1 / bins->interval);
	double sigma = sqrt(mean * (mean + 1) / n);

	for (size_t i = 0; i < bins->n; i++) {
		double want = n * bins->p[i], off = (double)bins->count[i] - want;

		ck_assert_msg(want >= 5, "a bin of %g", want);
		chi2 += off * off / want;
	}
	ck_assert_msg(fabs(chi2 - df) < 4 * sqrt(2 * df) + 4, "interval %g: chi2 %g of %g",
		      bins->interval, chi2, df);
	ck_assert_msg(fabs(bins->sum / n - mean) < 4 * sigma, "interval %g: mean %g, not %g",
		      bins->interval, bins->sum / n, mean);
	if (bins->interval < 1000)
		return;
	ck_assert_msg(fabs(bins->cross) < 4 * sqrt(n) * bins->interval * bins->interval,
		      "correlation %g", bins->cross / n / bins->interval / bins->interval);
}

START_TEST(draws_of_one_thread)
{
	static const uint64_t intervals[] = { 1, 2, 7, 64, 4096, 65536, UINT64_C(1) << 30,
					      UINT64_C(1) << 40 };
	struct ht_thread slot = { .random = 1 };
	struct bins bins;
	bool right = true;

	for (size_t i = 0; i < ARRAY_SIZE(intervals); i++) {
		start(intervals[i]);
		bins_init(&bins, intervals[i]);
		for (int n = 0; n < 300000; n++) {
			ht_thread_draw(&slot);
			right &= slot.random != 0 && slot.interval == intervals[i];
			bins_add(&bins, slot.countdown);
		}
		ck_assert(right);
		bins_check(&bins);
	}
}
END_TEST

/* Threads that live for one allocation: only the first countdown of each counts, and
 * their thread pointers are as alike as the stacks of a pool. */
START_TEST(first_draws_of_many_threads)
{
	uint64_t tp = UINT64_C(0x7f0000000700);
	struct bins bins;
	bool borrowed, served = true;

	bins_init(&bins, 65536);
	start(65536);
	for (int n = 0; n < 200000; n++, tp += 0x801000) {
		struct ht_thread *slot = ht_thread_get(tp, &borrowed);

		served &= slot != NULL && !borrowed;
		bins_add(&bins, slot->countdown);
		*slot = (struct ht_thread){ 0 };
	}
	ck_assert(served);
	bins_check(&bins);
	/* The same thread in process after process. */
	bins_init(&bins, 65536);
	for (uint64_t seed = 0; seed < 200000; seed++) {
		struct ht_thread *slot;

		ht_hook_config.seed = seed;
		slot = ht_thread_get(tp, &borrowed);
		bins_add(&bins, slot->countdown);
		*slot = (struct ht_thread){ 0 };
	}
	bins_check(&bins);
}
END_TEST

/* The state from which the generator's next output is @out: xorshift64* undone. */
static uint64_t state_before(uint64_t out)
{
	uint64_t inverse = 1, x;

	for (int i = 0; i < 6; i++)
		inverse *= 2 - UINT64_C(0x2545f4914f6cdd1d) * inverse;
	x = out * inverse;
	x ^= x >> 27;
	x ^= x >> 54;
	x ^= x << 25;
	x ^= x << 50;
	x ^= x >> 12;
	x ^= x >> 24;
	x ^= x >> 48;
	return x;
}

/* The whole range of the uniform variate, at the largest interval too: nothing
 * overflows. */
START_TEST(the_ends_of_the_range)
{
	struct ht_thread slot;

	start(UINT64_C(1) << 40);
	for (int k = 0; k < 64; k++) {
		/* Odd, since 0 has no logarithm. */
		uint64_t out = UINT64_C(1) << k | 1;
		double want = (64 * M_LN2 - log((double)out)) * 0x1p40;

		slot.random = state_before(out);
		ht_thread_draw(&slot);
		ck_assert_msg(fabs((double)slot.countdown - want) < want * 1e-8, "%d: %g", k,
			      (double)slot.countdown);
	}
	slot.random = state_before(UINT64_MAX);
	ht_thread_draw(&slot);
	ck_assert_uint_lt(slot.countdown, 1024);
	ht_hook_config.interval = 65536;
	slot.random = state_before(UINT64_MAX);
	ht_thread_draw(&slot);
	ck_assert_uint_eq(slot.countdown, 0);
}
END_TEST

/* In between: what is wrong in the draw of a block's sampling would be so in the report. */
START_TEST(the_logarithm)
{
	struct ht_thread slot;
	long double worst = 0;

	start(UINT64_C(1) << 40);
	for (uint64_t i = 0; i < 1000000; i++) {
		/* Over all of an octave, and over the octaves. */
		uint64_t out = ((i * UINT64_C(0x9e3779b97f4a7c15) >> 1 | UINT64_C(1) << 63) >>
				i % 40) | 1;
		long double want = -log2l((long double)out * 0x1p-64L);
		long double got;

		slot.random = state_before(out);
		ht_thread_draw(&slot);
		got = (long double)slot.countdown * 0x1p-40L / M_LN2l;
		worst = fmaxl(worst, fabsl(got - want) - want * 1e-9L);
	}
	/* 1.8e-10 of the polynomial, 2^-32 of the result, ln 2 to 32 bits in want * 1e-9. */
	ck_assert_msg(worst < 4.5e-10L, "%Lg", worst);
}
END_TEST

START_TEST(seeds)
{
	uint64_t tp = UINT64_C(0x7f1234567740), first;
	struct ht_thread *slot;
	bool borrowed;

	start(65536);
	first = ht_thread_get(tp, &borrowed)->random;
	start(65536);
	ck_assert_uint_eq(ht_thread_get(tp, &borrowed)->random, first);
	start(65536);
	ht_hook_config.seed = 43;
	ck_assert_uint_ne(ht_thread_get(tp, &borrowed)->random, first);
	/* The one seed that is mixed to 0, which stands for "not seeded". */
	start(65536);
	ht_hook_config.seed = tp * UINT64_C(0x9e3779b97f4a7c15);
	slot = ht_thread_get(tp, &borrowed);
	ck_assert_uint_ne(slot->random, 0);
	/* A countdown goes on with the interval that it was drawn with. */
	ht_hook_config.interval = 7;
	ck_assert_ptr_eq(ht_thread_get(tp, &borrowed), slot);
	ck_assert_uint_eq(slot->interval, 65536);
	ht_thread_draw(slot);
	ck_assert_uint_eq(slot->interval, 7);
}
END_TEST

/* --- the table --- */

/* The @i-th thread pointer whose home is slot @home. */
static uint64_t thread_at(uint32_t home, unsigned i)
{
	uint64_t tp = 0x7f0000000000;

	for (;; tp += 64)
		if (ht_thread_home(tp) == home && i-- == 0)
			return tp;
}

START_TEST(one_slot_a_thread)
{
	uint64_t tp = thread_at(77, 0);
	struct ht_thread *slot;
	bool borrowed = true;

	start(65536);
	ck_assert_ptr_null(ht_thread_find(tp));
	ck_assert_uint_eq(slots[77].thread, 0);
	slot = ht_thread_get(tp, &borrowed);
	ck_assert_ptr_eq(slot, &slots[77]);
	ck_assert(!borrowed);
	ck_assert_uint_eq(slot->thread, tp);
	ck_assert_ptr_eq(ht_thread_find(tp), slot);
	ck_assert_ptr_eq(ht_thread_get(tp, &borrowed), slot);
	ck_assert_ptr_null(ht_thread_find(thread_at(77, 1)));
}
END_TEST

/* The stack on which a mark was set is gone when the slot changes hands. The generator
 * goes on: its countdown is as good for the next thread. */
START_TEST(what_a_claim_keeps)
{
	uint64_t tp = thread_at(5, 0);
	bool borrowed;

	start(65536);
	slots[5] = (struct ht_thread){ .mark = 1234, .random = 99, .countdown = 7 };
	ck_assert_ptr_eq(ht_thread_get(tp, &borrowed), &slots[5]);
	ck_assert_uint_eq(slots[5].mark, 0);
	ck_assert_uint_eq(slots[5].random, 99);
	ck_assert_uint_eq(slots[5].countdown, 7);
}
END_TEST

/* Around the end of the table, then the spares, then nothing. */
START_TEST(when_it_is_crowded)
{
	uint32_t home = HT_THREAD_SLOTS - 3;
	struct ht_thread *slot;
	bool borrowed;

	start(65536);
	for (unsigned i = 0; i < HT_THREAD_PROBES; i++) {
		slot = ht_thread_get(thread_at(home, i), &borrowed);
		ck_assert_ptr_eq(slot, &slots[(home + i) % HT_THREAD_SLOTS]);
		ck_assert(!borrowed);
	}
	for (unsigned i = 0; i < HT_THREAD_SPARES; i++) {
		uint64_t tp = thread_at(home, HT_THREAD_PROBES + i);

		slot = ht_thread_get(tp, &borrowed);
		ck_assert_ptr_eq(slot, &spares[i]);
		ck_assert(borrowed);
		/* A signal handler in it finds what it has, and mustn't give it back. */
		ck_assert_ptr_eq(ht_thread_find(tp), slot);
		ck_assert_ptr_eq(ht_thread_get(tp, &borrowed), slot);
		ck_assert(!borrowed);
	}
	borrowed = true;
	ck_assert_ptr_null(ht_thread_get(thread_at(home, 100), &borrowed));
	ck_assert(!borrowed);
	/* What is given back the next one gets. */
	ht_thread_return(&spares[9]);
	ck_assert_ptr_null(ht_thread_find(thread_at(home, HT_THREAD_PROBES + 9)));
	ck_assert_ptr_eq(ht_thread_get(thread_at(home, 100), &borrowed), &spares[9]);
	ck_assert(borrowed);
	/* Those who have a slot of their own still find it. */
	ck_assert_ptr_eq(ht_thread_find(thread_at(home, 5)), &slots[2]);
	/* Others are not concerned. */
	ck_assert_ptr_eq(ht_thread_get(thread_at(100, 0), &borrowed), &slots[100]);
}
END_TEST

enum { WORKERS = 24, ROUNDS = 100000 };
static pthread_barrier_t barrier;
static uint64_t worker_tps[WORKERS];
static unsigned shared, unserved;

/* Alone in its slot from get to return. */
static void *worker(void *arg)
{
	uint64_t tp = *(uint64_t *)arg;
	bool borrowed;

	pthread_barrier_wait(&barrier);
	for (int i = 0; i < ROUNDS; i++) {
		struct ht_thread *slot = ht_thread_get(tp, &borrowed);

		if (!slot) {
			__atomic_add_fetch(&unserved, 1, __ATOMIC_RELAXED);
			continue;
		}
		slot->block = tp;
		if (i % 32 == 0)
			sched_yield();
		if (slot->block != tp || slot->thread != tp)
			__atomic_add_fetch(&shared, 1, __ATOMIC_RELAXED);
		if (borrowed)
			ht_thread_return(slot);
	}
	return NULL;
}

START_TEST(threads_at_once)
{
	pthread_t threads[WORKERS];
	unsigned own = 0;

	start(65536);
	/* All of one home, and all spares but two taken. */
	for (int i = 2; i < HT_THREAD_SPARES; i++)
		spares[i].thread = 1;
	ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, WORKERS), 0);
	for (unsigned i = 0; i < WORKERS; i++) {
		worker_tps[i] = thread_at(4095, i);
		ck_assert_int_eq(pthread_create(&threads[i], NULL, worker,
						&worker_tps[i]), 0);
	}
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
	ck_assert_uint_eq(shared, 0);
	for (unsigned i = 0; i < HT_THREAD_PROBES; i++)
		own += slots[(4095 + i) % HT_THREAD_SLOTS].thread != 0;
	ck_assert_uint_eq(own, HT_THREAD_PROBES);
	ck_assert(!spares[0].thread && !spares[1].thread);
	ck_assert_uint_le(unserved, (WORKERS - HT_THREAD_PROBES) * ROUNDS);
}
END_TEST

int main(void)
{
	return ht_check_run("hook_thread", (const TTest *const[]){
		draws_of_one_thread, first_draws_of_many_threads, the_ends_of_the_range, the_logarithm,
		seeds, one_slot_a_thread, what_a_claim_keeps,
		when_it_is_crowded, threads_at_once, NULL });
}
