/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/interp.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include "base/buf.h"

#include "ht_check.h"
#include "ht_elf.h"

#define PC (HT_ELF_TEXT + 0x10)
#define BIAS UINT64_C(0x7f0000000000)
#define SP UINT64_C(0x7ffc00001000)
#define BP UINT64_C(0x7ffc00001080)

static struct ht_elf elf;

/* The target's memory: words around SP, the i-th from there holding 0x1000 + i. */
static int read_words(void *arg, uint64_t addr, uint64_t *ret_value)
{
	if (addr < SP - 16 || addr >= SP + 0x400)
		return -EFAULT;
	*ret_value = 0x1000 + (addr / 8 - SP / 8);
	return 0;
}

static const struct ht_interp_memory words = { read_words, NULL };

static struct ht_interp_frame start_frame(void)
{
	struct ht_interp_frame frame = { .known = (1u << HT_UNWIND_REGS) - 1 };
	unsigned i;

	for (i = 0; i < HT_UNWIND_REGS; i++)
		frame.regs[i] = 0x100 + i;
	frame.regs[HT_REG_RSP] = SP;
	frame.regs[HT_REG_RBP] = BP;
	frame.regs[HT_REG_RIP] = BIAS + PC;
	return frame;
}

static int step_at(uint64_t pc, const char *augmentation, const uint8_t *code, size_t len,
		   struct ht_interp_frame *frame)
{
	uint8_t *image;
	size_t size;
	int r;

	ht_elf_init(&elf);
	ht_elf_fde(&elf.eh, ht_elf_cie(&elf.eh, augmentation, HT_ELF_CODE(0x0c, 7, 8, 0x90, 1)),
		   PC, 32, code, len);
	image = ht_elf_build(&elf, &size);
	r = ht_interp_step(image, size, BIAS, pc, &words, frame);
	free(image);
	return r;
}

static int step(struct ht_interp_frame *frame, const uint8_t *code, size_t len)
{
	*frame = start_frame();
	return step_at(PC, "zR", code, len, frame);
}

START_TEST(plain_step)
{
	struct ht_interp_frame frame;

	ck_ok(step(&frame, HT_ELF_NO_CODE));
	ck_assert_uint_eq(frame.cfa, SP + 8);
	ck_assert_uint_eq(frame.regs[HT_REG_RIP], 0x1000);
	ck_assert_uint_eq(frame.regs[HT_REG_RSP], SP + 8);
	/* What calls save is the caller's, what they may spoil is unknown. */
	ck_assert_uint_eq(frame.regs[HT_REG_RBP], BP);
	ck_assert_uint_eq(frame.regs[HT_REG_R15], 0x10f);
	ck_assert_uint_eq(frame.known, 1u << HT_REG_RBX | 1u << HT_REG_RBP | 1u << HT_REG_RSP |
					       1u << HT_REG_R12 | 1u << HT_REG_R13 |
					       1u << HT_REG_R14 | 1u << HT_REG_R15 |
					       1u << HT_REG_RIP);
	ck_assert(!frame.end);
	ck_assert(!frame.signal);
}
END_TEST

START_TEST(rows_by_pc)
{
	static const uint8_t code[] = { 0x44, 0x0e, 16, 0x44, 0x3f };
	struct ht_interp_frame frame = start_frame();

	ck_ok(step_at(PC + 3, "zR", code, sizeof(code), &frame));
	ck_assert_uint_eq(frame.cfa, SP + 8);
	frame = start_frame();
	ck_ok(step_at(PC + 4, "zR", code, sizeof(code), &frame));
	ck_assert_uint_eq(frame.cfa, SP + 16);
	frame = start_frame();
	ck_ok(step_at(PC + 7, "zR", code, sizeof(code), &frame));
	ck_assert_int_eq(step_at(PC + 8, "zR", code, sizeof(code), &frame), -EINVAL);
	ck_assert_int_eq(step_at(PC - 1, "zR", code, sizeof(code), &frame), -ENODATA);
	ck_assert_int_eq(step_at(PC + 32, "zR", code, sizeof(code), &frame), -ENODATA);
	ck_assert_int_eq(ht_interp_step((const uint8_t *)"no", 2, BIAS, PC, &words, &frame),
			 -EINVAL);
}
END_TEST

START_TEST(register_rules)
{
	struct ht_interp_frame frame;

	/* At CFA - 16, CFA - 24 itself, in r12, same, undefined. */
	ck_ok(step(&frame, HT_ELF_CODE(0x0e, 32, 0x83, 2, 0x14, 6, 3, 0x09, 13, 12, 0x08, 0, 0x07,
				       14)));
	ck_assert_uint_eq(frame.regs[HT_REG_RIP], 0x1003);
	ck_assert_uint_eq(frame.regs[HT_REG_RBX], 0x1002);
	ck_assert_uint_eq(frame.regs[HT_REG_RBP], SP + 8);
	ck_assert_uint_eq(frame.regs[HT_REG_R13], 0x10c);
	ck_assert_uint_eq(frame.regs[HT_REG_RAX], 0x100);
	ck_assert(frame.known & 1u << HT_REG_RAX);
	ck_assert(!(frame.known & 1u << HT_REG_R14));
	/* The expression starts with the CFA on the stack. */
	ck_ok(step(&frame, HT_ELF_CODE(0x10, 3, 2, 0x23, 8, 0x16, 12, 2, 0x76, 0x10)));
	ck_assert_uint_eq(frame.regs[HT_REG_RBX], 0x1002);
	ck_assert_uint_eq(frame.regs[HT_REG_R12], BP + 16);
	/* RSP by its own rule; RA in a register (vfork). */
	ck_ok(step(&frame, HT_ELF_CODE(0x16, 7, 2, 0x23, 24, 0x09, 16, 5)));
	ck_assert_uint_eq(frame.regs[HT_REG_RSP], SP + 32);
	ck_assert_uint_eq(frame.regs[HT_REG_RIP], 0x105);
	/* CFA from another register (lazy binding). */
	ck_ok(step(&frame, HT_ELF_CODE(0x16, 3, 2, 0x77, 0, 0x0c, 6, 16)));
	ck_assert_uint_eq(frame.cfa, BP + 16);
	ck_assert_uint_eq(frame.regs[HT_REG_RIP], 0x1011);
}
END_TEST

START_TEST(what_is_missing)
{
	static const uint8_t by_rbx[] = { 0x0c, 3, 8 }, by_r17[] = { 0x0c, 17, 8 };
	static const uint8_t far[] = { 0x0e, 0x80, 0x40 };
	struct ht_interp_frame frame = start_frame(), before;

	frame.known &= ~(1u << HT_REG_RBX);
	before = frame;
	ck_assert_int_eq(step_at(PC, "zR", by_rbx, sizeof(by_rbx), &frame), -ENODEV);
	ck_assert_int_eq(step_at(PC, "zR", by_r17, sizeof(by_r17), &frame), -ENODEV);
	/* A return address out of reach stops, a register out of reach is unknown. */
	ck_assert_int_eq(step_at(PC, "zR", far, sizeof(far), &frame), -EFAULT);
	ck_assert_mem_eq(&frame, &before, sizeof(frame));
	ck_ok(step(&frame, HT_ELF_CODE(0x83, 0x80, 8, 0x10, 6, 1, 0x22)));
	ck_assert(!(frame.known & (1u << HT_REG_RBX | 1u << HT_REG_RBP)));
	ck_assert(frame.known & 1u << HT_REG_R12);
}
END_TEST

/* Memory says 0xffe and 0xfff below SP, where epilogues leave what they popped. */
START_TEST(popped_registers_are_back)
{
	static const uint8_t rbx_below[] = { 0x83, 2 };
	struct ht_interp_frame frame;

	ck_ok(step(&frame, HT_ELF_CODE(0x83, 2, 0x10, 6, 2, 0x77, 0x70)));
	ck_assert_uint_eq(frame.regs[HT_REG_RBX], 0x103);
	ck_assert_uint_eq(frame.regs[HT_REG_RBP], BP);
	/* At SP it's still saved. */
	ck_ok(step(&frame, HT_ELF_CODE(0x0e, 16, 0x83, 2, 0x90, 1)));
	ck_assert_uint_eq(frame.regs[HT_REG_RBX], 0x1000);
	/* What a call doesn't save is no epilogue's business, nor is the return address. */
	ck_ok(step(&frame, HT_ELF_CODE(0x80, 2, 0x90, 3)));
	ck_assert_uint_eq(frame.regs[HT_REG_RAX], 0xfff);
	ck_assert_uint_eq(frame.regs[HT_REG_RIP], 0xffe);
	/* One that isn't known stays so. */
	frame = start_frame();
	frame.known &= ~(1u << HT_REG_RBX);
	ck_ok(step_at(PC, "zR", rbx_below, sizeof(rbx_below), &frame));
	ck_assert(!(frame.known & 1u << HT_REG_RBX));
}
END_TEST

/* By RBP, which was popped as well: the rules lead above the frame. */
START_TEST(popped_in_a_realigned_frame)
{
	struct ht_interp_frame frame;

	ck_ok(step(&frame, HT_ELF_CODE(0x0e, 16, 0x10, 3, 2, 0x76, 0x78, 0x10, 6, 2, 0x76, 0)));
	ck_assert_uint_eq(frame.regs[HT_REG_RBX], 0x103);
	ck_assert_uint_eq(frame.regs[HT_REG_RBP], BP);
	/* Inside of it they're right. */
	ck_ok(step(&frame, HT_ELF_CODE(0x0c, 6, 16, 0x10, 3, 2, 0x76, 0x78, 0x10, 6, 2, 0x76, 0)));
	ck_assert_uint_eq(frame.regs[HT_REG_RBX], 0x100f);
	ck_assert_uint_eq(frame.regs[HT_REG_RBP], 0x1010);
}
END_TEST

/* A slot further down is on another stack. */
START_TEST(popped_is_near)
{
	struct ht_interp_frame frame = start_frame();

	ck_assert(!ht_interp_is_popped(&frame, HT_REG_RBX, SP));
	ck_assert(ht_interp_is_popped(&frame, HT_REG_RBX, SP - 1));
	ck_assert(ht_interp_is_popped(&frame, HT_REG_RBX, SP - 4096));
	ck_assert(!ht_interp_is_popped(&frame, HT_REG_RBX, SP - 4097));
	ck_assert(!ht_interp_is_popped(&frame, HT_REG_RDI, SP - 8));
	frame.known &= ~(1u << HT_REG_RSP);
	ck_assert(!ht_interp_is_popped(&frame, HT_REG_RBX, SP - 8));
}
END_TEST

START_TEST(ends_and_signals)
{
	static const uint8_t undefined[] = { 0x07, 16 };
	struct ht_interp_frame frame = start_frame();

	ck_ok(step_at(PC, "zR", undefined, sizeof(undefined), &frame));
	ck_assert(frame.end);
	ck_assert(!frame.signal);
	frame = start_frame();
	ck_ok(step_at(PC, "zRS", HT_ELF_NO_CODE, &frame));
	ck_assert(frame.signal);
	ck_assert(!frame.end);
}
END_TEST

/* The value of an expression, as the rule of r12; or the error it makes as the CFA's. */
static uint64_t value_of(const uint8_t *expr, size_t len)
{
	struct ht_interp_frame frame;
	uint8_t code[256] = { 0x16, 12, (uint8_t)len };

	ck_assert_uint_le(len, 120);
	memcpy(code + 3, expr, len);
	ck_ok(step(&frame, code, len + 3));
	ck_assert_msg(frame.known & 1u << HT_REG_R12, "op %#x failed", expr[0]);
	return frame.regs[HT_REG_R12];
}

static int error_of(const uint8_t *expr, size_t len)
{
	struct ht_interp_frame frame;
	uint8_t code[2048] = { 0x0f, (uint8_t)(len & 0x7f) | 0x80, (uint8_t)(len >> 7) };

	memcpy(code + 3, expr, len);
	return step(&frame, code, len + 3);
}

#define check_value(want, ...)                                                            \
	ck_assert_uint_eq(value_of(HT_ELF_CODE(__VA_ARGS__)), (uint64_t)(want))
#define check_error(want, ...) ck_assert_int_eq(error_of(HT_ELF_CODE(__VA_ARGS__)), want)

START_TEST(constants)
{
	check_value(BIAS + 0x1234, 0x03, 0x34, 0x12, 0, 0, 0, 0, 0, 0);
	check_value(0xfe, 0x08, 0xfe);
	check_value(-2, 0x09, 0xfe);
	check_value(0xfffe, 0x0a, 0xfe, 0xff);
	check_value(-2, 0x0b, 0xfe, 0xff);
	check_value(0xfffffffe, 0x0c, 0xfe, 0xff, 0xff, 0xff);
	check_value(-2, 0x0d, 0xfe, 0xff, 0xff, 0xff);
	check_value(-2, 0x0e, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff);
	check_value(-2, 0x0f, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff);
	check_value(300, 0x10, 0xac, 2);
	check_value(-2, 0x11, 0x7e);
	check_value(0, 0x30);
	check_value(31, 0x4f);
	check_value(0x103 - 8, 0x73, 0x78);
	check_value(0x10f + 8, 0x92, 15, 8);
	check_value(BIAS + PC, 0x80, 0);
	check_value(SP + 8, 0x9c);
}
END_TEST

START_TEST(stack_operations)
{
	check_value(3, 0x33, 0x12, 0x13);
	check_value(9, 0x33, 0x12, 0x1e);
	check_value(5, 0x35, 0x36, 0x14);
	check_value(4, 0x34, 0x35, 0x36, 0x15, 2);
	check_value(6, 0x34, 0x35, 0x36, 0x15, 0);
	check_value(1, 0x34, 0x35, 0x16, 0x1c);
	/* 4 5 6: the top becomes the third, 6 4 5. */
	check_value(5, 0x34, 0x35, 0x36, 0x17);
	check_value(4, 0x34, 0x35, 0x36, 0x17, 0x13);
	check_value(6, 0x34, 0x35, 0x36, 0x17, 0x13, 0x13);
	check_value(0x1002, 0x77, 16, 0x06);
	check_value(0x02, 0x77, 16, 0x94, 1);
	check_value(0x1002, 0x77, 16, 0x94, 4);
	check_value(7, 0x96, 0x37, 0x96);
}
END_TEST

START_TEST(arithmetic)
{
	check_value(5, 0x09, 0xfb, 0x19);
	check_value(5, 0x35, 0x19);
	check_value(4, 0x36, 0x3c, 0x1a);
	check_value(-2, 0x09, 0xfc, 0x32, 0x1b);
	check_value(UINT64_C(1) << 63, 0x31, 0x08, 63, 0x24, 0x09, 0xff, 0x1b);
	check_value(1, 0x37, 0x36, 0x1c);
	check_value(1, 0x37, 0x36, 0x1d);
	check_value(42, 0x37, 0x36, 0x1e);
	check_value(-7, 0x37, 0x1f);
	check_value(~UINT64_C(7), 0x37, 0x20);
	check_value(14, 0x36, 0x3c, 0x21);
	check_value(13, 0x37, 0x36, 0x22);
	check_value(307, 0x37, 0x23, 0xac, 2);
	check_value(28, 0x37, 0x32, 0x24);
	check_value(0, 0x37, 0x08, 64, 0x24);
	check_value(3, 0x3f, 0x32, 0x25);
	check_value(0, 0x3f, 0x08, 64, 0x25);
	check_value(-1, 0x09, 0xfe, 0x31, 0x26);
	check_value(-1, 0x09, 0xfe, 0x08, 200, 0x26);
	check_value(10, 0x36, 0x3c, 0x27);
}
END_TEST

START_TEST(comparisons_are_signed)
{
	check_value(1, 0x33, 0x33, 0x29);
	check_value(0, 0x33, 0x34, 0x29);
	check_value(1, 0x33, 0x33, 0x2a);
	check_value(0, 0x09, 0xff, 0x33, 0x2a);
	check_value(1, 0x34, 0x33, 0x2b);
	check_value(0, 0x33, 0x33, 0x2b);
	check_value(1, 0x33, 0x33, 0x2c);
	check_value(1, 0x09, 0xff, 0x33, 0x2d);
	check_value(0, 0x33, 0x33, 0x2e);
	/* The PLT's: before and behind the push. */
	check_value(SP + 8, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22);
	check_value(SP + 16, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x30, 0x2a, 0x33, 0x24, 0x22);
}
END_TEST

START_TEST(branches_go_forward)
{
	check_value(5, 0x35, 0x2f, 1, 0, 0x36);
	check_value(5, 0x35, 0x31, 0x28, 1, 0, 0x36);
	check_value(6, 0x35, 0x30, 0x28, 1, 0, 0x36);
	check_error(-EINVAL, 0x30, 0x2f, 4, 0, 0x30);
	/* The loop that libunwind never leaves. */
	check_error(-EINVAL, 0x2f, 0xfd, 0xff);
	check_error(-EINVAL, 0x31, 0x31, 0x28, 0xfb, 0xff);
	/* Not taken, it's harmless. */
	check_value(5, 0x35, 0x30, 0x28, 0xfb, 0xff);
}
END_TEST

START_TEST(bad_expressions)
{
	uint8_t expr[1024];

	check_error(-EINVAL, 0x22);
	check_error(-EINVAL, 0x31, 0x22);
	check_error(-EINVAL, 0x13);
	check_error(-EINVAL, 0x31, 0x14);
	check_error(-EINVAL, 0x31, 0x15, 1);
	check_error(-EINVAL, 0x31, 0x16);
	check_error(-EINVAL, 0x31, 0x31, 0x17);
	check_error(-EINVAL, 0x31, 0x30, 0x1b);
	check_error(-EINVAL, 0x31, 0x30, 0x1d);
	check_error(-EINVAL, 0x77, 0, 0x94, 0);
	check_error(-EINVAL, 0x77, 0, 0x94, 9);
	check_error(-EINVAL, 0x00);
	check_error(-EINVAL, 0xf1);
	check_error(-EINVAL, 0x03, 1, 2, 3);
	check_error(-EINVAL, 0x77);
	check_error(-EFAULT, 0x30, 0x06);
	check_error(-ENODEV, 0x92, 17, 0);
	ck_assert_int_eq(error_of((const uint8_t *)"", 0), -EINVAL);
	/* 64 values are the limit, and 256 steps. */
	memset(expr, 0x77, sizeof(expr));
	for (unsigned i = 1; i < 130; i += 2)
		expr[i] = 0;
	ck_assert_int_eq(error_of(expr, 128), 0);
	ck_assert_int_eq(error_of(expr, 130), -EINVAL);
	memset(expr + 2, 0x96, sizeof(expr) - 2);
	ck_assert_int_eq(error_of(expr, 257), 0);
	ck_assert_int_eq(error_of(expr, 258), -EINVAL);
}
END_TEST

/* ----------------------------------------- this program: who called is known exactly */

#define DEPTH 8

struct truth {
	uint64_t callers[DEPTH];	/* return addresses, innermost first */
	ucontext_t context;
	void (*check)(struct truth *truth);
};

static int read_own(void *arg, uint64_t addr, uint64_t *ret_value)
{
	memcpy(ret_value, (const void *)(uintptr_t)addr, sizeof(*ret_value));
	return 0;
}

static __attribute__((noinline)) void descend(struct truth *truth, unsigned depth)
{
	/* Frames of different sizes, one of them with an alloca. */
	volatile char *room = __builtin_alloca(16 + depth * 40);

	room[0] = 0;
	truth->callers[depth] =
		(uint64_t)(uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0));
	if (depth == 0) {
		getcontext(&truth->context);
		truth->check(truth);
	} else {
		descend(truth, depth - 1);
	}
	room[1] = 0;
}

static int own_bias(struct dl_phdr_info *info, size_t size, void *bias)
{
	*(uint64_t *)bias = info->dlpi_addr;
	return 1;
}

/* Runs while the frames are still there. */
static void walk_own(struct truth *truth)
{
	static const int gregs[HT_UNWIND_REGS] = {
		REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
		REG_R9,	 REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP };
	const struct ht_interp_memory memory = { read_own, NULL };
	struct ht_interp_frame frame = { .known = (1u << HT_UNWIND_REGS) - 1 };
	struct ht_buf buf = HT_BUF_INIT;
	uint64_t bias, previous;
	unsigned i;

	ck_ok(ht_buf_read_file(&buf, -1, "/proc/self/exe", 64 << 20));
	ck_assert_int_eq(dl_iterate_phdr(own_bias, &bias), 1);
	for (i = 0; i < HT_UNWIND_REGS; i++)
		frame.regs[i] = (uint64_t)truth->context.uc_mcontext.gregs[gregs[i]];
	for (i = 0; i < DEPTH; i++) {
		previous = frame.regs[HT_REG_RSP];
		ck_ok(ht_interp_step((uint8_t *)buf.data, buf.len, bias,
				     frame.regs[HT_REG_RIP] - 1 - bias, &memory, &frame));
		ck_assert_uint_eq(frame.regs[HT_REG_RIP], truth->callers[i]);
		ck_assert_uint_gt(frame.regs[HT_REG_RSP], previous);
	}
	ht_buf_fini(&buf);
}

START_TEST(own_stack)
{
	struct truth truth = { .check = walk_own };

	descend(&truth, DEPTH - 1);
}
END_TEST

int main(void)
{
	return ht_check_run("interp", (const TTest *const[]){
		plain_step, rows_by_pc, register_rules, what_is_missing,
		popped_registers_are_back, popped_in_a_realigned_frame, popped_is_near, ends_and_signals,
		constants, stack_operations, arithmetic, comparisons_are_signed,
		branches_go_forward, bad_expressions, own_stack, NULL });
}
