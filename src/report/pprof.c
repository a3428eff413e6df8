/* SPDX-License-Identifier: Apache-2.0
 *
 * pprof.c: gzipped profile.proto, what `go tool pprof`, Grafana, speedscope and many more
 * read. The numbers of the fields are those of github.com/google/pprof/proto/profile.proto.
 *
 * Modules move from run to run, and the ledger has forgotten where they were. A mapping
 * gets a made-up place, at which its addresses keep their distance from the file's: readers
 * only ever subtract the one from the other.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "report/report-priv.h"
#include "unwind/unwind.h"

#define FIRST_BASE UINT64_C(0x10000000000)
#define NEXT_BASE(end) ht_align_up((end) + (UINT64_C(1) << 30), UINT64_C(1) << 30)

struct function {
	const char *name, *linkage_name, *file;
	uint32_t decl_line;
};

/* One module that has frames. */
struct mapping {
	uint32_t module;
	uint64_t base;			/* added to ELF addresses */
	struct ht_symbol_text text;
	bool functions, filenames, lines, inlines;
};

struct location {
	struct ht_frame frame;
	uint32_t mapping;		/* number + 1, or 0 */
};

struct pprof {
	const struct ht_recording *recording;
	struct ht_buf out;
	struct ht_map strings_by_hash;
	ht_vec(char *) strings;
	struct ht_map functions_by_hash;
	ht_vec(struct function) functions;
	struct ht_map mapping_of;	/* module -> number */
	ht_vec(struct mapping) mappings;
	ht_vec(struct ht_map) locations_of;	/* by mapping + 1: address -> id */
	uint64_t n_locations;
	uint64_t next_base;
};

static void pprof_fini(struct pprof *p)
{
	struct ht_map *map;
	char **s;

	ht_buf_fini(&p->out);
	ht_map_fini(&p->strings_by_hash);
	ht_vec_foreach(s, &p->strings)
		free(*s);
	ht_vec_fini(&p->strings);
	ht_map_fini(&p->functions_by_hash);
	ht_vec_fini(&p->functions);
	ht_map_fini(&p->mapping_of);
	ht_vec_fini(&p->mappings);
	ht_vec_foreach(map, &p->locations_of)
		ht_map_fini(map);
	ht_vec_fini(&p->locations_of);
}

/* --- the string table ---------------------------------------------------------------- */

/* The number of @text, added if needed; a failure is remembered in out. */
static uint64_t string(struct pprof *p, const char *text)
{
	uint64_t key = ht_hash_text(text), *at;
	char **slot;

	for (; (at = ht_map_get(&p->strings_by_hash, key)); key++)
		if (strcmp(p->strings.at[*at], text) == 0)
			return *at;
	slot = ht_vec_push(&p->strings);
	if (!slot || !(*slot = strdup(text)) ||
	    ht_map_put(&p->strings_by_hash, key, p->strings.len - 1) < 0) {
		p->out.failed = true;
		return 0;
	}
	return p->strings.len - 1;
}

static uint64_t clean_string(struct pprof *p, const char *text)
{
	_cleanup_(ht_buf_fini) struct ht_buf clean = HT_BUF_INIT;

	if (ht_symbol_clean(text, 4096, &clean) < 0) {
		p->out.failed = true;
		return 0;
	}
	return string(p, clean.data ? clean.data : "");
}

/* --- mappings, functions, locations --------------------------------------------------- */

static struct mapping *add_mapping(struct pprof *p, uint32_t module)
{
	struct mapping *mapping = ht_vec_push(&p->mappings);

	if (!mapping || !ht_vec_push(&p->locations_of) ||
	    ht_map_put(&p->mapping_of, module, p->mappings.len - 1) < 0) {
		p->out.failed = true;
		return NULL;
	}
	mapping->module = module;
	if (!ht_symbols_module_text(p->recording->symbols, module, &mapping->text))
		mapping->text = (struct ht_symbol_text){ .end = UINT64_C(1) << 30 };
	if (!mapping->text.fixed && mapping->text.end < UINT64_C(1) << 46 &&
	    p->next_base < UINT64_C(1) << 62) {
		mapping->base = p->next_base;
		p->next_base = NEXT_BASE(p->next_base + mapping->text.end);
	}
	return mapping;
}

/* The number + 1 of the frame's mapping; 0: no file. */
static uint32_t mapping_of(struct pprof *p, const struct ht_frame *frame)
{
	uint64_t *known = ht_map_get(&p->mapping_of, frame->module);

	if (known)
		return (uint32_t)*known + 1;
	if (!ht_modules_at(p->recording->modules, frame->module))
		return 0;
	return add_mapping(p, frame->module) ? (uint32_t)p->mappings.len : 0;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_function(const struct function *a, const struct function *b)
{
	return a->name == b->name && a->file == b->file && a->decl_line == b->decl_line &&
	       same_text(a->linkage_name, b->linkage_name);
}

/* The id of a function. The pointers of names shown, and of files, are their identity within a
 * recording. */
static uint64_t function(struct pprof *p, struct function f)
{
	uint64_t linkage = f.linkage_name ? ht_hash_text(f.linkage_name) : 0;
	uint64_t key = ht_hash64((uintptr_t)f.name ^ ht_hash64((uintptr_t)f.file)) ^
		       ht_hash64(linkage + f.decl_line), *at;
	struct function *slot;

	for (; (at = ht_map_get(&p->functions_by_hash, key)); key++)
		if (same_function(&p->functions.at[*at], &f))
			return *at + 1;
	slot = ht_vec_push(&p->functions);
	if (!slot || ht_map_put(&p->functions_by_hash, key, p->functions.len - 1) < 0) {
		p->out.failed = true;
		return 0;
	}
	*slot = f;
	return p->functions.len;
}

static void add_line(struct pprof *p, struct ht_buf *location, const struct ht_symbol *symbol,
		     struct mapping *mapping)
{
	_cleanup_(ht_buf_fini) struct ht_buf line = HT_BUF_INIT;
	struct function f = { symbol->name, symbol->linkage_name, symbol->file,
			      symbol->decl_line };

	ht_proto_uint(&line, 1, function(p, f));
	ht_proto_uint(&line, 2, symbol->line);
	ht_proto_message(location, 4, &line);
	if (!mapping)
		return;
	mapping->functions = true;
	mapping->filenames |= symbol->file != NULL;
	mapping->lines |= symbol->line != 0;
	mapping->inlines |= symbol->inlined;
}

/* Write the location of @frame. What has no name gets no line: the reader may know it. */
static int write_location(struct pprof *p, const struct ht_frame *frame, uint64_t addr,
			  uint32_t mapping, uint64_t id)
{
	_cleanup_(ht_buf_fini) struct ht_buf location = HT_BUF_INIT;
	struct mapping *m = mapping ? &p->mappings.at[mapping - 1] : NULL;
	const struct ht_symbol *symbols;
	size_t n, i;
	int r;

	r = ht_symbols_lookup(p->recording->symbols, frame, &symbols, &n);
	if (r < 0)
		return r;
	ht_proto_uint(&location, 1, id);
	ht_proto_uint(&location, 2, mapping);
	ht_proto_uint(&location, 3, addr + (m ? m->base : 0));
	for (i = 0; i < n; i++)
		if (!symbols[i].unknown || n > 1)
			add_line(p, &location, &symbols[i], m);
	ht_proto_message(&p->out, 4, &location);
	return 0;
}

/* *ret_id is the location of @frame, written when it is new. */
static int location(struct pprof *p, const struct ht_frame *frame, uint64_t *ret_id)
{
	uint64_t addr = frame->offset - (!(frame->flags & HT_FRAME_EXACT) && frame->offset);
	uint32_t mapping = mapping_of(p, frame);
	uint64_t *known;
	int r;

	known = ht_map_get(&p->locations_of.at[mapping], addr);
	if (known) {
		*ret_id = *known;
		return 0;
	}
	r = ht_map_put(&p->locations_of.at[mapping], addr, ++p->n_locations);
	if (r < 0)
		return r;
	*ret_id = p->n_locations;
	return write_location(p, frame, addr, mapping, p->n_locations);
}

/* A frame that isn't code: why the stack ends here. */
static uint64_t placeholder(struct pprof *p, enum ht_stack_end end)
{
	_cleanup_(ht_buf_fini) struct ht_buf text = HT_BUF_INIT, out = HT_BUF_INIT,
					     line = HT_BUF_INIT;
	uint64_t key = UINT64_MAX - (uint64_t)end, *known, id, name;
	struct ht_map *ids = &p->locations_of.at[0];

	known = ht_map_get(ids, key);
	if (known)
		return *known;
	if (ht_map_put(ids, key, ++p->n_locations) < 0)
		p->out.failed = true;
	id = p->n_locations;
	/* Functions are told apart by the pointers of their names: take the string table's,
	 * which stay. */
	ht_buf_printf(&text, "[%s]", end == HT_STACK_COMPLETE ? "no stack" :
								ht_stack_end_text(end));
	name = string(p, text.failed ? "" : text.data);
	ht_proto_uint(&line, 1, function(p, (struct function){
					    .name = p->strings.at[name] }));
	ht_proto_uint(&out, 1, id);
	ht_proto_message(&out, 4, &line);
	ht_proto_message(&p->out, 4, &out);
	p->out.failed |= text.failed;
	return id;
}

/* --- samples -------------------------------------------------------------------------- */

static uint64_t whole(double value)
{
	return value > 0 ? (uint64_t)llround(fmin(value, 9e18)) : 0;
}

static int write_locations(struct pprof *p, uint32_t site, struct ht_buf *sample,
			   uint32_t *ret_label)
{
	_cleanup_(ht_buf_fini) struct ht_buf ids = HT_BUF_INIT;
	struct ht_stack stack;
	uint64_t id = 0;
	uint32_t i;
	int r = 0;

	ht_ledger_site_stack(p->recording->ledger, site, &stack, ret_label);
	for (i = 0; i < stack.n_frames && i < HT_MAX_FRAMES; i++) {
		r = location(p, &stack.frames[i], &id);
		if (r < 0)
			return r;
		ht_proto_varint(&ids, id);
	}
	if (stack.end != HT_STACK_COMPLETE || stack.n_frames == 0)
		ht_proto_varint(&ids, placeholder(p, stack.end));
	ht_proto_message(sample, 1, &ids);
	return 0;
}

static int write_sample(struct pprof *p, uint32_t site)
{
	_cleanup_(ht_buf_fini) struct ht_buf sample = HT_BUF_INIT, values = HT_BUF_INIT,
					     label = HT_BUF_INIT;
	struct ht_figures figures;
	uint32_t thread = 0;
	int r;

	ht_ledger_site_figures(p->recording->ledger, site, &figures);
	if (figures.total.samples == 0 && figures.total.objects <= 0)
		return 0;
	r = write_locations(p, site, &sample, &thread);
	if (r < 0)
		return r;
	ht_proto_varint(&values, whole(figures.total.objects));
	ht_proto_varint(&values, whole(figures.total.bytes));
	ht_proto_varint(&values, whole(figures.live.objects));
	ht_proto_varint(&values, whole(figures.live.bytes));
	ht_proto_varint(&values, whole(figures.peak.objects));
	ht_proto_varint(&values, whole(figures.peak.bytes));
	ht_proto_message(&sample, 2, &values);
	if (thread) {
		ht_proto_uint(&label, 1, string(p, "thread"));
		ht_proto_uint(&label, 3, thread);
		ht_proto_message(&sample, 3, &label);
	}
	ht_proto_message(&p->out, 2, &sample);
	return 0;
}

/* --- the rest of the profile ---------------------------------------------------------- */

static void write_type(struct pprof *p, unsigned field, const char *type, const char *unit)
{
	_cleanup_(ht_buf_fini) struct ht_buf value_type = HT_BUF_INIT;

	ht_proto_uint(&value_type, 1, string(p, type));
	ht_proto_uint(&value_type, 2, string(p, unit));
	ht_proto_message(&p->out, field, &value_type);
}

static void write_mapping(struct pprof *p, size_t i)
{
	_cleanup_(ht_buf_fini) struct ht_buf out = HT_BUF_INIT, hex = HT_BUF_INIT;
	const struct mapping *m = &p->mappings.at[i];
	const struct ht_module *module = ht_modules_at(p->recording->modules, m->module);
	const uint8_t *id;
	size_t len, b;

	id = ht_module_build_id(module, &len);
	for (b = 0; b < len; b++)
		ht_buf_printf(&hex, "%02x", id[b]);
	ht_proto_uint(&out, 1, i + 1);
	ht_proto_uint(&out, 2, m->base + m->text.vaddr);
	ht_proto_uint(&out, 3, m->base + m->text.end);
	ht_proto_uint(&out, 4, m->text.file_offset);
	ht_proto_uint(&out, 5, clean_string(p, ht_module_path(module)));
	ht_proto_uint(&out, 6, string(p, hex.data ? hex.data : ""));
	ht_proto_uint(&out, 7, m->functions);
	ht_proto_uint(&out, 8, m->filenames);
	ht_proto_uint(&out, 9, m->lines);
	ht_proto_uint(&out, 10, m->inlines);
	ht_proto_message(&p->out, 3, &out);
	p->out.failed |= hex.failed;
}

static void write_functions(struct pprof *p)
{
	size_t i;

	for (i = 0; i < p->functions.len; i++) {
		_cleanup_(ht_buf_fini) struct ht_buf out = HT_BUF_INIT;
		const struct function *f = &p->functions.at[i];

		ht_proto_uint(&out, 1, i + 1);
		ht_proto_uint(&out, 2, string(p, f->name));
		ht_proto_uint(&out, 3, string(p, f->linkage_name ? f->linkage_name : f->name));
		ht_proto_uint(&out, 4, f->file ? string(p, f->file) : 0);
		ht_proto_uint(&out, 5, f->decl_line);
		ht_proto_message(&p->out, 5, &out);
	}
}

static void write_comment(struct pprof *p, const struct ht_buf *text)
{
	if (text->failed)
		p->out.failed = true;
	else if (text->len)
		ht_proto_uint(&p->out, 13, string(p, text->data));
}

static void write_comments(struct pprof *p)
{
	_cleanup_(ht_buf_fini) struct ht_buf text = HT_BUF_INIT;
	const struct ht_recording *r = p->recording;

	bool complete = !ht_losses(r, &text);
	size_t i;

	write_comment(p, &text);
	ht_buf_clear(&text);
	ht_buf_puts(&text, "heaptap: ");
	ht_symbol_clean(r->command ? r->command : "?", 64, &text);
	ht_buf_printf(&text, " (pid %d), ", r->pid);
	ht_sampling(r, complete, &text);
	write_comment(p, &text);
	for (i = 0; i < r->n_untapped;) {
		ht_buf_clear(&text);
		ht_untapped_line(r, &i, true, &text);
		write_comment(p, &text);
	}
}

static void write_strings(struct pprof *p)
{
	size_t i;

	for (i = 0; i < p->strings.len; i++)
		if (p->strings.at[i])
			ht_proto_bytes(&p->out, 6, p->strings.at[i], strlen(p->strings.at[i]));
}

/* pprof takes the first mapping for the program. */
static void add_main_mapping(struct pprof *p)
{
	size_t n = ht_modules_count(p->recording->modules), i;

	for (i = 0; p->recording->exe && i < n; i++) {
		const struct ht_module *m = ht_modules_at(p->recording->modules, (uint32_t)i);

		if (m && strcmp(ht_module_path(m), p->recording->exe) == 0) {
			add_mapping(p, (uint32_t)i);
			return;
		}
	}
}

static int write_profile(struct pprof *p)
{
	size_t n = ht_ledger_site_count(p->recording->ledger), i;
	int r = 0;

	p->next_base = FIRST_BASE;
	string(p, "");		/* must be the first */
	if (!ht_vec_push(&p->locations_of) || p->out.failed)
		return -ENOMEM;
	/* First those of every heap profile: some readers know them by their place. */
	write_type(p, 1, "alloc_objects", "count");
	write_type(p, 1, "alloc_space", "bytes");
	write_type(p, 1, "inuse_objects", "count");
	write_type(p, 1, "inuse_space", "bytes");
	write_type(p, 1, "peak_objects", "count");
	write_type(p, 1, "peak_space", "bytes");
	add_main_mapping(p);
	for (i = 0; r == 0 && i < n && !p->out.failed; i++)
		r = write_sample(p, (uint32_t)i);
	if (r < 0 || p->out.failed)
		return -ENOMEM;
	for (i = 0; i < p->mappings.len; i++)
		write_mapping(p, i);
	write_functions(p);
	ht_proto_uint(&p->out, 9, p->recording->start_unix_ns);
	ht_proto_uint(&p->out, 10, p->recording->duration_ns);
	write_type(p, 11, "space", "bytes");
	ht_proto_uint(&p->out, 12, p->recording->interval ? p->recording->interval : 1);
	write_comments(p);
	ht_proto_uint(&p->out, 14, string(p, "inuse_space"));
	write_strings(p);
	return p->out.failed ? -ENOMEM : 0;
}

static int write_pprof(const struct ht_recording *recording,
		       const struct ht_report_options *options, struct ht_buf *out,
		       struct ht_err *err)
{
	_cleanup_(pprof_fini) struct pprof p = { .recording = recording };
	int r;

	(void)options;
	r = write_profile(&p);
	if (r == 0)
		r = ht_gzip(&p.out, out);
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r,
				  "can't write the pprof profile: out of memory");
	return 0;
}

const struct ht_report_format ht_report_pprof = {
	.name = "pprof",
	.suffix = ".pb.gz",
	.help = "gzipped profile.proto: go tool pprof, Grafana, speedscope",
	.write = write_pprof,
};
