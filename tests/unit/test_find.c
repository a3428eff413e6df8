/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes by name, in a /proc made up for it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/facts.h"
#include "cmd/find.h"
#include "tool.h"

static char root[64];

static void make(void)
{
	char path[128];

	tool_mkdir(root);
	ht_proc_root = root;
	snprintf(path, sizeof(path), "%s/self", root);
	ck_assert_int_eq(mkdir(path, 0755), 0);
}

static void put(int pid, const char *file, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%d/%s", root, pid, file);
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

/* @exe NULL: a thread of the kernel. */
static void process(int pid, const char *comm, const char *exe)
{
	char path[128], text[256];

	snprintf(path, sizeof(path), "%s/%d", root, pid);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	snprintf(text, sizeof(text), "Name:\t%s\nTgid:\t%d\n", comm, pid);
	put(pid, "status", text);
	snprintf(text, sizeof(text),
		 "%d (%s) S 1 1 1 0 -1 %s 1 2 3 4 5 6 7 8 20 0 1 0 5 1 1 1 1 1 9", pid, comm,
		 exe ? "4194304" : "2129984");
	put(pid, "stat", text);
	snprintf(text, sizeof(text), "%s\n", comm);
	put(pid, "comm", text);
	snprintf(path, sizeof(path), "%s/%d/exe", root, pid);
	if (exe)
		ck_assert_int_eq(symlink(exe, path), 0);
}

static struct ht_err err;

static int find(const char *name)
{
	int pid = -7, r;

	err = (struct ht_err){ HT_ERR_NONE, "" };
	r = ht_find_by_name(name, &pid, &err);
	ck_assert(r == 0 || pid == -7);
	return r < 0 ? r : pid;
}

START_TEST(by_comm_and_by_program)
{
	make();
	process(10, "worker", "/usr/sbin/a-server");
	process(11, "other", "/opt/worker/bin/thing");
	process(12, "kworker", NULL);
	/* Renamed while it ran, as upgrades do. */
	process(13, "averyveryverylo", "/usr/bin/averyveryverylongname (deleted)");
	ck_assert_int_eq(find("worker"), 10);
	ck_assert_int_eq(find("a-server"), 10);
	ck_assert_int_eq(find("thing"), 11);
	ck_assert_int_eq(find("averyveryverylongname"), 13);
	ck_assert_int_eq(find("averyveryverylo"), 13);
	/* No part of a name, no folder, nothing of the kernel. */
	ck_assert_int_eq(find("work"), -ESRCH);
	ck_assert_int_eq(err.kind, HT_ERR_GONE);
	ck_assert_int_eq(find("bin"), -ESRCH);
	ck_assert_int_eq(find("kworker"), -ESRCH);
	ck_assert_int_eq(find(""), -ESRCH);
	tool_rmdir(root);
}
END_TEST

START_TEST(several_are_listed)
{
	make();
	process(20, "worker", "/bin/x");
	process(4194303, "zz", "/bin/worker");
	ck_assert_int_eq(find("worker"), -EINVAL);
	ck_assert_int_eq(err.kind, HT_ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(err.text, "2 processes are named \"worker\": "));
	ck_assert(strstr(err.text, ": 20, 4194303;") || strstr(err.text, ": 4194303, 20;"));
	tool_rmdir(root);
}
END_TEST

/* Of more than the message has room for, the ones that it names are whole. */
START_TEST(many_are_counted)
{
	const char *at;
	int n = 0;

	make();
	for (int pid = 1000001; pid <= 1000300; pid++)
		process(pid, "worker", "/bin/x");
	ck_assert_int_eq(find("worker"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "300 processes are named"));
	at = strstr(err.text, "\": ");
	ck_assert_ptr_nonnull(at);
	for (at += 3; at[0] == '1'; at += strspn(at, ", "), n++) {
		ck_assert_int_eq(strspn(at, "0123456789"), 7);
		at += 7;
	}
	ck_assert_int_gt(n, 5);
	ck_assert_msg(!strcmp(at, "...; give the pid of one"), "%s", err.text);
	tool_rmdir(root);
}
END_TEST

/* What isn't a process, isn't one any more, or is ourselves. */
START_TEST(others_are_passed_over)
{
	char path[128];

	make();
	process(30, "worker", "/bin/x");
	process(getpid(), "worker", "/bin/x");
	snprintf(path, sizeof(path), "%s/31", root);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/bus", root);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	ck_assert_int_eq(find("worker"), 30);
	tool_rmdir(root);
}
END_TEST

START_TEST(zombies_do_not_count)
{
	make();
	process(40, "worker", "/bin/x");
	put(40, "stat", "40 (worker) Z 1 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 5 1 1 1 1 1 9");
	/* Unless there is nothing else: then the refusal says what it is. */
	ck_assert_int_eq(find("worker"), 40);
	process(41, "worker", "/bin/x");
	ck_assert_int_eq(find("worker"), 41);
	tool_rmdir(root);
}
END_TEST

START_TEST(no_proc_at_all)
{
	char path[128];

	make();
	snprintf(path, sizeof(path), "%s/self", root);
	ck_assert_int_eq(rmdir(path), 0);
	ck_assert_int_eq(find("worker"), -ENODEV);
	ck_assert_int_eq(err.kind, HT_ERR_FAILED);
	ck_assert_ptr_nonnull(strstr(err.text, " isn't mounted"));
	tool_rmdir(root);
	ht_proc_root = "/nonexistent";
	ck_assert_int_eq(find("worker"), -ENOENT);
	ck_assert_int_eq(err.kind, HT_ERR_FAILED);
	ck_assert_str_eq(err.text, "can't read /nonexistent: No such file or directory");
}
END_TEST

int main(void)
{
	return ht_check_run("find", (const TTest *const[]){
		by_comm_and_by_program, several_are_listed, many_are_counted,
		others_are_passed_over, zombies_do_not_count, no_proc_at_all, NULL });
}
