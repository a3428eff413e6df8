/* SPDX-License-Identifier: Apache-2.0
 *
 * dies.c: which function, and which calls inlined into it, an address belongs to.
 *
 * dwarf_getscopes() reads a unit's whole tree at each question, which is far too slow for
 * large units; here the functions of a unit are listed once and only one is descended.
 */
#include "symbol/symbol-priv.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#define MAX_DEPTH 200
#define MAX_RANGES (4 << 20)
#define MAX_WALK 64
#define LOOKUP_BUDGET 200000

struct func {
	uint64_t lo;
	uint64_t hi;
	uint64_t max_hi;	/* of this and all before */
	Dwarf_Off off;
};

struct ht_dies {
	const struct ht_split *split;	/* or NULL */
	ht_vec(struct func) funcs;
};

static bool spend(size_t *budget)
{
	if (*budget == 0)
		return false;
	(*budget)--;
	return true;
}

static int add_func(struct ht_dies *dies, Dwarf_Die *die, size_t *budget)
{
	struct ht_pcs_at at = { .offset = 0 };
	struct func *func;
	bool first = true;
	uint64_t lo, hi;

	for (; ht_pcs_next(dies->split, die, &at, &lo, &hi); first = false) {
		if (!first && !spend(budget))
			return -E2BIG;
		/* Functions that the linker dropped stay behind at 0 or at the top. */
		if (lo == 0 || lo >= hi || lo >= UINT64_MAX - 4096)
			continue;
		if (dies->funcs.len >= MAX_RANGES)
			return -E2BIG;
		func = ht_vec_push(&dies->funcs);
		if (!func)
			return -ENOMEM;
		*func = (struct func){ .lo = lo, .hi = hi, .off = dwarf_dieoffset(die) };
	}
	return 0;
}

/* Only these have functions somewhere below them; those inside of functions, if they are
 * looked for. */
static bool has_functions_below(int tag, bool nested)
{
	switch (tag) {
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
		return nested;
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
		return true;
	default:
		return false;
	}
}

/* A walk over a tree goes forward only: children come behind their parent, siblings behind
 * those. Not where an attribute says otherwise of where the next sibling is: such a file
 * could be walked for ever. */
static bool goes_on(Dwarf_Die *die, Dwarf_Off *last)
{
	Dwarf_Off off = dwarf_dieoffset(die);

	if (off <= *last)
		return false;
	*last = off;
	return true;
}

struct listing {
	struct ht_dies *dies;
	Dwarf_Die *cu;
	bool nested;
	size_t *budget;
	Dwarf_Off last;
	int r;
};

static int visit(struct listing *l, Dwarf_Die *parent, unsigned depth)
{
	Dwarf_Die die;
	int r = dwarf_child(parent, &die), tag;

	for (; r == 0 && goes_on(&die, &l->last); r = dwarf_siblingof(&die, &die)) {
		if (!spend(l->budget))
			return -E2BIG;
		tag = dwarf_tag(&die);
		if (tag == DW_TAG_subprogram && (r = add_func(l->dies, &die, l->budget)) < 0)
			return r;
		if (depth < MAX_DEPTH && has_functions_below(tag, l->nested) &&
		    (r = visit(l, &die, depth + 1)) < 0)
			return r;
	}
	return 0;
}

static void visit_all(void *arg)
{
	struct listing *l = arg;

	l->r = visit(l, l->cu, 0);
}

static int by_lo(const void *a_, const void *b_)
{
	const struct func *a = a_, *b = b_;

	if (a->lo != b->lo)
		return a->lo < b->lo ? -1 : 1;
	return a->hi != b->hi ? (a->hi > b->hi ? -1 : 1) : 0;
}

static int list(struct ht_dies *dies, Dwarf_Die *cu, bool nested, size_t *budget)
{
	struct listing listing = { dies, cu, nested, budget, dwarf_dieoffset(cu), 0 };
	struct func *func;
	uint64_t max_hi = 0;
	int r;

	ht_vec_clear(&dies->funcs);
	r = ht_oom_try(visit_all, &listing) ? listing.r : -ENOMEM;
	if (dies->funcs.len)
		qsort(dies->funcs.at, dies->funcs.len, sizeof(*func), by_lo);
	ht_vec_foreach(func, &dies->funcs) {
		max_hi = ht_max(max_hi, func->hi);
		func->max_hi = max_hi;
	}
	return r;
}

int ht_dies_new(Dwarf_Die *cu, const struct ht_split *split, size_t *budget,
		struct ht_dies **ret_dies)
{
	struct ht_dies *dies = calloc(1, sizeof(*dies));
	int r;

	if (!dies)
		return -ENOMEM;
	dies->split = split;
	r = list(dies, cu, false, budget);
	if (r < 0)
		ht_dies_free(dies);
	else
		*ret_dies = dies;
	return ht_min(r, 0);
}

int ht_dies_add_nested(struct ht_dies *dies, Dwarf_Die *cu, size_t *budget)
{
	return ht_min(list(dies, cu, true, budget), 0);
}

struct ht_dies *ht_dies_free(struct ht_dies *dies)
{
	if (dies)
		ht_vec_fini(&dies->funcs);
	free(dies);
	return NULL;
}

static const struct func *find(const struct ht_dies *dies, uint64_t addr)
{
	size_t lo = 0, hi = dies->funcs.len, mid, steps;
	const struct func *func;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (dies->funcs.at[mid].lo <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (steps = 0; lo > 0 && steps < MAX_WALK; steps++) {
		func = &dies->funcs.at[--lo];
		if (addr < func->hi)
			return func;
		if (addr >= func->max_hi)
			break;
	}
	return NULL;
}

static bool is_block(int tag)
{
	return tag == DW_TAG_lexical_block || tag == DW_TAG_try_block ||
	       tag == DW_TAG_catch_block || tag == DW_TAG_with_stmt;
}

static bool has_place(Dwarf_Die *die)
{
	return dwarf_hasattr(die, DW_AT_low_pc) || dwarf_hasattr(die, DW_AT_ranges);
}

struct descent {
	const struct ht_split *split;
	uint64_t addr;
	size_t budget;
	Dwarf_Die *chain;
	size_t len;
	size_t max;
	Dwarf_Off last;
};

/* dwarf_haspc() would read lists of any length. */
static bool is_at(struct descent *d, Dwarf_Die *die)
{
	struct ht_pcs_at at = { .offset = 0 };
	bool first = true;
	uint64_t lo, hi;

	for (; ht_pcs_next(d->split, die, &at, &lo, &hi); first = false) {
		if (!first && !spend(&d->budget))
			return false;
		if (d->addr >= lo && d->addr < hi)
			return true;
	}
	return false;
}

/* True when the scope that holds the address was found below @parent. */
static bool descend(struct descent *d, Dwarf_Die *parent, unsigned depth)
{
	Dwarf_Die die;
	int r = dwarf_child(parent, &die), tag;
	bool inlined;

	for (; r == 0; r = dwarf_siblingof(&die, &die)) {
		if (!goes_on(&die, &d->last) || !spend(&d->budget))
			return true;
		tag = dwarf_tag(&die);
		inlined = tag == DW_TAG_inlined_subroutine;
		if ((!inlined && !is_block(tag)) || depth >= MAX_DEPTH)
			continue;
		if (is_at(d, &die)) {
			if (inlined && d->len < d->max)
				d->chain[d->len++] = die;
			descend(d, &die, depth + 1);
			return true;
		}
		/* A block without a place of its own is transparent. */
		if (!inlined && !has_place(&die) && descend(d, &die, depth + 1))
			return true;
	}
	return false;
}

size_t ht_dies_chain(const struct ht_dies *dies, Dwarf *dwarf, uint64_t addr,
		     Dwarf_Die *chain, size_t max)
{
	const struct func *func = find(dies, addr);
	struct descent descent = { dies->split, addr, LOOKUP_BUDGET, chain, 1, max, 0 };

	if (!func || max == 0 || !dwarf_offdie(dwarf, func->off, &chain[0]))
		return 0;
	descent.last = func->off;
	descend(&descent, &chain[0], 0);
	return descent.len;
}
