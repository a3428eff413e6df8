/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_target.c: see ht_target.h.
 */
#include "ht_target.h"

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
#include "base/err.h"
#include "base/fd.h"
#include "ht_patience.h"

#define MAX_ARGS 32

static void target_path(const char *name, char *buf, size_t cap)
{
	const char *dir = getenv("HT_BUILDDIR");

	if (strchr(name, '/'))
		snprintf(buf, cap, "%s", name);
	else
		snprintf(buf, cap, "%s/tests/targets/%s", dir ? dir : ".", name);
}

/* In the child, between fork and exec: async-signal-safe calls only. */
static void become(const char *path, char *const argv[], int in, int out, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	/* Below 3 they could be what the other dup2 overwrites. */
	in = fcntl(in, F_DUPFD, 3);
	out = fcntl(out, F_DUPFD, 3);
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
		_exit(127);
	/* What the test, Check and make have open is none of the target's business. */
	syscall(SYS_close_range, 3, ~0U, 0);
	signal(SIGPIPE, SIG_DFL);
	execv(path, argv);
	_exit(127);
}

static int fill_argv(const char *path, const char *const args[], const char **argv)
{
	size_t n = 0;

	argv[n++] = path;
	for (; args && *args; args++) {
		if (n == MAX_ARGS)
			return -E2BIG;
		argv[n++] = *args;
	}
	argv[n] = NULL;
	return 0;
}

int ht_test_target_spawn(struct ht_test_target *ret_target, const char *name,
			 const char *const args[])
{
	struct ht_test_target t = { .to = -1, .from = -1, .pending = HT_BUF_INIT };
	const char *argv[MAX_ARGS + 1];
	int in[2], out[2], r;
	pid_t parent = getpid();
	char path[4096];

	target_path(name, path, sizeof(path));
	if (access(path, X_OK) < 0)
		return -errno;
	r = fill_argv(path, args, argv);
	if (r < 0)
		return r;
	if (pipe2(in, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(out, O_CLOEXEC) < 0) {
		r = -errno;
		goto close_in;
	}
	t.pid = fork();
	if (t.pid == 0)
		become(path, (char *const *)argv, in[0], out[1], parent);
	if (t.pid < 0) {
		r = -errno;
		goto close_out;
	}
	close(in[0]);
	close(out[1]);
	t.to = in[1];
	t.from = out[0];
	/* Writing to a target that died must be an error, not the test's death. */
	signal(SIGPIPE, SIG_IGN);
	*ret_target = t;
	return 0;

close_out:
	close(out[0]);
	close(out[1]);
close_in:
	close(in[0]);
	close(in[1]);
	return r;
}

int ht_test_target_start(struct ht_test_target *ret_target, const char *name,
			 const char *const args[])
{
	struct ht_test_target t;
	int r;

	r = ht_test_target_spawn(&t, name, args);
	if (r < 0)
		return r;
	r = ht_test_target_read(&t, t.ready, sizeof(t.ready));
	if (r >= 0 && strncmp(t.ready, "READY", 5))
		r = -EPROTO;
	if (r < 0) {
		ht_test_target_kill(&t);
		return r;
	}
	*ret_target = t;
	return 0;
}

int ht_test_target_send(struct ht_test_target *target, const char *line)
{
	_cleanup_(ht_buf_fini) struct ht_buf text = HT_BUF_INIT;
	int r = ht_buf_printf(&text, "%s\n", line);

	/* At once: a target may take what it reads for all of it. */
	return r < 0 ? r : ht_fd_write_all(target->to, text.data, text.len);
}

/* Hand out a line of what was read already. -EAGAIN: there is none yet. */
static int take_line(struct ht_buf *pending, char *line, size_t cap)
{
	char *end = pending->len ? memchr(pending->data, '\n', pending->len) : NULL;
	size_t len, rest;

	if (!end)
		return -EAGAIN;
	len = (size_t)(end - pending->data);
	if (len >= cap)
		return -EMSGSIZE;
	memcpy(line, pending->data, len);
	line[len] = '\0';
	rest = pending->len - len - 1;
	memmove(pending->data, end + 1, rest + 1);
	pending->len = rest;
	return 0;
}

int ht_test_target_read(struct ht_test_target *target, char *line, size_t cap)
{
	uint64_t deadline = ht_test_deadline_ns();
	char chunk[4096];
	ssize_t n;
	int r;

	for (;;) {
		struct pollfd pfd = { .fd = target->from, .events = POLLIN };

		r = take_line(&target->pending, line, cap);
		if (r != -EAGAIN)
			return r;
		r = ht_errno_of(poll(&pfd, 1, ht_deadline_poll_ms(deadline)));
		if (r == -EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? r : -ETIMEDOUT;
		n = read(target->from, chunk, sizeof(chunk));
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ENODATA;
		r = ht_buf_append(&target->pending, chunk, (size_t)n);
		if (r < 0)
			return r;
	}
}

int ht_test_target_ask(struct ht_test_target *target, const char *line, char *reply,
		       size_t cap)
{
	int r;

	r = ht_test_target_send(target, line);
	return r < 0 ? r : ht_test_target_read(target, reply, cap);
}

/* 0 once the process is a zombie, -ETIMEDOUT. A pidfd, so that nobody has to sleep. */
static int wait_for_end(pid_t pid, uint64_t deadline_ns)
{
	_cleanup_(ht_fd_closep) int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int r;

	if (pidfd < 0)
		return -errno;
	do {
		struct pollfd pfd = { .fd = pidfd, .events = POLLIN };

		r = ht_errno_of(poll(&pfd, 1, ht_deadline_poll_ms(deadline_ns)));
	} while (r == -EINTR);
	if (r == 0)
		return -ETIMEDOUT;
	return r < 0 ? r : 0;
}

static void forget(struct ht_test_target *target)
{
	target->to = ht_fd_close(target->to);
	target->from = ht_fd_close(target->from);
	ht_buf_fini(&target->pending);
	target->pid = 0;
}

int ht_test_target_stop(struct ht_test_target *target, int *ret_status)
{
	int status = 0, r;

	if (target->pid <= 0)
		return -ECHILD;
	target->to = ht_fd_close(target->to);
	r = wait_for_end(target->pid, ht_test_deadline_ns());
	if (r < 0)
		kill(target->pid, SIGKILL);
	while (waitpid(target->pid, &status, 0) < 0)
		if (errno != EINTR)
			break;
	forget(target);
	if (r >= 0 && ret_status)
		*ret_status = status;
	return r;
}

void ht_test_target_kill(struct ht_test_target *target)
{
	if (target->pid <= 0)
		return;
	kill(target->pid, SIGKILL);
	while (waitpid(target->pid, NULL, 0) < 0)
		if (errno != EINTR)
			break;
	forget(target);
}
