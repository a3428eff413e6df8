/* SPDX-License-Identifier: Apache-2.0
 *
 * The hook's way from an event to a record: how much stack it dares to read, what it loses,
 * how long it waits. Compiled as the hook is, without sanitizers: it reads stacks whole.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deny.h"
#include "ht_check.h"
#include "ipc/ring.h"
#include "ipc/writer.h"

#undef errno	/* a macro, which can't be poisoned */
#include "record_rig.h"

/* --- stacks --- */

#define PAGE 4096

/* Pages with a hole behind them, far from the stack and the thread pointer of anybody. */
static char *map_stack(size_t pages)
{
	char *p = mmap((void *)UINT64_C(0x200000000000), (pages + 1) * PAGE,
		       PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	for (size_t i = 0; i < pages * PAGE; i++)
		p[i] = (char)(i * 131 >> 3);
	ck_assert_int_eq(munmap(p + pages * PAGE, PAGE), 0);
	return p;
}

static const struct ht_entry entry = { .index = 7 };

/* An entry called with the stack pointer at @sp after the return. */
static struct ht_hook_frame *call_at(char *sp)
{
	struct ht_hook_frame *frame = (struct ht_hook_frame *)(void *)sp - 1;

	*frame = (struct ht_hook_frame){ .entry = &entry, .pc = 0x1111, .bp = 2, .bx = 3,
					 .r12 = 4, .r13 = 5, .r14 = 6, .r15 = 8 };
	return frame;
}

/* So many bytes from @sp were copied. */
static void record_at(char *sp, uint64_t copied, bool cut)
{
	struct ht_event event = { .addr = 0x10, .size = 100 };

	ck_assert(ht_record_alloc(&event, call_at(sp)));
	drain();
	ck_assert_uint_eq(records, 1);
	ck_assert_uint_eq(got->sp, (uint64_t)(uintptr_t)sp);
	ck_assert_uint_eq(got->stack_len, copied);
	ck_assert_uint_eq(got->head.size, sizeof(*got) + copied);
	ck_assert(!memcmp(got + 1, sp, copied));
	ck_assert_int_eq(got->head.flags, cut ? HT_RECORD_CUT : 0);
}

START_TEST(all_fields)
{
	struct ht_event event = { .addr = 0x7f0010, .size = 77, .interval = 4096,
				  .flags = HT_RECORD_UNTRACKED };
	char *stack = map_stack(1);
	uint64_t before;

	start(8 << 20, HT_CONFIG_SYSCALLS);
	before = ht_next_seq();
	ck_assert(ht_record_alloc(&event, call_at(stack + 2048)));
	drain();
	ck_assert_uint_eq(got->head.type, HT_RECORD_ALLOC);
	ck_assert_uint_eq(got->head.flags, HT_RECORD_UNTRACKED);
	ck_assert_uint_eq(got->head.seq, before + 1);
	ck_assert_uint_eq(got->addr, 0x7f0010);
	ck_assert_uint_eq(got->size, 77);
	ck_assert_uint_eq(got->interval, 4096);
	ck_assert_uint_eq(got->thread, ht_hook_thread_pointer());
	ck_assert_uint_eq(got->entry, 7);
	ck_assert(got->pc == 0x1111 && got->bp == 2 && got->bx == 3 && got->r12 == 4 &&
		  got->r13 == 5 && got->r14 == 6 && got->r15 == 8);
	event.old_addr = 0x7f0000;
	event.old_seq = 1;
	ck_assert(ht_record_alloc(&event, call_at(stack + 2048)));
	drain();
	ck_assert_uint_eq(got->head.type, HT_RECORD_REALLOC);
	ck_assert(got->old_addr == 0x7f0000 && got->old_seq == 1);
	/* Whoever took a place in time before keeps it. */
	ck_assert(ht_record_free(0x7f0010, 1));
	drain();
	ck_assert_uint_eq(got->head.type, HT_RECORD_FREE);
	ck_assert_uint_eq(got->head.size, sizeof(struct ht_record_free));
	ck_assert_uint_eq(got->head.seq, 1);
	ck_assert_uint_eq(got->addr, 0x7f0010);
	ck_assert(ht_record_free(0x7f0010, 0));
	drain();
	ck_assert_uint_eq(got->head.seq, before + 3);
	end();
}
END_TEST

/* What isn't mapped ends the stack: that's all there is of it, not a cut. */
START_TEST(to_the_end_of_the_mapping)
{
	char *stack = map_stack(4);

	start(8 << 20, HT_CONFIG_SYSCALLS);
	record_at(stack + 4 * PAGE - 8, 8, false);
	record_at(stack + 4 * PAGE - 512, 512, false);
	record_at(stack + 3 * PAGE, PAGE, false);
	record_at(stack + PAGE + 1000, 3 * PAGE - 1000, false);
	ck_assert_int_eq(mprotect(stack + 2 * PAGE, PAGE, PROT_NONE), 0);
	record_at(stack + PAGE + 1000, PAGE - 1000, false);
	end();
}
END_TEST

START_TEST(to_the_end_of_the_window)
{
	char *stack = map_stack(4);

	start(8 << 20, HT_CONFIG_SYSCALLS);
	ht_hook_config.max_stack = 1024;
	record_at(stack + 1000, 1024, true);
	/* Words, whatever was asked for. */
	ht_hook_config.max_stack = 1031;
	record_at(stack + 1000, 1024, true);
	record_at(stack + 4 * PAGE - 512, 512, false);
	end();
}
END_TEST

/* Nothing is known then of the next page, so the stack is cut where this one ends. */
START_TEST(to_the_end_of_the_page)
{
	char *stack = map_stack(4);

	start(8 << 20, 0);
	record_at(stack + PAGE + 1000, PAGE - 1000, true);
	record_at(stack + PAGE, PAGE, true);
	record_at(stack + 2 * PAGE - 8, 8, true);
	record_at(stack + 4 * PAGE - 512, 512, true);
	ht_hook_config.max_stack = 1024;
	record_at(stack + PAGE + 1000, 1024, true);
	record_at(stack + PAGE, 1024, true);
	end();
}
END_TEST

START_TEST(a_filter_that_came_later)
{
	char *stack = map_stack(4);

	if (!ht_check_have(deny_syscall(SYS_process_vm_readv, 0, 0, DENY_WITH(ENOSYS)),
			   "seccomp filters"))
		return;
	start(8 << 20, HT_CONFIG_SYSCALLS);
	record_at(stack + PAGE + 1000, PAGE - 1000, true);
	end();
}
END_TEST

/* A process whose main thread has ended, or whose pid is another where it lives. */
START_TEST(a_pid_that_is_not_found)
{
	char *stack = map_stack(4);

	start(8 << 20, HT_CONFIG_SYSCALLS);
	ht_hook_config.pid = 1 << 22;
	record_at(stack + PAGE + 1000, 3 * PAGE - 1000, false);
	end();
}
END_TEST

/* A filter may kill for any call that wasn't there before. In a process of its own, since
 * Check and the sanitizers make them too. */
#define NO_FILTER 3
static int record_without_calls(char *sp)
{
	struct ht_event event = { .addr = 0x10, .size = 100 };

	if (!deny_syscall(SYS_process_vm_readv, 0, 0, DENY_DEADLY) ||
	    !deny_syscall(SYS_gettid, 0, 0, DENY_DEADLY) ||
	    !deny_syscall(SYS_nanosleep, 0, 0, DENY_DEADLY) ||
	    !deny_syscall(SYS_clock_nanosleep, 0, 0, DENY_DEADLY))
		return NO_FILTER;
	if (!ht_record_alloc(&event, call_at(sp)))
		return 1;
	while (ht_record_free(1, 0))
		;
	return counters().waits == 1 ? 0 : 2;
}

START_TEST(not_one_system_call)
{
	char *stack = map_stack(4);
	int status;
	pid_t child;

	start(64 << 10, HT_CONFIG_BLOCK);
	child = fork();
	if (child == 0)
		_exit(record_without_calls(stack + PAGE + 1000));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	if (ht_check_have(status != NO_FILTER << 8, "seccomp filters"))
		ck_assert_int_eq(status, 0);
	end();
}
END_TEST

static void main_stack(char *low, char *high)
{
	ht_hook_config.stack_low = (uint64_t)(uintptr_t)low;
	ht_hook_config.stack_high = (uint64_t)(uintptr_t)high;
}

/* The kernel's own stack area is read without a call, whole, and never past its end. */
START_TEST(the_main_stack)
{
	char *stack = map_stack(4), *end_of_stack = stack + 4 * PAGE;

	if (!ht_check_have(deny_syscall(SYS_process_vm_readv, 0, 0, DENY_WITH(ENOSYS)),
			   "seccomp filters"))
		return;
	start(8 << 20, HT_CONFIG_SYSCALLS);
	main_stack(stack + PAGE, end_of_stack);
	record_at(stack + PAGE + 1000, 3 * PAGE - 1000, false);
	record_at(stack + PAGE, 3 * PAGE, false);
	record_at(stack + 2 * PAGE, 2 * PAGE, false);
	record_at(end_of_stack - 8, 8, false);
	ht_hook_config.max_stack = 2 * PAGE;
	record_at(stack + PAGE + 1000, 2 * PAGE, true);
	record_at(stack + 2 * PAGE, 2 * PAGE, true);
	/* Below it, or above: as any other. */
	record_at(stack + PAGE - 8, 8, true);
	main_stack(stack, stack + PAGE);
	record_at(stack + PAGE, PAGE, true);
	/* It's over, whichever of the two words came first. */
	main_stack((char *)(uintptr_t)HT_NO_STACK, end_of_stack);
	record_at(stack + PAGE + 1000, PAGE - 1000, true);
	main_stack(stack, NULL);
	record_at(stack + PAGE + 1000, PAGE - 1000, true);
	end();
}
END_TEST

/* Nor is a call needed for what lies in the page that the return address is in. */
START_TEST(in_the_page)
{
	char *stack = map_stack(4);

	if (!ht_check_have(deny_syscall(SYS_process_vm_readv, 0, 0, DENY_DEADLY),
			   "seccomp filters"))
		return;
	start(8 << 20, HT_CONFIG_SYSCALLS);
	slot.stack_top = (uint64_t)(uintptr_t)(stack + 2 * PAGE);
	record_at(stack + PAGE + 1000, PAGE - 1000, true);
	record_at(stack + 2 * PAGE - 8, 8, true);
	slot.stack_top -= 512;
	record_at(stack + PAGE + 8, PAGE - 512 - 8, true);
	end();
}
END_TEST

static char *thread_pointer;

/* On the stack of a thread there's nothing of interest from its control block on. That it
 * was cut there is told: it may be a coroutine's. */
static _cold_ void record_here(void)
{
	struct ht_hook_frame frame = { .entry = &entry };
	struct ht_event event = { .addr = 0x10, .size = 100 };

	thread_pointer = (char *)(uintptr_t)ht_hook_thread_pointer();
	ck_assert(ht_record_alloc(&event, &frame));
}

static void *record_in_thread(void *arg)
{
	volatile char pages[2 * PAGE];

	pages[0] = pages[PAGE] = 1;
	record_here();
	pages[0] = pages[PAGE];
	return arg;
}

static void record_thread(void)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, record_in_thread, NULL), 0);
	pthread_join(thread, NULL);
	drain();
	ck_assert_uint_eq(records, 1);
}

START_TEST(to_the_control_block)
{
	uint64_t whole, page;

	start(8 << 20, HT_CONFIG_SYSCALLS);
	record_thread();
	whole = ((uint64_t)(uintptr_t)thread_pointer - got->sp + 7) & ~UINT64_C(7);
	ck_assert_uint_lt(whole, ht_hook_config.max_stack);
	ck_assert_uint_eq(got->stack_len, whole);
	ck_assert_uint_eq(got->head.flags, HT_RECORD_CUT);
	/* Whatever was seen of another stack. */
	slot.stack_top = UINT64_MAX;
	record_thread();
	ck_assert_uint_eq(got->stack_len, whole);
	slot.stack_top = 1;
	record_thread();
	ck_assert_uint_eq(got->stack_len, whole);
	ht_hook_config.max_stack = (whole - 8) & ~UINT64_C(7);
	record_thread();
	ck_assert_uint_eq(got->stack_len, ht_hook_config.max_stack);
	ck_assert_uint_eq(got->head.flags, HT_RECORD_CUT);
	ht_hook_config.max_stack = 64 << 10;
	ht_hook_config.flags = 0;
	record_thread();
	page = PAGE - got->sp % PAGE;
	ck_assert_uint_eq(got->stack_len, page);
	ck_assert_uint_eq(got->head.flags, HT_RECORD_CUT);
	end();
}
END_TEST

/* Where the tool saw it end, as long as that can be. */
START_TEST(to_the_top_that_was_seen)
{
	char *stack = map_stack(4);
	uint64_t sp = (uint64_t)(uintptr_t)stack + 1000;

	start(8 << 20, HT_CONFIG_SYSCALLS);
	ht_hook_config.max_stack = 2 * PAGE;
	slot.stack_top = sp + 512;
	record_at(stack + 1000, 512, true);
	slot.stack_top = sp + 509;
	record_at(stack + 1000, 512, true);
	slot.stack_top = sp + 2 * PAGE - 8;
	record_at(stack + 1000, 2 * PAGE - 8, true);
	/* It's on another stack now. */
	slot.stack_top = sp + 2 * PAGE;
	record_at(stack + 1000, 2 * PAGE, true);
	slot.stack_top = sp;
	record_at(stack + 1000, 2 * PAGE, true);
	slot.stack_top = 1;
	record_at(stack + 1000, 2 * PAGE, true);
	slot.stack_top = UINT64_MAX;
	record_at(stack + 1000, 2 * PAGE, true);
	end();
}
END_TEST

/* A lane that is smaller than the window, or nearly full, has less of the stack. */
START_TEST(to_the_end_of_the_lane)
{
	struct ht_event event = { .addr = 0x10, .size = 100 };
	char *stack = map_stack(64);
	uint64_t lane, room;

	start(64 << 10, HT_CONFIG_SYSCALLS);
	lane = map->lane_size;
	ht_hook_config.max_stack = 8 << 20;
	record_at(stack + 1000, lane - sizeof(*got) - HT_LANE_KEEP, true);
	/* All lanes but one are at work, and that one has room for one frame of 2 KiB. */
	for (uint32_t i = 1; i < map->lanes; i++)
		ht_lane_at(map, i)->owner = 1;
	room = sizeof(*got) + 2048 + HT_LANE_KEEP;
	ht_lane_at(map, 0)->head = ht_lane_at(map, 0)->tail + lane - room;
	ck_assert(ht_record_alloc(&event, call_at(stack + 1000)));
	ck_assert_uint_eq(ht_lane_at(map, 0)->head,
			  ht_lane_at(map, 0)->tail + lane - HT_LANE_KEEP);
	/* And now for 8 bytes less than that. */
	ht_lane_at(map, 0)->head = ht_lane_at(map, 0)->tail + lane - room + 8;
	ck_assert(!ht_record_alloc(&event, call_at(stack + 1000)));
	ck_assert_uint_eq(counters().lost_allocs, 1);
	end();
}
END_TEST

/* --- what is lost --- */

static unsigned fill_up(void)
{
	unsigned n = 0;

	asked = 0;
	while (ht_record_free(n + 1, 0))
		n++;
	return n;
}

START_TEST(losses_are_counted)
{
	struct ht_event event = { .addr = 0x10, .size = 100 };
	char *stack = map_stack(1);

	start(64 << 10, HT_CONFIG_SYSCALLS);
	ck_assert_uint_eq(fill_up(), map->lanes * ((map->lane_size - HT_LANE_KEEP) /
						   sizeof(struct ht_record_free)));
	/* One that has its place already finds what was kept for it. */
	ck_assert(ht_record_free(1, 7));
	ck_assert(!ht_record_alloc(&event, call_at(stack + 1000)));
	ht_record_lost_alloc(11);
	ht_record_lost_free();
	ck_assert_uint_eq(counters().lost_frees, 2);
	ck_assert_uint_eq(counters().lost_allocs, 2);
	ck_assert_uint_eq(counters().lost_bytes, 111);
	ck_assert_uint_eq(counters().waits, 0);
	/* What comes after the end is no loss. */
	is_open = false;
	ck_assert(!ht_record_free(1, 0));
	ck_assert(!ht_record_alloc(&event, call_at(stack + 1000)));
	ck_assert_uint_eq(counters().lost_frees + counters().lost_allocs, 4);
	end();
}
END_TEST

/* A record that may wait doesn't make do with little: it waits for a quarter of a lane, or
 * for all the stack that there is. Whatever the target did to the ring's header. */
START_TEST(a_record_that_may_wait)
{
	struct ht_event event = { .addr = 0x10, .size = 100 };
	char *stack = map_stack(64);
	uint64_t lane, enough;

	start(64 << 10, HT_CONFIG_BLOCK | HT_CONFIG_SYSCALLS);
	lane = map->lane_size;
	ht_hook_config.max_stack = 8 << 20;
	ht_ring()->lane_size = 0;
	for (uint32_t i = 1; i < map->lanes; i++)
		ht_lane_at(map, i)->owner = 1;
	enough = sizeof(*got) + lane / 4 + HT_LANE_KEEP;
	ht_lane_at(map, 0)->head = lane - enough + 8;
	ck_assert(!ht_record_alloc(&event, call_at(stack + 1000)));
	ht_lane_at(map, 0)->head = lane - enough;
	ck_assert(ht_record_alloc(&event, call_at(stack + 1000)));
	slot.stack_top = (uint64_t)(uintptr_t)stack + 1000 + 800;
	ht_lane_at(map, 0)->head = lane - sizeof(*got) - 792 - HT_LANE_KEEP;
	ck_assert(!ht_record_alloc(&event, call_at(stack + 1000)));
	ht_lane_at(map, 0)->head = lane - sizeof(*got) - 800 - HT_LANE_KEEP;
	ck_assert(ht_record_alloc(&event, call_at(stack + 1000)));
	end();
}
END_TEST

/* Lanes whose writers were stopped in the middle belong to them until they go on. */
START_TEST(lanes_at_work)
{
	start(8 << 20, 0);
	ck_assert_uint_gt(map->lanes, 1);
	for (uint32_t i = 0; i < map->lanes; i++)
		ht_lane_at(map, i)->owner = 1;
	ck_assert(!ht_record_free(1, 0));
	ck_assert_uint_eq(counters().lost_frees, 1);
	ht_lane_at(map, 3)->owner = 0;
	ck_assert(ht_record_free(1, 0));
	ck_assert_uint_eq(ht_lane_at(map, 3)->head, sizeof(struct ht_record_free));
	ck_assert_uint_eq(ht_lane_at(map, 3)->owner, 0);
	end();
}
END_TEST

/* --- waiting --- */

/* 1000 us in naps of 50, 100, 200, 400 and the rest; then once for the question whether it is
 * a loss. */
#define LONG 6

static void waits(uint32_t flags)
{
	start(64 << 10, HT_CONFIG_BLOCK | flags);
	fill_up();
	ck_assert_uint_eq(asked, LONG);
	ck_assert_uint_eq(counters().waits, 1);
	ck_assert_uint_eq(counters().lost_frees, 1);
	/* The reader is stuck: the target must not be stopped for each record. */
	for (unsigned i = 0; i < 5; i++) {
		asked = 0;
		ck_assert(!ht_record_free(1, 0));
		ck_assert_uint_eq(asked, 1);
		ck_assert_uint_eq(counters().waits, 1);
		ck_assert_uint_eq(counters().lost_frees, 2 + i);
	}
	/* It moved on, so waiting is worth while again. */
	drain();
	fill_up();
	ck_assert_uint_eq(asked, LONG);
	ck_assert_uint_eq(counters().waits, 2);
	end();
}

START_TEST(waits_are_bounded_and_counted)
{
	waits(HT_CONFIG_SYSCALLS);
	waits(0);
}
END_TEST

START_TEST(hardly_time_to_wait)
{
	start(64 << 10, HT_CONFIG_BLOCK);
	ht_hook_config.block_us = 1;
	fill_up();
	ck_assert_uint_eq(asked, 2);
	ck_assert_uint_eq(counters().waits, 1);
	end();
}
END_TEST

static void nothing(int signal)
{
	(void)signal;
}

static void close_at_132nd(void)
{
	if (asked == 132)
		is_open = false;
}

/* Naps of 50 to 800, then 125 of up to 1600 us. Those that a signal cuts short leave time for
 * more of them. */
START_TEST(signals_dont_end_a_wait)
{
	struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { 0 };
	struct sigaction action = { .sa_handler = nothing };

	ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
	start(64 << 10, HT_CONFIG_BLOCK | HT_CONFIG_SYSCALLS);
	ht_hook_config.block_us = 200000;
	when_asked = close_at_132nd;
	ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
	fill_up();
	ck_assert_int_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
	ck_assert_uint_gt(asked, 131);
	ck_assert_uint_eq(counters().waits, 1);
	ck_assert_uint_eq(counters().lost_frees, 0);
	end();
}
END_TEST

static void drain_at_third(void)
{
	if (asked == 3)
		drain();
}

START_TEST(room_while_waiting)
{
	start(64 << 10, HT_CONFIG_BLOCK);
	fill_up();
	drain();
	ht_hook_config.flags = 0;
	fill_up();
	ht_hook_config.flags = HT_CONFIG_BLOCK;
	asked = 0;
	when_asked = drain_at_third;
	ck_assert(ht_record_free(77, 0));
	ck_assert_uint_eq(asked, 3);
	when_asked = NULL;
	ck_assert_uint_eq(counters().waits, 2);
	ck_assert_uint_eq(counters().lost_frees, 2);
	/* A wait that was worth it makes no later one short. */
	fill_up();
	ck_assert_uint_eq(asked, LONG);
	end();
}
END_TEST

static void *free_one(void *arg)
{
	ck_assert(!ht_record_free(1, 0));
	return arg;
}

/* Another thread waits, and gives up. */
static void give_up_at_third(void)
{
	pthread_t thread;

	if (asked != 3)
		return;
	ck_assert_int_eq(pthread_create(&thread, NULL, free_one, NULL), 0);
	pthread_join(thread, NULL);
}

/* Who still waits then has waited long enough. */
START_TEST(one_gives_up_for_all)
{
	start(64 << 10, HT_CONFIG_BLOCK);
	when_asked = give_up_at_third;
	fill_up();
	ck_assert_uint_eq(asked, 3 + LONG + 1);
	ck_assert_uint_eq(counters().waits, 2);
	ck_assert_uint_eq(counters().lost_frees, 2);
	end();
}
END_TEST

static void close_at_third(void)
{
	if (asked == 3)
		is_open = false;
}

START_TEST(the_end_while_waiting)
{
	start(64 << 10, HT_CONFIG_BLOCK);
	when_asked = close_at_third;
	fill_up();
	ck_assert_uint_eq(asked, 4);
	ck_assert_uint_eq(counters().waits, 1);
	ck_assert_uint_eq(counters().lost_frees, 0);
	end();
}
END_TEST

/* What had to wait gets its place in the order when it has room, not before: others of
 * that time would be long gone through the reader's window. */
static uint64_t seq_meanwhile;

static void drain_and_count(void)
{
	if (asked != 3)
		return;
	seq_meanwhile = ht_next_seq();
	drain();
}

/* As it waits for room. */
static void leave(void)
{
	wiped_in = 1;
}

/* The parent's ring stays as it was, and what isn't there isn't touched. */
START_TEST(a_child_that_returned)
{
	struct ht_event event = { .addr = 0x10, .size = 100 };
	char *stack = map_stack(2);

	for (unsigned at = 1; at <= 2; at++) {
		start(1 << 20, HT_CONFIG_SYSCALLS);
		wiped_in = at;
		ck_assert(!ht_record_alloc(&event, call_at(stack + 2 * PAGE - 512)));
		ck_assert(is_wiped);
		ck_assert(!ht_record_free(0x10, 0));
		ck_assert_uint_ne(ht_record_resize(), 0);
		ht_record_resized();
		end();
	}
	start(64 << 10, HT_CONFIG_SYSCALLS | HT_CONFIG_BLOCK);
	ck_assert(ht_record_free(0x10, 0));
	drain();
	when_asked = leave;
	while (ht_record_free(0x10, 0))
		;
	ck_assert(is_wiped);
	end();
	munmap(stack, 2 * PAGE);
}
END_TEST

START_TEST(order_after_waiting)
{
	start(64 << 10, HT_CONFIG_BLOCK);
	when_asked = drain_and_count;
	for (unsigned i = 0; asked < 3; i++)
		ck_assert(ht_record_free(i, 0));
	when_asked = NULL;
	drain();
	ck_assert_uint_eq(records, 1);
	ck_assert_uint_eq(got->head.seq, seq_meanwhile + 1);
	end();
}
END_TEST

/* --- through a socket --- */

/* Lanes are never full: each record is made at the start of one. */
START_TEST(records_are_sent)
{
	char *stack = map_stack(64);

	start_socket(0);
	for (unsigned i = 0; i < 20; i++) {
		record_at(stack + 1000, 64 << 10, true);
		ck_assert(ht_record_free(i, 0));
		drain();
		ck_assert_uint_eq(records, 1);
		ck_assert_uint_eq(got->addr, i);
	}
	ck_assert_uint_eq(counters().lost_allocs + counters().lost_frees, 0);
	ck_assert_uint_eq(counters().corrupt, 0);
	for (uint32_t i = 0; i < map->lanes; i++) {
		ck_assert_uint_eq(ht_lane_at(map, i)->owner, 0);
		ck_assert_uint_eq(ht_lane_at(map, i)->head, ht_lane_at(map, i)->tail);
		ck_assert_uint_eq(ht_lane_at(map, i)->head % map->lane_size, 0);
	}
	end();
}
END_TEST

START_TEST(losses_of_a_full_socket)
{
	struct ht_event event = { .addr = 0x10, .size = 100 };
	char *stack = map_stack(1);
	unsigned n;

	start_socket(0);
	n = fill_up();
	ck_assert_uint_gt(n, 10);
	ck_assert(!ht_record_alloc(&event, call_at(stack + 1000)));
	/* Nothing is kept for one that has its place: it's a loss, too, after the end as well. */
	ck_assert(!ht_record_free(1, 7));
	is_open = false;
	ck_assert(!ht_record_free(1, 7));
	ck_assert_uint_eq(counters().lost_frees, 3);
	ck_assert_uint_eq(counters().lost_allocs, 1);
	ck_assert_uint_eq(counters().lost_bytes, 100);
	ck_assert_uint_eq(counters().waits, 0);
	/* Others come after the end, and are none. */
	ck_assert(!ht_record_free(1, 0));
	ck_assert(!ht_record_alloc(&event, call_at(stack + 1000)));
	ck_assert_uint_eq(counters().lost_frees + counters().lost_allocs, 4);
	drain();
	ck_assert_uint_eq(records, n);
	is_open = true;
	ck_assert(ht_record_free(1, 0));
	end();
}
END_TEST

START_TEST(losses_without_a_socket)
{
	struct ht_event event = { .addr = 0x10, .size = 100 };
	char *stack = map_stack(1);

	start_socket(HT_CONFIG_BLOCK);
	close((int)ht_hook_config.socket.fd);
	ck_assert(!ht_record_alloc(&event, call_at(stack + 1000)));
	ck_assert_uint_eq(gate, HT_GATE_OFF);
	is_open = false;
	ck_assert(!ht_record_free(1, 7));
	ck_assert_uint_eq(counters().lost_allocs, 1);
	ck_assert_uint_eq(counters().lost_frees, 1);
	ck_assert_uint_eq(counters().waits, 0);
	ck_assert_int_eq(ht_ring_ended(ring), HT_ENDED_SOCKET);
	end();
}
END_TEST

/* As for room in the ring; each try asks whether the end has come. */
START_TEST(waits_for_a_socket)
{
	start_socket(HT_CONFIG_BLOCK);
	fill_up();
	ck_assert_uint_gt(asked, LONG);
	ck_assert_uint_eq(counters().waits, 1);
	ck_assert_uint_eq(counters().lost_frees, 1);
	for (unsigned i = 0; i < 5; i++) {
		ck_assert(!ht_record_free(1, 0));
		ck_assert_uint_eq(counters().waits, 1);
		ck_assert_uint_eq(counters().lost_frees, 2 + i);
	}
	/* Another one's record shows that the reader has moved. */
	drain();
	ck_assert(ht_record_free(1, 0));
	ht_hook_config.flags &= ~(uint32_t)HT_CONFIG_BLOCK;
	fill_up();
	ht_hook_config.flags |= HT_CONFIG_BLOCK;
	asked = 0;
	when_asked = drain_at_third;
	ck_assert(ht_record_free(77, 0));
	ck_assert_uint_eq(counters().waits, 2);
	ck_assert_uint_eq(counters().lost_frees, 7);
	end();
}
END_TEST

/* One that has its place waits beyond the end, and the wait of another that the end cut short
 * doesn't shorten its. */
START_TEST(the_end_while_waiting_for_a_socket)
{
	start_socket(0);
	fill_up();
	ht_hook_config.flags |= HT_CONFIG_BLOCK;
	asked = 0;
	when_asked = close_at_third;
	ck_assert(!ht_record_free(1, 0));
	ck_assert_uint_eq(counters().lost_frees, 1);
	asked = 0;
	when_asked = drain_at_third;
	ck_assert(ht_record_free(77, 7));
	when_asked = NULL;
	ck_assert_uint_eq(counters().lost_frees, 1);
	ck_assert_uint_eq(counters().waits, 2);
	drain();
	ck_assert_uint_eq(records, 1);
	ck_assert_uint_eq(got->head.seq, 7);
	end();
}
END_TEST

int main(void)
{
	return ht_check_run("hook_record", (const TTest *const[]){
		all_fields, to_the_end_of_the_mapping, to_the_end_of_the_window,
		to_the_end_of_the_page, the_main_stack, in_the_page, a_filter_that_came_later, not_one_system_call,
		a_pid_that_is_not_found, to_the_control_block, to_the_top_that_was_seen,
		to_the_end_of_the_lane, losses_are_counted, a_record_that_may_wait,
		lanes_at_work,
		waits_are_bounded_and_counted, hardly_time_to_wait, signals_dont_end_a_wait,
		room_while_waiting, one_gives_up_for_all, the_end_while_waiting,
		a_child_that_returned,
		order_after_waiting, records_are_sent, losses_of_a_full_socket,
		losses_without_a_socket, waits_for_a_socket,
		the_end_while_waiting_for_a_socket, NULL });
}
