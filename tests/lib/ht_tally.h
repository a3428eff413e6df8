/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_tally.h: what became of each attach, for the table of make soak: a line appended to the
 * file that HT_TALLY names, if it is set.
 */
#ifndef HT_TESTS_HT_TALLY_H
#define HT_TESTS_HT_TALLY_H

#include <stdint.h>

#include "base/compiler.h"

/* @what: "tap", "refused" or "killed"; the stops are of a tap that came to its end, 0 where
 * they aren't known. */
void ht_tally(const char *what, unsigned stops, uint64_t stop_max_ns) _nonnull_;

#endif
