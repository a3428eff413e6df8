/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "ht_check.h"

/* What the setters were called with, in order: "all=- size=5 ". */
static struct ht_buf log_ = HT_BUF_INIT;

static int note(const char *name, const char *value)
{
	return ht_buf_printf(&log_, "%s=%s ", name, value ? value : "-");
}

static int set_all(void *data, const char *value, struct ht_err *err)
{
	++*(int *)data;
	return note("all", value);
}

static int set_size(void *data, const char *value, struct ht_err *err)
{
	if (!strcmp(value, "bad"))
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL, "--size: bad");
	return note("size", value);
}

static int set_wait(void *data, const char *value, struct ht_err *err)
{
	return note("wait", value);
}

static int set_long(void *data, const char *value, struct ht_err *err)
{
	return note("long", value);
}

static const struct ht_option first[] = {
	{ 'a', "all", NULL, "one line", set_all },
	{ 's', "size", "BYTES", "two\nlines", set_size },
	{ 0 }
};
static const struct ht_option second[] = {
	{ 'w', "wait", "[USECS]", "may have a value", set_wait },
	{ HT_OPTION_LONG, "long-name-of-it", "SOMETHING", "starts\nbelow", set_long },
	{ HT_OPTION_LONG + 1, "long-short", NULL, "no letter", set_long },
	{ 0 }
};
static const struct ht_option *const tables[] = { first, second, NULL };
static const struct ht_command command = {
	.name = "try", .synopsis = "THING", .summary = "a command for tests",
	.details = "More\nof it.", .options = tables,
};
static const struct ht_command bare = {
	.name = "bare", .synopsis = "", .summary = "nothing", .operand_ends_options = true,
};
static const struct ht_command runner = {
	.name = "runner", .synopsis = "CMD", .summary = "runs", .options = tables,
	.operand_ends_options = true,
};

static struct ht_err err;
static int flags;

/* The words of @line as arguments; "setters | operands", or the error's text. */
static const char *parse(const struct ht_command *parsed, const char *line)
{
	static char copy[512], said[1024];
	char *argv[32] = { NULL }, **operands = NULL, *save = NULL;
	int argc = 0, r;

	snprintf(copy, sizeof(copy), "%s %s", parsed->name, line);
	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	ht_buf_clear(&log_);
	ht_buf_puts(&log_, "");
	err = (struct ht_err){ HT_ERR_NONE, "" };
	r = ht_cmd_parse(parsed, argc, argv, &flags, &operands, &err);
	if (r < 0) {
		ck_assert_int_eq(err.kind, HT_ERR_USAGE);
		ck_assert_ptr_null(operands);
		return err.text;
	}
	ck_assert_int_eq(r, 0);
	ck_assert_int_eq(err.kind, HT_ERR_NONE);
	snprintf(said, sizeof(said), "%s|", log_.data);
	for (; *operands; operands++)
		snprintf(said + strlen(said), sizeof(said) - strlen(said), " %s", *operands);
	return said;
}

static void done(void)
{
	ht_buf_fini(&log_);
}

START_TEST(every_spelling)
{
	ck_assert_str_eq(parse(&command, ""), "|");
	ck_assert_str_eq(parse(&command, "-a --all --al"), "all=- all=- all=- |");
	ck_assert_int_eq(flags, 3);
	ck_assert_str_eq(parse(&command, "-s 1 -s2 -as3 --size 4 --size=5 --si=6"),
			 "size=1 size=2 all=- size=3 size=4 size=5 size=6 |");
	/* A value that may be left out is never the next word. */
	ck_assert_str_eq(parse(&command, "-w -w7 --wait --wait=8 --wait 9"),
			 "wait=- wait=7 wait=- wait=8 wait=- | 9");
	ck_assert_str_eq(parse(&command, "--long-name-of-it=-x --long-s"), "long=-x long=- |");
	ck_assert_str_eq(parse(&command, "-s -a"), "size=-a |");
	done();
}
END_TEST

START_TEST(where_options_end)
{
	ck_assert_str_eq(parse(&command, "x -a y"), "all=- | x y");
	ck_assert_str_eq(parse(&command, "x -- -a y"), "| x -a y");
	ck_assert_str_eq(parse(&command, "-"), "| -");
	ck_assert_str_eq(parse(&runner, "-a cmd -a --size 3"), "all=- | cmd -a --size 3");
	ck_assert_str_eq(parse(&runner, "-- -a"), "| -a");
	ck_assert_str_eq(parse(&bare, "x -a"), "| x -a");
	done();
}
END_TEST

/* Setters before the mistake were called, none behind it. */
START_TEST(mistakes)
{
	ck_assert_str_eq(parse(&command, "-a --size=bad -a"), "--size: bad");
	ck_assert_str_eq(log_.data, "all=- ");
	ck_assert_str_eq(parse(&command, "-a -x -a"), "unknown option -x");
	ck_assert_str_eq(log_.data, "all=- ");
	ck_assert_str_eq(parse(&command, "-s"), "option --size needs a value: BYTES");
	ck_assert_str_eq(parse(&command, "x --long-name"),
			 "option --long-name-of-it needs a value: SOMETHING");
	ck_assert_str_eq(parse(&command, "--all=3"), "option --all takes no value");
	ck_assert_str_eq(parse(&command, "--alll=3"),
			 "unknown option --alll; did you mean --all?");
	ck_assert_str_eq(parse(&command, "--=3"), "unknown option --");
	/* Each is a beginning of what is meant: not unknown, but not enough. */
	ck_assert_str_eq(parse(&command, "--long"),
			 "option --long is short for --long-name-of-it and --long-short");
	ck_assert_str_eq(parse(&bare, "--helq"), "unknown option --helq; did you mean --help?");
	/* Whatever is wrong in the middle of a word, the next parse starts anew. */
	ck_assert_str_eq(parse(&command, "-aXa"), "unknown option -X");
	ck_assert_str_eq(parse(&command, "-a y"), "all=- | y");
	done();
}
END_TEST

START_TEST(huge_words)
{
	char line[400];

	memset(line, 'x', sizeof(line));
	memcpy(line, "--", 2);
	line[sizeof(line) - 1] = '\0';
	parse(&command, line);
	ck_assert_uint_lt(strlen(err.text), 100);
	done();
}
END_TEST

START_TEST(help_is_made_of_the_tables)
{
	struct ht_buf out = HT_BUF_INIT;

	ht_cmd_help(&command, &out);
	ck_assert_str_eq(out.data,
			 "usage: heaptap try [OPTION...] THING\n"
			 "a command for tests\n"
			 "\n"
			 "More\nof it.\n"
			 "\n"
			 "options:\n"
			 "  -a, --all               one line\n"
			 "  -s, --size=BYTES        two\n"
			 "                          lines\n"
			 "  -w, --wait[=USECS]      may have a value\n"
			 "      --long-name-of-it=SOMETHING\n"
			 "                          starts\n"
			 "                          below\n"
			 "      --long-short        no letter\n"
			 "  -h, --help              print this and exit\n");
	ht_buf_clear(&out);
	ht_cmd_help(&bare, &out);
	ck_assert_str_eq(out.data, "usage: heaptap bare [OPTION...] \nnothing\n\noptions:\n"
				   "  -h, --help              print this and exit\n");
	ht_buf_fini(&out);
}
END_TEST

static int ask_for_help(void *line)
{
	char *argv[8] = { (char *)"bare" }, **operands, *save = NULL, copy[64];
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", (const char *)line);
	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	return ht_cmd_parse(&bare, argc, argv, NULL, &operands, &err) == 1 ? 7 : 8;
}

/* Printed once and to stdout, and the caller told that this was all. Behind a mistake it
 * isn't reached. */
START_TEST(help_is_printed)
{
	const char *help = "usage: heaptap bare [OPTION...] \nnothing\n\noptions:\n"
			   "  -h, --help              print this and exit\n";
	struct captured c;

	capture(ask_for_help, (char *)"-h --help", &c);
	captured_is(&c, 7, help, "");
	captured_fini(&c);
	capture(ask_for_help, (char *)"--help --xyzzy", &c);
	captured_is(&c, 7, help, "");
	captured_fini(&c);
	capture(ask_for_help, (char *)"--xyzzy --help", &c);
	captured_is(&c, 8, "", "");
	captured_fini(&c);
}
END_TEST

/* More options than HT_OPTIONS_MAX are cut off; --help is never among them. */
START_TEST(full_table)
{
	static struct ht_option many[61];
	static const struct ht_option *const list[] = { many, NULL };
	static char names[60][8];
	struct ht_command full = { .name = "full", .synopsis = "", .summary = "",
				   .options = list };
	struct ht_buf out = HT_BUF_INIT;
	size_t lines = 0;

	for (size_t i = 0; i < 60; i++) {
		static const char letters[] = "abcdefgijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					      "0123456789";

		snprintf(names[i], sizeof(names[i]), "n%zu", i);
		many[i] = (struct ht_option){ letters[i], names[i], "[X]", "help", set_wait };
	}
	ht_cmd_help(&full, &out);
	for (const char *line = strstr(out.data, "  -a"); line; line = strchr(line + 1, '\n'))
		lines++;
	ck_assert_uint_eq(lines - 1, HT_OPTIONS_MAX);
	ck_assert_ptr_nonnull(strstr(out.data, "-h, --help"));
	ck_assert_str_eq(parse(&full, "-a1 -U --n46=2"), "wait=1 wait=- wait=2 |");
	ck_assert_str_eq(parse(&full, "-X"), "unknown option -X");
	ht_buf_fini(&out);
	done();
}
END_TEST

START_TEST(pids)
{
	static const char *const bad[] = { "", " 1", "+1", "-1", "1 ", "0x1", "1e3", "0",
					   "4194305", "99999999999999999999",
					   "18446744073709551617" };
	char *none[] = { NULL }, *one[] = { (char *)"4194304", NULL },
	     *two[] = { (char *)"1", (char *)"2", NULL };
	int pid = 77;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		err = (struct ht_err){ HT_ERR_NONE, "" };
		ck_assert_int_eq(ht_cmd_parse_pid(bad[i], &pid, &err), -EINVAL);
		ck_assert_int_eq(err.kind, HT_ERR_USAGE);
	}
	ck_assert_int_eq(ht_cmd_parse_one_pid(none, &pid, NULL), -EINVAL);
	ck_assert_int_eq(ht_cmd_parse_one_pid(two, &pid, NULL), -EINVAL);
	ck_assert_int_eq(pid, 77);
	ck_ok(ht_cmd_parse_one_pid(one, &pid, NULL));
	ck_assert_int_eq(pid, 4194304);
	ck_ok(ht_cmd_parse_pid("0012", &pid, NULL));
	ck_assert_int_eq(pid, 12);
}
END_TEST

int main(void)
{
	return ht_check_run("parse", (const TTest *const[]){
		every_spelling, where_options_end, mistakes, huge_words,
		help_is_made_of_the_tables, help_is_printed, full_table, pids, NULL });
}
