/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_patience.h: how long to wait for what comes at once unless something is broken. Time-outs
 * here are for what hangs, never for what is slow.
 */
#ifndef HT_TESTS_HT_PATIENCE_H
#define HT_TESTS_HT_PATIENCE_H

#include <stdint.h>

/* What @seconds of a machine with nothing else to do last on this one now: with five runnable
 * threads for each CPU, five times as long. */
double ht_test_patience(double seconds);
/* Long enough for sanitizers; only a broken target waits for it. For ht_deadline_passed(). */
uint64_t ht_test_deadline_ns(void);

#endif
