/* SPDX-License-Identifier: Apache-2.0
 *
 * truth [all | WORKLOAD...]: allocates in every way that C has, and knows the truth.
 *
 * READY PID
 * mark: forget what was counted so far; "mark done"
 * go: run the chosen workloads once; "go done"
 * loop: run them again and again, until there is another line; "loop done"
 * report: "site NAME TOTAL_BYTES TOTAL_OBJECTS LIVE_BYTES LIVE_OBJECTS" for each function
 * that allocated since the mark, "thread N" and the same for each thread, then "end". Thread 0
 * is the main one, the others have a function thread_N on their call stacks.
 * floor BYTES: from now on, count blocks of so many bytes and more only; "floor BYTES done"
 * interval BYTES: from now on, compute the variances of estimates made by samples of that
 * interval; each site in a report is followed by "spread NAME TOTAL_BYTES TOTAL_OBJECTS
 * LIVE_BYTES LIVE_OBJECTS" and " MAX_BYTES MAX_OBJECTS", the most that one block adds to
 * an estimate. "interval BYTES done"
 * peak: mark, and look for the highest sum of all sites; each in a report is followed by
 * "peak NAME BYTES OBJECTS" at that moment. Without threads only. "peak done"
 * scale N: workloads that are made for it do N times as much; "scale N done"
 * quit, or the end of stdin: exits, status 0
 *
 * Workloads run in the order of the table below. Native interfaces of other allocators
 * are found by dlsym(), so the same program runs under each by LD_PRELOAD.
 *
 * Built without builtins and without tail calls, so that each call is made, from the
 * function it is counted for.
 */
#include "truth_count.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SITE __attribute__((noinline))
#define KEEP 1024

/* Read at run time, so that no compiler sees how absurd it is. */
static volatile size_t huge = PTRDIFF_MAX / 2;

#define LARGE (256 << 20)

/* A limit of the address space that leaves no room for LARGE bytes more; the one before. */
static struct rlimit forbid_memory(void)
{
	struct rlimit old, tight;

	getrlimit(RLIMIT_AS, &old);
	tight = old;
	tight.rlim_cur = 4096;
	setrlimit(RLIMIT_AS, &tight);
	return old;
}

static void drop(struct truth_block *block)
{
	void *ptr = block->ptr;

	truth_gone(block);
	free(ptr);
}

/* Free what is @nth among @n, keep the rest. */
static void drop_some(struct truth_block *blocks, unsigned n, unsigned nth)
{
	for (unsigned i = 0; i < n; i++)
		if (i % nth == 0)
			drop(&blocks[i]);
}

/* ---- malloc and calloc ---- */

static struct truth_block mallocs[KEEP], callocs[1000];

static SITE struct truth_block site_malloc(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, malloc(size), size);
}

static SITE struct truth_block site_calloc(size_t count, size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, calloc(count, size), count * size);
}

/* Sizes around every size class, the mmap threshold and nothing at all. */
static void run_malloc(void)
{
	drop_some(mallocs, KEEP, 1);
	for (unsigned i = 0; i < KEEP; i++)
		mallocs[i] = site_malloc(i < 1000 ? i * 17 % 3000 : (i - 1000) * 50000);
	drop_some(mallocs, KEEP, 3);
}

/* The plain case that everybody knows: 1,000 blocks of 1 KiB, all kept. */
static void run_calloc(void)
{
	drop_some(callocs, 1000, 1);
	for (unsigned i = 0; i < 1000; i++)
		callocs[i] = site_calloc(4, 256);
}

/* ---- realloc ---- */

static struct truth_block grown, shrunk, from_null, from_both, from_zero, unmoved;

/* Realloc @block to @size for @site; on failure the block stays as it is. */
static void resized(struct truth_block *block, struct truth_site *site, void *ptr,
		    size_t size)
{
	if (!ptr && size)
		return;
	/* Size 0: some free the block and return NULL, some return an empty one. */
	truth_gone(block);
	*block = truth_took(site, ptr, size);
}

static SITE void site_realloc_grow(struct truth_block *block, size_t size)
{
	TRUTH_SITE(site);

	resized(block, &site, realloc(block->ptr, size), size);
}

static SITE void site_realloc_shrink(struct truth_block *block, size_t size)
{
	TRUTH_SITE(site);

	resized(block, &site, realloc(block->ptr, size), size);
}

static SITE void site_realloc_null(struct truth_block *block, size_t size)
{
	TRUTH_SITE(site);

	resized(block, &site, realloc(NULL, size), size);
}

static SITE void site_realloc_zero(struct truth_block *block)
{
	TRUTH_SITE(site);
	volatile size_t nothing = 0;

	resized(block, &site, realloc(block->ptr, nothing), 0);
}

static SITE void site_realloc_fails(struct truth_block *block, size_t size)
{
	TRUTH_SITE(site);

	resized(block, &site, realloc(block->ptr, size), size);
}

static SITE void site_reallocarray(struct truth_block *block, size_t count, size_t size)
{
	TRUTH_SITE(site);

	resized(block, &site, reallocarray(block->ptr, count, size), count * size);
}

static void run_realloc(void)
{
	struct truth_block array = { NULL, 0, NULL, 0, 0 };
	struct rlimit old_limit;

	drop(&grown);
	drop(&shrunk);
	drop(&from_null);
	drop(&from_both);
	drop(&from_zero);
	drop(&unmoved);
	grown = site_malloc(16);
	/* In place, moved, from heap to mmap, by mremap: whatever the allocator does. */
	for (size_t size = 24; size < 4 << 20; size = size * 3 / 2)
		site_realloc_grow(&grown, size);
	shrunk = site_malloc(1 << 20);
	for (size_t size = 1 << 19; size > 16; size /= 2)
		site_realloc_shrink(&shrunk, size);
	site_realloc_null(&from_null, 333);
	site_realloc_null(&from_both, 0);
	from_zero = site_malloc(100);
	site_realloc_zero(&from_zero);
	unmoved = site_malloc(444);
	site_realloc_fails(&unmoved, huge);
	old_limit = forbid_memory();
	site_realloc_fails(&unmoved, LARGE);
	setrlimit(RLIMIT_AS, &old_limit);
	site_reallocarray(&array, 10, 10);
	site_reallocarray(&array, 100, 10);
	/* Overflows: fails, and the block stays. */
	site_reallocarray(&array, huge, 16);
	drop(&array);
}

/* ---- failures ---- */

static SITE struct truth_block site_malloc_fails(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, malloc(size), size);
}

static SITE struct truth_block site_calloc_fails(size_t count, size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, calloc(count, size), count * size);
}

static void must_fail(struct truth_block block)
{
	if (block.ptr)
		abort();
}

static void run_fail(void)
{
	struct rlimit old_limit;

	for (unsigned i = 0; i < 100; i++) {
		must_fail(site_malloc_fails(huge));
		/* The product wraps around to 16. */
		must_fail(site_calloc_fails(huge / 2 + 1, 16));
		free(NULL);
	}
	old_limit = forbid_memory();
	must_fail(site_malloc_fails(LARGE));
	must_fail(site_calloc_fails(LARGE / 16, 16));
	setrlimit(RLIMIT_AS, &old_limit);
}

/* ---- the other entries ---- */

#define EACH 20
static struct truth_block others[6 * EACH];
/* musl has none. */
static void *(*pvalloc_here)(size_t);

/* jemalloc has no pvalloc(): its free() would choke on a block of libc's. */
static void prepare_entries(void)
{
	void *found = dlsym(RTLD_DEFAULT, "pvalloc");
	Dl_info a, b;

	if (found && dladdr(dlsym(RTLD_DEFAULT, "malloc"), &a) && dladdr(found, &b) &&
	    a.dli_fbase == b.dli_fbase)
		*(void **)&pvalloc_here = found;
}

static SITE struct truth_block site_posix_memalign(size_t align, size_t size)
{
	TRUTH_SITE(site);
	void *ptr = NULL;

	if (posix_memalign(&ptr, align, size))
		ptr = NULL;
	return truth_took(&site, ptr, size);
}

static SITE struct truth_block site_aligned_alloc(size_t align, size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, aligned_alloc(align, size), size);
}

static SITE struct truth_block site_memalign(size_t align, size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, memalign(align, size), size);
}

static SITE struct truth_block site_valloc(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, valloc(size), size);
}

static SITE struct truth_block site_pvalloc(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, pvalloc_here(size), size);
}

static SITE struct truth_block site_strdup(const char *text)
{
	TRUTH_SITE(site);

	return truth_took(&site, strdup(text), strlen(text) + 1);
}

static void run_entries(void)
{
	struct truth_block *b = others;

	drop_some(others, 6 * EACH, 1);
	for (unsigned i = 0; i < EACH; i++) {
		*b++ = site_posix_memalign(16u << i % 8, 10 + i * 100);
		*b++ = site_aligned_alloc(64, 64 * (i + 1));
		*b++ = site_memalign(16u << i % 8, 1 + i * 33);
		*b++ = site_valloc(500 + i);
		if (pvalloc_here)
			*b++ = site_pvalloc(4096 * (i % 3 + 1));
		*b++ = site_strdup("allocated inside of libc, by a call of its own");
	}
	/* A bad alignment fails. */
	site_posix_memalign(3, 100);
	drop_some(others, 6 * EACH, 7);
}

/* ---- blocks from before the mark ---- */

static struct truth_block old[500];

static SITE struct truth_block site_old(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, malloc(size), size);
}

static void prepare_old(void)
{
	for (unsigned i = 0; i < 500; i++)
		old[i] = site_old(100 + i);
}

/* Frees and reallocs of blocks that a tap doesn't know; then new ones, likely there. */
static void run_old(void)
{
	drop_some(old, 400, 1);
	for (unsigned i = 400; i < 450; i++)
		site_realloc_grow(&old[i], 2000);
	for (unsigned i = 0; i < 400; i++)
		old[i] = site_old(200);
	drop_some(old, 400, 2);
}

/* ---- a child with a memory of its own ---- */

static struct truth_block inherited[100];

static SITE struct truth_block site_fork(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, malloc(size), size);
}

/* What the child does with its copies of our blocks is no business of a tap on us. */
static void run_fork(void)
{
	pid_t pid;

	drop_some(inherited, 100, 1);
	for (unsigned i = 0; i < 100; i++)
		inherited[i] = site_fork(300 + i);
	pid = fork();
	if (pid == 0) {
		drop_some(inherited, 100, 1);
		for (unsigned i = 0; i < 10000; i++)
			inherited[i % 100] = site_fork(i);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		abort();
	drop_some(inherited, 100, 2);
}

/* ---- several threads ---- */

#define THREADS 4
#define CROSS 5000
#define SLOTS 16
#define ROUNDS 5000

static struct truth_block crossing[THREADS][CROSS];

static SITE struct truth_block site_cross(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, malloc(size), size);
}

/* Each thread frees, or reallocs, what another one allocated. */
static void run_cross(void)
{
	unsigned me = truth_thread(), other = (me + 1) % THREADS;

	for (unsigned i = 0; i < CROSS; i++) {
		drop(&crossing[me][i]);
		crossing[me][i] = site_cross(16 + (i * 7 + me) % 500);
	}
	truth_meet();
	for (unsigned i = 0; i < CROSS; i++) {
		if (i % 4 < 2)
			drop(&crossing[other][i]);
		else if (i % 4 == 2)
			site_realloc_grow(&crossing[other][i], 600 + i % 100);
	}
	truth_meet();
}

static struct {
	struct truth_block block;
	bool busy;
} slots[SLOTS];

static SITE struct truth_block site_reuse(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, malloc(size), size);
}

static SITE void site_reuse_realloc(struct truth_block *block, size_t size)
{
	TRUTH_SITE(site);

	resized(block, &site, realloc(block->ptr, size), size);
}

/* Put @block into a slot; what was there comes out. */
static struct truth_block swap_slot(unsigned i, struct truth_block block)
{
	struct truth_block old_block;

	while (__atomic_test_and_set(&slots[i].busy, __ATOMIC_ACQUIRE))
		continue;
	old_block = slots[i].block;
	slots[i].block = block;
	__atomic_clear(&slots[i].busy, __ATOMIC_RELEASE);
	return old_block;
}

/*
 * Few blocks of one size class, allocated by one thread and freed by another at once: the
 * allocator hands the same addresses around as fast as it can. A tool that takes these
 * events in the wrong order ends with blocks that aren't there, or loses some.
 */
static void run_reuse(void)
{
	unsigned random = truth_thread() * 2654435761u + 1;

	for (unsigned i = 0; i < ROUNDS * truth_scale(); i++) {
		struct truth_block block = site_reuse(40 + (random >> 16) % 16);

		random = random * 1664525u + 1013904223u;
		block = swap_slot((random >> 24) % SLOTS, block);
		if (block.ptr && random >> 23 & 1)
			site_reuse_realloc(&block, 40 + (random >> 12) % 16);
		drop(&block);
	}
}

/* ---- for estimates ---- */

#define MIX 500
#define MIX_HELD 32768
static struct truth_block mixed[MIX_HELD];

static SITE struct truth_block site_mix(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, malloc(size), size);
}

/* Sizes from 512 bytes to 16 KiB, evenly over the octaves; half of the blocks stay. Larger ones
 * for longer intervals, so that some thousands make enough samples. */
static void run_mix(void)
{
	static unsigned random = 1;
	unsigned n = MIX * truth_scale(), held = n / 2 < MIX_HELD ? n / 2 : MIX_HELD;
	unsigned unit = truth_interval() > 32768 ? (unsigned)truth_interval() / 32768 : 1;

	drop_some(mixed, MIX_HELD, 1);
	for (unsigned i = 0; i < n; i++) {
		struct truth_block *block = &mixed[i % held];

		random = random * 1664525u + 1013904223u;
		drop(block);
		*block = site_mix(unit * (512u + (random >> 8) % 512) << (random >> 20) % 5);
	}
}

/* ---- a peak ---- */

static struct truth_block low[1000], high[3000], late[100];

static SITE struct truth_block site_low(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, malloc(size), size);
}

static SITE struct truth_block site_high(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, malloc(size), size);
}

static SITE struct truth_block site_late(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, malloc(size), size);
}

/* 5,000,000 bytes of two sites, of which one keeps a tenth; then a third site comes. */
static void run_peak(void)
{
	drop_some(late, 100, 1);
	drop_some(low, 1000, 1);
	for (unsigned i = 0; i < 1000; i++)
		low[i] = site_low(500);
	for (unsigned i = 0; i < 3000; i++)
		high[i] = site_high(1500);
	drop_some(high, 3000, 1);
	for (unsigned i = 0; i < 100; i++)
		late[i] = site_late(100);
}

/* ---- native interfaces ---- */

static struct {
	void *(*mallocx)(size_t, int);
	void *(*rallocx)(void *, size_t, int);
	void (*sdallocx)(void *, size_t, int);
	void *(*mi_malloc)(size_t);
	void *(*mi_zalloc)(size_t);
	void *(*mi_realloc)(void *, size_t);
	void (*mi_free)(void *);
	void *(*tc_malloc)(size_t);
	void *(*tc_realloc)(void *, size_t);
	void *(*tc_new)(size_t);
	void (*tc_free)(void *);
	void (*tc_delete)(void *);
} native;

static struct truth_block natives[3][100];

/* dlsym() allocates when it fails, so this is done before READY. */
static void find_natives(void)
{
#define FIND(name) *(void **)&native.name = dlsym(RTLD_DEFAULT, #name)
	FIND(mallocx);
	FIND(rallocx);
	FIND(sdallocx);
	FIND(mi_malloc);
	FIND(mi_zalloc);
	FIND(mi_realloc);
	FIND(mi_free);
	FIND(tc_malloc);
	FIND(tc_realloc);
	FIND(tc_new);
	FIND(tc_free);
	FIND(tc_delete);
}

static SITE struct truth_block site_mallocx(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, native.mallocx(size, 0), size);
}

static SITE void site_rallocx(struct truth_block *block, size_t size)
{
	TRUTH_SITE(site);

	resized(block, &site, native.rallocx(block->ptr, size, 0), size);
}

static SITE struct truth_block site_mi_malloc(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, native.mi_malloc(size), size);
}

static SITE struct truth_block site_mi_zalloc(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, native.mi_zalloc(size), size);
}

static SITE void site_mi_realloc(struct truth_block *block, size_t size)
{
	TRUTH_SITE(site);

	resized(block, &site, native.mi_realloc(block->ptr, size), size);
}

static SITE struct truth_block site_tc_malloc(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, native.tc_malloc(size), size);
}

static SITE struct truth_block site_tc_new(size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, native.tc_new(size), size);
}

static SITE void site_tc_realloc(struct truth_block *block, size_t size)
{
	TRUTH_SITE(site);

	resized(block, &site, native.tc_realloc(block->ptr, size), size);
}

static void run_jemalloc(struct truth_block *b)
{
	for (unsigned i = 0; i < 100; i++) {
		size_t size = b[i].size;
		void *ptr = b[i].ptr;

		truth_gone(&b[i]);
		if (ptr)
			native.sdallocx(ptr, size, 0);
		b[i] = site_mallocx(10 + i * 10);
		if (i % 3 == 0)
			site_rallocx(&b[i], 2000 + i);
	}
}

static void run_mimalloc(struct truth_block *b)
{
	for (unsigned i = 0; i < 100; i++) {
		void *ptr = b[i].ptr;

		truth_gone(&b[i]);
		native.mi_free(ptr);
		b[i] = i % 2 ? site_mi_malloc(10 + i * 10) : site_mi_zalloc(20 + i);
		if (i % 3 == 0)
			site_mi_realloc(&b[i], 2000 + i);
	}
}

static void run_tcmalloc(struct truth_block *b)
{
	for (unsigned i = 0; i < 100; i++) {
		void *ptr = b[i].ptr;

		truth_gone(&b[i]);
		if (i % 2)
			native.tc_free(ptr);
		else
			native.tc_delete(ptr);
		b[i] = i % 2 ? site_tc_malloc(10 + i * 10) : site_tc_new(20 + i);
		/* Only of odd ones: the others are new's, which must be deleted. */
		if (i % 3 == 0 && i % 2)
			site_tc_realloc(&b[i], 2000 + i);
	}
}

static void run_native(void)
{
	if (native.mallocx && native.rallocx && native.sdallocx)
		run_jemalloc(natives[0]);
	if (native.mi_malloc && native.mi_zalloc && native.mi_realloc && native.mi_free)
		run_mimalloc(natives[1]);
	if (native.tc_malloc && native.tc_realloc && native.tc_new && native.tc_free &&
	    native.tc_delete)
		run_tcmalloc(natives[2]);
}

int main(int argc, char **argv)
{
	static const struct truth_workload workloads[] = {
		{ "calloc", NULL, run_calloc, 0 },
		{ "malloc", NULL, run_malloc, 0 },
		{ "realloc", NULL, run_realloc, 0 },
		{ "fail", NULL, run_fail, 0 },
		{ "entries", prepare_entries, run_entries, 0 },
		{ "old", prepare_old, run_old, 0 },
		{ "fork", NULL, run_fork, 0 },
		{ "cross", NULL, run_cross, THREADS },
		{ "reuse", NULL, run_reuse, THREADS },
		{ "mix", NULL, run_mix, 0 },
		{ "peak", NULL, run_peak, 0 },
		{ "native", find_natives, run_native, 0 },
	};

	return truth_main(argc, argv, workloads, sizeof(workloads) / sizeof(*workloads));
}
