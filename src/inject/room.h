/* SPDX-License-Identifier: Apache-2.0
 *
 * room.h: is there room in the target for what a tap maps? The kernel counts it as the
 * target's own, against limits that the target may be near to.
 */
#ifndef HT_INJECT_ROOM_H
#define HT_INJECT_ROOM_H

#include "attach/target.h"
#include "base/err.h"
#include "unwind/space.h"

/* With a ring of @ring_size bytes, and some more for what the target itself does meanwhile:
 * 0, or -ENOSPC when a limit is too near, -EMFILE that of open files. */
int ht_room_check(const struct ht_target *target, const struct ht_space *space,
		  uint64_t ring_size, struct ht_err *err) _must_check_ _nonnull_args_(1, 2);
/* It has no number left for another file: says so. -EMFILE. */
int ht_room_no_file(const struct ht_target *target, struct ht_err *err) _nonnull_args_(1);

#endif
