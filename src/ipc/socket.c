/* SPDX-License-Identifier: Apache-2.0
 *
 * socket.c: records that come through a socket, where there's no shared memory. The ring's
 * layout lies in the target's own memory, of which we look at a copy: who is at work in the
 * lanes, and what was lost. Messages are as hostile as shared memory.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "ipc/ring-priv.h"
#include "ipc/writer.h"

/* Room for one record; more stack than that is cut. */
#define LANE_SIZE (256 * 1024)
/* No message takes less of a socket's room, as the kernel counts. */
#define MESSAGE_MIN 256

int ht_ring_new_private(struct ht_ring **ret_ring, struct ht_err *err)
{
	struct ht_ring *ring = calloc(1, sizeof(*ring));
	void *map;

	if (!ring)
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	ring->fd = -1;
	ring->socket = -1;
	ring->private = true;
	ring->shape.lanes = ht_ring_choose_lanes(HT_MAX_LANES);
	ring->shape.lane_size = LANE_SIZE;
	ht_ring_lay_out(ring);
	ring->mapped = ring->shape.data_offset;
	ring->copy = malloc(LANE_SIZE);
	ring->spare = malloc(ring->mapped);
	map = mmap(NULL, ring->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	ring->map = map == MAP_FAILED ? NULL : map;
	if (!ring->copy || !ring->spare || !ring->map) {
		ht_ring_free(ring);
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	}
	ring->shape.base = (uint64_t)(uintptr_t)ring->map;
	*ret_ring = ring;
	return 0;
}

void ht_ring_set_socket(struct ht_ring *ring, int socket, uint64_t capacity)
{
	ring->socket = socket;
	ring->capacity = capacity;
}

int ht_ring_socket(const struct ht_ring *ring)
{
	return ring->hung_up ? -1 : ring->socket;
}

int ht_ring_look(struct ht_ring *ring, ht_ring_read read, void *arg)
{
	int r = read(arg, ring->spare, ring->mapped);

	ring->read = read;
	ring->read_arg = arg;
	if (r < 0)
		return r;
	memcpy(ring->map, ring->spare, ring->mapped);
	ring->since_look = 0;
	return 0;
}

bool ht_ring_was_full(const struct ht_ring *ring)
{
	return ring->private && ring->since_look >= ring->capacity;
}

enum ht_ended ht_ring_ended(const struct ht_ring *ring)
{
	uint32_t ended = ring->private ? ring->map->ended : HT_ENDED_NOT;

	if (ended == HT_ENDED_FILTER)
		return HT_ENDED_FILTER;
	return ended || ring->hung_up ? HT_ENDED_SOCKET : HT_ENDED_NOT;
}

/* Files that a message carries are closed by the kernel, for which we have no room. An empty
 * one is what the end looks like, too. */
static ssize_t receive(struct ht_ring *ring)
{
	ssize_t n = recv(ring->socket, ring->copy, LANE_SIZE, MSG_DONTWAIT | MSG_TRUNC);

	if (n == 0)
		ring->hung_up = true;
	/* The kernel takes a power of two for message and overhead, or pages. */
	if (n > 0)
		ring->since_look += 2 * (uint64_t)n + 1024;
	return n;
}

/* A writer sends before it leaves its lane: whoever was seen idle in the copy of the lanes
 * has sent what is here. No more than can be there at once: the target may send as fast as
 * this reads. */
int ht_socket_drain(struct ht_ring *ring, ht_ring_visit visit, void *arg)
{
	const struct ht_record *record = ring->copy;
	int r = 0;

	for (uint64_t most = 1 + ring->capacity / MESSAGE_MIN; most && r >= 0; most--) {
		ssize_t n = ring->hung_up ? 0 : receive(ring);

		if (n <= 0)
			break;
		if (n > LANE_SIZE || (size_t)n < sizeof(*record) || record->size != n ||
		    n & 7 || !ht_ring_sane(record)) {
			ring->counters.corrupt++;
			continue;
		}
		ring->counters.records++;
		ring->counters.bytes += (uint64_t)n;
		r = visit(arg, record);
	}
	for (uint32_t i = 0; i < ring->shape.lanes; i++)
		ring->tails[i] = ht_lane_at(&ring->shape, i)->head;
	return r < 0 ? r : 0;
}
