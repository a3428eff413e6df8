/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_tool.c: see ht_tool.h.
 */
#include "ht_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "ht_patience.h"
#include "ht_tally.h"
#include "ht_target.h"

/* What the tool writes: one of these when it taps, one at its end. */
struct report {
	bool finished;
	bool found;
	int result;
	struct ht_err err;
	uint64_t samples, lost_allocs, lost;
	int wait_status;
};

static struct ht_tap_options options_of(const struct ht_test_work *work)
{
	return (struct ht_tap_options){
		.interval = work->exact ? 0 : work->interval ? work->interval : 4096,
		.ring_size = work->ring_size ? work->ring_size : 256 * 1024,
		.max_stack = 4096,
		.block = work->block,
		.loader = work->loader,
		.transport = work->transport,
	};
}

static int tap(const struct ht_test_work *work, int in, int out, struct report *report)
{
	struct ht_tap_options options = options_of(work);
	/* So that there is time to say so. */
	uint64_t deadline = ht_deadline_ns((uint64_t)(ht_test_patience(10) * 1e9));
	struct ht_tap_result result;
	enum ht_tap_state state = HT_TAP_RUNNING;
	struct ht_tap *tap;
	int r;

	if (work->launch && dup2(work->launch_out, STDOUT_FILENO) < 0)
		return -errno;
	if (work->launch)
		r = ht_tap_launch(work->launch, &options, &tap, &report->err);
	else
		r = ht_tap_attach(work->pid, &options, &tap, &report->err);
	if (r < 0)
		return r;
	if (write(out, report, sizeof(*report)) != sizeof(*report))
		r = -EPIPE;
	do {
		if (r == 0)
			r = ht_tap_serve(tap, work->serve_ms ?
					 ht_deadline_ns(work->serve_ms * HT_NS_PER_MS) : 0, in,
					 &state, &report->err);
		ht_tap_result(tap, &result);
	} while (r == 0 && work->until_sampled && !result.samples && state == HT_TAP_RUNNING &&
		 !ht_deadline_passed(deadline));
	if (r == 0)
		r = ht_tap_cure(tap, &report->err);
	ht_tap_result(tap, &result);
	report->samples = result.samples;
	report->lost_allocs = result.lost_allocs;
	report->lost = result.lost_allocs + result.lost_frees + result.lost_corrupt;
	report->wait_status = ht_tap_wait_status(tap);
	if (r == 0)
		ht_tally("tap", result.stops, result.stop_max_ns);
	ht_tap_free(tap);
	return r;
}

static _noreturn_ void be_tool(const struct ht_test_work *work, const char *fault, int in,
			       int out)
{
	struct report report = { 0 };
	char fd[16];
	bool left;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fault)
		setenv("HEAPTAP_FAULT", fault, 1);
	else
		unsetenv("HEAPTAP_FAULT");
	snprintf(fd, sizeof(fd), "%d", work->trace_fd);
	if (work->trace_fd)
		setenv("HEAPTAP_FAULT_TRACE", fd, 1);
	if (work->attach || work->launch)
		report.result = tap(work, in, out, &report);
	else
		report.result = ht_tap_cure_pid(work->pid, &report.found, &left, &report.err);
	report.finished = true;
	if ((work->attach || work->launch) && report.result < 0)
		ht_tally("refused", 0, 0);
	_exit(write(out, &report, sizeof(report)) != sizeof(report));
}

int ht_test_tool_start(struct ht_test_tool *ret_tool, const struct ht_test_work *work,
		       const char *fault)
{
	struct ht_test_tool tool = { 0 };
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(out, O_CLOEXEC) < 0) {
		ht_fd_close(in[0]);
		ht_fd_close(in[1]);
		return -errno;
	}
	tool.pid = fork();
	if (tool.pid == 0) {
		ht_fd_close(in[1]);
		ht_fd_close(out[0]);
		be_tool(work, fault, in[0], out[1]);
	}
	tool.to = in[1];
	tool.from = out[0];
	ht_fd_close(in[0]);
	ht_fd_close(out[1]);
	*ret_tool = tool;
	return tool.pid < 0 ? -EAGAIN : 0;
}

/* -ENODATA: it is gone. */
static int read_report(struct ht_test_tool *tool, uint64_t deadline_ns,
		       struct report *ret_report)
{
	struct pollfd pfd = { .fd = tool->from, .events = POLLIN };
	int r;

	do
		r = ht_errno_of(poll(&pfd, 1, ht_deadline_poll_ms(deadline_ns)));
	while (r == -EINTR);
	if (r <= 0)
		return r < 0 ? r : -ETIMEDOUT;
	/* Less than a pipe's atomic unit. */
	return read(tool->from, ret_report, sizeof(*ret_report)) == sizeof(*ret_report) ?
		       0 : -ENODATA;
}

static void take_report(struct ht_test_tool *tool, const struct report *report)
{
	tool->finished = report->finished;
	tool->result = report->result;
	tool->err = report->err;
	tool->found = report->found;
	tool->samples = report->samples;
	tool->lost_allocs = report->lost_allocs;
	tool->lost = report->lost;
	tool->wait_status = report->wait_status;
}

int ht_test_tool_await_tap(struct ht_test_tool *tool)
{
	struct report report;
	int r = read_report(tool, ht_test_deadline_ns(), &report);

	if (r < 0)
		return r == -ENODATA ? -ECHILD : r;
	take_report(tool, &report);
	return report.finished ? -ECHILD : 0;
}

void ht_test_tool_end(struct ht_test_tool *tool)
{
	(void)!write(tool->to, "", 1);
}

int ht_test_tool_wait(struct ht_test_tool *tool)
{
	uint64_t deadline = ht_test_deadline_ns();
	struct report report;
	int r = 0;

	while (!tool->finished) {
		r = read_report(tool, deadline, &report);
		if (r < 0)
			break;
		take_report(tool, &report);
	}
	if (r == -ETIMEDOUT)
		kill(tool->pid, SIGKILL);
	while (waitpid(tool->pid, &tool->status, 0) < 0 && errno == EINTR)
		;
	tool->from = ht_fd_close(tool->from);
	tool->to = ht_fd_close(tool->to);
	if (WIFSIGNALED(tool->status) && WTERMSIG(tool->status) == SIGKILL)
		ht_tally("killed", 0, 0);
	return r == -ENODATA ? 0 : r;
}

int ht_test_tool_run(struct ht_test_tool *ret_tool, const struct ht_test_work *work,
		     const char *fault)
{
	int r = ht_test_tool_start(ret_tool, work, fault);

	return r < 0 ? r : ht_test_tool_wait(ret_tool);
}
