/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_check.c: see ht_check.h.
 */
#include "ht_check.h"

#include <sys/mman.h>

#include "ht_patience.h"

#define SKIPPED 77

/* Shared with the processes that Check runs the tests in. */
static bool *lacking;

void ht_check_skip(const char *why)
{
	printf("SKIP: %s\n", why);
	exit(SKIPPED);
}

bool ht_check_have(bool have, const char *what)
{
	if (have)
		return true;
	printf("SKIP: no %s\n", what);
	fflush(stdout);
	*lacking = true;
	return false;
}

bool ht_check_preload(const char *library)
{
	char command[256];

	/* The loader complains of what it can't find, and goes on. */
	snprintf(command, sizeof(command), "test -z \"$(LD_PRELOAD=%s /usr/bin/env true 2>&1)\"",
		 library);
	return ht_check_have(!system(command), library) && !setenv("LD_PRELOAD", library, 1);
}

int ht_check_run_suite(Suite *suite)
{
	static const int signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGCHLD };
	SRunner *runner = srunner_create(suite);
	int failed;

	lacking = mmap(NULL, sizeof(*lacking), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (lacking == MAP_FAILED)
		return EXIT_FAILURE;
	/* nohup and background jobs hand down ignored ones. */
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		signal(signals[i], SIG_DFL);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	if (failed)
		return EXIT_FAILURE;
	return *lacking ? SKIPPED : EXIT_SUCCESS;
}

int ht_check_run_for(const char *name, double seconds, const TTest *const *tests)
{
	Suite *suite = suite_create(name);
	TCase *tcase = tcase_create(name);

	tcase_set_timeout(tcase, ht_test_patience(seconds));
	for (; *tests; tests++)
		tcase_add_test(tcase, *tests);
	suite_add_tcase(suite, tcase);
	return ht_check_run_suite(suite);
}
