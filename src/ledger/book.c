/* SPDX-License-Identifier: Apache-2.0
 *
 * book.c: see book.h, and docs/sampling.md for the halves and the peak.
 */
#include "ledger/book.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "ledger/sum.h"

int ht_book_init(struct ht_book *book, uint64_t seed)
{
	*book = (struct ht_book){ .seed = seed };
	return ht_blocks_init(&book->live, seed);
}

void ht_book_fini(struct ht_book *book)
{
	ht_blocks_fini(&book->live);
	ht_vec_fini(&book->sites);
	free(book->graveyard);
	book->graveyard = NULL;
}

int ht_book_expect_late(struct ht_book *book)
{
	size_t size = HT_GRAVEYARD * sizeof(*book->graveyard);

	if (book->graveyard)
		return 0;
	book->graveyard = aligned_alloc(sizeof(*book->graveyard), size);
	if (!book->graveyard)
		return -ENOMEM;
	memset(book->graveyard, 0, size);
	return 0;
}

static struct ht_graves *graves_of(const struct ht_book *book, uint64_t addr)
{
	return &book->graveyard[ht_hash64(addr ^ book->seed) & (HT_GRAVEYARD - 1)];
}

/* Remember a free, for an allocation of the block that is still on its way. */
static void bury(struct ht_book *book, uint64_t addr, uint64_t seq)
{
	struct ht_graves *graves;
	int i, oldest = 0;

	if (likely(!book->graveyard))
		return;
	graves = graves_of(book, addr);
	for (i = 0; i < HT_GRAVES && graves->at[i].addr != addr; i++)
		if (graves->at[i].seq < graves->at[oldest].seq)
			oldest = i;
	if (i == HT_GRAVES) {
		i = oldest;
		graves->at[i].addr = addr;
		graves->at[i].seq = 0;
	}
	graves->at[i].seq = ht_max(graves->at[i].seq, seq);
}

/* @addr was freed after @seq, as far as is remembered. */
static bool buried(const struct ht_book *book, uint64_t addr, uint64_t seq)
{
	const struct ht_graves *graves;

	if (likely(!book->graveyard))
		return false;
	graves = graves_of(book, addr);
	for (int i = 0; i < HT_GRAVES; i++)
		if (graves->at[i].addr == addr)
			return graves->at[i].seq > seq;
	return false;
}

/* A block, or one that is to be, with everything that its coming or going changes. */
struct entry {
	struct ht_weight weight;
	double choosing;		/* bytes in the half that chooses the peak */
	struct ht_weight measuring;	/* weight in the half that measures it */
	bool in_measuring;
	uint32_t site;
};

/*
 * Which halves of a sample's Poisson points a block has, and what it weighs there: q is
 * the chance of none in one half. Given that it was sampled, (1 - q) q / (1 - q^2) =
 * q / (1 + q) is the chance of the first half only, the same of the second only. The die
 * is made from seq, so it falls alike when the block goes.
 */
static void weigh_halves(const struct ht_book *book, uint64_t size, uint64_t interval,
			 uint64_t seq, struct entry *entry)
{
	double p = ht_sample_probability(size, interval), half, q, die;

	ht_weigh(size, p, &entry->weight);
	if (!book->sampled)
		return;
	/* 2 * interval would overflow for the largest ones. */
	half = 1;
	if (interval)
		half = -expm1(-(double)ht_max(size, UINT64_C(1)) / 2 / (double)interval);
	q = 1 - half;
	die = (double)(ht_hash64(seq + UINT64_C(0x9e3779b97f4a7c15)) >> 11) * 0x1p-53 *
	      (1 + q);
	ht_weigh(size, half, &entry->measuring);
	entry->choosing = die < q ? 0 : (double)size / half;
	entry->in_measuring = die < q || die >= 2 * q;
}

static void entry_of(const struct ht_book *book, uint64_t size, uint64_t interval,
		     uint64_t seq, uint32_t site, struct entry *ret_entry)
{
	*ret_entry = (struct entry){ .site = site };
	if (interval || book->sampled) {
		weigh_halves(book, size, interval, seq, ret_entry);
		return;
	}
	ht_weigh(size, 1, &ret_entry->weight);
	ret_entry->choosing = (double)size;
}

static void entry_of_block(const struct ht_book *book, const struct ht_block *block,
			   struct entry *ret_entry)
{
	entry_of(book, block->size, block->interval, block->seq, block->site, ret_entry);
}

static void entry_of_event(const struct ht_book *book, const struct ht_event *event,
			   struct entry *ret_entry)
{
	entry_of(book, event->size, event->interval, event->seq, event->site, ret_entry);
}

/* The figure that a peak is measured with. */
static const struct ht_sum *level(const struct ht_book *book,
				  const struct ht_account *account)
{
	return book->sampled ? &account->measured : &account->live;
}

/* @account is about to change: keep what it had at the peak. */
static void save(const struct ht_book *book, struct ht_account *account)
{
	if (book->peak.now || account->epoch == book->peak.epoch)
		return;
	account->peak = *level(book, account);
	account->epoch = book->peak.epoch;
}

/* What is live is about to become @bytes, by events up to @time_ns. */
static void move_peak(struct ht_book *book, double bytes, uint64_t time_ns)
{
	struct ht_peak *peak = &book->peak;

	peak->bytes = bytes;
	if (bytes > peak->highest) {
		peak->highest = bytes;
		peak->now = true;
		peak->time_ns = time_ns;
		return;
	}
	/* The top is left: from here every account saves itself before it changes. Events
	 * that the choosing half doesn't see don't leave it: when the peak was must not
	 * depend on what measures it. */
	if (peak->now && bytes < peak->highest) {
		peak->now = false;
		peak->epoch++;
	}
}

static void come(struct ht_book *book, struct ht_account *account,
		 const struct entry *entry)
{
	save(book, account);
	ht_sum_add(&account->live, &entry->weight);
	ht_sum_add(&account->total, &entry->weight);
	if (entry->in_measuring)
		ht_sum_add(&account->measured, &entry->measuring);
}

static void go(struct ht_book *book, struct ht_account *account,
	       const struct entry *entry)
{
	save(book, account);
	ht_sum_take(&account->live, &entry->weight);
	ht_sum_add(&account->freed, &entry->weight);
	if (entry->in_measuring)
		ht_sum_take(&account->measured, &entry->measuring);
}

static void age(struct ht_account *account, double ns, double objects, bool temporary)
{
	account->lifetime_ns += ns * objects;
	if (temporary)
		account->temporary += objects;
}

static void retire(struct ht_book *book, const struct ht_block *block,
		   const struct entry *entry, const struct ht_event *by)
{
	struct ht_account *site = &book->sites.at[block->site];
	/* Clocks of two processors may differ by a little. */
	double ns = (double)(by->time_ns - ht_min(block->time_ns, by->time_ns));
	bool temporary = !block->interval && by->seq - block->seq == 1;

	go(book, site, entry);
	go(book, &book->all, entry);
	age(site, ns, entry->weight.objects, temporary);
	age(&book->all, ns, entry->weight.objects, temporary);
}

/*
 * One step: the blocks @old go, the one of @event comes if @new. A single look at the
 * peak, so that neither a realloc nor a replaced block makes a false one.
 */
static void step(struct ht_book *book, const uint32_t *old, int n_old,
		 const struct ht_event *event, bool new)
{
	struct entry gone[2], came;
	double bytes = book->peak.bytes;

	for (int i = 0; i < n_old; i++) {
		entry_of_block(book, ht_blocks_at(&book->live, old[i]), &gone[i]);
		bytes -= gone[i].choosing;
	}
	if (new) {
		entry_of_event(book, event, &came);
		bytes += came.choosing;
	}
	/* Sweep the dust of rounding when nothing is left. */
	if (book->live.count == (uint32_t)n_old && !new)
		bytes = 0;
	move_peak(book, bytes, event->time_ns);
	book->last_time_ns = event->time_ns;
	for (int i = 0; i < n_old; i++) {
		retire(book, ht_blocks_at(&book->live, old[i]), &gone[i], event);
		ht_blocks_drop(&book->live, old[i]);
	}
	if (new) {
		come(book, &book->sites.at[event->site], &came);
		come(book, &book->all, &came);
	}
}

/* The first sample after exact events: so far both halves hold everything. */
static void start_sampling(struct ht_book *book)
{
	struct ht_account *site;

	if (book->sampled)
		return;
	book->sampled = true;
	ht_vec_foreach(site, &book->sites)
		site->measured = site->live;
	book->all.measured = book->all.live;
}

/* Allocated and gone already, or nobody will see it go. */
static void count_only(struct ht_book *book, const struct ht_event *event, bool freed)
{
	struct ht_account *accounts[] = { &book->sites.at[event->site], &book->all };
	struct entry entry;

	entry_of_event(book, event, &entry);
	for (size_t i = 0; i < ARRAY_SIZE(accounts); i++) {
		ht_sum_add(&accounts[i]->total, &entry.weight);
		if (freed)
			ht_sum_add(&accounts[i]->freed, &entry.weight);
	}
}

static int enter(struct ht_book *book, const struct ht_event *event)
{
	struct ht_block block = {
		.addr = event->addr,
		.size = event->size,
		.seq = event->seq,
		.time_ns = event->time_ns,
		.interval = event->interval,
		.site = event->site,
	};

	return ht_blocks_add(&book->live, &block);
}

/* The new block of @event, in place of what was at its address, and of the @n_old blocks
 * @old that a realloc took along (@old has room for one more). */
static int allocate(struct ht_book *book, const struct ht_event *event, uint32_t *old,
		    int n_old)
{
	bool outdated, new;
	uint32_t there;
	int r = 0;

	if (event->interval)
		start_sampling(book);
	there = ht_blocks_detach(&book->live, event->addr, event->seq, &outdated);
	if (there) {
		book->counters.replaced++;
		old[n_old++] = there;
	}
	outdated = outdated || buried(book, event->addr, event->seq);
	new = !outdated && !event->untracked;
	if (new) {
		r = enter(book, event);
		new = r == 0;
	}
	if (!new) {
		count_only(book, event, outdated);
		if (!outdated)
			book->counters.untracked++;
	}
	if (new || n_old)
		step(book, old, n_old, event, new);
	/* Full is a state to report, not a failure. */
	return r == -ENOSPC ? 0 : r;
}

int ht_book_alloc(struct ht_book *book, const struct ht_event *event)
{
	uint32_t old[1];

	book->counters.allocs++;
	return allocate(book, event, old, 0);
}

/* Find and unlink the block that @event frees; 0 when there is none that is older. */
static uint32_t unlink_block(struct ht_book *book, const struct ht_event *event)
{
	bool younger;
	uint32_t id = ht_blocks_detach(&book->live, event->addr, event->seq, &younger);

	bury(book, event->addr, event->seq);
	/* Younger: a late free, of a block that went when its address was used again. */
	if (!id && !younger)
		book->counters.unknown_frees++;
	return id;
}

void ht_book_free(struct ht_book *book, const struct ht_event *event)
{
	uint32_t id = unlink_block(book, event);

	book->counters.frees++;
	if (id)
		step(book, &id, 1, event, false);
}

uint32_t ht_book_detach(struct ht_book *book, const struct ht_event *event)
{
	return unlink_block(book, event);
}

void ht_book_release(struct ht_book *book, uint32_t block, const struct ht_event *event)
{
	step(book, &block, 1, event, false);
}

int ht_book_realloc(struct ht_book *book, const struct ht_event *event)
{
	uint32_t old[2] = { event->block };

	book->counters.reallocs++;
	return allocate(book, event, old, event->block ? 1 : 0);
}

/* Whatever the halves say, the peak can't be below what is live at the end. */
bool ht_book_peak_is_now(const struct ht_book *book)
{
	return book->peak.now || book->all.live.bytes > book->all.peak.bytes;
}

void ht_book_figures(const struct ht_book *book, const struct ht_account *account,
		     struct ht_figures *ret_figures)
{
	ret_figures->live = account->live;
	ret_figures->total = account->total;
	ret_figures->freed = account->freed;
	ret_figures->lifetime_ns = account->lifetime_ns;
	ret_figures->temporary_objects = account->temporary;
	if (ht_book_peak_is_now(book))
		ret_figures->peak = account->live;
	else if (account->epoch == book->peak.epoch)
		ret_figures->peak = account->peak;
	else
		ret_figures->peak = *level(book, account);
}

uint64_t ht_book_peak_time(const struct ht_book *book)
{
	/* While nothing is given back the highest moment is the latest event's. */
	if (!book->peak.now && ht_book_peak_is_now(book))
		return book->last_time_ns;
	return book->peak.time_ns;
}
