/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.h: the tool's half of the shared ring (layout: heaptap/wire.h), or of a socket in its
 * place.
 *
 * The target can write every byte of it at any time. The reader therefore keeps its own
 * positions, copies each head and each record once, and checks the copy.
 */
#ifndef HT_IPC_RING_H
#define HT_IPC_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/err.h"
#include "heaptap/wire.h"

#define HT_RING_SIZE_MIN (64 * 1024)
#define HT_RING_SIZE_MAX (1024 * 1024 * 1024)

struct ht_ring;

/* A new ring with @size bytes of data (a power of two between the limits), in a sealed
 * memfd whose memory is there already: a full tmpfs fails here and not by SIGBUS in the
 * target. */
int ht_ring_new(uint64_t size, struct ht_ring **ret_ring, struct ht_err *err) _must_check_
	_nonnull_args_(2);
struct ht_ring *ht_ring_free(struct ht_ring *ring);
int ht_ring_fd(const struct ht_ring *ring) _nonnull_;
/* Bytes to map. */
uint64_t ht_ring_map_size(const struct ht_ring *ring) _nonnull_;
/* As a writer must know it that has mapped it at @base. */
struct ht_ring_map ht_ring_map_at(const struct ht_ring *ring, uint64_t base) _nonnull_;
/* The word for ht_owner_hold(). */
uint32_t *ht_ring_owner_word(struct ht_ring *ring) _nonnull_;

/* Without shared memory: the layout is to lie in the target's own, of ht_ring_map_size() bytes
 * that are zero, and records come through a socket. */
int ht_ring_new_private(struct ht_ring **ret_ring, struct ht_err *err) _must_check_
	_nonnull_args_(1);
/* It was made, and is the ring's to close: our end, which holds at most @capacity bytes, as the
 * kernel counts. */
void ht_ring_set_socket(struct ht_ring *ring, int socket, uint64_t capacity) _nonnull_;
/* To be polled; -1: nothing will come through it any more. */
int ht_ring_socket(const struct ht_ring *ring) _nonnull_;
/* Reads @len bytes from the start of the layout. 0 or negative errno. */
typedef int (*ht_ring_read)(void *arg, void *buf, size_t len);
/* See who is at work and what was lost; before each drain, and ht_ring_quiesced() does so again
 * by the same means. On failure all is as it was seen
 * last. */
int ht_ring_look(struct ht_ring *ring, ht_ring_read read, void *arg) _nonnull_args_(1, 2);
/* The socket may have been full since the last good look, and something lost then. */
bool ht_ring_was_full(const struct ht_ring *ring) _nonnull_;
/* Why nothing comes any more, though the target runs. */
enum ht_ended ht_ring_ended(const struct ht_ring *ring) _nonnull_;

/* Called with a private copy of each record; its size, type and stack_len are checked.
 * A negative errno ends the drain and is returned by it. */
typedef int (*ht_ring_visit)(void *arg, const struct ht_record *record);

/* Visit what was published when the call began, lane by lane. 0 or the visitor's error. */
int ht_ring_drain(struct ht_ring *ring, ht_ring_visit visit, void *arg) _must_check_
	_nonnull_args_(1, 2);

/* Every record whose writer was at work when this last returned true (or at the start), or
 * whose realloc was under way, has been published and visited. Call it after each drain;
 * whether a writer of that time is still at work is seen by its lane's owner and head. */
bool ht_ring_quiesced(struct ht_ring *ring) _must_check_ _nonnull_;

struct ht_ring_counters {
	uint64_t records;
	uint64_t bytes;
	uint64_t lost_allocs, lost_frees, lost_bytes;	/* as the writers counted them */
	uint64_t waits;
	uint64_t drops;		/* calls that freed blocks without naming them */
	uint64_t corrupt;	/* records or positions that failed the checks */
};
void ht_ring_counters(const struct ht_ring *ring, struct ht_ring_counters *ret_counters)
	_nonnull_;

#endif
