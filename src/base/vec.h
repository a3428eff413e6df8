/* SPDX-License-Identifier: Apache-2.0
 *
 * vec.h: a growing array of one element type.
 *
 *	ht_vec(struct thread) threads = HT_VEC_INIT;
 *	struct thread *t = ht_vec_push(&threads);	NULL: out of memory; zeroed otherwise
 *	ht_vec_foreach(t, &threads) ...
 *	ht_vec_fini(&threads);
 *
 * Pushing moves the elements: keep indices, not pointers.
 */
#ifndef HT_BASE_VEC_H
#define HT_BASE_VEC_H

#include <stddef.h>

#include "base/compiler.h"

#define ht_vec(type)                                                                      \
	struct {                                                                          \
		type *at;                                                                 \
		size_t len;                                                               \
		size_t cap;                                                               \
	}

#define HT_VEC_INIT { NULL, 0, 0 }

#define ht_vec_push(vec)                                                                  \
	((__typeof__((vec)->at))ht_vec_push_raw((void **)&(vec)->at, &(vec)->len,         \
						&(vec)->cap, sizeof(*(vec)->at)))

/* Make room for @n in all. 0 or -ENOMEM; afterwards pushes up to @n can't fail. */
#define ht_vec_reserve(vec, n)                                                            \
	ht_vec_reserve_raw((void **)&(vec)->at, &(vec)->cap, (n), sizeof(*(vec)->at))

#define ht_vec_foreach(it, vec)                                                           \
	for ((it) = (vec)->at; (it) && (it) < (vec)->at + (vec)->len; (it)++)

#define ht_vec_clear(vec) ((vec)->len = 0)

#define ht_vec_fini(vec)                                                                  \
	do {                                                                              \
		ht_vec_free_raw((vec)->at);                                               \
		(vec)->at = NULL;                                                         \
		(vec)->len = (vec)->cap = 0;                                              \
	} while (0)

void *ht_vec_push_raw(void **at, size_t *len, size_t *cap, size_t size);
int ht_vec_reserve_raw(void **at, size_t *cap, size_t n, size_t size) _must_check_;
void ht_vec_free_raw(void *at);

#endif
