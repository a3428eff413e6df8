/* SPDX-License-Identifier: Apache-2.0
 *
 * map.c: see map.h.
 */
#include "base/map.h"

#include <errno.h>
#include <stdlib.h>

#define MIN_CAP 16

void ht_map_fini(struct ht_map *map)
{
	free(map->slots);
	*map = (struct ht_map)HT_MAP_INIT;
}

static size_t home(const struct ht_map *map, uint64_t key)
{
	return ht_hash64(key) & (map->cap - 1);
}

/* The slot that holds @key, or the free one where it belongs. */
static struct ht_map_slot *find(const struct ht_map *map, uint64_t key)
{
	size_t i = home(map, key);

	while (map->slots[i].used && map->slots[i].key != key)
		i = (i + 1) & (map->cap - 1);
	return &map->slots[i];
}

uint64_t *ht_map_get(const struct ht_map *map, uint64_t key)
{
	struct ht_map_slot *slot;

	if (!map->len)
		return NULL;
	slot = find(map, key);
	return slot->used ? &slot->value : NULL;
}

static int grow(struct ht_map *map)
{
	struct ht_map bigger = { NULL, map->len, map->cap ? map->cap * 2 : MIN_CAP };
	size_t i;

	bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (i = 0; i < map->cap; i++)
		if (map->slots[i].used)
			*find(&bigger, map->slots[i].key) = map->slots[i];
	free(map->slots);
	*map = bigger;
	return 0;
}

int ht_map_put(struct ht_map *map, uint64_t key, uint64_t value)
{
	struct ht_map_slot *slot;
	int r;

	if (map->len >= map->cap / 4 * 3) {
		r = grow(map);
		if (r < 0)
			return r;
	}
	slot = find(map, key);
	if (!slot->used)
		map->len++;
	*slot = (struct ht_map_slot){ key, value, true };
	return 0;
}

bool ht_map_take(struct ht_map *map, uint64_t key, uint64_t *ret_value)
{
	struct ht_map_slot *slot;
	size_t hole, i, mask = map->cap - 1;

	if (!map->len)
		return false;
	slot = find(map, key);
	if (!slot->used)
		return false;
	if (ret_value)
		*ret_value = slot->value;
	/* Close the gap: every follower that may not sit behind a free slot moves up. */
	hole = (size_t)(slot - map->slots);
	for (i = (hole + 1) & mask; map->slots[i].used; i = (i + 1) & mask) {
		size_t want = home(map, map->slots[i].key);

		if (((i - want) & mask) >= ((i - hole) & mask)) {
			map->slots[hole] = map->slots[i];
			hole = i;
		}
	}
	map->slots[hole].used = false;
	map->len--;
	return true;
}

const struct ht_map_slot *ht_map_next(const struct ht_map *map, size_t *cursor)
{
	while (*cursor < map->cap) {
		const struct ht_map_slot *slot = &map->slots[(*cursor)++];

		if (slot->used)
			return slot;
	}
	return NULL;
}

uint64_t ht_hash_text(const char *text)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	return ht_hash64(h);
}
