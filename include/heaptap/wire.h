/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.h: what the hook and the tool share: the ring with its records, the configuration
 * that the tool writes into the hook, and the journal that a later heaptap repairs from.
 *
 * Fixed width, 8-aligned, little-endian. The tool treats every byte of the ring as
 * hostile. No libc header but the freestanding ones: the hook includes this.
 */
#ifndef HEAPTAP_WIRE_H
#define HEAPTAP_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define HT_WIRE_VERSION 10
#define HT_RING_MAGIC UINT64_C(0x676e697270617468)	/* "htapring" */
#define HT_JOURNAL_MAGIC UINT64_C(0x6c6e6a7061746568)	/* "hetapjnl" */
#define HT_HOOK_MAGIC UINT64_C(0x6b6f6f6870617468)	/* "htaphook" */

/* How an entry behaves; with the argument positions of struct ht_entry that is all that
 * the hook knows of it. */
enum ht_call {
	HT_CALL_ALLOC,		/* returns a new block, NULL on failure */
	HT_CALL_ALLOC_OUT,	/* returns 0 and stores the block (posix_memalign) */
	HT_CALL_FREE,		/* returns nothing */
	HT_CALL_REALLOC,	/* old block to new; NULL: failed, old one lives */
	HT_CALL_REALLOCF,	/* the same, but a failure frees the old one */
	HT_CALL_RESIZE,		/* in place; returns the new usable size (xallocx) */
	HT_CALL_NEW,		/* as ALLOC, but throws: nothrow sibling, then tail jump */
	HT_CALL_DUP,		/* returns a new string, whose length says its size */
	HT_CALL_DROP,		/* frees blocks that it doesn't name: only counted */
	HT_CALLS
};

/*
 * The ring: one memfd, prefilled, shared between target and tool.
 *
 *	0      struct ht_ring_header	written by the tool before it is mapped, but for ...
 *	4096   lane 0: struct ht_lane	... the counters of the lanes
 *	       lane 1 ... (HT_LANE_HEADER bytes each)
 *	data_offset   lane 0 data, lane_size bytes; lane 1 data; ...
 *
 * A lane has one writer at a time (owner), and one reader. head and tail only grow; their
 * difference is the bytes in use; data wraps at lane_size, records don't: a record that
 * would cross the end is preceded by a PAD.
 *
 * Where records go through a socket instead (HT_CONFIG_SOCKET), the same layout lies in memory
 * that is the target's alone: a lane is where one record is made, and its counters are read
 * from outside. Its head and tail grow together, by lane_size for each record sent.
 */
#define HT_RING_PAGE 4096
#define HT_LANE_HEADER 256
#define HT_MAX_LANES 64

struct ht_ring_header {
	uint64_t magic;
	uint32_t version;
	uint32_t lanes;
	uint64_t lane_size;	/* a power of two */
	uint64_t data_offset;
	uint64_t size;		/* of the whole memfd */
	/* Robust futex word: the tool's thread id while it lives; the kernel sets
	 * HT_OWNER_DIED when it is gone, however it went. */
	uint32_t owner;
	uint32_t ended;		/* enum ht_ended: why the hook closed the gate by itself */
	uint32_t reserved[16];
};
_Static_assert(sizeof(struct ht_ring_header) == 112, "ring header");
#define HT_OWNER_DIED UINT32_C(0x40000000)

enum ht_ended {
	HT_ENDED_NOT,
	HT_ENDED_SOCKET,	/* the socket was closed, or isn't ours any more */
	HT_ENDED_FILTER,	/* a seccomp filter came: no system call may be made */
};

/* What a writer must know. Its own copy: the header lies where every stray write of the
 * target may hit it, and a writer that believed it then would harm the target. */
struct ht_ring_map {
	uint64_t base;		/* address of the ring */
	uint32_t lanes;
	uint32_t data_offset;
	uint64_t lane_size;
};
_Static_assert(sizeof(struct ht_ring_map) == 24, "ring map");

struct ht_lane {
	/* Writers' cache line. */
	uint64_t owner;		/* 0 free, else the writer's stack address */
	uint64_t head;		/* bytes ever published */
	uint64_t lost_allocs;	/* records that found no room */
	uint64_t lost_frees;
	uint64_t lost_bytes;	/* requested bytes of the lost allocs */
	uint64_t waits;		/* times a writer waited for room (--block) */
	uint64_t drops;		/* calls that freed blocks without naming them */
	uint64_t resizing;	/* reallocs between their two places in the order */
	/* Reader's cache line. */
	uint64_t tail;		/* bytes ever consumed */
	uint64_t pad1[23];
};
_Static_assert(sizeof(struct ht_lane) == HT_LANE_HEADER, "lane");
_Static_assert(offsetof(struct ht_lane, tail) == 64, "reader's line");

enum ht_record_type {
	HT_RECORD_PAD = 1,
	HT_RECORD_ALLOC,
	HT_RECORD_FREE,
	HT_RECORD_REALLOC,
	HT_RECORD_TYPES
};

enum ht_record_flags {
	HT_RECORD_UNTRACKED = 1 << 0,	/* not in the address set: no free will follow */
	HT_RECORD_CUT = 1 << 1,		/* more stack than was copied */
};

struct ht_record {
	uint32_t size;		/* of all of it, a multiple of 8 */
	uint16_t type;		/* enum ht_record_type */
	uint16_t flags;		/* enum ht_record_flags */
	uint64_t seq;
};
_Static_assert(sizeof(struct ht_record) == 16, "record");

struct ht_record_free {
	struct ht_record head;
	uint64_t addr;
};
_Static_assert(sizeof(struct ht_record_free) == 24, "free record");

/* ALLOC, and REALLOC, where old_addr was freed at old_seq just before. The stack follows:
 * stack_len bytes (padded to 8) from address regs.sp upward. */
struct ht_record_alloc {
	struct ht_record head;
	uint64_t addr;
	uint64_t size;		/* bytes asked for */
	uint64_t old_addr;	/* REALLOC */
	uint64_t old_seq;	/* REALLOC */
	uint64_t interval;	/* in force when the countdown was drawn; 0 exact */
	uint64_t thread;	/* thread pointer */
	uint32_t entry;		/* index of the entry in the hook's table */
	uint32_t reserved0;
	/* The caller's registers as they are after the return: pc is the return address. */
	uint64_t pc, sp, bp, bx, r12, r13, r14, r15;
	uint32_t stack_len;
	uint32_t reserved;
};
_Static_assert(sizeof(struct ht_record_alloc) == 144, "alloc record");

/* ---- what the tool writes into the hook's private memory ---- */

/* One per patched entry, in the read-only part of the stub region. */
struct ht_entry {
	uint64_t real;		/* moved first instructions, then back into the function */
	uint64_t nothrow_real;	/* HT_CALL_NEW: the sibling (its moved start, if patched) */
	uint8_t call;		/* enum ht_call */
	int8_t size_arg;
	int8_t count_arg;
	int8_t old_arg;
	int8_t out_arg;		/* ALLOC_OUT: where the block goes; NEW: the nothrow tag */
	uint8_t frameless;	/* reaches no other patched entry: needs no frame around it */
	uint16_t index;
	uint64_t reserved;
};
_Static_assert(sizeof(struct ht_entry) == 32, "entry");

enum ht_config_flags {
	HT_CONFIG_SYSCALLS = 1 << 0,	/* the target has no seccomp filter */
	HT_CONFIG_EXACT = 1 << 1,	/* every event, no address set */
	HT_CONFIG_MIN_SIZE = 1 << 2,	/* exact from min_size on, nothing below */
	HT_CONFIG_BLOCK = 1 << 3,	/* wait for room up to block_us */
	HT_CONFIG_SOCKET = 1 << 4,	/* records are sent, each as one message */
};

/* Thread table: found by thread pointer. A thread owns one of the HT_THREAD_PROBES slots
 * from its hash on for good. When they're taken it borrows one of the HT_THREAD_SPARES behind
 * the table for the length of a call: countdowns are memoryless, any thread may go on with
 * one. */
#define HT_THREAD_SLOTS 4096
#define HT_THREAD_PROBES 16
#define HT_THREAD_SPARES 64

struct ht_thread {
	uint64_t thread;	/* thread pointer, 0: free */
	uint64_t countdown;	/* bytes until the next sample */
	uint64_t interval;	/* that the countdown was drawn with */
	uint64_t mark;		/* stack address of the entry being run, 0: none */
	uint64_t block;		/* that the entry frees or resizes, 0: none */
	uint64_t random;	/* state of the generator, 0: not seeded */
	/* Written by the tool when it has seen where the thread's stack ends for unwinding:
	 * bytes from here on are not worth copying. 0: not known. */
	uint64_t stack_top;
	uint64_t reserved;
};
_Static_assert(sizeof(struct ht_thread) == 64, "thread slot");

/* Home slot of a thread; stubs and hook must agree. */
#define HT_THREAD_HASH UINT32_C(0x9e3779b1)
#define HT_THREAD_SHIFT 20	/* 32-bit product >> 20: 12 bits */
static inline uint32_t ht_thread_home(uint64_t thread)
{
	return ((uint32_t)thread * HT_THREAD_HASH) >> HT_THREAD_SHIFT;
}

/* Filter: saturating byte counters of the blocks in the set, by a hash of the address. There
 * are two. Stubs look into the front, which is small enough to stay in the cache whatever the
 * target frees, and only when that isn't sure, into the other one before it. */
#define HT_FILTER_BITS 20
#define HT_FRONT_BITS 16
#define HT_FRONT_OFFSET (1u << HT_FILTER_BITS)
#define HT_FILTER_SIZE (HT_FRONT_OFFSET + (1u << HT_FRONT_BITS))
static inline uint32_t ht_filter_index(uint64_t addr)
{
	return (uint32_t)((addr >> 4) ^ (addr >> 24)) & ((1u << HT_FILTER_BITS) - 1);
}
static inline uint32_t ht_front_index(uint64_t addr)
{
	return HT_FRONT_OFFSET + ((uint32_t)(addr >> 4) & ((1u << HT_FRONT_BITS) - 1));
}

/* Address set: buckets of 8, two choices. */
#define HT_SET_BUCKET 8

/* A socket in the target by its number, and how to tell whether that still is it. */
struct ht_socket_id {
	uint64_t fd;
	uint64_t device, inode;
};

struct ht_hook_config {
	uint64_t magic;		/* HT_HOOK_MAGIC, written by the hook's image */
	uint32_t version;
	uint32_t flags;		/* enum ht_config_flags */
	uint64_t interval;	/* mean bytes between samples */
	uint64_t min_size;
	uint64_t max_stack;	/* bytes of stack copied at most */
	uint64_t block_us;
	uint64_t seed;
	uint64_t gate;		/* address of the gate word (private, WIPEONFORK) */
	struct ht_ring_map ring;
	uint64_t threads;	/* address of the thread table */
	uint64_t filter;	/* address of the filter */
	uint64_t set;		/* address of the set */
	uint64_t set_mask;	/* buckets - 1 */
	uint64_t pid;		/* of the target, as it knows itself */
	/* The kernel's own stack area, where the main thread runs; may be changed while the
	 * hook runs: low goes down as it grows, and HT_NO_STACK ends it. */
	uint64_t stack_low;
	uint64_t stack_high;
	struct ht_socket_id socket;	/* HT_CONFIG_SOCKET */
	uint64_t reserved[2];
};
_Static_assert(sizeof(struct ht_hook_config) == 184, "hook config");
#define HT_NO_STACK UINT64_MAX	/* stack_low: reads as "nothing is there", old high or new */

/* The gate word. A gate that closed never reopens. */
#define HT_GATE_NONE 0	/* never opened; or wiped, in a child that was forked */
#define HT_GATE_ON 1
#define HT_GATE_OFF 2

/* ---- the journal: the first bytes of the file that is mapped by this name ---- */

#define HT_CODE_NAME "heaptap:code"	/* journal, stubs, hook */
#define HT_HOOK_NAME "heaptap:hook"	/* the shared object that dlopen gets */
#define HT_RING_NAME "heaptap:ring"
#define HT_JOURNAL_MAX 500

struct ht_journal_patch {
	uint64_t addr;
	uint8_t original[8];
	uint8_t patched[8];
};

struct ht_journal_range {
	uint64_t start;
	uint64_t end;
};

struct ht_journal {
	uint64_t magic;
	uint32_t version;
	uint32_t size;		/* of the mapping */
	uint32_t n_patches;	/* written before the first patch goes in */
	uint32_t n_ranges;
	uint64_t gate;		/* address of the gate word */
	uint64_t hook_config;	/* address */
	uint64_t dl_start, dl_end;	/* where dlopen put the hook; 0: it was mapped */
	uint32_t n_code;	/* the first so many ranges hold code */
	uint32_t reserved0;
	uint64_t socket;	/* inode of the socket that is to be closed, 0: none */
	struct ht_journal_range ranges[16];	/* what is ours to unmap, but for the ring */
	struct ht_journal_patch patches[HT_JOURNAL_MAX];
};
_Static_assert(sizeof(struct ht_journal) <= 4 * 4096, "journal fits its mapping");

#endif
