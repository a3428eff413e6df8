/* SPDX-License-Identifier: Apache-2.0
 *
 * map.h: a hash table from one 64-bit key to one 64-bit value.
 *
 * Open addressing with linear probing and backward-shift deletion, so there are no
 * tombstones and a table that only churns never grows. Any key is legal, 0 too. Values
 * that don't fit go into a vec and the map holds their index.
 */
#ifndef HT_BASE_MAP_H
#define HT_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct ht_map {
	struct ht_map_slot *slots;
	size_t len;	/* keys held */
	size_t cap;	/* slots, a power of two, or 0 */
};

struct ht_map_slot {
	uint64_t key;
	uint64_t value;
	bool used;
};

#define HT_MAP_INIT { NULL, 0, 0 }

void ht_map_fini(struct ht_map *map) _nonnull_;

/* NULL when @key is not there. The pointer is good until the next put or take. */
uint64_t *ht_map_get(const struct ht_map *map, uint64_t key) _nonnull_;

/* Insert or replace. 0 or -ENOMEM. */
int ht_map_put(struct ht_map *map, uint64_t key, uint64_t value) _must_check_ _nonnull_;

/* Remove @key; its value goes to @ret_value if that isn't NULL. False: not there. */
bool ht_map_take(struct ht_map *map, uint64_t key, uint64_t *ret_value)
	_nonnull_args_(1);

/* Walk: start with *cursor = 0; NULL at the end. Don't change the map meanwhile. */
const struct ht_map_slot *ht_map_next(const struct ht_map *map, size_t *cursor) _nonnull_;

/* A good mix of all 64 bits (the finaliser of splitmix64). */
static inline uint64_t ht_hash64(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* Of a string: FNV-1a, mixed. Crafted texts may have the same: compare what is found. */
uint64_t ht_hash_text(const char *text) _nonnull_;

#endif
