/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_cfi.h: files of ht_elf.h with their call frame information open, for the tests of
 * unwind/'s reader of it. Asserts by itself.
 */
#ifndef HT_TESTS_HT_CFI_H
#define HT_TESTS_HT_CFI_H

#include <string.h>

#include "ht_check.h"
#include "ht_elf.h"
#include "unwind/cfi.h"

/* An image, its sections open, and a reader on the first. */
struct opened {
	uint8_t *image;
	size_t len;
	struct ht_elfview view;
	struct ht_cfi cfi;
	struct ht_cfi_reader reader;
};

static inline void open_elf(const struct ht_elf *elf, struct opened *o)
{
	o->image = ht_elf_build(elf, &o->len);
	ck_ok(ht_elfview_open(o->image, o->len, &o->view));
	ck_ok(ht_cfi_open(&o->view, &o->cfi));
	if (o->cfi.n_sections > 0)
		ht_cfi_reader_init(&o->reader, &o->cfi.sections[0]);
}

static inline void close_elf(struct opened *o)
{
	ht_cfi_close(&o->cfi);
	free(o->image);
}

/* Two functions, the FDEs in the wrong order; with a search table of them. */
static inline void make_two(struct ht_elf *elf)
{
	size_t cie, second, first;

	ht_elf_init(elf);
	cie = ht_elf_plain_cie(&elf->eh);
	second = ht_elf_fde(&elf->eh, cie, HT_ELF_TEXT + 32, 16, HT_ELF_NO_CODE);
	first = ht_elf_fde(&elf->eh, cie, HT_ELF_TEXT, 16, HT_ELF_NO_CODE);
	ht_elf_make_hdr(elf, (const uint64_t[][2]){ { HT_ELF_TEXT, first },
						    { HT_ELF_TEXT + 32, second } }, 2);
}

#endif
