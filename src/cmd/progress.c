/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.c: the line on stderr while a recording runs: rewritten in place on a
 * terminal, a new one now and then elsewhere.
 */
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cmd/record.h"

#define TTY_EVERY (HT_NS_PER_SEC / 2)
#define LOG_EVERY (10 * HT_NS_PER_SEC)

void ht_progress_init(struct ht_progress *progress, bool on)
{
	progress->on = on;
	progress->tty = isatty(STDERR_FILENO);
	progress->last_ns = ht_now_ns();
	if (on)
		progress->next_ns = progress->last_ns +
				    (progress->tty ? TTY_EVERY : LOG_EVERY);
}

const char *ht_format_bytes(double bytes, char text[static 32])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	size_t unit = 0;

	/* What would be rounded to 1000 is 1.0 of the next unit. */
	while (fabs(bytes) >= 999.5 && unit + 1 < ARRAY_SIZE(units)) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, 32, "%.*f %s", unit && fabs(bytes) < 99.95 ? 1 : 0, bytes,
		 units[unit]);
	return text;
}

/* "41,210" */
static void put_count(struct ht_buf *out, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			ht_buf_putc(out, ',');
		ht_buf_putc(out, digits[i]);
	}
}

static void put_live(struct ht_buf *out, const struct ht_sum *live,
		     const struct ht_record_options *options)
{
	bool exact = options->tap.interval == 0 || options->tap.min_size;
	char text[32];

	if (exact) {
		ht_buf_printf(out, "live +%s", ht_format_bytes(live->bytes, text));
	} else if (live->samples < HT_FEW_SAMPLES) {
		/* No error bar can be trusted here, but a bound can. */
		ht_buf_printf(out, "live at most %s",
			      ht_format_bytes(ht_sum_upper(live, options->tap.interval),
					      text));
	} else {
		ht_buf_printf(out, "live +%s ±%.0f %%", ht_format_bytes(live->bytes, text),
			      100 * ht_bar95(live->bytes_variance) / live->bytes);
	}
}

/* Of samples as a share, too: each stands for many allocations. */
static void put_lost(struct ht_buf *out, const struct ht_tap_result *result, bool exact)
{
	uint64_t lost = result->lost_allocs + result->lost_frees + result->lost_corrupt;
	double all = (double)result->samples + (double)result->lost_allocs;
	double percent = all > 0 ? 100 * (double)result->lost_allocs / all : 0;

	ht_buf_puts(out, "lost ");
	put_count(out, lost);
	if (exact || lost == 0)
		return;
	ht_buf_printf(out, " sample%s", lost == 1 ? "" : "s");
	if (percent >= 1)
		ht_buf_printf(out, " (%.0f %%)", percent);
	else if (percent > 0)
		ht_buf_puts(out, " (<1 %)");
}

/* The parts of a line: in this order they go when it's too long. */
enum part { HINT, TOTAL, PID, SAMPLES, NAME, RATE, LIVE, PARTS };

struct line {
	const struct ht_tap_result *result;
	const struct ht_record_options *options;
	double rate;		/* bytes a second; below 0: not to be told */
	const char *hint;	/* or NULL */
	bool urgent;
};

/* All parts from @first on. */
static void put_parts(const struct line *line, enum part first, struct ht_buf *out)
{
	const struct ht_tap_result *result = line->result;
	double seconds = (double)result->duration_ns / (double)HT_NS_PER_SEC;
	bool exact = line->options->tap.interval == 0 || line->options->tap.min_size;
	struct ht_figures figures;
	char text[32];

	ht_ledger_total(result->ledger, &figures);
	if (first <= NAME)
		ht_buf_printf(out, "%s ", result->command);
	if (first <= PID)
		ht_buf_printf(out, "(%d) ", (int)result->pid);
	ht_buf_printf(out, "%.*f s: ", seconds < 9.95 ? 1 : 0, seconds);
	if (first <= LIVE) {
		put_live(out, &figures.live, line->options);
		ht_buf_puts(out, ", ");
	}
	if (first <= RATE && line->rate >= 0)
		ht_buf_printf(out, "%s/s, ", ht_format_bytes(line->rate, text));
	if (first <= TOTAL)
		ht_buf_printf(out, "%s allocated, ",
			      ht_format_bytes(figures.total.bytes, text));
	if (first <= SAMPLES) {
		put_count(out, result->samples);
		ht_buf_printf(out, " sample%s, ", result->samples == 1 ? "" : "s");
	}
	put_lost(out, result, exact);
	if (first <= (line->urgent ? RATE : HINT) && line->hint)
		ht_buf_printf(out, "   [%s]", line->hint);
	for (size_t i = 0; i < out->len; i++)
		if ((unsigned char)out->data[i] < ' ' || out->data[i] == 0x7f)
			out->data[i] = '?';
}

void ht_format_figures(const struct ht_tap_result *result,
		       const struct ht_record_options *options, struct ht_buf *out)
{
	put_parts(&(struct line){ result, options, -1, NULL, false }, HINT, out);
}

/* Bytes a second since the last line. */
static double rate_of(struct ht_progress *progress, const struct ht_tap_result *result)
{
	struct ht_figures figures;
	uint64_t now = ht_now_ns();
	double seconds = (double)(now - progress->last_ns) / (double)HT_NS_PER_SEC;
	double bytes;

	ht_ledger_total(result->ledger, &figures);
	bytes = figures.total.bytes - progress->last_bytes;
	progress->last_ns = now;
	progress->last_bytes = figures.total.bytes;
	return seconds > 0 ? bytes / seconds : -1;
}

/* As many bytes of @out as fill @columns; continuation bytes of UTF-8 take no column. */
static size_t cut_columns(const struct ht_buf *out, unsigned columns)
{
	size_t i;

	for (i = 0; i < out->len; i++) {
		if (((unsigned char)out->data[i] & 0xc0) == 0x80)
			continue;
		if (columns-- == 0)
			break;
	}
	return i;
}

/* Whether a line can be written without being stopped (a background job on a terminal
 * with tostop) or waiting for a reader who may be the target. */
bool ht_progress_writable(const struct ht_progress *progress)
{
	struct pollfd fd = { .fd = STDERR_FILENO, .events = POLLOUT };

	if (progress->tty && tcgetpgrp(STDERR_FILENO) != getpgrp())
		return false;
	return poll(&fd, 1, 0) == 1 && (fd.revents & POLLOUT);
}

/* A line that wraps can't be rewritten: what doesn't fit is left out, and the last column
 * stays empty. No number is cut but on a terminal that has no room for anything. */
static void put_tty_line(const struct line *line, struct ht_buf *out)
{
	_cleanup_(ht_buf_fini) struct ht_buf text = HT_BUF_INIT;
	struct winsize size = { 0 };
	size_t len = SIZE_MAX;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0)
		size.ws_col = 0;
	for (int first = HINT; first <= PARTS; first++) {
		ht_buf_clear(&text);
		put_parts(line, (enum part)first, &text);
		len = size.ws_col ? cut_columns(&text, size.ws_col - 1u) : text.len;
		if (len == text.len)
			break;
	}
	ht_buf_putc(out, '\r');
	ht_buf_append(out, text.data, len);
	ht_buf_puts(out, "\033[K");
	out->failed |= text.failed;
}

static void write_line(struct ht_progress *progress, const struct line *line)
{
	_cleanup_(ht_buf_fini) struct ht_buf out = HT_BUF_INIT;
	int r;

	if (!ht_progress_writable(progress))
		return;
	if (progress->tty) {
		put_tty_line(line, &out);
	} else {
		ht_buf_puts(&out, "heaptap: ");
		put_parts(line, TOTAL, &out);
		ht_buf_putc(&out, '\n');
	}
	if (out.failed)
		return;
	r = ht_fd_write_all(STDERR_FILENO, out.data, out.len);
	progress->shown = progress->tty && r == 0;
}

void ht_progress_show(struct ht_progress *progress, const struct ht_tap *tap,
		      const struct ht_record_options *options)
{
	struct ht_tap_result result;

	if (!progress->on || !ht_deadline_passed(progress->next_ns))
		return;
	progress->next_ns = ht_deadline_ns(progress->tty ? TTY_EVERY : LOG_EVERY);
	ht_tap_result(tap, &result);
	write_line(progress, &(struct line){ &result, options, rate_of(progress, &result),
					     progress->hint, progress->urgent });
}

void ht_progress_clear(struct ht_progress *progress)
{
	static const char clear[] = "\r\033[K";
	int r;

	if (!progress->shown || !ht_progress_writable(progress))
		return;
	r = ht_fd_write_all(STDERR_FILENO, clear, sizeof(clear) - 1);
	(void)r;
	progress->shown = false;
}
