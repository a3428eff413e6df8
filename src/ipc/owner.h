/* SPDX-License-Identifier: Apache-2.0
 *
 * owner.h: a word in shared memory from which others see that this thread died, however
 * it died: the kernel walks the thread's robust list at its end and sets HT_OWNER_DIED.
 */
#ifndef HT_IPC_OWNER_H
#define HT_IPC_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* Put the calling thread's id into *@word and register it; one word at a time. Until
 * ht_owner_drop() this thread must not use robust mutexes: it has only one list. The list
 * itself lies in private memory, so whoever shares the word can only change the word.
 * 0 or negative errno. */
int ht_owner_hold(uint32_t *word) _must_check_ _nonnull_;
/* False: something else than this thread's id was in the word that it holds; it is there
 * again. Whoever looked meanwhile may believe that the thread died. */
bool ht_owner_intact(uint32_t *word) _nonnull_;
/* Unregister and mark *@word as left: readers see HT_OWNER_DIED. */
void ht_owner_drop(uint32_t *word) _nonnull_;

#endif
