/* SPDX-License-Identifier: Apache-2.0
 *
 * layout.h: everything that will be in the target, built while it still runs: where each
 * piece goes, the stubs, the patches and the journal.
 *
 *	block	journal | stubs 0 | hook code | hook data | gate | threads, filter, set | ring
 *		`-------------- r-x ---------' `------------ rw -----------------------------'
 *	stubs 1 ...	for allocators out of reach of the block
 *	ring		where it is shared: wherever the kernel puts it
 *
 * One call maps the whole block from the file, which has the pieces in the same order: from
 * then on all of it carries our name, and nobody else's memory can come to lie where the
 * journal says that ours is. Only the gate's page is replaced by an anonymous one, as a fork
 * can wipe no other. Each call is two stops of a thread while all the others wait. The hook
 * is missing when dlopen loads it.
 */
#ifndef HT_INJECT_LAYOUT_H
#define HT_INJECT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"
#include "heaptap/wire.h"
#include "inject/hook_image.h"
#include "inject/plan.h"
#include "unwind/maps.h"

#define HT_MAX_REGIONS 8

struct ht_patch {
	const struct ht_site *site;
	ht_addr_t addr;		/* where the 8 bytes are written */
	unsigned replaced_len;	/* no thread may be inside [addr + 1, addr + this) */
	uint64_t original;
	uint64_t patched;
};

struct ht_region {
	ht_addr_t addr;
	uint64_t file_offset;
};

struct ht_layout {
	ht_addr_t block;	/* its start: the journal's place */
	uint64_t size;
	ht_addr_t data;		/* from here to its end it is writable */
	ht_addr_t gate;		/* a page */
	ht_addr_t threads, filter, set;
	ht_addr_t ring;		/* 0: it's shared, not here */
	uint64_t set_mask;
	ht_addr_t hook;		/* where the hook's image begins */

	uint8_t *file;
	uint64_t file_size;
	uint64_t head_size;	/* of the block, what isn't zero: up to the gate */
	struct ht_journal *journal;	/* in file */
	uint64_t region_size;
	struct ht_region regions[HT_MAX_REGIONS];
	unsigned n_regions;

	struct ht_patch *patches;
	size_t n_patches;
};

/* What the stubs depend on. */
struct ht_layout_options {
	uint32_t flags;		/* enum ht_config_flags */
	uint64_t min_size;
	ht_addr_t hook;		/* where dlopen put it; 0: choose a place for @image */
	uint64_t ring_size;	/* of one that isn't shared; 0: none */
};

/* @maps: fresh; a place that is taken meanwhile makes the mapping fail, try again then. */
int ht_layout_new(const struct ht_maps *maps, int memfd, const struct ht_plan *plan,
		  const struct ht_hook_image *image, const struct ht_layout_options *options,
		  struct ht_layout **ret_layout, struct ht_err *err) _must_check_
	_nonnull_args_(1, 3, 4, 5, 6);
struct ht_layout *ht_layout_free(struct ht_layout *layout);

#endif
