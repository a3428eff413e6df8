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

static int taps[HT_HARM_KINDS];	/* that were put in, by kind */

static void endure(const char *storm)
{
	struct ht_test_target t;
	char reply[HT_HARM_REPLY];

	ck_ok(ht_test_target_start(&t, "storms", (const char *const[]){ storm, NULL }));
	for (size_t i = 0; i < HT_HARM_KINDS; i++) {
		for (int k = 0; k < ht_harm_rounds(1); k++)
			taps[i] += ht_harm_tap(&t, &ht_harm_kinds[i], "check", "check", reply);
		printf("%s: %s: %d taps by now, %s\n", storm, ht_harm_kinds[i].name, taps[i],
		       reply);
		fflush(stdout);
	}
	ht_harm_nothing_left(&t, storm);
	ck_ok(ht_test_target_stop(&t, NULL));
}

START_TEST(they_go_on)
{
	int all = ht_harm_rounds(1) * (int)ARRAY_SIZE(storms), by_dlopen = 0;

	for (size_t i = 0; i < ARRAY_SIZE(storms); i++)
		endure(storms[i]);
	for (size_t i = 0; i < HT_HARM_KINDS; i++) {
		if (ht_harm_kinds[i].loader == HT_LOADER_DLOPEN)
			by_dlopen += taps[i];
		else
			ck_assert_msg(taps[i] == all, "%s: %d of %d", ht_harm_kinds[i].name,
				      taps[i], all);
	}
	ck_assert_int_gt(by_dlopen, 0);
}
END_TEST

int main(void)
{
	return ht_check_run_for("storms", ht_harm_rounds(180),
				(const TTest *const[]){ they_go_on, NULL });
}
