/* SPDX-License-Identifier: Apache-2.0
 *
 * blocks.h: the blocks that are allocated and not freed, found by address.
 *
 * A block takes 48 bytes in slabs of 64 Ki blocks, and the hash table one 4-byte chain
 * head a block (its array doubles: up to 8 reserved): 52 to 56 bytes a live block, 0.56
 * GB for 10^7. The table grows by one bucket an insert (linear hashing): there is no
 * moment at which everything is hashed again while the ring of the target fills.
 */
#ifndef HT_LEDGER_BLOCKS_H
#define HT_LEDGER_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/vec.h"

/* 3.5 GiB; a target that holds more blocks in exact mode gets a report that says so. */
#define HT_BLOCKS_MAX (UINT32_C(1) << 26)
#define HT_BLOCKS_SLAB_BITS 16

struct ht_block {
	uint64_t addr;
	uint64_t size;
	uint64_t seq;
	uint64_t time_ns;
	uint64_t interval;
	uint32_t site;
	uint32_t next;		/* in its chain, or of the free list; 0 ends */
};
_Static_assert(sizeof(struct ht_block) == 48, "the size that the comment above states");

struct ht_blocks {
	ht_vec(struct ht_block *) slabs;
	ht_vec(uint32_t) heads;
	uint32_t level;		/* buckets when the current round of splits began; 2^n */
	uint32_t used;		/* block ids handed out so far; 0 is none */
	uint32_t free;		/* first of the free list */
	uint32_t count;		/* blocks held, detached ones too */
	uint32_t max;
	uint64_t seed;
};

int ht_blocks_init(struct ht_blocks *blocks, uint64_t seed) _must_check_ _nonnull_;
void ht_blocks_fini(struct ht_blocks *blocks) _nonnull_;

/* Ids are good until the block is dropped, pointers too: blocks don't move. */
static inline struct ht_block *ht_blocks_at(const struct ht_blocks *blocks, uint32_t id)
{
	return &blocks->slabs.at[id >> HT_BLOCKS_SLAB_BITS]
			      [id & ((1u << HT_BLOCKS_SLAB_BITS) - 1)];
}

/* Add a block; there is none at its address. -ENOSPC at the limit, -ENOMEM. */
int ht_blocks_add(struct ht_blocks *blocks, const struct ht_block *block)
	_must_check_ _nonnull_;
/* Take the block at @addr out of the table, unless it is younger than @seq: its address
 * is free then, the block remains until it is dropped. *ret_younger tells a 0 for a young
 * one from a 0 for none. */
uint32_t ht_blocks_detach(struct ht_blocks *blocks, uint64_t addr, uint64_t seq,
			bool *ret_younger) _nonnull_;
/* The block at @addr, or the lack of one, will be asked for soon: its place may be in none of
 * the processor's caches. */
void ht_blocks_expect(const struct ht_blocks *blocks, uint64_t addr) _nonnull_;
/* Forget a detached block. */
void ht_blocks_drop(struct ht_blocks *blocks, uint32_t id) _nonnull_;

#endif
