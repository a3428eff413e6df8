/* SPDX-License-Identifier: Apache-2.0
 *
 * linetable.c: the file and line of an address, from the line number program of a unit.
 *
 * Own code and not libdw's, which keeps every column of every row, several times as much, and
 * sorts them all, although only their sequences aren't in order. Here a row is 12 bytes; of those
 * of one address only the last is kept, which is the one that counts.
 */
#include "symbol/symbol-priv.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/cursor.h"

#define MAX_WALK 64
/* Addresses from here on, and 0, are those of functions that the linker dropped. */
#define DROPPED (UINT64_MAX - 4096)

struct file {
	const char *name;
	const char *dir;	/* or NULL */
	char *path;		/* both, made when first asked for */
};

/* From @offset behind the start of its sequence on. */
struct row {
	uint32_t offset;
	uint32_t line;
	uint32_t file;
};

struct sequence {
	uint64_t lo;
	uint64_t hi;
	uint64_t max_hi;	/* of this and all before */
	size_t first;		/* row */
	size_t n;
};

struct ht_linetable {
	ht_vec(const char *) dirs;
	ht_vec(struct file) files;
	ht_vec(struct row) rows;
	ht_vec(struct sequence) sequences;
};

/* A program while it runs. */
struct run {
	const struct ht_line_sections *sections;
	struct ht_linetable *table;
	struct ht_cursor c;
	unsigned version;
	bool wide;		/* offsets of 8 bytes */
	uint8_t min_len, line_range, opcode_base;
	int8_t line_base;
	const uint8_t *lengths;	/* of the standard opcodes */
	uint64_t addr;
	uint32_t file, line;
	bool open;		/* sequence is meant */
	struct sequence sequence;
	bool nomem;
};

/* ---- header ---- */

static uint64_t read_offset(struct run *run)
{
	return run->wide ? ht_cursor_u64(&run->c) : ht_cursor_u32(&run->c);
}

static const char *read_string(struct ht_cursor *c)
{
	const char *text = (const char *)c->p;
	size_t len = strnlen(text, ht_cursor_left(c));

	return ht_cursor_take(c, len + 1) ? text : NULL;
}

static const char *string_at(const struct ht_span *span, uint64_t offset)
{
	const char *text;

	if (offset >= span->len)
		return NULL;
	text = (const char *)span->data + offset;
	return memchr(text, '\0', span->len - offset) ? text : NULL;
}

/* One value of a description of DWARF 5: text, or a number. */
struct value {
	const char *text;
	uint64_t number;
};

static struct value read_value(struct run *run, uint64_t form)
{
	struct ht_cursor *c = &run->c;
	struct value v = { NULL, 0 };

	switch (form) {
	case DW_FORM_string:
		v.text = read_string(c);
		break;
	case DW_FORM_line_strp:
		v.text = string_at(&run->sections->line_str, read_offset(run));
		break;
	case DW_FORM_strp:
		v.text = string_at(&run->sections->str, read_offset(run));
		break;
	case DW_FORM_data1:
		v.number = ht_cursor_u8(c);
		break;
	case DW_FORM_data2:
		v.number = ht_cursor_u16(c);
		break;
	case DW_FORM_data4:
		v.number = ht_cursor_u32(c);
		break;
	case DW_FORM_data8:
		v.number = ht_cursor_u64(c);
		break;
	case DW_FORM_data16:
		ht_cursor_take(c, 16);
		break;
	case DW_FORM_udata:
		v.number = ht_cursor_uleb(c);
		break;
	case DW_FORM_block:
		ht_cursor_take(c, ht_cursor_uleb(c));
		break;
	default:
		c->bad = true;
	}
	return v;
}

static void add_dir(struct run *run, const char *dir)
{
	const char **new = ht_vec_push(&run->table->dirs);

	if (new)
		*new = dir;
	else
		run->nomem = true;
}

static void add_file(struct run *run, const char *name, uint64_t dir)
{
	struct file *new = ht_vec_push(&run->table->files);

	if (!new) {
		run->nomem = true;
		return;
	}
	new->name = name;
	new->dir = dir < run->table->dirs.len ? run->table->dirs.at[dir] : NULL;
}

/* The directories, or the files, of DWARF 5, each described by the same list of forms. */
static void read_entries(struct run *run, bool files)
{
	struct ht_cursor *c = &run->c;
	struct { uint64_t what, form; } formats[UINT8_MAX];
	unsigned n_formats = ht_cursor_u8(c), i;
	uint64_t n;

	for (i = 0; i < n_formats; i++) {
		formats[i].what = ht_cursor_uleb(c);
		formats[i].form = ht_cursor_uleb(c);
	}
	for (n = ht_cursor_uleb(c); n && !c->bad && !run->nomem; n--) {
		const uint8_t *start = c->p;
		const char *name = NULL;
		uint64_t dir = 0;

		for (i = 0; i < n_formats; i++) {
			struct value v = read_value(run, formats[i].form);

			if (formats[i].what == DW_LNCT_path)
				name = v.text;
			else if (formats[i].what == DW_LNCT_directory_index)
				dir = v.number;
		}
		/* Entries of nothing could be any number. */
		c->bad |= c->p == start;
		if (c->bad)
			return;
		if (files)
			add_file(run, name, dir);
		else
			add_dir(run, name);
	}
}

/* The same up to DWARF 4. File 0 isn't one, directory 0 is the unit's. */
static void read_old_entries(struct run *run, const char *dir)
{
	struct ht_cursor *c = &run->c;
	const char *name;
	uint64_t in;

	add_dir(run, dir);
	while ((name = read_string(c)) && *name && !run->nomem)
		add_dir(run, name);
	add_file(run, NULL, 0);
	while ((name = read_string(c)) && *name && !run->nomem) {
		in = ht_cursor_uleb(c);
		ht_cursor_uleb(c);
		ht_cursor_uleb(c);
		add_file(run, name, in);
	}
}

static int read_header(struct run *run, const char *dir)
{
	struct ht_cursor *c = &run->c;
	uint64_t header_len;
	const uint8_t *program;

	run->version = ht_cursor_u16(c);
	if (run->version < 2 || run->version > 5)
		return -EBADMSG;
	/* Sizes of addresses and segments. */
	if (run->version >= 5 && ht_cursor_u16(c) != 8)
		return -EBADMSG;
	header_len = read_offset(run);
	if (header_len > ht_cursor_left(c))
		return -EBADMSG;
	program = c->p + header_len;
	run->min_len = ht_cursor_u8(c);
	/* Several operations in an instruction: x86 has none of that. */
	if (run->version >= 4 && ht_cursor_u8(c) != 1)
		return -EBADMSG;
	ht_cursor_u8(c);
	run->line_base = (int8_t)ht_cursor_u8(c);
	run->line_range = ht_cursor_u8(c);
	run->opcode_base = ht_cursor_u8(c);
	if (!run->line_range || !run->opcode_base)
		return -EBADMSG;
	run->lengths = ht_cursor_take(c, run->opcode_base - 1u);
	if (run->version < 5) {
		read_old_entries(run, dir);
	} else {
		read_entries(run, false);
		read_entries(run, true);
	}
	if (run->nomem)
		return -ENOMEM;
	if (c->bad || c->p > program)
		return -EBADMSG;
	c->p = program;
	return 0;
}

/* ---- program ---- */

static void start_sequence(struct run *run)
{
	run->open = true;
	run->sequence = (struct sequence){ .lo = run->addr, .first = run->table->rows.len };
}

static void end_sequence(struct run *run, uint64_t hi)
{
	struct ht_linetable *table = run->table;
	struct sequence *s = &run->sequence, *new;

	if (!run->open)
		return;
	run->open = false;
	s->hi = hi;
	s->n = table->rows.len - s->first;
	if (s->lo == 0 || s->lo >= DROPPED || s->lo >= hi) {
		table->rows.len = s->first;
		return;
	}
	new = ht_vec_push(&table->sequences);
	if (new)
		*new = *s;
	else
		run->nomem = true;
}

/* From the address on it's this file and line. */
static void add_row(struct run *run)
{
	struct ht_linetable *table = run->table;
	struct row *last = NULL;
	uint64_t offset;

	if (run->open)
		last = &table->rows.at[table->rows.len - 1];
	/* They rise, or else it's as good as another sequence. */
	if (last && (run->addr < run->sequence.lo + last->offset ||
		     run->addr - run->sequence.lo > UINT32_MAX)) {
		end_sequence(run, run->sequence.lo + last->offset);
		last = NULL;
	}
	if (!run->open)
		start_sequence(run);
	offset = run->addr - run->sequence.lo;
	if (last && last->file == run->file && last->line == run->line)
		return;
	if (!last || last->offset != offset)
		last = ht_vec_push(&table->rows);
	if (last)
		*last = (struct row){ (uint32_t)offset, run->line, run->file };
	else
		run->nomem = true;
}

static void reset(struct run *run)
{
	run->addr = 0;
	run->file = run->line = 1;
}

static void run_special(struct run *run, uint8_t opcode)
{
	unsigned step = opcode - run->opcode_base;

	run->addr += (uint64_t)(step / run->line_range) * run->min_len;
	run->line += (uint32_t)(run->line_base + (int)(step % run->line_range));
	add_row(run);
}

static void run_extended(struct run *run)
{
	struct ht_cursor *c = &run->c;
	uint64_t len = ht_cursor_uleb(c), dir;
	const uint8_t *next = len && len <= ht_cursor_left(c) ? c->p + len : NULL;
	const char *name;

	if (!next) {
		c->bad = true;
		return;
	}
	switch (ht_cursor_u8(c)) {
	case DW_LNE_end_sequence:
		end_sequence(run, run->addr);
		reset(run);
		break;
	case DW_LNE_set_address:
		run->addr = len == 9 ? ht_cursor_u64(c) : ht_cursor_u32(c);
		break;
	case DW_LNE_define_file:
		name = read_string(c);
		dir = ht_cursor_uleb(c);
		add_file(run, name, dir);
		break;
	default:
		break;
	}
	c->p = next;
}

static void run_standard(struct run *run, uint8_t opcode)
{
	struct ht_cursor *c = &run->c;

	switch (opcode) {
	case DW_LNS_copy:
		add_row(run);
		return;
	case DW_LNS_advance_pc:
		run->addr += ht_cursor_uleb(c) * run->min_len;
		return;
	case DW_LNS_advance_line:
		run->line += (uint32_t)ht_cursor_sleb(c);
		return;
	case DW_LNS_set_file:
		run->file = (uint32_t)ht_cursor_uleb(c);
		return;
	case DW_LNS_const_add_pc:
		run->addr += (uint64_t)((255u - run->opcode_base) / run->line_range) *
			     run->min_len;
		return;
	case DW_LNS_fixed_advance_pc:
		run->addr += ht_cursor_u16(c);
		return;
	default:
		for (uint8_t i = run->lengths[opcode - 1]; i > 0; i--)
			ht_cursor_uleb(c);
	}
}

static void run_program(struct run *run)
{
	struct ht_cursor *c = &run->c;

	reset(run);
	while (c->p < c->end && !c->bad && !run->nomem) {
		uint8_t opcode = ht_cursor_u8(c);

		if (opcode >= run->opcode_base)
			run_special(run, opcode);
		else if (opcode == 0)
			run_extended(run);
		else
			run_standard(run, opcode);
	}
	if (run->open && !run->nomem)
		end_sequence(run, run->sequence.lo +
				  run->table->rows.at[run->table->rows.len - 1].offset);
}

/* ---- all of it ---- */

static int by_lo(const void *a_, const void *b_)
{
	const struct sequence *a = a_, *b = b_;

	return a->lo != b->lo ? (a->lo < b->lo ? -1 : 1) : 0;
}

static void sort(struct ht_linetable *table)
{
	struct sequence *s;
	uint64_t max_hi = 0;

	if (table->sequences.len)
		qsort(table->sequences.at, table->sequences.len, sizeof(*s), by_lo);
	ht_vec_foreach(s, &table->sequences) {
		max_hi = ht_max(max_hi, s->hi);
		s->max_hi = max_hi;
	}
}

int ht_linetable_new(const struct ht_line_sections *sections, uint64_t offset,
		     const char *dir, size_t *budget, struct ht_linetable **ret_table)
{
	struct run run = { .sections = sections };
	uint64_t len;
	int r;

	/* Of no bytes, whose address is NULL, not even the end is meant. */
	if (offset >= sections->line.len)
		return -EBADMSG;
	run.c = (struct ht_cursor){ sections->line.data + offset,
				    sections->line.data + sections->line.len, false };
	len = ht_cursor_u32(&run.c);
	run.wide = len == UINT32_MAX;
	if (run.wide)
		len = ht_cursor_u64(&run.c);
	if (run.c.bad || len > ht_cursor_left(&run.c))
		return -EBADMSG;
	if (len > *budget)
		return -E2BIG;
	*budget -= len;
	run.c.end = run.c.p + len;
	run.table = calloc(1, sizeof(*run.table));
	if (!run.table)
		return -ENOMEM;
	r = read_header(&run, dir);
	if (r == 0)
		run_program(&run);
	if (r == 0 && run.nomem)
		r = -ENOMEM;
	if (r < 0) {
		ht_linetable_free(run.table);
		return r;
	}
	sort(run.table);
	*ret_table = run.table;
	return 0;
}

struct ht_linetable *ht_linetable_free(struct ht_linetable *table)
{
	struct file *file;

	if (!table)
		return NULL;
	ht_vec_foreach(file, &table->files)
		free(file->path);
	ht_vec_fini(&table->dirs);
	ht_vec_fini(&table->files);
	ht_vec_fini(&table->rows);
	ht_vec_fini(&table->sequences);
	free(table);
	return NULL;
}

static const struct sequence *find_sequence(const struct ht_linetable *table, uint64_t addr)
{
	size_t lo = 0, hi = table->sequences.len, mid, steps;
	const struct sequence *s;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (table->sequences.at[mid].lo <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (steps = 0; lo > 0 && steps < MAX_WALK; steps++) {
		s = &table->sequences.at[--lo];
		if (addr < s->hi)
			return s;
		if (addr >= s->max_hi)
			break;
	}
	return NULL;
}

bool ht_linetable_find(const struct ht_linetable *table, uint64_t addr, uint64_t *ret_file,
		       uint32_t *ret_line)
{
	const struct sequence *s = find_sequence(table, addr);
	const struct row *rows;
	size_t lo = 0, hi, mid;

	if (!s)
		return false;
	rows = &table->rows.at[s->first];
	/* The first one is at the start. */
	for (hi = s->n; hi - lo > 1;) {
		mid = lo + (hi - lo) / 2;
		if (rows[mid].offset <= addr - s->lo)
			lo = mid;
		else
			hi = mid;
	}
	*ret_file = rows[lo].file;
	*ret_line = rows[lo].line <= INT32_MAX ? rows[lo].line : 0;
	return true;
}

static char *join(const char *dir, const char *name)
{
	size_t len = strlen(dir) + 1 + strlen(name) + 1;
	char *path = malloc(len);

	if (path)
		snprintf(path, len, "%s/%s", dir, name);
	return path;
}

const char *ht_linetable_file(struct ht_linetable *table, uint64_t i)
{
	struct file *file = i < table->files.len ? &table->files.at[i] : NULL;

	if (!file || !file->name || !file->dir || file->name[0] == '/')
		return file ? file->name : NULL;
	if (!file->path)
		file->path = join(file->dir, file->name);
	return file->path;
}
