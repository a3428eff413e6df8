/* SPDX-License-Identifier: Apache-2.0
 *
 * watcher.h: the parts of the target "watcher". Each part has threads that look at one kind
 * of thing all the time, and tells what is wrong by rounds_bad().
 */
#ifndef HT_TESTS_WATCHER_H
#define HT_TESTS_WATCHER_H

#include <stdatomic.h>
#include <stdint.h>

#include "rounds.h"

/* watcher_cpu.c: what a CPU holds for a thread, in loops, system calls and malloc. */
void watcher_cpu_start(void);
void watcher_cpu_poke(void);	/* let the blocked calls return once */
/* What isn't looked at, as this machine has none. */
const char *watcher_cpu_lacks(void);

/* watcher_calls.c: calls with time-outs that end, calls at work, and streams. */
void watcher_calls_start(void);
void watcher_calls_stop(void);	/* give back what outlives the process */
extern atomic_ulong watcher_late;	/* time-outs that came a second late or more */
extern atomic_ulong watcher_short;	/* calls that returned with a part done */

/* watcher_self.c: what a process can ask about itself. */
void watcher_self_start(void);
/* Compare with how it was at the start. @is_tapped: its text may be patched. */
void watcher_self_look(int is_tapped);
extern atomic_ulong watcher_new_fds;	/* moments at which a file was open that isn't ours */

/* From /proc, as system calls alone do it. Cut at @cap - 1 bytes. */
long watcher_read_file(const char *path, char *text, long cap);

#endif
