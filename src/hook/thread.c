/* SPDX-License-Identifier: Apache-2.0
 *
 * thread.c: per-thread state without TLS, found by thread pointer; and the random
 * countdown between samples.
 */
#include "hook/hook.h"

static struct ht_thread *table(void)
{
	return (struct ht_thread *)ht_hook_config.threads;
}

static bool claim(struct ht_thread *slot, uint64_t thread)
{
	uint64_t none = 0;

	return __atomic_load_n(&slot->thread, __ATOMIC_RELAXED) == 0 &&
	       __atomic_compare_exchange_n(&slot->thread, &none, thread, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static struct ht_thread *find_spare(uint64_t thread)
{
	struct ht_thread *spares = table() + HT_THREAD_SLOTS;

	for (unsigned i = 0; i < HT_THREAD_SPARES; i++)
		if (__atomic_load_n(&spares[i].thread, __ATOMIC_RELAXED) == thread)
			return &spares[i];
	return NULL;
}

struct ht_thread *ht_thread_find(uint64_t thread)
{
	uint32_t home = ht_thread_home(thread);

	for (unsigned i = 0; i < HT_THREAD_PROBES; i++) {
		struct ht_thread *slot = &table()[(home + i) % HT_THREAD_SLOTS];
		uint64_t owner = __atomic_load_n(&slot->thread, __ATOMIC_RELAXED);

		if (owner == thread)
			return slot;
		if (owner == 0)
			return NULL;
	}
	return find_spare(thread);
}

static void seed(struct ht_thread *slot, uint64_t thread)
{
	uint64_t x = ht_hook_config.seed ^ (thread * UINT64_C(0x9e3779b97f4a7c15));

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	x ^= x >> 31;
	slot->random = x ? x : 1;
	ht_thread_draw(slot);
}

struct ht_thread *ht_thread_get(uint64_t thread, bool *ret_borrowed)
{
	struct ht_thread *slot = ht_thread_find(thread);
	uint32_t home = ht_thread_home(thread);
	unsigned i;

	*ret_borrowed = false;
	if (slot)
		return slot;
	for (i = 0; i < HT_THREAD_PROBES; i++) {
		slot = &table()[(home + i) % HT_THREAD_SLOTS];
		if (claim(slot, thread))
			goto claimed;
	}
	for (i = 0; i < HT_THREAD_SPARES; i++) {
		slot = table() + HT_THREAD_SLOTS + i;
		if (claim(slot, thread)) {
			*ret_borrowed = true;
			goto claimed;
		}
	}
	return NULL;
claimed:
	slot->mark = 0;
	if (!slot->random)
		seed(slot, thread);
	return slot;
}

void ht_thread_return(struct ht_thread *slot)
{
	__atomic_store_n(&slot->thread, 0, __ATOMIC_RELEASE);
}

static uint64_t high(uint64_t a, uint64_t b)
{
	return (uint64_t)((unsigned __int128)a * b >> 64);
}

/* -log2 of a uniform variate in (0, 1), as 32.32 fixed point: no floating point here, since
 * SSE registers may hold the caller's arguments. For f in [0, 1)
 *
 *	log2(1 + f) = f + f (1 - f) q(f),	q(f) = c0 - f (c1 - f (c2 - ...)),
 *
 * where Remez' algorithm chose the ten coefficients: off by 1.8e-10 at most, by nothing at
 * both ends. It needs no branch and no table, which would be out of the cache each time. */
static uint64_t minus_log2(uint64_t uniform)
{
	unsigned zeros = (unsigned)__builtin_clzll(uniform);
	uint64_t f = uniform << zeros << 1;	/* 0.64, as all below */
	uint64_t sum = UINT64_C(0x8cd73964f213ea);

	sum = UINT64_C(0x356147fa76b7389) - high(sum, f);
	sum = UINT64_C(0x989ee46837da94c) - high(sum, f);
	sum = UINT64_C(0x11c2177308190d0c) - high(sum, f);
	sum = UINT64_C(0x199a0b86f711937c) - high(sum, f);
	sum = UINT64_C(0x209d335c96a1220c) - high(sum, f);
	sum = UINT64_C(0x287124152be40a40) - high(sum, f);
	sum = UINT64_C(0x33c3861046d544c9) - high(sum, f);
	sum = UINT64_C(0x4755a1b05c515ab1) - high(sum, f);
	sum = UINT64_C(0x715475bde9751169) - high(sum, f);
	sum = f + high(high(f, ~f), sum);
	return ((uint64_t)(zeros + 1) << 32) - (sum >> 32);
}

/* countdown = floor(Exp(interval)). xorshift64*, Vigna 2016. */
void ht_thread_draw(struct ht_thread *slot)
{
	uint64_t x = slot->random;
	uint64_t interval = ht_hook_config.interval;
	unsigned __int128 nats;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	slot->random = x;
	x *= UINT64_C(0x2545f4914f6cdd1d);
	/* ln 2 as 0.32 fixed point */
	nats = (unsigned __int128)minus_log2(x | 1) * UINT64_C(2977044472);
	slot->countdown = (uint64_t)((nats * interval) >> 64);
	slot->interval = interval;
}
