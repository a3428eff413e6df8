/* SPDX-License-Identifier: Apache-2.0
 *
 * strings.c: names, each kept once, so that equal names are equal pointers.
 */
#include "symbol/symbol-priv.h"

#include <stdlib.h>
#include <string.h>

void ht_strings_fini(struct ht_strings *strings)
{
	char **s;

	ht_vec_foreach(s, &strings->all)
		free(*s);
	ht_vec_fini(&strings->all);
	ht_map_fini(&strings->by_hash);
}

const char *ht_strings_intern(struct ht_strings *strings, const char *text)
{
	uint64_t key = ht_hash_text(text), *at;
	char *copy, **slot;

	/* Names with the same hash sit under the following keys. */
	while ((at = ht_map_get(&strings->by_hash, key))) {
		if (strcmp(strings->all.at[*at], text) == 0)
			return strings->all.at[*at];
		key++;
	}
	if (ht_vec_reserve(&strings->all, strings->all.len + 1) < 0)
		return NULL;
	copy = strdup(text);
	if (!copy)
		return NULL;
	if (ht_map_put(&strings->by_hash, key, strings->all.len) < 0) {
		free(copy);
		return NULL;
	}
	slot = ht_vec_push(&strings->all);
	*slot = copy;
	return copy;
}
