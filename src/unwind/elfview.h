/* SPDX-License-Identifier: Apache-2.0
 *
 * elfview.h: looking into the bytes of an x86-64 ELF file without believing them. Never
 * allocates; each answer points into the image.
 */
#ifndef HT_UNWIND_ELFVIEW_H
#define HT_UNWIND_ELFVIEW_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct ht_elfview {
	const uint8_t *image;
	size_t len;
	uint64_t phoff, shoff;
	unsigned n_phdrs, n_sections;
	const char *names;	/* of the sections; NULL: they have none */
	size_t names_len;
};

struct ht_elfview_section {
	const char *name;	/* NUL-terminated inside the image; "": none */
	uint32_t type, link;
	uint64_t flags;
	uint64_t addr;
	const uint8_t *data;	/* NULL: none in this file (NOBITS, or beyond its end) */
	uint64_t len;		/* as the header says; all of it is there if data isn't NULL */
};

/* -EINVAL: not a little-endian 64-bit x86-64 executable or shared object. A file whose
 * section headers are unusable has no sections. */
int ht_elfview_open(const uint8_t *image, size_t len, struct ht_elfview *ret_view)
	_must_check_ _nonnull_;

/* False: no such entry. */
bool ht_elfview_phdr(const struct ht_elfview *view, unsigned i, Elf64_Phdr *ret_phdr)
	_nonnull_;
bool ht_elfview_section(const struct ht_elfview *view, unsigned i,
			struct ht_elfview_section *ret_section) _nonnull_;

/* The bytes of the file that are loaded at module address @addr, and how many follow in
 * the same segment. NULL: none. */
const uint8_t *ht_elfview_at(const struct ht_elfview *view, uint64_t addr,
			     size_t *ret_left) _nonnull_;

/* The GNU build-id in @len bytes of notes, which are padded to @align (8; else 4 is meant):
 * its length, and where it is. 0: none. */
size_t ht_elfview_build_id(const uint8_t *notes, size_t len, uint64_t align,
			   const uint8_t **ret_id) _nonnull_;

#endif
