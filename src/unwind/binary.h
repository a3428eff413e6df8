/* SPDX-License-Identifier: Apache-2.0
 *
 * binary.h: what an ELF file says about where it wants to be mapped, and who it is: its
 * loadable segments, build-id and entry point. Private to unwind/.
 *
 * The image is hostile. Everything handed out lies inside of it, or is said not to.
 */
#ifndef HT_UNWIND_BINARY_H
#define HT_UNWIND_BINARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/elfview.h"
#include "unwind/maps.h"
#include "unwind/module.h"

#define HT_BINARY_SEGMENTS 64	/* PT_LOADs; real files have up to a dozen */

struct ht_binary_segment {
	uint64_t vaddr;
	uint64_t memsz;
	uint64_t offset;
	uint64_t filesz;
	unsigned prot;		/* enum ht_prot */
};

struct ht_binary {
	struct ht_elfview view;
	uint64_t entry;
	bool is_go;		/* has a .gopclntab */
	unsigned n_segments;
	struct ht_binary_segment segments[HT_BINARY_SEGMENTS];
	size_t build_id_len;
	size_t build_id_offset;	/* in the file */
	uint8_t build_id[HT_BUILD_ID_MAX];
};

/* -EINVAL: not an ELF file that we read. @bytes is borrowed. */
int ht_binary_read(const uint8_t *bytes, size_t len, struct ht_binary *ret_binary)
	_must_check_ _nonnull_;

/* The @len bytes at module address @vaddr as the file has them, or NULL. */
const uint8_t *ht_binary_at(const struct ht_binary *binary, uint64_t vaddr, size_t len)
	_nonnull_;

/* What to subtract from an address in @area, which maps this file, to get a module
 * address.
 * @hint: the bias of the area of this file mapped just below, or NULL. A text and a data
 * segment may lie in one page of the file, so that one area fits several segments; then
 * the hint decides, else the protection. -ENOENT: the area belongs to no segment. */
int ht_binary_bias(const struct ht_binary *binary, const struct ht_area *area,
		  const uint64_t *hint, uint64_t *ret_bias) _must_check_
	_nonnull_args_(1, 2, 4);

/* [@vaddr, @vaddr + @len) lies in the pages of one executable segment. */
bool ht_binary_is_text(const struct ht_binary *binary, uint64_t vaddr,
		       uint64_t len) _nonnull_;

#endif
