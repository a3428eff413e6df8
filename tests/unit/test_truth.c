/* SPDX-License-Identifier: Apache-2.0
 *
 * The truth programs themselves: other tests believe them, so what they say is checked
 * here where it is known, under each allocator that is installed.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "ht_check.h"
#include "ht_target.h"

#define MAX_SITES 64

static const char *const preloads[] = {
	NULL,
	"libjemalloc.so.2",
	"libmimalloc.so.2",
	"libtcmalloc.so.4",
};

static struct {
	char name[64];
	unsigned long total_bytes, total_objects, live_bytes, live_objects;
} sites[MAX_SITES], thread_sum;
static int n_sites, n_threads;

/* False: that allocator isn't there, which makes this a skip. */
static bool start(struct ht_test_target *target, const char *program, const char *preload,
		  const char *workload)
{
	const char *args[] = { workload, NULL };

	if (preload && !ht_check_preload(preload))
		return false;
	ck_ok(ht_test_target_start(target, program, args));
	unsetenv("LD_PRELOAD");
	return true;
}

static void ask(struct ht_test_target *target, const char *line)
{
	char reply[128], want[64];

	snprintf(want, sizeof(want), "%s done", line);
	ck_ok(ht_test_target_ask(target, line, reply, sizeof(reply)));
	ck_assert_str_eq(reply, want);
}

static void read_report(struct ht_test_target *target)
{
	unsigned long v[4];
	char line[256];

	n_sites = n_threads = 0;
	memset(&thread_sum, 0, sizeof(thread_sum));
	ck_ok(ht_test_target_ask(target, "report", line, sizeof(line)));
	while (strcmp(line, "end")) {
		ck_assert_int_lt(n_sites, MAX_SITES);
		if (sscanf(line, "thread %*d %lu %lu %lu %lu", &v[0], &v[1], &v[2],
			   &v[3]) == 4) {
			thread_sum.total_bytes += v[0];
			thread_sum.total_objects += v[1];
			thread_sum.live_bytes += v[2];
			thread_sum.live_objects += v[3];
			n_threads++;
		} else {
			ck_assert_int_eq(sscanf(line, "site %63s %lu %lu %lu %lu",
						sites[n_sites].name,
						&sites[n_sites].total_bytes,
						&sites[n_sites].total_objects,
						&sites[n_sites].live_bytes,
						&sites[n_sites].live_objects),
					 5);
			n_sites++;
		}
		ck_ok(ht_test_target_read(target, line, sizeof(line)));
	}
}

static void assert_site(const char *name, unsigned long total_bytes,
			unsigned long total_objects, unsigned long live_bytes,
			unsigned long live_objects)
{
	int i;

	for (i = 0; i < n_sites && strcmp(sites[i].name, name); i++)
		continue;
	ck_assert_msg(i < n_sites, "no site %s", name);
	ck_assert_uint_eq(sites[i].total_bytes, total_bytes);
	ck_assert_uint_eq(sites[i].total_objects, total_objects);
	ck_assert_uint_eq(sites[i].live_bytes, live_bytes);
	ck_assert_uint_eq(sites[i].live_objects, live_objects);
}

/* Threads and sites are two views of the same blocks. */
static void assert_views_agree(void)
{
	unsigned long total = 0, live = 0;

	for (int i = 0; i < n_sites; i++) {
		ck_assert_uint_le(sites[i].live_bytes, sites[i].total_bytes);
		total += sites[i].total_bytes;
		live += sites[i].live_bytes;
	}
	ck_assert_uint_eq(total, thread_sum.total_bytes);
	ck_assert_uint_eq(live, thread_sum.live_bytes);
}

static void stop(struct ht_test_target *target)
{
	int status;

	ck_ok(ht_test_target_stop(target, &status));
	ck_assert_int_eq(status, 0);
}

START_TEST(all_workloads_under_each_allocator)
{
	for (size_t i = 0; i < ARRAY_SIZE(preloads); i++) {
		struct ht_test_target target;

		if (!start(&target, "truth", preloads[i], "all"))
			continue;
		for (int round = 1; round <= 2; round++) {
			ask(&target, "go");
			read_report(&target);
			assert_views_agree();
			assert_site("site_calloc", round * 1024000u, round * 1000u,
				    1024000, 1000);
			assert_site("site_malloc_fails", 0, 0, 0, 0);
			assert_site("site_calloc_fails", 0, 0, 0, 0);
			assert_site("site_realloc_null", round * 333u, 2 * round, 333, 2);
		}
		ck_assert_int_eq(n_threads, 5);
		stop(&target);
	}
}
END_TEST

START_TEST(mark_forgets_and_older_blocks_stay_out)
{
	struct ht_test_target target;

	ck_assert(start(&target, "truth", NULL, "old"));
	read_report(&target);
	ck_assert_int_eq(n_sites, 1);
	ask(&target, "mark");
	read_report(&target);
	ck_assert_int_eq(n_sites, 0);
	/* 500 from before: 400 are freed, 50 grow, 50 stay. 400 new, half is freed. */
	ask(&target, "go");
	read_report(&target);
	assert_site("site_old", 80000, 400, 40000, 200);
	assert_site("site_realloc_grow", 100000, 50, 100000, 50);
	stop(&target);
}
END_TEST

START_TEST(every_new_and_delete_under_each_allocator)
{
	const char *dir = getenv("HT_BUILDDIR");
	char path[512];

	/* Not built without a C++ compiler. */
	snprintf(path, sizeof(path), "%s/tests/targets/truth_cxx", dir ? dir : ".");
	if (!ht_check_have(!access(path, X_OK), path))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(preloads); i++) {
		struct ht_test_target target;

		if (!start(&target, "truth_cxx", preloads[i], "all"))
			continue;
		ask(&target, "go");
		read_report(&target);
		assert_views_agree();
		assert_site("site_new", 45375, 50, 30262, 33);
		assert_site("site_new_nothrow", 1375, 50, 916, 33);
		stop(&target);
	}
}
END_TEST

START_TEST(leaky_server_leaks_sessions_only)
{
	unsigned long requests = 0, sessions = 0, bytes = 0;
	struct ht_test_target target;
	char line[128];

	/* Any number of requests will do: ask until a thousand were handled. */
	ck_ok(ht_test_target_start(&target, "leaky_server",
				   (const char *[]){ "4", "20000", NULL }));
	while (requests < 1000) {
		ck_ok(ht_test_target_ask(&target, "count", line, sizeof(line)));
		ck_assert_int_eq(
			sscanf(line, "%lu %lu %lu", &requests, &sessions, &bytes), 3);
	}
	ck_assert_uint_ge(sessions, requests / 5 - 10);
	ck_assert_uint_ge(bytes, sessions * 2048);
	stop(&target);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		all_workloads_under_each_allocator,
		mark_forgets_and_older_blocks_stay_out,
		every_new_and_delete_under_each_allocator,
		leaky_server_leaks_sessions_only, NULL
	};

	return ht_check_run("truth", tests);
}
