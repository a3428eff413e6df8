/* SPDX-License-Identifier: Apache-2.0
 *
 * dlopen.h: load the hook the way the target's own loader would: debuggers and unwinders
 * inside the target then see through its frames. Needs a thread that holds no lock of the
 * loader or an allocator.
 */
#ifndef HT_INJECT_DLOPEN_H
#define HT_INJECT_DLOPEN_H

#include "attach/target.h"
#include "base/err.h"
#include "inject/hook_image.h"
#include "inject/plan.h"
#include "unwind/space.h"

/* Why ht_dlopen_hook() can't work in @target, which looks like @space, for people; NULL: it
 * can. */
const char *ht_dlopen_obstacle(const struct ht_target *target, const struct ht_space *space)
	_nonnull_;

/* Look for a safe thread (one candidate is stopped at a time) and let it dlopen the hook
 * from a memory file. *ret_base: where it was loaded. -EAGAIN: no thread was safe in time;
 * -ENOSYS: see ht_dlopen_obstacle(). @target must not be stopped. On failure it isn't loaded,
 * unless err says so. */
int ht_dlopen_hook(struct ht_target *target, struct ht_space *space,
		   const struct ht_plan *plan, const struct ht_hook_image *image,
		   ht_addr_t *ret_base, struct ht_err *err) _must_check_
	_nonnull_args_(1, 2, 3, 4, 5);

/* The way back, for when no stack leads into the hook at @base any more. */
int ht_dlclose_hook(struct ht_target *target, struct ht_space *space,
		    const struct ht_plan *plan, ht_addr_t base, struct ht_err *err)
	_must_check_ _nonnull_args_(1, 2, 3);

#endif
