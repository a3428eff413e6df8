/* SPDX-License-Identifier: Apache-2.0
 *
 * folded.c: collapsed stacks, one a line: "main;parse;sdsnew 4096", the bytes that are
 * live or were at the peak. What flamegraph.pl, inferno and speedscope read.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/report-priv.h"

struct line {
	char *stack;
	double bytes;
};

typedef ht_vec(struct line) lines;

/* ';' separates the frames, and no reader knows a way to quote it. */
static void put_step(struct ht_buf *out, const struct ht_step *step)
{
	size_t start = out->len, i;

	if (step->placeholder)
		ht_buf_printf(out, "[%s]", step->name);
	else
		ht_buf_puts(out, *step->name ? step->name : "?");
	for (i = start; i < out->len; i++)
		if (out->data[i] == ';')
			out->data[i] = ',';
}

static int add_site(const ht_steps *steps, double bytes, lines *all)
{
	struct ht_buf stack = HT_BUF_INIT;
	struct line *line;
	size_t i;

	for (i = steps->len; i > 0; i--) {
		put_step(&stack, &steps->at[i - 1]);
		if (i > 1)
			ht_buf_putc(&stack, ';');
	}
	line = stack.failed ? NULL : ht_vec_push(all);
	if (!line) {
		ht_buf_fini(&stack);
		return -ENOMEM;
	}
	*line = (struct line){ stack.data, bytes };
	return 0;
}

static int by_stack(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->stack, ((const struct line *)b)->stack);
}

static void put_lines(lines *all, struct ht_buf *out)
{
	double bytes = 0;
	size_t i;

	if (all->len)
		qsort(all->at, all->len, sizeof(*all->at), by_stack);
	for (i = 0; i < all->len; i++) {
		bytes += all->at[i].bytes;
		if (i + 1 < all->len && by_stack(&all->at[i], &all->at[i + 1]) == 0)
			continue;
		if (bytes >= 0.5)
			ht_buf_printf(out, "%s %.0f\n", all->at[i].stack, bytes);
		bytes = 0;
	}
}

static int write_stacks(const struct ht_recording *recording, enum ht_metric metric,
			struct ht_buf *out, struct ht_err *err)
{
	size_t n = ht_ledger_site_count(recording->ledger), i;
	ht_steps steps = HT_VEC_INIT;
	lines all = HT_VEC_INIT;
	int r = 0;

	for (i = 0; r == 0 && i < n; i++) {
		struct ht_figures figures;
		double bytes;

		ht_ledger_site_figures(recording->ledger, (uint32_t)i, &figures);
		bytes = ht_metric_sum(&figures, metric)->bytes;
		if (bytes <= 0)
			continue;
		r = ht_steps_of_site(recording, (uint32_t)i, false, &steps);
		if (r == 0)
			r = add_site(&steps, bytes, &all);
	}
	if (r == 0)
		put_lines(&all, out);
	for (i = 0; i < all.len; i++)
		free(all.at[i].stack);
	ht_vec_fini(&all);
	ht_vec_fini(&steps);
	if (r < 0 || out->failed)
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM,
				  "can't write the collapsed stacks: out of memory");
	return 0;
}

static int write_live(const struct ht_recording *recording,
		      const struct ht_report_options *options, struct ht_buf *out,
		      struct ht_err *err)
{
	(void)options;
	return write_stacks(recording, HT_METRIC_LIVE, out, err);
}

static int write_peak(const struct ht_recording *recording,
		      const struct ht_report_options *options, struct ht_buf *out,
		      struct ht_err *err)
{
	(void)options;
	return write_stacks(recording, HT_METRIC_PEAK, out, err);
}

const struct ht_report_format ht_report_folded = {
	.name = "folded",
	.suffix = ".folded",
	.help = "live bytes as collapsed stacks, for flame graphs",
	.write = write_live,
};

const struct ht_report_format ht_report_folded_peak = {
	.name = "folded-peak",
	.suffix = ".peak.folded",
	.help = "the peak's bytes as collapsed stacks, for flame graphs",
	.write = write_peak,
};
