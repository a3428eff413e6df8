/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs in which there is nothing to tap: each is told what it is.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "ht_check.h"
#include "ht_target.h"
#include "inject/plan.h"

static void target_path(char path[512], const char *name)
{
	const char *dir = getenv("HT_BUILDDIR");

	snprintf(path, 512, "%s/tests/targets/%s", dir ? dir : ".", name);
}

/* Run under @env, a program of tests/targets can't be planned: @why is a part of the text. */
static void refuses_under(const char *env, const char *name, const char *why)
{
	struct ht_err err = { HT_ERR_NONE, "" };
	struct ht_test_target target;
	struct ht_modules *modules;
	struct ht_space *space;
	struct ht_plan *plan = NULL;
	int procfd, memfd, status;
	char path[512];

	target_path(path, name);
	ck_ok(ht_test_target_start(&target, "/usr/bin/env",
				   (const char *const[]){ env, path, NULL }));
	snprintf(path, sizeof(path), "/proc/%d", target.pid);
	procfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(procfd, 0);
	memfd = openat(procfd, "mem", O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(memfd, 0);
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_space_new(procfd, memfd, modules, &space));
	ck_assert_int_eq(ht_plan_new(space, memfd, &plan, &err), -ENOTSUP);
	ck_assert_ptr_null(plan);
	ck_assert_int_eq(err.kind, HT_ERR_UNSUPPORTED);
	ck_assert_msg(strstr(err.text, why) != NULL, "%s: %s", name, err.text);
	ht_space_free(space);
	ht_modules_free(modules);
	ht_fd_close(memfd);
	ht_fd_close(procfd);
	ck_ok(ht_test_target_stop(&target, &status));
}

static void refuses(const char *name, const char *why)
{
	refuses_under("LD_BIND_NOW=", name, why);
}

START_TEST(nothing_to_tap)
{
	refuses("plan_bare", "it has no malloc and free");
}
END_TEST

START_TEST(sanitizers)
{
	refuses("plan_victim_asan", "AddressSanitizer");
}
END_TEST

START_TEST(go)
{
	refuses("plan_bare_go", "Go program");
}
END_TEST

START_TEST(stripped)
{
	refuses("plan_bare_stripped", "static program without symbols");
}
END_TEST

/* Its code is a translation, which calls none of the functions that are mapped. */
START_TEST(valgrind)
{
	char library[512], preload[512], env[600];

	target_path(library, "plan_ifunc.so");
	target_path(preload, "vgpreload_core-test.so");
	unlink(preload);
	ck_assert_int_eq(link(library, preload), 0);
	snprintf(env, sizeof(env), "LD_PRELOAD=%s", preload);
	refuses_under(env, "plan_victim", "Valgrind");
	unlink(preload);
}
END_TEST

int main(void)
{
	return ht_check_run("obstacle", (const TTest *const[]){ nothing_to_tap, sanitizers, go,
								stripped, valgrind, NULL });
}
