/* SPDX-License-Identifier: Apache-2.0
 *
 * text_tree.c: one section of the text report: the functions that allocate, each with the
 * path of callers that most of it comes from.
 *
 *	sdsnewlen  src/sds.c:101              301.0 MiB   73 %   1.6 M   ±1.0 %
 *	  └ createStringObject  src/object.c:74
 *	    ├ 60 % setGenericCommand  src/t_string.c:88
 *	    │  └ call → processCommand → main  [7 frames]
 *	    └ 40 % appendCommand → call → main  [7 frames]
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "report/report-priv.h"

#define DEFAULT_LIMIT 10
#define CHAIN_LINES 3		/* callers on lines of their own before the rest is run together */
#define MAX_BRANCHES 4
#define MAX_LEVELS 4		/* branches below branches */
#define DOMINANT 0.98		/* a caller with this share is the only one for people */
#define SHOWN_BRANCH 0.05

#define COL_BYTES 12
#define COL_SHARE 8
#define COL_OBJECTS 12
#define MIN_LABEL 24

#define BRANCH "\342\224\234 "		/* ├ */
#define CORNER "\342\224\224 "		/* └ */
#define TRUNK "\342\224\202  "		/* │ */
#define ARROW " \342\206\222 "		/* → */
#define ELLIPSIS "\342\200\246"

struct section {
	const struct ht_recording *recording;
	const struct ht_report_options *options;
	struct ht_buf *out;
	const ht_sites_tree *tree;
	double whole;			/* bytes of all entries */
	uint64_t interval;
	bool exact;
	bool objects;			/* is there room for that column? */
	size_t label;			/* width of the first column */
};

/* The last directory and the file. */
static const char *short_file(const char *file)
{
	const char *slash = strrchr(file, '/');

	while (slash && slash > file && slash[-1] != '/')
		slash--;
	if (slash && slash > file)
		return slash;
	return file[0] == '/' && file[1] ? file + 1 : file;
}

static void put_name(struct ht_buf *out, const struct ht_step *step, bool shorten)
{
	if (step->placeholder)
		ht_buf_printf(out, "[%s]", step->name);
	else if (shorten)
		ht_columns_short_name(out, step->name);
	else
		ht_buf_puts(out, *step->name ? step->name : "?");
}

/* Where a function is: file and line, else its module. */
static void put_place(const struct section *s, struct ht_buf *out, const struct ht_step *step)
{
	const struct ht_module *module;

	if (step->placeholder || step->unknown)
		return;
	if (step->file && *step->file) {
		ht_buf_puts(out, "  ");
		ht_buf_puts(out, short_file(step->file));
		if (step->line)
			ht_buf_printf(out, ":%u", step->line);
		return;
	}
	module = ht_modules_at(s->recording->modules, step->module);
	if (!module)
		return;
	ht_buf_puts(out, "  [");
	ht_symbol_clean(ht_module_name(module), 64, out);
	ht_buf_putc(out, ']');
}

/* Append "name  file:line", "name ×3  ..." when it called itself, in at most @max columns
 * (0: any): first the arguments go, then the end of the name. */
static void put_label(const struct section *s, struct ht_buf *out, const struct ht_step *step,
		      size_t repeats, size_t max)
{
	_cleanup_(ht_buf_fini) struct ht_buf name = HT_BUF_INIT, place = HT_BUF_INIT;
	size_t room;

	put_name(&name, step, false);
	if (repeats > 1)
		ht_buf_printf(&place, " \303\227%zu", repeats);
	put_place(s, &place, step);
	if (!place.data)
		ht_buf_puts(&place, "");
	if (max && name.data && ht_columns(name.data) + ht_columns(place.data) > max) {
		ht_buf_clear(&name);
		put_name(&name, step, true);
	}
	if (!name.data || !place.data || name.failed || place.failed) {
		out->failed = true;
		return;
	}
	room = ht_columns(place.data);
	/* A place that leaves no room for a name is worth less than the name. */
	if (max && room + MIN_LABEL / 2 > max)
		ht_buf_clear(&place);
	room = max > ht_columns(place.data) ? max - ht_columns(place.data) : max;
	ht_columns_cut(out, name.data, max ? room : 0);
	ht_buf_puts(out, place.data);
}

static size_t room_behind(const struct section *s, const char *prefix)
{
	size_t used = ht_columns(prefix);

	if (!s->options->width)
		return 0;
	return s->options->width > used + 8 ? s->options->width - used : 8;
}

static bool only_caller(const struct section *s, const struct ht_sites_node *node)
{
	const struct ht_sites_node *child = &s->tree->at[node->child];

	return node->child && (!child->sibling ||
			       child->sum.bytes >= DOMINANT * node->sum.bytes);
}

/* How often the first function of @run follows itself. */
static size_t recursion(const struct section *s, const uint32_t *run, size_t n)
{
	size_t repeats = 1;

	while (repeats < n && s->tree->at[run[repeats]].step.name ==
				      s->tree->at[run[0]].step.name)
		repeats++;
	return repeats;
}

/* "a → b ×3 → … → main  [7 frames]": of what doesn't fit the middle is left out. Callers that
 * aren't shown, as there are several, are an ellipsis at the end. */
static void put_chain(const struct section *s, const uint32_t *run, size_t n, size_t max)
{
	bool open = s->tree->at[run[n - 1]].child;
	char frames[HT_HUMAN];
	_cleanup_(ht_buf_fini) struct ht_buf last = HT_BUF_INIT, tail = HT_BUF_INIT,
					     one = HT_BUF_INIT;
	size_t used = 0, i, repeats, room;

	put_name(&last, &s->tree->at[run[n - 1]].step, true);
	ht_buf_printf(&tail, "%s  [%s]", open ? ARROW ELLIPSIS : "",
		      ht_human_plural(frames, n, "frame", "frames"));
	if (last.failed || tail.failed) {
		s->out->failed = true;
		return;
	}
	/* Always kept: "… → last  [n frames]". */
	room = ht_columns(last.data) + ht_columns(tail.data) + 4;
	for (i = 0; i + 1 < n; i += repeats) {
		repeats = recursion(s, run + i, n - 1 - i);
		ht_buf_clear(&one);
		put_name(&one, &s->tree->at[run[i]].step, true);
		if (repeats > 1)
			ht_buf_printf(&one, " \303\227%zu", repeats);
		if (one.failed)
			break;
		used += ht_columns(one.data) + 3;
		if (max && used + room > max) {
			ht_buf_puts(s->out, ELLIPSIS ARROW);
			break;
		}
		ht_buf_puts(s->out, one.data);
		ht_buf_puts(s->out, ARROW);
	}
	room = ht_columns(tail.data) + 4;
	ht_columns_cut(s->out, last.data, !max ? 0 : max > room + 4 ? max - room : 4);
	ht_buf_puts(s->out, tail.data);
}

static void line_start(const struct section *s, const char *prefix, const char *joint)
{
	ht_style_on(s->out, s->options, HT_STYLE_DIM);
	ht_buf_printf(s->out, "%s%s", prefix, joint);
	ht_style_off(s->out, s->options);
}

static void put_callers(const struct section *s, uint32_t node, const char *prefix,
			unsigned level, double whole);

/* All the callers from run[0] on to where they part or end. At most @max of them. */
static size_t follow(const struct section *s, uint32_t node, uint32_t *run, size_t max)
{
	size_t n = 0;

	run[n++] = node;
	while (n < max && only_caller(s, &s->tree->at[node])) {
		node = s->tree->at[node].child;
		run[n++] = node;
	}
	return n;
}

/* The callers in @run, the first ones one a line, then what comes behind them. */
static void put_run(const struct section *s, const uint32_t *run, size_t n,
		    struct ht_buf *prefix, unsigned level, double whole)
{
	size_t i, start = prefix->len, repeats, lines = 0;

	for (i = 0; i < n && !prefix->failed; i += repeats) {
		bool rest = lines++ >= CHAIN_LINES && n - i > 1;

		repeats = recursion(s, run + i, n - i);

		line_start(s, prefix->data, CORNER);
		if (rest)
			put_chain(s, run + i, n - i, room_behind(s, prefix->data));
		else
			put_label(s, s->out, &s->tree->at[run[i]].step, repeats,
				  room_behind(s, prefix->data) ?
					  room_behind(s, prefix->data) - 2 : 0);
		ht_buf_putc(s->out, '\n');
		ht_buf_puts(prefix, "  ");
		if (rest)
			break;
	}
	if (!prefix->failed)
		put_callers(s, run[n - 1], prefix->data, level, whole);
	prefix->len = start;
	if (prefix->data)
		prefix->data[start] = '\0';
}

/* One of several callers; only the first is followed to its own callers. */
static void put_branch(const struct section *s, uint32_t node, const char *prefix, bool last,
		       bool hot, unsigned level, double whole)
{
	_cleanup_(ht_buf_fini) struct ht_buf below = HT_BUF_INIT;
	uint32_t run[HT_MAX_FRAMES];
	char share[HT_HUMAN];
	size_t n = follow(s, node, run, ARRAY_SIZE(run)), room;

	ht_buf_printf(&below, "%s%s", prefix, last ? "   " : TRUNK);
	if (below.failed) {
		s->out->failed = true;
		return;
	}
	line_start(s, prefix, last ? CORNER : BRANCH);
	ht_columns_right(s->out, ht_human_percent(share, s->tree->at[node].sum.bytes, whole), 5);
	ht_buf_putc(s->out, ' ');
	room = room_behind(s, prefix);
	room = room > 17 ? room - 8 : room ? 8 : 0;
	if (hot || (n == 1 && !s->tree->at[node].child))
		put_label(s, s->out, &s->tree->at[node].step, 1, room);
	else
		put_chain(s, run, n, room);
	ht_buf_putc(s->out, '\n');
	if (hot && n > 1)
		put_run(s, run + 1, n - 1, &below, level, whole);
	else if (hot)
		put_callers(s, node, below.data, level, whole);
}

/* The callers of @node, whose only caller isn't known to be one. */
static void put_callers(const struct section *s, uint32_t node, const char *prefix,
			unsigned level, double whole)
{
	uint32_t child = s->tree->at[node].child, run[HT_MAX_FRAMES];
	double shown = 0, all = s->tree->at[node].sum.bytes;
	_cleanup_(ht_buf_fini) struct ht_buf copy = HT_BUF_INIT;
	char number[HT_HUMAN], share[HT_HUMAN];
	size_t n = 0, more = 0;

	if (!child)
		return;
	if (level >= MAX_LEVELS) {
		line_start(s, prefix, CORNER ELLIPSIS);
		ht_buf_putc(s->out, '\n');
		return;
	}
	if (only_caller(s, &s->tree->at[node])) {
		ht_buf_puts(&copy, prefix);
		put_run(s, run, follow(s, child, run, ARRAY_SIZE(run)), &copy, level, whole);
		s->out->failed |= copy.failed;
		return;
	}
	for (uint32_t c = child; c; c = s->tree->at[c].sibling)
		more++;
	for (; child; child = s->tree->at[child].sibling) {
		double bytes = s->tree->at[child].sum.bytes;

		if (n && (n >= MAX_BRANCHES || bytes < SHOWN_BRANCH * all))
			break;
		n++;
		more--;
		shown += bytes;
		put_branch(s, child, prefix, more == 0, n == 1, level + 1, whole);
	}
	if (more == 0)
		return;
	line_start(s, prefix, CORNER);
	ht_columns_right(s->out, ht_human_percent(share, all - shown, whole), 5);
	ht_buf_printf(s->out, " %s\n",
		      ht_human_plural(number, more, "more caller", "more callers"));
}

static const char *error_text(const struct section *s, const struct ht_sum *sum,
			      char text[HT_HUMAN])
{
	char exact[HT_HUMAN];

	if (!s->exact)
		return ht_human_error(text, sum, s->interval);
	snprintf(text, HT_HUMAN, "%.30s bytes", ht_human_exact(exact, sum->bytes));
	return text;
}

static void put_numbers(const struct section *s, const struct ht_sum *sum)
{
	char text[HT_HUMAN];

	ht_columns_right(s->out, ht_human_bytes(text, sum->bytes), COL_BYTES);
	ht_columns_right(s->out, ht_human_percent(text, sum->bytes, s->whole), COL_SHARE);
	if (s->objects)
		ht_columns_right(s->out, s->exact ? ht_human_exact(text, sum->objects) :
						    ht_human_short(text, sum->objects),
				 COL_OBJECTS);
	ht_buf_printf(s->out, "  %s\n", error_text(s, sum, text));
}

static void put_entry(struct section *s, const struct ht_sites_entry *entry)
{
	_cleanup_(ht_buf_fini) struct ht_buf label = HT_BUF_INIT;

	ht_buf_puts(&label, "  ");
	put_label(s, &label, &entry->leaf, 1, s->options->width ? s->label - 2 : 0);
	if (label.failed) {
		s->out->failed = true;
		return;
	}
	ht_style_on(s->out, s->options, HT_STYLE_STRONG);
	ht_columns_left(s->out, label.data, s->label);
	ht_style_off(s->out, s->options);
	/* Where nothing is cut, for want of a terminal, a long one stands by itself. */
	if (ht_columns(label.data) > s->label) {
		ht_buf_putc(s->out, '\n');
		ht_columns_left(s->out, "", s->label);
	}
	put_numbers(s, &entry->sum);
	put_callers(s, 0, "    ", 0, entry->sum.bytes);
}

/* The columns from what the entries need and from the terminal. */
static void lay_out(struct section *s, const struct ht_sites *sites, size_t shown)
{
	size_t numbers = COL_BYTES + COL_SHARE + 2, error = 6, need = 40, i;
	char text[HT_HUMAN];

	for (i = 0; i < shown; i++) {
		_cleanup_(ht_buf_fini) struct ht_buf label = HT_BUF_INIT;

		put_label(s, &label, &sites->entries.at[i].leaf, 1, 0);
		if (label.data)
			need = ht_max(need, ht_columns(label.data) + 2);
		error = ht_max(error, ht_columns(error_text(s, &sites->entries.at[i].sum,
							    text)));
	}
	numbers += error;
	s->objects = true;
	if (!s->options->width) {
		s->label = ht_min(need, (size_t)72);
		return;
	}
	s->objects = s->options->width >= numbers + COL_OBJECTS + MIN_LABEL;
	numbers += s->objects ? COL_OBJECTS : 0;
	s->label = s->options->width > numbers + MIN_LABEL ? s->options->width - numbers :
							     MIN_LABEL;
	need = ht_min(need, (size_t)100);
	s->label = ht_min(s->label, need);
}

static void put_head(const struct section *s, enum ht_metric metric)
{
	static const char *const titles[] = {
		[HT_METRIC_LIVE] = "Live by call site",
		[HT_METRIC_PEAK] = "Peak by call site",
		[HT_METRIC_TOTAL] = "Allocated by call site",
	};
	char title[64];

	ht_style_on(s->out, s->options, HT_STYLE_HEAD);
	snprintf(title, sizeof(title), "%.*s", (int)s->label, titles[metric]);
	ht_columns_left(s->out, title, s->label);
	ht_columns_right(s->out, "bytes", COL_BYTES);
	ht_columns_right(s->out, "share", COL_SHARE);
	if (s->objects)
		ht_columns_right(s->out, "objects", COL_OBJECTS);
	ht_buf_puts(s->out, s->exact ? "  exact" : "  error");
	ht_style_off(s->out, s->options);
	ht_buf_putc(s->out, '\n');
}

static void put_rest(const struct section *s, const struct ht_sites *sites, size_t shown)
{
	struct ht_sum rest = { 0 };
	char a[HT_HUMAN], b[HT_HUMAN], c[HT_HUMAN];
	size_t i;

	for (i = shown; i < sites->entries.len; i++)
		ht_sum_add(&rest, &sites->entries.at[i].sum);
	if (shown == sites->entries.len)
		return;
	ht_buf_printf(s->out, "  %s, %s (%s); --limit=all shows them\n",
		      ht_human_plural(a, sites->entries.len - shown, "more function",
				      "more functions"),
		      ht_human_bytes(b, rest.bytes),
		      ht_human_percent(c, rest.bytes, s->whole));
}

int ht_text_sites(const struct ht_recording *recording,
		  const struct ht_report_options *options, enum ht_metric metric,
		  struct ht_buf *out)
{
	struct section s = { .recording = recording, .options = options, .out = out,
			     .exact = ht_recording_exact(recording),
			     .interval = ht_metric_interval(recording, metric) };
	ht_sites_tree tree = HT_VEC_INIT;
	struct ht_sites sites;
	size_t shown, i;
	int r;

	r = ht_sites_group(recording, metric, &sites);
	if (r < 0)
		return r;
	for (i = 0; i < sites.entries.len; i++)
		s.whole += sites.entries.at[i].sum.bytes;
	shown = ht_min(sites.entries.len,
		       (size_t)(options->limit ? options->limit : DEFAULT_LIMIT));
	if (shown) {
		lay_out(&s, &sites, shown);
		put_head(&s, metric);
	}
	for (i = 0; r == 0 && i < shown; i++) {
		r = ht_sites_build(recording, &sites, i, &tree);
		s.tree = &tree;
		if (r == 0)
			put_entry(&s, &sites.entries.at[i]);
	}
	if (r == 0)
		put_rest(&s, &sites, shown);
	ht_vec_fini(&tree);
	ht_sites_fini(&sites);
	return r < 0 ? r : out->failed ? -ENOMEM : 0;
}
