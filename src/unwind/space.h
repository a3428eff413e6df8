/* SPDX-License-Identifier: Apache-2.0
 *
 * space.h: which module is mapped where in one target, a snapshot that is re-read when a
 * pc lies in none of its areas (dlopen, JIT) or when told to.
 */
#ifndef HT_UNWIND_SPACE_H
#define HT_UNWIND_SPACE_H

#include <stdbool.h>

#include "base/addr.h"
#include "base/compiler.h"
#include "unwind/maps.h"
#include "unwind/module.h"

struct ht_space;

/* One executable or data area of a file. */
struct ht_mapping {
	ht_addr_t start;
	ht_addr_t end;
	struct ht_module *module;	/* NULL: an executable area that is no readable ELF */
	/* module address = target address - bias, modulo 2^64. */
	uint64_t bias;
	unsigned prot;			/* enum ht_prot */
	/* Code made at run time: the module has its unwind data and module addresses are the
	 * target's, but frames in it are of no module. */
	bool made;
};

/* Read the maps of the process behind @procfd (/proc/PID or /proc/PID/task/TID, borrowed)
 * and register the modules of its file areas. Files are opened through
 * map_files/START-END, else /proc/PID/root + path (build-id compared with memory), so that
 * deleted files and other mount namespaces work. @memfd: /proc/PID/mem, borrowed, for the
 * vdso and build-id notes. */
int ht_space_new(int procfd, int memfd, struct ht_modules *modules,
		 struct ht_space **ret_space) _must_check_ _nonnull_;
struct ht_space *ht_space_free(struct ht_space *space);

/* Re-read. 1: the mappings changed (generation goes up), 0: they didn't, though memory
 * without code may have; -ESRCH: the target is gone (the old snapshot stays), or another
 * negative errno. Pointers to mappings and maps are good until then; modules stay. */
int ht_space_refresh(struct ht_space *space) _must_check_ _nonnull_;
uint64_t ht_space_generation(const struct ht_space *space) _nonnull_;

const struct ht_maps *ht_space_maps(const struct ht_space *space) _nonnull_;
/* The mapping that holds @addr, or NULL; never re-reads. */
const struct ht_mapping *ht_space_find(const struct ht_space *space, ht_addr_t addr)
	_nonnull_;
/* Unwind data of code that was made at run time and is in no file: @image (malloc, taken over
 * in any case) is an ELF file at whose executable segments' addresses the code is. Later ones
 * replace those that they overlap. The generation goes up. 0, *ret_module for taking it out
 * again; -ENOEXEC, -ENOSPC, -ENOMEM. */
int ht_space_add_made(struct ht_space *space, uint8_t *image, size_t len,
		      struct ht_module **ret_module) _must_check_ _nonnull_;
void ht_space_drop_made(struct ht_space *space, const struct ht_module *module) _nonnull_;
/* What is known of code that is in no file; not found by ht_space_find(). */
const struct ht_mapping *ht_space_find_made(const struct ht_space *space, ht_addr_t addr)
	_nonnull_;

size_t ht_space_count(const struct ht_space *space) _nonnull_;
const struct ht_mapping *ht_space_at(const struct ht_space *space, size_t i) _nonnull_;

#endif
