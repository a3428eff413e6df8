/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ht_check.h"
#include "report/report.h"

START_TEST(by_name)
{
	size_t i;

	for (i = 0; ht_report_formats[i]; i++)
		ck_assert_ptr_eq(ht_report_format_by_name(ht_report_formats[i]->name),
				 ht_report_formats[i]);
	ck_assert_uint_ge(i, 3);
	ck_assert_ptr_null(ht_report_format_by_name("TEXT"));
	ck_assert_ptr_null(ht_report_format_by_name(""));
}
END_TEST

START_TEST(by_path)
{
	ck_assert_ptr_eq(ht_report_format_by_path("/tmp/x.txt"), &ht_report_text);
	ck_assert_ptr_eq(ht_report_format_by_path("heap.pb.gz"), &ht_report_pprof);
	ck_assert_ptr_eq(ht_report_format_by_path("a.b/heap.1.folded"), &ht_report_folded);
	ck_assert_ptr_eq(ht_report_format_by_path("heap.peak.folded"), &ht_report_folded_peak);
	ck_assert_ptr_null(ht_report_format_by_path("heap.gz"));
	ck_assert_ptr_null(ht_report_format_by_path("dir.txt/heap"));
	ck_assert_ptr_null(ht_report_format_by_path("dir/.txt"));
	ck_assert_ptr_null(ht_report_format_by_path(""));
}
END_TEST

/* Names and endings are how people choose: each must lead to one format. */
START_TEST(nothing_twice)
{
	size_t i, j;

	for (i = 0; ht_report_formats[i]; i++) {
		ck_assert(ht_report_formats[i]->suffix[0] == '.');
		ck_assert(*ht_report_formats[i]->help);
		for (j = 0; j < i; j++) {
			ck_assert_str_ne(ht_report_formats[i]->name, ht_report_formats[j]->name);
			ck_assert_str_ne(ht_report_formats[i]->suffix,
					 ht_report_formats[j]->suffix);
		}
	}
}
END_TEST

int main(void)
{
	return ht_check_run("format", (const TTest *const[]){ by_name, by_path, nothing_twice,
							      NULL });
}
