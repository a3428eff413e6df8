/* SPDX-License-Identifier: Apache-2.0
 *
 * maps.c: see maps.h.
 */
#include "unwind/maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/vec.h"

/* A process may raise vm.max_map_count to millions; a line is some 100 bytes. */
#define MAPS_TEXT_MAX ((size_t)256 << 20)
#define TRIES 8
#define PAGE UINT64_C(4096)
#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)
#define LOWEST (64 * KIB)
/* TASK_SIZE_MAX with four page-table levels. The kernel gives out more only
 * on request. */
#define HIGHEST ((UINT64_C(1) << 47) - PAGE)

struct ht_maps {
	ht_vec(struct ht_area) areas;
	char *strings;		/* every path behind its NUL-ended predecessor */
};

struct cursor {
	const char *at;
	const char *end;
};

static bool take_char(struct cursor *c, char want)
{
	if (c->at == c->end || *c->at != want)
		return false;
	c->at++;
	return true;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return 16;
}

static bool take_number(struct cursor *c, unsigned base, uint64_t max, uint64_t *ret)
{
	const char *start = c->at;
	uint64_t value = 0;

	for (; c->at < c->end; c->at++) {
		unsigned digit = (unsigned)digit_of(*c->at);

		if (digit >= base)
			break;
		if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)digit, &value) || value > max)
			return false;
	}
	*ret = value;
	return c->at != start;
}

static bool take_flag(struct cursor *c, char yes, char no, unsigned bit, unsigned *prot)
{
	if (take_char(c, yes)) {
		*prot |= bit;
		return true;
	}
	return take_char(c, no);
}

static bool take_prot(struct cursor *c, unsigned *prot)
{
	return take_flag(c, 'r', '-', HT_PROT_READ, prot) &&
	       take_flag(c, 'w', '-', HT_PROT_WRITE, prot) &&
	       take_flag(c, 'x', '-', HT_PROT_EXEC, prot) &&
	       take_flag(c, 's', 'p', HT_PROT_SHARED, prot);
}

/*
 * Copy the path to @to and end it. The kernel writes a newline in a path as \012 and
 * nothing else in another way, not even a backslash: a file whose name really holds those
 * four characters can't be told apart here. What opens files checks which file it got.
 */
static char *copy_path(char *to, const struct cursor *path)
{
	const char *from = path->at;

	while (from < path->end) {
		if (path->end - from >= 4 && !memcmp(from, "\\012", 4)) {
			*to++ = '\n';
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to++ = '\0';
	return to;
}

static bool cut_deleted(struct cursor *path)
{
	static const char mark[] = " (deleted)";
	size_t len = sizeof(mark) - 1;

	if ((size_t)(path->end - path->at) <= len ||
	    memcmp(path->end - len, mark, len) != 0)
		return false;
	path->end -= len;
	return true;
}

static bool parse_line(struct cursor *line, struct ht_area *area)
{
	uint64_t major, minor;

	if (!take_number(line, 16, UINT64_MAX, &area->start) || !take_char(line, '-') ||
	    !take_number(line, 16, UINT64_MAX, &area->end) || !take_char(line, ' ') ||
	    !take_prot(line, &area->prot) || !take_char(line, ' ') ||
	    !take_number(line, 16, UINT64_MAX, &area->offset) || !take_char(line, ' ') ||
	    !take_number(line, 16, UINT32_MAX, &major) || !take_char(line, ':') ||
	    !take_number(line, 16, UINT32_MAX, &minor) || !take_char(line, ' ') ||
	    !take_number(line, 10, UINT64_MAX, &area->inode))
		return false;
	area->dev_major = (uint32_t)major;
	area->dev_minor = (uint32_t)minor;
	if (line->at < line->end && !take_char(line, ' '))
		return false;
	while (take_char(line, ' '))
		;
	return area->start < area->end && !memchr(line->at, '\0', line->end - line->at);
}

static int parse_all(struct ht_maps *maps, const char *text, size_t len)
{
	const char *end = text + len;
	char *string = maps->strings;
	ht_addr_t above = 0;

	while (text < end) {
		const char *newline = memchr(text, '\n', end - text);
		struct cursor line = { text, newline ? newline : end };
		struct ht_area *area = ht_vec_push(&maps->areas);

		if (!area)
			return -ENOMEM;
		if (!parse_line(&line, area) || area->start < above)
			return -EINVAL;
		above = area->end;
		area->deleted = cut_deleted(&line);
		area->path = string;
		string = copy_path(string, &line);
		text = newline ? newline + 1 : end;
	}
	return 0;
}

static void free_cleanup(struct ht_maps **maps)
{
	*maps = ht_maps_free(*maps);
}

int ht_maps_parse(const char *text, size_t len, struct ht_maps **ret_maps)
{
	_cleanup_(free_cleanup) struct ht_maps *maps = calloc(1, sizeof(*maps));
	int r;

	if (!maps)
		return -ENOMEM;
	/* The numbers of a line are longer than the NUL of its path. */
	maps->strings = malloc(len + 1);
	if (!maps->strings)
		return -ENOMEM;
	r = parse_all(maps, text, len);
	if (r < 0)
		return r;
	*ret_maps = maps;
	maps = NULL;
	return 0;
}

static int read_once(int procfd, struct ht_maps **ret_maps)
{
	_cleanup_(ht_buf_fini) struct ht_buf text = HT_BUF_INIT;
	int r = ht_buf_read_file(&text, procfd, "maps", MAPS_TEXT_MAX);

	if (r == -ENOENT)
		return -ESRCH;
	if (r < 0)
		return r;
	/* A zombie, and a process that is just exiting, has no memory left. */
	if (!text.len)
		return -ESRCH;
	return ht_maps_parse(text.data, text.len, ret_maps);
}

/* The kernel writes it a page at a time. What grows downward or is joined with what is below
 * it between two pages is there twice. */
int ht_maps_read(int procfd, struct ht_maps **ret_maps)
{
	int r;

	for (int tries = 0; tries < TRIES; tries++) {
		r = read_once(procfd, ret_maps);
		if (r != -EINVAL)
			break;
	}
	return r;
}

struct ht_maps *ht_maps_free(struct ht_maps *maps)
{
	if (!maps)
		return NULL;
	ht_vec_fini(&maps->areas);
	free(maps->strings);
	free(maps);
	return NULL;
}

size_t ht_maps_count(const struct ht_maps *maps)
{
	return maps->areas.len;
}

const struct ht_area *ht_maps_at(const struct ht_maps *maps, size_t i)
{
	return i < maps->areas.len ? &maps->areas.at[i] : NULL;
}

/* Index of the first area that ends above @addr. */
static size_t first_above(const struct ht_maps *maps, ht_addr_t addr)
{
	size_t lo = 0, hi = maps->areas.len;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (maps->areas.at[mid].end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

const struct ht_area *ht_maps_find(const struct ht_maps *maps, ht_addr_t addr)
{
	const struct ht_area *area = ht_maps_at(maps, first_above(maps, addr));

	return area && area->start <= addr ? area : NULL;
}

struct clearance {
	uint64_t heap;		/* above [heap]: room for brk() to grow */
	uint64_t stack;		/* below [stack] */
};

struct gap_search {
	ht_addr_t lo;		/* what must be reached */
	ht_addr_t hi;
	ht_addr_t from;		/* the gap lies wholly in [from, to) */
	ht_addr_t to;
	uint64_t size;
	ht_addr_t best;
	uint64_t best_distance;
};

static bool is_stack(const struct ht_area *area)
{
	/* "[stack:TID]" is how kernels before 4.5 named those of threads. */
	return !strncmp(area->path, "[stack", 6);
}

/* Look at the free range [@start, @end). */
static void consider(struct gap_search *s, ht_addr_t start, ht_addr_t end)
{
	uint64_t distance = 0;
	ht_addr_t at;

	start = ht_align_up(ht_max(start, s->from), PAGE);
	end = ht_align_down(ht_min(end, s->to), PAGE);
	if (start >= end || end - start < s->size)
		return;
	if (end <= s->lo) {
		at = end - s->size;
		distance = s->lo - end;
	} else if (start >= s->hi) {
		at = start;
		distance = start - s->hi;
	} else {
		/* The range overlaps or surrounds what must be reached. */
		at = ht_min(ht_align_down(s->lo, PAGE), end - s->size);
		at = ht_max(start, at);
	}
	if (s->best && distance >= s->best_distance)
		return;
	s->best = at;
	s->best_distance = distance;
}

static ht_addr_t find_gap(const struct ht_maps *maps, struct gap_search *s,
			  const struct clearance *clear)
{
	ht_addr_t free_from = 0;
	const struct ht_area *area;
	uint64_t margin;
	ht_addr_t start;

	ht_vec_foreach(area, &maps->areas) {
		margin = is_stack(area) ? clear->stack : 0;
		start = area->start > margin ? area->start - margin : 0;
		consider(s, free_from, start);
		margin = !strcmp(area->path, "[heap]") ? clear->heap : 0;
		if (__builtin_add_overflow(area->end, margin, &free_from))
			free_from = UINT64_MAX;
	}
	consider(s, free_from, UINT64_MAX);
	return s->best;
}

ht_addr_t ht_maps_gap(const struct ht_maps *maps, ht_addr_t lo, ht_addr_t hi,
		      uint64_t reach, uint64_t size)
{
	/* A main thread's stack may grow to its limit of usually 8 MiB. Going closer than
	 * that is for want of anything better. */
	static const struct clearance steps[] = {
		{ GIB, 16 * MIB }, { GIB, MIB }, { 0, MIB },
	};
	struct gap_search s = { .lo = lo, .hi = hi, .from = LOWEST, .to = HIGHEST,
				.size = size };
	size_t i;

	if (lo >= hi || !size || size % PAGE)
		return 0;
	/* Any byte of it must be near enough to any byte of [lo, hi). */
	if (hi > reach)
		s.from = ht_max(s.from, hi - reach);
	if (reach < HIGHEST - ht_min(lo, HIGHEST))
		s.to = lo + reach;
	for (i = 0; i < ARRAY_SIZE(steps) && !s.best; i++)
		find_gap(maps, &s, &steps[i]);
	return s.best;
}
