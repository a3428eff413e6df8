/* SPDX-License-Identifier: Apache-2.0
 *
 * order.c: see order.h.
 */
#include "ledger/order.h"

#include <errno.h>
#include <stdlib.h>

#define MIN_CAP 1024

void ht_order_init(struct ht_order *order, ht_order_apply_fn apply, void *context)
{
	*order = (struct ht_order){ .next = 1, .end = 1, .settled_end = 1 };
	order->max = HT_ORDER_MAX;
	order->apply = apply;
	order->context = context;
}

void ht_order_fini(struct ht_order *order)
{
	free(order->slots);
	free(order->taken);
	order->slots = NULL;
	order->taken = NULL;
	order->cap = 0;
}

static bool is_taken(const struct ht_order *order, uint64_t seq)
{
	uint32_t i = seq & (order->cap - 1);

	return order->pending && order->taken[i / 64] >> (i % 64) & 1;
}

static struct ht_event *slot_of(const struct ht_order *order, uint64_t seq)
{
	return &order->slots[seq & (order->cap - 1)];
}

static void set_taken(struct ht_order *order, uint64_t seq, bool on)
{
	uint32_t i = seq & (order->cap - 1);
	uint64_t bit = UINT64_C(1) << (i % 64);

	if (on)
		order->taken[i / 64] |= bit;
	else
		order->taken[i / 64] &= ~bit;
}

static void keep(int *r, int new)
{
	if (!*r)
		*r = new;
}

/* Apply what waits at @next, which is taken. */
static int apply_next(struct ht_order *order)
{
	uint64_t seq = order->next;
	int r;

	r = order->apply(order->context, slot_of(order, seq), false);
	set_taken(order, seq, false);
	order->pending--;
	order->next = seq + 1;
	return r;
}

static int drain(struct ht_order *order)
{
	int r = 0;

	while (is_taken(order, order->next))
		keep(&r, apply_next(order));
	return r;
}

/* The lowest taken seq from @next on, if it is below @limit, else @limit. A word at a
 * time, so that a target that skips numbers can't make this slow. */
static uint64_t next_taken(const struct ht_order *order, uint64_t limit)
{
	uint64_t seq = order->next, stop;

	if (!order->pending)
		return limit;
	stop = order->next + ht_min(limit - order->next, (uint64_t)order->cap);
	while (seq < stop) {
		uint32_t i = seq & (order->cap - 1);
		uint64_t bits = order->taken[i / 64] >> (i % 64);

		if (bits)
			return ht_min(seq + (uint64_t)__builtin_ctzll(bits), limit);
		seq += 64 - i % 64;
	}
	return limit;
}

/* Apply everything below @limit and step over the gaps between. */
static int step_to(struct ht_order *order, uint64_t limit)
{
	int r = 0;

	while (order->next < limit) {
		uint64_t seq = next_taken(order, limit);

		if (seq != order->next) {
			order->next = seq;
			order->gap_end = seq;
		}
		keep(&r, drain(order));
	}
	return r;
}

/* Twice the slots until @span seqs fit. */
static int grow(struct ht_order *order, uint64_t span)
{
	struct ht_order bigger = *order;
	uint64_t seq;

	bigger.cap = order->cap ? order->cap : MIN_CAP;
	while (bigger.cap < span)
		bigger.cap *= 2;
	if (bigger.cap == order->cap)
		return 0;
	bigger.slots = malloc(bigger.cap * sizeof(*bigger.slots));
	bigger.taken = calloc(bigger.cap / 64, sizeof(*bigger.taken));
	if (!bigger.slots || !bigger.taken) {
		free(bigger.slots);
		free(bigger.taken);
		return -ENOMEM;
	}
	for (seq = order->next; seq - order->next < order->cap; seq++) {
		if (!is_taken(order, seq))
			continue;
		*slot_of(&bigger, seq) = *slot_of(order, seq);
		set_taken(&bigger, seq, true);
	}
	free(order->slots);
	free(order->taken);
	*order = bigger;
	return 0;
}

int ht_order_reach(struct ht_order *order, uint64_t seq)
{
	if (seq < order->next || seq - order->next < order->max)
		return 0;
	return step_to(order, seq - order->max + 1);
}

struct ht_event *ht_order_find(const struct ht_order *order, uint64_t seq)
{
	if (seq < order->next || seq - order->next >= order->cap || !is_taken(order, seq))
		return NULL;
	return slot_of(order, seq);
}

/* Queue @event, which isn't next in order. */
static int park(struct ht_order *order, const struct ht_event *event)
{
	int r;

	r = grow(order, event->seq - order->next + 1);
	if (r < 0)
		return r;
	/* A number that was used twice: a target that lies, or was damaged. */
	if (is_taken(order, event->seq))
		return order->apply(order->context, event, true);
	*slot_of(order, event->seq) = *event;
	set_taken(order, event->seq, true);
	order->pending++;
	return 0;
}

int ht_order_put(struct ht_order *order, const struct ht_event *event)
{
	int r;

	if (event->seq < order->next)
		return order->apply(order->context, event, event->seq != 0);
	/* The last number there is can't have a successor. */
	if (event->seq == UINT64_MAX)
		return order->apply(order->context, event, true);
	r = ht_order_reach(order, event->seq);
	order->end = ht_max(order->end, event->seq + 1);
	if (event->seq < order->next) {
		keep(&r, order->apply(order->context, event, true));
		return r;
	}
	if (event->seq == order->next && !is_taken(order, event->seq)) {
		keep(&r, order->apply(order->context, event, false));
		order->next++;
		keep(&r, drain(order));
		return r;
	}
	keep(&r, park(order, event));
	return r;
}

int ht_order_settle(struct ht_order *order, bool final)
{
	int r;

	r = step_to(order, final ? order->end : order->settled_end);
	order->settled_end = order->end;
	return r;
}
