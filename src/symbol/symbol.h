/* SPDX-License-Identifier: Apache-2.0
 *
 * symbol.h: from (module, offset) to functions, files and lines, inlined calls included.
 *
 * Symbol tables first (cheap, exact names), DWARF lines and inlines by libdw, lazily and
 * once per module. Never the network unless asked: libdw would use debuginfod by itself.
 */
#ifndef HT_SYMBOL_SYMBOL_H
#define HT_SYMBOL_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/compiler.h"
#include "unwind/frame.h"
#include "unwind/module.h"

struct ht_symbols;
struct ht_jit;		/* jit.h */
struct ht_debuginfod;	/* debuginfod.h */

struct ht_symbol_options {
	/* Colon list searched for separate debug files; NULL: /usr/lib/debug. */
	const char *debug_dirs;
	bool no_lines;		/* names only: no DWARF is read */
	/* Asked for debug files that aren't here, unless no_lines; borrowed. NULL: nobody is. */
	struct ht_debuginfod *debuginfod;
	/* Names of code that is in no file, borrowed; NULL: none. */
	const struct ht_jit *jit;
};

/* One function at an address; several when calls were inlined there. */
struct ht_symbol {
	const char *name;	/* demangled; "0x1234" style text when nothing is known */
	const char *linkage_name;	/* as in the symbol table, or NULL; equal ones may be apart */
	const char *file;	/* or NULL */
	uint32_t line;		/* 0: unknown */
	uint32_t decl_line;	/* where the function starts, 0: unknown */
	bool inlined;		/* this function was inlined into the next one */
	bool unknown;		/* no name was found: name is "libx.so+0x1234" or "0x1234" */
};

/* All texts of a struct ht_symbol are clean: valid UTF-8 without control characters, and
 * of bounded length. */

/* The names point into the symbol cache and live as long as it. @modules is borrowed. */
int ht_symbols_new(const struct ht_modules *modules,
		   const struct ht_symbol_options *options, struct ht_symbols **ret_symbols)
	_must_check_ _nonnull_args_(1, 3);
struct ht_symbols *ht_symbols_free(struct ht_symbols *symbols);

/* The functions at @frame, innermost inlined one first; at least one. Looks up offset - 1
 * unless the frame is EXACT. Cached. 0 or -ENOMEM. */
int ht_symbols_lookup(struct ht_symbols *symbols, const struct ht_frame *frame,
		      const struct ht_symbol **ret_symbols, size_t *ret_n)
	_must_check_ _nonnull_;

/* Demangle a C++, Rust or D name. NULL: it isn't mangled, or too large. The caller frees. */
char *ht_demangle(const char *name) _nonnull_;

/* Append @text, of which at most @max bytes are shown, fit for terminals and formats:
 * control characters, direction overrides and bytes that aren't UTF-8 become \xNN. For
 * everything that a target or a file chose. 0 or -ENOMEM. */
int ht_symbol_clean(const char *text, size_t max, struct ht_buf *out) _nonnull_;

/* What was missing, for a hint: modules with samples but without symbols. */
bool ht_symbols_module_bare(struct ht_symbols *symbols, uint32_t module) _nonnull_;
/* Why lines or inlines are missing although something is there ("its debug sections are
 * compressed with zstd, ..."), or NULL. Only of modules that were looked up. */
const char *ht_symbols_module_reason(struct ht_symbols *symbols, uint32_t module) _nonnull_;
/* Why code that is in no file, and was looked up, has no name ("there is no
 * /tmp/perf-1.map"), or NULL. */
const char *ht_symbols_jit_reason(struct ht_symbols *symbols) _nonnull_;
/* Why debuginfod is asked no more, or NULL. */
const char *ht_symbols_debuginfod_reason(struct ht_symbols *symbols) _nonnull_;

/* Where a module's code is, for formats that tell addresses. */
struct ht_symbol_text {
	uint64_t vaddr;		/* [vaddr, end) in ELF addresses, page-aligned */
	uint64_t end;
	uint64_t file_offset;	/* of vaddr */
	bool fixed;		/* not position-independent */
};
/* False: no such module, or no code in it. */
bool ht_symbols_module_text(struct ht_symbols *symbols, uint32_t module,
			    struct ht_symbol_text *ret_text) _nonnull_;

#endif
