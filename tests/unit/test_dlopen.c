/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/dlopen.h"

#include <errno.h>
#include <string.h>

#include "ht_check.h"
#include "ht_snapshot.h"
#include "ht_target.h"

static struct ht_test_target t;
static struct ht_snapshot *before;
static struct ht_target *target;
static struct ht_modules *modules;
static struct ht_space *space;
static struct ht_plan *plan;
static struct ht_hook_image image;
static struct ht_err err;

static void start_with(const char *name, const char *const args[])
{
	ck_ok(ht_test_target_start(&t, name, args));
	ck_ok(ht_snapshot_take(t.pid, &before));
	ck_ok(ht_target_open(t.pid, &target, NULL));
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_space_new(ht_target_procfd(target), ht_target_memfd(target), modules, &space));
	ck_ok(ht_plan_new(space, ht_target_memfd(target), &plan, NULL));
	ck_ok(ht_hook_image_load(&image, NULL));
}

static void start(const char *name)
{
	start_with(name, NULL);
}

static ht_addr_t load(void)
{
	ht_addr_t base = 0;
	int r = ht_dlopen_hook(target, space, plan, &image, &base, &err);

	ck_assert_msg(r == 0, "%s", err.text);
	return base;
}

static void unload(ht_addr_t base)
{
	int r = ht_dlclose_hook(target, space, plan, base, &err);

	ck_assert_msg(r == 0, "%s", err.text);
}

/* The loader allocates: a thread that hasn't done so before may get an arena. */
static void as_before(void)
{
	struct ht_buf why = HT_BUF_INIT;
	struct ht_snapshot *after;

	ck_ok(ht_snapshot_take(t.pid, &after));
	ck_assert_msg(!ht_snapshot_compare(before, after, HT_SNAPSHOT_ANON, &why), "%s", why.data);
	ck_assert_uint_eq(ht_snapshot_leftovers(after), 0);
	ht_snapshot_free(after);
}

static void stop(void)
{
	ht_hook_image_fini(&image);
	ht_plan_free(plan);
	ht_space_free(space);
	ht_modules_free(modules);
	ht_target_close(target);
	ht_snapshot_free(before);
	ht_test_target_kill(&t);
}

/* errno too: keeper would see that. */
static void keeper_works(void)
{
	char line[64];

	ck_ok(ht_test_target_ask(&t, "check", line, sizeof(line)));
	ck_assert_msg(!strncmp(line, "ok", 2), "%s", line);
}

START_TEST(it_comes_and_goes)
{
	struct ht_hook_config config;
	ht_addr_t base;

	start("keeper");
	base = load();
	keeper_works();
	ck_ok(ht_target_read(target, base + image.config, &config, sizeof(config)));
	ck_assert_uint_eq(config.magic, HT_HOOK_MAGIC);
	unload(base);
	keeper_works();
	as_before();
	stop();
}
END_TEST

/* Each is a file of its own, though the loader knows files by their path. */
START_TEST(several_side_by_side)
{
	ht_addr_t bases[3];

	start("keeper");
	for (int i = 0; i < 3; i++) {
		ck_ok(ht_space_refresh(space));
		bases[i] = load();
		for (int k = 0; k < i; k++)
			ck_assert_uint_ne(bases[i], bases[k]);
	}
	keeper_works();
	for (int i = 0; i < 3; i++)
		unload(bases[i]);
	keeper_works();
	as_before();
	stop();
}
END_TEST

START_TEST(what_the_loader_does_not_know)
{
	start("keeper");
	ck_assert_int_lt(ht_dlclose_hook(target, space, plan, 0x510000000000, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "doesn't know the hook"));
	keeper_works();
	as_before();
	stop();
}
END_TEST

START_TEST(among_threads_that_allocate)
{
	char line[64];

	start("busy");
	for (int i = 0; i < 5; i++) {
		unload(load());
		ck_ok(ht_test_target_ask(&t, "check", line, sizeof(line)));
		ck_assert_msg(!strncmp(line, "ok 0", 4), "%s", line);
	}
	stop();
}
END_TEST

START_TEST(among_threads_that_come_and_go)
{
	char line[64];

	start("churn");
	for (int i = 0; i < 5; i++)
		unload(load());
	ck_ok(ht_test_target_ask(&t, "count", line, sizeof(line)));
	stop();
}
END_TEST

START_TEST(a_target_that_ended)
{
	ht_addr_t base;

	start("keeper");
	ht_test_target_kill(&t);
	ck_assert_int_lt(ht_dlopen_hook(target, space, plan, &image, &base, &err), 0);
	ck_assert_int_eq(err.kind, HT_ERR_GONE);
	stop();
}
END_TEST

/* Nor could it be for map: that is no advice then. */
START_TEST(no_thread_can_be_borrowed)
{
	ht_addr_t base;

	start_with("chain", (const char *const[]){ "altstack", NULL });
	ck_assert_int_eq(ht_dlopen_hook(target, space, plan, &image, &base, &err), -EAGAIN);
	ck_assert_msg(strstr(err.text, "runs on a stack of the program's own"), "%s", err.text);
	ck_assert_ptr_null(strstr(err.text, "--loader=map"));
	as_before();
	stop();
}
END_TEST

int main(void)
{
	return ht_check_run("dlopen", (const TTest *const[]){
		it_comes_and_goes, several_side_by_side, what_the_loader_does_not_know,
		among_threads_that_allocate, among_threads_that_come_and_go,
		a_target_that_ended, no_thread_can_be_borrowed, NULL });
}
