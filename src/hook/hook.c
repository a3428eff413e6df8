/* SPDX-License-Identifier: Apache-2.0
 *
 * hook.c: what happens when an allocator's entry is called and its stub didn't let it pass.
 *
 * An entry that may reach other patched ones runs under its thread's mark, so that an
 * allocation counts once however many entries it goes through: calls from inside are
 * passed on, and the countdown is put back to what it was before them. The mark is the
 * address of the frame; it is void when the stack has been unwound above it.
 */
#include "hook/hook.h"

struct ht_hook_config ht_hook_config _export_ __attribute__((section(".data"))) = {
	.magic = HT_HOOK_MAGIC,
	.version = HT_WIRE_VERSION,
};

/* The gate was open and closed: hook_entry.S lets everybody pass. A child has its own. */
uint32_t ht_hook_over __attribute__((section(".data")));

typedef uint64_t (*real_fn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static bool exact(void)
{
	return ht_hook_config.flags & HT_CONFIG_EXACT;
}

bool ht_gate_open(void)
{
	uint64_t *gate = (uint64_t *)ht_hook_config.gate;

	if (unlikely(__atomic_load_n(gate, __ATOMIC_ACQUIRE) != HT_GATE_ON))
		return false;
	/* Only now may the ring be touched: a child doesn't have it. */
	if (likely(!(__atomic_load_n(&ht_ring()->owner, __ATOMIC_RELAXED) & HT_OWNER_DIED)))
		return true;
	__atomic_store_n(gate, HT_GATE_OFF, __ATOMIC_RELEASE);
	__atomic_store_n(&ht_hook_over, 1, __ATOMIC_RELAXED);
	return false;
}

bool ht_gate_wiped(void)
{
	return __atomic_load_n((uint64_t *)ht_hook_config.gate, __ATOMIC_ACQUIRE) ==
	       HT_GATE_NONE;
}

/* Nobody will listen any more: let the stub of this thread pass for ever. Before the gate
 * was open no thread has a slot, so nothing can be shut by mistake. */
static void shut(void)
{
	struct ht_thread *thread;

	if (!ht_hook_config.threads)
		return;
	thread = ht_thread_find(ht_hook_thread_pointer());
	if (!thread)
		return;
	thread->countdown = UINT64_MAX;
	__atomic_store_n(&ht_hook_over, 1, __ATOMIC_RELAXED);
}

static bool inside(const struct ht_thread *thread, const struct ht_hook_frame *frame)
{
	return thread->mark && (uint64_t)frame < thread->mark;
}

static uint64_t call_real(uint64_t real, const uint64_t args[6])
{
	return ((real_fn)real)(args[0], args[1], args[2], args[3], args[4], args[5]);
}

/* Bytes asked for. False when the product overflows: that call will fail, or is nonsense. */
static bool asked(const struct ht_hook_frame *frame, uint64_t *ret_size)
{
	const struct ht_entry *entry = frame->entry;
	uint64_t size = entry->size_arg >= 0 ? frame->args[entry->size_arg] : 0;

	if (entry->count_arg >= 0 &&
	    __builtin_mul_overflow(size, frame->args[entry->count_arg], &size))
		return false;
	*ret_size = size;
	return true;
}

/* Does an allocation of @size make a sample? Then *ret_interval is what it was drawn
 * with. Counts once. */
static bool fires(struct ht_thread *thread, uint64_t size, uint64_t *ret_interval)
{
	uint64_t weight = size ? size : 1;

	*ret_interval = 0;
	if (ht_hook_config.flags & HT_CONFIG_EXACT)
		return true;
	if (ht_hook_config.flags & HT_CONFIG_MIN_SIZE)
		return size >= ht_hook_config.min_size;
	if (weight <= thread->countdown) {
		thread->countdown -= weight;
		return false;
	}
	*ret_interval = thread->interval;
	ht_thread_draw(thread);
	return true;
}

/* Bytes of the string at @block, which nobody else knows of yet. */
static uint64_t string_size(uint64_t block)
{
	const char *s = (const char *)block;
	uint64_t n = 0;

	while (s[n])
		n++;
	return n + 1;
}

static bool record_new(struct ht_event *event, const struct ht_hook_frame *frame)
{
	if (!exact() && !ht_set_insert(event->addr))
		event->flags |= HT_RECORD_UNTRACKED;
	if (ht_record_alloc(event, frame))
		return true;
	if (!exact() && !(event->flags & HT_RECORD_UNTRACKED))
		ht_set_remove(event->addr);
	return false;
}

/* Run the real function under the mark. What it and its callees did to the countdown is
 * undone. */
static uint64_t call_marked(struct ht_thread *thread, const struct ht_hook_frame *frame,
			    uint64_t real, const uint64_t args[6], uint64_t block)
{
	uint64_t countdown = thread->countdown, interval = thread->interval;
	uint64_t result;

	thread->block = block;
	thread->mark = (uint64_t)frame;
	result = call_real(real, args);
	thread->mark = 0;
	thread->block = 0;
	thread->countdown = countdown;
	thread->interval = interval;
	return result;
}

/* Allocating entries. Returns where to go on, 0: back to the caller. */
static uint64_t do_alloc(struct ht_thread *thread, struct ht_hook_frame *frame)
{
	const struct ht_entry *entry = frame->entry;
	struct ht_event event = { 0 };
	uint64_t args[6], real = entry->real;
	bool fired;

	if (!asked(frame, &event.size))
		return entry->real;
	for (int i = 0; i < 6; i++)
		args[i] = frame->args[i];
	if (entry->call == HT_CALL_NEW) {
		/* The sibling reports failure by NULL: nothing is thrown through us. */
		real = entry->nothrow_real;
		args[entry->out_arg] = (uint64_t)&ht_hook_config.reserved;
	}
	if (entry->frameless) {
		fired = fires(thread, event.size, &event.interval);
		if (!fired)
			return entry->real;
		/* It reaches no patched entry, but the sibling may be one. Without a mark what
		 * allocates meanwhile, a signal handler, counts for itself. */
		frame->result = real == entry->real ? call_real(real, args) :
						      call_marked(thread, frame, real, args, 0);
	} else {
		frame->result = call_marked(thread, frame, real, args, 0);
		if (entry->call == HT_CALL_DUP && frame->result)
			event.size = string_size(frame->result);
		fired = fires(thread, event.size, &event.interval);
	}
	event.addr = frame->result;
	if (entry->call == HT_CALL_ALLOC_OUT)
		event.addr = frame->result ? 0 : *(uint64_t *)frame->args[entry->out_arg];
	if (entry->call == HT_CALL_NEW && !event.addr)
		return entry->real;
	/* A gate that closed meanwhile lets frees pass unseen: the block may be one whose free
	 * was. It is no longer ours to count. */
	if (fired && event.addr && ht_gate_open())
		record_new(&event, frame);
	return 0;
}

static uint64_t do_free(struct ht_thread *thread, struct ht_hook_frame *frame)
{
	const struct ht_entry *entry = frame->entry;
	uint64_t block = frame->args[entry->old_arg];

	if (block && (exact() || ht_set_remove(block)))
		ht_record_free(block, 0);
	if (entry->frameless)
		return entry->real;
	frame->result = call_marked(thread, frame, entry->real, frame->args, block);
	return 0;
}

/* How a resizing entry ended. */
static bool resized(const struct ht_hook_frame *frame, uint64_t size, uint64_t *ret_addr,
		    bool *ret_freed)
{
	const struct ht_entry *entry = frame->entry;
	uint64_t result = frame->result;

	*ret_freed = false;
	*ret_addr = result;
	if (entry->call == HT_CALL_RESIZE) {
		*ret_addr = frame->args[entry->old_arg];
		return result >= size;
	}
	if (!result)
		*ret_freed = entry->call == HT_CALL_REALLOCF || size == 0;
	return result != 0;
}

static uint64_t do_realloc(struct ht_thread *thread, struct ht_hook_frame *frame)
{
	const struct ht_entry *entry = frame->entry;
	uint64_t old = frame->args[entry->old_arg];
	struct ht_event event = { 0 };
	bool known, done, freed, fired;

	if (!asked(frame, &event.size))
		return entry->real;
	known = old && (exact() || ht_set_hide(old));
	/* Before the real call: afterwards another thread may own the old address. */
	if (known)
		event.old_seq = ht_record_resize();
	frame->result = call_marked(thread, frame, entry->real, frame->args, old);
	done = resized(frame, event.size, &event.addr, &freed);
	if (known && !exact()) {
		if (done || freed)
			ht_set_drop(old);
		else
			ht_set_unhide(old);
	}
	fired = done && fires(thread, event.size, &event.interval) && ht_gate_open();
	event.old_addr = known ? old : 0;
	if (fired)
		fired = record_new(&event, frame);
	/* The old block went, whatever became of the new one. */
	if (!fired && known && (done || freed))
		ht_record_free(old, event.old_seq);
	if (known)
		ht_record_resized();
	return 0;
}

/* A call from inside another entry's: passed on, unless it frees some other block than the
 * one that the outer entry is freeing or resizing (a new_handler that drops a cache). */
static uint64_t do_inner(struct ht_thread *thread, struct ht_hook_frame *frame)
{
	const struct ht_entry *entry = frame->entry;
	uint64_t block;

	if (entry->call != HT_CALL_FREE)
		return entry->real;
	block = frame->args[entry->old_arg];
	if (block && block != thread->block && (exact() || ht_set_remove(block)))
		ht_record_free(block, 0);
	return entry->real;
}

/* More threads than the table has room for, all in allocators at once. */
static _cold_ uint64_t do_unseen(const struct ht_hook_frame *frame)
{
	uint64_t size = 0;

	if (frame->entry->call == HT_CALL_DROP)
		ht_record_drop();
	else if (frame->entry->call == HT_CALL_FREE)
		ht_record_lost_free();
	else if (asked(frame, &size))
		ht_record_lost_alloc(size);
	return frame->entry->real;
}

uint64_t ht_hook_dispatch(struct ht_hook_frame *frame)
{
	const struct ht_entry *entry = frame->entry;
	struct ht_thread *thread;
	uint64_t next;
	bool borrowed;

	if (!ht_gate_open()) {
		shut();
		return entry->real;
	}
	thread = ht_thread_get(ht_hook_thread_pointer(), &borrowed);
	if (unlikely(!thread))
		return do_unseen(frame);
	if (inside(thread, frame)) {
		next = do_inner(thread, frame);
	} else if (entry->call == HT_CALL_DROP) {
		ht_record_drop();
		next = entry->real;
	} else if (entry->call == HT_CALL_FREE) {
		next = do_free(thread, frame);
	} else if (entry->old_arg >= 0) {
		next = do_realloc(thread, frame);
	} else {
		next = do_alloc(thread, frame);
	}
	if (unlikely(borrowed))
		ht_thread_return(thread);
	return next;
}
