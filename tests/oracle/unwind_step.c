/* SPDX-License-Identifier: Apache-2.0
 *
 * unwind_step [OPTION]... PROGRAM [ARG]...: run a program one instruction at a time, keep
 *a shadow stack of what its calls and returns do (shadow.h), and compare it with what the
 * unwinder makes of registers and stack.
 *
 *	-s STEPS	stop stepping after so many from the start (default 1000000)
 *	-u NUMBER	count from the first system call of that number on
 *	-w STEPS	after that, step so many more in each of many windows ...
 *	-k CALLS	... between which the program makes so many system calls at full
 *speed -m STEPS	end all, and the program, after so many steps (default: no limit)
 *	-e EVERY	each instruction is compared in the first three contexts that it
 *is met in; after that each EVERYth step only (default 61) -q		only the line of
 *sums
 *
 * In a window the frames that are there at its start are believed, until the program
 * returns into them. The program's other threads and its children run on by themselves.
 * Status: 0 no disagreement, 1 some, 2 it can't be run.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "step.h"

static struct tracer tracer;

static bool is_over(const struct tracer *t)
{
	return t->options.max && t->n_steps >= t->options.max;
}

/* Where a frame is in the target; 0 if it isn't in a file. */
static uint64_t address(const struct tracer *t, const struct ht_frame *frame)
{
	size_t i;

	for (i = 0; i < ht_space_count(t->space); i++) {
		const struct ht_mapping *m = ht_space_at(t->space, i);
		uint64_t addr = frame->offset + m->bias;

		if (m->module && ht_module_id(m->module) == frame->module &&
		    addr >= m->start && addr <= m->end)
			return addr;
	}
	return 0;
}

/* Believe what is on the stack now. False: it can't be followed to its end. */
static bool believe(struct tracer *t)
{
	static struct ht_stack stack;
	unsigned i;

	if (!step_look(t) || ht_stopped_sample(&t->stopped, STACK_MAX) < 0)
		return false;
	ht_unwind(t->unwinder, &t->stopped.input, &stack);
	for (i = stack.n_frames; i-- > 1;) {
		const struct ht_frame *f = &stack.frames[i];
		uint64_t addr = address(t, f);

		if (!addr || (f->flags & HT_FRAME_GUESSED))
			return false;
		shadow_believe(&t->shadow, addr,
			       f->flags & HT_FRAME_SIGNAL ? SHADOW_TRAMPOLINE :
			       f->flags & HT_FRAME_EXACT ? SHADOW_INTERRUPTED : SHADOW_CALLED);
	}
	return stack.end == HT_STACK_COMPLETE;
}

static bool run_steps(struct tracer *t, uint64_t steps)
{
	uint64_t until = t->n_steps + steps, calls;

	while (t->n_steps < until && !is_over(t)) {
		calls = t->shadow.stats.calls;
		if (!step_once(t))
			return false;
		step_compare(t, t->shadow.stats.calls != calls);
		/* It leapt past what was there before. */
		if (t->shadow.lost && !t->shadow.leaping && !believe(t)) {
			t->baseless++;
			break;
		}
	}
	step_forget_doubt(t);
	return true;
}

static void run(struct tracer *t)
{
	if (t->options.until >= 0 && (!step_free(t, UINT32_MAX, t->options.until) || !believe(t)))
		return;
	if (!run_steps(t, t->options.steps))
		return;
	while (t->options.window && !is_over(t)) {
		if (!step_free(t, t->options.calls, -1))
			return;
		if (!believe(t)) {
			t->baseless++;
			continue;
		}
		t->windows++;
		if (!run_steps(t, t->options.window))
			return;
	}
}

static void print_sums(const struct tracer *t, const char *name)
{
	static const char *const names[VERDICTS] = {
		[RIGHT] = "right", [NO_CFI] = "cut for want of unwind data",
		[MISGUESSED] = "guessed wrong", [SWITCHED] = "continued on another stack", [GAVE_UP] = "given up while live",
		[LEAPING] = "in longjmp()", [LANDING] = "while an exception lands",
		[WRONG] = "WRONG",
	};
	const struct shadow_stats *s = &t->shadow.stats;
	unsigned i;

	printf("%s: %" PRIu64 " steps, %" PRIu64 " places; %" PRIu64 " stopped, %" PRIu64
	       " hooked, %" PRIu64 " live, %" PRIu64 " frames:", name, t->n_steps, t->places,
	       t->compared, t->as_hooked, t->as_live, t->frames);
	for (i = 0; i < VERDICTS; i++)
		if (t->verdicts[i])
			printf(" %" PRIu64 " %s,", t->verdicts[i], names[i]);
	printf(" %" PRIu64 " believed, %" PRIu64 " of them WRONG\n", s->believed, s->wrong);
	printf("  calls %" PRIu64 ", returns %" PRIu64 ", signals %" PRIu64 ", leaps %" PRIu64
	       ", in registers %" PRIu64 ", pushed %" PRIu64 ", rewritten %" PRIu64
	       ", steps on foreign stacks %" PRIu64 ", windows %" PRIu64 ", without a base %" PRIu64
	       ", lost %" PRIu64 "\n", s->calls, s->returns, s->signals, s->leaps, s->held, s->pushed_returns,
	       t->rewritten, s->foreign, t->windows, t->baseless, s->lost);
}

static bool parse(struct options *o, int argc, char **argv)
{
	int opt;

	*o = (struct options){.steps = 1000000, .every = 61, .calls = 100, .until = -1};
	while ((opt = getopt(argc, argv, "+s:w:k:m:e:u:q")) != -1) {
		switch (opt) {
		case 's':
			o->steps = strtoull(optarg, NULL, 0);
			break;
		case 'w':
			o->window = strtoull(optarg, NULL, 0);
			break;
		case 'k':
			o->calls = strtoull(optarg, NULL, 0);
			break;
		case 'm':
			o->max = strtoull(optarg, NULL, 0);
			break;
		case 'e':
			o->every = (unsigned)strtoul(optarg, NULL, 0);
			break;
		case 'u':
			o->until = strtol(optarg, NULL, 0);
			break;
		case 'q':
			o->quiet = true;
			break;
		default:
			return false;
		}
	}
	return optind < argc && o->every > 0;
}

int main(int argc, char **argv)
{
	struct tracer *t = &tracer;
	int status, r;

	if (!parse(&t->options, argc, argv) || ht_modules_new(&t->modules))
		return 2;
	ZydisDecoderInit(&t->decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	r = step_start(t, argv + optind);
	if (r < 0) {
		printf("%s: %s\n", argv[optind], strerror(-r));
		return 2;
	}
	run(t);
	status = step_finish(t, is_over(t));
	step_forget_doubt(t);
	print_sums(t, argv[optind]);
	if (status)
		printf("%s: ended with status %#x\n", argv[optind], status);
	ht_modules_free(t->modules);
	free((void *)t->stopped.input.stack);
	return status || t->verdicts[WRONG] || t->shadow.stats.wrong || !t->compared;
}
