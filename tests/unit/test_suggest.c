/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cmd/cmd.h"
#include "ht_check.h"

static const char *const names[] = { "attach", "run", "cure", "doctor", "interval", "" };

static void check(const char *word, const char *meant)
{
	const char *said = ht_cmd_suggest(word, names, ARRAY_SIZE(names));

	ck_assert_msg(meant ? said && !strcmp(said, meant) : !said, "%s: %s", word,
		      said ? said : "nothing");
}

START_TEST(each_kind_of_slip)
{
	check("attac", "attach");	/* too few */
	check("attachh", "attach");	/* too many */
	check("attech", "attach");	/* another */
	check("attahc", "attach");	/* two swapped */
	check("taatch", "attach");	/* two slips, in a long word */
	check("ttach", "attach");
	check("rnu", "run");
}
END_TEST

START_TEST(another_word_is_no_slip)
{
	check("ran!", NULL);		/* two slips, in a short word */
	check("xyz", NULL);
	check("", NULL);
	check("aatchd", NULL);		/* three slips */
	check("ATTACH", NULL);
}
END_TEST

START_TEST(beginnings)
{
	check("int", "interval");
	check("inte", "interval");
	check("in", NULL);
	check("intx", NULL);
}
END_TEST

/* The table that edits are counted in has an end. */
START_TEST(long_words)
{
	char word[200];
	const char *same[] = { word };

	for (size_t len = 30; len < sizeof(word); len++) {
		memset(word, 'a', len);
		word[len] = '\0';
		check(word, NULL);
	}
	/* One slip at the limit of 32 letters, and over it. */
	memset(word, 'a', 32);
	word[32] = '\0';
	ck_assert_ptr_eq(ht_cmd_suggest("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", same, 1), word);
	ck_assert_ptr_null(ht_cmd_suggest("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", same, 1));
}
END_TEST

START_TEST(nearest_and_none)
{
	static const char *const twins[] = { "colour", "color", "colors" };

	ck_assert_str_eq(ht_cmd_suggest("colr", twins, 3), "color");
	/* As near as each other: the first. */
	ck_assert_str_eq(ht_cmd_suggest("colouurs", twins, 3), "colour");
	ck_assert_ptr_null(ht_cmd_suggest("color", twins, 0));
}
END_TEST

int main(void)
{
	return ht_check_run("suggest", (const TTest *const[]){
		each_kind_of_slip, another_word_is_no_slip, beginnings, long_words,
		nearest_and_none, NULL });
}
