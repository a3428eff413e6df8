/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/hotspot.h"

#include <elf.h>
#include <errno.h>

#include "made_jvm.h"
#include "unwind/elfview.h"

/* The test is linked with --wrap for these, and counts them. */
static unsigned reads, views;

int __real_ht_fd_pread_all(int fd, void *data, size_t len, uint64_t offset);
int __wrap_ht_fd_pread_all(int fd, void *data, size_t len, uint64_t offset);
int __real_ht_elfview_open(const uint8_t *image, size_t len, struct ht_elfview *ret_view);
int __wrap_ht_elfview_open(const uint8_t *image, size_t len, struct ht_elfview *ret_view);

int __wrap_ht_fd_pread_all(int fd, void *data, size_t len, uint64_t offset)
{
	reads++;
	return __real_ht_fd_pread_all(fd, data, len, offset);
}

int __wrap_ht_elfview_open(const uint8_t *image, size_t len, struct ht_elfview *ret_view)
{
	views++;
	return __real_ht_elfview_open(image, len, ret_view);
}

static struct made_jvm made;
static struct ht_hotspot *hotspot;
static uint64_t moment;

static void start(void)
{
	made_jvm_start(&made);
	made.add(0, 3, "nmethod", 6, &made.jvm->method);
	made.add(4, 1, "StubRoutines (1)", 0, NULL);
	made.add(5, 1, "native nmethod", 10, &made.jvm->method);
	made.add(FAKE_INTERPRETER, FAKE_INTERPRETER_LEN, "Interpreter", 0, NULL);
	made.add(100, 900, "nmethod", 2, &made.jvm->method);
	ck_ok(ht_hotspot_new(made.space, made.memfd, &hotspot));
}

static void stop(void)
{
	ht_hotspot_free(hotspot);
	made_jvm_stop(&made);
}

/* What was found before is asked for again. */
static void tick(void)
{
	ht_hotspot_tick(hotspot, ++moment << 32);
}

static void check(unsigned segment, enum ht_java kind, uint32_t bytes)
{
	uint32_t found;

	ck_assert_int_eq(ht_hotspot_find(hotspot, made_jvm_pc(&made, segment), &found), kind);
	ck_assert_uint_eq(found, bytes);
}

static void check_name(unsigned segment, const char *expected)
{
	struct ht_buf name = HT_BUF_INIT;
	int r = ht_hotspot_code_name(hotspot, made_jvm_pc(&made, segment), &name);

	ck_assert_int_eq(r, expected ? 0 : -ENOENT);
	if (expected)
		ck_assert_str_eq(name.data, expected);
	else
		ck_assert_uint_eq(name.len, 0);
	ht_buf_fini(&name);
}

START_TEST(kinds_of_code)
{
	uint32_t bytes;

	start();
	check(0, HT_JAVA_COMPILED, 48);
	check(2, HT_JAVA_COMPILED, 48);
	check(3, HT_JAVA_NOT, 0);	/* free */
	check(4, HT_JAVA_NOT, 0);	/* without a frame's size */
	check(5, HT_JAVA_COMPILED, 80);
	check(FAKE_INTERPRETER, HT_JAVA_INTERPRETED, 0);
	check(FAKE_INTERPRETER + FAKE_INTERPRETER_LEN, HT_JAVA_NOT, 0);
	check(100, HT_JAVA_COMPILED, 16);
	check(999, HT_JAVA_COMPILED, 16);	/* far from its start */
	check(FAKE_SEGMENTS, HT_JAVA_NOT, 0);
	ck_assert_int_eq(ht_hotspot_find(hotspot, 0, &bytes), HT_JAVA_NOT);
	ck_assert_int_eq(ht_hotspot_find(hotspot, UINT64_MAX, &bytes), HT_JAVA_NOT);
	ck_assert_int_eq(ht_hotspot_find(hotspot, (uintptr_t)made.code - 1, &bytes), HT_JAVA_NOT);
	/* A block's header isn't code. */
	ck_assert_int_eq(ht_hotspot_find(hotspot, (uintptr_t)made.code + 8, &bytes), HT_JAVA_NOT);
	stop();
}
END_TEST

START_TEST(names)
{
	struct ht_buf name = HT_BUF_INIT;

	start();
	check_name(0, "made.up.Klass.work");
	check_name(5, "made.up.Klass.work");
	check_name(4, "StubRoutines (1)");
	check_name(FAKE_INTERPRETER, "Interpreter");
	check_name(3, NULL);
	check_name(FAKE_SEGMENTS, NULL);
	ck_ok(ht_buf_puts(&name, "x "));
	ck_ok(ht_hotspot_method_name(hotspot, (uintptr_t)&made.jvm->method, &name));
	ck_assert_str_eq(name.data, "x made.up.Klass.work");
	ck_assert_int_eq(ht_hotspot_method_name(hotspot, 16, &name), -ENOENT);
	ck_assert_int_eq(ht_hotspot_method_name(hotspot, UINT64_MAX, &name), -ENOENT);
	ck_assert_str_eq(name.data, "x made.up.Klass.work");
	ht_buf_fini(&name);
	stop();
}
END_TEST

static void renew(void)
{
	ht_hotspot_free(hotspot);
	ck_ok(ht_hotspot_new(made.space, made.memfd, &hotspot));
}

/* Of the code at made_jvm_pc() + @bytes in segment 0. */
static void check_inlined(unsigned bytes, const char *expected)
{
	struct ht_buf name = HT_BUF_INIT;

	ck_ok(ht_hotspot_code_name(hotspot, made_jvm_pc(&made, 0) + bytes, &name));
	ck_assert_str_eq(name.data, expected);
	ht_buf_fini(&name);
}

#define WORK "made.up.Klass.work"
#define INLINED "made.up.Klass.inlined"

START_TEST(methods_compiled_into_others)
{
	const unsigned layouts[] = { 17, 21, 25 };

	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		start();
		made.add_scopes(0, layouts[i]);
		check_inlined(0, WORK "\n" INLINED "\n" WORK);
		check_inlined(2, INLINED "\n" WORK);
		check_inlined(4, WORK);
		/* No call is there. */
		check_inlined(1, WORK);
		check_inlined(200, WORK);
		stop();
	}
}
END_TEST

START_TEST(scopes_that_lie)
{
	struct fake_scopes *scopes;
	struct fake_blob *blob;

	start();
	made.add_scopes(0, 21);
	scopes = made.jvm->scopes;
	blob = (struct fake_blob *)made.code;
	check_inlined(2, INLINED "\n" WORK);
	scopes->data[3] = 1 + 3;	/* its own caller */
	check_inlined(2, WORK);
	scopes->data[3] = 1 + 0;	/* of no method that this is */
	check_inlined(2, WORK);
	scopes->data[3] = 0;
	check_inlined(2, WORK);
	scopes->data[3] = 1 + 1;
	scopes->data[4] = 1 + 0;	/* no number */
	check_inlined(2, WORK);
	memset(scopes->data + 4, 255, 5);	/* a very large one */
	check_inlined(2, WORK);
	made.add_scopes(0, 21);
	scopes->pcs[2].scope = -1;
	check_inlined(2, WORK);
	made.add_scopes(0, 21);
	scopes->metadata[1] = NULL;
	check_inlined(2, WORK);
	scopes->metadata[1] = (struct fake_method *)8;	/* has no name */
	check_inlined(2, WORK);
	made.add_scopes(0, 21);
	made.jvm->inlined_name.body[0] = '\n';
	check_inlined(2, WORK);
	made.jvm->inlined_name.body[0] = 'i';
	check_inlined(2, INLINED "\n" WORK);
	blob->end_offset = blob->pcs_offset - 1;
	check_inlined(2, WORK);
	blob->end_offset = INT32_MAX;
	check_inlined(2, WORK);
	blob->end_offset = -1;
	check_inlined(2, WORK);
	made.add_scopes(0, 21);
	made.jvm->types[2].size = 0;
	renew();
	check_inlined(2, WORK);
	stop();
}
END_TEST

START_TEST(code_that_changes)
{
	start();
	check(0, HT_JAVA_COMPILED, 48);
	made.add(0, 3, "nmethod", 8, &made.jvm->method);
	check(0, HT_JAVA_COMPILED, 48);
	tick();
	check(0, HT_JAVA_COMPILED, 64);
	/* Before its initialisation is done, as at the start of a JVM. */
	made.jvm->array_pointer = NULL;
	made.jvm->queue_pointer = NULL;
	tick();
	check(0, HT_JAVA_NOT, 0);
	check(FAKE_INTERPRETER, HT_JAVA_NOT, 0);
	made.jvm->array_pointer = &made.jvm->array;
	made.jvm->queue_pointer = &made.jvm->queue;
	tick();
	check(0, HT_JAVA_COMPILED, 64);
	check(FAKE_INTERPRETER, HT_JAVA_INTERPRETED, 0);
	stop();
}
END_TEST

START_TEST(words_that_lie)
{
	start();
	made.add(0, 1, "nmethod", -1, &made.jvm->method);
	made.add(1, 1, "nmethod", 1, &made.jvm->method);
	made.add(2, 1, "nmethod", 1 << 20, (struct fake_method *)8);
	made.add(6, 1, (const char *)8, 4, NULL);
	made.add(7, 1, "nmethod", 4, NULL);
	made.jvm->segmap[8] = 200;	/* before the first */
	memset(made.jvm->segmap + 20, 1, 100);
	check(0, HT_JAVA_NOT, 0);
	check(1, HT_JAVA_NOT, 0);
	check(2, HT_JAVA_NOT, 0);
	check(8, HT_JAVA_NOT, 0);
	check_name(2, NULL);
	check_name(6, NULL);
	check_name(7, NULL);
	made.jvm->constant.name_index = 4;
	check_name(5, NULL);
	made.jvm->constant.name_index = 0;
	check_name(5, NULL);
	made.jvm->constant.name_index = 1;	/* no symbol there */
	check_name(5, NULL);
	made.jvm->constant.name_index = 2;
	made.jvm->method_name.length = 0;
	check_name(5, NULL);
	made.jvm->method_name.length = 5;	/* a NUL in it */
	check_name(5, NULL);
	made.jvm->method_name.length = UINT16_MAX;
	check_name(5, NULL);
	stop();
}
END_TEST

START_TEST(descriptions_that_lack_something)
{
	size_t i;

	start();
	made.add_scopes(0, 21);
	for (i = 0; made.jvm->structs[i].type; i++) {
		struct fake_struct old = made.jvm->structs[i];
		bool optional = !strcmp(old.type_string, "optional");
		bool needed = strcmp(old.type, "Other") != 0 && !optional;

		made.jvm->structs[i].field = "_something";
		renew();
		check(0, needed ? HT_JAVA_NOT : HT_JAVA_COMPILED, needed ? 0 : 48);
		if (optional)
			check_inlined(2, WORK);
		made.jvm->structs[i] = old;
	}
	made.jvm->types[0].size = 0;
	ht_hotspot_free(hotspot);
	ck_ok(ht_hotspot_new(made.space, made.memfd, &hotspot));
	check(0, HT_JAVA_NOT, 0);
	check_name(0, NULL);
	stop();
}
END_TEST

/* Any byte may be anything: there's an answer, or none. */
START_TEST(any_bytes)
{
	uint8_t *bytes, *blobs;
	struct ht_buf name = HT_BUF_INIT;
	unsigned round, i;
	uint32_t frame;

	start();
	srand(1);
	for (round = 0; round < 400; round++) {
		bytes = (uint8_t *)made.make(made.code);
		made.add(0, 3, "nmethod", 6, &made.jvm->method);
		made.add(5, 1, "native nmethod", 10, &made.jvm->method);
		made.add_scopes(0, round % 3 ? round % 3 == 1 ? 17 : 21 : 25);
		blobs = made.code;
		for (i = 0; i < 8; i++)
			bytes[(size_t)rand() % sizeof(*made.jvm)] ^= (uint8_t)(1 << rand() % 8);
		blobs[rand() % sizeof(struct fake_blob)] ^= (uint8_t)(1 << rand() % 8);
		blobs[FAKE_SCOPES * FAKE_SEGMENT + rand() % (2 * sizeof(struct fake_scopes))] ^=
			(uint8_t)(1 << rand() % 8);
		ht_hotspot_free(hotspot);
		ck_ok(ht_hotspot_new(made.space, made.memfd, &hotspot));
		for (i = 0; i < 8; i++) {
			ht_buf_clear(&name);
			(void)ht_hotspot_find(hotspot, made_jvm_pc(&made, i), &frame);
			(void)!ht_hotspot_code_name(hotspot, made_jvm_pc(&made, i), &name);
		}
		(void)!ht_hotspot_method_name(hotspot, (uintptr_t)&made.jvm->method, &name);
	}
	ht_buf_fini(&name);
	stop();
}
END_TEST

/* Its sections are all tables of symbols, and all of it. */
START_TEST(a_library_that_costs_time)
{
	enum { MANY = 60000 };
	const size_t len = 4096 + MANY * sizeof(Elf64_Shdr);
	uint8_t *image = calloc(1, len);
	Elf64_Ehdr *header = (Elf64_Ehdr *)image;
	Elf64_Phdr *segment = (Elf64_Phdr *)(image + sizeof(*header));
	Elf64_Shdr *sections = (Elf64_Shdr *)(image + 4096);
	char dir[64], path[128];
	uint32_t bytes;
	void *map;
	int fd;

	memcpy(header->e_ident, ELFMAG, SELFMAG);
	header->e_ident[EI_CLASS] = ELFCLASS64;
	header->e_ident[EI_DATA] = ELFDATA2LSB;
	header->e_type = ET_DYN;
	header->e_machine = EM_X86_64;
	header->e_phoff = sizeof(*header);
	header->e_phentsize = sizeof(*segment);
	header->e_phnum = 1;
	header->e_shoff = 4096;
	header->e_shentsize = sizeof(*sections);
	header->e_shnum = MANY;
	*segment = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = len,
				 .p_memsz = len };
	for (size_t i = 1; i < MANY; i++)
		sections[i] = (Elf64_Shdr){ .sh_type = SHT_DYNSYM, .sh_size = len, .sh_link = 1 };
	tool_mkdir(dir);
	snprintf(path, sizeof(path), "%s/libjvm.so", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
	ck_assert_int_ge(fd, 0);
	ck_ok(ht_fd_write_all(fd, image, len));
	map = mmap(NULL, len, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	ck_assert(map != MAP_FAILED);
	start();
	/* The other one may come first. */
	ck_assert_int_eq(dlclose(made.library), 0);
	ck_assert_int_eq(ht_space_refresh(made.space), 1);
	ck_assert_int_eq(ht_hotspot_find(hotspot, made_jvm_pc(&made, 0), &bytes), HT_JAVA_NOT);
	ck_assert_ptr_nonnull(made.library = dlopen(NULL, RTLD_NOW));
	stop();
	munmap(map, len);
	ht_fd_close(fd);
	free(image);
	tool_rmdir(dir);
}
END_TEST

START_TEST(no_jvm)
{
	uint32_t bytes;

	start();
	ht_hotspot_free(hotspot);
	/* Its memory can't be read. */
	ck_ok(ht_hotspot_new(made.space, -1, &hotspot));
	check(0, HT_JAVA_NOT, 0);
	check_name(0, NULL);
	/* It's gone. */
	ht_hotspot_free(hotspot);
	ck_ok(ht_hotspot_new(made.space, made.memfd, &hotspot));
	check(0, HT_JAVA_COMPILED, 48);
	dlclose(made.library);
	ck_assert_int_eq(ht_space_refresh(made.space), 1);
	ck_assert_int_eq(ht_hotspot_find(hotspot, made_jvm_pc(&made, 1), &bytes), HT_JAVA_NOT);
	ck_assert_ptr_nonnull(made.library = dlopen(NULL, RTLD_NOW));
	stop();
}
END_TEST

/* A map that leads back one segment at a time. */
START_TEST(many_hops)
{
	start();
	check(0, HT_JAVA_COMPILED, 48);
	made.add(100, 900, "nmethod", 2, &made.jvm->method);
	memset(made.jvm->segmap + 101, 1, 899);
	tick();
	check(0, HT_JAVA_COMPILED, 48);
	reads = 0;
	check(999, HT_JAVA_COMPILED, 16);
	ck_assert_uint_lt(reads, 16);
	stop();
}
END_TEST

/* A file by that name, without what a JVM has, in very many pieces. */
START_TEST(a_library_in_pieces)
{
	enum { PIECES = 32 };
	uint8_t *at = mmap(NULL, 2 * PIECES * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[128];
	int fd;

	ck_assert(at != MAP_FAILED);
	start();
	ck_assert_int_eq(tool_run("mkdir %s/no && ${CC:-cc} -shared -x c /dev/null -o %s/no/libjvm.so",
				  made.dir, made.dir), 0);
	snprintf(path, sizeof(path), "%s/no/libjvm.so", made.dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	for (size_t i = 0; i < PIECES; i++)
		ck_assert(mmap(at + 2 * i * 4096, 4096, PROT_READ | PROT_EXEC,
			       MAP_PRIVATE | MAP_FIXED, fd, 0) != MAP_FAILED);
	dlclose(made.library);
	made.library = dlopen(NULL, RTLD_NOW);
	ck_assert_int_ge(ht_space_refresh(made.space), 0);
	views = 0;
	check(0, HT_JAVA_NOT, 0);
	ck_assert_uint_le(views, 2);
	close(fd);
	munmap(at, 2 * PIECES * 4096);
	stop();
}
END_TEST

int main(void)
{
	return ht_check_run("hotspot", (const TTest *const[]){
		kinds_of_code, names, methods_compiled_into_others, scopes_that_lie,
		code_that_changes, words_that_lie, descriptions_that_lack_something, any_bytes,
		a_library_that_costs_time, no_jvm, many_hops, a_library_in_pieces, NULL });
}
