/* SPDX-License-Identifier: Apache-2.0
 *
 * watcher: a process that watches itself. Threads hold values in all registers, wait for
 * time-outs and stream bytes; it compares all that it can ask about itself with what was at
 * its start.
 *
 * READY
 * tapped: once each thread went on, "ok ROUNDS fds=N late=N short=N lacks=WHAT" or "BAD what;
 *	what".
 * look: the same for one that isn't tapped, so that its text must be the files', too.
 */
#include "watcher.h"

#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#if defined(__has_include) && __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

static long cpus;

/* Registered, on a CPU that exists, and in no critical section: nobody here has any. */
static void look_at_rseq(void)
{
#ifdef RSEQ_SIG
	for (size_t i = 0; __rseq_size && i < rounds_n; i++) {
		const volatile struct rseq *area =
			(const void *)((uintptr_t)rounds_threads[i]->id + (uintptr_t)__rseq_offset);

		if ((int)area->cpu_id < 0 || (int)area->cpu_id >= cpus || area->rseq_cs)
			rounds_bad("%s: rseq area with CPU %d, section %#lx", rounds_threads[i]->name,
				   (int)area->cpu_id, (unsigned long)area->rseq_cs);
	}
#endif
}

static void answer(int is_tapped)
{
	unsigned long rounds = rounds_await(2, watcher_cpu_poke);

	watcher_self_look(is_tapped);
	look_at_rseq();
	rounds_answer("ok %lu fds=%lu late=%lu short=%lu lacks=%s", rounds, watcher_new_fds,
		      watcher_late, watcher_short, watcher_cpu_lacks());
}

int main(void)
{
	sigset_t set;
	char line[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	/* One heap, which has room, so that the memory map stays. */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TOP_PAD, 8 << 20);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGRTMIN + 5);
	sigprocmask(SIG_BLOCK, &set, NULL);
	cpus = sysconf(_SC_NPROCESSORS_CONF);
	watcher_cpu_start();
	watcher_calls_start();
	rounds_await(3, watcher_cpu_poke);
	watcher_self_start();
	rounds_await(3, watcher_cpu_poke);
	watcher_self_look(0);
	rounds_ready("watcher");
	while (rounds_next_line(line, sizeof(line)))
		answer(!strcmp(line, "tapped"));
	watcher_calls_stop();
	_exit(0);
}
