/* SPDX-License-Identifier: Apache-2.0
 *
 * forger.h: a process that makes its own memory look as if a heaptap had been there.
 */
#ifndef HT_TESTS_FORGER_H
#define HT_TESTS_FORGER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "heaptap/wire.h"

#define FORGER_AT UINT64_C(0x510000000000)
#define FORGER_PAGE(i) (FORGER_AT + (i) * UINT64_C(4096))

struct forger {
	pid_t pid;
	int to, from;
};

/* @kinds has a letter for each page from FORGER_AT on: c of the code file, C of its start,
 * r of the ring's, h of the hook's, g an empty anonymous one, m one with data of its own,
 * x an executable anonymous one, . none. In one of the code file a thread may be, l, or one
 * that will return to there, k. The files begin with @journal and @ring (NULL: zeros).
 * @fds: it keeps the files open. The test fails if it can't be made. */
struct forger forge(const char *kinds, const struct ht_journal *journal,
		    const struct ht_ring_header *ring, bool fds) _nonnull_args_(1);
/* It lives, and its own data are untouched. */
bool forger_is_well(struct forger *forger) _nonnull_;
void forger_end(struct forger *forger) _nonnull_;

/* A journal that is in order: block @start to @end (page numbers), its gate on page @gate. */
struct ht_journal *a_journal(unsigned start, unsigned end, unsigned gate);

#endif
