/* SPDX-License-Identifier: Apache-2.0
 *
 * jitobject.c: what compilers register with GDB is the object file that they made: its sections
 * say where they were put, but its unwind data has still to be relocated, and it has no
 * segments. With both, it can be unwound by like any other file.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/jit-priv.h"

#define MAX_SEGMENTS 32
#define MAX_RELOCATIONS ((size_t)1 << 20)	/* in a file, whatever its headers say */

struct object {
	struct ht_elf elf;	/* of the copy */
	uint8_t *bytes;
	size_t len;
};

/* The bytes of a section in the copy; NULL: it has none, or not all are there. */
static uint8_t *bytes_of(const struct object *o, const Elf64_Shdr *section)
{
	if (section->sh_type == SHT_NOBITS || section->sh_offset > o->len ||
	    section->sh_size > o->len - section->sh_offset)
		return NULL;
	return o->bytes + section->sh_offset;
}

/* The address that a symbol has by now. */
static bool symbol_address(const struct object *o, const Elf64_Shdr *symbols, uint64_t number,
			   uint64_t *ret)
{
	const uint8_t *table = bytes_of(o, symbols);
	Elf64_Sym sym;

	if (!table || number >= symbols->sh_size / sizeof(sym))
		return false;
	memcpy(&sym, table + number * sizeof(sym), sizeof(sym));
	if (sym.st_shndx == SHN_UNDEF || sym.st_shndx >= o->elf.n_sections)
		return false;
	*ret = sym.st_value + o->elf.sections[sym.st_shndx].sh_addr;
	return true;
}

static void relocate(const struct object *o, const Elf64_Shdr *target, const Elf64_Shdr *symbols,
		     const Elf64_Rela *rela)
{
	uint8_t *to = bytes_of(o, target);
	uint64_t value;
	size_t size;

	switch (ELF64_R_TYPE(rela->r_info)) {
	case R_X86_64_64:
	case R_X86_64_PC64:
		size = 8;
		break;
	case R_X86_64_PC32:
		size = 4;
		break;
	default:
		return;
	}
	if (!to || rela->r_offset > target->sh_size || size > target->sh_size - rela->r_offset ||
	    !symbol_address(o, symbols, ELF64_R_SYM(rela->r_info), &value))
		return;
	value += (uint64_t)rela->r_addend;
	if (ELF64_R_TYPE(rela->r_info) != R_X86_64_64)
		value -= target->sh_addr + rela->r_offset;
	memcpy(to + rela->r_offset, &value, size);
}

static void relocate_section(const struct object *o, size_t number)
{
	const struct ht_elf *elf = &o->elf;
	const Elf64_Shdr *relas;
	size_t left = MAX_RELOCATIONS, i, j;
	const uint8_t *table;
	Elf64_Rela rela;

	for (i = 1; i < elf->n_sections; i++) {
		relas = &elf->sections[i];
		table = bytes_of(o, relas);
		if (relas->sh_type != SHT_RELA || relas->sh_info != number ||
		    relas->sh_link >= elf->n_sections || !table)
			continue;
		for (j = 0; j < relas->sh_size / sizeof(rela) && left; j++, left--) {
			memcpy(&rela, table + j * sizeof(rela), sizeof(rela));
			relocate(o, &elf->sections[number], &elf->sections[relas->sh_link],
				 &rela);
		}
	}
}

/* Segments for the code that was put somewhere; how many. */
static size_t find_code(const struct object *o, Elf64_Phdr segments[MAX_SEGMENTS])
{
	size_t n = 0, i;

	for (i = 1; i < o->elf.n_sections && n < MAX_SEGMENTS; i++) {
		const Elf64_Shdr *s = &o->elf.sections[i];

		if (!(s->sh_flags & SHF_EXECINSTR) || !s->sh_addr || !s->sh_size ||
		    !bytes_of(o, s))
			continue;
		segments[n++] = (Elf64_Phdr){
			.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = s->sh_offset,
			.p_vaddr = s->sh_addr, .p_filesz = s->sh_size, .p_memsz = s->sh_size,
		};
	}
	return n;
}

static size_t find_unwind_data(const struct ht_elf *elf)
{
	size_t i;

	for (i = 1; i < elf->n_sections; i++)
		if (elf->sections[i].sh_type != SHT_NOBITS && elf->sections[i].sh_addr &&
		    !strcmp(ht_elf_section_name(elf, i), ".eh_frame"))
			return i;
	return 0;
}

static int link_object(struct object *o, size_t room)
{
	Elf64_Phdr segments[MAX_SEGMENTS];
	Elf64_Ehdr header = o->elf.header;
	size_t eh_frame = find_unwind_data(&o->elf), n = find_code(o, segments);

	if (header.e_type != ET_REL || !eh_frame || !n || n * sizeof(*segments) > room)
		return -ENOENT;
	relocate_section(o, eh_frame);
	header.e_type = ET_DYN;
	header.e_phoff = o->len;
	header.e_phnum = (Elf64_Half)n;
	header.e_phentsize = sizeof(*segments);
	memcpy(o->bytes, &header, sizeof(header));
	memcpy(o->bytes + o->len, segments, n * sizeof(*segments));
	o->len += n * sizeof(*segments);
	return 0;
}

int ht_jit_link(const uint8_t *image, size_t len, uint8_t **ret_image, size_t *ret_len)
{
	const size_t room = MAX_SEGMENTS * sizeof(Elf64_Phdr);
	struct object o = { .bytes = malloc(len + room), .len = len };
	int r;

	if (!o.bytes)
		return -ENOMEM;
	memcpy(o.bytes, image, len);
	r = ht_elf_init_image(&o.elf, o.bytes, len);
	if (r == 0) {
		r = link_object(&o, room);
		ht_elf_fini(&o.elf);
	}
	if (r < 0) {
		free(o.bytes);
		return r == -ENOMEM ? r : -ENOENT;
	}
	*ret_image = o.bytes;
	*ret_len = o.len;
	return 0;
}
