/* SPDX-License-Identifier: Apache-2.0
 *
 * chains_malloc.c: the allocator of programs with known chains (chains.h). Always built
 * the same way, for only its callers are of interest. Frees nothing.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "chains.h"

volatile struct chains_notes chains;
volatile int chains_armed;
volatile int chains_one = 1;
volatile long chains_sink;

static char arena[64 << 20] __attribute__((aligned(4096)));
static size_t used;

__attribute__((used, visibility("hidden"))) void *chains_plain(size_t size);

/* The trap comes before anything is on the stack but the return address. */
__asm__(".text\n"
	".globl malloc\n"
	".type malloc, @function\n"
	"malloc:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	lea chains(%rip), %r11\n"
	"	cmpl $0, chains_armed(%rip)\n"
	"	je 1f\n"
	"	int3\n"
	"1:	jmp chains_plain\n"
	"	.cfi_endproc\n"
	".size malloc, . - malloc\n");

static void *aligned(size_t align, size_t size)
{
	size_t at = (used + 16 + align - 1) & ~(align - 1);

	if (size > sizeof(arena) - at) {
		errno = ENOMEM;
		return NULL;
	}
	memcpy(arena + at - sizeof(size), &size, sizeof(size));
	used = at + size;
	return arena + at;
}

void *chains_plain(size_t size)
{
	return aligned(16, size);
}

static size_t size_of(const void *block)
{
	size_t size;

	memcpy(&size, (const char *)block - sizeof(size), sizeof(size));
	return size;
}

void free(void *block)
{
	(void)block;
}

void *calloc(size_t n, size_t size)
{
	/* The arena is given out once. */
	return aligned(16, n * size);
}

void *realloc(void *block, size_t size)
{
	void *moved = aligned(16, size);
	size_t n = block ? size_of(block) : 0;

	if (moved && block)
		memcpy(moved, block, n < size ? n : size);
	return moved;
}

void *memalign(size_t align, size_t size)
{
	return aligned(align < 16 ? 16 : align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

int posix_memalign(void **ret_block, size_t align, size_t size)
{
	*ret_block = memalign(align, size);
	return *ret_block ? 0 : ENOMEM;
}

void *valloc(size_t size)
{
	return memalign(4096, size);
}

void *pvalloc(size_t size)
{
	return memalign(4096, (size + 4095) & ~(size_t)4095);
}

size_t malloc_usable_size(void *block)
{
	return block ? size_of(block) : 0;
}
