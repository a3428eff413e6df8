/* SPDX-License-Identifier: Apache-2.0
 *
 * bulk.c: what libdw makes much of little, seen before it does.
 *
 * Each unit has its own copy of the table of abbreviations that it names, twenty bytes for one
 * of it: of a MB, which ten thousand units of a few bytes share, that is 200 GB.
 */
#include <dwarf.h>
#include <errno.h>

#include "base/map.h"
#include "symbol/symbol-priv.h"
#include "unwind/cursor.h"

/* What is shared is small; what is large is each unit's own, and then no more than there is. */
#define MAX_SHARED (UINT64_C(64) << 20)

/* The table of the next unit at @c. False: there's none. */
static bool next_unit(struct ht_cursor *c, uint64_t *ret_table)
{
	uint64_t len = ht_cursor_u32(c);
	bool wide = len == UINT32_MAX;
	struct ht_cursor unit;
	uint16_t version;

	if (wide)
		len = ht_cursor_u64(c);
	unit.p = c->bad ? NULL : ht_cursor_take(c, len);
	if (!unit.p)
		return false;
	unit.end = c->p;
	unit.bad = false;
	version = ht_cursor_u16(&unit);
	if (version >= 5)
		ht_cursor_u16(&unit);	/* kind, size of addresses */
	*ret_table = wide ? ht_cursor_u64(&unit) : ht_cursor_u32(&unit);
	if (unit.bad)
		*ret_table = UINT64_MAX;
	return true;
}

static bool skip_abbreviation(struct ht_cursor *c)
{
	uint64_t name, form;

	if (!ht_cursor_uleb(c))
		return false;
	ht_cursor_uleb(c);
	ht_cursor_u8(c);
	do {
		name = ht_cursor_uleb(c);
		form = ht_cursor_uleb(c);
		if (form == DW_FORM_implicit_const)
			ht_cursor_sleb(c);
	} while (!c->bad && (name || form));
	return !c->bad;
}

/* Where it can't be read, libdw may go on: then it's all that follows. */
static uint64_t table_len(const struct ht_span *tables, uint64_t at)
{
	struct ht_cursor c = { tables->data + at, tables->data + tables->len, false };

	while (skip_abbreviation(&c))
		;
	return c.bad ? tables->len - at : (uint64_t)(c.p - tables->data) - at;
}

int ht_bulk_add_units(const struct ht_span *info, const struct ht_span *tables, uint64_t *sum)
{
	const uint64_t max = MAX_SHARED + 4 * (uint64_t)tables->len;
	struct ht_map known = HT_MAP_INIT;
	uint64_t at, *len, own;
	struct ht_cursor c;
	int r = 0;

	/* NULL, then. */
	if (!info->len || !tables->len)
		return 0;
	c = (struct ht_cursor){ info->data, info->data + info->len, false };
	while (r == 0 && next_unit(&c, &at)) {
		if (at >= tables->len)
			continue;
		len = ht_map_get(&known, at);
		own = len ? *len : table_len(tables, at);
		*sum += own;
		r = *sum > max ? -E2BIG : len ? 0 : ht_map_put(&known, at, own);
	}
	ht_map_fini(&known);
	return r;
}
