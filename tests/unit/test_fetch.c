/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/record.h"
#include "ht_check.h"

static struct ht_record_options options;

static int check(struct ht_err *err)
{
	*err = (struct ht_err){ HT_ERR_NONE, "" };
	return ht_fetch_check(&options, err);
}

/* Whatever the environment says. */
START_TEST(only_when_asked_for)
{
	struct ht_err err;

	options = (struct ht_record_options)HT_RECORD_OPTIONS_INIT;
	setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1", 1);
	ck_ok(check(&err));
	ck_assert_ptr_null(ht_fetch_start(&options));
}
END_TEST

START_TEST(which_servers)
{
	struct ht_err err;
	int r;

	options = (struct ht_record_options)HT_RECORD_OPTIONS_INIT;
	options.debuginfod = true;
	setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1", 1);
	r = check(&err);
	/* Where the library isn't, this is said, and what to install. */
	ck_assert(r == 0 || (r == -ENOENT && strstr(err.text, "install")));
	options.debuginfod_urls = "http://127.0.0.1:2";
	unsetenv("DEBUGINFOD_URLS");
	ck_assert_int_eq(check(&err), r);
	options.debuginfod_urls = "  ";
	if (access("/etc/debuginfod", F_OK) == 0)
		return;
	ck_assert_int_eq(check(&err), -EINVAL);
	ck_assert_int_eq(err.kind, HT_ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(err.text, "DEBUGINFOD_URLS"));
	ck_assert_ptr_null(ht_fetch_start(&options));
}
END_TEST

int main(void)
{
	return ht_check_run("fetch", (const TTest *const[]){ only_when_asked_for, which_servers,
							     NULL });
}
