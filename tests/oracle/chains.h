/* SPDX-License-Identifier: Apache-2.0
 *
 * chains.h: what programs with known chains of calls note about themselves: each function
 * its own return address, outermost first, up to malloc(), which traps while it is armed.
 * unwind_chains reads the notes there and compares them with what it finds on the stack.
 */
#ifndef HT_TESTS_CHAINS_H
#define HT_TESTS_CHAINS_H

#ifdef __cplusplus
extern "C" {
#endif

#define CHAINS_MAX 1000

enum {
	THROUGH = 1, /* called by way of a library, whose frames nobody noted */
	MAYBE = 2,   /* makes a tail call: may be gone, then its callee returns to its
			caller */
	PERHAPS = 4, /* with THROUGH: unless those were inlined */
};

struct chains_note {
	unsigned long ra, flags;
};

/* Found by its address in R11 at the trap. */
struct chains_notes {
	unsigned long n;
	unsigned long through; /* flags for malloc()'s own caller */
	struct chains_note notes[CHAINS_MAX];
};

/* Volatile: compilers know that malloc() reads none of their variables. */
extern volatile struct chains_notes chains __attribute__((visibility("hidden")));
extern volatile int chains_armed __attribute__((visibility("hidden")));
/* 1, but no compiler knows. */
extern volatile int chains_one __attribute__((visibility("hidden")));
extern volatile long chains_sink __attribute__((visibility("hidden")));

#define NOTE(how)                                                                        \
	do {                                                                             \
		chains.notes[chains.n].flags = (how);                                    \
		chains.notes[chains.n++].ra =                                            \
			(unsigned long)__builtin_return_address(0);                      \
	} while (0)

/* Trap in each malloc() that the statement makes by itself, or by way of a library. */
#define DIRECTLY(...) ARMED(0, __VA_ARGS__)
#define BY_LIBRARY(...) ARMED(THROUGH, __VA_ARGS__)
#define ARMED(how, ...)                                                                  \
	do {                                                                             \
		chains.through = (how);                                                  \
		chains_armed = 1;                                                        \
		__VA_ARGS__;                                                             \
		chains_armed = 0;                                                        \
	} while (0)

/* The part in C++. */
void chains_cxx(void);

#ifdef __cplusplus
}
#endif

#endif
