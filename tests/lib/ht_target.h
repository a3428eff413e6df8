/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_target.h: start a program of tests/targets, talk with it by lines, end it.
 *
 *	struct ht_test_target t;
 *	char line[256];
 *
 *	ck_ok(ht_test_target_start(&t, "threads", (const char *[]){ "200", NULL }));
 *	... attach to t.pid ...
 *	ck_ok(ht_test_target_ask(&t, "count", line, sizeof(line)));
 *	ck_ok(ht_test_target_stop(&t, &status));
 *
 * The protocol (tests/targets/README.md): a target prints READY when all is set up, obeys
 * lines on stdin, and exits on EOF. Everything that waits has a deadline, and a target
 * never outlives the test: Check kills its process group, and it asked for SIGKILL at
 * its parent's death. No function here prints or asserts.
 */
#ifndef HT_TESTS_HT_TARGET_H
#define HT_TESTS_HT_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/compiler.h"

struct ht_test_target {
	pid_t pid;
	int to;			/* its stdin; -1 when closed */
	int from;		/* its stdout */
	struct ht_buf pending;	/* read, but not handed out as a line yet */
	char ready[256];	/* the READY line: a target may tell more on it */
};

/* Start tests/targets/@name of the build tree (HT_BUILDDIR, or the working directory),
 * or the program at @name if that has a slash, with @args (NULL-terminated; NULL: none),
 * and wait for READY. On failure nothing runs and @ret_target needs no stop. */
int ht_test_target_start(struct ht_test_target *ret_target, const char *name,
			 const char *const args[]) _must_check_ _nonnull_args_(1, 2);
/* The same without waiting for READY, for programs that don't speak the protocol. */
int ht_test_target_spawn(struct ht_test_target *ret_target, const char *name,
			 const char *const args[]) _must_check_ _nonnull_args_(1, 2);

/* Send @line and a newline. -EPIPE when the target is gone (SIGPIPE is ignored). */
int ht_test_target_send(struct ht_test_target *target, const char *line)
	_must_check_ _nonnull_;
/* The next line of its stdout, without the newline. -ETIMEDOUT, -ENODATA at the end of
 * file, -EMSGSIZE when it doesn't fit. */
int ht_test_target_read(struct ht_test_target *target, char *line, size_t cap)
	_must_check_ _nonnull_;
/* Both. */
int ht_test_target_ask(struct ht_test_target *target, const char *line, char *reply,
		       size_t cap) _must_check_ _nonnull_;

/* Close its stdin and wait for its end; *ret_status (may be NULL) as of waitpid(2). One
 * that doesn't end by the deadline is killed: -ETIMEDOUT. */
int ht_test_target_stop(struct ht_test_target *target, int *ret_status)
	_nonnull_args_(1);
/* SIGKILL and reap. A target that was stopped already is left alone. */
void ht_test_target_kill(struct ht_test_target *target) _nonnull_;

#endif
