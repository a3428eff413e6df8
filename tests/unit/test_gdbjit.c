/* SPDX-License-Identifier: Apache-2.0
 *
 * This process is its own target: it has the descriptor that compilers have, and makes the
 * list that they make.
 */
#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "ht_check.h"
#include "symbol/jit-priv.h"

struct entry {
	struct entry *next, *previous;
	const void *file;
	uint64_t size;
};

struct {
	uint32_t version, action;
	struct entry *relevant, *first;
} __jit_debug_descriptor = { 1, 0, NULL, NULL };

/* A relocatable file: text that was put to @addr, with two functions. */
struct object {
	Elf64_Ehdr header;
	Elf64_Shdr sections[6];
	Elf64_Sym symbols[4];
	char names[32];
};

static struct object object_of(uint64_t addr, const char *first, const char *second)
{
	struct object o = {
		.header = { .e_type = ET_REL, .e_shoff = offsetof(struct object, sections),
			    .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 4 },
		.sections = {
			[1] = { .sh_type = SHT_NOBITS, .sh_addr = addr, .sh_size = 0x200,
				.sh_flags = SHF_ALLOC | SHF_EXECINSTR },
			[2] = { .sh_type = SHT_SYMTAB, .sh_link = 3,
				.sh_offset = offsetof(struct object, symbols),
				.sh_size = sizeof(o.symbols), .sh_entsize = sizeof(Elf64_Sym) },
			[3] = { .sh_type = SHT_STRTAB,
				.sh_offset = offsetof(struct object, names),
				.sh_size = sizeof(o.names) },
		},
		.symbols = {
			[1] = { .st_name = 1, .st_shndx = 1, .st_size = 0x20,
				.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC) },
			[2] = { .st_name = 16, .st_shndx = 1, .st_value = 0x100,
				.st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC) },
			[3] = { .st_name = 1, .st_shndx = 1, .st_value = 0x80, .st_size = 8,
				.st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT) },
		},
	};

	memcpy(o.header.e_ident, ELFMAG, SELFMAG);
	o.header.e_ident[EI_CLASS] = ELFCLASS64;
	o.header.e_ident[EI_DATA] = ELFDATA2LSB;
	snprintf(o.names + 1, 15, "%s", first);
	snprintf(o.names + 16, 16, "%s", second);
	return o;
}

static struct ht_modules *modules;
static struct ht_space *space;
static int procfd, memfd;
static struct ht_gdbjit gdb;

static void start(void)
{
	procfd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	memfd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_space_new(procfd, memfd, modules, &space));
	ht_gdbjit_init(&gdb, memfd, space);
}

static void stop(void)
{
	ht_gdbjit_fini(&gdb);
	ht_space_free(space);
	ht_modules_free(modules);
	ht_fd_close(memfd);
	ht_fd_close(procfd);
}

static void add(struct entry *entry, const void *file, uint64_t size)
{
	*entry = (struct entry){ __jit_debug_descriptor.first, NULL, file, size };
	__jit_debug_descriptor.first = entry;
}

static void check(uint64_t addr, const char *expected)
{
	const char *name;

	ck_ok(ht_gdbjit_read(&gdb));
	ck_ok(ht_ranges_index(&gdb.ranges));
	name = ht_ranges_find(&gdb.ranges, addr);
	if (expected) {
		ck_assert_msg(name != NULL, "%#lx", addr);
		ck_assert_str_eq(name, expected);
	} else {
		ck_assert_msg(name == NULL, "%#lx: %s", addr, name);
	}
}

/* To be read again. */
static void forget_all(void)
{
	ht_map_fini(&gdb.known);
	ht_vec_clear(&gdb.files);
}

START_TEST(what_is_registered)
{
	struct object a = object_of(0x10000, "first", "unsized"), b;
	struct entry one, two;
	uint64_t bytes;

	start();
	check(0x10000, NULL);
	ck_assert_uint_eq(gdb.descriptors.len, 1);
	add(&one, &a, sizeof(a));
	check(0x10000, "first");
	check(0x1001f, "first");
	check(0x10020, NULL);
	check(0x10080, NULL);
	check(0x10100, "unsized");
	check(0x101ff, "unsized");
	check(0x10200, NULL);
	/* Known ones aren't read again. */
	bytes = gdb.bytes;
	check(0x10000, "first");
	ck_assert_uint_eq(gdb.bytes, bytes);
	/* Later, over the first. */
	b = object_of(0x10010, "newer", "x");
	add(&two, &b, sizeof(b));
	check(0x1000f, "first");
	check(0x10010, "newer");
	/* The entry is used for another file. */
	b = object_of(0x20000, "again", "x");
	two.size--;
	check(0x20000, NULL);	/* its names are cut off */
	two.size++;
	check(0x20000, "again");
	stop();
}
END_TEST

/* A file whose addresses are those of the program. */
START_TEST(a_linked_file)
{
	struct object a = object_of(0x10000, "linked", "unsized");
	struct entry one;

	start();
	a.header.e_type = ET_DYN;
	a.symbols[1].st_value = 0x10040;
	a.symbols[2].st_value = 0x10100;
	add(&one, &a, sizeof(a));
	check(0x10040, "linked");
	check(0x101ff, "unsized");
	check(0x10200, NULL);
	stop();
}
END_TEST

START_TEST(lists_that_lie)
{
	struct object a = object_of(0x10000, "good", "x");
	struct entry one, two, far;

	start();
	/* A ring, and one that doesn't go through the first entry. */
	add(&one, &a, sizeof(a));
	one.next = &one;
	check(0x10000, "good");
	add(&two, NULL, 1);
	check(0x10000, "good");
	/* Out of memory, and where no memory is. */
	add(&far, (void *)0x10, UINT64_MAX);
	far.next = (struct entry *)UINT64_MAX;
	check(0x10000, "good");
	far.size = HT_GDBJIT_FILE_MAX;
	check(0x10000, "good");
	__jit_debug_descriptor.first = (struct entry *)8;
	check(0x10000, "good");
	__jit_debug_descriptor.version = 2;
	check(0x10000, "good");
	stop();
}
END_TEST

START_TEST(files_that_lie)
{
	struct object good = object_of(0x10000, "good", "x"), bad;
	struct entry one;
	size_t i, byte;

	start();
	add(&one, &bad, sizeof(bad));
	/* Each byte in turn, as the largest and as the smallest number. */
	for (i = 0; i < 2 * sizeof(bad); i++) {
		byte = i / 2;
		bad = good;
		((uint8_t *)&bad)[byte] = i % 2 ? 0xff : 0;
		forget_all();
		ck_ok(ht_gdbjit_read(&gdb));
		ck_ok(ht_ranges_index(&gdb.ranges));
	}
	bad = good;
	forget_all();
	check(0x10000, "good");
	stop();
}
END_TEST

/* With unwind data, as long as it is registered. */
START_TEST(unwind_data_comes_and_goes)
{
	static char names[] = "\0.eh_frame\0.names";
	struct object *a = calloc(1, sizeof(*a) + 0x400);
	struct entry one, other;
	uint64_t generation;

	*a = object_of(0x10000, "first", "unsized");
	/* Its code, the unwind data and the names of sections behind it. */
	a->header.e_machine = EM_X86_64;
	a->header.e_shnum = 6;
	a->header.e_shstrndx = 5;
	a->sections[1].sh_type = SHT_PROGBITS;
	a->sections[1].sh_offset = sizeof(*a);
	a->sections[4] = (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_addr = 0x20000,
				       .sh_offset = sizeof(*a) + 0x200, .sh_size = 64 };
	a->sections[5] = (Elf64_Shdr){ .sh_name = 11, .sh_type = SHT_STRTAB,
				       .sh_offset = sizeof(*a) + 0x300,
				       .sh_size = sizeof(names) };
	memcpy((char *)a + sizeof(*a) + 0x300, names, sizeof(names));
	start();
	add(&other, a, 8);	/* not a file */
	add(&one, a, sizeof(*a) + 0x400);
	check(0x10000, "first");
	ck_assert_ptr_nonnull(ht_space_find_made(space, 0x10000));
	ck_assert_ptr_nonnull(ht_space_find_made(space, 0x101ff));
	ck_assert_ptr_null(ht_space_find_made(space, 0x10200));
	generation = ht_space_generation(space);
	check(0x10000, "first");
	ck_assert_uint_eq(ht_space_generation(space), generation);
	/* A list that can't be read to its end says nothing about what isn't on it. */
	__jit_debug_descriptor.first = (struct entry *)8;
	check(0x10000, "first");
	ck_assert_ptr_nonnull(ht_space_find_made(space, 0x10000));
	__jit_debug_descriptor.first = &other;
	check(0x10000, "first");
	ck_assert_ptr_null(ht_space_find_made(space, 0x10000));
	ck_assert_uint_gt(ht_space_generation(space), generation);
	/* It comes again. */
	add(&one, a, sizeof(*a) + 0x400);
	check(0x10000, "first");
	ck_assert_ptr_nonnull(ht_space_find_made(space, 0x10000));
	free(a);
	stop();
}
END_TEST

START_TEST(what_is_read_is_bounded)
{
	size_t len = HT_GDBJIT_FILE_MAX, i;
	void *file = mmap(NULL, len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	static struct entry entries[64];

	ck_assert(file != MAP_FAILED);
	start();
	for (i = 0; i < ARRAY_SIZE(entries); i++)
		add(&entries[i], file, len - i);
	ck_ok(ht_gdbjit_read(&gdb));
	ck_assert_uint_gt(gdb.bytes, 0);
	ck_assert_uint_le(gdb.bytes, HT_GDBJIT_ALL_MAX);
	stop();
}
END_TEST

/* So is what is looked through for descriptors, which many large files may be. */
START_TEST(the_search_is_bounded)
{
	struct object a = object_of(0x10000, "first", "second");
	struct entry one;

	start();
	add(&one, &a, sizeof(a));
	gdb.search_bytes = HT_GDBJIT_SEARCH_MAX;
	check(0x10000, NULL);
	stop();
	start();
	check(0x10000, "first");
	ck_assert_uint_gt(gdb.search_bytes, 0);
	stop();
}
END_TEST

/* A target that has ended, or execed. */
START_TEST(no_memory)
{
	start();
	gdb.memfd = -1;
	check(0x10000, NULL);
	gdb.memfd = memfd;
	stop();
}
END_TEST

int main(void)
{
	return ht_check_run("gdbjit", (const TTest *const[]){
		what_is_registered, a_linked_file, lists_that_lie, files_that_lie,
		unwind_data_comes_and_goes, what_is_read_is_bounded, the_search_is_bounded, no_memory, NULL });
}
