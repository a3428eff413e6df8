/* SPDX-License-Identifier: Apache-2.0
 *
 * scan.c: see scan.h.
 */
#include "inject/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "unwind/live.h"

#define CHUNK (64 * 1024)
#define STACK_MAX (1024 * 1024)	/* what is looked at where no end of a stack is known */
#define RED_ZONE 128

struct ht_scanner {
	struct ht_space *space;
	struct ht_live *live;
	struct ht_stack stack;
	uint64_t words[CHUNK / sizeof(uint64_t)];
};

/* At one thread, for addresses of @ranges. */
struct look {
	const struct ht_target *target;
	const struct ht_journal_range *ranges;
	size_t n;
	struct ht_journal_range own;	/* its own stack; empty: unknown */
};

int ht_scanner_new(struct ht_space *space, int memfd, struct ht_scanner **ret_scanner)
{
	struct ht_scanner *scanner = malloc(sizeof(*scanner));

	if (!scanner)
		return -ENOMEM;
	scanner->space = space;
	if (ht_live_new(space, memfd, &scanner->live) < 0)
		return free(scanner), -ENOMEM;
	*ret_scanner = scanner;
	return 0;
}

struct ht_scanner *ht_scanner_free(struct ht_scanner *scanner)
{
	if (scanner)
		ht_live_free(scanner->live);
	free(scanner);
	return NULL;
}

static bool hit(const struct ht_journal_range *ranges, size_t n, uint64_t word)
{
	/* Nearly every word on a stack is none: small numbers, other pointers. */
	if (word < 0x10000)
		return false;
	for (size_t i = 0; i < n; i++)
		if (word >= ranges[i].start && word < ranges[i].end)
			return true;
	return false;
}

static const struct ht_area *main_stack(const struct ht_maps *maps)
{
	for (size_t i = ht_maps_count(maps); i-- > 0;)
		if (!strcmp(ht_maps_at(maps, i)->path, "[stack]"))
			return ht_maps_at(maps, i);
	return NULL;
}

/* The stack that a thread was given when it began. The control block of glibc's and musl's
 * threads lies on top of it; the main thread's is elsewhere, unless a thread forked it. */
static struct ht_journal_range own_stack(const struct ht_scanner *s, const struct ht_regs *regs,
					 bool is_main)
{
	const struct ht_maps *maps = ht_space_maps(s->space);
	ht_addr_t sp = ht_regs_sp(regs), top = ht_regs_thread_pointer(regs);
	const struct ht_area *area = ht_maps_find(maps, top);

	if (is_main && !(area && sp >= area->start && sp < top)) {
		area = main_stack(maps);
		top = area ? area->end : 0;
	}
	return area ? (struct ht_journal_range){ area->start, top } :
		      (struct ht_journal_range){ 0, 0 };
}

static bool is_in(const struct ht_journal_range *range, ht_addr_t addr)
{
	return addr >= range->start && addr < range->end;
}

/* Where another stack ends, of a coroutine or of handlers. One that is newer than the snapshot
 * of the maps is looked at for a chunk. */
static ht_addr_t other_end(const struct ht_scanner *s, ht_addr_t sp)
{
	const struct ht_area *area = ht_maps_find(ht_space_maps(s->space), sp);

	return area ? ht_min(area->end, sp + STACK_MAX) : sp + CHUNK;
}

/* Read [@addr, @end), a chunk at most, as far as it is mapped. Bytes; 0: none. */
static size_t read_some(struct ht_scanner *s, const struct ht_target *target, ht_addr_t addr,
			ht_addr_t end)
{
	size_t len = (size_t)ht_min(end - addr, (ht_addr_t)CHUNK);
	size_t page = (size_t)(4096 - (addr & 4095));

	for (;;) {
		if (ht_target_read(target, addr, s->words, len) == 0)
			return len;
		if (len <= page)
			return 0;
		len = ht_max(len / 2, page);
	}
}

/* Where in the target the frame's code is; 0: in no file. */
static ht_addr_t frame_address(const struct ht_space *space, const struct ht_frame *frame)
{
	for (size_t i = 0; i < ht_space_count(space); i++) {
		const struct ht_mapping *mapping = ht_space_at(space, i);

		if (mapping->module && ht_module_id(mapping->module) == frame->module)
			return frame->offset + mapping->bias;
	}
	return 0;
}

/* The stack is known as a whole, or at least past @highest, the thread's own part as well if
 * @own, and none of its frames is in the code. Code that is in no file, as our stubs are, ends a
 * walk before its known end. */
static bool walk_is_clean(struct ht_scanner *s, const struct look *look,
			  const struct ht_regs *regs, ht_addr_t highest, bool own)
{
	uint64_t values[HT_DWARF_REGS];

	ht_regs_by_dwarf(regs, values);
	ht_live_stack(s->live, values, &s->stack);
	if (s->stack.end != HT_STACK_COMPLETE &&
	    !(s->stack.end == HT_STACK_DEEP && s->stack.top > highest))
		return false;
	if (own && !is_in(&look->own, s->stack.top))
		return false;
	for (uint32_t i = 0; i < s->stack.n_frames; i++) {
		ht_addr_t addr = frame_address(s->space, &s->stack.frames[i]);

		if (!addr || hit(look->ranges, look->n, addr))
			return false;
	}
	return true;
}

/* What the words of a stack say of others. UINT64_MAX: nothing. */
struct hints {
	ht_addr_t lowest;	/* address of the thread's own stack */
	ht_addr_t interrupted;	/* the lowest where a signal frame says that it was used */
};

static void take_hint(struct hints *hints, const struct look *look, const uint64_t *words,
		      size_t n)
{
	ht_addr_t sp;

	if (is_in(&look->own, words[0]))
		hints->lowest = ht_min(hints->lowest, words[0]);
	if (n >= HT_SIGFRAME_WORDS && ht_sigframe_is_at(words, &sp) && is_in(&look->own, sp))
		hints->interrupted = ht_min(hints->interrupted, sp);
}

/* The highest place in [@at, @end) where an address of @look's code is; 0: there is none. */
static ht_addr_t find_hits(struct ht_scanner *s, const struct look *look, ht_addr_t at,
			   ht_addr_t end, struct hints *hints)
{
	const size_t overlap = (HT_SIGFRAME_WORDS - 1) * sizeof(uint64_t);
	ht_addr_t highest = 0;
	size_t len;

	for (; at < end; at += at + len < end && len > overlap ? len - overlap : len) {
		len = read_some(s, look->target, at, end);
		if (!len)
			break;
		/* Too deep to be looked at whole: the walk has to tell. */
		if (ht_target_check_time(look->target, NULL) < 0)
			return UINT64_MAX;
		for (size_t i = 0; i < len / sizeof(uint64_t); i++) {
			if (hit(look->ranges, look->n, s->words[i]))
				highest = at + i * sizeof(uint64_t);
			take_hint(hints, look, &s->words[i], len / sizeof(uint64_t) - i);
		}
	}
	return highest;
}

/*
 * A thread that handles a signal on an alternate stack, or runs a coroutine, isn't on its own
 * stack but comes back there. How far down that is in use tells a stack pointer that was saved;
 * what is below are only leftovers. The alternate stack may be a variable on its own: then the
 * part in use that it comes back to is further down.
 */
static bool is_held(struct ht_scanner *s, const struct look *look, const struct ht_regs *regs)
{
	ht_addr_t sp = ht_regs_sp(regs) & ~UINT64_C(7), at = sp - RED_ZONE;
	bool is_on_own = is_in(&look->own, sp);
	ht_addr_t end = is_on_own ? look->own.end : other_end(s, sp);
	struct hints hints = { UINT64_MAX, UINT64_MAX };
	ht_addr_t saved, highest;

	/* The red zone may lie on a page that was never touched. */
	if (!read_some(s, look->target, at, sp))
		at = sp;
	highest = find_hits(s, look, at, end & ~UINT64_C(7), &hints);
	if (highest && !walk_is_clean(s, look, regs, highest, false))
		return true;
	saved = is_on_own ? hints.interrupted : hints.lowest;
	end = is_on_own ? sp : look->own.end & ~UINT64_C(7);
	if (saved >= end)
		return false;
	at = ht_max((saved - RED_ZONE) & ~UINT64_C(7), look->own.start);
	highest = find_hits(s, look, at, end, &hints);
	/* A walk that came past there from above may not have been there yet. */
	return highest && !walk_is_clean(s, look, regs, is_on_own ? UINT64_MAX : highest, true);
}

int ht_scan_threads(struct ht_scanner *scanner, const struct ht_target *target,
		    const struct ht_journal_range *ranges, size_t n)
{
	struct look look = { .target = target, .ranges = ranges, .n = n };
	int hits = 0, r = ht_fault("scan");

	if (!n || r < 0)
		return r;
	for (size_t i = 0; i < ht_target_threads(target); i++) {
		const struct ht_regs *regs = ht_target_regs(target, i);

		r = ht_target_check_time(target, NULL);
		if (r < 0)
			return r;
		look.own = own_stack(scanner, regs, ht_target_tid(target, i) ==
						    ht_target_pid(target));
		hits += hit(ranges, n, ht_regs_pc(regs)) || is_held(scanner, &look, regs);
	}
	return ht_target_alive(target) ? hits : -ESRCH;
}
