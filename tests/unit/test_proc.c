/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "ht_check.h"

static const char stat_text[] =
	"4242 (a) R 1 (b) c) S 17 4242 4242 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 9 0 123456 "
	"1000 10 18446744073709551615 1 1 140737488347000 0 0";

START_TEST(stat_survives_the_name)
{
	struct ht_proc_stat stat;

	ck_assert(ht_proc_parse_stat(stat_text, &stat));
	ck_assert_int_eq(stat.state, 'S');
	ck_assert_int_eq(stat.ppid, 17);
	ck_assert_uint_eq(stat.flags, 4194304);
	ck_assert_uint_eq(stat.threads, 9);
	ck_assert_uint_eq(stat.start_time, 123456);
	ck_assert_uint_eq(stat.start_stack, 140737488347000);
}
END_TEST

START_TEST(broken_stat_is_refused)
{
	struct ht_proc_stat stat;

	ck_assert(!ht_proc_parse_stat("", &stat));
	ck_assert(!ht_proc_parse_stat("1 (x)", &stat));
	ck_assert(!ht_proc_parse_stat("1 (x) ", &stat));
	ck_assert(!ht_proc_parse_stat("1 (x) S 1 2 3", &stat));
}
END_TEST

START_TEST(fields_start_lines)
{
	static const char text[] = "Name:\tx\nUid:\t7\t8\nNoUid:\t9\nCapEff:\t00ff\nlast:\t3";
	uint64_t value = 0;

	ck_assert(ht_proc_field(text, "Uid:", 10, &value));
	ck_assert_uint_eq(value, 7);
	ck_assert(ht_proc_field(text, "CapEff:", 16, &value));
	ck_assert_uint_eq(value, 255);
	ck_assert(ht_proc_field(text, "last:", 10, &value));
	ck_assert_uint_eq(value, 3);
	ck_assert(!ht_proc_field(text, "id:", 10, &value));
	ck_assert(!ht_proc_field("", "id:", 10, &value));
}
END_TEST

START_TEST(own_tasks)
{
	int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
	pid_t tids[4] = { 0 };

	ck_assert_int_eq(ht_proc_tasks(fd, tids, 4), 1);
	ck_assert_int_eq(tids[0], getpid());
	/* Again from the start, and with no room. */
	ck_assert_int_eq(ht_proc_tasks(fd, tids, 0), 1);
	close(fd);
}
END_TEST

START_TEST(gone_is_esrch)
{
	char text[16];

	ck_assert_int_eq(ht_proc_read(AT_FDCWD, "/proc/0/stat", text, sizeof(text)), -ESRCH);
	ck_assert_int_eq(ht_proc_read(AT_FDCWD, "/proc/self/comm", text, sizeof(text)), 10);
	ck_assert_str_eq(text, "test_proc\n");
	/* What is longer is cut. */
	ck_assert_int_eq(ht_proc_read(AT_FDCWD, "/proc/self/status", text, 5), 4);
}
END_TEST

int main(void)
{
	return ht_check_run("proc", (const TTest *const[]){ stat_survives_the_name,
							    broken_stat_is_refused,
							    fields_start_lines, own_tasks,
							    gone_is_esrch, NULL });
}
