/* SPDX-License-Identifier: Apache-2.0
 *
 * test_elfdyn.c: a shared object of which every byte is made. Real ones are test_elfsym's.
 */
#include "inject/elfdyn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ht_check.h"

#define VADDR UINT64_C(0x10000)	/* of the first byte of the file */

static struct file {
	Elf64_Ehdr header;
	Elf64_Phdr phdrs[2];
	Elf64_Dyn dyn[16];
	Elf64_Sym syms[4];
	char strings[32];
	uint16_t versions[4];
	uint32_t hash[2 + 1 + 4];	/* one bucket */
	Elf64_Rela rela[3];
	uint8_t code[64];
} file;
static struct ht_elfdyn view;
static uint8_t *image;

#define AT(member) (VADDR + offsetof(struct file, member))
#define DYN(i, tag, value) (file.dyn[i] = (Elf64_Dyn){ tag, { value } })

static void make(void)
{
	memset(&file, 0, sizeof(file));
	memcpy(file.header.e_ident, ELFMAG, SELFMAG);
	file.header.e_ident[EI_CLASS] = ELFCLASS64;
	file.header.e_ident[EI_DATA] = ELFDATA2LSB;
	file.header.e_type = ET_DYN;
	file.header.e_machine = EM_X86_64;
	file.header.e_phoff = offsetof(struct file, phdrs);
	file.header.e_phentsize = sizeof(Elf64_Phdr);
	file.header.e_phnum = 2;
	file.phdrs[0] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = VADDR,
				      .p_filesz = sizeof(file), .p_memsz = sizeof(file) + 64 };
	file.phdrs[1] = (Elf64_Phdr){ .p_type = PT_DYNAMIC,
				      .p_offset = offsetof(struct file, dyn),
				      .p_filesz = sizeof(file.dyn) };
	DYN(0, DT_SYMTAB, AT(syms));
	DYN(1, DT_STRTAB, AT(strings));
	DYN(2, DT_STRSZ, sizeof(file.strings));
	DYN(3, DT_HASH, AT(hash));
	DYN(4, DT_VERSYM, AT(versions));
	DYN(5, DT_RELA, AT(rela));
	DYN(6, DT_RELASZ, 2 * sizeof(Elf64_Rela));
	DYN(7, DT_JMPREL, AT(rela[2]));
	DYN(8, DT_PLTRELSZ, sizeof(Elf64_Rela));
	DYN(9, DT_PLTREL, DT_RELA);
	memcpy(file.strings, "\0one\0two", 9);
	for (unsigned i = 1; i < 4; i++) {
		file.syms[i] = (Elf64_Sym){ .st_name = i == 1 ? 1 : 5, .st_shndx = 1,
					    .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
					    .st_value = 0x100 * i };
		file.rela[i - 1].r_offset = i;
	}
	/* "two" twice: an old version, and the default. */
	file.versions[2] = 0x8003;
	file.versions[3] = 4;
	memcpy(file.hash, (uint32_t[]){ 1, 4, 1, 0, 2, 3, 0 }, sizeof(file.hash));
}

static int open_file(void)
{
	free(image);
	/* Not a byte more, for the sanitizer. */
	image = malloc(sizeof(file));
	ck_assert_ptr_nonnull(image);
	memcpy(image, &file, sizeof(file));
	return ht_elfdyn_open(image, sizeof(file), &view);
}

START_TEST(a_good_one)
{
	make();
	ck_ok(open_file());
	ck_assert_uint_eq(view.n_loads, 1);
	ck_assert_uint_eq(view.dynsym.count, 4);
	ck_assert_uint_eq(view.rela.count, 2);
	ck_assert_uint_eq(view.jmprel.count, 1);
	ck_assert_uint_eq(ht_elf_relas_at(&view.jmprel, 0).r_offset, 3);
	ck_assert_int_eq(ht_elfdyn_find_dynamic(&view, "one"), 1);
	ck_assert_int_eq(ht_elfdyn_find_dynamic(&view, "two"), 3);
	ck_assert_int_eq(ht_elfdyn_find_dynamic(&view, "tw"), -ENOENT);
	ck_assert_int_eq(ht_elfdyn_find_dynamic(&view, "two2"), -ENOENT);
}
END_TEST

START_TEST(addresses)
{
	size_t len = 0;

	make();
	ck_ok(open_file());
	ck_assert_ptr_eq(ht_elfdyn_at(&view, AT(code), &len), image + offsetof(struct file, code));
	ck_assert_uint_eq(len, sizeof(file) - offsetof(struct file, code));
	ck_assert_ptr_null(ht_elfdyn_at(&view, VADDR - 1, &len));
	/* .bss is mapped, but has no bytes. */
	ck_assert_ptr_null(ht_elfdyn_at(&view, VADDR + sizeof(file), &len));
	ck_assert_ptr_nonnull(ht_elfdyn_load(&view, VADDR + sizeof(file) + 63));
	ck_assert_ptr_null(ht_elfdyn_load(&view, VADDR + sizeof(file) + 64));
	ck_assert(view.loads[0].exec && !view.loads[0].write);
	/* Said to be longer than the file, or than memory. */
	file.phdrs[0].p_filesz = UINT64_MAX;
	ck_ok(open_file());
	ck_assert_uint_eq(view.loads[0].filesz, sizeof(file));
	file.phdrs[0].p_memsz = 100;
	ck_ok(open_file());
	ck_assert_uint_eq(view.loads[0].filesz, 100);
}
END_TEST

START_TEST(nothing_to_load)
{
	make();
	file.phdrs[0].p_type = PT_NOTE;
	ck_assert_int_eq(open_file(), -EINVAL);
	make();
	file.phdrs[0].p_offset = sizeof(file) + 1;
	ck_assert_int_eq(open_file(), -EINVAL);
	make();
	file.phdrs[0].p_vaddr = UINT64_MAX - 8;
	ck_assert_int_eq(open_file(), -EINVAL);
	ck_assert_int_eq(ht_elfdyn_open(NULL, 0, &view), -EINVAL);
}
END_TEST

/* What is malformed further in is left out. */
START_TEST(tables_that_do_not_fit)
{
	make();
	file.phdrs[1].p_filesz = UINT64_MAX;
	file.phdrs[1].p_offset = sizeof(file) - sizeof(Elf64_Dyn) / 2;
	ck_ok(open_file());
	ck_assert_uint_eq(view.dynsym.count, 0);
	make();
	DYN(0, DT_SYMTAB, 8);
	ck_ok(open_file());
	ck_assert_uint_eq(view.dynsym.count, 0);
	ck_assert_int_eq(ht_elfdyn_find_dynamic(&view, "one"), -ENOENT);
	/* Fewer versions than symbols: none are known. */
	make();
	file.hash[1] = UINT32_MAX;
	DYN(4, DT_VERSYM, VADDR + sizeof(file) - 2);
	ck_ok(open_file());
	ck_assert_ptr_null(view.dynsym.versym);
	ck_assert_uint_le(view.dynsym.count, sizeof(file) / sizeof(Elf64_Sym));
	make();
	DYN(1, DT_STRTAB, 0);
	ck_ok(open_file());
	ck_assert_uint_eq(view.dynsym.count, 0);
	/* Relocations up to the end; none of another kind. */
	make();
	DYN(6, DT_RELASZ, UINT64_MAX);
	DYN(9, DT_PLTREL, DT_REL);
	ck_ok(open_file());
	ck_assert_uint_eq(view.rela.count,
			  (sizeof(file) - offsetof(struct file, rela)) / sizeof(Elf64_Rela));
	ck_assert_uint_eq(view.jmprel.count, 0);
}
END_TEST

START_TEST(hash_chains_that_go_round)
{
	make();
	memcpy(file.hash, (uint32_t[]){ 1, 4, 2, 0, 0, 2, 0 }, sizeof(file.hash));
	ck_ok(open_file());
	ck_assert_int_eq(ht_elfdyn_find_dynamic(&view, "one"), -ENOENT);
	ck_assert_int_eq(ht_elfdyn_find_dynamic(&view, "two"), 2);
	file.hash[0] = 0;
	ck_ok(open_file());
	ck_assert_int_eq(ht_elfdyn_find_dynamic(&view, "two"), -ENOENT);
	file.hash[0] = UINT32_MAX;
	ck_ok(open_file());
	ck_assert_int_eq(ht_elfdyn_find_dynamic(&view, "two"), -ENOENT);
}
END_TEST

START_TEST(names_end_in_their_table)
{
	const struct ht_elf_symtab tab = { .strs = "ab\0cd", .strs_len = 5 };
	Elf64_Sym sym = { .st_name = 0 };
	size_t max = 0;

	ck_assert(ht_elf_symtab_is(&tab, &sym, "ab", 2));
	ck_assert(!ht_elf_symtab_is(&tab, &sym, "a", 1));
	/* No NUL behind it in the table. */
	sym.st_name = 3;
	ck_assert(!ht_elf_symtab_is(&tab, &sym, "cd", 2));
	ck_assert_ptr_eq(ht_elf_symtab_name(&tab, &sym, &max), tab.strs + 3);
	ck_assert_uint_eq(max, 2);
	sym.st_name = 5;
	ck_assert_str_eq(ht_elf_symtab_name(&tab, &sym, &max), "");
	ck_assert_uint_eq(max, 0);
	sym.st_name = UINT32_MAX;
	ck_assert(!ht_elf_symtab_is(&tab, &sym, "", 0));
}
END_TEST

START_TEST(usable_symbols)
{
	Elf64_Sym sym = { .st_shndx = 3, .st_value = 8,
			  .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC) };
	static const struct { uint8_t type; bool good; } types[] = {
		{ STT_NOTYPE, true }, { STT_OBJECT, true }, { STT_FUNC, true },
		{ STT_GNU_IFUNC, true }, { STT_SECTION, false }, { STT_FILE, false },
		{ STT_TLS, false },
	};
	static const uint16_t nowhere[] = { SHN_UNDEF, SHN_ABS, SHN_COMMON };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		sym.st_info = ELF64_ST_INFO(STB_GLOBAL, types[i].type);
		ck_assert_int_eq(ht_elf_symbol_usable(&sym), types[i].good);
	}
	sym.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
	for (size_t i = 0; i < ARRAY_SIZE(nowhere); i++) {
		sym.st_shndx = nowhere[i];
		ck_assert(!ht_elf_symbol_usable(&sym));
	}
	sym.st_shndx = 3;
	sym.st_value = 0;
	ck_assert(!ht_elf_symbol_usable(&sym));
}
END_TEST

int main(void)
{
	return ht_check_run("elfdyn", (const TTest *const[]){
		a_good_one, addresses, nothing_to_load, tables_that_do_not_fit,
		hash_chains_that_go_round, names_end_in_their_table, usable_symbols, NULL });
}
