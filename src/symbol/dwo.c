/* SPDX-License-Identifier: Apache-2.0
 *
 * dwo.c: the parts of a .dwo file, which has one unit of split DWARF. Read whole, so that
 * thousands of them need no file open.
 */
#include "symbol/symbol-priv.h"

#include <errno.h>
#include <libelf.h>
#include <stdlib.h>

#include "base/fd.h"

struct ht_dwo {
	Elf *elf;
};

/* What the unit's own file has; the other parts are in the skeleton's. */
static int get_parts(struct ht_dwo *dwo, size_t *budget, struct ht_unit_parts *parts)
{
	int r;

	for (size_t i = 0; i <= HT_PART_RNGLISTS; i++) {
		r = ht_sections_get(dwo->elf, ht_part_names[i], *budget, &parts->at[i]);
		if (r < 0)
			return r;
		*budget -= ht_min(*budget, parts->at[i].len);
	}
	return parts->at[HT_PART_INFO].len ? 0 : -ENOENT;
}

int ht_dwo_open(int fd, size_t *budget, struct ht_unit_parts *parts, struct ht_dwo **ret_dwo)
{
	struct ht_dwo *dwo = calloc(1, sizeof(*dwo));
	int r = -ENOMEM;

	if (dwo) {
		elf_version(EV_CURRENT);
		errno = 0;
		dwo->elf = elf_begin(fd, ELF_C_READ, NULL);
		r = dwo->elf && elf_kind(dwo->elf) == ELF_K_ELF ?
			    get_parts(dwo, budget, parts) : ht_sections_failure();
	}
	/* What was asked for is in memory, and no more will be. */
	if (dwo && dwo->elf)
		elf_cntl(dwo->elf, ELF_C_FDDONE);
	ht_fd_close(fd);
	if (r < 0)
		dwo = ht_dwo_free(dwo);
	else
		*ret_dwo = dwo;
	return r;
}

struct ht_dwo *ht_dwo_free(struct ht_dwo *dwo)
{
	if (dwo)
		elf_end(dwo->elf);
	free(dwo);
	return NULL;
}
