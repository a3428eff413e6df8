/* SPDX-License-Identifier: Apache-2.0
 *
 * test_hijack.c: which stopped threads may be borrowed. What comes of it is in test_remote.c.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/target.h"
#include "base/clock.h"
#include "ht_check.h"
#include "ht_target.h"

#define STOP_NS (10 * HT_NS_PER_SEC)

static struct ht_target *open_stopped(pid_t pid)
{
	struct ht_target *target = NULL;

	ck_ok(ht_target_open(pid, &target, NULL));
	ck_ok(ht_target_stop(target, ht_deadline_ns(STOP_NS), NULL));
	return target;
}

/* The main thread in read(), a waiter, a spinner; and a sleeper, whose sleep would be lost. */
START_TEST(a_restart_block_is_seen)
{
	size_t any = 0, best = 0;
	struct ht_test_target t;
	struct ht_target *target;

	ck_ok(ht_test_target_start(&t, "keeper", NULL));
	target = open_stopped(t.pid);
	for (size_t i = 0; i < ht_target_threads(target); i++) {
		any += ht_target_hijackable_waiting(target, i);
		best += ht_target_hijackable(target, i);
	}
	ck_assert_uint_eq(any, 4);
	ck_assert_uint_eq(best, 3);
	ht_target_close(target);
	ck_ok(ht_test_target_stop(&t, NULL));
}
END_TEST

static void pause_on(int sig)
{
	for (;;)
		pause();
}

/* Other data of the heap is right below a stack like that. */
static void pause_on_alternate_stack(void)
{
	char *heap = malloc(3 * 65536);
	stack_t stack = { .ss_sp = heap + 65536, .ss_size = 65536 };
	struct sigaction act = { .sa_handler = pause_on, .sa_flags = SA_ONSTACK };

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &act, NULL);
	raise(SIGUSR1);
}

/* As Wine does, but that all calls may pass. */
static void pause_dispatching(void)
{
	static char selector;

	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) < 0)
		_exit(1);
	pause_on(0);
}

/* Why a process in pause() may not be borrowed; NULL: it may. */
static const char *why_not(void (*wait)(void))
{
	struct ht_target *target;
	const char *why;
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		wait();
	}
	for (;;) {
		target = open_stopped(pid);
		if (ht_regs_syscall(ht_target_regs(target, 0)) == SYS_pause)
			break;
		ht_target_close(target);
	}
	why = ht_target_unborrowable(target, 0);
	ck_assert_int_eq(ht_target_hijackable(target, 0), !why);
	ht_target_close(target);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return why;
}

static void pause_where_it_is(void)
{
	pause_on(0);
}

START_TEST(the_stack_must_be_one)
{
	ck_assert_ptr_null(why_not(pause_where_it_is));
	ck_assert_ptr_nonnull(strstr(why_not(pause_on_alternate_stack), "a stack of the program's own"));
}
END_TEST

START_TEST(system_calls_of_its_own)
{
	ck_assert_ptr_nonnull(strstr(why_not(pause_dispatching), "as Wine's do"));
}
END_TEST

static void *pause_with_own_files(void *arg)
{
	if (unshare(CLONE_FILES) == 0)
		*(volatile bool *)arg = true;
	for (;;)
		pause();
	return NULL;
}

static void pause_beside_one_with_own_files(void)
{
	static volatile bool unshared;
	pthread_t thread;

	pthread_create(&thread, NULL, pause_with_own_files, (void *)&unshared);
	while (!unshared)
		sched_yield();
	pause_on(0);
}

/* What is opened there has a number that means another file elsewhere. */
START_TEST(files_of_its_own)
{
	struct ht_target *target;
	size_t alone = 0;
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause_beside_one_with_own_files();
	}
	while (!alone) {
		target = open_stopped(pid);
		for (size_t i = 0; i < ht_target_threads(target); i++) {
			const char *why = ht_target_unborrowable(target, i);

			ck_assert_int_eq(ht_target_shares_files(target, i), !why);
			alone += why && strstr(why, "open files of its own");
			ck_assert(!why || ht_target_tid(target, i) != pid);
		}
		ht_target_close(target);
	}
	ck_assert_uint_eq(alone, 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
END_TEST

int main(void)
{
	return ht_check_run("hijack", (const TTest *const[]){ a_restart_block_is_seen,
							      the_stack_must_be_one,
							      system_calls_of_its_own, files_of_its_own,
							      NULL });
}
