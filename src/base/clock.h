/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h: monotonic time in nanoseconds, and deadlines.
 */
#ifndef HT_BASE_CLOCK_H
#define HT_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define HT_NS_PER_SEC UINT64_C(1000000000)
#define HT_NS_PER_MS UINT64_C(1000000)
#define HT_NS_PER_US UINT64_C(1000)

/* CLOCK_MONOTONIC. Cannot fail on Linux. */
uint64_t ht_now_ns(void);

/* CPU time that this thread has used. */
uint64_t ht_cpu_ns(void);

/* The moment @ns from now, and whether it has passed. 0 means no deadline. */
uint64_t ht_deadline_ns(uint64_t ns);
bool ht_deadline_passed(uint64_t deadline_ns);

/* Time left until @deadline_ns for poll(2): milliseconds rounded up, 0 when passed, -1
 * when there is none. */
int ht_deadline_poll_ms(uint64_t deadline_ns);

#endif
