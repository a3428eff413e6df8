/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/libunwind.h"

#include <errno.h>
#include <string.h>

#include "ht_chain.h"
#include "unwind/module-priv.h"

static int read_word(void *arg, uint64_t addr, uint64_t *ret_value)
{
	return ht_stopped_read(arg, addr, ret_value, sizeof(*ret_value));
}

/* Walk a stack with libunwind and with the interpreter side by side. */
static void check_steps(const char *scenario)
{
	struct ht_interp_frame a = { .known = (1u << HT_UNWIND_REGS) - 1 }, b;
	struct ht_libunwind *libunwind;
	struct ht_interp_memory memory;
	unsigned frames = 0;
	struct chain c;

	start(&c, scenario, "8");
	ck_ok(ht_libunwind_new(&libunwind));
	memory = (struct ht_interp_memory){ read_word, &c.stopped };
	memcpy(a.regs, c.stopped.input.regs, sizeof(a.regs));
	b = a;
	do {
		uint64_t pc = a.regs[HT_REG_RIP] - (frames && !a.signal);
		const struct ht_mapping *m = ht_space_find(c.space, pc);

		ck_assert_ptr_nonnull(m);
		ck_ok(ht_libunwind_step(libunwind, m->module, m->bias, pc - m->bias,
					&memory, &a));
		ck_ok(ht_interp_step(m->module->bytes, m->module->len, m->bias,
				     pc - m->bias, &memory, &b));
		ck_assert_int_eq(a.end, b.end);
		ck_assert_int_eq(a.signal, b.signal);
		ck_assert_uint_eq(a.regs[HT_REG_RIP], b.regs[HT_REG_RIP]);
		ck_assert_uint_eq(a.regs[HT_REG_RSP], b.regs[HT_REG_RSP]);
		ck_assert_uint_eq(a.regs[HT_REG_RBX], b.regs[HT_REG_RBX]);
		ck_assert_uint_eq(a.regs[HT_REG_RBP], b.regs[HT_REG_RBP]);
		ck_assert_uint_eq(a.regs[HT_REG_R12], b.regs[HT_REG_R12]);
		ck_assert_uint_eq(a.regs[HT_REG_R15], b.regs[HT_REG_R15]);
	} while (!a.end && ++frames < 100);
	ck_assert_uint_ge(frames, 5);
	ck_assert_uint_lt(frames, 100);
	ht_libunwind_free(libunwind);
	stop(&c);
}

START_TEST(agrees_with_the_interpreter)
{
	static const char *const scenarios[] = { "plain", "qsort",  "realign", "rbx",
						 "expr",  "signal", "ill",     "thread" };
	size_t i;

	for (i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		check_steps(scenarios[i]);
}
END_TEST

START_TEST(refuses_what_would_hang_it)
{
	struct ht_interp_frame frame = { .known = (1u << HT_UNWIND_REGS) - 1 };
	const struct ht_mapping *m;
	struct ht_libunwind *libunwind;
	struct ht_interp_memory memory;
	struct chain c;
	uint64_t pc;

	start(&c, "bomb", "3");
	ck_ok(ht_libunwind_new(&libunwind));
	memory = (struct ht_interp_memory){ read_word, &c.stopped };
	ht_unwind(c.unwinder, &c.stopped.input, &c.stack);
	ck_assert_int_eq(c.stack.end, HT_STACK_BAD_CFI);
	pc = address(&c, c.stack.n_frames - 1) - 1;
	m = ht_space_find(c.space, pc);
	ck_assert_ptr_nonnull(m);
	frame.regs[HT_REG_RSP] = c.stopped.input.stack_base;
	ck_assert_int_eq(ht_libunwind_step(libunwind, m->module, m->bias, pc - m->bias,
					   &memory, &frame), -EINVAL);
	/* No FDE at all. */
	ck_assert_int_eq(ht_libunwind_step(libunwind, m->module, m->bias, 1, &memory,
					   &frame), -ENODATA);
	ht_libunwind_free(libunwind);
	stop(&c);
}
END_TEST

START_TEST(memory_that_is_missing)
{
	struct ht_interp_frame frame = { .known = (1u << HT_UNWIND_REGS) - 1 };
	const struct ht_mapping *m;
	struct ht_libunwind *libunwind;
	struct ht_interp_memory memory;
	struct chain c;
	uint64_t pc;

	start(&c, "plain", "3");
	ck_ok(ht_libunwind_new(&libunwind));
	memory = (struct ht_interp_memory){ read_word, &c.stopped };
	memcpy(frame.regs, c.stopped.input.regs, sizeof(frame.regs));
	frame.regs[HT_REG_RSP] = 4096;
	frame.regs[HT_REG_RBP] = 4096;
	pc = c.notes[0] - 1;
	m = ht_space_find(c.space, pc);
	ck_assert_int_eq(ht_libunwind_step(libunwind, m->module, m->bias, pc - m->bias,
					   &memory, &frame), -EFAULT);
	ht_libunwind_free(libunwind);
	stop(&c);
}
END_TEST

int main(void)
{
	return ht_check_run("libunwind", (const TTest *const[]){
		agrees_with_the_interpreter, refuses_what_would_hang_it,
		memory_that_is_missing, NULL });
}
