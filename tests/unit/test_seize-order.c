/* SPDX-License-Identifier: Apache-2.0
 *
 * test_seize-order.c: who is seized first, and let go last.
 */
#include <string.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "fake_proc.h"
#include "ht_check.h"

#define LEADER 10

static struct fake_proc fake;
static pid_t scan[8], order[8];
static uint8_t ranks[8];

static void put(pid_t tid, const char *file, const char *text)
{
	char name[48];

	snprintf(name, sizeof(name), "%d/%s", tid, file);
	fake_proc_text(&fake, name, text);
}

/* A thread in the system call @nr (-1: it runs) with the @children that /proc names. */
static void add(size_t i, pid_t tid, long nr, const char *children)
{
	char text[32] = "running\n";

	if (nr >= 0)
		snprintf(text, sizeof(text), "%ld 0x0 0x0\n", nr);
	put(tid, "syscall", text);
	put(tid, "children", children);
	scan[i] = tid;
}

static void start(void)
{
	fake_proc_start(&fake);
	add(0, LEADER, SYS_epoll_wait, "");
	add(1, 11, -1, "");
	add(2, 12, SYS_epoll_wait, "");
	add(3, 13, SYS_wait4, "99 ");
	add(4, 14, SYS_semop, "98 97 ");
	add(5, 15, SYS_semop, "");
	add(6, 16, SYS_futex, "");
	fake.target.pid = LEADER;
	fake.target.scan = scan;
	fake.target.order = order;
	fake.target.ranks = ranks;
}

static void stop(void)
{
	fake.target.scan = NULL;
	fake.target.order = NULL;
	fake.target.ranks = NULL;
	fake_proc_stop(&fake);
}

START_TEST(parents_are_seized_last)
{
	static const pid_t want[] = { 12, 15, 11, 16, LEADER, 14, 13 };
	static const bool childless[] = { true, true, true, true, false, false, false };
	size_t runs[HT_ORDER_RANKS];

	start();
	ht_order_seizes(&fake.target, 7, runs);
	for (size_t i = 0; i < 7; i++) {
		ck_assert_int_eq(scan[i], want[i]);
		ck_assert_msg(ht_order_is_childless(runs, i) == childless[i], "%zu", i);
	}
	ck_assert_uint_eq(runs[0], 0);
	ck_assert_uint_eq(runs[1], 2);
	ck_assert_uint_eq(runs[2], 4);
	ck_assert_uint_eq(runs[3], 6);
	stop();
}
END_TEST

/* Kernels without the file, threads that have ended. */
START_TEST(unknown_ones_keep_their_order)
{
	size_t runs[HT_ORDER_RANKS];

	start();
	scan[0] = 21;
	scan[1] = 20;
	ht_order_seizes(&fake.target, 2, runs);
	ck_assert_int_eq(scan[0], 21);
	ck_assert_int_eq(scan[1], 20);
	ht_order_seizes(&fake.target, 0, runs);
	ck_assert_int_eq(ht_thread_syscall(&fake.target, 20), -1);
	ck_assert_int_eq(ht_thread_syscall(&fake.target, 11), -1);
	ck_assert_int_eq(ht_thread_syscall(&fake.target, 13), SYS_wait4);
	stop();
}
END_TEST

START_TEST(childless_ones_are_tried_first)
{
	static const pid_t want[] = { 11, 12, 15, 16, LEADER, 13, 14 };

	start();
	ht_order_candidates(&fake.target, scan, 7);
	for (size_t i = 0; i < 7; i++)
		ck_assert_int_eq(scan[i], want[i]);
	ht_order_candidates(&fake.target, scan, 0);
	stop();
}
END_TEST

START_TEST(parents_are_let_go_first)
{
	struct ht_thread thread = { .childless = true };

	/* On its way into a call, for all we know. */
	thread.regs.raw.orig_rax = (uint64_t)-1;
	ck_assert_uint_eq(ht_detach_round(&thread), 2);
	thread.regs.raw.orig_rax = SYS_epoll_wait;
	ck_assert_uint_eq(ht_detach_round(&thread), 3);
	thread.childless = false;
	ck_assert_uint_eq(ht_detach_round(&thread), 1);
	thread.regs.raw.orig_rax = SYS_clone;
	ck_assert_uint_eq(ht_detach_round(&thread), 0);
}
END_TEST

int main(void)
{
	return ht_check_run("seize_order", (const TTest *const[]){
		parents_are_seized_last, unknown_ones_keep_their_order,
		childless_ones_are_tried_first, parents_are_let_go_first, NULL });
}
