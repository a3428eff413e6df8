/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_victim: a program with entries that a plan must tell apart, built several times:
 *
 *	(nothing)	no allocator of its own
 *	VICTIM_ASM	a good malloc and free, and small functions of all kinds under names
 *			of entries
 *	VICTIM_IFUNC	a library: malloc is chosen at run time; another entry is as well, but
 *			nobody is bound to it
 *	VICTIM_BROKEN	malloc begins with a call
 *	VICTIM_OWN	a malloc and free of its own, which call nothing but what sets errno
 *	VICTIM_WRAPPER	malloc and free hand on to libc's, found by dlsym()
 *	VICTIM_ASAN	it seems to run with AddressSanitizer
 *
 * Prints "READY" and malloc's address; exits at EOF.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef VICTIM_ASAN
void __asan_init(void);

void __asan_init(void)
{
}
#endif

#if defined(VICTIM_ASM) || defined(VICTIM_IFUNC) || defined(VICTIM_BROKEN) || \
	defined(VICTIM_OWN)
static char heap[1 << 20] __attribute__((aligned(16)));
static size_t used;
static volatile long frees;

static void *bump(size_t size)
{
	size_t at = used;

	size = (size + 15) & ~(size_t)15;
	if (size > sizeof(heap) - at) {
		errno = ENOMEM;
		return NULL;
	}
	used = at + size;
	return heap + at;
}

void free(void *p)
{
	if (p)
		frees++;
}

void *realloc(void *p, size_t size)
{
	char *to = bump(size), *from = p;

	for (size_t i = 0; to && from && i < size && from + i < heap + sizeof(heap); i++)
		to[i] = from[i];
	return to;
}

void *calloc(size_t n, size_t size)
{
	return bump(n * size);
}
#endif

#if defined(VICTIM_ASM) || defined(VICTIM_OWN)
void *malloc(size_t size)
{
	return bump(size);
}
#endif

#ifdef VICTIM_ASM
#define FN(name) ".globl " name "\n.type " name ", @function\n" name ":\n"
#define END(name) ".size " name ", . - " name "\n"
#define OF_SIZE(name, size) FN(name) ".skip " #size " - 1, 0x90\n ret\n" END(name)

__asm__(".text\n"
	".globl mi_malloc\n.set mi_malloc, malloc\n"
	/* 1 to 16 bytes, back to back. */
	".p2align 8\n"
	OF_SIZE("mi_zalloc", 1)
	OF_SIZE("mi_mallocn", 2)
	OF_SIZE("mi_reallocn", 3)
	OF_SIZE("mi_reallocf", 4)
	OF_SIZE("mi_rezalloc", 5)
	OF_SIZE("mi_recalloc", 6)
	OF_SIZE("mi_malloc_aligned", 7)
	OF_SIZE("mi_zalloc_aligned", 8)
	OF_SIZE("mi_calloc_aligned", 9)
	OF_SIZE("mi_realloc_aligned", 10)
	OF_SIZE("mi_rezalloc_aligned", 11)
	OF_SIZE("mi_memalign", 12)
	OF_SIZE("mi_aligned_alloc", 13)
	OF_SIZE("mi_valloc", 14)
	OF_SIZE("mi_pvalloc", 15)
	OF_SIZE("mi_new_nothrow", 16)
	/* Another function enters at +3, in the moved bytes. */
	".p2align 8\n"
	FN("mi_malloc_small") "mov %rdi, %rax\n mov %rdi, %rdx\n nop\n ret\n"
	END("mi_malloc_small")
	".p2align 4\n"
	"1: .cfi_startproc\n xor %edi, %edi\n jmp mi_malloc_small + 3\n .cfi_endproc\n"
	/* Another one enters at +5, just behind them. */
	".p2align 8\n"
	FN("mi_zalloc_small") "mov %rdi, %rax\n nop\n nop\n mov %rax, %rdx\n ret\n"
	END("mi_zalloc_small")
	".p2align 4\n"
	"xor %edi, %edi\n jmp mi_zalloc_small + 5\n"
	/* The same bytes as an immediate, where unwind data shows that it is one. */
	".p2align 8\n"
	FN("mi_heap_zalloc") "mov %rdi, %rax\n mov %rdi, %rdx\n nop\n ret\n"
	END("mi_heap_zalloc")
	".p2align 4\n"
	".cfi_startproc\n"
	"2: .byte 0x48, 0xb8, 0xe9\n .long mi_heap_zalloc + 3 - (. + 4)\n .byte 0, 0, 0\n"
	"ret\n"
	".cfi_endproc\n"
	/* Its own loop goes back to +3. */
	".p2align 8\n"
	FN("mi_heap_malloc") "xor %rax, %rax\n inc %rax\n cmp %rdi, %rax\n"
	"jne mi_heap_malloc + 3\n ret\n" END("mi_heap_malloc")
	/* A call among the first bytes. */
	".p2align 8\n"
	FN("mi_expand") "push %rbx\n call malloc\n pop %rbx\n ret\n" END("mi_expand")
	/* Bare jumps: to a patched entry, to a refused one, to something else. */
	".p2align 8\n"
	FN("mi_free") "jmp free\n" END("mi_free")
	".p2align 8\n"
	FN("mi_heap_calloc") "jmp mi_expand\n" END("mi_heap_calloc")
	".p2align 8\n"
	FN("mi_heap_mallocn") "jmp 1b\n" END("mi_heap_mallocn")
	/* Throws, alone; throws, and goes through malloc; throws, with a sibling that is a
	 * bare jump. */
	".p2align 8\n"
	FN("_Znwm") "mov %rdi, %rax\n mov %rdi, %rdx\n ret\n" END("_Znwm")
	".p2align 8\n"
	FN("_Znam") "push %rbx\n mov %rdi, %rbx\n sub $16, %rsp\n call malloc\n"
	"add $16, %rsp\n pop %rbx\n ret\n" END("_Znam")
	".p2align 8\n"
	FN("_ZnwmSt11align_val_t") "mov %rdi, %rax\n mov %rdi, %rdx\n ret\n"
	END("_ZnwmSt11align_val_t")
	".p2align 8\n"
	FN("_ZnwmSt11align_val_tRKSt9nothrow_t") "jmp mi_new_nothrow\n"
	END("_ZnwmSt11align_val_tRKSt9nothrow_t")
	/* The eight bytes cross a page. */
	".p2align 12\n.skip 4089\n"
	FN("mi_realloc") "mov %rdi, %rax\n mov %rdi, %rdx\n nop\n ret\n" END("mi_realloc")
	".p2align 8\n"
	/* endbr64 stays. */
	FN("mi_calloc") "endbr64\n mov %rdi, %rax\n mov %rdi, %rdx\n nop\n ret\n"
	END("mi_calloc"));
#endif

#ifdef VICTIM_IFUNC
static void *chosen(size_t size)
{
	frees--;
	return bump(size);
}

__attribute__((used)) static void *(*choose(void))(size_t)
{
	return chosen;
}

__attribute__((used)) static void *(*choose_other(void))(size_t)
{
	return bump;
}

void *malloc(size_t size) __attribute__((ifunc("choose")));
void *je_calloc(size_t size) __attribute__((ifunc("choose_other")));
#endif

#ifdef VICTIM_BROKEN
__asm__(".text\n.globl malloc\n.type malloc, @function\n"
	"malloc: push %rbx\n call bump\n pop %rbx\n ret\n"
	".size malloc, . - malloc\n");
/* The call above is none that the compiler sees. */
void *(*const volatile keep)(size_t) = bump;
#endif

#ifdef VICTIM_WRAPPER
static volatile long calls;

/* The pointers are called where a look at malloc and free alone doesn't find them. */
static __attribute__((noinline)) void *call_malloc(size_t size)
{
	static void *(*next)(size_t);

	if (!next)
		next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	return next(size);
}

static __attribute__((noinline)) void call_free(void *p)
{
	static void (*next)(void *);

	if (!next)
		next = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	next(p);
}

void *malloc(size_t size)
{
	void *p;

	calls++;
	p = call_malloc(size);
	calls++;
	return p;
}

void free(void *p)
{
	calls++;
	call_free(p);
	calls++;
}
#endif

int main(void)
{
	char byte;

	free(malloc(1));
	printf("READY %lx\n", (unsigned long)(uintptr_t)malloc);
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
