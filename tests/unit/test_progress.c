/* SPDX-License-Identifier: Apache-2.0
 *
 * The line that tells how it goes, on a terminal, in a log, and where nobody reads.
 */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "capture.h"
#include "base/clock.h"
#include "cmd/record.h"
#include "fake_tap.h"
#include "ht_check.h"

static struct ht_record_options options;
static struct ht_progress progress;

static void start(void)
{
	fake_tap_init();
	options = (struct ht_record_options)HT_RECORD_OPTIONS_INIT;
	progress = (struct ht_progress){ 0 };
}

START_TEST(bytes)
{
	char text[32];

	ck_assert_str_eq(ht_format_bytes(0, text), "0 B");
	ck_assert_str_eq(ht_format_bytes(999, text), "999 B");
	ck_assert_str_eq(ht_format_bytes(999.4, text), "999 B");
	/* Never four digits, however it's rounded. */
	ck_assert_str_eq(ht_format_bytes(999.6, text), "1.0 KiB");
	ck_assert_str_eq(ht_format_bytes(1000, text), "1.0 KiB");
	ck_assert_str_eq(ht_format_bytes(99.94 * 1024, text), "99.9 KiB");
	ck_assert_str_eq(ht_format_bytes(99.96 * 1024, text), "100 KiB");
	ck_assert_str_eq(ht_format_bytes(999.7 * 1024, text), "1.0 MiB");
	ck_assert_str_eq(ht_format_bytes(1.9 * (1 << 30), text), "1.9 GiB");
	ck_assert_uint_lt(strlen(ht_format_bytes(1e300, text)), 32);
	ck_assert_uint_lt(strlen(ht_format_bytes(INFINITY, text)), 32);
	ck_assert_uint_lt(strlen(ht_format_bytes(NAN, text)), 32);
}
END_TEST

static void figures(const char *want)
{
	struct ht_buf out = HT_BUF_INIT;

	ht_format_figures(&fake_tap.result, &options, &out);
	ck_assert_str_eq(out.data, want);
	ht_buf_fini(&out);
}

START_TEST(figures_so_far)
{
	struct ht_frame frame;

	start();
	fake_tap.fake.recording.interval = 65536;
	frame = fake_function(&fake_tap.fake, 0, "f", NULL, 0);
	/* Few samples have no error that can be trusted. */
	fake_site(&fake_tap.fake, &frame, 1, HT_STACK_COMPLETE, 3 * 65536, 3, 3, 10);
	figures("server (42) 12 s: live at most 606 KiB, 1.9 MiB allocated, 41,210 samples, lost 0");
	fake_site(&fake_tap.fake, &frame, 1, HT_STACK_COMPLETE, 100 << 20, 9, 9997, 1);
	fake_tap.result.samples = 5100;
	fake_tap.result.lost_allocs = 900;
	fake_tap.result.lost_frees = 90;
	fake_tap.result.lost_corrupt = 10;
	figures("server (42) 12 s: live +100 MiB \302\2612 %, 102 MiB allocated, 5,100 samples, "
		"lost 1,000 samples (15 %)");
	fake_tap.result.samples = 1234567;
	figures("server (42) 12 s: live +100 MiB \302\2612 %, 102 MiB allocated, 1,234,567 samples, "
		"lost 1,000 samples (<1 %)");
	/* Exact figures have none, and lose allocations. */
	options.tap.min_size = 4096;
	figures("server (42) 12 s: live +100 MiB, 102 MiB allocated, 1,234,567 samples, "
		"lost 1,000");
	options.tap.min_size = 0;
	options.tap.interval = 0;
	fake_tap.result.samples = 1;
	fake_tap.result.duration_ns = 9940 * HT_NS_PER_MS;
	figures("server (42) 9.9 s: live +100 MiB, 102 MiB allocated, 1 sample, lost 1,000");
	fake_tap.result.duration_ns = 9960 * HT_NS_PER_MS;
	figures("server (42) 10 s: live +100 MiB, 102 MiB allocated, 1 sample, lost 1,000");
	fake_tap_fini();
}
END_TEST

static int show(void *arg)
{
	ht_progress_init(&progress, true);
	if (progress.tty || !progress.next_ns)
		return 1;
	/* Not due yet, then due, then not again. */
	ht_progress_show(&progress, &fake_tap, &options);
	progress.next_ns = 1;
	ht_progress_show(&progress, &fake_tap, &options);
	ht_progress_show(&progress, &fake_tap, &options);
	ht_progress_clear(&progress);
	return progress.shown ? 2 : 0;
}

/* In a log it's a line now and then, and nothing is taken back. */
START_TEST(in_a_log)
{
	struct captured c;

	start();
	fake_tap.result.command = "se\033[2Jrv\r\nx\177";
	capture(show, NULL, &c);
	ck_assert_int_eq(c.status, 0);
	ck_assert_int_eq(strncmp(c.err.data, "heaptap: se?[2Jrv??x? (42) 12 s: live ", 38),
			 0);
	ck_assert_ptr_eq(strchr(c.err.data, '\n'), c.err.data + c.err.len - 1);
	ck_assert_str_eq(c.out.data, "");
	captured_fini(&c);
	fake_tap_fini();
}
END_TEST

static int show_when_off(void *arg)
{
	ht_progress_init(&progress, false);
	progress.next_ns = 1;
	ht_progress_show(&progress, &fake_tap, &options);
	ht_progress_clear(&progress);
	return 0;
}

START_TEST(switched_off)
{
	struct captured c;

	start();
	capture(show_when_off, NULL, &c);
	captured_is(&c, 0, "", "");
	captured_fini(&c);
	fake_tap_fini();
}
END_TEST

/* A pipe that nobody empties must not hold us up: its reader may be the target. */
START_TEST(a_full_pipe)
{
	char data[4096] = "";
	int fds[2], saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

	start();
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	while (write(fds[1], data, sizeof(data)) > 0)
		;
	ck_assert_int_eq(fcntl(fds[1], F_SETFL, 0), 0);
	dup2(fds[1], STDERR_FILENO);
	ht_progress_init(&progress, true);
	progress.next_ns = 1;
	ht_progress_show(&progress, &fake_tap, &options);
	dup2(saved, STDERR_FILENO);
	ck_assert_uint_gt(progress.next_ns, 1);
	close(saved);
	close(fds[0]);
	close(fds[1]);
	fake_tap_fini();
}
END_TEST

/* --- on a terminal --- */

static int master = -1;
static unsigned columns;
static bool background;

/* What @show writes, in a session of its own with the terminal. */
static int on_terminal(int (*act)(void))
{
	struct winsize size = { .ws_col = (unsigned short)columns };
	int fd;

	if (setsid() < 0)
		return 90;
	fd = open(ptsname(master), O_RDWR | O_CLOEXEC);
	if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || ioctl(fd, TIOCSWINSZ, &size) < 0)
		return 91;
	if (background) {
		pid_t child = fork();
		int status;

		if (child == 0) {
			setpgid(0, 0);
			_exit(act());
		}
		waitpid(child, &status, 0);
		return WIFEXITED(status) ? WEXITSTATUS(status) : 92;
	}
	return act();
}

static void terminal(int (*act)(void), char *text, size_t cap)
{
	size_t len = 0;
	ssize_t n;
	pid_t child;
	int status;

	master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
	fflush(NULL);
	child = fork();
	if (child == 0)
		_exit(on_terminal(act));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	/* The kernel delivers what was written in pieces, and EIO after the last one. */
	while (len < cap - 1 && (n = read(master, text + len, cap - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	close(master);
}

static int show_and_clear(void)
{
	struct ht_figures figures;

	ht_progress_init(&progress, true);
	/* Nothing since then, or the rate would depend on the clock. */
	ht_ledger_total(fake_tap.result.ledger, &figures);
	progress.last_bytes = figures.total.bytes;
	progress.hint = "Ctrl-C ends";
	progress.next_ns = 1;
	ht_progress_show(&progress, &fake_tap, &options);
	if (!progress.tty || !progress.shown)
		return 1;
	ht_progress_clear(&progress);
	/* What isn't there isn't taken away. */
	ht_progress_clear(&progress);
	return progress.shown;
}

START_TEST(rewritten_in_place)
{
	char text[512];

	start();
	columns = 200;
	terminal(show_and_clear, text, sizeof(text));
	ck_assert_str_eq(text, "\rserver (42) 12 s: live at most 192 KiB, 0 B/s, 0 B allocated, "
			       "41,210 samples, lost 0   [Ctrl-C ends]\033[K\r\033[K");
	fake_tap_fini();
}
END_TEST

/* A line that wraps can't be rewritten. The last column stays empty. */
START_TEST(fits_the_terminal)
{
	static const struct {
		unsigned columns;
		const char *text;
	} cases[] = {
		{ 120, "redis-server (42) 12 s: live +1.9 MiB \302\26112 %, 0 B/s, 19.0 MiB allocated, 41,210 samples, lost 0   [Ctrl-C ends]" },
		{ 100, "redis-server (42) 12 s: live +1.9 MiB \302\26112 %, 0 B/s, 19.0 MiB allocated, 41,210 samples, lost 0" },
		{ 80, "redis-server (42) 12 s: live +1.9 MiB \302\26112 %, 0 B/s, 41,210 samples, lost 0" },
		{ 60, "redis-server 12 s: live +1.9 MiB \302\26112 %, 0 B/s, lost 0" },
		{ 50, "12 s: live +1.9 MiB \302\26112 %, 0 B/s, lost 0" },
		{ 40, "12 s: live +1.9 MiB \302\26112 %, lost 0" },
		{ 20, "12 s: lost 0" },
		{ 3, "12" },
		{ 1, "" },
		/* Not known, as on a serial line. */
		{ 0, "redis-server (42) 12 s: live +1.9 MiB \302\26112 %, 0 B/s, 19.0 MiB allocated, 41,210 samples, lost 0   [Ctrl-C ends]" },
	};
	struct ht_frame frame;
	char text[512];

	start();
	fake_tap.result.command = "redis-server";
	fake_tap.fake.recording.interval = 65536;
	frame = fake_function(&fake_tap.fake, 0, "f", NULL, 0);
	fake_site(&fake_tap.fake, &frame, 1, HT_STACK_COMPLETE, 1.9 * (1 << 20), 9, 267, 10);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char want[512];

		columns = cases[i].columns;
		terminal(show_and_clear, text, sizeof(text));
		snprintf(want, sizeof(want), "\r%s\033[K\r\033[K", cases[i].text);
		ck_assert_str_eq(text, want);
	}
	/* After a Ctrl-C that goes to the program, what the next one does matters more. */
	columns = 80;
	progress.urgent = true;
	terminal(show_and_clear, text, sizeof(text));
	ck_assert_str_eq(text, "\rredis-server 12 s: live +1.9 MiB \302\26112 %, 0 B/s, lost 0   [Ctrl-C ends]"
			       "\033[K\r\033[K");
	fake_tap_fini();
}
END_TEST

static int show_in_background(void)
{
	ht_progress_init(&progress, true);
	progress.next_ns = 1;
	ht_progress_show(&progress, &fake_tap, &options);
	return progress.shown;
}

/* Writing there may stop a job in the background, with the target still tapped. */
START_TEST(not_in_the_background)
{
	char text[512];

	start();
	columns = 80;
	background = true;
	terminal(show_in_background, text, sizeof(text));
	ck_assert_str_eq(text, "");
	fake_tap_fini();
}
END_TEST

int main(void)
{
	return ht_check_run("progress", (const TTest *const[]){
		bytes, figures_so_far, in_a_log, switched_off, a_full_pipe,
		rewritten_in_place, fits_the_terminal, not_in_the_background, NULL });
}
