/* SPDX-License-Identifier: Apache-2.0 */
#include "ht_target.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ht_check.h"

/* Shell scripts stand in for targets: they speak the same protocol. */
static int start_shell(struct ht_test_target *ret_target, const char *script)
{
	return ht_test_target_start(ret_target, "/bin/sh",
				    (const char *[]){ "-c", script, NULL });
}

START_TEST(lines_go_both_ways)
{
	struct ht_test_target t;
	char line[64];
	int status;

	ck_ok(start_shell(&t, "echo READY 42; while read x; do echo \"<$x>\"; done; exit 3"));
	ck_assert_str_eq(t.ready, "READY 42");
	ck_ok(ht_test_target_ask(&t, "one", line, sizeof(line)));
	ck_assert_str_eq(line, "<one>");
	ck_ok(ht_test_target_send(&t, "two\nthree"));
	ck_ok(ht_test_target_read(&t, line, sizeof(line)));
	ck_assert_str_eq(line, "<two>");
	ck_ok(ht_test_target_read(&t, line, sizeof(line)));
	ck_assert_str_eq(line, "<three>");
	ck_ok(ht_test_target_stop(&t, &status));
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	ck_assert_int_eq(ht_test_target_stop(&t, &status), -ECHILD);
}
END_TEST

START_TEST(wrong_starts_are_told_apart)
{
	struct ht_test_target t;

	ck_assert_int_eq(ht_test_target_start(&t, "no-such-target", NULL), -ENOENT);
	ck_assert_int_eq(start_shell(&t, "echo hello; cat"), -EPROTO);
	ck_assert_int_eq(start_shell(&t, "exit 3"), -ENODATA);
	/* All of them were reaped. */
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
}
END_TEST

START_TEST(a_dead_target_is_an_error_not_a_signal)
{
	struct ht_test_target t;
	char line[16];

	ck_ok(start_shell(&t, "echo READY; read x; exec <&-; exec >&-; exec sleep 100"));
	ck_ok(ht_test_target_send(&t, "go"));
	ck_assert_int_eq(ht_test_target_read(&t, line, sizeof(line)), -ENODATA);
	ck_assert_int_eq(ht_test_target_send(&t, "again"), -EPIPE);
	ht_test_target_kill(&t);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
}
END_TEST

START_TEST(no_descriptor_leaks_into_the_target)
{
	struct ht_test_target t;
	char line[256];

	ck_assert_int_ge(dup(0), 3);
	ck_ok(start_shell(&t, "echo READY; read x; echo /proc/self/fd/*"));
	ck_ok(ht_test_target_ask(&t, "go", line, sizeof(line)));
	/* The last one is the shell's own look at the directory. */
	ck_assert_str_eq(line,
			 "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3");
	ht_test_target_kill(&t);
}
END_TEST

START_TEST(a_line_comes_in_one_piece)
{
	struct ht_test_target t = { 0 };
	char text[64];
	int pair[2];

	ck_ok(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	t.to = pair[0];
	ck_ok(ht_test_target_send(&t, "check"));
	ck_assert_int_eq(read(pair[1], text, sizeof(text)), 6);
	ck_assert_mem_eq(text, "check\n", 6);
}
END_TEST

START_TEST(overlong_line_is_refused)
{
	struct ht_test_target t;
	char line[4];

	ck_ok(start_shell(&t, "echo READY; echo 1234; cat"));
	ck_assert_int_eq(ht_test_target_read(&t, line, sizeof(line)), -EMSGSIZE);
	ht_test_target_kill(&t);
}
END_TEST

int main(void)
{
	return ht_check_run("ht_target", (const TTest *const[]){
		lines_go_both_ways, wrong_starts_are_told_apart,
		a_dead_target_is_an_error_not_a_signal, no_descriptor_leaks_into_the_target,
		a_line_comes_in_one_piece, overlong_line_is_refused, NULL });
}
