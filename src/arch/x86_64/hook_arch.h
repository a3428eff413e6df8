/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_arch.h: what the hook needs of this CPU. Freestanding: it runs inside the target.
 */
#ifndef HT_ARCH_HOOK_ARCH_H
#define HT_ARCH_HOOK_ARCH_H

#include <stddef.h>
#include <stdint.h>

/* What hook_entry.S pushes; the C code gets a pointer to it. */
struct ht_hook_frame {
	uint64_t args[6];	/* rdi rsi rdx rcx r8 r9 */
	uint64_t result;	/* rax: as it came in, and what the caller will get */
	uint64_t bx, bp, r12, r13, r14, r15;
	const struct ht_entry *entry;	/* r11, set by the stub */
	uint64_t pc;		/* return address */
};
_Static_assert(offsetof(struct ht_hook_frame, result) == 6 * 8, "hook_entry.S");
_Static_assert(offsetof(struct ht_hook_frame, entry) == 13 * 8, "hook_entry.S");
_Static_assert(sizeof(struct ht_hook_frame) == 15 * 8, "hook_entry.S");

static inline uint64_t ht_hook_thread_pointer(void)
{
	uint64_t tp;

	/* Both glibc and musl keep the address of the block in its first word. */
	__asm__ volatile("mov %%fs:0, %0" : "=r"(tp));
	return tp;
}

/* Copy whole words: @bytes rounded down to 8. Its reads are all in [from, from + bytes). */
static inline void ht_hook_copy(void *to, uint64_t from, uint64_t bytes)
{
	uint64_t words = bytes / 8;

	/* The ABI says that DF is clear. */
	__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
}

static inline void ht_hook_pause(void)
{
	__asm__ volatile("pause");
}

static inline long ht_hook_syscall(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
				   uint64_t e, uint64_t f)
{
	register uint64_t r10 __asm__("r10") = d;
	register uint64_t r8 __asm__("r8") = e;
	register uint64_t r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

#define HT_NR_FSTAT 5
#define HT_NR_NANOSLEEP 35
#define HT_NR_GETPID 39
#define HT_NR_SENDTO 44
#define HT_NR_GETTID 186
#define HT_NR_CLOCK_GETTIME 228
#define HT_NR_PROCESS_VM_READV 310
#define HT_CLOCK_MONOTONIC 1
#define HT_ESRCH 3
#define HT_EINTR 4
#define HT_EAGAIN 11
#define HT_ENOMEM 12
#define HT_ENOBUFS 105

/* What fstat(2) writes: it begins with the device and the inode. */
struct ht_hook_stat {
	uint64_t device, inode;
	uint64_t rest[16];
};
_Static_assert(sizeof(struct ht_hook_stat) == 144, "struct stat");

#endif
