/* SPDX-License-Identifier: Apache-2.0
 *
 * A heaptap that reads nothing for a while, as one that was stopped (Ctrl-Z): a target that
 * may wait for it does so once, not for each record; what finds no room is lost, and counted.
 * When heaptap goes on, so does the recording.
 */
#include "compare.h"

static struct comparison comparison;
static struct session session;

/* Threads of the workload, and the one that starts them, for which libc allocates. */
#define THREADS (4 + 1)

static struct ht_tap_result result(void)
{
	struct ht_tap_result now;

	ht_tap_result(session.tap, &now);
	return now;
}

/* Small enough for the workload to fill it. */
static void start(struct ht_tap_options options)
{
	static const char *const args[] = { "reuse", NULL };

	options.ring_size = 256 << 10;
	options.block_us = 500000;
	ck_assert(session_start(&session, "truth", &allocators[0], args));
	session_attach(&session, &options);
	session_ask(&session, "mark");
}

/* The workload, while nobody reads. */
static void go_unread(void)
{
	uint64_t lost = result().lost_allocs + result().lost_frees;
	char line[64];

	ck_ok(ht_test_target_ask(&session.target, "go", line, sizeof(line)));
	ck_assert_str_eq(line, "go done");
	ck_assert_uint_gt(result().lost_allocs + result().lost_frees, lost);
}

static void go_read(void)
{
	uint64_t samples;

	/* What came before is taken in. */
	session_ask(&session, "interval 0");
	samples = result().samples;
	session_ask(&session, "go");
	ck_assert_uint_gt(result().samples, samples);
}

START_TEST(exact)
{
	double truth = 0;

	start(options_exact());
	for (int i = 0; i < 2; i++) {
		uint64_t waits = result().waits;

		go_unread();
		go_unread();
		ck_assert_uint_le(result().waits, waits + THREADS);
		go_read();
	}
	session_cure(&session);
	compare(&session, &comparison);
	for (size_t i = 0; i < comparison.n; i++)
		truth += comparison.rows[i].truth[TOTAL_OBJECTS];
	ck_assert_double_eq((double)(result().samples + result().lost_allocs), truth);
	assert_report_says(&session, "NOT COMPLETE, so not exact: ");
	session_end(&session);
}
END_TEST

START_TEST(sampled)
{
	struct ht_tap_options options = options_sampled(64);

	options.block = false;
	start(options);
	for (int i = 0; i < 2; i++) {
		go_unread();
		go_read();
	}
	ck_assert_uint_eq(result().waits, 0);
	session_cure(&session);
	assert_report_says(&session, "NOT COMPLETE: ");
	session_end(&session);
}
END_TEST

/* Nothing reads what the program lost when it is gone. */
START_TEST(to_the_end_over_a_socket)
{
	struct ht_tap_options options = options_sampled(64);
	struct ht_err err;
	char line[64];
	int status;

	options.block = false;
	options.transport = HT_TRANSPORT_SOCKET;
	start(options);
	ck_ok(ht_test_target_ask(&session.target, "go", line, sizeof(line)));
	ck_ok(ht_test_target_stop(&session.target, &status));
	do {
		ck_ok(ht_tap_serve(session.tap, 0, -1, &session.state, &err));
	} while (session.state == HT_TAP_RUNNING);
	session_cure(&session);
	assert_report_says(&session, "NOT COMPLETE: the socket that its records went through may have been full");
	session.tap = ht_tap_free(session.tap);
}
END_TEST

int main(void)
{
	return ht_check_run_for("unread", 120, (const TTest *const[]){
		exact, sampled, to_the_end_over_a_socket, NULL });
}
