/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_bare: a static program without any library. Prints READY, exits at EOF. Built as
 *
 *	(nothing)	it has no malloc
 *	BARE_MALLOC	it has one, and a free that can't be patched
 *	BARE_ALONE	it has a malloc and nothing to free by
 *	BARE_GO		Go's linker has left its mark
 */
static long call3(long nr, long a, const void *b, long c)
{
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return r;
}

#ifdef BARE_GO
__attribute__((used)) static char mark[] = "\xff Go buildinf:";
#endif

#if defined(BARE_MALLOC) || defined(BARE_ALONE)
void *malloc(unsigned long size);
void free(void *p);
static unsigned long used;

__attribute__((noinline)) static unsigned long take(unsigned long size)
{
	return used += size;
}

void *malloc(unsigned long size)
{
	static char heap[4096];

	__asm__ volatile("" ::: "memory");
	return size < 64 ? heap + take(size) : (void *)0;
}

#ifdef BARE_ALONE
#define free(p) ((void)(p))
#else
/* Shorter than a jump. */
__attribute__((naked)) void free(void *p)
{
	__asm__("ret");
}
#endif
#endif

__attribute__((noreturn, used)) static void run(void)
{
	char byte;

#if defined(BARE_MALLOC) || defined(BARE_ALONE)
	free(malloc(1));
#endif
	call3(1, 1, "READY\n", 6);
	while (call3(0, 0, &byte, 1) > 0)
		;
	call3(231, 0, 0, 0);
	__builtin_unreachable();
}

__asm__(".globl _start\n_start: xor %ebp, %ebp\n and $-16, %rsp\n call run\n hlt\n");
