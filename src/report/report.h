/* SPDX-License-Identifier: Apache-2.0
 *
 * report.h: what was recorded, written for people and for other tools. One formatter a
 * file behind one table. Formatters fill a buffer; the caller writes it out.
 */
#ifndef HT_REPORT_REPORT_H
#define HT_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/compiler.h"
#include "base/err.h"
#include "ledger/ledger.h"
#include "symbol/symbol.h"
#include "unwind/module.h"

/* A function of an allocator, or all of a module, that could not be tapped. */
struct ht_untapped {
	const char *names;	/* "mi_valloc, valloc"; NULL: nothing of the module is tapped */
	const char *module;
	const char *why;	/* for people; NULL: it came late */
	bool counted;		/* all the same, by what it calls */
	const char *late;	/* "loaded" or "loaded again" during the recording; else NULL */
};

/* Everything a formatter may say about the recording besides the ledger. A figure that
 * wasn't measured is 0 and has_... false; formatters then print nothing for it. */
struct ht_recording {
	const char *command;	/* "redis-server" */
	const char *exe;	/* path as the target sees it */
	int pid;
	const char *allocators;	/* "jemalloc 5.3.0, libc" or NULL */

	uint64_t start_unix_ns;	/* the ledger's times count from here */
	uint64_t duration_ns;
	uint64_t interval;	/* mean bytes between samples; 0: exact */
	uint64_t min_size;	/* 0: not used */
	uint64_t samples;
	bool launched;		/* tapped before its first allocation */
	const char *ended;	/* why: "duration over", "target exited", ... or NULL */

	unsigned stops;		/* how often all threads were stopped, and how long */
	uint64_t stop_max_ns;
	uint64_t stop_total_ns;
	unsigned threads;
	bool left;		/* code of ours is mapped there still, out of use */

	/* Losses: all zero means complete. */
	uint64_t lost_allocs;	/* ring full, no lane free */
	uint64_t lost_frees;
	uint64_t lost_corrupt;	/* records that failed validation */
	uint64_t untracked;	/* sampled, but the address table was full */
	uint64_t drops;		/* calls that freed blocks without naming them */
	const char *successor;	/* the program that took its place by exec, or NULL */
	const char *cut;	/* why nothing could be recorded any more, or NULL */
	bool successor_likely;	/* it may also have changed its name before it ended */
	const struct ht_untapped *untapped;	/* those of a module together */
	size_t n_untapped;
	uint64_t cut_stacks;

	const struct ht_ledger *ledger;
	const struct ht_modules *modules;
	struct ht_symbols *symbols;
};

/* Append "NOT COMPLETE: ..." or nothing. True when something was lost. */
bool ht_losses(const struct ht_recording *recording, struct ht_buf *out) _nonnull_;

struct ht_report_options {
	unsigned width;		/* terminal columns; 0: don't cut */
	bool color;
	bool verbose;		/* all of lists that are cut short otherwise */
	unsigned limit;		/* sites shown; 0: the default (10) ; UINT_MAX: all */
};

struct ht_report_format {
	const char *name;	/* for --format */
	const char *suffix;	/* file ending that chooses it, ".pb.gz" */
	const char *help;
	int (*write)(const struct ht_recording *recording,
		     const struct ht_report_options *options, struct ht_buf *out,
		     struct ht_err *err);
};

extern const struct ht_report_format ht_report_text;
extern const struct ht_report_format ht_report_pprof;
extern const struct ht_report_format ht_report_folded;
extern const struct ht_report_format ht_report_folded_peak;

/* All formats, NULL-terminated. */
extern const struct ht_report_format *const ht_report_formats[];
const struct ht_report_format *ht_report_format_by_name(const char *name) _nonnull_;
/* By file ending; NULL when none fits. */
const struct ht_report_format *ht_report_format_by_path(const char *path) _nonnull_;

#endif
