/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "ht_check.h"
#include "symbol/symbol-priv.h"
#include "tool.h"

/* prog (stripped, with a link), prog.debug */
static void split_off(char dir[64])
{
	tool_mkdir(dir);
	ck_assert_int_eq(tool_run("cp %s %s/prog && cd %s &&"
				  " objcopy --only-keep-debug prog prog.debug &&"
				  " strip prog && objcopy --add-gnu-debuglink=prog.debug prog",
				  TOOL_INLINES, dir, dir), 0);
}

static int find(const char *dir, const char *dirs)
{
	struct ht_elf elf = HT_ELF_INIT;
	char path[128];
	int fd, r;

	snprintf(path, sizeof(path), "%s/prog", dir);
	fd = ht_debugfile_open(path);
	ck_assert_int_ge(fd, 0);
	ck_ok(ht_elf_init_fd(&elf, fd));
	r = ht_debugfile_find(&elf, path, dirs, &fd);
	ht_elf_fini(&elf);
	if (r < 0)
		return r;
	ck_ok(ht_elf_init_fd(&elf, fd));
	ck_assert(ht_lines_present(&elf));
	ht_elf_fini(&elf);
	return 0;
}

START_TEST(by_link_and_crc)
{
	char dir[64];

	split_off(dir);
	ck_ok(find(dir, "/nonexistent"));
	ck_assert_int_eq(tool_run("cd %s && mkdir .debug && mv prog.debug .debug", dir), 0);
	ck_ok(find(dir, "/nonexistent"));
	ck_assert_int_eq(tool_run("cd %s && mkdir -p d%s && mv .debug/prog.debug d%s", dir, dir, dir), 0);
	ck_assert_int_eq(find(dir, "/nonexistent"), -ENOENT);
	{
		char dirs[256];

		snprintf(dirs, sizeof(dirs), "::/nonexistent:%s/d", dir);
		ck_ok(find(dir, dirs));
		ck_assert_int_eq(tool_run("printf x >>%s/d%s/prog.debug", dir, dir), 0);
		ck_assert_int_eq(find(dir, dirs), -ENOENT);
	}
	tool_rmdir(dir);
}
END_TEST

START_TEST(by_build_id)
{
	struct ht_elf elf = HT_ELF_INIT;
	uint8_t id[HT_BUILD_ID_MAX];
	char dir[64], path[128], hex[65];
	size_t len, i;

	split_off(dir);
	snprintf(path, sizeof(path), "%s/prog", dir);
	ck_ok(ht_elf_init_fd(&elf, ht_debugfile_open(path)));
	len = ht_elf_build_id(&elf, id, sizeof(id));
	ht_elf_fini(&elf);
	if (len == 0) {
		tool_rmdir(dir);
		return;		/* a linker that writes none by default */
	}
	for (i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	ck_assert_int_eq(tool_run("cd %s && mkdir -p d/.build-id/%.2s &&"
		       " mv prog.debug d/.build-id/%.2s/%s.debug", dir, hex, hex, hex + 2), 0);
	ck_assert_int_eq(find(dir, dir), -ENOENT);
	snprintf(path, sizeof(path), "%s/d", dir);
	ck_ok(find(dir, path));
	/* Somebody else's debug file under our name. */
	ck_assert_int_eq(tool_run("cp /proc/self/exe %s/d/.build-id/%.2s/%s.debug", dir, hex, hex + 2), 0);
	ck_assert_int_eq(find(dir, path), -ENOENT);
	tool_rmdir(dir);
}
END_TEST

START_TEST(only_regular_files_are_opened)
{
	char dir[64], path[128];

	tool_mkdir(dir);
	snprintf(path, sizeof(path), "%s/fifo", dir);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(ht_debugfile_open(path), -ENOENT);	/* and doesn't hang */
	ck_assert_int_eq(ht_debugfile_open("/dev/null"), -ENOENT);
	ck_assert_int_eq(ht_debugfile_open(dir), -ENOENT);
	tool_rmdir(dir);
}
END_TEST

START_TEST(debugdata)
{
	struct ht_symtab *symtab;
	char dir[64], path[128];
	struct ht_elf elf, mini;
	uint8_t *image;
	size_t len;

	if (!ht_check_have(tool_present("xz"), "xz"))
		return;
	split_off(dir);
	/* What Fedora's find-debuginfo does: the symbols alone, compressed, as a section. */
	ck_assert_int_eq(tool_run("cd %s && objcopy -S --remove-section .gdb_index --remove-section"
		       " .comment prog.debug mini --keep-symbol=complain && xz mini &&"
		       " objcopy --add-section .gnu_debugdata=mini.xz prog", dir), 0);
	snprintf(path, sizeof(path), "%s/prog", dir);
	ck_ok(ht_elf_init_fd(&elf, ht_debugfile_open(path)));
	ck_ok(ht_debugdata_load(&elf, &image, &len));
	ck_ok(ht_elf_init_image(&mini, image, len));
	ck_ok(ht_symtab_new(&symtab));
	ck_ok(ht_symtab_add(symtab, &mini));
	ht_symtab_finish(symtab);
	ck_assert(ht_symtab_full(symtab));
	ht_symtab_free(symtab);
	ht_elf_fini(&mini);
	ht_elf_fini(&elf);
	free(image);
	/* Broken in the middle, and a bomb. */
	ck_assert_int_eq(tool_run("cd %s && head -c 1G /dev/zero | xz -0 >bomb.xz && objcopy"
		       " --update-section .gnu_debugdata=bomb.xz prog", dir), 0);
	ck_ok(ht_elf_init_fd(&elf, ht_debugfile_open(path)));
	ck_assert_int_eq(ht_debugdata_load(&elf, &image, &len), -EFBIG);
	ht_elf_fini(&elf);
	ck_assert_int_eq(tool_run("cd %s && head -c 100 mini.xz >half.xz && objcopy"
		       " --update-section .gnu_debugdata=half.xz prog", dir), 0);
	ck_ok(ht_elf_init_fd(&elf, ht_debugfile_open(path)));
	ck_assert_int_eq(ht_debugdata_load(&elf, &image, &len), -EBADMSG);
	ht_elf_fini(&elf);
	tool_rmdir(dir);
}
END_TEST

/* What dwz moved into a file for several programs: named by path and by build-id. */
START_TEST(supplementary_file)
{
	struct ht_elf elf = HT_ELF_INIT;
	char dir[64], path[128];
	int fd;

	if (!ht_check_have(tool_present("dwz"), "dwz") ||
	    !ht_check_have(tool_present("g++"), "g++"))
		return;
	tool_mkdir(dir);
	ck_assert_int_eq(tool_run("cd %s && printf '#include <regex>\nint main(int c, char **v)"
				  " { return std::regex_match(v[0], std::regex(\"a\")); }' >a.cc &&"
				  " g++ -g a.cc -o prog && g++ -g -O1 a.cc -o other &&"
				  " dwz -m %s/common -M ./common prog other", dir, dir), 0);
	snprintf(path, sizeof(path), "%s/prog", dir);
	ck_ok(ht_elf_init_fd(&elf, ht_debugfile_open(path)));
	ck_ok(ht_debugfile_find_alt(&elf, path, "/nonexistent", &fd));
	ck_assert_int_ge(fd, 0);
	{
		struct ht_lines *lines;
		const char *reason;

		ck_ok(ht_lines_new(&elf, &(struct ht_beside){ fd, -1, NULL }, &lines, &reason));
		ck_assert_ptr_nonnull(lines);
		ht_lines_free(lines);
	}
	ck_assert_int_eq(tool_run("cp %s/other %s/common", dir, dir), 0);
	ck_assert_int_eq(ht_debugfile_find_alt(&elf, path, "/nonexistent", &fd), -ENOENT);
	ck_assert_int_eq(tool_run("cd %s && rm common && mkfifo common", dir), 0);
	ck_assert_int_eq(ht_debugfile_find_alt(&elf, path, "/nonexistent", &fd), -ENOENT);
	ht_elf_fini(&elf);
	tool_rmdir(dir);
}
END_TEST

START_TEST(packed_dwo_files)
{
	char dir[64], prog[128], debug[128];
	int fd;

	tool_mkdir(dir);
	snprintf(prog, sizeof(prog), "%s/prog", dir);
	snprintf(debug, sizeof(debug), "%s/prog.debug", dir);
	ck_ok(ht_debugfile_find_dwp(prog, NULL, &fd));
	ck_assert_int_eq(fd, -1);
	ck_assert_int_eq(tool_run("cd %s && : >prog.debug.dwp", dir), 0);
	ck_ok(ht_debugfile_find_dwp(prog, NULL, &fd));
	ck_assert_int_eq(fd, -1);
	ck_ok(ht_debugfile_find_dwp(prog, debug, &fd));
	ck_assert_int_ge(fd, 0);
	ht_fd_close(fd);
	ck_assert_int_eq(tool_run("cd %s && mv prog.debug.dwp prog.dwp", dir), 0);
	ck_ok(ht_debugfile_find_dwp(prog, debug, &fd));
	ck_assert_int_ge(fd, 0);
	ht_fd_close(fd);
	/* Never where heaptap happens to run. */
	ck_assert_int_eq(chdir(dir), 0);
	ck_ok(ht_debugfile_find_dwp("prog", NULL, &fd));
	ck_assert_int_eq(fd, -1);
	tool_rmdir(dir);
}
END_TEST

int main(void)
{
	if (!tool_present("objcopy") || !tool_present("strip"))
		ht_check_skip("objcopy and strip (binutils) are needed");
	return ht_check_run("debugfile", (const TTest *const[]){
		by_link_and_crc, by_build_id, only_regular_files_are_opened, debugdata,
		supplementary_file, packed_dwo_files, NULL });
}
