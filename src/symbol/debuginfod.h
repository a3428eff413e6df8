/* SPDX-License-Identifier: Apache-2.0
 *
 * debuginfod.h: debug files from servers, by build-id. Only ever used when the user asked for
 * it: it goes over the network, and tells others what runs here.
 */
#ifndef HT_SYMBOL_DEBUGINFOD_H
#define HT_SYMBOL_DEBUGINFOD_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct ht_debuginfod;

struct ht_debuginfod_options {
	const char *urls;	/* separated by spaces */
	uint64_t limit_ns;	/* for all files together */
	/* Called when @module's file is asked for, then about once a second with how much of it
	 * is there (@total 0: not known). NULL: not wanted. */
	void (*progress)(void *arg, const char *module, uint64_t done, uint64_t total);
	void *arg;
};

/* Loads libdebuginfod, and sets the environment that it reads: for a process of its own. 0,
 * -ENOENT (the library isn't there) or -ENOMEM. */
int ht_debuginfod_new(const struct ht_debuginfod_options *options,
		      struct ht_debuginfod **ret_debuginfod) _must_check_ _nonnull_;
struct ht_debuginfod *ht_debuginfod_free(struct ht_debuginfod *debuginfod);
/* A file that a server has for this build-id, whatever it is. @module is its name for people.
 * An fd, -ENOENT, or -ETIME, then and ever after, when the time is over or no server answers. */
int ht_debuginfod_find(struct ht_debuginfod *debuginfod, const uint8_t *id, size_t len,
		       const char *module) _must_check_ _nonnull_;
/* Why it is asked no more, for people, or NULL. */
const char *ht_debuginfod_reason(const struct ht_debuginfod *debuginfod) _nonnull_;

#endif
