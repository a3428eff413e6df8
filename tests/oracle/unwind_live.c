/* SPDX-License-Identifier: Apache-2.0
 *
 * unwind_live PID: the stack of each thread of a process, for comparing with other tools:
 *
 *	TID END PC PC* method ...	* found without unwind data; method: a frame of Java's
 *					interpreter, known by its method
 *
 * Walks each stack twice; a warm cache must not change anything (exit 3).
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ht_stopped.h"
#include "unwind/unwind.h"

#define STACK_MAX ((size_t)16 << 20)

static uint64_t address(const struct ht_space *space, const struct ht_frame *frame)
{
	size_t i;

	for (i = 0; i < ht_space_count(space); i++) {
		const struct ht_mapping *m = ht_space_at(space, i);
		uint64_t addr = frame->offset + m->bias;

		if (m->module && ht_module_id(m->module) == frame->module &&
		    addr >= m->start && addr <= m->end)
			return addr;
	}
	return frame->offset;
}

static void print_frame(const struct ht_space *space, const struct ht_frame *frame)
{
	if (frame->flags & HT_FRAME_METHOD)
		printf(" method");
	else
		printf(" %llx%s", (unsigned long long)address(space, frame),
		       frame->flags & HT_FRAME_GUESSED ? "*" : "");
}

static int print_thread(struct ht_modules *modules, pid_t pid, pid_t tid)
{
	static struct ht_stack stack, again;
	struct ht_stopped stopped;
	struct ht_space *space = NULL;
	struct ht_unwinder *unwinder = NULL;
	unsigned i;

	if (ht_stopped_open(pid, tid, &stopped) ||
	    ht_stopped_sample(&stopped, STACK_MAX) ||
	    ht_space_new(stopped.procfd, stopped.memfd, modules, &space) ||
	    ht_unwinder_new(space, stopped.memfd, &unwinder))
		return 1;
	ht_unwind(unwinder, &stopped.input, &stack);
	ht_unwind(unwinder, &stopped.input, &again);
	if (stack.n_frames != again.n_frames || stack.end != again.end ||
	    memcmp(stack.frames, again.frames,
		   stack.n_frames * sizeof(stack.frames[0])) != 0)
		return 3;
	printf("%d %d", tid, stack.end);
	for (i = 0; i < stack.n_frames; i++)
		print_frame(space, &stack.frames[i]);
	printf("\n");
	ht_unwinder_free(unwinder);
	ht_space_free(space);
	ht_stopped_close(&stopped);
	return 0;
}

int main(int argc, char **argv)
{
	struct ht_modules *modules;
	struct dirent *entry;
	char path[64];
	DIR *dir;
	int r = 0;

	if (argc != 2 || ht_modules_new(&modules))
		return 2;
	snprintf(path, sizeof(path), "/proc/%d/task", atoi(argv[1]));
	dir = opendir(path);
	if (!dir)
		return 2;
	while (!r && (entry = readdir(dir)))
		if (atoi(entry->d_name) > 0)
			r = print_thread(modules, atoi(argv[1]), atoi(entry->d_name));
	closedir(dir);
	ht_modules_free(modules);
	return r;
}
