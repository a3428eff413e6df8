/* SPDX-License-Identifier: Apache-2.0
 *
 * hook.h: between the files of the hook, the code that runs inside the target.
 *
 * Rules (DESIGN: the hook's rules): freestanding, no import, no TLS, no constructor, no
 * thread, no allocation; no system call unless the tool allowed it; errno untouched;
 * small frames; a full table or ring counts and passes through.
 */
#ifndef HT_HOOK_HOOK_H
#define HT_HOOK_HOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/x86_64/hook_arch.h"
#include "base/compiler.h"
#include "heaptap/wire.h"

#pragma GCC poison malloc calloc realloc free exit abort assert printf errno

/* Written by the tool, read-only here but for flags that it may change while we run. */
extern struct ht_hook_config ht_hook_config;

/* hook.c: see hook_entry.S. */
uint64_t ht_hook_dispatch(struct ht_hook_frame *frame);

/* thread.c: the calling thread's state, claimed when it has none. NULL: no slot is free.
 * *ret_borrowed: give it back by ht_thread_return() before leaving. */
struct ht_thread *ht_thread_get(uint64_t thread, bool *ret_borrowed);
/* Only look. */
struct ht_thread *ht_thread_find(uint64_t thread);
void ht_thread_return(struct ht_thread *thread);
/* Draw the countdown to the next sample. */
void ht_thread_draw(struct ht_thread *thread);

/* set.c: the addresses of live blocks that were recorded. */
bool ht_set_insert(uint64_t addr);
bool ht_set_remove(uint64_t addr);
/* Take @addr out but keep its place: followed by ht_set_unhide() (back in) or
 * ht_set_drop() (gone). For a realloc, which may fail after the fact. */
bool ht_set_hide(uint64_t addr);
void ht_set_unhide(uint64_t addr);
void ht_set_drop(uint64_t addr);

/* Bytes of each lane that are kept for frees that have a place in the order already: others
 * can wait, or come after the recording's end; without these a block would be there twice. */
#define HT_LANE_KEEP 1024

/* record.c: make a record and publish it. False: it was lost, and counted. Its place in time
 * is taken when it has room in the ring. A free may have taken its place before: @seq,
 * else 0. There is room kept for those. */
struct ht_event {
	uint64_t addr;
	uint64_t size;
	uint64_t old_addr;	/* 0: no REALLOC */
	uint64_t old_seq;
	uint64_t interval;
	uint16_t flags;		/* enum ht_record_flags */
};
bool ht_record_alloc(const struct ht_event *event, const struct ht_hook_frame *frame);
bool ht_record_free(uint64_t addr, uint64_t seq);
uint64_t ht_next_seq(void);
/* The same for the first of a realloc's two places. The reader waits for the second until
 * ht_record_resized(). */
uint64_t ht_record_resize(void);
void ht_record_resized(void);
/* send.c: HT_CONFIG_SOCKET. Closes the gate when nothing can be sent any more. */
enum ht_sent {
	HT_SENT,
	HT_SENT_FULL,		/* no room now */
	HT_SENT_NOT,		/* nor will it be later */
};
enum ht_sent ht_send(const struct ht_record *record);

/* Count a call that could not be looked at. */
void ht_record_lost_alloc(uint64_t size);
void ht_record_lost_free(void);
/* Count a call that frees nobody knows what. */
void ht_record_drop(void);

/* The gate: private to the process, wiped in a child with its own memory. Closes it for
 * good when heaptap is gone. */
bool ht_gate_open(void);
/* This is a child that a signal handler has forked in the middle of what its parent did here,
 * and that returned from it: the ring isn't there. */
bool ht_gate_wiped(void);

/* The tool allows system calls. */
static inline bool ht_hook_may_call(void)
{
	return __atomic_load_n(&ht_hook_config.flags, __ATOMIC_RELAXED) & HT_CONFIG_SYSCALLS;
}

static inline struct ht_ring_header *ht_ring(void)
{
	return (struct ht_ring_header *)ht_hook_config.ring.base;
}

#endif
