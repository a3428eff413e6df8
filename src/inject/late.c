/* SPDX-License-Identifier: Apache-2.0
 *
 * late.c: see late.h. What is new is a module at an address: a library that is loaded once
 * more, or anew, isn't patched. Only the few that have a malloc are worth a plan, which then
 * decides as it does for an attach.
 */
#include "inject/late.h"

#include <errno.h>
#include <stdlib.h>

#include "inject/draft.h"
#include "inject/elfsym.h"

struct instance {
	const struct ht_module *module;
	uint64_t bias;
};

struct ht_late {
	const struct ht_space *space;
	int memfd;
	const struct ht_plan *plan;
	uint64_t generation;		/* of the space, at the last look */
	ht_vec(struct instance) known;	/* what it held then */
	ht_vec(const struct ht_module *) found;
};

static int remember(struct ht_late *late, const struct ht_images *images)
{
	const struct ht_image *image;

	if (ht_vec_reserve(&late->known, images->all.len) < 0)
		return -ENOMEM;
	ht_vec_clear(&late->known);
	ht_vec_foreach(image, &images->all)
		*ht_vec_push(&late->known) = (struct instance){ image->module, image->bias };
	late->generation = ht_space_generation(late->space);
	return 0;
}

static bool is_known(const struct ht_late *late, const struct ht_image *image)
{
	const struct instance *i;

	ht_vec_foreach(i, &late->known) {
		if (i->module == image->module && i->bias == image->bias)
			return true;
	}
	return false;
}

static bool has_malloc(const struct ht_image *image)
{
	struct ht_elf_symbol sym;

	for (size_t k = 0; k < ht_entry_kinds_len; k++) {
		const struct ht_entry_kind *kind = &ht_entry_kinds[k];

		if (ht_kind_is_malloc(kind) &&
		    !ht_elfdyn_symbol(&image->view, kind->name, &sym))
			return true;
	}
	return false;
}

/* Would an attach tap something of it, or say that it can't? */
static bool matters(const struct ht_plan *plan, const struct ht_image *image)
{
	for (size_t i = 0; i < plan->n_allocators; i++) {
		const struct ht_allocator *a = &plan->allocators[i];

		if (a->module == image->module && a->bias == image->bias)
			return a->n_sites || a->n_unseen;	/* the rest is counted */
	}
	return false;
}

static int note(struct ht_late *late, const struct ht_module *module)
{
	const struct ht_module **slot;

	ht_vec_foreach(slot, &late->found) {
		if (*slot == module)
			return 0;
	}
	slot = ht_vec_push(&late->found);
	if (!slot)
		return -ENOMEM;
	*slot = module;
	return 0;
}

static int compare(struct ht_late *late, const struct ht_images *images)
{
	struct ht_plan *plan = NULL;
	const struct ht_image *image;
	bool planned = false;
	int r = 0;

	ht_vec_foreach(image, &images->all) {
		if (is_known(late, image) || !has_malloc(image))
			continue;
		if (!planned)
			r = ht_plan_again(late->space, late->memfd, late->plan, &plan, NULL);
		planned = true;
		if (r == -ENOMEM)
			break;
		/* What an attach would refuse isn't tapped either. */
		r = !plan || matters(plan, image) ? note(late, image->module) : 0;
		if (r < 0)
			break;
	}
	ht_plan_free(plan);
	return r;
}

int ht_late_look(struct ht_late *late)
{
	struct ht_images images;
	size_t before = late->found.len;
	int r;

	if (ht_space_generation(late->space) == late->generation)
		return 0;
	r = ht_images_open(late->space, late->memfd, &images);
	if (r < 0)
		return r;
	r = compare(late, &images);
	if (r == 0)
		r = remember(late, &images);
	ht_images_fini(&images);
	return r < 0 ? r : late->found.len > before;
}

int ht_late_new(const struct ht_space *space, int memfd, const struct ht_plan *plan,
		struct ht_late **ret_late)
{
	struct ht_late *late = calloc(1, sizeof(*late));
	struct ht_images images;
	int r;

	if (!late)
		return -ENOMEM;
	late->space = space;
	late->memfd = memfd;
	late->plan = plan;
	r = ht_images_open(space, memfd, &images);
	if (r == 0) {
		r = remember(late, &images);
		ht_images_fini(&images);
	}
	if (r < 0) {
		ht_late_free(late);
		return r;
	}
	*ret_late = late;
	return 0;
}

struct ht_late *ht_late_free(struct ht_late *late)
{
	if (!late)
		return NULL;
	ht_vec_fini(&late->known);
	ht_vec_fini(&late->found);
	free(late);
	return NULL;
}

size_t ht_late_found(const struct ht_late *late, const struct ht_module *const **ret_modules)
{
	*ret_modules = late->found.at;
	return late->found.len;
}
