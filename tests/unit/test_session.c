/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/session.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "ht_check.h"
#include "ht_snapshot.h"
#include "ht_target.h"

static struct ht_test_target t;
static struct ht_target *target;
static struct ht_snapshot *before;
static struct ht_session session;
static struct ht_err err;

/* A session with the first thread that can be borrowed. */
static void start(void)
{
	ck_ok(ht_test_target_start(&t, "keeper", NULL));
	ck_ok(ht_snapshot_take(t.pid, &before));
	ck_ok(ht_target_open(t.pid, &target, NULL));
}

static void begin(void)
{
	size_t i = 0;

	ck_ok(ht_target_stop(target, ht_deadline_ns(20 * HT_NS_PER_SEC), NULL));
	while (!ht_target_hijackable(target, i))
		ck_assert_uint_lt(++i, ht_target_threads(target));
	ck_ok(ht_session_begin(&session, target, i, &err));
}

static void end(void)
{
	ck_ok(ht_session_end(&session));
	ht_target_resume(target);
}

static void stop(void)
{
	struct ht_buf why = HT_BUF_INIT;
	struct ht_snapshot *after;
	char line[64];

	ck_ok(ht_test_target_ask(&t, "check", line, sizeof(line)));
	ck_assert_msg(!strncmp(line, "ok", 2), "%s", line);
	ck_ok(ht_snapshot_take(t.pid, &after));
	ck_assert_msg(!ht_snapshot_compare(before, after, 0, &why), "%s", why.data);
	ck_assert_uint_eq(ht_snapshot_leftovers(after), 0);
	ht_snapshot_free(before);
	ht_snapshot_free(after);
	ht_target_close(target);
	ck_ok(ht_test_target_stop(&t, NULL));
}

static int a_file(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static void limit_fds(rlim_t n)
{
	const struct rlimit limit = { n, 64 };

	ck_assert_int_eq(prlimit(t.pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

START_TEST(files_arrive_and_none_stays)
{
	int fds[3] = { a_file("one"), a_file("two"), a_file("three") }, remote[3];

	start();
	begin();
	ck_ok(ht_session_pass(&session, fds, 3, remote));
	for (int i = 0; i < 3; i++) {
		static const char *const names[] = { "one", "two", "three" };
		char path[64], link[64] = "", want[64];

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", t.pid, remote[i]);
		snprintf(want, sizeof(want), "/memfd:%s (deleted)", names[i]);
		ck_assert_int_gt(readlink(path, link, sizeof(link) - 1), 0);
		ck_assert_str_eq(link, want);
		ht_fd_close(fds[i]);
	}
	end();
	stop();
}
END_TEST

/* The socketpair is for more than the files, if the other end is duplicated in time. */
START_TEST(the_channel_may_stay)
{
	int fd = a_file("one"), remote, local = -1, other = -1, copy = -1;
	const uint64_t *args;
	char bytes[8];
	long number;

	start();
	begin();
	ck_assert_int_eq(ht_session_pass_and_keep(&session, &fd, HT_SESSION_FILES + 1, &remote,
						  &local, &other), -EINVAL);
	ck_ok(ht_session_pass_and_keep(&session, &fd, 1, &remote, &local, &other));
	args = (const uint64_t[6]){ (uint64_t)other, F_DUPFD_CLOEXEC, 40 };
	ck_ok(ht_session_call(&session, SYS_fcntl, args, &number));
	end();
	ck_ok(ht_target_take_fd(target, (int)number, &copy));
	/* Two messages are two. */
	ck_assert_int_eq(send(copy, "ab", 2, 0), 2);
	ck_assert_int_eq(send(copy, "c", 1, 0), 1);
	ck_assert_int_eq(recv(local, bytes, sizeof(bytes), MSG_DONTWAIT), 2);
	ck_assert_int_eq(recv(local, bytes, sizeof(bytes), MSG_DONTWAIT), 1);
	ht_fd_close(copy);
	begin();
	ck_ok(ht_session_call(&session, SYS_close,
			      (const uint64_t[6]){ (uint64_t)number }, NULL));
	end();
	/* No copy of it was left. */
	ck_assert_int_eq(recv(local, bytes, sizeof(bytes), MSG_DONTWAIT), 0);
	ht_fd_close(local);
	ht_fd_close(fd);
	stop();
}
END_TEST

static void link_of(int remote, char link[64])
{
	char path[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", t.pid, remote);
	len = readlink(path, link, 63);
	link[len < 0 ? 0 : len] = '\0';
}

START_TEST(a_file_is_made_and_none_stays)
{
	int local = -1, remote = -1;
	char link[64];

	start();
	begin();
	ck_ok(ht_session_make_file(&session, "one", &local, &remote));
	link_of(remote, link);
	ck_assert_str_eq(link, "/memfd:one (deleted)");
	ck_assert_int_eq(write(local, "x", 1), 1);
	ht_fd_close(local);
	end();
	stop();
}
END_TEST

/* Another thread closed ours, and got its number for a file of its own. */
START_TEST(a_file_of_the_target_stays)
{
	int local = -1, remote = -1;
	char link[64], want[64];

	start();
	link_of(0, want);
	begin();
	ck_ok(ht_session_make_file(&session, "one", &local, &remote));
	ht_fd_close(local);
	ck_ok(ht_session_call(&session, SYS_dup2,
			      (const uint64_t[6]){ 0, (uint64_t)remote }, NULL));
	end();
	link_of(remote, link);
	ck_assert_str_eq(link, want);
	begin();
	ck_ok(ht_session_call(&session, SYS_close,
			      (const uint64_t[6]){ (uint64_t)remote }, NULL));
	end();
	stop();
}
END_TEST

/* The same when heaptap is killed. */
START_TEST(a_file_of_the_target_outlives_us)
{
	int pipe_fds[2], local = -1, remote = -1;
	char link[64], want[64], line[64];
	pid_t tool;

	start();
	link_of(0, want);
	ck_assert_int_eq(pipe(pipe_fds), 0);
	tool = fork();
	if (tool == 0) {
		ck_ok(ht_target_open(t.pid, &target, NULL));
		begin();
		ck_ok(ht_session_make_file(&session, "one", &local, &remote));
		ck_ok(ht_session_call(&session, SYS_dup2,
				      (const uint64_t[6]){ 0, (uint64_t)remote }, NULL));
		ck_assert_int_eq(write(pipe_fds[1], &remote, sizeof(remote)), sizeof(remote));
		kill(getpid(), SIGKILL);
	}
	close(pipe_fds[1]);
	ck_assert_int_eq(read(pipe_fds[0], &remote, sizeof(remote)), sizeof(remote));
	ck_assert_int_eq(waitpid(tool, NULL, 0), tool);
	close(pipe_fds[0]);
	/* It's the borrowed thread that answers. */
	ck_ok(ht_test_target_ask(&t, "check", line, sizeof(line)));
	link_of(remote, link);
	ck_assert_str_eq(link, want);
	begin();
	ck_ok(ht_session_call(&session, SYS_close,
			      (const uint64_t[6]){ (uint64_t)remote }, NULL));
	end();
	stop();
}
END_TEST

START_TEST(calls_are_made_and_failures_named)
{
	const uint64_t bad[6] = { 0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX };
	long result = 0;

	start();
	begin();
	ck_ok(ht_session_call(&session, SYS_getpid, (const uint64_t[6]){ 0 },
			      &result));
	ck_assert_int_eq(result, t.pid);
	ck_assert_int_eq(ht_session_call(&session, SYS_mmap, bad, &result), -EINVAL);
	ck_assert_str_eq(err.text, "mmap failed in the target: Invalid argument");
	ck_assert_int_eq(result, t.pid);
	end();
	stop();
}
END_TEST

/* 4 are open already: there is no room for the socketpair, for any file, for all files. */
START_TEST(full_table)
{
	int fds[2] = { a_file("one"), a_file("two") }, remote[2];

	start();
	for (rlim_t room = 0; room < 4; room++) {
		memset(&err, 0, sizeof(err));
		limit_fds(4 + room);
		begin();
		ck_assert_int_eq(ht_session_pass(&session, fds, 2, remote), -EMFILE);
		ck_assert_uint_eq(err.kind, HT_ERR_FAILED);
		ck_assert_msg(strstr(err.text, "it has as many files open as it may"), "%s",
			      err.text);
		end();
	}
	limit_fds(8);
	begin();
	ck_ok(ht_session_pass(&session, fds, 2, remote));
	end();
	stop();
}
END_TEST

START_TEST(too_many_files)
{
	int fds[HT_SESSION_FILES + 1] = { 0 }, remote[HT_SESSION_FILES + 1];

	start();
	begin();
	ck_assert_int_eq(ht_session_pass(&session, fds, HT_SESSION_FILES + 1, remote),
			 -EINVAL);
	end();
	stop();
}
END_TEST

START_TEST(a_file_of_ours_that_is_none)
{
	int fd = 12345, remote;

	start();
	begin();
	ck_assert_int_eq(ht_session_pass(&session, &fd, 1, &remote), -EBADF);
	ck_assert_str_eq(err.text, "can't pass files to the target: Bad file descriptor");
	end();
	stop();
}
END_TEST

int main(void)
{
	return ht_check_run("session", (const TTest *const[]){
		files_arrive_and_none_stays, the_channel_may_stay, a_file_is_made_and_none_stays,
		a_file_of_the_target_stays, a_file_of_the_target_outlives_us,
		calls_are_made_and_failures_named, full_table, too_many_files,
		a_file_of_ours_that_is_none, NULL });
}
