/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "made_target.h"
#include "symbol/jit-priv.h"

#define MAP "perf-4711.map"

static struct made_target target;
static struct ht_mapfile file;

static void start(void)
{
	made_target_start(&target);
	ht_mapfile_init(&file, target.procfd, made_target_ticks());
}

static void stop(void)
{
	ht_mapfile_fini(&file);
	made_target_stop(&target);
}

static void append(const char *text)
{
	made_target_append(&target, MAP, text);
}

static const char *look(uint64_t addr)
{
	int r;

	while ((r = ht_mapfile_read(&file)) == 1)
		;
	ck_ok(r);
	ck_ok(ht_ranges_index(&file.map.ranges));
	return ht_ranges_find(&file.map.ranges, addr);
}

static void check(uint64_t addr, const char *expected)
{
	const char *name = look(addr);

	if (expected) {
		ck_assert_msg(name != NULL, "%#lx", addr);
		ck_assert_str_eq(name, expected);
	} else {
		ck_assert_msg(name == NULL, "%#lx: %s", addr, name);
	}
}

static void check_refused(const char *why)
{
	check(0x1000, NULL);
	ck_assert_str_eq(file.reason, why);
}

START_TEST(its_own_pid)
{
	start();
	made_target_append(&target, "perf-99.map", "1000 10 outer\n");
	made_target_append(&target, "perf-98.map", "1000 10 thread\n");
	check_refused("there is no /tmp/" MAP);
	append("1000 10 inner\n");
	check(0x1000, "inner");
	ck_assert_str_eq(file.reason, "");
	stop();
}
END_TEST

/* Kernels without namespaces of pids. */
START_TEST(no_namespace)
{
	start();
	ck_assert_int_eq(tool_run("sed -i /^NS/d %s/status", target.dir), 0);
	made_target_append(&target, "perf-99.map", "1000 10 only\n");
	check(0x1000, "only");
	stop();
}
END_TEST

START_TEST(it_grows)
{
	start();
	append("1000 10 a\n2000 10");
	check(0x1000, "a");
	check(0x2000, NULL);
	append(" b\n1000 8 c\n");
	check(0x2000, "b");
	check(0x1000, "c");
	check(0x1008, "a");
	stop();
}
END_TEST

START_TEST(it_is_written_anew)
{
	start();
	append("1000 10 first\n2000 10 first\n");
	check(0x1000, "first");
	/* Shorter, in place. */
	ck_assert_int_eq(tool_run("echo 3000 10 second >%s/root/tmp/" MAP, target.dir), 0);
	check(0x3000, "second");
	check(0x1000, NULL);
	/* Longer, in place. */
	ck_assert_int_eq(tool_run("printf '1000 10 third\\n2000 10 third\\n3000 10 third\\n'"
				  " >%s/root/tmp/" MAP, target.dir), 0);
	check(0x3000, "third");
	check(0x1000, "third");
	/* Another file. */
	ck_assert_int_eq(tool_run("cd %s/root/tmp && echo 1000 10 fourth >new && mv new " MAP,
				  target.dir), 0);
	check(0x1000, "fourth");
	check(0x3000, NULL);
	/* One that is removed was read. */
	ck_assert_int_eq(tool_run("rm %s/root/tmp/" MAP, target.dir), 0);
	check(0x1000, "fourth");
	stop();
}
END_TEST

START_TEST(no_regular_file)
{
	char path[128];

	start();
	snprintf(path, sizeof(path), "%s/root/tmp/" MAP, target.dir);
	ck_assert_int_eq(mkfifo(path, 0666), 0);
	check_refused("/tmp/" MAP " is no regular file");	/* and doesn't hang */
	ck_assert_int_eq(tool_run("cd %s/root/tmp && rm " MAP " && echo 1000 10 a >other &&"
				  " ln -s other " MAP, target.dir), 0);
	check_refused("/tmp/" MAP " is no regular file");
	ck_assert_int_eq(tool_run("cd %s/root/tmp && rm " MAP " && mkdir " MAP, target.dir), 0);
	check_refused("/tmp/" MAP " is no regular file");
	ck_assert_int_eq(tool_run("cd %s/root/tmp && rmdir " MAP " && ln -s /dev/zero " MAP,
				  target.dir), 0);
	check_refused("/tmp/" MAP " is no regular file");
	stop();
}
END_TEST

START_TEST(of_another_user)
{
	char path[128];

	start();
	append("1000 10 a\n");
	snprintf(path, sizeof(path), "%s/root/tmp/" MAP, target.dir);
	if (geteuid() == 0)
		ck_assert_int_eq(chown(path, 12345, 12345), 0);
	else
		made_target_status(&target, geteuid() + 1);
	check_refused("/tmp/" MAP " belongs to another user");
	/* The target became that user. */
	made_target_status(&target, geteuid() == 0 ? 12345 : geteuid());
	check(0x1000, "a");
	ck_assert_str_eq(file.reason, "");
	if (geteuid() == 0) {
		/* Root may write for others. */
		ck_assert_int_eq(chown(path, 0, 0), 0);
		append("1000 10 b\n");
		check(0x1000, "b");
	}
	stop();
}
END_TEST

START_TEST(of_an_earlier_process)
{
	start();
	append("1000 10 a\n");
	ck_assert_int_eq(tool_run("touch -d '1 minute ago' %s/root/tmp/" MAP, target.dir), 0);
	check_refused("/tmp/" MAP " is older than the program");
	append("2000 10 b\n");
	check(0x2000, "b");
	stop();
}
END_TEST

/* Links in its root that lead out of it. */
START_TEST(tmp_is_in_its_root)
{
	char outside[64];

	start();
	tool_mkdir(outside);
	ck_assert_int_eq(tool_run("echo 1000 10 a >%s/" MAP " && cd %s/root && rmdir tmp &&"
				  " mkdir -p var/tmp && ln -s %s tmp", outside, target.dir,
				  outside), 0);
	ht_mapfile_fini(&file);
	ht_mapfile_init(&file, target.procfd, made_target_ticks());
	check_refused("there is no /tmp/" MAP);
	ck_assert_int_eq(tool_run("cd %s/root && rm tmp && ln -s /var/tmp tmp &&"
				  " echo 1000 10 b >var/tmp/" MAP, target.dir), 0);
	check(0x1000, "b");
	tool_rmdir(outside);
	stop();
}
END_TEST

/* The directory of a process that has ended is empty. */
START_TEST(the_target_is_gone)
{
	start();
	ck_assert_int_eq(tool_run("cd %s && mv root elsewhere && rm status", target.dir), 0);
	ck_assert_int_eq(tool_run("echo 1000 10 late >%s/elsewhere/tmp/" MAP, target.dir), 0);
	check(0x1000, "late");
	stop();
}
END_TEST

START_TEST(a_huge_file)
{
	const uint64_t gib = UINT64_C(1) << 30;
	char path[128];

	start();
	append("1000 10 beginning\n");
	check(0x1000, "beginning");
	/* All but the last line is a hole. */
	snprintf(path, sizeof(path), "%s/root/tmp/" MAP, target.dir);
	ck_assert_int_eq(truncate(path, (off_t)(8 * gib)), 0);
	append("\n2000 10 end\n");
	check(0x2000, "end");
	check(0x1000, NULL);
	ck_assert_str_eq(file.reason, "/tmp/" MAP " is too large, not all of it was read");
	/* Read on from there. */
	append("3000 10 more\n");
	check(0x3000, "more");
	check(0x2000, "end");
	stop();
}
END_TEST

/* Neither it nor its own name is known. */
START_TEST(nothing_is_there)
{
	int null = open("/proc/self/fdinfo", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	ht_mapfile_init(&file, null, 0);
	check_refused("there is no /tmp/perf-PID.map");
	ht_mapfile_fini(&file);
	ht_fd_close(null);
}
END_TEST

int main(void)
{
	return ht_check_run("mapfile", (const TTest *const[]){
		its_own_pid, no_namespace, it_grows, it_is_written_anew, no_regular_file,
		of_another_user, of_an_earlier_process, tmp_is_in_its_root, the_target_is_gone,
		a_huge_file, nothing_is_there, NULL });
}
