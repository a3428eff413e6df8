/* SPDX-License-Identifier: Apache-2.0
 *
 * harm.c: see harm.h.
 */
#include "harm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ht_check.h"
#include "ht_patience.h"
#include "ht_snapshot.h"

const struct ht_harm_kind ht_harm_kinds[HT_HARM_KINDS] = {
	{ "map, sampled", HT_LOADER_MAP, false, HT_TRANSPORT_RING },
	{ "map, exact", HT_LOADER_MAP, true, HT_TRANSPORT_RING },
	{ "dlopen, sampled", HT_LOADER_DLOPEN, false, HT_TRANSPORT_RING },
	{ "dlopen, exact", HT_LOADER_DLOPEN, true, HT_TRANSPORT_RING },
	{ "socket, sampled", HT_LOADER_MAP, false, HT_TRANSPORT_SOCKET },
	{ "socket, exact", HT_LOADER_MAP, true, HT_TRANSPORT_SOCKET },
	{ "dlopen socket, sampled", HT_LOADER_DLOPEN, false, HT_TRANSPORT_SOCKET },
	{ "dlopen socket, exact", HT_LOADER_DLOPEN, true, HT_TRANSPORT_SOCKET },
};

int ht_harm_rounds(int few)
{
	const char *times = getenv("HT_HARM");

	return few * (times ? atoi(times) : 1);
}

struct ht_test_work ht_harm_work(const struct ht_test_target *t,
				 const struct ht_harm_kind *kind)
{
	return (struct ht_test_work){ .pid = t->pid, .attach = true, .loader = kind->loader,
				      .transport = kind->transport,
				      .exact = kind->exact, .block = kind->exact };
}

void ht_harm_ask(struct ht_test_target *t, const char *what, const char *when,
		 char reply[HT_HARM_REPLY])
{
	int r = ht_test_target_ask(t, what, reply, HT_HARM_REPLY);

	ck_assert_msg(r >= 0, "%s, %s: %s", when, what, strerror(-r));
	ck_assert_msg(!strncmp(reply, "ok", 2), "%s, %s: %s", when, what, reply);
}

bool ht_harm_tap(struct ht_test_target *t, const struct ht_harm_kind *kind,
		 const char *during, const char *after, char reply[HT_HARM_REPLY])
{
	struct ht_test_work work = ht_harm_work(t, kind);
	struct ht_test_tool tool;
	bool refused;

	ck_ok(ht_test_tool_start(&tool, &work, NULL));
	if (ht_test_tool_await_tap(&tool) == 0)
		ht_harm_ask(t, during, kind->name, reply);
	ht_test_tool_end(&tool);
	ck_ok(ht_test_tool_wait(&tool));
	refused = tool.finished && kind->loader == HT_LOADER_DLOPEN && tool.result == -EAGAIN;
	ck_assert_msg(refused || (tool.finished && tool.result == 0), "%s: %s", kind->name,
		      tool.err.text);
	if (!refused)
		ck_assert_uint_gt(tool.samples, 0);
	ht_harm_ask(t, after, kind->name, reply);
	return !refused;
}

static bool is_left(const struct ht_test_target *t)
{
	struct ht_snapshot *snapshot;
	int r, tries = 0;
	bool left;

	/* It runs, and may unmap what is just being looked at. */
	do
		r = ht_snapshot_take(t->pid, &snapshot);
	while (r == -EIO && tries++ < 1000);
	ck_ok(r);
	left = ht_snapshot_leftovers(snapshot) != 0;
	ht_snapshot_free(snapshot);
	return left;
}

void ht_harm_nothing_left(const struct ht_test_target *t, const char *what)
{
	uint64_t deadline = ht_test_deadline_ns();
	struct ht_test_work work = { .pid = t->pid };
	struct ht_test_tool tool;

	while (is_left(t)) {
		ck_assert_msg(!ht_deadline_passed(deadline), "%s: something is left", what);
		ck_ok(ht_test_tool_run(&tool, &work, NULL));
	}
}
