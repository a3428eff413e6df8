/* SPDX-License-Identifier: Apache-2.0
 *
 * truth_kinds: as truth, for every entry of the table of allocator entries that the process
 * has. The protocol is that of truth.c. Run under each allocator (LD_PRELOAD).
 *
 * Blocks from entry N of the table are counted for site_new_N, what it gets to free or to
 * resize for site_old_N.
 */
#include "entry_args.h"
#include "truth_count.h"

#define SITE __attribute__((noinline))
#define MAX_KINDS 200
#define HELD 64

#define TEN(x, n) \
	x(n##0) x(n##1) x(n##2) x(n##3) x(n##4) x(n##5) x(n##6) x(n##7) x(n##8) x(n##9)
#define HUNDRED(x, n) \
	TEN(x, n##0) TEN(x, n##1) TEN(x, n##2) TEN(x, n##3) TEN(x, n##4) \
	TEN(x, n##5) TEN(x, n##6) TEN(x, n##7) TEN(x, n##8) TEN(x, n##9)
#define ALL(x, prefix) HUNDRED(x, prefix##_0) HUNDRED(x, prefix##_1)

#define CALLER(name)                                                                      \
	static SITE uint64_t name(any_fn fn, const uint64_t a[6])                         \
	{                                                                                 \
		return fn(a[0], a[1], a[2], a[3], a[4], a[5]);                            \
	}
ALL(CALLER, site_new)
ALL(CALLER, site_old)

#define ROW(f) { f, { .name = #f } },
static struct caller {
	uint64_t (*call)(any_fn fn, const uint64_t a[6]);
	struct truth_site site;
} makers[MAX_KINDS] = { ALL(ROW, site_new) }, olds[MAX_KINDS] = { ALL(ROW, site_old) };

static struct {
	any_fn fn;		/* NULL: not here */
	any_fn malloc;
	struct truth_block held[HELD];
} kinds[MAX_KINDS];

static void drop(struct truth_block *block)
{
	void *ptr = block->ptr;

	truth_gone(block);
	free(ptr);
}

/* Size 0, as some take it, is left to truth.c. */
static size_t size_for(const struct ht_entry_kind *kind, unsigned i)
{
	/* In place, so it can only shrink. */
	if (strstr(kind->name, "_expand"))
		return 90 + i % 10;
	return possible_size(kind, 100 + i * 37 % 900);
}

static struct truth_block make_old(size_t n, size_t size)
{
	const uint64_t args[6] = { size };
	uint64_t ptr = olds[n].call(kinds[n].malloc, args);

	return truth_took(&olds[n].site, (void *)(uintptr_t)ptr, size);
}

/* Call entry @n for @size bytes (@count times); what came of @old and of it is returned. */
static struct truth_block call(size_t n, size_t size, size_t count, struct truth_block old)
{
	const struct ht_entry_kind *kind = shape_of(&ht_entry_kinds[n]);
	struct truth_site *site = &makers[n].site;
	struct truth_block copied;
	void *out = NULL, *block;
	uint64_t args[6], r;

	entry_args(kind, size, count, old.ptr, old.size, &out, args);
	r = makers[n].call(kinds[n].fn, args);
	block = (void *)(uintptr_t)r;
	if (kind->out_arg >= 0)
		block = (uint32_t)r ? NULL : out;
	if (kind->call == HT_CALL_RESIZE)
		block = r >= size ? old.ptr : NULL;
	if (kind->call == HT_CALL_FREE)
		block = NULL;
	else if (!block && kind->call != HT_CALL_REALLOCF)
		return old;
	truth_gone(&old);
	if (is_realpath(kind)) {
		/* The one of libc, of which it makes its own. */
		copied = truth_took(site, block, size);
		truth_gone(&copied);
	}
	return truth_took(site, block, size * count);
}

static void run_kind(size_t n)
{
	const struct ht_entry_kind *kind = shape_of(&ht_entry_kinds[n]);
	struct truth_block none = { NULL, 0, NULL, 0, 0 };

	for (unsigned i = 0; i < 100 * truth_scale(); i++) {
		struct truth_block *held = &kinds[n].held[i % HELD];
		size_t count = kind->count_arg >= 0 ? 1 + i % 3 : 1;
		size_t size = size_for(kind, i) / count;

		drop(held);
		*held = call(n, size, count,
			     kind->old_arg >= 0 ? make_old(n, 100 + i * 31 % 900) : none);
	}
}

static void run_kinds(void)
{
	for (size_t n = 0; n < ht_entry_kinds_len; n++)
		if (kinds[n].fn)
			run_kind(n);
}

static void prepare_kinds(void)
{
	if (ht_entry_kinds_len > MAX_KINDS)
		abort();
	variable_of(1);
	for (size_t n = 0; n < ht_entry_kinds_len; n++) {
		void *fn = fn_named(ht_entry_kinds[n].name);

		if (!fn || !of_the_allocator(fn) || !is_callable(shape_of(&ht_entry_kinds[n])))
			continue;
		kinds[n].fn = (any_fn)fn;
		kinds[n].malloc = malloc_for(ht_entry_kinds[n].name);
	}
}

/*
 * Sites with few samples: 0.2 to 20 of them are to be expected, of blocks of one size or of
 * several. Half of the blocks stay until the next round.
 */
#define FEW_HELD 65536
static struct truth_block few[FEW_HELD];

static size_t run_few_at(unsigned n, size_t held)
{
	static const size_t sizes[] = { 512, 4096, 32768 };
	double bytes = 0.2 * (n + 1) * truth_interval();

	for (unsigned i = 0; bytes > 0 && held < FEW_HELD; i++) {
		size_t size = n % 2 ? sizes[i % 3] : 1024;
		const uint64_t args[6] = { size };
		void *ptr = (void *)(uintptr_t)makers[n].call(malloc_for(""), args);

		few[held] = truth_took(&makers[n].site, ptr, size);
		bytes -= (double)size;
		if (i % 2)
			drop(&few[held]);
		else
			held++;
	}
	return held;
}

static void run_few(void)
{
	size_t held = 0;

	for (size_t i = 0; i < FEW_HELD; i++)
		drop(&few[i]);
	for (unsigned n = 0; n < 100; n++)
		held = run_few_at(n, held);
}

/* A heap of mimalloc's that goes with all of its blocks. */
static void run_heap(void)
{
	any_fn new = (any_fn)fn_named("mi_heap_new"), destroy = (any_fn)fn_named("mi_heap_destroy");
	any_fn take = (any_fn)fn_named("mi_heap_malloc");
	uint64_t heap;

	if (!new || !destroy || !take)
		return;
	heap = new(0, 0, 0, 0, 0, 0);
	for (int i = 0; i < 10; i++)
		take(heap, 100, 0, 0, 0, 0);
	destroy(heap, 0, 0, 0, 0, 0);
}

int main(int argc, char **argv)
{
	static const struct truth_workload workloads[] = {
		{ "kinds", prepare_kinds, run_kinds, 0 },
		{ "few", NULL, run_few, 0 },
		{ "heap", NULL, run_heap, 0 },
	};

	return truth_main(argc, argv, workloads, 3);
}
