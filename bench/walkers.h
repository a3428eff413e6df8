/* SPDX-License-Identifier: Apache-2.0
 *
 * walkers.h: other people's unwinders, each made to walk a copied stack of a process whose
 * files are known, in the fastest way that it has.
 */
#ifndef HT_BENCH_WALKERS_H
#define HT_BENCH_WALKERS_H

#include "stacks.h"

#define BENCH_FRAMES 256

/* The addresses of a walk. */
struct bench_walk {
	const struct bench_stack *stack;
	uint64_t pcs[BENCH_FRAMES];
	unsigned n;
};

/* libdw: .eh_frame's rules, one question a frame. */
struct bench_libdw;
int bench_libdw_new(const struct bench_stacks *stacks, struct bench_libdw **ret_libdw)
	_must_check_ _nonnull_;
void bench_libdw_walk(struct bench_libdw *libdw, struct bench_walk *walk) _nonnull_;

/* libdwfl, as in eu-stack, but that memory and registers are the copy. */
struct bench_libdwfl;
int bench_libdwfl_new(const struct bench_stacks *stacks, struct bench_libdwfl **ret_libdwfl)
	_must_check_ _nonnull_;
void bench_libdwfl_walk(struct bench_libdwfl *libdwfl, struct bench_walk *walk) _nonnull_;

/* libunwind remote, with accessors that answer from the copy and from the files. @cached: its
 * own cache of rules is on. */
struct bench_libunwind;
int bench_libunwind_new(const struct bench_stacks *stacks, bool cached,
			struct bench_libunwind **ret_libunwind) _must_check_ _nonnull_;
void bench_libunwind_walk(struct bench_libunwind *libunwind, struct bench_walk *walk)
	_nonnull_;

#endif
