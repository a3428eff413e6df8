/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ht_check.h"
#include "symbol/jit-priv.h"
#include "unwind/binary.h"

#define TEXT UINT64_C(0x7f0000001000)
#define EH_FRAME UINT64_C(0x7f0000002000)

enum { S_NONE, S_TEXT, S_OTHER, S_EH, S_RELA, S_SYMBOLS, S_NAMES, SECTIONS };

/* An object file of two functions in sections of their own. */
struct object {
	Elf64_Ehdr header;
	Elf64_Shdr sections[SECTIONS];
	uint8_t text[64], other[64], eh[64];
	Elf64_Rela relas[4];
	Elf64_Sym symbols[3];
	char names[32];
};

#define SECTION(number, member, how, where)                                               \
	o.sections[number].sh_type = how, o.sections[number].sh_addr = where,             \
	o.sections[number].sh_offset = offsetof(struct object, member),                   \
	o.sections[number].sh_size = sizeof(o.member)

static struct object object(void)
{
	struct object o = { .header = {
		.e_type = ET_REL, .e_machine = EM_X86_64,
		.e_shoff = offsetof(struct object, sections),
		.e_shentsize = sizeof(Elf64_Shdr), .e_shnum = SECTIONS, .e_shstrndx = S_NAMES } };

	memcpy(o.header.e_ident, ELFMAG, SELFMAG);
	o.header.e_ident[EI_CLASS] = ELFCLASS64;
	o.header.e_ident[EI_DATA] = ELFDATA2LSB;
	SECTION(S_TEXT, text, SHT_PROGBITS, TEXT);
	SECTION(S_OTHER, other, SHT_PROGBITS, TEXT + 0x10000);
	SECTION(S_EH, eh, SHT_PROGBITS, EH_FRAME);
	SECTION(S_RELA, relas, SHT_RELA, 0);
	SECTION(S_SYMBOLS, symbols, SHT_SYMTAB, 0);
	SECTION(S_NAMES, names, SHT_STRTAB, 0);
	o.sections[S_TEXT].sh_flags = o.sections[S_OTHER].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
	o.sections[S_RELA].sh_link = S_SYMBOLS;
	o.sections[S_RELA].sh_info = S_EH;
	memcpy(o.names, "\0.eh_frame", 11);
	o.sections[S_EH].sh_name = 1;
	o.symbols[1] = (Elf64_Sym){ .st_shndx = S_TEXT };
	o.symbols[2] = (Elf64_Sym){ .st_shndx = S_OTHER, .st_value = 4 };
	o.relas[0] = (Elf64_Rela){ 8, ELF64_R_INFO(1, R_X86_64_64), 16 };
	o.relas[1] = (Elf64_Rela){ 16, ELF64_R_INFO(2, R_X86_64_PC64), 0 };
	o.relas[2] = (Elf64_Rela){ 24, ELF64_R_INFO(1, R_X86_64_PC32), 0 };
	o.relas[3] = (Elf64_Rela){ 60, ELF64_R_INFO(1, R_X86_64_64), 0 };	/* too far */
	return o;
}

static uint64_t word(const uint8_t *image, size_t at)
{
	uint64_t value;

	memcpy(&value, image + offsetof(struct object, eh) + at, sizeof(value));
	return value;
}

START_TEST(relocated_with_segments)
{
	struct object o = object();
	struct ht_binary binary;
	uint8_t *image;
	size_t len;

	ck_ok(ht_jit_link((const uint8_t *)&o, sizeof(o), &image, &len));
	ck_assert_uint_eq(word(image, 8), TEXT + 16);
	ck_assert_uint_eq(word(image, 16), TEXT + 0x10004 - EH_FRAME - 16);
	ck_assert_uint_eq((uint32_t)word(image, 24), (uint32_t)(TEXT - EH_FRAME - 24));
	ck_assert_uint_eq(word(image, 28), 0);
	ck_assert_uint_eq(word(image, 56), 0);
	ck_ok(ht_binary_read(image, len, &binary));
	ck_assert_uint_eq(binary.n_segments, 2);
	ck_assert_uint_eq(binary.segments[0].vaddr, TEXT);
	ck_assert_uint_eq(binary.segments[1].vaddr, TEXT + 0x10000);
	ck_assert(binary.segments[1].prot & HT_PROT_EXEC);
	ck_assert_ptr_eq(ht_binary_at(&binary, TEXT, 64),
			 image + offsetof(struct object, text));
	free(image);
}
END_TEST

static void check_nothing(const struct object *o, size_t len)
{
	uint8_t *image;

	ck_assert_int_eq(ht_jit_link((const uint8_t *)o, len, &image, &len), -ENOENT);
}

START_TEST(what_is_none)
{
	struct object o = object();

	check_nothing(&o, 0);
	check_nothing(&o, sizeof(o.header));
	check_nothing(&o, sizeof(o) - sizeof(o.names));
	o.header.e_type = ET_DYN;
	check_nothing(&o, sizeof(o));
	o = object();
	o.sections[S_EH].sh_addr = 0;	/* it wasn't put anywhere */
	check_nothing(&o, sizeof(o));
	o = object();
	o.names[1] = 'x';
	check_nothing(&o, sizeof(o));
	o = object();
	o.sections[S_TEXT].sh_addr = 0;
	o.sections[S_OTHER].sh_offset = UINT64_MAX;
	check_nothing(&o, sizeof(o));
}
END_TEST

START_TEST(any_bytes)
{
	struct object o;
	size_t i, len;
	uint8_t *image;
	unsigned round;

	srand(1);
	for (round = 0; round < 20000; round++) {
		o = object();
		for (i = 0; i < 1 + round % 4; i++)
			((uint8_t *)&o)[(size_t)rand() % sizeof(o)] = (uint8_t)rand();
		if (ht_jit_link((const uint8_t *)&o, sizeof(o), &image, &len) == 0)
			free(image);
	}
}
END_TEST

/* All sections are relocations of the same, as many as fit. */
START_TEST(work_is_bounded)
{
	enum { MANY = 60000 };
	struct object o = object();
	size_t len = sizeof(o) + MANY * sizeof(Elf64_Shdr), i, linked_len;
	uint8_t *image = calloc(1, len), *linked;
	Elf64_Shdr *sections = (Elf64_Shdr *)(image + sizeof(o));

	o.header.e_shoff = sizeof(o);
	o.header.e_shnum = MANY;
	memcpy(image, &o, sizeof(o));
	memcpy(sections, o.sections, sizeof(o.sections));
	for (i = SECTIONS; i < MANY; i++) {
		sections[i] = o.sections[S_RELA];
		sections[i].sh_offset = sizeof(o);
		sections[i].sh_size = len - sizeof(o);
	}
	if (ht_jit_link(image, len, &linked, &linked_len) == 0)
		free(linked);
	free(image);
}
END_TEST

int main(void)
{
	return ht_check_run("jitobject", (const TTest *const[]){
		relocated_with_segments, what_is_none, any_bytes, work_is_bounded, NULL });
}
