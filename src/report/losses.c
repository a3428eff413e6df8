/* SPDX-License-Identifier: Apache-2.0
 *
 * losses.c: whether the recording is complete, and how it was sampled, in the same words
 * for every format.
 */
#include <string.h>

#include "report/report-priv.h"

#define MAX_NAMES 3

bool ht_recording_exact(const struct ht_recording *recording)
{
	return recording->interval == 0;
}

/* ", " or " and " or "; " between the parts of a list. */
static void part(struct ht_buf *out, size_t start, const char *between)
{
	if (out->len > start)
		ht_buf_puts(out, between);
}

static bool same_text(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

/* "a, b and 3 more of": functions from @from on that belong together. */
static void put_names(const struct ht_recording *r, size_t from, size_t to, bool all,
		      struct ht_buf *out)
{
	size_t n = 0, more = 0;
	char text[HT_HUMAN];

	for (size_t i = from; i < to; i++) {
		const char *names = r->untapped[i].names;
		size_t len = all ? strlen(names) : strcspn(names, ",");

		if (!all && n >= MAX_NAMES) {
			more++;
			continue;
		}
		ht_buf_puts(out, !n++ ? "" : i + 1 == to ? " and " : ", ");
		ht_buf_append(out, names, len);
	}
	if (more)
		ht_buf_printf(out, " and %s more", ht_human_exact(text, (double)more));
}

/* How many of the functions from @i on are alike. */
static size_t alike(const struct ht_recording *r, size_t i, bool with_reason)
{
	const struct ht_untapped *first = &r->untapped[i], *next = first + 1;

	if (!first->names)
		return 1;
	for (; next < r->untapped + r->n_untapped; next++)
		if (!next->names || !same_text(next->module, first->module) ||
		    next->counted != first->counted ||
		    (with_reason && !same_text(next->why, first->why)))
			break;
	return (size_t)(next - first);
}

static void put_late(const struct ht_untapped *u, struct ht_buf *out)
{
	ht_symbol_clean(u->module, 64, out);
	ht_buf_printf(out, " was %s during the recording and isn't seen", u->late);
}

/* "mi_strdup of libmimalloc.so isn't seen; nothing of libfoo.so is seen" */
static bool put_unseen(const struct ht_recording *r, struct ht_buf *out, size_t start)
{
	bool any = false;

	for (size_t i = 0, n; i < r->n_untapped; i += n) {
		const struct ht_untapped *u = &r->untapped[i];

		n = alike(r, i, false);
		if (u->counted)
			continue;
		any = true;
		if (!out)
			continue;
		part(out, start, "; ");
		if (u->late) {
			put_late(u, out);
			continue;
		}
		if (u->names) {
			put_names(r, i, i + n, false, out);
			ht_buf_puts(out, " of ");
		} else {
			ht_buf_puts(out, "nothing of ");
		}
		ht_symbol_clean(u->module, 64, out);
		ht_buf_puts(out, !u->names ? " is seen" : n > 1 ? " aren't seen" : " isn't seen");
	}
	return any;
}

bool ht_untapped_line(const struct ht_recording *r, size_t *i, bool all, struct ht_buf *out)
{
	const struct ht_untapped *u = &r->untapped[*i];
	size_t n;

	if (*i >= r->n_untapped)
		return false;
	n = alike(r, *i, true);
	ht_buf_puts(out, "Not tapped: ");
	if (u->names)
		put_names(r, *i, *i + n, all, out);
	ht_buf_puts(out, u->names ? " of " : "");
	ht_symbol_clean(u->module, 64, out);
	if (u->late)
		ht_buf_printf(out, ": it was %s during the recording; attach after that to tap it.",
			      u->late);
	else
		ht_buf_printf(out, ": %s%s.", u->why,
			      !u->counted ? "" : n > 1 ? "; what they call is counted" :
							 "; what it calls is counted");
	*i += n;
	return true;
}

/* It counts until the exec, which was noticed a moment later. */
static void put_successor(const struct ht_recording *r, struct ht_buf *out)
{
	char time[HT_HUMAN];

	if (!r->successor)
		return;
	ht_buf_puts(out, r->successor_likely ? "it ended under another name (" :
					       "another program (");
	ht_symbol_clean(r->successor, 64, out);
	if (r->successor_likely)
		ht_buf_puts(out, "), and a program that took its place isn't tapped");
	else
		ht_buf_printf(out, ") took its place within %s, and isn't tapped",
			      ht_human_time(time, r->duration_ns));
}

/* By the program, while it was recorded. */
static void put_cut(const struct ht_recording *r, struct ht_buf *out, size_t start)
{
	char time[HT_HUMAN];

	if (!r->cut)
		return;
	part(out, start, "; ");
	ht_buf_printf(out, "%s, so that nothing is seen from %s on", r->cut,
		      ht_human_time(time, r->duration_ns));
}

/* A sample stands for many allocations: what is missing is told as a share. */
static void put_lost_samples(const struct ht_recording *r, struct ht_buf *out)
{
	double all = (double)r->samples + (double)r->lost_allocs;
	char a[HT_HUMAN], b[HT_HUMAN], percent[HT_HUMAN];

	if (r->lost_allocs)
		ht_buf_printf(out, "%s of %s samples (%s) %s lost, so the figures are too low by about as much, on top of their error",
			      ht_human_exact(a, (double)r->lost_allocs),
			      ht_human_exact(b, all),
			      ht_human_percent(percent, (double)r->lost_allocs, all),
			      r->lost_allocs == 1 ? "was" : "were");
	if (r->lost_allocs && r->lost_frees)
		ht_buf_puts(out, "; ");
	if (r->lost_frees)
		ht_buf_printf(out, "%s lost",
			      ht_human_plural(a, r->lost_frees, "free of a sample was",
					      "frees of samples were"));
}

static void put_lost(const struct ht_recording *r, struct ht_buf *out, size_t start)
{
	char a[HT_HUMAN], b[HT_HUMAN];

	if (!r->lost_allocs && !r->lost_frees)
		return;
	part(out, start, "; ");
	if (!ht_recording_exact(r))
		put_lost_samples(r, out);
	else if (r->lost_allocs && r->lost_frees)
		ht_buf_printf(out, "%s and %s were lost",
			      ht_human_plural(a, r->lost_allocs, "allocation", "allocations"),
			      ht_human_plural(b, r->lost_frees, "free", "frees"));
	else if (r->lost_allocs)
		ht_buf_printf(out, "%s lost", ht_human_plural(a, r->lost_allocs,
							      "allocation was",
							      "allocations were"));
	else
		ht_buf_printf(out, "%s lost", ht_human_plural(a, r->lost_frees, "free was",
							      "frees were"));
}

bool ht_losses(const struct ht_recording *r, struct ht_buf *out)
{
	bool frees_unsure, exact = ht_recording_exact(r);
	struct ht_ledger_counters counters;
	uint64_t untracked;
	char a[HT_HUMAN];
	size_t start;

	ht_ledger_counters(r->ledger, &counters);
	untracked = ht_max(r->untracked, counters.untracked);
	if (!r->lost_allocs && !r->lost_frees && !r->lost_corrupt && !untracked &&
	    !counters.replaced && !counters.late && !r->drops && !r->successor && !r->cut &&
	    !put_unseen(r, NULL, 0))
		return false;
	ht_buf_puts(out, exact ? "NOT COMPLETE, so not exact: " : "NOT COMPLETE: ");
	start = out->len;
	put_successor(r, out);
	put_cut(r, out, start);
	put_unseen(r, out, start);
	put_lost(r, out, start);
	if (r->lost_corrupt) {
		part(out, start, "; ");
		ht_buf_printf(out, "%s dropped",
			      ht_human_plural(a, r->lost_corrupt, "damaged record was",
					      "damaged records were"));
	}
	if (untracked) {
		part(out, start, "; ");
		ht_buf_printf(out, "%s not followed to a free and so not live",
			      ht_human_plural(a, untracked,
					      exact ? "allocation was" : "sample was",
					      exact ? "allocations were" : "samples were"));
	}
	if (counters.replaced) {
		part(out, start, "; ");
		ht_buf_printf(out, "%s missed", ht_human_plural(a, counters.replaced,
								"free was", "frees were"));
	}
	if (counters.late) {
		part(out, start, "; ");
		ht_buf_printf(out, "%s too late for their place in time",
			      ht_human_plural(a, counters.late, "event came", "events came"));
	}
	if (r->drops) {
		part(out, start, "; ");
		ht_buf_printf(out, "%s blocks without naming them, which still count as live",
			      ht_human_plural(a, r->drops, "call freed", "calls freed"));
	}
	frees_unsure = r->lost_frees || r->drops || r->lost_corrupt || counters.replaced;
	if (frees_unsure)
		ht_buf_puts(out, "; leaks can't be told from lost frees");
	ht_buf_putc(out, '.');
	return true;
}

void ht_sampling(const struct ht_recording *recording, bool complete, struct ht_buf *out)
{
	char a[HT_HUMAN], b[HT_HUMAN];

	if (ht_recording_exact(recording)) {
		ht_buf_puts(out, "every allocation");
		if (recording->min_size)
			ht_buf_printf(out, " of %s and more",
				      ht_human_size(a, recording->min_size));
		ht_buf_puts(out, complete ? " recorded" : " was to be recorded");
	} else {
		ht_buf_printf(out, "1 sample per %s, %s",
			      ht_human_size(a, recording->interval),
			      ht_human_plural(b, recording->samples, "sample", "samples"));
	}
	if (recording->min_size)
		ht_buf_printf(out, ", none below %s",
			      ht_human_size(a, recording->min_size));
}
