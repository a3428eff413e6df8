/* SPDX-License-Identifier: Apache-2.0
 *
 * storms.h: the parts of the target "storms". Each kind of storm starts its threads.
 */
#ifndef HT_TESTS_STORMS_H
#define HT_TESTS_STORMS_H

#include <stddef.h>

#include "rounds.h"

/* @n threads, 16 at most, that all do @round. */
void storms_start(const char *name, int n, void (*round)(void *arg));
/* A number below @below that differs from call to call; async-signal-safe. */
unsigned storms_random(unsigned below);
/* Some memory from malloc() or its kin, written to; storms_free() sees that it still holds
 * what was written. */
void *storms_alloc(void);
void storms_free(void *block);

/* storms_load.c: the locks of the loader. */
void storms_load(void);		/* dlopen, dlsym, dlclose, dl_iterate_phdr */
void storms_dlmopen(void);	/* a second libc, in a namespace of its own */
void storms_throw(void);	/* unwinding, which asks the loader */

/* storms_process.c: children. */
void storms_fork(void);		/* with handlers that allocate */
void storms_spawn(void);	/* posix_spawn, system, popen, vfork */

/* storms_stack.c: stacks that are no thread's own, and ends of threads. */
void storms_coroutine(void);	/* of 16 KiB, unmapped and mapped smaller */
void storms_altstack(void);	/* handlers that allocate on one */
void storms_cancel(void);	/* threads cancelled while they allocate */
void storms_tiny(void);		/* threads with the smallest stack there is */

/* storms_timers.c: of CPU time, which interrupt what allocates, and by new threads. */
void storms_timers(void);

#endif
