/* SPDX-License-Identifier: Apache-2.0
 *
 * ring-priv.h: between the two ways that records come: ring.c and socket.c.
 */
#ifndef HT_IPC_RING_PRIV_H
#define HT_IPC_RING_PRIV_H

#include "ipc/ring.h"

struct ht_ring {
	int fd;			/* of the shared memory; -1: it's the target's own */
	struct ht_ring_header *map;	/* or a copy of its head, as it was last seen */
	uint64_t mapped;	/* bytes */
	uint64_t map_size;	/* in the target */
	/* Our own copies of what the target could change. */
	struct ht_ring_header header;
	struct ht_ring_map shape;
	uint64_t tails[HT_MAX_LANES];
	/* Lanes that have not been seen idle, or advanced, since the last quiescence. */
	uint64_t busy;
	uint64_t busy_heads[HT_MAX_LANES];
	/* Lanes that have always been seen with a realloc under way since then. */
	uint64_t resizing;
	struct ht_ring_counters counters;
	void *copy;	/* one record, lane_size bytes */
	/* Without shared memory: */
	bool private;
	int socket;		/* -1: not there yet, or the other end was closed */
	uint64_t capacity;	/* bytes that the socket may hold, as the kernel counts */
	uint64_t since_look;	/* that came since the last good look, at most, as it counts */
	bool hung_up;
	void *spare;		/* room for another copy of the head */
	ht_ring_read read;	/* the last look's */
	void *read_arg;
};

/* By the number of processors, and no more than @most. */
uint32_t ht_ring_choose_lanes(uint64_t most);
/* The part of the layout that is made of lanes and lane_size. */
void ht_ring_lay_out(struct ht_ring *ring) _nonnull_;
/* Of a record whose size is that of the bytes that came: the rest of it. */
bool ht_ring_sane(const struct ht_record *record) _nonnull_;
int ht_socket_drain(struct ht_ring *ring, ht_ring_visit visit, void *arg) _must_check_
	_nonnull_args_(1, 2);

#endif
