/* SPDX-License-Identifier: Apache-2.0
 *
 * stacks.h: the stacks of all threads of a process, as the hook would send them: from the
 * caller of the function that the thread is in, no longer than is needed.
 */
#ifndef HT_BENCH_STACKS_H
#define HT_BENCH_STACKS_H

#include "ht_stopped.h"

struct bench_stack {
	struct ht_stopped stopped;
	struct ht_unwind_input input;	/* what it points to is stopped's */
};

struct bench_stacks {
	pid_t pid;
	struct ht_modules *modules;
	struct ht_space *space;
	struct bench_stack *at;
	size_t n;
};

/* The threads stay stopped until this process ends. */
int bench_stacks_open(pid_t pid, struct bench_stacks *ret_stacks) _must_check_ _nonnull_;
/* A word of the copy, as an ht_interp_memory's read: @arg is the input. */
int bench_read_stack(void *arg, uint64_t addr, uint64_t *ret_value) _nonnull_;

#endif
