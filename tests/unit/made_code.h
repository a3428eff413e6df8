/* SPDX-License-Identifier: Apache-2.0
 *
 * made_code.h: code made by ht_elf.h, mapped into this very process as a module, and stacks
 * made up for it: walks over frames of which every byte is known. Asserts by itself.
 *
 * The stack is no memory at all: words[] claims to be a copy of what is at MADE_STACK.
 */
#ifndef HT_TESTS_MADE_CODE_H
#define HT_TESTS_MADE_CODE_H

#include "ht_elf.h"
#include "unwind/walk-priv.h"

#define MADE_STACK UINT64_C(0x5000)
#define MADE_WORDS 512

struct made {
	struct ht_modules *modules;
	struct ht_space *space;
	struct ht_unwinder *unwinder;
	int procfd, memfd;
	uint8_t *at;		/* module address 0 */
	size_t len;
	uint64_t words[MADE_WORDS];
	struct ht_unwind_input input;
	struct ht_walk walk;
};

/* Map @image (ht_elf_build(), freed) and make an unwinder of this process. */
void made_map(struct made *made, uint8_t *image, size_t len);
/* Build and map @elf. */
void made_start(struct made *made, const struct ht_elf *elf);
void made_stop(struct made *made);

/* The address of offset @at in the text. */
uint64_t made_pc(const struct made *made, uint64_t at);
/* Set made->walk up at made_pc(@pc), with SP at the first word and BP at the third. */
void made_walk(struct made *made, uint64_t pc, bool exact);

#endif
