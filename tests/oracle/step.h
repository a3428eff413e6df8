/* SPDX-License-Identifier: Apache-2.0
 *
 * step.h: what the parts of unwind_step share: a program that is run one instruction at a
 * time (step_program.c), and comparisons on the way (step_compare.c).
 */
#ifndef HT_TESTS_STEP_H
#define HT_TESTS_STEP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/user.h>

#include <Zydis/Zydis.h>

#include "ht_stopped.h"
#include "shadow.h"
#include "unwind/live.h"
#include "unwind/unwind.h"

#define STACK_MAX ((size_t)8 << 20)
#define INSNS (1u << 19)	/* slots of the cache */

/* What became of a comparison. All but WRONG is as it should be, for the reason given. */
enum verdict {
	RIGHT,
	/* Code without unwind data whose frame pointer is no help (crti.o's _init and _fini):
	 * the walk ends there and says so, and all that it found is right. */
	NO_CFI,
	/* The same, but the frame pointer, that of its caller, looked like a help: the frame is
	 * marked as guessed, and the one that was left out is in such code or called it. */
	MISGUESSED,
	/* The rest is on the stack that the signal interrupted, of which there is no copy. */
	SWITCHED,
	/* The walker for threads that are to be borrowed, which may refuse any: what it found
	 * is right, and it doesn't say that this is all. */
	GAVE_UP,
	/* In __longjmp() and swapcontext(). When the former is about to set SP, its unwind data
	 * is that of the frame that it goes to: the callers found have to be those there were
	 * behind its jump. Between the setting of SP and the jump that of both is of no use. */
	LEAPING,
	/* libgcc's unwinder has begun to put the registers and the return address of the frame
	 * that catches over those of its own frame, which it then left for there: no unwind
	 * data can say how far it got. */
	LANDING,
	WRONG,
	VERDICTS
};

struct insn {
	uint64_t pc;		/* 0: free */
	uint8_t kind;		/* enum shadow_insn */
	uint8_t len;
	uint8_t seen;		/* comparisons here */
	bool is_syscall;
};

struct options {
	uint64_t steps, window, calls, max;
	long until;
	unsigned every;
	bool quiet;
};

/* Comparisons that were wrong unless the program leaps next. */
struct doubt {
	uint64_t n;		/* 0: there is none */
	enum verdict verdict;	/* LEAPING or LANDING, if it does */
	uint64_t since, leaps;
	unsigned floor;		/* LANDING: decided when so few frames are left */
	struct ht_stack stack;
	char *text;
};

struct tracer {
	struct options options;
	struct ht_stopped stopped;
	struct ht_modules *modules;
	struct ht_space *space;
	struct ht_unwinder *unwinder;
	struct ht_live *live;
	struct user_regs_struct regs;
	struct shadow shadow;
	struct insn insns[INSNS];
	unsigned n_insns;
	bool stale;		/* code was mapped */
	ZydisDecoder decoder;
	int signal;		/* to be delivered with the next step */
	int status;		/* how the program ended */
	bool ended;
	struct doubt doubt;
	uint64_t n_steps, compared, as_hooked, as_live, places, frames, windows, baseless;
	uint64_t rewritten;
	uint64_t verdicts[VERDICTS];
	unsigned printed;
};

/* step_program.c. All that give false: the program has ended. */
int step_start(struct tracer *tracer, char **argv) _must_check_ _nonnull_;
bool step_once(struct tracer *tracer) _must_check_ _nonnull_;
/* At full speed, for so many system calls, or to the first of number @nr; -1: to none. */
bool step_free(struct tracer *tracer, uint64_t calls, long nr) _must_check_ _nonnull_;
/* Read the registers; make the stack that they are on the shadow's, without frames. */
bool step_look(struct tracer *tracer) _must_check_ _nonnull_;
/* Let it go on to its end, or, if @now, end it. The wait status. */
int step_finish(struct tracer *tracer, bool now) _nonnull_;
/* The instruction at @pc, decoded once. */
struct insn *step_insn(struct tracer *tracer, uint64_t pc) _nonnull_;

/* step_compare.c. @called: the step was a call. */
void step_compare(struct tracer *tracer, bool called) _nonnull_;
void step_forget_doubt(struct tracer *tracer) _nonnull_;

#endif
