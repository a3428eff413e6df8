/* SPDX-License-Identifier: Apache-2.0
 *
 * test_entries.c: the table is well-formed, and right about the installed allocators.
 */
#include "inject/elfsym.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "ht_check.h"
#include "ht_target.h"

#define LIBDIR "/usr/lib/x86_64-linux-gnu/"

static const struct ht_entry_kind *kind_named(const char *name)
{
	for (size_t i = 0; i < ht_entry_kinds_len; i++) {
		if (!strcmp(ht_entry_kinds[i].name, name))
			return &ht_entry_kinds[i];
	}
	return NULL;
}

static void check_kind(const struct ht_entry_kind *k)
{
	const struct ht_entry_kind *sibling;
	bool frees = k->call == HT_CALL_FREE;
	bool takes_old = frees || k->call == HT_CALL_REALLOC || k->call == HT_CALL_REALLOCF ||
			 k->call == HT_CALL_RESIZE;

	ck_assert_msg(kind_named(k->name) == k, "%s is there twice", k->name);
	bool sizeless = frees || k->call == HT_CALL_DUP || k->call == HT_CALL_DROP ||
			k->call == HT_CALL_INDIRECT;

	ck_assert_msg((k->size_arg >= 0) == !sizeless, "%s: size", k->name);
	ck_assert_msg((k->old_arg >= 0) == takes_old, "%s: old", k->name);
	ck_assert_msg((k->out_arg >= 0) == (k->call == HT_CALL_ALLOC_OUT), "%s: out", k->name);
	ck_assert_int_lt(k->size_arg, 6);
	ck_assert_int_lt(k->count_arg, 6);
	ck_assert(k->count_arg < 0 || k->count_arg != k->size_arg);
	ck_assert(k->old_arg < 0 || (k->old_arg != k->size_arg && k->old_arg != k->count_arg));
	ck_assert_msg(!strncmp(k->name, "_Z", 2) == k->is_operator, "%s: operator", k->name);
	ck_assert_msg(!!k->nothrow == (k->call == HT_CALL_NEW), "%s: sibling", k->name);
	if (!k->nothrow)
		return;
	sibling = kind_named(k->nothrow);
	ck_assert_msg(sibling != NULL, "%s: no %s", k->name, k->nothrow);
	ck_assert_int_eq(sibling->call, HT_CALL_ALLOC);
	ck_assert_int_eq(sibling->size_arg, k->size_arg);
	ck_assert_int_eq(sibling->count_arg, k->count_arg);
}

START_TEST(table_is_well_formed)
{
	ck_assert_uint_gt(ht_entry_kinds_len, 150);
	for (size_t i = 0; i < ht_entry_kinds_len; i++)
		check_kind(&ht_entry_kinds[i]);
}
END_TEST

/* Where each name of the table comes from. */
static struct library {
	const char *path;
	struct ht_buf file;
	struct ht_elfdyn view;
} libraries[] = {
	{ .path = LIBDIR "libc.so.6" },
	{ .path = LIBDIR "libstdc++.so.6" },
	{ .path = LIBDIR "libjemalloc.so.2" },
	{ .path = LIBDIR "libtcmalloc_minimal.so.4" },
	{ .path = LIBDIR "libmimalloc.so.2" },
	{ .path = "/lib/ld-musl-x86_64.so.1" },
};

static bool open_libraries(void)
{
	bool all = true;

	for (size_t i = 0; i < ARRAY_SIZE(libraries); i++) {
		struct library *l = &libraries[i];

		if (!ht_check_have(!access(l->path, R_OK), l->path)) {
			all = false;
			continue;
		}
		l->file = (struct ht_buf)HT_BUF_INIT;
		ck_ok(ht_buf_read_file(&l->file, AT_FDCWD, l->path, 64 << 20));
		ck_ok(ht_elfdyn_open((const uint8_t *)l->file.data, l->file.len, &l->view));
	}
	return all;
}

static bool is_exported(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(libraries); i++) {
		if (ht_elfdyn_find_dynamic(&libraries[i].view, name) >= 0)
			return true;
	}
	return false;
}

/* jemalloc's, as Debian builds it, have no prefix. */
static const char *without_prefix(const char *name)
{
	static const char *const prefixes[] = { "je_", "_rjem_" };

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return name + strlen(prefixes[i]);
	}
	return name;
}

/* A name that is misspelt would never be found in a target, and nobody would miss it. */
START_TEST(names_are_those_of_the_libraries)
{
	/* Of C23: jemalloc has them since 5.3.1, Debian 12 has 5.3.0. */
	static const char *const absent[] = { "free_sized", "free_aligned_sized" };

	if (!open_libraries())
		return;
	for (size_t i = 0; i < ht_entry_kinds_len; i++) {
		const char *name = without_prefix(ht_entry_kinds[i].name);
		bool known = is_exported(name);

		for (size_t k = 0; k < ARRAY_SIZE(absent); k++)
			known |= !strcmp(name, absent[k]);
		ck_assert_msg(known, "no library exports %s", name);
	}
	for (size_t i = 0; i < ARRAY_SIZE(libraries); i++)
		ht_buf_fini(&libraries[i].file);
}
END_TEST

/* Run the caller under @preload (NULL: the C library's own). The number of entries called. */
static int calls_under(const char *preload, const char *must_call)
{
	char env[256], target[512], line[256];
	struct ht_test_target t;
	int status, n = 0;
	bool called = false;

	snprintf(env, sizeof(env), "LD_PRELOAD=%s", preload ? preload : "");
	snprintf(target, sizeof(target), "%s/tests/targets/entry_calls",
		 getenv("HT_BUILDDIR") ? getenv("HT_BUILDDIR") : ".");
	ck_ok(ht_test_target_spawn(&t, "/usr/bin/env",
				   (const char *const[]){ env, target, NULL }));
	while (!ht_test_target_read(&t, line, sizeof(line))) {
		ck_assert_msg(strncmp(line, "BAD", 3) != 0, "%s: %s", env, line);
		n += !strncmp(line, "call ", 5);
		called |= !strncmp(line, "call ", 5) && !strcmp(line + 5, must_call);
	}
	ck_ok(ht_test_target_stop(&t, &status));
	ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "%s: status %d after %s", env,
		      status, line);
	ck_assert_msg(called, "%s: %s wasn't called", env, must_call);
	return n;
}

START_TEST(signatures_of_glibc)
{
	ck_assert_int_gt(calls_under(NULL, "reallocarray"), 10);
}
END_TEST

START_TEST(signatures_of_jemalloc)
{
	ck_assert_int_gt(calls_under("libjemalloc.so.2", "xallocx"), 30);
}
END_TEST

START_TEST(signatures_of_tcmalloc)
{
	ck_assert_int_gt(calls_under("libtcmalloc_minimal.so.4", "tc_new_aligned"), 60);
}
END_TEST

START_TEST(signatures_of_mimalloc)
{
	ck_assert_int_gt(calls_under("libmimalloc.so.2", "mi_heap_recalloc_aligned_at"), 80);
}
END_TEST

int main(void)
{
	return ht_check_run("entries", (const TTest *const[]){
					       table_is_well_formed,
					       names_are_those_of_the_libraries,
					       signatures_of_glibc,
					       signatures_of_jemalloc,
					       signatures_of_tcmalloc,
					       signatures_of_mimalloc,
					       NULL });
}
