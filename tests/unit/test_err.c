/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <string.h>

#include "ht_check.h"

START_TEST(set_returns_what_it_was_given)
{
	struct ht_err err = { 0 };

	ck_assert_int_eq(ht_err_set(&err, HT_ERR_GONE, -ESRCH, "no process %d", 42), -ESRCH);
	ck_assert_int_eq(err.kind, HT_ERR_GONE);
	ck_assert_str_eq(err.text, "no process 42");
	ck_assert_int_eq(ht_err_set(NULL, HT_ERR_GONE, -ESRCH, "unread"), -ESRCH);
}
END_TEST

START_TEST(prefix_keeps_the_kind)
{
	struct ht_err err = { 0 };

	ht_err_set(&err, HT_ERR_PERM, -EPERM, "not permitted");
	ck_assert_int_eq(ht_err_prefix(&err, -EACCES, "can't tap %s", "app"), -EACCES);
	ck_assert_int_eq(err.kind, HT_ERR_PERM);
	ck_assert_str_eq(err.text, "can't tap app: not permitted");
	ck_assert_int_eq(ht_err_prefix(NULL, -EIO, "unread"), -EIO);
}
END_TEST

START_TEST(suffix_keeps_the_kind)
{
	struct ht_err err = { 0 };

	ht_err_set(&err, HT_ERR_PERM, -EPERM, "not permitted");
	ck_assert_int_eq(ht_err_suffix(&err, -EACCES, "ask %s", "root"), -EACCES);
	ck_assert_int_eq(err.kind, HT_ERR_PERM);
	ck_assert_str_eq(err.text, "not permitted; ask root");
	ck_assert_int_eq(ht_err_suffix(NULL, -EIO, "unread"), -EIO);
}
END_TEST

START_TEST(texts_that_do_not_fit_are_cut)
{
	char big[2 * HT_ERR_TEXT];
	struct ht_err err = { 0 };

	memset(big, 'x', sizeof(big));
	big[sizeof(big) - 1] = '\0';
	ht_err_set(&err, HT_ERR_FAILED, -EIO, "%s", big);
	ck_assert_uint_eq(strlen(err.text), HT_ERR_TEXT - 1);
	ht_err_prefix(&err, -EIO, "head");
	ck_assert_uint_eq(strlen(err.text), HT_ERR_TEXT - 1);
	ck_assert_int_eq(strncmp(err.text, "head: xxx", 9), 0);
	ht_err_suffix(&err, -EIO, "tail");
	ck_assert_uint_eq(strlen(err.text), HT_ERR_TEXT - 1);
	ht_err_prefix(&err, -EIO, "%s", big);
	ck_assert_uint_eq(strlen(err.text), HT_ERR_TEXT - 1);
}
END_TEST

START_TEST(errno_becomes_negative)
{
	errno = EINTR;
	ck_assert_int_eq(ht_errno_of(-1), -EINTR);
	ck_assert_int_eq(ht_errno_of(0), 0);
	ck_assert_int_eq(ht_errno_of(7), 7);
}
END_TEST

int main(void)
{
	return ht_check_run("err", (const TTest *const[]){
		set_returns_what_it_was_given, suffix_keeps_the_kind, prefix_keeps_the_kind,
		texts_that_do_not_fit_are_cut, errno_becomes_negative, NULL });
}
