/* SPDX-License-Identifier: Apache-2.0
 *
 * find.h: processes by name.
 */
#ifndef HT_CMD_FIND_H
#define HT_CMD_FIND_H

#include "base/compiler.h"
#include "base/err.h"

/* The one process whose comm, or last part of the path of its program, is @name. Not
 * exactly one: err lists them, or says so. */
int ht_find_by_name(const char *name, int *ret_pid, struct ht_err *err) _must_check_
	_nonnull_args_(1, 2);

#endif
