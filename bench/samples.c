/* SPDX-License-Identifier: Apache-2.0
 *
 * samples PID [INTERVAL]: what a sample costs the tool, from the ring to the ledger, with the
 * stacks of all threads of a process in turn. A block is freed when LIVE others have come after
 * it. Prints the number of stacks, the frames and bytes of a record in the mean, and the ns of
 * CPU a sample and its free take: reading the ring, and all together.
 *
 * The records are written as the hook does, in the same thread, which isn't counted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "ipc/ring.h"
#include "ipc/writer.h"
#include "stacks.h"
#include "tap/intake.h"

#define RING_BYTES ((uint64_t)8 << 20)
#define BATCH 500		/* samples between two drains: they must fit */
#define BATCHES 100		/* of a round */
#define ROUNDS 5
#define LIVE 20000
#define BLOCK(i) (UINT64_C(0x100000000000) + (i) * 4112)

struct bench {
	struct bench_stacks stacks;
	uint64_t interval;
	struct ht_ring *ring;
	struct ht_ring_map map;
	struct ht_intake *intake;
	uint64_t seq, samples;
	uint32_t random;
};

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* Sizes from 16 bytes to 16 KiB, small ones more often. */
static uint64_t next_size(struct bench *b)
{
	b->random = b->random * 1664525u + 1013904223u;
	return UINT64_C(16) + (b->random >> 18 >> (b->random >> 12) % 10);
}

static bool put_alloc(struct bench *b)
{
	const struct ht_unwind_input *in = &b->stacks.at[b->samples % b->stacks.n].input;
	uint64_t size = sizeof(struct ht_record_alloc) + ht_align_up(in->stack_len, 8);
	struct ht_record_alloc *r;
	struct ht_writer w;

	r = ht_writer_acquire(&w, &b->map, (uint32_t)b->samples, 1, size, size, 0);
	if (!r)
		return false;
	*r = (struct ht_record_alloc){
		.head = { (uint32_t)size, HT_RECORD_ALLOC, 0, ++b->seq },
		.addr = BLOCK(b->samples), .size = next_size(b), .interval = b->interval,
		.thread = 1 + b->samples % b->stacks.n,
		.pc = in->regs[HT_REG_RIP], .sp = in->regs[HT_REG_RSP],
		.bp = in->regs[HT_REG_RBP], .bx = in->regs[HT_REG_RBX],
		.r12 = in->regs[HT_REG_R12], .r13 = in->regs[HT_REG_R13],
		.r14 = in->regs[HT_REG_R14], .r15 = in->regs[HT_REG_R15],
		.stack_len = (uint32_t)in->stack_len,
	};
	memcpy(r + 1, in->stack, in->stack_len);
	ht_writer_publish(&w, size);
	ht_writer_close(&w);
	b->samples++;
	return true;
}

static bool put_free(struct bench *b)
{
	struct ht_record_free *r;
	struct ht_writer w;

	if (b->samples <= LIVE)
		return true;
	r = ht_writer_acquire(&w, &b->map, (uint32_t)b->samples, 1, sizeof(*r), sizeof(*r), 0);
	if (!r)
		return false;
	*r = (struct ht_record_free){ { sizeof(*r), HT_RECORD_FREE, 0, ++b->seq },
				      BLOCK(b->samples - LIVE - 1) };
	ht_writer_publish(&w, sizeof(*r));
	ht_writer_close(&w);
	return true;
}

static int pass_over(void *arg, const struct ht_record *record)
{
	return 0;
}

/* The ns of reading a batch. 0: it didn't fit. */
static uint64_t drain_batch(struct bench *b, bool all)
{
	uint64_t start;
	int r;

	for (int i = 0; i < BATCH; i++)
		if (!put_alloc(b) || !put_free(b))
			return 0;
	start = cpu_ns();
	ht_intake_tick(b->intake);
	r = ht_ring_drain(b->ring, all ? ht_intake_record : pass_over, b->intake);
	if (r == 0 && all)
		r = ht_ledger_settle(ht_intake_ledger(b->intake), true);
	return r < 0 ? 0 : cpu_ns() - start;
}

/* ns a sample, or a negative number. */
static double round_ns(struct bench *b, bool all)
{
	uint64_t ns, sum = 0;

	b->seq = b->samples = 0;
	if (ht_intake_new(b->stacks.space, -1, b->interval, 0, &b->intake) < 0)
		return -1;
	/* What comes first fills caches and tables. */
	for (int i = 0; i < BATCHES + LIVE / BATCH; i++) {
		ns = drain_batch(b, all);
		if (!ns)
			return -1;
		if (i >= LIVE / BATCH)
			sum += ns;
	}
	b->intake = ht_intake_free(b->intake);
	return (double)sum / BATCHES / BATCH;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int measure(struct bench *b)
{
	double ring[ROUNDS], all[ROUNDS], frames = 0, bytes = 0;
	static struct ht_stack stack;
	struct ht_unwinder *unwinder;

	if (ht_unwinder_new(b->stacks.space, -1, &unwinder) < 0)
		return 1;
	for (size_t i = 0; i < b->stacks.n; i++) {
		ht_unwind(unwinder, &b->stacks.at[i].input, &stack);
		frames += stack.n_frames;
		bytes += (double)b->stacks.at[i].input.stack_len;
	}
	ht_unwinder_free(unwinder);
	for (int i = 0; i < ROUNDS; i++) {
		ring[i] = round_ns(b, false);
		all[i] = round_ns(b, true);
		if (ring[i] < 0 || all[i] < 0)
			return 1;
	}
	qsort(ring, ROUNDS, sizeof(*ring), by_value);
	qsort(all, ROUNDS, sizeof(*all), by_value);
	printf("%zu %.1f %.0f %.1f %.1f\n", b->stacks.n, frames / (double)b->stacks.n,
	       bytes / (double)b->stacks.n, ring[ROUNDS / 2], all[ROUNDS / 2]);
	return 0;
}

int main(int argc, char **argv)
{
	struct bench b = { .interval = argc > 2 ? strtoull(argv[2], NULL, 10) : 65536 };
	void *map;
	int r;

	if (argc < 2) {
		fprintf(stderr, "usage: samples PID [INTERVAL]\n");
		return 2;
	}
	if (bench_stacks_open(atoi(argv[1]), &b.stacks) < 0 || !b.stacks.n ||
	    ht_ring_new(RING_BYTES, &b.ring, NULL) < 0) {
		fprintf(stderr, "samples: can't take the stacks of %s\n", argv[1]);
		return 1;
	}
	map = mmap(NULL, ht_ring_map_size(b.ring), PROT_READ | PROT_WRITE, MAP_SHARED,
		   ht_ring_fd(b.ring), 0);
	if (map == MAP_FAILED)
		return 1;
	b.map = ht_ring_map_at(b.ring, (uint64_t)(uintptr_t)map);
	r = measure(&b);
	if (r)
		fprintf(stderr, "samples: failed\n");
	return r;
}
