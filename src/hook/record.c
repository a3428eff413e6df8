/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c: from an event to a record in the ring or the socket: registers, stack, order.
 */
#include "hook/hook.h"
#include "ipc/writer.h"

/* Less stack than this in a record is worth nothing: the lane counts as full. */
#define STACK_MIN 2048
/* How long a thread sleeps between looks for room: at first, and at most. Thousands that wait
 * must leave the reader time to run. */
#define NAP_MIN_NS UINT64_C(50000)
#define NAP_MAX_NS UINT64_C(1600000)
#define SPIN_NS 50	/* about, of one pause */

static struct {
	uint64_t seq;
	char pad[56];
} order _aligned_(64);

uint64_t ht_next_seq(void)
{
	return __atomic_add_fetch(&order.seq, 1, __ATOMIC_SEQ_CST);
}

/* 0 if there's no clock. */
static uint64_t now_ns(void)
{
	uint64_t ts[2] = { 0, 0 };

	ht_hook_syscall(HT_NR_CLOCK_GETTIME, HT_CLOCK_MONOTONIC, (uint64_t)ts, 0, 0, 0, 0);
	return ts[0] * UINT64_C(1000000000) + ts[1];
}

/* One step of waiting for room, and how much of it passed: a signal cuts it short. By the
 * clock, as what nanosleep says is left includes the timer's slack. */
static uint64_t nap(uint64_t ns)
{
	uint64_t ts[2] = { 0, ns }, from, passed;

	if (!ht_hook_may_call()) {
		for (uint64_t i = 0; i < ns / SPIN_NS; i++)
			ht_hook_pause();
		return ns;
	}
	from = now_ns();
	if (ht_hook_syscall(HT_NR_NANOSLEEP, (uint64_t)ts, 0, 0, 0, 0, 0) != -HT_EINTR)
		return ns;
	passed = now_ns() - from;
	return passed ? ht_min(passed, ns) : ns;
}

static struct ht_lane *home_lane(void)
{
	const struct ht_ring_map *ring = &ht_hook_config.ring;

	return ht_lane_at(ring, ht_thread_home(ht_hook_thread_pointer()) & (ring->lanes - 1));
}

/* Where the reader stood when a wait for it ran out; of all threads. */
static uint64_t stalled_at = UINT64_MAX;

/* Bytes ever consumed, of all lanes: another sum whenever the reader has moved. */
static uint64_t consumed(void)
{
	const struct ht_ring_map *ring = &ht_hook_config.ring;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < ring->lanes; i++)
		sum += __atomic_load_n(&ht_lane_at(ring, i)->tail, __ATOMIC_RELAXED);
	return sum;
}

/* A wait for the reader, when the session says so. When one has run out nobody waits any more
 * until the reader has moved: one stall, not one a record. */
struct wait {
	uint64_t seen;		/* where the reader stood */
	uint64_t left, ns;
};

static bool begin_wait(struct wait *wait)
{
	if (!(ht_hook_config.flags & HT_CONFIG_BLOCK))
		return false;
	*wait = (struct wait){ consumed(), ht_hook_config.block_us * 1000, NAP_MIN_NS };
	if (__atomic_load_n(&stalled_at, __ATOMIC_RELAXED) == wait->seen)
		return false;
	__atomic_fetch_add(&home_lane()->waits, 1, __ATOMIC_RELAXED);
	return true;
}

/* Sleep until the next try. False: it was the last one. */
static bool go_on(struct wait *wait)
{
	if (__atomic_load_n(&stalled_at, __ATOMIC_RELAXED) == wait->seen)
		return false;
	wait->ns = ht_min(wait->ns, wait->left);
	wait->left -= nap(wait->ns);
	if (unlikely(ht_gate_wiped()))
		return false;
	wait->ns = ht_min(2 * wait->ns, NAP_MAX_NS);
	/* Before the last try: what is consumed after it is reason to wait again. */
	wait->seen = consumed();
	return true;
}

/* The end of the recording may have ended it as well. */
static void end_wait(const struct wait *wait, bool in_vain)
{
	if (in_vain && !wait->left)
		__atomic_store_n(&stalled_at, wait->seen, __ATOMIC_RELAXED);
}

/* Room for a record, waiting for it if it must be. NULL with a closed gate is no loss: the
 * event had no place in the order yet, so it comes after the recording's end. */
static void *acquire(struct ht_writer *w, uint64_t min, uint64_t want, uint64_t keep)
{
	const struct ht_ring_map *ring = &ht_hook_config.ring;
	uint32_t start = ht_thread_home(ht_hook_thread_pointer()) & (ring->lanes - 1);
	uint64_t me = (uint64_t)__builtin_frame_address(0);
	struct wait wait;
	void *at;

	/* Signals are delivered at faults and system calls, of which there were some. */
	if (unlikely(ht_gate_wiped()))
		return NULL;
	at = ht_writer_acquire(w, ring, start, me, min, want, keep);
	if (likely(at) || !begin_wait(&wait))
		return at;
	while (!at && wait.left && ht_gate_open() && go_on(&wait))
		at = ht_writer_acquire(w, ring, start, me, min, want, keep);
	end_wait(&wait, !at);
	return at;
}

/* Send @record, waiting for room as acquire() does. It has its place in the order, but only
 * one that was @placed before its event was over is missed after the recording's end: nobody
 * frees a block, or gets one, whose record still waits. The reader takes the lane's owner for
 * a reason to wait for it. */
static enum ht_sent send(const struct ht_record *record, bool placed)
{
	enum ht_sent sent = ht_send(record);
	struct wait wait;

	if (likely(sent != HT_SENT_FULL) || !begin_wait(&wait))
		return sent;
	while (sent == HT_SENT_FULL && wait.left && (placed || ht_gate_open()) && go_on(&wait))
		sent = ht_send(record);
	end_wait(&wait, sent == HT_SENT_FULL);
	return sent;
}

/* Let the reader have the record that was made in @w. False: he won't, and it's a loss if
 * *ret_lost. */
static bool publish(struct ht_writer *w, const struct ht_record *record, bool placed,
		    bool *ret_lost)
{
	enum ht_sent sent;

	if (!(ht_hook_config.flags & HT_CONFIG_SOCKET)) {
		ht_writer_publish(w, record->size);
		ht_writer_close(w);
		return true;
	}
	sent = send(record, placed);
	if (sent == HT_SENT)
		ht_writer_skip(w);
	ht_writer_close(w);
	*ret_lost = sent == HT_SENT_NOT || (sent == HT_SENT_FULL && (placed || ht_gate_open()));
	return sent == HT_SENT;
}

/* How far up @sp stands in the kernel's own stack area; 0: elsewhere. All of that can be
 * read: the tool saw that it is one piece and readable, it never moves, and nobody else gets
 * a place in it. What lies above sp are frames that are still to be returned to; without them
 * the program would crash by itself. Other stacks come and go, those of threads as those of
 * coroutines, and others take their addresses: nothing that was once seen of them holds. */
static uint64_t main_stack(uint64_t sp)
{
	uint64_t high = __atomic_load_n(&ht_hook_config.stack_high, __ATOMIC_RELAXED);
	uint64_t low = __atomic_load_n(&ht_hook_config.stack_low, __ATOMIC_RELAXED);

	return low <= sp && sp < high ? high - sp : 0;
}

/* Copy the stack from @sp upward to @to, at most @max bytes (a multiple of 8): what is there
 * for sure, else what process_vm_readv finds mapped. Where no system call is allowed, up to
 * the end of sp's page. */
static uint64_t copy_stack(char *to, uint64_t sp, uint64_t max, bool *ret_cut)
{
	uint64_t local[2] = { (uint64_t)to, max };
	uint64_t remote[2] = { sp, max };
	uint64_t page = 4096 - (sp & 4095), sure = main_stack(sp);
	long n = -1;

	/* A return address was pushed to the page of sp - 8 just now. */
	if (!sure && page < 4096 && max <= page)
		sure = page;
	if (sure) {
		*ret_cut = max <= sure;
		max = ht_min(max, sure) & ~UINT64_C(7);
		ht_hook_copy(to, sp, max);
		return max;
	}
	if (ht_hook_may_call())
		n = ht_hook_syscall(HT_NR_PROCESS_VM_READV, ht_hook_config.pid, (uint64_t)local,
				    1, (uint64_t)remote, 1, 0);
	/* A process whose main thread has ended isn't found by its pid. */
	if (unlikely(n == -HT_ESRCH))
		n = ht_hook_syscall(HT_NR_PROCESS_VM_READV,
				    (uint64_t)ht_hook_syscall(HT_NR_GETTID, 0, 0, 0, 0, 0, 0),
				    (uint64_t)local, 1, (uint64_t)remote, 1, 0);
	if (n > 0) {
		*ret_cut = (uint64_t)n == max;
		return (uint64_t)n & ~UINT64_C(7);
	}
	max = ht_min(max, page) & ~UINT64_C(7);
	ht_hook_copy(to, sp, max);
	*ret_cut = true;
	return max;
}

uint64_t ht_record_resize(void)
{
	if (likely(!ht_gate_wiped()))
		__atomic_fetch_add(&home_lane()->resizing, 1, __ATOMIC_SEQ_CST);
	return ht_next_seq();
}

/* A child that was forked meanwhile has no ring, and its gate is closed. */
void ht_record_resized(void)
{
	if (ht_gate_open())
		__atomic_fetch_sub(&home_lane()->resizing, 1, __ATOMIC_RELEASE);
}

void ht_record_lost_free(void)
{
	__atomic_fetch_add(&home_lane()->lost_frees, 1, __ATOMIC_RELAXED);
}

void ht_record_drop(void)
{
	__atomic_fetch_add(&home_lane()->drops, 1, __ATOMIC_RELAXED);
}

void ht_record_lost_alloc(uint64_t size)
{
	struct ht_lane *lane = home_lane();

	__atomic_fetch_add(&lane->lost_allocs, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&lane->lost_bytes, size, __ATOMIC_RELAXED);
}

/* How much of the stack is worth copying: up to where the tool saw it end, else to the
 * thread's control block, which glibc and musl have on top of a thread's stack. The main
 * thread has it elsewhere, and so have coroutines. */
static uint64_t stack_limit(uint64_t sp, uint64_t max)
{
	uint64_t pointer = ht_hook_thread_pointer();
	const struct ht_thread *thread = ht_thread_find(pointer);
	uint64_t top = thread ? __atomic_load_n(&thread->stack_top, __ATOMIC_RELAXED) : 0;

	if (sp >= top || top - sp >= max)
		top = pointer;
	return sp < top && top - sp < max ? (top - sp + 7) & ~UINT64_C(7) : max;
}

static void fill(struct ht_record_alloc *r, const struct ht_event *event,
		 const struct ht_hook_frame *frame)
{
	r->head.type = event->old_addr ? HT_RECORD_REALLOC : HT_RECORD_ALLOC;
	/* Only now, when nothing can delay the record any more: events that had to wait for room
	 * would come too late for their place. */
	r->head.seq = ht_next_seq();
	r->addr = event->addr;
	r->size = event->size;
	r->old_addr = event->old_addr;
	r->old_seq = event->old_seq;
	r->interval = event->interval;
	r->thread = ht_hook_thread_pointer();
	r->entry = frame->entry->index;
	r->reserved0 = 0;
	r->pc = frame->pc;
	r->sp = (uint64_t)(frame + 1);
	r->bp = frame->bp;
	r->bx = frame->bx;
	r->r12 = frame->r12;
	r->r13 = frame->r13;
	r->r14 = frame->r14;
	r->r15 = frame->r15;
	r->reserved = 0;
}

bool ht_record_alloc(const struct ht_event *event, const struct ht_hook_frame *frame)
{
	struct ht_record_alloc *r;
	struct ht_writer w;
	uint64_t min, max, limit, copied;
	bool cut, lost;

	limit = stack_limit((uint64_t)(frame + 1), ht_hook_config.max_stack);
	/* A record that may wait for room waits for all of it. */
	min = ht_hook_config.flags & HT_CONFIG_BLOCK ? ht_hook_config.ring.lane_size / 4 :
							STACK_MIN;
	r = acquire(&w, sizeof(*r) + ht_min(limit, min), sizeof(*r) + limit,
		    HT_LANE_KEEP);
	if (!r) {
		if (ht_gate_open())
			ht_record_lost_alloc(event->size);
		return false;
	}
	fill(r, event, frame);
	max = ht_min(limit, w.room - sizeof(*r)) & ~UINT64_C(7);
	copied = copy_stack((char *)(r + 1), r->sp, max, &cut);
	if (unlikely(ht_gate_wiped()))
		return false;
	r->head.flags = event->flags | (cut ? HT_RECORD_CUT : 0);
	r->stack_len = (uint32_t)copied;
	r->head.size = (uint32_t)(sizeof(*r) + copied);
	if (likely(publish(&w, &r->head, false, &lost)))
		return true;
	if (lost)
		ht_record_lost_alloc(event->size);
	return false;
}

bool ht_record_free(uint64_t addr, uint64_t seq)
{
	struct ht_record_free *r;
	struct ht_writer w;
	bool lost;

	r = acquire(&w, sizeof(*r), sizeof(*r), seq ? 0 : HT_LANE_KEEP);
	if (!r) {
		if (ht_gate_open())
			ht_record_lost_free();
		return false;
	}
	r->head.size = sizeof(*r);
	r->head.type = HT_RECORD_FREE;
	r->head.flags = 0;
	r->head.seq = seq ? seq : ht_next_seq();
	r->addr = addr;
	if (likely(publish(&w, &r->head, seq, &lost)))
		return true;
	if (lost)
		ht_record_lost_free();
	return false;
}
