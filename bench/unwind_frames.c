/* SPDX-License-Identifier: Apache-2.0
 *
 * unwind_frames PID: what a frame costs, for the stacks of all threads of a process: by our
 * unwinder, and by others. A line for each: its name, the frames that it found, and the ns
 * of CPU a frame with everything in the processor's caches, and with nothing in its first two.
 *
 * All have to find the same frames. Each is asked in turn, and the median taken.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "unwind/walk-priv.h"
#include "walkers.h"

#define ROUNDS 21
#define HOT_NS 2000000	/* of a round */
#define OTHER_BYTES ((size_t)64 << 20)

struct bench {
	struct bench_stacks stacks;
	struct ht_unwinder *unwinder;
	struct bench_libdw *libdw;
	struct bench_libdwfl *libdwfl;
	struct bench_libunwind *cached, *uncached;
	struct ht_stack found;		/* by ours */
	struct bench_walk walk;		/* by others */
	uint8_t *other;			/* memory that takes the caches' place */
};

/* ---- ours ---- */

static unsigned by_cache(struct bench *b, const struct bench_stack *stack)
{
	ht_unwind(b->unwinder, &stack->input, &b->found);
	return b->found.n_frames;
}

/* As if no return address had been seen before. */
static void forget(struct bench *b)
{
	memset(b->unwinder->cache, 0, sizeof(b->unwinder->cache));
}

static unsigned by_interpreter(struct bench *b, const struct bench_stack *stack)
{
	struct ht_interp_memory memory = { bench_read_stack,
					   (void *)(uintptr_t)&stack->input };
	struct ht_interp_frame frame = { .known = stack->input.known };
	const struct ht_mapping *m;
	unsigned n = 0;
	uint64_t pc;

	memcpy(frame.regs, stack->input.regs, sizeof(frame.regs));
	for (;;) {
		pc = frame.regs[HT_REG_RIP] - !frame.signal;
		m = ht_space_find(b->stacks.space, pc);
		if (!m || !m->module)
			return n;
		n++;
		if (ht_interp_step_cfi(ht_module_cfi(m->module), m->bias, pc - m->bias,
				       &memory, &frame) < 0 || frame.end)
			return n;
	}
}

/* ---- others' ---- */

static unsigned by_libdw(struct bench *b, const struct bench_stack *stack)
{
	b->walk.stack = stack;
	bench_libdw_walk(b->libdw, &b->walk);
	return b->walk.n;
}

static unsigned by_libdwfl(struct bench *b, const struct bench_stack *stack)
{
	b->walk.stack = stack;
	bench_libdwfl_walk(b->libdwfl, &b->walk);
	return b->walk.n;
}

static unsigned by_libunwind(struct bench *b, const struct bench_stack *stack)
{
	b->walk.stack = stack;
	bench_libunwind_walk(b->cached, &b->walk);
	return b->walk.n;
}

static unsigned by_libunwind_uncached(struct bench *b, const struct bench_stack *stack)
{
	b->walk.stack = stack;
	bench_libunwind_walk(b->uncached, &b->walk);
	return b->walk.n;
}

static const struct walker {
	const char *name;
	unsigned (*walk)(struct bench *b, const struct bench_stack *stack);
	void (*before)(struct bench *b);	/* before all stacks are walked; may be NULL */
	bool other;				/* b->walk has what it found */
} walkers[] = {
	{ "heaptap", by_cache, NULL, false },
	{ "table", by_cache, forget, false },
	{ "interpreter", by_interpreter, NULL, false },
	{ "libdw", by_libdw, NULL, true },
	{ "libdwfl", by_libdwfl, NULL, true },
	{ "libunwind", by_libunwind, NULL, true },
	{ "uncached", by_libunwind_uncached, NULL, true },
};

/* ---- measuring ---- */

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* The CPU time of @n walks of all stacks. */
static uint64_t time_walks(struct bench *b, const struct walker *walker, uint64_t n)
{
	uint64_t start = cpu_ns();

	for (; n; n--)
		for (size_t i = 0; i < b->stacks.n; i++)
			walker->walk(b, &b->stacks.at[i]);
	return cpu_ns() - start;
}

static double hot(struct bench *b, const struct walker *walker, unsigned frames)
{
	uint64_t n = 1 + HOT_NS / (time_walks(b, walker, 1) + 1), ns = 0;

	if (!walker->before)
		return (double)time_walks(b, walker, n) / (double)n / frames;
	for (uint64_t i = 0; i < n; i++) {
		walker->before(b);
		ns += time_walks(b, walker, 1);
	}
	return (double)ns / (double)n / frames;
}

static double cold(struct bench *b, const struct walker *walker, unsigned frames)
{
	if (walker->before)
		walker->before(b);
	for (size_t i = 0; i < OTHER_BYTES; i += 64)
		b->other[i]++;
	return (double)time_walks(b, walker, 1) / frames;
}

static uint64_t address(const struct bench *b, const struct ht_frame *frame)
{
	for (size_t i = 0; i < ht_space_count(b->stacks.space); i++) {
		const struct ht_mapping *m = ht_space_at(b->stacks.space, i);
		uint64_t addr = frame->offset + m->bias;

		if (m->module && ht_module_id(m->module) == frame->module &&
		    addr >= m->start && addr <= m->end)
			return addr;
	}
	return frame->offset;
}

/* The frames of all stacks by @walker; 0: not those that we find. */
static unsigned count(struct bench *b, const struct walker *walker)
{
	unsigned frames = 0, n;

	for (size_t i = 0; i < b->stacks.n; i++) {
		by_cache(b, &b->stacks.at[i]);
		n = walker->walk(b, &b->stacks.at[i]);
		if (n != b->found.n_frames)
			return 0;
		for (unsigned j = 0; walker->other && j < n; j++)
			if (b->walk.pcs[j] != address(b, &b->found.frames[j]))
				return 0;
		frames += n;
	}
	return frames;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), by_value);
	return values[ROUNDS / 2];
}

static int measure(struct bench *b)
{
	double hots[ARRAY_SIZE(walkers)][ROUNDS], colds[ARRAY_SIZE(walkers)][ROUNDS];
	unsigned frames[ARRAY_SIZE(walkers)];
	size_t i, round;

	for (i = 0; i < ARRAY_SIZE(walkers); i++) {
		frames[i] = count(b, &walkers[i]);
		if (frames[i])
			continue;
		fprintf(stderr, "unwind_frames: %s finds other frames\n", walkers[i].name);
		return 1;
	}
	for (round = 0; round < ROUNDS; round++)
		for (i = 0; i < ARRAY_SIZE(walkers); i++) {
			hots[i][round] = hot(b, &walkers[i], frames[i]);
			colds[i][round] = cold(b, &walkers[i], frames[i]);
		}
	for (i = 0; i < ARRAY_SIZE(walkers); i++)
		printf("%s %zu %u %.2f %.2f\n", walkers[i].name, b->stacks.n, frames[i],
		       median(hots[i]), median(colds[i]));
	return 0;
}

int main(int argc, char **argv)
{
	static struct bench b;

	if (argc != 2) {
		fprintf(stderr, "usage: unwind_frames PID\n");
		return 2;
	}
	b.other = malloc(OTHER_BYTES);
	if (!b.other || bench_stacks_open(atoi(argv[1]), &b.stacks) < 0 ||
	    ht_unwinder_new(b.stacks.space, -1, &b.unwinder) < 0 ||
	    bench_libdw_new(&b.stacks, &b.libdw) < 0 ||
	    bench_libdwfl_new(&b.stacks, &b.libdwfl) < 0 ||
	    bench_libunwind_new(&b.stacks, true, &b.cached) < 0 ||
	    bench_libunwind_new(&b.stacks, false, &b.uncached) < 0) {
		fprintf(stderr, "unwind_frames: can't take the stacks of %s\n", argv[1]);
		return 1;
	}
	memset(b.other, 1, OTHER_BYTES);
	return measure(&b);
}
