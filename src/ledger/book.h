/* SPDX-License-Identifier: Apache-2.0
 *
 * book.h: what an event means for the figures: live blocks, sums per site and of all, the
 * peak with its breakdown. Takes events in order, and late ones by the rule that for each
 * address the event with the highest seq has the last word.
 */
#ifndef HT_LEDGER_BOOK_H
#define HT_LEDGER_BOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "ledger/ledger.h"
#include "ledger/blocks.h"
#include "ledger/order.h"

/* Addresses that were freed lately, for late events; a line of the cache is a bucket, in
 * which the oldest one is forgotten. 1 MiB. */
#define HT_GRAVES 4
#define HT_GRAVEYARD (1u << 14)

struct ht_graves {
	struct {
		uint64_t addr;
		uint64_t seq;
	} at[HT_GRAVES];
} _aligned_(64);

/* Of a site, and of all sites together. */
struct ht_account {
	struct ht_sum live;
	struct ht_sum total;
	struct ht_sum freed;
	/* Live by the measuring half of the samples only; kept once there are samples. */
	struct ht_sum measured;
	/* What was live at the peak, if it changed since: epoch is the book's then. */
	struct ht_sum peak;
	uint64_t epoch;
	double lifetime_ns;
	double temporary;
};

/* One "highest so far" that the choosing half of the samples decides. */
struct ht_peak {
	double bytes;		/* live now */
	double highest;
	bool now;		/* highest is what is live now */
	uint64_t epoch;		/* counts the moments at which a highest value was left */
	uint64_t time_ns;
};

struct ht_book {
	struct ht_blocks live;
	ht_vec(struct ht_account) sites;
	struct ht_account all;
	struct ht_peak peak;
	bool sampled;		/* an event with an interval was seen: two halves */
	uint64_t last_time_ns;
	struct ht_ledger_counters counters;
	struct ht_graves *graveyard;	/* by hash of the address; NULL until a gap */
	uint64_t seed;
};

int ht_book_init(struct ht_book *book, uint64_t seed) _must_check_ _nonnull_;
void ht_book_fini(struct ht_book *book) _nonnull_;

int ht_book_alloc(struct ht_book *book, const struct ht_event *event) _must_check_
	_nonnull_;
void ht_book_free(struct ht_book *book, const struct ht_event *event) _nonnull_;
/* The first half of a realloc: 0 or the block that waits for the second half. It still
 * counts as live. */
uint32_t ht_book_detach(struct ht_book *book, const struct ht_event *event) _nonnull_;
/* There is no second half. */
void ht_book_release(struct ht_book *book, uint32_t block, const struct ht_event *event)
	_nonnull_;
int ht_book_realloc(struct ht_book *book, const struct ht_event *event) _must_check_
	_nonnull_;
/* From now on late events must be expected. 0 or -ENOMEM. */
int ht_book_expect_late(struct ht_book *book) _must_check_ _nonnull_;

void ht_book_figures(const struct ht_book *book, const struct ht_account *account,
		     struct ht_figures *ret_figures) _nonnull_;
bool ht_book_peak_is_now(const struct ht_book *book) _nonnull_;
uint64_t ht_book_peak_time(const struct ht_book *book) _nonnull_;

#endif
