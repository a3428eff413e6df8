/* SPDX-License-Identifier: Apache-2.0
 *
 * set.c: which live blocks were recorded. Lock-free, fixed size.
 *
 * In front, two filters of saturating byte counters by a hash of the address: stubs look only
 * there, so the free of a block that wasn't recorded costs one load. Behind them buckets of
 * eight addresses, a cache line each; an address lives in one of two buckets. The counters
 * are raised before the address goes in and lowered after it came out, so a stub never
 * misses one. Blocks are at least 8-aligned: bit 0 marks an address that is hidden.
 */
#include "hook/hook.h"

#define HIDDEN UINT64_C(1)

static uint64_t *bucket(uint64_t addr, unsigned choice)
{
	uint64_t x = (addr >> 4) * UINT64_C(0x9e3779b97f4a7c15);
	uint64_t at = choice ? (x >> 12) ^ (x >> 44) : x >> 32;

	return (uint64_t *)ht_hook_config.set + (at & ht_hook_config.set_mask) * HT_SET_BUCKET;
}

static uint8_t *filter(uint32_t index)
{
	return (uint8_t *)ht_hook_config.filter + index;
}

static void raise(uint8_t *counter)
{
	uint8_t old = __atomic_load_n(counter, __ATOMIC_RELAXED);

	/* A counter that reached 255 stays there: too high is only slow. */
	while (old != UINT8_MAX &&
	       !__atomic_compare_exchange_n(counter, &old, (uint8_t)(old + 1), true,
					    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

static void lower(uint8_t *counter)
{
	uint8_t old = __atomic_load_n(counter, __ATOMIC_RELAXED);

	while (old != UINT8_MAX && old != 0 &&
	       !__atomic_compare_exchange_n(counter, &old, (uint8_t)(old - 1), true,
					    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

static void filter_raise(uint64_t addr)
{
	raise(filter(ht_filter_index(addr)));
	raise(filter(ht_front_index(addr)));
}

static void filter_lower(uint64_t addr)
{
	lower(filter(ht_filter_index(addr)));
	lower(filter(ht_front_index(addr)));
}

/* What stubs ask. Those that have no fast path don't. */
static bool maybe(uint64_t addr)
{
	return __atomic_load_n(filter(ht_front_index(addr)), __ATOMIC_RELAXED) &&
	       __atomic_load_n(filter(ht_filter_index(addr)), __ATOMIC_RELAXED);
}

/* Replace @from by @to somewhere in the buckets of @addr. */
static bool swap(uint64_t addr, uint64_t from, uint64_t to)
{
	for (unsigned choice = 0; choice < 2; choice++) {
		uint64_t *slots = bucket(addr, choice);

		for (unsigned i = 0; i < HT_SET_BUCKET; i++) {
			uint64_t want = from;

			if (__atomic_load_n(&slots[i], __ATOMIC_RELAXED) == from &&
			    __atomic_compare_exchange_n(&slots[i], &want, to, false,
							__ATOMIC_ACQ_REL,
							__ATOMIC_RELAXED))
				return true;
		}
	}
	return false;
}

bool ht_set_insert(uint64_t addr)
{
	filter_raise(addr);
	if (swap(addr, 0, addr))
		return true;
	filter_lower(addr);
	return false;
}

bool ht_set_remove(uint64_t addr)
{
	if (!maybe(addr) || !swap(addr, addr, 0))
		return false;
	filter_lower(addr);
	return true;
}

bool ht_set_hide(uint64_t addr)
{
	return maybe(addr) && swap(addr, addr, addr | HIDDEN);
}

void ht_set_unhide(uint64_t addr)
{
	swap(addr, addr | HIDDEN, addr);
}

void ht_set_drop(uint64_t addr)
{
	if (swap(addr, addr | HIDDEN, 0))
		filter_lower(addr);
}
