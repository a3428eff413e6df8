/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c: what is to be patched, decided while the target runs.
 *
 *	collect	 (collect.c) symbols to drafts, one an address
 *	measure	 can the first bytes be moved, and are they those of the file
 *	scan	 does other code of the module branch into them
 *	choose	 (choose.c) modules, duplicates, siblings, frameless entries
 *
 * Nothing is written to the target. All that it says is checked; what can't be patched
 * safely is refused by name.
 */
#include "inject/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "inject/draft.h"

#define PAGE 4096
#define COMPARE_MAX 64
#define NEAR (64 << 20)	/* some place in reach of the module's code and data */

const char *ht_planner_text(struct ht_planner *p, const char *fmt, ...)
{
	char **slot = ht_vec_push(&p->box->texts);
	va_list args;
	int r;

	if (!slot)
		return "out of memory";
	va_start(args, fmt);
	r = vasprintf(slot, fmt, args);
	va_end(args);
	if (r < 0)
		*slot = NULL;
	return r < 0 ? "out of memory" : *slot;
}

/* Where nothing calls free, a static program has none. */
static bool is_allocator(const struct ht_candidate *c, bool is_static)
{
	bool m = false, f = false;

	for (size_t k = 0; k < ht_entry_kinds_len; k++) {
		m |= c->kinds[k] && ht_kind_is_malloc(&ht_entry_kinds[k]);
		f |= c->kinds[k] && ht_kind_is_free(&ht_entry_kinds[k]);
	}
	return m && (f || is_static);
}

/* ---- measure ---- */

static const char *hex(char out[3 * COMPARE_MAX + 1], const uint8_t *bytes, size_t len)
{
	out[0] = 0;
	for (size_t i = 0; i < len; i++)
		snprintf(out + 3 * i, 4, i + 1 < len ? "%02x " : "%02x", bytes[i]);
	return out;
}

static bool is_tapped(const struct ht_planner *p, ht_addr_t addr)
{
	for (size_t i = 0; p->tapped && i < p->tapped->n_sites; i++) {
		const struct ht_site *site = &p->tapped->sites[i];

		if (site->addr == addr && !site->refused)
			return true;
	}
	return false;
}

/* Somebody else's breakpoint or hook shows as a difference from the file. */
static void compare(struct ht_planner *p, struct ht_draft *d, const uint8_t *code, size_t len)
{
	char now[3 * COMPARE_MAX + 1], then[3 * COMPARE_MAX + 1];
	uint8_t memory[COMPARE_MAX];
	int r;

	len = ht_min(len, sizeof(memory));
	p->compared++;
	r = ht_images_read(&p->images, d->site.addr, memory, len);
	if (r < 0) {
		p->unreadable++;
		ht_draft_refuse(d, ht_planner_text(p, "its memory can't be read: %s", strerror(-r)));
		return;
	}
	if (memcmp(memory, code, len))
		ht_draft_refuse(d, ht_planner_text(p, "its first bytes are %s, not %s as in the file: another hook or a breakpoint",
						   hex(now, memory, len), hex(then, code, len)));
}

static void measure(struct ht_planner *p, struct ht_draft *d)
{
	struct ht_site *site = &d->site;
	size_t len, fde, same = sizeof(site->original);
	struct ht_moved moved;
	struct ht_image *image;
	const uint8_t *code;
	ht_addr_t start;

	code = ht_images_code(&p->images, site->addr, &image, &len);
	if (!code || image != ht_draft_image(p, d)) {
		ht_draft_refuse(d, "its symbol points to no code of its module");
		return;
	}
	if (!site->size && ht_images_function(&p->images, site->addr, &start, &fde))
		site->size = start + fde - site->addr;
	site->size = ht_min(site->size, (uint64_t)len);
	memcpy(site->original, code, ht_min(len, sizeof(site->original)));
	/* Whether it can be moved, not where to: the real place is found with the stubs. */
	site->refusal = ht_insn_move(code, site->size, site->addr,
				     ht_align_down(site->addr, (ht_addr_t)PAGE) + NEAR, &moved);
	if (site->refusal) {
		ht_draft_refuse(d, ht_insn_refusal_text(site->refusal));
	} else {
		d->patch_addr = moved.patch_addr;
		d->replaced_len = moved.replaced_len;
		same = ht_max(same, moved.patch_addr - site->addr + moved.replaced_len);
	}
	if (!is_tapped(p, site->addr))
		compare(p, d, code, ht_min(len, same));
}

/* ---- scan ---- */

struct scan {
	struct ht_planner *p;
	const struct ht_image *image;
	const struct ht_candidate *candidate;
};

/* Bytes that look like a branch are one unless decoding the function shows otherwise. */
static bool is_branch(const struct scan *s, ht_addr_t pc)
{
	struct ht_image *image;
	const uint8_t *code;
	ht_addr_t start;
	size_t len, left;

	if (!ht_images_function(&s->p->images, pc, &start, &len))
		return true;
	code = ht_images_code(&s->p->images, start, &image, &left);
	return !code || ht_insn_boundary(code, ht_min(left, len), pc - start) != 0;
}

static void branch_found(void *arg, ht_addr_t pc, ht_addr_t target)
{
	const struct scan *s = arg;

	for (size_t i = s->candidate->first; i < s->candidate->end; i++) {
		struct ht_draft *d = &s->p->drafts.at[i];

		if (target <= d->patch_addr || target - d->patch_addr >= d->replaced_len ||
		    d->site.refused || !is_branch(s, pc))
			continue;
		d->site.refusal = HT_INSN_BRANCH_BACK;
		ht_draft_refuse(d, ht_planner_text(s->p, "code at " HT_PRIxADDR " of its module branches into its first bytes",
						   pc - s->image->bias));
	}
}

static int by_start(const void *a, const void *b)
{
	const struct ht_code_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Where no branch may go, sorted and without overlap. */
static size_t forbidden(const struct ht_planner *p, const struct ht_candidate *c,
			struct ht_code_range *ranges)
{
	size_t n = 0, merged = 0;

	for (size_t i = c->first; i < c->end; i++) {
		const struct ht_draft *d = &p->drafts.at[i];

		if (d->replaced_len)
			ranges[n++] = (struct ht_code_range){ d->patch_addr + 1,
							      d->patch_addr + d->replaced_len };
	}
	qsort(ranges, n, sizeof(*ranges), by_start);
	for (size_t i = 1; i < n; i++) {
		if (ranges[i].start > ranges[merged].end)
			ranges[++merged] = ranges[i];
		else
			ranges[merged].end = ht_max(ranges[merged].end, ranges[i].end);
	}
	return n ? merged + 1 : 0;
}

static int scan_image(struct ht_planner *p, size_t i)
{
	struct scan s = { p, &p->images.all.at[i], &p->candidates[i] };
	struct ht_code_range *ranges;
	size_t n;

	ranges = calloc(s.candidate->end - s.candidate->first + 1, sizeof(*ranges));
	if (!ranges)
		return -ENOMEM;
	n = forbidden(p, s.candidate, ranges);
	for (unsigned l = 0; l < s.image->view.n_loads; l++) {
		const struct ht_elf_load *load = &s.image->view.loads[l];

		if (load->exec)
			ht_insn_scan_into(load->bytes, load->filesz, load->vaddr + s.image->bias,
					  ranges, n, branch_found, &s);
	}
	free(ranges);
	return 0;
}

/* ---- the result ---- */

static void emit_image(const struct ht_planner *p, size_t i, struct ht_plan *plan)
{
	struct ht_allocator *a = &plan->allocators[plan->n_allocators++];
	const struct ht_candidate *c = &p->candidates[i];

	a->module = p->images.all.at[i].module;
	a->bias = p->images.all.at[i].bias;
	memcpy(a->name, c->name, sizeof(a->name));
	a->left_out = c->left_out;
	for (size_t j = c->first; j < c->end; j++) {
		const struct ht_draft *d = &p->drafts.at[j];

		if (d->state != HT_DRAFT_SITE)
			continue;
		plan->sites[plan->n_sites++] = d->site;
		a->n_sites += !d->site.refused;
		a->n_refused += !!d->site.refused;
		a->n_unseen += d->site.refused && !d->site.counted;
	}
	/* All that it has is another one's. */
	if (!a->n_sites && !a->n_refused)
		plan->n_allocators--;
}

static int emit(const struct ht_planner *p, struct ht_err *err)
{
	struct ht_plan *plan = &p->box->plan;
	unsigned patched = 0;

	plan->sites = calloc(p->drafts.len + 1, sizeof(*plan->sites));
	plan->allocators = calloc(p->images.all.len + 1, sizeof(*plan->allocators));
	if (!plan->sites || !plan->allocators)
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	for (size_t i = 0; i < p->images.all.len; i++) {
		if (p->candidates[i].allocator)
			emit_image(p, i, plan);
	}
	for (size_t i = 0; i < plan->n_allocators; i++)
		patched += plan->allocators[i].n_sites;
	return patched ? 0 : ht_planner_no_allocator(p, err);
}

static int make(struct ht_planner *p)
{
	bool is_static = ht_planner_is_static(p);
	int r;

	r = ht_planner_collect(p);
	for (size_t i = 0; !r && i < p->images.all.len; i++) {
		struct ht_candidate *c = &p->candidates[i];

		c->allocator = is_allocator(c, is_static);
		for (size_t j = c->first; j < c->end && c->allocator; j++) {
			if (p->drafts.at[j].state == HT_DRAFT_SITE)
				measure(p, &p->drafts.at[j]);
		}
		if (c->allocator)
			r = scan_image(p, i);
	}
	return r;
}

static void planner_fini(struct ht_planner *p)
{
	for (size_t i = 0; p->candidates && i < p->images.all.len; i++)
		free(p->candidates[i].kinds);
	free(p->candidates);
	ht_vec_fini(&p->drafts);
	ht_map_fini(&p->by_addr);
	ht_map_fini(&p->by_name);
	ht_images_fini(&p->images);
	p->box = NULL;
}

static int new_plan(const struct ht_space *space, int memfd, const struct ht_plan *tapped,
		    struct ht_plan **ret_plan, struct ht_err *err)
{
	struct ht_planner p = { .box = calloc(1, sizeof(*p.box)), .tapped = tapped };
	struct ht_plan_box *box = p.box;
	int r, refused;

	if (!box)
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	r = ht_fault("inject.plan");
	if (r == 0)
		r = ht_images_open(space, memfd, &p.images);
	refused = r < 0 ? 0 : ht_planner_obstacle(&p, err);
	if (!r && !refused)
		r = make(&p);
	if (r < 0) {
		ht_err_set(err, HT_ERR_FAILED, r, "can't plan the patches: %s", strerror(-r));
	} else if (refused) {
		r = refused;
	} else {
		ht_planner_choose(&p);
		r = emit(&p, err);
	}
	planner_fini(&p);
	if (r < 0) {
		ht_plan_free(&box->plan);
		return r;
	}
	*ret_plan = &box->plan;
	return 0;
}

int ht_plan_new(const struct ht_space *space, int memfd, struct ht_plan **ret_plan,
		struct ht_err *err)
{
	return new_plan(space, memfd, NULL, ret_plan, err);
}

int ht_plan_again(const struct ht_space *space, int memfd, const struct ht_plan *tapped,
		  struct ht_plan **ret_plan, struct ht_err *err)
{
	return new_plan(space, memfd, tapped, ret_plan, err);
}

struct ht_plan *ht_plan_free(struct ht_plan *plan)
{
	struct ht_plan_box *box = (struct ht_plan_box *)plan;
	char **text;

	if (!box)
		return NULL;
	ht_vec_foreach(text, &box->texts)
		free(*text);
	ht_vec_fini(&box->texts);
	free(plan->sites);
	free(plan->allocators);
	free(box);
	return NULL;
}
