/* SPDX-License-Identifier: Apache-2.0
 *
 * entry_args.h: arguments for any entry of the table of allocator entries, for targets that
 * call them all.
 */
#ifndef HT_TESTS_ENTRY_ARGS_H
#define HT_TESTS_ENTRY_ARGS_H

#include "inject/plan.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENTRY_ALIGN 64

typedef uint64_t (*any_fn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static inline void *fn_named(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

/* What gives blocks that the entry of that name may free. */
static inline any_fn malloc_for(const char *name)
{
	return (any_fn)fn_named(!strncmp(name, "mi_", 3) ? "mi_malloc" : "malloc");
}

/* Blocks of one allocator must not reach the free of another. */
static inline bool of_the_allocator(void *fn)
{
	Dl_info own, its;

	return dladdr(fn_named("malloc"), &own) && dladdr(fn, &its) &&
	       own.dli_fbase == its.dli_fbase;
}

static inline bool is_sized_free(const struct ht_entry_kind *kind)
{
	return kind->call == HT_CALL_FREE &&
	       (strstr(kind->name, "sized") || strstr(kind->name, "sdallocx") ||
		strstr(kind->name, "_size") || strstr(kind->name, "Pvm"));
}

/* Does libc's realpath() allocate once, for its result? It took PATH_MAX before. */
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#define REALPATH_IS_KNOWN __GLIBC_PREREQ(2, 34)
#else
#define REALPATH_IS_KNOWN 0
#endif

static inline bool is_realpath(const struct ht_entry_kind *kind)
{
	return strstr(kind->name, "_realpath") != NULL;
}

/* @kind with its arguments; those of an INDIRECT one, which isn't patched, are no business of
 * the table. What is an argument for both the old block and the result is a pointer to it. */
static inline const struct ht_entry_kind *shape_of(const struct ht_entry_kind *kind)
{
	static const struct ht_entry_kind shapes[] = {
		{ .name = "mi_cfree", HT_CALL_FREE, -1, -1, 0, -1, false, NULL },
		{ .name = "vfree", HT_CALL_FREE, -1, -1, 0, -1, false, NULL },
		{ .name = "mi_dupenv_s", HT_CALL_DUP, -1, -1, -1, 0, false, NULL },
		{ .name = "mi_heap_realpath", HT_CALL_DUP, -1, -1, -1, -1, false, NULL },
		{ .name = "mi_realpath", HT_CALL_DUP, -1, -1, -1, -1, false, NULL },
		{ .name = "mi_mbsdup", HT_CALL_DUP, -1, -1, -1, -1, false, NULL },
		{ .name = "mi_wcsdup", HT_CALL_DUP, -1, -1, -1, -1, false, NULL },
		{ .name = "mi__expand", HT_CALL_REALLOC, 1, -1, 0, -1, false, NULL },
		{ .name = "mi_new_realloc", HT_CALL_REALLOC, 1, -1, 0, -1, false, NULL },
		{ .name = "mi_new_reallocn", HT_CALL_REALLOC, 2, 1, 0, -1, false, NULL },
		{ .name = "mi_reallocarr", HT_CALL_REALLOC, 2, 1, 0, 0, false, NULL },
		{ .name = "reallocarr", HT_CALL_REALLOC, 2, 1, 0, 0, false, NULL },
		{ .name = "_aligned_malloc", HT_CALL_ALLOC, 1, -1, -1, -1, false, NULL },
	};

	for (size_t i = 0; kind->call == HT_CALL_INDIRECT && i < ARRAY_SIZE(shapes); i++)
		if (!strcmp(kind->name, shapes[i].name))
			return &shapes[i];
	return kind;
}

/* @shape is that of an entry. Not what would end the default heap. */
static inline bool is_callable(const struct ht_entry_kind *shape)
{
	if (shape->call == HT_CALL_INDIRECT) {
		printf("tests/targets/entry_args.h doesn't know '%s'\n", shape->name);
		abort();
	}
	return shape->call != HT_CALL_DROP && (REALPATH_IS_KNOWN || !is_realpath(shape));
}

/* A string of @size bytes with its NUL, for what copies one. */
static inline const char *string_of(size_t size)
{
	static char string[1024];

	memset(string, 'x', sizeof(string));
	string[size - 1] = '\0';
	return string;
}

/* The same of 16-bit characters. */
static inline const uint16_t *wide_string_of(size_t size)
{
	static uint16_t string[512];

	memset(string, 'x', sizeof(string));
	string[size / 2 - 1] = 0;
	return string;
}

/* The name of a variable of the environment with such a string. To set one allocates, the
 * first time. */
static inline const char *variable_of(size_t size)
{
	static char variable[9 + 1024] = "HT_TRUTH=";
	static bool is_set;

	if (!is_set && putenv(variable))
		abort();
	is_set = true;
	memset(variable + 9, 'x', sizeof(variable) - 9);
	variable[9 + size - 1] = '\0';
	return "HT_TRUTH";
}

/* The path of this program, which is what realpath() makes of it. */
static inline const char *own_path(void)
{
	static char path[PATH_MAX];

	if (!path[0] && readlink("/proc/self/exe", path, sizeof(path) - 1) < 0)
		abort();
	return path;
}

/* The nearest that the entry can be asked for to @size. */
static inline size_t possible_size(const struct ht_entry_kind *shape, size_t size)
{
	if (is_realpath(shape))
		return strlen(own_path()) + 1;
	return strstr(shape->name, "wcsdup") ? size & ~(size_t)1 : size;
}

static inline void dup_args(const struct ht_entry_kind *shape, size_t size, uint64_t args[6])
{
	int i = !strncmp(shape->name, "mi_heap", 7);

	args[i + 1] = is_realpath(shape) ? 0 : size;
	if (is_realpath(shape))
		args[i] = (uintptr_t)own_path();
	else if (strstr(shape->name, "wcsdup"))
		args[i] = (uintptr_t)wide_string_of(size);
	else
		args[i] = (uintptr_t)string_of(size);
	if (strstr(shape->name, "dupenv")) {
		args[1] = 0;
		args[2] = (uintptr_t)variable_of(size);
	}
}

/* Arguments for @size bytes (@count times). Those that the table says nothing of are such
 * that sizes stay sane whatever they are taken for; flags of jemalloc and offsets of
 * mimalloc are 0. @kind: a shape; @size: a possible one; @old: a block of @old_size bytes;
 * *@out is that before the call, too. */
static inline void entry_args(const struct ht_entry_kind *kind, size_t size, size_t count,
			      void *old, size_t old_size, void **out, uint64_t args[6])
{
	bool flags = strstr(kind->name, "allocx") != NULL;

	for (int i = 0; i < 6; i++)
		args[i] = flags ? 0 : ENTRY_ALIGN;
	if (strstr(kind->name, "_at") || strstr(kind->name, "offset"))
		args[kind->count_arg >= 0 ? 4 : 3] = 0;
	if (!strncmp(kind->name, "mi_heap", 7))
		args[0] = (uintptr_t)((void *(*)(void))fn_named("mi_heap_get_default"))();
	if (kind->call == HT_CALL_DUP)
		dup_args(kind, size, args);
	if (kind->size_arg >= 0)
		args[kind->size_arg] = size;
	if (kind->count_arg >= 0)
		args[kind->count_arg] = count;
	if (kind->old_arg >= 0)
		args[kind->old_arg] = (uintptr_t)old;
	*out = old;
	if (kind->out_arg >= 0)
		args[kind->out_arg] = (uintptr_t)out;
	/* Sized frees are told the truth; the alignment is the default one. */
	if (is_sized_free(kind)) {
		args[1] = old_size;
		args[2] = flags ? 0 : 8;
	}
	if (strstr(kind->name, "free_aligned_sized")) {
		args[1] = 8;
		args[2] = old_size;
	}
}

#endif
