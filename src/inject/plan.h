/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.h: which entries of which allocators are to be patched, thought out completely while
 * the target runs: symbols, aliases, IFUNCs, decoding, refusals.
 */
#ifndef HT_INJECT_PLAN_H
#define HT_INJECT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/addr.h"
#include "base/compiler.h"
#include "base/err.h"
#include "heaptap/wire.h"
#include "unwind/space.h"

/* One function name that allocators export, and how it is called. Argument positions count
 * from 0; -1: none. The table is in entries.c. */
struct ht_entry_kind {
	const char *name;
	enum ht_call call;	/* wire.h */
	int8_t size_arg;	/* bytes asked for ... */
	int8_t count_arg;	/* ... times this */
	int8_t old_arg;		/* the block freed or resized */
	int8_t out_arg;		/* where the result is stored (posix_memalign) */
	bool is_operator;	/* C++ operator: patched only in modules that define malloc */
	const char *nothrow;	/* sibling for entries that throw */
};

extern const struct ht_entry_kind ht_entry_kinds[];
/* A kind that is never patched: its sources say that another entry does all of its work. */
#define HT_CALL_INDIRECT HT_CALLS

extern const size_t ht_entry_kinds_len;

/* One address to patch. */
struct ht_site {
	const struct ht_entry_kind *kind;
	char names[128];	/* "free, cfree, __libc_free" */
	struct ht_module *module;
	ht_addr_t addr;		/* of the function in the target */
	uint64_t size;		/* bytes of the function */
	/* Of the sibling, bare jumps to a patched entry followed; 0: needs none. */
	ht_addr_t nothrow_addr;
	uint8_t original[16];	/* bytes at addr, the same in file and memory */
	enum ht_insn_refusal refusal;
	const char *refused;	/* NULL: will be patched; else why not, for people */
	/* malloc, free and what reaches no other site; only ever ALLOC, NEW and FREE. */
	bool frameless;
	bool counted;		/* refused, but what it calls is patched, and counts */
};

struct ht_allocator {
	struct ht_module *module;
	uint64_t bias;		/* as in struct ht_mapping */
	char name[64];		/* "jemalloc 5.3.0", "glibc 2.36", "musl", "malloc in APP" */
	unsigned n_sites;	/* patched */
	unsigned n_refused;
	const char *left_out;	/* why it is left out as a whole, for people; NULL: it isn't */
	unsigned n_unseen;	/* of these, not counted; all of them when n_sites is 0 */
};

struct ht_plan {
	struct ht_site *sites;
	size_t n_sites;
	struct ht_allocator *allocators;
	size_t n_allocators;
};

/* Look through all modules of @space. @procfd/@memfd as in ht_space_new(). Refuses
 * (HT_ERR_UNSUPPORTED) sanitizers and Valgrind, and when no malloc that can be patched is
 * found: err goes on from "can't tap PID (NAME): "; a module of which
 * malloc or free is refused is left alone whole (one without the other would lie). An
 * allocator left out is in the plan as long as another one isn't: say so to the user. */
int ht_plan_new(const struct ht_space *space, int memfd, struct ht_plan **ret_plan,
		struct ht_err *err) _must_check_ _nonnull_args_(1, 3);
/* The same for a target in which the patches of @tapped are, as if they weren't. */
int ht_plan_again(const struct ht_space *space, int memfd, const struct ht_plan *tapped,
		  struct ht_plan **ret_plan, struct ht_err *err) _must_check_
	_nonnull_args_(1, 3, 4);
struct ht_plan *ht_plan_free(struct ht_plan *plan);

/* elfsym.c: a symbol of a module, dynamic table first, then .symtab. -ENOENT. The default
 * version is preferred where there are several. */
struct ht_elf_symbol {
	uint64_t value;		/* ELF virtual address */
	uint64_t size;		/* where the file says 0: up to the next symbol */
	bool ifunc;
	bool object;
};
int ht_elf_symbol(const struct ht_module *module, const char *name,
		  struct ht_elf_symbol *ret_symbol) _must_check_ _nonnull_;

#endif
