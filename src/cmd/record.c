/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c: the loop between tap and report.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attach/target.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cmd/record.h"

void ht_recorder_fini(struct ht_recorder *recorder)
{
	ht_progress_clear(&recorder->progress);
	if (recorder->tap)
		recorder->tap = ht_tap_free(recorder->tap);
	ht_outputs_close(&recorder->outputs);
	recorder->signal_fd = ht_fd_close(recorder->signal_fd);
}

static const char *signal_name(int signal)
{
	return signal == SIGINT ? "Ctrl-C" : signal == SIGTERM ? "SIGTERM" : "SIGHUP";
}

/* True: the recording is to end. A launched program has its own way to deal with signals,
 * and its end is the recording's: the first one is for it. The terminal sent it there as
 * well; one that only we got is handed on. */
static bool take_signal(struct ht_recorder *recorder, int signal, int from)
{
	struct ht_tap_result result;

	recorder->signals++;
	recorder->last_signal = signal;
	if (!recorder->launched || recorder->signals > 1) {
		snprintf(recorder->ended, sizeof(recorder->ended), "%s", signal_name(signal));
		return true;
	}
	ht_tap_result(recorder->tap, &result);
	if (from)
		kill(result.pid, signal);
	recorder->progress.hint = "Ctrl-C again reports now";
	recorder->progress.urgent = true;
	return false;
}

static bool take_signals(struct ht_recorder *recorder)
{
	int signal, from;

	while ((signal = ht_signals_next(recorder->signal_fd, &from)) != 0)
		if (take_signal(recorder, signal, from))
			return true;
	return false;
}

/* A launched program that died of the Ctrl-C that we got as well: it has served its
 * purpose, and is not to hurry the report. */
static void forget_first_signal(struct ht_recorder *recorder)
{
	int from;

	if (recorder->launched && recorder->state == HT_TAP_EXITED && !recorder->signals &&
	    ht_signals_next(recorder->signal_fd, &from))
		recorder->signals++;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return !a ? b : !b ? a : ht_min(a, b);
}

/* Allocators that came since it was told last. */
static void tell_late(struct ht_recorder *recorder)
{
	ht_untapped_list list = HT_VEC_INIT;
	struct ht_tap_result result;

	ht_tap_result(recorder->tap, &result);
	if (recorder->options->quiet || recorder->late_told == result.n_late)
		return;
	ht_progress_clear(&recorder->progress);
	/* Out of memory is told when the report is made. They come first. */
	(void)!ht_untapped_of(&result, &list);
	for (size_t i = recorder->late_told; i < ht_min(list.len, result.n_late); i++)
		ht_cmd_talk("%s was %s during the recording and isn't seen; attach after that to tap it",
			    list.at[i].module, list.at[i].late);
	recorder->late_told = result.n_late;
	ht_vec_fini(&list);
}

/* Those of which the report will say so in its first line. */
static void tell_untapped(const struct ht_tap_result *result)
{
	ht_untapped_list list = HT_VEC_INIT;
	const struct ht_untapped *u;
	size_t functions = 0;

	/* Out of memory is told when the report is made. */
	(void)!ht_untapped_of(result, &list);
	ht_vec_foreach(u, &list) {
		if (!u->names)
			ht_cmd_talk("nothing of %s is seen: %s", u->module, u->why);
		else
			functions += !u->counted;
	}
	if (functions)
		ht_cmd_talk("functions that aren't seen: %zu; the report names them", functions);
	ht_vec_fini(&list);
}

static double ms(uint64_t ns)
{
	return (double)ns / (double)HT_NS_PER_MS;
}

/* Those since it was told last. */
static void tell_stops(struct ht_recorder *recorder)
{
	struct ht_tap_result result;

	if (recorder->options->quiet || !recorder->options->verbose)
		return;
	ht_tap_result(recorder->tap, &result);
	for (unsigned i = recorder->stops_told; i < result.n_stop_log; i++) {
		const struct ht_stop *stop = &result.stop_log[i];
		const uint64_t *phase_ns = stop->phase_ns;

		ht_cmd_talk("%s: stop %u: %.3f ms (seize %.3f, check %.3f, borrow %.3f, write %.3f, resume %.3f), threads: %u",
			    result.exe, i + 1, ms(stop->ns), ms(phase_ns[HT_STOP_SEIZE]),
			    ms(phase_ns[HT_STOP_CHECK]), ms(phase_ns[HT_STOP_BORROW]),
			    ms(phase_ns[HT_STOP_WRITE]), ms(phase_ns[HT_STOP_RESUME]),
			    stop->threads);
	}
	if (result.stops > result.n_stop_log && recorder->stops_told < result.stops)
		ht_cmd_talk("%s: more stops: %u, none of them longer than %.3f ms", result.exe,
			    result.stops - result.n_stop_log, ms(result.stop_max_ns));
	recorder->stops_told = result.stops;
}

static void tell_start(struct ht_recorder *recorder)
{
	struct ht_tap_result result;

	if (recorder->options->quiet || recorder->start_told)
		return;
	recorder->start_told = true;
	ht_tap_result(recorder->tap, &result);
	ht_cmd_talk("tapping %s (%d): %s", result.command, (int)result.pid,
		    result.allocators ? result.allocators : "its allocator");
	tell_untapped(&result);
}

/* While the target is tapped nobody may hold us up, as a terminal does that stops writers in the
 * background, or a reader who may be the target. What can't be told now is told later. */
static void tell_news(struct ht_recorder *recorder)
{
	if (!ht_progress_writable(&recorder->progress))
		return;
	tell_start(recorder);
	tell_stops(recorder);
	tell_late(recorder);
}

static int serve(struct ht_recorder *recorder, struct ht_err *err)
{
	const struct ht_record_options *options = recorder->options;
	uint64_t end = options->duration_ns ? ht_deadline_ns(options->duration_ns) : 0;
	struct ht_progress *progress = &recorder->progress;
	int r;

	for (;;) {
		if (take_signals(recorder))
			return 0;
		r = ht_tap_serve(recorder->tap,
				 sooner(end, progress->on ? progress->next_ns : 0),
				 recorder->signal_fd, &recorder->state, err);
		if (r < 0) {
			snprintf(recorder->ended, sizeof(recorder->ended), "it failed");
			return r;
		}
		if (recorder->state != HT_TAP_RUNNING)
			return 0;
		if (ht_deadline_passed(end)) {
			snprintf(recorder->ended, sizeof(recorder->ended), "duration over");
			return 0;
		}
		tell_news(recorder);
		ht_progress_show(progress, recorder->tap, options);
	}
}

static void tell_end(struct ht_recorder *recorder)
{
	struct ht_tap_result result;
	double seconds;

	ht_tap_result(recorder->tap, &result);
	seconds = (double)result.duration_ns / (double)HT_NS_PER_SEC;
	if (recorder->state == HT_TAP_EXITED) {
		snprintf(recorder->ended, sizeof(recorder->ended), "target exited");
		if (!recorder->options->quiet && !recorder->launched)
			ht_cmd_talk("%d (%s) exited after %.1f s; the report covers until then",
				    (int)result.pid, result.command, seconds);
	} else if (recorder->state == HT_TAP_CUT) {
		snprintf(recorder->ended, sizeof(recorder->ended), "the target cut it off");
		if (!recorder->options->quiet)
			ht_cmd_talk("%d (%s): %s, after %.1f s; the report covers until then; --transport=ring doesn't depend on that",
				    (int)result.pid, result.command, result.cut, seconds);
	} else if (recorder->state == HT_TAP_EXECED) {
		snprintf(recorder->ended, sizeof(recorder->ended), "target ran exec");
		if (!recorder->options->quiet)
			ht_cmd_talk("%d (%s) runs another program (%s) after %.1f s; the report covers until then; %s",
				    (int)result.pid, result.command, result.successor, seconds,
				    recorder->launched ?
					    "give that program to heaptap run, if it's the one you mean" :
					    "attach again to tap that one");
	}
}

/* Even under --quiet: it is about the target. */
static void tell_left(const struct ht_recorder *recorder)
{
	struct ht_tap_result result;

	ht_tap_result(recorder->tap, &result);
	if (result.left)
		ht_cmd_talk("code of heaptap stays mapped in %d (%s), out of use, as a thread or another tool's patch may still lead into it; heaptap cure %d takes it out later",
			    (int)result.pid, result.command, (int)result.pid);
}

/* For when the report went elsewhere. */
static void tell_figures(const struct ht_recorder *recorder)
{
	_cleanup_(ht_buf_fini) struct ht_buf line = HT_BUF_INIT;
	struct ht_tap_result result;

	if (recorder->options->quiet || !recorder->options->n_paths)
		return;
	ht_tap_result(recorder->tap, &result);
	ht_format_figures(&result, recorder->options, &line);
	if (!line.failed)
		ht_cmd_talk("%s", line.data);
}

int ht_record(struct ht_recorder *recorder, struct ht_err *err)
{
	struct ht_err other = { HT_ERR_NONE, "" };
	int r, cured, emitted;

	ht_progress_init(&recorder->progress,
			 !recorder->options->quiet && !recorder->options->no_progress);
	recorder->progress.hint = recorder->launched ? NULL : "Ctrl-C ends";
	tell_news(recorder);
	r = serve(recorder, err);
	ht_progress_clear(&recorder->progress);
	cured = ht_tap_cure(recorder->tap, r < 0 ? &other : err);
	if (r < 0 && cured < 0)
		ht_cmd_talk("%s", other.text);
	r = r < 0 ? r : ht_min(cured, 0);
	tell_late(recorder);
	tell_stops(recorder);
	tell_end(recorder);
	tell_left(recorder);
	forget_first_signal(recorder);
	/* Whatever happened, what was recorded until then is worth having. */
	emitted = ht_emit(recorder->options, recorder->tap, recorder->launched,
			  recorder->ended, recorder->signal_fd, &recorder->outputs,
			  r < 0 ? &other : err);
	if (r < 0 && emitted < 0)
		ht_cmd_talk("%s", other.text);
	if (emitted == 0)
		tell_figures(recorder);
	return r < 0 ? r : emitted;
}
