/* SPDX-License-Identifier: Apache-2.0
 *
 * sized: a small allocator to be preloaded, for what no library at hand has yet: C23's
 * free_sized() and free_aligned_sized(). They do what free() does themselves; with
 * SIZED_FORWARD they call it. What is freed as something else than it is ends the program.
 *
 * Blocks are powers of two with a header of 16 bytes in front of what the caller gets, and are
 * given out again last in, first out. Nothing goes back to the system.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define CLASSES 40		/* the largest has 2^39 bytes */
#define ALIGN 16
#define REGION ((size_t)64 << 20)
#define EXPORT __attribute__((visibility("default")))

#ifdef SIZED_FORWARD
#define GIVE_BACK(ptr) free(ptr)
#else
#define GIVE_BACK(ptr) give_back(ptr)
#endif

struct header {
	uint32_t class;
	uint32_t before;	/* bytes from the block's start to the caller's */
	uint64_t size;		/* asked for */
};

struct idle {
	struct idle *next;
};

static struct {
	char busy;
	struct idle *idle[CLASSES];
	char *at, *end;		/* of the region that blocks are cut from */
} heap;

static uint64_t sized_frees;

static void lock(void)
{
	while (__atomic_test_and_set(&heap.busy, __ATOMIC_ACQUIRE))
		continue;
}

static void unlock(void)
{
	__atomic_clear(&heap.busy, __ATOMIC_RELEASE);
}

static char *cut(size_t size)
{
	size_t region = size > REGION ? size : REGION;
	char *block;

	if ((size_t)(heap.end - heap.at) < size) {
		block = mmap(NULL, region, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (block == MAP_FAILED)
			return NULL;
		heap.at = block;
		heap.end = block + region;
	}
	block = heap.at;
	heap.at += size;
	return block;
}

static char *take_block(uint32_t class)
{
	struct idle *block;

	lock();
	block = heap.idle[class];
	if (block)
		heap.idle[class] = block->next;
	else
		block = (struct idle *)cut((size_t)1 << class);
	unlock();
	return (char *)block;
}

static struct header *header_of(void *ptr)
{
	return (struct header *)ptr - 1;
}

static void *take(size_t align, size_t size)
{
	size_t whole = size + align + sizeof(struct header);
	uint32_t class = 5;
	char *block, *ptr;

	while (class < CLASSES && (size_t)1 << class < whole)
		class++;
	block = size >> (CLASSES - 1) || class == CLASSES ? NULL : take_block(class);
	if (!block) {
		errno = ENOMEM;
		return NULL;
	}
	ptr = (char *)(((uintptr_t)block + sizeof(struct header) + align - 1) & -align);
	*header_of(ptr) = (struct header){ class, (uint32_t)(ptr - block), size };
	return ptr;
}

static void give_back(void *ptr)
{
	struct header *header = header_of(ptr);
	struct idle *block = (struct idle *)((char *)ptr - header->before);
	uint32_t class = header->class;

	lock();
	block->next = heap.idle[class];
	heap.idle[class] = block;
	unlock();
}

static void check(void *ptr, size_t align, size_t size)
{
	if (header_of(ptr)->size != size || (uintptr_t)ptr % align)
		__builtin_trap();
}

EXPORT void *malloc(size_t size)
{
	return take(ALIGN, size);
}

EXPORT void free(void *ptr)
{
	if (ptr)
		give_back(ptr);
}

EXPORT void *calloc(size_t count, size_t size)
{
	void *ptr;

	if (__builtin_mul_overflow(count, size, &size)) {
		errno = ENOMEM;
		return NULL;
	}
	ptr = take(ALIGN, size);
	return ptr ? memset(ptr, 0, size) : NULL;
}

EXPORT void *realloc(void *old, size_t size)
{
	void *ptr = take(ALIGN, size);
	size_t had = old ? header_of(old)->size : 0;

	if (!ptr || !old)
		return ptr;
	memcpy(ptr, old, had < size ? had : size);
	give_back(old);
	return ptr;
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
	return take(align < ALIGN ? ALIGN : align, size);
}

EXPORT int posix_memalign(void **out, size_t align, size_t size)
{
	void *ptr = aligned_alloc(align, size);

	if (!ptr)
		return ENOMEM;
	*out = ptr;
	return 0;
}

EXPORT size_t malloc_usable_size(void *ptr)
{
	return ptr ? header_of(ptr)->size : 0;
}

/* The last thing that it does: compilers make a jump of it. */
EXPORT void free_sized(void *ptr, size_t size)
{
	if (!ptr)
		return;
	check(ptr, 1, size);
	GIVE_BACK(ptr);
}

EXPORT void free_aligned_sized(void *ptr, size_t align, size_t size)
{
	if (!ptr)
		return;
	check(ptr, align, size);
	GIVE_BACK(ptr);
	__atomic_fetch_add(&sized_frees, 1, __ATOMIC_RELAXED);
}
