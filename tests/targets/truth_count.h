/* SPDX-License-Identifier: Apache-2.0
 *
 * truth_count.h: what the truth programs share: they count, themselves and exactly, what
 * each of their call sites asked for and still holds, and talk the line protocol.
 *
 * A block is known by the handle that the program keeps of it, not by its address, so the
 * count can't go wrong in the ways that a tool's can. Nothing here allocates after READY.
 */
#ifndef HT_TESTS_TRUTH_COUNT_H
#define HT_TESTS_TRUTH_COUNT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRUTH_MAX_SITES 640

struct truth_tally {
	unsigned long total_bytes, total_objects;
	unsigned long freed_bytes, freed_objects;
};

/* Of estimates of a tally's totals, or of what is freed: the variances, when every block is
 * sampled with the probability of its size. */
struct truth_spread {
	double total_bytes, total_objects;
	double freed_bytes, freed_objects;
	double max_bytes, max_objects;	/* that one block adds to an estimate at most */
};

struct truth_site {
	const char *name;	/* of the function that calls the allocator */
	struct truth_tally tally;
	struct truth_spread spread;
	/* What it held when the program held most. */
	unsigned long peak_bytes, peak_objects;
};

/* A block that the program holds. ptr NULL: none. */
struct truth_block {
	void *ptr;
	size_t size;
	struct truth_site *site;
	unsigned epoch;		/* marks seen when it was allocated; 0: not counted */
	unsigned thread;	/* that allocated it */
};

/* A new site named after the calling function. */
#define TRUTH_SITE(site)                                                                  \
	static struct truth_site site = {                                                 \
		__func__, { 0, 0, 0, 0 }, { 0, 0, 0, 0, 0, 0 }, 0, 0                      \
	}

/* The allocator gave @ptr for @size bytes; NULL: it failed, and nothing is counted. */
struct truth_block truth_took(struct truth_site *site, void *ptr, size_t size);
/* Count a block as freed, just before or after it is. */
void truth_gone(struct truth_block *block);
/* Keeps the compiler from dropping a block that nobody reads. */
void truth_use(void *ptr, size_t size);

struct truth_workload {
	const char *name;
	void (*prepare)(void);	/* before READY; may be NULL */
	void (*run)(void);	/* at "go"; in each of its threads if there are several */
	unsigned threads;	/* 0: the main thread; else that many of their own */
};

/* How often a workload is to do what it does; 1 unless the test said otherwise. */
unsigned truth_scale(void);
/* The interval that the test said estimates are made with; 0: none. */
double truth_interval(void);
/* Of a thread of a workload with several: 0 ... threads - 1. */
unsigned truth_thread(void);
/* All threads of the workload wait here for each other. */
void truth_meet(void);

/* The whole life: choose by argv (names; none or "all": all), READY, obey lines. */
int truth_main(int argc, char **argv, const struct truth_workload *workloads, size_t n);

#ifdef __cplusplus
}
#endif
#endif
