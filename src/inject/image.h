/* SPDX-License-Identifier: Apache-2.0
 *
 * image.h: the modules of a target at their addresses, as planning sees them: code bytes
 * behind a target address, where a function ends, what a GOT slot leads to. For this
 * folder only.
 */
#ifndef HT_INJECT_IMAGE_H
#define HT_INJECT_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/compiler.h"
#include "base/map.h"
#include "base/vec.h"
#include "inject/elfdyn.h"
#include "unwind/space.h"

/* One module at one address; a file that is loaded twice (dlmopen) makes two. */
struct ht_image {
	struct ht_module *module;
	uint64_t bias;		/* target address = ELF address + bias */
	struct ht_elfdyn view;
	struct ht_map slots;	/* ELF address of a GOT slot: its relocation's number */
	bool slots_known;
};

struct ht_images {
	const struct ht_space *space;
	int memfd;
	ht_vec(struct ht_image) all;
	/* What ht_images_function() found: address to (distance from the start) << 32 |
	 * length, 0 for unknown. */
	struct ht_map *extents;
};

/* @space and @memfd are borrowed. Modules that aren't ELF, and our own, are left out. */
int ht_images_open(const struct ht_space *space, int memfd, struct ht_images *ret_images)
	_must_check_ _nonnull_args_(1, 3);
void ht_images_fini(struct ht_images *images) _nonnull_;

/* The image that has @addr mapped, or NULL. */
struct ht_image *ht_images_of(const struct ht_images *images, ht_addr_t addr) _nonnull_;

/* The file's bytes of the executable area at @addr, up to the end of the area. NULL: there
 * is none. */
const uint8_t *ht_images_code(const struct ht_images *images, ht_addr_t addr,
			      struct ht_image **ret_image, size_t *ret_len) _nonnull_;

/* The start of the function that holds @addr, and its length, as unwind data says; both
 * looked for no further than HT_FUNCTION_MAX bytes. False: unknown. */
#define HT_FUNCTION_MAX 65536
bool ht_images_function(const struct ht_images *images, ht_addr_t addr,
			ht_addr_t *ret_start, size_t *ret_len) _nonnull_;

/* Exactly @len bytes of the target's memory. -EIO when less can be read. */
int ht_images_read(const struct ht_images *images, ht_addr_t addr, void *buf, size_t len)
	_must_check_ _nonnull_;

/* Where the pointer at @slot, which code calls or jumps through, leads. */
#define HT_SLOT_NAME 128
struct ht_slot {
	ht_addr_t target;		/* code in some image; 0: not bound yet, or unknown */
	char name[HT_SLOT_NAME];	/* of its relocation; "": none, or too long */
};
bool ht_images_slot(const struct ht_images *images, ht_addr_t slot,
		    struct ht_slot *ret_slot) _nonnull_;

/* Where a bare jump at @addr goes, directly (name "") or through a slot, as PLT stubs do.
 * False: the code at @addr is something else. */
bool ht_images_forward(const struct ht_images *images, ht_addr_t addr,
		       struct ht_slot *ret_slot) _nonnull_;

/* The same of the function at @addr (@len bytes) if it is a call with all of its arguments,
 * whose result it returns. */
bool ht_images_wraps(const struct ht_images *images, ht_addr_t addr, size_t len,
		     struct ht_slot *ret_slot) _nonnull_;

/* The implementation that the IFUNC @name, whose resolver is at @resolver in @image, was
 * resolved to: read from a GOT slot bound to it. 0: nobody has bound it. */
ht_addr_t ht_images_ifunc(const struct ht_images *images, const struct ht_image *image,
			  const char *name, ht_addr_t resolver) _nonnull_;

#endif
