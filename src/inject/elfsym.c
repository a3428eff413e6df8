/* SPDX-License-Identifier: Apache-2.0
 *
 * elfsym.c: one symbol of a module by name: what the dynamic table exports, else what
 * .symtab knows (hidden allocators of programs that aren't stripped).
 */
#include "inject/plan.h"

#include <errno.h>
#include <string.h>

#include "inject/elfsym.h"

/* The next symbol behind @value, within its segment. */
static uint64_t next_in(const struct ht_elf_symtab *tab, uint64_t value, uint64_t end)
{
	Elf64_Sym sym;

	for (size_t i = 0; i < tab->count; i++) {
		sym = ht_elf_symtab_at(tab, i);
		if (ht_elf_symbol_usable(&sym) && sym.st_value > value && sym.st_value < end)
			end = sym.st_value;
	}
	return end;
}

static uint64_t size_until_next(const struct ht_elfdyn *view, uint64_t value)
{
	const struct ht_elf_load *load = ht_elfdyn_load(view, value);
	uint64_t end;

	if (!load)
		return 0;
	end = next_in(&view->dynsym, value, load->vaddr + load->memsz);
	return next_in(&view->symtab, value, end) - value;
}

void ht_elf_symbol_fill(const struct ht_elfdyn *view, const Elf64_Sym *sym,
			struct ht_elf_symbol *ret_symbol)
{
	ret_symbol->value = sym->st_value;
	ret_symbol->size = sym->st_size;
	ret_symbol->ifunc = ELF64_ST_TYPE(sym->st_info) == STT_GNU_IFUNC;
	ret_symbol->object = ELF64_ST_TYPE(sym->st_info) == STT_OBJECT;
	if (!ret_symbol->size)
		ret_symbol->size = size_until_next(view, sym->st_value);
}

/* Index of @name in .symtab: a global before a local one. */
static int64_t find_static(const struct ht_elf_symtab *tab, const char *wanted)
{
	int64_t local = -ENOENT;
	size_t len = strlen(wanted);
	Elf64_Sym sym;

	for (size_t i = 0; i < tab->count; i++) {
		sym = ht_elf_symtab_at(tab, i);
		if (!ht_elf_symtab_is(tab, &sym, wanted, len) ||
		    !ht_elf_symbol_usable(&sym))
			continue;
		if (ELF64_ST_BIND(sym.st_info) != STB_LOCAL)
			return i;
		if (local < 0)
			local = i;
	}
	return local;
}

int ht_elfdyn_symbol(const struct ht_elfdyn *view, const char *name,
		      struct ht_elf_symbol *ret_symbol)
{
	const struct ht_elf_symtab *tab = &view->dynsym;
	int64_t i;
	Elf64_Sym sym;

	i = ht_elfdyn_find_dynamic(view, name);
	if (i < 0) {
		tab = &view->symtab;
		i = find_static(tab, name);
	}
	if (i < 0)
		return -ENOENT;
	sym = ht_elf_symtab_at(tab, i);
	ht_elf_symbol_fill(view, &sym, ret_symbol);
	return 0;
}

int ht_elf_symbol(const struct ht_module *module, const char *name,
		  struct ht_elf_symbol *ret_symbol)
{
	const uint8_t *image;
	struct ht_elfdyn view;
	size_t len = 0;
	int r;

	image = ht_module_image(module, &len);
	r = ht_elfdyn_open(image, len, &view);
	if (r < 0)
		return r;
	return ht_elfdyn_symbol(&view, name, ret_symbol);
}
