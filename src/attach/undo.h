/* SPDX-License-Identifier: Apache-2.0
 *
 * undo.h: the log of what was changed in a target, so that it can be taken back.
 *
 * An entry is made BEFORE its change: a step that fails half-way is then undone like one
 * that succeeded, and undoing what wasn't done yet does nothing. All room is taken at the
 * start, so entries can be made while the target is stopped.
 *
 *	ht_undo_new(target, 32, &undo);
 *	r = ht_undo_text(undo, addr, patched, len);	then ht_target_poke(target, addr, ...)
 *	...
 *	failed: ht_undo_play(undo, remote, &err)	done: ht_undo_forget(undo)
 */
#ifndef HT_ATTACH_UNDO_H
#define HT_ATTACH_UNDO_H

#include "attach/remote.h"

struct ht_undo;

/* Room for @entries. @target must outlive it. */
int ht_undo_new(struct ht_target *target, size_t entries, struct ht_undo **ret_undo)
	_must_check_ _nonnull_;
/* Plays nothing. */
struct ht_undo *ht_undo_free(struct ht_undo *undo);

/* All: 0, -ENOSPC when the room is used up, or what reading the target says. */

/* Up to 8 bytes of text at @addr, which will become @patched by one ht_target_poke(). They
 * are put back only if they are @patched still: somebody else may have patched since. */
int ht_undo_text(struct ht_undo *undo, ht_addr_t addr, const void *patched, size_t len)
	_must_check_ _nonnull_;
/* A mapping that a remote call is about to make. Where it is is known afterwards: tell it with
 * the set function; one never set is none. */
int ht_undo_mapping(struct ht_undo *undo, size_t *ret_slot) _must_check_ _nonnull_;
void ht_undo_set_mapping(struct ht_undo *undo, size_t slot, ht_addr_t addr, size_t len)
	_nonnull_;
/* The same for a socket with that inode number, which a remote call is about to give a
 * number. */
int ht_undo_socket(struct ht_undo *undo, uint64_t inode, size_t *ret_slot) _must_check_
	_nonnull_;
void ht_undo_set_socket(struct ht_undo *undo, size_t slot, int fd) _nonnull_;

/* Take everything back, last first, as far as possible; the log is empty then. After a failure
 * the mappings that are older stay: code that wasn't put back leads there, and the journal that
 * the first of them holds tells of the rest. Text needs a stopped thread; mappings and sockets
 * need @remote (a borrowed thread), which may be NULL if there are none (-EBUSY for them
 * otherwise). The first failure is returned. A target that is gone has nothing to undo: -ESRCH. */
int ht_undo_play(struct ht_undo *undo, struct ht_remote *remote, struct ht_err *err)
	_nonnull_args_(1);
/* Nothing is there that would have to be taken back, nor was when it failed to be: but for a
 * target that is gone. */
bool ht_undo_is_clean(const struct ht_undo *undo) _nonnull_;
/* All has worked: what was done stays. */
void ht_undo_forget(struct ht_undo *undo) _nonnull_;

#endif
