/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that reports go to. What is refused, and how, is in
 * tests/cli/attach-output.test.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "cmd/record.h"
#include "deny.h"
#include "tool.h"

static char dir[64];
static struct ht_outputs outputs;
static struct ht_err err;

static void start(void)
{
	tool_mkdir(dir);
	ck_assert_int_eq(chdir(dir), 0);
	umask(022);
}

static void end(void)
{
	ht_outputs_close(&outputs);
	ck_assert_uint_eq(outputs.n, 0);
	ck_assert_int_eq(chdir("/"), 0);
	tool_rmdir(dir);
}

static int open_paths(size_t n, const char *const *paths)
{
	struct ht_record_options options = { .n_paths = n };

	for (size_t i = 0; i < n; i++)
		options.paths[i] = paths[i];
	err = (struct ht_err){ HT_ERR_NONE, "" };
	return ht_outputs_open(&outputs, &options, STDOUT_FILENO, &err);
}

static int open_one(const char *path)
{
	return open_paths(1, &path);
}

static int write_text(size_t i, const char *text)
{
	struct ht_buf data = HT_BUF_INIT;
	int r;

	ck_ok(ht_buf_puts(&data, text));
	r = ht_output_write(&outputs.at[i], &data, &err);
	ht_buf_fini(&data);
	return r;
}

static void make(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static void holds(const char *path, const char *text)
{
	struct ht_buf data = HT_BUF_INIT;

	ck_ok(ht_buf_puts(&data, ""));
	ck_ok(ht_buf_read_file(&data, AT_FDCWD, path, 1 << 20));
	ck_assert_str_eq(data.data, text);
	ht_buf_fini(&data);
}

static unsigned mode_of(const char *path)
{
	struct stat st;

	ck_assert_int_eq(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static int files(void)
{
	DIR *d = opendir(".");
	int n = -2;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Nothing has a name before all of it is written. */
START_TEST(a_new_file_appears_whole)
{
	start();
	ck_ok(open_one("new.txt"));
	ck_assert_ptr_eq(outputs.at[0].format, &ht_report_text);
	ck_assert_int_eq(files(), 0);
	ck_ok(write_text(0, "report\n"));
	holds("new.txt", "report\n");
	ck_assert_uint_eq(mode_of("new.txt"), 0644);
	ck_assert_int_eq(files(), 1);
	end();
}
END_TEST

/* Who has the old file open keeps it; its mode stays, but never set-user-id. */
START_TEST(an_old_file_is_replaced)
{
	char text[8] = "";
	int old;

	start();
	make("old.txt", "old\n");
	ck_assert_int_eq(chmod("old.txt", 04640), 0);
	old = open("old.txt", O_RDONLY | O_CLOEXEC);
	ck_ok(open_one("old.txt"));
	holds("old.txt", "old\n");
	ck_ok(write_text(0, "a longer report\n"));
	holds("old.txt", "a longer report\n");
	ck_assert_uint_eq(mode_of("old.txt"), 0640);
	ck_assert_int_eq(read(old, text, 7), 4);
	ck_assert_str_eq(text, "old\n");
	ck_assert_int_eq(files(), 1);
	close(old);
	end();
}
END_TEST

START_TEST(what_was_not_written_leaves_nothing)
{
	start();
	make("old.txt", "old\n");
	ck_ok(open_paths(2, (const char *const[]){ "old.txt", "new.folded" }));
	ck_assert_ptr_eq(outputs.at[1].format, &ht_report_folded);
	ht_outputs_close(&outputs);
	holds("old.txt", "old\n");
	ck_assert_int_eq(files(), 1);
	end();
}
END_TEST

/* One that can't be opened gives the others up, and all their fds. */
START_TEST(all_or_none)
{
	int before, after;

	start();
	before = open("/dev/null", O_RDONLY | O_CLOEXEC);
	close(before);
	ck_assert_int_eq(open_paths(2, (const char *const[]){ "a.txt", "no/b.txt" }), -ENOENT);
	ck_assert_str_eq(err.text, "can't write no/b.txt: No such file or directory");
	ck_assert_uint_eq(outputs.n, 0);
	ck_assert_int_eq(files(), 0);
	after = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(before, after);
	close(after);
	end();
}
END_TEST

/* A limit on the size of files stands for the full disk. */
START_TEST(a_write_that_fails_keeps_the_old)
{
	struct rlimit limit = { 4, 4 };

	start();
	make("old.txt", "old");
	ck_ok(open_one("old.txt"));
	ht_signals_init();
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_int_eq(write_text(0, "report"), -EFBIG);
	ck_assert_str_eq(err.text, "can't write old.txt: File too large; start heaptap with a higher limit (ulimit -f)");
	holds("old.txt", "old");
	ht_outputs_close(&outputs);
	ck_assert_int_eq(files(), 1);
	end();
}
END_TEST

/* A link stays one, wherever it leads, and also when nothing is there yet. */
START_TEST(links_are_followed)
{
	char absolute[96];
	struct stat st;

	start();
	ck_assert_int_eq(mkdir("sub", 0755), 0);
	make("sub/real.txt", "old");
	ck_assert_int_eq(symlink("sub/real.txt", "link.txt"), 0);
	ck_assert_int_eq(symlink("second.txt", "sub/first.txt"), 0);
	ck_assert_int_eq(symlink("sub/first.txt", "chain.txt"), 0);
	ck_ok(open_paths(2, (const char *const[]){ "link.txt", "chain.txt" }));
	ck_ok(write_text(0, "one"));
	ck_ok(write_text(1, "two"));
	ck_assert(lstat("link.txt", &st) == 0 && S_ISLNK(st.st_mode));
	holds("sub/real.txt", "one");
	ck_assert(lstat("chain.txt", &st) == 0 && S_ISLNK(st.st_mode));
	ck_assert(lstat("sub/first.txt", &st) == 0 && S_ISLNK(st.st_mode));
	holds("sub/second.txt", "two");
	ht_outputs_close(&outputs);
	snprintf(absolute, sizeof(absolute), "%s/third.txt", dir);
	ck_assert_int_eq(symlink(absolute, "sub/absolute.txt"), 0);
	ck_ok(open_one("sub/absolute.txt"));
	ck_ok(write_text(0, "three"));
	holds("third.txt", "three");
	ht_outputs_close(&outputs);
	/* In circles, or into nowhere. */
	ck_assert_int_eq(symlink("loop.txt", "loop.txt"), 0);
	ck_assert_int_eq(open_one("loop.txt"), -ELOOP);
	ck_assert_int_eq(symlink("no/x.txt", "nowhere.txt"), 0);
	ck_assert_int_eq(open_one("nowhere.txt"), -ENOENT);
	end();
}
END_TEST

/* Where files can't be without a name they have another one until then. */
START_TEST(without_o_tmpfile)
{
	start();
	make("old.txt", "old");
	ck_assert_int_eq(chmod("old.txt", 0640), 0);
	if (ht_check_have(deny_syscall(SYS_openat, 2, O_TMPFILE, DENY_WITH(EOPNOTSUPP)),
			  "seccomp filters")) {
		ck_ok(open_paths(2, (const char *const[]){ "old.txt", "new.txt" }));
		ck_assert_int_eq(files(), 3);
		ck_ok(write_text(0, "report"));
		ck_assert_int_eq(files(), 2);
		ht_outputs_close(&outputs);
		ck_assert_int_eq(files(), 1);
		holds("old.txt", "report");
		ck_assert_uint_eq(mode_of("old.txt"), 0640);
	}
	end();
}
END_TEST

/* The folder that was meant when it was opened, whatever becomes of its name. */
START_TEST(the_folder_is_held)
{
	start();
	ck_assert_int_eq(mkdir("sub", 0755), 0);
	ck_ok(open_one("sub/x.txt"));
	ck_assert_int_eq(rename("sub", "moved"), 0);
	ck_ok(write_text(0, "report"));
	holds("moved/x.txt", "report");
	end();
}
END_TEST

START_TEST(long_names)
{
	char name[256];

	start();
	memset(name, 'x', 255);
	memcpy(name + 251, ".txt", 5);
	ck_ok(open_one(name));
	ck_ok(write_text(0, "report"));
	holds(name, "report");
	end();
}
END_TEST

/* Written in place; nothing is created beside it. */
START_TEST(what_is_no_file)
{
	char text[8] = "";
	int fd;

	start();
	ck_assert_int_eq(mkfifo("pipe.txt", 0600), 0);
	fd = open("pipe.txt", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_ok(open_one("pipe.txt"));
	ck_ok(write_text(0, "report"));
	ck_assert_int_eq(read(fd, text, 7), 6);
	ck_assert_str_eq(text, "report");
	ck_assert_int_eq(files(), 1);
	close(fd);
	ht_outputs_close(&outputs);
	/* An ending says nothing there, and reports may share it. */
	ck_ok(open_paths(2, (const char *const[]){ "/dev/null", "/dev/../dev/null" }));
	ck_assert_ptr_eq(outputs.at[0].format, &ht_report_text);
	end();
}
END_TEST

/* Root may do everything; then there's nothing to see here. */
START_TEST(a_file_that_may_not_be_written)
{
	start();
	make("old.txt", "old");
	ck_assert_int_eq(chmod("old.txt", 0444), 0);
	ck_assert_int_eq(chmod(".", 0777), 0);
	if (ht_check_have(geteuid() != 0 || seteuid(65534) == 0, "other user")) {
		ck_assert_int_eq(open_one("old.txt"), -EACCES);
		ck_assert(geteuid() != 65534 || seteuid(0) == 0);
	}
	holds("old.txt", "old");
	end();
}
END_TEST

static void fallback(const char *name, int fd, int r)
{
	struct ht_record_options options = { .format = ht_report_format_by_name(name) };

	err = (struct ht_err){ HT_ERR_NONE, "" };
	ck_assert_int_eq(ht_outputs_open(&outputs, &options, fd, &err), r);
}

/* In the place of stdout; Check has its own copy of what it needs. */
static void become_stdout(int fd)
{
	fflush(stdout);
	ck_assert_int_eq(dup2(fd, STDOUT_FILENO), STDOUT_FILENO);
}

START_TEST(streams)
{
	int saved = dup(STDOUT_FILENO), fd = memfd_create("stdout", MFD_CLOEXEC);

	become_stdout(fd);
	fallback("folded", STDOUT_FILENO, 0);
	ck_assert_ptr_eq(outputs.at[0].format, &ht_report_folded);
	ck_ok(write_text(0, "report"));
	ht_outputs_close(&outputs);
	/* It's not ours to close. */
	ck_assert_int_eq(fcntl(STDOUT_FILENO, F_GETFD) < 0, 0);
	ck_assert_int_eq(lseek(fd, 0, SEEK_END), 6);
	/* "-" is stdout, also where something else is the fallback. */
	ck_ok(open_one("-"));
	ck_assert_int_eq(outputs.at[0].fd, STDOUT_FILENO);
	ht_outputs_close(&outputs);
	close(fd);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	become_stdout(fd);
	fallback("text", STDOUT_FILENO, -EBADF);
	ck_assert_str_eq(err.text,
			 "can't write the standard output: it is closed; give a file with --output");
	close(STDOUT_FILENO);
	fallback("text", STDOUT_FILENO, -EBADF);
	become_stdout(saved);
	close(saved);
	close(fd);
}
END_TEST

static bool colored(enum ht_color color)
{
	struct ht_record_options options = { .color = color };
	bool on;

	ck_ok(ht_outputs_open(&outputs, &options, STDOUT_FILENO, &err));
	on = outputs.at[0].color;
	ht_outputs_close(&outputs);
	return on;
}

START_TEST(terminals)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	int saved = dup(STDOUT_FILENO);
	struct winsize size = { .ws_col = 97 };
	int fd;

	if (!ht_check_have(master >= 0, "pseudoterminals"))
		return;
	ck_assert(grantpt(master) == 0 && unlockpt(master) == 0);
	fd = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ioctl(fd, TIOCSWINSZ, &size), 0);
	become_stdout(fd);
	fallback("text", STDOUT_FILENO, 0);
	ck_assert_uint_eq(outputs.at[0].width, 97);
	ht_outputs_close(&outputs);
	fallback("pprof", STDOUT_FILENO, -EINVAL);
	ck_assert_int_eq(err.kind, HT_ERR_USAGE);
	setenv("TERM", "xterm", 1);
	unsetenv("NO_COLOR");
	ck_assert(colored(HT_COLOR_AUTO));
	ck_assert(!colored(HT_COLOR_NEVER));
	setenv("NO_COLOR", "", 1);
	ck_assert(colored(HT_COLOR_AUTO));
	setenv("NO_COLOR", "1", 1);
	ck_assert(!colored(HT_COLOR_AUTO));
	ck_assert(colored(HT_COLOR_ALWAYS));
	unsetenv("NO_COLOR");
	setenv("TERM", "dumb", 1);
	ck_assert(!colored(HT_COLOR_AUTO));
	unsetenv("TERM");
	ck_assert(!colored(HT_COLOR_AUTO));
	become_stdout(saved);
	setenv("TERM", "xterm", 1);
	close(fd);
	fd = memfd_create("stdout", MFD_CLOEXEC);
	become_stdout(fd);
	ck_assert(!colored(HT_COLOR_AUTO));
	ck_assert(colored(HT_COLOR_ALWAYS));
	become_stdout(saved);
	close(fd);
	close(saved);
	close(master);
}
END_TEST

/* --format wins over the ending; without either there's nothing to go by. */
START_TEST(formats)
{
	struct ht_record_options options = { .paths = { "x.pb.gz" }, .n_paths = 1,
					     .format = &ht_report_text,
					     .color = HT_COLOR_ALWAYS };

	start();
	ck_ok(ht_outputs_open(&outputs, &options, STDOUT_FILENO, &err));
	ck_assert_ptr_eq(outputs.at[0].format, &ht_report_text);
	ck_assert(outputs.at[0].color);
	ck_assert_uint_eq(outputs.at[0].width, 0);
	ht_outputs_close(&outputs);
	ck_ok(open_one("x.pb.gz"));
	ck_assert_ptr_eq(outputs.at[0].format, &ht_report_pprof);
	ht_outputs_close(&outputs);
	ck_assert_int_eq(open_one("x.svg"), -EINVAL);
	for (size_t i = 0; ht_report_formats[i]; i++)
		ck_assert_ptr_nonnull(strstr(err.text, ht_report_formats[i]->suffix));
	end();
}
END_TEST

int main(void)
{
	return ht_check_run("output", (const TTest *const[]){
		a_new_file_appears_whole, an_old_file_is_replaced,
		what_was_not_written_leaves_nothing, all_or_none,
		a_write_that_fails_keeps_the_old, links_are_followed, without_o_tmpfile,
		the_folder_is_held,
		long_names, what_is_no_file, a_file_that_may_not_be_written, streams,
		terminals, formats, NULL });
}
