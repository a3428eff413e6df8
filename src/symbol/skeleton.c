/* SPDX-License-Identifier: Apache-2.0
 *
 * skeleton.c: from the skeleton of a unit, which is in the program, to the unit itself: in
 * the .dwp file beside the program, or in a .dwo file by the name that the skeleton gives.
 */
#include "symbol/symbol-priv.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"

/* Of all .dwo files, or all units of a .dwp file, of a module. */
#define MAX_SPLIT_BYTES ((size_t)2 << 30)

struct ht_skeletons {
	Elf *elf;		/* of the skeletons; borrowed */
	struct ht_texts texts;	/* of these */
	char *dir;		/* where their file is, or NULL */
	struct ht_dwp *dwp;
	ht_vec(struct ht_dwo *) dwos;
	size_t budget;
	const char *reason;
};

int ht_skeletons_new(Elf *elf, const char *dir, int dwp_fd, struct ht_skeletons **ret_skeletons)
{
	struct ht_skeletons *skeletons = calloc(1, sizeof(*skeletons));
	int r = 0;

	if (!skeletons || (dir && !(skeletons->dir = strdup(dir)))) {
		ht_fd_close(dwp_fd);
		free(skeletons);
		return -ENOMEM;
	}
	skeletons->elf = elf;
	ht_texts_add(&skeletons->texts, elf);
	skeletons->budget = MAX_SPLIT_BYTES;
	if (dwp_fd >= 0)
		r = ht_dwp_new(dwp_fd, &skeletons->dwp);
	if (r < 0)
		skeletons->reason = r == -ENOMEM ? HT_LINES_MEMORY : HT_LINES_DWP;
	*ret_skeletons = skeletons;
	return 0;
}

struct ht_skeletons *ht_skeletons_free(struct ht_skeletons *skeletons)
{
	struct ht_dwo **dwo;

	if (!skeletons)
		return NULL;
	ht_vec_foreach(dwo, &skeletons->dwos)
		ht_dwo_free(*dwo);
	ht_vec_fini(&skeletons->dwos);
	ht_dwp_free(skeletons->dwp);
	free(skeletons->dir);
	free(skeletons);
	return NULL;
}

const char *ht_skeletons_reason(const struct ht_skeletons *skeletons)
{
	return skeletons->reason;
}

static const char *text(const struct ht_skeletons *skeletons, Dwarf_Die *die, unsigned name,
			unsigned gnu_name)
{
	Dwarf_Attribute attr;

	if (dwarf_attr(die, name, &attr) || (gnu_name && dwarf_attr(die, gnu_name, &attr)))
		return ht_texts_check(&skeletons->texts, dwarf_formstring(&attr));
	return NULL;
}

static uint64_t base_of(Dwarf_Die *die, unsigned name, unsigned gnu_name)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;

	if (!dwarf_attr(die, name, &attr) && !dwarf_attr(die, gnu_name, &attr))
		return 0;
	return dwarf_formudata(&attr, &value) == 0 ? value : 0;
}

/* Where compilers say that it is, and where it went with its program. */
static int open_dwo(const struct ht_skeletons *skeletons, Dwarf_Die *die)
{
	const char *name = text(skeletons, die, DW_AT_dwo_name, DW_AT_GNU_dwo_name);
	const char *dirs[] = { skeletons->dir, text(skeletons, die, DW_AT_comp_dir, 0) };
	int fd = -ENOENT;

	if (!name || !*name)
		return -ENOENT;
	for (size_t i = 0; i < ARRAY_SIZE(dirs) && fd < 0; i++) {
		_cleanup_(ht_buf_fini) struct ht_buf path = HT_BUF_INIT;

		/* Never relative to where heaptap happens to run. */
		if (*name != '/' && (!dirs[i] || *dirs[i] != '/'))
			continue;
		if (ht_path_join(dirs[i], name, &path) < 0)
			return -ENOMEM;
		fd = ht_debugfile_open(path.data);
	}
	return fd < 0 ? -ENOENT : fd;
}

static int get_dwo(struct ht_skeletons *skeletons, Dwarf_Die *die, struct ht_unit_parts *parts)
{
	struct ht_dwo *dwo, **slot;
	int fd = open_dwo(skeletons, die), r;

	if (fd < 0)
		return fd;
	r = ht_dwo_open(fd, &skeletons->budget, parts, &dwo);
	if (r < 0)
		return r;
	slot = ht_vec_push(&skeletons->dwos);
	if (!slot) {
		ht_dwo_free(dwo);
		return -ENOMEM;
	}
	*slot = dwo;
	return 0;
}

/* What the unit takes from the skeleton's file. */
static int add_own_parts(struct ht_skeletons *skeletons, Dwarf_Die *die,
			 struct ht_unit_parts *parts)
{
	uint64_t addr_base = base_of(die, DW_AT_addr_base, DW_AT_GNU_addr_base);
	struct ht_span *addr = &parts->at[HT_PART_ADDR];
	/* Their sizes were looked at before the file was given to libdw. */
	int r = ht_sections_get(skeletons->elf, ".debug_addr", SIZE_MAX, addr);

	if (r == 0)
		r = ht_sections_get(skeletons->elf, ".debug_ranges", SIZE_MAX, &parts->ranges);
	if (r < 0)
		return r;
	if (addr_base > addr->len)
		return -EBADMSG;
	/* What the unit has are indices from its base on. */
	if (addr->len)
		*addr = (struct ht_span){ addr->data + addr_base, addr->len - addr_base };
	parts->ranges_base = base_of(die, DW_AT_GNU_ranges_base, DW_AT_GNU_ranges_base);
	if (dwarf_lowpc(die, &parts->base) != 0)
		parts->base = 0;
	return 0;
}

static const char *reason_of(int r)
{
	return r == -ENOENT ? HT_LINES_SPLIT : r == -E2BIG ? HT_LINES_LARGE :
	       r == -EOPNOTSUPP ? HT_LINES_ZSTD : r == -ESTALE ? HT_LINES_STALE :
	       ht_sections_reason(r);
}

int ht_skeletons_open(struct ht_skeletons *skeletons, Dwarf_Die *die,
		      struct ht_split **ret_split)
{
	struct ht_unit_parts parts = { .base = 0 };
	uint64_t id;
	int r = -ENOENT;

	if (dwarf_cu_info(die->cu, NULL, NULL, NULL, NULL, &id, NULL, NULL) < 0)
		return -EBADMSG;
	if (skeletons->dwp)
		r = ht_dwp_unit(skeletons->dwp, id, &skeletons->budget, &parts);
	if (r == -ENOENT)
		r = get_dwo(skeletons, die, &parts);
	if (r == 0)
		r = add_own_parts(skeletons, die, &parts);
	if (r == 0)
		r = ht_split_new(&parts, id, ret_split);
	if (r < 0 && !skeletons->reason)
		skeletons->reason = reason_of(r);
	return r;
}
