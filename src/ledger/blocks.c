/* SPDX-License-Identifier: Apache-2.0
 *
 * blocks.c: see blocks.h.
 */
#include "ledger/blocks.h"

#include <errno.h>
#include <stdlib.h>

#include "base/map.h"

#define SLAB_BLOCKS (UINT32_C(1) << HT_BLOCKS_SLAB_BITS)
#define FIRST_BUCKETS 1024

int ht_blocks_init(struct ht_blocks *blocks, uint64_t seed)
{
	*blocks = (struct ht_blocks){ HT_VEC_INIT, HT_VEC_INIT };
	blocks->seed = seed;
	blocks->used = 1;
	blocks->max = HT_BLOCKS_MAX;
	blocks->level = FIRST_BUCKETS;
	for (int i = 0; i < FIRST_BUCKETS; i++)
		if (!ht_vec_push(&blocks->heads))
			return -ENOMEM;
	return 0;
}

void ht_blocks_fini(struct ht_blocks *blocks)
{
	struct ht_block **slab;

	ht_vec_foreach(slab, &blocks->slabs)
		free(*slab);
	ht_vec_fini(&blocks->slabs);
	ht_vec_fini(&blocks->heads);
}

/*
 * Linear hashing: buckets [0, len - level) were split in this round and use one bit more
 * of the hash than the rest.
 *
 *	0 ... len-level-1 | len-level ... level-1 | level ... len-1
 *	   split          |   still to split      |   their new halves
 */
static uint32_t *bucket(const struct ht_blocks *blocks, uint64_t addr)
{
	uint64_t hash = ht_hash64(addr ^ blocks->seed);
	uint64_t i = hash & (2 * (uint64_t)blocks->level - 1);

	if (i >= blocks->heads.len)
		i = hash & (blocks->level - 1);
	return &blocks->heads.at[i];
}

/* Split the next bucket: its blocks are dealt out between itself and a new one. */
static int split(struct ht_blocks *blocks)
{
	uint32_t *head, id;

	if (!ht_vec_push(&blocks->heads))
		return -ENOMEM;
	head = &blocks->heads.at[blocks->heads.len - 1 - blocks->level];
	id = *head;
	*head = 0;
	while (id) {
		struct ht_block *block = ht_blocks_at(blocks, id);
		uint32_t *to = bucket(blocks, block->addr), next = block->next;

		block->next = *to;
		*to = id;
		id = next;
	}
	if (blocks->heads.len == 2 * (size_t)blocks->level)
		blocks->level *= 2;
	return 0;
}

/* An id of the free list, or one that was never used. */
static int take_id(struct ht_blocks *blocks, uint32_t *ret_id)
{
	struct ht_block **slab;

	if (blocks->free) {
		*ret_id = blocks->free;
		blocks->free = ht_blocks_at(blocks, blocks->free)->next;
		return 0;
	}
	if (blocks->used > blocks->max)
		return -ENOSPC;
	if (blocks->used >> HT_BLOCKS_SLAB_BITS >= blocks->slabs.len) {
		slab = ht_vec_push(&blocks->slabs);
		if (!slab)
			return -ENOMEM;
		*slab = malloc(SLAB_BLOCKS * sizeof(**slab));
		if (!*slab) {
			blocks->slabs.len--;
			return -ENOMEM;
		}
	}
	*ret_id = blocks->used++;
	return 0;
}

int ht_blocks_add(struct ht_blocks *blocks, const struct ht_block *block)
{
	uint32_t id, *head;
	int r;

	if (blocks->count >= blocks->heads.len) {
		r = split(blocks);
		if (r < 0)
			return r;
	}
	r = take_id(blocks, &id);
	if (r < 0)
		return r;
	head = bucket(blocks, block->addr);
	*ht_blocks_at(blocks, id) = *block;
	ht_blocks_at(blocks, id)->next = *head;
	*head = id;
	blocks->count++;
	return 0;
}

uint32_t ht_blocks_detach(struct ht_blocks *blocks, uint64_t addr, uint64_t seq,
			bool *ret_younger)
{
	uint32_t id, *link = bucket(blocks, addr);
	struct ht_block *block;

	*ret_younger = false;
	for (id = *link; id; id = *link) {
		block = ht_blocks_at(blocks, id);
		if (block->addr == addr)
			break;
		link = &block->next;
	}
	if (!id)
		return 0;
	if (block->seq > seq) {
		*ret_younger = true;
		return 0;
	}
	*link = block->next;
	return id;
}

void ht_blocks_expect(const struct ht_blocks *blocks, uint64_t addr)
{
	/* Nothing waits for the id: it's read and used while other things are done. 0 does no
	 * harm. */
	if (blocks->slabs.len)
		__builtin_prefetch(ht_blocks_at(blocks, *bucket(blocks, addr)));
}

void ht_blocks_drop(struct ht_blocks *blocks, uint32_t id)
{
	ht_blocks_at(blocks, id)->next = blocks->free;
	blocks->free = id;
	blocks->count--;
}
