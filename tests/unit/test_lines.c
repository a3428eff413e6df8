/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "ht_check.h"
#include "symbol/symbol-priv.h"
#include "tool.h"

/* The test is linked with --wrap for these, which have no memory when it says so. */
static bool no_elf, no_dwarf, no_room;

bool __real_ht_sections_fit(const struct ht_elf *elf);
bool __wrap_ht_sections_fit(const struct ht_elf *elf);
bool __wrap_ht_sections_fit(const struct ht_elf *elf)
{
	return !no_room && __real_ht_sections_fit(elf);
}

Elf *__real_elf_memory(char *image, size_t size);
Elf *__wrap_elf_memory(char *image, size_t size);
Dwarf *__real_dwarf_begin_elf(Elf *elf, Dwarf_Cmd cmd, Elf_Scn *group);
Dwarf *__wrap_dwarf_begin_elf(Elf *elf, Dwarf_Cmd cmd, Elf_Scn *group);

Elf *__wrap_elf_memory(char *image, size_t size)
{
	errno = no_elf ? ENOMEM : errno;
	return no_elf ? NULL : __real_elf_memory(image, size);
}

Dwarf *__wrap_dwarf_begin_elf(Elf *elf, Dwarf_Cmd cmd, Elf_Scn *group)
{
	Dwarf *dwarf = no_dwarf ? NULL : __real_dwarf_begin_elf(elf, cmd, group);

	errno = no_dwarf ? ENOMEM : errno;
	return dwarf;
}

/* How libdw says that it has no memory: by the handler that it was given, when it is the turn of
 * this call. */
static Dwarf_OOM handler;
static unsigned out_of_memory_in;	/* 0: never */

Dwarf_OOM __real_dwarf_new_oom_handler(Dwarf *dwarf, Dwarf_OOM new_handler);
Dwarf_OOM __wrap_dwarf_new_oom_handler(Dwarf *dwarf, Dwarf_OOM new_handler);
ptrdiff_t __real_dwarf_ranges(Dwarf_Die *die, ptrdiff_t at, Dwarf_Addr *base, Dwarf_Addr *lo,
			      Dwarf_Addr *hi);
ptrdiff_t __wrap_dwarf_ranges(Dwarf_Die *die, ptrdiff_t at, Dwarf_Addr *base, Dwarf_Addr *lo,
			      Dwarf_Addr *hi);
int __real_dwarf_siblingof(Dwarf_Die *die, Dwarf_Die *ret_die);
int __wrap_dwarf_siblingof(Dwarf_Die *die, Dwarf_Die *ret_die);

Dwarf_OOM __wrap_dwarf_new_oom_handler(Dwarf *dwarf, Dwarf_OOM new_handler)
{
	handler = new_handler;
	return __real_dwarf_new_oom_handler(dwarf, new_handler);
}

static void maybe_no_memory(void)
{
	if (out_of_memory_in && !--out_of_memory_in)
		handler();
}

/* Very many of nothing, if it says so. */
static bool endless;
static uint64_t n_ranges;

ptrdiff_t __wrap_dwarf_ranges(Dwarf_Die *die, ptrdiff_t at, Dwarf_Addr *base, Dwarf_Addr *lo,
			      Dwarf_Addr *hi)
{
	maybe_no_memory();
	n_ranges++;
	if (!endless)
		return __real_dwarf_ranges(die, at, base, lo, hi);
	*lo = *hi = 0;
	return at + 1;
}

int __wrap_dwarf_siblingof(Dwarf_Die *die, Dwarf_Die *ret_die)
{
	maybe_no_memory();
	return __real_dwarf_siblingof(die, ret_die);
}

struct file {
	struct ht_buf bytes;
	struct ht_elf elf;
	struct ht_symtab *symtab;
	struct ht_lines *lines;
	const char *reason;
};

static void open_beside(struct file *file, const char *path, const struct ht_beside *beside)
{
	*file = (struct file){ .bytes = HT_BUF_INIT };
	ck_ok(ht_buf_read_file(&file->bytes, AT_FDCWD, path, 64 << 20));
	ck_ok(ht_elf_init_image(&file->elf, (uint8_t *)file->bytes.data, file->bytes.len));
	ck_ok(ht_symtab_new(&file->symtab));
	ck_ok(ht_symtab_add(file->symtab, &file->elf));
	ht_symtab_finish(file->symtab);
	ck_ok(ht_lines_new(&file->elf, beside, &file->lines, &file->reason));
}

static void open_file(struct file *file, const char *path)
{
	open_beside(file, path, &(struct ht_beside)HT_BESIDE_NONE);
}

static void close_file(struct file *file)
{
	ht_lines_free(file->lines);
	ht_symtab_free(file->symtab);
	ht_elf_fini(&file->elf);
	ht_buf_fini(&file->bytes);
}

/* The start and end of a function by its symbol. */
static void function_place(const char *path, const char *name, uint64_t *start, uint64_t *end)
{
	struct ht_buf out = HT_BUF_INIT;
	unsigned long addr, size;
	char command[512];

	snprintf(command, sizeof(command), "nm -S %s | grep ' %s$'", path, name);
	tool_output(command, &out);
	ck_assert_int_eq(sscanf(out.data, "%lx %lx", &addr, &size), 2);
	*start = addr;
	*end = addr + size;
	ht_buf_fini(&out);
}

static void add_line(struct ht_buf *out, const struct ht_line *line)
{
	const char *name = line->linkage_name ? line->linkage_name : line->name;

	ht_buf_printf(out, "%s\n", name ? name : "??");
	if (line->file && line->file[0] != '/' && line->dir)
		ht_buf_printf(out, "%s/", line->dir);
	ht_buf_printf(out, "%s:", line->file ? line->file : "??");
	ht_buf_printf(out, line->line ? "%u\n" : "?\n", line->line);
}

/* As addr2line -fi prints it. */
static void describe(struct file *file, uint64_t addr, struct ht_buf *out)
{
	struct ht_line found[HT_LINES_MAX];
	size_t n = ht_lines_lookup(file->lines, addr, found, HT_LINES_MAX), i;

	ck_assert_uint_gt(n, 0);
	for (i = 0; i < n; i++)
		add_line(out, &found[i]);
}

/* addr2line puts a remark behind some lines. */
static void drop_discriminators(char *text)
{
	char *from = text, *to = text;

	while (*from) {
		if (strncmp(from, " (discriminator", 15) == 0)
			from += strcspn(from, "\n");
		*to++ = *from++;
	}
	*to = '\0';
}

/* Check can't print long strings: show the first line that differs. */
static void check_same(const char *ours, const char *theirs)
{
	size_t same = 0, line = 0, i;

	while (ours[same] && ours[same] == theirs[same])
		same++;
	for (i = 0; i < same; i++)
		if (ours[i] == '\n')
			line = i + 1;
	ck_assert_msg(ours[same] == theirs[same], "ours:\n%.400s\ntheirs:\n%.400s",
		      ours + line, theirs + line);
}

/* Every byte of @function in @path, ours and addr2line's. */
static void compare(const char *path, const char *function)
{
	struct ht_buf ours = HT_BUF_INIT, theirs = HT_BUF_INIT, command = HT_BUF_INIT;
	uint64_t start, end, addr;
	struct file file;

	open_file(&file, path);
	ck_assert_ptr_nonnull(file.lines);
	function_place(path, function, &start, &end);
	ck_assert_uint_lt(start, end);
	ht_buf_printf(&command, "addr2line -fi -e %s", path);
	for (addr = start; addr < end; addr++) {
		describe(&file, addr, &ours);
		ht_buf_printf(&command, " %#lx", addr);
	}
	tool_output(command.data, &theirs);
	drop_discriminators(theirs.data);
	check_same(ours.data, theirs.data);
	close_file(&file);
	ht_buf_fini(&ours);
	ht_buf_fini(&theirs);
	ht_buf_fini(&command);
}

START_TEST(agrees_with_addr2line)
{
	compare(TOOL_INLINES, "_ZN3box6weightEi");
	compare(TOOL_INLINES, "_ZN3box5heavyILi7EEEii");
	compare(TOOL_INLINES, "checked");
	compare(TOOL_INLINES, "complain");
}
END_TEST

START_TEST(the_chain_of_inlines)
{
	struct ht_line found[HT_LINES_MAX];
	bool seen = false;
	uint64_t addr, end;
	struct file file;
	size_t n;

	open_file(&file, TOOL_INLINES);
	function_place(TOOL_INLINES, "_ZN3box6weightEi", &addr, &end);
	for (; addr < end; addr++) {
		n = ht_lines_lookup(file.lines, addr, found, HT_LINES_MAX);
		ck_assert_uint_ge(n, 1);
		ck_assert_str_eq(found[n - 1].name, "weight");
		ck_assert(!found[n - 1].inlined);
		/* A shorter answer is the chain's outer part cut, never more than asked. */
		ck_assert_uint_eq(ht_lines_lookup(file.lines, addr, found, 1), 1);
		n = ht_lines_lookup(file.lines, addr, found, HT_LINES_MAX);
		if (n < 3)
			continue;
		seen = true;
		ck_assert_str_eq(found[1].name, "middle");
		ck_assert(found[0].inlined && found[1].inlined);
		ck_assert_uint_gt(found[0].decl_line, 0);
		ck_assert_uint_lt(found[0].decl_line, found[1].decl_line);
		ck_assert_uint_lt(found[1].decl_line, found[2].decl_line);
		ck_assert_ptr_nonnull(strstr(found[1].file, "inlines.c"));
	}
	ck_assert(seen);
	ck_assert_uint_eq(ht_lines_lookup(file.lines, 1, found, HT_LINES_MAX), 0);
	ck_assert_uint_eq(ht_lines_lookup(file.lines, UINT64_MAX, found, HT_LINES_MAX), 0);
	close_file(&file);
}
END_TEST

static void build(const char *dir, const char *how)
{
	/* In there, for clang's .dwo files. */
	ck_assert_int_eq(tool_run("src=$(realpath '%s/tests/unit/inlines.c') && cd %s &&"
				  " ${CC:-cc} %s \"$src\" -o prog",
				  getenv("HT_SRCDIR") ? getenv("HT_SRCDIR") : "..", dir, how), 0);
}

START_TEST(other_kinds_of_dwarf)
{
	static const char *const kinds[] = {
		"-O2 -g -gdwarf-4", "-O2 -g -gdwarf-5 -gz=zlib", "-O2 -g1",
		"-O2 -g -gdwarf-4 -Wl,--compress-debug-sections=zlib-gnu",
		"-O2 -g -ffunction-sections -Wl,--gc-sections",
		"-O1 -g -no-pie",
	};
	char dir[64], prog[128];
	size_t i;

	tool_mkdir(dir);
	snprintf(prog, sizeof(prog), "%s/prog", dir);
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		build(dir, kinds[i]);
		compare(prog, "_ZN3box6weightEi");
	}
	tool_rmdir(dir);
}
END_TEST

/* clang writes no .debug_aranges, counts DWARF 5's files from 0 and compresses addresses;
 * addr2line of binutils 2.40 can't follow its inlines, so only the outermost is compared. */
START_TEST(clang_too)
{
	struct ht_line found[HT_LINES_MAX];
	char dir[64], prog[128];
	uint64_t addr, end;
	struct file file;
	bool seen = false;
	size_t n, i;

	if (!ht_check_have(tool_present("clang"), "clang"))
		return;
	tool_mkdir(dir);
	snprintf(prog, sizeof(prog), "%s/prog", dir);
	setenv("CC", "clang", 1);
	build(dir, "-O2 -g -gdwarf-5");
	open_file(&file, prog);
	ck_assert_ptr_nonnull(file.lines);
	function_place(prog, "_ZN3box6weightEi", &addr, &end);
	for (; addr < end; addr++) {
		n = ht_lines_lookup(file.lines, addr, found, HT_LINES_MAX);
		ck_assert_uint_ge(n, 1);
		ck_assert_str_eq(found[n - 1].name, "weight");
		for (i = 0; i < n; i++) {
			ck_assert_ptr_nonnull(found[i].file);
			ck_assert_ptr_nonnull(strstr(found[i].file, "inlines.c"));
		}
		seen = seen || n >= 3;
	}
	ck_assert(seen);
	close_file(&file);
	tool_rmdir(dir);
}
END_TEST

/* All that is known of @functions in @path, with what is beside it. */
static void describe_all(const char *path, bool dwp, const char *const *functions,
			 struct ht_buf *out)
{
	struct ht_beside beside = HT_BESIDE_NONE;
	uint64_t start, end, addr;
	struct file file;

	if (dwp) {
		ck_ok(ht_debugfile_find_dwp(path, NULL, &beside.dwp_fd));
		ck_assert_int_ge(beside.dwp_fd, 0);
	}
	open_beside(&file, path, &beside);
	ck_assert_ptr_nonnull(file.lines);
	for (; *functions; functions++) {
		function_place(path, *functions, &start, &end);
		for (addr = start; addr < end; addr++)
			describe(&file, addr, out);
	}
	ck_assert_msg(!ht_lines_reason(file.lines), "%s", ht_lines_reason(file.lines));
	close_file(&file);
}

/* Split DWARF must say the same as the whole of the same compiler, whose code is the same.
 * @pack makes prog.dwp: dwp of binutils 2.40 knows no DWARF 5, and llvm-dwp of LLVM 14 hangs with
 * gcc's. */
static void compare_split(const char *how, const char *pack)
{
	static const char *const functions[] = { "_ZN3box6weightEi", "_ZN3box5heavyILi7EEEii",
						 "checked", "complain", NULL };
	struct ht_buf whole = HT_BUF_INIT, split = HT_BUF_INIT;
	char dir[64], prog[128], flags[256];

	tool_mkdir(dir);
	snprintf(prog, sizeof(prog), "%s/prog", dir);
	build(dir, how);
	describe_all(prog, false, functions, &whole);
	ck_assert_ptr_nonnull(strstr(whole.data, "innermost"));
	snprintf(flags, sizeof(flags), "%s -gsplit-dwarf", how);
	build(dir, flags);
	describe_all(prog, false, functions, &split);
	check_same(split.data, whole.data);
	if (pack) {
		ck_assert_int_eq(tool_run("cd %s && %s && rm *.dwo", dir, pack), 0);
		ht_buf_clear(&split);
		describe_all(prog, true, functions, &split);
		check_same(split.data, whole.data);
	}
	ht_buf_fini(&whole);
	ht_buf_fini(&split);
	tool_rmdir(dir);
}

START_TEST(split_dwarf)
{
	const char *pack = "dwp *.dwo -o prog.dwp";

	unsetenv("CC");
	if (!ht_check_have(tool_present("dwp"), "dwp (binutils)"))
		pack = NULL;
	compare_split("-O2 -g -gdwarf-5", NULL);
	compare_split("-O2 -g -gdwarf-4", pack);
	compare_split("-O2 -g -gdwarf-5 -ffunction-sections", NULL);
	compare_split("-O2 -g -gdwarf-4 -ffunction-sections", pack);
	compare_split("-O2 -g -gdwarf-5 -gz=zlib", NULL);
}
END_TEST

START_TEST(split_dwarf_of_clang)
{
	const char *pack = "llvm-dwp -e prog -o prog.dwp";

	if (!ht_check_have(tool_present("clang"), "clang"))
		return;
	if (!ht_check_have(tool_present("llvm-dwp"), "llvm-dwp (llvm)"))
		pack = NULL;
	setenv("CC", "clang", 1);
	compare_split("-O2 -g -gdwarf-5", pack);
	compare_split("-O2 -g -gdwarf-4", pack);
	compare_split("-O2 -g -gdwarf-5 -ffunction-sections", pack);
}
END_TEST

START_TEST(what_is_missing_is_said)
{
	struct ht_line found[HT_LINES_MAX];
	uint64_t start, end;
	char dir[64], prog[128];
	struct file file;

	tool_mkdir(dir);
	snprintf(prog, sizeof(prog), "%s/prog", dir);
	build(dir, "-O2");
	open_file(&file, prog);
	ck_assert_ptr_null(file.lines);
	ck_assert_ptr_null(file.reason);
	close_file(&file);

	build(dir, "-O2 -g -gsplit-dwarf");
	ck_assert_int_eq(tool_run("rm %s/*.dwo", dir), 0);
	open_file(&file, prog);
	ck_assert_ptr_nonnull(file.lines);
	function_place(prog, "checked", &start, &end);
	ck_assert_uint_eq(ht_lines_lookup(file.lines, start, found, HT_LINES_MAX), 1);
	ck_assert_ptr_nonnull(found[0].file);
	ck_assert_str_eq(ht_lines_reason(file.lines), HT_LINES_SPLIT);
	close_file(&file);

	build(dir, "-O2 -g");
	if (tool_run("cd %s && objcopy --compress-debug-sections=zstd prog 2>/dev/null",
		     dir) == 0) {
		open_file(&file, prog);
		if (!file.lines)	/* newer libelf can read it */
			ck_assert_str_eq(file.reason, HT_LINES_ZSTD);
		close_file(&file);
	}
	tool_rmdir(dir);
}
END_TEST

/* The file is as it should be. */
START_TEST(no_memory_is_no_fault_of_the_file)
{
	struct ht_line found[HT_LINES_MAX];
	uint64_t start, end;
	char dir[64], prog[128];
	struct file file;

	for (int i = 0; i < 3; i++) {
		no_elf = i == 0;
		no_dwarf = i == 1;
		no_room = i == 2;
		open_file(&file, TOOL_INLINES);
		ck_assert_ptr_null(file.lines);
		ck_assert_str_eq(file.reason, HT_LINES_MEMORY);
		close_file(&file);
	}
	no_elf = no_dwarf = no_room = false;
	tool_mkdir(dir);
	snprintf(prog, sizeof(prog), "%s/prog", dir);
	build(dir, "-O2 -g -gsplit-dwarf");
	open_file(&file, prog);
	ck_assert_ptr_null(file.reason);
	function_place(prog, "checked", &start, &end);
	no_dwarf = true;
	ht_lines_lookup(file.lines, start, found, HT_LINES_MAX);
	ck_assert_str_eq(ht_lines_reason(file.lines), HT_LINES_MEMORY);
	close_file(&file);
	tool_rmdir(dir);
}
END_TEST

/* Wherever it happens, what comes after is without lines, and says why. */
START_TEST(libdw_runs_out_of_memory)
{
	struct ht_line found[HT_LINES_MAX];
	uint64_t start, end;
	struct file file;
	unsigned calls;

	function_place(TOOL_INLINES, "_ZN3box6weightEi", &start, &end);
	for (calls = 1;; calls++) {
		out_of_memory_in = calls;
		open_file(&file, TOOL_INLINES);
		ck_assert_ptr_nonnull(file.lines);
		ht_lines_lookup(file.lines, start, found, HT_LINES_MAX);
		if (out_of_memory_in)
			break;
		ck_assert_str_eq(ht_lines_reason(file.lines), HT_LINES_MEMORY);
		ht_lines_lookup(file.lines, start, found, HT_LINES_MAX);
		close_file(&file);
	}
	out_of_memory_in = 0;
	ck_assert_ptr_null(ht_lines_reason(file.lines));
	close_file(&file);
	/* Ranges, siblings. */
	ck_assert_uint_gt(calls, 10);
}
END_TEST

/* One that all units have: none of it counts, but reading it does. */
START_TEST(ranges_without_end)
{
	struct file file;

	endless = true;
	n_ranges = 0;
	open_file(&file, TOOL_INLINES);
	endless = false;
	ck_assert_ptr_nonnull(file.lines);
	ck_assert_str_eq(ht_lines_reason(file.lines), HT_LINES_LARGE);
	ck_assert_uint_lt(n_ranges, UINT64_C(100) << 20);
	close_file(&file);
}
END_TEST

/* It is unpacked as well, so the same is asked of it. */
START_TEST(a_supplementary_file_that_is_too_large)
{
	struct ht_buf alt = HT_BUF_INIT;
	const Elf64_Shdr *section;
	Elf64_Chdr header;
	struct file file;
	struct ht_elf elf;
	char dir[64], path[128];
	int fd;

	if (!ht_check_have(tool_present("objcopy"), "objcopy (binutils)"))
		return;
	tool_mkdir(dir);
	ck_assert_int_eq(tool_run("objcopy --compress-debug-sections=zlib %s %s/alt", TOOL_INLINES,
				  dir), 0);
	snprintf(path, sizeof(path), "%s/alt", dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	open_beside(&file, TOOL_INLINES, &(struct ht_beside){ fd, -1, NULL });
	ck_assert_ptr_nonnull(file.lines);
	close_file(&file);
	ck_ok(ht_buf_read_file(&alt, AT_FDCWD, path, 64 << 20));
	ck_ok(ht_elf_init_image(&elf, (uint8_t *)alt.data, alt.len));
	section = ht_elf_section(&elf, ".debug_info");
	ck_assert(section && (section->sh_flags & SHF_COMPRESSED));
	memcpy(&header, alt.data + section->sh_offset, sizeof(header));
	header.ch_size = UINT64_C(1) << 40;
	fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(pwrite(fd, &header, sizeof(header), (off_t)section->sh_offset),
			 sizeof(header));
	open_beside(&file, TOOL_INLINES, &(struct ht_beside){ fd, -1, NULL });
	ck_assert_ptr_null(file.lines);
	ck_assert_str_eq(file.reason, HT_LINES_LARGE);
	close_file(&file);
	ht_elf_fini(&elf);
	ht_buf_fini(&alt);
	tool_rmdir(dir);
}
END_TEST

/* TOOL_INLINES with other bytes for a section. */
static void replace_section(const char *prog, const char *section, const struct ht_buf *bytes)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s%s", prog, section);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_ok(ht_fd_write_all(fd, bytes->data, bytes->len));
	close(fd);
	ck_assert_int_eq(tool_run("[ -e %s ] || cp %s %s; objcopy --update-section %s=%s %s", prog,
				  TOOL_INLINES, prog, section, path, prog), 0);
}

/* Ten thousand units that share a table of a MB, of which libdw would make 200 GB. */
START_TEST(a_bomb_of_abbreviations)
{
	static const uint8_t unit[] = { 8, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 2 };
	struct ht_buf bytes = HT_BUF_INIT;
	char dir[64], prog[128];
	struct file file;

	if (!ht_check_have(tool_present("objcopy"), "objcopy (binutils)"))
		return;
	tool_mkdir(dir);
	snprintf(prog, sizeof(prog), "%s/prog", dir);
	for (size_t i = 0; i < 200000; i++)
		ht_buf_append(&bytes, "\1\x34\0\0\0", 5);
	ht_buf_append(&bytes, "\2\x11\0\0\0\0", 6);
	replace_section(prog, ".debug_abbrev", &bytes);
	ht_buf_clear(&bytes);
	for (size_t i = 0; i < 10000; i++)
		ht_buf_append(&bytes, unit, sizeof(unit));
	ck_assert(!bytes.failed);
	replace_section(prog, ".debug_info", &bytes);
	open_file(&file, prog);
	ck_assert_ptr_null(file.lines);
	ck_assert_str_eq(file.reason, HT_LINES_LARGE);
	close_file(&file);
	ht_buf_fini(&bytes);
	tool_rmdir(dir);
}
END_TEST

/* Bytes of the debug sections changed at random: any answer, but no crash and no hang. */
START_TEST(malformed_dwarf)
{
	const struct ht_beside none = HT_BESIDE_NONE;
	const struct ht_elf *elf;
	struct ht_line found[HT_LINES_MAX];
	uint64_t start, end, addr;
	unsigned round, seed = 1;
	struct file good;
	size_t i, n;

	open_file(&good, TOOL_INLINES);
	elf = &good.elf;
	function_place(TOOL_INLINES, "_ZN3box6weightEi", &start, &end);
	for (round = 0; round < 300; round++) {
		struct file bad = { .bytes = HT_BUF_INIT };

		ck_ok(ht_buf_append(&bad.bytes, good.bytes.data, good.bytes.len));
		for (i = 1; i < elf->n_sections; i++) {
			const Elf64_Shdr *section = &elf->sections[i];

			if (strncmp(ht_elf_section_name(elf, i), ".debug_", 7) != 0)
				continue;
			for (n = 0; n < 1 + round % 8; n++) {
				seed = seed * 1103515245 + 12345;
				bad.bytes.data[section->sh_offset +
					       (seed >> 8) % section->sh_size] = (char)(seed >> 16);
			}
		}
		ck_ok(ht_elf_init_image(&bad.elf, (uint8_t *)bad.bytes.data, bad.bytes.len));
		ck_ok(ht_lines_new(&bad.elf, &none, &bad.lines, &bad.reason));
		for (addr = start; bad.lines && addr < end; addr += 3)
			ht_lines_lookup(bad.lines, addr, found, HT_LINES_MAX);
		close_file(&bad);
	}
	close_file(&good);
}
END_TEST

int main(void)
{
	if (!tool_present("addr2line") || !tool_present("nm"))
		ht_check_skip("addr2line and nm (binutils) are needed");
	return ht_check_run("lines", (const TTest *const[]){
		agrees_with_addr2line, the_chain_of_inlines, other_kinds_of_dwarf,
		clang_too, split_dwarf, split_dwarf_of_clang, what_is_missing_is_said,
		no_memory_is_no_fault_of_the_file, libdw_runs_out_of_memory, ranges_without_end,
		a_supplementary_file_that_is_too_large, a_bomb_of_abbreviations,
		malformed_dwarf, NULL });
}
