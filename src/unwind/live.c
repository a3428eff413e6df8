/* SPDX-License-Identifier: Apache-2.0
 *
 * live.c: see live.h.
 *
 * Steps are made by libunwind's core. Its own search for unwind data isn't used (see
 * libunwind.h), nor are its guesses: a frame without unwind data ends the walk. Registers and
 * memory of one thread come through libunwind-ptrace's accessors, whose record of the thread is
 * made before it is stopped. Where all threads are stopped nobody knows beforehand which of
 * them will be walked: then registers are given, and memory is read through a file.
 */
#include "unwind/live.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <libunwind-ptrace.h>

#include "base/fd.h"
#include "unwind/libunwind.h"
#include "unwind/walk-priv.h"

struct ht_live {
	struct ht_space *space;
	int memfd;
	struct ht_libunwind *libunwind;
	void *upt;		/* of the thread that is expected, or NULL */
	/* Of the walk that is under way: */
	struct ht_interp_frame frame;
	size_t budget;
	bool exact;
	bool traced;		/* it is the expected thread's */
	struct ht_stack *stack;
};

static int prepare_modules(const struct ht_space *space)
{
	size_t i;

	for (i = 0; i < ht_space_count(space); i++) {
		struct ht_module *module = ht_space_at(space, i)->module;

		if (module && module->is_elf && !ht_module_cfi(module))
			return -ENOMEM;
	}
	return 0;
}

int ht_live_new(struct ht_space *space, int memfd, struct ht_live **ret_live)
{
	struct ht_live *live = calloc(1, sizeof(*live));
	int r;

	if (!live)
		return -ENOMEM;
	live->space = space;
	live->memfd = memfd;
	r = prepare_modules(space);
	if (r == 0)
		r = ht_libunwind_new(&live->libunwind);
	if (r < 0) {
		ht_live_free(live);
		return r;
	}
	*ret_live = live;
	return 0;
}

struct ht_live *ht_live_free(struct ht_live *live)
{
	if (!live)
		return NULL;
	if (live->upt)
		_UPT_destroy(live->upt);
	ht_libunwind_free(live->libunwind);
	free(live);
	return NULL;
}

static int read_word(void *arg, uint64_t addr, uint64_t *ret_value)
{
	const struct ht_live *live = arg;
	unw_word_t word;
	uint64_t value;

	if (!live->traced) {
		if (ht_fd_pread_all(live->memfd, &value, sizeof(value), addr) < 0)
			return -EFAULT;
		*ret_value = value;
		return 0;
	}
	if (_UPT_access_mem(NULL, addr, &word, 0, live->upt) < 0)
		return -EFAULT;
	*ret_value = word;
	return 0;
}

static void add_frame(struct ht_live *live, const struct ht_mapping *mapping)
{
	struct ht_frame *frame = &live->stack->frames[live->stack->n_frames++];
	uint64_t pc = live->frame.regs[HT_REG_RIP];

	frame->offset = mapping && mapping->module ? pc - mapping->bias : pc;
	frame->module = mapping && mapping->module ? ht_module_id(mapping->module)
						   : HT_MODULE_NONE;
	frame->flags = live->exact ? HT_FRAME_EXACT : 0;
}

static const struct ht_mapping *find_text(const struct ht_live *live, uint64_t addr)
{
	const struct ht_mapping *mapping = ht_space_find(live->space, addr);

	return mapping && (mapping->prot & HT_PROT_EXEC) ? mapping : NULL;
}

static int step_module(struct ht_live *live, struct ht_module *module, uint64_t bias,
		       uint64_t pc)
{
	struct ht_interp_memory memory = { read_word, live, &live->budget };
	const struct ht_cfi *cfi = ht_module_cfi(module);
	int r = ht_libunwind_step(live->libunwind, module, bias, pc, &memory,
				  &live->frame);

	/* Expressions that libunwind isn't given. */
	if (r == -EINVAL && cfi)
		r = ht_interp_step_cfi(cfi, bias, pc, &memory, &live->frame);
	return r;
}

static enum ht_stack_end end_of(int error)
{
	return error == -ENODATA ? HT_STACK_NO_CFI :
	       error == -EFAULT ? HT_STACK_WINDOW : HT_STACK_BAD_CFI;
}

/* Add the frame that we stand on and go to its caller. False: that was the last; its
 * reason is in *ret_end. */
static bool step(struct ht_live *live, enum ht_stack_end *ret_end)
{
	uint64_t pc = live->frame.regs[HT_REG_RIP], sp = live->frame.regs[HT_REG_RSP];
	const struct ht_mapping *mapping = live->exact ? NULL : find_text(live, pc - 1);
	bool exact = live->exact;
	int r = -ENODATA;

	if (!mapping)
		mapping = find_text(live, pc);
	if (!mapping && live->stack->n_frames) {
		*ret_end = pc ? HT_STACK_BAD_RETURN : HT_STACK_NO_CFI;
		return false;
	}
	add_frame(live, mapping);
	if (!mapping || !mapping->module) {
		*ret_end = HT_STACK_NO_MODULE;
		return false;
	}
	if (ht_code_is_outermost(mapping, -1, pc, false)) {
		*ret_end = HT_STACK_COMPLETE;
		return false;
	}
	if (mapping->module->is_elf)
		r = step_module(live, mapping->module, mapping->bias,
				pc - mapping->bias - !live->exact);
	if (r == -ENODATA && ht_code_is_outermost(mapping, -1, pc, true)) {
		*ret_end = HT_STACK_COMPLETE;
		return false;
	}
	if (r < 0 || live->frame.end) {
		*ret_end = r < 0 ? end_of(r) : HT_STACK_COMPLETE;
		return false;
	}
	live->exact = live->frame.signal;
	if (live->frame.signal) {
		live->stack->frames[live->stack->n_frames - 1].flags |= HT_FRAME_SIGNAL;
		return true;
	}
	/* An interrupted function may have its return address in a register (vfork). */
	*ret_end = HT_STACK_LOOP;
	return live->frame.regs[HT_REG_RSP] > sp ||
	       (exact && live->frame.regs[HT_REG_RSP] == sp);
}

/* From live->frame on. */
static void walk(struct ht_live *live, struct ht_stack *ret_stack)
{
	enum ht_stack_end end = HT_STACK_DEEP;

	live->exact = true;
	live->budget = HT_INTERP_BUDGET;
	live->stack = ret_stack;
	ret_stack->n_frames = 0;
	while (ret_stack->n_frames < HT_MAX_FRAMES && step(live, &end))
		end = HT_STACK_DEEP;
	ret_stack->end = end;
	ret_stack->top = end == HT_STACK_COMPLETE || end == HT_STACK_DEEP ?
				 live->frame.regs[HT_REG_RSP] : 0;
}

void ht_live_stack(struct ht_live *live, const uint64_t regs[HT_UNWIND_REGS],
		   struct ht_stack *ret_stack)
{
	live->frame = (struct ht_interp_frame){ .known = (1u << HT_UNWIND_REGS) - 1 };
	memcpy(live->frame.regs, regs, HT_UNWIND_REGS * sizeof(*regs));
	live->traced = false;
	walk(live, ret_stack);
}

int ht_live_expect(struct ht_live *live, pid_t tid)
{
	if (live->upt)
		_UPT_destroy(live->upt);
	live->upt = _UPT_create(tid);
	return live->upt ? 0 : -ENOMEM;
}

int ht_live_thread(struct ht_live *live, struct ht_stack *ret_stack)
{
	unw_word_t value;

	live->frame = (struct ht_interp_frame){ .known = (1u << HT_UNWIND_REGS) - 1 };
	for (int i = 0; i < HT_UNWIND_REGS; i++) {
		if (_UPT_access_reg(NULL, i, &value, 0, live->upt) < 0)
			return -ESRCH;
		live->frame.regs[i] = value;
	}
	live->traced = true;
	walk(live, ret_stack);
	return 0;
}
