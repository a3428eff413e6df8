/* SPDX-License-Identifier: Apache-2.0
 *
 * place.h: map a layout into a stopped target, and unmap it, by remote system calls.
 */
#ifndef HT_INJECT_PLACE_H
#define HT_INJECT_PLACE_H

#include "attach/target.h"
#include "attach/undo.h"
#include "base/err.h"
#include "inject/layout.h"

/* Instead of a shared ring: what becomes of the socketpair through which the files came. */
struct ht_place_socket {
	uint64_t wanted;	/* bytes that it should hold */
	/* Set by ht_place(): */
	struct ht_socket_id id;	/* the target's end */
	int local;		/* ours, for the caller to close; -1: none */
	uint64_t capacity;	/* bytes that it holds, as the kernel counts */
};

/* Memory files that the target maps; made beforehand, while it runs. */
struct ht_place_files {
	int code;
	int ring;		/* -1: it lies in the block */
	uint64_t ring_size;
	struct ht_place_socket *socket;	/* for the caller to set; NULL: none */
};

int ht_place_files_make(const struct ht_layout *layout, int ring_fd, uint64_t ring_size,
			struct ht_place_files *ret_files, struct ht_err *err) _must_check_
	_nonnull_args_(1, 4);
/* Closes all but the ring. */
void ht_place_files_fini(struct ht_place_files *files) _nonnull_;

/* Let stopped thread @i map everything. The files travel over a socketpair that exists
 * for the length of this call; no fd of ours is left when it returns, but for the socket that
 * was asked for. What is done goes
 * into @undo; on failure it was taken back. -EEXIST: an address was taken meanwhile, plan anew. */
int ht_place(struct ht_target *target, size_t i, const struct ht_layout *layout,
	     const struct ht_place_files *files, struct ht_undo *undo, ht_addr_t *ret_ring,
	     struct ht_err *err) _must_check_ _nonnull_args_(1, 3, 4, 5, 6);

/* Let stopped thread @i take back all that @undo holds. */
int ht_place_undo(struct ht_target *target, size_t i, struct ht_undo *undo,
		  struct ht_err *err) _must_check_ _nonnull_args_(1, 3);

#endif
