/* SPDX-License-Identifier: Apache-2.0
 *
 * walk-priv.h: one walk up a stack, between the files that share the work:
 *
 *	unwind.c	the loop, the cache of return addresses
 *	locate.c	what is known of a pc: module, rule, special code
 *	step.c		one step by a rule of the table, by a signal frame, or by guessing
 *	java.c		the same for Java code
 *	slow.c		one step with all registers: interpreter, libunwind
 */
#ifndef HT_UNWIND_WALK_PRIV_H
#define HT_UNWIND_WALK_PRIV_H

#include <stdbool.h>
#include <string.h>

#include "unwind/hotspot.h"
#include "unwind/interp.h"
#include "unwind/libunwind.h"
#include "unwind/module-priv.h"
#include "unwind/table.h"
#include "unwind/unwind.h"

#define HT_HIDDEN_RANGES 8

/* What to do at a pc. The entry says all that is needed, but for GENERAL, where the rule
 * is looked up again. */
enum ht_pc_kind {
	HT_PC_FAST_BP_SAVED = 1 << 0,	/* BP is at CFA + bp_offset, else unchanged */
	HT_PC_FAST_CFA_BP = 1 << 1,	/* CFA is BP + cfa_offset, else SP + cfa_offset */
	HT_PC_GENERAL = 4,		/* by the rule of the table */
	HT_PC_SIGNAL,
	HT_PC_END,
	HT_PC_GAP,			/* code without unwind data */
	HT_PC_UNMAPPED,			/* no code at all */
	HT_PC_COMPILED,			/* Java: by a rule that the JVM told */
	HT_PC_INTERPRETED,		/* Java: by the frame pointer; offset is the method */
};

enum ht_pc_flags {
	HT_PC_EXACT = 1 << 0, /* a made-up return address: no call is before it */
	HT_PC_HIDDEN = 1 << 1,
	HT_PC_AFTER_CALL = 1 << 2, /* a call instruction is before it: checked */
};

struct ht_pc_entry {
	uint64_t pc;		/* a return address; 0: unused */
	uint64_t offset;	/* as in struct ht_frame */
	uint32_t module;
	int32_t cfa_offset;
	int32_t bp_offset;
	union {
		struct {
			uint16_t generation;
			uint8_t kind;	/* enum ht_pc_kind */
			uint8_t flags;	/* enum ht_pc_flags */
		};
		uint32_t state;		/* all three, to be asked at once */
	};
};
_Static_assert(sizeof(struct ht_pc_entry) == 32, "two entries a cache line");

#define HT_PC_SLOTS (1 << 14)

static inline uint32_t ht_pc_slot(uint64_t pc)
{
	/* Return addresses differ most in their low bits; modules start on
	 * page borders. */
	return (uint32_t)(pc ^ pc >> 13) & (HT_PC_SLOTS - 1);
}

/* What isn't in the maps that we know: where a frame is, or a word that might be its address. */
enum ht_purse {
	HT_PURSE_PC,
	HT_PURSE_GUESS,
	HT_PURSES
};

struct ht_unwinder {
	struct ht_space *space;
	int memfd;
	uint64_t generation;		/* of the space, as the cache knows it */
	uint64_t paid_ns[HT_PURSES];	/* until when looks at maps in vain are paid for */
	unsigned n_hidden;
	struct { ht_addr_t start, end; } hidden[HT_HIDDEN_RANGES];
	struct ht_libunwind *libunwind;	/* made when first needed */
	struct ht_hotspot *hotspot;	/* the same */
	struct ht_unwind_stats stats;
	struct ht_pc_entry cache[HT_PC_SLOTS];
};

/* Everything known about a pc, freshly looked up. */
struct ht_located {
	const struct ht_mapping *mapping;	/* NULL: unmapped */
	struct ht_rule rule;			/* for HT_PC_GENERAL */
	struct ht_pc_entry entry;
};

/* The copied stack. */
struct ht_window {
	const uint8_t *bytes;
	uint64_t base;
	uint64_t limit;		/* 8 bytes at less than this are inside */
};

struct ht_walk {
	struct ht_unwinder *unwinder;
	const struct ht_unwind_input *input;
	struct ht_window window;
	uint64_t pc, sp, bp;
	bool bp_known;
	bool exact; /* pc is an interrupted instruction, not a return address */
	bool guessed;			/* how this frame was found */
	bool refreshed;			/* the space, for this walk */
	bool java;			/* some of this walk is */
	bool switched;			/* a signal came in on another stack */
	uint32_t depth;			/* frames passed, hidden ones too */
	size_t budget;			/* of the slow steps */
	uint64_t fault_addr;		/* where a read failed */
	enum ht_stack_end end;
	/* The last frame whose registers are all known as far as can be, and how deep it
	 * is: where the slow way starts from. */
	bool full_exact;
	uint32_t full_depth;
	struct ht_interp_frame full;	/* last: half of it all */
};

/* unwind.c: the space may have been re-read. */
void ht_unwinder_sync(struct ht_unwinder *unwinder) _nonnull_;

/* Steps give true: the walk stands on the next frame; false: walk->end says why not. */

/* locate.c */
void ht_walk_locate(struct ht_walk *walk, uint64_t pc, bool exact,
		    struct ht_located *ret_located) _nonnull_;
/* @ra is code, and a call instruction ends just before it. */
bool ht_walk_after_call(struct ht_walk *walk, uint64_t ra) _nonnull_;
/* The outermost frame of a program or thread, by the looks of the code at @pc. @gap: no
 * unwind data says better. */
bool ht_code_is_outermost(const struct ht_mapping *mapping, int memfd, uint64_t pc,
			  bool gap) _nonnull_;
/* Code without unwind data that looks like musl's exit(main()) and pthread_exit(start()):
 * what a call through a pointer returned is handed on at once. In all of musl only these
 * look so, but other code may: ask only when no caller can be found. */
bool ht_code_ends_program(const struct ht_mapping *mapping, int memfd, uint64_t pc)
	_nonnull_;
/* @len bytes of code at @addr in @mapping. */
bool ht_code_read(const struct ht_mapping *mapping, int memfd, uint64_t addr,
		  uint8_t *buf, size_t len) _nonnull_;

/* step.c */
bool ht_walk_by_rule(struct ht_walk *walk, const struct ht_rule *rule) _nonnull_;
bool ht_walk_signal(struct ht_walk *walk, const struct ht_pc_entry *entry) _nonnull_;
bool ht_walk_guess(struct ht_walk *walk, const struct ht_pc_entry *entry) _nonnull_;
bool ht_walk_jumped(struct ht_walk *walk) _nonnull_;
/* Read memory: the copied stack, else what the target can't write. Sets fault_addr. */
bool ht_walk_read(struct ht_walk *walk, uint64_t addr, uint64_t *ret_value) _nonnull_;
/* Stop because memory at fault_addr isn't there. Always false. */
bool ht_walk_window_end(struct ht_walk *walk) _nonnull_;

/* java.c */
/* @located is code of no file, behind a call: say more if a JVM knows it. */
void ht_walk_locate_java(struct ht_walk *walk, struct ht_located *located) _nonnull_;
bool ht_walk_compiled(struct ht_walk *walk, const struct ht_rule *rule) _nonnull_;
bool ht_walk_interpreted(struct ht_walk *walk) _nonnull_;

/* slow.c */
bool ht_walk_slowly(struct ht_walk *walk) _nonnull_;
/* Forget all registers but pc, sp and bp: the frame that is entered was guessed. */
void ht_walk_reset_full(struct ht_walk *walk, uint32_t depth) _nonnull_;

static inline bool ht_walk_end(struct ht_walk *walk, enum ht_stack_end end)
{
	walk->end = end;
	return false;
}

/* Inside of the copied stack? @at is counted from its start. */
static inline bool ht_window_read(const struct ht_window *window, uint64_t at,
				  uint64_t *ret_value)
{
	if (unlikely(at >= window->limit))
		return false;
	memcpy(ret_value, window->bytes + at, sizeof(*ret_value));
	return true;
}

static inline bool ht_walk_peek(const struct ht_walk *walk, uint64_t addr,
				uint64_t *ret_value)
{
	return ht_window_read(&walk->window, addr - walk->window.base, ret_value);
}

#endif
