/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/ledger.h"

#include <string.h>

#include "base/map.h"
#include "ht_check.h"

static struct ht_ledger *ledger;

static uint32_t site_of(struct ht_ledger *in, uint64_t name)
{
	static struct ht_stack stack;
	uint32_t site = UINT32_MAX;

	stack.n_frames = 2;
	stack.frames[0] = (struct ht_frame){ name, 1, 0 };
	stack.frames[1] = (struct ht_frame){ 1, 1, 0 };
	ck_ok(ht_ledger_site(in, &stack, 0, &site));
	return site;
}

static void start(uint32_t sites)
{
	ck_ok(ht_ledger_new(&ledger));
	for (uint32_t i = 0; i < sites; i++)
		ck_assert_uint_eq(site_of(ledger, 100 + i), i);
}

static void stop(void)
{
	ledger = ht_ledger_free_all(ledger);
}

/* The clock of these tests is ten times seq. */
static void alloc(uint64_t addr, uint32_t site, uint64_t size, uint64_t seq)
{
	struct ht_ledger_alloc event = {
		.addr = addr, .size = size, .seq = seq, .time_ns = seq * 10, .site = site
	};

	ck_ok(ht_ledger_alloc(ledger, &event));
}

static void dealloc(uint64_t addr, uint64_t seq)
{
	ck_ok(ht_ledger_free(ledger, addr, seq, seq * 10));
}

static void realloc_to(uint64_t old, uint64_t free_seq, uint64_t addr, uint32_t site,
		       uint64_t size, uint64_t seq)
{
	struct ht_ledger_alloc event = {
		.addr = addr, .size = size, .seq = seq, .time_ns = seq * 10, .site = site
	};

	ck_ok(ht_ledger_realloc(ledger, old, free_seq, &event));
}

static struct ht_figures figures(uint32_t site)
{
	struct ht_figures f;

	ht_ledger_site_figures(ledger, site, &f);
	return f;
}

static struct ht_figures all(void)
{
	struct ht_figures f;

	ht_ledger_total(ledger, &f);
	return f;
}

static struct ht_ledger_counters counters(void)
{
	struct ht_ledger_counters c;

	ht_ledger_counters(ledger, &c);
	return c;
}

#define assert_sum(sum, want_bytes, want_objects) \
	do { \
		ck_assert_double_eq((sum).bytes, want_bytes); \
		ck_assert_double_eq((sum).objects, want_objects); \
	} while (0)

START_TEST(empty_stack)
{
	static struct ht_stack stack, got;
	uint32_t site, label;

	start(0);
	stack.end = HT_STACK_NO_MODULE;
	ck_ok(ht_ledger_site(ledger, &stack, 9, &site));
	alloc(1, site, 5, 1);
	dealloc(1, 2);
	ck_ok(ht_ledger_settle(ledger, true));
	ht_ledger_site_stack(ledger, site, &got, &label);
	ck_assert_uint_eq(got.n_frames, 0);
	ck_assert_uint_eq(got.end, HT_STACK_NO_MODULE);
	ck_assert_uint_eq(label, 9);
	assert_sum(figures(site).total, 5, 1);
	assert_sum(figures(site).live, 0, 0);
	stop();
}
END_TEST

START_TEST(basic)
{
	start(2);
	alloc(1, 0, 5, 1);
	assert_sum(figures(0).live, 5, 1);
	alloc(2, 1, 2, 2);
	assert_sum(figures(0).live, 5, 1);
	assert_sum(figures(1).live, 2, 1);
	dealloc(1, 3);
	assert_sum(figures(0).live, 0, 0);
	assert_sum(figures(0).freed, 5, 1);
	dealloc(2, 4);
	assert_sum(figures(1).live, 0, 0);
	assert_sum(all().live, 0, 0);
	assert_sum(all().total, 7, 2);
	assert_sum(all().freed, 7, 2);
	assert_sum(all().peak, 7, 2);
	ck_assert_double_eq(figures(0).lifetime_ns, 20);
	ck_assert_double_eq(figures(1).lifetime_ns, 20);
	ck_assert_uint_eq(counters().allocs, 2);
	ck_assert_uint_eq(counters().frees, 2);
	ck_assert_uint_eq(counters().live_blocks, 0);
	ck_assert_uint_eq(counters().peak_time_ns, 20);
	stop();
}
END_TEST

START_TEST(peak_stays)
{
	start(2);
	ck_assert(!counters().peak_now);
	alloc(1, 0, 10, 1);
	alloc(2, 1, 15, 2);
	ck_assert(counters().peak_now);
	dealloc(1, 3);
	ck_assert(!counters().peak_now);
	dealloc(2, 4);
	alloc(3, 1, 12, 5);
	assert_sum(figures(0).peak, 10, 1);
	assert_sum(figures(1).peak, 15, 1);
	assert_sum(figures(1).live, 12, 1);
	assert_sum(all().peak, 25, 2);
	ck_assert_uint_eq(counters().peak_time_ns, 20);
	stop();
}
END_TEST

START_TEST(higher_peak_replaces)
{
	start(2);
	alloc(1, 0, 10, 1);
	alloc(2, 1, 15, 2);
	dealloc(1, 3);
	alloc(3, 1, 15, 4);
	assert_sum(figures(0).peak, 0, 0);
	assert_sum(figures(1).peak, 30, 2);
	ck_assert_uint_eq(counters().peak_time_ns, 40);
	stop();
}
END_TEST

/* As high again isn't higher; as high still is still the peak. */
START_TEST(equal_peaks)
{
	start(3);
	alloc(1, 0, 10, 1);
	realloc_to(1, 2, 2, 1, 10, 3);
	assert_sum(figures(1).peak, 10, 1);
	alloc(3, 1, 0, 4);
	assert_sum(figures(1).peak, 10, 2);
	dealloc(2, 5);
	alloc(4, 2, 10, 6);
	assert_sum(figures(0).peak, 0, 0);
	assert_sum(figures(1).peak, 10, 2);
	assert_sum(figures(2).peak, 0, 0);
	ck_assert_uint_eq(counters().peak_time_ns, 10);
	stop();
}
END_TEST

START_TEST(two_ledgers_are_apart)
{
	struct ht_ledger *other;

	start(2);
	other = ledger;
	alloc(1, 0, 5, 1);
	start(1);
	alloc(1, 0, 7, 1);
	stop();
	ledger = other;
	assert_sum(figures(0).live, 5, 1);
	dealloc(1, 2);
	assert_sum(all().live, 0, 0);
	stop();
}
END_TEST

START_TEST(same_address_again_implies_a_free)
{
	start(2);
	alloc(1, 0, 5, 1);
	alloc(1, 1, 2, 2);
	assert_sum(figures(0).live, 0, 0);
	assert_sum(figures(0).freed, 5, 1);
	assert_sum(figures(1).live, 2, 1);
	/* The old block went before the new one came: the peak is 5. */
	assert_sum(all().peak, 5, 1);
	ck_assert_uint_eq(counters().replaced, 1);
	stop();
}
END_TEST

START_TEST(newer_block_wins_out_of_order)
{
	start(2);
	alloc(1, 1, 2, 2);
	alloc(1, 0, 5, 1);
	ck_ok(ht_ledger_settle(ledger, true));
	assert_sum(figures(0).live, 0, 0);
	assert_sum(figures(1).live, 2, 1);
	ck_assert_uint_eq(counters().late, 0);
	stop();
}
END_TEST

START_TEST(newer_block_wins_when_late)
{
	start(2);
	alloc(1, 1, 2, 2);
	ck_ok(ht_ledger_settle(ledger, true));
	alloc(1, 0, 5, 1);
	assert_sum(figures(0).live, 0, 0);
	assert_sum(figures(0).total, 5, 1);
	assert_sum(figures(0).freed, 5, 1);
	assert_sum(figures(1).live, 2, 1);
	ck_assert_uint_eq(counters().late, 1);
	stop();
}
END_TEST

/* One block at a time at one address, frees in late batches. */
START_TEST(many_allocations)
{
	uint64_t batch[32];
	int n = 0;

	start(1);
	for (uint64_t seq = 1; seq < 1000; seq += 2) {
		alloc(0x100, 0, 10, seq);
		batch[n++] = seq + 1;
		ck_assert(all().live.objects <= 1);
		if (n == 32) {
			while (n)
				dealloc(0x100, batch[--n]);
			ck_assert(all().live.objects <= 1);
			ck_ok(ht_ledger_settle(ledger, false));
		}
	}
	while (n)
		dealloc(0x100, batch[--n]);
	assert_sum(all().live, 0, 0);
	assert_sum(all().total, 5000, 500);
	assert_sum(all().peak, 10, 1);
	ck_assert_uint_eq(counters().late, 0);
	ck_assert_uint_eq(counters().replaced, 0);
	stop();
}
END_TEST

static bool next_permutation(int *at, int n)
{
	int i = n - 2, j = n - 1, swap;

	while (i >= 0 && at[i] > at[i + 1])
		i--;
	if (i < 0)
		return false;
	while (at[j] < at[i])
		j--;
	swap = at[i], at[i] = at[j], at[j] = swap;
	for (i++, j = n - 1; i < j; i++, j--)
		swap = at[i], at[i] = at[j], at[j] = swap;
	return true;
}

static void scripted(int which)
{
	switch (which) {
	case 0:
		return alloc(0x1, 0, 5, 1);
	case 1:
		return dealloc(0x3, 2);
	case 2:
		return alloc(0x2, 0, 7, 3);
	case 3:
		return alloc(0x1, 1, 11, 4);
	case 4:
		return dealloc(0x4, 5);
	case 5:
		return dealloc(0x1, 6);
	default:
		return alloc(0x2, 1, 13, 7);
	}
}

/* Four allocations at two addresses and three frees, in every order: within the window,
 * and each of them late. */
START_TEST(arbitrary_order)
{
	for (int late = 0; late <= 1; late++) {
		int at[7] = { 0, 1, 2, 3, 4, 5, 6 }, nth = 0;

		do {
			/* Remembering frees makes it slow: not all of them. */
			if (late && nth++ % 5)
				continue;
			start(2);
			for (int i = 0; i < 7; i++) {
				scripted(at[i]);
				if (late)
					ck_ok(ht_ledger_settle(ledger, true));
			}
			ck_ok(ht_ledger_settle(ledger, true));
			assert_sum(figures(0).live, 0, 0);
			assert_sum(figures(0).total, 12, 2);
			assert_sum(figures(1).live, 13, 1);
			assert_sum(figures(1).total, 24, 2);
			assert_sum(figures(1).freed, 11, 1);
			stop();
		} while (next_permutation(at, 7));
	}
}
END_TEST

START_TEST(realloc_is_one_event)
{
	start(2);
	alloc(1, 0, 100, 1);
	realloc_to(1, 2, 2, 1, 150, 3);
	assert_sum(figures(0).live, 0, 0);
	assert_sum(figures(1).live, 150, 1);
	/* 250 and 0 are both wrong. */
	assert_sum(all().peak, 150, 1);
	realloc_to(2, 4, 2, 1, 120, 5);
	assert_sum(figures(1).live, 120, 1);
	assert_sum(all().peak, 150, 1);
	realloc_to(0, 0, 3, 0, 40, 6);
	assert_sum(all().peak, 160, 2);
	realloc_to(77, 7, 4, 0, 1, 8);
	ck_assert_uint_eq(counters().unknown_frees, 1);
	ck_assert_uint_eq(counters().reallocs, 3);
	ck_assert_uint_eq(counters().allocs, 2);
	ck_assert_uint_eq(counters().replaced, 0);
	stop();
}
END_TEST

/* Between the halves another thread gets the old address, and frees what becomes the new
 * one: nothing is replaced or unknown, and the block counts all the time. */
START_TEST(others_between_the_halves_of_a_realloc)
{
	start(3);
	alloc(1, 0, 100, 1);
	alloc(2, 1, 10, 2);
	realloc_to(1, 3, 2, 2, 200, 6);
	alloc(1, 1, 1000, 4);
	assert_sum(figures(0).live, 100, 1);
	assert_sum(all().live, 1110, 3);
	dealloc(2, 5);
	assert_sum(figures(0).live, 0, 0);
	assert_sum(figures(1).live, 1000, 1);
	assert_sum(figures(2).live, 200, 1);
	assert_sum(all().peak, 1200, 2);
	ck_assert_uint_eq(counters().replaced, 0);
	ck_assert_uint_eq(counters().unknown_frees, 0);
	stop();
}
END_TEST

/* The first half is late, the second isn't, or both are: no peak between them either. */
START_TEST(late_realloc_is_one_event)
{
	start(2);
	alloc(1, 0, 100, 1);
	alloc(9, 0, 1, 3);
	ck_ok(ht_ledger_settle(ledger, true));
	realloc_to(1, 2, 5, 1, 150, 4);
	assert_sum(all().live, 151, 2);
	assert_sum(all().peak, 151, 2);
	ck_assert_uint_eq(counters().late, 1);
	alloc(8, 0, 1, 7);
	ck_ok(ht_ledger_settle(ledger, true));
	realloc_to(5, 5, 6, 0, 160, 6);
	assert_sum(figures(1).live, 0, 0);
	assert_sum(all().peak, 162, 3);
	/* The second half waits for another gap. */
	alloc(7, 0, 1, 10);
	ck_ok(ht_ledger_settle(ledger, true));
	realloc_to(6, 8, 6, 1, 170, 12);
	assert_sum(figures(0).live, 163, 4);
	alloc(4, 0, 1, 11);
	assert_sum(figures(1).live, 170, 1);
	assert_sum(all().peak, 174, 5);
	ck_assert_uint_eq(counters().unknown_frees, 0);
	stop();
}
END_TEST

/* Records that no hook writes. */
START_TEST(damaged_reallocs_are_survived)
{
	start(1);
	alloc(1, 0, 100, 1);
	realloc_to(1, 5, 2, 0, 50, 3);		/* freed after it was allocated */
	realloc_to(2, 4, 2, 0, 60, 4);		/* both at once */
	realloc_to(2, 9, 3, 0, 70, UINT64_MAX);
	realloc_to(3, 9, 3, 0, 70, UINT64_MAX - 1);
	realloc_to(3, 9, 4, 0, 70, UINT64_MAX - 1);
	ck_ok(ht_ledger_settle(ledger, true));
	realloc_to(4, 11, 5, 0, 70, 12);
	ck_ok(ht_ledger_settle(ledger, true));
	ck_assert_double_eq(all().live.bytes, all().total.bytes - all().freed.bytes);
	stop();
}
END_TEST

START_TEST(untracked_counts_to_total_only)
{
	struct ht_ledger_alloc event = {
		.addr = 1, .size = 10, .seq = 1, .untracked = true
	};

	start(1);
	ck_ok(ht_ledger_alloc(ledger, &event));
	assert_sum(figures(0).total, 10, 1);
	assert_sum(figures(0).live, 0, 0);
	assert_sum(figures(0).freed, 0, 0);
	dealloc(1, 2);
	ck_assert_uint_eq(counters().untracked, 1);
	ck_assert_uint_eq(counters().unknown_frees, 1);
	stop();
}
END_TEST

START_TEST(unknown_frees_change_nothing)
{
	start(1);
	dealloc(1, 1);
	alloc(1, 0, 10, 2);
	dealloc(2, 3);
	dealloc(1, 4);
	dealloc(1, 5);
	assert_sum(all().live, 0, 0);
	assert_sum(all().freed, 10, 1);
	ck_assert_uint_eq(counters().unknown_frees, 3);
	stop();
}
END_TEST

/* More different stacks than there is room for: one site takes the rest. */
START_TEST(stacks_without_room_are_folded)
{
	uint32_t last = 0;
	size_t sites;

	ck_ok(ht_ledger_new(&ledger));
	for (uint64_t i = 0; !counters().folded; i++) {
		ck_assert_uint_lt(i, 2 << 20);
		last = site_of(ledger, i);
	}
	sites = ht_ledger_site_count(ledger);
	ck_assert_uint_eq(last, sites - 1);
	ck_assert_uint_eq(site_of(ledger, UINT64_MAX), last);
	ck_assert_uint_eq(counters().folded, 2);
	ck_assert_uint_eq(site_of(ledger, 5), 5);
	ck_assert_uint_eq(ht_ledger_site_count(ledger), sites);
	alloc(1, last, 10, 1);
	assert_sum(figures(last).live, 10, 1);
	stop();
}
END_TEST

/* ---- random streams against a model that does everything the slow way ---- */

#define MODEL_SITES 7
#define MODEL_ADDRS 24
#define MODEL_OPS 4000

enum kind { ALLOC, FREE, REALLOC };

struct op {
	enum kind kind;
	uint64_t addr, old, size, seq, free_seq;
	uint32_t site;
	uint64_t due;		/* when it is delivered */
	bool lost;
	/* Of the model: what the first half took along. */
	bool held;
	uint64_t held_size;
	uint32_t held_site;
};

struct model {
	struct {
		bool used;
		uint64_t size;
		uint32_t site;
	} at[MODEL_ADDRS + 1];
	double live[MODEL_SITES], objects[MODEL_SITES], total[MODEL_SITES];
	double freed[MODEL_SITES], peak[MODEL_SITES], peak_objects[MODEL_SITES];
	double all, highest;
	bool top;
	uint64_t unknown, replaced;
};

static struct op ops[MODEL_OPS];
static uint32_t n_ops;
static uint64_t random_state;

static uint64_t dice(uint64_t sides)
{
	random_state += UINT64_C(0x9e3779b97f4a7c15);
	return (ht_hash64(random_state) >> 16) % sides;
}

/* What an allocator with few addresses and several threads does: addresses are used again
 * as soon as they can be, reallocs take a while. */
static uint64_t make_ops(uint32_t wanted)
{
	bool used[MODEL_ADDRS + 1] = { false };
	struct op *open[4] = { NULL };
	uint64_t seq = 0;

	memset(ops, 0, sizeof(ops));
	for (n_ops = 0; n_ops < wanted || open[0] || open[1] || open[2] || open[3];) {
		uint64_t addr = 1 + dice(MODEL_ADDRS);
		struct op **slot = &open[dice(4)];
		struct op *op = &ops[n_ops];

		if (*slot && !used[addr] && dice(3) == 0) {
			(*slot)->addr = addr;
			(*slot)->seq = ++seq;
			used[addr] = true;
			*slot = NULL;
			continue;
		}
		if (n_ops == wanted)
			continue;
		op->site = (uint32_t)dice(MODEL_SITES);
		op->size = dice(4) ? 1 + dice(100) : 50;
		op->addr = addr;
		if (!used[addr]) {
			op->kind = ALLOC;
			op->seq = ++seq;
			used[addr] = true;
		} else if (!*slot && dice(2)) {
			op->kind = REALLOC;
			op->old = addr;
			op->free_seq = ++seq;
			used[addr] = false;
			*slot = op;
		} else {
			op->kind = FREE;
			op->seq = ++seq;
			used[addr] = false;
		}
		n_ops++;
	}
	return seq;
}

static void model_go(struct model *m, uint64_t size, uint32_t site)
{
	m->live[site] -= (double)size;
	m->objects[site]--;
	m->freed[site] += (double)size;
	m->all -= (double)size;
}

static void model_peak(struct model *m)
{
	if (m->all > m->highest || (m->all == m->highest && m->top)) {
		m->highest = m->all;
		m->top = true;
		memcpy(m->peak, m->live, sizeof(m->peak));
		memcpy(m->peak_objects, m->objects, sizeof(m->peak_objects));
		return;
	}
	m->top = false;
}

static void model_take(struct model *m, struct op *op, uint64_t addr)
{
	if (!m->at[addr].used) {
		m->unknown++;
		return;
	}
	m->at[addr].used = false;
	op->held = true;
	op->held_size = m->at[addr].size;
	op->held_site = m->at[addr].site;
}

static void model_step(struct model *m, struct op *op, uint64_t seq)
{
	if (op->kind == FREE || (op->kind == REALLOC && op->free_seq == seq))
		model_take(m, op, op->kind == FREE ? op->addr : op->old);
	if (op->kind == REALLOC && op->free_seq == seq)
		return;
	if (op->held)
		model_go(m, op->held_size, op->held_site);
	if (op->kind != FREE) {
		if (m->at[op->addr].used) {
			m->replaced++;
			model_go(m, m->at[op->addr].size, m->at[op->addr].site);
		}
		m->at[op->addr].used = true;
		m->at[op->addr].size = op->size;
		m->at[op->addr].site = op->site;
		m->live[op->site] += (double)op->size;
		m->objects[op->site]++;
		m->total[op->site] += (double)op->size;
		m->all += (double)op->size;
	}
	model_peak(m);
}

static void run_model(struct model *m, uint64_t seqs)
{
	static struct op *by_seq[2 * MODEL_OPS + 1];

	memset(m, 0, sizeof(*m));
	memset(by_seq, 0, sizeof(by_seq));
	for (uint32_t i = 0; i < n_ops; i++) {
		if (ops[i].lost)
			continue;
		by_seq[ops[i].seq] = &ops[i];
		if (ops[i].kind == REALLOC)
			by_seq[ops[i].free_seq] = &ops[i];
	}
	for (uint64_t seq = 1; seq <= seqs; seq++)
		if (by_seq[seq])
			model_step(m, by_seq[seq], seq);
}

static int by_due(const void *a, const void *b)
{
	const struct op *x = a, *y = b;

	if (x->due != y->due)
		return x->due < y->due ? -1 : 1;
	return x->seq < y->seq ? -1 : 1;
}

static void deliver(const struct op *op)
{
	if (op->lost)
		return;
	if (op->kind == ALLOC)
		alloc(op->addr, op->site, op->size, op->seq);
	else if (op->kind == FREE)
		dealloc(op->addr, op->seq);
	else
		realloc_to(op->old, op->free_seq, op->addr, op->site, op->size, op->seq);
}

static void assert_model(const struct model *m, bool with_peak)
{
	for (uint32_t i = 0; i < MODEL_SITES; i++) {
		struct ht_figures f = figures(i);

		assert_sum(f.live, m->live[i], m->objects[i]);
		ck_assert_double_eq(f.total.bytes, m->total[i]);
		ck_assert_double_eq(f.freed.bytes, m->freed[i]);
		if (with_peak)
			assert_sum(f.peak, m->peak[i], m->peak_objects[i]);
	}
	ck_assert_double_eq(all().live.bytes, m->all);
	if (with_peak)
		ck_assert_double_eq(all().peak.bytes, m->highest);
}

/* Shuffled within a window, some lost, settled as often as the contract allows: equal to
 * the model to the byte, the peak's breakdown too, and nothing late. */
START_TEST(shuffled_streams_equal_the_model)
{
	static struct model m;

	for (uint64_t round = 0; round < 60; round++) {
		uint64_t window = 1 + (round % 6) * 30, seqs, last = 0, end = 0;

		random_state = round;
		seqs = make_ops(MODEL_OPS / 4);
		for (uint32_t i = 0; i < n_ops; i++) {
			ops[i].due = ops[i].seq + dice(window);
			ops[i].lost = round % 2 && dice(20) == 0;
		}
		run_model(&m, seqs);
		qsort(ops, n_ops, sizeof(*ops), by_due);
		start(MODEL_SITES);
		for (uint32_t i = 0; i < n_ops; i++) {
			deliver(&ops[i]);
			last = ht_max(last, ops[i].seq);
			/* Everything up to end is in by now; a realloc's first number can
			 * be far older than its record. */
			if (i % 100 || ops[i].due < end + window + 500)
				continue;
			ck_ok(ht_ledger_settle(ledger, false));
			end = last;
		}
		ck_ok(ht_ledger_settle(ledger, true));
		assert_model(&m, true);
		ck_assert_uint_eq(counters().late, 0);
		ck_assert_uint_eq(counters().unknown_frees, m.unknown);
		ck_assert_uint_eq(counters().replaced, m.replaced);
		stop();
	}
}
END_TEST

/* The window closes after each event, so that nearly everything is late: who holds what
 * in the end is right all the same. */
START_TEST(late_streams_end_alike)
{
	static struct model m;

	for (uint64_t round = 0; round < 60; round++) {
		uint64_t seqs;

		random_state = 1000 + round;
		seqs = make_ops(MODEL_OPS / 4);
		for (uint32_t i = 0; i < n_ops; i++)
			ops[i].due = dice(1 + (round % 4) * 300);
		run_model(&m, seqs);
		qsort(ops, n_ops, sizeof(*ops), by_due);
		start(MODEL_SITES);
		for (uint32_t i = 0; i < n_ops; i++) {
			deliver(&ops[i]);
			ck_ok(ht_ledger_settle(ledger, true));
		}
		assert_model(&m, false);
		if (round % 4)
			ck_assert_uint_gt(counters().late, 100);
		stop();
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		empty_stack, basic, peak_stays, equal_peaks, higher_peak_replaces,
		two_ledgers_are_apart, same_address_again_implies_a_free,
		newer_block_wins_out_of_order, newer_block_wins_when_late,
		many_allocations, arbitrary_order, realloc_is_one_event,
		others_between_the_halves_of_a_realloc, late_realloc_is_one_event,
		damaged_reallocs_are_survived, untracked_counts_to_total_only,
		unknown_frees_change_nothing, stacks_without_room_are_folded,
		shuffled_streams_equal_the_model, late_streams_end_alike, NULL
	};

	/* Millions of events, under sanitizers: a busy machine takes its time. */
	return ht_check_run_for("ledger", 300, tests);
}
