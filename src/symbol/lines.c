/* SPDX-License-Identifier: Apache-2.0
 *
 * lines.c: files, lines and inlined calls from DWARF, by libdw and linetable.c.
 *
 * libdw alone and not libdwfl: it never asks debuginfod, and it takes the very image that
 * the target has mapped. What would make it open further files by itself (a supplementary
 * file, .dwo files: names that a hostile file chose) is opened by us and given to it.
 */
#include "symbol/symbol-priv.h"

#include <dwarf.h>
#include <errno.h>
#include <fcntl.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"

#define MAX_UNITS (1 << 20)
#define MAX_RANGES (4 << 20)
#define MAX_DIES ((size_t)64 << 20)
#define MAX_WALK 64

struct unit {
	Dwarf_Off off;		/* of its DIE */
	struct ht_linetable *table;	/* NULL: none, or not asked yet */
	struct ht_dies *dies;	/* made when first asked */
	bool tried;		/* for both */
	bool nested;		/* the functions inside of others are in dies */
	bool skeleton;		/* the functions are in another file */
	struct ht_split *split;	/* which is this, if it could be had */
};

struct range {
	uint64_t lo;
	uint64_t hi;
	uint64_t max_hi;	/* of this and all before */
	uint32_t unit;
};

struct ht_lines {
	Elf *elf;
	Dwarf *dwarf;
	int alt_fd;
	Elf *alt_elf;
	Dwarf *alt;
	struct ht_skeletons *skeletons;
	struct ht_line_sections line_sections;
	struct ht_texts texts;
	ht_vec(struct ht_linetable *) tables;
	struct ht_map table_at;	/* offset of a program to its number in tables */
	size_t table_budget;
	ht_vec(struct unit) units;
	ht_vec(struct range) ranges;
	size_t budget;
	const char *reason;
	bool dead;		/* libdw had no memory: it isn't asked any more */
};

bool ht_lines_present(const struct ht_elf *elf)
{
	const Elf64_Shdr *info = ht_elf_section(elf, ".debug_info");

	if (!info)
		info = ht_elf_section(elf, ".zdebug_info");
	return info && info->sh_size;
}

static int add_ranges(struct ht_lines *lines, Dwarf_Die *die, uint32_t unit)
{
	Dwarf_Addr base, lo, hi;
	ptrdiff_t at = 0;
	struct range *range;

	while ((at = dwarf_ranges(die, at, &base, &lo, &hi)) > 0) {
		/* All units may have the same long list, of nothing. */
		if (!lines->budget || lines->ranges.len >= MAX_RANGES) {
			lines->reason = HT_LINES_LARGE;
			return 0;
		}
		lines->budget--;
		if (lo == 0 || lo >= hi || lo >= UINT64_MAX - 4096)
			continue;
		range = ht_vec_push(&lines->ranges);
		if (!range)
			return -ENOMEM;
		*range = (struct range){ .lo = lo, .hi = hi, .unit = unit };
	}
	return 0;
}

static int by_lo(const void *a_, const void *b_)
{
	const struct range *a = a_, *b = b_;

	return a->lo != b->lo ? (a->lo < b->lo ? -1 : 1) : 0;
}

/* libdw passes over sections that it has no memory to unpack, and misses them later. */
static const char *reason_of_failure(const struct ht_elf *elf)
{
	int r = ht_sections_failure();

	return ht_sections_reason(r == -EBADMSG && !ht_sections_fit(elf) ? -ENOMEM : r);
}

/* List the units by what they say of themselves; .debug_aranges, which clang doesn't
 * write, isn't needed. */
static int list_units(struct ht_lines *lines, const struct ht_elf *elf)
{
	Dwarf_CU *cu = NULL;
	struct unit *unit;
	uint8_t type;
	Dwarf_Die die;
	int r;

	errno = 0;
	while ((r = dwarf_get_units(lines->dwarf, cu, &cu, NULL, &type, &die, NULL)) == 0) {
		if (lines->units.len >= MAX_UNITS) {
			lines->reason = HT_LINES_LARGE;
			break;
		}
		if (type != DW_UT_compile && type != DW_UT_skeleton)
			continue;
		unit = ht_vec_push(&lines->units);
		if (!unit)
			return -ENOMEM;
		unit->off = dwarf_dieoffset(&die);
		unit->skeleton = type == DW_UT_skeleton;
		if (add_ranges(lines, &die, (uint32_t)(lines->units.len - 1)) < 0)
			return -ENOMEM;
	}
	if (r < 0)
		lines->reason = reason_of_failure(elf);
	return 0;
}

struct indexing {
	struct ht_lines *lines;
	const struct ht_elf *elf;
	int r;
};

static void list_units_of(void *arg)
{
	struct indexing *indexing = arg;

	indexing->r = list_units(indexing->lines, indexing->elf);
}

static int index_units(struct ht_lines *lines, const struct ht_elf *elf)
{
	struct indexing indexing = { lines, elf, 0 };
	struct range *range;
	uint64_t max_hi = 0;

	if (!ht_oom_try(list_units_of, &indexing)) {
		lines->dead = true;
		lines->reason = HT_LINES_MEMORY;
	}
	if (lines->ranges.len)
		qsort(lines->ranges.at, lines->ranges.len, sizeof(*range), by_lo);
	ht_vec_foreach(range, &lines->ranges) {
		max_hi = ht_max(max_hi, range->hi);
		range->max_hi = max_hi;
	}
	return indexing.r;
}

/* What ht_sections_objection() says of the supplementary file, which may be as large. */
static const char *alt_objection(const struct ht_lines *lines)
{
	struct ht_elf elf;
	const char *objection = HT_LINES_ALT;

	if (ht_elf_init_fd(&elf, fcntl(lines->alt_fd, F_DUPFD_CLOEXEC, 3)) == 0) {
		objection = ht_sections_objection(&elf, lines->alt_elf);
		ht_elf_fini(&elf);
	}
	return objection;
}

/* Give libdw the supplementary file. When it can't be read libdw would look for it itself,
 * by a name from the file: then there must be no lines at all. NULL, or why there aren't. */
static const char *set_alt(struct ht_lines *lines)
{
	const char *objection = NULL;

	if (lines->alt_fd < 0)
		return NULL;
	errno = 0;
	lines->alt_elf = elf_begin(lines->alt_fd, ELF_C_READ, NULL);
	if (lines->alt_elf)
		objection = alt_objection(lines);
	if (objection)
		return objection;
	errno = 0;
	if (lines->alt_elf)
		lines->alt = dwarf_begin_elf(lines->alt_elf, DWARF_C_READ, NULL);
	if (!lines->alt)
		return ht_sections_failure() == -ENOMEM ? HT_LINES_MEMORY : HT_LINES_ALT;
	ht_oom_guard(lines->alt);
	dwarf_setalt(lines->dwarf, lines->alt);
	return NULL;
}

/* Under either name, unpacked by libdw by now. */
static int get_section(Elf *elf, const char *name, const char *old_name, struct ht_span *ret_span)
{
	int r = ht_sections_get(elf, name, SIZE_MAX, ret_span);

	if (r == 0 && !ret_span->len)
		r = ht_sections_get(elf, old_name, SIZE_MAX, ret_span);
	return r;
}

/* NULL, or why libdw shouldn't read the units of this file. */
static const char *units_objection(Elf *elf)
{
	static const char *const infos[][2] = { { ".debug_info", ".zdebug_info" },
						{ ".debug_types", ".zdebug_types" } };
	struct ht_span tables, info;
	uint64_t sum = 0;
	int r = get_section(elf, ".debug_abbrev", ".zdebug_abbrev", &tables);

	for (size_t i = 0; i < ARRAY_SIZE(infos) && r == 0; i++) {
		r = get_section(elf, infos[i][0], infos[i][1], &info);
		if (r == 0)
			r = ht_bulk_add_units(&info, &tables, &sum);
	}
	return r == -E2BIG ? HT_LINES_LARGE : r < 0 ? ht_sections_reason(r) : NULL;
}

static int find_line_sections(struct ht_lines *lines)
{
	struct ht_line_sections *found = &lines->line_sections;
	const struct {
		const char *name, *old_name;
		struct ht_span *span;
	} sections[] = {
		{ ".debug_line", ".zdebug_line", &found->line },
		{ ".debug_line_str", ".zdebug_line_str", &found->line_str },
		{ ".debug_str", ".zdebug_str", &found->str },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(sections); i++)
		r = get_section(lines->elf, sections[i].name, sections[i].old_name,
				sections[i].span);
	lines->table_budget = found->line.len;
	return r;
}

/* 0 with *ret_reason set when the file can't be used. */
static int start(struct ht_lines *lines, const struct ht_elf *elf, const char **ret_reason)
{
	int r;

	elf_version(EV_CURRENT);
	errno = 0;
	/* Not changed by libelf when it is only read; its prototype is older than const. */
	lines->elf = elf->image ? elf_memory((char *)(uintptr_t)elf->image, elf->len) :
				  elf_begin(elf->fd, ELF_C_READ, NULL);
	if (!lines->elf) {
		*ret_reason = reason_of_failure(elf);
		return 0;
	}
	*ret_reason = ht_sections_objection(elf, lines->elf);
	/* Some calls of libdw end the process when they have no memory, and ask nobody: an
	 * assertion in its tables. */
	if (!*ret_reason && !ht_sections_fit(elf))
		*ret_reason = HT_LINES_MEMORY;
	if (*ret_reason)
		return 0;
	errno = 0;
	lines->dwarf = dwarf_begin_elf(lines->elf, DWARF_C_READ, NULL);
	ht_oom_guard(lines->dwarf);
	*ret_reason = lines->dwarf ? set_alt(lines) : reason_of_failure(elf);
	if (!*ret_reason)
		*ret_reason = units_objection(lines->elf);
	if (!*ret_reason && lines->alt)
		*ret_reason = units_objection(lines->alt_elf);
	if (*ret_reason)
		return 0;
	ht_texts_add(&lines->texts, lines->elf);
	if (lines->alt)
		ht_texts_add(&lines->texts, lines->alt_elf);
	/* Without them there still are inlined calls. */
	r = find_line_sections(lines);
	if (r < 0)
		lines->reason = ht_sections_reason(r);
	return index_units(lines, elf);
}

static bool any_skeleton(const struct ht_lines *lines)
{
	const struct unit *unit;

	ht_vec_foreach(unit, &lines->units)
		if (unit->skeleton)
			return true;
	return false;
}

/* Takes @dwp_fd. */
static int start_split(struct ht_lines *lines, const char *dir, int dwp_fd)
{
	if (any_skeleton(lines))
		return ht_skeletons_new(lines->elf, dir, dwp_fd, &lines->skeletons);
	ht_fd_close(dwp_fd);
	return 0;
}

int ht_lines_new(const struct ht_elf *elf, const struct ht_beside *beside,
		 struct ht_lines **ret_lines, const char **ret_reason)
{
	struct ht_lines *lines;
	const char *reason = NULL;
	int r;

	lines = calloc(1, sizeof(*lines));
	if (!lines) {
		ht_fd_close(beside->alt_fd);
		ht_fd_close(beside->dwp_fd);
		return -ENOMEM;
	}
	lines->alt_fd = beside->alt_fd;
	lines->budget = MAX_DIES;
	r = ht_lines_present(elf) ? start(lines, elf, &reason) : 0;
	if (r == 0)
		r = start_split(lines, beside->dir, beside->dwp_fd);
	else
		ht_fd_close(beside->dwp_fd);
	if (r < 0 || !lines->dwarf || reason)
		lines = ht_lines_free(lines);
	if (r < 0)
		return r;
	*ret_lines = lines;
	*ret_reason = reason;
	return 0;
}

struct ht_lines *ht_lines_free(struct ht_lines *lines)
{
	struct ht_linetable **table;
	struct unit *unit;

	if (!lines)
		return NULL;
	ht_vec_foreach(table, &lines->tables)
		ht_linetable_free(*table);
	ht_vec_fini(&lines->tables);
	ht_map_fini(&lines->table_at);
	ht_vec_foreach(unit, &lines->units) {
		ht_dies_free(unit->dies);
		ht_split_free(unit->split);
	}
	ht_skeletons_free(lines->skeletons);
	ht_vec_fini(&lines->units);
	ht_vec_fini(&lines->ranges);
	dwarf_end(lines->dwarf);
	elf_end(lines->elf);
	dwarf_end(lines->alt);
	elf_end(lines->alt_elf);
	ht_fd_close(lines->alt_fd);
	free(lines);
	return NULL;
}

const char *ht_lines_reason(const struct ht_lines *lines)
{
	if (!lines->reason && lines->skeletons)
		return ht_skeletons_reason(lines->skeletons);
	return lines->reason;
}

static struct unit *find_unit(struct ht_lines *lines, uint64_t addr)
{
	size_t lo = 0, hi = lines->ranges.len, mid, steps;
	const struct range *range;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (lines->ranges.at[mid].lo <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (steps = 0; lo > 0 && steps < MAX_WALK; steps++) {
		range = &lines->ranges.at[--lo];
		if (addr < range->hi)
			return &lines->units.at[range->unit];
		if (addr >= range->max_hi)
			break;
	}
	return NULL;
}

/* Units may share a program. */
static int get_table(struct ht_lines *lines, uint64_t offset, const char *dir,
		     struct ht_linetable **ret_table)
{
	const uint64_t *known = ht_map_get(&lines->table_at, offset);
	struct ht_linetable **new;
	int r;

	if (known) {
		*ret_table = lines->tables.at[*known];
		return 0;
	}
	new = ht_vec_push(&lines->tables);
	if (!new || ht_map_put(&lines->table_at, offset, lines->tables.len - 1) < 0)
		return -ENOMEM;
	r = ht_linetable_new(&lines->line_sections, offset, dir, &lines->table_budget, new);
	*ret_table = r < 0 ? NULL : *new;
	return r;
}

static void read_table(struct ht_lines *lines, struct unit *unit, Dwarf_Die *cu)
{
	Dwarf_Attribute attr;
	Dwarf_Word offset;
	const char *dir = ht_texts_check(&lines->texts,
					 dwarf_formstring(dwarf_attr(cu, DW_AT_comp_dir, &attr)));
	int r;

	if (dwarf_formudata(dwarf_attr(cu, DW_AT_stmt_list, &attr), &offset) < 0)
		return;
	r = get_table(lines, offset, dir, &unit->table);
	if (r < 0)
		lines->reason = ht_sections_reason(r);
}

/* List the unit's functions, once. A skeleton whose unit can't be had may have some itself. */
static void read_unit(struct ht_lines *lines, struct unit *unit, Dwarf_Die *cu)
{
	int r;

	unit->tried = true;
	read_table(lines, unit, cu);
	if (unit->skeleton && ht_skeletons_open(lines->skeletons, cu, &unit->split) == 0)
		cu = ht_split_cu(unit->split);
	r = ht_dies_new(cu, unit->split, &lines->budget, &unit->dies);
	if (r == -E2BIG || r == -ENOMEM)
		lines->reason = r == -E2BIG ? HT_LINES_LARGE : HT_LINES_MEMORY;
}

static size_t find_chain(struct ht_lines *lines, struct unit *unit, Dwarf_Die *cu,
			 uint64_t addr, Dwarf_Die *chain)
{
	Dwarf *dwarf = unit->split ? ht_split_dwarf(unit->split) : lines->dwarf;
	Dwarf_Die owner = unit->split ? *ht_split_cu(unit->split) : *cu;
	size_t n = 0;

	if (unit->dies)
		n = ht_dies_chain(unit->dies, dwarf, addr, chain, HT_LINES_MAX);
	if (unit->dies && !n && !unit->nested) {
		unit->nested = true;
		if (ht_dies_add_nested(unit->dies, &owner, &lines->budget) == -E2BIG)
			lines->reason = HT_LINES_LARGE;
		n = ht_dies_chain(unit->dies, dwarf, addr, chain, HT_LINES_MAX);
	}
	return n;
}

static uint32_t number(Dwarf_Die *die, unsigned name, bool integrate)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;

	if (!(integrate ? dwarf_attr_integrate(die, name, &attr) :
			  dwarf_attr(die, name, &attr)) ||
	    dwarf_formudata(&attr, &value) < 0 || value > UINT32_MAX)
		return 0;
	return (uint32_t)value;
}

/* Texts of a unit that end where they should. */
static const char *checked(const struct ht_lines *lines, const struct unit *unit, const char *text)
{
	const char *good = ht_texts_check(&lines->texts, text);

	return good || !unit->split ? good : ht_texts_check(ht_split_texts(unit->split), text);
}

static const char *linkage_name(Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attr) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr))
		return dwarf_formstring(&attr);
	return NULL;
}

/* libdw says "???" for what the table doesn't have. */
static const char *real_file(const char *file)
{
	return file && strcmp(file, "???") != 0 ? file : NULL;
}

/* A split unit's own files are a table without a program. */
static const char *split_file(struct ht_split *split, uint32_t file)
{
	Dwarf_Files *files;
	size_t n;

	if (dwarf_getsrcfiles(ht_split_cu(split), &files, &n) < 0 || file >= n)
		return NULL;
	return real_file(dwarf_filesrc(files, file, NULL, NULL));
}

/* Where the function that @inlined went into calls it. File 0 is a file from DWARF 5 on. */
static void call_place(struct unit *unit, Dwarf_Die *inlined, struct ht_line *line)
{
	uint32_t file = number(inlined, DW_AT_call_file, false);

	line->line = number(inlined, DW_AT_call_line, false);
	if (!dwarf_hasattr(inlined, DW_AT_call_file))
		return;
	if (unit->split && ht_split_has_files(unit->split))
		line->file = split_file(unit->split, file);
	else if (unit->table)
		line->file = ht_linetable_file(unit->table, file);
}

static void line_place(const struct unit *unit, uint64_t addr, struct ht_line *line)
{
	uint64_t file;

	if (unit->table && ht_linetable_find(unit->table, addr, &file, &line->line))
		line->file = ht_linetable_file(unit->table, file);
}

static size_t look_up(struct ht_lines *lines, uint64_t addr, struct ht_line *ret, size_t max)
{
	struct unit *unit = find_unit(lines, addr);
	Dwarf_Attribute attr;
	const char *dir;
	Dwarf_Die cu, chain[HT_LINES_MAX];
	size_t n, i;

	if (!unit || max == 0 || !dwarf_offdie(lines->dwarf, unit->off, &cu))
		return 0;
	if (!unit->tried)
		read_unit(lines, unit, &cu);
	n = ht_min(find_chain(lines, unit, &cu, addr, chain), max);
	for (i = 0; i < n; i++) {
		Dwarf_Die *die = &chain[n - 1 - i];

		ret[i] = (struct ht_line){ .name = checked(lines, unit, dwarf_diename(die)),
					   .linkage_name = checked(lines, unit, linkage_name(die)),
					   .decl_line = number(die, DW_AT_decl_line, true),
					   .inlined = i + 1 < n };
		if (i > 0)
			call_place(unit, die + 1, &ret[i]);
	}
	if (n == 0)
		ret[n++] = (struct ht_line){ .name = NULL };
	line_place(unit, addr, &ret[0]);
	dir = checked(lines, unit, dwarf_formstring(dwarf_attr(&cu, DW_AT_comp_dir, &attr)));
	for (i = 0; i < n; i++)
		ret[i].dir = dir;
	return n == 1 && !ret[0].name && !ret[0].file ? 0 : n;
}

struct lookup {
	struct ht_lines *lines;
	uint64_t addr;
	struct ht_line *ret;
	size_t max, n;
};

static void look_up_all(void *arg)
{
	struct lookup *lookup = arg;

	lookup->n = look_up(lookup->lines, lookup->addr, lookup->ret, lookup->max);
}

size_t ht_lines_lookup(struct ht_lines *lines, uint64_t addr, struct ht_line *ret, size_t max)
{
	struct lookup lookup = { lines, addr, ret, max, 0 };

	if (lines->dead)
		return 0;
	if (ht_oom_try(look_up_all, &lookup))
		return lookup.n;
	lines->dead = true;
	lines->reason = HT_LINES_MEMORY;
	return 0;
}
