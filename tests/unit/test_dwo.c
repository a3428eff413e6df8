/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "ht_check.h"
#include "symbol/symbol-priv.h"
#include "tool.h"

static int open_in(const char *dir, const char *name)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static void compile(char dir[64])
{
	const char *top = getenv("HT_SRCDIR");

	tool_mkdir(dir);
	ck_assert_int_eq(tool_run("src=$(realpath '%s/tests/unit/inlines.c') && cd %s && ${CC:-cc}"
				  " -O2 -g -gdwarf-5 -gsplit-dwarf -c \"$src\" -o unit.o",
				  top ? top : "..", dir), 0);
}

START_TEST(its_parts)
{
	size_t budget = 1 << 20, used;
	struct ht_unit_parts parts = { .base = 0 };
	struct ht_dwo *dwo;
	char dir[64];

	compile(dir);
	ck_ok(ht_dwo_open(open_in(dir, "unit.dwo"), &budget, &parts, &dwo));
	ck_assert_uint_gt(parts.at[HT_PART_INFO].len, 0);
	ck_assert_uint_gt(parts.at[HT_PART_ABBREV].len, 0);
	ck_assert_uint_gt(parts.at[HT_PART_STR].len, 0);
	ck_assert_uint_gt(parts.at[HT_PART_STR_OFFSETS].len, 0);
	/* The skeleton's file has them. */
	ck_assert_uint_eq(parts.at[HT_PART_ADDR].len, 0);
	ck_assert_uint_eq(parts.ranges.len, 0);
	ht_dwo_free(dwo);
	used = (1 << 20) - budget;
	ck_assert_uint_gt(used, 500);

	budget = used;
	ck_ok(ht_dwo_open(open_in(dir, "unit.dwo"), &budget, &parts, &dwo));
	ck_assert_uint_eq(budget, 0);
	ht_dwo_free(dwo);
	budget = used - 1;
	ck_assert_int_eq(ht_dwo_open(open_in(dir, "unit.dwo"), &budget, &parts, &dwo), -E2BIG);
	tool_rmdir(dir);
}
END_TEST

START_TEST(what_is_none)
{
	struct ht_unit_parts parts = { .base = 0 };
	size_t budget = 1 << 20;
	struct ht_dwo *dwo;
	char dir[64];

	compile(dir);
	ck_assert_int_eq(tool_run("cd %s && : >empty && echo text >text &&"
				  " head -c 200 unit.dwo >cut", dir), 0);
	ck_assert_int_lt(ht_dwo_open(open_in(dir, "empty"), &budget, &parts, &dwo), 0);
	ck_assert_int_lt(ht_dwo_open(open_in(dir, "text"), &budget, &parts, &dwo), 0);
	ck_assert_int_lt(ht_dwo_open(open_in(dir, "cut"), &budget, &parts, &dwo), 0);
	/* An object file, but without such sections. */
	ck_assert_int_eq(ht_dwo_open(open_in(dir, "unit.o"), &budget, &parts, &dwo), -ENOENT);
	ck_assert_ptr_null(ht_dwo_free(NULL));
	tool_rmdir(dir);
}
END_TEST

int main(void)
{
	return ht_check_run("dwo", (const TTest *const[]){ its_parts, what_is_none, NULL });
}
