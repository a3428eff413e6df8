/* SPDX-License-Identifier: Apache-2.0
 *
 * fdes.c: see fdes.h. References, not FDEs, are kept and sorted: 24 bytes each.
 */
#include "unwind/fdes.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static bool in_text(const struct ht_image_range *text, unsigned n, const struct ht_cfi_fde *fde)
{
	unsigned i;

	for (i = 0; i < n; i++)
		if (fde->start < text[i].end && fde->end > text[i].start)
			return true;
	return false;
}

static int add_section(struct ht_fdes *fdes, const struct ht_cfi_section *section,
		       const struct ht_image_range *text, unsigned n_text)
{
	unsigned layer = section->eh ? HT_FDES_EH : HT_FDES_DEBUG;
	struct ht_cfi_reader *reader = &fdes->readers[fdes->n_readers];
	struct ht_fde_ref *ref;
	struct ht_cfi_fde fde;
	size_t offset;
	int r;

	ht_cfi_reader_init(reader, section);
	while ((r = ht_cfi_reader_next(reader, &fde, &offset)) != 0) {
		if (r < 0) {
			fdes->n_bad++;
			continue;
		}
		if (!in_text(text, n_text, &fde))
			continue;
		ref = ht_vec_push(&fdes->layers[layer]);
		if (!ref)
			return -ENOMEM;
		*ref = (struct ht_fde_ref){ fde.start, fde.end, (uint32_t)offset,
					    fdes->n_readers };
	}
	fdes->n_readers++;
	return 0;
}

int ht_fdes_add(struct ht_fdes *fdes, const struct ht_elfview *view,
		const struct ht_image_range *text, unsigned n_text)
{
	struct ht_cfi *cfi;
	unsigned i;
	int r;

	assert(fdes->n_files < HT_FDES_FILES);
	cfi = &fdes->cfi[fdes->n_files];
	r = ht_cfi_open(view, cfi);
	if (r < 0)
		return r;
	fdes->n_files++;
	for (i = 0; r == 0 && i < cfi->n_sections; i++) {
		if (cfi->sections[i].len > UINT32_MAX)
			cfi->n_skipped++;
		else
			r = add_section(fdes, &cfi->sections[i], text, n_text);
	}
	return r;
}

/* One pass of a radix sort, stable, by 11 bits of the start. */
static void sort_pass(const struct ht_fde_ref *from, struct ht_fde_ref *to, size_t n,
		      uint64_t least, unsigned shift)
{
	uint32_t counts[2048] = { 0 }, sum = 0, count;
	size_t i;

	for (i = 0; i < n; i++)
		counts[(from[i].start - least) >> shift & 2047]++;
	for (i = 0; i < 2048; i++) {
		count = counts[i];
		counts[i] = sum;
		sum += count;
	}
	for (i = 0; i < n; i++)
		to[counts[(from[i].start - least) >> shift & 2047]++] = from[i];
}

static int sort_layer(struct ht_fdes *fdes, unsigned layer)
{
	struct ht_fde_ref *from = fdes->layers[layer].at, *to, *other;
	uint64_t least = UINT64_MAX, most = 0;
	size_t i, n = fdes->layers[layer].len;
	bool sorted = true;
	unsigned shift;

	for (i = 0; i < n; i++) {
		least = ht_min(least, from[i].start);
		sorted = sorted && from[i].start >= most;
		most = ht_max(most, from[i].start);
	}
	if (sorted)
		return 0;
	to = calloc(n, sizeof(*to));
	if (!to)
		return -ENOMEM;
	for (shift = 0; shift < 64 && (most - least) >> shift != 0; shift += 11) {
		sort_pass(from, to, n, least, shift);
		other = from;
		from = to;
		to = other;
	}
	fdes->layers[layer].at = from;
	fdes->layers[layer].cap = n;
	free(to);
	return 0;
}

int ht_fdes_sort(struct ht_fdes *fdes)
{
	unsigned i;
	int r = 0;

	for (i = 0; r == 0 && i < HT_FDES_LAYERS; i++)
		r = sort_layer(fdes, i);
	return r;
}

void ht_fdes_fini(struct ht_fdes *fdes)
{
	unsigned i;

	for (i = 0; i < HT_FDES_LAYERS; i++)
		ht_vec_fini(&fdes->layers[i]);
	for (i = 0; i < fdes->n_files; i++)
		ht_cfi_close(&fdes->cfi[i]);
	fdes->n_files = 0;
	fdes->n_readers = 0;
}

uint32_t ht_fdes_overlaps(const struct ht_fdes *fdes, unsigned layer)
{
	const struct ht_fde_ref *ref;
	uint64_t end = 0;
	uint32_t n = 0;

	ht_vec_foreach(ref, &fdes->layers[layer]) {
		n += ref->start < end;
		end = ht_max(end, ref->end);
	}
	return n;
}

uint32_t ht_fdes_skipped(const struct ht_fdes *fdes)
{
	uint32_t n = 0;
	unsigned i;

	for (i = 0; i < fdes->n_files; i++)
		n += fdes->cfi[i].n_skipped;
	return n;
}

int ht_fdes_read(struct ht_fdes *fdes, const struct ht_fde_ref *ref,
		 struct ht_cfi_fde *ret_fde)
{
	return ht_cfi_reader_at(&fdes->readers[ref->reader], ref->offset, ret_fde);
}
