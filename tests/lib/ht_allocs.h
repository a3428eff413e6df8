/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_allocs.h: what this process allocates, or frees, while it has stopped a thread of another
 * one. The program is linked with -Wl,--wrap=ptrace,--wrap=waitpid.
 */
#ifndef HT_TESTS_HT_ALLOCS_H
#define HT_TESTS_HT_ALLOCS_H

#include <stdbool.h>

/* Calls of the allocator are seen: with its sanitizer's hooks, or with glibc. */
bool ht_allocs_can_watch(void);
/* From now on. */
void ht_allocs_watch(void);
/* So many times a thread was stopped since then. */
unsigned ht_allocs_stops(void);
/* So many calls there were meanwhile. Where the first ones came from goes to stderr. */
unsigned ht_allocs_made(void);

#endif
