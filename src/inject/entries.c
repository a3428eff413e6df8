/* SPDX-License-Identifier: Apache-2.0
 *
 * entries.c: the functions by which programs allocate and free, and where their arguments
 * are. Signatures are those of the libraries' public headers.
 *
 * INDIRECT are functions that do their work through another entry, which counts it: they
 * aren't patched, but their code is looked at for that.
 */
#include "inject/plan.h"

/* Positions of arguments: size, count (size is bytes times this), old block, out. */
#define ALLOC(n, size)		{ n, HT_CALL_ALLOC, size, -1, -1, -1, false, NULL }
#define ALLOC_N(n, size, count)	{ n, HT_CALL_ALLOC, size, count, -1, -1, false, NULL }
#define ALLOC_OUT(n, size, out)	{ n, HT_CALL_ALLOC_OUT, size, -1, -1, out, false, NULL }
#define FREE(n)			{ n, HT_CALL_FREE, -1, -1, 0, -1, false, NULL }
#define REALLOC(n, old, size)	{ n, HT_CALL_REALLOC, size, -1, old, -1, false, NULL }
#define REALLOC_N(n, old, size, count) \
	{ n, HT_CALL_REALLOC, size, count, old, -1, false, NULL }
#define REALLOCF(n, old, size)	{ n, HT_CALL_REALLOCF, size, -1, old, -1, false, NULL }
#define RESIZE(n)		{ n, HT_CALL_RESIZE, 1, -1, 0, -1, false, NULL }
/* A string that is copied, and blocks that go without being named. */
#define DUP(n)			{ n, HT_CALL_DUP, -1, -1, -1, -1, false, NULL }
#define DROP(n)			{ n, HT_CALL_DROP, -1, -1, -1, -1, false, NULL }
/* Works through another entry. */
#define INDIRECT(n)		{ n, HT_CALL_INDIRECT, -1, -1, -1, -1, false, NULL }
/* Functions that throw when memory is out; the sibling takes the same arguments first. */
#define NEW(n, size, sibling)	{ n, HT_CALL_NEW, size, -1, -1, -1, false, sibling }
#define NEW_N(n, size, count, sibling) \
	{ n, HT_CALL_NEW, size, count, -1, -1, false, sibling }
/* C++ operators. */
#define OP_NEW(n, sibling)	{ n, HT_CALL_NEW, 0, -1, -1, -1, true, sibling }
#define OP_ALLOC(n)		{ n, HT_CALL_ALLOC, 0, -1, -1, -1, true, NULL }
#define OP_FREE(n)		{ n, HT_CALL_FREE, -1, -1, 0, -1, true, NULL }

/* jemalloc, under any prefix that it was configured with. */
#define JEMALLOC(p) \
	ALLOC(p "malloc", 0), \
	FREE(p "free"), \
	ALLOC_N(p "calloc", 1, 0), \
	REALLOC(p "realloc", 0, 1), \
	ALLOC(p "aligned_alloc", 1), \
	ALLOC(p "memalign", 1), \
	ALLOC_OUT(p "posix_memalign", 2, 0), \
	ALLOC(p "valloc", 0), \
	ALLOC(p "pvalloc", 0), \
	ALLOC(p "mallocx", 0), \
	REALLOC(p "rallocx", 0, 1), \
	RESIZE(p "xallocx"), \
	FREE(p "dallocx"), \
	FREE(p "sdallocx"), \
	FREE(p "free_sized"), \
	FREE(p "free_aligned_sized")

/* clang-format off */
const struct ht_entry_kind ht_entry_kinds[] = {
	/* C, POSIX, BSD; jemalloc without a prefix. The plain names come first: the first
	 * name of an address is the one that people read. */
	JEMALLOC(""),
	REALLOC_N("reallocarray", 0, 2, 1),
	REALLOCF("reallocf", 0, 1),
	FREE("cfree"),

	/* glibc's own names; also what allocators that replace it export. */
	ALLOC("__libc_malloc", 0),
	FREE("__libc_free"),
	FREE("__libc_cfree"),
	ALLOC_N("__libc_calloc", 1, 0),
	REALLOC("__libc_realloc", 0, 1),
	REALLOC_N("__libc_reallocarray", 0, 2, 1),
	ALLOC("__libc_memalign", 1),
	ALLOC("__libc_valloc", 0),
	ALLOC("__libc_pvalloc", 0),
	ALLOC_OUT("__posix_memalign", 2, 0),

	OP_NEW("_Znwm", "_ZnwmRKSt9nothrow_t"),
	OP_NEW("_Znam", "_ZnamRKSt9nothrow_t"),
	OP_NEW("_ZnwmSt11align_val_t", "_ZnwmSt11align_val_tRKSt9nothrow_t"),
	OP_NEW("_ZnamSt11align_val_t", "_ZnamSt11align_val_tRKSt9nothrow_t"),
	OP_ALLOC("_ZnwmRKSt9nothrow_t"),
	OP_ALLOC("_ZnamRKSt9nothrow_t"),
	OP_ALLOC("_ZnwmSt11align_val_tRKSt9nothrow_t"),
	OP_ALLOC("_ZnamSt11align_val_tRKSt9nothrow_t"),
	OP_FREE("_ZdlPv"),
	OP_FREE("_ZdaPv"),
	OP_FREE("_ZdlPvm"),
	OP_FREE("_ZdaPvm"),
	OP_FREE("_ZdlPvRKSt9nothrow_t"),
	OP_FREE("_ZdaPvRKSt9nothrow_t"),
	OP_FREE("_ZdlPvSt11align_val_t"),
	OP_FREE("_ZdaPvSt11align_val_t"),
	OP_FREE("_ZdlPvmSt11align_val_t"),
	OP_FREE("_ZdaPvmSt11align_val_t"),
	OP_FREE("_ZdlPvSt11align_val_tRKSt9nothrow_t"),
	OP_FREE("_ZdaPvSt11align_val_tRKSt9nothrow_t"),

	/* jemalloc inside a program: redis and others, Rust's tikv-jemallocator. */
	JEMALLOC("je_"),
	JEMALLOC("_rjem_"),

	/* gperftools */
	ALLOC("tc_malloc", 0),
	FREE("tc_free"),
	ALLOC("tc_malloc_skip_new_handler", 0),
	FREE("tc_cfree"),
	FREE("tc_free_sized"),
	ALLOC_N("tc_calloc", 1, 0),
	REALLOC("tc_realloc", 0, 1),
	ALLOC("tc_memalign", 1),
	ALLOC_OUT("tc_posix_memalign", 2, 0),
	ALLOC("tc_valloc", 0),
	ALLOC("tc_pvalloc", 0),
	NEW("tc_new", 0, "tc_new_nothrow"),
	NEW("tc_newarray", 0, "tc_newarray_nothrow"),
	NEW("tc_new_aligned", 0, "tc_new_aligned_nothrow"),
	NEW("tc_newarray_aligned", 0, "tc_newarray_aligned_nothrow"),
	ALLOC("tc_new_nothrow", 0),
	ALLOC("tc_newarray_nothrow", 0),
	ALLOC("tc_new_aligned_nothrow", 0),
	ALLOC("tc_newarray_aligned_nothrow", 0),
	FREE("tc_delete"),
	FREE("tc_deletearray"),
	FREE("tc_delete_sized"),
	FREE("tc_deletearray_sized"),
	FREE("tc_delete_nothrow"),
	FREE("tc_deletearray_nothrow"),
	FREE("tc_delete_aligned"),
	FREE("tc_deletearray_aligned"),
	FREE("tc_delete_sized_aligned"),
	FREE("tc_deletearray_sized_aligned"),
	FREE("tc_delete_aligned_nothrow"),
	FREE("tc_deletearray_aligned_nothrow"),

	/* mimalloc: the alignment comes behind the size, but where the name is POSIX's. */
	ALLOC("mi_malloc", 0),
	FREE("mi_free"),
	ALLOC_N("mi_calloc", 1, 0),
	ALLOC("mi_zalloc", 0),
	ALLOC("mi_malloc_small", 0),
	ALLOC("mi_zalloc_small", 0),
	ALLOC_N("mi_mallocn", 1, 0),
	REALLOC("mi_realloc", 0, 1),
	REALLOC_N("mi_reallocn", 0, 2, 1),
	REALLOCF("mi_reallocf", 0, 1),
	REALLOC_N("mi_reallocarray", 0, 2, 1),
	REALLOC("mi_expand", 0, 1),
	REALLOC("mi_rezalloc", 0, 1),
	REALLOC_N("mi_recalloc", 0, 2, 1),
	ALLOC("mi_malloc_aligned", 0),
	ALLOC("mi_malloc_aligned_at", 0),
	ALLOC("mi_zalloc_aligned", 0),
	ALLOC("mi_zalloc_aligned_at", 0),
	ALLOC_N("mi_calloc_aligned", 1, 0),
	ALLOC_N("mi_calloc_aligned_at", 1, 0),
	REALLOC("mi_realloc_aligned", 0, 1),
	REALLOC("mi_realloc_aligned_at", 0, 1),
	REALLOC("mi_rezalloc_aligned", 0, 1),
	REALLOC("mi_rezalloc_aligned_at", 0, 1),
	REALLOC_N("mi_recalloc_aligned", 0, 2, 1),
	REALLOC_N("mi_recalloc_aligned_at", 0, 2, 1),
	REALLOC_N("mi_aligned_recalloc", 0, 2, 1),
	REALLOC_N("mi_aligned_offset_recalloc", 0, 2, 1),
	ALLOC_OUT("mi_posix_memalign", 2, 0),
	ALLOC("mi_memalign", 1),
	ALLOC("mi_aligned_alloc", 1),
	ALLOC("mi_valloc", 0),
	ALLOC("mi_pvalloc", 0),
	FREE("mi_free_size"),
	FREE("mi_free_size_aligned"),
	FREE("mi_free_aligned"),
	NEW("mi_new", 0, "mi_new_nothrow"),
	NEW("mi_new_aligned", 0, "mi_new_aligned_nothrow"),
	NEW_N("mi_new_n", 1, 0, "mi_mallocn"),
	ALLOC("mi_new_nothrow", 0),
	ALLOC("mi_new_aligned_nothrow", 0),
	ALLOC("mi_heap_malloc", 1),
	ALLOC("mi_heap_zalloc", 1),
	ALLOC("mi_heap_malloc_small", 1),
	ALLOC_N("mi_heap_calloc", 2, 1),
	ALLOC_N("mi_heap_mallocn", 2, 1),
	REALLOC("mi_heap_realloc", 1, 2),
	REALLOC_N("mi_heap_reallocn", 1, 3, 2),
	REALLOCF("mi_heap_reallocf", 1, 2),
	REALLOC("mi_heap_rezalloc", 1, 2),
	REALLOC_N("mi_heap_recalloc", 1, 3, 2),
	ALLOC("mi_heap_malloc_aligned", 1),
	ALLOC("mi_heap_malloc_aligned_at", 1),
	ALLOC("mi_heap_zalloc_aligned", 1),
	ALLOC("mi_heap_zalloc_aligned_at", 1),
	ALLOC_N("mi_heap_calloc_aligned", 2, 1),
	ALLOC_N("mi_heap_calloc_aligned_at", 2, 1),
	REALLOC("mi_heap_realloc_aligned", 1, 2),
	REALLOC("mi_heap_realloc_aligned_at", 1, 2),
	REALLOC("mi_heap_rezalloc_aligned", 1, 2),
	REALLOC("mi_heap_rezalloc_aligned_at", 1, 2),
	REALLOC_N("mi_heap_recalloc_aligned", 1, 3, 2),
	REALLOC_N("mi_heap_recalloc_aligned_at", 1, 3, 2),
	DUP("mi_strdup"),
	DUP("mi_strndup"),
	DUP("mi_heap_strdup"),
	DUP("mi_heap_strndup"),
	DROP("mi_heap_destroy"),
	NEW("mi_heap_alloc_new", 1, "mi_heap_malloc"),
	NEW_N("mi_heap_alloc_new_n", 2, 1, "mi_heap_mallocn"),
	INDIRECT("mi_cfree"),
	INDIRECT("mi_dupenv_s"),
	INDIRECT("mi__expand"),
	INDIRECT("mi_heap_realpath"),
	INDIRECT("mi_mbsdup"),
	INDIRECT("mi_new_realloc"),
	INDIRECT("mi_new_reallocn"),
	INDIRECT("mi_realpath"),
	INDIRECT("mi_reallocarr"),
	INDIRECT("mi_wcsdup"),
	INDIRECT("reallocarr"),
	INDIRECT("vfree"),
	INDIRECT("_aligned_malloc"),
};
/* clang-format on */

const size_t ht_entry_kinds_len = ARRAY_SIZE(ht_entry_kinds);
