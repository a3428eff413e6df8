/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_ring.c: the reader of the ring against a target that writes whatever it likes into it,
 * also between two of the reader's looks at the same word: each of its loads of shared memory
 * is a place where the target may act. Records go on to the ledger.
 *
 * The input is what they do, one after the other. In the end the target comes to its senses:
 * what it writes then must all be read.
 */
#include "fuzz_tap.h"
#include "ipc/writer.h"

static void target_may_act(void);

/* The reader, with eyes on each of its looks. Not those of who only reads counters. */
#define __atomic_load_n(at, order) (target_may_act(), __atomic_load_n(at, order))
#define memcpy(to, from, len) (target_may_act(), memcpy(to, from, len))
#include "ipc/ring.c"
#undef __atomic_load_n
#undef memcpy

#define RING_SIZE (64 * 1024)

/* The first byte of each act. The target's are those before DRAIN. */
enum act { RECORD, LANE_WORD, HEADER, DATA, HEAD, HONEST_FREE, HONEST_ALLOC, DRAIN, QUIET,
	   FAIL, ACTS };

static struct fuzz_input in;
static struct ht_ring *ring;
static struct ht_ring_map map;	/* as the target has it */
static unsigned quiet;		/* looks until the target acts */
static bool draining, failing;

static struct ht_lane *pick_lane(uint32_t *ret_i)
{
	*ret_i = fuzz_byte(&in) & (map.lanes - 1);
	return ht_lane_at(&map, *ret_i);
}

/* Nothing of the target's is aligned, or within its lane, but what the ring's end forces. */
static void write_data(uint32_t i, uint64_t at, const void *bytes, size_t len)
{
	char *data = ht_lane_data(&map, i);

	for (size_t b = 0; b < len; b++)
		data[(at + b) & (map.lane_size - 1)] = ((const char *)bytes)[b];
}

/* As many bytes as are said next, published as they are. */
static void put_record(void)
{
	uint32_t i;
	struct ht_lane *lane = pick_lane(&i);
	size_t len = fuzz_u16(&in) & 4095;
	uint8_t bytes[4096];

	fuzz_read(&in, bytes, len);
	write_data(i, lane->head, bytes, len);
	lane->head += len;
}

static uint64_t any_value(uint64_t now)
{
	switch (fuzz_byte(&in) % 4) {
	case 0:
		return fuzz_u64(&in);
	case 1:
		return now + (uint64_t)((int8_t)fuzz_byte(&in) * 8);
	case 2:
		return UINT64_MAX - fuzz_byte(&in);
	default:
		return fuzz_byte(&in);
	}
}

static void put_word(void)
{
	uint32_t i;
	struct ht_lane *lane = pick_lane(&i);
	uint64_t *word = (uint64_t *)lane + fuzz_byte(&in) % 9;

	*word = any_value(*word);
}

static void put_header(void)
{
	uint8_t *header = (uint8_t *)(uintptr_t)map.base;
	size_t at = fuzz_byte(&in) % sizeof(struct ht_ring_header), len = fuzz_byte(&in) % 16;

	len = ht_min(len, sizeof(struct ht_ring_header) - at);
	fuzz_read(&in, header + at, len);
}

/* Into what may be read right now. */
static void put_data(void)
{
	uint32_t i;
	struct ht_lane *lane = pick_lane(&i);
	uint64_t at = lane->tail + (uint64_t)((int8_t)fuzz_byte(&in) * 4);
	size_t len = fuzz_byte(&in) % 32;
	uint8_t bytes[32];

	fuzz_read(&in, bytes, len);
	write_data(i, at, bytes, len);
}

static void put_head(void)
{
	uint32_t i;
	struct ht_lane *lane = pick_lane(&i);

	lane->head = lane->tail + (uint64_t)fuzz_u16(&in);
}

static bool write_free(uint32_t i)
{
	struct ht_record_free *record;
	struct ht_writer w;

	if (!ht_writer_open(&w, &map, i, 1))
		return false;
	record = ht_writer_reserve(&w, sizeof(*record), sizeof(*record), 0);
	if (record) {
		*record = (struct ht_record_free){
			.head = { sizeof(*record), HT_RECORD_FREE, 0, 1 + i }, .addr = 16 };
		ht_writer_publish(&w, sizeof(*record));
	}
	ht_writer_close(&w);
	return record;
}

/* Of any length, so that some have to go around the lane's end. */
static void write_alloc(void)
{
	uint64_t stack_len = ht_align_down((uint64_t)fuzz_u16(&in), (uint64_t)8);
	struct ht_record_alloc *record;
	struct ht_writer w;
	uint64_t len;

	record = ht_writer_acquire(&w, &map, fuzz_byte(&in) & (map.lanes - 1), 1, sizeof(*record),
				   sizeof(*record) + stack_len, 1024);
	if (!record)
		return;
	len = ht_min(w.room, sizeof(*record) + stack_len);
	*record = (struct ht_record_alloc){
		.head = { (uint32_t)len, HT_RECORD_ALLOC, 0, fuzz_byte(&in) },
		.addr = fuzz_u16(&in), .size = fuzz_u16(&in), .interval = FUZZ_INTERVAL,
		.pc = FUZZ_TEXT + fuzz_u16(&in) % FUZZ_TEXT_LEN, .sp = 0x7ffc00000000,
		.stack_len = (uint32_t)(len - sizeof(*record)),
	};
	ht_writer_publish(&w, len);
	ht_writer_close(&w);
}

static void target_acts(void)
{
	switch ((enum act)(fuzz_byte(&in) % DRAIN)) {
	case RECORD:
		put_record();
		break;
	case LANE_WORD:
		put_word();
		break;
	case HEADER:
		put_header();
		break;
	case DATA:
		put_data();
		break;
	case HEAD:
		put_head();
		break;
	case HONEST_FREE:
		write_free(fuzz_byte(&in) & (map.lanes - 1));
		break;
	default:
		write_alloc();
		break;
	}
}

/* Not too often, or it would be all in the first lane. */
static void target_may_act(void)
{
	if (!draining || in.at >= in.end || quiet--)
		return;
	quiet = fuzz_byte(&in) % 32;
	target_acts();
}

static int visit(void *arg, const struct ht_record *record)
{
	int r = fuzz_tap_record(NULL, record);

	target_may_act();
	return failing ? -EIO : r;
}

/* @freely: the target acts meanwhile. */
static void drain(bool freely)
{
	int r;

	draining = freely;
	quiet = freely ? fuzz_byte(&in) % 32 : 0;
	r = ht_ring_drain(ring, visit, NULL);
	CHECK(r == 0 || (failing && r == -EIO));
	draining = failing = false;
}

static void one_act(void)
{
	const uint8_t *at = in.at;

	switch ((enum act)(fuzz_byte(&in) % ACTS)) {
	case DRAIN:
		drain(true);
		break;
	case QUIET:
		draining = true;
		quiet = fuzz_byte(&in) % 32;
		if (ht_ring_quiesced(ring))
			fuzz_tap_settle();
		draining = false;
		break;
	case FAIL:
		failing = true;
		break;
	default:
		in.at = at;
		target_acts();
		break;
	}
}

static unsigned frees;

static int count_free(void *arg, const struct ht_record *record)
{
	const struct ht_record_free *one_free = (const struct ht_record_free *)record;

	CHECK(record->type == HT_RECORD_FREE && one_free->addr == 16);
	CHECK(record->seq == 1 + frees++);
	return 0;
}

/* Whatever was written before, from here on nothing is lost or wrong. */
static void heal(void)
{
	struct ht_ring_counters before, after;
	bool quiesced = false;

	drain(false);
	for (uint32_t i = 0; i < map.lanes; i++) {
		ht_lane_at(&map, i)->owner = 0;
		ht_lane_at(&map, i)->resizing = 0;
	}
	ht_ring_counters(ring, &before);
	for (uint32_t i = 0; i < map.lanes; i++)
		CHECK(write_free(i));
	frees = 0;
	CHECK(ht_ring_drain(ring, count_free, NULL) == 0 && frees == map.lanes);
	ht_ring_counters(ring, &after);
	CHECK(after.corrupt == before.corrupt && after.records == before.records + frees);
	for (unsigned i = 0; i < 3; i++)
		quiesced = ht_ring_quiesced(ring);
	CHECK(quiesced);
}

static void make_ring(void)
{
	void *base;

	CHECK(ht_ring_new(RING_SIZE, &ring, NULL) == 0);
	base = mmap(NULL, ht_ring_map_size(ring), PROT_READ | PROT_WRITE, MAP_SHARED,
		    ht_ring_fd(ring), 0);
	CHECK(base != MAP_FAILED);
	map = ht_ring_map_at(ring, (uint64_t)(uintptr_t)base);
}

/* As it was when it was new. Another one for each input would take most of the time. */
static void reset_ring(void)
{
	memset(ring->map, 0, ring->mapped);
	*ring->map = ring->header;
	memset(ring->tails, 0, sizeof(ring->tails));
	memset(ring->busy_heads, 0, sizeof(ring->busy_heads));
	ring->busy = ring->resizing = 0;
	ring->counters = (struct ht_ring_counters){ 0 };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (!ring)
		make_ring();
	reset_ring();
	in = (struct fuzz_input){ data, data + len };
	fuzz_tap_start(fuzz_byte(&in));
	while (in.at < in.end)
		one_act();
	failing = false;
	heal();
	fuzz_tap_end();
	return 0;
}

/* ---- to begin with ---- */

static void put_byte(struct fuzz_output *out, unsigned byte)
{
	uint8_t b = (uint8_t)byte;

	fuzz_put(out, &b, 1);
}

static void publish(void *arg, const struct ht_record *record)
{
	uint16_t len = (uint16_t)record->size;

	put_byte(arg, RECORD);
	put_byte(arg, (unsigned)record->seq);
	fuzz_put(arg, &len, sizeof(len));
	fuzz_put(arg, record, record->size);
}

const unsigned fuzz_runs = 300;

/* What the hook wrote, exact or sampled, read at once or while more of it comes; each with the
 * ledger behind the reader and without. */
void fuzz_seed(unsigned i, struct fuzz_output *out)
{
	if (i > 7)
		return;
	put_byte(out, i & (FUZZ_EXACT | FUZZ_READER_ALONE));
	fuzz_hook_writes(i & FUZZ_EXACT, publish, out);
	if (i & 2) {
		put_byte(out, DRAIN);
		put_byte(out, 3);
		fuzz_hook_writes(i & 1, publish, out);
	}
	put_byte(out, DRAIN);
	put_byte(out, 31);
	put_byte(out, QUIET);
	put_byte(out, 31);
	put_byte(out, DRAIN);
}
