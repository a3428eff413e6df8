/* SPDX-License-Identifier: Apache-2.0
 *
 * busy.c: see busy.h.
 */
#include "busy.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "ht_check.h"

struct ht_test_target ht_busy;
static struct ht_snapshot *before;
char ht_busy_when[128];

bool ht_busy_wrong(const char *fmt, ...)
{
	va_list args;

	printf("%s: ", ht_busy_when);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	return false;
}

bool ht_busy_ask(const char *line, char *reply, size_t cap)
{
	int r = ht_test_target_ask(&ht_busy, line, reply, cap);

	if (r < 0)
		return ht_busy_wrong("the target doesn't answer to %s: %s", line, strerror(-r));
	return !strncmp(reply, "ok", 2) || ht_busy_wrong("the target says to %s: %s", line, reply);
}

bool ht_busy_check(unsigned *ret_n)
{
	char reply[128];

	return ht_busy_ask("check", reply, sizeof(reply)) && sscanf(reply, "ok %u", ret_n) == 1;
}

static struct ht_snapshot *snapshot(void)
{
	struct ht_snapshot *s = NULL;
	char reply[128];

	if (!ht_busy_ask("rest", reply, sizeof(reply)))
		return NULL;
	ck_ok(ht_snapshot_take(ht_busy.pid, &s));
	if (!ht_busy_ask("go", reply, sizeof(reply)))
		s = ht_snapshot_free(s);
	return s;
}

void ht_busy_start(void)
{
	unsigned n;

	ck_ok(ht_test_target_start(&ht_busy, "busy", NULL));
	ck_assert(ht_busy_check(&n));
	before = snapshot();
	ck_assert_ptr_nonnull(before);
}

void ht_busy_stop(void)
{
	ht_test_target_kill(&ht_busy);
	before = ht_snapshot_free(before);
}

bool ht_busy_as_before(void)
{
	struct ht_snapshot *after = snapshot();
	struct ht_buf why = HT_BUF_INIT;
	bool ok;

	if (!after)
		return false;
	ok = !ht_snapshot_compare(before, after, 0, &why) || ht_busy_wrong("it differs:\n%s", why.data);
	if (ht_snapshot_leftovers(after))
		ok = ht_busy_wrong("%zu bytes of ours are left", ht_snapshot_leftovers(after));
	ht_buf_fini(&why);
	ht_snapshot_free(after);
	return ok;
}

bool ht_busy_is_clean(void)
{
	struct ht_snapshot *after = snapshot();
	bool ok;

	if (!after)
		return false;
	ok = !ht_snapshot_leftovers(after) ||
	     ht_busy_wrong("%zu bytes of ours are left", ht_snapshot_leftovers(after));
	ht_snapshot_free(after);
	return ok;
}

bool ht_busy_has_text(pid_t pid)
{
	struct ht_buf why = HT_BUF_INIT;
	struct ht_snapshot *s;
	bool ok;

	ck_ok(ht_snapshot_take(pid, &s));
	ok = !ht_snapshot_compare(before, s, HT_SNAPSHOT_ANON | HT_SNAPSHOT_THREADS |
						     HT_SNAPSHOT_FDS, &why) ||
	     ht_busy_wrong("%d differs:\n%s", (int)pid, why.data);
	if (ht_snapshot_leftovers(s))
		ok = ht_busy_wrong("%zu bytes of ours are left in %d", ht_snapshot_leftovers(s),
				   (int)pid);
	ht_buf_fini(&why);
	ht_snapshot_free(s);
	return ok;
}

bool ht_busy_works(const struct ht_test_work *work)
{
	struct ht_test_work longer = *work;
	struct ht_test_tool tool;

	longer.until_sampled = work->serve_ms > 0;
	ck_ok(ht_test_tool_run(&tool, &longer, NULL));
	if (!tool.finished)
		return ht_busy_wrong("heaptap died: %#x", (unsigned)tool.status);
	if (tool.result < 0)
		return ht_busy_wrong("%s", tool.err.text);
	return !(work->attach || work->launch) || tool.samples || ht_busy_wrong("no samples");
}
