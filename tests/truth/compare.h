/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.h: what a truth program says of itself beside what the ledger says of it, by the
 * names of its functions. Asserts by Check.
 */
#ifndef HT_TESTS_TRUTH_COMPARE_H
#define HT_TESTS_TRUTH_COMPARE_H

#include "session.h"

/* Order of the figures in a row. */
enum figure { TOTAL_BYTES, TOTAL_OBJECTS, LIVE_BYTES, LIVE_OBJECTS, FIGURES };

struct row {
	char name[64];		/* "site_malloc" */
	double truth[FIGURES];
	double variance[FIGURES];	/* of estimates, if an interval was told */
	double most[2];		/* bytes, objects that one block adds to an estimate */
	double peak[2];		/* bytes, objects; if it was watched */
	struct ht_figures tool;
};

#define MAX_ROWS 640
#define MAX_THREADS 9

struct comparison {
	struct row rows[MAX_ROWS];
	size_t n;
	/* The same figures by the thread that allocated; 0 is the main one. */
	struct row threads[MAX_THREADS];
	struct ht_figures others;	/* of call stacks without a site_... */
	char stray[512];	/* one of these, for messages */
};

/* Ask both. */
void compare(struct session *s, struct comparison *c);
/* Only the program; only the tool, beside what is there of the program. */
void ask_program(struct session *s, struct comparison *c);
void compare_tool(const struct session *s, struct comparison *c);
struct row *row_named(struct comparison *c, const char *name);

/* Count what has no site_... for site @name: for callers in code without unwind data. */
void take_others_for(struct comparison *c, const char *name);

/* Every figure of every site and thread is the same, and nothing else was recorded but, if @others, by what isn't
 * called site_... Nothing was lost. @what for messages. */
void assert_same(const struct session *s, const struct comparison *c, const char *what,
		 bool others);
/* And the report claims so. */
void assert_exact(const struct session *s, const struct comparison *c, const char *what,
		  bool others);
/* C23's sized frees were among the entries that truth_kinds called. */
void assert_sized_frees(struct comparison *c);
/* What works through another entry was among them. */
void assert_indirect(struct comparison *c);
/* Nothing was lost. */
void assert_complete(const struct session *s, const char *what);
/* The first lines of the text report have @text. */
void assert_report_says(const struct session *s, const char *text);

/* What the tool has for figure @i of @row, and its variance. */
double tool_figure(const struct row *row, enum figure i);
double tool_variance(const struct row *row, enum figure i);
/* How far from the truth that is in all but one of 10^10 cases (Bernstein's inequality), if
 * the estimate is a sum of independent parts with @variance, none above @most. */
double estimate_limit(double variance, double most);
/* The true figures lie where unbiased estimates with the true variances leave them. */
void assert_estimates(const struct comparison *c, const char *what);

#endif
