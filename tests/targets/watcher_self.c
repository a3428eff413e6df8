/* SPDX-License-Identifier: Apache-2.0
 *
 * watcher_self.c: all that a process can ask about itself, as lines of text, which must be
 * the same again later; and a thread that asks all the time who has files open.
 *
 * No allocation here: what it asks about is its own heap, too.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watcher.h"

#define MAX_FD 256
#define PENDING 3		/* queued signals that stay blocked */
#define PENDING_SIGNAL (SIGRTMIN + 5)

atomic_ulong watcher_new_fds;

/* Who opens files: the poller, or he who looks. */
static pthread_mutex_t files = PTHREAD_MUTEX_INITIALIZER;

struct text {
	size_t len;
	char bytes[1 << 18];
};

static struct text start, now;
static timer_t timers[2];
static pid_t child;

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *fmt, ...)
{
	size_t room = sizeof(t->bytes) - t->len;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(t->bytes + t->len, room, fmt, args);
	va_end(args);
	if (n < 0 || (size_t)n >= room)
		rounds_bad("too much to say");
	else
		t->len += (size_t)n;
}

long watcher_read_file(const char *path, char *text, long cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	long len = 0, n = 0;

	if (fd < 0)
		return -errno;
	while (len < cap - 1) {
		n = read(fd, text + len, (size_t)(cap - 1 - len));
		if (n <= 0)
			break;
		len += n;
	}
	close(fd);
	text[len] = '\0';
	return n < 0 ? -errno : len;
}

static void say_file(struct text *t, const char *path)
{
	char text[4096];
	long r = watcher_read_file(path, text, sizeof(text));

	say(t, "%s: %ld: %s\n", path, r < 0 ? r : 0, r < 0 ? "" : text);
}

/* Each numbered entry of a folder, as the kernel lists it. */
static void each_number(const char *path, void (*fn)(struct text *t, int number),
			struct text *t)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char buf[8192] __attribute__((aligned(8)));
	long n;

	while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n;) {
			const char *entry = buf + at;
			const char *name = entry + offsetof(struct dirent, d_name);

			if (*name >= '0' && *name <= '9' && atoi(name) != dir)
				fn(t, atoi(name));
			at += *(const unsigned short *)(entry +
							offsetof(struct dirent, d_reclen));
		}
	}
	close(dir);
}

/* ---- signals and timers ---- */

static void say_signals(struct text *t)
{
	struct { uint64_t handler, flags, restorer, mask; } act;
	uint64_t mask = 0, pending = 0;
	stack_t stack;

	for (int i = 1; i <= 64; i++) {
		if (syscall(SYS_rt_sigaction, i, NULL, &act, 8) == 0)
			say(t, "signal %d: %#lx %#lx %#lx %#lx\n", i, act.handler, act.flags,
			    act.restorer, act.mask);
	}
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, 8);
	syscall(SYS_rt_sigpending, &pending, 8);
	sigaltstack(NULL, &stack);
	say(t, "mask %#lx, pending %#lx\nalternate stack %p %#x %zu\n", mask, pending,
	    stack.ss_sp, stack.ss_flags, stack.ss_size);
}

static void queue_pending(void)
{
	for (int i = 0; i < PENDING; i++)
		sigqueue(getpid(), PENDING_SIGNAL, (union sigval){ .sival_int = 1000 + i });
}

/* All of them are there, in order, and no more. */
static void look_at_pending(void)
{
	const struct timespec at_once = { 0, 0 };
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, PENDING_SIGNAL);
	for (int i = 0; i < PENDING; i++) {
		if (sigtimedwait(&set, &info, &at_once) < 0)
			rounds_bad("blocked signal %d is lost", i);
		else if (info.si_value.sival_int != 1000 + i || info.si_pid != getpid())
			rounds_bad("blocked signal %d is %d of %d", i,
				   info.si_value.sival_int, info.si_pid);
	}
	if (sigtimedwait(&set, &info, &at_once) >= 0)
		rounds_bad("a blocked signal too many");
	queue_pending();
}

static void say_timers(struct text *t)
{
	struct itimerspec it;
	struct itimerval iv;

	for (int i = 0; i < 2; i++) {
		timer_gettime(timers[i], &it);
		say(t, "timer %d: every %ld s, %s, overrun %d\n", i, it.it_interval.tv_sec,
		    it.it_value.tv_sec ? "armed" : "not armed", timer_getoverrun(timers[i]));
	}
	for (int i = ITIMER_REAL; i <= ITIMER_PROF; i++) {
		getitimer(i, &iv);
		say(t, "itimer %d: every %ld s, %s\n", i, iv.it_interval.tv_sec,
		    iv.it_value.tv_sec ? "armed" : "not armed");
	}
	say_file(t, "/proc/self/timers");
}

/* ---- files ---- */

static void say_fd(struct text *t, int fd)
{
	char path[64], link[256];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, link, sizeof(link) - 1);
	link[n > 0 ? n : 0] = '\0';
	say(t, "fd %d: %s, %#x %#x, at %ld, owner %d\n", fd, link, fcntl(fd, F_GETFD),
	    fcntl(fd, F_GETFL), (long)lseek(fd, 0, SEEK_CUR), fcntl(fd, F_GETOWN));
}

static void say_links(struct text *t)
{
	static const char *const links[] = { "cwd", "root", "exe", "ns/mnt", "ns/user" };
	char path[64], link[256];

	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/%s", links[i]);
		n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		say(t, "%s: %s\n", links[i], link);
	}
}

/* ---- memory ---- */

static char maps[1 << 19];

static int is_ours(const char *line)
{
	return strstr(line, "heaptap:") != NULL;
}

/* Ends lines with '\0'. */
static char *next_line(char **at)
{
	char *line = *at, *end = line ? strchr(line, '\n') : NULL;

	if (!end)
		return NULL;
	*end = '\0';
	*at = end + 1;
	return line;
}

static void say_maps(struct text *t)
{
	char *at = maps, *line;

	watcher_read_file("/proc/self/maps", maps, sizeof(maps));
	while ((line = next_line(&at))) {
		if (!is_ours(line))
			say(t, "map %s\n", line);
	}
}

/* What madvise(), mlock() and their like have set. */
static void say_map_flags(struct text *t)
{
	char *at = maps, *line;
	const char *map = "";

	watcher_read_file("/proc/self/smaps", maps, sizeof(maps));
	while ((line = next_line(&at))) {
		if (*line < 'A' || *line > 'Z')
			map = line;
		else if (!strncmp(line, "VmFlags:", 8) && !is_ours(map))
			say(t, "map %s: %s\n", map, line);
	}
}

static void look_at_text_of(unsigned long from, unsigned long to, unsigned long offset,
			    const char *path)
{
	static char page[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	for (; fd >= 0 && from < to; from += sizeof(page), offset += sizeof(page)) {
		ssize_t n = pread(fd, page, sizeof(page), (off_t)offset);

		if (n > 0 && memcmp(page, (const void *)from, (size_t)n))
			rounds_bad("text of %s at %#lx", path, offset);
	}
	close(fd);
}

static void look_at_text(void)
{
	char *at = maps, *line;

	watcher_read_file("/proc/self/maps", maps, sizeof(maps));
	while ((line = next_line(&at))) {
		unsigned long from, to, offset;
		char prot[5], path[512];

		if (!is_ours(line) && sscanf(line, "%lx-%lx %4s %lx %*s %*s %511s", &from, &to,
					     prot, &offset, path) == 5 &&
		    !strcmp(prot, "r-xp") && path[0] == '/')
			look_at_text_of(from, to, offset, path);
	}
}

/* ---- threads and process ---- */

static int is_kept(const char *line)
{
	static const char *const fields[] = {
		"Umask:", "TracerPid:", "PPid:", "Uid:", "Gid:", "Groups:", "FDSize:", "VmLck:",
		"Threads:", "SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:", "Cap",
		"NoNewPrivs:", "Seccomp", "Speculation", "Cpus_allowed:", "Mems_allowed:",
		"THP_enabled:", "CoreDumping:",
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		if (!strncmp(line, fields[i], strlen(fields[i])))
			return 1;
	}
	return 0;
}

static void say_thread(struct text *t, int tid)
{
	char path[64], text[8192], *at = text, *line;
	unsigned long head = 0, len = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	if (watcher_read_file(path, text, sizeof(text)) < 0)
		rounds_bad("thread %d is gone", tid);
	while ((line = next_line(&at))) {
		/* What is waited for in sigtimedwait isn't blocked meanwhile. */
		if (!strncmp(line, "SigBlk:", 7))
			say(t, "thread %d: SigBlk: %#lx\n", tid,
			    strtoul(line + 7, NULL, 16) | 1ul << (SIGUSR2 - 1));
		else if (is_kept(line))
			say(t, "thread %d: %s\n", tid, line);
	}
	syscall(SYS_get_robust_list, tid, &head, &len);
	say(t, "thread %d: robust list %#lx %lu, scheduler %d, priority %d, io %ld\n", tid, head,
	    len, sched_getscheduler(tid), getpriority(PRIO_PROCESS, (id_t)tid),
	    syscall(SYS_ioprio_get, 1, tid));
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", tid);
	say_file(t, path);
	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", tid);
	say_file(t, path);
}

static void say_process(struct text *t)
{
	static const struct { const char *name; int get; } by_value[] = {
		{ "dumpable", PR_GET_DUMPABLE }, { "keep caps", PR_GET_KEEPCAPS },
		{ "timing", PR_GET_TIMING }, { "seccomp", PR_GET_SECCOMP },
		{ "secure bits", PR_GET_SECUREBITS }, { "timer slack", PR_GET_TIMERSLACK },
		{ "mce kill", PR_MCE_KILL_GET }, { "no new privs", PR_GET_NO_NEW_PRIVS },
		{ "thp disable", PR_GET_THP_DISABLE }, { "io flusher", 58 }, { "mdwe", 66 },
	}, by_pointer[] = {
		{ "pdeathsig", PR_GET_PDEATHSIG }, { "tsc", PR_GET_TSC },
		{ "subreaper", PR_GET_CHILD_SUBREAPER },
	};
	struct rlimit limit;
	siginfo_t info = { 0 };

	for (size_t i = 0; i < sizeof(by_value) / sizeof(*by_value); i++)
		say(t, "%s: %d\n", by_value[i].name, prctl(by_value[i].get, 0, 0, 0, 0));
	for (size_t i = 0; i < sizeof(by_pointer) / sizeof(*by_pointer); i++) {
		int value = -1;

		prctl(by_pointer[i].get, &value, 0, 0, 0);
		say(t, "%s: %d\n", by_pointer[i].name, value);
	}
	for (int i = 0; i < (int)RLIM_NLIMITS; i++) {
		getrlimit((enum __rlimit_resource)i, &limit);
		say(t, "limit %d: %#lx %#lx\n", i, limit.rlim_cur, limit.rlim_max);
	}
	say(t, "personality %#x, group %d, session %d\n", personality(0xffffffff), getpgrp(),
	    getsid(0));
	say_file(t, "/proc/self/oom_score_adj");
	say_file(t, "/proc/self/coredump_filter");
	say_file(t, "/proc/self/timerslack_ns");
	say_file(t, "/proc/self/cmdline");
	waitid(P_PID, (id_t)child, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT);
	say(t, "child: %d\n", info.si_pid);
}

static void take(struct text *t)
{
	t->len = 0;
	say_signals(t);
	say_timers(t);
	each_number("/proc/self/fd", say_fd, t);
	say_links(t);
	say_maps(t);
	say_map_flags(t);
	each_number("/proc/self/task", say_thread, t);
	say_process(t);
}

/* ---- all the time ---- */

static unsigned char is_open[MAX_FD];
static int lowest_free;

static void look_at_fds(void)
{
	int fd, foreign = 0;

	for (fd = 0; fd < MAX_FD; fd++)
		foreign += (fcntl(fd, F_GETFD) >= 0) != is_open[fd];
	/* A new one gets the lowest number. */
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	foreign += fd != lowest_free;
	close(fd);
	watcher_new_fds += foreign != 0;
}

static void poll_self(void *arg)
{
	static uint64_t mask;
	uint64_t mask_now = 0;

	(void)arg;
	pthread_mutex_lock(&files);
	look_at_fds();
	pthread_mutex_unlock(&files);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask_now, 8);
	if (!mask)
		mask = mask_now;
	if (mask != mask_now)
		rounds_bad("signal mask %#lx, was %#lx", mask_now, mask);
	usleep(200);
}

void watcher_self_start(void)
{
	static struct rounds_thread poller = { .name = "files", .round = poll_self };
	struct itimerspec it = { { 1000, 0 }, { 100000, 0 } };
	struct itimerval iv = { { 1000, 0 }, { 100000, 0 } };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	static char stack[64 * 1024];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };

	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	for (int i = 0; i < 2; i++)
		timer_create(CLOCK_MONOTONIC, &event, &timers[i]);
	timer_settime(timers[0], 0, &it, NULL);
	setitimer(ITIMER_REAL, &iv, NULL);
	sigaltstack(&alternate, NULL);
	signal(SIGTRAP, SIG_IGN);
	prctl(PR_SET_TIMERSLACK, 70000);
	umask(0123);
	queue_pending();
	lowest_free = open("/dev/null", O_RDONLY | O_CLOEXEC);
	close(lowest_free);
	for (int fd = 0; fd < MAX_FD; fd++)
		is_open[fd] = fcntl(fd, F_GETFD) >= 0;
	rounds_start(&poller);
	while (!poller.rounds)
		sched_yield();
	pthread_mutex_lock(&files);
	take(&start);
	pthread_mutex_unlock(&files);
}

static int has_line(const struct text *t, const char *line)
{
	const char *at = t->bytes;
	size_t len = strlen(line);

	while ((at = strstr(at, line))) {
		if ((at == t->bytes || at[-1] == '\n') && at[len] == '\n')
			return 1;
		at++;
	}
	return 0;
}

/* A tap has memory of its own, not all of which a kernel gives a name; and a socket, if it was
 * asked for one. */
static int is_of_tap(const char *line)
{
	return !strncmp(line, "map ", 4) ||
	       (!strncmp(line, "fd ", 3) && strstr(line, ": socket:["));
}

/* Lines of @a that @b hasn't, but for those of a tap if @is_tapped. */
static void compare(struct text *a, const struct text *b, const char *what, int is_tapped)
{
	static struct text copy;
	char *at = copy.bytes, *line;

	memcpy(copy.bytes, a->bytes, a->len + 1);
	while ((line = next_line(&at))) {
		if (!(is_tapped && is_of_tap(line)) && !has_line(b, line))
			rounds_bad("%s: %s", what, line);
	}
}

void watcher_self_look(int is_tapped)
{
	pthread_mutex_lock(&files);
	look_at_pending();
	take(&now);
	if (!is_tapped)
		look_at_text();
	pthread_mutex_unlock(&files);
	compare(&now, &start, "new", is_tapped);
	compare(&start, &now, "gone", 0);
}
