/* SPDX-License-Identifier: Apache-2.0
 *
 * inject.h: put the hook into a target and its jumps into the allocators, and take it all
 * out again.
 *
 *	think	(target runs)	hook image, addresses, stubs, journal: everything is built
 *	stop	(all threads)	one thread maps it, patches go in, the gate opens
 *	serve
 *	stop	(all threads)	gate off, bytes restored
 *	stop	(later)		unmapped, if no stack holds an address of ours twice
 */
#ifndef HT_INJECT_INJECT_H
#define HT_INJECT_INJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "attach/target.h"
#include "base/compiler.h"
#include "base/err.h"
#include "heaptap/wire.h"
#include "inject/plan.h"
#include "unwind/space.h"

struct ht_injection;

struct ht_inject_options {
	/* Load the hook by dlopen instead of mapping it. A launched target is too young for
	 * that: its hook is mapped. */
	bool dlopen;
	uint32_t flags;		/* enum ht_config_flags */
	uint64_t interval;
	uint64_t min_size;
	uint64_t max_stack;
	uint64_t block_us;
	int ring_fd;		/* memfd of the ring; HT_CONFIG_SOCKET: -1 */
	uint64_t ring_size;	/* bytes to map */
	struct ht_ring_map ring_map;	/* wherever it will be mapped */
	uint64_t socket_size;	/* HT_CONFIG_SOCKET: bytes that it should hold */
	/* Called while the target runs and is taken out: what it has still to say is to be read,
	 * and what it counted; soon its memory goes. */
	void (*on_cure)(void *arg);
	void *on_cure_arg;
};

/* A tap, in the words of wire.h, is complete when this returns: hooks in, gate open. On
 * failure the target is as it was. @target must not be stopped, unless it was launched
 * and has never run: then it stays stopped. */
int ht_inject(struct ht_target *target, struct ht_space *space, const struct ht_plan *plan,
	      const struct ht_inject_options *options, struct ht_injection **ret_injection,
	      struct ht_err *err) _must_check_ _nonnull_args_(1, 2, 3, 4, 5);

/* Take it out. The target must not have exec'd. *ret_left: code of ours had to stay mapped
 * (inert) because a thread or a patch over ours may still lead into it. Frees nothing. */
int ht_inject_cure(struct ht_injection *injection, bool *ret_left, struct ht_err *err)
	_must_check_ _nonnull_args_(1, 2);
struct ht_injection *ht_injection_free(struct ht_injection *injection);

/* Our end of the socket, which is the caller's from now on, and how many bytes it holds. */
int ht_inject_take_socket(struct ht_injection *injection, uint64_t *ret_capacity) _nonnull_;
/* Read the first @len bytes of the ring's layout in the target. */
int ht_inject_read_ring(const struct ht_injection *injection, void *buf, size_t len)
	_must_check_ _nonnull_;

/* Change the hook's flags while it runs (seccomp came). */
int ht_inject_set_flags(struct ht_injection *injection, uint32_t flags) _must_check_
	_nonnull_;
uint32_t ht_inject_flags(const struct ht_injection *injection) _nonnull_;

/* The first site in whose patch somebody has set a breakpoint, or removed one: a thread that
 * comes there runs garbage. NULL: there is none. */
const struct ht_site *ht_inject_disturbed(const struct ht_injection *injection) _nonnull_;

/* Refresh the space; look again where the kernel's own stack area is, which grows as the
 * main thread goes deeper, and tell the hook. */
int ht_inject_update_stack(struct ht_injection *injection) _nonnull_;

/* Tell the hook that unwinding needs no byte of the stack of the thread with @thread_pointer
 * from @top on; 0: not known. A thread without a slot of its own is passed over. */
int ht_inject_set_stack_top(struct ht_injection *injection, uint64_t thread_pointer,
			    uint64_t top) _nonnull_;

/* Address ranges of our code in the target, for the unwinder to pass over. */
size_t ht_inject_ranges(const struct ht_injection *injection,
			struct ht_journal_range *ranges, size_t cap) _nonnull_;

struct ht_inject_stats {
	unsigned stops;		/* of all threads */
	const struct ht_stop *log;	/* the first of them; good until the next one */
	unsigned n_log;
	uint64_t stop_max_ns, stop_total_ns;
	unsigned threads;	/* at the last stop */
};
void ht_inject_stats(const struct ht_injection *injection,
		     struct ht_inject_stats *ret_stats) _nonnull_;

/* ht_plan_new() for @target, whose @space is refreshed, and what a moment may change waited for:
 * a program that is being started, another heaptap that comes and goes. */
int ht_inject_plan(struct ht_target *target, struct ht_space *space, struct ht_plan **ret_plan,
		   struct ht_err *err) _must_check_ _nonnull_args_(1, 2, 3);

/* Is there something in @target that a killed heaptap left, or that it was forked with?
 * -EBUSY: it is of a heaptap that lives. */
int ht_inject_find_leftover(struct ht_target *target, struct ht_space *space,
			    bool *ret_found, struct ht_err *err)
	_must_check_ _nonnull_args_(1, 2, 3);

/* Take that out. *ret_found false: there is nothing. */
int ht_inject_cure_leftover(struct ht_target *target, struct ht_space *space,
			    bool *ret_found, bool *ret_left, struct ht_err *err)
	_must_check_ _nonnull_args_(1, 2, 3, 4);

#endif
