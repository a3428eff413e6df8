/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "ht_check.h"
#include "symbol/symbol-priv.h"
#include "tool.h"

/* An ELF file made by hand: one text section of 0x1000 bytes at 0x1000, one table. */
struct image {
	Elf64_Ehdr header;
	Elf64_Shdr sections[5];
	Elf64_Sym symbols[16];
	char names[256];
	char section_names[64];
};

static size_t add_text(char *table, size_t max, const char *text)
{
	size_t at = 1;

	while (table[at] || table[at - 1])
		at++;
	ck_assert_uint_lt(at + strlen(text) + 2, max);
	strcpy(table + at, text);
	return at;
}

static void image_init(struct image *image, uint32_t type)
{
	*image = (struct image){ .header = {
		.e_type = ET_DYN, .e_shoff = offsetof(struct image, sections),
		.e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 5, .e_shstrndx = 4 } };
	memcpy(image->header.e_ident, ELFMAG, SELFMAG);
	image->header.e_ident[EI_CLASS] = ELFCLASS64;
	image->header.e_ident[EI_DATA] = ELFDATA2LSB;
	image->sections[1] = (Elf64_Shdr){ .sh_type = SHT_PROGBITS, .sh_addr = 0x1000,
					   .sh_size = 0x1000, .sh_flags = SHF_EXECINSTR };
	image->sections[2] = (Elf64_Shdr){ .sh_type = type, .sh_link = 3,
					   .sh_offset = offsetof(struct image, symbols),
					   .sh_entsize = sizeof(Elf64_Sym) };
	image->sections[3] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
					   .sh_offset = offsetof(struct image, names),
					   .sh_size = sizeof(image->names) };
	image->sections[4] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
					   .sh_offset = offsetof(struct image, section_names),
					   .sh_size = sizeof(image->section_names) };
}

static void image_symbol(struct image *image, const char *name, unsigned type,
			 unsigned bind, uint64_t addr, uint64_t size)
{
	size_t n = image->sections[2].sh_size / sizeof(Elf64_Sym);

	ck_assert_uint_lt(n, 16);
	image->symbols[n] = (Elf64_Sym){
		.st_name = (uint32_t)add_text(image->names, sizeof(image->names), name),
		.st_info = ELF64_ST_INFO(bind, type), .st_shndx = 1, .st_value = addr,
		.st_size = size };
	image->sections[2].sh_size += sizeof(Elf64_Sym);
}

static struct ht_symtab *load(const void *image, size_t len)
{
	struct ht_symtab *symtab;
	struct ht_elf elf;

	ck_ok(ht_elf_init_image(&elf, image, len));
	ck_ok(ht_symtab_new(&symtab));
	ck_ok(ht_symtab_add(symtab, &elf));
	ht_symtab_finish(symtab);
	ht_elf_fini(&elf);
	return symtab;
}

static void check(const struct ht_symtab *symtab, uint64_t addr, const char *expected)
{
	const char *name = ht_symtab_find(symtab, addr);

	if (expected) {
		ck_assert_msg(name != NULL, "%#lx", addr);
		ck_assert_str_eq(name, expected);
	} else {
		ck_assert_msg(name == NULL, "%#lx: %s", addr, name);
	}
}

START_TEST(choice_at_an_equal_address)
{
	struct ht_symtab *symtab;
	struct image image;

	image_init(&image, SHT_SYMTAB);
	image_symbol(&image, "label", STT_NOTYPE, STB_GLOBAL, 0x1000, 0);
	image_symbol(&image, "local", STT_FUNC, STB_LOCAL, 0x1000, 16);
	image_symbol(&image, "weak", STT_FUNC, STB_WEAK, 0x1000, 16);
	image_symbol(&image, "global_long", STT_FUNC, STB_GLOBAL, 0x1000, 16);
	image_symbol(&image, "global", STT_FUNC, STB_GLOBAL, 0x1000, 16);
	image_symbol(&image, "g", STT_FUNC, STB_GLOBAL, 0x1000, 0);
	image_symbol(&image, "object", STT_OBJECT, STB_GLOBAL, 0x1100, 16);
	symtab = load(&image, sizeof(image));
	ck_assert(ht_symtab_full(symtab));
	check(symtab, 0xfff, NULL);
	check(symtab, 0x1000, "global");
	check(symtab, 0x100f, "global");
	check(symtab, 0x1010, NULL);
	check(symtab, 0x1100, NULL);
	ht_symtab_free(symtab);
}
END_TEST

START_TEST(sizes_gaps_and_labels)
{
	struct ht_symtab *symtab;
	struct image image;

	image_init(&image, SHT_DYNSYM);
	image_symbol(&image, "outer", STT_FUNC, STB_GLOBAL, 0x1000, 0x100);
	image_symbol(&image, "loop", STT_NOTYPE, STB_LOCAL, 0x1040, 0);
	image_symbol(&image, "inner", STT_FUNC, STB_LOCAL, 0x1080, 0x10);
	image_symbol(&image, "asm_func", STT_NOTYPE, STB_GLOBAL, 0x1200, 0);
	image_symbol(&image, ".L1", STT_NOTYPE, STB_LOCAL, 0x1210, 0);
	image_symbol(&image, "next", STT_FUNC, STB_GLOBAL, 0x1400, 1);
	image_symbol(&image, "last", STT_NOTYPE, STB_GLOBAL, 0x1800, 0);
	symtab = load(&image, sizeof(image));
	ck_assert(!ht_symtab_full(symtab));
	check(symtab, 0x1030, "outer");
	check(symtab, 0x1050, "outer");
	check(symtab, 0x1088, "inner");
	check(symtab, 0x1090, "outer");
	check(symtab, 0x1100, NULL);
	check(symtab, 0x1220, "asm_func");
	check(symtab, 0x13ff, "asm_func");
	check(symtab, 0x1401, NULL);
	check(symtab, 0x1fff, "last");
	check(symtab, 0x2000, NULL);
	ht_symtab_free(symtab);
}
END_TEST

START_TEST(hostile_tables)
{
	struct image image;
	struct ht_elf elf;
	size_t len;

	image_init(&image, SHT_SYMTAB);
	image_symbol(&image, "end", STT_FUNC, STB_GLOBAL, UINT64_MAX - 1, UINT64_MAX);
	image_symbol(&image, "top", STT_FUNC, STB_GLOBAL, UINT64_MAX, 1);
	image_symbol(&image, "f", STT_FUNC, STB_GLOBAL, 0x1000, 1);
	image.symbols[2].st_name = sizeof(image.names);
	image_symbol(&image, "n", STT_NOTYPE, STB_GLOBAL, 0x1000, 0);
	image.symbols[3].st_shndx = 77;
	ht_symtab_free(load(&image, sizeof(image)));

	memset(image.names, 'x', sizeof(image.names));	/* no NUL at all */
	ht_symtab_free(load(&image, sizeof(image)));
	image.sections[2].sh_link = 1000;
	ht_symtab_free(load(&image, sizeof(image)));
	image.sections[2].sh_link = 3;
	image.sections[2].sh_size = UINT64_MAX;
	ht_symtab_free(load(&image, sizeof(image)));
	image.sections[3].sh_offset = UINT64_MAX - 10;
	ht_symtab_free(load(&image, sizeof(image)));
	image.header.e_shnum = 0;
	image.sections[0].sh_size = UINT64_MAX / 64;
	ht_symtab_free(load(&image, sizeof(image)));
	image.header.e_shoff = UINT64_MAX - 3;
	ht_symtab_free(load(&image, sizeof(image)));
	/* Cut anywhere. */
	image_init(&image, SHT_SYMTAB);
	image_symbol(&image, "f", STT_FUNC, STB_GLOBAL, 0x1000, 1);
	for (len = sizeof(Elf64_Ehdr); len < sizeof(image); len += 7)
		ht_symtab_free(load(&image, len));
	ck_assert_int_eq(ht_elf_init_image(&elf, (uint8_t *)&image, 63), -ENOEXEC);
	image.header.e_ident[EI_CLASS] = ELFCLASS32;
	ck_assert_int_eq(ht_elf_init_image(&elf, (uint8_t *)&image, sizeof(image)), -ENOEXEC);
}
END_TEST

/* Every function that nm knows is found at its first and last byte. */
START_TEST(agrees_with_nm)
{
	struct ht_buf out = HT_BUF_INIT, image = HT_BUF_INIT;
	unsigned long addr, size;
	struct ht_symtab *symtab;
	const char *line, *name;
	char type, want[256];
	int seen = 0;

	if (!ht_check_have(tool_present("nm"), "nm"))
		return;
	ck_ok(ht_buf_read_file(&image, AT_FDCWD, TOOL_INLINES, 64 << 20));
	symtab = load(image.data, image.len);
	tool_output("nm -S " TOOL_INLINES, &out);
	for (line = out.data; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "%lx %lx %c %255s", &addr, &size, &type, want) != 4 ||
		    (type != 't' && type != 'T'))
			continue;
		name = ht_symtab_find(symtab, addr);
		ck_assert_ptr_nonnull(name);
		ck_assert_str_eq(name, want);
		ck_assert_ptr_eq(ht_symtab_find(symtab, addr + size - 1), name);
		seen++;
	}
	ck_assert_int_gt(seen, 4);
	ht_symtab_free(symtab);
	ht_buf_fini(&image);
	ht_buf_fini(&out);
}
END_TEST

/* Each with the names of all: a file that wants to cost time and memory. */
START_TEST(tables_without_end)
{
	enum { TABLES = 300 };
	static struct {
		Elf64_Ehdr header;
		Elf64_Shdr sections[2 + TABLES];
		Elf64_Sym symbols[TABLES];
		char names[4096];
	} many;
	struct ht_symtab *symtab;
	struct image image;

	image_init(&image, SHT_SYMTAB);
	many.header = image.header;
	many.header.e_shoff = offsetof(__typeof__(many), sections);
	many.header.e_shnum = 2 + TABLES;
	many.header.e_shstrndx = 1;
	many.sections[1] = (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_size = sizeof(many.names),
					 .sh_offset = offsetof(__typeof__(many), names) };
	strcpy(many.names + 1, "function");
	for (size_t i = 0; i < TABLES; i++) {
		many.sections[2 + i] = (Elf64_Shdr){
			.sh_type = SHT_SYMTAB, .sh_link = 1, .sh_entsize = sizeof(Elf64_Sym),
			.sh_size = sizeof(Elf64_Sym),
			.sh_offset = offsetof(__typeof__(many), symbols) + i * sizeof(Elf64_Sym) };
		many.symbols[i] = (Elf64_Sym){
			.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = 1, .st_value = 0x1000 + 16 * i, .st_size = 16 };
	}
	symtab = load(&many, sizeof(many));
	ck_assert_ptr_nonnull(ht_symtab_find(symtab, 0x1000));
	ck_assert_ptr_nonnull(ht_symtab_find(symtab, 0x1010));
	ck_assert_ptr_null(ht_symtab_find(symtab, 0x1000 + 16 * 100));
	ht_symtab_free(symtab);
}
END_TEST

int main(void)
{
	return ht_check_run("symtab", (const TTest *const[]){
		choice_at_an_equal_address, sizes_gaps_and_labels, hostile_tables,
		agrees_with_nm, tables_without_end, NULL });
}
