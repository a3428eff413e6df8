/* SPDX-License-Identifier: Apache-2.0
 *
 * trie.h: call sites. Stacks share their outer frames: a node is a frame below its
 * parent, a site is a node where a stack ended, with the reason and a label.
 *
 * Ids are dense, start at 0 and never change; nothing is ever removed, because freed
 * memory stays in the totals of its site. A node takes 24 bytes and a site 12, each plus
 * 5.3 to 10.7 bytes of hash index (4-byte slots, 3/8 to 3/4 full).
 */
#ifndef HT_LEDGER_TRIE_H
#define HT_LEDGER_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/vec.h"
#include "unwind/frame.h"

/* A target decides how many different stacks there are; this bounds what they cost. */
#define HT_TRIE_MAX_NODES (UINT32_C(1) << 22)
#define HT_TRIE_MAX_SITES (UINT32_C(1) << 20)

struct ht_trie_node {
	uint64_t offset;
	uint32_t module;
	uint32_t flags;
	uint32_t parent;	/* the caller; 0 is the root, which holds no frame */
};

struct ht_trie_site {
	uint32_t node;
	uint32_t label;
	uint32_t end;		/* enum ht_stack_end */
};

/* Open addressing over ids + 1; 0 is free. */
struct ht_trie_index {
	uint32_t *slots;
	uint32_t cap;		/* a power of two, or 0 */
};

struct ht_trie {
	ht_vec(struct ht_trie_node) nodes;
	ht_vec(struct ht_trie_site) sites;
	struct ht_trie_index node_index;
	struct ht_trie_index site_index;
	uint64_t factors[2];	/* of the hash; secret */
	uint32_t max_nodes;
	uint32_t max_sites;
};

int ht_trie_init(struct ht_trie *trie, uint64_t seed) _must_check_ _nonnull_;
void ht_trie_fini(struct ht_trie *trie) _nonnull_;

/* The site of @stack, which is made if it is new. -ENOSPC: the limits are reached, and
 * nothing was added. */
int ht_trie_intern(struct ht_trie *trie, const struct ht_stack *stack, uint32_t label,
		   uint32_t *ret_site) _must_check_ _nonnull_;
/* @site < trie->sites.len. */
void ht_trie_stack(const struct ht_trie *trie, uint32_t site, struct ht_stack *ret_stack)
	_nonnull_;

#endif
