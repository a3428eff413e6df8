/* SPDX-License-Identifier: Apache-2.0
 *
 * rseq: all threads, the main one too, are in restartable sequences nearly all the time. Each
 * adds one to a counter of the CPU that it runs on, without a lock: the kernel's promise that
 * a sequence which was interrupted begins anew is all that keeps the counters right.
 *
 * READY, or "READY none" where the kernel or libc has no restartable sequences
 * check: once each thread went on, "ok ADDED ABORTED" or "BAD what; what".
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "rounds.h"

#if defined(__has_include) && __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

#ifdef RSEQ_SIG

#define WORKERS 3
#define BATCH 500	/* sequences between two allocations */
#define CPUS 1024
/* Turns of a loop in each sequence, so that little time is spent elsewhere. */
#define DWELL 1000

struct counts {
	unsigned long tries, added, aborted;
};

static struct { uint64_t n; char pad[56]; } per_cpu[CPUS];
static struct counts counts[1 + WORKERS];
static pthread_barrier_t quiet, go_on;
static atomic_int hold;

/* 1: added; 0: the kernel has aborted it. */
static int try_to_add(uint32_t cpu)
{
	__asm__ goto volatile(
		".pushsection __rseq_cs, \"aw\"\n\t"
		".balign 32\n"
		"3:\t.long 0, 0\n\t"
		".quad 1f, 2f - 1f, 4f\n\t"
		".popsection\n\t"
		"lea 3b(%%rip), %%rax\n\t"
		"mov %%rax, %%fs:8(%[area])\n"
		"1:\tcmp %[cpu], %%fs:4(%[area])\n\t"
		"jne 5f\n\t"
		"mov %[counter], %%rax\n\t"
		"mov %[dwell], %%ecx\n"
		"6:\tdec %%ecx\n\t"
		"jnz 6b\n\t"
		"inc %%rax\n\t"
		"mov %%rax, %[counter]\n"
		"2:\n\t"
		".pushsection __rseq_failure, \"ax\"\n\t"
		/* ud1, whose operand is the signature. */
		".byte 0x0f, 0xb9, 0x3d\n\t"
		".long %c[signature]\n"
		"4:\tjmp %l[aborted]\n"
		"5:\tjmp %l[aborted]\n\t"
		".popsection\n\t"
		:
		: [area] "r"((long)__rseq_offset), [cpu] "r"(cpu),
		  [counter] "m"(per_cpu[cpu].n), [dwell] "i"(DWELL), [signature] "i"(RSEQ_SIG)
		: "rax", "rcx", "memory", "cc"
		: aborted);
	return 1;
aborted:
	return 0;
}

static uint32_t this_cpu(void)
{
	return *(const volatile __seg_fs uint32_t *)__rseq_offset;
}

static void add_batch(struct counts *c)
{
	void *block;

	for (int i = 0; i < BATCH; i++) {
		uint32_t cpu = this_cpu();

		if (cpu >= CPUS) {
			rounds_bad("on CPU %u", cpu);
			return;
		}
		c->tries++;
		if (try_to_add(cpu))
			c->added++;
		else
			c->aborted++;
	}
	/* A compiler knows what a free of a malloc comes to. */
	block = malloc(10000);
	__asm__ volatile("" : "+r"(block));
	free(block);
}

static void work(void *arg)
{
	add_batch(arg);
	if (hold) {
		pthread_barrier_wait(&quiet);
		pthread_barrier_wait(&go_on);
	}
}

/* Nobody is in a sequence while this looks. */
static void answer(void)
{
	struct counts sum = { 0, 0, 0 };
	unsigned long on_cpus = 0;

	rounds_await(2, NULL);
	hold = 1;
	pthread_barrier_wait(&quiet);
	for (int i = 0; i < CPUS; i++)
		on_cpus += per_cpu[i].n;
	for (int i = 0; i <= WORKERS; i++) {
		sum.tries += counts[i].tries;
		sum.added += counts[i].added;
		sum.aborted += counts[i].aborted;
	}
	hold = 0;
	pthread_barrier_wait(&go_on);
	if (on_cpus != sum.added)
		rounds_bad("%lu added, but the counters say %lu", sum.added, on_cpus);
	if (sum.tries != sum.added + sum.aborted)
		rounds_bad("%lu tries, %lu added, %lu aborted", sum.tries, sum.added,
			   sum.aborted);
	rounds_answer("ok %lu %lu", sum.added, sum.aborted);
}

int main(void)
{
	static struct rounds_thread threads[WORKERS];
	struct pollfd in = { STDIN_FILENO, POLLIN, 0 };
	char line[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (!__rseq_size)
		return puts("READY none") < 0;
	pthread_barrier_init(&quiet, NULL, 1 + WORKERS);
	pthread_barrier_init(&go_on, NULL, 1 + WORKERS);
	for (int i = 0; i < WORKERS; i++) {
		threads[i] = (struct rounds_thread){ .name = "adder", .round = work,
						     .arg = &counts[1 + i] };
		rounds_start(&threads[i]);
	}
	rounds_await(2, NULL);
	rounds_ready("rseq");
	for (;;) {
		add_batch(&counts[0]);
		if (poll(&in, 1, 0) <= 0)
			continue;
		if (!rounds_next_line(line, sizeof(line)))
			break;
		answer();
	}
	_exit(0);
}

#else

int main(void)
{
	return puts("READY none") < 0;
}

#endif
