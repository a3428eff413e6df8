/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests that lack something make of the exit status.
 */
#include "ht_check.h"

START_TEST(passes)
{
	ck_assert(ht_check_have(true, "wonder"));
}
END_TEST

START_TEST(lacks_something)
{
	ck_assert(!ht_check_have(false, "unicorn"));
}
END_TEST

START_TEST(fails)
{
	ck_abort_msg("as it should");
}
END_TEST

/* Not in a test of Check's, which can't run in each other. */
#define RUN(...) ht_check_run("inner", (const TTest *const[]){ __VA_ARGS__, NULL })

int main(void)
{
	bool good = RUN(passes) == 0 && RUN(lacks_something, passes) == 77 &&
		    RUN(lacks_something, fails) == 1 && RUN(passes) == 0;

	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
