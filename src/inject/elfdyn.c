/* SPDX-License-Identifier: Apache-2.0
 *
 * elfdyn.c: see elfdyn.h. The image is hostile: no field is used as an offset or a count
 * before it was compared with the bytes that are there.
 */
#include "inject/elfdyn.h"

#include <errno.h>
#include <string.h>

static bool range_ok(size_t len, uint64_t off, uint64_t size)
{
	return off <= len && size <= len - off;
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

static void add_load(struct ht_elfdyn *view, const Elf64_Phdr *ph)
{
	struct ht_elf_load *load = &view->loads[view->n_loads];

	if (view->n_loads == HT_ELF_LOADS_MAX || ph->p_offset > view->elf.len ||
	    ph->p_vaddr + ph->p_memsz < ph->p_vaddr)
		return;
	load->vaddr = ph->p_vaddr;
	load->memsz = ph->p_memsz;
	load->filesz = ht_min(ph->p_filesz, view->elf.len - ph->p_offset);
	load->filesz = ht_min(load->filesz, ph->p_memsz);
	load->bytes = view->elf.image + ph->p_offset;
	load->exec = ph->p_flags & PF_X;
	load->write = ph->p_flags & PF_W;
	view->n_loads++;
}

/* Fill the segments; the PT_DYNAMIC's content, empty without one. */
static struct ht_elfdyn_bytes read_segments(struct ht_elfdyn *view)
{
	struct ht_elfdyn_bytes dynamic = { NULL, 0 };
	Elf64_Phdr ph;

	for (unsigned i = 0; ht_elfview_phdr(&view->elf, i, &ph); i++) {
		if (ph.p_type == PT_LOAD)
			add_load(view, &ph);
		if (ph.p_type == PT_DYNAMIC && ph.p_offset <= view->elf.len) {
			dynamic.at = view->elf.image + ph.p_offset;
			dynamic.len = ht_min(ph.p_filesz, view->elf.len - ph.p_offset);
		}
	}
	return dynamic;
}

const struct ht_elf_load *ht_elfdyn_load(const struct ht_elfdyn *view, uint64_t vaddr)
{
	for (unsigned i = 0; i < view->n_loads; i++) {
		const struct ht_elf_load *load = &view->loads[i];

		if (vaddr >= load->vaddr && vaddr - load->vaddr < load->memsz)
			return load;
	}
	return NULL;
}

const uint8_t *ht_elfdyn_at(const struct ht_elfdyn *view, uint64_t vaddr, size_t *ret_len)
{
	const struct ht_elf_load *load = ht_elfdyn_load(view, vaddr);

	if (!load || vaddr - load->vaddr >= load->filesz)
		return NULL;
	*ret_len = load->filesz - (vaddr - load->vaddr);
	return load->bytes + (vaddr - load->vaddr);
}

/* The bytes of a table at @vaddr, at most @size of them (0: to the segment's end). */
static struct ht_elfdyn_bytes table_at(const struct ht_elfdyn *view, uint64_t vaddr,
				    uint64_t size)
{
	struct ht_elfdyn_bytes bytes = { NULL, 0 };

	bytes.at = vaddr ? ht_elfdyn_at(view, vaddr, &bytes.len) : NULL;
	if (!bytes.at)
		return (struct ht_elfdyn_bytes){ NULL, 0 };
	if (size)
		bytes.len = ht_min(bytes.len, size);
	return bytes;
}

/* What of the dynamic section is used. */
struct dynamic {
	uint64_t symtab, strtab, strsz, versym, hash, gnu_hash;
	uint64_t rela, relasz, jmprel, pltrelsz, pltrel;
};

static uint64_t *dynamic_field(struct dynamic *dyn, Elf64_Sxword tag)
{
	switch (tag) {
	case DT_SYMTAB:
		return &dyn->symtab;
	case DT_STRTAB:
		return &dyn->strtab;
	case DT_STRSZ:
		return &dyn->strsz;
	case DT_VERSYM:
		return &dyn->versym;
	case DT_HASH:
		return &dyn->hash;
	case DT_GNU_HASH:
		return &dyn->gnu_hash;
	case DT_RELA:
		return &dyn->rela;
	case DT_RELASZ:
		return &dyn->relasz;
	case DT_JMPREL:
		return &dyn->jmprel;
	case DT_PLTRELSZ:
		return &dyn->pltrelsz;
	case DT_PLTREL:
		return &dyn->pltrel;
	default:
		return NULL;
	}
}

static struct dynamic read_dynamic(struct ht_elfdyn_bytes bytes)
{
	struct dynamic dyn = { 0 };
	Elf64_Dyn entry;
	uint64_t *field;

	for (size_t i = 0; i < bytes.len / sizeof(entry); i++) {
		memcpy(&entry, bytes.at + i * sizeof(entry), sizeof(entry));
		if (entry.d_tag == DT_NULL)
			break;
		field = dynamic_field(&dyn, entry.d_tag);
		if (field)
			*field = entry.d_un.d_val;
	}
	return dyn;
}

static struct ht_elf_relas relas_at(const struct ht_elfdyn *view, uint64_t vaddr,
				    uint64_t size)
{
	struct ht_elfdyn_bytes bytes = table_at(view, vaddr, size);

	if (!size)
		return (struct ht_elf_relas){ NULL, 0 };
	return (struct ht_elf_relas){ bytes.at, bytes.len / sizeof(Elf64_Rela) };
}

/* ---- DT_GNU_HASH ---- */

struct gnu_hash {
	uint32_t n_buckets, sym_offset, n_bloom, shift;
	const uint8_t *bloom;	/* uint64_t each */
	const uint8_t *buckets;
	const uint8_t *chain;	/* of the symbols from sym_offset on */
	size_t n_chain;
};

static bool parse_gnu_hash(const struct ht_elfdyn *view, struct gnu_hash *h)
{
	const struct ht_elfdyn_bytes *b = &view->gnu_hash;
	uint64_t bloom_len, buckets_len;

	if (b->len < 16)
		return false;
	h->n_buckets = get32(b->at);
	h->sym_offset = get32(b->at + 4);
	h->n_bloom = get32(b->at + 8);
	h->shift = get32(b->at + 12);
	bloom_len = (uint64_t)h->n_bloom * 8;
	buckets_len = (uint64_t)h->n_buckets * 4;
	if (!h->n_buckets || !h->n_bloom || h->shift > 31 ||
	    !range_ok(b->len - 16, bloom_len, buckets_len))
		return false;
	h->bloom = b->at + 16;
	h->buckets = h->bloom + bloom_len;
	h->chain = h->buckets + buckets_len;
	h->n_chain = (b->len - 16 - bloom_len - buckets_len) / 4;
	return true;
}

/* Symbols that the hash table knows: the end of the last bucket's chain. */
static size_t gnu_hash_count(const struct gnu_hash *h)
{
	size_t last = 0;

	for (uint32_t i = 0; i < h->n_buckets; i++)
		last = ht_max(last, (size_t)get32(h->buckets + (size_t)i * 4));
	if (last < h->sym_offset)
		return h->sym_offset;
	for (size_t i = last - h->sym_offset; i < h->n_chain; i++, last++) {
		if (get32(h->chain + i * 4) & 1)
			break;
	}
	return last + 1;
}

/* ---- symbol tables ---- */

static void read_symtab(struct ht_elfdyn *view, const struct ht_elfview_section *section)
{
	struct ht_elf_symtab *tab = &view->symtab;
	struct ht_elfview_section strings;

	if (!section->data || !ht_elfview_section(&view->elf, section->link, &strings) ||
	    strings.type != SHT_STRTAB || !strings.data)
		return;
	tab->syms = section->data;
	tab->count = section->len / sizeof(Elf64_Sym);
	tab->strs = (const char *)strings.data;
	tab->strs_len = strings.len;
}

/* .symtab, and the count of .dynsym for files without a hash table. */
static size_t read_sections(struct ht_elfdyn *view)
{
	struct ht_elfview_section section;
	size_t count = 0;

	for (unsigned i = 0; ht_elfview_section(&view->elf, i, &section); i++) {
		if (section.type == SHT_SYMTAB && !view->symtab.syms)
			read_symtab(view, &section);
		if (section.type == SHT_DYNSYM && section.data &&
		    section.data == view->dynsym.syms)
			count = section.len / sizeof(Elf64_Sym);
	}
	return count;
}

static void open_dynsym(struct ht_elfdyn *view, const struct dynamic *dyn)
{
	struct ht_elfdyn_bytes syms = table_at(view, dyn->symtab, 0);
	struct ht_elfdyn_bytes strs = table_at(view, dyn->strtab, dyn->strsz);
	struct ht_elfdyn_bytes vers;
	size_t count = 0, from_sections;
	struct gnu_hash gnu;

	view->gnu_hash = table_at(view, dyn->gnu_hash, 0);
	view->sysv_hash = table_at(view, dyn->hash, 0);
	view->dynsym.syms = syms.at;
	from_sections = read_sections(view);
	if (view->sysv_hash.len >= 8)
		count = get32(view->sysv_hash.at + 4);
	else if (parse_gnu_hash(view, &gnu))
		count = gnu_hash_count(&gnu);
	count = ht_max(count, from_sections);
	count = ht_min(count, syms.len / sizeof(Elf64_Sym));
	view->dynsym.count = strs.len ? count : 0;
	view->dynsym.strs = (const char *)strs.at;
	view->dynsym.strs_len = strs.len;
	vers = table_at(view, dyn->versym, 0);
	if (vers.len / 2 >= count)
		view->dynsym.versym = vers.at;
}

int ht_elfdyn_open(const uint8_t *image, size_t len, struct ht_elfdyn *ret_view)
{
	struct ht_elfdyn view = { .n_loads = 0 };
	struct dynamic dyn;
	int r = image ? ht_elfview_open(image, len, &view.elf) : -EINVAL;

	if (r < 0)
		return r;
	dyn = read_dynamic(read_segments(&view));
	if (!view.n_loads)
		return -EINVAL;
	open_dynsym(&view, &dyn);
	view.rela = relas_at(&view, dyn.rela, dyn.relasz);
	if (dyn.pltrel == DT_RELA)
		view.jmprel = relas_at(&view, dyn.jmprel, dyn.pltrelsz);
	*ret_view = view;
	return 0;
}

Elf64_Sym ht_elf_symtab_at(const struct ht_elf_symtab *tab, size_t i)
{
	Elf64_Sym sym;

	memcpy(&sym, tab->syms + i * sizeof(sym), sizeof(sym));
	return sym;
}

const char *ht_elf_symtab_name(const struct ht_elf_symtab *tab, const Elf64_Sym *sym,
			       size_t *ret_max)
{
	*ret_max = sym->st_name < tab->strs_len ? tab->strs_len - sym->st_name : 0;
	return *ret_max ? tab->strs + sym->st_name : "";
}

bool ht_elf_symtab_is(const struct ht_elf_symtab *tab, const Elf64_Sym *sym,
		      const char *name, size_t len)
{
	size_t max;
	const char *its = ht_elf_symtab_name(tab, sym, &max);

	return len < max && !its[len] && !memcmp(its, name, len);
}

bool ht_elf_symbol_usable(const Elf64_Sym *sym)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);

	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS ||
	    sym->st_shndx == SHN_COMMON || !sym->st_value)
		return false;
	return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_OBJECT ||
	       type == STT_NOTYPE;
}

/* ---- lookup ---- */

struct lookup {
	const struct ht_elfdyn *view;
	const char *name;
	size_t len;
	int64_t found;	/* -ENOENT, or the best so far */
};

/* True: it's the default version, no need to look on. */
static bool consider(struct lookup *l, size_t i)
{
	uint16_t version = 0;
	Elf64_Sym sym;

	if (i >= l->view->dynsym.count)
		return false;
	sym = ht_elf_symtab_at(&l->view->dynsym, i);
	if (!ht_elf_symbol_usable(&sym) ||
	    !ht_elf_symtab_is(&l->view->dynsym, &sym, l->name, l->len))
		return false;
	if (l->found < 0)
		l->found = i;
	if (l->view->dynsym.versym)
		memcpy(&version, l->view->dynsym.versym + 2 * i, sizeof(version));
	if (version & 0x8000)
		return false;
	l->found = i;
	return true;
}

static void find_gnu(struct lookup *l, const struct gnu_hash *h)
{
	uint32_t hash = 5381, i;
	uint64_t word, mask;

	for (const char *c = l->name; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	memcpy(&word, h->bloom + (size_t)(hash / 64 % h->n_bloom) * 8, sizeof(word));
	mask = UINT64_C(1) << hash % 64 | UINT64_C(1) << (hash >> h->shift) % 64;
	if ((word & mask) != mask)
		return;
	i = get32(h->buckets + (size_t)(hash % h->n_buckets) * 4);
	if (i < h->sym_offset)
		return;
	for (size_t c = i - h->sym_offset; c < h->n_chain; c++, i++) {
		uint32_t chained = get32(h->chain + c * 4);

		if (((chained ^ hash) | 1) == 1 && consider(l, i))
			return;
		if (chained & 1)
			return;
	}
}

static void find_sysv(struct lookup *l)
{
	const struct ht_elfdyn_bytes *b = &l->view->sysv_hash;
	uint32_t n_buckets = get32(b->at), n_chain = get32(b->at + 4), hash = 0, i;

	if (!n_buckets || ((uint64_t)n_buckets + n_chain) * 4 > b->len - 8)
		return;
	for (const char *c = l->name; *c; c++) {
		hash = (hash << 4) + (unsigned char)*c;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	i = get32(b->at + 8 + (size_t)(hash % n_buckets) * 4);
	/* The number of steps is bounded: a hostile chain may be a ring. */
	for (uint32_t n = 0; i && i < n_chain && n < n_chain; n++) {
		if (consider(l, i))
			return;
		i = get32(b->at + 8 + ((size_t)n_buckets + i) * 4);
	}
}

int64_t ht_elfdyn_find_dynamic(const struct ht_elfdyn *view, const char *name)
{
	struct lookup l = { view, name, strlen(name), -ENOENT };
	struct gnu_hash gnu;

	if (parse_gnu_hash(view, &gnu)) {
		find_gnu(&l, &gnu);
	} else if (view->sysv_hash.len >= 8) {
		find_sysv(&l);
	} else {
		for (size_t i = 0; i < view->dynsym.count; i++) {
			if (consider(&l, i))
				break;
		}
	}
	return l.found;
}

Elf64_Rela ht_elf_relas_at(const struct ht_elf_relas *relas, size_t i)
{
	Elf64_Rela rela;

	memcpy(&rela, relas->at + i * sizeof(rela), sizeof(rela));
	return rela;
}
