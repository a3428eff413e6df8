/* SPDX-License-Identifier: Apache-2.0
 *
 * traces.h: what is ours in a target. It is told by names that only we give, and by
 * journals of which every claim was checked against the memory map: what a program writes
 * into its own memory to look like one can at worst make us do nothing.
 *
 *	/memfd:heaptap:code	starts with a journal: patches to restore, ranges to unmap
 *	/memfd:heaptap:ring	with the word that tells whether its heaptap lives
 *	/memfd:heaptap:hook	loaded by dlopen, to be dlclosed
 *	stacks of borrowed threads	see ht_remote_leftover()
 *	file descriptors of these files
 *	a socket, whose inode number is in the journal; its other end is open while its heaptap
 *	lives
 */
#ifndef HT_INJECT_TRACES_H
#define HT_INJECT_TRACES_H

#include <stdbool.h>

#include "attach/target.h"
#include "base/err.h"
#include "heaptap/wire.h"
#include "unwind/space.h"

#define HT_TRACES_JOURNALS 8
#define HT_TRACES_RANGES 64
#define HT_TRACES_HOOKS 16
#define HT_TRACES_FDS 32

/* More than there is room for is left to the next look. */
struct ht_traces {
	bool own;		/* of our own tap: its heaptap lives */
	struct ht_journal *journals[HT_TRACES_JOURNALS];
	unsigned n_journals;
	/* To be unmapped, in this order, when no stack leads into them any more. The
	 * journals' blocks come last, so that there is a note as long as there is anything. */
	struct ht_journal_range ranges[HT_TRACES_RANGES];
	unsigned n_ranges;
	/* The loader's to unmap. */
	struct ht_journal_range hooks[HT_TRACES_HOOKS];
	unsigned n_hooks;
	int fds[HT_TRACES_FDS];
	unsigned n_fds;
	/* Of our own: called while the target runs, before each stop. NULL: nobody. */
	void (*on_look)(void *arg);
	void *on_look_arg;
};

/* As @space shows it, which the caller has refreshed. -ENOENT: there is nothing; -EBUSY: the
 * heaptap that it belongs to lives; -EPROTO: another version's journal. The target may run. */
int ht_traces_find(struct ht_target *target, const struct ht_space *space,
		   struct ht_traces **ret_traces, struct ht_err *err) _must_check_
	_nonnull_args_(1, 2, 3);
/* Those of a tap of our own; @journal is copied, @ring is empty if it's in the block. */
int ht_traces_of(const struct ht_journal *journal, const struct ht_journal_range *ring,
		 struct ht_traces **ret_traces) _must_check_ _nonnull_;
struct ht_traces *ht_traces_free(struct ht_traces *traces);

/* Drop what isn't mapped as ours (any more), and look for the socket again. */
void ht_traces_refresh(struct ht_traces *traces, struct ht_target *target,
		       const struct ht_space *space) _nonnull_;
/* With all threads stopped: the heaptap of one of the journals lives. */
bool ht_traces_alive(const struct ht_traces *traces, const struct ht_target *target)
	_nonnull_;
/* The refusal of a target that another heaptap taps. -EBUSY. */
int ht_traces_refuse(const struct ht_target *target, struct ht_err *err)
	_nonnull_args_(1);
/* Is @fd of the target still one of our files? */
bool ht_traces_is_our_fd(const struct ht_traces *traces, const struct ht_target *target, int fd)
	_nonnull_;

#endif
