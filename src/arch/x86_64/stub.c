/* SPDX-License-Identifier: Apache-2.0
 *
 * stub.c: see stub.h. Encodings by hand: there are twenty, and each is in the comment of
 * its line.
 */
#include "arch/stub.h"

#include <errno.h>
#include <string.h>

#define ENTRY_LEN sizeof(struct ht_entry)

struct code {
	uint8_t bytes[HT_STUB_MAX];
	size_t len;
	size_t slow_fixups[4];	/* rel32 fields that lead to slow */
	unsigned n_fixups;
};

static void put(struct code *c, const void *bytes, size_t len)
{
	memcpy(c->bytes + c->len, bytes, len);
	c->len += len;
}

#define PUT(c, ...)                                                                       \
	put(c, (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

static void put32(struct code *c, uint32_t v)
{
	put(c, &v, sizeof(v));
}

static void put64(struct code *c, uint64_t v)
{
	put(c, &v, sizeof(v));
}

/* jcc rel32 to slow, by condition code. */
static void jcc_slow(struct code *c, uint8_t condition)
{
	PUT(c, 0x0f, 0x80 | condition);
	c->slow_fixups[c->n_fixups++] = c->len;
	put32(c, 0);
}

enum { CC_B = 2, CC_AE = 3, CC_NE = 5 };

/* mov %rdi|%rsi|%rdx, %r11 */
static void mov_arg_r11(struct code *c, int arg)
{
	static const uint8_t modrm[] = { 0xfb, 0xf3, 0xd3 };

	PUT(c, 0x49, 0x89, modrm[arg]);
}

static void fast_countdown(struct code *c, const struct ht_stub *stub)
{
	PUT(c, 0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0);	/* mov %fs:0, %rax */
	PUT(c, 0x44, 0x69, 0xd0);				/* imul $HASH, %eax, %r10d */
	put32(c, HT_THREAD_HASH);
	PUT(c, 0x41, 0xc1, 0xea, HT_THREAD_SHIFT);		/* shr $SHIFT, %r10d */
	PUT(c, 0x49, 0xc1, 0xe2, 6);				/* shl $6, %r10 */
	PUT(c, 0x49, 0xbb);					/* movabs $threads, %r11 */
	put64(c, stub->threads);
	PUT(c, 0x4d, 0x01, 0xda);				/* add %r11, %r10 */
	PUT(c, 0x49, 0x39, 0x02);				/* cmp %rax, (%r10) */
	jcc_slow(c, CC_NE);
	mov_arg_r11(c, stub->arg);
	PUT(c, 0x49, 0x83, 0xfb, 1);				/* cmp $1, %r11 */
	PUT(c, 0x49, 0x83, 0xd3, 0);				/* adc $0, %r11 */
	PUT(c, 0x49, 0x8b, 0x42, 8);				/* mov 8(%r10), %rax */
	PUT(c, 0x4c, 0x29, 0xd8);				/* sub %r11, %rax */
	jcc_slow(c, CC_B);
	PUT(c, 0x49, 0x89, 0x42, 8);				/* mov %rax, 8(%r10) */
}

static void fast_min_size(struct code *c, const struct ht_stub *stub)
{
	mov_arg_r11(c, stub->arg);
	PUT(c, 0x48, 0xb8);					/* movabs $min, %rax */
	put64(c, stub->min_size);
	PUT(c, 0x49, 0x39, 0xc3);				/* cmp %rax, %r11 */
	jcc_slow(c, CC_AE);
}

/* ht_front_index() in machine code. */
static void fast_filter(struct code *c, const struct ht_stub *stub)
{
	static const uint8_t modrm[] = { 0xf8, 0xf0, 0xd0 };

	_Static_assert(HT_FRONT_BITS == 16, "movzwl");
	PUT(c, 0x89, modrm[stub->arg]);				/* mov %edi|%esi|%edx, %eax */
	PUT(c, 0xc1, 0xe8, 4);					/* shr $4, %eax */
	PUT(c, 0x0f, 0xb7, 0xc0);				/* movzwl %ax, %eax */
	PUT(c, 0x49, 0xba);					/* movabs $front, %r10 */
	put64(c, stub->filter + HT_FRONT_OFFSET);
	PUT(c, 0x41, 0x80, 0x3c, 0x02, 0);			/* cmpb $0, (%r10,%rax) */
	jcc_slow(c, CC_NE);
}

/* When that isn't sure: ht_filter_index(). */
static void second_look(struct code *c, const struct ht_stub *stub, size_t real)
{
	mov_arg_r11(c, stub->arg);
	PUT(c, 0x4c, 0x89, 0xd8);				/* mov %r11, %rax */
	PUT(c, 0x48, 0xc1, 0xe8, 4);				/* shr $4, %rax */
	PUT(c, 0x49, 0xc1, 0xeb, 24);				/* shr $24, %r11 */
	PUT(c, 0x44, 0x31, 0xd8);				/* xor %r11d, %eax */
	PUT(c, 0x25);						/* and $mask, %eax */
	put32(c, (1u << HT_FILTER_BITS) - 1);
	PUT(c, 0x41, 0x80, 0xbc, 0x02);				/* cmpb $0, filter-front(%r10,%rax) */
	put32(c, (uint32_t)-(int32_t)HT_FRONT_OFFSET);
	PUT(c, 0);
	PUT(c, 0x0f, 0x84);					/* je real */
	put32(c, (uint32_t)(int32_t)((int64_t)real - (int64_t)(c->len + 4)));
}

static void fast(struct code *c, const struct ht_stub *stub)
{
	switch (stub->fast) {
	case HT_FAST_COUNTDOWN:
		fast_countdown(c, stub);
		break;
	case HT_FAST_MIN_SIZE:
		fast_min_size(c, stub);
		break;
	case HT_FAST_FILTER:
		fast_filter(c, stub);
		break;
	case HT_FAST_NONE:
		PUT(c, 0xe9);					/* jmp slow */
		c->slow_fixups[c->n_fixups++] = c->len;
		put32(c, 0);
		break;
	}
}

size_t ht_stub_real_offset(const struct ht_stub *stub)
{
	struct code c = { .len = ENTRY_LEN };

	fast(&c, stub);
	return c.len;
}

/* Jumps to slow that were put so far lead here. */
static void slow_is_here(struct code *c)
{
	for (unsigned i = 0; i < c->n_fixups; i++) {
		int32_t rel = (int32_t)(c->len - (c->slow_fixups[i] + 4));

		memcpy(c->bytes + c->slow_fixups[i], &rel, sizeof(rel));
	}
	c->n_fixups = 0;
}

static void slow(struct code *c, const struct ht_stub *stub)
{
	slow_is_here(c);
	PUT(c, 0x4c, 0x8d, 0x1d);				/* lea entry(%rip), %r11 */
	put32(c, (uint32_t)-(int32_t)(c->len + 4));
	PUT(c, 0xff, 0x25);					/* jmp *hook(%rip) */
	put32(c, (uint32_t)(stub->hook_pointer - (stub->at + c->len + 4)));
}

int ht_stub_emit(const struct ht_stub *stub, struct ht_entry *entry,
		 const struct ht_moved *moved, uint8_t *out)
{
	struct code c = { .len = ENTRY_LEN };
	uint8_t jump[HT_JUMP_LEN];
	ht_addr_t back = moved->patch_addr + moved->replaced_len;

	fast(&c, stub);
	entry->real = stub->at + c.len;
	put(&c, moved->bytes, moved->len);
	if (!moved->jumps_away) {
		if (!ht_encode_jump(jump, stub->at + c.len, back))
			return -ERANGE;
		put(&c, jump, sizeof(jump));
	}
	if (stub->fast == HT_FAST_FILTER) {
		slow_is_here(&c);
		second_look(&c, stub, entry->real - stub->at);
	}
	slow(&c, stub);
	memset(c.bytes + c.len, 0xcc, sizeof(c.bytes) - c.len);
	memcpy(c.bytes, entry, sizeof(*entry));
	memcpy(out, c.bytes, sizeof(c.bytes));
	return 0;
}
