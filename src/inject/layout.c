/* SPDX-License-Identifier: Apache-2.0
 *
 * layout.c: see layout.h.
 */
#include "inject/layout.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "arch/stub.h"
#include "base/fd.h"

#define PAGE UINT64_C(4096)
/* Jumps and rip-relative operands reach 2 GiB; the rest is for where in a module they are. */
#define REACH (UINT64_C(2) << 30)
#define SLACK (UINT64_C(64) << 20)
/* Free space left on each side, since the kernel gives out what borders on a mapping first:
 * the borrowed thread's stack must not land in our place. */
#define MARGIN (UINT64_C(1) << 20)
#define REGION_HEADER 32	/* the word with the hook's address, padded */
#define FUNCTION_MAX 65536
#define SET_BUCKETS 32768	/* 262,144 addresses, 2 MiB */
#define JOURNAL_SIZE ht_align_up((uint64_t)sizeof(struct ht_journal), PAGE)
#define THREADS_SIZE \
	ht_align_up((uint64_t)(HT_THREAD_SLOTS + HT_THREAD_SPARES) * sizeof(struct ht_thread), \
		    PAGE)

struct builder {
	struct ht_layout *layout;
	const struct ht_maps *maps;
	int memfd;
	const struct ht_plan *plan;
	const struct ht_hook_image *image;
	const struct ht_layout_options *options;
	/* By site: its region and its place in it. */
	unsigned *region_of;
	struct ht_entry *entries;
	uint8_t *code;		/* FUNCTION_MAX */
};

/* An entry that throws and has no sibling that doesn't is left alone: an exception would
 * have to pass through the hook's frames. */
static bool wanted(const struct ht_site *site)
{
	return !site->refused && (site->kind->call != HT_CALL_NEW || site->nothrow_addr);
}

static uint64_t distance(ht_addr_t a, ht_addr_t b)
{
	return a > b ? a - b : b - a;
}

/* Of the hook, what is code and read-only data, and what is writable behind it. */
static uint64_t hook_code_size(const struct ht_hook_image *image)
{
	for (unsigned i = 0; i < image->n_segments; i++)
		if (image->segments[i].prot & PROT_WRITE)
			return image->segments[i].offset;
	return image->size;
}

#define SET_SIZE (SET_BUCKETS * HT_SET_BUCKET * sizeof(uint64_t))

static uint64_t block_size(const struct builder *b)
{
	return JOURNAL_SIZE + b->layout->region_size +
	       (b->options->hook ? 0 : b->image->size) + PAGE + THREADS_SIZE + HT_FILTER_SIZE +
	       SET_SIZE + b->options->ring_size;
}

static void place_block(struct builder *b, ht_addr_t at)
{
	struct ht_layout *l = b->layout;
	ht_addr_t end = at + JOURNAL_SIZE + l->region_size;

	l->block = at;
	l->size = block_size(b);
	l->hook = b->options->hook;
	l->data = end;
	if (!l->hook) {
		l->hook = end;
		l->data = end + hook_code_size(b->image);
		end += b->image->size;
	}
	l->gate = end;
	l->head_size = end - at;
	l->threads = l->gate + PAGE;
	l->filter = l->threads + THREADS_SIZE;
	l->set = l->filter + HT_FILTER_SIZE;
	if (b->options->ring_size)
		l->ring = l->set + SET_SIZE;
}

/* The region for the function at @addr: one within reach, or a new one near it. */
static int region_for(struct builder *b, ht_addr_t addr, unsigned *ret_region)
{
	struct ht_layout *l = b->layout;
	uint64_t size;
	ht_addr_t at;
	unsigned i;

	for (i = 0; i < l->n_regions; i++)
		if (distance(l->regions[i].addr, addr) < REACH - SLACK) {
			*ret_region = i;
			return 0;
		}
	if (i == HT_MAX_REGIONS)
		return -ENOSPC;
	size = i == 0 ? block_size(b) : l->region_size;
	at = ht_maps_gap(b->maps, addr, addr + 1, REACH - SLACK, size + 2 * MARGIN);
	if (!at)
		return -ENOSPC;
	at += MARGIN;
	if (i == 0) {
		place_block(b, at);
		at += JOURNAL_SIZE;
	}
	l->regions[i] = (struct ht_region){ at, i == 0 ? JOURNAL_SIZE : l->file_size };
	l->file_size += i == 0 ? size : l->region_size;
	l->n_regions++;
	*ret_region = i;
	return 0;
}

static enum ht_fast_path choose_fast(const struct ht_site *site, uint32_t flags)
{
	const struct ht_entry_kind *kind = site->kind;

	if (!site->frameless || flags & HT_CONFIG_EXACT)
		return HT_FAST_NONE;
	if (kind->call == HT_CALL_FREE && kind->old_arg <= 2)
		return HT_FAST_FILTER;
	if (kind->call != HT_CALL_ALLOC || kind->count_arg >= 0 || kind->size_arg < 0 ||
	    kind->size_arg > 2)
		return HT_FAST_NONE;
	return flags & HT_CONFIG_MIN_SIZE ? HT_FAST_MIN_SIZE : HT_FAST_COUNTDOWN;
}

static struct ht_stub stub_of(const struct builder *b, size_t i)
{
	const struct ht_site *site = &b->plan->sites[i];
	const struct ht_region *region = &b->layout->regions[b->region_of[i]];
	const struct ht_entry_kind *kind = site->kind;

	return (struct ht_stub){
		.fast = choose_fast(site, b->options->flags),
		.arg = kind->call == HT_CALL_FREE ? kind->old_arg : kind->size_arg,
		.threads = b->layout->threads,
		.min_size = b->options->min_size,
		.filter = b->layout->filter,
		.hook_pointer = region->addr,
		.at = region->addr + REGION_HEADER + i * HT_STUB_MAX,
	};
}

/* Where a nothrow sibling takes its tag: behind the arguments that both have, as in operator
 * new(size, tag) and operator new(size, align, tag). Those of mimalloc take none. */
static int8_t tag_arg(const struct ht_entry_kind *kind)
{
	int8_t last = ht_max(kind->size_arg, kind->count_arg);

	return (int8_t)(last + (strstr(kind->name, "align") ? 2 : 1));
}

static void describe(const struct builder *b, size_t i, struct ht_entry *entry)
{
	const struct ht_site *site = &b->plan->sites[i];
	const struct ht_entry_kind *kind = site->kind;

	*entry = (struct ht_entry){
		.call = (uint8_t)kind->call,
		.size_arg = kind->size_arg,
		.count_arg = kind->count_arg,
		.old_arg = kind->old_arg,
		.out_arg = kind->out_arg,
		.frameless = site->frameless,
		.index = (uint16_t)i,
	};
	if (kind->call == HT_CALL_NEW)
		entry->out_arg = tag_arg(kind);
}

/* Move the head of function @i to its stub and make its jump. */
static int build_site(struct builder *b, size_t i, struct ht_err *err)
{
	struct ht_site *site = &b->plan->sites[i];
	struct ht_layout *l = b->layout;
	struct ht_stub stub = stub_of(b, i);
	struct ht_patch *patch = &l->patches[l->n_patches];
	size_t len = ht_min(site->size ? site->size : HT_MOVED_MAX, (uint64_t)FUNCTION_MAX);
	uint8_t *out = l->file + l->regions[b->region_of[i]].file_offset + REGION_HEADER +
		       i * HT_STUB_MAX;
	enum ht_insn_refusal refusal;
	struct ht_moved moved;
	uint8_t jump[8];
	int r;

	r = ht_fd_pread_all(b->memfd, b->code, len, site->addr);
	if (r == 0 && memcmp(b->code, site->original,
			     ht_min(len, sizeof(site->original))))
		r = -EILSEQ;
	if (r < 0)
		return ht_err_set(err, HT_ERR_UNSUPPORTED, r,
				  "the code of %s changed while it was looked at; try again",
				  site->kind->name);
	refusal = ht_insn_move(b->code, len, site->addr, stub.at + ht_stub_real_offset(&stub),
			       &moved);
	if (refusal != HT_INSN_OK)
		return ht_err_set(err, HT_ERR_UNSUPPORTED, -ENOTSUP, "can't patch %s: %s",
				  site->kind->name, ht_insn_refusal_text(refusal));
	r = ht_stub_emit(&stub, &b->entries[i], &moved, out);
	if (r < 0)
		return ht_err_set(err, HT_ERR_UNSUPPORTED, r,
				  "no free address range near %s", site->kind->name);
	patch->site = site;
	patch->addr = moved.patch_addr;
	patch->replaced_len = moved.replaced_len;
	r = ht_fd_pread_all(b->memfd, &patch->original, 8, patch->addr);
	memcpy(jump, &patch->original, 8);
	if (r < 0 || !ht_encode_jump(jump, patch->addr, stub.at + sizeof(struct ht_entry)))
		return ht_err_set(err, HT_ERR_UNSUPPORTED, -ERANGE,
				  "no free address range near %s", site->kind->name);
	memcpy(&patch->patched, jump, 8);
	l->n_patches++;
	return 0;
}

/* Siblings' moved heads are known only when every stub has been placed. */
static void link_siblings(struct builder *b)
{
	const struct ht_plan *plan = b->plan;

	for (size_t i = 0; i < plan->n_sites; i++) {
		struct ht_entry *entry = &b->entries[i];
		struct ht_stub stub = stub_of(b, i);

		if (!wanted(&plan->sites[i]) || !plan->sites[i].nothrow_addr)
			continue;
		entry->nothrow_real = plan->sites[i].nothrow_addr;
		for (size_t j = 0; j < plan->n_sites; j++)
			if (wanted(&plan->sites[j]) &&
			    plan->sites[j].addr == plan->sites[i].nothrow_addr)
				entry->nothrow_real = b->entries[j].real;
		memcpy(b->layout->file + b->layout->regions[b->region_of[i]].file_offset +
			       (stub.at - b->layout->regions[b->region_of[i]].addr),
		       entry, sizeof(*entry));
	}
}

static void add_range(struct ht_journal *journal, ht_addr_t start, uint64_t size)
{
	journal->ranges[journal->n_ranges++] =
		(struct ht_journal_range){ start, start + size };
}

static void write_journal(struct builder *b)
{
	struct ht_layout *l = b->layout;
	struct ht_journal *journal = l->journal;

	journal->magic = HT_JOURNAL_MAGIC;
	journal->version = HT_WIRE_VERSION;
	journal->size = (uint32_t)JOURNAL_SIZE;
	journal->gate = l->gate;
	journal->hook_config = l->hook + b->image->config;
	add_range(journal, l->block, l->size);
	for (unsigned i = 1; i < l->n_regions; i++)
		add_range(journal, l->regions[i].addr, l->region_size);
	journal->n_code = journal->n_ranges;
	if (b->options->hook) {
		journal->dl_start = l->hook;
		journal->dl_end = l->hook + b->image->size;
	}
	for (size_t i = 0; i < l->n_patches; i++) {
		struct ht_journal_patch *p = &journal->patches[i];

		p->addr = l->patches[i].addr;
		memcpy(p->original, &l->patches[i].original, 8);
		memcpy(p->patched, &l->patches[i].patched, 8);
	}
	journal->n_patches = (uint32_t)l->n_patches;
}

/* Sizes, which need no addresses yet. */
static int reserve(struct builder *b)
{
	struct ht_layout *l = b->layout;
	size_t n = b->plan->n_sites;

	if (n > HT_JOURNAL_MAX)
		return -E2BIG;
	l->region_size = ht_align_up(REGION_HEADER + (uint64_t)n * HT_STUB_MAX, PAGE);
	l->set_mask = SET_BUCKETS - 1;
	l->file = calloc(1, block_size(b) + HT_MAX_REGIONS * l->region_size);
	l->patches = calloc(n, sizeof(*l->patches));
	b->region_of = calloc(n, sizeof(*b->region_of));
	b->entries = calloc(n, sizeof(*b->entries));
	b->code = malloc(FUNCTION_MAX);
	l->journal = (struct ht_journal *)l->file;
	return l->file && l->patches && b->region_of && b->entries && b->code ? 0 : -ENOMEM;
}

static int build(struct builder *b, struct ht_err *err)
{
	const struct ht_plan *plan = b->plan;
	int r = reserve(b);

	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "can't build the stubs: %s",
				  strerror(-r));
	for (size_t i = 0; i < plan->n_sites; i++) {
		if (!wanted(&plan->sites[i]))
			continue;
		r = region_for(b, plan->sites[i].addr, &b->region_of[i]);
		if (r < 0)
			return ht_err_set(err, HT_ERR_UNSUPPORTED, r,
					  "no free address range near %s",
					  plan->sites[i].kind->name);
	}
	for (size_t i = 0; i < plan->n_sites; i++) {
		if (!wanted(&plan->sites[i]))
			continue;
		describe(b, i, &b->entries[i]);
		r = build_site(b, i, err);
		if (r < 0)
			return r;
	}
	link_siblings(b);
	for (unsigned i = 0; i < b->layout->n_regions; i++) {
		uint64_t enter = b->layout->hook + b->image->enter;

		memcpy(b->layout->file + b->layout->regions[i].file_offset, &enter, 8);
	}
	if (!b->options->hook && b->layout->n_regions)
		memcpy(b->layout->file + JOURNAL_SIZE + b->layout->region_size,
		       b->image->bytes, b->image->size);
	write_journal(b);
	return 0;
}

int ht_layout_new(const struct ht_maps *maps, int memfd, const struct ht_plan *plan,
		  const struct ht_hook_image *image, const struct ht_layout_options *options,
		  struct ht_layout **ret_layout, struct ht_err *err)
{
	struct builder b = { calloc(1, sizeof(*b.layout)), maps, memfd, plan, image, options,
			     NULL, NULL, NULL };
	int r;

	if (!b.layout)
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	r = build(&b, err);
	free(b.region_of);
	free(b.entries);
	free(b.code);
	if (r < 0) {
		ht_layout_free(b.layout);
		return r;
	}
	*ret_layout = b.layout;
	return 0;
}

struct ht_layout *ht_layout_free(struct ht_layout *layout)
{
	if (!layout)
		return NULL;
	free(layout->file);
	free(layout->patches);
	free(layout);
	return NULL;
}
