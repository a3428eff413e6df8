/* SPDX-License-Identifier: Apache-2.0
 *
 * main() with commands of our own: which one is called with what, and the exit status for
 * each way that it can end. What heaptap itself says is in tests/cli/usage.test.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "capture.h"
#include "ht_check.h"

int heaptap_main(int argc, char **argv);
#define main heaptap_main
#include "cmd/main.c"
#undef main

/* "attach KIND [STATUS]": fails so, or returns that status. */
static int act(const struct ht_command *command, int argc, char **argv, int *ret_status,
	       struct ht_err *err)
{
	if (argc > 1 && !strcmp(argv[1], "fail"))
		return ht_err_set(err, (enum ht_err_kind)atoi(argv[2]), -EIO, "it failed");
	if (argc > 1 && !strcmp(argv[1], "status"))
		*ret_status = atoi(argv[2]);
	ht_cmd_talk("%s of %d: %s", argv[0], argc, argc > 1 ? argv[1] : "nothing");
	return argc > 1 && !strcmp(argv[1], "positive");
}

const struct ht_command ht_cmd_attach = {
	.name = "attach", .synopsis = "A", .summary = "of attach", .run = act,
};
const struct ht_command ht_cmd_run = {
	.name = "run", .synopsis = "R", .summary = "of run", .run = act, .failure_status = 125,
};
const struct ht_command ht_cmd_cure = {
	.name = "cure", .synopsis = "C", .summary = "of cure", .run = act,
};
const struct ht_command ht_cmd_doctor = {
	.name = "doctor", .synopsis = "D", .summary = "of doctor", .run = act,
};

static int call(void *line)
{
	char *argv[16] = { (char *)"heaptap" }, *save = NULL, copy[128];
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", (const char *)line);
	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	return heaptap_main(argc, argv);
}

static void check(const char *line, int status, const char *out, const char *err)
{
	struct captured c;

	capture(call, (void *)line, &c);
	captured_is(&c, status, out, err);
	captured_fini(&c);
}

START_TEST(the_command_gets_what_is_behind_it)
{
	check("attach", 0, "", "heaptap: attach of 1: nothing\n");
	check("cure --help x", 0, "", "heaptap: cure of 3: --help\n");
	check("doctor status 77", 77, "", "heaptap: doctor of 3: status\n");
	/* 1 means that all is done. */
	check("run positive", 0, "", "heaptap: run of 2: positive\n");
}
END_TEST

START_TEST(the_status_of_a_failure)
{
	check("attach fail 1", 1, "", "heaptap: it failed\n");
	check("attach fail 2", 2, "", "heaptap: it failed\nheaptap: see heaptap attach --help\n");
	check("attach fail 3", 3, "", "heaptap: it failed\n");
	check("attach fail 4", 4, "", "heaptap: it failed\n");
	check("attach fail 5", 5, "", "heaptap: it failed\n");
	/* A failure that nobody named is one all the same. */
	check("attach fail 0", 1, "", "heaptap: it failed\n");
	check("run fail 4", 125, "", "heaptap: it failed\n");
	check("run fail 2", 125, "", "heaptap: it failed\nheaptap: see heaptap run --help\n");
}
END_TEST

START_TEST(help_lists_the_table)
{
	struct captured c;

	capture(call, (char *)"--help", &c);
	captured_has(&c, "\n  attach    of attach\n  run       of run\n  cure      of cure\n"
			 "  doctor    of doctor\n");
	captured_fini(&c);
	capture(call, (char *)"help cure", &c);
	ck_assert_int_eq(c.status, 0);
	captured_has(&c, "usage: heaptap cure [OPTION...] C\nof cure\n");
	captured_fini(&c);
}
END_TEST

/* What is opened must not land where people read: 0 to 2 are held, and nothing else. */
static int call_without_streams(void *line)
{
	int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10), status;

	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	status = call(line);
	dup2(kept, STDERR_FILENO);
	for (int fd = 0; fd <= 1; fd++)
		if (fcntl(fd, F_GETFD) != FD_CLOEXEC ||
		    (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY)
			ht_cmd_talk("fd %d is not held", fd);
	return status;
}

START_TEST(closed_streams_are_held)
{
	struct captured c;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), after;

	capture(call_without_streams, (char *)"attach status 9", &c);
	captured_is(&c, 9, "", "");
	captured_fini(&c);
	capture(call_without_streams, (char *)"--version", &c);
	captured_is(&c, 1, "", "");
	captured_fini(&c);
	/* With all three open nothing stays behind. */
	close(fd);
	hold_standard_streams();
	after = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(after, fd);
	close(after);
}
END_TEST

/* One process after the other may use it: nothing is kept. */
START_TEST(the_table)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		ck_assert_ptr_eq(find_command(commands[i]->name), commands[i]);
		ck_assert_uint_lt(strlen(commands[i]->name), 10);
	}
	ck_assert_ptr_null(find_command(""));
	ck_assert_ptr_null(find_command("att"));
	ck_assert_ptr_null(find_command("attachx"));
}
END_TEST

int main(void)
{
	return ht_check_run("cmd_main", (const TTest *const[]){
		the_command_gets_what_is_behind_it, the_status_of_a_failure,
		help_lists_the_table, closed_streams_are_held, the_table, NULL });
}
