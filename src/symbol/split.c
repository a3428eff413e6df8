/* SPDX-License-Identifier: Apache-2.0
 *
 * split.c: one unit of split DWARF, whose functions lie apart from the program that has its
 * skeleton.
 *
 * libdw would open the file by itself, whatever it is, by a name that a hostile file chose,
 * and up to 0.188 it knows no .dwp files. So it is shown a file that isn't one: headers with
 * an empty section for each part, whose Elf_Data then get the parts: those of the unit, and
 * the addresses of the skeleton's file, which libdw looks for from the unit on.
 */
#include "symbol/symbol-priv.h"

#include <dwarf.h>
#include <errno.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#define MAX_UNITS 65536

const char *const ht_part_names[HT_PARTS] = {
	[HT_PART_INFO] = ".debug_info.dwo",
	[HT_PART_ABBREV] = ".debug_abbrev.dwo",
	[HT_PART_LINE] = ".debug_line.dwo",
	[HT_PART_STR] = ".debug_str.dwo",
	[HT_PART_STR_OFFSETS] = ".debug_str_offsets.dwo",
	[HT_PART_RNGLISTS] = ".debug_rnglists.dwo",
	[HT_PART_ADDR] = ".debug_addr.dwo",
};

enum { NAMES = HT_PARTS + 1, SECTIONS = HT_PARTS + 2, NAME_MAX = 24 };

/* Section 0, one for each part, the names. */
struct image {
	Elf64_Ehdr header;
	Elf64_Shdr sections[SECTIONS];
	char names[HT_PARTS + 1][NAME_MAX];
};

struct ht_split {
	struct image image;
	Elf *elf;
	Dwarf *dwarf;
	Dwarf_Die cu;
	struct ht_unit_parts parts;
	struct ht_texts texts;
	unsigned version;
	uint8_t offset_size;
};

static void fill_image(struct image *image, const struct ht_unit_parts *parts)
{
	*image = (struct image){
		.header = { .e_type = ET_REL, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
			    .e_ehsize = sizeof(image->header),
			    .e_shoff = offsetof(struct image, sections),
			    .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = SECTIONS,
			    .e_shstrndx = NAMES },
	};
	memcpy(image->header.e_ident, ELFMAG, SELFMAG);
	image->header.e_ident[EI_CLASS] = ELFCLASS64;
	image->header.e_ident[EI_DATA] = ELFDATA2LSB;
	image->header.e_ident[EI_VERSION] = EV_CURRENT;
	for (size_t i = 0; i < HT_PARTS; i++) {
		strcpy(image->names[i + 1], ht_part_names[i]);
		/* A byte of anything, or libdw takes the section for missing. */
		image->sections[i + 1] = (Elf64_Shdr){
			.sh_name = (uint32_t)((i + 1) * NAME_MAX),
			.sh_type = parts->at[i].len ? SHT_PROGBITS : SHT_NOBITS,
			.sh_size = 1, .sh_addralign = 1,
		};
	}
	image->sections[NAMES] = (Elf64_Shdr){
		.sh_type = SHT_STRTAB, .sh_offset = offsetof(struct image, names),
		.sh_size = sizeof(image->names), .sh_addralign = 1,
	};
}

/* libdw keeps the Elf_Data that libelf gives to everyone who asks for it. */
static bool put_parts(struct ht_split *split)
{
	for (size_t i = 0; i < HT_PARTS; i++) {
		const struct ht_span *part = &split->parts.at[i];
		Elf_Scn *section = elf_getscn(split->elf, i + 1);
		Elf_Data *data = section && part->len ? elf_getdata(section, NULL) : NULL;

		if (!part->len)
			continue;
		if (!data)
			return false;
		/* Only ever read. */
		data->d_buf = (void *)(uintptr_t)part->data;
		data->d_size = part->len;
	}
	return true;
}

struct search {
	struct ht_split *split;
	uint64_t id;
	bool found;
};

static void find_unit(void *arg)
{
	struct search *search = arg;
	struct ht_split *split = search->split;
	Dwarf_CU *cu = NULL;
	Dwarf_Half version;
	uint8_t type, offset_size;
	uint64_t found;

	for (size_t i = 0; i < MAX_UNITS; i++) {
		if (dwarf_get_units(split->dwarf, cu, &cu, &version, &type, &split->cu, NULL) ||
		    dwarf_cu_info(cu, NULL, NULL, NULL, NULL, &found, NULL, &offset_size) < 0)
			return;
		if (type != DW_UT_split_compile || found != search->id)
			continue;
		split->version = version;
		split->offset_size = offset_size;
		search->found = true;
		return;
	}
}

int ht_split_new(const struct ht_unit_parts *parts, uint64_t id, struct ht_split **ret_split)
{
	struct search search = { .id = id };
	uint64_t sum = 0;
	struct ht_split *split;
	int r;

	if (!parts->at[HT_PART_INFO].len || !parts->at[HT_PART_ABBREV].len)
		return -EBADMSG;
	r = ht_bulk_add_units(&parts->at[HT_PART_INFO], &parts->at[HT_PART_ABBREV], &sum);
	if (r < 0)
		return r;
	split = calloc(1, sizeof(*split));
	if (!split)
		return -ENOMEM;
	split->parts = *parts;
	split->texts.at[split->texts.n++] = parts->at[HT_PART_INFO];
	split->texts.at[split->texts.n++] = parts->at[HT_PART_STR];
	fill_image(&split->image, parts);
	elf_version(EV_CURRENT);
	errno = 0;
	split->elf = elf_memory((char *)&split->image, sizeof(split->image));
	if (split->elf)
		split->dwarf = dwarf_begin_elf(split->elf, DWARF_C_READ, NULL);
	ht_oom_guard(split->dwarf);
	search.split = split;
	if (!split->dwarf || !put_parts(split))
		r = ht_sections_failure();
	else if (!ht_oom_try(find_unit, &search))
		r = -ENOMEM;
	else
		r = search.found ? 0 : -ESTALE;
	if (r < 0) {
		ht_split_free(split);
		return r;
	}
	*ret_split = split;
	return 0;
}

struct ht_split *ht_split_free(struct ht_split *split)
{
	if (!split)
		return NULL;
	dwarf_end(split->dwarf);
	elf_end(split->elf);
	free(split);
	return NULL;
}

Dwarf *ht_split_dwarf(const struct ht_split *split)
{
	return split->dwarf;
}

const struct ht_texts *ht_split_texts(const struct ht_split *split)
{
	return &split->texts;
}

Dwarf_Die *ht_split_cu(struct ht_split *split)
{
	return &split->cu;
}

bool ht_split_has_files(const struct ht_split *split)
{
	return split->parts.at[HT_PART_LINE].len;
}

/* --- ranges -------------------------------------------------------------------------- */

static bool read_offset(const struct ht_span *span, uint64_t at, size_t width,
			uint64_t *ret_value)
{
	uint32_t narrow;

	if (at > span->len || width > span->len - at)
		return false;
	if (width == 8) {
		memcpy(ret_value, span->data + at, 8);
		return true;
	}
	memcpy(&narrow, span->data + at, 4);
	*ret_value = narrow;
	return true;
}

/* DW_FORM_rnglistx: an index into the offsets behind the header of the list's section. */
static bool indexed(const struct ht_split *split, const Dwarf_Attribute *attr,
		    uint64_t *ret_offset)
{
	const struct ht_span *lists = &split->parts.at[HT_PART_RNGLISTS];
	const struct ht_span *info = &split->parts.at[HT_PART_INFO];
	const uint8_t *p = attr->valp, *end = info->data + info->len;
	size_t width = split->offset_size, header = width == 8 ? 20 : 12;
	uint64_t index = 0;
	unsigned shift = 0;

	do {
		if (p < info->data || p >= end || shift > 28)
			return false;
		index |= (uint64_t)(*p & 0x7f) << shift;
		shift += 7;
	} while (*p++ & 0x80);
	if (!read_offset(lists, header + index * width, width, ret_offset))
		return false;
	*ret_offset += header;
	return true;
}

/* Where the list of @die begins. False: it has none. */
static bool list_start(const struct ht_split *split, Dwarf_Die *die, uint64_t *ret_offset)
{
	Dwarf_Attribute attr;
	const struct ht_span *info = &split->parts.at[HT_PART_INFO];
	uint64_t at;

	if (!dwarf_attr(die, DW_AT_ranges, &attr))
		return false;
	if (attr.form == DW_FORM_rnglistx)
		return indexed(split, &attr, ret_offset);
	if (attr.form != DW_FORM_sec_offset || attr.valp < info->data)
		return false;
	at = (uint64_t)(attr.valp - info->data);
	if (!read_offset(info, at, split->offset_size, ret_offset))
		return false;
	/* Up to DWARF 4 the lists are in the skeleton's file. */
	return split->version >= 5 ||
	       !__builtin_add_overflow(*ret_offset, split->parts.ranges_base, ret_offset);
}

/* The next pair of .debug_ranges at at->offset. */
static bool next_pair(const struct ht_split *split, struct ht_pcs_at *at, uint64_t *ret_lo,
		      uint64_t *ret_hi)
{
	uint64_t pair[2];

	for (;;) {
		if (!read_offset(&split->parts.ranges, at->offset, 8, &pair[0]) ||
		    !read_offset(&split->parts.ranges, at->offset + 8, 8, &pair[1]) ||
		    (!pair[0] && !pair[1]))
			return false;
		at->offset += sizeof(pair);
		if (pair[0] != UINT64_MAX)
			break;
		at->base = pair[1];
	}
	*ret_lo = pair[0] + at->base;
	*ret_hi = pair[1] + at->base;
	return true;
}

static bool next_split(const struct ht_split *split, Dwarf_Die *die, struct ht_pcs_at *at,
		       uint64_t *ret_lo, uint64_t *ret_hi)
{
	ptrdiff_t next;

	if (!at->started) {
		at->started = true;
		if (dwarf_lowpc(die, ret_lo) == 0 && dwarf_highpc(die, ret_hi) == 0) {
			at->ended = true;
			return true;
		}
		at->base = split->parts.base;
		at->ended = !list_start(split, die, &at->offset);
	}
	if (at->ended)
		return false;
	if (split->version < 5)
		return next_pair(split, at, ret_lo, ret_hi);
	/* From the second call on libdw takes place and base from its caller, and never asks for
	 * the skeleton, which it hasn't. 0 and 1 aren't places. */
	if (at->offset < 2 || at->offset > PTRDIFF_MAX)
		return false;
	next = dwarf_ranges(die, (ptrdiff_t)at->offset, &at->base, ret_lo, ret_hi);
	at->ended = next <= 0;
	at->offset = (uint64_t)ht_max(next, (ptrdiff_t)0);
	return !at->ended;
}

bool ht_pcs_next(const struct ht_split *split, Dwarf_Die *die, struct ht_pcs_at *at,
		    uint64_t *ret_lo, uint64_t *ret_hi)
{
	ptrdiff_t next;

	if (split)
		return next_split(split, die, at, ret_lo, ret_hi);
	if (at->ended)
		return false;
	next = dwarf_ranges(die, (ptrdiff_t)at->offset, &at->base, ret_lo, ret_hi);
	at->ended = next <= 0;
	at->offset = (uint64_t)ht_max(next, (ptrdiff_t)0);
	return !at->ended;
}
