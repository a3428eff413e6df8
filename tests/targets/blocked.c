/* SPDX-License-Identifier: Apache-2.0
 *
 * blocked: one thread for each way to block in the kernel. None of the calls may return: no
 * signal has a handler here, no time-out ends.
 *
 * READY N: N threads are blocked.
 * check: "ok" or "BAD name=WHAT ...", the calls that returned since, and their result.
 * cut: "N name name ...": those that were half-way and came back with what they had done.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "blocked.h"

const struct timespec long_time = { LONG_S, 0 };
char big[BIG];

static struct pollfd a_pollfd(void)
{
	return (struct pollfd){ a_pipe(0), POLLIN, 0 };
}

long do_poll_forever(void)
{
	struct pollfd f = a_pollfd();

	return syscall(SYS_poll, &f, 1, -1);
}

long do_poll_timeout(void)
{
	struct pollfd f = a_pollfd();

	return syscall(SYS_poll, &f, 1, LONG_S * 1000);
}

long do_ppoll_forever(void)
{
	struct pollfd f = a_pollfd();

	return ppoll(&f, 1, NULL, NULL);
}

long do_ppoll_timeout(void)
{
	struct pollfd f = a_pollfd();

	return ppoll(&f, 1, &long_time, NULL);
}

long do_ppoll_mask(void)
{
	struct pollfd f = a_pollfd();
	sigset_t set;

	sigemptyset(&set);
	return ppoll(&f, 1, &long_time, &set);
}

/* The kernel writes the rest of the time back before it starts such a call again. */
long do_ppoll_readonly(void)
{
	struct pollfd f = a_pollfd();

	return syscall(SYS_ppoll, &f, 1, &long_time, NULL, 8);
}

static long select_with(const struct timeval *time)
{
	int fd = a_pipe(0);
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return syscall(SYS_select, fd + 1, &set, NULL, NULL, time);
}

long do_select_forever(void)
{
	return select_with(NULL);
}

long do_select_timeout(void)
{
	struct timeval tv = { LONG_S, 0 };

	return select_with(&tv);
}

long do_select_readonly(void)
{
	static const struct timeval tv = { LONG_S, 0 };

	return select_with(&tv);
}

long do_pselect(void)
{
	int fd = a_pipe(0);
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return pselect(fd + 1, &set, NULL, NULL, &long_time, NULL);
}

long do_pselect_mask(void)
{
	int fd = a_pipe(0);
	sigset_t mask;
	fd_set set;

	sigemptyset(&mask);
	FD_ZERO(&set);
	FD_SET(fd, &set);
	return pselect(fd + 1, &set, NULL, NULL, &long_time, &mask);
}

long do_pselect_readonly(void)
{
	int fd = a_pipe(0);
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return syscall(SYS_pselect6, fd + 1, &set, NULL, NULL, &long_time, NULL);
}

static int an_epoll(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int fd = epoll_create1(0);

	epoll_ctl(fd, EPOLL_CTL_ADD, a_pipe(0), &ev);
	return fd;
}

long do_epoll_wait_forever(void)
{
	struct epoll_event ev;

	return epoll_wait(an_epoll(), &ev, 1, -1);
}

long do_epoll_wait_timeout(void)
{
	struct epoll_event ev;

	return epoll_wait(an_epoll(), &ev, 1, LONG_S * 1000);
}

long do_epoll_pwait(void)
{
	struct epoll_event ev;
	sigset_t set;

	sigemptyset(&set);
	return epoll_pwait(an_epoll(), &ev, 1, LONG_S * 1000, &set);
}

long do_epoll_pwait2(void)
{
	struct epoll_event ev;

	return syscall(441, an_epoll(), &ev, 1, &long_time, NULL, 8);
}

long do_nanosleep(void)
{
	struct timespec rest;

	return syscall(SYS_nanosleep, &long_time, &rest);
}

long do_clock_nanosleep(void)
{
	return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &long_time, NULL);
}

static struct timespec far_away(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	ts.tv_sec += LONG_S;
	return ts;
}

long do_clock_nanosleep_absolute(void)
{
	struct timespec ts = far_away(CLOCK_MONOTONIC);

	return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

long do_futex_forever(void)
{
	static int word;

	return syscall(SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, NULL);
}

long do_futex_timeout(void)
{
	static int word;

	return syscall(SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &long_time);
}

long do_futex_absolute(void)
{
	static int word;
	struct timespec ts = far_away(CLOCK_MONOTONIC);

	return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, &ts, NULL,
		       -1);
}

/* struct futex_waitv of newer headers */
struct waitv {
	uint64_t val, uaddr;
	uint32_t flags, reserved;
};

#define FUTEX2_U32_PRIVATE (2 | 128)

static long waitv(const struct timespec *until)
{
	static uint32_t words[2];
	struct waitv v[2] = { { 0, (uintptr_t)&words[0], FUTEX2_U32_PRIVATE, 0 },
			      { 0, (uintptr_t)&words[1], FUTEX2_U32_PRIVATE, 0 } };

	return syscall(449, v, 2, 0, until, CLOCK_MONOTONIC);
}

long do_futex_waitv(void)
{
	return waitv(NULL);
}

long do_futex_waitv_timeout(void)
{
	struct timespec ts = far_away(CLOCK_MONOTONIC);

	return waitv(&ts);
}

long do_futex_wait(void)
{
	static uint32_t word;
	struct timespec ts = far_away(CLOCK_MONOTONIC);

	return syscall(455, &word, 0UL, ~0UL >> 32, FUTEX2_U32_PRIVATE, &ts, CLOCK_MONOTONIC);
}

static pid_t a_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* A close that lingers is one of the last who has it open. */
		close_range(3, ~0U, 0);
		for (;;)
			pause();
	}
	return pid;
}

long do_futex_lock_pi(void)
{
	static int word;

	word = a_child();
	return syscall(SYS_futex, &word, FUTEX_LOCK_PI, 0, NULL);
}

long do_futex_lock_pi_timeout(void)
{
	static int word;
	struct timespec ts = far_away(CLOCK_REALTIME);

	word = a_child();
	return syscall(SYS_futex, &word, FUTEX_LOCK_PI, 0, &ts);
}

long do_futex_wait_requeue_pi(void)
{
	static int word, lock;
	struct timespec ts = far_away(CLOCK_MONOTONIC);

	return syscall(SYS_futex, &word, FUTEX_WAIT_REQUEUE_PI | FUTEX_PRIVATE_FLAG, 0, &ts,
		       &lock, 0);
}

long do_sem_wait(void)
{
	static sem_t sem;

	sem_init(&sem, 0, 0);
	return sem_wait(&sem);
}

long do_sem_timedwait(void)
{
	static sem_t sem;
	struct timespec ts = far_away(CLOCK_REALTIME);

	sem_init(&sem, 0, 0);
	return sem_timedwait(&sem, &ts);
}

/* Removed at once they'd fail; these go with the last process that knows the key. */
static int sem_id = -1, timed_sem_id = -1, empty_queue = -1, full_queue = -1;

long do_semop(void)
{
	struct sembuf op = { 0, -1, 0 };

	sem_id = semget(IPC_PRIVATE, 1, 0600);
	return semop(sem_id, &op, 1);
}

long do_semtimedop(void)
{
	struct sembuf op = { 0, -1, 0 };

	timed_sem_id = semget(IPC_PRIVATE, 1, 0600);
	return semtimedop(timed_sem_id, &op, 1, &long_time);
}

struct message {
	long type;
	char text[8000];
};

long do_msgrcv(void)
{
	static struct message m;

	empty_queue = msgget(IPC_PRIVATE, 0600);
	return msgrcv(empty_queue, &m, sizeof(m.text), 0, 0);
}

long do_msgsnd(void)
{
	static struct message m = { .type = 1 };

	full_queue = msgget(IPC_PRIVATE, 0600);
	while (msgsnd(full_queue, &m, sizeof(m.text), IPC_NOWAIT) == 0)
		;
	return msgsnd(full_queue, &m, sizeof(m.text), 0);
}

static mqd_t an_mq(int number)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 64 };
	char name[64];
	mqd_t mq;

	snprintf(name, sizeof(name), "/blocked%d.%d", getpid(), number);
	mq = mq_open(name, O_CREAT | O_RDWR, 0600, &attr);
	mq_unlink(name);
	return mq;
}

long do_mq_receive(void)
{
	char text[64];

	return mq_receive(an_mq(1), text, sizeof(text), NULL);
}

long do_mq_timedreceive(void)
{
	char text[64];
	struct timespec ts = far_away(CLOCK_REALTIME);

	return mq_timedreceive(an_mq(2), text, sizeof(text), NULL, &ts);
}

static mqd_t a_full_mq(int number)
{
	mqd_t mq = an_mq(number);

	mq_send(mq, "x", 1, 0);
	return mq;
}

long do_mq_send(void)
{
	return mq_send(a_full_mq(3), "x", 1, 0);
}

long do_mq_timedsend(void)
{
	struct timespec ts = far_away(CLOCK_REALTIME);

	return mq_timedsend(a_full_mq(4), "x", 1, 0, &ts);
}

long do_sigtimedwait(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return syscall(SYS_rt_sigtimedwait, &set, NULL, &long_time, 8);
}

long do_sigwaitinfo(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return syscall(SYS_rt_sigtimedwait, &set, NULL, NULL, 8);
}

long do_pause(void)
{
	return pause();
}

long do_sigsuspend(void)
{
	sigset_t set;

	sigfillset(&set);
	return sigsuspend(&set);
}

long do_waitpid(void)
{
	return waitpid(a_child(), NULL, 0);
}

long do_wait4(void)
{
	struct rusage usage;

	return syscall(SYS_wait4, a_child(), NULL, __WALL, &usage);
}

long do_waitid(void)
{
	siginfo_t info;

	return waitid(P_PID, (id_t)a_child(), &info, WEXITED);
}

long do_io_getevents(void)
{
	aio_context_t ctx = 0;
	struct io_event ev;
	struct timespec ts = long_time;

	if (syscall(SYS_io_setup, 4, &ctx) < 0)
		return -1;
	return syscall(SYS_io_getevents, ctx, 1, 1, &ev, &ts);
}

long do_io_pgetevents(void)
{
	aio_context_t ctx = 0;
	struct io_event ev;
	struct timespec ts = long_time;

	if (syscall(SYS_io_setup, 4, &ctx) < 0)
		return -1;
	return syscall(SYS_io_pgetevents, ctx, 1, 1, &ev, &ts, NULL);
}

long do_io_uring_enter(void)
{
	struct io_uring_params params = { 0 };
	int fd = (int)syscall(425, 4, &params);

	if (fd < 0)
		return -1;
	return syscall(426, fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
}

/* struct io_uring_getevents_arg of newer headers */
struct getevents_arg {
	uint64_t sigmask;
	uint32_t sigmask_size, min_wait_us;
	uint64_t ts;
};

#define ENTER_EXT_ARG (1u << 3)

long do_io_uring_enter_timeout(void)
{
	struct io_uring_params params = { 0 };
	struct getevents_arg arg = { .ts = (uintptr_t)&long_time };
	int fd = (int)syscall(425, 4, &params);

	if (fd < 0)
		return -1;
	return syscall(426, fd, 0, 1, IORING_ENTER_GETEVENTS | ENTER_EXT_ARG, &arg, sizeof(arg));
}

/* ---- with a part done ---- */

/* One request is handed over and doesn't end: a read of an empty pipe. */
long do_io_uring_submit_and_wait(void)
{
	struct io_uring_params params = { 0 };
	int fd = (int)syscall(425, 4, &params);
	struct io_uring_sqe *sqe;
	static char c;
	char *ring;

	if (fd < 0)
		return -1;
	ring = mmap(NULL, params.sq_off.array + 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    IORING_OFF_SQ_RING);
	sqe = mmap(NULL, 4 * sizeof(*sqe), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		   IORING_OFF_SQES);
	if (ring == MAP_FAILED || sqe == MAP_FAILED)
		return -1;
	sqe->opcode = IORING_OP_READ;
	sqe->fd = a_pipe(0);
	sqe->addr = (uintptr_t)&c;
	sqe->len = 1;
	*(uint32_t *)(ring + params.sq_off.array) = 0;
	__atomic_store_n((uint32_t *)(ring + params.sq_off.tail), 1, __ATOMIC_RELEASE);
	return syscall(426, fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
}

struct call {
	const char *name;
	long (*fn)(void);
	pid_t tid;
	long result;
	int error;
	volatile int returned;
	int returned_before;	/* this machine doesn't allow it */
};

static struct call calls[] = {
#define CALL(x) { #x, do_##x, 0, 0, 0, 0, 0 },
	BLOCKED_CALLS(CALL)
	HALFWAY_CALLS(CALL)
#undef CALL
};

#define ONE(x) + 1
#define N_HALFWAY (0 HALFWAY_CALLS(ONE))
#define N_CALLS (sizeof(calls) / sizeof(calls[0]))
#define N_BLOCKED (N_CALLS - N_HALFWAY)

static void *run(void *arg)
{
	struct call *call = arg;
	long r;

	__atomic_store_n(&call->tid, gettid(), __ATOMIC_RELEASE);
	r = call->fn();
	call->result = r;
	call->error = r < 0 ? errno : 0;
	call->returned = 1;
	for (;;)
		pause();
	return NULL;
}

/* Blocked in the kernel, or done (what this machine doesn't allow). */
static int is_settled(const struct call *call)
{
	char path[64], text[256] = "";
	pid_t tid = __atomic_load_n(&call->tid, __ATOMIC_ACQUIRE);
	const char *p;
	FILE *f;

	if (!tid)
		return 0;
	if (call->returned)
		return 1;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	p = strrchr(text, ')');
	return p && (p[2] == 'S' || p[2] == 'D');
}

static int await_settled(void)
{
	size_t settled = 0, blocked = 0;

	/* Some sleep for a moment on their way (mkstemp, fork): ask until it lasts. */
	for (int times = 0; times < 20;) {
		struct timespec ts = { 0, 2000000 };

		settled = blocked = 0;
		for (size_t i = 0; i < N_CALLS; i++) {
			settled += (size_t)is_settled(&calls[i]);
			blocked += !calls[i].returned;
		}
		times = settled == N_CALLS ? times + 1 : 0;
		nanosleep(&ts, NULL);
	}
	return (int)blocked;
}

static void remove_ipc(void)
{
	semctl(sem_id, 0, IPC_RMID);
	semctl(timed_sem_id, 0, IPC_RMID);
	msgctl(empty_queue, IPC_RMID, NULL);
	msgctl(full_queue, IPC_RMID, NULL);
}

static int has_returned(const struct call *call)
{
	return call->returned && !call->returned_before;
}

static void say_bad(void)
{
	int bad = 0;

	for (size_t i = 0; i < N_CALLS; i++) {
		const struct call *call = &calls[i];

		/* What was half-way may come back with its part, but not with an error. */
		if (!has_returned(call) || (i >= N_BLOCKED && !call->error))
			continue;
		printf(bad++ ? " %s=" : "BAD %s=", call->name);
		if (call->error)
			printf("%s", strerrorname_np(call->error));
		else
			printf("%ld", call->result);
	}
	printf(bad ? "\n" : "ok\n");
}

static void say_cut(void)
{
	int n = 0;

	for (size_t i = N_BLOCKED; i < N_CALLS; i++)
		n += has_returned(&calls[i]);
	printf("%d", n);
	for (size_t i = N_BLOCKED; i < N_CALLS; i++) {
		if (has_returned(&calls[i]))
			printf(" %s", calls[i].name);
	}
	printf("\n");
}

int main(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	char line[64];
	sigset_t set;
	int blocked;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	start_fuse();
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 * 1024);
	for (size_t i = 0; i < N_CALLS; i++) {
		if (pthread_create(&thread, &attr, run, &calls[i]))
			return 1;
	}
	blocked = await_settled();
	for (size_t i = 0; i < N_CALLS; i++) {
		calls[i].returned_before = calls[i].returned;
		if (calls[i].returned)
			fprintf(stderr, "blocked: %s returned: %s\n", calls[i].name,
				strerror(calls[i].error));
	}
	printf("READY %d\n", blocked);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "cut\n"))
			say_cut();
		else
			say_bad();
		fflush(stdout);
	}
	remove_ipc();
	_exit(0);
}
