/* SPDX-License-Identifier: Apache-2.0
 *
 * target.c: taking hold of a process, its identity, and the stopped threads' registers.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/attach-priv.h"
#include "attach/proc.h"
#include "attach/remote.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/resident.h"

/* Since Linux 6.9; <linux/pidfd.h> may be older. */
#define PIDFD_THREAD_FLAG O_EXCL

/* How long close() waits for threads that couldn't be stopped. */
#define SETTLE_NS (100 * HT_NS_PER_MS)

static int open_pidfd(pid_t pid, unsigned flags)
{
	return ht_errno_of(syscall(SYS_pidfd_open, pid, flags));
}

static int open_at(int dirfd, const char *path, int flags)
{
	return ht_errno_of(openat(dirfd, path, flags | O_CLOEXEC));
}

static int open_proc_dir(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%d", ht_proc_root, pid);
	return open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
}

/* Point procfd and the thread's pidfd at @tid. */
static int use_live_thread(struct ht_target *target, pid_t tid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "%d", tid);
	fd = open_at(target->taskfd, path, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd;
	if (target->procfd < 0) {
		target->procfd = fd;
	} else {
		/* Others hold the number: the unwinder's snapshot of the modules. */
		int r = ht_errno_of(dup3(fd, target->procfd, O_CLOEXEC));

		(void)ht_fd_close(fd);
		if (r < 0)
			return r;
	}
	target->live_pidfd = ht_fd_close(target->live_pidfd);
	fd = open_pidfd(tid, PIDFD_THREAD_FLAG);
	target->live_pidfd = fd < 0 ? -1 : fd;
	target->live_tid = tid;
	return 0;
}

/* The leader, or the thread we used instead, has ended: take another. */
static int find_live_thread(struct ht_target *target)
{
	int n = ht_proc_tasks(target->taskfd, target->scan, target->cap_threads);

	if (n < 0)
		return n;
	n = ht_min(n, (int)target->cap_threads);
	for (int i = 0; i < n; i++) {
		struct ht_proc_stat stat;
		char path[32];

		snprintf(path, sizeof(path), "%d/stat", target->scan[i]);
		if (ht_proc_stat(target->taskfd, path, &stat) < 0)
			continue;
		if (stat.state != 'Z' && stat.state != 'X')
			return use_live_thread(target, target->scan[i]);
	}
	return -ESRCH;
}

static int read_exe(const struct ht_target *target, uint64_t *ret_dev, uint64_t *ret_ino)
{
	struct stat st;

	if (fstatat(target->procfd, "exe", &st, 0) < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	*ret_dev = st.st_dev;
	*ret_ino = st.st_ino;
	return 0;
}

static int open_files(struct ht_target *target)
{
	struct ht_proc_stat stat;
	int r;

	target->procfd = open_proc_dir(target->pid);
	if (target->procfd < 0)
		return target->procfd;
	target->taskfd = open_at(target->procfd, "task", O_RDONLY | O_DIRECTORY);
	if (target->taskfd < 0)
		return target->taskfd;
	if (target->facts.zombie_leader) {
		r = use_live_thread(target, target->facts.live_tid);
		if (r < 0)
			return r;
	}
	target->memfd = open_at(target->procfd, "mem", O_RDWR);
	if (target->memfd < 0)
		return target->memfd;
	r = ht_proc_stat(target->procfd, "stat", &stat);
	if (r < 0)
		return r;
	target->start_stack = stat.start_stack;
	return read_exe(target, &target->exe_dev, &target->exe_ino);
}

static struct ht_target *new_target(pid_t pid)
{
	struct ht_target *target = calloc(1, sizeof(*target));

	if (!target)
		return NULL;
	target->pid = target->live_tid = pid;
	target->pidfd = target->live_pidfd = -1;
	target->procfd = target->memfd = target->taskfd = -1;
	return target;
}

static int cant_open(const struct ht_target *target, int error, struct ht_err *err)
{
	if (error == -ESRCH || error == -ENOENT)
		return ht_err_set(err, HT_ERR_GONE, -ESRCH, "%d (%s) has ended", target->pid,
				  target->facts.name);
	if (error == -EXDEV)
		return ht_err_set(err, HT_ERR_GONE, error,
				  "%d (%s) started another program meanwhile; nothing was changed, try again",
				  target->pid, target->facts.name);
	return ht_err_set(err,
			  error == -EPERM || error == -EACCES ? HT_ERR_PERM : HT_ERR_FAILED,
			  error, "can't open %d (%s): %s%s", target->pid,
			  target->facts.name, strerror(-error), ht_err_advice(error));
}

static int open_target(struct ht_target *target, unsigned flags, struct ht_err *err)
{
	int r;

	ht_resident_code();
	/* First: from here on the pid can't be another process without us knowing. */
	target->pidfd = open_pidfd(target->pid, 0);
	if (target->pidfd == -ENOSYS)
		return ht_err_set(err, HT_ERR_UNSUPPORTED, -ENOSYS,
				  "this kernel has no pidfd_open; heaptap needs Linux 5.6 or later");
	r = ht_facts_read(target->pid, &target->facts, err);
	if (r < 0)
		return r;
	target->purpose = flags & HT_OPEN_TO_CURE ? HT_TO_CURE : HT_TO_TAP;
	if (flags & HT_OPEN_LAUNCHED) {
		target->is_child = true;
		target->purpose = HT_TO_RUN;
	}
	/* Says more than what went wrong with the pidfd (a thread's id, say). */
	r = ht_facts_obstacle(&target->facts, target->purpose, err);
	if (r < 0)
		return r;
	if (target->pidfd < 0)
		return cant_open(target, target->pidfd, err);
	r = ht_target_reserve(target, target->facts.threads);
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "out of memory");
	r = open_files(target);
	if (r < 0)
		return cant_open(target, r, err);
	/* The facts and files are those of the process behind the pidfd only if that lives. */
	r = ht_fault("attach.open");
	if (r == 0)
		r = ht_target_verify(target);
	if (r < 0)
		return cant_open(target, r, err);
	/* A target without them can be stopped and read all the same. */
	(void)ht_gadgets_find(target, &target->gadgets);
	return 0;
}

int ht_target_open_flags(pid_t pid, unsigned flags, struct ht_target **ret_target,
			 struct ht_err *err)
{
	struct ht_target *target = new_target(pid);
	int r;

	if (!target)
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	r = open_target(target, flags, err);
	if (r < 0) {
		ht_target_close(target);
		return r;
	}
	*ret_target = target;
	return 0;
}

int ht_target_open(pid_t pid, struct ht_target **ret_target, struct ht_err *err)
{
	return ht_target_open_flags(pid, 0, ret_target, err);
}

int ht_target_open_to_cure(pid_t pid, struct ht_target **ret_target, struct ht_err *err)
{
	return ht_target_open_flags(pid, HT_OPEN_TO_CURE, ret_target, err);
}

struct ht_target *ht_target_close(struct ht_target *target)
{
	uint64_t deadline_ns;

	if (!target)
		return NULL;
	if (target->remote.active)
		(void)ht_remote_end(&target->remote);
	ht_target_resume(target);
	deadline_ns = ht_deadline_ns(SETTLE_NS);
	while (ht_target_settle(target) && !ht_deadline_passed(deadline_ns))
		ht_thread_doze(deadline_ns);
	(void)ht_fd_close(target->memfd);
	(void)ht_fd_close(target->taskfd);
	(void)ht_fd_close(target->procfd);
	(void)ht_fd_close(target->live_pidfd);
	(void)ht_fd_close(target->pidfd);
	free(target->lingering);
	free(target->scan);
	free(target->order);
	free(target->ranks);
	free(target->threads);
	free(target);
	return NULL;
}

pid_t ht_target_pid(const struct ht_target *target)
{
	return target->pid;
}

const char *ht_target_name(const struct ht_target *target)
{
	return target->facts.name;
}

const char *ht_target_verb(const struct ht_target *target)
{
	return ht_purpose_verb(target->purpose);
}

int ht_target_pidfd(const struct ht_target *target)
{
	return target->pidfd;
}

int ht_target_procfd(const struct ht_target *target)
{
	return target->procfd;
}

int ht_target_memfd(const struct ht_target *target)
{
	return target->memfd;
}

const struct ht_facts *ht_target_facts(const struct ht_target *target)
{
	return &target->facts;
}

bool ht_target_alive(const struct ht_target *target)
{
	struct pollfd pfd = { .fd = target->pidfd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 0;
}

bool ht_target_has_thread(const struct ht_target *target, pid_t tid)
{
	char path[32];

	snprintf(path, sizeof(path), "%d", tid);
	return faccessat(target->taskfd, path, F_OK, 0) == 0;
}

/* After an exec the mem file, which is bound to the old memory, is at its end. */
static bool memory_left(const struct ht_target *target)
{
	char byte;

	return target->start_stack &&
	       pread(target->memfd, &byte, 1, (off_t)target->start_stack) == 0;
}

int ht_target_verify(struct ht_target *target)
{
	struct ht_proc_stat leader, live;
	uint64_t dev = 0, ino = 0;
	int r;

	if (!ht_target_alive(target))
		return -ESRCH;
	r = ht_proc_stat(target->taskfd, "../stat", &leader);
	if (r < 0)
		return r;
	if (leader.start_time != target->facts.start_time)
		return -ESRCH;
	r = ht_proc_stat(target->procfd, "stat", &live);
	if (r < 0 || live.state == 'Z' || live.state == 'X') {
		r = find_live_thread(target);
		if (r == 0)
			r = ht_proc_stat(target->procfd, "stat", &live);
		if (r < 0)
			return r;
	}
	r = read_exe(target, &dev, &ino);
	/* It has closed itself to us, or runs a program that may do more than we; but the
	 * memory that we have open is the old program's. */
	if (r == -EACCES)
		return memory_left(target) ? -EXDEV : 0;
	if (r < 0)
		return r;
	if (dev != target->exe_dev || ino != target->exe_ino ||
	    live.start_stack != target->start_stack || memory_left(target))
		return -EXDEV;
	return 0;
}

/* On its way out a process loses its memory first, as in an exec; and threads of one that was
 * killed must be waited for by whoever traces them. */
int ht_target_fate(struct ht_target *target, int error)
{
	uint64_t deadline_ns = ht_deadline_ns(SETTLE_NS);
	int r;

	for (;;) {
		size_t traced = ht_target_settle(target);

		r = ht_target_verify(target);
		if (r == -ESRCH || (r == 0 && error != -ESRCH && !traced) ||
		    ht_deadline_passed(deadline_ns))
			return r;
		ht_thread_doze(deadline_ns);
	}
}

size_t ht_target_threads(const struct ht_target *target)
{
	return target->n_threads;
}

pid_t ht_target_tid(const struct ht_target *target, size_t i)
{
	return target->threads[i].tid;
}

bool ht_target_is_job_stopped(const struct ht_target *target, size_t i)
{
	return target->threads[i].group_stop;
}

const struct ht_regs *ht_target_regs(const struct ht_target *target, size_t i)
{
	return &target->threads[i].regs;
}

size_t ht_target_list_threads(const struct ht_target *target, pid_t *tids, size_t cap)
{
	int n = ht_proc_tasks(target->taskfd, tids, cap);

	if (n < 0)
		return 0;
	n = (int)ht_min((size_t)n, cap);
	ht_order_candidates(target, tids, (size_t)n);
	return (size_t)n;
}

int ht_target_take_fd(const struct ht_target *target, int remote_fd, int *ret_fd)
{
	int pidfd = target->live_pidfd >= 0 ? target->live_pidfd : target->pidfd;
	int r = ht_errno_of(syscall(SYS_pidfd_getfd, pidfd, remote_fd, 0));

	if (r < 0)
		return r;
	*ret_fd = r;
	return 0;
}

bool ht_target_is_socket(const struct ht_target *target, int fd, uint64_t inode)
{
	char path[32], link[64], want[64];
	ssize_t n;

	snprintf(path, sizeof(path), "fd/%d", fd);
	n = readlinkat(ht_target_procfd(target), path, link, sizeof(link));
	snprintf(want, sizeof(want), "socket:[%" PRIu64 "]", inode);
	return n == (ssize_t)strlen(want) && !memcmp(link, want, (size_t)n);
}
