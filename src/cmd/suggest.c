/* SPDX-License-Identifier: Apache-2.0
 *
 * suggest.c: "did you mean", for mistyped commands and options.
 */
#include <limits.h>
#include <string.h>

#include "cmd/cmd.h"

#define WORD_MAX 32

/* Edits (insert, delete, replace, swap of neighbours) from @a to @b. Words longer than
 * WORD_MAX are never close to anything. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[3][WORD_MAX + 1];
	size_t la = strlen(a), lb = strlen(b);
	unsigned *before = row[0], *above = row[1], *here = row[2], *free_row;

	if (la > WORD_MAX || lb > WORD_MAX)
		return UINT_MAX;
	for (size_t j = 0; j <= lb; j++)
		here[j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		free_row = before;
		before = above;
		above = here;
		here = free_row;
		here[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);

			best = ht_min(best, above[j] + 1);
			best = ht_min(best, here[j - 1] + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = ht_min(best, before[j - 2] + 1);
			here[j] = best;
		}
	}
	return here[lb];
}

const char *ht_cmd_suggest(const char *word, const char *const *names, size_t n)
{
	const char *best = NULL;
	unsigned least = 3;

	for (size_t i = 0; i < n; i++) {
		unsigned d = distance(word, names[i]);

		/* A beginning of three letters is as good as one slip. */
		if (strlen(word) >= 3 && !strncmp(word, names[i], strlen(word)))
			d = 1;
		/* Two slips in four letters are another word. */
		if (d < least && d * 2 < strlen(names[i])) {
			least = d;
			best = names[i];
		}
	}
	return best;
}
