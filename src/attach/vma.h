/* SPDX-License-Identifier: Apache-2.0
 *
 * vma.h: the one mapping that holds an address, found without allocating: for questions
 * that come up while the target is stopped.
 */
#ifndef HT_ATTACH_VMA_H
#define HT_ATTACH_VMA_H

#include <stdbool.h>

#include "base/addr.h"
#include "base/compiler.h"

struct ht_vma {
	ht_addr_t start;
	ht_addr_t end;
	bool writable;
	bool is_stack;	/* the main thread's, "[stack]" */
};

/* @procfd: /proc/PID or a thread's directory. -ENOENT when nothing is mapped there. */
int ht_vma_find(int procfd, ht_addr_t addr, struct ht_vma *ret_vma) _must_check_ _nonnull_;
/* By reading the text of the maps, as kernels before 6.11 need it; for tests. */
int ht_vma_find_in_text(int procfd, ht_addr_t addr, struct ht_vma *ret_vma) _must_check_
	_nonnull_;

#endif
