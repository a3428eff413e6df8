/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_tool.h: heaptap at work in a process of its own, which may be made to fail or die at a
 * named point (base/fault.h), be stopped, or be killed, while the test looks on.
 *
 *	struct ht_test_work work = { .pid = t.pid, .attach = true };
 *	struct ht_test_tool tool;
 *
 *	ck_ok(ht_test_tool_start(&tool, &work, "place.map:kill@2"));
 *	ck_ok(ht_test_tool_wait(&tool));
 *	... tool.status, tool.result, tool.err ...
 */
#ifndef HT_TESTS_HT_TOOL_H
#define HT_TESTS_HT_TOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/err.h"
#include "tap/tap.h"

struct ht_test_work {
	pid_t pid;
	bool attach;		/* else: cure what was left */
	char *const *launch;	/* instead of attaching to @pid, then its end is awaited */
	int launch_out;		/* its stdout */
	enum ht_loader loader;
	enum ht_transport transport;
	uint64_t interval;	/* 0: 4096 */
	bool exact;
	uint64_t ring_size;	/* 0: 256 KiB */
	bool block;
	uint64_t serve_ms;	/* from the gate's opening to the cure; 0: until told to end */
	bool until_sampled;	/* and until there are samples, however busy the machine is */
	int trace_fd;		/* where passed fault points are written; 0: nowhere */
};

struct ht_test_tool {
	pid_t pid;
	int from, to;
	/* After ht_test_tool_wait(): */
	int status;		/* as of waitpid(2) */
	bool finished;		/* it came to its end, so that these are known: */
	int result;		/* 0 or negative errno */
	struct ht_err err;
	bool found;		/* there was something to cure */
	uint64_t samples;
	uint64_t lost_allocs;
	uint64_t lost;		/* those, and all else that was lost */
	int wait_status;	/* of the launched program */
};

int ht_test_tool_start(struct ht_test_tool *ret_tool, const struct ht_test_work *work,
		       const char *fault) _must_check_ _nonnull_args_(1, 2);
/* Until the tap is complete. -ECHILD: it ended before, wait for it. */
int ht_test_tool_await_tap(struct ht_test_tool *tool) _must_check_ _nonnull_;
/* Tell it to end the tap. */
void ht_test_tool_end(struct ht_test_tool *tool) _nonnull_;
/* Until it has ended by itself; -ETIMEDOUT: it was killed after the deadline. */
int ht_test_tool_wait(struct ht_test_tool *tool) _must_check_ _nonnull_;
/* All in one. */
int ht_test_tool_run(struct ht_test_tool *ret_tool, const struct ht_test_work *work,
		     const char *fault) _must_check_ _nonnull_args_(1, 2);

#endif
