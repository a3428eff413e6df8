/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/scan.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/clock.h"
#include "ht_check.h"
#include "ht_target.h"
#include "inject/cure.h"

static struct ht_test_target t;
static struct ht_target *target;
static struct ht_modules *modules;
static struct ht_space *space;
static struct ht_scanner *scanner;

static void open_target(pid_t pid)
{
	ck_ok(ht_target_open(pid, &target, NULL));
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_space_new(ht_target_procfd(target), ht_target_memfd(target), modules, &space));
	ck_ok(ht_scanner_new(space, ht_target_memfd(target), &scanner));
	ck_ok(ht_target_stop(target, ht_deadline_ns(20 * HT_NS_PER_SEC), NULL));
}

static void start(void)
{
	ck_ok(ht_test_target_start(&t, "keeper", NULL));
	open_target(t.pid);
}

static void close_target(void)
{
	ht_target_resume(target);
	ht_scanner_free(scanner);
	ht_space_free(space);
	ht_modules_free(modules);
	ht_target_close(target);
}

static void stop(void)
{
	close_target();
	ht_test_target_kill(&t);
}

static struct ht_journal_range text_of(const char *name)
{
	for (size_t i = 0; i < ht_space_count(space); i++) {
		const struct ht_mapping *m = ht_space_at(space, i);

		if (m->module && m->prot & HT_PROT_EXEC &&
		    strstr(ht_module_name(m->module), name))
			return (struct ht_journal_range){ m->start, m->end };
	}
	ck_abort_msg("%s isn't mapped", name);
}

START_TEST(a_pc_in_the_code_is_a_hit)
{
	struct ht_journal_range range;

	start();
	range.start = ht_regs_pc(ht_target_regs(target, 0));
	range.end = range.start + 1;
	ck_assert_int_eq(ht_scan_threads(scanner, target, &range, 1), 1);
	stop();
}
END_TEST

START_TEST(frames_in_the_code_are_hits)
{
	struct ht_journal_range libc;

	start();
	/* Each thread came from libc, and all but the spinner wait in it. */
	libc = text_of("libc.so");
	ck_assert_int_eq(ht_scan_threads(scanner, target, &libc, 1),
			 (int)ht_target_threads(target));
	stop();
}
END_TEST

/* Tells where it will return to, and waits with much of its stack in between. */
static __attribute__((noinline)) void wait_deep(int fd)
{
	volatile char much[3 << 20];
	void *volatile caller = __builtin_return_address(0);

	much[0] = much[sizeof(much) - 1] = 1;
	if (write(fd, (const void *)&caller, sizeof(caller)) != sizeof(caller))
		_exit(1);
	caller = NULL; /* a word like that nearby would do */
	while (much[0])
		pause();
}

START_TEST(a_frame_far_up_is_a_hit)
{
	struct ht_journal_range range;
	ht_addr_t caller;
	int fds[2];
	pid_t pid;

	ck_ok(pipe(fds));
	pid = fork();
	if (pid == 0) {
		wait_deep(fds[1]);
		_exit(2);
	}
	ck_assert_int_eq(read(fds[0], &caller, sizeof(caller)), sizeof(caller));
	open_target(pid);
	range = (struct ht_journal_range){ caller - 1, caller + 1 };
	ck_assert_int_eq(ht_scan_threads(scanner, target, &range, 1), 1);
	close_target();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
END_TEST

/* What a target that waits on another stack tells of its first one. */
struct aside {
	ht_addr_t word;		/* the address of a variable there */
	ht_addr_t caller;	/* a frame's return address */
};

static char other_stack[64 << 10];
static struct aside aside;
static int report_fd;

static void wait_here(void)
{
	if (write(report_fd, &aside, sizeof(aside)) != sizeof(aside))
		_exit(1);
	for (;;)
		pause();
}

static void on_signal(int sig)
{
	if (sig == SIGUSR1)
		wait_here();
}

static __attribute__((noinline)) void run_handler(void)
{
	stack_t alternate = { .ss_sp = other_stack, .ss_size = sizeof(other_stack) };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

	aside.caller = (ht_addr_t)(uintptr_t)__builtin_return_address(0);
	sigaltstack(&alternate, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

static __attribute__((noinline)) void raise_further_down(void)
{
	aside.caller = (ht_addr_t)(uintptr_t)__builtin_return_address(0);
	raise(SIGUSR1);
}

/* The alternate stack is a variable. */
static __attribute__((noinline)) void run_handler_within(void)
{
	char within[64 << 10];
	stack_t alternate = { .ss_sp = within, .ss_size = sizeof(within) };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

	sigaltstack(&alternate, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise_further_down();
	((volatile char *)within)[0] = 0;
}

static __attribute__((noinline)) void run_coroutine(void)
{
	ucontext_t inside, outside;

	aside.caller = (ht_addr_t)(uintptr_t)__builtin_return_address(0);
	getcontext(&inside);
	inside.uc_stack.ss_sp = other_stack;
	inside.uc_stack.ss_size = sizeof(other_stack);
	inside.uc_link = &outside;
	makecontext(&inside, wait_here, 0);
	swapcontext(&outside, &inside);
}

static void *run(void *arg)
{
	volatile ht_addr_t word = 0;

	aside.word = (ht_addr_t)(uintptr_t)&word;
	((void (*)(void))arg)();
	return NULL;
}

static pid_t start_aside(void (*fn)(void), bool in_thread)
{
	pthread_t thread;
	int fds[2];
	pid_t pid;

	ck_ok(pipe(fds));
	pid = fork();
	if (pid == 0) {
		report_fd = fds[1];
		if (in_thread)
			pthread_create(&thread, NULL, run, (void *)fn);
		else
			run((void *)fn);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(fds[0], &aside, sizeof(aside)), sizeof(aside));
	open_target(pid);
	return pid;
}

/* The frames of a thread's own stack count while it is on another stack. A word that isn't of a
 * frame counts if the walk, which can tell, doesn't come there. */
static void look_aside(void (*fn)(void), bool in_thread, bool walk_comes_there)
{
	/* Not on the stack: the target has a copy of that. */
	static struct ht_journal_range range;
	static uint64_t word;
	pid_t pid = start_aside(fn, in_thread);

	word = 0x300000000000;
	range = (struct ht_journal_range){ word, word + 1 };
	ck_assert_int_eq(ht_scan_threads(scanner, target, &range, 1), 0);
	ck_ok(ht_target_write(target, aside.word, &word, sizeof(word)));
	ck_assert_int_eq(ht_scan_threads(scanner, target, &range, 1), !walk_comes_there);
	range = (struct ht_journal_range){ aside.caller - 1, aside.caller + 1 };
	ck_assert_int_eq(ht_scan_threads(scanner, target, &range, 1), 1);
	close_target();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

START_TEST(frames_under_an_alternate_stack_are_hits)
{
	look_aside(run_handler, false, true);
	look_aside(run_handler, true, true);
}
END_TEST

START_TEST(frames_below_an_alternate_stack_are_hits)
{
	look_aside(run_handler_within, false, true);
	look_aside(run_handler_within, true, true);
}
END_TEST

START_TEST(frames_behind_a_coroutine_are_hits)
{
	look_aside(run_coroutine, false, false);
	look_aside(run_coroutine, true, false);
}
END_TEST

START_TEST(code_that_nobody_runs_is_clean)
{
	struct ht_journal_range nowhere = { 0x500000000000, 0x500000001000 };

	start();
	ck_assert_int_eq(ht_scan_threads(scanner, target, &nowhere, 1), 0);
	ck_assert_int_eq(ht_scan_threads(scanner, target, &nowhere, 0), 0);
	stop();
}
END_TEST

START_TEST(a_word_that_is_no_frame_is_clean)
{
	struct ht_journal_range range;
	ht_addr_t sp;
	uint64_t word;

	start();
	/* Below the frame of the system call's caller there is room that calls long over
	 * left as it was: plant the address of a function there that nobody is in. */
	sp = ht_regs_sp(ht_target_regs(target, 0));
	range.start = text_of("ld-linux").start + 0x100;
	range.end = range.start + 8;
	ck_assert_int_eq(ht_scan_threads(scanner, target, &range, 1), 0);
	word = range.start;
	ck_ok(ht_target_write(target, (sp & ~UINT64_C(7)) - 64, &word, sizeof(word)));
	ck_assert_int_eq(ht_scan_threads(scanner, target, &range, 1), 0);
	stop();
}
END_TEST

START_TEST(a_target_that_is_gone_is_said)
{
	struct ht_journal_range nowhere = { 0x500000000000, 0x500000001000 };

	start();
	ht_target_resume(target);
	ht_test_target_kill(&t);
	ck_assert_int_eq(ht_scan_threads(scanner, target, &nowhere, 1), -ESRCH);
	stop();
}
END_TEST

int main(void)
{
	return ht_check_run("scan", (const TTest *const[]){
		a_pc_in_the_code_is_a_hit, frames_in_the_code_are_hits, a_frame_far_up_is_a_hit,
		frames_under_an_alternate_stack_are_hits,
		frames_below_an_alternate_stack_are_hits, frames_behind_a_coroutine_are_hits,
		code_that_nobody_runs_is_clean, a_word_that_is_no_frame_is_clean,
		a_target_that_is_gone_is_said, NULL });
}
