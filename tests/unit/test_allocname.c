/* SPDX-License-Identifier: Apache-2.0
 *
 * test_allocname.c: files that are a few bytes of data and one symbol. The real
 * allocators are test_plan's.
 */
#include "inject/allocname.h"

#include <string.h>

#include "ht_check.h"

#define DATA_ADDR UINT64_C(0x1000)

static char data[256];
static size_t data_len;
static const char *symbol, *second;
static bool data_write, data_exec;

static enum ht_family family_of(char *name, size_t cap)
{
	static char strings[128];
	static Elf64_Sym syms[2];
	struct ht_elfdyn view = { .n_loads = 1 };
	size_t n = 1;

	view.loads[0] = (struct ht_elf_load){
		.vaddr = DATA_ADDR, .filesz = data_len, .memsz = data_len,
		.bytes = (const uint8_t *)data, .write = data_write, .exec = data_exec,
	};
	memset(strings, 0, sizeof(strings));
	memset(syms, 0, sizeof(syms));
	for (unsigned i = 0; i < 2; i++) {
		const char *s = i ? second : symbol;

		if (!s)
			continue;
		syms[i] = (Elf64_Sym){ .st_name = (uint32_t)n, .st_shndx = 1,
				       .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				       .st_value = DATA_ADDR };
		strcpy(strings + n, s);
		n += strlen(s) + 1;
	}
	view.dynsym = (struct ht_elf_symtab){ .syms = (const uint8_t *)syms, .count = 2,
					      .strs = strings, .strs_len = sizeof(strings) };
	return ht_allocator_name(&view, "libx.so", name, cap);
}

static void put(const void *bytes, size_t len)
{
	memset(data, 0, sizeof(data));
	memcpy(data, bytes, len);
	data_len = len;
}

/* A string literal with its NUL. */
#define DATA(s) put(s, sizeof(s))

static void check(enum ht_family family, const char *want)
{
	char name[64];

	ck_assert_int_eq(family_of(name, sizeof(name)), family);
	ck_assert_str_eq(name, want);
}

static void symbols(const char *first, const char *other)
{
	symbol = first;
	second = other;
	data_write = data_exec = false;
}

START_TEST(by_symbols_and_strings)
{
	symbols("mallocx", NULL);
	DATA("x\0" "5.3.0-0-g54eaed1d8b56\0y");
	check(HT_FAMILY_JEMALLOC, "jemalloc 5.3.0");
	symbols("_rjem_mallocx", NULL);
	check(HT_FAMILY_JEMALLOC, "jemalloc 5.3.0");
	symbols("tc_version", NULL);
	DATA("abc gperftools 2.10.\0");
	check(HT_FAMILY_TCMALLOC, "tcmalloc 2.10");
	symbols("gnu_get_libc_version", NULL);
	DATA("GNU C Library, stable release version 2.36.\n");
	check(HT_FAMILY_GLIBC, "glibc 2.36");
	symbols(NULL, NULL);
	DATA("1.2.3\0musl libc (x86_64)\n");
	check(HT_FAMILY_MUSL, "musl 1.2.3");
	DATA("nothing");
	check(HT_FAMILY_OTHER, "malloc in libx.so");
}
END_TEST

/* Others export some of its names too. */
START_TEST(glibc_by_two_names)
{
	DATA("stable release version 2.17, by");
	symbols("__libc_malloc", NULL);
	check(HT_FAMILY_OTHER, "malloc in libx.so");
	symbols("__libc_malloc", "__libc_memalign");
	check(HT_FAMILY_GLIBC, "glibc 2.17");
	/* Who has its own comes first. */
	symbols("__libc_malloc", "tc_malloc");
	check(HT_FAMILY_TCMALLOC, "tcmalloc");
}
END_TEST

START_TEST(mimalloc_by_its_code)
{
	static const uint8_t plain[16] = { 0xb8, 209, 0, 0, 0, 0xc3 };
	static const uint8_t ibt[16] = { 0xf3, 0x0f, 0x1e, 0xfa, 0xb8, 0x34, 0x01, 0, 0, 0xc3 };
	static const uint8_t other[16] = { 0x31, 0xc0, 0xc3 };

	symbols("mi_malloc", "mi_version");
	put(plain, 16);
	check(HT_FAMILY_MIMALLOC, "mimalloc 2.0.9");
	put(ibt, 16);
	check(HT_FAMILY_MIMALLOC, "mimalloc 3.0.8");
	put(other, 16);
	check(HT_FAMILY_MIMALLOC, "mimalloc");
	put(plain, 15);
	check(HT_FAMILY_MIMALLOC, "mimalloc");
	symbols("mi_heap_malloc", NULL);
	put(plain, 16);
	check(HT_FAMILY_MIMALLOC, "mimalloc");
	/* Also heaptrack has that. */
	symbols("mi_malloc", NULL);
	check(HT_FAMILY_OTHER, "malloc in libx.so");
}
END_TEST

START_TEST(versions_that_are_none)
{
	symbols("tc_version", NULL);
	DATA("gperftools ");
	check(HT_FAMILY_TCMALLOC, "tcmalloc");
	DATA("gperftools 210");
	check(HT_FAMILY_TCMALLOC, "tcmalloc");
	DATA("gperftools .2.10");
	check(HT_FAMILY_TCMALLOC, "tcmalloc");
	DATA("gperftools 2..");
	check(HT_FAMILY_TCMALLOC, "tcmalloc");
	/* Cut off by the end of the file; longer than any. */
	put("gperftools 2.1", 13);
	check(HT_FAMILY_TCMALLOC, "tcmalloc");
	put("gperftools 2.10", 14);
	check(HT_FAMILY_TCMALLOC, "tcmalloc 2.1");
	DATA("gperftools 1.234567890123456789012345678901234567890");
	check(HT_FAMILY_TCMALLOC, "tcmalloc 1.2345678901234567890123");
	/* jemalloc's is a string of its own, with a commit behind it. */
	symbols("mallocx", NULL);
	DATA("5.3.0\0x5.3.0-0-gab\0" "5.3.0-0\0" "5.3.0-x-gab");
	check(HT_FAMILY_JEMALLOC, "jemalloc");
	/* No NUL at its end. */
	put("5.3.0-0-gabc", 12);
	check(HT_FAMILY_JEMALLOC, "jemalloc");
}
END_TEST

/* Only what the file alone can say, and what is no code. */
START_TEST(where_it_is_looked_for)
{
	symbols("tc_version", NULL);
	DATA("gperftools 2.10");
	data_write = true;
	check(HT_FAMILY_TCMALLOC, "tcmalloc");
	symbols("mallocx", NULL);
	DATA("5.3.0-0-g54eaed1d8b56");
	data_exec = true;
	check(HT_FAMILY_JEMALLOC, "jemalloc");
}
END_TEST

START_TEST(little_room)
{
	char name[8];

	symbols("gnu_get_libc_version", NULL);
	DATA("stable release version 2.36.");
	ck_assert_int_eq(family_of(name, sizeof(name)), HT_FAMILY_GLIBC);
	ck_assert_str_eq(name, "glibc 2");
	symbols(NULL, NULL);
	ck_assert_int_eq(family_of(name, sizeof(name)), HT_FAMILY_OTHER);
	ck_assert_str_eq(name, "malloc ");
}
END_TEST

int main(void)
{
	return ht_check_run("allocname", (const TTest *const[]){
		by_symbols_and_strings, glibc_by_two_names, mimalloc_by_its_code,
		versions_that_are_none, where_it_is_looked_for, little_room, NULL });
}
