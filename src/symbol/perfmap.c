/* SPDX-License-Identifier: Apache-2.0
 *
 * perfmap.c: the lines of a perf map: where code starts and how long it is, both in
 * hexadecimal digits (some write 0x before them), and its name to the end of the line.
 */
#include <errno.h>
#include <string.h>

#include "symbol/jit-priv.h"

void ht_perfmap_fini(struct ht_perfmap *map)
{
	ht_ranges_fini(&map->ranges);
}

void ht_perfmap_restart(struct ht_perfmap *map, bool skipping)
{
	ht_ranges_clear(&map->ranges);
	map->len = 0;
	map->skipping = skipping;
	map->full = false;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

/* A number with space behind it; *at is moved behind that. */
static bool take_hex(const char **at, const char *end, uint64_t *ret_value)
{
	const char *p = *at;
	uint64_t value = 0;
	size_t digits;
	int d;

	if (end - p > 2 && p[0] == '0' && (p[1] | 0x20) == 'x')
		p += 2;
	for (digits = 0; p < end && (d = digit_of(*p)) >= 0; p++, digits++) {
		if (value >> 60)
			return false;
		value = value << 4 | (uint64_t)d;
	}
	if (!digits || p == end || !is_space(*p))
		return false;
	while (p < end && is_space(*p))
		p++;
	*at = p;
	*ret_value = value;
	return true;
}

static int take_line(struct ht_perfmap *map, const char *line, size_t len)
{
	const char *end = line + len;
	uint64_t start, size;
	int r;

	if (!take_hex(&line, end, &start) || !take_hex(&line, end, &size))
		return 0;
	while (end > line && (is_space(end[-1]) || end[-1] == '\r'))
		end--;
	if (memchr(line, '\0', (size_t)(end - line)))
		return 0;
	r = ht_ranges_add(&map->ranges, start, size, line, (size_t)(end - line));
	map->full |= r == -ENOSPC;
	return r == -ENOMEM ? r : 0;
}

/* Behind what is there of the line already. */
static void keep(struct ht_perfmap *map, const char *text, size_t len)
{
	len = ht_min(len, sizeof(map->line) - map->len);
	if (len)
		memcpy(map->line + map->len, text, len);
	map->len += len;
}

int ht_perfmap_add(struct ht_perfmap *map, const char *text, size_t len)
{
	const char *end = text + len, *newline;
	int r = 0;

	for (; r == 0 && text < end; text = newline + 1) {
		newline = memchr(text, '\n', (size_t)(end - text));
		if (!map->skipping)
			keep(map, text, (size_t)((newline ? newline : end) - text));
		if (!newline)
			return 0;
		if (!map->skipping)
			r = take_line(map, map->line, map->len);
		map->skipping = false;
		map->len = 0;
	}
	return r;
}
