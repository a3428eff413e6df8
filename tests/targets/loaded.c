/* SPDX-License-Identifier: Apache-2.0
 *
 * loaded: libraries for loader. Built as
 *
 *	(nothing)	with an allocator of its own
 *	LOADED_FORWARD	with names that lead to libc's
 *	LOADED_PART	with a malloc, and nothing to free by
 */
#ifdef LOADED_FORWARD
/* Whatever the compiler thinks of tail calls. */
__asm__(".text\n"
	".globl malloc, free\n"
	".type malloc, @function\n.type free, @function\n"
	"malloc: jmp __libc_malloc@PLT\n.size malloc, . - malloc\n"
	"free: jmp __libc_free@PLT\n.size free, . - free\n");
#else
#include <stddef.h>

void *malloc(size_t size);
void free(void *p);

static char heap[1 << 20] __attribute__((aligned(16)));
static size_t used;

void *malloc(size_t size)
{
	size_t at = used;

	size = (size + 15) & ~(size_t)15;
	if (size > sizeof(heap) - at)
		return NULL;
	used = at + size;
	return heap + at;
}

#ifndef LOADED_PART
static volatile long frees;

void free(void *p)
{
	if (p)
		frees++;
}
#endif
#endif
