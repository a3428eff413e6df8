/* SPDX-License-Identifier: Apache-2.0
 *
 * allocname.h: which allocator a module is. For this folder only.
 */
#ifndef HT_INJECT_ALLOCNAME_H
#define HT_INJECT_ALLOCNAME_H

#include <stddef.h>

#include "inject/elfdyn.h"

enum ht_family {
	HT_FAMILY_OTHER,
	HT_FAMILY_GLIBC,
	HT_FAMILY_MUSL,
	HT_FAMILY_JEMALLOC,
	HT_FAMILY_TCMALLOC,
	HT_FAMILY_MIMALLOC,
};

/* Fill @name ("jemalloc 5.3.0", "glibc 2.36", "musl 1.2.3", "malloc in MODULE"). The file
 * says who it is; a liar only gets a wrong name, and counts in a wrong way by itself. */
enum ht_family ht_allocator_name(const struct ht_elfdyn *view, const char *module_name,
				 char *name, size_t cap) _nonnull_;

#endif
