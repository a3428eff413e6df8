/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ht_check.h"

#ifdef HT_FAULTS

START_TEST(without_the_variable_nothing_fails)
{
	unsetenv("HEAPTAP_FAULT");
	ck_assert_int_eq(ht_fault("attach.seize"), 0);
}
END_TEST

START_TEST(only_the_named_point_fails)
{
	setenv("HEAPTAP_FAULT", "attach.seize:12", 1);
	ck_assert_int_eq(ht_fault("attach"), 0);
	ck_assert_int_eq(ht_fault("attach.seize.more"), 0);
	ck_assert_int_eq(ht_fault("inject.map"), 0);
	ck_assert_int_eq(ht_fault("attach.seize"), -12);
	ck_assert_int_eq(ht_fault("attach.seize"), 0);
}
END_TEST

START_TEST(nth_time)
{
	setenv("HEAPTAP_FAULT", "inject.map:5@3", 1);
	ck_assert_int_eq(ht_fault("inject.map"), 0);
	ck_assert_int_eq(ht_fault("inject.map"), 0);
	ck_assert_int_eq(ht_fault("inject.map"), -5);
	ck_assert_int_eq(ht_fault("inject.map"), 0);
}
END_TEST

START_TEST(several_points)
{
	setenv("HEAPTAP_FAULT", "inject.map:5@2,inject.undo:12", 1);
	ck_assert_int_eq(ht_fault("inject.map"), 0);
	ck_assert_int_eq(ht_fault("inject.undo"), -12);
	ck_assert_int_eq(ht_fault("inject.undo"), 0);
	ck_assert_int_eq(ht_fault("inject.map"), -5);
	/* Another list begins to count. */
	setenv("HEAPTAP_FAULT", "inject.map:5@1", 1);
	ck_assert_int_eq(ht_fault("inject.map"), -5);
	/* One point twice. */
	setenv("HEAPTAP_FAULT", "inject.map:5@1,inject.map:12@2", 1);
	ck_assert_int_eq(ht_fault("inject.map"), -5);
	ck_assert_int_eq(ht_fault("inject.map"), -12);
	ck_assert_int_eq(ht_fault("inject.map"), 0);
}
END_TEST

START_TEST(passings_are_traced)
{
	char text[64] = "", number[16];
	int fds[2];

	ck_assert_int_eq(pipe(fds), 0);
	snprintf(number, sizeof(number), "%d", fds[1]);
	setenv("HEAPTAP_FAULT_TRACE", number, 1);
	ck_assert_int_eq(ht_fault("inject.map"), 0);
	ck_assert_int_eq(ht_fault("attach"), 0);
	ck_assert_int_eq(read(fds[0], text, sizeof(text) - 1), 18);
	ck_assert_str_eq(text, "inject.map\nattach\n");
}
END_TEST

START_TEST(kill_is_sigkill)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		setenv("HEAPTAP_FAULT", "inject.map:kill@2", 1);
		if (ht_fault("inject.map"))
			_exit(1);
		_exit(2 + ht_fault("inject.map"));
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
END_TEST

int main(void)
{
	return ht_check_run("fault", (const TTest *const[]){
		without_the_variable_nothing_fails, only_the_named_point_fails, nth_time,
		several_points, passings_are_traced, kill_is_sigkill, NULL });
}

#else

START_TEST(compiled_out)
{
	setenv("HEAPTAP_FAULT", "attach.seize:12", 1);
	ck_assert_int_eq(ht_fault("attach.seize"), 0);
}
END_TEST

int main(void)
{
	return ht_check_run("fault", (const TTest *const[]){ compiled_out, NULL });
}

#endif
