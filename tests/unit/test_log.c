/* SPDX-License-Identifier: Apache-2.0 */
#define HT_LOG_DOMAIN "attach"
#include "base/log.h"

#include <string.h>
#include <unistd.h>

#include "ht_check.h"

/* What @write_it puts on stderr. */
static void stderr_of(void (*write_it)(void), char *text, size_t cap)
{
	int saved = dup(2), ends[2];
	ssize_t n;

	ck_ok(pipe(ends));
	ck_assert_int_eq(dup2(ends[1], 2), 2);
	close(ends[1]);
	write_it();
	ck_assert_int_eq(dup2(saved, 2), 2);
	close(saved);
	n = read(ends[0], text, cap - 1);
	ck_assert_int_ge(n, 0);
	text[n] = '\0';
	close(ends[0]);
}

static void trace(void)
{
	ht_debug("thread %d %s", 7, "stopped");
}

START_TEST(off_is_silent)
{
	char text[256];

	ht_log_init(NULL);
	ck_assert(!ht_log_any);
	ht_log_init("");
	ck_assert(!ht_log_any);
	stderr_of(trace, text, sizeof(text));
	ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(domains_are_whole_words)
{
	ht_log_init("attach,inject");
	ck_assert(ht_log_enabled("attach"));
	ck_assert(ht_log_enabled("inject"));
	ck_assert(!ht_log_enabled("inj"));
	ck_assert(!ht_log_enabled("tap"));
	ht_log_init("all");
	ck_assert(ht_log_enabled("tap"));
	ht_log_init("tap");
	ck_assert(!ht_log_enabled("attach"));
}
END_TEST

START_TEST(a_line_names_its_domain)
{
	char text[256];

	ht_log_init("attach");
	stderr_of(trace, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, " attach] thread 7 stopped\n"));
	ht_log_init("inject");
	stderr_of(trace, text, sizeof(text));
	ck_assert_str_eq(text, "");
}
END_TEST

static void trace_much(void)
{
	ht_debug("%5000d", 1);
}

START_TEST(long_lines_are_cut)
{
	char text[4096];

	ht_log_init("attach");
	stderr_of(trace_much, text, sizeof(text));
	ck_assert_uint_lt(strlen(text), 1100);
	ck_assert_int_eq(text[strlen(text) - 1], '\n');
}
END_TEST

int main(void)
{
	return ht_check_run("log", (const TTest *const[]){
		off_is_silent, domains_are_whole_words, a_line_names_its_domain,
		long_lines_are_cut, NULL });
}
