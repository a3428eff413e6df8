/* SPDX-License-Identifier: Apache-2.0
 *
 * order.h: events in the order of their seq, whatever order they come in.
 *
 * A ring of slots indexed by seq, with a bit for each that is taken:
 *
 *	applied ...| next | gap | x | x | gap | x | ...      | next + cap
 *	           ^ the lowest seq that is still awaited
 *
 * An event that is next in order passes at once. A gap holds back what is behind it until
 * it is filled, until ht_order_settle() says that it never will be, or until the window
 * is full. What comes after its gap was given up is handed on at once, as late.
 */
#ifndef HT_LEDGER_ORDER_H
#define HT_LEDGER_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* The window: 64 MiB of slots at most, and only as many as the disorder needs. */
#define HT_ORDER_MAX (UINT32_C(1) << 20)

enum ht_event_kind {
	HT_EVENT_ALLOC,
	HT_EVENT_FREE,
	/* A realloc is two events: at its free_seq the old address is given up, at seq
	 * the old block becomes the new one. Others may use the address in between. */
	HT_EVENT_DETACH,
	HT_EVENT_REALLOC,
};

struct ht_event {
	uint64_t seq;
	uint64_t addr;
	uint64_t size;
	uint64_t time_ns;
	uint64_t interval;
	uint64_t peer;		/* the seq of the other half of a realloc */
	uint32_t site;
	uint32_t block;		/* REALLOC: what its DETACH found, 0: nothing */
	uint8_t kind;		/* enum ht_event_kind */
	bool untracked;
};
_Static_assert(sizeof(struct ht_event) == 64, "slot");

/* Takes the events one by one. 0 or a negative errno, which the call that led to it
 * returns after it has applied everything else. */
typedef int (*ht_order_apply_fn)(void *context, const struct ht_event *event, bool late);

struct ht_order {
	struct ht_event *slots;
	uint64_t *taken;	/* bitmap */
	uint32_t cap;		/* slots, a power of two of 64 or more, or 0 */
	uint32_t max;
	uint32_t pending;
	uint64_t next;		/* lowest seq that was neither applied nor given up */
	uint64_t end;		/* highest seq queued so far + 1 */
	uint64_t settled_end;	/* end at the previous settle */
	uint64_t gap_end;	/* behind the last gap that was given up; 0: none yet */
	ht_order_apply_fn apply;
	void *context;
};

/* Numbers start at 1. An event with seq 0 is applied at once. */
void ht_order_init(struct ht_order *order, ht_order_apply_fn apply, void *context)
	_nonnull_;
void ht_order_fini(struct ht_order *order) _nonnull_;

int ht_order_put(struct ht_order *order, const struct ht_event *event)
	_must_check_ _nonnull_;
/* Make room for @seq: afterwards it is within the window, or late. */
int ht_order_reach(struct ht_order *order, uint64_t seq) _must_check_ _nonnull_;
/* The waiting event with @seq, or NULL. Good until the next put. */
struct ht_event *ht_order_find(const struct ht_order *order, uint64_t seq) _nonnull_;
/* Give up the gaps below the end at the previous call; @final: all. */
int ht_order_settle(struct ht_order *order, bool final) _must_check_ _nonnull_;

#endif
