/* SPDX-License-Identifier: Apache-2.0
 *
 * choose.c: which of the entries that were found are worth patching. Modules are tapped as
 * a whole or not at all; bare jumps to a patched entry drop out; what throws needs its
 * sibling; and the entries that reach no other one are told from the rest.
 */
#include "inject/draft.h"

#include <string.h>

#include "inject/reach.h"

#define WRITE_LEN 8	/* bytes that one patch writes */
#define MAX_HOPS 8

/* Levels of calls that are followed. The allocators that are known by name don't get back
 * to their entries through pointers, nor from deeper down but on the way to abort(). What
 * other modules allocate under them (pthread_setspecific) are blocks of their own, and
 * count. */
#define LEVELS_KNOWN 2
#define LEVELS_PROOF 8

/* "malloc", "free" without the prefix that allocators put before them. */
static const char *base_name(const struct ht_entry_kind *kind)
{
	static const char *const prefixes[] = { "je_", "_rjem_", "tc_", "mi_", "__libc_" };

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		size_t len = strlen(prefixes[i]);

		if (!strncmp(kind->name, prefixes[i], len))
			return kind->name + len;
	}
	return kind->name;
}

bool ht_kind_is_malloc(const struct ht_entry_kind *kind)
{
	return !strcmp(base_name(kind), "malloc");
}

bool ht_kind_is_free(const struct ht_entry_kind *kind)
{
	return !strcmp(base_name(kind), "free");
}

static bool is_plain(const struct ht_entry_kind *kind)
{
	return ht_kind_is_malloc(kind) || ht_kind_is_free(kind);
}

/* ---- what is looked for when branches are followed ---- */

static bool goal_at(void *arg, ht_addr_t addr)
{
	const struct ht_draft *d = ht_planner_at(arg, addr);

	return d && ht_draft_patched(d);
}

/* A slot that isn't bound yet may come to mean any function of that name: all of them
 * must be patched. */
static bool goal_named(void *arg, const char *name)
{
	const struct ht_planner *p = arg;
	int64_t kind = ht_planner_kind(p, name, strlen(name));
	bool any = false;

	for (size_t i = 0; kind >= 0 && i < p->images.all.len; i++) {
		ht_addr_t addr = p->candidates[i].kinds[kind];

		if (addr && !goal_at(arg, addr))
			return false;
		any |= addr != 0;
	}
	return any;
}

static struct ht_reach_goal goal_of(struct ht_planner *p)
{
	return (struct ht_reach_goal){ goal_at, goal_named, p };
}

static bool forwards(struct ht_planner *p, const struct ht_draft *d)
{
	struct ht_reach_goal goal = goal_of(p);

	return ht_reach_forwards(&p->images, d->site.addr, &goal);
}

static struct ht_reach_result reach(struct ht_planner *p, const struct ht_draft *d,
				    unsigned levels)
{
	struct ht_reach_goal goal = goal_of(p);

	return ht_reach_from(&p->images, d->site.addr, d->site.size, levels,
			     levels == LEVELS_KNOWN, &goal);
}

/* ---- modules ---- */

static bool is_loader(const struct ht_module *module)
{
	const char *name = ht_module_name(module);

	return !strncmp(name, "ld-linux", 8) || !strncmp(name, "ld-2.", 5) ||
	       !strncmp(name, "ld64.so", 7);
}

/* Blocks that are seen to come but not to go would be leaks that there aren't. */
static void leave_out_broken(struct ht_planner *p, struct ht_candidate *c)
{
	const struct ht_draft *broken = NULL;
	const char *why;

	for (size_t i = c->first; i < c->end && !broken; i++) {
		const struct ht_draft *d = &p->drafts.at[i];

		if (d->state == HT_DRAFT_SITE && d->site.refused && is_plain(d->site.kind) &&
		    !forwards(p, d))
			broken = d;
	}
	if (!broken || c->left_out)
		return;
	c->left_out = ht_planner_text(p, "'%s' can't be patched: %s", broken->site.kind->name,
				      broken->site.refused);
	if (!p->broken)
		p->broken = broken;
	why = ht_planner_text(p, "'%s' of the same module can't be patched",
			      broken->site.kind->name);
	for (size_t i = c->first; i < c->end; i++) {
		if (p->drafts.at[i].state == HT_DRAFT_SITE)
			ht_draft_refuse(&p->drafts.at[i], why);
	}
}

static void choose_modules(struct ht_planner *p)
{
	size_t allocators = 0;

	for (size_t i = 0; i < p->images.all.len; i++)
		allocators += p->candidates[i].allocator;
	for (size_t i = 0; i < p->images.all.len; i++) {
		struct ht_candidate *c = &p->candidates[i];

		/* The loader's own malloc serves it only until libc is there. */
		if (c->allocator && allocators > 1 &&
		    is_loader(p->images.all.at[i].module)) {
			c->allocator = false;
			allocators--;
		}
		if (c->allocator)
			leave_out_broken(p, c);
		for (size_t j = c->first; j < c->end && !c->allocator; j++)
			p->drafts.at[j].state = HT_DRAFT_DROPPED;
	}
}

/* ---- entries ---- */

/* A bare jump to a patched entry would count the same block twice. */
static void drop_forwarders(struct ht_planner *p)
{
	struct ht_draft *d;

	ht_vec_foreach(d, &p->drafts) {
		if (d->state == HT_DRAFT_SITE && forwards(p, d))
			d->state = HT_DRAFT_DROPPED;
	}
}

static const struct ht_draft *too_near(const struct ht_planner *p, const struct ht_draft *d,
				       const struct ht_candidate *c)
{
	for (size_t i = c->first; i < c->end; i++) {
		const struct ht_draft *other = &p->drafts.at[i];

		if (other != d && ht_draft_patched(other) &&
		    d->patch_addr - other->patch_addr < WRITE_LEN)
			return other;
	}
	return NULL;
}

/* Two patches whose written words overlap would each restore a part of the other. */
static void refuse_overlaps(struct ht_planner *p, const struct ht_candidate *c)
{
	for (size_t i = c->first; i < c->end; i++) {
		struct ht_draft *d = &p->drafts.at[i];
		const struct ht_draft *other;

		if (!ht_draft_patched(d))
			continue;
		other = too_near(p, d, c);
		if (!other)
			continue;
		d->site.refusal = HT_INSN_TOO_SHORT;
		ht_draft_refuse(d, ht_planner_text(p, "it is too near '%s', which is patched",
						   other->site.kind->name));
	}
}

/* What is patched at the end of the chain of bare jumps that begins at @addr, else
 * @addr. */
static ht_addr_t end_of_jumps(const struct ht_planner *p, ht_addr_t addr)
{
	ht_addr_t at = addr;
	struct ht_slot slot;

	for (int hops = 0; hops < MAX_HOPS; hops++) {
		const struct ht_draft *d = ht_planner_at(p, at);

		if (d && ht_draft_patched(d))
			return at;
		if (!ht_images_forward(&p->images, at, &slot) || !slot.target)
			break;
		at = slot.target;
	}
	return addr;
}

/* What throws is called through its nothrow sibling where a sample needs a frame. */
static void find_sibling(struct ht_planner *p, struct ht_draft *d)
{
	const struct ht_entry_kind *kind = d->site.kind;
	ht_addr_t addr = 0;
	int64_t sibling;

	if (kind->call != HT_CALL_NEW || !ht_draft_patched(d))
		return;
	sibling = ht_planner_kind(p, kind->nothrow, strlen(kind->nothrow));
	if (sibling >= 0)
		addr = p->candidates[d->image].kinds[sibling];
	if (addr)
		d->site.nothrow_addr = end_of_jumps(p, addr);
	/* Static programs link only what they use; their operator new is malloc in a loop,
	 * which counts. */
	else if (reach(p, d, LEVELS_KNOWN).reach == HT_REACH_SITE)
		d->state = HT_DRAFT_DROPPED;
	else
		ht_draft_refuse(d, ht_planner_text(p, "it throws, and its module has no '%s'",
						   kind->nothrow));
}

/* ---- what isn't patched ---- */

/* Entries of the table that do all of their work through another one, whatever the build.
 * (Others do for some sizes only.) */
static bool is_indirect(const struct ht_entry_kind *kind, enum ht_family family)
{
	static const char *const names[] = {
		"reallocarray", "__libc_reallocarray", "mi_valloc", "mi_pvalloc",
		"mi_reallocarray", "mi_memalign", "mi_aligned_alloc", "mi_aligned_recalloc",
		"mi_aligned_offset_recalloc", "mi_free_size", "mi_free_size_aligned",
		"mi_free_aligned",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(kind->name, names[i]))
			return true;
	}
	/* musl's is a jump to memalign; static programs often don't say that they are musl's. */
	if (family == HT_FAMILY_MUSL || family == HT_FAMILY_OTHER)
		return !strcmp(kind->name, "valloc") || kind->call == HT_CALL_INDIRECT;
	return kind->call == HT_CALL_INDIRECT;
}

/* Inlined, the other entry isn't called: the code must say so, too. */
static bool reaches_entry(struct ht_planner *p, const struct ht_draft *d)
{
	return forwards(p, d) || reach(p, d, LEVELS_KNOWN).reach == HT_REACH_SITE;
}

/* What is passed to @kind can be passed on to @other, to the same end. */
static bool same_arguments(const struct ht_entry_kind *kind, const struct ht_entry_kind *other)
{
	bool gives = kind->call == HT_CALL_ALLOC || kind->call == HT_CALL_NEW;
	bool other_gives = other->call == HT_CALL_ALLOC || other->call == HT_CALL_NEW;

	return (kind->call == other->call || (gives && other_gives)) &&
	       kind->size_arg == other->size_arg && kind->count_arg == other->count_arg &&
	       kind->old_arg == other->old_arg && kind->out_arg == other->out_arg;
}

/* The code at @addr, or behind bare jumps from there, is an entry that counts what @kind
 * would have: patched, or dropped because what it calls counts it. */
static bool counts_for(const struct ht_planner *p, const struct ht_entry_kind *kind,
		       ht_addr_t addr)
{
	struct ht_slot slot;

	for (int hops = 0; hops < MAX_HOPS && addr; hops++) {
		const struct ht_draft *d = ht_planner_at(p, addr);

		if (d && (ht_draft_patched(d) || (d->state == HT_DRAFT_DROPPED &&
						  p->candidates[d->image].allocator)))
			return same_arguments(kind, d->site.kind);
		if (!ht_images_forward(&p->images, addr, &slot))
			return false;
		addr = slot.target;
	}
	return false;
}

/* It only calls another entry, as libstdc++'s nothrow operator new does: whatever it is
 * asked for is counted there. */
static bool wraps_entry(struct ht_planner *p, const struct ht_draft *d)
{
	struct ht_slot slot;

	return ht_images_wraps(&p->images, d->site.addr, d->site.size, &slot) &&
	       counts_for(p, d->site.kind, slot.target);
}

static void judge(struct ht_planner *p, struct ht_draft *d)
{
	if (d->state == HT_DRAFT_SITE && d->site.refused)
		d->site.counted = wraps_entry(p, d) ||
				  (is_indirect(d->site.kind,
					       p->candidates[d->image].family) &&
				   reaches_entry(p, d));
	if (d->state != HT_DRAFT_INDIRECT)
		return;
	d->state = HT_DRAFT_DROPPED;
	if (reaches_entry(p, d))
		return;
	d->state = HT_DRAFT_SITE;
	ht_draft_refuse(d, "it calls none of the functions that are tapped");
}

/* ---- frameless ---- */

static bool sole_allocator(const struct ht_planner *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->images.all.len; i++)
		n += p->candidates[i].allocator;
	return n == 1;
}

/* What a stub can do without a frame: count down, or look into the filter. */
static bool is_simple(enum ht_call call)
{
	return call == HT_CALL_ALLOC || call == HT_CALL_NEW || call == HT_CALL_FREE;
}

static bool is_frameless(struct ht_planner *p, const struct ht_draft *d)
{
	bool known = p->candidates[d->image].family != HT_FAMILY_OTHER;
	bool plain = is_plain(d->site.kind);
	struct ht_reach_result r;

	if (!is_simple(d->site.kind->call))
		return false;
	/* A program's own malloc may sit on another one, which it calls through a pointer that
	 * dlsym() found, from wherever it likes. */
	r = reach(p, d, known || (plain && sole_allocator(p)) ? LEVELS_KNOWN : LEVELS_PROOF);
	if (r.reach == HT_REACH_SITE)
		return false;
	if (r.reach == HT_REACH_NONE || (known && !r.blind))
		return true;
	return plain && sole_allocator(p);
}

void ht_planner_choose(struct ht_planner *p)
{
	struct ht_draft *d;

	choose_modules(p);
	drop_forwarders(p);
	for (size_t i = 0; i < p->images.all.len; i++) {
		refuse_overlaps(p, &p->candidates[i]);
		leave_out_broken(p, &p->candidates[i]);
	}
	for (size_t i = 0; i < p->images.all.len; i++) {
		const struct ht_image *image = &p->images.all.at[i];
		struct ht_candidate *c = &p->candidates[i];

		if (c->allocator)
			c->family = ht_allocator_name(&image->view, ht_module_name(image->module),
						      c->name, sizeof(c->name));
	}
	ht_vec_foreach(d, &p->drafts)
		find_sibling(p, d);
	ht_vec_foreach(d, &p->drafts) {
		if (ht_draft_patched(d))
			d->site.frameless = is_frameless(p, d);
	}
	ht_vec_foreach(d, &p->drafts)
		judge(p, d);
}
