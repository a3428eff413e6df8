/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.h: starting a program so that it can be tapped before its first allocation.
 */
#ifndef HT_ATTACH_LAUNCH_H
#define HT_ATTACH_LAUNCH_H

#include "attach/target.h"

/*
 * Start @argv (PATH is searched) and run it to where its libraries are mapped but none of
 * its code, constructors included, has run: the loader's consistent state with glibc,
 * the program's entry with musl and in static programs. It is returned open, with all
 * threads (its one) stopped there. It inherits the caller's signal mask, ignored signals,
 * limits and files; it isn't killed when heaptap dies.
 *
 * -ENOENT, -EACCES (or what else execvp(3) says): it can't be run; nothing is left of it.
 * After other failures it is killed, not having begun yet. -ESRCH: it ended before.
 */
int ht_launch(char *const argv[], struct ht_target **ret_target, struct ht_err *err)
	_must_check_ _nonnull_args_(1, 2);

/* Wait for the end of a launched target; its status as waitpid(2) gives it. -ECHILD for one
 * that wasn't launched. To know beforehand whether this waits: ht_target_alive(). */
int ht_target_wait(struct ht_target *target, int *ret_status) _must_check_ _nonnull_;

#endif
