/* SPDX-License-Identifier: Apache-2.0
 *
 * stacks.c: see stacks.h.
 */
#include "stacks.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/interp.h"
#include "unwind/module-priv.h"

#define STACK_MAX 65536
#define THREADS_MAX 64

int bench_read_stack(void *arg, uint64_t addr, uint64_t *ret_value)
{
	const struct ht_unwind_input *in = arg;
	uint64_t at = addr - in->stack_base;

	if (at >= in->stack_len || in->stack_len - at < sizeof(*ret_value))
		return -EFAULT;
	memcpy(ret_value, in->stack + at, sizeof(*ret_value));
	return 0;
}

/* From the system call, where the thread waits, to the function that made it. */
static int enter_caller(const struct ht_space *space, struct ht_unwind_input *in)
{
	struct ht_interp_memory memory = { bench_read_stack, in };
	struct ht_interp_frame frame = { .known = in->known };
	const struct ht_mapping *m = ht_space_find(space, in->regs[HT_REG_RIP]);
	uint64_t passed;
	int r;

	if (!m || !m->module)
		return -ENODATA;
	memcpy(frame.regs, in->regs, sizeof(frame.regs));
	r = ht_interp_step(m->module->bytes, m->module->len, m->bias,
			   in->regs[HT_REG_RIP] - m->bias, &memory, &frame);
	if (r < 0)
		return r;
	passed = frame.regs[HT_REG_RSP] - in->stack_base;
	if (passed >= in->stack_len)
		return -EFAULT;
	memcpy(in->regs, frame.regs, sizeof(in->regs));
	in->known = frame.known & (HT_INTERP_CALL_SAVED | 1u << HT_REG_RSP | 1u << HT_REG_RIP);
	in->rip_is_return = true;
	in->stack += passed;
	in->stack_len -= passed;
	in->stack_base += passed;
	return 0;
}

/* Once the end of a stack is known the hook copies no more of it. */
static int cut(struct ht_unwinder *unwinder, struct ht_unwind_input *in)
{
	static struct ht_stack stack;

	ht_unwind(unwinder, in, &stack);
	if (!stack.top)
		return -ENODATA;
	in->stack_len = ht_min(in->stack_len, stack.top - in->stack_base);
	return 0;
}

static int take(struct bench_stacks *stacks, pid_t tid)
{
	struct bench_stack *stack = &stacks->at[stacks->n];
	struct ht_unwinder *unwinder;
	int r;

	r = ht_stopped_open(stacks->pid, tid, &stack->stopped);
	if (r == 0)
		r = ht_stopped_sample(&stack->stopped, STACK_MAX);
	if (r == 0 && !stacks->space)
		r = ht_space_new(stack->stopped.procfd, stack->stopped.memfd,
				 stacks->modules, &stacks->space);
	if (r < 0)
		return r;
	stack->input = stack->stopped.input;
	r = enter_caller(stacks->space, &stack->input);
	if (r == 0)
		r = ht_unwinder_new(stacks->space, -1, &unwinder);
	if (r < 0)
		return r;
	r = cut(unwinder, &stack->input);
	ht_unwinder_free(unwinder);
	stacks->n++;
	return r;
}

int bench_stacks_open(pid_t pid, struct bench_stacks *ret_stacks)
{
	struct bench_stacks stacks = { .pid = pid };
	struct dirent *entry;
	char path[64];
	int r = ht_modules_new(&stacks.modules);
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	stacks.at = calloc(THREADS_MAX, sizeof(*stacks.at));
	if (!dir || !stacks.at)
		return -ENOENT;
	while (r == 0 && stacks.n < THREADS_MAX && (entry = readdir(dir)))
		if (atoi(entry->d_name) > 0)
			r = take(&stacks, atoi(entry->d_name));
	closedir(dir);
	*ret_stacks = stacks;
	return r;
}
