/* SPDX-License-Identifier: Apache-2.0
 *
 * shadow.h: the return addresses that a thread has on its stack, kept from what each of
 * its instructions does. It knows nothing of unwind data.
 *
 * A call pushes an address, which lives until SP has risen above it: by a return, or by
 * longjmp() or an exception for many at once. Tail calls, the stubs of the linker and the
 * loader's lazy binding jump and leave the address alone.
 */
#ifndef HT_TESTS_SHADOW_H
#define HT_TESTS_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define SHADOW_MAX 8192
#define SHADOW_STACKS 4

enum shadow_insn { SHADOW_OTHER, SHADOW_CALL, SHADOW_RET, SHADOW_SIGRETURN };

enum shadow_kind {
	SHADOW_CALLED,	    /* pc is a return address */
	SHADOW_TRAMPOLINE,  /* pc is where a signal handler returns to */
	SHADOW_INTERRUPTED, /* pc is where the signal came */
};

struct shadow_frame {
	uint64_t pc;
	uint64_t called; /* pc as it was when it came there */
	uint64_t at; /* dead when SP is above; UINT64_MAX: believed, not seen */
	enum shadow_kind kind;
};

struct shadow_step {
	enum shadow_insn insn;
	uint64_t next; /* the address behind the instruction */
	uint64_t old_pc, old_sp, pc, sp;
};

struct shadow_stats {
	uint64_t calls, returns, signals, sigreturns, leaps, getpc, held;
	uint64_t pushed_returns; /* a return that no call belongs to: push, ret */
	uint64_t replaced;	 /* returned elsewhere than the call came from */
	uint64_t foreign;	 /* steps on stacks that nobody told of */
	uint64_t lost;		 /* leaps past frames that were there before */
	uint64_t believed;	 /* frames from before, which were returned to */
	uint64_t wrong;		 /* returned elsewhere than believed */
};

struct shadow {
	struct shadow_frame frames[SHADOW_MAX]; /* outermost first */
	unsigned n;
	/* Alternate signal stacks above the first. */
	struct {
		uint64_t lo, hi;
		unsigned floor;
	} stacks[SHADOW_STACKS];
	unsigned n_stacks;
	bool foreign;  /* SP is on none of them: all bets are off */
	bool lost;     /* the same, to the end of the window */
	/* SP was set to an older frame, where a jump is about to go. */
	bool leaping;
	/* A return address that was popped into a register: vfork(). */
	struct shadow_frame held;
	unsigned held_for; /* steps left to believe it; 0: there is none */
	struct shadow_stats stats;
};

/* No frames, on a stack [@lo, @hi). The figures stay. */
void shadow_start(struct shadow *shadow, uint64_t lo, uint64_t hi) _nonnull_;
/* A frame that was there before, innermost last. */
void shadow_believe(struct shadow *shadow, uint64_t pc, enum shadow_kind kind) _nonnull_;
void shadow_step(struct shadow *shadow, const struct shadow_step *step) _nonnull_;
/* The kernel made a frame for a signal at @sp, which returns to @trampoline and then to
 * @interrupted; [@lo, @hi): the alternate stack, if there is one. */
void shadow_signal(struct shadow *shadow, uint64_t sp, uint64_t trampoline,
		   uint64_t interrupted, uint64_t lo, uint64_t hi) _nonnull_;
/* Frames that the thread will return to, outermost first; 0 while nothing is known. */
bool shadow_known(const struct shadow *shadow) _nonnull_;

#endif
