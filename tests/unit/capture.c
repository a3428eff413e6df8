/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ht_check.h"

#define ARGS_MAX 40

static void take(int fd, struct ht_buf *buf)
{
	ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
	ck_ok(ht_buf_puts(buf, ""));
	ck_ok(ht_buf_read_fd(buf, fd, 16 << 20));
	close(fd);
}

void capture(int (*act)(void *arg), void *arg, struct captured *ret)
{
	int out = memfd_create("stdout", MFD_CLOEXEC), err = memfd_create("stderr", MFD_CLOEXEC);
	int status;
	pid_t child;

	ck_assert(out >= 0 && err >= 0);
	fflush(NULL);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		if (dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
			_exit(99);
		_exit(act(arg));
	}
	while (waitpid(child, &status, 0) < 0)
		ck_assert_int_eq(errno, EINTR);
	*ret = (struct captured){ .out = HT_BUF_INIT, .err = HT_BUF_INIT };
	ret->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	take(out, &ret->out);
	take(err, &ret->err);
}

struct call {
	const struct ht_command *command;
	char *argv[ARGS_MAX];
	int argc;
};

/* The last lines of main(). */
static int run_command(void *arg)
{
	const struct call *call = arg;
	struct ht_err err = { HT_ERR_NONE, "" };
	int status = 0, r;

	ht_signals_init();
	r = call->command->run(call->command, call->argc, (char **)call->argv, &status,
			       &err);
	if (r >= 0)
		return status;
	ht_cmd_talk("%s", err.text);
	if (call->command->failure_status)
		return call->command->failure_status;
	return (int)err.kind;
}

void capture_command(struct captured *ret, const struct ht_command *command, ...)
{
	struct call call = { .command = command, .argc = 1 };
	char *arg;
	va_list args;

	call.argv[0] = (char *)command->name;
	va_start(args, command);
	while ((arg = va_arg(args, char *)) != NULL) {
		ck_assert_int_lt(call.argc, ARGS_MAX - 1);
		call.argv[call.argc++] = arg;
	}
	va_end(args);
	capture(run_command, &call, ret);
}

void captured_fini(struct captured *captured)
{
	ht_buf_fini(&captured->out);
	ht_buf_fini(&captured->err);
}

static void show(const struct captured *captured, const char *what)
{
	ck_abort_msg("%s\nstatus %d, stdout:\n%.1500s\nstderr:\n%.1500s", what,
		     captured->status, captured->out.data, captured->err.data);
}

void captured_is(const struct captured *captured, int status, const char *out,
		 const char *err)
{
	if (captured->status != status)
		show(captured, "another status");
	if (strcmp(captured->out.data, out) != 0)
		show(captured, "another stdout");
	if (strcmp(captured->err.data, err) != 0)
		show(captured, "another stderr");
}

static bool has(const struct captured *captured, const char *text)
{
	return strstr(captured->out.data, text) || strstr(captured->err.data, text);
}

void captured_has(const struct captured *captured, const char *text)
{
	if (!has(captured, text))
		show(captured, text);
}

void captured_has_not(const struct captured *captured, const char *text)
{
	if (has(captured, text))
		show(captured, text);
}
