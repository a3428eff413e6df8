/* SPDX-License-Identifier: Apache-2.0
 *
 * writer.h: the hook's half of the ring: take a lane, reserve room, publish (or send what is
 * there and skip it), give it back.
 * Freestanding and inline; runs inside the target, also in signal handlers. Never waits.
 */
#ifndef HT_IPC_WRITER_H
#define HT_IPC_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "heaptap/wire.h"

static inline struct ht_lane *ht_lane_at(const struct ht_ring_map *ring, uint32_t i)
{
	return (struct ht_lane *)(ring->base + HT_RING_PAGE + (uint64_t)i * HT_LANE_HEADER);
}

static inline char *ht_lane_data(const struct ht_ring_map *ring, uint32_t i)
{
	return (char *)(ring->base + ring->data_offset + i * ring->lane_size);
}

struct ht_writer {
	const struct ht_ring_map *ring;
	struct ht_lane *lane;
	char *data;		/* of the lane */
	uint64_t head;		/* where the record starts, in bytes ever published */
	uint64_t room;		/* contiguous bytes there */
};

/* Take lane @at if it's free. @me is any value but 0; the stack address tells who it was. */
static inline bool ht_writer_open(struct ht_writer *w, const struct ht_ring_map *ring,
				  uint32_t at, uint64_t me)
{
	struct ht_lane *lane = ht_lane_at(ring, at);
	uint64_t none = 0;

	if (__atomic_load_n(&lane->owner, __ATOMIC_RELAXED) ||
	    !__atomic_compare_exchange_n(&lane->owner, &none, me, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return false;
	w->ring = ring;
	w->lane = lane;
	w->data = ht_lane_data(ring, at);
	return true;
}

/* Find room for a record of at least @min bytes, as near to @want as can be, and leave @keep
 * bytes of the lane for others. Pads over the end of the lane when less than @want is left
 * there. NULL: the lane is too full. */
static inline void *ht_writer_reserve(struct ht_writer *w, uint64_t min, uint64_t want,
				      uint64_t keep)
{
	uint64_t size = w->ring->lane_size;
	/* Heads are 8-aligned, but for a stray write of the target. */
	uint64_t head = w->lane->head & ~UINT64_C(7);
	uint64_t used = head - __atomic_load_n(&w->lane->tail, __ATOMIC_ACQUIRE);
	uint64_t to_end = size - (head & (size - 1));
	uint64_t room = used <= size && size - used > keep ? size - used - keep : 0;
	struct ht_record *pad;

	if (to_end < want && to_end < room) {
		pad = (struct ht_record *)(w->data + (head & (size - 1)));
		/* Its size and type always fit. */
		pad->size = (uint32_t)to_end;
		pad->type = HT_RECORD_PAD;
		pad->flags = 0;
		head += to_end;
		room -= to_end;
		to_end = size;
	}
	w->head = head;
	w->room = ht_min(room, to_end) & ~UINT64_C(7);
	return w->room >= min ? w->data + (head & (size - 1)) : NULL;
}

/* Let the reader see the record of @bytes (a multiple of 8) that was written. */
static inline void ht_writer_publish(struct ht_writer *w, uint64_t bytes)
{
	__atomic_store_n(&w->lane->head, w->head + bytes, __ATOMIC_RELEASE);
}

/* The record went another way: the next one is made in the same place. */
static inline void ht_writer_skip(struct ht_writer *w)
{
	uint64_t past = (w->head & ~(w->ring->lane_size - 1)) + w->ring->lane_size;

	__atomic_store_n(&w->lane->tail, past, __ATOMIC_RELEASE);
	__atomic_store_n(&w->lane->head, past, __ATOMIC_RELEASE);
}

static inline void ht_writer_close(struct ht_writer *w)
{
	__atomic_store_n(&w->lane->owner, 0, __ATOMIC_RELEASE);
}

/* Room for a record in any lane, looked for from lane @start on: threads have different
 * ones, so they rarely meet, but one busy thread can fill the whole ring. NULL: there is
 * none; otherwise @w is open. */
static inline void *ht_writer_acquire(struct ht_writer *w, const struct ht_ring_map *ring,
				      uint32_t start, uint64_t me, uint64_t min,
				      uint64_t want, uint64_t keep)
{
	for (uint32_t i = 0; i < ring->lanes; i++) {
		void *at;

		if (!ht_writer_open(w, ring, (start + i) & (ring->lanes - 1), me))
			continue;
		at = ht_writer_reserve(w, min, want, keep);
		if (at)
			return at;
		ht_writer_close(w);
	}
	return NULL;
}

#endif
