/* SPDX-License-Identifier: Apache-2.0
 *
 * trie.c: see trie.h.
 */
#include "ledger/trie.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/map.h"

#define MIN_CAP 64

int ht_trie_init(struct ht_trie *trie, uint64_t seed)
{
	*trie = (struct ht_trie){ HT_VEC_INIT, HT_VEC_INIT };
	trie->factors[0] = ht_hash64(seed) | 1;
	trie->factors[1] = ht_hash64(~seed) | 1;
	trie->max_nodes = HT_TRIE_MAX_NODES;
	trie->max_sites = HT_TRIE_MAX_SITES;
	return ht_vec_push(&trie->nodes) ? 0 : -ENOMEM;
}

void ht_trie_fini(struct ht_trie *trie)
{
	ht_vec_fini(&trie->nodes);
	ht_vec_fini(&trie->sites);
	free(trie->node_index.slots);
	free(trie->site_index.slots);
	*trie = (struct ht_trie){ HT_VEC_INIT, HT_VEC_INIT };
}

/* Multiply-shift with secret odd factors: two multiplications a frame, and a target can't
 * know which frames fall together. */
static uint32_t hash3(const struct ht_trie *trie, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t h = (a + c) * trie->factors[0] + (b ^ c << 56) * trie->factors[1];

	return (uint32_t)(h >> 32);
}

static uint32_t hash_node(const struct ht_trie *trie, const struct ht_trie_node *node)
{
	return hash3(trie, node->offset, (uint64_t)node->module << 32 | node->parent,
		     node->flags);
}

static uint32_t hash_site(const struct ht_trie *trie, const struct ht_trie_site *site)
{
	return hash3(trie, site->label, site->node, site->end);
}

static bool same_node(const struct ht_trie_node *a, const struct ht_trie_node *b)
{
	return a->offset == b->offset && a->parent == b->parent &&
	       a->module == b->module && a->flags == b->flags;
}

static bool same_site(const struct ht_trie_site *a, const struct ht_trie_site *b)
{
	return a->node == b->node && a->label == b->label && a->end == b->end;
}

/* The slot that holds @node, or the free one where it belongs. */
static uint32_t *node_slot(const struct ht_trie *trie, const struct ht_trie_node *node)
{
	const struct ht_trie_index *index = &trie->node_index;
	uint32_t i = hash_node(trie, node) & (index->cap - 1);

	while (index->slots[i] && !same_node(&trie->nodes.at[index->slots[i] - 1], node))
		i = (i + 1) & (index->cap - 1);
	return &index->slots[i];
}

static uint32_t *site_slot(const struct ht_trie *trie, const struct ht_trie_site *site)
{
	const struct ht_trie_index *index = &trie->site_index;
	uint32_t i = hash_site(trie, site) & (index->cap - 1);

	while (index->slots[i] && !same_site(&trie->sites.at[index->slots[i] - 1], site))
		i = (i + 1) & (index->cap - 1);
	return &index->slots[i];
}

/* Make room for @n entries in all. When that replaced the slots the new ones are empty:
 * the caller enters everything again. */
static int grow_index(struct ht_trie_index *index, size_t n, bool *ret_grown)
{
	uint32_t cap = index->cap ? index->cap : MIN_CAP;
	uint32_t *slots;

	*ret_grown = false;
	while (n > cap / 4 * 3)
		cap *= 2;
	if (cap == index->cap)
		return 0;
	slots = calloc(cap, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(index->slots);
	*index = (struct ht_trie_index){ slots, cap };
	*ret_grown = true;
	return 0;
}

/* Room for @n nodes more, so that a stack is entered whole or not at all. */
static int reserve_nodes(struct ht_trie *trie, size_t n)
{
	bool grown;
	int r;

	r = grow_index(&trie->node_index, trie->nodes.len + n, &grown);
	if (r < 0)
		return r;
	for (size_t i = 1; grown && i < trie->nodes.len; i++)
		*node_slot(trie, &trie->nodes.at[i]) = (uint32_t)i + 1;
	return ht_vec_reserve(&trie->nodes, trie->nodes.len + n);
}

static int reserve_site(struct ht_trie *trie)
{
	bool grown;
	int r;

	r = grow_index(&trie->site_index, trie->sites.len + 1, &grown);
	if (r < 0)
		return r;
	for (size_t i = 0; grown && i < trie->sites.len; i++)
		*site_slot(trie, &trie->sites.at[i]) = (uint32_t)i + 1;
	return ht_vec_reserve(&trie->sites, trie->sites.len + 1);
}

static struct ht_trie_node node_of(const struct ht_frame *frame, uint32_t parent)
{
	return (struct ht_trie_node){ frame->offset, frame->module, frame->flags,
				      parent };
}

/* Walk in from the outermost frame as far as @stack is known: *ret_left are new. */
static uint32_t known_part(const struct ht_trie *trie, const struct ht_stack *stack,
			   uint32_t *ret_left)
{
	uint32_t node = 0, left = stack->n_frames;

	while (left && trie->node_index.cap) {
		struct ht_trie_node key = node_of(&stack->frames[left - 1], node);
		uint32_t id = *node_slot(trie, &key);

		if (!id)
			break;
		node = id - 1;
		left--;
	}
	*ret_left = left;
	return node;
}

/* Add the innermost @left frames of @stack below @node. */
static int add_nodes(struct ht_trie *trie, const struct ht_stack *stack, uint32_t left,
		     uint32_t *node)
{
	int r;

	if (left > trie->max_nodes || trie->nodes.len > trie->max_nodes - left)
		return -ENOSPC;
	r = reserve_nodes(trie, left);
	if (r < 0)
		return r;
	while (left--) {
		struct ht_trie_node *new = ht_vec_push(&trie->nodes);

		if (!new)
			return -ENOMEM;
		*new = node_of(&stack->frames[left], *node);
		*node_slot(trie, new) = (uint32_t)trie->nodes.len;
		*node = (uint32_t)trie->nodes.len - 1;
	}
	return 0;
}

int ht_trie_intern(struct ht_trie *trie, const struct ht_stack *stack, uint32_t label,
		   uint32_t *ret_site)
{
	struct ht_trie_site *new, key = { .label = label, .end = (uint32_t)stack->end };
	uint32_t left, *slot;
	int r;

	key.node = known_part(trie, stack, &left);
	if (!left && trie->site_index.cap) {
		slot = site_slot(trie, &key);
		if (*slot) {
			*ret_site = *slot - 1;
			return 0;
		}
	}
	if (trie->sites.len >= trie->max_sites)
		return -ENOSPC;
	r = reserve_site(trie);
	if (!r && left)
		r = add_nodes(trie, stack, left, &key.node);
	if (r < 0)
		return r;
	new = ht_vec_push(&trie->sites);
	if (!new)
		return -ENOMEM;
	*new = key;
	*site_slot(trie, &key) = (uint32_t)trie->sites.len;
	*ret_site = (uint32_t)trie->sites.len - 1;
	return 0;
}

void ht_trie_stack(const struct ht_trie *trie, uint32_t site, struct ht_stack *ret_stack)
{
	const struct ht_trie_site *at = &trie->sites.at[site];
	uint32_t n = 0;

	for (uint32_t node = at->node; node; node = trie->nodes.at[node].parent) {
		const struct ht_trie_node *from = &trie->nodes.at[node];

		ret_stack->frames[n++] = (struct ht_frame){ from->offset, from->module,
							    from->flags };
	}
	ret_stack->n_frames = n;
	ret_stack->end = (enum ht_stack_end)at->end;
}
