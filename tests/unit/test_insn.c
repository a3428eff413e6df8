/* SPDX-License-Identifier: Apache-2.0
 *
 * test_insn.c: the mover against bytes of real allocators, by running what it moved, and
 * against every function of the C library.
 */
#include "arch/arch.h"

#include <Zydis/Zydis.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ht_check.h"

#define ENTRY UINT64_C(0x100000)
#define MOVED UINT64_C(0x200000)

struct golden {
	const char *what;
	const char *code;
	size_t len;
	enum ht_insn_refusal refusal;
	unsigned skip;		/* patch_addr - entry */
	unsigned replaced;
	const char *moved;
	size_t moved_len;
	bool away;
};

#define BYTES(s) s, sizeof(s) - 1

static const struct golden goldens[] = {
	{ "glibc malloc: pushes, mov", BYTES("\x41\x54\x55\x53\x48\x89\xfb\x48\x83\xec\x10"),
	  HT_INSN_OK, 0, 7, BYTES("\x41\x54\x55\x53\x48\x89\xfb"), false },
	{ "glibc free: test, je rel32",
	  BYTES("\x48\x85\xff\x0f\x84\xbf\x00\x00\x00\x55\x53\xc3"), HT_INSN_OK, 0, 9,
	  /* to 0x1000c8, from 0x200009 */
	  BYTES("\x48\x85\xff\x0f\x84\xbf\x00\xf0\xff"), false },
	{ "glibc memalign: cmpb imm8 behind a rip-relative disp",
	  BYTES("\x80\x3d\x71\x0e\x14\x00\x00\x74\x07\xe9\x32\xf6\xff\xff"), HT_INSN_OK, 0, 7,
	  BYTES("\x80\x3d\x71\x0e\x04\x00\x00"), false },
	{ "jemalloc malloc: cmp imm32",
	  BYTES("\x48\x81\xff\x00\x10\x00\x00\x0f\x87\x93\x00\x00\x00"), HT_INSN_OK, 0, 7,
	  BYTES("\x48\x81\xff\x00\x10\x00\x00"), false },
	{ "jemalloc _ZdlPv: a bare jmp", BYTES("\xe9\xeb\xaf\xf5\xff"), HT_INSN_OK, 0, 5,
	  BYTES("\xe9\xeb\xaf\xe5\xff"), true },
	{ "jemalloc rallocx: xor, jmp", BYTES("\x31\xc9\xe9\xe9\x1c\xff\xff"), HT_INSN_OK, 0, 7,
	  BYTES("\x31\xc9\xe9\xe9\x1c\xef\xff"), true },
	{ "tcmalloc free: mov rip-relative",
	  BYTES("\x48\x8b\x05\x59\xb1\x1b\x00\x48\x85\xc0\x0f\x85\x90\x00\x00\x00"), HT_INSN_OK, 0,
	  7, BYTES("\x48\x8b\x05\x59\xb1\x0b\x00"), false },
	{ "mimalloc mi_free: je rel8 is outside",
	  BYTES("\x48\x89\xf9\x48\x85\xff\x74\x5d\x48\x8d\x7f\xff"), HT_INSN_OK, 0, 6,
	  BYTES("\x48\x89\xf9\x48\x85\xff"), false },
	{ "tcmalloc malloc_usable_size: a call",
	  BYTES("\x55\x48\x89\xfd\xe8\x57\x04\xff\xff\x48\x89\xee"), HT_INSN_CALL },
	{ "endbr64 stays", BYTES("\xf3\x0f\x1e\xfa\x41\x54\x55\x53\x48\x89\xfb\xc3"), HT_INSN_OK, 4,
	  7, BYTES("\x41\x54\x55\x53\x48\x89\xfb"), false },
	{ "test, je rel8 widened", BYTES("\x48\x85\xff\x74\x10\x90\xc3"), HT_INSN_OK, 0, 5,
	  /* to 0x100015 from 0x200009 */
	  BYTES("\x48\x85\xff\x0f\x84\x0c\x00\xf0\xff"), false },
	{ "jg rel8 then jle rel8 then nop", BYTES("\x7f\x20\x7e\x20\x90\xc3"), HT_INSN_OK, 0, 5,
	  BYTES("\x0f\x8f\x1c\x00\xf0\xff\x0f\x8e\x18\x00\xf0\xff\x90"), false },
	{ "nop3, jmp rel8 widened", BYTES("\x0f\x1f\x00\xeb\x20"), HT_INSN_OK, 0, 5,
	  BYTES("\x0f\x1f\x00\xe9\x1d\x00\xf0\xff"), true },
	{ "lea rip-relative", BYTES("\x48\x8d\x05\x10\x00\x00\x00\xc3"), HT_INSN_OK, 0, 7,
	  BYTES("\x48\x8d\x05\x10\x00\xf0\xff"), false },
	{ "movl imm32 behind a rip-relative disp",
	  BYTES("\xc7\x05\x00\x01\x00\x00\x78\x56\x34\x12\xc3"), HT_INSN_OK, 0, 10,
	  BYTES("\xc7\x05\x00\x01\xf0\xff\x78\x56\x34\x12"), false },
	{ "jmp *mem(%rip)", BYTES("\xff\x25\x00\x01\x00\x00"), HT_INSN_OK, 0, 6,
	  BYTES("\xff\x25\x00\x01\xf0\xff"), true },
	{ "bnd jmp *mem(%rip) behind endbr64", BYTES("\xf3\x0f\x1e\xfa\xf2\xff\x25\x00\x01\x00\x00"),
	  HT_INSN_OK, 4, 7, BYTES("\xf2\xff\x25\x04\x01\xf0\xff"), true },
	{ "vmovups rip-relative (VEX)", BYTES("\xc5\xf8\x10\x05\x00\x01\x00\x00\xc3"), HT_INSN_OK, 0,
	  8, BYTES("\xc5\xf8\x10\x05\x00\x01\xf0\xff"), false },
	{ "a store to an address in a SIB with no base is not rip-relative",
	  BYTES("\x48\x8b\x04\x25\x00\x01\x00\x00\xc3"), HT_INSN_OK, 0, 8,
	  BYTES("\x48\x8b\x04\x25\x00\x01\x00\x00"), false },
	{ "mov imm32, ret", BYTES("\xb8\x01\x00\x00\x00\xc3"), HT_INSN_OK, 0, 5,
	  BYTES("\xb8\x01\x00\x00\x00"), false },
	{ "ret", BYTES("\xc3"), HT_INSN_TOO_SHORT },
	{ "endbr64, ret", BYTES("\xf3\x0f\x1e\xfa\xc3"), HT_INSN_TOO_SHORT },
	{ "xor, ret, padding", BYTES("\x31\xc0\xc3\x90\x90\x90\x90\x90"), HT_INSN_TOO_SHORT },
	{ "jmp rel8, padding", BYTES("\xeb\x20\x90\x90\x90\x90\x90"), HT_INSN_TOO_SHORT },
	{ "empty", BYTES(""), HT_INSN_TOO_SHORT },
	{ "no instruction", BYTES("\x06\x06\x06\x06\x06\x06\x06\x06"), HT_INSN_UNDECODABLE },
	{ "cut instruction", BYTES("\x48\x81\xff\x00\x10"), HT_INSN_UNDECODABLE },
	{ "call *%rax", BYTES("\xff\xd0\x90\x90\x90\xc3"), HT_INSN_CALL },
	{ "call *mem(%rip)", BYTES("\xff\x15\x00\x00\x00\x00\xc3"), HT_INSN_CALL },
	{ "loop", BYTES("\x90\x90\xe2\x20\x90\x90\xc3"), HT_INSN_NOT_MOVABLE },
	{ "jrcxz", BYTES("\x90\x90\xe3\x20\x90\x90\xc3"), HT_INSN_NOT_MOVABLE },
	{ "syscall", BYTES("\x31\xc0\x0f\x05\xc3\x90"), HT_INSN_NOT_MOVABLE },
	{ "int3", BYTES("\xcc\x90\x90\x90\x90\xc3"), HT_INSN_NOT_MOVABLE },
	{ "int 0x80", BYTES("\xcd\x80\x90\x90\x90\xc3"), HT_INSN_NOT_MOVABLE },
	{ "ud2", BYTES("\x0f\x0b\x90\x90\x90\xc3"), HT_INSN_NOT_MOVABLE },
	{ "xbegin", BYTES("\xc7\xf8\x20\x00\x00\x00\xc3"), HT_INSN_NOT_MOVABLE },
	{ "jmp rel16", BYTES("\x66\xe9\x20\x00\x00\x00"), HT_INSN_NOT_MOVABLE },
	{ "eip-relative", BYTES("\x67\x48\x8b\x05\x00\x01\x00\x00\xc3"), HT_INSN_NOT_MOVABLE },
	{ "loop back to entry+3", BYTES("\x48\x31\xc0\x48\xff\xc0\x48\x39\xf8\x75\xf8\xc3"),
	  HT_INSN_BRANCH_BACK },
	{ "loop back to the entry is the jump's own start",
	  BYTES("\x48\xff\xcf\x48\x85\xff\x75\xf8\xc3"), HT_INSN_OK, 0, 6,
	  BYTES("\x48\xff\xcf\x48\x85\xff"), false },
	{ "loop back to just behind the moved ones",
	  BYTES("\x48\x31\xc0\x90\x90\x48\xff\xc0\x48\x39\xf8\x75\xf8\xc3"), HT_INSN_OK, 0, 5,
	  BYTES("\x48\x31\xc0\x90\x90"), false },
	{ "a branch within the moved ones", BYTES("\x74\x01\x90\x48\x31\xc0\xc3"),
	  HT_INSN_BRANCH_BACK },
	{ "a branch back hidden behind a byte that doesn't decode",
	  BYTES("\x48\x31\xc0\x90\x90\xc3\x06\xeb\xfa"), HT_INSN_BRANCH_BACK },
};

static void check_golden(const struct golden *g)
{
	struct ht_moved m = { 0 };
	enum ht_insn_refusal r;
	uint8_t code[64];

	/* Exactly as long as it is, so that ASan sees a read too far. */
	ck_assert_uint_le(g->len, sizeof(code));
	memcpy(code + sizeof(code) - g->len, g->code, g->len);
	r = ht_insn_move(code + sizeof(code) - g->len, g->len, ENTRY, MOVED, &m);
	ck_assert_msg(r == g->refusal, "%s: %s", g->what, ht_insn_refusal_text(r));
	if (r)
		return;
	ck_assert_msg(m.patch_addr == ENTRY + g->skip, "%s: patch_addr", g->what);
	ck_assert_msg(m.replaced_len == g->replaced, "%s: %u replaced", g->what, m.replaced_len);
	ck_assert_msg(m.jumps_away == g->away, "%s: jumps_away", g->what);
	ck_assert_msg(m.len == g->moved_len, "%s: moved %u", g->what, m.len);
	ck_assert_msg(!memcmp(m.bytes, g->moved, m.len), "%s: moved bytes", g->what);
}

START_TEST(moves_and_refuses_golden_bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(goldens); i++)
		check_golden(&goldens[i]);
}
END_TEST

START_TEST(page_crossing_is_about_eight_bytes)
{
	static const uint8_t plain[] = { 0x41, 0x54, 0x55, 0x53, 0x48, 0x89, 0xfb, 0xc3 };
	static const uint8_t endbr[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x54,
					 0x55, 0x53, 0x90, 0xc3 };
	struct ht_moved m;

	ck_assert_int_eq(ht_insn_move(plain, sizeof(plain), 0x1ff8, MOVED, &m), HT_INSN_OK);
	ck_assert_int_eq(ht_insn_move(plain, sizeof(plain), 0x1ff9, MOVED, &m),
			 HT_INSN_PAGE_CROSSING);
	ck_assert_int_eq(ht_insn_move(plain, sizeof(plain), 0x1fff, MOVED, &m),
			 HT_INSN_PAGE_CROSSING);
	ck_assert_int_eq(ht_insn_move(plain, sizeof(plain), 0x2000, MOVED, &m), HT_INSN_OK);
	/* The write is behind the endbr64. */
	ck_assert_int_eq(ht_insn_move(endbr, sizeof(endbr), 0x1ff4, MOVED, &m), HT_INSN_OK);
	ck_assert_int_eq(ht_insn_move(endbr, sizeof(endbr), 0x1ff5, MOVED, &m),
			 HT_INSN_PAGE_CROSSING);
	ck_assert_int_eq(ht_insn_move(endbr, sizeof(endbr), 0x1ffc, MOVED, &m), HT_INSN_OK);
}
END_TEST

START_TEST(out_of_reach_is_refused)
{
	static const uint8_t lea[] = { 0x48, 0x8d, 0x05, 0, 0, 0, 0, 0xc3 };
	static const uint8_t jcc[] = { 0x48, 0x85, 0xff, 0x74, 0x10, 0xc3 };
	uint64_t far = ENTRY + (UINT64_C(1) << 31);
	struct ht_moved m;
	uint8_t jump[HT_JUMP_LEN];

	ck_assert_int_eq(ht_insn_move(lea, sizeof(lea), ENTRY, far - 16, &m), HT_INSN_OK);
	ck_assert_int_eq(ht_insn_move(lea, sizeof(lea), ENTRY, far + 16, &m),
			 HT_INSN_NOT_MOVABLE);
	ck_assert_int_eq(ht_insn_move(jcc, sizeof(jcc), ENTRY, far + 4096, &m),
			 HT_INSN_NOT_MOVABLE);
	ck_assert(ht_encode_jump(jump, ENTRY, ENTRY + HT_JUMP_LEN + INT32_MAX));
	ck_assert(!ht_encode_jump(jump, ENTRY, ENTRY + HT_JUMP_LEN + INT32_MAX + UINT64_C(1)));
	ck_assert(ht_encode_jump(jump, far * 2, far + HT_JUMP_LEN + ENTRY));
	ck_assert(ht_encode_jump(jump, 0x1000, 0x1000));
	ck_assert_mem_eq(jump, "\xe9\xfb\xff\xff\xff", sizeof(jump));
}
END_TEST

static void ignore(void *arg, const struct ht_flow *flow)
{
}

/* Random bytes, each length on its own heap block: nothing is read beyond it. */
START_TEST(any_bytes_are_survived)
{
	uint64_t x = 88172645463325252u;

	for (int round = 0; round < 20000; round++) {
		size_t len = round % 40;
		uint8_t *code = malloc(len ? len : 1);
		struct ht_moved m;
		ht_addr_t target;
		bool indirect;

		for (size_t i = 0; i < len; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			code[i] = x & 0xff;
		}
		(void)ht_insn_move(code, len, ENTRY, MOVED, &m);
		(void)ht_insn_flow(code, len, ENTRY, ignore, NULL);
		(void)ht_insn_is_forwarder(code, len, ENTRY, &target, &indirect);
		(void)ht_insn_is_wrapper(code, len, ENTRY, &target, &indirect);
		free(code);
	}
}
END_TEST

struct seen {
	struct ht_flow flows[16];
	size_t n;
};

static void see(void *arg, const struct ht_flow *flow)
{
	struct seen *seen = arg;

	ck_assert_uint_lt(seen->n, ARRAY_SIZE(seen->flows));
	seen->flows[seen->n++] = *flow;
}

START_TEST(flow_tells_where_branches_go)
{
	static const uint8_t code[] = {
		0x74, 0x10,				/* 00 je +0x10 */
		0xe8, 0x00, 0x01, 0x00, 0x00,		/* 02 call */
		0xff, 0x15, 0x00, 0x02, 0x00, 0x00,	/* 07 call *mem(%rip) */
		0xff, 0x25, 0x00, 0x03, 0x00, 0x00,	/* 0d jmp *mem(%rip) */
		0xff, 0xd0,				/* 13 call *%rax */
		0x3e, 0xff, 0xe0,			/* 15 notrack jmp *%rax */
		0x64, 0xff, 0x14, 0x25, 0, 0, 0, 0,	/* 18 call *%fs:0 */
		0xe3, 0x00,				/* 20 jrcxz */
		0xc3,					/* 22 ret */
	};
	struct seen seen = { .n = 0 };

	ck_ok(ht_insn_flow(code, sizeof(code), ENTRY, see, &seen));
	ck_assert_uint_eq(seen.n, 8);
	ck_assert_int_eq(seen.flows[0].kind, HT_FLOW_JUMP);
	ck_assert_uint_eq(seen.flows[0].target, ENTRY + 0x12);
	ck_assert_int_eq(seen.flows[1].kind, HT_FLOW_CALL);
	ck_assert_uint_eq(seen.flows[1].target, ENTRY + 0x107);
	ck_assert_int_eq(seen.flows[2].kind, HT_FLOW_SLOT);
	ck_assert_uint_eq(seen.flows[2].target, ENTRY + 0x20d);
	ck_assert_int_eq(seen.flows[3].kind, HT_FLOW_SLOT);
	ck_assert_uint_eq(seen.flows[3].target, ENTRY + 0x313);
	ck_assert_int_eq(seen.flows[4].kind, HT_FLOW_UNKNOWN);
	ck_assert_uint_eq(seen.flows[4].pc, ENTRY + 0x13);
	ck_assert_int_eq(seen.flows[5].kind, HT_FLOW_UNKNOWN);
	ck_assert_int_eq(seen.flows[6].kind, HT_FLOW_UNKNOWN);
	ck_assert_int_eq(seen.flows[7].kind, HT_FLOW_JUMP);
	ck_assert_uint_eq(seen.flows[7].target, ENTRY + 0x22);

	seen.n = 0;
	ck_assert_int_eq(ht_insn_flow(BYTES((const uint8_t *)"\x74\x00\x06"), ENTRY, see, &seen),
			 -EILSEQ);
	ck_assert_uint_eq(seen.n, 1);
}
END_TEST

START_TEST(forwarders_are_bare_jumps)
{
	ht_addr_t to;
	bool indirect;

#define FWD(s) ht_insn_is_forwarder((const uint8_t *)s, sizeof(s) - 1, ENTRY, &to, &indirect)
	ck_assert(FWD("\xe9\x00\x01\x00\x00"));
	ck_assert_uint_eq(to, ENTRY + 0x105);
	ck_assert(!indirect);
	ck_assert(FWD("\xf3\x0f\x1e\xfa\xe9\x00\x01\x00\x00"));
	ck_assert_uint_eq(to, ENTRY + 0x109);
	ck_assert(FWD("\xeb\x10"));
	ck_assert_uint_eq(to, ENTRY + 0x12);
	ck_assert(FWD("\xff\x25\x00\x01\x00\x00"));
	ck_assert_uint_eq(to, ENTRY + 0x106);
	ck_assert(indirect);
	ck_assert(FWD("\xf3\x0f\x1e\xfa\xf2\xff\x25\x00\x01\x00\x00\x0f\x1f\x44\x00\x00"));
	ck_assert_uint_eq(to, ENTRY + 0x10b);
	ck_assert(indirect);
	ck_assert(!FWD("\x74\x10"));
	ck_assert(!FWD("\xff\xe0"));
	ck_assert(!FWD("\xff\x15\x00\x01\x00\x00"));
	ck_assert(!FWD("\xe8\x00\x01\x00\x00"));
	ck_assert(!FWD("\x31\xc9\xe9\x00\x01\x00\x00"));
	ck_assert(!FWD("\xc3"));
	ck_assert(!FWD("\xe9\x00"));
	ck_assert(!FWD(""));
#undef FWD
}
END_TEST

START_TEST(wrappers_only_pass_on)
{
	ht_addr_t to;
	bool indirect;

#define WRAPS(s) ht_insn_is_wrapper((const uint8_t *)s, sizeof(s) - 1, ENTRY, &to, &indirect)
	/* endbr64; sub $8,%rsp; call; add $8,%rsp; ret; and a landing pad. */
	ck_assert(WRAPS("\xf3\x0f\x1e\xfa\x48\x83\xec\x08\xe8\x00\x01\x00\x00\x48\x83\xc4\x08\xc3"
			"\xf3\x0f\x1e\xfa\x48\x89\xc7\xe9\x00\x00\x00\x00"));
	ck_assert_uint_eq(to, ENTRY + 0x10d);
	ck_assert(!indirect);
	/* push %rbx; mov %rdi,%rbx; call *slot; pop %rbx; ret */
	ck_assert(WRAPS("\x53\x48\x89\xfb\xff\x15\x00\x01\x00\x00\x5b\xc3"));
	ck_assert_uint_eq(to, ENTRY + 0x10a);
	ck_assert(indirect);
	/* For some sizes only: cmp $64,%rdi; ja; and cmova into an argument. */
	ck_assert(!WRAPS("\x48\x83\xff\x40\x77\x06\xe8\x00\x01\x00\x00\xc3"));
	ck_assert(!WRAPS("\x48\x83\xff\x40\x48\x0f\x47\xfe\xe8\x00\x01\x00\x00\xc3"));
	/* Other arguments: add $16,%rdi; mov $8,%sil; xor %edx,%edx; pop %rcx. */
	ck_assert(!WRAPS("\x48\x83\xc7\x10\xe8\x00\x01\x00\x00\xc3"));
	ck_assert(!WRAPS("\x40\xb6\x08\xe8\x00\x01\x00\x00\xc3"));
	ck_assert(!WRAPS("\x31\xd2\xe8\x00\x01\x00\x00\xc3"));
	ck_assert(!WRAPS("\x59\xe8\x00\x01\x00\x00\xc3"));
	/* Another result: add $16,%rax; mov %ebx,%eax; cpuid. */
	ck_assert(!WRAPS("\xe8\x00\x01\x00\x00\x48\x83\xc0\x10\xc3"));
	ck_assert(!WRAPS("\xe8\x00\x01\x00\x00\x89\xd8\xc3"));
	ck_assert(!WRAPS("\xe8\x00\x01\x00\x00\x0f\xa2\xc3"));
	/* Two calls, one through a register, a system call, a jump behind, no return, no call. */
	ck_assert(!WRAPS("\xe8\x00\x01\x00\x00\xe8\x00\x01\x00\x00\xc3"));
	ck_assert(!WRAPS("\xff\xd0\xc3"));
	ck_assert(!WRAPS("\x0f\x05\xe8\x00\x01\x00\x00\xc3"));
	ck_assert(!WRAPS("\xe8\x00\x01\x00\x00\xeb\x10"));
	ck_assert(!WRAPS("\xe8\x00\x01\x00\x00\x74\x01\xc3"));
	ck_assert(!WRAPS("\xe8\x00\x01\x00\x00"));
	ck_assert(!WRAPS("\xe8\x00\x01\x00\x00\x06\xc3"));
	ck_assert(!WRAPS("\x66\xe8\x00\x01\x00\x00\xc3"));
	ck_assert(!WRAPS("\xc3"));
	ck_assert(!WRAPS(""));
#undef WRAPS
}
END_TEST

struct hits {
	ht_addr_t pc[16];
	ht_addr_t target[16];
	size_t n;
};

static void hit(void *arg, ht_addr_t pc, ht_addr_t target)
{
	struct hits *hits = arg;

	ck_assert_uint_lt(hits->n, ARRAY_SIZE(hits->pc));
	hits->pc[hits->n] = pc;
	hits->target[hits->n++] = target;
}

START_TEST(scan_finds_every_branch_into_a_range)
{
	const struct ht_code_range ranges[] = { { ENTRY + 0x101, ENTRY + 0x105 },
						{ ENTRY + 0x201, ENTRY + 0x205 } };
	uint8_t code[0x400];
	struct hits hits = { .n = 0 };

	memset(code, 0x90, sizeof(code));
	memcpy(code + 0x10, "\xe9\xec\x00\x00\x00", 5);		/* jmp 0x101 */
	memcpy(code + 0x20, "\x0f\x84\xde\x01\x00\x00", 6);	/* je 0x204 */
	memcpy(code + 0x30, "\xe8\xcb\x00\x00\x00", 5);		/* call 0x100: the entry */
	memcpy(code + 0x40, "\xe8\xc0\x00\x00\x00", 5);		/* call 0x105: behind */
	memcpy(code + 0x110, "\xeb\xf2", 2);			/* jmp 0x104 */
	memcpy(code + 0x190, "\x75\x71", 2);			/* jne 0x203 */
	memcpy(code + 0x280, "\xe2\x81", 2);			/* loop 0x203 */
	memcpy(code + 0x3f8, "\xe9\x04\xfd\xff\xff", 5);	/* jmp 0x101 */
	memcpy(code + 0x350, "\xb8\xe8\xac\xfe\xff\xff", 6);	/* mov: a call 0x202 by accident */
	ht_insn_scan_into(code, sizeof(code), ENTRY, ranges, 2, hit, &hits);
	ck_assert_uint_eq(hits.n, 7);
	ck_assert_uint_eq(hits.pc[0], ENTRY + 0x10);
	ck_assert_uint_eq(hits.target[0], ENTRY + 0x101);
	ck_assert_uint_eq(hits.pc[1], ENTRY + 0x20);
	ck_assert_uint_eq(hits.pc[2], ENTRY + 0x351);
	ck_assert_uint_eq(hits.target[2], ENTRY + 0x202);
	ck_assert_uint_eq(hits.pc[3], ENTRY + 0x3f8);
	ck_assert_uint_eq(hits.pc[4], ENTRY + 0x110);
	ck_assert_uint_eq(hits.pc[5], ENTRY + 0x190);
	ck_assert_uint_eq(hits.pc[6], ENTRY + 0x280);
	/* The accident is told from the rest by decoding. */
	ck_assert_int_eq(ht_insn_boundary(code, sizeof(code), 0x351), 0);
	ck_assert_int_eq(ht_insn_boundary(code, sizeof(code), 0x350), 1);
	ck_assert_int_eq(ht_insn_boundary(code, sizeof(code), 0x3f8), 1);
	code[8] = 0x06;
	ck_assert_int_eq(ht_insn_boundary(code, sizeof(code), 0x3f8), -EILSEQ);
	ck_assert_int_eq(ht_insn_boundary(code, sizeof(code), 8), 1);
}
END_TEST

/* ---- running moved code ---- */

extern const uint8_t ht_asm_fn0[], ht_asm_fn1[], ht_asm_fn2[], ht_asm_fn3[], ht_asm_fn4[],
	ht_asm_end[];

/* Each returns something of its argument, and starts with what needs relocating. */
__asm__(".text\n"
	".p2align 5\n"
	"ht_asm_fn0:\n"			/* je rel8 */
	"	test %rdi, %rdi\n"
	"	je 1f\n"
	"	lea 1(%rdi), %rax\n"
	"	ret\n"
	"1:	mov $77, %eax\n"
	"	ret\n"
	".p2align 5\n"
	"ht_asm_fn1:\n"			/* rip-relative load */
	"	mov ht_asm_data(%rip), %rax\n"
	"	add %rdi, %rax\n"
	"	ret\n"
	".p2align 5\n"
	"ht_asm_fn2:\n"			/* rip-relative with an immediate behind */
	"	cmpb $42, ht_asm_data(%rip)\n"
	"	sete %al\n"
	"	movzbl %al, %eax\n"
	"	add %rdi, %rax\n"
	"	ret\n"
	".p2align 5\n"
	"ht_asm_fn3:\n"			/* endbr64, tail jump */
	"	endbr64\n"
	"	inc %rdi\n"
	"	jmp ht_asm_fn0\n"
	".p2align 5\n"
	"ht_asm_fn4:\n"			/* two conditional jumps and lea */
	"	jrcxz 1f\n"
	"1:	jb 2f\n"
	"	ja 2f\n"
	"2:	lea ht_asm_data(%rip), %rax\n"
	"	mov (%rax), %rax\n"
	"	sub %rdi, %rax\n"
	"	ret\n"
	"ht_asm_end:\n"
	".p2align 3\n"
	"ht_asm_data: .quad 42\n");

static void *page_near(const void *code)
{
	uintptr_t base = (uintptr_t)code & ~(uintptr_t)4095;
	void *page = MAP_FAILED;

	for (uintptr_t d = 1 << 20; page == MAP_FAILED && d < 1u << 30; d += 1 << 20)
		page = mmap((void *)(base - d), 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ck_assert_ptr_ne(page, MAP_FAILED);
	return page;
}

/* A function that runs @code's first instructions in @page, and the rest in place. */
static void *detour(const uint8_t *code, size_t len, uint8_t *page)
{
	ht_addr_t entry = (uintptr_t)code, at = (uintptr_t)page;
	enum ht_insn_refusal r;
	struct ht_moved m;

	r = ht_insn_move(code, len, entry, at, &m);
	ck_assert_msg(!r, "%s", ht_insn_refusal_text(r));
	memcpy(page, m.bytes, m.len);
	ck_assert(m.jumps_away || ht_encode_jump(page + m.len, at + m.len,
						 m.patch_addr + m.replaced_len));
	return page;
}

START_TEST(moved_code_runs_the_same)
{
	static const struct {
		const uint8_t *code, *end;
	} fns[] = {
		{ ht_asm_fn0, ht_asm_fn1 },
		{ ht_asm_fn1, ht_asm_fn2 },
		{ ht_asm_fn2, ht_asm_fn3 },
		{ ht_asm_fn3, ht_asm_fn4 },
	};
	uint8_t *page = page_near(ht_asm_fn0);
	struct ht_moved m;

	for (size_t i = 0; i < ARRAY_SIZE(fns); i++) {
		long (*real)(long) = (long (*)(long))(uintptr_t)fns[i].code;
		size_t len = fns[i].end - fns[i].code;
		long (*moved)(long) = (long (*)(long))detour(fns[i].code, len, page);

		for (long arg = -3; arg < 4; arg++)
			ck_assert_int_eq(moved(arg), real(arg));
	}
	ck_assert_int_eq(ht_insn_move(ht_asm_fn4, ht_asm_end - ht_asm_fn4,
				      (uintptr_t)ht_asm_fn4, (uintptr_t)page, &m),
			 HT_INSN_NOT_MOVABLE);
	munmap(page, 4096);
}
END_TEST

/* A leaf function of the C library, through its moved head. */
START_TEST(moved_libc_code_runs_the_same)
{
	int (*real)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "toupper"), (*moved)(int);
	uint8_t *page;

	ck_assert_ptr_nonnull(real);
	page = page_near((void *)(uintptr_t)real);
	moved = (int (*)(int))detour((const uint8_t *)(uintptr_t)real, 32, page);
	for (int c = 0; c < 256; c++)
		ck_assert_int_eq(moved(c), real(c));
	munmap(page, 4096);
}
END_TEST

/* ---- every function of the C library ---- */

struct image {
	uint8_t *data;
	size_t len;
};

static struct image load_libc(void)
{
	struct image image;
	struct stat st;
	Dl_info info;
	int fd;

	/* Not a function that sanitizers intercept: theirs would answer. */
	ck_assert(dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &info));
	fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	image.len = st.st_size;
	image.data = mmap(NULL, image.len, PROT_READ, MAP_PRIVATE, fd, 0);
	ck_assert_ptr_ne(image.data, MAP_FAILED);
	close(fd);
	return image;
}

static bool decode_at(const uint8_t *code, size_t len, ZydisDecodedInstruction *insn,
		      ZydisDecodedOperand *ops)
{
	ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, len, insn, ops));
}

static void same_operand(const ZydisDecodedInstruction *a, const ZydisDecodedOperand *ao,
			 ht_addr_t a_pc, const ZydisDecodedInstruction *b,
			 const ZydisDecodedOperand *bo, ht_addr_t b_pc)
{
	ZyanU64 a_abs = 0, b_abs = 0;

	ck_assert_int_eq(ao->type, bo->type);
	switch (ao->type) {
	case ZYDIS_OPERAND_TYPE_REGISTER:
		ck_assert_int_eq(ao->reg.value, bo->reg.value);
		break;
	case ZYDIS_OPERAND_TYPE_MEMORY:
		ck_assert_int_eq(ao->mem.segment, bo->mem.segment);
		ck_assert_int_eq(ao->mem.base, bo->mem.base);
		ck_assert_int_eq(ao->mem.index, bo->mem.index);
		ck_assert_int_eq(ao->mem.scale, bo->mem.scale);
		if (ao->mem.base != ZYDIS_REGISTER_RIP) {
			ck_assert_int_eq(ao->mem.disp.value, bo->mem.disp.value);
			break;
		}
		ck_assert(ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(a, ao, a_pc, &a_abs)));
		ck_assert(ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(b, bo, b_pc, &b_abs)));
		ck_assert_uint_eq(a_abs, b_abs);
		break;
	case ZYDIS_OPERAND_TYPE_IMMEDIATE:
		if (!ao->imm.is_relative) {
			ck_assert_uint_eq(ao->imm.value.u, bo->imm.value.u);
			break;
		}
		ck_assert(ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(a, ao, a_pc, &a_abs)));
		ck_assert(ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(b, bo, b_pc, &b_abs)));
		ck_assert_uint_eq(a_abs, b_abs);
		break;
	default:
		break;
	}
}

/* Instruction by instruction, what was moved means what was there. */
static void same_meaning(const uint8_t *code, size_t len, ht_addr_t entry,
			 const struct ht_moved *m, ht_addr_t moved_addr)
{
	ZydisDecodedOperand ao[ZYDIS_MAX_OPERAND_COUNT], bo[ZYDIS_MAX_OPERAND_COUNT];
	size_t a_off = m->patch_addr - entry, b_off = 0, end = a_off + m->replaced_len;
	ZydisDecodedInstruction a, b;

	ck_assert_uint_ge(m->replaced_len, HT_JUMP_LEN);
	ck_assert_uint_le(end, len);
	while (a_off < end) {
		ck_assert(decode_at(code + a_off, len - a_off, &a, ao));
		ck_assert(decode_at(m->bytes + b_off, m->len - b_off, &b, bo));
		ck_assert_int_eq(a.mnemonic, b.mnemonic);
		ck_assert_uint_eq(a.operand_count_visible, b.operand_count_visible);
		for (unsigned i = 0; i < a.operand_count_visible; i++)
			same_operand(&a, &ao[i], entry + a_off, &b, &bo[i],
				     moved_addr + b_off);
		a_off += a.length;
		b_off += b.length;
	}
	ck_assert_uint_eq(a_off, end);
	ck_assert_uint_eq(b_off, m->len);
}

START_TEST(every_libc_function_moves_or_is_refused)
{
	struct image libc = load_libc();
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)libc.data;
	const Elf64_Shdr *sh = (const Elf64_Shdr *)(libc.data + eh->e_shoff);
	unsigned moved = 0, refused[HT_INSN_PAGE_CROSSING + 1] = { 0 };
	const Elf64_Sym *syms = NULL;
	size_t n = 0;

	for (int i = 0; i < eh->e_shnum; i++) {
		if (sh[i].sh_type != SHT_DYNSYM)
			continue;
		syms = (const Elf64_Sym *)(libc.data + sh[i].sh_offset);
		n = sh[i].sh_size / sizeof(*syms);
	}
	ck_assert_uint_gt(n, 1000);
	for (size_t i = 0; i < n; i++) {
		const uint8_t *code;
		ht_addr_t entry = syms[i].st_value + UINT64_C(0x7f0000000000);
		struct ht_moved m;
		enum ht_insn_refusal r;

		if (ELF64_ST_TYPE(syms[i].st_info) != STT_FUNC || !syms[i].st_shndx)
			continue;
		/* .text is mapped where it is in the file, up to the section's own offset. */
		code = libc.data + sh[syms[i].st_shndx].sh_offset + syms[i].st_value -
		       sh[syms[i].st_shndx].sh_addr;
		r = ht_insn_move(code, syms[i].st_size, entry, entry + (1 << 24) + 7, &m);
		refused[r]++;
		if (r)
			continue;
		same_meaning(code, syms[i].st_size, entry, &m, entry + (1 << 24) + 7);
		moved++;
	}
	printf("libc: %u moved; short %u undecodable %u call %u place %u back %u page %u\n", moved,
	       refused[HT_INSN_TOO_SHORT], refused[HT_INSN_UNDECODABLE], refused[HT_INSN_CALL],
	       refused[HT_INSN_NOT_MOVABLE], refused[HT_INSN_BRANCH_BACK],
	       refused[HT_INSN_PAGE_CROSSING]);
	ck_assert_uint_gt(moved, 1000);
	ck_assert_uint_gt(refused[HT_INSN_TOO_SHORT], 10);
	ck_assert_uint_gt(refused[HT_INSN_BRANCH_BACK], 0);
	ck_assert_uint_eq(refused[HT_INSN_UNDECODABLE], 0);
	munmap(libc.data, libc.len);
}
END_TEST

int main(void)
{
	return ht_check_run("insn", (const TTest *const[]){
					    moves_and_refuses_golden_bytes,
					    page_crossing_is_about_eight_bytes,
					    out_of_reach_is_refused,
					    any_bytes_are_survived,
					    flow_tells_where_branches_go,
					    forwarders_are_bare_jumps, wrappers_only_pass_on,
					    scan_finds_every_branch_into_a_range,
					    moved_code_runs_the_same,
					    moved_libc_code_runs_the_same,
					    every_libc_function_moves_or_is_refused,
					    NULL });
}
