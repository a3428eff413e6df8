/* SPDX-License-Identifier: Apache-2.0
 *
 * storms: programs that hold locks, make children, or run on odd stacks all the time
 * (tests/targets/storms.c) go on as they should over taps of each kind, and nothing is left
 * in them. HT_HARM=N does everything N times as often.
 */
#include <stdio.h>

#include "harm.h"
#include "ht_check.h"

static const char *const storms[] = { "malloc", "stdio",     "load",	 "dlmopen",
				      "throw",	"fork",	     "spawn",	 "coroutine",
				      "altstack", "cancel",    "tiny",	 "timers",
				      "tsc",	"mdwe" };

static int endure(const char *storm)
{
	struct ht_test_target t;
	char reply[HT_HARM_REPLY];
	int tapped = 0;

	ck_ok(ht_test_target_start(&t, "storms", (const char *const[]){ storm, NULL }));
	for (size_t i = 0; i < HT_HARM_KINDS; i++) {
		for (int k = 0; k < ht_harm_rounds(1); k++)
			tapped += ht_harm_tap(&t, &ht_harm_kinds[i], "check", "check", reply);
		printf("%s: %s: %d taps by now, %s\n", storm, ht_harm_kinds[i].name, tapped,
		       reply);
		fflush(stdout);
	}
	ht_harm_nothing_left(&t, storm);
	ck_ok(ht_test_target_stop(&t, NULL));
	return tapped;
}

START_TEST(they_go_on)
{
	int tapped = 0, by_map = 2 * ht_harm_rounds(1) * (int)ARRAY_SIZE(storms);

	for (size_t i = 0; i < ARRAY_SIZE(storms); i++)
		tapped += endure(storms[i]);
	ck_assert_int_gt(tapped, by_map);
}
END_TEST

int main(void)
{
	return ht_check_run_for("storms", ht_harm_rounds(180),
				(const TTest *const[]){ they_go_on, NULL });
}
