/* SPDX-License-Identifier: Apache-2.0
 *
 * accident.c: one accident of heaptap at one fault point, and what is left of it.
 *
 *	accident TARGET POINT:WHAT
 *
 * Taps tests/targets/TARGET with HEAPTAP_FAULT=POINT:WHAT, cures, taps once more without the
 * fault. After each of the three the target must still work, and after the cure and after
 * the last tap it must look as it did before. sweep.test runs it for each point.
 *
 * Points that only a tap with --transport=socket passes are passed by one.
 *
 * WHAT may also be stop@N: then somebody presses Ctrl-C there, and the target must look as
 * before without a cure.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "ht_patience.h"
#include "ht_snapshot.h"
#include "ht_tally.h"
#include "ht_target.h"

/* An attach may take 5 s by itself before it gives up. */
#define HEAPTAP_NS (60 * HT_NS_PER_SEC)

static struct ht_test_target target;

static void fail(const char *when, const char *why)
{
	int status;

	printf("FAIL: %s: %s\n", when, why);
	if (waitpid(target.pid, &status, WNOHANG) == target.pid)
		printf("the target ended: status %#x\n", (unsigned)status);
	ht_test_target_kill(&target);
	exit(1);
}

static void ask(const char *when, const char *question, char *reply, size_t cap)
{
	int r = ht_test_target_ask(&target, question, reply, cap);

	if (r < 0)
		fail(when, strerror(-r));
}

static void keeper_works(const char *when)
{
	char reply[256];

	ask(when, "check", reply, sizeof(reply));
	if (strncmp(reply, "ok", 2))
		fail(when, reply);
}

/* Its workers, who allocate all the time, get on. */
static void server_works(const char *when)
{
	uint64_t deadline = ht_test_deadline_ns();
	unsigned long start;
	char reply[256];

	ask(when, "count", reply, sizeof(reply));
	start = strtoul(reply, NULL, 10);
	while (strtoul(reply, NULL, 10) < start + 20) {
		if (ht_deadline_passed(deadline))
			fail(when, "no request is handled any more");
		poll(NULL, 0, 1);
		ask(when, "count", reply, sizeof(reply));
	}
}

#define AFTER_ACCIDENT "after the accident"

/* What it asks about itself is as it was; only its text may still be patched. */
static void watcher_works(const char *when)
{
	char reply[2200];

	ask(when, strcmp(when, AFTER_ACCIDENT) ? "look" : "tapped", reply, sizeof(reply));
	if (strncmp(reply, "ok", 2))
		fail(when, reply);
}

/* keeper allocates nothing, so nothing of its memory map may change. watcher opens and closes
 * files all the time, and compares its table itself. */
static const struct subject {
	const char *name;
	void (*works)(const char *when);
	unsigned ignore;	/* enum ht_snapshot_ignore */
} subjects[] = {
	{ "keeper", keeper_works, 0 },
	{ "leaky_server", server_works, HT_SNAPSHOT_ANON },
	{ "watcher", watcher_works, HT_SNAPSHOT_FDS },
};

static const struct subject *find_subject(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(subjects); i++)
		if (!strcmp(subjects[i].name, name))
			return &subjects[i];
	return NULL;
}

static const char *transport = "--transport=ring";

/* What heaptap says goes to our stdout, its report nowhere. */
static void become_heaptap(const char *command, const char *fault)
{
	const char *heaptap = getenv("HEAPTAP");
	char pid[32];
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	snprintf(pid, sizeof(pid), "%d", (int)target.pid);
	if (fault)
		setenv("HEAPTAP_FAULT", fault, 1);
	dup2(null, 0);
	dup2(1, 2);
	dup2(null, 1);
	heaptap = heaptap ? heaptap : "./heaptap";
	if (!strcmp(command, "attach"))
		execl(heaptap, heaptap, "attach", "-q", "-i", "4K", "-d", "0.1", transport,
		      pid, NULL);
	else
		execl(heaptap, heaptap, command, pid, NULL);
	_exit(126);
}

static bool interrupts(const char *fault)
{
	return strstr(fault, ":stop@") != NULL;
}

/* Where it stopped, if it came there. */
static void press_ctrl_c(pid_t pid)
{
	siginfo_t info;

	if (waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOWAIT) < 0)
		fail("attach", "can't wait for heaptap");
	kill(pid, SIGINT);
	kill(pid, SIGCONT);
}

/* Its exit status, or minus the signal that ended it. */
static int heaptap(const char *command, const char *fault)
{
	struct pollfd end = { .events = POLLIN };
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		become_heaptap(command, fault);
	if (fault && interrupts(fault))
		press_ctrl_c(pid);
	end.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (poll(&end, 1, (int)(HEAPTAP_NS / HT_NS_PER_MS)) != 1) {
		kill(pid, SIGKILL);
		fail(command, "heaptap doesn't come to an end");
	}
	close(end.fd);
	if (waitpid(pid, &status, 0) != pid)
		fail(command, "can't wait for heaptap");
	if (!strcmp(command, "attach"))
		ht_tally(WIFSIGNALED(status) ? "killed" : status ? "refused" : "tap", 0, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static struct ht_snapshot *look(const char *when)
{
	struct ht_snapshot *snapshot;
	int r = ht_snapshot_take(target.pid, &snapshot);

	if (r < 0)
		fail(when, strerror(-r));
	return snapshot;
}

static void check_same(const char *when, const struct ht_snapshot *before, unsigned ignore)
{
	struct ht_snapshot *after = look(when);
	struct ht_buf why = HT_BUF_INIT;

	if (ht_snapshot_compare(before, after, ignore, &why))
		fail(when, why.data);
	ht_buf_fini(&why);
	ht_snapshot_free(after);
}

/* Threads that were just made still come into their own: twice the same is "as it was", after
 * the target said that they work. */
static struct ht_snapshot *look_at_rest(unsigned ignore)
{
	uint64_t deadline = ht_test_deadline_ns();
	struct ht_snapshot *last = look("before"), *next;
	struct ht_buf why = HT_BUF_INIT;

	for (;;) {
		next = look("before");
		ht_buf_clear(&why);
		if (!ht_snapshot_compare(last, next, ignore, &why))
			break;
		if (ht_deadline_passed(deadline))
			fail("before", why.data);
		ht_snapshot_free(last);
		last = next;
	}
	ht_buf_fini(&why);
	ht_snapshot_free(next);
	return last;
}

/* That must work at last: on a busy machine a stop may not come about in time, which is
 * refused and harms nothing. */
static void heaptap_works(const char *command, const char *when)
{
	for (int tries = 0; tries < 5; tries++)
		if (!heaptap(command, NULL))
			return;
	fail(when, "heaptap failed");
}

/* The three taps. */
static void run(const struct subject *subject, const char *fault)
{
	struct ht_snapshot *before;
	int status;

	subject->works("before");
	before = look_at_rest(subject->ignore);

	status = heaptap("attach", fault);
	/* Killed, done all the same, or failed in an orderly way. */
	if (status < 0 && (status != -SIGKILL || interrupts(fault)))
		fail("attach", strsignal(-status));
	printf("%s: heaptap ended with %d\n", fault, status);
	subject->works(AFTER_ACCIDENT);
	if (interrupts(fault))
		check_same("after Ctrl-C", before, subject->ignore);

	heaptap_works("cure", "cure");
	subject->works("after the cure");
	check_same("after the cure", before, subject->ignore);

	heaptap_works("attach", "second attach");
	subject->works("after the second tap");
	check_same("after the second tap", before, subject->ignore);
	ht_snapshot_free(before);
}

int main(int argc, char **argv)
{
	const struct subject *subject = argc == 3 ? find_subject(argv[1]) : NULL;
	int status, r;

	if (!subject) {
		fputs("usage: accident keeper|leaky_server|watcher POINT:WHAT\n", stderr);
		return 99;
	}
	if (!strncmp(argv[2], "place.socket:", strlen("place.socket:")) ||
	    !strncmp(argv[2], "cure.close:", strlen("cure.close:")))
		transport = "--transport=socket";
	r = ht_test_target_start(&target, subject->name, NULL);
	if (r < 0) {
		printf("can't start %s: %s\n", subject->name, strerror(-r));
		return 99;
	}
	run(subject, argv[2]);
	r = ht_test_target_stop(&target, &status);
	if (r < 0 || status)
		fail("end", "the target didn't end by itself");
	return 0;
}
