/* SPDX-License-Identifier: Apache-2.0
 *
 * gadget.c: two snippets of the target's own code that the first and the last remote call
 * go through: "syscall; ret", and a pop of the call number's register. Any executable
 * text of a file will do; libc's and the loader's are preferred, being never unmapped.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach/attach-priv.h"
#include "unwind/maps.h"

#define CHUNK (64 * 1024)
/* A pattern may begin in one chunk and end in the next. */
#define OVERLAP (HT_CHECKED_SYSCALL_LEN - 1)
#define AREA_MAX (64 * 1024 * 1024)

enum rank {
	RANK_LIBC,
	RANK_FILE,
	RANK_VDSO,
	RANKS,
	RANK_NO = RANKS,
};

static enum rank rank_of(const struct ht_area *area)
{
	const unsigned text = HT_PROT_READ | HT_PROT_EXEC;
	const char *name = strrchr(area->path, '/');

	if ((area->prot & (text | HT_PROT_WRITE)) != text)
		return RANK_NO;
	if (!strcmp(area->path, "[vdso]"))
		return RANK_VDSO;
	if (!name)
		return RANK_NO;
	if (!strncmp(name, "/libc.", 6) || !strncmp(name, "/libc-", 6) ||
	    !strncmp(name, "/ld-", 4))
		return RANK_LIBC;
	return RANK_FILE;
}

static bool found_all(const struct ht_gadgets *gadgets)
{
	return gadgets->syscall_ret && gadgets->pop_result;
}

static void search_area(const struct ht_target *target, const struct ht_area *area,
			bool checked, uint8_t *buf, struct ht_gadgets *gadgets)
{
	ht_addr_t end = ht_min(area->end, area->start + AREA_MAX);

	for (ht_addr_t at = area->start; at < end; at += CHUNK - OVERLAP) {
		size_t len = (size_t)ht_min(end - at, (ht_addr_t)CHUNK);
		size_t offset;

		if (ht_target_read(target, at, buf, len) < 0)
			return;
		if (!gadgets->syscall_ret &&
		    (checked ? ht_find_checked_syscall(buf, len, &offset) :
			       ht_find_syscall_ret(buf, len, &offset)))
			gadgets->syscall_ret = at + offset;
		if (!gadgets->pop_result && ht_find_pop_result(buf, len, &offset))
			gadgets->pop_result = at + offset;
		if (found_all(gadgets) || len < CHUNK)
			return;
	}
}

static void search(const struct ht_target *target, const struct ht_maps *maps, bool checked,
		   uint8_t *buf, struct ht_gadgets *gadgets)
{
	for (int rank = 0; rank < RANKS; rank++) {
		for (size_t i = 0; i < ht_maps_count(maps); i++) {
			const struct ht_area *area = ht_maps_at(maps, i);

			if (found_all(gadgets))
				return;
			if ((int)rank_of(area) == rank)
				search_area(target, area, checked, buf, gadgets);
		}
	}
}

int ht_gadgets_find(const struct ht_target *target, struct ht_gadgets *ret_gadgets)
{
	struct ht_gadgets gadgets = { 0 };
	struct ht_maps *maps = NULL;
	uint8_t *buf = NULL;
	int r = ht_maps_read(target->procfd, &maps);

	if (r < 0)
		return r;
	buf = malloc(CHUNK);
	if (!buf) {
		ht_maps_free(maps);
		return -ENOMEM;
	}
	search(target, maps, false, buf, &gadgets);
	search(target, maps, true, buf, &gadgets);
	free(buf);
	ht_maps_free(maps);
	if (!found_all(&gadgets))
		return -ENOENT;
	*ret_gadgets = gadgets;
	return 0;
}

/* The shorter one may be the last there is. */
static bool is_syscall(const struct ht_target *target, ht_addr_t addr)
{
	uint8_t code[HT_CHECKED_SYSCALL_LEN];
	size_t at;

	if (ht_target_read(target, addr, code, 3) < 0)
		return false;
	if (ht_find_syscall_ret(code, 3, &at))
		return true;
	return ht_target_read(target, addr, code, sizeof(code)) == 0 &&
	       ht_find_checked_syscall(code, sizeof(code), &at) && at == 0;
}

bool ht_gadgets_hold(const struct ht_target *target)
{
	const struct ht_gadgets *gadgets = &target->gadgets;
	uint8_t code[2];
	size_t at;

	if (!gadgets->syscall_ret || !is_syscall(target, gadgets->syscall_ret))
		return false;
	return ht_target_read(target, gadgets->pop_result, code, 2) == 0 &&
	       ht_find_pop_result(code, 2, &at);
}

void ht_gadgets_renew(struct ht_target *target)
{
	if (!ht_gadgets_hold(target))
		(void)ht_gadgets_find(target, &target->gadgets);
}
