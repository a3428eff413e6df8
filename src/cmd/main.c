/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c: the command table, and the only exit.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "cmd/cmd.h"

#define FILES_MIN 64

static const struct ht_command *const commands[] = {
	&ht_cmd_attach,
	&ht_cmd_run,
	&ht_cmd_cure,
	&ht_cmd_doctor,
};

static const struct ht_command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static void overview(struct ht_buf *out)
{
	ht_buf_puts(out, "usage: heaptap COMMAND [OPTION...] ...\n");
	ht_buf_puts(out, "Tell which call sites of a live process hold its heap.\n\n");
	ht_buf_puts(out, "commands:\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		ht_buf_printf(out, "  %-10s%s\n", commands[i]->name, commands[i]->summary);
	ht_buf_puts(out, "\noptions:\n");
	ht_buf_puts(out, "  -h, --help     print this and exit; also: heaptap help COMMAND\n");
	ht_buf_puts(out, "      --version  print the version and exit\n");
}

/* "help", "--help" and "--version". 1: it was none of these. */
static int without_command(int argc, char **argv, struct ht_err *err)
{
	_cleanup_(ht_buf_fini) struct ht_buf out = HT_BUF_INIT;
	const struct ht_command *command;
	const char *word = argv[1];

	if (!strcmp(word, "--version")) {
		ht_buf_printf(&out, "heaptap %s\n", PACKAGE_VERSION);
		return ht_cmd_print(&out, err);
	}
	if (strcmp(word, "--help") && strcmp(word, "-h") && strcmp(word, "help"))
		return 1;
	if (argc > 2 && !strcmp(word, "help")) {
		command = find_command(argv[2]);
		if (!command)
			return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
					  "there is no command \"%s\"", argv[2]);
		ht_cmd_help(command, &out);
	} else {
		overview(&out);
	}
	return ht_cmd_print(&out, err);
}

static int no_command(const char *word, struct ht_err *err)
{
	const char *names[ARRAY_SIZE(commands)], *meant;

	if (*word == '-')
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
				  "unknown option %s; options go after the command", word);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		names[i] = commands[i]->name;
	meant = ht_cmd_suggest(word, names, ARRAY_SIZE(commands));
	if (meant)
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
				  "there is no command \"%s\"; did you mean \"%s\"?", word,
				  meant);
	return ht_err_set(err, HT_ERR_USAGE, -EINVAL, "there is no command \"%s\"", word);
}

/* Large files of the target are kept open. With next to none allowed anything could fail, and
 * the reason would look like another one. */
static int allow_files(struct ht_err *err)
{
	uint64_t limit = ht_fd_limit_raise();

	if (limit >= FILES_MIN)
		return 0;
	return ht_err_set(err, HT_ERR_FAILED, -EMFILE,
			  "heaptap may have %llu files open and needs %d; start it with a higher limit: prlimit --nofile=1024 heaptap ...",
			  (unsigned long long)limit, FILES_MIN);
}

static int dispatch(int argc, char **argv, const struct ht_command **ret_command,
		    int *ret_status, struct ht_err *err)
{
	int r;

	if (argc < 2)
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL, "what should be done?");
	r = without_command(argc, argv, err);
	if (r <= 0)
		return r;
	*ret_command = find_command(argv[1]);
	if (!*ret_command)
		return no_command(argv[1], err);
	r = allow_files(err);
	if (r < 0)
		return r;
	return (*ret_command)->run(*ret_command, argc - 1, argv + 1, ret_status, err);
}

/* A standard stream that was closed would let the next file that is opened, the memory of
 * the target say, get its number and the report. What is put there fails writes with
 * EBADF, and a program started by `run` sees it closed again. */
static void hold_standard_streams(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
}

int main(int argc, char **argv)
{
	const struct ht_command *command = NULL;
	struct ht_err err = { HT_ERR_NONE, "" };
	int status = 0, r;

	hold_standard_streams();
	ht_signals_init();
	ht_log_init(getenv("HEAPTAP_DEBUG"));
	r = dispatch(argc, argv, &command, &status, &err);
	if (r >= 0)
		return status;
	ht_cmd_talk("%s", err.text);
	if (err.kind == HT_ERR_USAGE)
		ht_cmd_talk("see heaptap %s%s--help", command ? command->name : "",
			    command ? " " : "");
	if (command && command->failure_status)
		return command->failure_status;
	return err.kind ? (int)err.kind : HT_ERR_FAILED;
}
