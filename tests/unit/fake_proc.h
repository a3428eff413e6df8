/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_proc.h: a target that is no process: its /proc files and its memory are files that
 * the test writes. For the parts of attach/ that only read. Asserts by itself.
 */
#ifndef HT_TESTS_FAKE_PROC_H
#define HT_TESTS_FAKE_PROC_H

#include "attach/attach-priv.h"

struct fake_proc {
	struct ht_target target;
	char dir[32];
};

void fake_proc_start(struct fake_proc *fake);
void fake_proc_stop(struct fake_proc *fake);
/* The file @name in /proc/PID, which may have a folder before it. */
void fake_proc_put(struct fake_proc *fake, const char *name, const void *data, size_t len);
void fake_proc_text(struct fake_proc *fake, const char *name, const char *text);
/* @len bytes of memory at @addr. What isn't written is 0, up to the highest byte that
 * is; behind that there is nothing. */
void fake_proc_poke(struct fake_proc *fake, ht_addr_t addr, const void *data, size_t len);

#endif
