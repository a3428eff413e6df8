/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c: the report for a terminal. What wasn't measured isn't printed; what was lost is
 * said first.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "report/report-priv.h"

/* Below this share of all allocated bytes the interesting part isn't what is live. */
#define LITTLE_LIVE 0.10
/* Up to this share of itself the peak is about what is live. */
#define LITTLE_ABOVE 0.05
#define SHORT_LIST 5
#define COL_NAME 12
#define COL_BYTES 12
#define COL_OBJECTS 16
#define COL_BRIEF 12
#define MAX_HINTS 5

struct text {
	const struct ht_recording *recording;
	const struct ht_report_options *options;
	struct ht_buf *out;
	bool exact;
	/* Of the summary: what there is room for. */
	size_t objects;		/* columns; 0: left out */
	bool error, brief;
};

/* Free text, broken at the terminal's edge. */
static void put_line(const struct text *t, const struct ht_buf *line)
{
	if (line->failed)
		t->out->failed = true;
	else
		ht_columns_wrap(t->out, line->data ? line->data : "", t->options->width, 2);
}

static void put_loss(const struct text *t)
{
	_cleanup_(ht_buf_fini) struct ht_buf line = HT_BUF_INIT;

	if (!ht_losses(t->recording, &line))
		return;
	ht_style_on(t->out, t->options, HT_STYLE_ALARM);
	put_line(t, &line);
	ht_style_off(t->out, t->options);
}

static void put_head(const struct text *t)
{
	const struct ht_recording *r = t->recording;
	_cleanup_(ht_buf_fini) struct ht_buf line = HT_BUF_INIT;
	char time[HT_HUMAN];

	ht_symbol_clean(r->command ? r->command : "?", 64, &line);
	ht_buf_printf(&line, " (pid %d", r->pid);
	if (r->exe) {
		ht_buf_puts(&line, ", ");
		ht_symbol_clean(r->exe, 512, &line);
	}
	if (r->allocators) {
		ht_buf_puts(&line, ", ");
		ht_symbol_clean(r->allocators, 256, &line);
	}
	ht_buf_printf(&line, "), tapped %s", ht_human_time(time, r->duration_ns));
	if (r->ended) {
		ht_buf_puts(&line, "; ");
		ht_symbol_clean(r->ended, 128, &line);
	}
	ht_style_on(t->out, t->options, HT_STYLE_HEAD);
	put_line(t, &line);
	ht_style_off(t->out, t->options);
}

/* Stacks that aren't what they were: no figure is wrong by that. */
static void put_stacks(const struct text *t)
{
	_cleanup_(ht_buf_fini) struct ht_buf line = HT_BUF_INIT;
	struct ht_ledger_counters counters;
	char a[HT_HUMAN];

	ht_ledger_counters(t->recording->ledger, &counters);
	if (t->recording->cut_stacks) {
		ht_buf_printf(&line, "%s cut: their outermost callers are missing.",
			      ht_human_plural(a, t->recording->cut_stacks, "stack was",
					      "stacks were"));
		put_line(t, &line);
	}
	if (counters.folded) {
		ht_buf_clear(&line);
		ht_buf_printf(&line, "The table of call sites is full: %s counted under one without a name.",
			      ht_human_plural(a, counters.folded, "recorded allocation is",
					      "recorded allocations are"));
		put_line(t, &line);
	}
}

/* How it was measured, and what that did to the target. */
static void put_how(const struct text *t)
{
	const struct ht_recording *r = t->recording;
	_cleanup_(ht_buf_fini) struct ht_buf line = HT_BUF_INIT, loss = HT_BUF_INIT;
	bool complete = !ht_losses(r, &loss);
	char a[HT_HUMAN], b[HT_HUMAN];

	if (complete)
		ht_buf_puts(&line, t->exact && !r->min_size ?
			    "complete and exact: nothing lost, " : t->exact ?
			    "complete: nothing lost, " : "complete: nothing lost.  ");
	ht_sampling(r, complete, &line);
	ht_buf_putc(&line, '.');
	put_line(t, &line);
	ht_buf_clear(&line);
	if (r->stops) {
		ht_buf_printf(&line, "The target was stopped %s, at most %s at a time",
			      r->stops == 1 ? "once" : r->stops == 2 ? "twice" :
			      ht_human_plural(a, r->stops, "time", "times"),
			      ht_human_time(b, r->stop_max_ns));
		if (r->stops > 1 && r->stop_total_ns)
			ht_buf_printf(&line, ", %s in all", ht_human_time(b, r->stop_total_ns));
		if (r->threads)
			ht_buf_printf(&line, " (%s)",
				      ht_human_plural(a, r->threads, "thread", "threads"));
		ht_buf_putc(&line, '.');
		put_line(t, &line);
		ht_buf_clear(&line);
	}
	if (r->left) {
		ht_buf_printf(&line, "Code of heaptap stays mapped in it, out of use, as a thread or another tool's patch may still lead into it: heaptap cure %d takes it out later.",
			      r->pid);
		put_line(t, &line);
	}
	put_stacks(t);
}

/* What the plan had to leave out, and why. */
static void put_untapped(const struct text *t)
{
	const struct ht_recording *r = t->recording;
	bool all = t->options->verbose;
	size_t i = 0, lines = 0;
	char text[HT_HUMAN];

	while (i < r->n_untapped && (all || lines++ < MAX_HINTS)) {
		_cleanup_(ht_buf_fini) struct ht_buf line = HT_BUF_INIT;

		ht_untapped_line(r, &i, all, &line);
		put_line(t, &line);
	}
	if (i < r->n_untapped)
		ht_buf_printf(t->out, "Not tapped: %s; -v shows them.\n",
			      ht_human_plural(text, r->n_untapped - i, "more function",
					      "more functions"));
}

static const char *error_text(const struct text *t, const struct ht_sum *sum,
			      uint64_t interval, char text[HT_HUMAN])
{
	char exact[HT_HUMAN];

	if (!t->exact)
		return ht_human_error(text, sum, interval);
	snprintf(text, HT_HUMAN, "%.30s bytes", ht_human_exact(exact, sum->bytes));
	return text;
}

/* What doesn't fit goes in whole columns: a number that is cut looks like another one. */
static void lay_out(struct text *t, const struct ht_figures *total)
{
	const struct ht_sum *sums[] = { &total->live, &total->total, &total->freed,
					&total->peak };
	size_t width = t->options->width ? t->options->width : SIZE_MAX, error = 9;
	char text[HT_HUMAN];

	for (size_t i = 0; i < ARRAY_SIZE(sums); i++)
		error = ht_max(error, ht_columns(error_text(t, sums[i],
							    2 * t->recording->interval, text)));
	if (t->exact)
		error = ht_max(error, (size_t)21);
	error += COL_NAME + COL_BYTES + 3;
	t->brief = width < error + COL_OBJECTS + 2 + strlen("since the tap");
	t->objects = !t->brief ? COL_OBJECTS : width >= error + COL_BRIEF + 12 ? COL_BRIEF : 0;
	t->error = width >= error;
}

static void put_row(const struct text *t, const char *name, const struct ht_sum *sum,
		    uint64_t interval, const char *remark)
{
	_cleanup_(ht_buf_fini) struct ht_buf line = HT_BUF_INIT;
	char text[HT_HUMAN];

	ht_buf_puts(&line, "  ");
	ht_columns_left(&line, name, COL_NAME - 2);
	ht_columns_right(&line, ht_human_bytes(text, sum->bytes), COL_BYTES);
	if (t->objects)
		ht_columns_right(&line, t->exact ? ht_human_exact(text, sum->objects) :
						   ht_human_count(text, sum->objects),
				 t->objects);
	if (t->error) {
		ht_buf_puts(&line, "   ");
		error_text(t, sum, interval, text);
		ht_columns_left(&line, text, *remark ? t->exact ? 21 : 9 : 0);
	}
	if (line.failed) {
		t->out->failed = true;
		return;
	}
	if (*remark && (!t->options->width ||
			ht_columns(line.data) + 2 + ht_columns(remark) <= t->options->width))
		ht_buf_printf(&line, "  %s", remark);
	ht_columns_cut(t->out, line.data, t->options->width);
	ht_buf_putc(t->out, '\n');
	t->out->failed |= line.failed;
}

/* Is it clearly above what is live? */
static bool peak_stands_out(const struct ht_figures *total)
{
	double bar = ht_bar95(total->peak.bytes_variance);

	return total->peak.bytes - total->live.bytes >
	       ht_max(bar, LITTLE_ABOVE * total->peak.bytes);
}

static bool can_tell(const struct text *t, const struct ht_figures *total)
{
	return t->exact || ht_min(total->live.samples, total->peak.samples) >= HT_FEW_SAMPLES;
}

static void put_peak(const struct text *t, const struct ht_figures *total)
{
	static const char same[] = "  the peak is about what is live now, so its call sites aren't listed apart";
	static const char few[] = "  so few samples don't tell whether the peak was above what is live now";
	const struct ht_recording *r = t->recording;
	uint64_t interval = ht_metric_interval(r, HT_METRIC_PEAK);
	struct ht_ledger_counters counters;
	char time[HT_HUMAN], remark[HT_HUMAN + 4] = "";

	ht_ledger_counters(r->ledger, &counters);
	/* What isn't within the recording is of another clock and says nothing. */
	if (counters.peak_now)
		snprintf(remark, sizeof(remark), "now");
	else if (counters.peak_time_ns && counters.peak_time_ns <= r->duration_ns)
		snprintf(remark, sizeof(remark), "at %s",
			 ht_human_time(time, counters.peak_time_ns));
	put_row(t, "peak", &total->peak, interval, remark);
	if (!counters.peak_now && total->live.samples && !peak_stands_out(total))
		ht_columns_wrap(t->out, can_tell(t, total) ? same : few, t->options->width,
				2);
}

/* What these frees are. Of samples there are none but for damage: only the frees of sampled
 * blocks are recorded. */
static void put_unknown(const struct text *t, uint64_t frees)
{
	_cleanup_(ht_buf_fini) struct ht_buf line = HT_BUF_INIT;
	const struct ht_recording *r = t->recording;
	char number[HT_HUMAN], size[HT_HUMAN];

	if (!frees)
		return;
	ht_buf_printf(&line, "  not counted: %s of blocks that weren't seen allocated",
		      ht_human_plural(number, frees, "free", "frees"));
	if (t->exact) {
		ht_buf_putc(&line, ':');
		if (r->min_size)
			ht_buf_printf(&line, " smaller than %s,",
				      ht_human_size(size, r->min_size));
		if (!r->launched)
			ht_buf_puts(&line, " older than the tap,");
		/* glibc passes what a thread's cache holds to free() when it ends. */
		ht_buf_printf(&line, "%s given back once more by libc as a thread ended",
			      r->min_size || !r->launched ? " or" : "");
	}
	put_line(t, &line);
}

static void put_summary(struct text *t, const struct ht_figures *total)
{
	uint64_t interval = t->recording->interval;
	struct ht_ledger_counters counters;

	ht_ledger_counters(t->recording->ledger, &counters);
	lay_out(t, total);
	ht_buf_putc(t->out, '\n');
	ht_style_on(t->out, t->options, HT_STYLE_HEAD);
	ht_columns_right(t->out, "bytes", 24);
	if (t->objects)
		ht_columns_right(t->out, "objects", t->objects);
	if (t->error)
		ht_buf_puts(t->out, t->exact ? "   exact" : "   error");
	ht_style_off(t->out, t->options);
	ht_buf_putc(t->out, '\n');
	put_row(t, "live now", &total->live, interval,
		t->brief ? "since tap" : "since the tap");
	put_row(t, "allocated", &total->total, interval, "");
	put_row(t, "freed", &total->freed, interval, "");
	put_peak(t, total);
	put_unknown(t, counters.unknown_frees);
}

/* The lists of call sites that say something: one, and shorter ones behind it. */
static int put_lists(const struct text *t, const struct ht_figures *total)
{
	struct ht_report_options options = *t->options;
	const bool shown[] = {
		[HT_METRIC_LIVE] = total->live.samples,
		[HT_METRIC_PEAK] = peak_stands_out(total),
		[HT_METRIC_TOTAL] = total->live.bytes < LITTLE_LIVE * total->total.bytes,
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(shown); i++) {
		if (!shown[i])
			continue;
		ht_buf_putc(t->out, '\n');
		r = ht_text_sites(t->recording, &options, (enum ht_metric)i, t->out);
		if (!options.limit)
			options.limit = SHORT_LIST;
	}
	return r;
}

/* What compilers inside the program made. */
static void put_jit_hint(const struct text *t, bool first)
{
	const char *why = ht_symbols_jit_reason(t->recording->symbols);
	_cleanup_(ht_buf_fini) struct ht_buf line = HT_BUF_INIT;

	if (!why)
		return;
	if (first)
		ht_buf_putc(t->out, '\n');
	ht_buf_printf(&line, "No names for some code that is in no file: %s.", why);
	put_line(t, &line);
}

static void put_debuginfod_hint(const struct text *t, bool first)
{
	const char *why = ht_symbols_debuginfod_reason(t->recording->symbols);
	_cleanup_(ht_buf_fini) struct ht_buf line = HT_BUF_INIT;

	if (!why)
		return;
	if (first)
		ht_buf_putc(t->out, '\n');
	ht_buf_printf(&line, "No debug files of debuginfod: %s.", why);
	put_line(t, &line);
}

static void put_hints(const struct text *t)
{
	const struct ht_recording *r = t->recording;
	size_t n = ht_modules_count(r->modules), i, shown = 0;

	for (i = 0; i < n && shown < MAX_HINTS; i++) {
		const char *why = ht_symbols_module_reason(r->symbols, (uint32_t)i);
		const struct ht_module *module = ht_modules_at(r->modules, (uint32_t)i);
		_cleanup_(ht_buf_fini) struct ht_buf line = HT_BUF_INIT;

		if (!module || (!why && !ht_symbols_module_bare(r->symbols, (uint32_t)i)))
			continue;
		if (shown++ == 0)
			ht_buf_putc(t->out, '\n');
		ht_buf_puts(&line, why ? "No lines for " : "No symbols for some of ");
		ht_symbol_clean(ht_module_name(module), 128, &line);
		ht_buf_printf(&line, why ? ": %s." :
			      ": install its debug symbols for names.", why);
		put_line(t, &line);
	}
	put_debuginfod_hint(t, shown == 0);
	put_jit_hint(t, shown == 0 && !ht_symbols_debuginfod_reason(r->symbols));
}

static int write_text(const struct ht_recording *recording,
		      const struct ht_report_options *options, struct ht_buf *out,
		      struct ht_err *err)
{
	struct text t = { recording, options, out, ht_recording_exact(recording) };
	struct ht_figures total;
	int r;

	ht_ledger_total(recording->ledger, &total);
	put_loss(&t);
	put_head(&t);
	put_how(&t);
	put_untapped(&t);
	put_summary(&t, &total);
	r = put_lists(&t, &total);
	if (r == 0)
		put_hints(&t);
	if (r < 0 || out->failed)
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM,
				  "can't write the report: out of memory");
	return 0;
}

const struct ht_report_format ht_report_text = {
	.name = "text",
	.suffix = ".txt",
	.help = "a summary and the functions that hold most, for a terminal",
	.write = write_text,
};
