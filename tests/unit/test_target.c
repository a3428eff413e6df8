/* SPDX-License-Identifier: Apache-2.0
 *
 * Taking hold of a process: identity, memory, files. Nothing is stopped here.
 */
#include "attach/target.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/facts.h"
#include "base/fd.h"
#include "ht_check.h"
#include "ht_target.h"

static struct ht_target *open_target(pid_t pid)
{
	struct ht_target *target = NULL;
	struct ht_err err = { 0 };
	int r = ht_target_open(pid, &target, &err);

	ck_assert_msg(r == 0, "%s", err.text);
	return target;
}

/* A child that does nothing but to run @fn first. */
static pid_t start_child(void (*fn)(void *), void *arg)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (fn)
			fn(arg);
		for (;;)
			pause();
	}
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, __WALL);
}

START_TEST(opens_and_knows)
{
	struct ht_target *target;
	pid_t tids[4];
	pid_t pid = start_child(NULL, NULL);

	target = open_target(pid);
	ck_assert_int_eq(ht_target_pid(target), pid);
	ck_assert_str_eq(ht_target_name(target), "test_target");
	ck_assert_int_ge(ht_target_pidfd(target), 0);
	ck_assert(fcntl(ht_target_memfd(target), F_GETFD) & FD_CLOEXEC);
	ck_assert(fcntl(ht_target_procfd(target), F_GETFD) & FD_CLOEXEC);
	ck_assert(ht_target_alive(target));
	ck_ok(ht_target_verify(target));
	ck_assert_uint_eq(ht_target_list_threads(target, tids, 4), 1);
	ck_assert_int_eq(tids[0], pid);
	ck_assert_uint_eq(ht_target_threads(target), 0);
	ck_assert_int_eq(ht_target_facts(target)->pid, pid);
	end_child(pid);
	ck_assert(!ht_target_alive(target));
	ck_assert_int_eq(ht_target_verify(target), -ESRCH);
	ck_assert_uint_eq(ht_target_list_threads(target, tids, 4), 0);
	ck_assert_ptr_null(ht_target_close(target));
	ck_assert_ptr_null(ht_target_close(NULL));
}
END_TEST

static void trace(void *pid)
{
	(void)ptrace(PTRACE_SEIZE, *(pid_t *)pid, 0, 0);
}

START_TEST(refuses)
{
	struct ht_target *target = NULL;
	struct ht_err err = { 0 };
	struct ht_facts facts;
	pid_t pid, tracer;

	ck_assert_int_eq(ht_target_open(getpid(), &target, &err), -EDEADLK);
	ck_assert_int_eq(err.kind, HT_ERR_UNSUPPORTED);
	ck_assert_ptr_null(target);
	pid = fork();
	if (pid == 0)
		_exit(0);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	ck_assert_int_eq(ht_target_open(pid, &target, &err), -ESRCH);
	ck_assert_ptr_nonnull(strstr(err.text, "zombie"));
	waitpid(pid, NULL, 0);
	ck_assert_int_eq(ht_target_open(pid, &target, &err), -ESRCH);
	ck_assert_int_eq(err.kind, HT_ERR_GONE);
	pid = start_child(NULL, NULL);
	tracer = start_child(trace, &pid);
	do
		ck_ok(ht_facts_read(pid, &facts, NULL));
	while (!facts.tracer);
	ck_assert_int_eq(ht_target_open(pid, &target, &err), -EBUSY);
	ck_assert_ptr_nonnull(strstr(err.text, "traced by test_target"));
	ck_assert_ptr_null(target);
	end_child(tracer);
	/* Ourselves we aren't in the way. */
	ck_assert_int_eq(ptrace(PTRACE_SEIZE, pid, 0, 0), 0);
	target = open_target(pid);
	ht_target_close(target);
	end_child(pid);
}
END_TEST

START_TEST(memory)
{
	char *page = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ht_target *target;
	char buf[16];
	pid_t pid;

	munmap(page + 4096, 4096);
	memcpy(page, "hello", 6);
	pid = start_child(NULL, NULL);
	target = open_target(pid);
	ck_ok(ht_target_read(target, (ht_addr_t)(uintptr_t)page, buf, 6));
	ck_assert_str_eq(buf, "hello");
	ck_ok(ht_target_write(target, (ht_addr_t)(uintptr_t)page, "HE", 2));
	ck_assert_str_eq(page, "HEllo");
	ck_ok(ht_target_read(target, (ht_addr_t)(uintptr_t)page + 4090, buf, 6));
	ck_assert_int_eq(ht_target_read(target, (ht_addr_t)(uintptr_t)page + 4090, buf, 7),
			 -EFAULT);
	ck_assert_int_eq(ht_target_read(target, 0, buf, 1), -EFAULT);
	ck_assert_int_eq(ht_target_write(target, (ht_addr_t)(uintptr_t)page + 4096, "x", 1),
			 -EFAULT);
	/* Nobody is stopped. */
	ck_assert_int_eq(ht_target_poke(target, (ht_addr_t)(uintptr_t)page, 0), -ESRCH);
	end_child(pid);
	ck_assert_int_eq(ht_target_read(target, (ht_addr_t)(uintptr_t)page, buf, 6), -ESRCH);
	ht_target_close(target);
}
END_TEST

static void exec_when_told(void *arg)
{
	int fd = *(int *)arg;
	char byte;

	if (read(fd, &byte, 1) == 1)
		execl("/proc/self/exe", "again", NULL);
}

/* An exec of the same program: only the memory differs. */
START_TEST(exec_is_noticed)
{
	struct ht_target *target;
	int fds[2], r;
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(fds), 0);
	pid = start_child(exec_when_told, &fds[0]);
	target = open_target(pid);
	ck_ok(ht_target_verify(target));
	ck_assert_int_eq(write(fds[1], "x", 1), 1);
	while ((r = ht_target_verify(target)) == 0)
		sched_yield();
	ck_assert_int_eq(r, -EXDEV);
	ck_assert_int_eq(ht_target_read(target, (ht_addr_t)(uintptr_t)&fds, &byte, 1), -ESRCH);
	end_child(pid);
	ht_target_close(target);
}
END_TEST

#ifdef HT_FAULTS
START_TEST(exec_while_it_is_opened)
{
	struct ht_target *target;
	struct ht_err err = { 0 };
	pid_t pid = start_child(NULL, NULL);

	setenv("HEAPTAP_FAULT", "attach.open:18", 1);	/* EXDEV */
	ck_assert_int_eq(ht_target_open(pid, &target, &err), -EXDEV);
	unsetenv("HEAPTAP_FAULT");
	ck_assert_int_eq(err.kind, HT_ERR_GONE);
	ck_assert_ptr_nonnull(strstr(err.text, "started another program meanwhile"));
	end_child(pid);
}
END_TEST
#endif

START_TEST(takes_an_fd)
{
	struct ht_target *target;
	int fds[2], copy = -1;
	char byte = 0;
	pid_t pid;

	ck_assert_int_eq(pipe(fds), 0);
	pid = start_child(NULL, NULL);
	target = open_target(pid);
	close(fds[1]);
	ck_ok(ht_target_take_fd(target, fds[1], &copy));
	ck_assert(fcntl(copy, F_GETFD) & FD_CLOEXEC);
	ck_assert_int_eq(write(copy, "y", 1), 1);
	ck_assert_int_eq(read(fds[0], &byte, 1), 1);
	ck_assert_int_eq(byte, 'y');
	ck_assert_int_eq(ht_target_take_fd(target, 1000, &copy), -EBADF);
	close(copy);
	ht_target_close(target);
	end_child(pid);
}
END_TEST

START_TEST(leaderless)
{
	struct ht_test_target t;
	struct ht_target *target;
	char line[32];
	int copy = -1;

	ck_ok(ht_test_target_start(&t, "leaderless", NULL));
	target = open_target(t.pid);
	ck_assert(ht_target_facts(target)->zombie_leader);
	ck_ok(ht_target_verify(target));
	ck_ok(ht_target_take_fd(target, 1, &copy));
	close(copy);
	ck_ok(ht_test_target_ask(&t, "hello", line, sizeof(line)));
	ck_assert_str_eq(line, "hello");
	ht_target_close(target);
	ht_test_target_kill(&t);
}
END_TEST

int main(int argc, char **argv)
{
	/* What exec_is_noticed made of its child. */
	if (argc == 1 && !strcmp(argv[0], "again")) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return ht_check_run("target",
			    (const TTest *const[]){ opens_and_knows, refuses, memory,
						    exec_is_noticed, takes_an_fd, leaderless,
#ifdef HT_FAULTS
						    exec_while_it_is_opened,
#endif
						    NULL });
}
