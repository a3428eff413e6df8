/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.c: see clock.h.
 */
#include "base/clock.h"

#include <limits.h>
#include <time.h>

#include "base/compiler.h"

static uint64_t read_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * HT_NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t ht_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t ht_cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t ht_deadline_ns(uint64_t ns)
{
	uint64_t deadline;

	if (__builtin_add_overflow(ht_now_ns(), ns, &deadline))
		return UINT64_MAX;
	return deadline;
}

bool ht_deadline_passed(uint64_t deadline_ns)
{
	return deadline_ns && ht_now_ns() >= deadline_ns;
}

int ht_deadline_poll_ms(uint64_t deadline_ns)
{
	uint64_t now, ms;

	if (!deadline_ns)
		return -1;
	now = ht_now_ns();
	if (now >= deadline_ns)
		return 0;
	ms = (deadline_ns - now + HT_NS_PER_MS - 1) / HT_NS_PER_MS;
	return (int)ht_min(ms, (uint64_t)INT_MAX);
}
