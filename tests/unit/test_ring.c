/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/ring.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "ht_check.h"
#include "ipc/writer.h"

struct seen {
	uint64_t records;
	uint64_t sum;
	uint64_t last_seq;
	int fail_after;
};

static int count(void *arg, const struct ht_record *record)
{
	struct seen *seen = arg;

	seen->records++;
	seen->last_seq = record->seq;
	if (record->type == HT_RECORD_FREE)
		seen->sum += ((const struct ht_record_free *)record)->addr;
	return seen->fail_after && seen->records >= (uint64_t)seen->fail_after ? -EIO : 0;
}

static struct ht_ring *new_ring(uint64_t size)
{
	struct ht_ring *ring = NULL;

	ck_ok(ht_ring_new(size, &ring, NULL));
	return ring;
}

/* As the target sees it. */
static struct ht_ring_map map_ring(struct ht_ring *ring)
{
	void *map = mmap(NULL, ht_ring_map_size(ring), PROT_READ | PROT_WRITE, MAP_SHARED,
			 ht_ring_fd(ring), 0);

	ck_assert_ptr_ne(map, MAP_FAILED);
	return ht_ring_map_at(ring, (uint64_t)(uintptr_t)map);
}

static bool put_free(const struct ht_ring_map *map, uint32_t start, uint64_t addr)
{
	struct ht_record_free *r;
	struct ht_writer w;
	bool done = false;

	r = ht_writer_acquire(&w, map, start, 1, sizeof(*r), sizeof(*r), 0);
	if (r) {
		*r = (struct ht_record_free){
			.head = { .size = sizeof(*r), .type = HT_RECORD_FREE },
			.addr = addr,
		};
		ht_writer_publish(&w, sizeof(*r));
		ht_writer_close(&w);
		done = true;
	}
	return done;
}

static bool put_alloc(const struct ht_ring_map *map, uint32_t start, uint32_t stack_len,
		      uint32_t claimed_len)
{
	struct ht_record_alloc *r;
	struct ht_writer w;
	uint64_t size = sizeof(*r) + stack_len;

	ck_assert(ht_writer_open(&w, map, start, 1));
	r = ht_writer_reserve(&w, size, size, 0);
	if (r) {
		memset(r, 0, size);
		r->head.size = (uint32_t)size;
		r->head.type = HT_RECORD_ALLOC;
		r->stack_len = claimed_len;
		ht_writer_publish(&w, size);
	}
	ht_writer_close(&w);
	return r != NULL;
}

START_TEST(sizes_are_checked)
{
	struct ht_ring *ring;
	struct ht_err err = { 0 };

	ck_assert_int_eq(ht_ring_new(1000, &ring, &err), -EINVAL);
	ck_assert_int_eq(err.kind, HT_ERR_USAGE);
	ck_assert_int_eq(ht_ring_new(32 * 1024, &ring, &err), -EINVAL);
	ck_assert_int_eq(ht_ring_new(96 * 1024, &ring, &err), -EINVAL);
	ck_assert_int_eq(ht_ring_new(UINT64_C(1) << 40, &ring, &err), -EINVAL);
}
END_TEST

START_TEST(all_that_went_in_comes_out)
{
	struct ht_ring *ring = new_ring(64 * 1024);
	struct ht_ring_map map = map_ring(ring);
	struct seen seen = { 0 };
	uint64_t sum = 0, in = 0;

	/* Many laps, with drains at odd moments and records of odd sizes between. */
	for (uint64_t i = 1; i <= 100000; i++) {
		if (put_free(&map, (uint32_t)(i % 2), i)) {
			sum += i;
			in++;
		}
		if (i % 37 == 0 && put_alloc(&map, (uint32_t)(i % 2), (uint32_t)(i % 999) * 8,
					     (uint32_t)(i % 999) * 8))
			in++;
		if (i % 101 == 0)
			ck_ok(ht_ring_drain(ring, count, &seen));
	}
	ck_ok(ht_ring_drain(ring, count, &seen));
	ck_assert_uint_eq(seen.records, in);
	ck_assert_uint_eq(seen.sum, sum);
	ck_assert_uint_gt(in, 99000);
	ht_ring_free(ring);
}
END_TEST

START_TEST(full_is_refused_until_drained)
{
	struct ht_ring *ring = new_ring(64 * 1024);
	struct ht_ring_map map = map_ring(ring);
	struct seen seen = { 0 };
	uint64_t n = 0;

	while (put_free(&map, 0, 1))
		n++;
	/* Each lane to its last whole record. */
	ck_assert_uint_eq(n, map.lanes * (map.lane_size / sizeof(struct ht_record_free)));
	ck_ok(ht_ring_drain(ring, count, &seen));
	ck_assert_uint_eq(seen.records, n);
	ck_assert(put_free(&map, 0, 1));
	ht_ring_free(ring);
}
END_TEST

/* What some leave is there for others. */
START_TEST(room_is_kept)
{
	struct ht_ring *ring = new_ring(64 * 1024);
	struct ht_ring_map map = map_ring(ring);
	struct ht_writer w;
	uint64_t bytes = 0;

	for (uint32_t i = 1; i < map.lanes; i++)
		ht_lane_at(&map, i)->owner = 1;
	while (ht_writer_acquire(&w, &map, 0, 1, 64, 64, 1024)) {
		memset(w.data + (w.head & (map.lane_size - 1)), 0, 64);
		ht_writer_publish(&w, 64);
		ht_writer_close(&w);
	}
	while (put_free(&map, 0, 1))
		bytes += sizeof(struct ht_record_free);
	ck_assert_uint_ge(bytes, 1000);
	ck_assert_uint_lt(bytes, 1024 + 64);
	ht_ring_free(ring);
}
END_TEST

START_TEST(nested_writers_take_other_lanes)
{
	struct ht_ring *ring = new_ring(64 * 1024);
	struct ht_ring_map map = map_ring(ring);
	struct ht_writer w[HT_MAX_LANES + 1];
	uint32_t i;

	for (i = 0; i < map.lanes; i++)
		ck_assert_ptr_nonnull(ht_writer_acquire(&w[i], &map, 0, 1, 64, 64, 0));
	ck_assert_msg(!ht_writer_acquire(&w[i], &map, 0, 1, 64, 64, 0), "no lane was left");
	ht_writer_close(&w[0]);
	ck_assert_ptr_nonnull(ht_writer_acquire(&w[0], &map, map.lanes - 1, 1, 64, 64, 0));
	ht_ring_free(ring);
}
END_TEST

struct job {
	struct ht_ring_map map;
	uint32_t start;
	uint64_t put;
};

static void *writer(void *arg)
{
	struct job *job = arg;

	for (uint64_t i = 0; i < 200000; i++)
		job->put += put_free(&job->map, job->start, 1);
	return NULL;
}

START_TEST(threads_lose_nothing_uncounted)
{
	struct ht_ring *ring = new_ring(256 * 1024);
	struct job jobs[4];
	pthread_t threads[4];
	struct seen seen = { 0 };
	uint64_t put = 0;

	for (int i = 0; i < 4; i++) {
		jobs[i] = (struct job){ map_ring(ring), 0, 0 };
		pthread_create(&threads[i], NULL, writer, &jobs[i]);
	}
	for (int i = 0; i < 2000; i++)
		ck_ok(ht_ring_drain(ring, count, &seen));
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		put += jobs[i].put;
	}
	ck_ok(ht_ring_drain(ring, count, &seen));
	ck_assert_uint_eq(seen.records, put);
	ck_assert_uint_eq(seen.sum, put);
	ht_ring_free(ring);
}
END_TEST

START_TEST(hostile_positions_are_counted)
{
	static const uint64_t heads[] = { 1, 4, UINT64_MAX, UINT64_MAX - 15, UINT64_C(1) << 40,
					  64 * 1024 + 8 };
	struct ht_ring *ring = new_ring(64 * 1024);
	struct ht_ring_map map = map_ring(ring);
	struct ht_ring_counters counters;
	struct seen seen = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		ht_lane_at(&map, 0)->head = heads[i];
		ck_ok(ht_ring_drain(ring, count, &seen));
	}
	ht_ring_counters(ring, &counters);
	ck_assert_uint_ge(counters.corrupt, ARRAY_SIZE(heads));
	ck_assert_uint_eq(seen.records, 0);
	ht_ring_free(ring);
}
END_TEST

START_TEST(hostile_records_are_counted)
{
	static const uint32_t sizes[] = { 0, 1, 7, 8, 12, 15, 32, 40, UINT32_MAX,
					  UINT32_MAX - 7, 1 << 20 };
	struct ht_ring *ring = new_ring(64 * 1024);
	struct ht_ring_map map = map_ring(ring);
	struct ht_ring_counters counters;
	struct seen seen = { 0 };
	struct ht_writer w;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (uint16_t type = 0; type < 8; type++) {
			struct ht_record *r;

			if (type == HT_RECORD_PAD)
				continue;
			ck_assert(ht_writer_open(&w, &map, 0, 1));
			r = ht_writer_reserve(&w, 64, 64, 0);
			ck_assert_ptr_nonnull(r);
			memset(r, 0, 64);
			r->size = sizes[i];
			r->type = type;
			ht_writer_publish(&w, 64);
			ht_writer_close(&w);
			ck_ok(ht_ring_drain(ring, count, &seen));
		}
	}
	ck_assert_uint_eq(seen.records, 0);
	/* A stack that claims more than the record has. */
	ck_assert(put_alloc(&map, 0, 80, 88));
	ck_ok(ht_ring_drain(ring, count, &seen));
	ck_assert_uint_eq(seen.records, 0);
	ht_ring_counters(ring, &counters);
	ck_assert_uint_ge(counters.corrupt, ARRAY_SIZE(sizes) * 7 + 1);
	ck_assert(put_alloc(&map, 0, 80, 80));
	ck_ok(ht_ring_drain(ring, count, &seen));
	ck_assert_uint_eq(seen.records, 1);
	ht_ring_free(ring);
}
END_TEST

START_TEST(random_bytes_are_survived)
{
	struct ht_ring *ring = new_ring(64 * 1024);
	struct ht_ring_map map = map_ring(ring);
	struct seen seen = { 0 };
	char *bytes = (char *)map.base;
	uint64_t x = 88172645463325252u;

	for (int round = 0; round < 3000; round++) {
		for (int i = 0; i < 64; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			bytes[x % ht_ring_map_size(ring)] = (char)(x >> 32);
		}
		ht_lane_at(&map, (uint32_t)(x % 2))->head += (x >> 20) % 512 * 8;
		ck_ok(ht_ring_drain(ring, count, &seen));
	}
	ht_ring_free(ring);
}
END_TEST

/* The target may write anywhere. What it broke works again, and isn't hidden. */
START_TEST(stray_writes_heal)
{
	struct ht_ring *ring = new_ring(64 * 1024);
	struct ht_ring_map map = map_ring(ring);
	struct ht_ring_header *header = (struct ht_ring_header *)map.base;
	struct ht_lane *lane = ht_lane_at(&map, 0);
	struct ht_ring_counters counters;
	struct seen seen = { 0 };

	for (uint32_t i = 1; i < map.lanes; i++)
		ht_lane_at(&map, i)->owner = 1;
	/* No room, as far as a writer can see. */
	lane->tail = 1 << 20;
	ck_assert(!put_free(&map, 0, 1));
	ck_ok(ht_ring_drain(ring, count, &seen));
	ck_assert(put_free(&map, 0, 1));
	ck_ok(ht_ring_drain(ring, count, &seen));
	ck_assert_uint_eq(seen.records, 1);
	/* Positions with any alignment. */
	for (uint64_t i = 1; i < 8; i++) {
		lane->head += i;
		ck_ok(ht_ring_drain(ring, count, &seen));
		ck_assert(put_free(&map, 0, 1));
		ck_assert_uint_eq(lane->head % 8, 0);
		ck_ok(ht_ring_drain(ring, count, &seen));
	}
	ck_assert_uint_eq(seen.records, 8);
	/* Where they come around. */
	lane->head = UINT64_MAX - 7;
	ck_ok(ht_ring_drain(ring, count, &seen));
	ck_assert(put_free(&map, 0, 1));
	ck_ok(ht_ring_drain(ring, count, &seen));
	ck_assert_uint_eq(seen.records, 9);
	*ht_ring_owner_word(ring) = 77;
	memset(header, 0xff, offsetof(struct ht_ring_header, owner));
	header->reserved[3] = 1;
	header->ended = 1;
	ck_assert(put_free(&map, 0, 1));
	ck_ok(ht_ring_drain(ring, count, &seen));
	ck_assert_uint_eq(seen.records, 10);
	/* Once and for all. */
	ck_ok(ht_ring_drain(ring, count, &seen));
	ck_assert_uint_eq(header->magic, HT_RING_MAGIC);
	ck_assert_uint_eq(header->owner, 77);
	ht_ring_counters(ring, &counters);
	ck_assert_uint_eq(counters.corrupt, 1 + 7 + 1 + 1);
	ht_ring_free(ring);
}
END_TEST

/* Between a drain and the question a writer may have published and gone. */
START_TEST(quiet_is_what_was_read)
{
	struct ht_ring *ring = new_ring(64 * 1024);
	struct ht_ring_map map = map_ring(ring);
	struct ht_record_free *r;
	struct seen seen = { 0 };
	struct ht_writer w;

	r = ht_writer_acquire(&w, &map, 0, 1, sizeof(*r), sizeof(*r), 0);
	ck_assert_ptr_nonnull(r);
	*r = (struct ht_record_free){ .head = { .size = sizeof(*r), .type = HT_RECORD_FREE } };
	ck_ok(ht_ring_drain(ring, count, &seen));
	ck_assert(ht_ring_quiesced(ring));
	ck_ok(ht_ring_drain(ring, count, &seen));
	ck_assert(!ht_ring_quiesced(ring));
	ht_writer_publish(&w, sizeof(*r));
	ht_writer_close(&w);
	ck_assert(!ht_ring_quiesced(ring));
	ck_ok(ht_ring_drain(ring, count, &seen));
	ck_assert_uint_eq(seen.records, 1);
	ck_assert(ht_ring_quiesced(ring));
	/* One that found no room leaves nothing to be read. */
	ck_assert(ht_writer_open(&w, &map, 0, 1));
	ck_assert(ht_ring_quiesced(ring));
	ht_writer_close(&w);
	ck_assert(ht_ring_quiesced(ring));
	ht_ring_free(ring);
}
END_TEST

START_TEST(visitor_stops_the_drain)
{
	struct ht_ring *ring = new_ring(64 * 1024);
	struct ht_ring_map map = map_ring(ring);
	struct seen seen = { .fail_after = 2 };

	for (int i = 0; i < 5; i++)
		ck_assert(put_free(&map, 0, 1));
	ck_assert_int_eq(ht_ring_drain(ring, count, &seen), -EIO);
	seen.fail_after = 0;
	ck_ok(ht_ring_drain(ring, count, &seen));
	ck_assert_uint_eq(seen.records, 5);
	ht_ring_free(ring);
}
END_TEST

int main(void)
{
	return ht_check_run("ring", (const TTest *const[]){
		sizes_are_checked, all_that_went_in_comes_out, full_is_refused_until_drained,
		room_is_kept, nested_writers_take_other_lanes, threads_lose_nothing_uncounted,
		hostile_positions_are_counted, hostile_records_are_counted,
		random_bytes_are_survived, stray_writes_heal, quiet_is_what_was_read,
		visitor_stops_the_drain, NULL });
}
