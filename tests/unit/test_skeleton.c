/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the units of split DWARF are looked for.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "ht_check.h"
#include "symbol/symbol-priv.h"
#include "tool.h"

struct file {
	struct ht_buf bytes;
	struct ht_elf elf;
	struct ht_lines *lines;
	uint64_t addr;
};

/* DIR/o/prog and DIR/o/unit.dwo, by which name it is to be found. */
static void compile(char dir[64], const char *how)
{
	const char *top = getenv("HT_SRCDIR");

	tool_mkdir(dir);
	ck_assert_int_eq(tool_run("src=$(realpath '%s/tests/unit/inlines.c') && mkdir %s/o &&"
				  " cd %s/o && ${CC:-cc} -O2 -g %s -gsplit-dwarf -c \"$src\""
				  " -o unit.o && ${CC:-cc} unit.o -o prog",
				  top ? top : "..", dir, dir, how), 0);
}

static void open_file(struct file *file, const char *dir, const char *name)
{
	struct ht_beside beside = HT_BESIDE_NONE;
	struct ht_buf out = HT_BUF_INIT;
	char path[128], place[128], command[256];
	const char *reason;

	*file = (struct file){ .bytes = HT_BUF_INIT };
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	snprintf(place, sizeof(place), "%s/", dir);
	beside.dir = place;
	ck_ok(ht_debugfile_find_dwp(path, NULL, &beside.dwp_fd));
	ck_ok(ht_buf_read_file(&file->bytes, AT_FDCWD, path, 64 << 20));
	ck_ok(ht_elf_init_image(&file->elf, (uint8_t *)file->bytes.data, file->bytes.len));
	ck_ok(ht_lines_new(&file->elf, &beside, &file->lines, &reason));
	ck_assert_ptr_nonnull(file->lines);
	snprintf(command, sizeof(command), "nm %s | grep ' checked$'", path);
	tool_output(command, &out);
	ck_assert_int_eq(sscanf(out.data, "%lx", &file->addr), 1);
	ht_buf_fini(&out);
}

static void close_file(struct file *file)
{
	ht_lines_free(file->lines);
	ht_elf_fini(&file->elf);
	ht_buf_fini(&file->bytes);
}

/* Is "checked" known from its unit? If not, @reason says why. Its line always is. */
static void check(const char *dir, const char *name, bool known, const char *reason)
{
	struct ht_line found[HT_LINES_MAX];
	struct file file;

	open_file(&file, dir, name);
	ck_assert_uint_eq(ht_lines_lookup(file.lines, file.addr, found, HT_LINES_MAX), 1);
	ck_assert(found[0].line && strstr(found[0].file, "inlines.c"));
	if (known)
		ck_assert_str_eq(found[0].name, "checked");
	else
		ck_assert_ptr_null(found[0].name);
	if (reason)
		ck_assert_str_eq(ht_lines_reason(file.lines), reason);
	else
		ck_assert_ptr_null(ht_lines_reason(file.lines));
	close_file(&file);
}

START_TEST(where_it_was_compiled)
{
	char dir[64];

	compile(dir, "-gdwarf-5");
	ck_assert_int_eq(tool_run("cd %s && cp o/prog prog", dir), 0);
	check(dir, "prog", true, NULL);
	ck_assert_int_eq(tool_run("cd %s && mv o other", dir), 0);
	check(dir, "prog", false, HT_LINES_SPLIT);
	tool_rmdir(dir);
}
END_TEST

START_TEST(beside_the_program)
{
	char dir[64];

	compile(dir, "-gdwarf-4");
	ck_assert_int_eq(tool_run("cd %s && mv o/* . && rmdir o", dir), 0);
	check(dir, "prog", true, NULL);
	tool_rmdir(dir);
}
END_TEST

/* Only with the same id. */
START_TEST(of_another_build)
{
	char dir[64], other[64];

	compile(dir, "-gdwarf-5");
	compile(other, "-gdwarf-5 -O1");
	ck_assert_int_eq(tool_run("cd %s && mv o/prog . && cp %s/o/unit.dwo o/", dir, other), 0);
	check(dir, "prog", false, HT_LINES_STALE);
	ck_assert_int_eq(tool_run("echo text >%s/o/unit.dwo", dir), 0);
	check(dir, "prog", false, HT_LINES_BAD);
	tool_rmdir(dir);
	tool_rmdir(other);
}
END_TEST

/* A FIFO blocks whoever opens it, a device may act. */
START_TEST(no_regular_file)
{
	char dir[64];

	compile(dir, "-gdwarf-5");
	ck_assert_int_eq(tool_run("cd %s && mv o/prog . && rm o/unit.dwo && mkfifo o/unit.dwo"
				  " prog.dwp unit.dwo", dir), 0);
	check(dir, "prog", false, HT_LINES_SPLIT);
	tool_rmdir(dir);
}
END_TEST

START_TEST(a_broken_dwp)
{
	char dir[64];

	compile(dir, "-gdwarf-5");
	ck_assert_int_eq(tool_run("cd %s && cp o/prog . && echo text >prog.dwp", dir), 0);
	/* The .dwo file is there, all the same. */
	check(dir, "prog", true, HT_LINES_DWP);
	tool_rmdir(dir);
}
END_TEST

START_TEST(packed_by_zstd)
{
	char dir[64];
	struct ht_line found[HT_LINES_MAX];
	struct file file;

	compile(dir, "-gdwarf-5");
	if (!ht_check_have(tool_run("cd %s/o && objcopy --compress-debug-sections=zstd unit.dwo"
				    " 2>/dev/null", dir) == 0, "objcopy with zstd")) {
		tool_rmdir(dir);
		return;
	}
	open_file(&file, dir, "o/prog");
	ck_assert_uint_eq(ht_lines_lookup(file.lines, file.addr, found, HT_LINES_MAX), 1);
	if (!found[0].name)	/* newer libelf can read it */
		ck_assert_str_eq(ht_lines_reason(file.lines), HT_LINES_ZSTD);
	close_file(&file);
	tool_rmdir(dir);
}
END_TEST

int main(void)
{
	if (!tool_present("nm") || !tool_present("objcopy"))
		ht_check_skip("nm and objcopy (binutils) are needed");
	return ht_check_run("skeleton", (const TTest *const[]){
		where_it_was_compiled, beside_the_program, of_another_build, no_regular_file,
		a_broken_dwp, packed_by_zstd, NULL });
}
