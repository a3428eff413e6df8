/* SPDX-License-Identifier: Apache-2.0
 *
 * record.h: what attach and run have in common: their options, the files they write to,
 * the signals that end them, and the loop between tap and report.
 */
#ifndef HT_CMD_RECORD_H
#define HT_CMD_RECORD_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/compiler.h"
#include "base/err.h"
#include "base/vec.h"
#include "cmd/cmd.h"
#include "report/report.h"
#include "tap/tap.h"

/* options.c */

enum ht_color { HT_COLOR_AUTO, HT_COLOR_ALWAYS, HT_COLOR_NEVER };

#define HT_OUTPUTS_MAX 16

struct ht_record_options {
	struct ht_tap_options tap;
	uint64_t duration_ns;	/* 0: until something else ends it */
	const char *paths[HT_OUTPUTS_MAX];
	size_t n_paths;
	const struct ht_report_format *format;	/* NULL: not given */
	unsigned limit;		/* 0: the report's default; UINT_MAX: all */
	bool quiet;
	bool verbose;
	bool no_progress;
	enum ht_color color;
	const char *target_name;	/* attach --name */
	bool debuginfod;
	const char *debuginfod_urls;	/* NULL: the environment's, or the system's */
};

#define HT_RECORD_OPTIONS_INIT                                                            \
	{                                                                                 \
		.tap = {                                                                  \
			.interval = HT_DEFAULT_INTERVAL,                                  \
			.ring_size = HT_DEFAULT_RING_SIZE,                                \
			.max_stack = HT_DEFAULT_MAX_STACK,                                \
		},                                                                        \
	}

/* Table for commands whose data is a struct ht_record_options. */
extern const struct ht_option ht_record_option_table[];

/* output.c: where reports go. Opened before the target is touched, replaced whole. */

struct ht_output {
	const char *name;	/* for people */
	const struct ht_report_format *format;
	int fd;
	int dirfd;		/* of the file's folder; -1: written in place */
	char *base;		/* name in it */
	char *temp;		/* name of what will replace it, NULL: has none yet */
	bool color;
	unsigned width;
};

struct ht_outputs {
	struct ht_output at[HT_OUTPUTS_MAX];
	size_t n;
};

/* @fallback_fd gets the text report, or the one of --format, when no file was named. */
int ht_outputs_open(struct ht_outputs *outputs, const struct ht_record_options *options,
		    int fallback_fd, struct ht_err *err) _must_check_ _nonnull_args_(1, 2);
/* All of @data, then in the place of the old file. On failure the old one is as it was. */
int ht_output_write(struct ht_output *output, const struct ht_buf *data,
		    struct ht_err *err) _must_check_ _nonnull_args_(1, 2);
/* Takes away what was not written. */
void ht_outputs_close(struct ht_outputs *outputs) _nonnull_;

/* signals.c: INT, TERM and HUP ask for the end. */

/* From now on they are noted instead of killing us. @launching: a program will be started
 * and is to find the dispositions that we were started with. */
void ht_signals_catch(bool launching);
/* From now on they are read from an fd. */
int ht_signals_open(int *ret_fd, struct ht_err *err) _must_check_ _nonnull_args_(1);
/* The next one that came; 0: none. *ret_from is the sender's pid, 0: the terminal. */
int ht_signals_next(int fd, int *ret_from) _nonnull_;
/* They kill again. */
void ht_signals_default(void);

/* progress.c: the line that tells how it goes. */

struct ht_progress {
	bool on;
	bool tty;		/* rewrite in place */
	bool shown;		/* a line is on the terminal now */
	uint64_t next_ns;	/* when to show the next one */
	uint64_t last_ns;	/* the figures of the last one, for the rate */
	double last_bytes;
	const char *hint;	/* "Ctrl-C ends" */
	bool urgent;		/* the hint goes late where there's little room */
};

void ht_progress_init(struct ht_progress *progress, bool on) _nonnull_;
void ht_progress_show(struct ht_progress *progress, const struct ht_tap *tap,
		      const struct ht_record_options *options) _nonnull_;
/* Can a line be written without being stopped or waiting? */
bool ht_progress_writable(const struct ht_progress *progress) _nonnull_;
/* Before anything else is printed to the terminal. */
void ht_progress_clear(struct ht_progress *progress) _nonnull_;
/* "1.9 GiB" */
const char *ht_format_bytes(double bytes, char text[static 32]) _nonnull_;
/* The figures so far: "redis-server (4242) 12 s: live +1.9 MiB ±12 %, ...". */
void ht_format_figures(const struct ht_tap_result *result,
		       const struct ht_record_options *options, struct ht_buf *out) _nonnull_;

/* untapped.c: what could not be tapped, as reports tell it. Its texts are the plan's. */

typedef ht_vec(struct ht_untapped) ht_untapped_list;

/* Append to @list: late modules, then, of a module, those that aren't counted first. 0 or
 * -ENOMEM. */
int ht_untapped_of(const struct ht_tap_result *result, ht_untapped_list *list) _must_check_
	_nonnull_;

/* fetch.c: debug files from servers, by --debuginfod. */

struct ht_debuginfod;

/* Before the target is touched: is it wanted and can't be had? Nothing is asked yet. */
int ht_fetch_check(const struct ht_record_options *options, struct ht_err *err) _must_check_
	_nonnull_args_(1);
/* For the process that makes the reports. NULL when it isn't wanted or can't be had. */
struct ht_debuginfod *ht_fetch_start(const struct ht_record_options *options) _nonnull_;

/* bound.c: for a process that reads hostile files: from now on it can have so much memory as the
 * machine has left, and is the first to go when there's none. */
void ht_bound_memory(void);

/* emit.c: from a recording to its reports. */

/* Write all reports. All are tried; the first failure is the result. @signal_fd: a signal
 * that comes meanwhile leaves out what takes long (lines and inlined calls). */
int ht_emit(const struct ht_record_options *options, const struct ht_tap *tap,
	    bool launched, const char *ended, int signal_fd, struct ht_outputs *outputs,
	    struct ht_err *err) _must_check_ _nonnull_args_(1, 2, 6);

/* record.c */

struct ht_recorder {
	const struct ht_record_options *options;
	struct ht_tap *tap;
	struct ht_outputs outputs;
	struct ht_progress progress;
	int signal_fd;
	bool launched;		/* the target is our child, and shares our terminal */
	unsigned signals;	/* that asked for the end so far */
	int last_signal;
	bool start_told;
	size_t late_told;	/* of the allocators that came late */
	unsigned stops_told;
	enum ht_tap_state state;
	char ended[64];		/* why the recording is over, for the report */
};

#define HT_RECORDER_INIT { .signal_fd = -1 }

void ht_recorder_fini(struct ht_recorder *recorder) _nonnull_;
/* Serve until something ends it, cure, report. */
int ht_record(struct ht_recorder *recorder, struct ht_err *err) _must_check_
	_nonnull_args_(1);

#endif
