/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ht_check.h"

START_TEST(close_keeps_errno_and_takes_anything)
{
	int fd = dup(0);

	errno = ENOSPC;
	ck_assert_int_eq(ht_fd_close(fd), -1);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
	errno = ENOSPC;
	ck_assert_int_eq(ht_fd_close(-1), -1);
	ck_assert_int_eq(ht_fd_close(fd), -1);
	ck_assert_int_eq(errno, ENOSPC);
}
END_TEST

START_TEST(cleanup_closes)
{
	int number;

	{
		_cleanup_(ht_fd_closep) int fd = dup(0);

		number = fd;
		ck_assert_int_ge(fcntl(number, F_GETFD), 0);
	}
	ck_assert_int_eq(fcntl(number, F_GETFD), -1);
}
END_TEST

static void *drain(void *arg)
{
	char chunk[777];
	size_t sum = 0;
	ssize_t n;

	while ((n = read(*(int *)arg, chunk, sizeof(chunk))) > 0)
		sum += (size_t)n;
	return (void *)sum;
}

/* A pipe takes 64 KiB at once: the rest must follow. */
START_TEST(short_writes_are_continued)
{
	static char data[1 << 20];
	pthread_t thread;
	int ends[2];
	void *sum;

	ck_ok(pipe(ends));
	ck_assert_int_eq(fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
	ck_ok(pthread_create(&thread, NULL, drain, &ends[0]));
	ck_ok(ht_fd_write_all(ends[1], data, sizeof(data)));
	close(ends[1]);
	ck_ok(pthread_join(thread, &sum));
	ck_assert_uint_eq((size_t)sum, sizeof(data));
	close(ends[0]);
}
END_TEST

START_TEST(errors_come_back_negative)
{
	char byte;

	ck_assert_int_eq(ht_fd_write_all(-1, "x", 1), -EBADF);
	ck_assert_int_eq(ht_fd_pread_all(-1, &byte, 1, 0), -EBADF);
	ck_ok(ht_fd_write_all(-1, "x", 0));
}
END_TEST

START_TEST(pread_is_all_or_an_error)
{
	char path[] = "/tmp/ht_test_fd.XXXXXX", out[4] = "";
	int fd = mkstemp(path);

	unlink(path);
	ck_ok(ht_fd_write_all(fd, "0123456789", 10));
	ck_ok(ht_fd_pread_all(fd, out, 4, 6));
	ck_assert_mem_eq(out, "6789", 4);
	ck_assert_int_eq(ht_fd_pread_all(fd, out, 4, 7), -ENODATA);
	ck_assert_int_eq(ht_fd_pread_all(fd, out, 1, 10), -ENODATA);
	ck_ok(ht_fd_pread_all(fd, out, 0, 10));
	close(fd);
}
END_TEST

START_TEST(limit_is_raised_and_given_back)
{
	struct rlimit before, now;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	before.rlim_cur = before.rlim_max - 1;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	ck_assert_uint_eq(ht_fd_limit_raise(), before.rlim_max);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &now), 0);
	ck_assert_uint_eq(now.rlim_cur, before.rlim_max);
	ht_fd_limit_restore();
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &now), 0);
	ck_assert_uint_eq(now.rlim_cur, before.rlim_cur);
}
END_TEST

int main(void)
{
	return ht_check_run("fd", (const TTest *const[]){
		close_keeps_errno_and_takes_anything, cleanup_closes,
		short_writes_are_continued, errors_come_back_negative,
		pread_is_all_or_an_error, limit_is_raised_and_given_back, NULL });
}
