/* SPDX-License-Identifier: Apache-2.0
 *
 * blocked_file.c: calls that wait for a file, a pipe, a terminal or a lock; see blocked.h.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <pty.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "blocked.h"

int a_pipe(int end)
{
	int fds[2];

	if (pipe(fds) < 0)
		return -1;
	return fds[end];
}

int a_full_pipe(void)
{
	int fd = a_pipe(1);

	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (write(fd, big, 4096) > 0)
		;
	fcntl(fd, F_SETFL, 0);
	return fd;
}

long do_read_pipe(void)
{
	char c;

	return read(a_pipe(0), &c, 1);
}

long do_preadv2_pipe(void)
{
	char c;
	struct iovec iov = { &c, 1 };

	return preadv2(a_pipe(0), &iov, 1, -1, 0);
}

long do_write_pipe(void)
{
	return write(a_full_pipe(), big, sizeof(big));
}

long do_vmsplice_full(void)
{
	struct iovec iov = { big, 4096 };

	return vmsplice(a_full_pipe(), &iov, 1, 0);
}

long do_sendfile_full(void)
{
	char path[64];
	int fd = a_temp_file(path);
	off_t from = 0;

	unlink(path);
	if (write(fd, big, 4096) != 4096)
		return -1;
	return sendfile(a_full_pipe(), fd, &from, 4096);
}

long do_read_tty(void)
{
	int m, s;
	char c;

	if (openpty(&m, &s, NULL, NULL, NULL) < 0)
		return -1;
	return read(s, &c, 1);
}

long do_write_tty(void)
{
	int m, s;

	if (openpty(&m, &s, NULL, NULL, NULL) < 0 || tcflow(s, TCOOFF) < 0)
		return -1;
	return write(s, "x", 1);
}

long do_read_eventfd(void)
{
	uint64_t v;

	return read(eventfd(0, 0), &v, sizeof(v));
}

long do_write_eventfd(void)
{
	uint64_t most = UINT64_MAX - 1;
	int fd = eventfd(0, 0);

	if (write(fd, &most, sizeof(most)) != sizeof(most))
		return -1;
	return write(fd, &most, sizeof(most));
}

long do_read_fanotify(void)
{
	char events[4096];

	return read((int)syscall(SYS_fanotify_init, 0, O_RDONLY), events, sizeof(events));
}

long do_read_userfaultfd(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, 0);
	struct uffd_msg msg;

	if (ioctl(fd, UFFDIO_API, &api) < 0)
		return -1;
	return read(fd, &msg, sizeof(msg));
}

long do_read_timerfd(void)
{
	struct itimerspec it = { .it_value = long_time };
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	uint64_t v;

	timerfd_settime(fd, 0, &it, NULL);
	return read(fd, &v, sizeof(v));
}

long do_read_signalfd(void)
{
	struct signalfd_siginfo info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return read(signalfd(-1, &set, 0), &info, sizeof(info));
}

long do_read_inotify(void)
{
	int fd = inotify_init();
	char events[4096];

	inotify_add_watch(fd, "/", IN_DELETE_SELF);
	return read(fd, events, sizeof(events));
}

int a_temp_file(char path[64])
{
	strcpy(path, "/tmp/blocked.XXXXXX");
	return mkstemp(path);
}

/* Nobody may be left to remove @path: it becomes a name of the open file @fd that needs none. */
static void hide(char path[64], int fd)
{
	unlink(path);
	snprintf(path, 64, "/proc/self/fd/%d", fd);
}

long do_flock(void)
{
	char path[64];
	int a = a_temp_file(path), b = open(path, O_RDWR);

	unlink(path);
	flock(a, LOCK_EX);
	return flock(b, LOCK_EX);
}

long do_setlkw(void)
{
	struct flock lock = { .l_type = F_WRLCK };
	char path[64], c;
	int fd = a_temp_file(path), fds[2];
	pid_t pid;

	unlink(path);
	if (pipe(fds) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fcntl(fd, F_SETLKW, &lock);
		if (write(fds[1], "x", 1) == 1)
			close_range((unsigned)fd + 1, ~0U, 0);
		for (;;)
			pause();
	}
	if (read(fds[0], &c, 1) != 1)
		return -1;
	return fcntl(fd, F_SETLKW, &lock);
}

long do_ofd_setlkw(void)
{
	struct flock lock = { .l_type = F_WRLCK };
	char path[64];
	int a = a_temp_file(path), b = open(path, O_RDWR);

	unlink(path);
	if (fcntl(a, F_OFD_SETLK, &lock) < 0)
		return -1;
	return fcntl(b, F_OFD_SETLKW, &lock);
}

/* Until the lease is broken; or /proc/sys/fs/lease-break-time is over, 45 s: then anew. */
long do_open_leased(void)
{
	char path[64];
	int fd = a_temp_file(path), r;
	time_t begun;

	signal(SIGIO, SIG_IGN);
	hide(path, fd);
	for (;;) {
		if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
			return -1;
		begun = time(NULL);
		r = open(path, O_RDWR);
		if (r < 0 || time(NULL) - begun < 40)
			return r;
		close(r);
	}
}

long do_open_fifo(void)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/blocked.%d.fifo", getpid());
	if (mkfifo(path, 0600) < 0)
		return -1;
	fd = open(path, O_PATH);
	hide(path, fd);
	return open(path, O_RDONLY);
}

long do_splice(void)
{
	return splice(a_pipe(0), NULL, a_pipe(1), NULL, 10, 0);
}

long do_tee(void)
{
	return tee(a_pipe(0), a_pipe(1), 10, 0);
}

/* What a supervisor does: wait until its child makes a system call that it wants to see. */
long do_ioctl_seccomp(void)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog filter = { 1, &all };
	struct seccomp_notif call = { 0 };
	int fds[2], fd = -1;
	pid_t pid;

	if (pipe(fds) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				  SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
		if (write(fds[1], &fd, sizeof(fd)) != sizeof(fd))
			_exit(1);
		for (;;)
			pause();
	}
	if (read(fds[0], &fd, sizeof(fd)) != sizeof(fd))
		return -1;
	fd = (int)syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, pid, 0), fd, 0);
	return ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &call);
}

/* ---- with a part done ---- */

long do_write_halfway(void)
{
	return write(a_pipe(1), big, sizeof(big));
}

long do_read_tty_min(void)
{
	struct termios mode;
	char text[2];
	int m, s;

	if (openpty(&m, &s, NULL, NULL, NULL) < 0)
		return -1;
	tcgetattr(s, &mode);
	cfmakeraw(&mode);
	mode.c_cc[VMIN] = sizeof(text);
	tcsetattr(s, TCSANOW, &mode);
	if (write(m, "x", 1) != 1)
		return -1;
	return read(s, text, sizeof(text));
}
