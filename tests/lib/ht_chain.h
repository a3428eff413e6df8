/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_chain.h: tests/targets/chain in a scenario, stopped, with all that is needed to walk
 * its stack. For the tests of unwind/; asserts by itself.
 */
#ifndef HT_TESTS_HT_CHAIN_H
#define HT_TESTS_HT_CHAIN_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ht_check.h"
#include "ht_stopped.h"
#include "ht_target.h"

#define STACK_MAX ((size_t)4 << 20)
#define NOTES_MAX 2048

/* tests/targets/chain in a scenario, stopped, with its notes. */
struct chain {
	struct ht_test_target target;
	struct ht_stopped stopped;
	struct ht_modules *modules;
	struct ht_space *space;
	struct ht_unwinder *unwinder;
	uint64_t notes[NOTES_MAX];	/* innermost first */
	unsigned n_notes;
	uint64_t extra;			/* third word of READY */
	struct ht_stack stack;
};

static inline void read_notes(struct chain *c)
{
	unsigned long long at = 0, extra = 0;
	unsigned i, n = 0;
	uint64_t *outermost_first;

	ck_assert_int_ge(sscanf(c->target.ready, "READY %llx %u %llx", &at, &n, &extra),
			 2);
	ck_assert_uint_le(n, NOTES_MAX);
	outermost_first = calloc(n + 1, sizeof(uint64_t));
	ck_assert_ptr_nonnull(outermost_first);
	ck_ok(ht_stopped_read(&c->stopped, at, outermost_first, n * sizeof(uint64_t)));
	for (i = 0; i < n; i++)
		c->notes[i] = outermost_first[n - 1 - i];
	c->n_notes = n;
	c->extra = extra;
	free(outermost_first);
}

static inline pid_t last_thread(pid_t pid)
{
	char path[40];
	struct dirent *entry;
	pid_t last = pid;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir)))
		if (atoi(entry->d_name) > last)
			last = atoi(entry->d_name);
	closedir(dir);
	return last;
}

static inline void start(struct chain *c, const char *scenario, const char *depth)
{
	memset(c, 0, sizeof(*c));
	ck_ok(ht_test_target_start(&c->target, "chain",
				   (const char *[]){ scenario, depth, NULL }));
	ck_ok(ht_stopped_open(c->target.pid, last_thread(c->target.pid), &c->stopped));
	read_notes(c);
	ck_ok(ht_stopped_sample(&c->stopped, STACK_MAX));
	ck_ok(ht_modules_new(&c->modules));
	ck_ok(ht_space_new(c->stopped.procfd, c->stopped.memfd, c->modules, &c->space));
	ck_ok(ht_unwinder_new(c->space, c->stopped.memfd, &c->unwinder));
}

static inline void stop(struct chain *c)
{
	c->unwinder = ht_unwinder_free(c->unwinder);
	c->space = ht_space_free(c->space);
	c->modules = ht_modules_free(c->modules);
	ht_stopped_close(&c->stopped);
	ht_test_target_kill(&c->target);
}

/* Frame @i as an address in the target. */
static inline uint64_t address(const struct chain *c, unsigned i)
{
	const struct ht_frame *frame = &c->stack.frames[i];
	size_t j;

	for (j = 0; j < ht_space_count(c->space); j++) {
		const struct ht_mapping *m = ht_space_at(c->space, j);
		uint64_t addr = frame->offset + m->bias;

		if (m->module && ht_module_id(m->module) == frame->module &&
		    addr > m->start && addr <= m->end)
			return addr;
	}
	return frame->offset;
}

static inline char *dump(const struct chain *c)
{
	static char text[8192];
	size_t n = 0;
	unsigned i;

	text[0] = '\0';
	for (i = 0; i < c->stack.n_frames && n < sizeof(text) - 64; i++)
		n += (size_t)snprintf(text + n, 64, " %llx/%u",
				      (unsigned long long)address(c, i),
				      c->stack.frames[i].flags);
	return text;
}

/* The index of the frame whose pc is @addr, from frame @from on. */
static inline unsigned find(const struct chain *c, unsigned from, uint64_t addr)
{
	unsigned i;

	for (i = from; i < c->stack.n_frames; i++)
		if (address(c, i) == addr)
			return i;
	ck_abort_msg("%llx isn't in%s", (unsigned long long)addr, dump(c));
	return 0;
}

#endif
