/* SPDX-License-Identifier: Apache-2.0
 *
 * capture.h: run a part of the command line in a child and see what a user would.
 */
#ifndef HT_TESTS_UNIT_CAPTURE_H
#define HT_TESTS_UNIT_CAPTURE_H

#include <stddef.h>

#include "cmd/cmd.h"

struct captured {
	struct ht_buf out, err;
	int status;	/* the exit status; 128 + N: signal N */
};

/* @act in a child whose stdout and stderr are files; what it returns is its exit status.
 * It can't fail a test: it tells by what it returns and prints. Fills @ret anew. */
void capture(int (*act)(void *arg), void *arg, struct captured *ret);
/* A command as main() calls it; the arguments behind its name, then NULL. */
void capture_command(struct captured *ret, const struct ht_command *command, ...)
	__attribute__((sentinel));
void captured_fini(struct captured *captured);

/* One of them is exactly @text, or holds it. The test fails with both shown. */
void captured_is(const struct captured *captured, int status, const char *out,
		 const char *err);
void captured_has(const struct captured *captured, const char *text);
void captured_has_not(const struct captured *captured, const char *text);

#endif
