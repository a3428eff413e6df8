/* SPDX-License-Identifier: Apache-2.0
 *
 * hotspot.h: what the HotSpot JVM says about the code that it compiled or interprets: how
 * large its frames are, and which methods it is of. libjvm.so carries a description of its
 * own data structures for debuggers (vmStructs), by which they are read from outside.
 *
 * All of it is the target's word: bounded, and never believed beyond a wrong frame or name.
 */
#ifndef HT_UNWIND_HOTSPOT_H
#define HT_UNWIND_HOTSPOT_H

#include <stdint.h>

#include "base/buf.h"
#include "base/compiler.h"
#include "unwind/space.h"

struct ht_hotspot;

/* @space and @memfd (/proc/PID/mem, or -1) are borrowed. 0 or -ENOMEM. */
int ht_hotspot_new(const struct ht_space *space, int memfd, struct ht_hotspot **ret_hotspot)
	_must_check_ _nonnull_;
struct ht_hotspot *ht_hotspot_free(struct ht_hotspot *hotspot);

/* What was found may have changed: memory of code is used again. @now_ns: ht_now_ns(). */
void ht_hotspot_tick(struct ht_hotspot *hotspot, uint64_t now_ns) _nonnull_;

enum ht_java {
	HT_JAVA_NOT,		/* no JVM's, or a stub with a frame pointer */
	HT_JAVA_COMPILED,	/* a frame of so many bytes */
	HT_JAVA_INTERPRETED,	/* a frame with a frame pointer and words below it */
};

/* The code at @pc. @ret_bytes: from its SP to the caller's; return address and frame pointer
 * are the last two words of it. */
enum ht_java ht_hotspot_find(struct ht_hotspot *hotspot, ht_addr_t pc, uint32_t *ret_bytes)
	_nonnull_;

/* Append "java.lang.String.length": the method that the code at @pc was compiled from, or the
 * name of the stub there. If @pc is the last byte of a call, in a method that was compiled into
 * others: these behind it, outwards, with newlines between them. 0, -ENOENT or -ENOMEM. */
int ht_hotspot_code_name(struct ht_hotspot *hotspot, ht_addr_t pc, struct ht_buf *out)
	_must_check_ _nonnull_;
/* The same of a method by its address, as interpreted frames have it. */
int ht_hotspot_method_name(struct ht_hotspot *hotspot, ht_addr_t method, struct ht_buf *out)
	_must_check_ _nonnull_;

#endif
