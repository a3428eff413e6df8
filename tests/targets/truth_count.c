/* SPDX-License-Identifier: Apache-2.0
 *
 * truth_count.c: see truth_count.h.
 */
#include "truth_count.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MAX_WORKLOADS 32
#define MAX_THREADS 8

static struct truth_site *sites[TRUTH_MAX_SITES];
static unsigned n_sites;
static unsigned epoch = 1;
static unsigned scale = 1;
static size_t floor_bytes;	/* smaller blocks are not counted */
static double interval;		/* that estimates are made with; 0: none are */
static pthread_mutex_t spread_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t sites_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
	const struct truth_workload *chosen[MAX_WORKLOADS];
	unsigned n_chosen;
	pthread_barrier_t start;	/* of a workload with threads: they and main */
	pthread_barrier_t end;
	pthread_barrier_t meet;		/* the threads only */
} team;
/* 0: the main thread; the others from 1 on. */
static struct truth_tally threads[MAX_THREADS + 1];
static unsigned n_threads;
static __thread unsigned thread_index;
/* Of programs without threads: the highest sum of what all sites hold. */
static struct {
	int on, over;
	unsigned long live, highest;
} peak;

static void add(unsigned long *bytes, unsigned long *objects, size_t size)
{
	__atomic_fetch_add(bytes, size, __ATOMIC_RELAXED);
	__atomic_fetch_add(objects, 1, __ATOMIC_RELAXED);
}

static void allocated(struct truth_tally *tally, size_t size)
{
	add(&tally->total_bytes, &tally->total_objects, size);
}

static void freed(struct truth_tally *tally, size_t size)
{
	add(&tally->freed_bytes, &tally->freed_objects, size);
}

/* What a block of @size bytes adds to the variance of an estimate, and to it at most. */
static double spread_of(size_t size, double *ret_bytes, double *ret_objects)
{
	double p = -expm1(-(double)(size ? size : 1) / interval);

	*ret_bytes = (double)size / p;
	*ret_objects = 1 / p;
	return (1 - p) / p;
}

static void spread(struct truth_spread *s, size_t size)
{
	double bytes, objects, unit = spread_of(size, &bytes, &objects);

	pthread_mutex_lock(&spread_lock);
	s->total_bytes += unit * (double)size * (double)size;
	s->total_objects += unit;
	if (bytes > s->max_bytes)
		s->max_bytes = bytes;
	if (objects > s->max_objects)
		s->max_objects = objects;
	pthread_mutex_unlock(&spread_lock);
}

static void unspread(struct truth_spread *s, size_t size)
{
	double bytes, objects, unit = spread_of(size, &bytes, &objects);

	pthread_mutex_lock(&spread_lock);
	s->freed_bytes += unit * (double)size * (double)size;
	s->freed_objects += unit;
	pthread_mutex_unlock(&spread_lock);
}

static void know(struct truth_site *site)
{
	unsigned i;

	pthread_mutex_lock(&sites_lock);
	for (i = 0; i < n_sites && sites[i] != site; i++)
		continue;
	if (i == n_sites) {
		if (n_sites == TRUTH_MAX_SITES)
			abort();
		sites[n_sites++] = site;
	}
	pthread_mutex_unlock(&sites_lock);
}

/* @bytes came or went. What is held without a byte may still change at the top; the moment
 * is over when the sum falls. */
static void follow_peak(long bytes)
{
	peak.live += (unsigned long)bytes;
	if (peak.live > peak.highest) {
		peak.highest = peak.live;
		peak.over = 0;
	}
	if (peak.live < peak.highest)
		peak.over = 1;
	for (unsigned i = 0; i < n_sites && !peak.over; i++) {
		const struct truth_tally *t = &sites[i]->tally;

		sites[i]->peak_bytes = t->total_bytes - t->freed_bytes;
		sites[i]->peak_objects = t->total_objects - t->freed_objects;
	}
}

struct truth_block truth_took(struct truth_site *site, void *ptr, size_t size)
{
	struct truth_block block = { ptr, size, site, epoch, thread_index };

	if (!__atomic_load_n(&site->tally.total_objects, __ATOMIC_RELAXED))
		know(site);
	if (ptr)
		truth_use(ptr, size);
	if (!ptr || size < floor_bytes) {
		block.epoch = 0;
		return block;
	}
	allocated(&site->tally, size);
	allocated(&threads[thread_index], size);
	if (interval > 0)
		spread(&site->spread, size);
	if (peak.on)
		follow_peak((long)size);
	return block;
}

void truth_gone(struct truth_block *block)
{
	/* What is older than the mark was never counted, so it isn't taken off either. */
	if (block->ptr && block->epoch == epoch) {
		freed(&block->site->tally, block->size);
		freed(&threads[block->thread], block->size);
		if (interval > 0)
			unspread(&block->site->spread, block->size);
		if (peak.on)
			follow_peak(-(long)block->size);
	}
	block->ptr = NULL;
}

void truth_use(void *ptr, size_t size)
{
	/* A byte is written where there is one: the compiler can't know who reads it. */
	if (ptr && size)
		*(volatile char *)ptr = 1;
	__asm__ volatile("" : : "r"(ptr) : "memory");
}

unsigned truth_scale(void)
{
	return scale;
}

double truth_interval(void)
{
	return interval;
}

unsigned truth_thread(void)
{
	return thread_index - 1;
}

void truth_meet(void)
{
	pthread_barrier_wait(&team.meet);
}

static void mark(void)
{
	epoch++;
	for (unsigned i = 0; i < n_sites; i++)
		*sites[i] = (struct truth_site){ .name = sites[i]->name };
	/* They enter themselves again when they allocate. */
	n_sites = 0;
	for (unsigned i = 0; i <= MAX_THREADS; i++)
		threads[i] = (struct truth_tally){ 0 };
}

/* From here on, as if nothing had been. A realloc is one step, and so it is here: the old
 * block is gone before the new one is looked at. */
static void watch_peak(void)
{
	mark();
	peak.live = peak.highest = 0;
	peak.on = 1;
}

static void print_tally(const struct truth_tally *t)
{
	printf(" %lu %lu %lu %lu\n", t->total_bytes, t->total_objects,
	       t->total_bytes - t->freed_bytes, t->total_objects - t->freed_objects);
}

static void print_spread(const struct truth_site *site)
{
	const struct truth_spread *s = &site->spread;

	printf("spread %s %.9g %.9g %.9g %.9g %.9g %.9g\n", site->name, s->total_bytes,
	       s->total_objects, s->total_bytes - s->freed_bytes,
	       s->total_objects - s->freed_objects, s->max_bytes, s->max_objects);
}

static void report(void)
{
	for (unsigned i = 0; i < n_sites; i++) {
		printf("site %s", sites[i]->name);
		print_tally(&sites[i]->tally);
		if (interval > 0)
			print_spread(sites[i]);
		if (peak.on)
			printf("peak %s %lu %lu\n", sites[i]->name, sites[i]->peak_bytes,
			       sites[i]->peak_objects);
	}
	for (unsigned i = 0; i <= n_threads; i++) {
		printf("thread %u", i);
		print_tally(&threads[i]);
	}
	printf("end\n");
}

/* Each thread has a function of its own on its call stacks, which tells it from the others. */
#define ROOT(n)                                                                           \
	static __attribute__((noinline)) void thread_##n(void (*run)(void))               \
	{                                                                                 \
		run();                                                                    \
	}
ROOT(1) ROOT(2) ROOT(3) ROOT(4) ROOT(5) ROOT(6) ROOT(7) ROOT(8)
static void (*const roots[MAX_THREADS])(void (*run)(void)) = {
	thread_1, thread_2, thread_3, thread_4, thread_5, thread_6, thread_7, thread_8,
};

static void *member(void *arg)
{
	thread_index = (unsigned)(size_t)arg;
	for (;;) {
		for (unsigned i = 0; i < team.n_chosen; i++) {
			const struct truth_workload *w = team.chosen[i];

			if (!w->threads)
				continue;
			pthread_barrier_wait(&team.start);
			if (truth_thread() < w->threads)
				roots[truth_thread()](w->run);
			pthread_barrier_wait(&team.end);
		}
	}
	return NULL;
}

static unsigned widest(void)
{
	unsigned most = 0;

	for (unsigned i = 0; i < team.n_chosen; i++)
		if (team.chosen[i]->threads > most)
			most = team.chosen[i]->threads;
	return most;
}

/* Threads are made before READY, because making one allocates. All workloads with threads
 * have the same number of them, which truth_meet() relies on. */
static int start_team(void)
{
	unsigned n = widest();
	pthread_t thread;

	n_threads = n;
	if (!n)
		return 0;
	if (n > MAX_THREADS)
		return 1;
	pthread_barrier_init(&team.start, NULL, n + 1);
	pthread_barrier_init(&team.end, NULL, n + 1);
	pthread_barrier_init(&team.meet, NULL, n);
	for (unsigned i = 1; i <= n; i++)
		if (pthread_create(&thread, NULL, member, (void *)(size_t)i))
			return 1;
	return 0;
}

static void go(void)
{
	for (unsigned i = 0; i < team.n_chosen; i++) {
		const struct truth_workload *w = team.chosen[i];

		if (!w->threads) {
			w->run();
			continue;
		}
		pthread_barrier_wait(&team.start);
		pthread_barrier_wait(&team.end);
	}
}

/* Until there is another line. */
static void loop(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	do {
		go();
	} while (poll(&input, 1, 0) == 0);
}

static int choose(int argc, char **argv, const struct truth_workload *workloads, size_t n)
{
	for (size_t i = 0; i < n && i < MAX_WORKLOADS; i++) {
		int wanted = argc < 2;

		for (int a = 1; a < argc; a++)
			if (!strcmp(argv[a], workloads[i].name) ||
			    !strcmp(argv[a], "all"))
				wanted = 1;
		if (wanted)
			team.chosen[team.n_chosen++] = &workloads[i];
	}
	if (team.n_chosen)
		return 0;
	fprintf(stderr, "usage: %s [all | WORKLOAD...]\nworkloads:", argv[0]);
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, " %s", workloads[i].name);
	fprintf(stderr, "\n");
	return 2;
}

static void obey(const char *line)
{
	if (!strcmp(line, "mark"))
		mark();
	else if (!strcmp(line, "go"))
		go();
	else if (!strcmp(line, "loop"))
		loop();
	else if (!strcmp(line, "peak"))
		watch_peak();
	else if (!strncmp(line, "interval ", 9))
		interval = strtod(line + 9, NULL);
	else if (!strncmp(line, "scale ", 6))
		scale = (unsigned)strtoul(line + 6, NULL, 10);
	else if (!strncmp(line, "floor ", 6))
		floor_bytes = strtoul(line + 6, NULL, 10);
}

int truth_main(int argc, char **argv, const struct truth_workload *workloads, size_t n)
{
	static char in[BUFSIZ], out[BUFSIZ], line[64];

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	/* Buffers of our own: the first use of a stream would allocate one. */
	setvbuf(stdin, in, _IOFBF, sizeof(in));
	setvbuf(stdout, out, _IOFBF, sizeof(out));
	if (choose(argc, argv, workloads, n))
		return 2;
	for (unsigned i = 0; i < team.n_chosen; i++)
		if (team.chosen[i]->prepare)
			team.chosen[i]->prepare();
	if (start_team())
		return 1;
	printf("READY %d\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strcmp(line, "quit"))
			break;
		if (!strcmp(line, "report")) {
			report();
		} else {
			obey(line);
			printf("%s done\n", line);
		}
		fflush(stdout);
	}
	return 0;
}
