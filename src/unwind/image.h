/* SPDX-License-Identifier: Apache-2.0
 *
 * image.h: the format of the compact unwind table and its reader. Freestanding: no
 * calls, no allocation, no pointers in the data, so it may run anywhere the image is
 * mapped. docs/unwind-table.md draws it and says why it is so.
 *
 *	+---------+--------+-----------+----------+---------+-------------+
 *	| header  | ranges | buckets   | rows     | rules   | expressions |
 *	| 128     | 24 * n | 4 * n     | 4 * n    | 16 * n  | n           |
 *	+---------+--------+-----------+----------+---------+-------------+
 *	                                          ^ aligned to 16
 *
 *	row	31      22 21         8 7      0
 *		| pc in   | rule       | flags  |
 *		| bucket  |            |        |
 */
#ifndef HT_UNWIND_IMAGE_H
#define HT_UNWIND_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/table.h"

#define HT_IMAGE_MAGIC UINT32_C(0x54555448)	/* "HTUT" */
#define HT_IMAGE_VERSION 1
#define HT_IMAGE_BUCKET_SHIFT 10
#define HT_IMAGE_BUCKET (UINT64_C(1) << HT_IMAGE_BUCKET_SHIFT)
#define HT_IMAGE_MAX_RANGES 64
#define HT_IMAGE_MAX_RULES (1 << 14)
#define HT_IMAGE_BUILD_ID 20

enum ht_image_flags {
	HT_IMAGE_EH = 1 << 0,		/* some rows come from .eh_frame */
	HT_IMAGE_DEBUG = 1 << 1,	/* some rows come from .debug_frame */
	HT_IMAGE_SYNTHETIC = 1 << 2,	/* some rows were made from code */
};

/* Other bits are 0, for later. */
enum ht_row_flags {
	HT_ROW_FDE_START = 1 << 0,	/* an FDE starts exactly here */
	HT_ROW_DEBUG = 1 << 1,		/* from .debug_frame */
	HT_ROW_SYNTHETIC = 1 << 2,	/* from code: PLT, signal trampoline */
};

struct ht_image_header {
	uint32_t magic;
	uint16_t version;
	uint16_t machine;		/* EM_X86_64 */
	uint32_t flags;			/* enum ht_image_flags */
	uint8_t bucket_shift;
	uint8_t build_id_len;		/* of the file, may be more than is kept here */
	uint16_t n_ranges;
	uint8_t build_id[HT_IMAGE_BUILD_ID];
	uint32_t n_buckets;		/* sentinels included */
	uint32_t n_rows;
	uint32_t n_rules;
	uint32_t expr_bytes;
	uint32_t ranges_at, buckets_at, rows_at, rules_at, exprs_at;
	uint32_t size;			/* of the whole image */
	uint32_t fdes, bad_fdes, overlaps, slow_rows, n_exprs;
	uint32_t skipped_sections, unused;
	uint64_t text_bytes, gap_bytes;
	uint64_t checksum;		/* of all, itself taken as 0 */
};

_Static_assert(sizeof(struct ht_image_header) == 128, "header size is part of the format");
_Static_assert(sizeof(struct ht_rule) == 16, "rule size is part of the format");

/* A stretch of executable text, with n_buckets buckets from first_bucket on and one more
 * that bounds the last. Its first row starts at start exactly. */
struct ht_image_range {
	uint64_t start, end;
	uint32_t first_bucket, n_buckets;
};

_Static_assert(sizeof(struct ht_image_range) == 24, "range size is part of the format");

/* What a reader keeps outside of the image, so that no later change to the image's bytes
 * can lead it out. */
struct ht_image_view {
	const struct ht_image_range *ranges;
	const uint32_t *buckets;
	const uint32_t *rows;
	const struct ht_rule *rules;
	const uint8_t *exprs;
	uint32_t n_ranges, n_buckets, n_rows, n_rules, expr_bytes;
};

/* Where a row was found. */
struct ht_image_spot {
	uint32_t range, bucket, row;	/* bucket: that of the pc, not of the row */
};

static inline uint32_t ht_image_row_pc(uint32_t row)
{
	return row >> 22;
}

static inline uint32_t ht_image_row_rule(uint32_t row)
{
	return row >> 8 & (HT_IMAGE_MAX_RULES - 1);
}

static inline uint32_t ht_image_row_flags(uint32_t row)
{
	return row & 0xff;
}

/* Check the header in constant time and make a view; false: not an image of this version,
 * or its parts aren't where its counts put them. @image is aligned to 16. */
static inline bool ht_image_open(const void *image, size_t len, struct ht_image_view *ret_view)
{
	const struct ht_image_header *header = image;
	const uint8_t *bytes = image;
	struct ht_image_header h;
	uint64_t at = sizeof(h);

	if (len < sizeof(h) || ((uintptr_t)image & 15))
		return false;
	h = *header;
	if (h.magic != HT_IMAGE_MAGIC || h.version != HT_IMAGE_VERSION ||
	    h.bucket_shift != HT_IMAGE_BUCKET_SHIFT || h.size != len ||
	    h.n_ranges > HT_IMAGE_MAX_RANGES || h.n_rules > HT_IMAGE_MAX_RULES)
		return false;
	if (h.ranges_at != at)
		return false;
	at += (uint64_t)h.n_ranges * sizeof(struct ht_image_range);
	if (h.buckets_at != at)
		return false;
	at += (uint64_t)h.n_buckets * 4;
	if (h.rows_at != at)
		return false;
	at = ht_align_up(at + (uint64_t)h.n_rows * 4, 16);
	if (h.rules_at != at)
		return false;
	at += (uint64_t)h.n_rules * sizeof(struct ht_rule);
	if (h.exprs_at != at || at + h.expr_bytes != len)
		return false;
	*ret_view = (struct ht_image_view){
		.ranges = (const void *)(bytes + h.ranges_at),
		.buckets = (const void *)(bytes + h.buckets_at),
		.rows = (const void *)(bytes + h.rows_at),
		.rules = (const void *)(bytes + h.rules_at),
		.exprs = bytes + h.exprs_at,
		.n_ranges = h.n_ranges,
		.n_buckets = h.n_buckets,
		.n_rows = h.n_rows,
		.n_rules = h.n_rules,
		.expr_bytes = h.expr_bytes,
	};
	return true;
}

/* One load each, so that what was checked is what is used. */
static inline uint32_t ht_image_load(const uint32_t *at)
{
	return __atomic_load_n(at, __ATOMIC_RELAXED);
}

/* The last row of [@low, @high) that starts at or before @offset of the bucket; @low - 1 if
 * there is none, which is a row of an earlier bucket. */
static inline uint32_t ht_image_search(const struct ht_image_view *view, uint32_t low,
				       uint32_t high, uint32_t offset)
{
	uint32_t key = offset << 22 | 0x3fffff;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (ht_image_load(&view->rows[middle]) <= key)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

/* The row that holds for module address @pc. False: outside of the text. */
static inline bool ht_image_find(const struct ht_image_view *view, uint64_t pc,
				 struct ht_image_spot *ret_spot)
{
	uint32_t i, low, high, row;
	uint64_t bucket, in_range;

	for (i = 0; i < view->n_ranges; i++)
		if (pc >= view->ranges[i].start && pc < view->ranges[i].end)
			break;
	if (i == view->n_ranges)
		return false;
	in_range = (pc >> HT_IMAGE_BUCKET_SHIFT) -
		   (view->ranges[i].start >> HT_IMAGE_BUCKET_SHIFT);
	bucket = view->ranges[i].first_bucket + in_range;
	if (in_range >= view->n_buckets || bucket + 1 >= view->n_buckets)
		return false;
	low = ht_image_load(&view->buckets[bucket]);
	high = ht_min(ht_image_load(&view->buckets[bucket + 1]), view->n_rows);
	if (unlikely(low > high))
		return false;
	row = ht_image_search(view, low, high, (uint32_t)(pc & (HT_IMAGE_BUCKET - 1)));
	if (unlikely(row >= view->n_rows))
		return false;
	*ret_spot = (struct ht_image_spot){ i, (uint32_t)bucket, row };
	return true;
}

/* The module address where the row at @spot starts: the offset is in the row, its bucket is
 * the last one whose first row isn't behind it. */
static inline uint64_t ht_image_row_start(const struct ht_image_view *view,
					  const struct ht_image_spot *spot)
{
	uint32_t first = ht_min(view->ranges[spot->range].first_bucket, spot->bucket);
	uint32_t low = first, high = spot->bucket;

	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;

		if (ht_image_load(&view->buckets[middle]) <= spot->row)
			low = middle;
		else
			high = middle - 1;
	}
	return ht_align_down(view->ranges[spot->range].start, HT_IMAGE_BUCKET) +
	       ((uint64_t)(low - first) << HT_IMAGE_BUCKET_SHIFT) +
	       ht_image_row_pc(ht_image_load(&view->rows[spot->row]));
}

static inline bool ht_image_lookup(const struct ht_image_view *view, uint64_t pc,
				   struct ht_rule *ret_rule, struct ht_image_spot *ret_spot)
{
	struct ht_image_spot spot;
	uint32_t rule;

	if (!ht_image_find(view, pc, &spot))
		return false;
	rule = ht_image_row_rule(ht_image_load(&view->rows[spot.row]));
	if (unlikely(rule >= view->n_rules))
		return false;
	*ret_rule = view->rules[rule];
	*ret_spot = spot;
	return true;
}

#endif
