/* SPDX-License-Identifier: Apache-2.0
 *
 * watcher_calls.c: calls with a time-out that ends, which must neither end early nor with
 * another result, calls that are at work for long, and streams of bytes, none of which may get
 * lost.
 */
#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "watcher.h"

#define TIME_MS 20
#define TIME_NS (TIME_MS * 1000000L)
/* Those that count in jiffies may end a part of one early. */
#define JIFFY_NS 10000000L
#define LATE_NS 1000000000L

atomic_ulong watcher_late;
atomic_ulong watcher_short;

static const struct timespec a_time = { 0, TIME_NS };

static long now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000L + ts.tv_nsec;
}

static struct timespec end_on(clockid_t clock)
{
	long ns = now_ns(clock) + TIME_NS;

	return (struct timespec){ ns / 1000000000L, ns % 1000000000L };
}

static int fd_of[2];		/* an empty pipe */
static int semaphores = -1;

static long call_poll(void)
{
	struct pollfd p = { fd_of[0], POLLIN, 0 };

	return syscall(SYS_poll, &p, 1, TIME_MS);
}

static long call_ppoll(void)
{
	struct pollfd p = { fd_of[0], POLLIN, 0 };
	sigset_t set;

	/* The mask that it has already: others look at it. */
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	return ppoll(&p, 1, &a_time, &set);
}

static long call_select(void)
{
	struct timeval tv = { 0, TIME_MS * 1000 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd_of[0], &set);
	return syscall(SYS_select, fd_of[0] + 1, &set, NULL, NULL, &tv);
}

static long call_pselect(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd_of[0], &set);
	return pselect(fd_of[0] + 1, &set, NULL, NULL, &a_time, NULL);
}

static long call_epoll_wait(void)
{
	static int fd = -1;
	struct epoll_event ev;

	if (fd < 0)
		fd = epoll_create1(0);
	return epoll_wait(fd, &ev, 1, TIME_MS);
}

static long call_epoll_pwait2(void)
{
	static int fd = -1;
	struct epoll_event ev;

	if (fd < 0)
		fd = epoll_create1(0);
	return syscall(441, fd, &ev, 1, &a_time, NULL, 8);
}

static long call_nanosleep(void)
{
	struct timespec rest;

	return syscall(SYS_nanosleep, &a_time, &rest);
}

static long call_clock_nanosleep(void)
{
	return syscall(SYS_clock_nanosleep, CLOCK_BOOTTIME, 0, &a_time, NULL);
}

static long call_clock_nanosleep_absolute(void)
{
	struct timespec ts = end_on(CLOCK_MONOTONIC);

	return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static long call_futex(void)
{
	static int word;

	return syscall(SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &a_time);
}

static long call_futex_absolute(void)
{
	static int word;
	struct timespec ts = end_on(CLOCK_MONOTONIC);

	return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, &ts, NULL,
		       -1);
}

static long call_futex_lock_pi(void)
{
	static int word;
	struct timespec ts = end_on(CLOCK_REALTIME);

	word = getpid();
	return syscall(SYS_futex, &word, FUTEX_LOCK_PI, 0, &ts);
}

static long call_sem_timedwait(void)
{
	static sem_t sem;
	struct timespec ts = end_on(CLOCK_REALTIME);

	return sem_timedwait(&sem, &ts);
}

static long call_semtimedop(void)
{
	struct sembuf op = { 0, -1, 0 };

	return semtimedop(semaphores, &op, 1, &a_time);
}

static long call_mq_timedreceive(void)
{
	static mqd_t mq = -1;
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 16 };
	struct timespec ts;
	char text[64];

	if (mq < 0) {
		snprintf(text, sizeof(text), "/watcher%d", getpid());
		mq = mq_open(text, O_CREAT | O_RDWR, 0600, &attr);
		mq_unlink(text);
	}
	ts = end_on(CLOCK_REALTIME);
	return mq_timedreceive(mq, text, sizeof(text), NULL, &ts);
}

static long call_sigtimedwait(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return syscall(SYS_rt_sigtimedwait, &set, NULL, &a_time, 8);
}

static long call_recv(void)
{
	static const struct timeval tv = { 0, TIME_MS * 1000 };
	static int fds[2];
	char c;

	if (!fds[1]) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
			return -1;
		setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	}
	return recv(fds[0], &c, 1, 0);
}

static long call_io_getevents(void)
{
	static aio_context_t context;
	struct timespec ts = a_time;
	struct io_event ev;

	if (!context && syscall(SYS_io_setup, 4, &context) < 0)
		return -1;
	return syscall(SYS_io_getevents, context, 1, 1, &ev, &ts);
}

static long call_timerfd(void)
{
	static int fd = -1;
	struct itimerspec it = { .it_value = a_time };
	uint64_t n = 0;

	if (fd < 0)
		fd = timerfd_create(CLOCK_MONOTONIC, 0);
	timerfd_settime(fd, 0, &it, NULL);
	return read(fd, &n, sizeof(n)) == sizeof(n) ? (long)n : -1;
}

struct timed {
	const char *name;
	long (*call)(void);
	long result;
	int error;
};

static struct timed timed[] = {
	{ "poll", call_poll, 0, 0 },
	{ "ppoll", call_ppoll, 0, 0 },
	{ "select", call_select, 0, 0 },
	{ "pselect", call_pselect, 0, 0 },
	{ "epoll_wait", call_epoll_wait, 0, 0 },
	{ "epoll_pwait2", call_epoll_pwait2, 0, 0 },
	{ "nanosleep", call_nanosleep, 0, 0 },
	{ "clock_nanosleep", call_clock_nanosleep, 0, 0 },
	{ "clock_nanosleep, absolute", call_clock_nanosleep_absolute, 0, 0 },
	{ "futex", call_futex, -1, ETIMEDOUT },
	{ "futex, absolute", call_futex_absolute, -1, ETIMEDOUT },
	{ "futex, lock_pi", call_futex_lock_pi, -1, ETIMEDOUT },
	{ "sem_timedwait", call_sem_timedwait, -1, ETIMEDOUT },
	{ "semtimedop", call_semtimedop, -1, EAGAIN },
	{ "mq_timedreceive", call_mq_timedreceive, -1, ETIMEDOUT },
	{ "sigtimedwait", call_sigtimedwait, -1, EAGAIN },
	{ "recv", call_recv, -1, EAGAIN },
	{ "io_getevents", call_io_getevents, 0, 0 },
	{ "timerfd", call_timerfd, 1, 0 },
};

#define N_TIMED (sizeof(timed) / sizeof(*timed))

static int ends_as_it_should(const struct timed *t, long result, int error)
{
	/* What a machine doesn't have. */
	if (result < 0 && (error == ENOSYS || error == EPERM))
		return 1;
	return result == t->result && error == t->error;
}

static void wait_out(void *arg)
{
	const struct timed *t = arg;
	long start = now_ns(CLOCK_MONOTONIC), took, result;
	int error;

	errno = 0;
	result = t->call();
	error = result < 0 ? errno : 0;
	took = now_ns(CLOCK_MONOTONIC) - start;
	if (!ends_as_it_should(t, result, error))
		rounds_bad("%s: result %ld, error %s", t->name, result,
			   strerrorname_np(error));
	else if (took < TIME_NS - JIFFY_NS && error != ENOSYS && error != EPERM)
		rounds_bad("%s: ended after %ld ns", t->name, took);
	else if (took > TIME_NS + LATE_NS)
		watcher_late++;
	if (error == ENOSYS || error == EPERM)
		usleep(TIME_MS * 1000);
}

/* ---- at work ---- */

#define MUCH (1 << 20)

static char much[MUCH];

static long call_getrandom(int fd)
{
	(void)fd;
	return getrandom(much, MUCH, 0);
}

static long call_read(int fd)
{
	return read(fd, much, MUCH);
}

static long call_copy_file_range(int fd)
{
	off_t from = 0, to = MUCH;

	return copy_file_range(fd, &from, fd, &to, MUCH, 0);
}

/* They look now and then whether a signal is there, and leave it at what is done by then. */
static struct long_call {
	const char *name, *path;
	long (*call)(int fd);
	int fd;
} long_calls[] = {
	{ "getrandom", NULL, call_getrandom, -1 },
	{ "read of random bytes", "/dev/urandom", call_read, -1 },
	{ "read of zeroes", "/dev/zero", call_read, -1 },
	{ "copy_file_range", NULL, call_copy_file_range, -1 },
};

#define N_LONG (sizeof(long_calls) / sizeof(*long_calls))

static void work_on(void *arg)
{
	const struct long_call *l = arg;
	long n = l->call(l->fd);

	if (n < 0 && errno != ENOSYS && errno != EPERM)
		rounds_bad("%s: result %ld, error %s", l->name, n, strerrorname_np(errno));
	watcher_short += n >= 0 && n < MUCH;
	nanosleep(&a_time, NULL);
}

static void open_long(struct long_call *l)
{
	l->fd = l->path ? open(l->path, O_RDONLY) : memfd_create("watcher", 0);
	if (l->fd < 0 || (!l->path && ftruncate(l->fd, 2 * MUCH) < 0))
		rounds_bad("%s: no file", l->name);
}

/* ---- streams ---- */

#define CHUNK 200000

struct stream {
	int from, to;
	unsigned char out_state, in_state;
	unsigned char out[CHUNK], in[4096];
};

static struct stream streams[2];

/* More at once than fits, so that it waits with a part written. */
static void feed(void *arg)
{
	struct stream *s = arg;
	size_t done = 0;

	for (size_t i = 0; i < CHUNK; i++)
		s->out[i] = s->out_state++;
	while (done < CHUNK) {
		ssize_t n = write(s->to, s->out + done, CHUNK - done);

		if (n <= 0) {
			rounds_bad("write: result %zd, error %s", n, strerrorname_np(errno));
			return;
		}
		watcher_short += (size_t)n < CHUNK - done;
		done += (size_t)n;
	}
	nanosleep(&a_time, NULL);
}

static void drain(void *arg)
{
	struct stream *s = arg;
	ssize_t n = read(s->from, s->in, sizeof(s->in));

	if (n <= 0)
		rounds_bad("read: result %zd, error %s", n, strerrorname_np(errno));
	for (ssize_t i = 0; i < n; i++) {
		if (s->in[i] == s->in_state++)
			continue;
		rounds_bad("a stream lost or doubled bytes");
		s->in_state = (unsigned char)(s->in[i] + 1);
	}
}

void watcher_calls_start(void)
{
	static struct rounds_thread threads[N_TIMED + N_LONG + 4];
	size_t n = 0;
	int fds[2];

	if (pipe(fd_of) < 0)
		rounds_bad("pipe");
	/* Gone with the next line of the test, or with a reboot. */
	semaphores = semget(IPC_PRIVATE, 1, 0600);
	for (; n < N_TIMED; n++)
		threads[n] = (struct rounds_thread){ timed[n].name, wait_out, &timed[n], 0 };
	for (size_t i = 0; i < N_LONG; i++) {
		open_long(&long_calls[i]);
		threads[n++] = (struct rounds_thread){ long_calls[i].name, work_on,
						       &long_calls[i], 0 };
	}
	for (int i = 0; i < 2; i++) {
		if (i ? socketpair(AF_UNIX, SOCK_STREAM, 0, fds) : pipe(fds))
			rounds_bad("pipe or socketpair");
		streams[i].from = fds[0];
		streams[i].to = fds[1];
		threads[n++] = (struct rounds_thread){ "feed", feed, &streams[i], 0 };
		threads[n++] = (struct rounds_thread){ "drain", drain, &streams[i], 0 };
	}
	for (size_t i = 0; i < n; i++)
		rounds_start(&threads[i]);
}

void watcher_calls_stop(void)
{
	semctl(semaphores, 0, IPC_RMID);
}
