/* SPDX-License-Identifier: Apache-2.0
 *
 * Each test is a process of its own: Check forks.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/record.h"
#include "ht_check.h"

static const int ending[] = { SIGINT, SIGTERM, SIGHUP };

static bool is_ignored(int signal)
{
	struct sigaction action;

	ck_assert_int_eq(sigaction(signal, NULL, &action), 0);
	return !(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_IGN;
}

static bool is_default(int signal)
{
	struct sigaction action;

	ck_assert_int_eq(sigaction(signal, NULL, &action), 0);
	return !(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_DFL;
}

static bool is_blocked(int signal)
{
	sigset_t set;

	sigprocmask(SIG_BLOCK, NULL, &set);
	return sigismember(&set, signal);
}

static int next(int fd)
{
	int from = -1, signal = ht_signals_next(fd, &from);

	ck_assert(!signal || from == getpid());
	return signal;
}

/* Before there is an fd: noted, once, and nothing is blocked, which a program that is
 * launched would inherit. */
START_TEST(noted_by_handlers)
{
	ht_signals_catch(true);
	ck_assert_int_eq(next(-1), 0);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++) {
		ck_assert(!is_blocked(ending[i]));
		raise(ending[i]);
		ck_assert_int_eq(next(-1), ending[i]);
		ck_assert_int_eq(next(-1), 0);
	}
}
END_TEST

START_TEST(read_from_the_fd)
{
	struct pollfd poller = { .events = POLLIN };
	int fd = -1;

	ht_signals_catch(false);
	/* One that came between is not forgotten. */
	raise(SIGHUP);
	ck_ok(ht_signals_open(&fd, NULL));
	ck_assert_int_eq(next(fd), SIGHUP);
	ck_assert_int_eq(next(fd), 0);
	ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	poller.fd = fd;
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++) {
		ck_assert_int_eq(poll(&poller, 1, 0), 0);
		kill(getpid(), ending[i]);
		ck_assert_int_eq(poll(&poller, 1, 0), 1);
		ck_assert_int_eq(next(fd), ending[i]);
		ck_assert_int_eq(next(fd), 0);
	}
	close(fd);
}
END_TEST

static void send_from_child(int signal, pid_t *ret_child)
{
	*ret_child = fork();
	if (*ret_child == 0) {
		kill(getppid(), signal);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(*ret_child, NULL, 0), *ret_child);
}

START_TEST(the_sender_is_told)
{
	int fd, from = -1;
	pid_t child;

	ht_signals_catch(false);
	send_from_child(SIGTERM, &child);
	ck_assert_int_eq(ht_signals_next(-1, &from), SIGTERM);
	ck_assert_int_eq(from, child);
	ck_ok(ht_signals_open(&fd, NULL));
	send_from_child(SIGINT, &child);
	ck_assert_int_eq(ht_signals_next(fd, &from), SIGINT);
	ck_assert_int_eq(from, child);
	close(fd);
}
END_TEST

/* In a session of its own: 0 when Ctrl-C at the terminal came from nobody, by the handler
 * and by the fd. */
static int ctrl_c(int master, const char *terminal)
{
	uint64_t deadline = ht_deadline_ns(20 * HT_NS_PER_SEC);
	struct pollfd poller = { .events = POLLIN };
	int from = -1, fd, signal;

	if (setsid() < 0 || open(terminal, O_RDWR | O_CLOEXEC) < 0)
		return 77;
	ht_signals_catch(false);
	if (write(master, "\003", 1) != 1)
		return 2;
	do
		signal = ht_signals_next(-1, &from);
	while (!signal && !ht_deadline_passed(deadline));
	if (signal != SIGINT || from != 0)
		return 3;
	if (ht_signals_open(&fd, NULL) < 0)
		return 4;
	from = -1;
	poller.fd = fd;
	if (write(master, "\003", 1) != 1 || poll(&poller, 1, 20000) != 1)
		return 5;
	return ht_signals_next(fd, &from) == SIGINT && from == 0 ? 0 : 6;
}

START_TEST(the_terminal_is_nobody)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), status;
	pid_t child;

	if (!ht_check_have(master >= 0, "pseudoterminals"))
		return;
	ck_assert(grantpt(master) == 0 && unlockpt(master) == 0);
	child = fork();
	if (child == 0)
		_exit(ctrl_c(master, ptsname(master)));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	close(master);
}
END_TEST

/* nohup and background jobs: what was ignored stays so. Only Ctrl-C is taken back, where
 * no program inherits it. */
START_TEST(ignored_ones_stay_ignored)
{
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		signal(ending[i], SIG_IGN);
	ht_signals_catch(true);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		ck_assert(is_ignored(ending[i]));
	ht_signals_catch(false);
	ck_assert(!is_ignored(SIGINT) && is_ignored(SIGTERM) && is_ignored(SIGHUP));
	ck_ok(ht_signals_open(&fd, NULL));
	ck_assert(is_blocked(SIGINT) && !is_blocked(SIGTERM) && !is_blocked(SIGHUP));
	raise(SIGHUP);
	raise(SIGTERM);
	ck_assert_int_eq(next(fd), 0);
	raise(SIGINT);
	ck_assert_int_eq(next(fd), SIGINT);
	ht_signals_default();
	ck_assert(is_default(SIGINT) && is_ignored(SIGTERM) && is_ignored(SIGHUP));
	close(fd);
}
END_TEST

START_TEST(they_kill_again)
{
	int fd, status;
	pid_t child;

	ht_signals_catch(false);
	ck_ok(ht_signals_open(&fd, NULL));
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++) {
		child = fork();
		if (child == 0) {
			ht_signals_default();
			raise(ending[i]);
			_exit(0);
		}
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == ending[i]);
	}
	close(fd);
}
END_TEST

/* A reader that goes away is an error of write(), and a program that is started gets what
 * we were given: a handler, which exec takes away, or what ignores. */
START_TEST(writes_fail_instead)
{
	int fds[2];

	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_IGN);
	ht_signals_init();
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	close(fds[0]);
	ck_assert_int_eq(write(fds[1], "", 1), -1);
	ck_assert_int_eq(errno, EPIPE);
	ck_assert(!is_ignored(SIGPIPE) && !is_blocked(SIGPIPE));
	ck_assert(is_ignored(SIGXFSZ));
	close(fds[1]);
}
END_TEST

int main(void)
{
	return ht_check_run("signals", (const TTest *const[]){
		noted_by_handlers, read_from_the_fd, the_sender_is_told,
		the_terminal_is_nobody, ignored_ones_stay_ignored, they_kill_again, writes_fail_instead, NULL });
}
