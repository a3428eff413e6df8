/* SPDX-License-Identifier: Apache-2.0
 *
 * java.c: one step up from Java code, which has no unwind data but whose JVM knows its frames.
 *
 *	compiled		interpreted
 *
 *	caller's SP ->		caller's SP ->
 *	return address		  arguments, locals
 *	caller's BP		return address
 *	 ...			caller's BP	<- BP
 *	SP ->			caller's SP
 *				 ...
 *				method (the third word below BP)
 */
#include "base/clock.h"
#include "unwind/walk-priv.h"

/* Between a frame's ends, and for the arguments of a call. */
#define MAX_FRAME (256 * UINT64_C(1024))

static struct ht_hotspot *hotspot_of(struct ht_unwinder *u)
{
	if (!u->hotspot && ht_hotspot_new(u->space, u->memfd, &u->hotspot) < 0)
		return NULL;
	return u->hotspot;
}

/* The words of an interpreted frame make sense? */
static bool find_method(const struct ht_walk *walk, uint64_t *ret_method)
{
	uint64_t sp;

	return walk->bp_known && walk->bp >= walk->sp && walk->bp - walk->sp <= MAX_FRAME &&
	       walk->bp % 8 == 0 && ht_walk_peek(walk, walk->bp - 8, &sp) &&
	       sp >= walk->bp + 16 && sp - walk->bp <= MAX_FRAME && sp % 8 == 0 &&
	       ht_walk_peek(walk, walk->bp - 24, ret_method) && *ret_method;
}

void ht_walk_locate_java(struct ht_walk *walk, struct ht_located *located)
{
	struct ht_hotspot *hotspot = hotspot_of(walk->unwinder);
	struct ht_pc_entry *entry = &located->entry;
	uint64_t method;
	uint32_t bytes;

	if (!hotspot)
		return;
	if (!walk->java)
		ht_hotspot_tick(hotspot, ht_now_ns());
	walk->java = true;
	switch (ht_hotspot_find(hotspot, walk->pc - 1, &bytes)) {
	case HT_JAVA_NOT:
		return;
	case HT_JAVA_COMPILED:
		entry->kind = HT_PC_COMPILED;
		located->rule = (struct ht_rule){
			.cfa_kind = HT_CFA_SP, .cfa_offset = (int32_t)bytes,
			.bp_kind = HT_BP_CFA, .bp_offset = -16, .ra_kind = HT_RA_CFA, .aux = -8,
		};
		return;
	case HT_JAVA_INTERPRETED:
		if (!find_method(walk, &method))
			return;
		entry->kind = HT_PC_INTERPRETED;
		entry->offset = method;
		entry->flags |= HT_PC_EXACT;
	}
}

bool ht_walk_compiled(struct ht_walk *walk, const struct ht_rule *rule)
{
	bool found = ht_walk_by_rule(walk, rule);

	ht_walk_reset_full(walk, walk->depth);
	return found;
}

bool ht_walk_interpreted(struct ht_walk *walk)
{
	uint64_t pc, bp, sp;

	if (!ht_walk_peek(walk, walk->bp, &bp) || !ht_walk_peek(walk, walk->bp + 8, &pc) ||
	    !ht_walk_peek(walk, walk->bp - 8, &sp))
		return ht_walk_window_end(walk);
	walk->pc = pc;
	walk->sp = sp;
	walk->bp = bp;
	walk->depth++;
	walk->unwinder->stats.table_frames++;
	ht_walk_reset_full(walk, walk->depth);
	return pc ? true : ht_walk_end(walk, HT_STACK_BAD_RETURN);
}
