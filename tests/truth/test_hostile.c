/* SPDX-License-Identifier: Apache-2.0
 *
 * A target that writes nonsense over the ring: heaptap survives and says that records are
 * damaged; the target goes on as if nothing had been, and can be tapped again.
 */
#include "compare.h"
#include "ht_patience.h"

static struct comparison comparison;
static struct session session;

static const char *const parts[] = { "data", "lanes", "header" };

static void scribble_over(const char *part, const struct ht_tap_options *options)
{
	const char *args[] = { part, NULL };
	struct ht_tap_result result;

	ck_assert(session_start(&session, "scribbler", &allocators[0], args));
	for (int i = 0; i < 2; i++) {
		session_attach(&session, options);
		session_ask(&session, "go");
		session_cure(&session);
		compare(&session, &comparison);
		ht_tap_result(session.tap, &result);
		ck_assert_uint_gt(result.lost_corrupt, 0);
		assert_report_says(&session, "NOT COMPLETE");
		assert_report_says(&session, "damaged record");
		session.tap = ht_tap_free(session.tap);
	}
	session_end(&session);
}

START_TEST(exact)
{
	struct ht_tap_options options = options_exact();

	options.block_us = 1000;
	scribble_over(parts[_i], &options);
}
END_TEST

START_TEST(sampled)
{
	struct ht_tap_options options = options_sampled(4096);

	options.block = false;
	scribble_over(parts[_i], &options);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("hostile");
	TCase *tcase = tcase_create("hostile");

	tcase_set_timeout(tcase, ht_test_patience(120));
	tcase_add_loop_test(tcase, exact, 0, 3);
	tcase_add_loop_test(tcase, sampled, 0, 3);
	suite_add_tcase(suite, tcase);
	return ht_check_run_suite(suite);
}
