/* SPDX-License-Identifier: Apache-2.0
 *
 * made_images.h: code made by made_code.h as inject/ sees it: one image, with functions of
 * 64 bytes and a .symtab.
 *
 *	text	0x000	functions 0 .. 31	0x800	symbols		0xc00	their names
 */
#ifndef HT_TESTS_MADE_IMAGES_H
#define HT_TESTS_MADE_IMAGES_H

#include <stdlib.h>
#include <string.h>

#include "ht_check.h"
#include "inject/image.h"
#include "made_code.h"

#define F(i) ((uint64_t)(i) * 0x40)
#define N_FUNCTIONS 32

struct made_symbol {
	const char *name;
	uint64_t at;		/* offset in the text */
	uint8_t type, bind;
};

static struct ht_elf elf;
static struct made made;
static struct ht_images images;

/* Functions that return at once, each with unwind data. */
static inline void init_functions(void)
{
	size_t cie;

	ht_elf_init(&elf);
	memset(elf.text, 0xc3, N_FUNCTIONS * 0x40);
	cie = ht_elf_plain_cie(&elf.eh);
	for (unsigned i = 0; i < N_FUNCTIONS; i++)
		ht_elf_fde(&elf.eh, cie, HT_ELF_TEXT + F(i), 0x40, HT_ELF_NO_CODE);
}

/* At offset @at, a branch with opcode @op to offset @to. */
static inline void put_branch(uint64_t at, uint8_t op, uint64_t to)
{
	int32_t rel = (int32_t)(to - (at + 5));

	elf.text[at] = op;
	memcpy(elf.text + at + 1, &rel, sizeof(rel));
}

#define CALL 0xe8
#define JUMP 0xe9

/* Of all modules of this process only the made one, at index 0. */
static inline void open_images(void)
{
	const struct ht_mapping *m = ht_space_find(made.space, made_pc(&made, 0));
	struct ht_image found;

	ck_assert_ptr_nonnull(m);
	ck_ok(ht_images_open(made.space, made.memfd, &images));
	memset(&found, 0, sizeof(found));
	for (size_t i = 0; i < images.all.len; i++)
		if (images.all.at[i].module == m->module)
			found = images.all.at[i];
	ck_assert_ptr_eq(found.module, m->module);
	images.all.at[0] = found;
	images.all.len = 1;
}

static inline void start_images(const struct made_symbol *symbols, size_t n)
{
	struct ht_elf_section *section;
	Elf64_Shdr shdr;
	uint8_t *image;
	size_t len, name = 1;

	ck_assert_uint_le((n + 1) * sizeof(Elf64_Sym), 0x400);
	for (size_t i = 0; i < n; i++) {
		Elf64_Sym sym = { .st_name = (uint32_t)name, .st_shndx = 1,
				  .st_info = ELF64_ST_INFO(symbols[i].bind, symbols[i].type),
				  .st_value = HT_ELF_TEXT + symbols[i].at, .st_size = 0x40 };

		memcpy(elf.text + 0x800 + (i + 1) * sizeof(sym), &sym, sizeof(sym));
		memset(elf.text + 0xc00, 0, i ? 0 : 0x400);
		ck_assert_uint_lt(name + strlen(symbols[i].name), 0x400);
		strcpy((char *)elf.text + 0xc00 + name, symbols[i].name);
		name += strlen(symbols[i].name) + 1;
	}
	ht_elf_add_section(&elf, ".strtab", SHT_STRTAB, 0, HT_ELF_TEXT + 0xc00, 0x400);
	ht_elf_add_section(&elf, ".symtab", SHT_SYMTAB, 0, HT_ELF_TEXT + 0x800,
			   (n + 1) * sizeof(Elf64_Sym));
	section = &elf.more[elf.n_more - 1];
	image = ht_elf_build(&elf, &len);
	/* The builder knows no links: .symtab is the last but one, .strtab before it. */
	for (unsigned i = 0; i < ((Elf64_Ehdr *)image)->e_shnum; i++) {
		uint8_t *at = image + ((Elf64_Ehdr *)image)->e_shoff + i * sizeof(shdr);

		memcpy(&shdr, at, sizeof(shdr));
		if (shdr.sh_type == section->type)
			shdr.sh_link = i - 1;
		memcpy(at, &shdr, sizeof(shdr));
	}
	made_map(&made, image, len);
	open_images();
}

static inline void stop_images(void)
{
	ht_images_fini(&images);
	made_stop(&made);
}

#endif
