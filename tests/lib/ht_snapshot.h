/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_snapshot.h: the sentinel of "no trace": what a process looks like from outside,
 * before a tap and after it.
 *
 *	struct ht_snapshot *before, *after;
 *	struct ht_buf why = HT_BUF_INIT;
 *
 *	ck_ok(ht_snapshot_take(pid, &before));
 *	... attach, record, detach ...
 *	ck_ok(ht_snapshot_take(pid, &after));
 *	ck_assert_msg(!ht_snapshot_compare(before, after, 0, &why), "%s", why.data);
 *
 * A snapshot holds the signal fields, tracer, seccomp and state of each thread, the
 * address space, the open files, and a copy of all code and constants of files. It reads /proc
 * by itself and uses nothing of the code under test. Take both while the target waits
 * for a line of the test; what it does meanwhile by itself is a difference too.
 */
#ifndef HT_TESTS_HT_SNAPSHOT_H
#define HT_TESTS_HT_SNAPSHOT_H

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/compiler.h"

struct ht_snapshot;

/* What a comparison passes over, for targets that change by themselves. */
enum ht_snapshot_ignore {
	HT_SNAPSHOT_ANON = 1 << 0,	/* unnamed memory: heaps that grow */
	HT_SNAPSHOT_THREADS = 1 << 1,	/* threads that come and go */
	HT_SNAPSHOT_FDS = 1 << 2,
	HT_SNAPSHOT_FILES = 1 << 3,	/* mapped files: libraries it loads itself */
};

/* -ESRCH when @pid is gone. */
int ht_snapshot_take(pid_t pid, struct ht_snapshot **ret_snapshot) _must_check_
	_nonnull_;
struct ht_snapshot *ht_snapshot_free(struct ht_snapshot *snapshot);

/* Number of differences, each a line in @why (which is appended to). Mappings with
 * "heaptap:" in their name may be left behind (see ht_snapshot_leftovers()), [heap] and
 * [stack] may grow; a mapping that was cut in pieces but is the same in sum is equal. */
size_t ht_snapshot_compare(const struct ht_snapshot *before,
			   const struct ht_snapshot *after, unsigned ignore,
			   struct ht_buf *why) _nonnull_;

/* Bytes of mappings that carry our name. */
size_t ht_snapshot_leftovers(const struct ht_snapshot *snapshot) _nonnull_;

#endif
