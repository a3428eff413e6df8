/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_image.h: the embedded hook as bytes: as the file that dlopen wants, and as the flat
 * memory image that plain mmap calls can put in place.
 */
#ifndef HT_INJECT_HOOK_IMAGE_H
#define HT_INJECT_HOOK_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/err.h"

#define HT_HOOK_SEGMENTS 8

struct ht_hook_segment {
	uint64_t offset;	/* from the image's start, page-aligned */
	uint64_t size;		/* page multiple */
	int prot;		/* PROT_* */
};

struct ht_hook_image {
	uint8_t *bytes;		/* flat: every segment at its virtual address */
	uint64_t size;		/* page multiple */
	struct ht_hook_segment segments[HT_HOOK_SEGMENTS];
	unsigned n_segments;
	uint64_t config;	/* offset of ht_hook_config */
	uint64_t enter;		/* offset of ht_hook_enter */
};

/* The shared object as a file. */
const uint8_t *ht_hook_file(size_t *ret_len) _nonnull_;
int ht_hook_image_load(struct ht_hook_image *ret_image, struct ht_err *err) _must_check_
	_nonnull_args_(1);
void ht_hook_image_fini(struct ht_hook_image *image) _nonnull_;

#endif
