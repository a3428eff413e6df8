/* SPDX-License-Identifier: Apache-2.0
 *
 * signals.c: the signals that ask for the end of a recording, first by handlers, then by
 * an fd.
 *
 * While a program is launched they must not be blocked or ignored: it would inherit that.
 * A handler doesn't survive exec. Once it runs, an fd that the loop can wait for is better:
 * no call is interrupted, and who sent the signal is known.
 */
#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cmd/record.h"

static const int ending[] = { SIGINT, SIGTERM, SIGHUP };

static void do_nothing(int signal)
{
	(void)signal;
}

void ht_signals_init(void)
{
	static const int of_writes[] = { SIGPIPE, SIGXFSZ };
	struct sigaction action = { .sa_handler = do_nothing, .sa_flags = SA_RESTART }, old;

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < ARRAY_SIZE(of_writes); i++)
		if (sigaction(of_writes[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(of_writes[i], &action, NULL);
}

/* What the handler saw: the one thing that it can't be given any other way. */
static volatile sig_atomic_t noted, noted_from;

static void note(int signal, siginfo_t *info, void *context)
{
	(void)context;
	noted_from = info->si_code == SI_KERNEL ? 0 : (sig_atomic_t)info->si_pid;
	noted = signal;
}

/* Those that were ignored when we started (nohup, a background job) stay so. But Ctrl-C's
 * signal is how people and scripts end a recording, and shells ignore it in what they
 * start with "&": where nothing inherits it, it was taken back by ht_signals_catch(). */
static void caught_set(sigset_t *ret_set)
{
	struct sigaction action;

	sigemptyset(ret_set);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		if (sigaction(ending[i], NULL, &action) == 0 &&
		    ((action.sa_flags & SA_SIGINFO) || action.sa_handler != SIG_IGN))
			sigaddset(ret_set, ending[i]);
}

static void set_handlers(const struct sigaction *action)
{
	sigset_t set;

	caught_set(&set);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		if (sigismember(&set, ending[i]))
			sigaction(ending[i], action, NULL);
}

void ht_signals_catch(bool launching)
{
	struct sigaction action = { .sa_sigaction = note,
				    .sa_flags = SA_SIGINFO | SA_RESTART };

	sigemptyset(&action.sa_mask);
	if (!launching)
		sigaction(SIGINT, &action, NULL);
	set_handlers(&action);
}

int ht_signals_open(int *ret_fd, struct ht_err *err)
{
	sigset_t set;
	int fd;

	caught_set(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = ht_errno_of(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
	if (fd < 0)
		return ht_err_set(err, HT_ERR_FAILED, fd, "signalfd: %s", strerror(-fd));
	*ret_fd = fd;
	return 0;
}

int ht_signals_next(int fd, int *ret_from)
{
	struct signalfd_siginfo info;
	int signal = noted;

	if (signal) {
		*ret_from = noted_from;
		noted = 0;
		return signal;
	}
	if (fd < 0 || read(fd, &info, sizeof(info)) != sizeof(info))
		return 0;
	*ret_from = info.ssi_code == SI_KERNEL ? 0 : (int)info.ssi_pid;
	return (int)info.ssi_signo;
}

void ht_signals_default(void)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	sigset_t set;

	sigemptyset(&action.sa_mask);
	caught_set(&set);
	set_handlers(&action);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}
