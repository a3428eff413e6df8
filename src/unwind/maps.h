/* SPDX-License-Identifier: Apache-2.0
 *
 * maps.h: a snapshot of /proc/PID/maps. Immutable once read.
 *
 * The text comes from the kernel but the paths in it were chosen by the target.
 */
#ifndef HT_UNWIND_MAPS_H
#define HT_UNWIND_MAPS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/addr.h"
#include "base/compiler.h"

enum ht_prot {
	HT_PROT_READ = 1 << 0,
	HT_PROT_WRITE = 1 << 1,
	HT_PROT_EXEC = 1 << 2,
	HT_PROT_SHARED = 1 << 3,
};

struct ht_area {
	ht_addr_t start;
	ht_addr_t end;
	uint64_t offset;	/* in the file */
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	unsigned prot;		/* enum ht_prot */
	bool deleted;		/* " (deleted)" was behind the path; it's cut off here */
	const char *path;	/* "" for anonymous; "[heap]" and the like as they are */
};

struct ht_maps;

/* @text needs no NUL. -EINVAL for text that isn't a maps file, -ENOMEM. */
int ht_maps_parse(const char *text, size_t len, struct ht_maps **ret_maps)
	_must_check_ _nonnull_;

/* @procfd is a directory: /proc/PID or /proc/PID/task/TID. -ESRCH when it's gone. */
int ht_maps_read(int procfd, struct ht_maps **ret_maps) _must_check_ _nonnull_;
struct ht_maps *ht_maps_free(struct ht_maps *maps);

/* Sorted by start, no overlap. */
size_t ht_maps_count(const struct ht_maps *maps) _nonnull_;
const struct ht_area *ht_maps_at(const struct ht_maps *maps, size_t i) _nonnull_;

/* The area that holds @addr, or NULL. */
const struct ht_area *ht_maps_find(const struct ht_maps *maps, ht_addr_t addr) _nonnull_;

/* A free range of @size bytes (a page multiple) no byte of which is further than @reach
 * from any byte of [@lo, @hi), as near as possible. It stays clear of page 0 to 64 KiB, of 1 MiB below any
 * [stack]-like growing area, of 1 GiB above [heap] unless nothing else is there, and of
 * addresses above the 47-bit user space. 0 when there is none. */
ht_addr_t ht_maps_gap(const struct ht_maps *maps, ht_addr_t lo, ht_addr_t hi,
		      uint64_t reach, uint64_t size) _nonnull_;

#endif
