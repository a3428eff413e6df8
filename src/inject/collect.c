/* SPDX-License-Identifier: Apache-2.0
 *
 * collect.c: finds the entries in the symbols of every module: one draft an address, its
 * names joined, IFUNCs resolved as the target has them bound.
 */
#include "inject/draft.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inject/elfsym.h"

#define NAME_LEN_MAX 64	/* longer symbols are none of ours */

static uint64_t name_hash(const char *name, size_t len)
{
	uint64_t hash = len;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static int learn_names(struct ht_planner *p)
{
	int r = 0;

	for (size_t i = 0; !r && i < ht_entry_kinds_len; i++) {
		const char *name = ht_entry_kinds[i].name;

		r = ht_map_put(&p->by_name, name_hash(name, strlen(name)), i);
	}
	return r;
}

int64_t ht_planner_kind(const struct ht_planner *p, const char *name, size_t len)
{
	const uint64_t *i = ht_map_get(&p->by_name, name_hash(name, len));

	if (!i || strncmp(ht_entry_kinds[*i].name, name, len) || ht_entry_kinds[*i].name[len])
		return -ENOENT;
	return *i;
}

struct ht_draft *ht_planner_at(const struct ht_planner *p, ht_addr_t addr)
{
	const uint64_t *i = ht_map_get(&p->by_addr, addr);

	return i ? &p->drafts.at[*i] : NULL;
}

/* A name that doesn't fit is left out whole. */
static void join_name(struct ht_site *site, const char *name)
{
	size_t len = strlen(site->names);

	if (len + strlen(name) + 3 <= sizeof(site->names))
		snprintf(site->names + len, sizeof(site->names) - len, "%s%s", len ? ", " : "",
			 name);
}

static int add(struct ht_planner *p, size_t image, size_t kind, ht_addr_t addr, uint64_t size)
{
	struct ht_draft *d = ht_planner_at(p, addr);

	p->candidates[image].kinds[kind] = addr;
	if (d) {
		join_name(&d->site, ht_entry_kinds[kind].name);
		return 0;
	}
	d = ht_vec_push(&p->drafts);
	if (!d)
		return -ENOMEM;
	d->image = image;
	d->site.kind = &ht_entry_kinds[kind];
	if (d->site.kind->call == HT_CALL_INDIRECT)
		d->state = HT_DRAFT_INDIRECT;
	d->site.module = p->images.all.at[image].module;
	d->site.addr = addr;
	d->site.size = size;
	join_name(&d->site, d->site.kind->name);
	return ht_map_put(&p->by_addr, addr, p->drafts.len - 1);
}

static int add_symbol(struct ht_planner *p, size_t image, size_t kind,
		      const struct ht_elf_symtab *tab, size_t index)
{
	const struct ht_image *img = &p->images.all.at[image];
	Elf64_Sym raw = ht_elf_symtab_at(tab, index);
	struct ht_elf_symbol sym;
	ht_addr_t addr, resolved;
	int r;

	ht_elf_symbol_fill(&img->view, &raw, &sym);
	addr = sym.value + img->bias;
	if (sym.object)
		return 0;
	if (!sym.ifunc)
		return add(p, image, kind, addr, sym.size);
	/* The symbol is the resolver, which must not be patched. */
	resolved = ht_images_ifunc(&p->images, img, ht_entry_kinds[kind].name, addr);
	if (resolved)
		return add(p, image, kind, resolved, 0);
	r = add(p, image, kind, addr, sym.size);
	if (!r)
		ht_draft_refuse(ht_planner_at(p, addr),
				"it is chosen at run time (IFUNC), and no module is bound to it yet");
	return r;
}

static bool is_local(const struct ht_elf_symtab *tab, size_t i)
{
	Elf64_Sym sym = ht_elf_symtab_at(tab, i);

	return ELF64_ST_BIND(sym.st_info) == STB_LOCAL;
}

/* Entries that .dynsym doesn't have (@known): found[kind] becomes the symbol's number in
 * .symtab plus one, a global's rather than a local's. */
static void find_hidden(const struct ht_planner *p, const struct ht_elf_symtab *tab,
			const ht_addr_t *known, size_t *found)
{
	for (size_t i = 0; i < tab->count; i++) {
		Elf64_Sym sym = ht_elf_symtab_at(tab, i);
		const char *name;
		size_t max, len;
		int64_t kind;

		name = ht_elf_symtab_name(tab, &sym, &max);
		/* C++ programs are full of _ZN; ours are _Zn and _Zd. */
		if (max < 4 ||
		    (name[0] == '_' && name[1] == 'Z' && name[2] != 'n' && name[2] != 'd'))
			continue;
		len = strnlen(name, ht_min(max, (size_t)NAME_LEN_MAX));
		kind = ht_planner_kind(p, name, len);
		if (kind < 0 || known[kind] || !ht_elf_symbol_usable(&sym))
			continue;
		if (!found[kind] || is_local(tab, found[kind] - 1))
			found[kind] = i + 1;
	}
}

static int collect_hidden(struct ht_planner *p, size_t image)
{
	const struct ht_elf_symtab *tab = &p->images.all.at[image].view.symtab;
	size_t *found;
	int r = 0;

	if (!tab->count)
		return 0;
	found = calloc(ht_entry_kinds_len, sizeof(*found));
	if (!found)
		return -ENOMEM;
	find_hidden(p, tab, p->candidates[image].kinds, found);
	for (size_t k = 0; !r && k < ht_entry_kinds_len; k++) {
		if (found[k])
			r = add_symbol(p, image, k, tab, found[k] - 1);
	}
	free(found);
	return r;
}

static int collect_image(struct ht_planner *p, size_t image)
{
	struct ht_image *img = &p->images.all.at[image];
	struct ht_candidate *c = &p->candidates[image];
	int64_t i;
	int r = 0;

	c->first = p->drafts.len;
	c->kinds = calloc(ht_entry_kinds_len, sizeof(*c->kinds));
	if (!c->kinds)
		return -ENOMEM;
	for (size_t k = 0; !r && k < ht_entry_kinds_len; k++) {
		i = ht_elfdyn_find_dynamic(&img->view, ht_entry_kinds[k].name);
		if (i >= 0)
			r = add_symbol(p, image, k, &img->view.dynsym, i);
	}
	if (!r)
		r = collect_hidden(p, image);
	c->end = p->drafts.len;
	return r;
}

int ht_planner_collect(struct ht_planner *p)
{
	int r;

	p->candidates = calloc(p->images.all.len + 1, sizeof(*p->candidates));
	if (!p->candidates)
		return -ENOMEM;
	r = learn_names(p);
	for (size_t i = 0; !r && i < p->images.all.len; i++)
		r = collect_image(p, i);
	return r;
}
