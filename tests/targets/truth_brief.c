/* SPDX-License-Identifier: Apache-2.0
 *
 * truth_brief: a hundred threads, one after the other, each "go"; each gives back all but one
 * of its blocks, and ends. What glibc kept for the thread it passes to free() once more then;
 * the next thread gets it from malloc. Obeys the lines of truth.
 */
#include "truth_count.h"

#include <pthread.h>
#include <stdlib.h>

#define SITE __attribute__((noinline))
#define THREADS 100
#define BLOCKS 40
#define KEEP 4096

static struct truth_block kept[KEEP];
static unsigned n_kept;

static SITE struct truth_block site_brief(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, malloc(size), size);
}

static SITE struct truth_block site_kept(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, malloc(size), size);
}

static void *live_briefly(void *arg)
{
	struct truth_block blocks[BLOCKS];

	for (unsigned i = 0; i < BLOCKS; i++)
		blocks[i] = site_brief(24 + 16 * i);
	for (unsigned i = 0; i < BLOCKS; i++) {
		void *ptr = blocks[i].ptr;

		truth_gone(&blocks[i]);
		free(ptr);
	}
	if (n_kept < KEEP) {
		kept[n_kept] = site_kept(24 + 16 * (n_kept % BLOCKS));
		n_kept++;
	}
	return arg;
}

static void run_brief(void)
{
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, live_briefly, NULL))
			abort();
		pthread_join(thread, NULL);
	}
}

int main(int argc, char **argv)
{
	static const struct truth_workload workloads[] = { { "brief", NULL, run_brief, 0 } };

	return truth_main(argc, argv, workloads, 1);
}
