/* SPDX-License-Identifier: Apache-2.0
 *
 * draft.h: a plan in the making, as collect.c, choose.c and plan.c share it. For this
 * folder only.
 */
#ifndef HT_INJECT_DRAFT_H
#define HT_INJECT_DRAFT_H

#include "inject/allocname.h"
#include "inject/image.h"
#include "inject/plan.h"

enum ht_draft_state {
	HT_DRAFT_SITE,		/* to be patched, or refused: what site.refused says */
	HT_DRAFT_INDIRECT,	/* not to be patched; refused if it isn't counted elsewhere */
	HT_DRAFT_DROPPED,	/* counted elsewhere, or not an allocator's */
};

/* One address where an entry is. */
struct ht_draft {
	struct ht_site site;
	size_t image;
	enum ht_draft_state state;
	ht_addr_t patch_addr;
	unsigned replaced_len;	/* 0: can't be moved */
};

/* What is known of an image as an allocator. */
struct ht_candidate {
	ht_addr_t *kinds;	/* address of each entry kind; 0: not there */
	size_t first, end;	/* its drafts */
	bool allocator;		/* has a malloc, and a free if anything may be freed */
	const char *left_out;	/* NULL, or why nothing of it is patched */
	enum ht_family family;
	char name[64];
};

/* The plan as it is handed out, with the texts that its sites point to. */
struct ht_plan_box {
	struct ht_plan plan;
	ht_vec(char *) texts;
};

struct ht_planner {
	struct ht_plan_box *box;
	const struct ht_plan *tapped;		/* its patches are in the memory; NULL: none */
	struct ht_images images;
	struct ht_candidate *candidates;	/* one an image */
	ht_vec(struct ht_draft) drafts;		/* image by image */
	struct ht_map by_addr;			/* target address -> draft */
	struct ht_map by_name;			/* hash of a name -> entry kind */
	const struct ht_draft *broken;		/* the first malloc or free refused */
	size_t compared, unreadable;		/* drafts whose memory was, couldn't be read */
};

/* collect.c: symbols to drafts. 0 or -ENOMEM. */
int ht_planner_collect(struct ht_planner *p) _must_check_ _nonnull_;
/* Index of the entry kind called @name. -ENOENT. */
int64_t ht_planner_kind(const struct ht_planner *p, const char *name, size_t len) _nonnull_;
struct ht_draft *ht_planner_at(const struct ht_planner *p, ht_addr_t addr) _nonnull_;

/* choose.c: which drafts become sites, and which of them are frameless. */
void ht_planner_choose(struct ht_planner *p) _nonnull_;
/* malloc or free under any of the known prefixes. */
bool ht_kind_is_malloc(const struct ht_entry_kind *kind) _nonnull_;
bool ht_kind_is_free(const struct ht_entry_kind *kind) _nonnull_;

static inline const struct ht_image *ht_draft_image(const struct ht_planner *p,
						    const struct ht_draft *d)
{
	return &p->images.all.at[d->image];
}

/* The first reason stays. @why must live as long as the plan. */
static inline void ht_draft_refuse(struct ht_draft *d, const char *why)
{
	if (!d->site.refused)
		d->site.refused = why;
}

static inline bool ht_draft_patched(const struct ht_draft *d)
{
	return d->state == HT_DRAFT_SITE && !d->site.refused;
}

/* obstacle.c: sentences for "can't tap PID: ...". What forbids a plan, before it is made; why
 * there's no allocator in one. Each returns what it left in @err, 0: nothing. */
int ht_planner_obstacle(const struct ht_planner *p, struct ht_err *err) _must_check_
	_nonnull_args_(1);
int ht_planner_no_allocator(const struct ht_planner *p, struct ht_err *err) _must_check_
	_nonnull_args_(1);
/* No module asks for a dynamic loader. */
bool ht_planner_is_static(const struct ht_planner *p) _nonnull_;

/* plan.c: a text that lives as long as the plan. */
const char *ht_planner_text(struct ht_planner *p, const char *fmt, ...) _printf_format_(2, 3);

#endif
