/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.c: see ring.h.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "ipc/ring-priv.h"
#include "ipc/writer.h"

#define LANE_SIZE_MIN (256 * 1024)

/* Twice the processors, so that a preempted writer rarely makes others look further; but
 * no lane so small that a few stacks fill it. */
uint32_t ht_ring_choose_lanes(uint64_t most)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t lanes = 8;

	while (lanes < HT_MAX_LANES && (long)lanes < cpus * 2)
		lanes *= 2;
	while (lanes > 2 && lanes > most)
		lanes /= 2;
	return lanes;
}

void ht_ring_lay_out(struct ht_ring *ring)
{
	ring->shape.data_offset = (uint32_t)ht_align_up(
		HT_RING_PAGE + ring->shape.lanes * (uint64_t)HT_LANE_HEADER,
		(uint64_t)HT_RING_PAGE);
	ring->map_size = ring->shape.data_offset + ring->shape.lanes * ring->shape.lane_size;
}

static int make_memfd(struct ht_ring *ring, struct ht_err *err)
{
	int r;

	ring->fd = memfd_create(HT_RING_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (ring->fd < 0) {
		r = -errno;
		return ht_err_set(err, HT_ERR_FAILED, r, "can't make a memory file: %s",
				  strerror(-r));
	}
	r = ht_errno_of(fallocate(ring->fd, 0, 0, (off_t)ring->map_size));
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "no room for a ring of %llu bytes: %s%s",
				  (unsigned long long)ring->map_size, strerror(-r),
				  r == -EFBIG ? ht_err_write_advice(r) :
						"; use a smaller --ring-size");
	r = ht_errno_of(fcntl(ring->fd, F_ADD_SEALS,
			      F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "can't seal the ring: %s",
				  strerror(-r));
	ring->map = mmap(NULL, ring->map_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
	if (ring->map == MAP_FAILED) {
		r = -errno;
		ring->map = NULL;
		return ht_err_set(err, HT_ERR_FAILED, r, "can't map the ring: %s",
				  strerror(-r));
	}
	return 0;
}

int ht_ring_new(uint64_t size, struct ht_ring **ret_ring, struct ht_err *err)
{
	struct ht_ring *ring;
	int r;

	if (size < HT_RING_SIZE_MIN || size > HT_RING_SIZE_MAX || size & (size - 1))
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
				  "ring size %llu is not a power of two from 64K to 1G",
				  (unsigned long long)size);
	ring = calloc(1, sizeof(*ring));
	if (!ring)
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	ring->fd = -1;
	ring->socket = -1;
	ring->shape.lanes = ht_ring_choose_lanes(size / LANE_SIZE_MIN);
	ring->shape.lane_size = size / ring->shape.lanes;
	ht_ring_lay_out(ring);
	ring->mapped = ring->map_size;
	ring->copy = malloc(ring->shape.lane_size);
	if (!ring->copy) {
		ht_ring_free(ring);
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	}
	r = make_memfd(ring, err);
	if (r < 0) {
		ht_ring_free(ring);
		return r;
	}
	ring->shape.base = (uint64_t)(uintptr_t)ring->map;
	ring->header = (struct ht_ring_header){
		.magic = HT_RING_MAGIC,
		.version = HT_WIRE_VERSION,
		.lanes = ring->shape.lanes,
		.lane_size = ring->shape.lane_size,
		.data_offset = ring->shape.data_offset,
		.size = ring->map_size,
	};
	*ring->map = ring->header;
	*ret_ring = ring;
	return 0;
}

struct ht_ring *ht_ring_free(struct ht_ring *ring)
{
	if (!ring)
		return NULL;
	if (ring->map)
		munmap(ring->map, ring->mapped);
	ht_fd_close(ring->fd);
	ht_fd_close(ring->socket);
	free(ring->spare);
	free(ring->copy);
	free(ring);
	return NULL;
}

int ht_ring_fd(const struct ht_ring *ring)
{
	return ring->fd;
}

uint64_t ht_ring_map_size(const struct ht_ring *ring)
{
	return ring->map_size;
}

struct ht_ring_map ht_ring_map_at(const struct ht_ring *ring, uint64_t base)
{
	struct ht_ring_map map = ring->shape;

	map.base = base;
	return map;
}

uint32_t *ht_ring_owner_word(struct ht_ring *ring)
{
	return &ring->map->owner;
}

bool ht_ring_sane(const struct ht_record *record)
{
	const struct ht_record_alloc *alloc = (const struct ht_record_alloc *)record;

	switch (record->type) {
	case HT_RECORD_FREE:
		return record->size == sizeof(struct ht_record_free);
	case HT_RECORD_ALLOC:
	case HT_RECORD_REALLOC:
		return record->size >= sizeof(*alloc) &&
		       alloc->stack_len <= record->size - sizeof(*alloc);
	default:
		return false;
	}
}

/* Copy the record at @tail, of which at most @avail bytes are published, and check it.
 * Returns its size, 0 when it is no record. */
static uint64_t take(struct ht_ring *ring, const char *data, uint64_t tail, uint64_t avail)
{
	uint64_t at = tail & (ring->shape.lane_size - 1);
	const struct ht_record *shared = (const struct ht_record *)(data + at);
	uint32_t size = __atomic_load_n(&shared->size, __ATOMIC_RELAXED);
	struct ht_record *copy = ring->copy;

	if (size & 7 || size > avail || size > ring->shape.lane_size - at || size < 8)
		return 0;
	if (__atomic_load_n(&shared->type, __ATOMIC_RELAXED) == HT_RECORD_PAD) {
		copy->type = HT_RECORD_PAD;
		return size;
	}
	if (size < sizeof(*copy))
		return 0;
	memcpy(copy, shared, size);
	copy->size = size;
	return ht_ring_sane(copy) ? size : 0;
}

static int drain_lane(struct ht_ring *ring, uint32_t i, ht_ring_visit visit, void *arg)
{
	struct ht_lane *lane = ht_lane_at(&ring->shape, i);
	const char *data = ht_lane_data(&ring->shape, i);
	uint64_t head = __atomic_load_n(&lane->head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->tails[i];
	int r = 0;

	/* Only we write this one. If the target did, writers may find no room any more. */
	if (__atomic_load_n(&lane->tail, __ATOMIC_RELAXED) != tail) {
		ring->counters.corrupt++;
		__atomic_store_n(&lane->tail, tail, __ATOMIC_RELEASE);
	}
	if (head == tail)
		return 0;
	/* Writers go on from the next place below that is aligned, and so do we. */
	if (head - tail > ring->shape.lane_size || head & 7) {
		ring->counters.corrupt++;
		head = ht_align_down(head, (uint64_t)8);
		tail = head;
	}
	/* Not "<": the target may have put them where they come around. */
	while (tail != head && r >= 0) {
		uint64_t size = take(ring, data, tail, head - tail);

		if (!size) {
			ring->counters.corrupt++;
			tail = head;
			break;
		}
		tail += size;
		if (((struct ht_record *)ring->copy)->type == HT_RECORD_PAD)
			continue;
		ring->counters.records++;
		ring->counters.bytes += size;
		r = visit(arg, ring->copy);
		/* Room for the writer as early as can be. */
		__atomic_store_n(&lane->tail, tail, __ATOMIC_RELEASE);
	}
	ring->tails[i] = tail;
	__atomic_store_n(&lane->tail, tail, __ATOMIC_RELEASE);
	return r < 0 ? r : 0;
}

/* Nobody believes the header, but what wrote there may have changed other things as well.
 * Its owner word is the business of who holds it. */
static void check_header(struct ht_ring *ring)
{
	struct ht_ring_header now = *(volatile struct ht_ring_header *)ring->map;

	now.owner = 0;
	if (!memcmp(&now, &ring->header, sizeof(now)))
		return;
	ring->counters.corrupt++;
	memcpy(ring->map, &ring->header, offsetof(struct ht_ring_header, owner));
	/* Who writes to a ring ends nothing by it. */
	ring->map->ended = HT_ENDED_NOT;
	memcpy(ring->map->reserved, ring->header.reserved, sizeof(now.reserved));
}

int ht_ring_drain(struct ht_ring *ring, ht_ring_visit visit, void *arg)
{
	if (ring->private)
		return ht_socket_drain(ring, visit, arg);
	check_header(ring);
	for (uint32_t i = 0; i < ring->shape.lanes; i++) {
		int r = drain_lane(ring, i, visit, arg);

		if (r < 0)
			return r;
	}
	return 0;
}

static void mark_busy(struct ht_ring *ring)
{
	/* Not as they were before the drain: who came since may have a place in the order before
	 * what was drained. */
	if (ring->private && ring->read)
		(void)ht_ring_look(ring, ring->read, ring->read_arg);
	ring->busy = 0;
	ring->resizing = 0;
	for (uint32_t i = 0; i < ring->shape.lanes; i++) {
		struct ht_lane *lane = ht_lane_at(&ring->shape, i);

		ring->busy_heads[i] = __atomic_load_n(&lane->head, __ATOMIC_ACQUIRE);
		if (__atomic_load_n(&lane->owner, __ATOMIC_ACQUIRE) ||
		    ring->busy_heads[i] != ring->tails[i])
			ring->busy |= UINT64_C(1) << i;
		if (__atomic_load_n(&lane->resizing, __ATOMIC_ACQUIRE))
			ring->resizing |= UINT64_C(1) << i;
	}
}

bool ht_ring_quiesced(struct ht_ring *ring)
{
	/* What is over now may have been published after the drain: it takes one more. */
	bool resizing = ring->resizing;

	for (uint32_t i = 0; i < ring->shape.lanes; i++) {
		struct ht_lane *lane = ht_lane_at(&ring->shape, i);
		bool idle = !__atomic_load_n(&lane->owner, __ATOMIC_ACQUIRE) &&
			    ring->tails[i] == __atomic_load_n(&lane->head, __ATOMIC_ACQUIRE);

		/* Visited past where it was then: its writer of that time is done. */
		if (idle || (int64_t)(ring->tails[i] - ring->busy_heads[i]) > 0)
			ring->busy &= ~(UINT64_C(1) << i);
		if (!__atomic_load_n(&lane->resizing, __ATOMIC_ACQUIRE))
			ring->resizing &= ~(UINT64_C(1) << i);
	}
	if (ring->busy || resizing)
		return false;
	mark_busy(ring);
	return true;
}

void ht_ring_counters(const struct ht_ring *ring, struct ht_ring_counters *ret_counters)
{
	*ret_counters = ring->counters;
	for (uint32_t i = 0; i < ring->shape.lanes; i++) {
		const struct ht_lane *lane = ht_lane_at(&ring->shape, i);

		ret_counters->lost_allocs +=
			__atomic_load_n(&lane->lost_allocs, __ATOMIC_RELAXED);
		ret_counters->lost_frees +=
			__atomic_load_n(&lane->lost_frees, __ATOMIC_RELAXED);
		ret_counters->lost_bytes +=
			__atomic_load_n(&lane->lost_bytes, __ATOMIC_RELAXED);
		ret_counters->waits += __atomic_load_n(&lane->waits, __ATOMIC_RELAXED);
		ret_counters->drops += __atomic_load_n(&lane->drops, __ATOMIC_RELAXED);
	}
}
