/* SPDX-License-Identifier: Apache-2.0
 *
 * Of all that a program loads after a plan was made of it, those that the plan would have
 * had are found, each once.
 */
#include "inject/late.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ht_check.h"
#include "ht_target.h"

static struct ht_test_target t;
static struct ht_modules *modules;
static struct ht_space *space;
static struct ht_plan *plan;
static struct ht_late *late;
static int procfd, memfd;

static void start(void)
{
	char path[64];

	ck_ok(ht_test_target_start(&t, "loader", NULL));
	snprintf(path, sizeof(path), "/proc/%d", t.pid);
	procfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	memfd = openat(procfd, "mem", O_RDWR | O_CLOEXEC);
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_space_new(procfd, memfd, modules, &space));
	ck_ok(ht_plan_new(space, memfd, &plan, NULL));
	ck_ok(ht_late_new(space, memfd, plan, &late));
}

static void stop(void)
{
	late = ht_late_free(late);
	ht_plan_free(plan);
	ht_space_free(space);
	ht_modules_free(modules);
	close(memfd);
	close(procfd);
	ht_test_target_kill(&t);
}

static void tell(const char *line)
{
	char reply[512];

	ck_ok(ht_test_target_ask(&t, line, reply, sizeof(reply)));
	ck_assert_str_eq(reply, "DONE");
}

/* One of ours. */
static void load(const char *how, const char *name)
{
	const char *dir = getenv("HT_BUILDDIR");
	char line[512];

	snprintf(line, sizeof(line), "%s %s/tests/targets/%s", how, dir ? dir : ".", name);
	tell(line);
}

static int look(void)
{
	ck_assert_int_ge(ht_space_refresh(space), 0);
	return ht_late_look(late);
}

static void found(size_t n, const char *last)
{
	const struct ht_module *const *at;

	ck_assert_uint_eq(ht_late_found(late, &at), n);
	if (n)
		ck_assert_str_eq(ht_module_name(at[n - 1]), last);
}

START_TEST(an_allocator_is_found_once)
{
	start();
	ck_assert_int_eq(look(), 0);
	load("open", "loaded.so");
	/* Nobody has looked at the map. */
	ck_assert_int_eq(ht_late_look(late), 0);
	ck_assert_int_eq(look(), 1);
	found(1, "loaded.so");
	tell("open libm.so.6");
	ck_assert_int_eq(look(), 0);
	tell("close");
	ck_assert_int_eq(look(), 0);
	found(1, "loaded.so");
	stop();
}
END_TEST

/* No malloc; one that the plan would leave out for want of a free; one that is libc's. */
START_TEST(what_would_not_be_tapped)
{
	start();
	tell("open libm.so.6");
	ck_assert_int_eq(look(), 0);
	load("open", "loaded_part.so");
	ck_assert_int_eq(look(), 0);
	load("open", "loaded_forward.so");
	ck_assert_int_eq(look(), 0);
	found(0, NULL);
	/* With a libc of its own, which isn't the one that is tapped. */
	load("again", "loaded_forward.so");
	ck_assert_int_eq(look(), 1);
	found(1, "libc.so.6");
	stop();
}
END_TEST

/* The patches went with the first one. */
START_TEST(what_is_loaded_anew_is_late)
{
	start();
	load("open", "loaded.so");
	late = ht_late_free(late);
	ht_plan_free(plan);
	ck_assert_int_ge(ht_space_refresh(space), 0);
	ck_ok(ht_plan_new(space, memfd, &plan, NULL));
	ck_ok(ht_late_new(space, memfd, plan, &late));
	tell("close");
	ck_assert_int_eq(look(), 0);
	load("open", "loaded.so");
	ck_assert_int_eq(look(), 1);
	found(1, "loaded.so");
	stop();
}
END_TEST

/* Patches differ from the file, as other hooks do. It doesn't run any more. */
START_TEST(our_patches_are_no_other_hook)
{
	struct ht_plan *again = NULL;
	uint8_t byte;

	start();
	ck_assert_str_eq(plan->sites[0].kind->name, "malloc");
	byte = plan->sites[0].original[0] ^ 0xff;
	ck_assert_int_eq(pwrite(memfd, &byte, 1, (off_t)plan->sites[0].addr), 1);
	ck_assert_int_lt(ht_plan_new(space, memfd, &again, NULL), 0);
	ck_ok(ht_plan_again(space, memfd, plan, &again, NULL));
	ck_assert_uint_eq(again->n_sites, plan->n_sites);
	ht_plan_free(again);
	stop();
}
END_TEST

int main(void)
{
	return ht_check_run("late", (const TTest *const[]){
		an_allocator_is_found_once, what_would_not_be_tapped,
		what_is_loaded_anew_is_late, our_patches_are_no_other_hook, NULL });
}
