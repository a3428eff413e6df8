/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ht_check.h"
#include "symbol/symbol.h"

static void check(const char *in, size_t max, const char *out)
{
	struct ht_buf buf = HT_BUF_INIT;

	ck_ok(ht_symbol_clean(in, max, &buf));
	ck_assert_str_eq(buf.data ? buf.data : "", out);
	ht_buf_fini(&buf);
}

START_TEST(plain_text_stays)
{
	check("", 100, "");
	check("std::vector<int>::push_back(int const&)", 100,
	      "std::vector<int>::push_back(int const&)");
	check("gr\xc3\xbc\xc3\x9f \xe2\x86\x90 \xf0\x9f\x98\x80", 100,
	      "gr\xc3\xbc\xc3\x9f \xe2\x86\x90 \xf0\x9f\x98\x80");
}
END_TEST

START_TEST(control_characters_are_escaped)
{
	check("a\x1b[31mb\n\t\x7f", 100, "a\\x1b[31mb\\x0a\\x09\\x7f");
	check("\xc2\x9b" "31m", 100, "\\xc2\\x9b31m");		/* a one-byte CSI */
	check("a\xe2\x80\xae" "b", 100, "a\\xe2\\x80\\xaeb");	/* right-to-left override */
	check("\xef\xbb\xbf", 100, "\\xef\\xbb\\xbf");
}
END_TEST

START_TEST(what_is_not_utf8_is_escaped)
{
	check("\xff\xfe", 100, "\\xff\\xfe");
	check("\xc0\xaf", 100, "\\xc0\\xaf");			/* overlong */
	check("\xe0\x80\xaf", 100, "\\xe0\\x80\\xaf");
	check("\xed\xa0\x80", 100, "\\xed\\xa0\\x80");		/* a surrogate */
	check("\xf4\x90\x80\x80", 100, "\\xf4\\x90\\x80\\x80");	/* above U+10FFFF */
	check("x\xe2\x82", 100, "x\\xe2\\x82");			/* ends early */
}
END_TEST

START_TEST(long_text_is_cut_at_a_character)
{
	check("abcdef", 6, "abcdef");
	check("abcdef", 3, "abc... [6 bytes]");
	check("ab\xc3\xbc", 3, "ab... [4 bytes]");
}
END_TEST

int main(void)
{
	return ht_check_run("clean", (const TTest *const[]){
		plain_text_stays, control_characters_are_escaped,
		what_is_not_utf8_is_escaped, long_text_is_cut_at_a_character, NULL });
}
