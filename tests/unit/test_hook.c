/* SPDX-License-Identifier: Apache-2.0
 *
 * The hook and the stubs at work in this very process: a small allocator whose entries are
 * patched as a target's would be, with the ring read on the other side.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch/stub.h"
#include "base/clock.h"
#include "base/vec.h"
#include "heaptap/wire.h"
#include "ht_check.h"
#include "ipc/ring.h"

/* ---- the allocator: musl-like, its entries call one another ---- */

static _Alignas(16) char arena[64 << 20];
static uint64_t used;
static bool exhausted;
static uint64_t *gate;
static bool closing;		/* the tap ends while a thread is in malloc */

void *impl_malloc(size_t size);
void impl_free(void *p);
void *impl_calloc(size_t n, size_t size);
void *impl_realloc(void *p, size_t size);
int impl_memalign(void **out, size_t align, size_t size);
void *impl_new(size_t size);
void *impl_new_nothrow(size_t size, void *tag);

/* Entries with a head that can be moved. */
#define ENTRY(name)                                                                       \
	__asm__(".text\n.p2align 4\n.globl fake_" #name "\n.type fake_" #name ", @function\n" \
		"fake_" #name ":\n\tendbr64\n\tpush %rbp\n\tmov %rsp, %rbp\n"                \
		"\tnopl 0(%rax)\n\tcall impl_" #name "\n\tpop %rbp\n\tret\n"                 \
		".size fake_" #name ", . - fake_" #name "\n")
#define ENTRY_LEN 19

ENTRY(malloc);
ENTRY(free);
ENTRY(calloc);
ENTRY(realloc);
ENTRY(memalign);
ENTRY(new);
ENTRY(new_nothrow);

void *fake_malloc(size_t size);
void fake_free(void *p);
void *fake_calloc(size_t n, size_t size);
void *fake_realloc(void *p, size_t size);
int fake_memalign(void **out, size_t align, size_t size);
void *fake_new(size_t size);
void *fake_new_nothrow(size_t size, void *tag);

void *impl_malloc(size_t size)
{
	size_t need = (size + 31) & ~(size_t)15;
	uint64_t at;

	if (exhausted)
		return NULL;
	if (closing)
		__atomic_store_n(gate, HT_GATE_OFF, __ATOMIC_SEQ_CST);
	at = __atomic_fetch_add(&used, need, __ATOMIC_RELAXED);
	if (at + need > sizeof(arena))
		return NULL;
	*(size_t *)(arena + at) = size;
	return arena + at + 16;
}

void impl_free(void *p)
{
}

void *impl_calloc(size_t n, size_t size)
{
	return fake_malloc(n * size);
}

static struct ht_ring *ring;
static bool looks_inside, quiet_inside;

void *impl_realloc(void *p, size_t size)
{
	void *q;

	if (looks_inside)
		quiet_inside = ht_ring_quiesced(ring) && ht_ring_quiesced(ring);
	if (p && !size) {
		fake_free(p);
		return NULL;
	}
	q = fake_malloc(size);
	if (q && p)
		fake_free(p);
	return q;
}

int impl_memalign(void **out, size_t align, size_t size)
{
	*out = fake_malloc(size);
	return *out ? 0 : 12;
}

static int throws;

void *impl_new(size_t size)
{
	void *p = fake_malloc(size);

	throws += !p;
	return p;
}

void *impl_new_nothrow(size_t size, void *tag)
{
	return tag ? fake_malloc(size) : NULL;
}

/* ---- the tap ---- */

struct entry_desc {
	void *fn;
	enum ht_call call;
	int8_t size, count, old, out;
	bool frameless;
	enum ht_fast_path fast;
};

static const struct entry_desc descs[] = {
	{ fake_malloc, HT_CALL_ALLOC, 0, -1, -1, -1, true, HT_FAST_COUNTDOWN },
	{ fake_free, HT_CALL_FREE, -1, -1, 0, -1, true, HT_FAST_FILTER },
	{ fake_calloc, HT_CALL_ALLOC, 0, 1, -1, -1, false, HT_FAST_NONE },
	{ fake_realloc, HT_CALL_REALLOC, 1, -1, 0, -1, false, HT_FAST_NONE },
	{ fake_memalign, HT_CALL_ALLOC_OUT, 2, -1, -1, 0, false, HT_FAST_NONE },
	{ fake_new, HT_CALL_NEW, 0, -1, -1, 1, false, HT_FAST_NONE },
};

static struct ht_hook_config *config;
static uint64_t originals[ARRAY_SIZE(descs)];

static void *map(size_t size, int prot)
{
	void *p = mmap(NULL, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

static void write_text(void *at, uint64_t word)
{
	void *page = (void *)((uintptr_t)at & ~UINT64_C(4095));

	ck_assert_int_eq(mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	memcpy(at, &word, 8);
	ck_assert_int_eq(mprotect(page, 8192, PROT_READ | PROT_EXEC), 0);
}

/* Near enough to our text for a jump. */
static uint8_t *map_stubs(void)
{
	for (uint64_t d = 0x1000000; d < 0x70000000; d += 0x1000000) {
		void *hint = (void *)(((uint64_t)(uintptr_t)fake_malloc & ~UINT64_C(4095)) + d);
		void *p = mmap(hint, 65536, PROT_READ | PROT_WRITE | PROT_EXEC,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (p == hint)
			return p;
		if (p != MAP_FAILED)
			munmap(p, 65536);
	}
	ck_abort_msg("no room for stubs");
}

static void patch(uint8_t *stubs, size_t i, bool exact)
{
	const struct entry_desc *d = &descs[i];
	ht_addr_t at = (ht_addr_t)(uintptr_t)stubs + 32 + i * HT_STUB_MAX;
	struct ht_stub stub = {
		.fast = exact ? HT_FAST_NONE : d->fast,
		.arg = d->call == HT_CALL_FREE ? d->old : d->size,
		.threads = config->threads,
		.filter = config->filter,
		.hook_pointer = (ht_addr_t)(uintptr_t)stubs,
		.at = at,
	};
	struct ht_entry entry = {
		.call = (uint8_t)d->call, .size_arg = d->size, .count_arg = d->count,
		.old_arg = d->old, .out_arg = d->out, .frameless = d->frameless,
		.index = (uint16_t)i,
		.nothrow_real = (uint64_t)(uintptr_t)fake_new_nothrow,
	};
	struct ht_moved moved;
	uint8_t jump[8];
	uint64_t word;

	ck_assert_int_eq(ht_insn_move(d->fn, ENTRY_LEN, (ht_addr_t)(uintptr_t)d->fn,
				      at + ht_stub_real_offset(&stub), &moved), HT_INSN_OK);
	ck_ok(ht_stub_emit(&stub, &entry, &moved, stubs + 32 + i * HT_STUB_MAX));
	memcpy(&originals[i], (void *)(uintptr_t)moved.patch_addr, 8);
	memcpy(jump, &originals[i], 8);
	ck_assert(ht_encode_jump(jump, moved.patch_addr, at + sizeof(entry)));
	memcpy(&word, jump, 8);
	write_text((void *)(uintptr_t)moved.patch_addr, word);
}

static void tap(uint64_t interval)
{
	void *hook = dlopen("src/hook/heaptap-hook.so", RTLD_NOW);
	uint8_t *stubs = map_stubs();
	void *enter;

	ck_assert_msg(hook != NULL, "%s", dlerror());
	config = dlsym(hook, "ht_hook_config");
	enter = dlsym(hook, "ht_hook_enter");
	ck_assert_ptr_nonnull(config);
	ck_assert_uint_eq(config->magic, HT_HOOK_MAGIC);
	memcpy(stubs, &enter, 8);
	ck_ok(ht_ring_new(8 << 20, &ring, NULL));
	gate = map(4096, PROT_READ | PROT_WRITE);
	ck_assert_int_eq(madvise(gate, 4096, MADV_WIPEONFORK), 0);
	config->flags = HT_CONFIG_SYSCALLS | (interval ? 0 : HT_CONFIG_EXACT);
	config->interval = interval;
	config->max_stack = 4096;
	config->seed = 42;
	config->gate = (uint64_t)(uintptr_t)gate;
	config->ring = ht_ring_map_at(
		ring, (uint64_t)(uintptr_t)mmap(NULL, ht_ring_map_size(ring),
						PROT_READ | PROT_WRITE, MAP_SHARED,
						ht_ring_fd(ring), 0));
	config->threads = (uint64_t)(uintptr_t)map((HT_THREAD_SLOTS + HT_THREAD_SPARES) *
						   sizeof(struct ht_thread),
						   PROT_READ | PROT_WRITE);
	config->filter = (uint64_t)(uintptr_t)map(HT_FILTER_SIZE, PROT_READ | PROT_WRITE);
	config->set = (uint64_t)(uintptr_t)map(4096 * 64, PROT_READ | PROT_WRITE);
	config->set_mask = 4095;
	for (size_t i = 0; i < ARRAY_SIZE(descs); i++)
		patch(stubs, i, !interval);
}

static void open_gate(void)
{
	__atomic_store_n(gate, HT_GATE_ON, __ATOMIC_SEQ_CST);
}

/* ---- what the ring says ---- */

struct event {
	uint16_t type, flags;
	uint64_t seq, addr, size, old_addr, old_seq, interval, pc;
	uint32_t entry, stack_len;
	uint64_t first_word;
};

static ht_vec(struct event) events = HT_VEC_INIT;

static int keep(void *arg, const struct ht_record *record)
{
	const struct ht_record_alloc *a = (const struct ht_record_alloc *)record;
	struct event *e = ht_vec_push(&events);

	ck_assert_ptr_nonnull(e);
	e->type = record->type;
	e->flags = record->flags;
	e->seq = record->seq;
	e->addr = a->addr;
	if (record->type == HT_RECORD_FREE)
		return 0;
	e->size = a->size;
	e->old_addr = a->old_addr;
	e->old_seq = a->old_seq;
	e->interval = a->interval;
	e->pc = a->pc;
	e->entry = a->entry;
	e->stack_len = a->stack_len;
	memcpy(&e->first_word, a + 1, 8);
	return 0;
}

/* A lane holds some 250 records with their stacks. */
static void drain_more(int i)
{
	if (i % 100 == 0)
		ck_ok(ht_ring_drain(ring, keep, NULL));
}

static void drain(void)
{
	ck_ok(ht_ring_drain(ring, keep, NULL));
}

START_TEST(gate_off_passes_everything)
{
	void *p;

	tap(0);
	p = fake_malloc(100);
	ck_assert_ptr_nonnull(p);
	fake_free(fake_realloc(fake_calloc(3, 7), 9));
	drain();
	ck_assert_uint_eq(events.len, 0);
	/* Having passed while it was off must not shut the thread for later. */
	open_gate();
	fake_malloc(5);
	drain();
	ck_assert_uint_eq(events.len, 1);
}
END_TEST

START_TEST(exact_records_each_call_once)
{
	void *p, *q, *out = NULL;

	tap(0);
	open_gate();
	p = fake_malloc(100);
	q = fake_calloc(3, 7);
	p = fake_realloc(p, 200);
	ck_assert_int_eq(fake_memalign(&out, 64, 33), 0);
	fake_new(44);
	fake_free(q);
	fake_free(NULL);
	fake_realloc(p, 0);
	fake_malloc(0);
	drain();
	ck_assert_uint_eq(events.len, 8);
	ck_assert_uint_eq(events.at[0].size, 100);
	ck_assert_uint_eq(events.at[1].size, 21);
	ck_assert_uint_eq(events.at[1].entry, 2);
	ck_assert_uint_eq(events.at[2].type, HT_RECORD_REALLOC);
	ck_assert_uint_eq(events.at[2].old_addr, events.at[0].addr);
	ck_assert_uint_eq(events.at[2].addr, (uint64_t)(uintptr_t)p);
	ck_assert_uint_lt(events.at[2].old_seq, events.at[2].seq);
	ck_assert_uint_eq(events.at[3].addr, (uint64_t)(uintptr_t)out);
	ck_assert_uint_eq(events.at[3].size, 33);
	ck_assert_uint_eq(events.at[4].size, 44);
	ck_assert_uint_eq(events.at[5].type, HT_RECORD_FREE);
	ck_assert_uint_eq(events.at[5].addr, (uint64_t)(uintptr_t)q);
	ck_assert_uint_eq(events.at[6].type, HT_RECORD_FREE);
	ck_assert_uint_eq(events.at[6].addr, (uint64_t)(uintptr_t)p);
	ck_assert_uint_eq(events.at[7].size, 0);
	for (size_t i = 1; i < events.len; i++)
		ck_assert_uint_lt(events.at[i - 1].seq, events.at[i].seq);
}
END_TEST

/* How many records it makes to free a sampled block when the filters say this of it. */
static size_t free_with(uint8_t front, uint8_t filter)
{
	uint8_t *filters = (uint8_t *)(uintptr_t)config->filter;
	void *p = fake_malloc(1000);
	uint64_t addr = (uint64_t)(uintptr_t)p;

	drain();
	events.len = 0;
	ck_assert_uint_eq(filters[ht_front_index(addr)], 1);
	ck_assert_uint_eq(filters[ht_filter_index(addr)], 1);
	filters[ht_front_index(addr)] = front;
	filters[ht_filter_index(addr)] = filter;
	fake_free(p);
	filters[ht_front_index(addr)] = filters[ht_filter_index(addr)] = 0;
	drain();
	return events.len;
}

/* The stub asks the front first, and only then the other filter. */
START_TEST(both_filters_must_know_a_block)
{
	tap(1);
	open_gate();
	ck_assert_uint_eq(free_with(1, 1), 1);
	ck_assert_uint_eq(free_with(1, 0), 0);
	ck_assert_uint_eq(free_with(0, 1), 0);
	ck_assert_uint_eq(free_with(2, 7), 1);
}
END_TEST

/* Its block may be one that was freed meanwhile, unseen. */
START_TEST(what_ends_after_the_tap_is_not_counted)
{
	void *p;

	tap(0);
	open_gate();
	p = fake_malloc(10);
	closing = true;
	ck_assert_ptr_nonnull(fake_malloc(20));
	open_gate();
	ck_assert_ptr_nonnull(fake_calloc(3, 10));
	open_gate();
	ck_assert_ptr_nonnull(fake_realloc(p, 40));
	drain();
	/* But the old one is gone, and its address may be another's already. */
	ck_assert_uint_eq(events.len, 2);
	ck_assert_uint_eq(events.at[0].size, 10);
	ck_assert_uint_eq(events.at[1].type, HT_RECORD_FREE);
	ck_assert_uint_eq(events.at[1].addr, (uint64_t)(uintptr_t)p);
}
END_TEST

START_TEST(failures_leave_no_record)
{
	void *p, *out = NULL;

	tap(0);
	open_gate();
	p = fake_malloc(10);
	exhausted = true;
	ck_assert_ptr_null(fake_malloc(10));
	ck_assert_ptr_null(fake_realloc(p, 20));
	ck_assert_int_eq(fake_memalign(&out, 8, 8), 12);
	ck_assert_ptr_null(fake_calloc(SIZE_MAX, 2));
	/* The sibling fails first, then the original throws without us in between. */
	ck_assert_ptr_null(fake_new(1));
	ck_assert_int_eq(throws, 1);
	drain();
	ck_assert_uint_eq(events.len, 1);
}
END_TEST

__attribute__((noinline)) static void *from_here(size_t size)
{
	void *p = fake_malloc(size);

	__asm__ volatile("" : : "r"(p) : "memory");
	return p;
}

/* A program may have forbidden itself to read the time stamp counter; strict seccomp does. */
START_TEST(no_clock_is_read)
{
	tap(0);
	open_gate();
	ck_assert_int_eq(prctl(PR_SET_TSC, PR_TSC_SIGSEGV), 0);
	fake_free(fake_realloc(fake_malloc(3), 5));
	ck_assert_int_eq(prctl(PR_SET_TSC, PR_TSC_ENABLE), 0);
	drain();
	ck_assert_uint_eq(events.len, 3);
}
END_TEST

START_TEST(record_names_its_caller)
{
	tap(0);
	open_gate();
	from_here(1);
	drain();
	ck_assert_uint_eq(events.len, 1);
	ck_assert_uint_gt(events.at[0].pc, (uint64_t)(uintptr_t)from_here);
	ck_assert_uint_lt(events.at[0].pc, (uint64_t)(uintptr_t)from_here + 128);
	ck_assert_uint_ge(events.at[0].stack_len, 2048);
}
END_TEST

START_TEST(stack_ends_where_the_tool_says)
{
	struct ht_thread *thread = NULL;
	uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);

	tap(0);
	config->max_stack = 2048;
	open_gate();
	from_here(1);
	for (int i = 0; i < HT_THREAD_SLOTS && !thread; i++)
		if (((struct ht_thread *)(uintptr_t)config->threads)[i].thread)
			thread = &((struct ht_thread *)(uintptr_t)config->threads)[i];
	ck_assert_ptr_nonnull(thread);
	thread->stack_top = here + 64;
	from_here(1);
	/* Nonsense, as when a coroutine's stack is another: below, or far above. */
	thread->stack_top = here - 65536;
	from_here(1);
	thread->stack_top = here + (1 << 30);
	from_here(1);
	drain();
	ck_assert_uint_eq(events.len, 4);
	ck_assert_uint_eq(events.at[0].stack_len, 2048);
	ck_assert_uint_lt(events.at[1].stack_len, 1024);
	ck_assert_uint_gt(events.at[1].stack_len, 64);
	ck_assert_uint_eq(events.at[2].stack_len, 2048);
	ck_assert_uint_eq(events.at[3].stack_len, 2048);
}
END_TEST

/* 40,000 blocks of 64 bytes at 4 KiB: 621 samples expected, sigma 25. */
static void sampled(void *(*allocate)(size_t))
{
	uint64_t n = 40000, frees = 0;
	static void *blocks[40000];

	tap(4096);
	open_gate();
	for (uint64_t i = 0; i < n; i++) {
		blocks[i] = allocate(64);
		drain_more((int)i);
	}
	drain();
	ck_assert_uint_gt(events.len, 620 - 100);
	ck_assert_uint_lt(events.len, 620 + 100);
	for (size_t i = 0; i < events.len; i++)
		ck_assert_uint_eq(events.at[i].interval, 4096);
	frees = events.len;
	ht_vec_clear(&events);
	for (uint64_t i = 0; i < n; i++)
		fake_free(blocks[i]);
	drain();
	ck_assert_uint_eq(events.len, frees);
	for (size_t i = 0; i < events.len; i++)
		ck_assert_uint_eq(events.at[i].type, HT_RECORD_FREE);
}

START_TEST(sampled_malloc_is_unbiased)
{
	sampled(fake_malloc);
}
END_TEST

static void *by_calloc(size_t size)
{
	return fake_calloc(1, size);
}

static void *by_realloc(size_t size)
{
	return fake_realloc(NULL, size);
}

static void *by_new(size_t size)
{
	return fake_new(size);
}

START_TEST(sampled_calloc_counts_once)
{
	sampled(by_calloc);
}
END_TEST

START_TEST(sampled_realloc_counts_once)
{
	sampled(by_realloc);
}
END_TEST

START_TEST(sampled_new_counts_once)
{
	sampled(by_new);
}
END_TEST

START_TEST(sampled_realloc_keeps_balance)
{
	uint64_t in = 0, out = 0;
	void *p = NULL;

	tap(1024);
	open_gate();
	for (int i = 0; i < 5000; i++) {
		exhausted = i % 7 == 0;
		void *q = fake_realloc(p, 100 + (size_t)i % 300);

		p = q ? q : p;
		drain_more(i);
	}
	exhausted = false;
	fake_free(p);
	drain();
	for (size_t i = 0; i < events.len; i++) {
		in += events.at[i].type != HT_RECORD_FREE;
		out += events.at[i].type == HT_RECORD_FREE || events.at[i].old_addr;
	}
	ck_assert_uint_gt(in, 500);
	ck_assert_uint_eq(in, out);
}
END_TEST

START_TEST(full_set_says_untracked)
{
	uint64_t untracked = 0;

	tap(16);
	config->set_mask = 0;	/* one bucket: 8 addresses */
	open_gate();
	for (int i = 0; i < 1000; i++) {
		fake_malloc(64);
		drain_more(i);
	}
	drain();
	for (size_t i = 0; i < events.len; i++)
		untracked += events.at[i].flags & HT_RECORD_UNTRACKED;
	ck_assert_uint_gt(events.len, 900);
	ck_assert_uint_eq(events.len - untracked, 8);
}
END_TEST

START_TEST(full_ring_counts_losses)
{
	struct ht_ring_counters counters;
	uint64_t n = 20000;

	tap(0);
	open_gate();
	for (uint64_t i = 0; i < n; i++)
		fake_free(fake_malloc(64));
	drain();
	ht_ring_counters(ring, &counters);
	ck_assert_uint_gt(counters.lost_allocs, 0);
	ck_assert_uint_eq(events.len + counters.lost_allocs + counters.lost_frees, 2 * n);
	ck_assert_uint_eq(counters.lost_bytes, counters.lost_allocs * 64);
}
END_TEST

/* A realloc whose record finds no room loses an allocation, but the old block is gone. */
START_TEST(full_ring_keeps_the_free_of_a_realloc)
{
	struct ht_ring_counters counters;
	void *p, *q;
	bool freed = false;

	tap(0);
	open_gate();
	p = fake_malloc(10);
	do {
		fake_malloc(64);
		ht_ring_counters(ring, &counters);
	} while (!counters.lost_allocs);
	q = fake_realloc(p, 20);
	ck_assert_ptr_ne(q, p);
	drain();
	for (size_t i = 0; i < events.len; i++)
		freed |= events.at[i].type == HT_RECORD_FREE &&
			 events.at[i].addr == (uint64_t)(uintptr_t)p;
	ck_assert(freed);
	ht_ring_counters(ring, &counters);
	ck_assert_uint_eq(counters.lost_allocs, 2);
	ck_assert_uint_eq(counters.lost_frees, 0);
}
END_TEST

/* The reader must not give up the first of its two places while the second is to come. */
START_TEST(a_realloc_holds_the_order)
{
	void *p;

	tap(0);
	open_gate();
	p = fake_malloc(10);
	drain();
	looks_inside = true;
	p = fake_realloc(p, 20);
	ck_assert(!quiet_inside);
	/* It is over, but isn't read yet. */
	ck_assert(!ht_ring_quiesced(ring));
	drain();
	ck_assert(ht_ring_quiesced(ring));
	fake_realloc(p, (size_t)1 << 60);
	ck_assert(!quiet_inside);
	drain();
	(void)!ht_ring_quiesced(ring);
	ck_assert(ht_ring_quiesced(ring));
}
END_TEST

static void *allocate_for_ever(void *arg)
{
	while (__atomic_load_n(gate, __ATOMIC_ACQUIRE) == HT_GATE_ON)
		fake_free(fake_malloc(64));
	return arg;
}

/* The recording ends while a thread waits for room: what it waited with comes after the
 * end and isn't lost. */
START_TEST(waiting_at_the_end_loses_nothing)
{
	struct ht_ring_counters counters;
	uint64_t deadline = ht_deadline_ns(20 * HT_NS_PER_SEC);
	pthread_t thread;

	tap(0);
	config->flags |= HT_CONFIG_BLOCK;
	config->block_us = 60 * 1000 * 1000;
	open_gate();
	ck_assert_int_eq(pthread_create(&thread, NULL, allocate_for_ever, NULL), 0);
	do
		ht_ring_counters(ring, &counters);
	while (!counters.waits && !ht_deadline_passed(deadline));
	ck_assert_uint_eq(counters.waits, 1);
	__atomic_store_n(gate, HT_GATE_OFF, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	drain();
	ht_ring_counters(ring, &counters);
	ck_assert_uint_gt(events.len, 0);
	ck_assert_uint_eq(counters.lost_allocs + counters.lost_frees, 0);
}
END_TEST

/* All slots of the thread's row and all spares belong to others. */
START_TEST(full_thread_table_counts_losses)
{
	struct ht_ring_counters counters;
	struct ht_thread *threads;
	void *p;

	tap(0);
	threads = (struct ht_thread *)(uintptr_t)config->threads;
	for (int i = 0; i < HT_THREAD_SLOTS + HT_THREAD_SPARES; i++)
		threads[i].thread = 1;
	open_gate();
	p = fake_malloc(30);
	fake_free(p);
	/* A spare is borrowed for a call and given back. */
	threads[HT_THREAD_SLOTS + 7].thread = 0;
	fake_calloc(1, 5);
	fake_malloc(6);
	ck_assert_uint_eq(threads[HT_THREAD_SLOTS + 7].thread, 0);
	drain();
	ht_ring_counters(ring, &counters);
	ck_assert_uint_eq(counters.lost_allocs, 1);
	ck_assert_uint_eq(counters.lost_bytes, 30);
	ck_assert_uint_eq(counters.lost_frees, 1);
	ck_assert_uint_eq(events.len, 2);
}
END_TEST

START_TEST(dead_owner_closes_the_gate)
{
	tap(0);
	open_gate();
	*ht_ring_owner_word(ring) = HT_OWNER_DIED;
	fake_malloc(1);
	ck_assert_uint_eq(*gate, HT_GATE_OFF);
	*ht_ring_owner_word(ring) = 1;
	fake_malloc(1);
	drain();
	ck_assert_uint_eq(events.len, 0);
	/* For good: nobody looks at the gate any more. */
	open_gate();
	fake_free(fake_calloc(1, 2));
	drain();
	ck_assert_uint_eq(events.len, 0);
}
END_TEST

START_TEST(fork_child_is_silent)
{
	int status;
	pid_t pid;

	tap(0);
	ck_assert_int_eq(madvise((void *)(uintptr_t)config->ring.base, ht_ring_map_size(ring),
				 MADV_DONTFORK), 0);
	open_gate();
	fake_malloc(1);
	pid = fork();
	if (pid == 0) {
		void *p = fake_malloc(10);

		fake_free(fake_realloc(fake_calloc(1, 1), 5));
		fake_free(p);
		/* It would touch the ring, which isn't here, if it looked at the gate again. */
		open_gate();
		fake_free(fake_malloc(3));
		_exit(p ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	fake_malloc(2);
	drain();
	ck_assert_uint_eq(events.len, 2);
}
END_TEST

static void *worker(void *arg)
{
	void *mine[64] = { NULL };

	for (int i = 0; i < 20000; i++) {
		fake_free(mine[i % 64]);
		mine[i % 64] = fake_malloc(16);
	}
	return arg;
}

START_TEST(threads_keep_balance)
{
	pthread_t threads[8];
	struct ht_ring_counters counters;
	uint64_t in = 0, out = 0;

	tap(512);
	config->max_stack = 2048;
	open_gate();
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, worker, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	drain();
	ht_ring_counters(ring, &counters);
	for (size_t i = 0; i < events.len; i++) {
		in += events.at[i].type == HT_RECORD_ALLOC;
		out += events.at[i].type == HT_RECORD_FREE;
	}
	/* 160,000 blocks of 16 bytes: 5,000 samples, sigma 70; up to 512 blocks stay. */
	ck_assert_uint_gt(in + counters.lost_allocs, 4600);
	ck_assert_uint_lt(in + counters.lost_allocs, 5400);
	ck_assert_uint_le(out, in);
	ck_assert_uint_gt(out + counters.lost_frees + 60, in);
}
END_TEST

int main(void)
{
	return ht_check_run("hook", (const TTest *const[]){
		gate_off_passes_everything, exact_records_each_call_once,
		both_filters_must_know_a_block, what_ends_after_the_tap_is_not_counted,
		failures_leave_no_record, no_clock_is_read, record_names_its_caller, stack_ends_where_the_tool_says,
		sampled_malloc_is_unbiased,
		sampled_calloc_counts_once, sampled_realloc_counts_once,
		sampled_new_counts_once, sampled_realloc_keeps_balance, full_set_says_untracked,
		full_ring_counts_losses, full_ring_keeps_the_free_of_a_realloc,
		a_realloc_holds_the_order,
		waiting_at_the_end_loses_nothing,
		full_thread_table_counts_losses, dead_owner_closes_the_gate,
		fork_child_is_silent, threads_keep_balance, NULL });
}
