/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "ht_check.h"
#include "ht_snapshot.h"
#include "ht_target.h"
#include "ipc/owner.h"
#include "ipc/ring.h"

static struct ht_test_target t;
static struct ht_snapshot *before;
static struct ht_target *target;
static struct ht_modules *modules;
static struct ht_space *space;
static struct ht_plan *plan;
static struct ht_ring *ring;
static struct ht_injection *injection;
static struct ht_inject_options options;
static struct ht_err err;

static void works(void)
{
	char line[64];

	ck_ok(ht_test_target_ask(&t, "check", line, sizeof(line)));
	ck_assert_msg(!strncmp(line, "ok", 2), "%s", line);
}

static void start(const char *name)
{
	ck_ok(ht_test_target_start(&t, name, NULL));
	works();
	ck_ok(ht_snapshot_take(t.pid, &before));
	ck_ok(ht_target_open(t.pid, &target, NULL));
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_space_new(ht_target_procfd(target), ht_target_memfd(target), modules, &space));
	ck_ok(ht_plan_new(space, ht_target_memfd(target), &plan, NULL));
	ck_ok(ht_ring_new(256 * 1024, &ring, NULL));
	ck_ok(ht_owner_hold(ht_ring_owner_word(ring)));
	options = (struct ht_inject_options){
		.flags = HT_CONFIG_SYSCALLS,
		.interval = 1,
		.max_stack = 4096,
		.block_us = 1000,
		.ring_fd = ht_ring_fd(ring),
		.ring_size = ht_ring_map_size(ring),
		.ring_map = ht_ring_map_at(ring, 0),
	};
}

static int inject(void)
{
	return ht_inject(target, space, plan, &options, &injection, &err);
}

static void must_inject(void)
{
	int r = inject();

	ck_assert_msg(r == 0, "%s", err.text);
}

static void as_before_but(unsigned ignore)
{
	struct ht_buf why = HT_BUF_INIT;
	struct ht_snapshot *after;

	works();
	ck_ok(ht_snapshot_take(t.pid, &after));
	ck_assert_msg(!ht_snapshot_compare(before, after, ignore, &why), "%s", why.data);
	ck_assert_uint_eq(ht_snapshot_leftovers(after), 0);
	ht_snapshot_free(after);
}

static void as_before(void)
{
	as_before_but(0);
}

static bool cure_leaves(void)
{
	bool left = true;
	int r = ht_inject_cure(injection, &left, &err);

	ck_assert_msg(r == 0, "%s", err.text);
	return left;
}

static void cure(void)
{
	ck_assert(!cure_leaves());
}

static void stop(void)
{
	ht_injection_free(injection);
	ht_owner_drop(ht_ring_owner_word(ring));
	ht_ring_free(ring);
	ht_plan_free(plan);
	ht_space_free(space);
	ht_modules_free(modules);
	ht_target_close(target);
	ht_snapshot_free(before);
	ht_test_target_kill(&t);
}

static int count(void *arg, const struct ht_record *record)
{
	*(unsigned *)arg += record->type == HT_RECORD_ALLOC;
	return 0;
}

static uint64_t read_word(ht_addr_t addr)
{
	uint64_t word = 0;

	ck_ok(ht_target_read(target, addr, &word, sizeof(word)));
	return word;
}

static const struct ht_site *site_of(const char *name)
{
	for (size_t i = 0; i < plan->n_sites; i++)
		if (!strcmp(plan->sites[i].kind->name, name) && !plan->sites[i].refused)
			return &plan->sites[i];
	ck_abort_msg("no %s", name);
}

/* Its first 8 bytes as they are now, behind an endbr64. */
static ht_addr_t patch_of(const char *name)
{
	ht_addr_t addr = site_of(name)->addr;

	return (uint32_t)read_word(addr) == 0xfa1e0ff3 ? addr + 4 : addr;
}

START_TEST(hooks_go_in_and_come_out)
{
	struct ht_journal_range ranges[16];
	struct ht_inject_stats stats;
	uint64_t was;
	size_t n;

	start("keeper");
	was = read_word(patch_of("malloc"));
	must_inject();
	ck_assert_uint_eq(read_word(patch_of("malloc")) & 0xff, 0xe9);
	n = ht_inject_ranges(injection, ranges, 16);
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_lt(ranges[0].start, ranges[0].end);
	ck_assert_uint_eq(ht_inject_ranges(injection, ranges, 0), 0);
	ht_inject_stats(injection, &stats);
	ck_assert_uint_ge(stats.stops, 1);
	ck_assert_uint_eq(stats.threads, 4);
	ck_assert_uint_gt(stats.stop_max_ns, 0);
	ck_assert_uint_le(stats.stop_max_ns, stats.stop_total_ns);
	ck_assert_uint_eq(stats.n_log, stats.stops);
	/* The last one of them put the hooks in. */
	for (int i = 0; i < HT_STOP_PHASES; i++)
		ck_assert_uint_gt(stats.log[stats.n_log - 1].phase_ns[i], 0);
	works();
	cure();
	ck_assert_uint_eq(read_word(patch_of("malloc")), was);
	as_before();
	stop();
}
END_TEST

START_TEST(records_come_while_it_is_open)
{
	unsigned n = 0;

	start("busy");
	must_inject();
	works();
	ck_ok(ht_ring_drain(ring, count, &n));
	ck_assert_uint_gt(n, 0);
	cure();
	ck_ok(ht_ring_drain(ring, count, &n));
	n = 0;
	works();
	ck_ok(ht_ring_drain(ring, count, &n));
	ck_assert_uint_eq(n, 0);
	stop();
}
END_TEST

START_TEST(by_dlopen)
{
	struct ht_journal_range ranges[16];

	start("keeper");
	options.dlopen = true;
	must_inject();
	/* The block, and what the loader loaded. */
	ck_assert_uint_eq(ht_inject_ranges(injection, ranges, 16), 2);
	works();
	cure();
	/* The loader may have made an arena. */
	as_before_but(HT_SNAPSHOT_ANON);
	stop();
}
END_TEST

START_TEST(flags_change_while_it_runs)
{
	start("keeper");
	must_inject();
	ck_assert_uint_eq(ht_inject_flags(injection), HT_CONFIG_SYSCALLS);
	ck_ok(ht_inject_set_flags(injection, 0));
	ck_assert_uint_eq(ht_inject_flags(injection), 0);
	cure();
	as_before();
	stop();
}
END_TEST

/* What the hook was told of the kernel's stack area, against what the kernel says. */
static void knows_the_stack(void)
{
	struct ht_journal_range ranges[16];
	struct ht_hook_config config;
	struct ht_maps *maps;
	bool found = false;

	ck_assert_uint_ge(ht_inject_ranges(injection, ranges, 16), 1);
	ck_ok(ht_target_read(target,
			     read_word(ranges[0].start + offsetof(struct ht_journal, hook_config)),
			     &config, sizeof(config)));
	ck_assert_uint_eq(config.magic, HT_HOOK_MAGIC);
	ck_ok(ht_maps_read(ht_target_procfd(target), &maps));
	for (size_t i = 0; i < ht_maps_count(maps); i++) {
		const struct ht_area *area = ht_maps_at(maps, i);

		if (strcmp(area->path, "[stack]"))
			continue;
		ck_assert_uint_eq(config.stack_low, area->start);
		ck_assert_uint_eq(config.stack_high, area->end);
		found = true;
	}
	ck_assert(found);
	ht_maps_free(maps);
}

START_TEST(the_main_stack_is_known)
{
	char line[64];

	start("keeper");
	must_inject();
	knows_the_stack();
	ck_ok(ht_test_target_ask(&t, "deep", line, sizeof(line)));
	ck_assert_msg(!strncmp(line, "ok", 2), "%s", line);
	ck_ok(ht_inject_update_stack(injection));
	knows_the_stack();
	cure();
	stop();
}
END_TEST

static void poke(ht_addr_t addr, uint64_t word)
{
	ck_ok(ht_target_stop(target, ht_deadline_ns(20 * HT_NS_PER_SEC), NULL));
	ck_ok(ht_target_poke(target, addr, word));
	ht_target_resume(target);
}

/* Nobody calls it in keeper. */
START_TEST(code_that_somebody_else_changed_is_left_alone)
{
	ht_addr_t at;
	uint64_t was;

	start("keeper");
	at = patch_of("posix_memalign");
	was = read_word(at);
	poke(at, was ^ 0xff);
	ck_assert_int_lt(inject(), 0);
	ck_assert_int_eq(err.kind, HT_ERR_UNSUPPORTED);
	ck_assert_uint_eq(read_word(at), was ^ 0xff);
	poke(at, was);
	as_before();
	stop();
}
END_TEST

START_TEST(a_patch_over_ours_is_left_alone)
{
	ht_addr_t at;
	uint64_t was, ours;

	start("keeper");
	at = patch_of("posix_memalign");
	was = read_word(at);
	must_inject();
	ours = read_word(at);
	ck_assert_uint_ne(ours, was);
	poke(at, ours + 0x100);
	/* Whoever wrote that may have kept our jump, so that what it leads to has to stay. */
	ck_assert(cure_leaves());
	ck_assert_uint_eq(read_word(at), ours + 0x100);
	poke(at, was);
	cure();
	as_before();
	stop();
}
END_TEST

/* As the kernel does it for a uprobe. */
START_TEST(a_breakpoint_in_a_patch_is_seen_and_stays)
{
	const struct ht_site *site;
	ht_addr_t at;
	uint64_t was, ours;

	start("keeper");
	at = patch_of("posix_memalign");
	was = read_word(at);
	must_inject();
	ours = read_word(at);
	ck_assert_ptr_null(ht_inject_disturbed(injection));
	poke(at, (ours & ~UINT64_C(0xff)) | (was & 0xff));
	ck_assert_ptr_nonnull(ht_inject_disturbed(injection));
	poke(at, (ours & ~UINT64_C(0xff)) | 0xcc);
	site = ht_inject_disturbed(injection);
	ck_assert_ptr_nonnull(site);
	ck_assert_str_eq(site->kind->name, "posix_memalign");
	cure();
	ck_assert_uint_eq(read_word(at), (was & ~UINT64_C(0xff)) | 0xcc);
	poke(at, was);
	as_before();
	stop();
}
END_TEST

START_TEST(out_of_files_and_of_room)
{
	struct rlimit old, limit;

	start("keeper");
	ck_assert_int_eq(prlimit(t.pid, RLIMIT_NOFILE, NULL, &old), 0);
	limit = (struct rlimit){ 5, old.rlim_max };
	ck_assert_int_eq(prlimit(t.pid, RLIMIT_NOFILE, &limit, NULL), 0);
	ck_assert_int_eq(inject(), -EMFILE);
	ck_assert_int_eq(err.kind, HT_ERR_FAILED);
	ck_assert_int_eq(prlimit(t.pid, RLIMIT_NOFILE, &old, NULL), 0);
	as_before();
	ck_assert_int_eq(prlimit(t.pid, RLIMIT_AS, NULL, &old), 0);
	limit = (struct rlimit){ 1 << 20, old.rlim_max };
	ck_assert_int_eq(prlimit(t.pid, RLIMIT_AS, &limit, NULL), 0);
	ck_assert_int_eq(inject(), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(err.text, "Cannot allocate memory"));
	ck_assert_int_eq(prlimit(t.pid, RLIMIT_AS, &old, NULL), 0);
	as_before();
	/* And now it can. */
	must_inject();
	cure();
	as_before();
	stop();
}
END_TEST

#ifdef HT_FAULTS

/* How often all threads are stopped for a tap, and till the end of its cure; more often on a
 * busy machine. */
#define TAP_STOPS 1
#define CURE_STOPS 3

static unsigned stops(void)
{
	struct ht_inject_stats stats;

	ht_inject_stats(injection, &stats);
	return stats.stops;
}

/* What takes too long while all stand still is taken back, and done in another stop. */
static void lets_go_and_comes_back(const char *fault)
{
	start("keeper");
	setenv("HEAPTAP_FAULT", fault, 1);
	must_inject();
	ck_assert_msg(stops() > TAP_STOPS, "%s: %u stops", fault, stops());
	works();
	cure();
	as_before();
	stop();
}

START_TEST(a_slow_placing_is_done_later)
{
	lets_go_and_comes_back("place.map:slow@2");
}
END_TEST

START_TEST(a_slow_look_is_done_later)
{
	lets_go_and_comes_back("scan:slow@1");
}
END_TEST

START_TEST(what_is_always_slow_is_not_done)
{
	start("keeper");
	setenv("HEAPTAP_FAULT", "place.map:slow@0", 1);
	ck_assert_int_eq(inject(), -ETIME);
	ck_assert_int_eq(err.kind, HT_ERR_FAILED);
	ck_assert_ptr_nonnull(strstr(err.text, "busy"));
	as_before();
	stop();
}
END_TEST

/* False: the machine was too busy to come so far. */
static bool fails_to_take_back(unsigned step)
{
	char faults[64];
	int r;

	snprintf(faults, sizeof(faults), "patch.gate:5@1,undo.step:5@%u", step);
	start("keeper");
	setenv("HEAPTAP_FAULT", faults, 1);
	r = inject();
	unsetenv("HEAPTAP_FAULT");
	ck_assert_msg(r == -EIO || r == -ETIME, "%d: %s", r, err.text);
	if (r == -ETIME)
		stop();
	return r == -EIO;
}

/* False: taking back has fewer than @step steps. */
static bool is_told_and_cured(unsigned step)
{
	bool found, left, told;

	while (!fails_to_take_back(step))
		;
	ck_assert_ptr_nonnull(strstr(err.text, "can't open the gate"));
	told = strstr(err.text, "; a part of heaptap stays in it, inert: 'heaptap cure");
	works();
	if (told) {
		/* As if we were gone. */
		ht_owner_drop(ht_ring_owner_word(ring));
		ck_ok(ht_space_refresh(space));
		ck_ok(ht_inject_cure_leftover(target, space, &found, &left, &err));
		ck_assert(found && !left);
	}
	as_before();
	stop();
	return told;
}

START_TEST(what_cannot_be_taken_back_is_told)
{
	unsigned step = 1;

	while (is_told_and_cured(step))
		step++;
	/* The mappings, and at least malloc and free. */
	ck_assert_uint_gt(step, 4);
}
END_TEST

/* A cure that has to let go half way goes on from there. */
static void cure_comes_back(const char *fault)
{
	start("keeper");
	must_inject();
	setenv("HEAPTAP_FAULT", fault, 1);
	cure();
	ck_assert_msg(stops() > CURE_STOPS, "%s: %u stops", fault, stops());
	as_before();
	stop();
}

START_TEST(a_slow_unmapping_is_done_later)
{
	cure_comes_back("cure.unmap:slow@1");
}
END_TEST

START_TEST(a_slow_look_at_the_end_is_done_later)
{
	cure_comes_back("scan:slow@2");
}
END_TEST

/* The libraries of a program that is being started come between two looks. */
START_TEST(one_refusal_to_plan_proves_nothing)
{
	struct ht_plan *again = NULL;

	start("keeper");
	setenv("HEAPTAP_FAULT", "inject.plan:11@1,inject.plan:95@2", 1);
	ck_assert_msg(!ht_inject_plan(target, space, &again, &err), "%s", err.text);
	ht_plan_free(again);
	setenv("HEAPTAP_FAULT", "inject.plan:95@1,inject.plan:95@2", 1);
	ck_assert_int_eq(ht_inject_plan(target, space, &again, &err), -ENOTSUP);
	unsetenv("HEAPTAP_FAULT");
	stop();
}
END_TEST
#endif

START_TEST(nothing_left_over_is_found)
{
	bool found = true, left = true;

	start("keeper");
	ck_ok(ht_inject_cure_leftover(target, space, &found, &left, NULL));
	ck_assert(!found && !left);
	as_before();
	stop();
}
END_TEST

START_TEST(our_own_is_not_left_over)
{
	bool found, left;

	start("keeper");
	must_inject();
	ck_ok(ht_space_refresh(space));
	ck_assert_int_eq(ht_inject_cure_leftover(target, space, &found, &left, &err), -EBUSY);
	works();
	cure();
	as_before();
	stop();
}
END_TEST

START_TEST(a_target_that_ended)
{
	bool left;

	start("keeper");
	must_inject();
	ht_test_target_kill(&t);
	ck_assert_int_lt(ht_inject_cure(injection, &left, &err), 0);
	ck_assert_int_eq(err.kind, HT_ERR_GONE);
	stop();
}
END_TEST

int main(void)
{
	return ht_check_run("inject", (const TTest *const[]){
		hooks_go_in_and_come_out, records_come_while_it_is_open, by_dlopen,
		flags_change_while_it_runs, the_main_stack_is_known, code_that_somebody_else_changed_is_left_alone,
		a_patch_over_ours_is_left_alone, a_breakpoint_in_a_patch_is_seen_and_stays,
		out_of_files_and_of_room,
		nothing_left_over_is_found, our_own_is_not_left_over, a_target_that_ended,
#ifdef HT_FAULTS
		a_slow_placing_is_done_later, a_slow_look_is_done_later,
		what_is_always_slow_is_not_done, a_slow_unmapping_is_done_later,
		a_slow_look_at_the_end_is_done_later, what_cannot_be_taken_back_is_told,
		one_refusal_to_plan_proves_nothing,
#endif
		NULL });
}
