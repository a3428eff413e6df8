/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_hook.c: see fuzz_tap.h. The hook's own writer (src/hook/record.c) and what stands around
 * it there.
 */
#include "fuzz_tap.h"

#include <sys/mman.h>

#include "ipc/ring.h"

#undef errno	/* a macro, which can't be poisoned */
#include "hook/hook.h"

/* Where no sanitizer has anything. */
#define STACK UINT64_C(0x10000000)
#define STACK_LEN 65536
#define RING_SIZE (64 * 1024)

struct ht_hook_config ht_hook_config;
static struct ht_thread slot;

bool ht_gate_open(void)
{
	return true;
}

bool ht_gate_wiped(void)
{
	return false;
}

struct ht_thread *ht_thread_find(uint64_t thread)
{
	return &slot;
}

/* As of calls through the module, of which some saved the frame pointer. */
static void fill_stack(void)
{
	uint64_t *words = (uint64_t *)STACK;

	for (size_t i = 0; i < STACK_LEN / 8; i++)
		words[i] = i % 2 ? FUZZ_TEXT + i * 40 % 1024 : STACK + i * 8 + 16;
}

static struct ht_ring *start(bool exact)
{
	struct ht_ring *ring;
	void *base;

	CHECK(ht_ring_new(RING_SIZE, &ring, NULL) == 0);
	base = mmap(NULL, ht_ring_map_size(ring), PROT_READ | PROT_WRITE, MAP_SHARED,
		    ht_ring_fd(ring), 0);
	CHECK(base != MAP_FAILED);
	ht_hook_config = (struct ht_hook_config){
		.flags = exact ? HT_CONFIG_EXACT : 0,
		.max_stack = 512,
		.ring = ht_ring_map_at(ring, (uint64_t)(uintptr_t)base),
		.stack_low = STACK,
		.stack_high = STACK + STACK_LEN,
	};
	CHECK(mmap((void *)STACK, STACK_LEN, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == (void *)STACK);
	fill_stack();
	return ring;
}

static void end(struct ht_ring *ring)
{
	munmap((void *)STACK, STACK_LEN);
	munmap((void *)ht_hook_config.ring.base, ht_ring_map_size(ring));
	ht_ring_free(ring);
}

static void call(unsigned i)
{
	static const struct ht_entry entry = { .index = 3 };
	struct ht_hook_frame *frame = (struct ht_hook_frame *)(STACK + 1024 + 64 * i);
	struct ht_event event = {
		.addr = 0x7f0000000010 + 64 * i,
		.size = 24 + 1000 * i,
		.interval = ht_hook_config.flags & HT_CONFIG_EXACT ? 0 : FUZZ_INTERVAL,
		.flags = i == 4 ? HT_RECORD_UNTRACKED : 0,
	};

	*frame = (struct ht_hook_frame){ .entry = &entry, .pc = FUZZ_TEXT + 8 + 128 * i,
					 .bp = STACK + 2048 };
	if (i == 3) {
		event.old_addr = event.addr - 64;
		event.old_seq = ht_record_resize();
	}
	CHECK(ht_record_alloc(&event, frame));
	if (i == 3)
		ht_record_resized();
}

struct taker {
	void (*take)(void *arg, const struct ht_record *record);
	void *arg;
};

/* The same in every process. */
static int pass_on(void *arg, const struct ht_record *record)
{
	const struct taker *taker = arg;

	if (record->type != HT_RECORD_FREE)
		((struct ht_record_alloc *)(uintptr_t)record)->thread = 0x1000;
	taker->take(taker->arg, record);
	return 0;
}

void fuzz_hook_writes(bool exact, void (*take)(void *arg, const struct ht_record *record),
		      void *arg)
{
	struct ht_ring *ring = start(exact);
	struct taker taker = { take, arg };

	for (unsigned i = 0; i < 6; i++)
		call(i);
	CHECK(ht_record_free(0x7f0000000010, 0));
	CHECK(ht_record_free(0x7f0000000010 + 64 * 9, 0));
	CHECK(ht_ring_drain(ring, pass_on, &taker) == 0);
	end(ring);
}
