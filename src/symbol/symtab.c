/* SPDX-License-Identifier: Apache-2.0
 *
 * symtab.c: the functions that symbol tables name, sorted once per module.
 */
#include "symbol/symbol-priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of a file: it has two, but for one that wants to cost time; and of all together. */
#define MAX_TABLES 4
#define MAX_TABLE_BYTES ((size_t)1 << 30)
#define MAX_SYMBOLS (16 << 20)
#define MAX_WALK 256

struct entry {
	uint64_t addr;
	uint64_t end;		/* of size 0: the section's end, later the next symbol */
	uint64_t max_end;	/* highest end of this and all entries before */
	uint32_t name;		/* in its pool */
	uint8_t pool;
	uint8_t rank;		/* higher is better among equal addresses */
	bool sized;
};

/* Ranks at an equal address, strongest bit first. */
enum {
	RANK_FUNC = 1 << 4,
	RANK_GLOBAL = 2 << 2,
	RANK_WEAK = 1 << 2,
	RANK_SIZED = 1 << 0,
};

struct pool {
	char *text;		/* a copy of a string table; text[len] is NUL */
	size_t len;
};

struct ht_symtab {
	ht_vec(struct entry) entries;
	ht_vec(struct pool) pools;
	size_t budget;		/* how many bytes of tables may still be read */
	bool full;
};

int ht_symtab_new(struct ht_symtab **ret_symtab)
{
	struct ht_symtab *symtab = calloc(1, sizeof(*symtab));

	if (!symtab)
		return -ENOMEM;
	symtab->budget = MAX_TABLE_BYTES;
	*ret_symtab = symtab;
	return 0;
}

struct ht_symtab *ht_symtab_free(struct ht_symtab *symtab)
{
	struct pool *pool;

	if (!symtab)
		return NULL;
	ht_vec_foreach(pool, &symtab->pools)
		free(pool->text);
	ht_vec_fini(&symtab->pools);
	ht_vec_fini(&symtab->entries);
	free(symtab);
	return NULL;
}

bool ht_symtab_full(const struct ht_symtab *symtab)
{
	return symtab->full;
}

static const char *name_of(const struct ht_symtab *symtab, const struct entry *entry)
{
	return symtab->pools.at[entry->pool].text + entry->name;
}

static uint8_t rank_of(const Elf64_Sym *sym)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info), bind = ELF64_ST_BIND(sym->st_info);

	return (uint8_t)((type != STT_NOTYPE ? RANK_FUNC : 0) |
			 (bind == STB_GLOBAL || bind == STB_GNU_UNIQUE ? RANK_GLOBAL : 0) |
			 (bind == STB_WEAK ? RANK_WEAK : 0) | (sym->st_size ? RANK_SIZED : 0));
}

/* Labels of assembly code count when they are in code; ".L..." and "$x" don't. */
static bool wanted(const struct ht_elf *elf, const Elf64_Sym *sym, const char *name)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);

	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS ||
	    sym->st_shndx == SHN_COMMON || !*name)
		return false;
	if (type == STT_FUNC || type == STT_GNU_IFUNC)
		return true;
	return type == STT_NOTYPE && name[0] != '$' && strncmp(name, ".L", 2) != 0 &&
	       sym->st_shndx < elf->n_sections &&
	       (elf->sections[sym->st_shndx].sh_flags & SHF_EXECINSTR);
}

static uint64_t end_of(const struct ht_elf *elf, const Elf64_Sym *sym)
{
	const Elf64_Shdr *section;
	uint64_t end;

	if (sym->st_size)
		return __builtin_add_overflow(sym->st_value, sym->st_size, &end) ? UINT64_MAX :
										  end;
	if (sym->st_shndx >= elf->n_sections)
		return sym->st_value + 1;
	section = &elf->sections[sym->st_shndx];
	if (__builtin_add_overflow(section->sh_addr, section->sh_size, &end) ||
	    end <= sym->st_value)
		return sym->st_value + 1;
	return end;
}

static int add_symbols(struct ht_symtab *symtab, const struct ht_elf *elf,
		       const uint8_t *table, size_t n, uint8_t pool)
{
	const struct pool *names = &symtab->pools.at[pool];
	struct entry *entry;
	Elf64_Sym sym;
	size_t i;

	for (i = 0; i < n && symtab->entries.len < MAX_SYMBOLS; i++) {
		memcpy(&sym, table + i * sizeof(sym), sizeof(sym));
		if (sym.st_name >= names->len || sym.st_value == UINT64_MAX ||
		    !wanted(elf, &sym, names->text + sym.st_name))
			continue;
		entry = ht_vec_push(&symtab->entries);
		if (!entry)
			return -ENOMEM;
		*entry = (struct entry){ .addr = sym.st_value, .end = end_of(elf, &sym),
					 .name = sym.st_name, .pool = pool,
					 .rank = rank_of(&sym), .sized = sym.st_size != 0 };
	}
	return 0;
}

static int add_table(struct ht_symtab *symtab, const struct ht_elf *elf,
		     const Elf64_Shdr *section)
{
	uint8_t *table = NULL, *text;
	struct pool *pool;
	size_t len, text_len;
	int r;

	if (section->sh_link >= elf->n_sections || section->sh_entsize != sizeof(Elf64_Sym) ||
	    symtab->pools.len > UINT8_MAX)
		return 0;
	r = ht_elf_load(elf, &elf->sections[section->sh_link], symtab->budget, &text, &text_len);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	symtab->budget -= text_len;
	pool = ht_vec_push(&symtab->pools);
	if (!pool) {
		free(text);
		return -ENOMEM;
	}
	*pool = (struct pool){ (char *)text, text_len };
	r = ht_elf_load(elf, section, symtab->budget, &table, &len);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	symtab->budget -= len;
	r = add_symbols(symtab, elf, table, len / sizeof(Elf64_Sym),
			(uint8_t)(symtab->pools.len - 1));
	free(table);
	return r;
}

int ht_symtab_add(struct ht_symtab *symtab, const struct ht_elf *elf)
{
	size_t i, tables = 0;
	int r;

	for (i = 1; i < elf->n_sections && tables < MAX_TABLES; i++) {
		const Elf64_Shdr *section = &elf->sections[i];

		if ((section->sh_type != SHT_SYMTAB && section->sh_type != SHT_DYNSYM) ||
		    (section->sh_flags & SHF_COMPRESSED))
			continue;
		tables++;
		r = add_table(symtab, elf, section);
		if (r < 0)
			return r;
		if (section->sh_type == SHT_SYMTAB && section->sh_size)
			symtab->full = true;
	}
	return 0;
}

/* By address, the best first; the shorter name is the one people know (free, not
 * __libc_free). */
static int compare(const void *a_, const void *b_, void *symtab)
{
	const struct entry *a = a_, *b = b_;
	size_t a_len, b_len;

	if (a->addr != b->addr)
		return a->addr < b->addr ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank > b->rank ? -1 : 1;
	/* Bounded: very many aliases of very long names must not take for ever. */
	a_len = strnlen(name_of(symtab, a), 1024);
	b_len = strnlen(name_of(symtab, b), 1024);
	if (a_len != b_len)
		return a_len < b_len ? -1 : 1;
	return strncmp(name_of(symtab, a), name_of(symtab, b), 1024);
}

void ht_symtab_finish(struct ht_symtab *symtab)
{
	struct entry *entries = symtab->entries.at;
	size_t n = symtab->entries.len, kept = 0, i;
	uint64_t max_end = 0;

	if (n == 0)
		return;
	qsort_r(entries, n, sizeof(*entries), compare, symtab);
	for (i = 0; i < n; i++)
		if (kept == 0 || entries[kept - 1].addr != entries[i].addr)
			entries[kept++] = entries[i];
	symtab->entries.len = kept;
	for (i = 0; i < kept; i++) {
		if (!entries[i].sized && i + 1 < kept)
			entries[i].end = ht_min(entries[i].end, entries[i + 1].addr);
		max_end = ht_max(max_end, entries[i].end);
		entries[i].max_end = max_end;
	}
}

const char *ht_symtab_find(const struct ht_symtab *symtab, uint64_t addr)
{
	const struct entry *entries = symtab->entries.at, *label = NULL;
	size_t lo = 0, hi = symtab->entries.len, mid, steps;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (entries[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	/* The nearest symbol that reaches so far: a small one may sit inside a larger one. A
	 * label without a size gives way to a function around it. */
	for (steps = 0; lo > 0 && steps < MAX_WALK; steps++) {
		const struct entry *entry = &entries[--lo];

		if (addr < entry->end && entry->sized)
			return name_of(symtab, entry);
		if (addr < entry->end && !label)
			label = entry;
		if (addr >= entry->max_end)
			break;
	}
	return label ? name_of(symtab, label) : NULL;
}
