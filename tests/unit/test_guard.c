/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/guard.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ht_check.h"

static int file_of(size_t len)
{
	int fd = memfd_create("guard", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)len), 0);
	ck_assert_int_eq(pwrite(fd, "x", 1, 0), 1);
	ck_assert_int_eq(pwrite(fd, "y", 1, 8192), 1);
	return fd;
}

START_TEST(truncation_reads_as_zeros)
{
	const uint8_t *bytes;
	int fd = file_of(16384);

	ck_ok(ht_guard_map(fd, 16384, &bytes));
	ck_assert_uint_eq(bytes[0], 'x');
	ck_assert_uint_eq(bytes[8192], 'y');
	ck_assert_int_eq(ftruncate(fd, 4096), 0);
	ck_assert_uint_eq(bytes[0], 'x');
	ck_assert_uint_eq(bytes[8192], 0);
	ck_assert_uint_eq(bytes[12288], 0);
	ht_guard_unmap(bytes, 16384);
	ht_guard_unmap(NULL, 0);
	close(fd);
}
END_TEST

START_TEST(other_faults_still_kill)
{
	const uint8_t *bytes;
	int status, fd = file_of(16384);
	pid_t pid = fork();

	if (!pid) {
		volatile uint8_t *other = mmap(NULL, 16384, PROT_READ, MAP_PRIVATE, fd, 0);

		/* The sanitizer's handler would report and exit. */
		signal(SIGBUS, SIG_DFL);
		if (ht_guard_map(fd, 16384, &bytes) < 0 || ftruncate(fd, 4096) < 0)
			_exit(1);
		_exit(2 + other[8192]);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(WTERMSIG(status), SIGBUS);
	close(fd);
}
END_TEST

START_TEST(ranges_are_given_back)
{
	const uint8_t *bytes;
	int i, fd = file_of(16384);

	for (i = 0; i < 1000; i++) {
		ck_ok(ht_guard_map(fd, 16384, &bytes));
		ht_guard_unmap(bytes, 16384);
	}
	for (i = 0; ht_guard_map(fd, 16384, &bytes) == 0 && i < 1000; i++)
		;
	ck_assert_int_lt(i, 1000);
	close(fd);
}
END_TEST

int main(void)
{
	return ht_check_run("guard", (const TTest *const[]){ truncation_reads_as_zeros,
							     other_faults_still_kill,
							     ranges_are_given_back, NULL });
}
