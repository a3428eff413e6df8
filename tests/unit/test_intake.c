/* SPDX-License-Identifier: Apache-2.0
 *
 * Records whose sizes are right and whose fields lie.
 */
#include "tap/intake.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "ht_check.h"

#define STACK 512

struct big_record {
	struct ht_record_alloc r;
	uint64_t stack[STACK / 8];
};

static struct ht_modules *modules;
static struct ht_space *space;
static int procfd, memfd;
static struct ht_intake *intake;

/* Our own process is as good as any. */
static void start(uint64_t interval, uint64_t min_size)
{
	procfd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	memfd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_space_new(procfd, memfd, modules, &space));
	ck_ok(ht_intake_new(space, memfd, interval, min_size, &intake));
}

static void stop(void)
{
	ht_intake_free(intake);
	ht_space_free(space);
	ht_modules_free(modules);
	ht_fd_close(memfd);
	ht_fd_close(procfd);
}

static struct big_record an_alloc(uint64_t addr, uint64_t size, uint64_t seq,
				  uint64_t interval)
{
	struct big_record b = { .r = {
		.head = { sizeof(b), HT_RECORD_ALLOC, 0, seq },
		.addr = addr, .size = size, .interval = interval,
		.pc = (uint64_t)(uintptr_t)an_alloc, .sp = 0x7ffc00000000,
		.stack_len = STACK,
	} };

	return b;
}

static int take(const struct big_record *b)
{
	return ht_intake_record(intake, &b->r.head);
}

static void take_free(uint64_t addr, uint64_t seq)
{
	const struct ht_record_free f = { { sizeof(f), HT_RECORD_FREE, 0, seq }, addr };

	ck_ok(ht_intake_record(intake, &f.head));
}

static struct ht_figures total(void)
{
	struct ht_figures figures;

	ck_ok(ht_ledger_settle(ht_intake_ledger(intake), true));
	ht_ledger_total(ht_intake_ledger(intake), &figures);
	return figures;
}

static struct ht_intake_counters counters(void)
{
	struct ht_intake_counters c;

	ht_intake_counters(intake, &c);
	return c;
}

START_TEST(records_are_accounted)
{
	struct big_record b = an_alloc(0x1000, 100, 1, 0), c = an_alloc(0x2000, 50, 2, 0);
	struct ht_figures f;

	start(0, 0);
	ck_ok(take(&b));
	ck_ok(take(&c));
	take_free(0x1000, 3);
	f = total();
	ck_assert(f.live.bytes == 50 && f.live.objects == 1);
	ck_assert(f.total.bytes == 150 && f.total.objects == 2);
	ck_assert_uint_eq(counters().allocs, 2);
	ck_assert_uint_eq(counters().corrupt, 0);
	stop();
}
END_TEST

START_TEST(reallocs_are_one_event)
{
	struct big_record b = an_alloc(0x1000, 100, 1, 0), c = an_alloc(0x2000, 300, 3, 0);
	struct ht_figures f;

	start(0, 0);
	ck_ok(take(&b));
	c.r.head.type = HT_RECORD_REALLOC;
	c.r.old_addr = 0x1000;
	c.r.old_seq = 2;
	ck_ok(take(&c));
	f = total();
	ck_assert(f.live.bytes == 300 && f.total.bytes == 400 && f.peak.bytes == 300);
	stop();
}
END_TEST

START_TEST(what_the_hook_could_not_have_written_is_dropped)
{
	const struct big_record lies[] = {
		an_alloc(0, 100, 1, 4096),		/* no block */
		an_alloc(0x1000, 100, 0, 4096),		/* no place in time */
		an_alloc(0x1000, 100, 1, 0),		/* claims to be exact */
		an_alloc(0x1000, 100, 1, 1),		/* another interval */
		an_alloc(0x1000, UINT64_MAX, 1, 4096),
		an_alloc(0x1000, UINT64_C(1) << 47, 1, 4096),
	};

	start(4096, 0);
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++)
		ck_ok(take(&lies[i]));
	take_free(0, 1);
	take_free(0x1000, 0);
	ck_assert_uint_eq(counters().corrupt, ARRAY_SIZE(lies) + 2);
	ck_assert_uint_eq(counters().allocs, 0);
	ck_assert(total().total.objects == 0);
	stop();
}
END_TEST

/* Records carry no time: what one drain takes in happened at one moment. */
START_TEST(time_passes_by_ticks)
{
	struct big_record first = an_alloc(0x1000, 100, 1, 0);
	struct big_record second = an_alloc(0x2000, 100, 2, 0);

	start(0, 0);
	ht_intake_tick(intake);
	ck_ok(take(&first));
	take_free(0x1000, 3);
	ck_assert(total().lifetime_ns == 0);
	ck_ok(take(&second));
	ht_intake_tick(intake);
	take_free(0x2000, 4);
	ck_assert(total().freed.objects == 2);
	ck_assert(total().lifetime_ns > 0 && total().lifetime_ns < 60e9);
	stop();
}
END_TEST

START_TEST(orders_that_cannot_be)
{
	struct big_record b = an_alloc(0x1000, 100, 5, 0);
	struct ht_figures f;

	start(0, 0);
	/* Freed before it was made, by itself, twice at one moment, and at the end of time. */
	b.r.head.type = HT_RECORD_REALLOC;
	b.r.old_addr = 0x1000;
	b.r.old_seq = 9;
	ck_ok(take(&b));
	ck_ok(take(&b));
	b.r.old_seq = 0;
	ck_ok(take(&b));
	b.r.head.seq = UINT64_MAX;
	b.r.old_seq = UINT64_MAX - 1;
	ck_ok(take(&b));
	take_free(0x1000, UINT64_MAX);
	f = total();
	ck_assert(f.live.bytes >= 0 && f.live.objects >= 0);
	ck_assert(f.total.bytes >= f.freed.bytes);
	stop();
}
END_TEST

START_TEST(stacks_that_lead_nowhere)
{
	static const uint64_t odd[] = { 0, 1, 7, 0x7fffffffffff, 0x800000000000,
					0xffffffff81000000, UINT64_MAX, UINT64_MAX - 7 };

	start(0, 0);
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		struct big_record b = an_alloc(0x1000 + 16 * i, 100, i + 1, 0);

		b.r.pc = odd[i];
		b.r.sp = odd[(i + 3) % ARRAY_SIZE(odd)];
		b.r.bp = odd[(i + 5) % ARRAY_SIZE(odd)];
		for (size_t k = 0; k < STACK / 8; k++)
			b.stack[k] = odd[(i + k) % ARRAY_SIZE(odd)];
		ck_ok(take(&b));
	}
	ck_assert_uint_eq(counters().allocs, ARRAY_SIZE(odd));
	ck_assert(total().live.objects == ARRAY_SIZE(odd));
	stop();
}
END_TEST

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Bytes at random in everything that the ring doesn't check. */
START_TEST(noise)
{
	uint64_t state = 88172645463325252, seen;

	start(4096, 0);
	for (int i = 0; i < 20000; i++) {
		struct big_record b;

		for (size_t k = 0; k < sizeof(b) / 8; k++)
			((uint64_t *)&b)[k] = next_random(&state) >> (next_random(&state) & 63);
		b.r.head.size = sizeof(b);
		b.r.head.type = i & 1 ? HT_RECORD_ALLOC : HT_RECORD_REALLOC;
		b.r.stack_len = STACK & ~(uint32_t)(next_random(&state) & 0x1f8);
		if (i & 2)
			b.r.interval = 4096;
		/* In a window, so that they meet each other. */
		if (i & 4) {
			b.r.head.seq = 1 + next_random(&state) % 30000;
			b.r.addr &= 0xfff0;
		}
		ck_ok(take(&b));
		take_free(b.r.addr, b.r.head.seq);
	}
	seen = counters().allocs + counters().corrupt;
	ck_assert_uint_ge(seen, 20000);
	ck_assert(total().total.objects >= 0);
	stop();
}
END_TEST

START_TEST(nothing_below_the_least_size)
{
	struct big_record small = an_alloc(0x1000, 99, 1, 0), large = an_alloc(0x2000, 100, 2, 0);

	start(0, 100);
	ck_ok(take(&small));
	ck_ok(take(&large));
	ck_assert_uint_eq(counters().corrupt, 1);
	ck_assert_uint_eq(counters().allocs, 1);
	stop();
}
END_TEST

int main(void)
{
	return ht_check_run("intake", (const TTest *const[]){
		records_are_accounted, reallocs_are_one_event,
		what_the_hook_could_not_have_written_is_dropped, time_passes_by_ticks,
		orders_that_cannot_be, stacks_that_lead_nowhere, noise,
		nothing_below_the_least_size, NULL });
}
