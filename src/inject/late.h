/* SPDX-License-Identifier: Apache-2.0
 *
 * late.h: allocators that the target loads after the plan was made, and that nobody taps.
 */
#ifndef HT_INJECT_LATE_H
#define HT_INJECT_LATE_H

#include <stddef.h>

#include "base/compiler.h"
#include "inject/plan.h"
#include "unwind/space.h"

struct ht_late;

/* What @space holds now is what @plan was made of. @space, @memfd and @plan are borrowed. */
int ht_late_new(const struct ht_space *space, int memfd, const struct ht_plan *plan,
		struct ht_late **ret_late) _must_check_ _nonnull_args_(1, 3, 4);
struct ht_late *ht_late_free(struct ht_late *late);

/* Compare @space, which others refresh, with what it held at the last look. 1: there are new
 * allocators, 0: there are none, or -ENOMEM. The target may run. */
int ht_late_look(struct ht_late *late) _must_check_ _nonnull_;
/* All so far, each module once; good until the next look. */
size_t ht_late_found(const struct ht_late *late,
		     const struct ht_module *const **ret_modules) _nonnull_;

#endif
