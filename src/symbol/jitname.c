/* SPDX-License-Identifier: Apache-2.0
 *
 * jitname.c: which addresses were seen, and what they are called.
 */
#include <errno.h>

#include "symbol/jit-priv.h"

/* Return addresses are the target's word. */
#define SEEN_MAX (1 << 18)

/* As symbols are looked up: a return address at the call before it. */
static uint64_t address_of(const struct ht_frame *frame)
{
	return frame->offset - (!(frame->flags & HT_FRAME_EXACT) && frame->offset);
}

int ht_jit_see(struct ht_jit *jit, const struct ht_frame *frame)
{
	struct ht_jit_nameless *slot;
	uint64_t addr = address_of(frame);
	int r;

	if (frame->module != HT_MODULE_NONE || ht_map_get(&jit->seen, addr) ||
	    jit->seen.len >= SEEN_MAX)
		return 0;
	r = ht_map_put(&jit->seen, addr, 0);
	if (r < 0)
		return r;
	slot = ht_vec_push(&jit->nameless);
	if (!slot)
		return -ENOMEM;
	*slot = (struct ht_jit_nameless){ addr, frame->flags & HT_FRAME_METHOD };
	return 0;
}

int ht_jit_give_name(struct ht_jit *jit, uint64_t addr, const char *name, const char *kind)
{
	struct ht_jit_name *slot = ht_vec_push(&jit->names);

	if (!slot)
		return -ENOMEM;
	slot->kind = kind;
	slot->text = ht_strings_intern(&jit->strings, name);
	if (!slot->text) {
		jit->names.len--;
		return -ENOMEM;
	}
	return ht_map_put(&jit->seen, addr, jit->names.len);
}

const char *ht_jit_name(const struct ht_jit *jit, const struct ht_frame *frame,
			const char **ret_kind)
{
	uint64_t *number;

	if (frame->module != HT_MODULE_NONE)
		return NULL;
	number = ht_map_get(&jit->seen, address_of(frame));
	if (!number || !*number)
		return NULL;
	*ret_kind = jit->names.at[*number - 1].kind;
	return jit->names.at[*number - 1].text;
}

const char *ht_jit_reason(const struct ht_jit *jit)
{
	return *jit->file.reason ? jit->file.reason : NULL;
}
