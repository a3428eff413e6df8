/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_ledger.c: events against a model so simple that it is right. The first byte says how:
 *
 *	even	a program that keeps the rules, whose events come in any order and with some
 *		lost on the way: every figure must be that of the model
 *	odd	numbers, addresses and pairs as a target that lies would send them: nothing may
 *		be lost or counted twice, and the parts must add up to the whole
 */
#include "fuzz.h"
#include "ledger/ledger.h"

#define ADDRS 16
#define SITES 8
#define EVENTS 512

/* What was asked for, in the order of the program. */
struct call {
	enum { ALLOC, FREE, REALLOC } kind;
	uint64_t addr, old_addr, seq, old_seq, size;
	uint32_t site;
	bool untracked;
};

struct block {
	uint64_t size;
	uint32_t site;
	bool live;
};

struct model {
	struct block at[ADDRS];		/* by address */
	struct block moving[EVENTS];	/* by call: between the halves of a realloc */
	double live[SITES], freed[SITES], total[SITES], objects[SITES];
	double now, peak;
	struct ht_ledger_counters counters;
};

static struct call calls[EVENTS];
static struct model model;

static void go(struct block *block)
{
	model.live[block->site] -= (double)block->size;
	model.freed[block->site] += (double)block->size;
	model.objects[block->site]--;
	model.now -= (double)block->size;
	block->live = false;
}

static void come(const struct call *call)
{
	struct block *at = &model.at[call->addr];

	if (at->live) {
		model.counters.replaced++;
		go(at);
	}
	model.total[call->site] += (double)call->size;
	if (call->untracked) {
		model.counters.untracked++;
		return;
	}
	*at = (struct block){ call->size, call->site, true };
	model.live[call->site] += (double)call->size;
	model.objects[call->site]++;
	model.now += (double)call->size;
	model.peak = model.now > model.peak ? model.now : model.peak;
}

static void leave(uint64_t addr, struct block *moving)
{
	struct block *at = &model.at[addr];

	if (!at->live) {
		model.counters.unknown_frees++;
		return;
	}
	if (!moving) {
		go(at);
		return;
	}
	*moving = *at;
	at->live = false;
}

/* Everything that happens at @seq. */
static void model_step(size_t n, uint64_t seq)
{
	for (size_t i = 0; i < n; i++) {
		const struct call *call = &calls[i];

		if (call->kind == REALLOC && call->old_seq == seq)
			leave(call->old_addr, &model.moving[i]);
		if (call->seq != seq)
			continue;
		model.counters.allocs += call->kind == ALLOC;
		model.counters.frees += call->kind == FREE;
		model.counters.reallocs += call->kind == REALLOC;
		if (call->kind == FREE)
			leave(call->addr, NULL);
		if (model.moving[i].live)
			go(&model.moving[i]);
		if (call->kind != FREE)
			come(call);
	}
}

static void put(struct ht_ledger *ledger, const struct call *call)
{
	struct ht_ledger_alloc alloc = {
		.addr = call->addr + 1, .size = call->size, .seq = call->seq,
		.time_ns = call->seq, .site = call->site, .untracked = call->untracked,
	};

	switch (call->kind) {
	case ALLOC:
		CHECK(ht_ledger_alloc(ledger, &alloc) == 0);
		break;
	case FREE:
		CHECK(ht_ledger_free(ledger, call->addr + 1, call->seq, call->seq) == 0);
		break;
	case REALLOC:
		CHECK(ht_ledger_realloc(ledger, call->old_addr + 1, call->old_seq, &alloc) == 0);
		break;
	}
}

/* The next call, but for its numbers. */
static void draw(struct fuzz_input *in, struct call *call)
{
	uint8_t kind = fuzz_byte(in), where = fuzz_byte(in), size = fuzz_byte(in);

	*call = (struct call){
		.kind = kind % 4 == 0 ? FREE : kind % 4 == 1 ? REALLOC : ALLOC,
		.addr = where % ADDRS,
		.old_addr = where / ADDRS,
		.size = (uint64_t)size << kind / 16,
		.site = kind / 4 % SITES,
		.untracked = size > 250,
	};
}

/* The halves of a realloc with other calls between them, numbers that got lost. */
static uint64_t number(struct fuzz_input *in, size_t n)
{
	uint64_t seq = 1;
	size_t open = SIZE_MAX;

	for (size_t i = 0; i < n; i++) {
		uint8_t how = fuzz_byte(in);

		seq += how % 16 == 0;
		if (calls[i].kind == REALLOC)
			calls[i].old_seq = seq++;
		if (calls[i].kind == REALLOC && how % 4 == 1 && open == SIZE_MAX) {
			open = i;
			continue;
		}
		calls[i].seq = seq++;
		if (open != SIZE_MAX && (how % 4 == 2 || i + 1 == n)) {
			calls[open].seq = seq++;
			open = SIZE_MAX;
		}
	}
	if (open != SIZE_MAX)
		calls[open].seq = seq++;
	return seq;
}

/* As threads do: each is late by as much as it likes. */
static void shuffle(struct fuzz_input *in, size_t n, size_t order[EVENTS])
{
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	for (size_t i = 0; i + 1 < n; i++) {
		size_t j = i + fuzz_byte(in) % (n - i < 32 ? n - i : 32), swapped = order[i];

		order[i] = order[j];
		order[j] = swapped;
	}
}

static void compare(const struct ht_ledger *ledger)
{
	struct ht_ledger_counters counters;
	struct ht_figures figures;
	double peaks = 0, blocks = 0;

	ht_ledger_counters(ledger, &counters);
	CHECK(counters.allocs == model.counters.allocs);
	CHECK(counters.frees == model.counters.frees);
	CHECK(counters.reallocs == model.counters.reallocs);
	CHECK(counters.unknown_frees == model.counters.unknown_frees);
	CHECK(counters.replaced == model.counters.replaced);
	CHECK(counters.untracked == model.counters.untracked);
	CHECK(counters.late == 0);
	for (uint32_t s = 0; s < SITES; s++) {
		ht_ledger_site_figures(ledger, s, &figures);
		CHECK(figures.live.bytes == model.live[s]);
		CHECK(figures.live.objects == model.objects[s]);
		CHECK(figures.freed.bytes == model.freed[s]);
		CHECK(figures.total.bytes == model.total[s]);
		peaks += figures.peak.bytes;
		blocks += model.objects[s];
	}
	ht_ledger_total(ledger, &figures);
	CHECK(figures.peak.bytes == model.peak);
	CHECK(peaks == model.peak);
	CHECK((double)counters.live_blocks == blocks);
}

static void rules_kept(struct ht_ledger *ledger, struct fuzz_input *in)
{
	size_t n = 1 + (size_t)(in->end - in->at) / 5, order[EVENTS];
	uint64_t end;

	n = n < EVENTS ? n : EVENTS;
	for (size_t i = 0; i < n; i++)
		draw(in, &calls[i]);
	end = number(in, n);
	shuffle(in, n, order);
	for (size_t i = 0; i < n; i++)
		put(ledger, &calls[order[i]]);
	CHECK(ht_ledger_settle(ledger, true) == 0);
	model = (struct model){ .now = 0 };
	for (uint64_t seq = 1; seq < end; seq++)
		model_step(n, seq);
	compare(ledger);
}

/* @far: also such as make the window as large as it may be, which takes long. */
static uint64_t any_number(struct fuzz_input *in, uint64_t usual, bool far)
{
	uint8_t how = fuzz_byte(in);

	switch (far ? how % 16 : how % 16 ? 4 : 0) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX - how / 16;
	case 2:
		return (uint64_t)how << (how / 4);
	case 3:
		return usual + (UINT64_C(1) << 20) - 2 + how / 64;
	default:
		return usual > how / 16u ? usual - how / 16u : usual;
	}
}

static void rules_broken(struct ht_ledger *ledger, struct fuzz_input *in, bool far)
{
	double bytes = 0, objects = 0, seen = 0, untracked = 0;
	struct ht_ledger_counters counters;
	struct ht_figures all, figures;
	uint64_t usual = 1;

	while (in->at < in->end) {
		struct call call;

		draw(in, &call);
		call.seq = any_number(in, usual += 2, far);
		call.old_seq = any_number(in, usual - 1, far);
		put(ledger, &call);
		if (call.kind != FREE) {
			bytes += (double)call.size;
			objects++;
			untracked += call.untracked ? (double)call.size : 0;
		}
		if (fuzz_byte(in) % 8 == 0)
			CHECK(ht_ledger_settle(ledger, false) == 0);
	}
	CHECK(ht_ledger_settle(ledger, true) == 0);
	ht_ledger_total(ledger, &all);
	ht_ledger_counters(ledger, &counters);
	CHECK(all.total.bytes == bytes && all.total.objects == objects);
	CHECK((double)(counters.allocs + counters.reallocs) == objects);
	CHECK((double)counters.live_blocks == all.live.objects);
	CHECK(all.live.bytes >= 0 && all.freed.bytes >= 0);
	/* Of untracked ones that were freed before they came, the free is known. */
	CHECK(all.live.bytes + all.freed.bytes <= bytes);
	CHECK(all.live.bytes + all.freed.bytes >= bytes - untracked);
	CHECK(all.peak.bytes >= all.live.bytes && all.peak.bytes <= bytes);
	for (uint32_t s = 0; s < SITES; s++) {
		ht_ledger_site_figures(ledger, s, &figures);
		CHECK(figures.live.bytes >= 0 && figures.live.objects >= 0);
		seen += figures.total.bytes;
	}
	CHECK(seen == bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct ht_stack stack;
	struct fuzz_input in = { data, data + len };
	struct ht_ledger *ledger;
	uint32_t site;
	uint8_t how = fuzz_byte(&in);

	CHECK(ht_ledger_new(&ledger) == 0);
	for (uint32_t s = 0; s < SITES; s++) {
		stack.n_frames = 1;
		stack.frames[0] = (struct ht_frame){ s + 1, 0, 0 };
		CHECK(ht_ledger_site(ledger, &stack, 0, &site) == 0 && site == s);
	}
	if (how % 2)
		rules_broken(ledger, &in, how / 2 % 8 == 1);
	else
		rules_kept(ledger, &in);
	ht_ledger_free_all(ledger);
	return 0;
}

const unsigned fuzz_runs = 100;

/* Any bytes are as good. */
void fuzz_seed(unsigned i, struct fuzz_output *out)
{
}
