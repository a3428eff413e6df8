/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap cure: what it tells of what was found. Arguments are in
 * tests/cli/attach-options.test.
 */
#include "capture.h"
#include "made_proc.h"
#include "fake_tap.h"

static void check(const char *pid, int status, const char *err, const char *log)
{
	struct captured c;

	fake_tap_log[0] = '\0';
	capture_command(&c, &ht_cmd_cure, pid, NULL);
	captured_is(&c, status, "", err);
	ck_assert_str_eq(fake_tap_log, log);
	captured_fini(&c);
}

static int nothing(pid_t pid, bool *ret_found, bool *ret_left, struct ht_err *err)
{
	*ret_found = false;
	return 0;
}

static int not_all(pid_t pid, bool *ret_found, bool *ret_left, struct ht_err *err)
{
	*ret_left = true;
	return 0;
}

static int refused(pid_t pid, bool *ret_found, bool *ret_left, struct ht_err *err)
{
	return ht_err_set(err, HT_ERR_PERM, -EPERM, "not permitted");
}

START_TEST(tells_what_was_found)
{
	fake_tap_init();
	made_proc_init();
	check("42", 0, "heaptap: 42 (server) is as it was before it was tapped\n", "cure 42; ");
	fake_tap.cure_pid = nothing;
	check("42", 0,
	      "heaptap: 42 (server) was as it should be: nothing of heaptap is in it\n",
	      "cure 42; ");
	fake_tap.cure_pid = not_all;
	check("42", 0,
	      "heaptap: nothing of 42 (server) is patched any more; code of heaptap stays mapped and out of use, as a thread or another tool's patch may still lead into it; try again later\n",
	      "cure 42; ");
	fake_tap.cure_pid = refused;
	check("42", HT_ERR_PERM, "heaptap: not permitted\n", "cure 42; ");
	check("43", HT_ERR_GONE, "heaptap: no process 43: it ended, or has another pid here (in a container); see ps -e\n", "");
	made_proc_fini();
	fake_tap_fini();
}
END_TEST

/* Others look for a process that can't be tapped; one that was tapped can be cured. */
START_TEST(no_other_obstacle_is_looked_for)
{
	fake_tap_init();
	made_proc_init();
	ck_assert_int_eq(tool_run("rm %s/42/mem %s/42/exe", made_proc_root, made_proc_root), 0);
	check("42", 0, "heaptap: 42 (server) is as it was before it was tapped\n", "cure 42; ");
	made_proc_put("42/comm", "\033[2J\n");
	check("42", 0, "heaptap: 42 (?[2J) is as it was before it was tapped\n", "cure 42; ");
	made_proc_fini();
	fake_tap_fini();
}
END_TEST

int main(void)
{
	return ht_check_run("cmd_cure", (const TTest *const[]){
		tells_what_was_found, no_other_obstacle_is_looked_for, NULL });
}
