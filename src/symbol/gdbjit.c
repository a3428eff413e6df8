/* SPDX-License-Identifier: Apache-2.0
 *
 * gdbjit.c: what compilers of code at run time tell GDB: a list in the target's memory, each
 * entry of which leads to an ELF file there, mostly a relocatable one whose sections say
 * where they were put.
 *
 *	__jit_debug_descriptor		entry			ELF file
 *	  u32 version, action		  next, previous	  .symtab
 *	  entry relevant		  file, size
 *	  entry first
 *
 * The target changes the list while it is read: what is read of it may be nonsense, and is
 * bounded.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "symbol/jit-priv.h"

#define DESCRIPTOR "__jit_debug_descriptor"
#define LIST_VERSION 1
#define MODULE_TABLE_MAX ((size_t)256 << 20)
/* More than one has who loads several compilers, or libraries twice. */
#define DESCRIPTORS_MAX 64
/* A file has two tables of symbols. */
#define TABLES_MAX 4

struct descriptor {
	uint32_t version;
	uint32_t action;
	uint64_t relevant;
	uint64_t first;
};

struct entry {
	uint64_t next;
	uint64_t previous;
	uint64_t file;
	uint64_t size;
};

void ht_gdbjit_init(struct ht_gdbjit *gdb, int memfd, struct ht_space *space)
{
	*gdb = (struct ht_gdbjit){ .memfd = memfd, .space = space,
				   .generation = UINT64_MAX };
}

void ht_gdbjit_fini(struct ht_gdbjit *gdb)
{
	ht_map_fini(&gdb->searched);
	ht_map_fini(&gdb->known);
	ht_vec_fini(&gdb->descriptors);
	ht_vec_fini(&gdb->files);
	ht_ranges_fini(&gdb->ranges);
}

static int read_memory(const struct ht_gdbjit *gdb, uint64_t addr, void *to, size_t len)
{
	if (gdb->memfd < 0 || addr > (uint64_t)INT64_MAX - len)
		return -EFAULT;
	return ht_fd_pread_all(gdb->memfd, to, len, addr);
}

/* --- where the descriptors are ------------------------------------------------------------ */

/* Symbols with their names, copied. */
struct table {
	uint8_t *symbols;
	size_t n;
	char *names;		/* names[names_len] is NUL */
	size_t names_len;
};

static void table_fini(struct table *table)
{
	free(table->symbols);
	free(table->names);
}

/* 0, -ENOENT (not one that can be read), or -ENOMEM. */
static int load_table(const struct ht_elf *elf, const Elf64_Shdr *section, size_t max,
		      struct table *ret_table)
{
	size_t len;
	int r;

	if ((section->sh_type != SHT_SYMTAB && section->sh_type != SHT_DYNSYM) ||
	    (section->sh_flags & SHF_COMPRESSED) || section->sh_link >= elf->n_sections ||
	    section->sh_entsize != sizeof(Elf64_Sym))
		return -ENOENT;
	r = ht_elf_load(elf, &elf->sections[section->sh_link], max,
			(uint8_t **)&ret_table->names, &ret_table->names_len);
	if (r == 0)
		r = ht_elf_load(elf, section, max, &ret_table->symbols, &len);
	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	ret_table->n = len / sizeof(Elf64_Sym);
	return 0;
}

static Elf64_Sym symbol_at(const struct table *table, size_t i)
{
	Elf64_Sym sym;

	memcpy(&sym, table->symbols + i * sizeof(sym), sizeof(sym));
	return sym;
}

static uint64_t descriptor_in(const struct table *table)
{
	size_t i;

	/* Nearly always the name isn't there, which is seen faster so. */
	if (!memmem(table->names, table->names_len, DESCRIPTOR, sizeof(DESCRIPTOR)))
		return 0;
	for (i = 0; i < table->n; i++) {
		Elf64_Sym sym = symbol_at(table, i);

		if (sym.st_shndx != SHN_UNDEF && sym.st_name < table->names_len &&
		    strcmp(table->names + sym.st_name, DESCRIPTOR) == 0)
			return sym.st_value;
	}
	return 0;
}

/* Its address in the file; 0: it has none. */
static int search_module(struct ht_gdbjit *gdb, const struct ht_module *module,
			 uint64_t *ret_addr)
{
	struct ht_elf elf = HT_ELF_INIT;
	size_t i, tables = 0;
	int r = ht_elf_init_module(&elf, module);

	*ret_addr = 0;
	for (i = 1; r == 0 && !*ret_addr && i < elf.n_sections && tables < TABLES_MAX; i++) {
		_cleanup_(table_fini) struct table table = { NULL, 0, NULL, 0 };
		uint64_t left = HT_GDBJIT_SEARCH_MAX - ht_min(gdb->search_bytes, HT_GDBJIT_SEARCH_MAX);

		tables += elf.sections[i].sh_type == SHT_SYMTAB ||
			  elf.sections[i].sh_type == SHT_DYNSYM;
		r = load_table(&elf, &elf.sections[i], ht_min(left, MODULE_TABLE_MAX), &table);
		gdb->search_bytes += table.names_len + table.n * sizeof(Elf64_Sym);
		if (r == 0)
			*ret_addr = descriptor_in(&table);
		r = r == -ENOMEM ? r : 0;
	}
	ht_elf_fini(&elf);
	return r == -ENOMEM ? r : 0;
}

static int add_descriptor(struct ht_gdbjit *gdb, ht_addr_t addr)
{
	ht_addr_t *slot;
	size_t i;

	for (i = 0; i < gdb->descriptors.len; i++)
		if (gdb->descriptors.at[i] == addr)
			return 0;
	if (i == DESCRIPTORS_MAX)
		return 0;
	slot = ht_vec_push(&gdb->descriptors);
	if (!slot)
		return -ENOMEM;
	*slot = addr;
	return 0;
}

static int look_at_mapping(struct ht_gdbjit *gdb, const struct ht_mapping *mapping)
{
	uint64_t *known, addr;
	uint32_t id;
	int r = 0;

	if (!mapping->module || !(mapping->prot & HT_PROT_EXEC))
		return 0;
	id = ht_module_id(mapping->module);
	known = ht_map_get(&gdb->searched, id);
	if (known) {
		addr = *known;
	} else {
		r = search_module(gdb, mapping->module, &addr);
		if (r == 0)
			r = ht_map_put(&gdb->searched, id, addr);
	}
	return r == 0 && addr ? add_descriptor(gdb, addr + mapping->bias) : r;
}

/* Each module is searched once. */
static int find_descriptors(struct ht_gdbjit *gdb)
{
	uint64_t generation = ht_space_generation(gdb->space);
	size_t i;
	int r = 0;

	if (generation == gdb->generation)
		return 0;
	ht_vec_clear(&gdb->descriptors);
	for (i = 0; r == 0 && i < ht_space_count(gdb->space); i++)
		r = look_at_mapping(gdb, ht_space_at(gdb->space, i));
	if (r == 0)
		gdb->generation = generation;
	return r;
}

/* --- what they lead to -------------------------------------------------------------------- */

/* In a relocatable file symbols count from the start of their section. */
static uint64_t address_of(const struct ht_elf *elf, const Elf64_Sym *sym)
{
	if (elf->header.e_type != ET_REL)
		return sym->st_value;
	return sym->st_value + elf->sections[sym->st_shndx].sh_addr;
}

/* LuaJIT's symbols have no size. */
static uint64_t size_of(const struct ht_elf *elf, const Elf64_Sym *sym)
{
	const Elf64_Shdr *section = &elf->sections[sym->st_shndx];
	uint64_t at = elf->header.e_type == ET_REL ? sym->st_value :
						     sym->st_value - section->sh_addr;

	if (sym->st_size)
		return sym->st_size;
	return at < section->sh_size ? section->sh_size - at : 0;
}

static int add_symbols(struct ht_gdbjit *gdb, const struct ht_elf *elf,
		       const struct table *table)
{
	size_t i;

	for (i = 0; i < table->n; i++) {
		Elf64_Sym sym = symbol_at(table, i);
		const char *name = table->names + sym.st_name;

		if (ELF64_ST_TYPE(sym.st_info) != STT_FUNC || sym.st_shndx == SHN_UNDEF ||
		    sym.st_shndx >= elf->n_sections || sym.st_name >= table->names_len)
			continue;
		if (ht_ranges_add(&gdb->ranges, address_of(elf, &sym), size_of(elf, &sym), name,
				  strnlen(name, HT_NAME_SHOWN_MAX)) == -ENOMEM)
			return -ENOMEM;
	}
	return 0;
}

static int add_file(struct ht_gdbjit *gdb, const uint8_t *image, size_t len)
{
	_cleanup_(table_fini) struct table table = { NULL, 0, NULL, 0 };
	struct ht_elf elf = HT_ELF_INIT;
	int r = ht_elf_init_image(&elf, image, len);
	size_t i;

	/* There is one, but for files that want to cost time. */
	for (i = 1; r == 0 && i < elf.n_sections; i++) {
		if (elf.sections[i].sh_type != SHT_SYMTAB)
			continue;
		r = load_table(&elf, &elf.sections[i], len, &table);
		if (r == 0)
			r = add_symbols(gdb, &elf, &table);
		break;
	}
	ht_elf_fini(&elf);
	return r == -ENOMEM ? r : 0;
}

/* An entry may be taken off, and another one put in its place. */
static uint64_t hash_of(const struct entry *entry)
{
	return ht_hash64(entry->file ^ ht_hash64(entry->size));
}

/* For unwinding. */
static int add_module(struct ht_gdbjit *gdb, const uint8_t *image, size_t len,
		      struct ht_module **ret_module)
{
	uint8_t *linked;
	size_t linked_len;
	int r = ht_jit_link(image, len, &linked, &linked_len);

	if (r == 0)
		r = ht_space_add_made(gdb->space, linked, linked_len, ret_module);
	return r == -ENOMEM ? r : 0;
}

static int read_file(struct ht_gdbjit *gdb, const struct entry *entry,
		     struct ht_module **ret_module)
{
	uint8_t *image = malloc(entry->size);
	int r;

	if (!image)
		return -ENOMEM;
	gdb->bytes += entry->size;
	r = read_memory(gdb, entry->file, image, entry->size);
	if (r == 0)
		r = add_file(gdb, image, entry->size);
	if (r == 0)
		r = add_module(gdb, image, entry->size, ret_module);
	free(image);
	return r == -ENOMEM ? r : 0;
}

static void forget(struct ht_gdbjit *gdb, struct ht_gdbjit_file *file)
{
	if (file->module)
		ht_space_drop_made(gdb->space, file->module);
	file->module = NULL;
	file->hash = 0;
}

/* The place for what the entry at @addr says; NULL: there are too many, or no memory. */
static struct ht_gdbjit_file *file_of(struct ht_gdbjit *gdb, uint64_t addr)
{
	uint64_t *known = ht_map_get(&gdb->known, addr);

	if (known)
		return &gdb->files.at[*known];
	if (gdb->files.len >= HT_GDBJIT_ENTRIES_MAX ||
	    ht_map_put(&gdb->known, addr, gdb->files.len) < 0)
		return NULL;
	/* A number without a file must not stay. */
	if (!ht_vec_push(&gdb->files)) {
		ht_map_take(&gdb->known, addr, NULL);
		return NULL;
	}
	return &gdb->files.at[gdb->files.len - 1];
}

static int take_entry(struct ht_gdbjit *gdb, uint64_t addr, const struct entry *entry)
{
	struct ht_gdbjit_file *file = file_of(gdb, addr);
	int r;

	if (!file)
		return 0;
	file->round = gdb->round;
	if (file->hash == hash_of(entry))
		return 0;
	forget(gdb, file);
	if (!entry->size || entry->size > HT_GDBJIT_FILE_MAX ||
	    entry->size > HT_GDBJIT_ALL_MAX - gdb->bytes)
		return 0;
	r = read_file(gdb, entry, &file->module);
	if (r == 0)
		file->hash = hash_of(entry);
	return r;
}

/* A list that was changed to a ring ends by its length: *left entries of all lists are read.
 * *ret_whole: its end was seen. */
static int walk(struct ht_gdbjit *gdb, ht_addr_t addr, unsigned *left, bool *ret_whole)
{
	struct descriptor descriptor;
	struct entry entry;
	uint64_t at;
	int r = 0;

	*ret_whole = false;
	if (read_memory(gdb, addr, &descriptor, sizeof(descriptor)) < 0 ||
	    descriptor.version != LIST_VERSION)
		return 0;
	at = descriptor.first;
	*ret_whole = !at;
	for (; r == 0 && at && *left; --*left) {
		if (read_memory(gdb, at, &entry, sizeof(entry)) < 0)
			break;
		r = take_entry(gdb, at, &entry);
		at = entry.next == descriptor.first ? 0 : entry.next;
		*ret_whole = !at;
	}
	return r;
}

/* What is on no list any more may be gone, and other code in its place. */
static void forget_others(struct ht_gdbjit *gdb)
{
	struct ht_gdbjit_file *file;

	ht_vec_foreach(file, &gdb->files)
		if (file->module && file->round != gdb->round)
			forget(gdb, file);
}

int ht_gdbjit_read(struct ht_gdbjit *gdb)
{
	unsigned left = HT_GDBJIT_ENTRIES_MAX;
	bool whole = true, each;
	size_t i;
	int r = find_descriptors(gdb);

	gdb->round++;
	for (i = 0; r == 0 && i < gdb->descriptors.len; i++) {
		r = walk(gdb, gdb->descriptors.at[i], &left, &each);
		whole &= each;
	}
	if (r == 0 && whole)
		forget_others(gdb);
	return r;
}
