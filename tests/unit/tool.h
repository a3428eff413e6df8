/* SPDX-License-Identifier: Apache-2.0
 *
 * tool.h: tests that run other tools, in a directory of their own.
 */
#ifndef HT_TESTS_UNIT_TOOL_H
#define HT_TESTS_UNIT_TOOL_H

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "ht_check.h"

/* Where the programs that the tests were built with are. */
#define TOOL_INLINES "tests/unit/inlines"

static inline bool tool_present(const char *name)
{
	char command[256];

	snprintf(command, sizeof(command), "command -v %s >/dev/null 2>&1", name);
	return system(command) == 0;
}

/* The exit status. */
__attribute__((format(printf, 1, 2))) static inline int tool_run(const char *fmt, ...)
{
	char command[4096];
	va_list args;

	va_start(args, fmt);
	vsnprintf(command, sizeof(command), fmt, args);
	va_end(args);
	return system(command);
}

/* All that @command prints; the test fails when it fails. */
static inline void tool_output(const char *command, struct ht_buf *out)
{
	FILE *pipe = popen(command, "re");
	char chunk[4096];
	size_t n;

	ck_assert_ptr_nonnull(pipe);
	while ((n = fread(chunk, 1, sizeof(chunk), pipe)) > 0)
		ck_ok(ht_buf_append(out, chunk, n));
	ck_assert_int_eq(pclose(pipe), 0);
}

/* A new directory; tool_rmdir() at the end. */
static inline char *tool_mkdir(char dir[64])
{
	strcpy(dir, "/tmp/ht-unit-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	return dir;
}

static inline void tool_rmdir(const char *dir)
{
	ck_assert_int_eq(tool_run("rm -rf '%s'", dir), 0);
}

#endif
