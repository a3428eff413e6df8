/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap attach: what it does before and after the tap, and in which order. What it says
 * to people is in tests/cli/attach-*.test.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "capture.h"
#include "cmd/record.h"
#include "made_proc.h"
#include "fake_tap.h"

static char dir[64];

static void start(void)
{
	fake_tap_init();
	made_proc_init();
	tool_mkdir(dir);
	ck_assert_int_eq(chdir(dir), 0);
}

static void end(void)
{
	ck_assert_int_eq(chdir("/"), 0);
	tool_rmdir(dir);
	made_proc_fini();
	fake_tap_fini();
}

#define check(want, log, ...)                                                             \
	do {                                                                              \
		struct captured c_;                                                       \
		fake_tap_log[0] = '\0';                                                   \
		capture_command(&c_, &ht_cmd_attach, __VA_ARGS__, NULL);                  \
		if (c_.status != (want))                                                  \
			captured_is(&c_, want, "", "");                                     \
		ck_assert_str_eq(fake_tap_log, log);                                      \
		captured_fini(&c_);                                                       \
	} while (0)

START_TEST(by_pid_and_by_name)
{
	start();
	check(0, "attach 42; serve; cure; free; ", "-q", "42");
	check(0, "attach 42; serve; cure; free; ", "-q", "--name=server");
	check(0, "attach 42; serve; cure; free; ", "-q", "-n", "server");
	check(0, "attach 42; serve until; cure; free; ", "-q", "-d", "1", "42");
	check(HT_ERR_USAGE, "", "-q", "--name=server", "42");
	check(HT_ERR_USAGE, "", "42", "43");
	check(HT_ERR_GONE, "", "43");
	check(0, "", "--help", "42");
	end();
}
END_TEST

static int show_options(struct ht_tap *tap, pid_t pid, struct ht_err *err)
{
	const struct ht_tap_options *o = &tap->options;

	fake_tap_note("%llu %llu %llu %llu %d %llu %d %d", (unsigned long long)o->interval,
		      (unsigned long long)o->min_size, (unsigned long long)o->ring_size,
		      (unsigned long long)o->max_stack, o->block,
		      (unsigned long long)o->block_us, (int)o->loader, (int)o->transport);
	return ht_err_set(err, HT_ERR_PERM, -EPERM, "seen enough");
}

START_TEST(options_reach_the_tap)
{
	start();
	fake_tap.attach = show_options;
	check(HT_ERR_PERM, "attach 42; 65536 0 8388608 131072 0 0 0 0; ", "42");
	check(HT_ERR_PERM, "attach 42; 0 7 65536 1024 1 9 2 1; ", "-i0", "--min-size=7",
	      "--ring-size=64K", "--max-stack=1K", "--block=9", "--loader=map",
	      "--transport=socket", "42");
	end();
}
END_TEST

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

/* What is known to forbid it is known before a file is made or the target touched. */
START_TEST(refused_before_anything_is_touched)
{
	start();
	ck_assert_int_eq(symlink("/nonexistent/x", "x.txt"), 0);
	check(HT_ERR_FAILED, "", "-o", "x.txt", "42");
	/* One that we may not write to, and a thread of the kernel. */
	made_proc_close();
	check(HT_ERR_PERM, "", "-o", "y.txt", "42");
	made_proc_put("42/stat", "42 (server) S 2 0 0 0 -1 2129984 1 2 3 4 5 6 7 8 20 0 3 0 555 "
				 "1 1 1 1 1 9");
	check(HT_ERR_UNSUPPORTED, "", "-o", "y.txt", "42");
	ck_assert(!exists("y.txt"));
	end();
}
END_TEST

START_TEST(a_failed_tap_leaves_the_files)
{
	struct ht_buf data = HT_BUF_INIT;

	start();
	ck_assert_int_eq(tool_run("echo old >%s/old.txt", dir), 0);
	fake_tap.attach = show_options;
	check(HT_ERR_PERM, "attach 42; 65536 0 8388608 131072 0 0 0 0; ", "-o", "old.txt", "-o",
	      "new.txt", "42");
	ck_ok(ht_buf_read_file(&data, AT_FDCWD, "old.txt", 100));
	ck_assert_str_eq(data.data, "old\n");
	ck_assert(!exists("new.txt"));
	ht_buf_fini(&data);
	end();
}
END_TEST

static int interrupt(struct ht_tap *tap, pid_t pid, struct ht_err *err)
{
	raise(SIGINT);
	return 0;
}

/* A Ctrl-C while the target is changed doesn't kill us half-way; it ends the recording
 * before it begins. */
START_TEST(signals_wait_for_the_tap)
{
	struct captured c;

	start();
	fake_tap.attach = interrupt;
	signal(SIGINT, SIG_DFL);
	capture_command(&c, &ht_cmd_attach, "-q", "42", NULL);
	ck_assert_int_eq(c.status, 0);
	ck_assert_str_eq(fake_tap_log, "attach 42; cure; free; ");
	captured_has(&c, "; Ctrl-C");
	captured_fini(&c);
	/* Shells ignore it in what they start with "&". */
	signal(SIGINT, SIG_IGN);
	capture_command(&c, &ht_cmd_attach, "-q", "42", NULL);
	captured_has(&c, "; Ctrl-C");
	captured_fini(&c);
	end();
}
END_TEST

START_TEST(the_report_goes_to_stdout)
{
	struct captured c;

	start();
	capture_command(&c, &ht_cmd_attach, "-q", "42", NULL);
	ck_assert_ptr_nonnull(strstr(c.out.data, "target exited"));
	ck_assert_str_eq(c.err.data, "");
	captured_fini(&c);
	end();
}
END_TEST

int main(void)
{
	return ht_check_run("cmd_attach", (const TTest *const[]){
		by_pid_and_by_name, options_reach_the_tap,
		refused_before_anything_is_touched, a_failed_tap_leaves_the_files, signals_wait_for_the_tap,
		the_report_goes_to_stdout, NULL });
}
