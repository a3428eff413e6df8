/* SPDX-License-Identifier: Apache-2.0
 *
 * jit.h: names of code that is in no file: what compilers inside the target made.
 *
 * Such code comes, moves and goes while the target runs, so its names are taken during the
 * recording: soon after an address was first seen in a stack, and once more at the end for
 * those that had none. A name that was found once stays, whatever is at its address later.
 * Sources: what a JVM knows of its methods (unwind/hotspot.h), GDB's interface (gdbjit.c), and
 * /tmp/perf-PID.map (perfmap.c, mapfile.c).
 */
#ifndef HT_SYMBOL_JIT_H
#define HT_SYMBOL_JIT_H

#include <stdint.h>

#include "base/compiler.h"
#include "unwind/frame.h"
#include "unwind/space.h"

struct ht_jit;

/* @procfd: /proc/PID; @memfd: /proc/PID/mem, or -1; both borrowed, as is @space, which must
 * outlive the looks. @start_ticks: when the target began, as in /proc/PID/stat. What is
 * needed of its root directory is opened now, so that a target that ended has names, too. What
 * is told to GDB for unwinding gets into @space, now and at the looks. 0 or -ENOMEM. */
int ht_jit_new(int procfd, int memfd, struct ht_space *space, uint64_t start_ticks,
	       struct ht_jit **ret_jit) _must_check_ _nonnull_;
struct ht_jit *ht_jit_free(struct ht_jit *jit);

/* A frame of a stack; those of files are none of ours. 0 or -ENOMEM. */
int ht_jit_see(struct ht_jit *jit, const struct ht_frame *frame) _must_check_ _nonnull_;
/* Find names for what was seen and has none, unless that was done a moment ago. Never while
 * the target is stopped: it reads files. */
void ht_jit_look(struct ht_jit *jit) _nonnull_;
/* For the last time. The target may be gone, but may not be another program by now. */
void ht_jit_look_last(struct ht_jit *jit) _nonnull_;

/* As its source tells it, raw; lives as long as @jit. NULL: none, or never seen. @ret_kind:
 * "jit" or "java". */
const char *ht_jit_name(const struct ht_jit *jit, const struct ht_frame *frame,
			const char **ret_kind) _nonnull_;
/* Why names may be missing, for people: "there is no /tmp/perf-1.map"; or NULL. */
const char *ht_jit_reason(const struct ht_jit *jit) _nonnull_;

#endif
