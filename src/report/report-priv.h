/* SPDX-License-Identifier: Apache-2.0
 *
 * report-priv.h: what the formatters share.
 */
#ifndef HT_REPORT_REPORT_PRIV_H
#define HT_REPORT_REPORT_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/compiler.h"
#include "base/vec.h"
#include "report/report.h"

/* --- human.c: numbers for people ---------------------------------------------------- */

/* Each fills @text and returns it. */
#define HT_HUMAN 64
const char *ht_human_bytes(char text[HT_HUMAN], double bytes);		/* 412.3 MiB */
const char *ht_human_size(char text[HT_HUMAN], uint64_t bytes);		/* 64 KiB */
const char *ht_human_exact(char text[HT_HUMAN], double value);		/* 432,293,912 */
const char *ht_human_count(char text[HT_HUMAN], double count);		/* 2,105,000 */
const char *ht_human_short(char text[HT_HUMAN], double count);		/* 10.0 M */
const char *ht_human_percent(char text[HT_HUMAN], double part, double whole);
const char *ht_human_time(char text[HT_HUMAN], uint64_t ns);		/* 30.0 s */
/* "±1.2 %", or "at most 1.9 MiB (3 samples)" when they are few. */
const char *ht_human_error(char text[HT_HUMAN], const struct ht_sum *sum, uint64_t interval);
/* "1 free", "3 frees". */
const char *ht_human_plural(char text[HT_HUMAN], uint64_t n, const char *one,
			    const char *many);

/* --- columns.c: text in columns of a terminal --------------------------------------- */

size_t ht_columns(const char *text) _nonnull_;
/* Append @text; of what is wider than @max columns the end is replaced by "…". 0: whole. */
void ht_columns_cut(struct ht_buf *out, const char *text, size_t max) _nonnull_;
/* Append @text and a line end, broken at spaces so that no line is longer than @max columns
 * (0: not at all); further lines begin with @indent spaces. */
void ht_columns_wrap(struct ht_buf *out, const char *text, size_t max, size_t indent) _nonnull_;
/* Append @text and spaces up to @columns, before or behind it. */
void ht_columns_left(struct ht_buf *out, const char *text, size_t columns) _nonnull_;
void ht_columns_right(struct ht_buf *out, const char *text, size_t columns) _nonnull_;
/* Append a function's name without its arguments: "a::b<…>::c". */
void ht_columns_short_name(struct ht_buf *out, const char *name) _nonnull_;

enum ht_style { HT_STYLE_HEAD, HT_STYLE_ALARM, HT_STYLE_DIM, HT_STYLE_STRONG };
/* Switch a style on (and off): nothing when there are no colours. */
void ht_style_on(struct ht_buf *out, const struct ht_report_options *options,
		 enum ht_style style) _nonnull_;
void ht_style_off(struct ht_buf *out, const struct ht_report_options *options) _nonnull_;

/* --- steps.c: a site's stack as functions ------------------------------------------- */

/* One function of a stack. Equal texts are equal pointers within a recording. */
struct ht_step {
	const char *name;
	const char *file;	/* or NULL */
	uint32_t line;
	uint32_t module;
	bool placeholder;	/* name says why the stack ends here: show it in brackets */
	bool unknown;		/* no name known */
};

typedef ht_vec(struct ht_step) ht_steps;

/* Replace @steps by the site's functions, innermost first, at least one. With @trim without
 * the allocator's own functions at the inner end and what is before main() at the outer. 0 or -ENOMEM. */
int ht_steps_of_site(const struct ht_recording *recording, uint32_t site, bool trim,
		     ht_steps *steps) _must_check_ _nonnull_;
/* Is this a function of an allocator, or one that only wraps it? */
bool ht_step_is_allocator(const char *name, const char *module_name) _nonnull_args_(1);

/* --- sites.c: sites grouped by the function that allocates -------------------------- */

enum ht_metric { HT_METRIC_LIVE, HT_METRIC_PEAK, HT_METRIC_TOTAL };

const struct ht_sum *ht_metric_sum(const struct ht_figures *figures,
				   enum ht_metric metric) _nonnull_;
/* Mean bytes between the samples that its sums are estimated from; 0: exact. */
uint64_t ht_metric_interval(const struct ht_recording *recording,
			    enum ht_metric metric) _nonnull_;

struct ht_sites_entry {
	struct ht_step leaf;
	struct ht_sum sum;
	double line_bytes;	/* of the site that gave the line */
	size_t first;		/* its sites in refs */
	size_t n;
};

struct ht_sites_ref {
	uint32_t site;
	uint32_t entry;
	struct ht_sum sum;
};

struct ht_sites {
	ht_vec(struct ht_sites_entry) entries;	/* most bytes first */
	ht_vec(struct ht_sites_ref) refs;	/* by entry */
};

/* Callers as a tree; node 0 is the leaf function, children call their parents. */
struct ht_sites_node {
	struct ht_step step;
	struct ht_sum sum;
	double line_bytes;
	uint32_t parent;
	uint32_t child;		/* 0: none; the one with most bytes */
	uint32_t sibling;	/* 0: none; with less bytes */
};

typedef ht_vec(struct ht_sites_node) ht_sites_tree;

int ht_sites_group(const struct ht_recording *recording, enum ht_metric metric,
		   struct ht_sites *ret_sites) _must_check_ _nonnull_;
void ht_sites_fini(struct ht_sites *sites) _nonnull_;
/* Replace @tree by that of entry @i. */
int ht_sites_build(const struct ht_recording *recording, const struct ht_sites *sites,
		   size_t i, ht_sites_tree *tree) _must_check_ _nonnull_;
void ht_sum_add(struct ht_sum *to, const struct ht_sum *sum) _nonnull_;

/* --- losses.c: one sentence on completeness, for every format ----------------------- */

bool ht_recording_exact(const struct ht_recording *recording) _nonnull_;
/* Append "Not tapped: mi_valloc of libmimalloc.so: why.", for the functions that are told
 * together from *i on, which is moved behind them. False: there are no more. @all: no names
 * left out. */
bool ht_untapped_line(const struct ht_recording *recording, size_t *i, bool all,
		      struct ht_buf *out) _nonnull_;
/* Append "1 sample per 64 KiB, 102,118 samples" or "every allocation recorded". */
void ht_sampling(const struct ht_recording *recording, bool complete, struct ht_buf *out)
	_nonnull_;

/* --- text_tree.c: one section of the text report ------------------------------------ */

int ht_text_sites(const struct ht_recording *recording,
		  const struct ht_report_options *options, enum ht_metric metric,
		  struct ht_buf *out) _must_check_ _nonnull_;

/* --- proto.c: protocol buffers, as much as pprof needs ------------------------------ */

void ht_proto_varint(struct ht_buf *out, uint64_t value) _nonnull_;
/* Fields of value 0 are left out, as proto3 does. */
void ht_proto_uint(struct ht_buf *out, unsigned field, uint64_t value) _nonnull_;
void ht_proto_bytes(struct ht_buf *out, unsigned field, const void *data, size_t len)
	_nonnull_args_(1);
void ht_proto_message(struct ht_buf *out, unsigned field, const struct ht_buf *message)
	_nonnull_;
/* Append @data as a gzip file; the same bytes give the same file. 0 or -ENOMEM. */
int ht_gzip(const struct ht_buf *data, struct ht_buf *out) _must_check_ _nonnull_;

#endif
