/* SPDX-License-Identifier: Apache-2.0
 *
 * What is taken out and what isn't, beside what a tap does (test_inject.c, test_tap.c) and
 * what accidents leave (tests/fault).
 */
#include "inject/cure.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "forger.h"
#include "ht_check.h"
#include "ht_snapshot.h"

static struct forger f;
static struct ht_target *target;
static struct ht_modules *modules;
static struct ht_space *space;
static struct ht_traces *traces;
static struct ht_cure_stats stats;
static struct ht_err err;

static void find(const char *kinds, const struct ht_journal *journal,
		 const struct ht_ring_header *ring, bool fds)
{
	f = forge(kinds, journal, ring, fds);
	ck_ok(ht_target_open(f.pid, &target, NULL));
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_space_new(ht_target_procfd(target), ht_target_memfd(target), modules, &space));
	ck_ok(ht_traces_find(target, space, &traces, NULL));
	stats = (struct ht_cure_stats){ 0 };
	err = (struct ht_err){ HT_ERR_NONE, "" };
}

static void end(void)
{
	ht_traces_free(traces);
	ht_space_free(space);
	ht_modules_free(modules);
	ht_target_close(target);
	ck_assert(forger_is_well(&f));
	forger_end(&f);
}

static void cure(void)
{
	int r = ht_cure(target, space, traces, &stats, &err);

	ck_assert_msg(r == 0, "%s", err.text);
}

static size_t leftovers(void)
{
	struct ht_snapshot *snapshot;
	size_t n;

	ck_ok(ht_snapshot_take(f.pid, &snapshot));
	n = ht_snapshot_leftovers(snapshot);
	ht_snapshot_free(snapshot);
	return n;
}

static bool is_mapped(unsigned page)
{
	ck_ok(ht_space_refresh(space));
	return ht_maps_find(ht_space_maps(space), FORGER_PAGE(page));
}

START_TEST(all_that_is_ours_and_nothing_else)
{
	const struct ht_ring_header ring = { .magic = HT_RING_MAGIC, .owner = HT_OWNER_DIED };
	char byte;

	find("ccccgcmrm", a_journal(0, 6, 4), &ring, true);
	ck_assert_uint_eq(traces->n_fds, 3);
	cure();
	ck_assert(!stats.left);
	ck_assert_uint_ge(stats.stops, 2);
	ck_assert_uint_eq(leftovers(), 0);
	ck_assert(!is_mapped(0) && !is_mapped(4) && !is_mapped(7));
	ck_ok(ht_target_read(target, FORGER_PAGE(6), &byte, 1));
	/* There is nothing to find any more. */
	ht_traces_free(traces);
	traces = NULL;
	ck_assert_int_eq(ht_traces_find(target, space, &traces, NULL), -ENOENT);
	end();
}
END_TEST

START_TEST(code_that_a_thread_is_in_stays)
{
	find("ccccgclm", a_journal(0, 7, 4), NULL, false);
	cure();
	ck_assert(stats.left);
	ck_assert(is_mapped(0) && is_mapped(6));
	end();
	find("ccccgckm", a_journal(0, 7, 4), NULL, false);
	cure();
	ck_assert(stats.left);
	ck_assert(is_mapped(0) && is_mapped(6));
	end();
}
END_TEST

static void plant(uint64_t at, const void *bytes)
{
	ck_ok(ht_target_write(target, at, bytes, 8));
}

/* On a page of its own, which has other bytes anyway. */
START_TEST(only_our_bytes_are_written_over)
{
	struct ht_journal *journal = a_journal(0, 6, 4);
	uint8_t other[8] = { 0xe9, 1, 2, 3, 4, 5, 6, 7 }, now[8], was[8];
	uint8_t probed[8], unprobed[8];

	journal->n_patches = 5;
	for (unsigned i = 0; i < 5; i++) {
		uint64_t at = FORGER_PAGE(6) + 64 * i;
		int32_t rel = (int32_t)(FORGER_PAGE(1) - (at + 5));

		journal->patches[i].addr = at;
		memset(journal->patches[i].original, 0x11, 8);
		journal->patches[i].patched[0] = 0xe9;
		memcpy(journal->patches[i].patched + 1, &rel, 4);
	}
	find("ccccgcm", journal, NULL, false);
	ck_ok(ht_target_read(target, FORGER_PAGE(6), was, 8));
	plant(FORGER_PAGE(6), journal->patches[0].patched);
	plant(FORGER_PAGE(6) + 64, journal->patches[1].original);
	plant(FORGER_PAGE(6) + 128, other);
	/* A uprobe that came meanwhile, and one that has gone again. */
	memcpy(probed, journal->patches[3].patched, 8);
	probed[0] = 0xcc;
	plant(FORGER_PAGE(6) + 192, probed);
	memcpy(unprobed, journal->patches[4].patched, 8);
	unprobed[0] = 0x11;
	plant(FORGER_PAGE(6) + 256, unprobed);
	cure();
	ck_assert_uint_eq(stats.foreign, 1);
	/* Who patched over us may have kept our jump, and what it leads to stays. */
	ck_assert(stats.left && is_mapped(0));
	ck_ok(ht_target_read(target, FORGER_PAGE(6), now, 8));
	ck_assert_mem_eq(now, journal->patches[0].original, 8);
	ck_ok(ht_target_read(target, FORGER_PAGE(6) + 128, now, 8));
	ck_assert_mem_eq(now, other, 8);
	ck_ok(ht_target_read(target, FORGER_PAGE(6) + 192, now, 8));
	ck_assert_uint_eq(now[0], 0xcc);
	ck_assert_mem_eq(now + 1, journal->patches[3].original + 1, 7);
	ck_ok(ht_target_read(target, FORGER_PAGE(6) + 256, now, 8));
	ck_assert_mem_eq(now, journal->patches[4].original, 8);
	for (unsigned i = 0; i < 5; i++)
		plant(FORGER_PAGE(6) + 64 * i, was);
	end();
}
END_TEST

/* Somebody else's debugger: until *@ret_end is closed, or for @ms if that isn't 0. */
static pid_t start_tracer(int ms, int *ret_end)
{
	int fds[2], to[2];
	pid_t tracer;
	char byte;

	ck_assert_int_eq(pipe(fds) | pipe(to), 0);
	tracer = fork();
	if (tracer == 0) {
		struct pollfd end = { .fd = to[0] };

		close(to[1]);
		if (ptrace(PTRACE_SEIZE, f.pid, 0, 0) < 0 || write(fds[1], "t", 1) != 1)
			_exit(1);
		_exit(poll(&end, 1, ms ? ms : -1) < 0);
	}
	ck_assert_int_eq(read(fds[0], &byte, 1), 1);
	*ret_end = to[1];
	return tracer;
}

START_TEST(who_traces_it_is_said)
{
	char want[128];
	pid_t tracer;
	int end_it;

	find("ccccgcm", a_journal(0, 6, 4), NULL, false);
	tracer = start_tracer(0, &end_it);
	ck_assert_int_eq(ht_cure(target, space, traces, &stats, &err), -EPERM);
	ck_assert_int_eq(err.kind, HT_ERR_PERM);
	snprintf(want, sizeof(want),
		 "it's traced by test_cure (pid %d); end that first, then heaptap cure %d",
		 tracer, f.pid);
	ck_assert_msg(strstr(err.text, want), "%s", err.text);
	close(end_it);
	ck_assert_int_eq(waitpid(tracer, NULL, 0), tracer);
	cure();
	end();
}
END_TEST

START_TEST(who_traces_it_for_a_moment_is_waited_for)
{
	pid_t tracer;
	int end_it;

	find("ccccgcm", a_journal(0, 6, 4), NULL, false);
	tracer = start_tracer(300, &end_it);
	cure();
	ck_assert_int_eq(waitpid(tracer, NULL, 0), tracer);
	close(end_it);
	end();
}
END_TEST

START_TEST(a_target_that_ended)
{
	find("ccccgcm", a_journal(0, 6, 4), NULL, false);
	forger_end(&f);
	ck_assert_int_lt(ht_cure(target, space, traces, &stats, &err), 0);
	ck_assert_int_eq(err.kind, HT_ERR_GONE);
	f = forge("m", NULL, NULL, false);
	end();
}
END_TEST

/* A heaptap that was in the middle of its attach when we looked. */
START_TEST(one_that_lives_after_all)
{
	struct ht_hook_config config = { .magic = HT_HOOK_MAGIC };
	struct ht_ring_header ring = { .magic = HT_RING_MAGIC, .owner = HT_OWNER_DIED };
	struct ht_journal *journal = a_journal(0, 6, 4);

	journal->hook_config = FORGER_PAGE(5);
	find("ccccgcr", journal, &ring, false);
	config.ring.base = FORGER_PAGE(6);
	ck_ok(ht_target_write(target, FORGER_PAGE(5), &config, sizeof(config)));
	ring.owner = 4711;
	ck_ok(ht_target_write(target, FORGER_PAGE(6), &ring, sizeof(ring)));
	ck_assert_int_eq(ht_cure(target, space, traces, &stats, &err), -EBUSY);
	ck_assert_int_eq(err.kind, HT_ERR_PERM);
	ck_assert_ptr_nonnull(strstr(err.text, "another heaptap is tapping it"));
	ck_assert(is_mapped(0) && is_mapped(6));
	end();
}
END_TEST

int main(void)
{
	return ht_check_run("cure", (const TTest *const[]){
		all_that_is_ours_and_nothing_else, code_that_a_thread_is_in_stays,
		only_our_bytes_are_written_over, who_traces_it_is_said,
		who_traces_it_for_a_moment_is_waited_for, a_target_that_ended,
		one_that_lives_after_all, NULL });
}
