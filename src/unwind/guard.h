/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.h: file mappings that survive the file being truncated. Private to unwind/.
 *
 * Reading a page that a mapped file doesn't have any more raises SIGBUS. For a guarded
 * mapping the handler puts a page of zeros there: whoever parses the file then finds it
 * malformed, which it must be ready for anyway.
 */
#ifndef HT_UNWIND_GUARD_H
#define HT_UNWIND_GUARD_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Map the first @len bytes of @fd read-only. -ENOSPC: too many at a time. */
int ht_guard_map(int fd, size_t len, const uint8_t **ret_bytes) _must_check_ _nonnull_;
void ht_guard_unmap(const uint8_t *bytes, size_t len);

#endif
