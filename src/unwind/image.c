/* SPDX-License-Identifier: Apache-2.0
 *
 * image.c: checking a whole table image that came from elsewhere.
 */
#include "unwind/image-priv.h"

#include <elf.h>
#include <string.h>

/* Eight bytes at a time; a multiply spreads each of them over the rest. Guards against
 * torn and stale files, not against malice: for that everything else is checked. */
uint64_t ht_image_checksum(const void *image, size_t len)
{
	const uint8_t *p = image;
	uint64_t sum = len, word;
	size_t i;

	for (i = 0; i + 8 <= len; i += 8) {
		memcpy(&word, p + i, 8);
		if (i == offsetof(struct ht_image_header, checksum))
			word = 0;
		sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		sum ^= sum >> 29;
	}
	word = 0;
	memcpy(&word, p + i, len - i);
	sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return sum ^ sum >> 32;
}

static bool rule_valid(const struct ht_image_view *view, const struct ht_rule *rule)
{
	uint32_t len;

	if (rule->cfa_kind > HT_CFA_SLOW || rule->bp_kind > HT_BP_SLOW ||
	    rule->ra_kind > HT_RA_SLOW)
		return false;
	if (rule->cfa_kind == HT_CFA_REG && rule->cfa_reg > 15)
		return false;
	if (rule->ra_kind == HT_RA_REG && (rule->aux < 0 || rule->aux > 16))
		return false;
	if (rule->cfa_kind != HT_CFA_EXPR)
		return true;
	if (rule->aux < 0 || (uint32_t)rule->aux > view->expr_bytes ||
	    view->expr_bytes - (uint32_t)rule->aux < sizeof(len))
		return false;
	memcpy(&len, view->exprs + rule->aux, sizeof(len));
	return len <= view->expr_bytes - (uint32_t)rule->aux - sizeof(len);
}

/* The rows of one bucket: in order, none twice, none before the start of the range. */
static bool bucket_valid(const struct ht_image_view *view, uint32_t low, uint32_t high,
			 uint32_t least, uint32_t end)
{
	uint32_t i, pc, want = least;

	for (i = low; i < high; i++) {
		pc = ht_image_row_pc(view->rows[i]);
		if (pc < want || pc >= end || ht_image_row_rule(view->rows[i]) >= view->n_rules)
			return false;
		want = pc + 1;
	}
	return true;
}

static bool range_valid(const struct ht_image_view *view,
			const struct ht_image_range *range, uint32_t *next_bucket,
			uint32_t *next_row)
{
	uint64_t base = ht_align_down(range->start, HT_IMAGE_BUCKET);
	uint32_t i, first = (uint32_t)(range->start - base);

	if (range->start >= range->end || range->first_bucket != *next_bucket ||
	    range->n_buckets != ((range->end - 1 - base) >> HT_IMAGE_BUCKET_SHIFT) + 1 ||
	    range->n_buckets >= view->n_buckets - *next_bucket)
		return false;
	for (i = 0; i < range->n_buckets; i++) {
		uint32_t low = view->buckets[*next_bucket + i];
		uint32_t high = view->buckets[*next_bucket + i + 1];
		uint64_t left = range->end - base - ((uint64_t)i << HT_IMAGE_BUCKET_SHIFT);

		if (low != *next_row || low > high || high > view->n_rows)
			return false;
		if (i == 0 && (low == high || ht_image_row_pc(view->rows[low]) != first))
			return false;
		if (!bucket_valid(view, low, high, i == 0 ? first : 0,
				  (uint32_t)ht_min(left, HT_IMAGE_BUCKET)))
			return false;
		*next_row = high;
	}
	*next_bucket += range->n_buckets + 1;
	return true;
}

bool ht_table_valid(const void *image, size_t len)
{
	const struct ht_image_header *header = image;
	uint32_t i, next_bucket = 0, next_row = 0;
	struct ht_image_view view;
	uint64_t previous = 0;

	if (!image || !ht_image_open(image, len, &view))
		return false;
	if (header->machine != EM_X86_64 ||
	    header->checksum != ht_image_checksum(image, len))
		return false;
	for (i = 0; i < view.n_ranges; i++) {
		if (i > 0 && view.ranges[i].start < previous)
			return false;
		if (!range_valid(&view, &view.ranges[i], &next_bucket, &next_row))
			return false;
		previous = view.ranges[i].end;
	}
	if (next_bucket != view.n_buckets || next_row != view.n_rows)
		return false;
	for (i = 0; i < view.n_rules; i++)
		if (!rule_valid(&view, &view.rules[i]))
			return false;
	return true;
}
