/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ht_check.h"
#include "symbol/symbol-priv.h"

static void check(const char *dir, const char *file, const char *expected)
{
	struct ht_buf out = HT_BUF_INIT;

	ck_ok(ht_path_join(dir, file, &out));
	ck_assert_str_eq(out.data ? out.data : "", expected);
	ht_buf_fini(&out);
}

START_TEST(one_spelling)
{
	check(NULL, "/a/b.c", "/a/b.c");
	check("/x", "/a/b.c", "/a/b.c");
	check("/x/y", "b.c", "/x/y/b.c");
	check("/x/y/", "./z//b.c", "/x/y/z/b.c");
	check("/x/y", "../b.c", "/x/b.c");
	check("/x", "../../../b.c", "/b.c");
	check("/", "b.c", "/b.c");
	check(NULL, "../b.c", "../b.c");
	check(NULL, "../../b.c", "../../b.c");
	check(NULL, "a/../../b.c", "../b.c");
	check(NULL, "a/..", "");
	check(NULL, "", "");
	check(NULL, "/", "/");
	check(NULL, "<built-in>", "<built-in>");
}
END_TEST

START_TEST(behind_other_text)
{
	struct ht_buf out = HT_BUF_INIT;

	ht_buf_puts(&out, "at ");
	ck_ok(ht_path_join(NULL, "a/../../b.c", &out));
	ck_assert_str_eq(out.data, "at ../b.c");
	ht_buf_fini(&out);
}
END_TEST

int main(void)
{
	return ht_check_run("path", (const TTest *const[]){ one_spelling, behind_other_text,
							    NULL });
}
