/* SPDX-License-Identifier: Apache-2.0
 *
 * storms_timers.c: see storms.h.
 */
#include "storms.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

#define TICK_US 1000

static atomic_ulong profiled, virtual, notified;

static void on_tick(int sig)
{
	atomic_fetch_add(sig == SIGPROF ? &profiled : &virtual, 1);
}

/* In a new thread of glibc's each time. */
static void on_notify(union sigval value)
{
	storms_free(storms_alloc());
	atomic_fetch_add(&notified, 1);
}

/* Allocates until each timer has gone off. Those of CPU time do so while it does. */
static void timers_round(void *arg)
{
	unsigned long p = profiled, v = virtual, n = notified;

	while (profiled == p || virtual == v || notified == n)
		storms_free(storms_alloc());
}

void storms_timers(void)
{
	const struct itimerval tick = { { 0, TICK_US }, { 0, TICK_US } };
	const struct itimerspec notify = { { 0, TICK_US * 1000L }, { 0, TICK_US * 1000L } };
	struct sigaction action = { .sa_handler = on_tick, .sa_flags = SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD,
				  .sigev_notify_function = on_notify };
	timer_t timer;

	if (sigaction(SIGPROF, &action, NULL) || sigaction(SIGVTALRM, &action, NULL) ||
	    setitimer(ITIMER_PROF, &tick, NULL) || setitimer(ITIMER_VIRTUAL, &tick, NULL) ||
	    timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &notify, NULL))
		rounds_bad("can't start the timers");
	storms_start("timers", 3, timers_round);
}
