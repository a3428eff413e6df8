/* SPDX-License-Identifier: Apache-2.0
 *
 * unwind_frames: what a frame costs, for one stack of tests/targets/chain: with the
 * cache, without it, by the interpreter, by libunwind. Nanoseconds a frame, median of 21
 * rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ht_stopped.h"
#include "ht_target.h"
#include "unwind/libunwind.h"
#include "unwind/module-priv.h"
#include "unwind/unwind.h"

#define ROUNDS 21

struct bench {
	struct ht_test_target target;
	struct ht_stopped stopped;
	struct ht_modules *modules;
	struct ht_space *space;
	struct ht_unwinder *unwinder;
	struct ht_libunwind *libunwind;
	struct ht_stack stack;
};

static int read_word(void *arg, uint64_t addr, uint64_t *ret_value)
{
	const struct ht_unwind_input *in = arg;
	uint64_t at = addr - in->stack_base;

	if (at + 8 > in->stack_len)
		return -1;
	memcpy(ret_value, in->stack + at, 8);
	return 0;
}

static unsigned cached(struct bench *b)
{
	ht_unwind(b->unwinder, &b->stopped.input, &b->stack);
	return b->stack.n_frames;
}

static unsigned uncached(struct bench *b)
{
	b->unwinder = ht_unwinder_free(b->unwinder);
	if (ht_unwinder_new(b->space, -1, &b->unwinder) < 0)
		return 0;
	return cached(b);
}

static unsigned step_all(struct bench *b, bool libunwind)
{
	struct ht_interp_frame frame = { .known = b->stopped.input.known };
	struct ht_interp_memory memory = { read_word, &b->stopped.input };
	const struct ht_mapping *m;
	unsigned n = 0;
	uint64_t pc;
	int r;

	memcpy(frame.regs, b->stopped.input.regs, sizeof(frame.regs));
	for (;;) {
		pc = frame.regs[HT_REG_RIP] - (n && !frame.signal);
		m = ht_space_find(b->space, pc);
		if (!m || !m->module)
			return n;
		n++;
		if (libunwind)
			r = ht_libunwind_step(b->libunwind, m->module, m->bias,
					      pc - m->bias, &memory, &frame);
		else
			r = ht_interp_step(m->module->bytes, m->module->len, m->bias,
					   pc - m->bias, &memory, &frame);
		if (r < 0 || frame.end)
			return n;
	}
}

static unsigned interpreter(struct bench *b)
{
	return step_all(b, false);
}

static unsigned by_libunwind(struct bench *b)
{
	return step_all(b, true);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(struct bench *b, const char *name, unsigned (*walk)(struct bench *),
		    unsigned repeat)
{
	double ns[ROUNDS];
	unsigned frames = walk(b), i, j;
	uint64_t start;

	for (i = 0; i < ROUNDS; i++) {
		start = ht_now_ns();
		for (j = 0; j < repeat; j++)
			walk(b);
		ns[i] = (double)(ht_now_ns() - start) / repeat / frames;
	}
	qsort(ns, ROUNDS, sizeof(ns[0]), by_value);
	printf("%-12s %4u frames %9.1f ns/frame (%.1f .. %.1f)\n", name, frames,
	       ns[ROUNDS / 2], ns[0], ns[ROUNDS - 1]);
}

int main(int argc, char **argv)
{
	static struct bench b;
	const char *scenario = argc > 1 ? argv[1] : "plain";
	const char *depth = argc > 2 ? argv[2] : "60";

	if (ht_test_target_start(&b.target, "chain",
				 (const char *[]){ scenario, depth, NULL }) ||
	    ht_stopped_open(b.target.pid, b.target.pid, &b.stopped) ||
	    ht_stopped_sample(&b.stopped, (size_t)4 << 20) ||
	    ht_modules_new(&b.modules) ||
	    ht_space_new(b.stopped.procfd, b.stopped.memfd, b.modules, &b.space) ||
	    ht_unwinder_new(b.space, -1, &b.unwinder) || ht_libunwind_new(&b.libunwind)) {
		fprintf(stderr,
			"unwind_frames: cannot set up (run it in the build tree)\n");
		return 1;
	}
	measure(&b, "cached", cached, 2000);
	measure(&b, "uncached", uncached, 50);
	measure(&b, "interpreter", interpreter, 20);
	measure(&b, "libunwind", by_libunwind, 20);
	printf("end: %s\n", ht_stack_end_text(b.stack.end));
	ht_test_target_kill(&b.target);
	return 0;
}
