/* SPDX-License-Identifier: Apache-2.0
 *
 * scan.h: does any stopped thread stand in, or hold on its stack an address of, given
 * code? The stack is read word by word, so saved contexts of signal handlers are seen too, and
 * its own stack as well while it is on another one that leads there.
 * A word alone may be what a call that is long over left in a frame: such a thread is
 * clean all the same when its stack can be walked past it, through none of the code.
 */
#ifndef HT_INJECT_SCAN_H
#define HT_INJECT_SCAN_H

#include "attach/target.h"
#include "heaptap/wire.h"
#include "unwind/space.h"

struct ht_scanner;

/* Memory is taken here, not while a target is stopped. @space and @memfd (/proc/PID/mem) are
 * borrowed. */
int ht_scanner_new(struct ht_space *space, int memfd, struct ht_scanner **ret_scanner)
	_must_check_ _nonnull_;
struct ht_scanner *ht_scanner_free(struct ht_scanner *scanner);

/* Number of threads that have such an address in [start, end) of one of @n @ranges. -ESRCH: the
 * target is gone; -ETIME: the stop would last too long. All threads must be stopped. */
int ht_scan_threads(struct ht_scanner *scanner, const struct ht_target *target,
		    const struct ht_journal_range *ranges, size_t n) _must_check_ _nonnull_;

#endif
