/* SPDX-License-Identifier: Apache-2.0
 *
 * sum.h: what one allocation counts for, and sums of that. docs/sampling.md has the
 * derivations.
 */
#ifndef HT_LEDGER_SUM_H
#define HT_LEDGER_SUM_H

#include "ledger/ledger.h"

struct ht_weight {
	double bytes;
	double objects;
	double bytes_variance;
	double objects_variance;
};

/* The share of one sample in the estimates, when it was taken with probability @p. The
 * weight of a block is computed again when it is freed: the same input gives the same
 * doubles, so nothing of it is kept in the table of live blocks. */
static inline void ht_weigh(uint64_t size, double p, struct ht_weight *ret_weight)
{
	double bytes = (double)size;

	/* Exact: no division, so that whole numbers stay whole and it costs nothing. */
	if (p == 1) {
		*ret_weight = (struct ht_weight){ bytes, 1, 0, 0 };
		return;
	}
	ret_weight->objects = 1 / p;
	ret_weight->bytes = bytes / p;
	ret_weight->objects_variance = (1 - p) / (p * p);
	ret_weight->bytes_variance = ret_weight->objects_variance * bytes * bytes;
}

static inline void ht_sum_add(struct ht_sum *sum, const struct ht_weight *weight)
{
	sum->bytes += weight->bytes;
	sum->objects += weight->objects;
	sum->samples++;
	/* Exact mode, where every nanosecond counts. */
	if (weight->objects_variance == 0)
		return;
	sum->bytes_variance += weight->bytes_variance;
	sum->objects_variance += weight->objects_variance;
}

/* What ht_sum_add() added goes again. Rounding leaves dust behind: it is swept when the
 * last sample goes, and never shows as a negative figure. */
static inline void ht_sum_take(struct ht_sum *sum, const struct ht_weight *weight)
{
	if (sum->samples <= 1) {
		*sum = (struct ht_sum){ 0 };
		return;
	}
	sum->bytes = ht_max(sum->bytes - weight->bytes, 0.0);
	sum->objects = ht_max(sum->objects - weight->objects, 0.0);
	sum->samples--;
	if (weight->objects_variance == 0)
		return;
	sum->bytes_variance = ht_max(sum->bytes_variance - weight->bytes_variance, 0.0);
	sum->objects_variance =
		ht_max(sum->objects_variance - weight->objects_variance, 0.0);
}

#endif
