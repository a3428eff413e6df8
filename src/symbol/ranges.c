/* SPDX-License-Identifier: Apache-2.0
 *
 * ranges.c: named ranges of addresses. Memory of code is used again and nobody says that a
 * range is over, so of two that overlap the newer one is right.
 */
#include <errno.h>
#include <stdlib.h>

#include "symbol/jit-priv.h"

/* Addresses of programs end here. */
#define ADDR_END (UINT64_C(1) << 63)

void ht_ranges_fini(struct ht_ranges *ranges)
{
	ht_vec_fini(&ranges->all);
	ht_vec_fini(&ranges->pieces);
	ht_buf_fini(&ranges->names);
	ranges->n_indexed = 0;
}

void ht_ranges_clear(struct ht_ranges *ranges)
{
	ht_vec_clear(&ranges->all);
	ht_vec_clear(&ranges->pieces);
	ht_buf_clear(&ranges->names);
	ranges->n_indexed = 0;
}

int ht_ranges_add(struct ht_ranges *ranges, uint64_t start, uint64_t size, const char *name,
		  size_t len)
{
	struct ht_range *range;
	size_t at = ranges->names.len;

	if (!size || !len || start >= ADDR_END || size > ADDR_END - start)
		return -EINVAL;
	if (ranges->all.len >= HT_RANGES_MAX || len >= HT_RANGES_NAMES_MAX - at)
		return -ENOSPC;
	if (ht_vec_reserve(&ranges->all, ranges->all.len + 1) < 0 ||
	    ht_buf_reserve(&ranges->names, len + 1) < 0)
		return -ENOMEM;
	ht_buf_append(&ranges->names, name, len);
	ht_buf_putc(&ranges->names, '\0');
	range = ht_vec_push(&ranges->all);
	*range = (struct ht_range){ start, start + size, (uint32_t)at };
	return 0;
}

/* --- the index: a sweep from low to high addresses --------------------------------------- */

struct sweep {
	const struct ht_range *all;
	uint32_t *order;	/* numbers of ranges, by their start */
	uint32_t *heap;		/* those that were entered, the newest on top */
	size_t n, next, n_heap;
};

static int compare_starts(const void *a_, const void *b_, void *all_)
{
	const struct ht_range *all = all_;
	uint32_t a = *(const uint32_t *)a_, b = *(const uint32_t *)b_;

	if (all[a].start != all[b].start)
		return all[a].start < all[b].start ? -1 : 1;
	return a < b ? -1 : a > b;
}

static void swap(uint32_t *a, uint32_t *b)
{
	uint32_t c = *a;

	*a = *b;
	*b = c;
}

static void heap_push(struct sweep *s, uint32_t range)
{
	size_t at = s->n_heap++;

	s->heap[at] = range;
	for (; at && s->heap[(at - 1) / 2] < s->heap[at]; at = (at - 1) / 2)
		swap(&s->heap[at], &s->heap[(at - 1) / 2]);
}

static void heap_pop(struct sweep *s)
{
	size_t at = 0, child;

	s->heap[0] = s->heap[--s->n_heap];
	while ((child = 2 * at + 1) < s->n_heap) {
		if (child + 1 < s->n_heap && s->heap[child + 1] > s->heap[child])
			child++;
		if (s->heap[child] <= s->heap[at])
			return;
		swap(&s->heap[child], &s->heap[at]);
		at = child;
	}
}

static int emit(struct ht_ranges *ranges, uint64_t start, uint64_t end, uint32_t range)
{
	struct ht_range_piece *piece;

	if (ranges->pieces.len) {
		piece = &ranges->pieces.at[ranges->pieces.len - 1];
		if (piece->range == range && piece->end == start) {
			piece->end = end;
			return 0;
		}
	}
	piece = ht_vec_push(&ranges->pieces);
	if (!piece)
		return -ENOMEM;
	*piece = (struct ht_range_piece){ start, end, range };
	return 0;
}

static int sweep(struct ht_ranges *ranges, struct sweep *s)
{
	uint64_t at = 0, end;
	int r = 0;

	while (r == 0) {
		while (s->n_heap && s->all[s->heap[0]].end <= at)
			heap_pop(s);
		if (!s->n_heap && s->next == s->n)
			return 0;
		if (!s->n_heap)
			at = ht_max(at, s->all[s->order[s->next]].start);
		for (; s->next < s->n && s->all[s->order[s->next]].start <= at; s->next++)
			heap_push(s, s->order[s->next]);
		end = s->all[s->heap[0]].end;
		if (end <= at)
			continue;
		if (s->next < s->n)
			end = ht_min(end, s->all[s->order[s->next]].start);
		r = emit(ranges, at, end, s->heap[0]);
		at = end;
	}
	return r;
}

int ht_ranges_index(struct ht_ranges *ranges)
{
	struct sweep s = { .all = ranges->all.at, .n = ranges->all.len };
	size_t i;
	int r = -ENOMEM;

	if (ranges->n_indexed == s.n)
		return 0;
	ht_vec_clear(&ranges->pieces);
	s.order = malloc(s.n * sizeof(*s.order));
	s.heap = malloc(s.n * sizeof(*s.heap));
	if (s.order && s.heap) {
		for (i = 0; i < s.n; i++)
			s.order[i] = (uint32_t)i;
		qsort_r(s.order, s.n, sizeof(*s.order), compare_starts, ranges->all.at);
		r = sweep(ranges, &s);
	}
	free(s.order);
	free(s.heap);
	ranges->n_indexed = r < 0 ? 0 : s.n;
	return r;
}

const char *ht_ranges_find(const struct ht_ranges *ranges, uint64_t addr)
{
	size_t lo = 0, hi = ranges->pieces.len, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (ranges->pieces.at[mid].end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	if (lo == ranges->pieces.len || ranges->pieces.at[lo].start > addr)
		return NULL;
	return ranges->names.data + ranges->all.at[ranges->pieces.at[lo].range].name;
}
