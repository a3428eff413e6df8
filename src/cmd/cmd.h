/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd.h: what a subcommand is, and what all of them share: option tables, from which
 * --help is made, and the two ways of printing. Only this folder prints.
 */
#ifndef HT_CMD_CMD_H
#define HT_CMD_CMD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/compiler.h"
#include "base/err.h"

struct ht_option {
	int id;			/* its letter, or a number above 255 for long-only ones */
	const char *name;	/* NULL ends a table */
	const char *value;	/* "BYTES"; "[USECS]": may be left out; NULL: takes none */
	const char *help;	/* further lines after '\n' */
	/* @data is what the command gave to ht_cmd_parse(). @value is NULL when none was
	 * given. */
	int (*set)(void *data, const char *value, struct ht_err *err);
};

enum {
	HT_OPTION_LONG = 256,	/* first id without a letter */
	HT_OPTIONS_MAX = 48,	/* of one command, all tables together */
};

struct ht_command {
	const char *name;
	const char *synopsis;	/* what follows "heaptap NAME [OPTION...]" */
	const char *summary;	/* one line of the command list */
	const char *details;	/* paragraphs of --help, or NULL */
	const struct ht_option *const *options;	/* NULL-terminated list of tables */
	bool operand_ends_options;	/* what follows belongs to somebody else's program */
	/* Exit status when heaptap itself fails; 0: the value of the error's kind. */
	int failure_status;
	/* @argv[0] is the command's name. Below 0: @err says why and main prints it. */
	int (*run)(const struct ht_command *command, int argc, char **argv,
		   int *ret_status, struct ht_err *err);
};

extern const struct ht_command ht_cmd_attach;
extern const struct ht_command ht_cmd_run;
extern const struct ht_command ht_cmd_cure;
extern const struct ht_command ht_cmd_doctor;

/* parse.c */

/* Set @data by the options in @argv; *ret_operands is the first thing behind them.
 * 0: go on. 1: --help was asked for and has been printed. */
int ht_cmd_parse(const struct ht_command *command, int argc, char **argv, void *data,
		 char ***ret_operands, struct ht_err *err) _must_check_
	_nonnull_args_(1, 3, 5);
int ht_cmd_parse_pid(const char *text, int *ret_pid, struct ht_err *err) _must_check_
	_nonnull_args_(1, 2);
/* The one pid that a command works on, from the operands. */
int ht_cmd_parse_one_pid(char **operands, int *ret_pid, struct ht_err *err) _must_check_
	_nonnull_args_(1, 2);
void ht_cmd_help(const struct ht_command *command, struct ht_buf *out) _nonnull_;

/* suggest.c */

/* The one of @names that @word was probably meant to be, or NULL. */
const char *ht_cmd_suggest(const char *word, const char *const *names, size_t n)
	_nonnull_;

/* print.c */

/* A line to people: "heaptap: ..." on stderr in one write. Control characters but newlines
 * are replaced: names of programs get here. Failing is ignored, there is nobody to tell. */
void ht_cmd_talk(const char *fmt, ...) _printf_format_(1, 2);
/* Data to @fd, all of it or an error; a full disk is noticed at once. @name says what
 * @fd is in the error's text. */
int ht_cmd_write(int fd, const char *name, const void *data, size_t len,
		 struct ht_err *err) _must_check_ _nonnull_args_(2);
/* @out to stdout, whether it was built without running out of memory too. */
int ht_cmd_print(const struct ht_buf *out, struct ht_err *err) _must_check_
	_nonnull_args_(1);

/* signals.c */

/* A reader that goes away, or a limit on the size of files, is an error of write(2), not
 * our death. By a handler: an ignored signal would be handed on to a program that is
 * launched. */
void ht_signals_init(void);

#endif
