/* SPDX-License-Identifier: Apache-2.0
 *
 * ledger.c: the face of the module: events go through the window (order) into the book,
 * stacks into the trie.
 */
#include "ledger/ledger.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/map.h"
#include "ledger/book.h"
#include "ledger/order.h"
#include "ledger/trie.h"

struct ht_ledger {
	struct ht_trie trie;
	struct ht_order order;
	struct ht_book book;
	uint32_t overflow;	/* the site that takes the folded stacks, + 1 */
};

/* The second half may not be there: a damaged record, a number used twice. */
static void detach(struct ht_ledger *ledger, const struct ht_event *event)
{
	struct ht_event *peer = ht_order_find(&ledger->order, event->peer);
	uint32_t block = ht_book_detach(&ledger->book, event);

	if (!block)
		return;
	if (peer && peer->kind == HT_EVENT_REALLOC && peer->peer == event->seq &&
	    !peer->block)
		peer->block = block;
	else
		ht_book_release(&ledger->book, block, event);
}

static int apply(void *context, const struct ht_event *event, bool late)
{
	struct ht_ledger *ledger = context;
	int r = 0;

	ledger->book.counters.late += late && event->kind != HT_EVENT_DETACH;
	if (unlikely(ledger->order.gap_end))
		r = ht_book_expect_late(&ledger->book);
	if (r < 0)
		return r;
	switch ((enum ht_event_kind)event->kind) {
	case HT_EVENT_ALLOC:
		return ht_book_alloc(&ledger->book, event);
	case HT_EVENT_REALLOC:
		return ht_book_realloc(&ledger->book, event);
	case HT_EVENT_FREE:
		ht_book_free(&ledger->book, event);
		return 0;
	case HT_EVENT_DETACH:
		detach(ledger, event);
		return 0;
	}
	return 0;
}

/* Only against targets that choose addresses so that they share a bucket. */
static uint64_t random_seed(void)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = ht_hash64(ht_now_ns() ^ (uintptr_t)&seed);
	return seed;
}

int ht_ledger_new(struct ht_ledger **ret_ledger)
{
	struct ht_ledger *ledger = calloc(1, sizeof(*ledger));
	uint64_t seed = random_seed();
	int r;

	if (!ledger)
		return -ENOMEM;
	ht_order_init(&ledger->order, apply, ledger);
	r = ht_trie_init(&ledger->trie, seed);
	if (!r)
		r = ht_book_init(&ledger->book, seed);
	if (r < 0) {
		ht_ledger_free_all(ledger);
		return r;
	}
	*ret_ledger = ledger;
	return 0;
}

struct ht_ledger *ht_ledger_free_all(struct ht_ledger *ledger)
{
	if (!ledger)
		return NULL;
	ht_order_fini(&ledger->order);
	ht_book_fini(&ledger->book);
	ht_trie_fini(&ledger->trie);
	free(ledger);
	return NULL;
}

/* Where a stack goes when there is no room for it: a site without frames of its own. */
static int overflow_site(struct ht_ledger *ledger, uint32_t *ret_site)
{
	struct ht_stack nothing;
	int r;

	ledger->book.counters.folded++;
	if (!ledger->overflow) {
		nothing.n_frames = 0;
		nothing.end = HT_STACK_DEEP;
		ledger->trie.max_sites++;
		r = ht_trie_intern(&ledger->trie, &nothing, 0, ret_site);
		if (r < 0)
			return r;
		ledger->overflow = *ret_site + 1;
	}
	*ret_site = ledger->overflow - 1;
	return 0;
}

int ht_ledger_site(struct ht_ledger *ledger, const struct ht_stack *stack, uint32_t label,
		   uint32_t *ret_site)
{
	uint32_t site;
	int r;

	assert(stack->n_frames <= HT_MAX_FRAMES);
	r = ht_trie_intern(&ledger->trie, stack, label, &site);
	if (r == -ENOSPC)
		r = overflow_site(ledger, &site);
	if (r < 0)
		return r;
	/* Ids are dense; a site that failed here earlier gets its account now. */
	while (ledger->book.sites.len <= site)
		if (!ht_vec_push(&ledger->book.sites))
			return -ENOMEM;
	*ret_site = site;
	return 0;
}

static void event_of(const struct ht_ledger *ledger _unused_,
		     const struct ht_ledger_alloc *alloc, struct ht_event *ret_event)
{
	assert(alloc->site < ledger->book.sites.len);
	*ret_event = (struct ht_event){
		.seq = alloc->seq,
		.addr = alloc->addr,
		.size = alloc->size,
		.time_ns = alloc->time_ns,
		.interval = alloc->interval,
		.site = alloc->site,
		.kind = HT_EVENT_ALLOC,
		.untracked = alloc->untracked,
	};
}

int ht_ledger_alloc(struct ht_ledger *ledger, const struct ht_ledger_alloc *alloc)
{
	struct ht_event event;

	event_of(ledger, alloc, &event);
	return ht_order_put(&ledger->order, &event);
}

int ht_ledger_free(struct ht_ledger *ledger, uint64_t addr, uint64_t seq,
		   uint64_t time_ns)
{
	struct ht_event event = {
		.seq = seq,
		.addr = addr,
		.time_ns = time_ns,
		.kind = HT_EVENT_FREE,
	};

	return ht_order_put(&ledger->order, &event);
}

int ht_ledger_realloc(struct ht_ledger *ledger, uint64_t old_addr, uint64_t free_seq,
		      const struct ht_ledger_alloc *alloc)
{
	struct ht_order *order = &ledger->order;
	struct ht_event event, detached = {
		.seq = free_seq,
		.addr = old_addr,
		.time_ns = alloc->time_ns,
		.peer = alloc->seq,
		.kind = HT_EVENT_DETACH,
	};
	int r, r2;

	event_of(ledger, alloc, &event);
	if (!old_addr)
		return ht_order_put(order, &event);
	event.kind = HT_EVENT_REALLOC;
	event.peer = free_seq;
	r = ht_order_reach(order, alloc->seq);
	if (free_seq < order->next) {
		/* Its turn has passed; the second half's may not have. */
		ledger->book.counters.late += alloc->seq >= order->next;
		event.block = ht_book_detach(&ledger->book, &detached);
		r2 = ht_order_put(order, &event);
		return r < 0 ? r : r2;
	}
	/* The second half first: it waits, so that the first half finds it. */
	r2 = ht_order_put(order, &event);
	r = r < 0 ? r : r2;
	r2 = ht_order_put(order, &detached);
	return r < 0 ? r : r2;
}

void ht_ledger_expect(const struct ht_ledger *ledger, uint64_t addr)
{
	ht_blocks_expect(&ledger->book.live, addr);
}

int ht_ledger_settle(struct ht_ledger *ledger, bool final)
{
	return ht_order_settle(&ledger->order, final);
}

void ht_ledger_total(const struct ht_ledger *ledger, struct ht_figures *ret_figures)
{
	ht_book_figures(&ledger->book, &ledger->book.all, ret_figures);
}

void ht_ledger_counters(const struct ht_ledger *ledger,
			struct ht_ledger_counters *ret_counters)
{
	*ret_counters = ledger->book.counters;
	ret_counters->sites = ledger->book.sites.len;
	ret_counters->nodes = ledger->trie.nodes.len - 1;
	ret_counters->live_blocks = ledger->book.live.count;
	ret_counters->peak_time_ns = ht_book_peak_time(&ledger->book);
	ret_counters->peak_now = ht_book_peak_is_now(&ledger->book);
}

size_t ht_ledger_site_count(const struct ht_ledger *ledger)
{
	return ledger->book.sites.len;
}

void ht_ledger_site_figures(const struct ht_ledger *ledger, uint32_t site,
			    struct ht_figures *ret_figures)
{
	assert(site < ledger->book.sites.len);
	ht_book_figures(&ledger->book, &ledger->book.sites.at[site], ret_figures);
}

void ht_ledger_site_stack(const struct ht_ledger *ledger, uint32_t site,
			  struct ht_stack *ret_stack, uint32_t *ret_label)
{
	assert(site < ledger->trie.sites.len);
	ht_trie_stack(&ledger->trie, site, ret_stack);
	if (ret_label)
		*ret_label = ledger->trie.sites.at[site].label;
}
