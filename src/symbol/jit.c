/* SPDX-License-Identifier: Apache-2.0
 *
 * jit.c: see jit.h. When the sources of names are looked at.
 */
#include "symbol/jit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "symbol/jit-priv.h"
#include "unwind/hotspot.h"

/* Between looks while there is something new, and while there isn't. */
#define SOON_NS (20 * HT_NS_PER_MS)
#define LATER_NS HT_NS_PER_SEC
/* All looks together take at most one in so many parts of the time. */
#define SHARE 32

int ht_jit_new(int procfd, int memfd, struct ht_space *space, uint64_t start_ticks,
	       struct ht_jit **ret_jit)
{
	struct ht_jit *jit = calloc(1, sizeof(*jit));

	if (!jit)
		return -ENOMEM;
	ht_mapfile_init(&jit->file, procfd, start_ticks);
	ht_gdbjit_init(&jit->gdb, memfd, space);
	if (ht_hotspot_new(space, memfd, &jit->hotspot) < 0) {
		ht_jit_free(jit);
		return -ENOMEM;
	}
	(void)!ht_gdbjit_read(&jit->gdb);
	*ret_jit = jit;
	return 0;
}

struct ht_jit *ht_jit_free(struct ht_jit *jit)
{
	if (!jit)
		return NULL;
	ht_mapfile_fini(&jit->file);
	ht_gdbjit_fini(&jit->gdb);
	ht_hotspot_free(jit->hotspot);
	ht_strings_fini(&jit->strings);
	ht_vec_fini(&jit->names);
	ht_vec_fini(&jit->nameless);
	ht_map_fini(&jit->seen);
	free(jit);
	return NULL;
}

static int name_java(struct ht_jit *jit, const struct ht_jit_nameless *seen)
{
	_cleanup_(ht_buf_fini) struct ht_buf name = HT_BUF_INIT;
	int r;

	if (seen->method)
		r = ht_hotspot_method_name(jit->hotspot, seen->addr, &name);
	else
		r = ht_hotspot_code_name(jit->hotspot, seen->addr, &name);
	return r < 0 ? r : ht_jit_give_name(jit, seen->addr, name.data, "java");
}

static int name(struct ht_jit *jit, const struct ht_jit_nameless *seen)
{
	const char *found;
	int r = name_java(jit, seen);

	if (r == 0 || seen->method)
		return r;
	found = ht_ranges_find(&jit->gdb.ranges, seen->addr);
	if (!found)
		found = ht_ranges_find(&jit->file.map.ranges, seen->addr);
	return found ? ht_jit_give_name(jit, seen->addr, found, "jit") : -ENOENT;
}

/* For want of memory a name may come at the next look. */
static void give_names(struct ht_jit *jit)
{
	size_t kept = 0, i;

	for (i = 0; i < jit->nameless.len; i++)
		if (name(jit, &jit->nameless.at[i]) < 0)
			jit->nameless.at[kept++] = jit->nameless.at[i];
	jit->nameless.len = kept;
	jit->tried = kept;
}

/* 1: there is more to be read first. */
static int look(struct ht_jit *jit)
{
	int r = ht_mapfile_read(&jit->file);

	if (r)
		return r;
	/* What is there is good, even if not all could be read. */
	(void)!ht_gdbjit_read(&jit->gdb);
	ht_hotspot_tick(jit->hotspot, ht_now_ns());
	r = ht_ranges_index(&jit->gdb.ranges);
	if (r == 0)
		r = ht_ranges_index(&jit->file.map.ranges);
	if (r == 0)
		give_names(jit);
	return r;
}

void ht_jit_look(struct ht_jit *jit)
{
	uint64_t cpu_ns, now = ht_now_ns();
	int r;

	if (!jit->nameless.len || now < jit->next_ns)
		return;
	/* What had no name at the last look may wait for one. */
	if (jit->nameless.len == jit->tried && now < jit->next_ns + LATER_NS)
		return;
	cpu_ns = ht_cpu_ns();
	r = look(jit);
	jit->next_ns = ht_now_ns() +
		       ht_max(SHARE * (ht_cpu_ns() - cpu_ns), r == 1 ? UINT64_C(0) : SOON_NS);
}

void ht_jit_look_last(struct ht_jit *jit)
{
	uint64_t rounds = 2 * HT_MAPFILE_MAX >> 20;

	if (!jit->nameless.len)
		return;
	/* Also one that is written all the while comes to its end. */
	while (rounds-- && look(jit) == 1)
		;
}
