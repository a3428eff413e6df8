/* SPDX-License-Identifier: Apache-2.0
 *
 * fdes.h: the FDEs of a file and of its debug file, listed and sorted by address. Private
 * to unwind/.
 */
#ifndef HT_UNWIND_FDES_H
#define HT_UNWIND_FDES_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/vec.h"
#include "unwind/cfi.h"
#include "unwind/image.h"

#define HT_FDES_FILES 2

struct ht_fde_ref {
	uint64_t start, end;
	uint32_t offset;	/* in its section */
	uint32_t reader;
};

/* By what is believed first. */
enum { HT_FDES_EH, HT_FDES_DEBUG, HT_FDES_LAYERS };

/* All 0: empty. */
struct ht_fdes {
	ht_vec(struct ht_fde_ref) layers[HT_FDES_LAYERS];
	uint32_t n_bad;		/* malformed ones passed over */
	struct ht_cfi cfi[HT_FDES_FILES];
	unsigned n_files;
	struct ht_cfi_reader readers[HT_FDES_FILES * HT_CFI_MAX_SECTIONS];
	unsigned n_readers;
};

/* Add the FDEs of @view that touch one of the @n_text ranges @text: linkers leave those of
 * functions that they dropped at 0 or nowhere. At most HT_FDES_FILES files; the image
 * must outlive @fdes. Only -ENOMEM is an error. */
int ht_fdes_add(struct ht_fdes *fdes, const struct ht_elfview *view,
		const struct ht_image_range *text, unsigned n_text)
	_must_check_ _nonnull_args_(1, 2);
/* Sort each layer by start, those that start at the same address in the order in which
 * they were added. Linear in their number. */
int ht_fdes_sort(struct ht_fdes *fdes) _must_check_ _nonnull_;
void ht_fdes_fini(struct ht_fdes *fdes) _nonnull_;

/* In a sorted layer: those that start inside an earlier one, so that they get what that
 * leaves. */
uint32_t ht_fdes_overlaps(const struct ht_fdes *fdes, unsigned layer) _nonnull_;
/* Sections that couldn't be read. */
uint32_t ht_fdes_skipped(const struct ht_fdes *fdes) _nonnull_;
/* Read one that was listed. 1 or -EINVAL, as ht_cfi_reader_at(), whose CIE is good
 * until the next call. */
int ht_fdes_read(struct ht_fdes *fdes, const struct ht_fde_ref *ref,
		 struct ht_cfi_fde *ret_fde) _must_check_ _nonnull_;

#endif
