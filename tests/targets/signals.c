/* SPDX-License-Identifier: Apache-2.0
 *
 * signals: a process under a rain of signals, which counts them.
 *
 *	sender		a process: 5000 numbered real-time signals a second to the process, as many
 *			to one thread of it, and SIGWINCH, which nobody handles; if started with
 *			"cont" or "on-cont", SIGCONT too, with "stop" SIGSTOP and then SIGCONT
 *	receiver	handles them, a timer and SIGALRM every millisecond, and SIGCHLD; and
 *			SIGCONT, if started with "on-cont"
 *	forker		starts children that end at once
 *	waiters		epoll_wait, once and in a loop, and read, where the handled ones are blocked
 *	suspended	sigsuspend, ppoll, pselect and epoll_pwait with another mask: a numbered signal
 *			to each of them comes there and nowhere else, and they end only for it
 *	maker		allocates
 *
 * SIGTRAP is blocked and pending in the main thread, and ignored if started with "ignore".
 *
 * READY
 * check: "ok rt=N thread=N masked=N timer=N alarms=N children=N eintr=N" once all that was sent has
 * come, each once and in order; or "BAD what". The last N: how often epoll_wait failed with EINTR.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TO_PROCESS SIGRTMIN
#define TO_THREAD (SIGRTMIN + 1)
#define BY_TIMER (SIGRTMIN + 2)
#define TO_SUSPENDED (SIGRTMIN + 3)
#define MS 1000000L

enum { SIGSUSPEND, PPOLL, PSELECT, EPOLL_PWAIT, N_SUSPENDED };

/* Between the sender and us. */
static struct shared {
	atomic_int hold, held;
	atomic_long sent[2], suspended_sent[N_SUSPENDED];
} *shared;

/* A thread for which TO_SUSPENDED is open only while it is in its call. */
static struct suspended {
	volatile pid_t tid;
	volatile int inside;
	atomic_long came;
} suspended[N_SUSPENDED];
static __thread struct suspended *me;

static atomic_long came[2], expirations, alarms, continued, children, reaped, made, interrupted;
static const char *_Atomic broken;
static volatile pid_t receiver_tid;
static struct timespec timer_start;
static timer_t timer;
static volatile pid_t sender;
static int sends_cont, handles_cont, sends_stop;

static void nap(long ns)
{
	struct timespec ts = { 0, ns };

	while (nanosleep(&ts, &ts) < 0)
		;
}

static long now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000L + ts.tv_nsec;
}

/* ---- what handles them ---- */

static void on_numbered(int sig, siginfo_t *info, void *context)
{
	int which = sig - TO_PROCESS;

	(void)context;
	if (gettid() != receiver_tid)
		broken = "a signal came to another thread";
	if (info->si_code != SI_QUEUE || info->si_pid != sender ||
	    info->si_value.sival_int != came[which])
		broken = which ? "order of the thread's signals" : "order of the signals";
	came[which]++;
}

static void on_suspended(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	if (!me || !me->inside)
		broken = "a signal came past its mask";
	else if (info->si_value.sival_int != me->came++)
		broken = "order of the signals to those who are suspended";
}

static void on_timer(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	if (info->si_code != SI_TIMER)
		broken = "a timer's signal from elsewhere";
	expirations += 1 + info->si_overrun;
}

static void on_alarm(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	(void)context;
	alarms++;
}

static void on_cont(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	if (gettid() != receiver_tid || info->si_code != SI_USER || info->si_pid != sender)
		broken = "a SIGCONT from elsewhere, or to another thread";
	continued++;
}

static void on_child(int sig, siginfo_t *info, void *context)
{
	int saved = errno, status;
	pid_t pid;

	(void)sig;
	(void)context;
	if (info->si_code != CLD_EXITED || info->si_status != 7)
		broken = "what SIGCHLD says of a child";
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		reaped++;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
			broken = "a child";
	}
	errno = saved;
}

static void handle(int sig, void (*fn)(int, siginfo_t *, void *))
{
	struct sigaction act = { .sa_sigaction = fn, .sa_flags = SA_SIGINFO | SA_RESTART };

	/* One after the other, so that their counts need no care. */
	sigfillset(&act.sa_mask);
	sigaction(sig, &act, NULL);
}

static void handled(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, TO_PROCESS);
	sigaddset(set, TO_THREAD);
	sigaddset(set, BY_TIMER);
	sigaddset(set, SIGALRM);
	sigaddset(set, SIGCHLD);
	if (handles_cont)
		sigaddset(set, SIGCONT);
}

/* ---- threads ---- */

static void *receiver(void *arg)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = BY_TIMER };
	struct itimerspec it = { { 0, MS }, { 0, MS } };
	struct itimerval iv = { { 0, 1000 }, { 0, 1000 } };
	sigset_t set;

	receiver_tid = gettid();
	handled(&set);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	clock_gettime(CLOCK_MONOTONIC, &timer_start);
	timer_settime(timer, 0, &it, NULL);
	setitimer(ITIMER_REAL, &iv, NULL);
	/* At work, at rest, and in a call that a handler may interrupt. */
	for (unsigned i = 0;; i++) {
		if (i % 3 == 0)
			poll(NULL, 0, 1);
		else if (i % 3 == 1)
			free(malloc(100 + i % 1000));
		else
			for (volatile int k = 0; k < 10000; k++)
				;
	}
	return arg;
}

static void *forker(void *arg)
{
	for (;;) {
		pid_t pid;

		/* No more than a few at once. */
		while (children > reaped + 4)
			nap(MS);
		children++;
		pid = fork();
		if (pid == 0)
			_exit(7);
		if (pid < 0)
			broken = "fork";
		nap(2 * MS);
	}
	return arg;
}

static void *epoll_waiter(void *arg)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev;

	while (epoll_wait(fd, &ev, 1, -1) < 0 && errno == EINTR)
		interrupted++;
	broken = "epoll_wait";
	return arg;
}

/* The same, but mostly on its way there when it is stopped. */
static void *epoll_looper(void *arg)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev;

	for (;;) {
		if (epoll_wait(fd, &ev, 1, 1) < 0)
			interrupted++;
		for (volatile int i = 0; i < 300000; i++)
			;
	}
	return arg;
}

static void *reader(void *arg)
{
	uint64_t n;

	if (read(eventfd(0, EFD_CLOEXEC), &n, sizeof(n)) < 0)
		broken = errno == EINTR ? "read: EINTR" : "read";
	return arg;
}

static int suspend(size_t which, int epoll_fd, const sigset_t *set, int is_short)
{
	const struct timespec ms = { 0, MS };
	struct epoll_event ev;

	switch (which) {
	case SIGSUSPEND:
		return sigsuspend(set);
	case PPOLL:
		return ppoll(NULL, 0, is_short ? &ms : NULL, set);
	case PSELECT:
		return pselect(0, NULL, NULL, NULL, is_short ? &ms : NULL, set);
	default:
		return epoll_pwait(epoll_fd, &ev, 1, is_short ? 1 : -1, set);
	}
}

static void *suspender(void *arg)
{
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	size_t which = (size_t)((struct suspended *)arg - suspended);
	sigset_t outside, inside, now;

	pthread_sigmask(SIG_BLOCK, NULL, &outside);
	inside = outside;
	sigdelset(&inside, TO_SUSPENDED);
	me = arg;
	me->tid = gettid();
	for (int i = 0;; i++) {
		long before = me->came;
		int r, was_interrupted;

		me->inside = 1;
		r = suspend(which, epoll_fd, &inside, i & 1);
		was_interrupted = r < 0 && errno == EINTR;
		me->inside = 0;
		/* A stop is enough for this one: signal(7). */
		if (was_interrupted && me->came == before && which == EPOLL_PWAIT && sends_stop)
			interrupted++;
		else if (was_interrupted != (me->came == before + 1) || (r && !was_interrupted))
			broken = which == SIGSUSPEND ? "sigsuspend" : "a call with another mask";
		pthread_sigmask(SIG_BLOCK, NULL, &now);
		if (memcmp(&now, &outside, sizeof(now)) != 0)
			broken = "the mask after a call with another one";
	}
	return arg;
}

static void *maker(void *arg)
{
	void *blocks[16] = { NULL };

	for (unsigned i = 0;; i++) {
		free(blocks[i % 16]);
		blocks[i % 16] = malloc(1 + i % 3000);
		made++;
		if (i % 64 == 0)
			nap(MS);
	}
	return arg;
}

/* ---- the sender ---- */

/* To the process if @tid is 0. */
static void queue(pid_t pid, pid_t tid, int sig, atomic_long *sent)
{
	siginfo_t info = { .si_signo = sig, .si_code = SI_QUEUE };
	long r;

	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = (int)*sent;
	if (tid)
		r = syscall(SYS_rt_tgsigqueueinfo, pid, tid, info.si_signo, &info);
	else
		r = syscall(SYS_rt_sigqueueinfo, pid, info.si_signo, &info);
	/* EAGAIN: the queue is full. */
	if (r == 0)
		(*sent)++;
}

static void send_all(pid_t pid)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 0;; i++) {
		shared->held = shared->hold;
		if (shared->held) {
			nap(MS / 10);
			continue;
		}
		queue(pid, 0, TO_PROCESS, &shared->sent[0]);
		queue(pid, receiver_tid, TO_THREAD, &shared->sent[1]);
		queue(pid, suspended[i % N_SUSPENDED].tid, TO_SUSPENDED,
		      &shared->suspended_sent[i % N_SUSPENDED]);
		if (i % 4 == 0 && sends_cont)
			kill(pid, SIGCONT);
		if (i % 4 == 1)
			kill(pid, SIGWINCH);
		if (i % 8 == 2 && sends_stop) {
			kill(pid, SIGSTOP);
			nap(MS / 5);
			kill(pid, SIGCONT);
		}
		nap(MS / 5);
	}
}

/* ---- what is asked ---- */

/* Until *@a is @b, or it takes ten seconds. */
static int await(atomic_long *a, atomic_long *b)
{
	for (int i = 0; *a != *b; i++) {
		if (i == 10000)
			return 0;
		nap(MS);
	}
	return 1;
}

/* Each millisecond since it was set has been counted, now or by an overrun; the last one's
 * signal may be on its way. */
static void check_timer(void)
{
	long start = timer_start.tv_sec * 1000000000L + timer_start.tv_nsec, want, before,
	     counted;

	/* While it is held up, more pass: ask until they meet. */
	for (int i = 0; i < 10000; i++) {
		before = (now_ns() - start) / MS;
		nap(MS);
		counted = expirations;
		want = (now_ns() - start) / MS;
		if (counted > want) {
			broken = "a timer that expired too often";
			return;
		}
		if (counted >= before - 1)
			return;
	}
	broken = "a timer that lost expirations";
}

/* With a time-out, so that it's others who are borrowed. */
static int await_line(void)
{
	struct pollfd p = { STDIN_FILENO, POLLIN, 0 };

	return poll(&p, 1, 1000000) > 0;
}

static void check_trap(int ignored)
{
	struct sigaction act;
	sigset_t set;

	sigaction(SIGTRAP, NULL, &act);
	if (act.sa_handler != (ignored ? SIG_IGN : SIG_DFL))
		broken = "disposition of SIGTRAP";
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	if (!sigismember(&set, SIGTRAP))
		broken = "SIGTRAP isn't blocked any more";
	sigpending(&set);
	if (!ignored && !sigismember(&set, SIGTRAP))
		broken = "SIGTRAP isn't pending any more";
}

static void check(int ignored)
{
	long sent = shared->sent[0], seen = alarms, forked = children, allocated = made,
	     masked = 0, conts = continued;

	/* All sources go on. */
	for (int i = 0; shared->sent[0] < sent + 20 || alarms < seen + 5 ||
			children < forked + 3 || made < allocated + 300 ||
			(handles_cont && continued < conts + 3); i++) {
		if (i == 10000) {
			broken = "signals don't come any more";
			break;
		}
		nap(MS);
	}
	shared->hold = 1;
	while (!shared->held)
		nap(MS / 10);
	if (!await(&came[0], &shared->sent[0]) || !await(&came[1], &shared->sent[1]))
		broken = "signals are lost";
	for (size_t i = 0; i < N_SUSPENDED; i++) {
		if (!await(&suspended[i].came, &shared->suspended_sent[i]))
			broken = "signals to those who are suspended are lost";
		masked += suspended[i].came;
	}
	shared->hold = 0;
	check_timer();
	check_trap(ignored);
	if (broken)
		printf("BAD %s\n", broken);
	else
		printf("ok rt=%ld thread=%ld masked=%ld timer=%ld alarms=%ld children=%ld eintr=%ld\n",
		       came[0], came[1], masked, expirations, alarms, reaped, interrupted);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	void *(*const threads[])(void *) = { receiver,     forker, epoll_waiter,
					    epoll_looper, reader, maker };
	int ignored = argc > 1 && !strcmp(argv[1], "ignore");
	pid_t pid = getpid();
	pthread_t thread;
	char line[64];
	sigset_t set;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	handles_cont = argc > 1 && !strcmp(argv[1], "on-cont");
	sends_cont = handles_cont || (argc > 1 && !strcmp(argv[1], "cont"));
	sends_stop = argc > 1 && !strcmp(argv[1], "stop");
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	handle(TO_PROCESS, on_numbered);
	handle(TO_THREAD, on_numbered);
	handle(TO_SUSPENDED, on_suspended);
	handle(BY_TIMER, on_timer);
	handle(SIGCHLD, on_child);
	handle(SIGALRM, on_alarm);
	if (handles_cont)
		handle(SIGCONT, on_cont);
	if (ignored)
		signal(SIGTRAP, SIG_IGN);
	handled(&set);
	sigaddset(&set, SIGTRAP);
	sigaddset(&set, TO_SUSPENDED);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	/* Those who come first are borrowed. */
	for (size_t i = 0; i < N_SUSPENDED; i++) {
		if (pthread_create(&thread, NULL, suspender, &suspended[i]))
			return 1;
		while (!suspended[i].tid)
			nap(MS);
	}
	for (size_t i = 0; i < sizeof(threads) / sizeof(*threads); i++) {
		if (pthread_create(&thread, NULL, threads[i], NULL))
			return 1;
	}
	raise(SIGTRAP);
	while (!receiver_tid)
		nap(MS);
	shared->hold = 1;
	sender = fork();
	if (sender == 0)
		send_all(pid);
	shared->hold = 0;
	printf("READY\n");
	fflush(stdout);
	while (await_line() && fgets(line, sizeof(line), stdin))
		check(ignored);
	kill(sender, SIGKILL);
	_exit(0);
}
