/* SPDX-License-Identifier: Apache-2.0
 *
 * test_room.c: limits that leave room, or don't. That a tap respects them is attach-room.test.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "ht_check.h"
#include "ht_target.h"
#include "inject/room.h"

#define MIB (UINT64_C(1) << 20)

static struct ht_test_target t;
static struct ht_target *target;
static struct ht_modules *modules;
static struct ht_space *space;

static void begin(void)
{
	struct ht_err err;

	ck_ok(ht_test_target_start(&t, "counter", NULL));
	ck_ok(ht_target_open(t.pid, &target, &err));
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_space_new(ht_target_procfd(target), ht_target_memfd(target), modules, &space));
}

static void end(void)
{
	ht_space_free(space);
	ht_modules_free(modules);
	ht_target_close(target);
	ck_ok(ht_test_target_stop(&t, NULL));
}

static void limit(int resource, rlim_t bytes)
{
	struct rlimit limit;

	ck_ok(prlimit(t.pid, resource, NULL, &limit));
	limit.rlim_cur = bytes;
	ck_ok(prlimit(t.pid, resource, &limit, NULL));
}

START_TEST(without_limits_there_is_room)
{
	begin();
	ck_ok(ht_room_check(target, space, 1024 * MIB, NULL));
	end();
}
END_TEST

START_TEST(limits_are_kept)
{
	struct ht_err err;

	begin();
	/* It has much less than 100 MiB itself. */
	limit(RLIMIT_AS, 100 * MIB);
	ck_ok(ht_room_check(target, space, MIB, &err));
	ck_assert_int_eq(ht_room_check(target, space, 100 * MIB, &err), -ENOSPC);
	ck_assert_int_eq(err.kind, HT_ERR_FAILED);
	ck_assert_msg(strstr(err.text, "MiB, and heaptap needs 116 of them"), "%s", err.text);
	limit(RLIMIT_AS, 4096);
	ck_assert_int_eq(ht_room_check(target, space, MIB, &err), -ENOSPC);
	ck_assert_msg(strstr(err.text, "leaves 0 MiB"), "%s", err.text);
	limit(RLIMIT_AS, RLIM_INFINITY);
	/* The ring isn't private. */
	limit(RLIMIT_DATA, 50 * MIB);
	ck_ok(ht_room_check(target, space, 100 * MIB, &err));
	limit(RLIMIT_DATA, 8 * MIB);
	ck_assert_int_eq(ht_room_check(target, space, MIB, &err), -ENOSPC);
	ck_assert_msg(strstr(err.text, "its limit of data"), "%s", err.text);
	end();
}
END_TEST

START_TEST(files_are_counted)
{
	struct ht_err err;

	begin();
	/* It has 0, 1 and 2. */
	limit(RLIMIT_NOFILE, 7);
	ck_ok(ht_room_check(target, space, MIB, &err));
	limit(RLIMIT_NOFILE, 6);
	ck_assert_int_eq(ht_room_check(target, space, MIB, &err), -EMFILE);
	ck_assert_msg(strstr(err.text, "as many files open as it may"), "%s", err.text);
	limit(RLIMIT_NOFILE, 1);
	ck_assert_int_eq(ht_room_check(target, space, MIB, &err), -EMFILE);
	end();
}
END_TEST

int main(void)
{
	return ht_check_run("room", (const TTest *const[]){ without_limits_there_is_room,
							    limits_are_kept, files_are_counted, NULL });
}
