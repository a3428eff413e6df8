/* SPDX-License-Identifier: Apache-2.0
 *
 * dwp.c: the parts of one unit in a .dwp file, into which the .dwo files of a program were
 * packed. An index says for each unit which bytes of which section are its own:
 *
 *     header: version, columns C, units U, slots S
 *     S signatures, a hash table; S row numbers (from 1), in the same slots
 *     C section kinds;  U rows of C offsets;  U rows of C sizes
 *
 * The strings belong to all units. Only what is asked for is read.
 */
#include "symbol/symbol-priv.h"

#include <errno.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"

#define HEADER 16
#define MAX_INDEX ((size_t)256 << 20)
#define MAX_COLUMNS 16
/* Tables are two thirds full at most; a full one mustn't be read whole for each unit. */
#define MAX_PROBES 4096

struct ht_dwp {
	struct ht_elf elf;
	Elf *handle;		/* for packed sections, made when first needed */
	struct ht_span index;
	uint32_t version, columns, units, slots;
	struct ht_span strings;
	bool strings_read;
	ht_vec(uint8_t *) owned;
};

/* The kinds of the columns: those of GNU's version 2, and of DWARF 5. */
static const struct {
	uint8_t version, kind, part;
} kinds[] = {
	{ 2, 1, HT_PART_INFO }, { 2, 3, HT_PART_ABBREV }, { 2, 4, HT_PART_LINE },
	{ 2, 6, HT_PART_STR_OFFSETS },
	{ 5, 1, HT_PART_INFO }, { 5, 3, HT_PART_ABBREV }, { 5, 4, HT_PART_LINE },
	{ 5, 6, HT_PART_STR_OFFSETS }, { 5, 8, HT_PART_RNGLISTS },
};

static uint32_t u32_at(const struct ht_dwp *dwp, uint64_t at)
{
	uint32_t value;

	memcpy(&value, dwp->index.data + at, sizeof(value));
	return value;
}

static uint64_t slots_at(void)
{
	return HEADER;
}

static uint64_t rows_at(const struct ht_dwp *dwp)
{
	return slots_at() + (uint64_t)dwp->slots * 8;
}

static uint64_t kinds_at(const struct ht_dwp *dwp)
{
	return rows_at(dwp) + (uint64_t)dwp->slots * 4;
}

/* A cell of the offsets (@table 0) or the sizes (1); rows count from 0. */
static uint32_t cell(const struct ht_dwp *dwp, unsigned table, uint32_t row, uint32_t column)
{
	uint64_t line = 1 + (uint64_t)table * dwp->units + row;

	return u32_at(dwp, kinds_at(dwp) + (line * dwp->columns + column) * 4);
}

static int keep(struct ht_dwp *dwp, uint8_t *data)
{
	uint8_t **slot = ht_vec_push(&dwp->owned);

	if (!slot) {
		free(data);
		return -ENOMEM;
	}
	*slot = data;
	return 0;
}

/* [offset, offset + len) of a section, or all of it if @len is UINT64_MAX. */
static int read_part(struct ht_dwp *dwp, const char *name, uint64_t offset, uint64_t len,
		     size_t max, struct ht_span *ret_span)
{
	const Elf64_Shdr *section = ht_elf_section(&dwp->elf, name);
	Elf64_Shdr part;
	uint8_t *data;
	size_t got;
	int r;

	*ret_span = (struct ht_span){ NULL, 0 };
	if (!section || !len)
		return 0;
	if (section->sh_flags & SHF_COMPRESSED) {
		r = ht_sections_get(dwp->handle, name, max, ret_span);
		if (r == 0 && len != UINT64_MAX &&
		    (offset > ret_span->len || len > ret_span->len - offset))
			r = -EBADMSG;
		if (r == 0 && len != UINT64_MAX)
			*ret_span = (struct ht_span){ ret_span->data + offset, len };
		return r;
	}
	part = *section;
	if (len != UINT64_MAX) {
		if (offset > part.sh_size || len > part.sh_size - offset)
			return -EBADMSG;
		part.sh_offset += offset;
		part.sh_size = len;
	}
	r = ht_elf_load(&dwp->elf, &part, max, &data, &got);
	if (r == 0)
		r = keep(dwp, data);
	if (r == 0)
		*ret_span = (struct ht_span){ data, got };
	return r == -EFBIG ? -E2BIG : r;
}

static int read_index(struct ht_dwp *dwp)
{
	uint64_t need;
	int r = read_part(dwp, ".debug_cu_index", 0, UINT64_MAX, MAX_INDEX, &dwp->index);

	if (r < 0)
		return r;
	if (dwp->index.len < HEADER)
		return -EBADMSG;
	/* DWARF 5 has the version in 16 bits and padding, GNU in 32. */
	dwp->version = u32_at(dwp, 0) & 0xffff;
	dwp->columns = u32_at(dwp, 4);
	dwp->units = u32_at(dwp, 8);
	dwp->slots = u32_at(dwp, 12);
	if ((dwp->version != 2 && dwp->version != 5) || dwp->columns > MAX_COLUMNS || (dwp->slots & (dwp->slots - 1)))
		return -EBADMSG;
	need = kinds_at(dwp) + (1 + 2 * (uint64_t)dwp->units) * dwp->columns * 4;
	return need <= dwp->index.len ? 0 : -EBADMSG;
}

int ht_dwp_new(int fd, struct ht_dwp **ret_dwp)
{
	struct ht_dwp *dwp = calloc(1, sizeof(*dwp));
	int r;

	if (!dwp) {
		ht_fd_close(fd);
		return -ENOMEM;
	}
	r = ht_elf_init_fd(&dwp->elf, fd);
	if (r == 0) {
		elf_version(EV_CURRENT);
		errno = 0;
		dwp->handle = elf_begin(dwp->elf.fd, ELF_C_READ, NULL);
		r = dwp->handle ? read_index(dwp) : ht_sections_failure();
	}
	if (r < 0)
		dwp = ht_dwp_free(dwp);
	else
		*ret_dwp = dwp;
	return r;
}

struct ht_dwp *ht_dwp_free(struct ht_dwp *dwp)
{
	uint8_t **data;

	if (!dwp)
		return NULL;
	elf_end(dwp->handle);
	ht_elf_fini(&dwp->elf);
	ht_vec_foreach(data, &dwp->owned)
		free(*data);
	ht_vec_fini(&dwp->owned);
	free(dwp);
	return NULL;
}

static bool find_row(const struct ht_dwp *dwp, uint64_t id, uint32_t *ret_row)
{
	uint32_t mask = dwp->slots - 1, slot = (uint32_t)id & mask, row;
	uint32_t step = ((uint32_t)(id >> 32) & mask) | 1;
	uint64_t signature;

	for (uint32_t i = 0; i < dwp->slots && i < MAX_PROBES; i++, slot = (slot + step) & mask) {
		memcpy(&signature, dwp->index.data + slots_at() + (uint64_t)slot * 8, 8);
		row = u32_at(dwp, rows_at(dwp) + (uint64_t)slot * 4);
		if (signature == id && row && row <= dwp->units) {
			*ret_row = row - 1;
			return true;
		}
		if (!row)
			break;
	}
	return false;
}

static int get_column(struct ht_dwp *dwp, uint32_t row, uint32_t column, size_t *budget,
		      struct ht_unit_parts *parts)
{
	uint32_t kind = u32_at(dwp, kinds_at(dwp) + (uint64_t)column * 4);
	struct ht_span *part;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (kinds[i].version != dwp->version || kinds[i].kind != kind)
			continue;
		part = &parts->at[kinds[i].part];
		r = read_part(dwp, ht_part_names[kinds[i].part], cell(dwp, 0, row, column),
			      cell(dwp, 1, row, column), *budget, part);
		*budget -= ht_min(*budget, part->len);
		return r;
	}
	return 0;
}

int ht_dwp_unit(struct ht_dwp *dwp, uint64_t id, size_t *budget, struct ht_unit_parts *parts)
{
	uint32_t row;
	int r = 0;

	if (!dwp->slots || !find_row(dwp, id, &row))
		return -ENOENT;
	if (!dwp->strings_read) {
		dwp->strings_read = true;
		r = read_part(dwp, ht_part_names[HT_PART_STR], 0, UINT64_MAX, *budget,
			      &dwp->strings);
		*budget -= ht_min(*budget, dwp->strings.len);
	}
	parts->at[HT_PART_STR] = dwp->strings;
	for (uint32_t column = 0; column < dwp->columns && r == 0; column++)
		r = get_column(dwp, row, column, budget, parts);
	return r;
}
