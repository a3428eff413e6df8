/* SPDX-License-Identifier: Apache-2.0
 *
 * test_faults.c: the lists name what is passed, in that order. The test is linked with
 * --wrap=ht_fault, so that each point says when it is.
 */
#include "attach/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "attach/launch.h"
#include "attach/remote.h"
#include "base/clock.h"
#include "ht_check.h"
#include "ht_target.h"

#define STOP_NS (10 * HT_NS_PER_SEC)
#define POINTS_MAX 64

int __real_ht_fault(const char *name);
int __wrap_ht_fault(const char *name);

static struct {
	const char *first[POINTS_MAX];	/* passes, each point once */
	size_t n;
} passed;

static bool is_in(const char *const *list, const char *name)
{
	for (; *list; list++) {
		if (!strcmp(*list, name))
			return true;
	}
	return false;
}

int __wrap_ht_fault(const char *name)
{
	for (size_t i = 0; i < passed.n; i++) {
		if (!strcmp(passed.first[i], name))
			return 0;
	}
	ck_assert_uint_lt(passed.n, POINTS_MAX);
	passed.first[passed.n++] = name;
	return 0;
}

/* Nothing else of attach/ is passed than what some list says. */
static void check_known(void)
{
	/* Of target.h's open, and undo.h's. */
	static const char *const others[] = { "attach.open", "undo.step", NULL };

	for (size_t i = 0; i < passed.n; i++)
		ck_assert_msg(is_in(ht_stop_faults, passed.first[i]) ||
			      is_in(ht_remote_faults, passed.first[i]) ||
			      is_in(ht_remote_call_faults, passed.first[i]) ||
			      is_in(ht_launch_faults, passed.first[i]) ||
			      is_in(others, passed.first[i]),
			      "%s is in no list", passed.first[i]);
}

#ifdef HT_FAULTS
/* What was passed of @list is all of it, in its order. */
static void check_order(const char *const *list)
{
	for (size_t i = 0; i < passed.n; i++) {
		if (!is_in(list, passed.first[i]))
			continue;
		ck_assert_msg(*list && !strcmp(*list, passed.first[i]), "%s, not %s",
			      passed.first[i], *list ? *list : "the end");
		list++;
	}
	ck_assert_msg(!*list, "%s isn't passed", *list);
}

static struct ht_target *stopped(struct ht_test_target *t, const char *name)
{
	struct ht_target *target = NULL;
	struct ht_err err = { 0 };

	ck_ok(ht_test_target_start(t, name, NULL));
	ck_assert_msg(!ht_target_open(t->pid, &target, &err), "%s", err.text);
	ck_assert_msg(!ht_target_stop(target, ht_deadline_ns(STOP_NS), &err), "%s", err.text);
	return target;
}

START_TEST(stop_and_resume)
{
	struct ht_test_target t;
	struct ht_target *target = stopped(&t, "counter");

	ht_target_resume(target);
	check_order(ht_stop_faults);
	check_known();
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

START_TEST(remote_calls)
{
	struct ht_test_target t;
	struct ht_target *target = stopped(&t, "keeper");
	struct ht_remote *remote = NULL;
	unsigned long fn_labs = 0;
	struct ht_err err = { 0 };
	uint64_t value;
	long result;

	ck_assert_int_eq(sscanf(t.ready, "READY %lx", &fn_labs), 1);
	memset(&passed, 0, sizeof(passed));
	ck_assert_msg(!ht_remote_begin(target, 0, 0, &remote, &err), "%s", err.text);
	ck_ok(ht_remote_syscall(remote, SYS_getpid, (const uint64_t[6]){ 0 }, &result));
	ck_ok(ht_remote_open(remote, SYS_epoll_create1, (const uint64_t[6]){ 0 }, &result));
	ck_assert_int_gt(result, 2);
	ck_ok(ht_remote_close_fds(remote));
	ck_ok(ht_remote_end(remote));
	check_order(ht_remote_faults);
	memset(&passed, 0, sizeof(passed));
	ck_assert_msg(!ht_remote_begin(target, 0, 0, &remote, &err), "%s", err.text);
	ck_ok(ht_remote_call(remote, fn_labs, (const uint64_t[6]){ 5 },
			     ht_deadline_ns(STOP_NS), &value));
	ck_ok(ht_remote_end(remote));
	check_order(ht_remote_call_faults);
	check_known();
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

START_TEST(launch)
{
	const char *dir = getenv("HT_BUILDDIR");
	struct ht_target *target = NULL;
	struct ht_err err = { 0 };
	char path[512];
	int status;

	snprintf(path, sizeof(path), "%s/tests/targets/starter", dir ? dir : ".");
	ck_assert_msg(!ht_launch((char *[]){ path, NULL }, &target, &err), "%s", err.text);
	ht_target_resume(target);
	ck_ok(ht_target_wait(target, &status));
	check_order(ht_launch_faults);
	check_known();
	ht_target_close(target);
}
END_TEST
#endif

START_TEST(names)
{
	const char *const *const lists[] = { ht_stop_faults, ht_remote_faults,
					     ht_remote_call_faults, ht_launch_faults };
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(lists); i++) {
		ck_assert_ptr_nonnull(lists[i][0]);
		for (j = 0; lists[i][j]; j++) {
			ck_assert_ptr_nonnull(strchr(lists[i][j], '.'));
			/* HEAPTAP_FAULT gives what to do behind a colon. */
			ck_assert_ptr_null(strpbrk(lists[i][j], ":@ "));
			ck_assert(!is_in(lists[i] + j + 1, lists[i][j]));
		}
	}
	check_known();
}
END_TEST

int main(void)
{
	return ht_check_run("faults", (const TTest *const[]){
		names,
#ifdef HT_FAULTS
		stop_and_resume, remote_calls, launch,
#endif
		NULL });
}
