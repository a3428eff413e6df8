/* SPDX-License-Identifier: Apache-2.0
 *
 * loader.h: what a program that was just exec'ed says about its dynamic loader: only memory
 * is read, nothing has run yet.
 */
#ifndef HT_ATTACH_LOADER_H
#define HT_ATTACH_LOADER_H

#include <stdbool.h>

#include "attach/target.h"

struct ht_ldso {
	ht_addr_t entry;	/* of the program */
	ht_addr_t base;		/* of the loader, 0: static */
	ht_addr_t brk;		/* _dl_debug_state, 0: not glibc's loader */
	ht_addr_t debug;	/* _r_debug */
};

enum ht_ldso_state {
	HT_LDSO_CONSISTENT,
	HT_LDSO_ADDS,
	HT_LDSO_DELETES,
};

int ht_ldso_read(const struct ht_target *target, struct ht_ldso *ret_loader)
	_must_check_ _nonnull_;
/* r_state; valid from the first call of brk on. */
int ht_ldso_state(const struct ht_target *target, const struct ht_ldso *loader,
		    enum ht_ldso_state *ret_state) _must_check_ _nonnull_;

#endif
