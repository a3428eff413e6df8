/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ht_check.h"
#include "report/report-priv.h"

static void is(struct ht_buf *out, const char *expected)
{
	ck_assert_str_eq(out->data ? out->data : "", expected);
	ht_buf_fini(out);
}

START_TEST(width)
{
	ck_assert_uint_eq(ht_columns(""), 0);
	ck_assert_uint_eq(ht_columns("abc"), 3);
	ck_assert_uint_eq(ht_columns("\303\274\342\206\222x"), 3);
	ck_assert_uint_eq(ht_columns("\346\274\242\345\255\227"), 4);	/* wide */
	ck_assert_uint_eq(ht_columns("e\314\201"), 1);			/* combining */
	ck_assert_uint_eq(ht_columns("\360\237\230\200"), 2);
}
END_TEST

START_TEST(cutting_and_filling)
{
	struct ht_buf out = HT_BUF_INIT;

	ht_columns_cut(&out, "abcdef", 6);
	is(&out, "abcdef");
	ht_columns_cut(&out, "abcdef", 4);
	is(&out, "abc\342\200\246");
	ht_columns_cut(&out, "abcdef", 0);
	is(&out, "abcdef");
	ht_columns_cut(&out, "\346\274\242\345\255\227", 3);
	is(&out, "\346\274\242\342\200\246");
	ht_columns_left(&out, "\303\274", 3);
	ht_columns_right(&out, "x", 3);
	ht_columns_right(&out, "long", 2);
	is(&out, "\303\274    xlong");
}
END_TEST

START_TEST(wrapping)
{
	struct ht_buf out = HT_BUF_INIT;

	ht_columns_wrap(&out, "one two  three", 0, 2);
	is(&out, "one two  three\n");
	ht_columns_wrap(&out, "one two  three four", 8, 2);
	is(&out, "one two\n  three\n  four\n");
	ht_columns_wrap(&out, "verylongword x", 4, 1);
	is(&out, "verylongword\n x\n");
	ht_columns_wrap(&out, "", 4, 1);
	is(&out, "\n");
}
END_TEST

static void short_name(const char *name, const char *expected)
{
	struct ht_buf out = HT_BUF_INIT;

	ht_columns_short_name(&out, name);
	is(&out, expected);
}

START_TEST(short_names)
{
#define E "\342\200\246"
	short_name("main", "main");
	short_name("box::weight(int)", "box::weight");
	short_name("std::vector<int, std::allocator<int> >::push_back(int const&)",
		   "std::vector<" E ">::push_back");
	short_name("a::f(int) const", "a::f");
	short_name("(anonymous namespace)::f(char)", "(anonymous namespace)::f");
	short_name("x::operator()(int)", "x::operator()");
	short_name("x::operator<(x const&)", "x::operator<");
	short_name("x::operator<<(x const&)", "x::operator<<");
	short_name("x::operator->()", "x::operator->");
	short_name("f(int)::{lambda(int)#1}::operator()(int) const",
		   "f::{lambda#1}::operator()");
	short_name("<alloc::string::String as core::default::Default>::default",
		   "<alloc::string::String as core::default::Default>::default");
	short_name("foo [cold]", "foo [cold]");
	short_name("unclosed<a", "unclosed<a");
	short_name("unclosed(a", "unclosed(a");
	short_name("", "");
}
END_TEST

int main(void)
{
	return ht_check_run("columns", (const TTest *const[]){
		width, cutting_and_filling, wrapping, short_names, NULL });
}
