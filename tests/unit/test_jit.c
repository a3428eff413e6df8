/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "made_target.h"
#include "symbol/jit.h"

#define MAP "perf-4711.map"

static struct made_target target;
static struct ht_modules *modules;
static struct ht_space *space;
static int self, memfd;
static struct ht_jit *jit;

static void start(void)
{
	made_target_start(&target);
	self = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	memfd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_space_new(self, memfd, modules, &space));
	ck_ok(ht_jit_new(target.procfd, memfd, space, made_target_ticks(), &jit));
}

static void stop(void)
{
	ht_jit_free(jit);
	ht_space_free(space);
	ht_modules_free(modules);
	ht_fd_close(memfd);
	ht_fd_close(self);
	made_target_stop(&target);
}

static void append(const char *text)
{
	made_target_append(&target, MAP, text);
}

static struct ht_frame frame_at(uint64_t addr)
{
	return (struct ht_frame){ .offset = addr, .module = HT_MODULE_NONE };
}

static void see(uint64_t addr)
{
	const struct ht_frame frame = frame_at(addr);

	ck_ok(ht_jit_see(jit, &frame));
}

static const char *name_of(uint64_t addr)
{
	const struct ht_frame frame = frame_at(addr);
	const char *kind;

	return ht_jit_name(jit, &frame, &kind);
}

START_TEST(return_addresses)
{
	struct ht_frame frame = frame_at(0x1010);
	const char *kind;

	start();
	append("1000 10 a\n1010 10 b\n");
	see(0x1010);
	ht_jit_look_last(jit);
	ck_assert_str_eq(name_of(0x1010), "a");
	frame.flags = HT_FRAME_EXACT;
	ck_ok(ht_jit_see(jit, &frame));
	ht_jit_look_last(jit);
	ck_assert_str_eq(ht_jit_name(jit, &frame, &kind), "b");
	ck_assert_str_eq(kind, "jit");
	/* What was never in a stack has no name. */
	ck_assert_ptr_null(name_of(0x1018));
	/* Files' frames are looked up elsewhere. */
	frame.module = 0;
	ck_ok(ht_jit_see(jit, &frame));
	ck_assert_ptr_null(ht_jit_name(jit, &frame, &kind));
	ck_assert_ptr_null(ht_jit_reason(jit));
	stop();
}
END_TEST

/* Memory of code is used again: what was there at the first sample counts. */
START_TEST(the_first_name_stays)
{
	start();
	append("1000 10 then\n");
	see(0x1004);
	ht_jit_look(jit);
	append("1000 10 now\n");
	see(0x1008);
	ht_jit_look_last(jit);
	ck_assert_str_eq(name_of(0x1004), "then");
	ck_assert_str_eq(name_of(0x1008), "now");
	stop();
}
END_TEST

/* As Java's is, which is written when the program ends. */
START_TEST(names_that_come_last)
{
	const char *why;

	start();
	see(0x1004);
	ht_jit_look(jit);
	ck_assert_ptr_null(name_of(0x1004));
	why = ht_jit_reason(jit);
	ck_assert_str_eq(why, "there is no /tmp/" MAP);
	append("1000 10 late\n");
	ck_assert_int_eq(tool_run("rm %s/status", target.dir), 0);
	ht_jit_look_last(jit);
	ck_assert_str_eq(name_of(0x1004), "late");
	ck_assert_ptr_null(ht_jit_reason(jit));
	stop();
}
END_TEST

/* While it is tapped they come by themselves, though not at each look. */
START_TEST(names_that_come_while_it_runs)
{
	uint64_t deadline = ht_deadline_ns(30 * HT_NS_PER_SEC);

	start();
	see(0x1004);
	ht_jit_look(jit);
	append("1000 10 new\n");
	while (!name_of(0x1004) && !ht_deadline_passed(deadline))
		ht_jit_look(jit);
	ck_assert_str_eq(name_of(0x1004), "new");
	stop();
}
END_TEST

int main(void)
{
	return ht_check_run("jit", (const TTest *const[]){
		return_addresses, the_first_name_stays, names_that_come_last,
		names_that_come_while_it_runs, NULL });
}
