/* SPDX-License-Identifier: Apache-2.0
 *
 * emit.c: from a recording to its reports.
 *
 * Lines and inlined calls come out of the DWARF of whatever the target had mapped: that
 * can take minutes, and a crafted file may crash the library that reads it. So the full
 * reports are made in a child. If it dies, or if a signal says that there was waiting
 * enough, the reports are made once more here, with names only.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "cmd/record.h"

#define REPORT_MAX ((size_t)1 << 30)

struct emitter {
	const struct ht_record_options *options;
	const struct ht_outputs *outputs;
	struct ht_recording recording;
	struct ht_buf bufs[HT_OUTPUTS_MAX];
	int memfds[HT_OUTPUTS_MAX];
	ht_untapped_list untapped;
	const struct ht_jit *jit;
	struct ht_debuginfod *debuginfod;	/* in the child; never freed */
};

static struct ht_symbols *free_symbols(struct ht_symbols *symbols)
{
	return symbols ? ht_symbols_free(symbols) : NULL;
}

static int fill_recording(struct emitter *e, const struct ht_tap *tap, bool launched,
			  const char *ended)
{
	const struct ht_record_options *options = e->options;
	struct ht_ledger_counters counters;
	struct ht_tap_result result;
	int r;

	ht_tap_result(tap, &result);
	r = ht_untapped_of(&result, &e->untapped);
	e->jit = result.jit;
	ht_ledger_counters(result.ledger, &counters);
	e->recording = (struct ht_recording){
		.command = result.command,
		.exe = result.exe,
		.pid = result.pid,
		.allocators = result.allocators,
		.start_unix_ns = result.start_unix_ns,
		.duration_ns = result.duration_ns,
		.interval = options->tap.min_size ? 0 : options->tap.interval,
		.min_size = options->tap.min_size,
		.samples = result.samples,
		.launched = launched,
		.ended = ended,
		.stops = result.stops,
		.left = result.left,
		.stop_max_ns = result.stop_max_ns,
		.stop_total_ns = result.stop_total_ns,
		.threads = result.threads,
		.lost_allocs = result.lost_allocs,
		.lost_frees = result.lost_frees,
		.lost_corrupt = result.lost_corrupt,
		.untracked = counters.untracked,
		.drops = result.drops,
		.successor = result.successor,
		.successor_likely = result.successor_likely,
		.cut = result.cut,
		.untapped = e->untapped.at,
		.n_untapped = e->untapped.len,
		.cut_stacks = result.cut_stacks,
		.ledger = result.ledger,
		.modules = result.modules,
	};
	return r;
}

/* All reports into the buffers. */
static int make_reports(struct emitter *e, bool lines, struct ht_err *err)
{
	struct ht_symbol_options symbol_options = { .no_lines = !lines, .jit = e->jit,
						    .debuginfod = e->debuginfod };
	int r = ht_symbols_new(e->recording.modules, &symbol_options, &e->recording.symbols);

	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "can't read symbols: %s",
				  strerror(-r));
	for (size_t i = 0; i < e->outputs->n && r == 0; i++) {
		const struct ht_output *output = &e->outputs->at[i];
		struct ht_report_options options = {
			.width = output->width,
			.color = output->color,
			.verbose = e->options->verbose,
			.limit = e->options->limit,
		};

		ht_buf_clear(&e->bufs[i]);
		r = output->format->write(&e->recording, &options, &e->bufs[i], err);
		if (r == 0 && e->bufs[i].failed)
			r = ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	}
	e->recording.symbols = free_symbols(e->recording.symbols);
	return ht_min(r, 0);
}

/* In the child. 0 or 1, its exit status. */
static int make_reports_for_parent(struct emitter *e)
{
	struct ht_err err;
	int r;

	ht_bound_memory();
	e->debuginfod = ht_fetch_start(e->options);
	r = make_reports(e, true, &err);
	for (size_t i = 0; i < e->outputs->n && r == 0; i++)
		r = ht_fd_write_all(e->memfds[i], e->bufs[i].data, e->bufs[i].len);
	return r < 0;
}

/* By somebody who wanted it so. */
static bool was_asked_to_end(int status)
{
	int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	return sig == SIGINT || sig == SIGTERM || sig == SIGHUP;
}

/* Wait for the child; a signal that asks for the end ends it. -EINTR: it did; -ECHILD: it failed. */
static int wait_for_reports(pid_t child, int signal_fd)
{
	struct pollfd fds[2] = { { .events = POLLIN }, { .events = POLLIN } };
	int status, from;
	bool asked;

	fds[0].fd = ht_errno_of(syscall(SYS_pidfd_open, child, 0));
	fds[1].fd = signal_fd;
	while (fds[0].fd >= 0 && poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	/* A Ctrl-C got to the child as well, so both may have come. */
	asked = ht_signals_next(signal_fd, &from);
	if (asked)
		kill(child, SIGKILL);
	ht_fd_close(fds[0].fd);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return asked || was_asked_to_end(status) ? -EINTR : -ECHILD;
}

static int collect(struct emitter *e)
{
	int r = 0;

	for (size_t i = 0; i < e->outputs->n && r == 0; i++) {
		ht_buf_clear(&e->bufs[i]);
		if (lseek(e->memfds[i], 0, SEEK_SET) < 0)
			return -errno;
		r = ht_buf_read_fd(&e->bufs[i], e->memfds[i], REPORT_MAX);
	}
	return r;
}

static int make_full_reports(struct emitter *e, int signal_fd)
{
	pid_t child;
	int r;

	for (size_t i = 0; i < e->outputs->n; i++) {
		e->memfds[i] = ht_errno_of(memfd_create("heaptap-report", MFD_CLOEXEC));
		if (e->memfds[i] < 0)
			return e->memfds[i];
	}
	child = fork();
	if (child < 0)
		return -errno;
	if (child == 0) {
		ht_signals_default();
		_exit(make_reports_for_parent(e));
	}
	r = wait_for_reports(child, signal_fd);
	return r < 0 ? r : collect(e);
}

static int write_reports(struct emitter *e, struct ht_outputs *outputs, struct ht_err *err)
{
	int result = 0, r;

	for (size_t i = 0; i < outputs->n; i++) {
		struct ht_output *output = &outputs->at[i];
		bool file = output->fd != STDOUT_FILENO && output->fd != STDERR_FILENO;
		struct ht_err each;

		r = ht_output_write(output, &e->bufs[i], &each);
		if (r < 0 && result < 0)
			ht_cmd_talk("%s", each.text);
		if (r < 0 && result == 0) {
			result = r;
			if (err)
				*err = each;
		}
		if (r == 0 && file && !e->options->quiet)
			ht_cmd_talk("wrote %s", output->name);
	}
	return result;
}

/* Is there a report that people read now, and that says so? */
static bool text_is_shown(const struct ht_outputs *outputs)
{
	for (size_t i = 0; i < outputs->n; i++) {
		const struct ht_output *output = &outputs->at[i];

		if (output->format == &ht_report_text &&
		    (output->fd == STDOUT_FILENO || output->fd == STDERR_FILENO))
			return true;
	}
	return false;
}

/* Folded stacks have no place for it, and nobody may look into the other files. */
static void warn_of_losses(const struct emitter *e)
{
	_cleanup_(ht_buf_fini) struct ht_buf line = HT_BUF_INIT;
	int r;

	ht_buf_puts(&line, "heaptap: ");
	ht_symbol_clean(e->recording.command, 64, &line);
	ht_buf_printf(&line, " (%d): ", e->recording.pid);
	if (!ht_losses(&e->recording, &line) || ht_buf_putc(&line, '\n') < 0)
		return;
	r = ht_fd_write_all(STDERR_FILENO, line.data, line.len);
	(void)r;
}

int ht_emit(const struct ht_record_options *options, const struct ht_tap *tap,
	    bool launched, const char *ended, int signal_fd, struct ht_outputs *outputs,
	    struct ht_err *err)
{
	struct emitter e = { .options = options, .outputs = outputs };
	int from, r;

	for (size_t i = 0; i < HT_OUTPUTS_MAX; i++)
		e.memfds[i] = -1;
	r = fill_recording(&e, tap, launched, ended);
	if (r == 0 && ht_signals_next(signal_fd, &from))
		r = -EINTR;
	if (r == 0)
		r = make_full_reports(&e, signal_fd);
	if (r < 0) {
		if (!options->quiet)
			ht_cmd_talk("the report has names only, no lines and inlined calls%s",
				    r == -ECHILD ? ": what reads them failed, for want of memory or of a well-formed file" : "");
		r = make_reports(&e, false, err);
	}
	if (r == 0)
		r = write_reports(&e, outputs, err);
	if (!text_is_shown(outputs))
		warn_of_losses(&e);
	ht_vec_fini(&e.untapped);
	for (size_t i = 0; i < HT_OUTPUTS_MAX; i++) {
		ht_buf_fini(&e.bufs[i]);
		ht_fd_close(e.memfds[i]);
	}
	return r;
}
