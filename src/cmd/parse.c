/* SPDX-License-Identifier: Apache-2.0
 *
 * parse.c: option tables to getopt_long(3) and to --help, so that the two can't differ.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"

#define HELP_COLUMN 26

static const struct ht_option help_option = {
	.id = 'h', .name = "help", .help = "print this and exit",
};

/* The tables of a command in one list, and in getopt's form. */
struct parser {
	const struct ht_option *options[HT_OPTIONS_MAX];
	size_t n;
	struct option longs[HT_OPTIONS_MAX + 1];
	char shorts[3 * HT_OPTIONS_MAX + 3];
};

static size_t list_options(const struct ht_command *command,
			   const struct ht_option *ret_options[static HT_OPTIONS_MAX])
{
	size_t n = 0;

	for (size_t t = 0; command->options && command->options[t]; t++)
		for (const struct ht_option *o = command->options[t]; o->name; o++)
			if (n < HT_OPTIONS_MAX - 1)
				ret_options[n++] = o;
	ret_options[n++] = &help_option;
	return n;
}

static void parser_init(struct parser *p, const struct ht_command *command)
{
	char *s = p->shorts;

	memset(p, 0, sizeof(*p));
	p->n = list_options(command, p->options);
	if (command->operand_ends_options)
		*s++ = '+';
	/* Tell a missing value from an unknown option, and print neither. */
	*s++ = ':';
	for (size_t i = 0; i < p->n; i++) {
		const struct ht_option *o = p->options[i];
		int takes = !o->value ? no_argument :
			    *o->value == '[' ? optional_argument : required_argument;

		p->longs[i] = (struct option){ o->name, takes, NULL, o->id };
		if (o->id >= HT_OPTION_LONG)
			continue;
		*s++ = (char)o->id;
		for (int colons = takes; colons > 0; colons--)
			*s++ = ':';
	}
}

static const struct ht_option *by_id(const struct parser *p, int id)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->options[i]->id == id)
			return p->options[i];
	return NULL;
}

/* The second option, or NULL, that begins with @bare; *ret_first is the one before it. */
static const char *second_beginning(const struct parser *p, const char *bare,
				    const char **ret_first)
{
	*ret_first = NULL;
	for (size_t i = 0; i < p->n; i++) {
		if (strncmp(p->options[i]->name, bare, strlen(bare)) != 0)
			continue;
		if (*ret_first)
			return p->options[i]->name;
		*ret_first = p->options[i]->name;
	}
	return NULL;
}

static int unknown(const struct parser *p, const char *word, struct ht_err *err)
{
	const char *names[HT_OPTIONS_MAX], *meant, *other;
	char bare[64];

	if (optopt && by_id(p, optopt))
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
				  "option --%s takes no value", by_id(p, optopt)->name);
	if (optopt)
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL, "unknown option -%c", optopt);
	for (size_t i = 0; i < p->n; i++)
		names[i] = p->options[i]->name;
	word += strspn(word, "-");
	snprintf(bare, sizeof(bare), "%.*s", (int)strcspn(word, "="), word);
	other = *bare ? second_beginning(p, bare, &meant) : NULL;
	if (other)
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
				  "option --%s is short for --%s and --%s", bare, meant,
				  other);
	meant = ht_cmd_suggest(bare, names, p->n);
	if (meant)
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
				  "unknown option --%s; did you mean --%s?", bare, meant);
	return ht_err_set(err, HT_ERR_USAGE, -EINVAL, "unknown option --%s", bare);
}

int ht_cmd_parse(const struct ht_command *command, int argc, char **argv, void *data,
		 char ***ret_operands, struct ht_err *err)
{
	_cleanup_(ht_buf_fini) struct ht_buf help = HT_BUF_INIT;
	const struct ht_option *o;
	struct parser p;
	int id, r;

	parser_init(&p, command);
	opterr = 0;
	optind = 0;	/* start anew, whatever was parsed before */
	while ((id = getopt_long(argc, argv, p.shorts, p.longs, NULL)) != -1) {
		if (id == '?')
			return unknown(&p, argv[optind - 1], err);
		if (id == ':')
			return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
					  "option --%s needs a value: %s",
					  by_id(&p, optopt)->name, by_id(&p, optopt)->value);
		o = by_id(&p, id);
		if (o == &help_option) {
			ht_cmd_help(command, &help);
			r = ht_cmd_print(&help, err);
			return r < 0 ? r : 1;
		}
		r = o->set(data, optarg, err);
		if (r < 0)
			return r;
	}
	*ret_operands = argv + optind;
	return 0;
}

int ht_cmd_parse_pid(const char *text, int *ret_pid, struct ht_err *err)
{
	char *end;
	long pid;

	errno = 0;
	pid = strtol(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end)
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL, "\"%s\" is not a process id",
				  text);
	if (errno || pid < 1 || pid > 4194304)
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
				  "\"%s\" is not a process id: they go from 1 to 4194304",
				  text);
	*ret_pid = (int)pid;
	return 0;
}

int ht_cmd_parse_one_pid(char **operands, int *ret_pid, struct ht_err *err)
{
	if (!operands[0])
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL, "which process? Give its pid");
	if (operands[1])
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
				  "one process at a time; \"%s\" is one too many",
				  operands[1]);
	return ht_cmd_parse_pid(operands[0], ret_pid, err);
}

static void help_of_option(const struct ht_option *o, struct ht_buf *out)
{
	size_t start = out->len, width;
	const char *line = o->help, *end;

	if (o->id < HT_OPTION_LONG)
		ht_buf_printf(out, "  -%c, --%s", o->id, o->name);
	else
		ht_buf_printf(out, "      --%s", o->name);
	if (o->value && *o->value == '[')
		ht_buf_printf(out, "[=%s", o->value + 1);
	else if (o->value)
		ht_buf_printf(out, "=%s", o->value);
	width = out->len - start;
	for (; line; line = end ? end + 1 : NULL) {
		end = strchr(line, '\n');
		if (width + 2 > HELP_COLUMN) {
			ht_buf_putc(out, '\n');
			width = 0;
		}
		ht_buf_printf(out, "%*s%.*s\n", (int)(HELP_COLUMN - width), "",
			      (int)(end ? (size_t)(end - line) : strlen(line)), line);
		width = 0;
	}
}

void ht_cmd_help(const struct ht_command *command, struct ht_buf *out)
{
	const struct ht_option *options[HT_OPTIONS_MAX];
	size_t n = list_options(command, options);

	ht_buf_printf(out, "usage: heaptap %s [OPTION...] %s\n", command->name,
		      command->synopsis);
	ht_buf_printf(out, "%s\n", command->summary);
	if (command->details)
		ht_buf_printf(out, "\n%s\n", command->details);
	ht_buf_puts(out, "\noptions:\n");
	for (size_t i = 0; i < n; i++)
		help_of_option(options[i], out);
}
