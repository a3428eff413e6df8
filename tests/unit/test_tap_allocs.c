/* SPDX-License-Identifier: Apache-2.0
 *
 * While anything of a target is stopped, nothing is allocated or freed: not when it is tapped,
 * by either loader and either transport, nor when it is cured.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "ht_allocs.h"
#include "ht_check.h"
#include "ht_target.h"
#include "ht_tool.h"
#include "tap/tap.h"

static struct ht_test_target t;
static struct ht_tap *tap;
static struct ht_err err;

static struct ht_tap_options options_for(enum ht_loader loader, enum ht_transport transport)
{
	return (struct ht_tap_options){ .interval = 4096, .ring_size = 256 * 1024,
					.max_stack = 4096, .loader = loader,
					.transport = transport };
}

static void start(const char *name)
{
	ck_ok(ht_test_target_start(&t, name, NULL));
	ht_allocs_watch();
}

static void nothing_was_allocated(void)
{
	ck_assert_uint_gt(ht_allocs_stops(), 0);
	ck_assert_uint_eq(ht_allocs_made(), 0);
}

static void check(void)
{
	char line[64];

	ck_ok(ht_test_target_ask(&t, "check", line, sizeof(line)));
	ck_assert_str_eq(line, "ok 0");
}

static void attach(const struct ht_tap_options *options)
{
	int r = ht_tap_attach(t.pid, options, &tap, &err);

	ck_assert_msg(r == 0, "%s", err.text);
}

static void whole_life(enum ht_loader loader, enum ht_transport transport)
{
	struct ht_tap_options options = options_for(loader, transport);
	enum ht_tap_state state;

	start("busy");
	attach(&options);
	nothing_was_allocated();
	check();
	ck_ok(ht_tap_serve(tap, ht_deadline_ns(HT_NS_PER_MS), -1, &state, &err));
	ht_allocs_watch();
	ck_ok(ht_tap_cure(tap, &err));
	nothing_was_allocated();
	tap = ht_tap_free(tap);
	check();
	ht_test_target_kill(&t);
}

START_TEST(by_map)
{
	whole_life(HT_LOADER_MAP, HT_TRANSPORT_RING);
}
END_TEST

START_TEST(by_dlopen)
{
	whole_life(HT_LOADER_DLOPEN, HT_TRANSPORT_RING);
}
END_TEST

START_TEST(by_socket)
{
	whole_life(HT_LOADER_MAP, HT_TRANSPORT_SOCKET);
}
END_TEST

/* What a killed one left is taken out. */
START_TEST(cure_of_what_was_left)
{
	struct ht_test_work work = { .attach = true };
	struct ht_test_tool other;
	bool found, left;

	ck_ok(ht_test_target_start(&t, "busy", NULL));
	work.pid = t.pid;
	ck_ok(ht_test_tool_start(&other, &work, NULL));
	ck_ok(ht_test_tool_await_tap(&other));
	kill(other.pid, SIGKILL);
	ck_ok(ht_test_tool_wait(&other));
	ht_allocs_watch();
	ck_ok(ht_tap_cure_pid(t.pid, &found, &left, &err));
	ck_assert(found);
	nothing_was_allocated();
	check();
	ht_test_target_kill(&t);
}
END_TEST

/* Threads come while it is stopped, more than there is room for: all is let go, and tried
 * again. */
START_TEST(a_target_that_makes_threads)
{
	struct ht_tap_options options = options_for(HT_LOADER_MAP, HT_TRANSPORT_RING);

	start("churn");
	attach(&options);
	ck_ok(ht_tap_cure(tap, &err));
	nothing_was_allocated();
	tap = ht_tap_free(tap);
	ht_test_target_kill(&t);
}
END_TEST

int main(void)
{
	if (!ht_allocs_can_watch())
		ht_check_skip("calls of this allocator can't be seen");
	return ht_check_run("tap_allocs", (const TTest *const[]){
		by_map, by_dlopen, by_socket, cure_of_what_was_left,
		a_target_that_makes_threads, NULL });
}
