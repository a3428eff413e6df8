/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ht_check.h"
#include "symbol/symbol.h"

static void check(const char *name, const char *expected)
{
	char *text = ht_demangle(name);

	if (expected) {
		ck_assert_msg(text != NULL, "%s", name);
		ck_assert_str_eq(text, expected);
	} else {
		ck_assert_msg(text == NULL, "%s became %s", name, text);
	}
	free(text);
}

START_TEST(cplusplus)
{
	check("_ZN3box6weightEi", "box::weight(int)");
	check("_Znwm", "operator new(unsigned long)");
	check("_ZNSt6vectorIiSaIiEE9push_backERKi",
	      "std::vector<int, std::allocator<int> >::push_back(int const&)");
}
END_TEST

START_TEST(rust_both_ways)
{
	/* Legacy, with its hash dropped, and v0. */
	check("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad");
	check("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar");
	check("_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>");
}
END_TEST

START_TEST(d_too)
{
	check("_D3foo3barFZv", "foo.bar()");
}
END_TEST

START_TEST(what_is_not_mangled)
{
	check("malloc", NULL);
	check("", NULL);
	check("_start", NULL);
	check("_Z", NULL);
	check("_ZN", NULL);
	check("_R", NULL);
	check("_RNvB_1a", NULL);
	check("_D", NULL);
}
END_TEST

/* f(A<int, int>, A<A<int, int>, A<int, int> >, ...): each step names the one before twice,
 * so that @n steps print 2^n names. */
static char *cplusplus_bomb(int n)
{
	const char *digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	struct ht_buf name = HT_BUF_INIT;
	int i;

	ck_assert_int_le(n, 36);
	ht_buf_puts(&name, "_Z1f1AIiiE");
	for (i = 0; i < n; i++)		/* S_ is A, S0_ is A<int, int>, S1_ the first step */
		ht_buf_printf(&name, "S_IS%c_S%c_E", digits[i], digits[i]);
	return name.data;
}

/* The same in Rust v0: a tuple of the tuple before, twice. */
static char *rust_bomb(int n)
{
	const char *digits = "0123456789abcdefghijklmnopqrstuvwxyz"
			     "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	struct ht_buf name = HT_BUF_INIT;
	size_t at, next;
	char back[8];
	int i;

	ht_buf_puts(&name, "_RINvC1a1b");
	at = name.len - 2;	/* places count from behind "_R" */
	ht_buf_puts(&name, "TllE");
	for (i = 0; i < n; i++) {
		next = name.len - 2;
		if (at - 1 < 62)
			snprintf(back, sizeof(back), "B%c_", digits[at - 1]);
		else
			snprintf(back, sizeof(back), "B%c%c_", digits[(at - 1) / 62],
				 digits[(at - 1) % 62]);
		ht_buf_printf(&name, "T%s%sE", back, back);
		at = next;
	}
	ht_buf_puts(&name, "E");
	return name.data;
}

static void check_bomb(char *(*bomb)(int), int small, int large)
{
	char *name = bomb(small), *text = ht_demangle(name);

	ck_assert_msg(text != NULL, "%s", name);
	free(text);
	free(name);
	name = bomb(large);
	check(name, NULL);
	free(name);
}

START_TEST(a_bomb_is_refused)
{
	check_bomb(cplusplus_bomb, 5, 30);
	check_bomb(rust_bomb, 5, 30);
}
END_TEST

START_TEST(a_huge_name_is_refused)
{
	size_t len = 1 << 20;
	char *name = malloc(len + 1);

	memset(name, 'A', len);
	memcpy(name, "_ZN", 3);
	name[len] = '\0';
	check(name, NULL);
	memset(name + 3, 'P', len - 3);
	check(name, NULL);
	/* Deep nesting within the length limit must not exhaust the stack. */
	name[32 * 1024] = '\0';
	check(name, NULL);
	memcpy(name, "_RYY", 4);
	memset(name + 4, 'Y', 32 * 1024 - 4);
	check(name, NULL);
	free(name);
}
END_TEST

int main(void)
{
	return ht_check_run("demangle", (const TTest *const[]){
		cplusplus, rust_both_ways, d_too, what_is_not_mangled, a_bomb_is_refused,
		a_huge_name_is_refused, NULL });
}
