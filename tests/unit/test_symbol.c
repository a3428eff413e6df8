/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "fake_modules.h"
#include "ht_check.h"
#include "symbol/symbol-priv.h"
#include "tool.h"

/* The test is linked with --wrap for it. */
static bool no_memory_for_lines;

int __real_ht_lines_new(const struct ht_elf *elf, const struct ht_beside *beside,
			struct ht_lines **ret_lines, const char **ret_reason);
int __wrap_ht_lines_new(const struct ht_elf *elf, const struct ht_beside *beside,
			struct ht_lines **ret_lines, const char **ret_reason);
int __wrap_ht_lines_new(const struct ht_elf *elf, const struct ht_beside *beside,
			struct ht_lines **ret_lines, const char **ret_reason)
{
	int r = __real_ht_lines_new(elf, beside, ret_lines, ret_reason);

	if (!no_memory_for_lines)
		return r;
	*ret_lines = ht_lines_free(*ret_lines);
	return -ENOMEM;
}

struct fixture {
	struct ht_modules *modules;
	struct ht_symbols *symbols;
};

static void setup(struct fixture *f, const char *path,
		  const struct ht_symbol_options *options)
{
	ck_ok(ht_modules_new(&f->modules));
	ck_assert_uint_eq(fake_modules_add(f->modules, path, path, ""), 0);
	fake_modules_add(f->modules, "/x/lib\x1b[1mbad.so", NULL, "");
	ck_ok(ht_symbols_new(f->modules, options, &f->symbols));
}

static void teardown(struct fixture *f)
{
	ht_symbols_free(f->symbols);
	ht_modules_free(f->modules);
}

static uint64_t address(const char *path, const char *symbol)
{
	struct ht_buf out = HT_BUF_INIT;
	char command[512];
	unsigned long addr;

	snprintf(command, sizeof(command), "nm %s | grep ' %s$'", path, symbol);
	tool_output(command, &out);
	ck_assert_int_eq(sscanf(out.data, "%lx", &addr), 1);
	ht_buf_fini(&out);
	return addr;
}

static const struct ht_symbol *lookup(struct fixture *f, uint32_t module, uint64_t offset,
				      uint32_t flags, size_t *n)
{
	struct ht_frame frame = { offset, module, flags };
	const struct ht_symbol *found;

	ck_ok(ht_symbols_lookup(f->symbols, &frame, &found, n));
	ck_assert_uint_ge(*n, 1);
	return found;
}

START_TEST(return_addresses_and_exact_ones)
{
	uint64_t start = address(TOOL_INLINES, "_ZN3box6weightEi");
	const struct ht_symbol *s;
	struct fixture f;
	size_t n;

	setup(&f, TOOL_INLINES, NULL);
	s = lookup(&f, 0, start, HT_FRAME_EXACT, &n);
	ck_assert_str_eq(s[n - 1].name, "box::weight(int)");
	ck_assert_str_eq(s[n - 1].linkage_name, "_ZN3box6weightEi");
	ck_assert_ptr_nonnull(s[n - 1].file);
	ck_assert_uint_gt(s[n - 1].decl_line, 0);
	ck_assert(!s[n - 1].unknown);
	/* The same address as a return address belongs to what is before. */
	s = lookup(&f, 0, start + 1, 0, &n);
	ck_assert_str_eq(s[n - 1].name, "box::weight(int)");
	s = lookup(&f, 0, start, 0, &n);
	ck_assert_str_ne(s[n - 1].name, "box::weight(int)");
	/* Cached: the very same answer, and equal names are equal pointers. */
	ck_assert_ptr_eq(lookup(&f, 0, start + 1, 0, &n), lookup(&f, 0, start, 1, &n));
	teardown(&f);
}
END_TEST

START_TEST(nothing_known)
{
	const struct ht_symbol *s;
	struct fixture f;
	size_t n;

	setup(&f, TOOL_INLINES, NULL);
	s = lookup(&f, HT_MODULE_NONE, 0x7f0000001235, 0, &n);
	ck_assert_str_eq(s->name, "0x7f0000001234");
	ck_assert(s->unknown && n == 1 && !s->file && !s->linkage_name);
	ck_assert_str_eq(lookup(&f, 77, 0x1235, 0, &n)->name, "0x1234");
	ck_assert(!ht_symbols_module_bare(f.symbols, 1));
	ck_assert_str_eq(lookup(&f, 1, 0x1235, 0, &n)->name, "lib\\x1b[1mbad.so+0x1234");
	ck_assert(ht_symbols_module_bare(f.symbols, 1));
	ck_assert(!ht_symbols_module_bare(f.symbols, 0));
	ck_assert(!ht_symbols_module_bare(f.symbols, HT_MODULE_NONE));
	ck_assert_str_eq(lookup(&f, 0, 0, 0, &n)->name, "inlines+0x0");
	teardown(&f);
}
END_TEST

START_TEST(behind_an_fd)
{
	uint64_t start = address(TOOL_INLINES, "_ZN3box6weightEi");
	const struct ht_symbol *s;
	struct fixture f;
	uint32_t id;
	size_t n;

	setup(&f, TOOL_INLINES, NULL);
	id = fake_modules_add_fd(f.modules, TOOL_INLINES);
	s = lookup(&f, id, start + 1, 0, &n);
	ck_assert_str_eq(s[n - 1].name, "box::weight(int)");
	ck_assert_uint_gt(s[n - 1].line, 0);
	teardown(&f);
}
END_TEST

/* What has no memory for lines may have some for names. */
START_TEST(names_without_lines)
{
	uint64_t start = address(TOOL_INLINES, "checked");
	const struct ht_symbol *s;
	struct fixture f;
	size_t n;

	no_memory_for_lines = true;
	setup(&f, TOOL_INLINES, NULL);
	s = lookup(&f, 0, start + 1, 0, &n);
	ck_assert_str_eq(s->name, "checked");
	ck_assert_ptr_null(s->file);
	ck_assert_str_eq(ht_symbols_module_reason(f.symbols, 0), HT_LINES_MEMORY);
	teardown(&f);
	no_memory_for_lines = false;
}
END_TEST

START_TEST(names_only)
{
	struct ht_symbol_options options = { .no_lines = true };
	uint64_t start = address(TOOL_INLINES, "checked");
	const struct ht_symbol *s;
	struct fixture f;
	size_t n;

	setup(&f, TOOL_INLINES, &options);
	s = lookup(&f, 0, start + 1, 0, &n);
	ck_assert_uint_eq(n, 1);
	ck_assert_str_eq(s->name, "checked");	/* global; its alias is weak */
	ck_assert_ptr_null(s->file);
	teardown(&f);
}
END_TEST

/* A program with functions of these symbol names, one after the other. */
static void build_named(const char *dir, const char *const *names)
{
	char path[128];
	size_t i;
	FILE *f;

	snprintf(path, sizeof(path), "%s/names.s", dir);
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	fprintf(f, ".text\n.globl _start\n_start: nop\n");
	for (i = 0; names[i]; i++)
		fprintf(f, ".type \"%s\", @function\n\"%s\": nop\n.size \"%s\", 1\n", names[i],
			names[i], names[i]);
	fclose(f);
	ck_assert_int_eq(tool_run("cd %s && ${CC:-cc} -c names.s && ld -o names names.o", dir), 0);
}

START_TEST(suffixes_and_hostile_names)
{
	static const char *const names[] = {
		"plain.cold", "_ZN3box6weightEi.part.0", "_ZN3box6weightEi.constprop.0.isra.0",
		"f.constprop.0.cold", "nested.1234",
		"_ZN64_$LT$alloc..string..String$u20$as$u20$core..default..Default$GT$"
		"7default17h0123456789abcdefE",
		"evil\x1b[2Jname", "\xff\xfe", ".dot", "_ZN3box6weightEi.llvm.1234", NULL };
	static const char *const shown[] = {
		"plain [cold]", "box::weight(int) [part]", "box::weight(int)", "f [cold]",
		"nested.1234",
		"<alloc::string::String as core::default::Default>::default",
		"evil\\x1b[2Jname", "\\xff\\xfe", ".dot", "box::weight(int)" };
	char dir[64], path[128];
	const struct ht_symbol *s;
	struct fixture f;
	uint64_t start;
	size_t i, n;

	tool_mkdir(dir);
	build_named(dir, names);
	snprintf(path, sizeof(path), "%s/names", dir);
	start = address(path, "_start") + 1;
	setup(&f, path, NULL);
	for (i = 0; names[i]; i++) {
		s = lookup(&f, 0, start + i, HT_FRAME_EXACT, &n);
		ck_assert_str_eq(s->name, shown[i]);
	}
	/* Equal names are one pointer. */
	ck_assert_ptr_eq(lookup(&f, 0, start + 2, 1, &n)->name,
			 lookup(&f, 0, start + 9, 1, &n)->name);
	teardown(&f);
	tool_rmdir(dir);
}
END_TEST

/* Compile @source in dir as @how, and a table of it. */
static void build_source(struct fixture *f, const char *dir, const char *source, const char *how)
{
	static char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/prog.c", dir);
	file = fopen(path, "we");
	ck_assert_ptr_nonnull(file);
	fputs(source, file);
	fclose(file);
	ck_assert_int_eq(tool_run("cd %s && ${CC:-cc} prog.c -o prog %s", dir, how), 0);
	snprintf(path, sizeof(path), "%s/prog", dir);
	setup(f, path, NULL);
}

static uint64_t in_dir(const char *dir, const char *symbol)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/prog", dir);
	return address(path, symbol);
}

/* The part of a function that was split off is its own, with its lines. */
START_TEST(a_cold_part)
{
	static const char source[] =
		"#include <stdlib.h>\n"
		"void seldom(int) __attribute__((cold, noinline));\n"
		"void seldom(int x) { if (x == 77) abort(); }\n"
		"__attribute__((noinline)) int often(int x)\n"
		"{\n"
		"	if (__builtin_expect(x < 0, 0)) {\n"
		"		seldom(x);\n"
		"		seldom(x + 1);\n"
		"	}\n"
		"	return x * 3;\n"
		"}\n"
		"int main(int argc, char **argv) { return often(argc) == 1; }\n";
	const struct ht_symbol *s;
	struct fixture f;
	char dir[64];
	size_t n;

	tool_mkdir(dir);
	build_source(&f, dir, source, "-O2 -g -fno-ipa-icf");
	if (!ht_check_have(tool_run("nm %s/prog | grep -q ' often.cold$'", dir) == 0,
			   "a compiler that splits functions")) {
		teardown(&f);
		tool_rmdir(dir);
		return;
	}
	s = lookup(&f, 0, in_dir(dir, "often.cold"), HT_FRAME_EXACT, &n);
	ck_assert_uint_eq(n, 1);
	ck_assert_str_eq(s->name, "often [cold]");
	ck_assert_str_eq(s->linkage_name, "often.cold");
	ck_assert_uint_ge(s->line, 6);
	ck_assert_uint_le(s->line, 8);
	ck_assert_uint_eq(s->decl_line, 4);
	s = lookup(&f, 0, in_dir(dir, "often"), HT_FRAME_EXACT, &n);
	ck_assert_str_eq(s->name, "often");
	teardown(&f);
	tool_rmdir(dir);
}
END_TEST

/* Equal functions that a linker made one of have all names at one place: one of them is told,
 * always the same, and a function that others aren't folded into keeps its own. */
START_TEST(folded_functions)
{
	static const char source[] =
		"__attribute__((noinline)) int first_long_name(int x) { return x * 7 + 1; }\n"
		"__attribute__((noinline)) int second(int x) { return x * 7 + 1; }\n"
		"__attribute__((noinline)) int other(int x) { return x * 9 + 2; }\n"
		"int main(int argc, char **argv)\n"
		"{ return first_long_name(argc) + second(argc) + other(argc); }\n";
	static const char *const linkers[] = { "lld", "gold" };
	const struct ht_symbol *s;
	struct fixture f;
	char dir[64], how[128], tool[16];
	size_t n, i;

	for (i = 0; i < ARRAY_SIZE(linkers); i++) {
		snprintf(tool, sizeof(tool), "ld.%s", linkers[i]);
		if (!ht_check_have(tool_present(tool), tool))
			continue;
		snprintf(how, sizeof(how), "-O1 -g -fno-ipa-icf -ffunction-sections -fuse-ld=%s"
			 " -Wl,--icf=all", linkers[i]);
		tool_mkdir(dir);
		build_source(&f, dir, source, how);
		ck_assert_uint_eq(in_dir(dir, "first_long_name"), in_dir(dir, "second"));
		s = lookup(&f, 0, in_dir(dir, "second"), HT_FRAME_EXACT, &n);
		ck_assert_uint_eq(n, 1);
		ck_assert_str_eq(s->name, "second");
		/* The line may be that of either. */
		ck_assert(s->line == 1 || s->line == 2);
		s = lookup(&f, 0, in_dir(dir, "other"), HT_FRAME_EXACT, &n);
		ck_assert_str_eq(s->name, "other");
		ck_assert_uint_eq(s->line, 3);
		teardown(&f);
		tool_rmdir(dir);
	}
}
END_TEST

/* A version belongs to the linkage, not to the name: "renamed@@V2" of .symtab. */
START_TEST(versioned_names)
{
	static const char source[] =
		"__asm__(\".symver old_one, renamed@V1\");\n"
		"__asm__(\".symver new_one, renamed@@V2\");\n"
		"int old_one(void) { return 1; }\n"
		"int new_one(void) { return 2; }\n";
	static const char *const names[] = { "plain", NULL };
	const struct ht_symbol *s;
	struct ht_buf out = HT_BUF_INIT;
	unsigned long addr;
	struct fixture f;
	char dir[64], command[256];
	size_t n;

	tool_mkdir(dir);
	ck_assert_int_eq(tool_run("printf 'V1 { };\nV2 { local: *; } V1;\n' >%s/map", dir), 0);
	build_source(&f, dir, source, "-shared -fPIC -Wl,--version-script=map");
	snprintf(command, sizeof(command), "nm %s/prog | grep ' renamed@V1$'", dir);
	tool_output(command, &out);
	ck_assert_int_eq(sscanf(out.data, "%lx", &addr), 1);
	s = lookup(&f, 0, addr, HT_FRAME_EXACT, &n);
	/* Global, and so before the local one. */
	ck_assert_str_eq(s->name, "renamed");
	teardown(&f);
	/* With .symtab alone, where the version is a part of the name. */
	build_named(dir, names);
	ck_assert_int_eq(tool_run("cd %s && objcopy --redefine-sym plain=plain@@V2 names", dir), 0);
	snprintf(command, sizeof(command), "%s/names", dir);
	setup(&f, command, NULL);
	s = lookup(&f, 0, address(command, "_start") + 1, HT_FRAME_EXACT, &n);
	ck_assert_str_eq(s->name, "plain");
	ck_assert_str_eq(s->linkage_name, "plain@@V2");
	teardown(&f);
	ht_buf_fini(&out);
	tool_rmdir(dir);
}
END_TEST

START_TEST(a_megabyte_of_name)
{
	size_t len = 1 << 20, n;
	char dir[64], path[128], *name = malloc(len + 1);
	const char *names[] = { name, NULL };
	const struct ht_symbol *s;
	struct fixture f;

	memset(name, 'x', len);
	name[len] = '\0';
	tool_mkdir(dir);
	build_named(dir, names);
	snprintf(path, sizeof(path), "%s/names", dir);
	setup(&f, path, NULL);
	s = lookup(&f, 0, address(path, "_start") + 1, HT_FRAME_EXACT, &n);
	ck_assert_uint_lt(strlen(s->name), 5000);
	ck_assert_ptr_nonnull(strstr(s->name, "[1048576 bytes]"));
	ck_assert_uint_lt(strlen(s->linkage_name), 5000);
	teardown(&f);
	free(name);
	tool_rmdir(dir);
}
END_TEST

/* Names and lines from a separate file, and never a question to a server. */
START_TEST(separate_debug_file)
{
	struct ht_symbol_options options = { .debug_dirs = "/nonexistent" };
	uint64_t start = address(TOOL_INLINES, "complain");
	char dir[64], path[128];
	struct ht_buf maps = HT_BUF_INIT;
	const struct ht_symbol *s;
	struct fixture f;
	size_t n;

	tool_mkdir(dir);
	ck_assert_int_eq(tool_run("cp %s %s/prog && cd %s && objcopy --only-keep-debug prog prog.debug &&"
		       " strip prog && objcopy --add-gnu-debuglink=prog.debug prog",
		       TOOL_INLINES, dir, dir), 0);
	snprintf(path, sizeof(path), "%s/prog", dir);
	setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1/", 1);
	setup(&f, path, &options);
	s = lookup(&f, 0, start + 1, 0, &n);
	ck_assert_str_eq(s[n - 1].name, "complain");
	ck_assert_ptr_nonnull(strstr(s[n - 1].file, "inlines.c"));
	teardown(&f);
	/* Without the file only an address is left. */
	ck_assert_int_eq(tool_run("rm %s/prog.debug", dir), 0);
	setup(&f, path, &options);
	ck_assert(lookup(&f, 0, start + 1, 0, &n)->unknown);
	ck_assert(ht_symbols_module_bare(f.symbols, 0));
	teardown(&f);
	ck_ok(ht_buf_read_file(&maps, -1, "/proc/self/maps", 1 << 20));
	ck_assert_ptr_null(strstr(maps.data, "debuginfod"));
	ht_buf_fini(&maps);
	tool_rmdir(dir);
}
END_TEST

/* The skeletons are in a debug file, the units packed beside it. */
START_TEST(split_dwarf_and_a_debug_file)
{
	struct ht_symbol_options options = { .debug_dirs = "/nonexistent" };
	char dir[64], path[128];
	const struct ht_symbol *s;
	const char *top = getenv("HT_SRCDIR");
	struct fixture f;
	uint64_t start;
	size_t n;

	if (!ht_check_have(tool_present("dwp"), "dwp (binutils)"))
		return;
	tool_mkdir(dir);
	ck_assert_int_eq(tool_run("src=$(realpath '%s/tests/unit/inlines.c') && cd %s && ${CC:-cc}"
		       " -O2 -g -gdwarf-4 -gsplit-dwarf \"$src\" -o prog && dwp *.dwo -o prog.dwp &&"
		       " rm *.dwo && objcopy --only-keep-debug prog prog.debug",
		       top ? top : "..", dir), 0);
	snprintf(path, sizeof(path), "%s/prog", dir);
	start = address(path, "checked");
	ck_assert_int_eq(tool_run("cd %s && strip prog &&"
				  " objcopy --add-gnu-debuglink=prog.debug prog", dir), 0);
	setup(&f, path, &options);
	s = lookup(&f, 0, start + 1, 0, &n);
	ck_assert_str_eq(s[n - 1].name, "checked");
	ck_assert_uint_gt(s[n - 1].decl_line, 0);
	ck_assert_ptr_null(ht_symbols_module_reason(f.symbols, 0));
	teardown(&f);
	/* Without them: the name and the line. */
	ck_assert_int_eq(tool_run("rm %s/prog.dwp", dir), 0);
	setup(&f, path, &options);
	s = lookup(&f, 0, start + 1, 0, &n);
	ck_assert_str_eq(s[n - 1].name, "checked");
	ck_assert(s[n - 1].file && !s[n - 1].decl_line);
	ck_assert_ptr_nonnull(strstr(ht_symbols_module_reason(f.symbols, 0), ".dwp"));
	teardown(&f);
	tool_rmdir(dir);
}
END_TEST

/* What was read once isn't read again, for all reports of a run: neither the file itself, nor
 * its debug file, for an address asked for again and for a new one. */
START_TEST(files_are_read_once)
{
	struct ht_symbol_options options = { .debug_dirs = "/nonexistent" };
	uint64_t start = address(TOOL_INLINES, "complain");
	char dir[64], path[128];
	const struct ht_symbol *s, *again;
	struct fixture f;
	size_t n;

	tool_mkdir(dir);
	ck_assert_int_eq(tool_run("cp %s %s/prog && cd %s && objcopy --only-keep-debug prog prog.debug &&"
		       " strip prog && objcopy --add-gnu-debuglink=prog.debug prog",
		       TOOL_INLINES, dir, dir), 0);
	snprintf(path, sizeof(path), "%s/prog", dir);
	setup(&f, path, &options);
	s = lookup(&f, 0, start + 1, 0, &n);
	ck_assert_str_eq(s[n - 1].name, "complain");
	ck_assert_int_eq(tool_run("rm %s/prog %s/prog.debug", dir, dir), 0);
	again = lookup(&f, 0, start + 1, 0, &n);
	ck_assert_ptr_eq(s, again);
	again = lookup(&f, 0, start + 3, 0, &n);
	ck_assert_str_eq(again[n - 1].name, "complain");
	ck_assert_ptr_nonnull(again[n - 1].file);
	/* The text of the name is the same, too. */
	ck_assert_ptr_eq(again[n - 1].name, s[n - 1].name);
	teardown(&f);
	tool_rmdir(dir);
}
END_TEST

START_TEST(where_the_code_is)
{
	struct ht_symbol_text text;
	struct fixture f;
	uint64_t addr = address(TOOL_INLINES, "checked");

	setup(&f, TOOL_INLINES, NULL);
	ck_assert(ht_symbols_module_text(f.symbols, 0, &text));
	ck_assert(text.vaddr <= addr && addr < text.end);
	ck_assert_uint_eq(text.vaddr % 4096, 0);
	ck_assert_uint_eq(text.end % 4096, 0);
	ck_assert(!ht_symbols_module_text(f.symbols, 1, &text));
	ck_assert(!ht_symbols_module_text(f.symbols, HT_MODULE_NONE, &text));
	teardown(&f);
}
END_TEST

int main(void)
{
	if (!tool_present("nm") || !tool_present("objcopy"))
		ht_check_skip("nm and objcopy (binutils) are needed");
	return ht_check_run("symbol", (const TTest *const[]){
		return_addresses_and_exact_ones, nothing_known, behind_an_fd,
		names_without_lines, names_only, suffixes_and_hostile_names, a_megabyte_of_name, separate_debug_file,
		a_cold_part, folded_functions, versioned_names, files_are_read_once,
		split_dwarf_and_a_debug_file, where_the_code_is, NULL });
}
