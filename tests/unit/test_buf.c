/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "ht_check.h"

START_TEST(empty_has_no_memory)
{
	struct ht_buf buf = HT_BUF_INIT;

	ck_assert_ptr_null(buf.data);
	ht_buf_clear(&buf);
	ck_assert_ptr_null(buf.data);
	ht_buf_fini(&buf);
	ck_ok(ht_buf_append(&buf, NULL, 0));
	ck_assert_str_eq(buf.data, "");
	ht_buf_fini(&buf);
}
END_TEST

START_TEST(appends_keep_the_nul_outside)
{
	struct ht_buf buf = HT_BUF_INIT;
	int i;

	ck_ok(ht_buf_puts(&buf, "ab"));
	ck_ok(ht_buf_putc(&buf, '\0'));
	ck_ok(ht_buf_printf(&buf, "%d-%s", 42, "x"));
	ck_assert_uint_eq(buf.len, 7);
	ck_assert_mem_eq(buf.data, "ab\0" "42-x", 8);
	for (i = 0; i < 10000; i++) {
		ck_ok(ht_buf_putc(&buf, (char)i));
		ck_assert_int_eq(buf.data[buf.len], 0);
		ck_assert_uint_gt(buf.cap, buf.len);
	}
	ck_assert_uint_eq(buf.len, 10007);
	ck_assert_mem_eq(buf.data, "ab\0" "42-x", 7);
	ht_buf_clear(&buf);
	ck_assert_str_eq(buf.data, "");
	ht_buf_fini(&buf);
}
END_TEST

START_TEST(long_text_is_formatted_whole)
{
	struct ht_buf buf = HT_BUF_INIT;

	ck_ok(ht_buf_printf(&buf, "%5000d|", 7));
	ck_assert_uint_eq(buf.len, 5001);
	ck_assert_uint_eq(strlen(buf.data), 5001);
	ck_assert_str_eq(buf.data + 4999, "7|");
	ht_buf_fini(&buf);
}
END_TEST

START_TEST(a_failed_append_changes_nothing_and_is_remembered)
{
	struct ht_buf buf = HT_BUF_INIT;

	ck_ok(ht_buf_puts(&buf, "kept"));
	ck_assert_int_eq(ht_buf_reserve(&buf, SIZE_MAX), -ENOMEM);
	ck_assert_int_eq(ht_buf_reserve(&buf, SIZE_MAX / 2), -ENOMEM);
	ck_assert(buf.failed);
	ck_assert_str_eq(buf.data, "kept");
	ck_assert_uint_eq(buf.len, 4);
	ck_ok(ht_buf_puts(&buf, "!"));
	ck_assert(buf.failed);
	ht_buf_clear(&buf);
	ck_assert(!buf.failed);
	ht_buf_fini(&buf);
}
END_TEST

static int file_of(size_t len)
{
	char path[] = "/tmp/ht_test_buf.XXXXXX";
	int fd = mkstemp(path);
	size_t i;

	ck_assert_int_ge(fd, 0);
	unlink(path);
	for (i = 0; i < len; i++)
		ck_ok(ht_fd_write_all(fd, &(char){ (char)('a' + i % 26) }, 1));
	ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

START_TEST(files_are_read_up_to_the_bound)
{
	struct ht_buf buf = HT_BUF_INIT;
	int fd = file_of(6000);

	ck_ok(ht_buf_puts(&buf, "before "));
	ck_assert_int_eq(ht_buf_read_fd(&buf, fd, 5999), -EFBIG);
	/* What didn't work left nothing behind. */
	ck_assert_str_eq(buf.data, "before ");
	ck_assert_uint_eq(buf.len, 7);
	ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
	ck_ok(ht_buf_read_fd(&buf, fd, 6000));
	ck_assert_uint_eq(buf.len, 6007);
	ck_assert_int_eq(buf.data[6006], 'a' + 5999 % 26);
	ck_assert_int_eq(buf.data[6007], 0);
	close(fd);
	ht_buf_fini(&buf);
}
END_TEST

START_TEST(proc_files_have_no_size_but_are_read)
{
	struct ht_buf buf = HT_BUF_INIT;

	ck_ok(ht_buf_read_file(&buf, AT_FDCWD, "/proc/self/status", 1 << 20));
	ck_assert_ptr_nonnull(strstr(buf.data, "\nPid:"));
	ck_assert_int_eq(ht_buf_read_file(&buf, AT_FDCWD, "/proc/no/such", 99), -ENOENT);
	ck_assert_int_eq(ht_buf_read_file(&buf, AT_FDCWD, "/proc", 99), -EISDIR);
	ht_buf_fini(&buf);
}
END_TEST

int main(void)
{
	return ht_check_run("buf", (const TTest *const[]){
		empty_has_no_memory, appends_keep_the_nul_outside,
		long_text_is_formatted_whole,
		a_failed_append_changes_nothing_and_is_remembered,
		files_are_read_up_to_the_bound, proc_files_have_no_size_but_are_read, NULL });
}
