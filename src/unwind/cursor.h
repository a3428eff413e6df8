/* SPDX-License-Identifier: Apache-2.0
 *
 * cursor.h: reading DWARF's primitive types from bytes that may lie. A read past the end
 * gives 0 and sets bad; the reader checks bad when it is about to believe something.
 */
#ifndef HT_UNWIND_CURSOR_H
#define HT_UNWIND_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct ht_cursor {
	const uint8_t *p;
	const uint8_t *end;
	bool bad;
};

static inline size_t ht_cursor_left(const struct ht_cursor *c)
{
	return (size_t)(c->end - c->p);
}

/* The next @len bytes, or NULL. */
static inline const uint8_t *ht_cursor_take(struct ht_cursor *c, uint64_t len)
{
	const uint8_t *p = c->p;

	if (len > ht_cursor_left(c)) {
		c->bad = true;
		c->p = c->end;
		return NULL;
	}
	c->p += len;
	return p;
}

#define HT_CURSOR_READ(name, type)                                                        \
	static inline type ht_cursor_##name(struct ht_cursor *c)                          \
	{                                                                                 \
		const uint8_t *p = ht_cursor_take(c, sizeof(type));                       \
		type value = 0;                                                           \
                                                                                          \
		if (p)                                                                    \
			memcpy(&value, p, sizeof(value));                                 \
		return value;                                                             \
	}

HT_CURSOR_READ(u8, uint8_t)
HT_CURSOR_READ(u16, uint16_t)
HT_CURSOR_READ(u32, uint32_t)
HT_CURSOR_READ(u64, uint64_t)
#undef HT_CURSOR_READ

/* Numbers of more than ten bytes are refused, so that padding can't hide a long scan;
 * bits beyond the 64th are dropped, as everybody does. */
static inline uint64_t ht_cursor_uleb(struct ht_cursor *c)
{
	uint64_t value = 0;
	unsigned shift = 0;

	while (c->p < c->end && shift < 70) {
		uint8_t byte = *c->p++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
		shift += 7;
	}
	c->bad = true;
	return 0;
}

static inline int64_t ht_cursor_sleb(struct ht_cursor *c)
{
	uint64_t value = 0;
	unsigned shift = 0;

	while (c->p < c->end && shift < 70) {
		uint8_t byte = *c->p++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if (shift < 64 && (byte & 0x40))
			value |= ~UINT64_C(0) << shift;
		return (int64_t)value;
	}
	c->bad = true;
	return 0;
}

#endif
