/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_tap.h: what stands in for tap/ in tests of the command line: it taps nothing, does
 * what the test says, and writes down what it was asked for.
 */
#ifndef HT_TESTS_UNIT_FAKE_TAP_H
#define HT_TESTS_UNIT_FAKE_TAP_H

#include "fake_recording.h"
#include "tap/tap.h"

struct ht_tap {
	struct fake fake;
	struct ht_tap_result result;
	struct ht_tap_options options;	/* that it was made with */
	int wait_status;
	unsigned served;		/* how often */

	/* Each may be NULL: it succeeds; the target has exited. */
	int (*attach)(struct ht_tap *tap, pid_t pid, struct ht_err *err);
	int (*launch)(struct ht_tap *tap, char *const argv[], struct ht_err *err);
	int (*serve)(struct ht_tap *tap, int wake_fd, enum ht_tap_state *ret_state,
		     struct ht_err *err);
	int (*cure)(struct ht_tap *tap, struct ht_err *err);
	int (*cure_pid)(pid_t pid, bool *ret_found, bool *ret_left, struct ht_err *err);
	void (*symbols)(bool lines);	/* called when symbols are wanted */
};

/* The one there is. */
extern struct ht_tap fake_tap;
/* What happened, "attach 42; serve; cure; free; ", also in the test's children. */
extern char *fake_tap_log;

void fake_tap_init(void);
void fake_tap_fini(void);
__attribute__((format(printf, 1, 2))) void fake_tap_note(const char *fmt, ...);

/* A report of one line: "report: COMMAND, ENDED, with lines". */
extern const struct ht_report_format fake_format;

#endif
