/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_tap.h: what stands around a reader of records that is fuzzed: the hook that writes some
 * to begin with, and the way that records go on from there, down to the ledger. The target is
 * a made one: one module at a fixed address, its unwind data made by hand.
 */
#ifndef HT_TESTS_FUZZ_TAP_H
#define HT_TESTS_FUZZ_TAP_H

#include <stdbool.h>

#include "fuzz.h"
#include "heaptap/wire.h"

/* Where the text of the module is. Each 8th byte is where a call returns to. */
#define FUZZ_TEXT UINT64_C(0x555500001000)
#define FUZZ_TEXT_LEN 4096
#define FUZZ_INTERVAL 4096	/* in force, unless it's exact */

/* What the hook writes of a few calls, by its own code. */
void fuzz_hook_writes(bool exact, void (*take)(void *arg, const struct ht_record *record),
		      void *arg);

/* The way from a reader on, begun by the first byte of an input: exact or not; no way on at
 * all, for ten times the inputs; whether numbers may lie far apart, which makes the ledger's
 * window as large as it may be, and takes long. */
#define FUZZ_EXACT 1
#define FUZZ_READER_ALONE 4
#define FUZZ_FAR 0xf0
void fuzz_tap_start(uint8_t how);
/* An ht_ring_visit; aborts if @record isn't what a reader may give. */
int fuzz_tap_record(void *arg, const struct ht_record *record);
void fuzz_tap_settle(void);
/* Aborts if the ledger's parts don't add up. */
void fuzz_tap_end(void);

#endif
