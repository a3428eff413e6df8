/* SPDX-License-Identifier: Apache-2.0
 *
 * entry_calls: calls every entry of the table that the process has, with the arguments
 * where the table says they are, and checks what came back against malloc_usable_size().
 * Run under each allocator (LD_PRELOAD); a wrong position shows as a wrong size, a bad
 * block or a crash. Prints the names called and the number of wrong ones; no READY.
 */
#include "entry_args.h"

#define SIZE 112
#define COUNT 5

static size_t (*usable)(void *);
static int wrong;

static void bad(const struct ht_entry_kind *kind, const char *what)
{
	printf("BAD %s: %s\n", kind->name, what);
	wrong++;
}

static void check_block(const struct ht_entry_kind *kind, void *block, size_t bytes)
{
	size_t has;

	if (!block) {
		bad(kind, "no block");
		return;
	}
	has = usable(block);
	/* valloc and the like give pages; nobody doubles a small block otherwise. */
	if (has < bytes || (has > 2 * bytes && !strstr(kind->name, "valloc")))
		bad(kind, "size");
	memset(block, 1, bytes);
	free(block);
}

static void call(const struct ht_entry_kind *kind, any_fn fn)
{
	size_t count = kind->count_arg >= 0 ? COUNT : 1, bytes = SIZE * count;
	void *out = NULL, *old = NULL;
	uint64_t a[6], r;

	if (kind->old_arg >= 0)
		old = (void *)(uintptr_t)malloc_for(kind->name)(SIZE / 2, 0, 0, 0, 0, 0);
	if (strstr(kind->name, "_expand"))
		bytes = SIZE / 2 - 8;
	if (is_realpath(kind))
		bytes = possible_size(kind, bytes);
	entry_args(kind, bytes / count, count, old, SIZE / 2, &out, a);
	r = fn(a[0], a[1], a[2], a[3], a[4], a[5]);
	if (kind->out_arg >= 0) {
		if (r & 0xffffffff)
			bad(kind, "status");
		else
			check_block(kind, out, bytes);
		return;
	}
	switch (kind->call) {
	case HT_CALL_ALLOC:
	case HT_CALL_NEW:
	case HT_CALL_DUP:
	case HT_CALL_REALLOC:
	case HT_CALL_REALLOCF:
		check_block(kind, (void *)(uintptr_t)r, bytes);
		break;
	case HT_CALL_RESIZE:
		/* In place: may not grow, but tells the size that is. */
		if (r != usable(old))
			bad(kind, "resize");
		free(old);
		break;
	default:
		break;
	}
}

int main(void)
{
	usable = (size_t(*)(void *))fn_named("malloc_usable_size");
	for (size_t i = 0; i < ht_entry_kinds_len; i++) {
		const struct ht_entry_kind *kind = shape_of(&ht_entry_kinds[i]);
		void *fn = fn_named(kind->name);

		if (!fn || !of_the_allocator(fn) || !is_callable(kind))
			continue;
		printf("call %s\n", kind->name);
		fflush(stdout);
		call(kind, (any_fn)fn);
	}
	printf("wrong %d\n", wrong);
	return wrong != 0;
}
