/* SPDX-License-Identifier: Apache-2.0
 *
 * intake.c: see intake.h. The sizes of a record were checked by the ring; what its fields
 * say is checked here.
 */
#include "tap/intake.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "symbol/jit.h"
#include "unwind/unwind.h"

/* A thread whose stack has more than one end (coroutines) is left alone. */
#define NO_TOP UINT64_MAX
/* Thread pointers are the target's word: more of them than the hook has room for, several
 * times over, are no threads. */
#define MAX_TOPS (4 * HT_THREAD_SLOTS)

struct ht_intake {
	struct ht_unwinder *unwinder;
	struct ht_ledger *ledger;
	uint64_t interval;
	uint64_t min_size;
	struct ht_intake_counters counters;
	struct ht_stack stack;	/* 8 KiB: not on ours */
	struct ht_map tops;	/* by thread pointer: where its stack ends, or NO_TOP */
	ht_intake_top_fn on_top;
	void *on_top_arg;
	struct ht_jit *jit;	/* NULL: none */
	uint64_t start_ns;
	uint64_t now_ns;	/* since the start, at the last tick */
};

int ht_intake_new(struct ht_space *space, int memfd, uint64_t interval, uint64_t min_size,
		  struct ht_intake **ret_intake)
{
	struct ht_intake *intake = calloc(1, sizeof(*intake));
	int r;

	if (!intake)
		return -ENOMEM;
	intake->interval = interval;
	intake->min_size = min_size;
	intake->start_ns = ht_now_ns();
	r = ht_unwinder_new(space, memfd, &intake->unwinder);
	if (r == 0)
		r = ht_ledger_new(&intake->ledger);
	if (r < 0) {
		ht_intake_free(intake);
		return r;
	}
	*ret_intake = intake;
	return 0;
}

struct ht_intake *ht_intake_free(struct ht_intake *intake)
{
	if (!intake)
		return NULL;
	ht_map_fini(&intake->tops);
	ht_unwinder_free(intake->unwinder);
	ht_ledger_free_all(intake->ledger);
	free(intake);
	return NULL;
}

int ht_intake_hide(struct ht_intake *intake, uint64_t start, uint64_t end)
{
	return ht_unwinder_hide(intake->unwinder, start, end);
}

void ht_intake_tick(struct ht_intake *intake)
{
	intake->now_ns = ht_now_ns() - intake->start_ns;
}

static void unwind(struct ht_intake *intake, const struct ht_record_alloc *r)
{
	struct ht_unwind_input input = {
		.known = 1u << HT_REG_RIP | 1u << HT_REG_RSP | 1u << HT_REG_RBP |
			 1u << HT_REG_RBX | 1u << HT_REG_R12 | 1u << HT_REG_R13 |
			 1u << HT_REG_R14 | 1u << HT_REG_R15,
		.rip_is_return = true,
		.stack = (const uint8_t *)(r + 1),
		.stack_len = r->stack_len,
		.stack_base = r->sp,
		.stack_cut = r->head.flags & HT_RECORD_CUT,
	};

	input.regs[HT_REG_RIP] = r->pc;
	input.regs[HT_REG_RSP] = r->sp;
	input.regs[HT_REG_RBP] = r->bp;
	input.regs[HT_REG_RBX] = r->bx;
	input.regs[HT_REG_R12] = r->r12;
	input.regs[HT_REG_R13] = r->r13;
	input.regs[HT_REG_R14] = r->r14;
	input.regs[HT_REG_R15] = r->r15;
	ht_unwind(intake->unwinder, &input, &intake->stack);
}

/* What the hook could have written with the configuration that it has. */
static bool plausible(const struct ht_intake *intake, const struct ht_record_alloc *r)
{
	if (!r->addr || !r->head.seq || r->size >> 47)
		return false;
	return r->interval == intake->interval && r->size >= intake->min_size;
}

/* Learn where the thread's stack ends, so that no more of it is copied than is needed. */
static int learn_top(struct ht_intake *intake, const struct ht_record_alloc *r)
{
	uint64_t *known = ht_map_get(&intake->tops, r->thread);
	uint64_t top = intake->stack.top;

	if (!intake->on_top || (known && *known == NO_TOP))
		return 0;
	if (!known && intake->tops.len >= MAX_TOPS)
		return 0;
	/* Only if it was that top which cut the stack, and not a full ring. */
	if (intake->stack.end == HT_STACK_WINDOW && known && r->sp + r->stack_len >= *known)
		top = 0;
	else if (!top || (known && *known == top))
		return 0;
	intake->on_top(intake->on_top_arg, r->thread, known ? 0 : top);
	return ht_map_put(&intake->tops, r->thread, known ? NO_TOP : top);
}

/* The call site. What is on it is told when it is new. */
static int find_site(struct ht_intake *intake, uint32_t *ret_site)
{
	size_t before = ht_ledger_site_count(intake->ledger);
	const struct ht_stack *stack = &intake->stack;
	int r = ht_ledger_site(intake->ledger, stack, 0, ret_site);

	if (r < 0 || !intake->jit || ht_ledger_site_count(intake->ledger) == before)
		return r;
	for (uint32_t i = 0; r == 0 && i < stack->n_frames; i++)
		r = ht_jit_see(intake->jit, &stack->frames[i]);
	return r;
}

static int take_alloc(struct ht_intake *intake, const struct ht_record_alloc *r)
{
	struct ht_ledger_alloc alloc = {
		.addr = r->addr,
		.size = r->size,
		.seq = r->head.seq,
		.time_ns = intake->now_ns,
		.interval = r->interval,
		.untracked = r->head.flags & HT_RECORD_UNTRACKED,
	};
	int err;

	if (!plausible(intake, r)) {
		intake->counters.corrupt++;
		return 0;
	}
	intake->counters.allocs++;
	ht_ledger_expect(intake->ledger, r->addr);
	unwind(intake, r);
	intake->counters.cut_stacks += intake->stack.end == HT_STACK_WINDOW;
	err = learn_top(intake, r);
	if (err < 0)
		return err;
	err = find_site(intake, &alloc.site);
	if (err < 0)
		return err;
	if (r->head.type == HT_RECORD_REALLOC)
		return ht_ledger_realloc(intake->ledger, r->old_addr, r->old_seq, &alloc);
	return ht_ledger_alloc(intake->ledger, &alloc);
}

int ht_intake_record(void *arg, const struct ht_record *record)
{
	struct ht_intake *intake = arg;
	const struct ht_record_free *f = (const struct ht_record_free *)record;

	if (record->type != HT_RECORD_FREE)
		return take_alloc(intake, (const struct ht_record_alloc *)record);
	if (!f->addr || !record->seq) {
		intake->counters.corrupt++;
		return 0;
	}
	return ht_ledger_free(intake->ledger, f->addr, record->seq, intake->now_ns);
}

void ht_intake_on_top(struct ht_intake *intake, ht_intake_top_fn fn, void *arg)
{
	intake->on_top = fn;
	intake->on_top_arg = arg;
}

void ht_intake_set_jit(struct ht_intake *intake, struct ht_jit *jit)
{
	intake->jit = jit;
}

struct ht_ledger *ht_intake_ledger(struct ht_intake *intake)
{
	return intake->ledger;
}

void ht_intake_counters(const struct ht_intake *intake,
			struct ht_intake_counters *ret_counters)
{
	*ret_counters = intake->counters;
}
