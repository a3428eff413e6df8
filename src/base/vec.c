/* SPDX-License-Identifier: Apache-2.0
 *
 * vec.c: see vec.h.
 */
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ht_vec_reserve_raw(void **at, size_t *cap, size_t n, size_t size)
{
	size_t bytes, grown = ht_max(*cap * 2, (size_t)8);
	void *mem;

	if (n <= *cap)
		return 0;
	grown = ht_max(grown, n);
	if (__builtin_mul_overflow(grown, size, &bytes))
		return -ENOMEM;
	mem = realloc(*at, bytes);
	if (!mem)
		return -ENOMEM;
	*at = mem;
	*cap = grown;
	return 0;
}

void *ht_vec_push_raw(void **at, size_t *len, size_t *cap, size_t size)
{
	char *slot;

	if (ht_vec_reserve_raw(at, cap, *len + 1, size) < 0)
		return NULL;
	slot = (char *)*at + *len * size;
	memset(slot, 0, size);
	(*len)++;
	return slot;
}

void ht_vec_free_raw(void *at)
{
	free(at);
}
