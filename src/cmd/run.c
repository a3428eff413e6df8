/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c: heaptap run: launch a program and tap it from its first allocation.
 *
 * Whoever calls "heaptap run -- CMD" in the place of CMD gets CMD: its standard streams,
 * its exit status, and no byte of ours on its stdout.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "cmd/record.h"

enum {
	STATUS_FAILED = 125,
	STATUS_NOT_EXECUTABLE = 126,
	STATUS_NOT_FOUND = 127,
	STATUS_SIGNAL = 128,
};

static const struct ht_option *const options[] = { ht_record_option_table, NULL };

static int status_of(int wait_status)
{
	if (WIFSIGNALED(wait_status))
		return STATUS_SIGNAL + WTERMSIG(wait_status);
	return WEXITSTATUS(wait_status);
}

/* When the recording ended before the program did. A signal that came before was for the
 * recording; the next one is for us. */
static int wait_for_end(struct ht_recorder *recorder, pid_t pid)
{
	_cleanup_(ht_fd_closep) int pidfd = ht_errno_of(syscall(SYS_pidfd_open, pid, 0));
	struct pollfd fds[2] = {
		{ .fd = pidfd, .events = POLLIN },
		{ .fd = recorder->signal_fd, .events = POLLIN },
	};
	siginfo_t info;
	int status, signal, from;

	/* It may have ended, and been waited for, while it was cured. */
	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG) < 0)
		return status_of(ht_tap_wait_status(recorder->tap));
	while (pidfd >= 0) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (fds[0].revents)
			break;
		signal = ht_signals_next(recorder->signal_fd, &from);
		if (!signal)
			continue;
		if (recorder->signals++)
			return STATUS_SIGNAL + signal;
		if (from)
			kill(pid, signal);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return status_of(ht_tap_wait_status(recorder->tap));
	return status_of(status);
}

static int launch(struct ht_recorder *recorder, char **argv, int *ret_status,
		  struct ht_err *err)
{
	int r;

	/* Only caught: what is blocked or ignored would be so in the program too. */
	ht_signals_catch(true);
	r = ht_tap_launch(argv, &recorder->options->tap, &recorder->tap, err);
	if (r == -ENOENT || r == -EACCES) {
		*ret_status = r == -ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
		ht_cmd_talk("%s", err->text);
		return 1;
	}
	if (r < 0)
		return r;
	return ht_signals_open(&recorder->signal_fd, err);
}

static int run(const struct ht_command *command, int argc, char **argv, int *ret_status,
	       struct ht_err *err)
{
	_cleanup_(ht_recorder_fini) struct ht_recorder recorder = HT_RECORDER_INIT;
	struct ht_record_options record = HT_RECORD_OPTIONS_INIT;
	struct ht_tap_result result;
	char **operands;
	int r;

	r = ht_cmd_parse(command, argc, argv, &record, &operands, err);
	if (r != 0)
		return r;
	if (!operands[0])
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL, "which program should be run?");
	r = ht_outputs_open(&recorder.outputs, &record, STDERR_FILENO, err);
	if (r < 0)
		return r;
	r = ht_fetch_check(&record, err);
	if (r < 0)
		return r;
	recorder.options = &record;
	recorder.launched = true;
	r = launch(&recorder, operands, ret_status, err);
	if (r != 0)
		return r;
	r = ht_record(&recorder, err);
	ht_tap_result(recorder.tap, &result);
	*ret_status = recorder.state == HT_TAP_EXITED ?
			      status_of(ht_tap_wait_status(recorder.tap)) :
			      wait_for_end(&recorder, result.pid);
	if (r < 0 && *ret_status)
		ht_cmd_talk("%s itself ended with status %d", operands[0], *ret_status);
	return r;
}

const struct ht_command ht_cmd_run = {
	.name = "run",
	.synopsis = "[--] CMD [ARG...]",
	.summary = "launch a program and tap it from its first allocation",
	.details = "stdin and stdout are CMD's. The text report goes to stderr, unless --output\n"
		   "names files for it. The exit status is CMD's, 128+N if signal N killed it,\n"
		   "125 if heaptap failed, 126 if CMD can't be executed, 127 if it wasn't found.",
	.options = options,
	.operand_ends_options = true,
	.failure_status = STATUS_FAILED,
	.run = run,
};
