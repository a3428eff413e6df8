/* SPDX-License-Identifier: Apache-2.0
 *
 * reach.c: see reach.h. A search over functions, nearest first, each taken whole as unwind
 * data bounds it, with a budget in bytes: the code may be anything.
 */
#include "inject/reach.h"

#include <string.h>

#include "arch/arch.h"
#include "inject/elfsym.h"

#define MAX_HOPS 8
#define MAX_CODE (1 << 20)	/* bytes decoded for one entry */

struct function {
	ht_addr_t start;
	size_t len;
	unsigned level;
};

struct search {
	const struct ht_images *images;
	const struct ht_reach_goal *goal;
	unsigned levels;
	const struct ht_image *home;	/* NULL: look into other modules as well */
	ht_vec(struct function) queue;	/* by level: appended in that order */
	struct ht_map queued;
	struct function at;
	bool found;
	bool pointers;		/* something called through a pointer */
	bool cut;		/* something was not looked into: too deep, too much */
	bool blind;		/* something can't be looked into */
};

enum hop {
	HOP_CODE,	/* ends at code that is no bare jump */
	HOP_GOAL,
	HOP_UNBOUND,	/* ends in a slot that isn't bound yet */
	HOP_ROUND,
};

/* Follow bare jumps from @addr on. */
static enum hop follow(const struct ht_images *images, const struct ht_reach_goal *goal,
		       ht_addr_t addr, ht_addr_t *ret_code, struct ht_slot *slot)
{
	for (int hops = 0; hops < MAX_HOPS; hops++) {
		if (goal->at(goal->arg, addr))
			return HOP_GOAL;
		if (!ht_images_forward(images, addr, slot)) {
			*ret_code = addr;
			return HOP_CODE;
		}
		if (!slot->target)
			return goal->named(goal->arg, slot->name) ? HOP_GOAL : HOP_UNBOUND;
		addr = slot->target;
	}
	return HOP_ROUND;
}

static void enqueue(struct search *s, ht_addr_t addr, unsigned level)
{
	struct function *f;
	ht_addr_t start;
	size_t len;

	if (s->home && ht_images_of(s->images, addr) != s->home)
		return;
	if (level >= s->levels) {
		s->cut = true;
		return;
	}
	if (!ht_images_function(s->images, addr, &start, &len)) {
		s->blind = true;
		return;
	}
	if (ht_map_get(&s->queued, start))
		return;
	f = ht_vec_push(&s->queue);
	if (!f || ht_map_put(&s->queued, start, 1) < 0) {
		s->cut = true;
		return;
	}
	*f = (struct function){ start, len, level };
}

/* Where a slot will lead is known by its name only: to one of the functions that have it.
 * Within home, its own function of that name is what matters. */
static void go_to_unbound(struct search *s, const char *name, unsigned level)
{
	const struct ht_image *image;
	bool any = s->home != NULL;

	ht_vec_foreach(image, &s->images->all) {
		struct ht_elf_symbol sym;
		ht_addr_t addr;

		/* What others don't export isn't meant. */
		if ((s->home ? image != s->home :
			       ht_elfdyn_find_dynamic(&image->view, name) < 0) ||
		    ht_elfdyn_symbol(&image->view, name, &sym) < 0)
			continue;
		addr = sym.value + image->bias;
		if (sym.ifunc)
			addr = ht_images_ifunc(s->images, image, name, addr);
		if (addr) {
			any = true;
			enqueue(s, addr, level);
		} else {
			s->cut = true;
		}
	}
	if (!any)
		s->cut = true;
}

static void go_to(struct search *s, ht_addr_t addr, unsigned level)
{
	struct ht_slot slot;

	switch (follow(s->images, s->goal, addr, &addr, &slot)) {
	case HOP_GOAL:
		s->found = true;
		break;
	case HOP_CODE:
		enqueue(s, addr, level);
		break;
	case HOP_UNBOUND:
		go_to_unbound(s, slot.name, level);
		break;
	case HOP_ROUND:
		s->blind = true;
		break;
	}
}

static void go_through(struct search *s, ht_addr_t at, unsigned level)
{
	struct ht_slot slot;

	if (!ht_images_slot(s->images, at, &slot))
		s->pointers = true;
	else if (slot.target)
		go_to(s, slot.target, level);
	else if (s->goal->named(s->goal->arg, slot.name))
		s->found = true;
	else
		go_to_unbound(s, slot.name, level);
}

static void visit(void *arg, const struct ht_flow *flow)
{
	struct search *s = arg;

	switch (flow->kind) {
	case HT_FLOW_JUMP:
		/* Within the function, and not a restart of an entry. What a jump out of it
		 * leads to (.cold parts, tail calls) is as near as the jump. */
		if (flow->target - s->at.start >= s->at.len ||
		    s->goal->at(s->goal->arg, flow->target))
			go_to(s, flow->target, s->at.level);
		break;
	case HT_FLOW_CALL:
		go_to(s, flow->target, s->at.level + 1);
		break;
	case HT_FLOW_SLOT:
		go_through(s, flow->target, s->at.level + 1);
		break;
	case HT_FLOW_UNKNOWN:
		s->pointers = true;
		break;
	}
}

/* The nearest function that was not looked at yet. */
static bool next(struct search *s, size_t *done, struct function *ret)
{
	size_t best = *done;

	if (*done >= s->queue.len)
		return false;
	for (size_t i = *done + 1; i < s->queue.len; i++) {
		if (s->queue.at[i].level < s->queue.at[best].level)
			best = i;
	}
	*ret = s->queue.at[best];
	s->queue.at[best] = s->queue.at[*done];
	(*done)++;
	return true;
}

static bool look_into(struct search *s)
{
	struct ht_image *image;
	const uint8_t *code;
	size_t len;

	code = ht_images_code(s->images, s->at.start, &image, &len);
	if (!code || len < s->at.len)
		return false;
	return !ht_insn_flow(code, s->at.len, s->at.start, visit, s);
}

struct ht_reach_result ht_reach_from(const struct ht_images *images, ht_addr_t addr,
				     size_t len, unsigned levels, bool stay_home,
				     const struct ht_reach_goal *goal)
{
	struct search s = { .images = images, .goal = goal, .levels = levels };
	struct ht_reach_result result = { HT_REACH_UNKNOWN, false };
	size_t done = 0, code = len;

	s.home = stay_home ? ht_images_of(images, addr) : NULL;
	s.at = (struct function){ addr, len, 0 };
	if (ht_map_put(&s.queued, addr, 1) < 0 || !look_into(&s))
		s.blind = true;
	while (!s.found && next(&s, &done, &s.at)) {
		code += s.at.len;
		if (code > MAX_CODE) {
			s.cut = true;
			break;
		}
		s.blind |= !look_into(&s);
	}
	result.blind = s.blind;
	if (s.found)
		result.reach = HT_REACH_SITE;
	else if (!s.cut && !s.pointers && !s.blind)
		result.reach = HT_REACH_NONE;
	ht_map_fini(&s.queued);
	ht_vec_fini(&s.queue);
	return result;
}

bool ht_reach_forwards(const struct ht_images *images, ht_addr_t addr,
		       const struct ht_reach_goal *goal)
{
	struct ht_slot slot;

	if (!ht_images_forward(images, addr, &slot))
		return false;
	if (!slot.target)
		return goal->named(goal->arg, slot.name);
	return follow(images, goal, slot.target, &addr, &slot) == HOP_GOAL;
}
