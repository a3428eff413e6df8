/* SPDX-License-Identifier: Apache-2.0
 *
 * rseq: threads that are in restartable sequences all the time (tests/targets/rseq.c), so that
 * each stop finds some in the middle of one. None goes on there after another has been, and
 * none adds twice, over taps of each kind. HT_HARM=N does everything N times as often.
 */
#include <stdio.h>
#include <string.h>

#include "harm.h"
#include "ht_check.h"

START_TEST(sequences_begin_anew)
{
	unsigned long added, aborted;
	struct ht_test_target t;
	char reply[HT_HARM_REPLY];

	ck_ok(ht_test_target_start(&t, "rseq", NULL));
	if (!ht_check_have(!strcmp(t.ready, "READY"), "restartable sequences")) {
		ck_ok(ht_test_target_stop(&t, NULL));
		return;
	}
	for (size_t i = 0; i < HT_HARM_KINDS; i++) {
		for (int k = 0; k < ht_harm_rounds(3); k++)
			(void)ht_harm_tap(&t, &ht_harm_kinds[i], "check", "check", reply);
		printf("%s: %s\n", ht_harm_kinds[i].name, reply);
	}
	ck_assert_int_eq(sscanf(reply, "ok %lu %lu", &added, &aborted), 2);
	ck_assert_uint_gt(aborted, 0);
	ht_harm_nothing_left(&t, "rseq");
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

int main(void)
{
	return ht_check_run_for("rseq", ht_harm_rounds(120),
				(const TTest *const[]){ sequences_begin_anew, NULL });
}
