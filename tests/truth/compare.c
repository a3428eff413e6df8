/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.c: see compare.h.
 */
#include "compare.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "cmd/record.h"
#include "inject/plan.h"
#include "report/report.h"
#include "symbol/symbol.h"

/* Check can't take long messages. */
#define MESSAGE 1000

static struct row *find_row(struct comparison *c, const char *name)
{
	size_t i;

	for (i = 0; i < c->n && strcmp(c->rows[i].name, name); i++)
		continue;
	if (i < c->n)
		return &c->rows[i];
	ck_assert_uint_lt(c->n, MAX_ROWS);
	c->rows[c->n] = (struct row){ 0 };
	snprintf(c->rows[c->n].name, sizeof(c->rows[c->n].name), "%s", name);
	return &c->rows[c->n++];
}

struct row *row_named(struct comparison *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++)
		if (!strcmp(c->rows[i].name, name))
			return &c->rows[i];
	ck_abort_msg("no site %s", name);
}

static void parse_line(struct comparison *c, const char *line)
{
	char name[64];
	struct row *row;
	double v[6];
	unsigned i;
	int n;

	if (sscanf(line, "thread %u %lf %lf %lf %lf", &i, &v[0], &v[1], &v[2], &v[3]) == 5) {
		ck_assert_uint_lt(i, MAX_THREADS);
		snprintf(c->threads[i].name, sizeof(c->threads[i].name), "thread %u", i);
		memcpy(c->threads[i].truth, v, sizeof(c->threads[i].truth));
		return;
	}
	n = sscanf(line, "%*s %63s %lf %lf %lf %lf %lf %lf", name, &v[0], &v[1], &v[2],
		   &v[3], &v[4], &v[5]);
	row = find_row(c, name);
	if (!strncmp(line, "site ", 5) && n == 5) {
		memcpy(row->truth, v, sizeof(row->truth));
	} else if (!strncmp(line, "peak ", 5) && n == 3) {
		memcpy(row->peak, v, sizeof(row->peak));
	} else {
		ck_assert_msg(!strncmp(line, "spread ", 7) && n == 7, "line '%s'", line);
		memcpy(row->variance, v, sizeof(row->variance));
		memcpy(row->most, v + FIGURES, sizeof(row->most));
	}
}

/* "site_new" out of "(anonymous namespace)::site_new(unsigned long)". */
static bool site_name(const char *symbol, char *name, size_t cap)
{
	const char *at = strstr(symbol, "site_");
	size_t len = 0;

	if (!at || (at > symbol && at[-1] != ':'))
		return false;
	while (isalnum((unsigned char)at[len]) || at[len] == '_')
		len++;
	snprintf(name, cap, "%.*s", (int)len, at);
	return true;
}

/* The innermost site_... on @stack. */
static bool name_stack(struct ht_symbols *symbols, const struct ht_stack *stack, char *name,
		       size_t cap, char *text, size_t text_cap)
{
	const struct ht_symbol *found;
	size_t n, len = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < stack->n_frames; i++) {
		ck_ok(ht_symbols_lookup(symbols, &stack->frames[i], &found, &n));
		if (site_name(found->name, name, cap))
			return true;
		if (len + 1 < text_cap)
			len += (size_t)snprintf(text + len, text_cap - len, " < %s",
						found->name);
	}
	if (len + 1 < text_cap)
		snprintf(text + len, text_cap - len, " (end %d)", (int)stack->end);
	return false;
}

/* Of the thread_... on @stack; 0: the main thread's, which has none. */
static unsigned thread_of(struct ht_symbols *symbols, const struct ht_stack *stack)
{
	const struct ht_symbol *found;
	unsigned thread;
	size_t n;

	for (uint32_t i = 0; i < stack->n_frames; i++) {
		ck_ok(ht_symbols_lookup(symbols, &stack->frames[i], &found, &n));
		if (sscanf(found->name, "thread_%u", &thread) == 1 && thread < MAX_THREADS)
			return thread;
	}
	return 0;
}

static void add_sum(struct ht_sum *to, const struct ht_sum *sum)
{
	to->bytes += sum->bytes;
	to->objects += sum->objects;
	to->bytes_variance += sum->bytes_variance;
	to->objects_variance += sum->objects_variance;
	to->samples += sum->samples;
}

static void add_figures(struct ht_figures *to, const struct ht_figures *f)
{
	add_sum(&to->live, &f->live);
	add_sum(&to->total, &f->total);
	add_sum(&to->freed, &f->freed);
	add_sum(&to->peak, &f->peak);
}

void compare_tool(const struct session *s, struct comparison *c)
{
	struct ht_symbol_options options = { .no_lines = true };
	static struct ht_stack stack;
	struct ht_symbols *symbols;
	struct ht_tap_result result;

	c->others = (struct ht_figures){ 0 };
	for (size_t i = 0; i < c->n; i++)
		c->rows[i].tool = (struct ht_figures){ 0 };
	for (size_t i = 0; i < MAX_THREADS; i++)
		c->threads[i].tool = (struct ht_figures){ 0 };
	ht_tap_result(s->tap, &result);
	ck_ok(ht_symbols_new(result.modules, &options, &symbols));
	for (uint32_t i = 0; i < ht_ledger_site_count(result.ledger); i++) {
		struct ht_figures figures;
		char name[64], text[512];

		ht_ledger_site_figures(result.ledger, i, &figures);
		ht_ledger_site_stack(result.ledger, i, &stack, NULL);
		if (name_stack(symbols, &stack, name, sizeof(name), text, sizeof(text))) {
			add_figures(&find_row(c, name)->tool, &figures);
			add_figures(&c->threads[thread_of(symbols, &stack)].tool, &figures);
		} else {
			add_figures(&c->others, &figures);
			snprintf(c->stray, sizeof(c->stray), "%s", text);
		}
	}
	ht_symbols_free(symbols);
}

void ask_program(struct session *s, struct comparison *c)
{
	char line[256];

	memset(c, 0, sizeof(*c));
	session_send(s, "report");
	for (;;) {
		session_read(s, line, sizeof(line));
		if (!strcmp(line, "end"))
			break;
		parse_line(c, line);
	}
}

void compare(struct session *s, struct comparison *c)
{
	ask_program(s, c);
	compare_tool(s, c);
}

void take_others_for(struct comparison *c, const char *name)
{
	add_figures(&find_row(c, name)->tool, &c->others);
	add_figures(&c->threads[0].tool, &c->others);
	c->others = (struct ht_figures){ 0 };
}

static const struct ht_sum *sum_of(const struct row *row, enum figure i)
{
	return i == TOTAL_BYTES || i == TOTAL_OBJECTS ? &row->tool.total : &row->tool.live;
}

double tool_figure(const struct row *row, enum figure i)
{
	const struct ht_sum *sum = sum_of(row, i);

	return i == TOTAL_BYTES || i == LIVE_BYTES ? sum->bytes : sum->objects;
}

double tool_variance(const struct row *row, enum figure i)
{
	const struct ht_sum *sum = sum_of(row, i);

	return i == TOTAL_BYTES || i == LIVE_BYTES ? sum->bytes_variance :
						     sum->objects_variance;
}

void assert_complete(const struct session *s, const char *what)
{
	struct ht_ledger_counters counters;
	struct ht_tap_result result;

	ht_tap_result(s->tap, &result);
	ht_ledger_counters(result.ledger, &counters);
	ck_assert_msg(!result.lost_allocs && !result.lost_frees && !result.lost_corrupt &&
			      !counters.untracked && !counters.replaced && !counters.late &&
			      !counters.folded,
		      "%s: lost %lu %lu, corrupt %lu, untracked %lu, replaced %lu, late %lu",
		      what, result.lost_allocs, result.lost_frees, result.lost_corrupt,
		      counters.untracked, counters.replaced, counters.late);
}

void assert_sized_frees(struct comparison *c)
{
	int found = 0;

	for (size_t i = 0; i < ht_entry_kinds_len; i++) {
		const char *name = ht_entry_kinds[i].name;
		char site[32];

		if (strcmp(name, "free_sized") && strcmp(name, "free_aligned_sized"))
			continue;
		snprintf(site, sizeof(site), "site_old_%03zu", i);
		ck_assert_double_gt(row_named(c, site)->truth[TOTAL_OBJECTS], 0);
		found++;
	}
	ck_assert_int_eq(found, 2);
}

void assert_indirect(struct comparison *c)
{
	int found = 0;

	for (size_t i = 0; i < ht_entry_kinds_len; i++) {
		char new[32], old[32];

		if (ht_entry_kinds[i].call != HT_CALL_INDIRECT)
			continue;
		snprintf(new, sizeof(new), "site_new_%03zu", i);
		snprintf(old, sizeof(old), "site_old_%03zu", i);
		for (size_t j = 0; j < c->n; j++)
			found += (!strcmp(c->rows[j].name, new) || !strcmp(c->rows[j].name, old)) &&
				 c->rows[j].truth[TOTAL_OBJECTS] > 0;
	}
	ck_assert_int_gt(found, 0);
}

void assert_report_says(const struct session *s, const char *text)
{
	_cleanup_(ht_buf_fini) struct ht_buf out = HT_BUF_INIT;
	struct ht_symbol_options symbol_options = { .no_lines = true };
	struct ht_report_options options = { .width = 200 };
	ht_untapped_list untapped = HT_VEC_INIT;
	struct ht_recording recording;
	struct ht_tap_result result;
	struct ht_err err;

	ht_tap_result(s->tap, &result);
	ck_ok(ht_untapped_of(&result, &untapped));
	recording = (struct ht_recording){
		.command = result.command,
		.pid = result.pid,
		.interval = s->options.min_size ? 0 : s->options.interval,
		.min_size = s->options.min_size,
		.samples = result.samples,
		.launched = s->launched,
		.lost_allocs = result.lost_allocs,
		.lost_frees = result.lost_frees,
		.lost_corrupt = result.lost_corrupt,
		.drops = result.drops,
		.successor = result.successor,
		.cut = result.cut,
		.untapped = untapped.at,
		.n_untapped = untapped.len,
		.ledger = result.ledger,
		.modules = result.modules,
	};
	ck_ok(ht_symbols_new(result.modules, &symbol_options, &recording.symbols));
	ck_ok(ht_report_text.write(&recording, &options, &out, &err));
	ck_assert_msg(strstr(out.data, text) != NULL, "no '%s' in:\n%s", text, out.data);
	ht_symbols_free(recording.symbols);
	ht_vec_fini(&untapped);
}

static void compare_rows(const struct row *rows, size_t n, const char *what,
			 struct ht_buf *wrong)
{
	for (const struct row *row = rows; row < rows + n; row++) {
		bool same = true;

		for (int f = 0; f < FIGURES; f++)
			same = same && tool_figure(row, f) == row->truth[f];
		if (same || wrong->len > MESSAGE)
			continue;
		ht_buf_printf(wrong, "\n%s %s:", what, row->name);
		for (int f = 0; f < FIGURES; f++)
			ht_buf_printf(wrong, " %.0f (true %.0f)", tool_figure(row, f),
				      row->truth[f]);
	}
}

void assert_same(const struct session *s, const struct comparison *c, const char *what,
		 bool others)
{
	_cleanup_(ht_buf_fini) struct ht_buf wrong = HT_BUF_INIT;

	assert_complete(s, what);
	compare_rows(c->rows, c->n, what, &wrong);
	compare_rows(c->threads, MAX_THREADS, what, &wrong);
	if (wrong.len && c->others.total.objects > 0)
		ht_buf_printf(&wrong, "\nothers: %.0f bytes, %.0f objects:%s",
			      c->others.total.bytes, c->others.total.objects, c->stray);
	ck_assert_msg(!wrong.len, "%s", wrong.data);
	ck_assert_msg(others || c->others.total.objects == 0, "%s: %.0f others:%s", what,
		      c->others.total.objects, c->stray);
}

void assert_exact(const struct session *s, const struct comparison *c, const char *what,
		  bool others)
{
	assert_same(s, c, what, others);
	assert_report_says(s, "complete and exact: nothing lost");
}

double estimate_limit(double variance, double most)
{
	double log = 23.7, linear = most * log / 3;

	return linear + sqrt(linear * linear + 2 * log * variance);
}

void assert_estimates(const struct comparison *c, const char *what)
{
	_cleanup_(ht_buf_fini) struct ht_buf wrong = HT_BUF_INIT;

	for (size_t i = 0; i < c->n; i++) {
		const struct row *row = &c->rows[i];

		for (int f = 0; f < FIGURES; f++) {
			double off = tool_figure(row, f) - row->truth[f];
			double most = row->most[f == TOTAL_OBJECTS || f == LIVE_OBJECTS];

			if (fabs(off) <= estimate_limit(row->variance[f], most) + 1e-6 ||
			    wrong.len > MESSAGE)
				continue;
			ht_buf_printf(&wrong, "\n%s %s: figure %d is %.0f, true %.0f, %.1f sigma",
				      what, row->name, f, tool_figure(row, f), row->truth[f],
				      off / sqrt(row->variance[f]));
		}
	}
	ck_assert_msg(!wrong.len, "%s", wrong.data);
}
