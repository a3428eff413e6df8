/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_stopped.h: a thread that the test stops by itself, and what an unwinder needs of it:
 * registers and a copy of its stack.
 */
#ifndef HT_TESTS_HT_STOPPED_H
#define HT_TESTS_HT_STOPPED_H

#include <sys/types.h>

#include "base/compiler.h"
#include "unwind/unwind.h"

struct ht_stopped {
	pid_t pid;
	pid_t tid;
	int procfd;
	int memfd;
	struct ht_unwind_input input;	/* input.stack belongs to this */
	size_t stack_cap;
};

/* Seize and stop @tid of @pid. The memory and proc fds stay good until close. */
int ht_stopped_open(pid_t pid, pid_t tid, struct ht_stopped *ret_stopped) _must_check_
	_nonnull_;
/* Read its registers and stack again, at most @max bytes of the latter. */
int ht_stopped_sample(struct ht_stopped *stopped, size_t max) _must_check_ _nonnull_;
/* Execute one instruction. 0; -ENODATA: it stopped for another reason or is gone. */
int ht_stopped_step(struct ht_stopped *stopped) _must_check_ _nonnull_;
int ht_stopped_read(const struct ht_stopped *stopped, uint64_t addr, void *buf,
		    size_t len) _must_check_ _nonnull_;
/* Let it run, and stop it again. */
void ht_stopped_resume(struct ht_stopped *stopped) _nonnull_;
int ht_stopped_stop(struct ht_stopped *stopped) _must_check_ _nonnull_;
/* Let go. */
void ht_stopped_close(struct ht_stopped *stopped) _nonnull_;

#endif
