/* SPDX-License-Identifier: Apache-2.0
 *
 * unwind_chains PROGRAM...: run programs that know their chains of calls (chains.h) and
 * unwind the stack at each trap: as that of a thread that is stopped there, and as the
 * hook takes it, from the return address, with the registers that a call keeps. Ends with
 * a line of sums. Status: 0 all right, 1 some chain wasn't found, 2 a program didn't end
 * as it should.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../oracle/chains.h"
#include "base/fd.h"
#include "ht_stopped.h"
#include "unwind/unwind.h"

#define STACK_MAX ((size_t)4 << 20)
#define MAX_PRINTED 3
/* Frames of libraries between two that are noted; those above main(). */
#define MAX_BETWEEN 40
#define MAX_ABOVE 4

struct sums {
	unsigned long programs, traps, chains, frames, bad;
};

struct run {
	const char *path;
	struct ht_stopped stopped;
	struct ht_modules *modules;
	struct ht_space *space;
	struct ht_unwinder *unwinder;
	struct chains_notes notes;
	struct ht_stack stack;
	unsigned printed;
	struct sums *sums;
};

/* ---------------------------------------------------------------------- comparing */

static bool is_at(const struct run *run, unsigned i, uint64_t addr)
{
	const struct ht_frame *frame = &run->stack.frames[i];
	const struct ht_mapping *m = ht_space_find(run->space, addr - 1);

	return i < run->stack.n_frames && m && m->module &&
	       frame->module == ht_module_id(m->module) &&
	       frame->offset == addr - m->bias;
}

/* The frame that is @note's, from frame @at on; -1: there is none where it should be. */
static int place(const struct run *run, unsigned at, unsigned long flags, uint64_t ra)
{
	unsigned i;

	if (!(flags & THROUGH))
		return is_at(run, at, ra) ? (int)at : -1;
	for (i = flags & PERHAPS ? at : at + 1; i <= at + MAX_BETWEEN; i++)
		if (is_at(run, i, ra))
			return (int)i;
	return -1;
}

/* Is the chain on the stack, from frame @at on, and nothing else? What isn't, or NULL. */
static const char *check(const struct run *run, unsigned at)
{
	static char text[80];
	unsigned long i, flags = run->notes.through;
	int found;

	for (i = run->notes.n; i-- > 0;) {
		const struct chains_note *note = &run->notes.notes[i];

		/* Its tail call took its place. */
		if ((note->flags & MAYBE) && i + 1 < run->notes.n &&
		    run->notes.notes[i + 1].ra == note->ra) {
			flags |= note->flags;
			continue;
		}
		found = place(run, at, flags, note->ra);
		if (found < 0) {
			snprintf(text, sizeof(text), "note %lu, %#lx, isn't at frame %u",
				 i, note->ra, at);
			return text;
		}
		at = (unsigned)found + 1;
		flags = note->flags;
	}
	if (run->stack.end != HT_STACK_COMPLETE)
		return ht_stack_end_text(run->stack.end);
	return run->stack.n_frames - at > MAX_ABOVE ? "more frames than there are" : NULL;
}

static void print(const struct run *run, const char *how, const char *why)
{
	unsigned long i;

	printf("%s: %s, %s:\n  ours:", run->path, how, why);
	for (i = 0; i < run->stack.n_frames; i++)
		printf(" %u:%#llx/%u", run->stack.frames[i].module,
		       (unsigned long long)run->stack.frames[i].offset,
		       run->stack.frames[i].flags);
	printf(" (%s)\n  notes (through %lu):", ht_stack_end_text(run->stack.end),
	       run->notes.through);
	for (i = run->notes.n; i-- > 0;) {
		const struct ht_mapping *m =
			ht_space_find(run->space, run->notes.notes[i].ra - 1);

		printf(" %#llx/%lu",
		       (unsigned long long)run->notes.notes[i].ra - (m ? m->bias : 0),
		       run->notes.notes[i].flags);
	}
	printf("\n");
}

static void compare(struct run *run, const struct ht_unwind_input *in, unsigned at,
		    const char *how)
{
	const char *why;

	ht_unwind(run->unwinder, in, &run->stack);
	run->sums->chains++;
	run->sums->frames += run->stack.n_frames;
	why = check(run, at);
	if (!why)
		return;
	run->sums->bad++;
	if (run->printed++ < MAX_PRINTED)
		print(run, how, why);
}

static void compare_hooked(struct run *run)
{
	struct ht_unwind_input in = run->stopped.input;

	memcpy(&in.regs[HT_REG_RIP], in.stack, 8);
	in.regs[HT_REG_RSP] += 8;
	in.stack += 8;
	in.stack_base += 8;
	in.stack_len -= 8;
	in.rip_is_return = true;
	in.known = 1u << HT_REG_RBX | 1u << HT_REG_RBP | 1u << HT_REG_RSP |
		   1u << HT_REG_R12 | 1u << HT_REG_R13 | 1u << HT_REG_R14 |
		   1u << HT_REG_R15 | 1u << HT_REG_RIP;
	compare(run, &in, 1, "as hooked");
}

static int on_trap(struct run *run)
{
	int r;

	if (!run->space) {
		r = ht_space_new(run->stopped.procfd, run->stopped.memfd, run->modules,
				 &run->space);
		if (r < 0)
			return r;
		r = ht_unwinder_new(run->space, run->stopped.memfd, &run->unwinder);
		if (r < 0)
			return r;
	}
	r = ht_stopped_sample(&run->stopped, STACK_MAX);
	if (r < 0)
		return r;
	r = ht_stopped_read(&run->stopped, run->stopped.input.regs[HT_REG_R11],
			    &run->notes, sizeof(run->notes));
	if (r < 0 || run->notes.n > CHAINS_MAX || run->stopped.input.stack_len < 8)
		return -EINVAL;
	run->sums->traps++;
	compare(run, &run->stopped.input, 2, "stopped");
	compare_hooked(run);
	return 0;
}

/* ------------------------------------------------------------------------ running */

_noreturn_ static void become(const char *path)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(null, 0);
	dup2(null, 1);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	execl(path, path, (char *)NULL);
	_exit(127);
}

static int open_fds(struct run *run)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", run->stopped.pid);
	run->stopped.procfd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/mem", run->stopped.pid);
	run->stopped.memfd = open(path, O_RDONLY | O_CLOEXEC);
	return run->stopped.procfd < 0 || run->stopped.memfd < 0 ? -errno : 0;
}

/* Its signals are its own, all but the traps. 0 or what went wrong. */
static int trace(struct run *run)
{
	pid_t pid = run->stopped.pid;
	int status, sig = 0, r;
	bool execed = false;

	for (;;) {
		if (waitpid(pid, &status, 0) != pid)
			return -errno;
		if (!WIFSTOPPED(status))
			return status ? -ECHILD : 0;
		sig = WSTOPSIG(status);
		if (sig == SIGSTOP && !execed) {
			if (ptrace(PTRACE_SETOPTIONS, pid, NULL,
				   (long)(PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC)) < 0)
				return -errno;
			sig = 0;
		} else if (sig == SIGTRAP) {
			r = status >> 16 ? open_fds(run) : on_trap(run);
			if (r < 0)
				return r;
			execed = true;
			sig = 0;
		}
		if (ptrace(PTRACE_CONT, pid, NULL, (long)sig) < 0)
			return -errno;
	}
}

static int do_program(const char *path, struct ht_modules *modules, struct sums *sums)
{
	struct run *run = calloc(1, sizeof(*run));
	unsigned long traps = sums->traps;
	int r;

	if (!run)
		return -ENOMEM;
	run->path = path;
	run->modules = modules;
	run->sums = sums;
	run->stopped = (struct ht_stopped){.procfd = -1, .memfd = -1};
	run->stopped.pid = run->stopped.tid = fork();
	if (run->stopped.pid == 0)
		become(path);
	r = trace(run);
	if (r < 0 && r != -ECHILD) {
		kill(run->stopped.pid, SIGKILL);
		waitpid(run->stopped.pid, NULL, 0);
	}
	sums->programs++;
	if (!r && sums->traps == traps)
		r = -ENODATA;
	if (r < 0)
		printf("%s: %s\n", path, r == -ECHILD ? "it failed" : strerror(-r));
	ht_unwinder_free(run->unwinder);
	ht_space_free(run->space);
	ht_fd_close(run->stopped.procfd);
	ht_fd_close(run->stopped.memfd);
	free((void *)run->stopped.input.stack);
	free(run);
	return r;
}

int main(int argc, char **argv)
{
	struct sums sums = {.programs = 0};
	struct ht_modules *modules;
	int i, r = 0;

	if (argc < 2 || ht_modules_new(&modules))
		return 2;
	for (i = 1; i < argc; i++)
		if (do_program(argv[i], modules, &sums) < 0)
			r = 2;
	printf("%lu programs, %lu traps, %lu chains, %lu frames, %lu wrong\n",
	       sums.programs, sums.traps, sums.chains, sums.frames, sums.bad);
	ht_modules_free(modules);
	return r ? r : sums.bad > 0;
}
