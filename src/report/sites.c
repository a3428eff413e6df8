/* SPDX-License-Identifier: Apache-2.0
 *
 * sites.c: sites grouped by the function that allocates, and the tree of its callers.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "report/report-priv.h"

#define MAX_NODES (1 << 20)

void ht_sum_add(struct ht_sum *to, const struct ht_sum *sum)
{
	to->bytes += sum->bytes;
	to->objects += sum->objects;
	to->bytes_variance += sum->bytes_variance;
	to->objects_variance += sum->objects_variance;
	to->samples += sum->samples;
}

/* The line differs between calls of one function; the rest is its identity. */
static bool same_function(const struct ht_step *a, const struct ht_step *b)
{
	return a->name == b->name && a->file == b->file && a->module == b->module;
}

static uint64_t hash_function(const struct ht_step *step)
{
	return ht_hash64((uintptr_t)step->name ^
			 ht_hash64((uintptr_t)step->file ^ (uint64_t)step->module << 32));
}

const struct ht_sum *ht_metric_sum(const struct ht_figures *figures,
				   enum ht_metric metric)
{
	switch (metric) {
	case HT_METRIC_LIVE:
		return &figures->live;
	case HT_METRIC_PEAK:
		return &figures->peak;
	default:
		return &figures->total;
	}
}

uint64_t ht_metric_interval(const struct ht_recording *recording, enum ht_metric metric)
{
	struct ht_ledger_counters counters;
	bool half;

	ht_ledger_counters(recording->ledger, &counters);
	half = metric == HT_METRIC_PEAK && !counters.peak_now;
	return half ? 2 * recording->interval : recording->interval;
}

/* The entry of this function, made if needed. Entries of one hash follow each other in the
 * keys. */
static int find_entry(struct ht_sites *sites, struct ht_map *by_hash,
		      const struct ht_step *leaf, uint32_t *ret_entry)
{
	uint64_t key = hash_function(leaf), *at;
	struct ht_sites_entry *entry;

	for (; (at = ht_map_get(by_hash, key)); key++) {
		*ret_entry = (uint32_t)*at;
		if (same_function(&sites->entries.at[*at].leaf, leaf))
			return 0;
	}
	*ret_entry = (uint32_t)sites->entries.len;
	if (ht_map_put(by_hash, key, sites->entries.len) < 0)
		return -ENOMEM;
	entry = ht_vec_push(&sites->entries);
	if (!entry)
		return -ENOMEM;
	entry->leaf = *leaf;
	return 0;
}

static int add_site(const struct ht_recording *recording, struct ht_sites *sites,
		    struct ht_map *by_hash, ht_steps *steps, struct ht_sites_ref ref)
{
	struct ht_sites_entry *entry;
	struct ht_sites_ref *slot;
	int r;

	r = ht_steps_of_site(recording, ref.site, true, steps);
	if (r == 0)
		r = find_entry(sites, by_hash, &steps->at[0], &ref.entry);
	if (r < 0)
		return r;
	slot = ht_vec_push(&sites->refs);
	if (!slot)
		return -ENOMEM;
	*slot = ref;
	entry = &sites->entries.at[ref.entry];
	ht_sum_add(&entry->sum, &ref.sum);
	if (ref.sum.bytes > entry->line_bytes) {
		entry->line_bytes = ref.sum.bytes;
		entry->leaf.line = steps->at[0].line;
	}
	entry->n++;
	return 0;
}

static int most_bytes_first(const void *a_, const void *b_, void *entries)
{
	const struct ht_sites_entry *a = (struct ht_sites_entry *)entries + *(uint32_t *)a_;
	const struct ht_sites_entry *b = (struct ht_sites_entry *)entries + *(uint32_t *)b_;

	if (a->sum.bytes != b->sum.bytes)
		return a->sum.bytes > b->sum.bytes ? -1 : 1;
	if (a->sum.objects != b->sum.objects)
		return a->sum.objects > b->sum.objects ? -1 : 1;
	return strcmp(a->leaf.name, b->leaf.name);
}

static int by_entry(const void *a_, const void *b_)
{
	const struct ht_sites_ref *a = a_, *b = b_;

	if (a->entry != b->entry)
		return a->entry < b->entry ? -1 : 1;
	return a->site < b->site ? -1 : a->site > b->site;
}

/* Order the entries and number them anew, then line up each one's sites. */
static int sort(struct ht_sites *sites)
{
	size_t n = sites->entries.len, i, first = 0;
	uint32_t *order = calloc(n ? n : 1, sizeof(*order));
	uint32_t *rank = calloc(n ? n : 1, sizeof(*rank));
	struct ht_sites_entry *sorted = calloc(n ? n : 1, sizeof(*sorted));
	struct ht_sites_ref *ref;
	int r = order && rank && sorted ? 0 : -ENOMEM;

	for (i = 0; r == 0 && i < n; i++)
		order[i] = (uint32_t)i;
	if (r == 0)
		qsort_r(order, n, sizeof(*order), most_bytes_first, sites->entries.at);
	for (i = 0; r == 0 && i < n; i++) {
		sorted[i] = sites->entries.at[order[i]];
		sorted[i].first = first;
		first += sorted[i].n;
		rank[order[i]] = (uint32_t)i;
	}
	if (r == 0 && n) {
		memcpy(sites->entries.at, sorted, n * sizeof(*sorted));
		ht_vec_foreach(ref, &sites->refs)
			ref->entry = rank[ref->entry];
		qsort(sites->refs.at, sites->refs.len, sizeof(*ref), by_entry);
	}
	free(order);
	free(rank);
	free(sorted);
	return r;
}

int ht_sites_group(const struct ht_recording *recording, enum ht_metric metric,
		   struct ht_sites *ret_sites)
{
	size_t n = ht_ledger_site_count(recording->ledger), i;
	struct ht_sites sites = { HT_VEC_INIT, HT_VEC_INIT };
	struct ht_map by_hash = HT_MAP_INIT;
	ht_steps steps = HT_VEC_INIT;
	int r = 0;

	for (i = 0; r == 0 && i < n; i++) {
		struct ht_figures figures;
		const struct ht_sum *sum = ht_metric_sum(&figures, metric);

		ht_ledger_site_figures(recording->ledger, (uint32_t)i, &figures);
		if (sum->samples == 0 && sum->bytes <= 0)
			continue;
		r = add_site(recording, &sites, &by_hash, &steps,
			     (struct ht_sites_ref){ .site = (uint32_t)i, .sum = *sum });
	}
	if (r == 0)
		r = sort(&sites);
	ht_vec_fini(&steps);
	ht_map_fini(&by_hash);
	if (r < 0)
		ht_sites_fini(&sites);
	else
		*ret_sites = sites;
	return r;
}

void ht_sites_fini(struct ht_sites *sites)
{
	ht_vec_fini(&sites->entries);
	ht_vec_fini(&sites->refs);
}

/* --- the tree of callers ------------------------------------------------------------ */

/* A node with very many callers must not make this quadratic: hence a table for the whole
 * tree. *ret_key is where a new child belongs. */
static uint32_t find_child(const ht_sites_tree *tree, const struct ht_map *children,
			   uint32_t node, const struct ht_step *step, uint64_t *ret_key)
{
	uint64_t key = hash_function(step) ^ ht_hash64(node), *at;

	for (; (at = ht_map_get(children, key)); key++)
		if (tree->at[*at].parent == node && same_function(&tree->at[*at].step, step))
			return (uint32_t)*at;
	*ret_key = key;
	return 0;
}

static void count(struct ht_sites_node *node, const struct ht_step *step,
		  const struct ht_sum *sum)
{
	ht_sum_add(&node->sum, sum);
	if (sum->bytes > node->line_bytes) {
		node->line_bytes = sum->bytes;
		node->step.line = step->line;
	}
}

static int add_stack(ht_sites_tree *tree, struct ht_map *children, const ht_steps *steps,
		     const struct ht_sum *sum)
{
	uint32_t node = 0, child;
	uint64_t key = 0;
	struct ht_sites_node *slot;
	size_t i;

	count(&tree->at[0], &steps->at[0], sum);
	for (i = 1; i < steps->len; i++) {
		child = find_child(tree, children, node, &steps->at[i], &key);
		if (!child) {
			/* The outer callers of so many different stacks aren't read anyway. */
			if (tree->len >= MAX_NODES)
				return 0;
			child = (uint32_t)tree->len;
			if (ht_map_put(children, key, child) < 0)
				return -ENOMEM;
			slot = ht_vec_push(tree);
			if (!slot)
				return -ENOMEM;
			slot->step = steps->at[i];
			slot->parent = node;
			slot->sibling = tree->at[node].child;
			tree->at[node].child = child;
		}
		count(&tree->at[child], &steps->at[i], sum);
		node = child;
	}
	return 0;
}

static int heavier(const void *a_, const void *b_, void *tree)
{
	const struct ht_sites_node *nodes = ((ht_sites_tree *)tree)->at;
	const struct ht_sites_node *a = &nodes[*(uint32_t *)a_], *b = &nodes[*(uint32_t *)b_];

	if (a->sum.bytes != b->sum.bytes)
		return a->sum.bytes > b->sum.bytes ? -1 : 1;
	return strcmp(a->step.name, b->step.name);
}

static int sort_children(ht_sites_tree *tree, struct ht_sites_node *node)
{
	ht_vec(uint32_t) children = HT_VEC_INIT;
	uint32_t child, *slot, *last = &node->child;
	size_t i;

	for (child = node->child; child; child = tree->at[child].sibling) {
		slot = ht_vec_push(&children);
		if (!slot) {
			ht_vec_fini(&children);
			return -ENOMEM;
		}
		*slot = child;
	}
	if (children.len > 1) {
		qsort_r(children.at, children.len, sizeof(*slot), heavier, tree);
		for (i = 0; i < children.len; i++) {
			*last = children.at[i];
			last = &tree->at[children.at[i]].sibling;
		}
		*last = 0;
	}
	ht_vec_fini(&children);
	return 0;
}

int ht_sites_build(const struct ht_recording *recording, const struct ht_sites *sites,
		   size_t i, ht_sites_tree *tree)
{
	const struct ht_sites_entry *entry = &sites->entries.at[i];
	struct ht_sites_node *node;
	struct ht_map children = HT_MAP_INIT;
	ht_steps steps = HT_VEC_INIT;
	size_t at;
	int r = 0;

	ht_vec_clear(tree);
	node = ht_vec_push(tree);
	if (!node)
		return -ENOMEM;
	node->step = entry->leaf;
	for (at = entry->first; r == 0 && at < entry->first + entry->n; at++) {
		r = ht_steps_of_site(recording, sites->refs.at[at].site, true, &steps);
		if (r == 0)
			r = add_stack(tree, &children, &steps, &sites->refs.at[at].sum);
	}
	for (at = 0; r == 0 && at < tree->len; at++)
		r = sort_children(tree, &tree->at[at]);
	ht_map_fini(&children);
	ht_vec_fini(&steps);
	return r;
}
