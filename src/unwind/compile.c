/* SPDX-License-Identifier: Apache-2.0
 *
 * compile.c: from call frame information to the compact table.
 *
 * First all FDEs are listed and sorted by address (fdes.c); then one sweep over the text
 * runs each program once and writes rows and buckets in their final order:
 *
 *	text	|.......[FDE).[FDE)....[FDE).........|
 *	layer 0	        =====.=====    =====		.eh_frame
 *	layer 1	   ===		   ===			.debug_frame, in what 0 left open
 *	layer 2	                            ==		PLT and trampolines, in what 1 left open
 *	rest	   gap rows
 *
 * Everything is linear in the input, whatever it says: an FDE runs once, in the first
 * range that it touches; rows and buckets are bounded by the text in the file.
 */
#include "unwind/image-priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "unwind/binary.h"
#include "unwind/fdes.h"

#define MAX_PLTS 8
/* Expressions that aren't a simpler rule: 21 rows in two thousand files. */
#define MAX_EXPRS 64
#define MAX_EXPR_LEN 1024

#define HASH_SIZE (2 * HT_IMAGE_MAX_RULES)
/* Bounds what rules that were made to collide can cost. */
#define MAX_PROBES 128

/* Rules that are always there. */
enum { RULE_GAP, RULE_SLOW, RULES_FIXED };

struct compiler {
	struct ht_elfview elf;
	struct ht_fdes fdes;
	size_t next[HT_FDES_LAYERS];	/* the first FDE that wasn't swept yet */
	struct ht_synth_plt plts[MAX_PLTS];
	unsigned n_plts;

	struct ht_image_range ranges[HT_IMAGE_MAX_RANGES];
	unsigned n_ranges;
	ht_vec(uint32_t) buckets;
	ht_vec(uint32_t) rows;
	ht_vec(struct ht_rule) rules;
	ht_vec(uint8_t) exprs;
	uint16_t hash[HASH_SIZE];	/* rule index + 1 */
	uint32_t expr_at[MAX_EXPRS];

	/* The range being swept, the last row made, the last rule asked for. */
	const struct ht_image_range *range;
	uint32_t row_rule, row_flags;
	struct ht_rule last_rule;
	uint32_t last_index;

	struct ht_image_header header;
	struct ht_cfi_run run;
	bool nomem;
};

/* ------------------------------------------------------------------ text ranges */

static int compare_range(const void *a, const void *b)
{
	const struct ht_image_range *ra = a, *rb = b;

	return (ra->start > rb->start) - (ra->start < rb->start);
}

/* Executable segments, as far as the file has their bytes: what isn't there has no CFI
 * that makes sense, and must not cost buckets. Nor must the same bytes mapped many times:
 * twice the file is more than any linker needs. */
static void find_ranges(struct compiler *c)
{
	struct ht_image_range *to, *from;
	uint64_t len, left = 2 * (uint64_t)c->elf.len;
	Elf64_Phdr phdr;
	unsigned i;

	for (i = 0; c->n_ranges < HT_IMAGE_MAX_RANGES &&
		    ht_elfview_phdr(&c->elf, i, &phdr); i++) {
		if (phdr.p_type != PT_LOAD || !(phdr.p_flags & PF_X) ||
		    phdr.p_offset >= c->elf.len)
			continue;
		len = ht_min(phdr.p_filesz, phdr.p_memsz);
		len = ht_min(len, c->elf.len - phdr.p_offset);
		to = &c->ranges[c->n_ranges];
		to->start = phdr.p_vaddr;
		/* The last bucket is left out, so that rounding up can't overflow. */
		if (len == 0 || len > left ||
		    __builtin_add_overflow(phdr.p_vaddr, len, &to->end) ||
		    to->end > UINT64_MAX - HT_IMAGE_BUCKET)
			continue;
		left -= len;
		c->n_ranges++;
	}
	if (c->n_ranges == 0)
		return;
	qsort(c->ranges, c->n_ranges, sizeof(c->ranges[0]), compare_range);
	/* One range where two would share a bucket. */
	to = c->ranges;
	for (from = to + 1; from < c->ranges + c->n_ranges; from++) {
		if (ht_align_down(from->start, HT_IMAGE_BUCKET) <
		    ht_align_up(to->end, HT_IMAGE_BUCKET))
			to->end = ht_max(to->end, from->end);
		else
			*++to = *from;
	}
	c->n_ranges = (unsigned)(to - c->ranges) + 1;
}

/* ------------------------------------------------------------------ rules */

static uint32_t hash_rule(const struct ht_rule *rule)
{
	uint64_t words[2];

	memcpy(words, rule, sizeof(words));
	words[0] = (words[0] ^ words[1] * UINT64_C(0x9e3779b97f4a7c15)) *
		   UINT64_C(0xbf58476d1ce4e5b9);
	return (uint32_t)(words[0] >> 49) & (HASH_SIZE - 1);
}

/* The table has no room for more than 14 bits of rules; the most seen in a file is 882.
 * What comes later is left to the interpreter. */
static uint32_t find_rule(struct compiler *c, const struct ht_rule *rule)
{
	uint32_t slot = hash_rule(rule), probes = 0;
	struct ht_rule *added;

	for (; c->hash[slot] != 0; slot = (slot + 1) & (HASH_SIZE - 1)) {
		if (memcmp(&c->rules.at[c->hash[slot] - 1], rule, sizeof(*rule)) == 0)
			return c->hash[slot] - 1u;
		if (++probes == MAX_PROBES)
			return RULE_SLOW;
	}
	if (c->rules.len == HT_IMAGE_MAX_RULES)
		return RULE_SLOW;
	added = ht_vec_push(&c->rules);
	if (!added) {
		c->nomem = true;
		return RULE_SLOW;
	}
	*added = *rule;
	c->hash[slot] = (uint16_t)c->rules.len;
	return (uint32_t)c->rules.len - 1;
}

static void add_fixed_rules(struct compiler *c)
{
	static const struct ht_rule fixed[RULES_FIXED] = {
		[RULE_GAP] = { .cfa_kind = HT_CFA_GAP },
		[RULE_SLOW] = { .cfa_kind = HT_CFA_SLOW, .bp_kind = HT_BP_SLOW,
				.ra_kind = HT_RA_SLOW },
	};
	unsigned i;

	for (i = 0; i < RULES_FIXED; i++)
		find_rule(c, &fixed[i]);
}

/* Where the blob has the expression; -1: there is no room for it. */
static int32_t find_expr(struct compiler *c, const struct ht_cfi_rule *cfa)
{
	uint32_t i, at, len = cfa->expr_len;

	for (i = 0; i < c->header.n_exprs; i++) {
		memcpy(&at, c->exprs.at + c->expr_at[i], sizeof(at));
		if (at == len && memcmp(c->exprs.at + c->expr_at[i] + 4, cfa->expr, len) == 0)
			return (int32_t)c->expr_at[i];
	}
	if (c->header.n_exprs == MAX_EXPRS || len > MAX_EXPR_LEN)
		return -1;
	at = (uint32_t)c->exprs.len;
	if (ht_vec_reserve(&c->exprs, at + sizeof(len) + len) < 0) {
		c->nomem = true;
		return -1;
	}
	memcpy(c->exprs.at + at, &len, sizeof(len));
	if (len > 0)
		memcpy(c->exprs.at + at + sizeof(len), cfa->expr, len);
	c->exprs.len += sizeof(len) + len;
	c->expr_at[c->header.n_exprs++] = at;
	return (int32_t)at;
}

static uint32_t row_rule(struct compiler *c, const struct ht_cfi_row *row,
			 const struct ht_cfi_cie *cie)
{
	struct ht_rule rule = ht_rule_make(row, cie);

	if (rule.cfa_kind == HT_CFA_EXPR) {
		rule.aux = find_expr(c, &row->cfa);
		if (rule.aux < 0)
			return RULE_SLOW;
	}
	if (memcmp(&rule, &c->last_rule, sizeof(rule)) != 0) {
		c->last_index = find_rule(c, &rule);
		c->last_rule = rule;
	}
	return c->last_index;
}

static bool is_slow(const struct ht_rule *rule)
{
	return rule->cfa_kind == HT_CFA_SLOW || rule->cfa_kind == HT_CFA_EXPR ||
	       rule->cfa_kind == HT_CFA_REG || rule->bp_kind == HT_BP_SLOW ||
	       rule->ra_kind == HT_RA_SLOW || rule->ra_kind == HT_RA_REG;
}

/* ------------------------------------------------------------------ rows */

/* Start buckets until that of @addr is the last one. */
static void open_buckets(struct compiler *c, uint64_t addr)
{
	uint64_t want = c->range->first_bucket + (addr >> HT_IMAGE_BUCKET_SHIFT) -
			(c->range->start >> HT_IMAGE_BUCKET_SHIFT);
	uint32_t *bucket;

	while (c->buckets.len <= want) {
		bucket = ht_vec_push(&c->buckets);
		if (!bucket) {
			c->nomem = true;
			return;
		}
		*bucket = (uint32_t)c->rows.len;
	}
}

/* From @addr on @rule holds. Equal neighbours are one row, but where an FDE starts. */
static void put_row(struct compiler *c, uint64_t addr, uint32_t rule, uint32_t flags)
{
	uint32_t *row;

	if (c->row_rule == rule && c->row_flags == (flags & ~(uint32_t)HT_ROW_FDE_START) &&
	    !(flags & HT_ROW_FDE_START))
		return;
	open_buckets(c, addr);
	row = ht_vec_push(&c->rows);
	if (!row) {
		c->nomem = true;
		return;
	}
	*row = (uint32_t)(addr & (HT_IMAGE_BUCKET - 1)) << 22 | rule << 8 | flags;
	c->header.slow_rows += is_slow(&c->rules.at[rule]);
	c->row_rule = rule;
	c->row_flags = flags & ~(uint32_t)HT_ROW_FDE_START;
}

static void put_gap(struct compiler *c, uint64_t from, uint64_t to)
{
	put_row(c, from, RULE_GAP, 0);
	c->header.gap_bytes += to - from;
}

/* Without any CFI: signal trampolines are known by their code. */
static void fill_by_code(struct compiler *c, uint64_t from, uint64_t to)
{
	static const struct ht_rule rule = { .cfa_kind = HT_CFA_SIGNAL };
	const uint8_t *code;
	uint64_t at;
	size_t left;

	while (to - from >= HT_SYNTH_SIGRETURN) {
		code = ht_elfview_at(&c->elf, from, &left);
		left = code ? (size_t)ht_min((uint64_t)left, to - from) : 0;
		at = from + (code ? ht_synth_find_sigreturn(code, left) : 0);
		if (at - from == left) {
			put_gap(c, from, to);
			return;
		}
		if (at > from)
			put_gap(c, from, at);
		put_row(c, at, find_rule(c, &rule), HT_ROW_SYNTHETIC | HT_ROW_FDE_START);
		c->header.flags |= HT_IMAGE_SYNTHETIC;
		from = at + HT_SYNTH_SIGRETURN;
	}
	if (from < to)
		put_gap(c, from, to);
}

static void fill_synthetic(struct compiler *c, uint64_t from, uint64_t to)
{
	struct ht_synth_row rows[HT_SYNTH_PLT_ROWS];
	const struct ht_synth_plt *plt;
	unsigned i, n;

	for (plt = c->plts; plt < c->plts + c->n_plts; plt++) {
		if (plt->start < from || plt->end > to)
			continue;
		fill_by_code(c, from, plt->start);
		n = ht_synth_plt_rows(plt, rows);
		for (i = 0; i < n; i++)
			put_row(c, rows[i].start, find_rule(c, &rows[i].rule),
				HT_ROW_SYNTHETIC);
		c->header.flags |= HT_IMAGE_SYNTHETIC;
		from = plt->end;
	}
	fill_by_code(c, from, to);
}

static void sweep(struct compiler *c, unsigned layer, uint64_t from, uint64_t to);

/* Run @ref's program for [from, to). */
static void put_fde(struct compiler *c, unsigned layer, const struct ht_fde_ref *ref,
		    uint64_t from, uint64_t to)
{
	uint32_t flags = layer == HT_FDES_DEBUG ? HT_ROW_DEBUG : 0;
	uint32_t start_flag = HT_ROW_FDE_START;
	uint64_t start, end;
	struct ht_cfi_fde fde;
	int r;

	if (ht_fdes_read(&c->fdes, ref, &fde) < 0)
		return;
	ht_cfi_run_init(&c->run, &fde);
	while ((r = ht_cfi_run_next(&c->run, &start, &end)) != 0) {
		if (r < 0)
			c->header.bad_fdes++;
		if (start >= to)
			return;
		if (end <= from)
			continue;
		if (r < 0) {
			sweep(c, layer + 1, ht_max(start, from), to);
			return;
		}
		if (start < from) {
			start = from;
			start_flag = 0;
		}
		put_row(c, start, row_rule(c, &c->run.row, fde.cie), flags | start_flag);
		start_flag = 0;
	}
}

static void sweep(struct compiler *c, unsigned layer, uint64_t from, uint64_t to)
{
	const struct ht_fde_ref *ref;
	uint64_t stop;

	if (layer == HT_FDES_LAYERS) {
		fill_synthetic(c, from, to);
		return;
	}
	while (from < to && c->next[layer] < c->fdes.layers[layer].len) {
		ref = &c->fdes.layers[layer].at[c->next[layer]];
		if (ref->start >= to)
			break;
		c->next[layer]++;
		if (ref->end <= from)
			continue;
		if (ref->start > from)
			sweep(c, layer + 1, from, ref->start);
		from = ht_max(from, ref->start);
		stop = ht_min(ref->end, to);
		put_fde(c, layer, ref, from, stop);
		from = stop;
	}
	if (from < to)
		sweep(c, layer + 1, from, to);
}

static void sweep_range(struct compiler *c, struct ht_image_range *range)
{
	uint64_t first = range->start >> HT_IMAGE_BUCKET_SHIFT;
	uint64_t last = (range->end - 1) >> HT_IMAGE_BUCKET_SHIFT;
	uint32_t *sentinel;

	range->first_bucket = (uint32_t)c->buckets.len;
	range->n_buckets = (uint32_t)(last - first + 1);
	c->range = range;
	c->row_rule = UINT32_MAX;
	sweep(c, 0, range->start, range->end);
	open_buckets(c, range->end - 1);
	sentinel = ht_vec_push(&c->buckets);
	if (sentinel)
		*sentinel = (uint32_t)c->rows.len;
	else
		c->nomem = true;
	c->header.text_bytes += range->end - range->start;
}

/* ------------------------------------------------------------------ the image */

static void copy_build_id(const struct ht_elfview *elf, struct ht_image_header *header)
{
	struct ht_binary binary;

	if (ht_binary_read(elf->image, elf->len, &binary) < 0)
		return;
	header->build_id_len = (uint8_t)binary.build_id_len;
	memcpy(header->build_id, binary.build_id,
	       ht_min(binary.build_id_len, (size_t)HT_IMAGE_BUILD_ID));
}

/* Set where the parts go; false: the image would be too large. */
static bool lay_out(struct compiler *c)
{
	struct ht_image_header *h = &c->header;
	uint64_t at = sizeof(*h);

	h->magic = HT_IMAGE_MAGIC;
	h->version = HT_IMAGE_VERSION;
	h->machine = EM_X86_64;
	h->bucket_shift = HT_IMAGE_BUCKET_SHIFT;
	h->n_ranges = (uint16_t)c->n_ranges;
	h->n_buckets = (uint32_t)c->buckets.len;
	h->n_rows = (uint32_t)c->rows.len;
	h->n_rules = (uint32_t)c->rules.len;
	h->expr_bytes = (uint32_t)c->exprs.len;
	h->ranges_at = (uint32_t)at;
	at += c->n_ranges * sizeof(struct ht_image_range);
	h->buckets_at = (uint32_t)at;
	at += c->buckets.len * 4;
	h->rows_at = (uint32_t)at;
	at = ht_align_up(at + c->rows.len * 4, 16);
	h->rules_at = (uint32_t)at;
	at += c->rules.len * sizeof(struct ht_rule);
	h->exprs_at = (uint32_t)at;
	at += c->exprs.len;
	h->size = (uint32_t)at;
	return at <= UINT32_MAX;
}

static void copy(uint8_t *to, const void *from, size_t len)
{
	if (len > 0)
		memcpy(to, from, len);
}

static int make_image(struct compiler *c, struct ht_table **ret_table)
{
	const struct ht_image_header *h = &c->header;
	struct ht_table *table;
	uint8_t *image;

	if (!lay_out(c))
		return -EFBIG;
	table = calloc(1, sizeof(*table));
	image = table ? aligned_alloc(16, ht_align_up((size_t)h->size, 16)) : NULL;
	if (!image) {
		free(table);
		return -ENOMEM;
	}
	copy(image + h->ranges_at, c->ranges, c->n_ranges * sizeof(c->ranges[0]));
	copy(image + h->buckets_at, c->buckets.at, c->buckets.len * 4);
	copy(image + h->rows_at, c->rows.at, c->rows.len * 4);
	memset(image + h->rows_at + c->rows.len * 4, 0,
	       h->rules_at - h->rows_at - c->rows.len * 4);
	copy(image + h->rules_at, c->rules.at, c->rules.len * sizeof(struct ht_rule));
	copy(image + h->exprs_at, c->exprs.at, c->exprs.len);
	memcpy(image, h, sizeof(*h));
	c->header.checksum = ht_image_checksum(image, h->size);
	memcpy(image, h, sizeof(*h));
	table->image = image;
	table->len = h->size;
	if (!ht_image_open(image, table->len, &table->view)) {
		ht_table_free(table);
		return -EINVAL;
	}
	*ret_table = table;
	return 0;
}

/* ------------------------------------------------------------------ all of it */

static struct compiler *compiler_free(struct compiler *c)
{
	if (!c)
		return NULL;
	ht_fdes_fini(&c->fdes);
	ht_vec_fini(&c->buckets);
	ht_vec_fini(&c->rows);
	ht_vec_fini(&c->rules);
	ht_vec_fini(&c->exprs);
	free(c);
	return NULL;
}

static void compiler_freep(struct compiler **c)
{
	*c = compiler_free(*c);
}

static int gather(struct compiler *c, const uint8_t *debug, size_t debug_len)
{
	struct ht_image_header *h = &c->header;
	struct ht_fdes *fdes = &c->fdes;
	struct ht_elfview view;
	int r;

	r = ht_fdes_add(fdes, &c->elf, c->ranges, c->n_ranges);
	/* A debug file that isn't one costs its own data only. */
	if (r == 0 && debug && ht_elfview_open(debug, debug_len, &view) == 0)
		r = ht_fdes_add(fdes, &view, c->ranges, c->n_ranges);
	if (r == 0)
		r = ht_fdes_sort(fdes);
	if (r < 0)
		return r;
	h->fdes = (uint32_t)(fdes->layers[HT_FDES_EH].len + fdes->layers[HT_FDES_DEBUG].len);
	h->bad_fdes = fdes->n_bad;
	h->overlaps = ht_fdes_overlaps(fdes, HT_FDES_EH);
	h->skipped_sections = ht_fdes_skipped(fdes);
	if (fdes->layers[HT_FDES_EH].len > 0)
		h->flags |= HT_IMAGE_EH;
	if (fdes->layers[HT_FDES_DEBUG].len > 0)
		h->flags |= HT_IMAGE_DEBUG;
	c->n_plts = ht_synth_find_plts(&c->elf, c->plts, MAX_PLTS);
	return 0;
}

int ht_table_compile(const uint8_t *elf, size_t elf_len, const uint8_t *debug,
		     size_t debug_len, struct ht_table **ret_table)
{
	_cleanup_(compiler_freep) struct compiler *c = NULL;
	unsigned i;
	int r;

	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	r = ht_elfview_open(elf, elf_len, &c->elf);
	if (r < 0)
		return r;
	find_ranges(c);
	r = gather(c, debug, debug_len);
	if (r < 0)
		return r;
	add_fixed_rules(c);
	for (i = 0; i < c->n_ranges && !c->nomem; i++)
		sweep_range(c, &c->ranges[i]);
	if (c->nomem)
		return -ENOMEM;
	if (!(c->header.flags & (HT_IMAGE_EH | HT_IMAGE_DEBUG | HT_IMAGE_SYNTHETIC)))
		return -ENODATA;
	copy_build_id(&c->elf, &c->header);
	return make_image(c, ret_table);
}
