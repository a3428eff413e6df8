/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_check.h: our use of Check, behind one header.
 *
 *	START_TEST(what_it_does) { ... } END_TEST
 *	int main(void)
 *	{
 *		return ht_check_run("vec", (const TTest *const[]){ what_it_does, NULL });
 *	}
 *
 * One suite a file. Each test runs in its own process group, which is killed afterwards,
 * so targets started in a test are reaped.
 *
 * Nothing passes that didn't test: a test program that can't run here at all calls
 * ht_check_skip() first, which says why and exits 77; Automake counts that as a skip. A test
 * that can't run, or a part of one, asks ht_check_have(), and the program does the same at its
 * end, unless another test failed:
 *
 *	if (!ht_check_have(tool_present("xz"), "xz"))
 *		return;
 */
#ifndef HT_TESTS_HT_CHECK_H
#define HT_TESTS_HT_CHECK_H

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"

_noreturn_ void ht_check_skip(const char *why) _nonnull_;
/* @have; if not, it is said that @what isn't here. In tests only. */
bool ht_check_have(bool have, const char *what) _must_check_ _nonnull_;

/* LD_PRELOAD is set to @library, which the loader finds; else as above. */
bool ht_check_preload(const char *library) _must_check_ _nonnull_;

/* The exit status of main(). */
int ht_check_run_suite(Suite *suite) _must_check_ _nonnull_;
int ht_check_run_for(const char *name, double seconds, const TTest *const *tests)
	_must_check_ _nonnull_;

static inline int ht_check_run(const char *name, const TTest *const *tests)
{
	return ht_check_run_for(name, 60, tests);
}

/* A Check assertion for functions that return 0 or a negative errno. */
#define ck_ok(expr)                                                                       \
	do {                                                                              \
		int r_ = (expr);                                                          \
		ck_assert_msg(r_ >= 0, "%s: %s", #expr, strerror(-r_));                   \
	} while (0)

#endif
