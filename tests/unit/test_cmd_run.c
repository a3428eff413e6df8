/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap run stands for the program that it runs: what the program finds, and the exit
 * status, however it and the recording end. The real thing is in tests/cli/run-*.test.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture.h"
#include "cmd/record.h"
#include "fake_tap.h"
#include "tool.h"

static const int ending[] = { SIGINT, SIGTERM, SIGHUP };

static void start(void)
{
	fake_tap_init();
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		signal(ending[i], SIG_DFL);
}

static void check(int status, const char *err, const char *log)
{
	struct captured c;

	fake_tap_log[0] = '\0';
	capture_command(&c, &ht_cmd_run, "-q", "-f", "folded", "--", "prog", "-x", NULL);
	captured_is(&c, status, "", err);
	ck_assert_str_eq(fake_tap_log, log);
	captured_fini(&c);
}

static int look_around(struct ht_tap *tap, char *const argv[], struct ht_err *err)
{
	struct sigaction action;
	sigset_t blocked;

	fake_tap_note("%s %s", argv[0], argv[1]);
	if (argv[2])
		fake_tap_note("and more");
	sigprocmask(SIG_BLOCK, NULL, &blocked);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++) {
		sigaction(ending[i], NULL, &action);
		if (sigismember(&blocked, ending[i]) ||
		    (!(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_IGN))
			fake_tap_note("signal %d is lost", ending[i]);
		/* And that must not kill us while the program is started. */
		raise(ending[i]);
	}
	return ht_err_set(err, HT_ERR_FAILED, -EIO, "seen enough");
}

/* What is blocked or ignored then, the program inherits. */
START_TEST(the_program_finds_nothing_changed)
{
	start();
	fake_tap.launch = look_around;
	check(125, "heaptap: seen enough\n", "launch; prog -x; ");
	fake_tap_fini();
}
END_TEST

#define EXITS(status) ((status) << 8)

START_TEST(the_status_is_the_programs)
{
	static const char log[] = "launch; serve; cure; free; ";

	start();
	check(0, "", log);
	fake_tap.wait_status = EXITS(3);
	check(3, "", log);
	fake_tap.wait_status = EXITS(255);
	check(255, "", log);
	fake_tap.wait_status = SIGKILL;
	check(137, "", log);
	fake_tap.wait_status = SIGSEGV | 0x80;	/* with a core */
	check(139, "", log);
	fake_tap_fini();
}
END_TEST

static int launch_nothing(struct ht_tap *tap, char *const argv[], struct ht_err *err)
{
	return ht_err_set(err, HT_ERR_FAILED, -ENOENT, "can't run %s: gone", argv[0]);
}

static int launch_no_program(struct ht_tap *tap, char *const argv[], struct ht_err *err)
{
	return ht_err_set(err, HT_ERR_FAILED, -EACCES, "can't run %s: no", argv[0]);
}

static int launch_unsupported(struct ht_tap *tap, char *const argv[], struct ht_err *err)
{
	return ht_err_set(err, HT_ERR_UNSUPPORTED, -ENOTSUP, "can't tap %s", argv[0]);
}

START_TEST(what_cannot_be_launched)
{
	start();
	fake_tap.launch = launch_nothing;
	check(127, "heaptap: can't run prog: gone\n", "launch; ");
	fake_tap.launch = launch_no_program;
	check(126, "heaptap: can't run prog: no\n", "launch; ");
	/* Whatever the kind: 5 could be the program's own. */
	fake_tap.launch = launch_unsupported;
	check(125, "heaptap: can't tap prog\n", "launch; ");
	fake_tap_fini();
}
END_TEST

START_TEST(nothing_runs_that_cannot_be_reported)
{
	struct captured c;

	start();
	capture_command(&c, &ht_cmd_run, "-o", "/nonexistent/x.txt", "prog", NULL);
	ck_assert_int_eq(c.status, 125);
	ck_assert_str_eq(fake_tap_log, "");
	captured_fini(&c);
	fake_tap_fini();
}
END_TEST

static int cure_badly(struct ht_tap *tap, struct ht_err *err)
{
	return ht_err_set(err, HT_ERR_FAILED, -EIO, "curing failed");
}

START_TEST(our_failure_hides_its_status)
{
	static const char log[] = "launch; serve; cure; free; ";

	start();
	fake_tap.cure = cure_badly;
	check(125, "heaptap: curing failed\n", log);
	fake_tap.wait_status = EXITS(3);
	check(125, "heaptap: prog itself ended with status 3\nheaptap: curing failed\n", log);
	fake_tap_fini();
}
END_TEST

/* stdout is the program's. */
START_TEST(the_report_goes_to_stderr)
{
	struct captured c;

	start();
	capture_command(&c, &ht_cmd_run, "prog", NULL);
	ck_assert_int_eq(c.status, 0);
	ck_assert_str_eq(c.out.data, "");
	captured_has(&c, "tapped 12.5 s; target exited");
	/* Everybody sees the end of a program that was launched. */
	captured_has_not(&c, "exited after");
	captured_fini(&c);
	fake_tap_fini();
}
END_TEST

/* --- the recording ends before the program does --- */

static char dir[64], fifo[96];
static void (*program)(void);

static void wait_for_report(void)
{
	int fd = open(fifo, O_RDONLY | O_CLOEXEC);
	char byte;

	if (read(fd, &byte, 1) != 1)
		_exit(90);
}

static int launch_program(struct ht_tap *tap, char *const argv[], struct ht_err *err)
{
	tap->result.pid = fork();
	if (tap->result.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ht_signals_default();
		program();
		_exit(91);
	}
	return 0;
}

static int serve_time(struct ht_tap *tap, int wake_fd, enum ht_tap_state *ret_state,
		      struct ht_err *err)
{
	*ret_state = HT_TAP_RUNNING;
	return 0;
}

/* The report goes into a pipe that the program reads: it knows then that it's waited for,
 * and that no signal hurries the report any more. */
static void outlive(void (*what)(void), int status)
{
	struct captured c;
	int fd;

	tool_mkdir(dir);
	snprintf(fifo, sizeof(fifo), "%s/report", dir);
	ck_assert_int_eq(mkfifo(fifo, 0600), 0);
	fd = open(fifo, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	fake_tap_init();
	fake_tap.launch = launch_program;
	fake_tap.serve = serve_time;
	program = what;
	capture_command(&c, &ht_cmd_run, "-q", "-d", "0.001", "-f", "text", "-o", fifo, "prog",
			NULL);
	captured_is(&c, status, "", "");
	ck_assert_str_eq(fake_tap_log, "launch; serve until; cure; free; ");
	captured_fini(&c);
	fake_tap_fini();
	close(fd);
	tool_rmdir(dir);
}

static void program_exits(void)
{
	wait_for_report();
	_exit(5);
}

static void program_exits_early(void)
{
	_exit(6);
}

static void program_dies(void)
{
	wait_for_report();
	raise(SIGKILL);
}

START_TEST(its_end_is_waited_for)
{
	outlive(program_exits, 5);
	outlive(program_exits_early, 6);
	outlive(program_dies, 128 + SIGKILL);
}
END_TEST

static void program_is_told(void)
{
	wait_for_report();
	kill(getppid(), SIGTERM);
	for (;;)
		pause();
}

/* A signal for us is one for it. */
START_TEST(the_first_signal_is_handed_on)
{
	outlive(program_is_told, 128 + SIGTERM);
}
END_TEST

static void program_is_stubborn(void)
{
	sigset_t set;
	int got;

	signal(SIGHUP, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	wait_for_report();
	kill(getppid(), SIGTERM);
	sigwait(&set, &got);
	kill(getppid(), SIGHUP);
	for (;;)
		pause();
}

START_TEST(the_second_one_is_ours)
{
	outlive(program_is_stubborn, 128 + SIGHUP);
}
END_TEST

static int cure_and_reap(struct ht_tap *tap, struct ht_err *err)
{
	int status;

	waitpid(tap->result.pid, &status, 0);
	tap->wait_status = status + EXITS(1);
	return 0;
}

/* Its pid may be somebody else's by then. */
START_TEST(it_was_reaped_while_it_was_cured)
{
	struct captured c;

	start();
	fake_tap.launch = launch_program;
	fake_tap.serve = serve_time;
	fake_tap.cure = cure_and_reap;
	program = program_exits_early;
	capture_command(&c, &ht_cmd_run, "-q", "-d", "0.001", "-f", "folded", "prog", NULL);
	captured_is(&c, 7, "", "");
	captured_fini(&c);
	fake_tap_fini();
}
END_TEST

int main(void)
{
	return ht_check_run("cmd_run", (const TTest *const[]){
		the_program_finds_nothing_changed, the_status_is_the_programs,
		what_cannot_be_launched, nothing_runs_that_cannot_be_reported,
		our_failure_hides_its_status, the_report_goes_to_stderr,
		its_end_is_waited_for, the_first_signal_is_handed_on, the_second_one_is_ours,
		it_was_reaped_while_it_was_cured, NULL });
}
