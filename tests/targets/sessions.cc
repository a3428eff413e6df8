/* SPDX-License-Identifier: Apache-2.0
 *
 * sessions: a C++ server's life without a network: threads that open and close sessions,
 * throw and catch exceptions through frames with destructors, come and go, and sit in
 * system calls that a tracer could make fail with EINTR. It checks all of it itself.
 *
 * READY
 * open N: "ASKED USED": N sessions are opened by open_session() and kept; the bytes that
 *	were asked for, and by how much mallinfo2() grew meanwhile (0 if there's none).
 * check: "ok ROUNDS" once each thread went on since the last check, or "BAD what".
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#define NOINLINE __attribute__((noinline))

namespace {

/* With its 8 bytes of overhead each is a whole chunk of glibc's malloc. */
constexpr std::size_t BUFFER = 4072;
constexpr std::size_t KEPT_MAX = 200000;

struct session {
	explicit session(int id, bool refuse);
	~session();
	bool is_whole() const;

	int id;
	std::unique_ptr<char[]> buffer;
	std::array<char, 40> name;
};
static_assert(sizeof(session) == 56, "a whole chunk too");

std::atomic<long> alive{ 0 };
std::atomic<const char *> wrong{ nullptr };
std::atomic<bool> park{ false };
std::atomic<int> parked{ 0 };

void bad(const char *what)
{
	const char *none = nullptr;

	wrong.compare_exchange_strong(none, what);
}

struct refused : std::runtime_error {
	using std::runtime_error::runtime_error;
};

session::session(int id, bool refuse) : id(id), buffer(new char[BUFFER])
{
	memset(buffer.get(), id & 127, BUFFER);
	snprintf(name.data(), name.size(), "session %d", id);
	if (refuse)
		throw refused("no room for session " + std::to_string(id));
	alive++;
}

session::~session()
{
	alive--;
}

bool session::is_whole() const
{
	char expected[40];

	snprintf(expected, sizeof(expected), "session %d", id);
	return !strcmp(expected, name.data()) && buffer[0] == (id & 127) &&
	       buffer[BUFFER - 1] == (id & 127);
}

NOINLINE std::unique_ptr<session> open_session(int id, bool refuse = false)
{
	return std::unique_ptr<session>(new session(id, refuse));
}

/* ---- the workers' rounds ---- */

void round_sessions(unsigned long i)
{
	std::map<int, std::unique_ptr<session>> open;

	for (int k = 0; k < 20; k++)
		open[k] = open_session(k + (int)(i % 1000));
	for (auto &[k, one] : open)
		if (!one->is_whole())
			bad("a session's bytes changed");
}

NOINLINE int descend(int depth, int id, std::vector<std::string> &trail)
{
	std::string here = "frame " + std::to_string(depth) + " of a long enough name";

	trail.push_back(here);
	if (depth == 0)
		return open_session(id, true)->id;
	return descend(depth - 1, id, trail) + (int)here.size();
}

void round_exceptions(unsigned long i)
{
	std::vector<std::string> trail;

	try {
		descend((int)(i % 30), (int)i, trail);
		bad("an exception wasn't thrown");
	} catch (const refused &error) {
		if (error.what() != "no room for session " + std::to_string((int)i))
			bad("an exception's text changed");
	}
	if (trail.size() != i % 30 + 1)
		bad("frames are missing");
}

void round_threads(unsigned long i)
{
	unsigned long sum = 0;
	std::thread child([&] {
		std::vector<unsigned long> numbers;

		for (unsigned long k = 0; k <= i % 500; k++)
			numbers.push_back(k);
		for (auto number : numbers)
			sum += number;
	});

	child.join();
	if (sum != (i % 500) * (i % 500 + 1) / 2)
		bad("a thread's sum is wrong");
}

/* What a kernel gives EINTR for when a thread is stopped, whatever SA_RESTART says. */
void round_epoll(unsigned long)
{
	thread_local int fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event;

	if (epoll_wait(fd, &event, 1, 10) != 0)
		bad(errno == EINTR ? "epoll_wait() saw EINTR" : "epoll_wait() failed");
}

void round_recv(unsigned long)
{
	thread_local int pair[2] = { -1, -1 };
	struct timeval timeout = { 0, 10000 };
	char byte;

	if (pair[0] < 0 && (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) ||
			    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout,
				       sizeof(timeout))))
		bad("no socketpair");
	if (recv(pair[0], &byte, 1, 0) != -1 || errno != EAGAIN)
		bad(errno == EINTR ? "recv() saw EINTR" : "recv() didn't time out");
}

void round_sleep(unsigned long)
{
	struct timespec ts = { 0, 5000000 }, before, after;

	clock_gettime(CLOCK_MONOTONIC, &before);
	if (nanosleep(&ts, nullptr))
		bad("nanosleep() was interrupted");
	clock_gettime(CLOCK_MONOTONIC, &after);
	if ((after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec <
	    5000000)
		bad("nanosleep() was too short");
}

struct worker {
	void (*round)(unsigned long i);
	std::atomic<unsigned long> rounds;
	unsigned long seen;
};

std::array<worker, 6> workers{ { { round_sessions, { 0 }, 0 },
				 { round_exceptions, { 0 }, 0 },
				 { round_threads, { 0 }, 0 },
				 { round_epoll, { 0 }, 0 },
				 { round_recv, { 0 }, 0 },
				 { round_sleep, { 0 }, 0 } } };

void doze()
{
	struct timespec ts = { 0, 100000 };

	nanosleep(&ts, nullptr);
}

void work(worker &self)
{
	for (;;) {
		if (park) {
			parked++;
			while (park)
				doze();
			parked--;
		}
		self.round(self.rounds);
		self.rounds++;
	}
}

/* ---- what it's asked ---- */

std::size_t used()
{
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 33)
	return mallinfo2().uordblks;
#endif
#endif
	return 0;
}

std::array<session *, KEPT_MAX> kept;
std::size_t n_kept;

/* While all else rests. */
void open_some(std::size_t n)
{
	std::size_t before;

	park = true;
	while (parked < (int)workers.size())
		doze();
	before = used();
	for (std::size_t i = 0; i < n && n_kept < KEPT_MAX; i++) {
		kept[n_kept] = open_session((int)n_kept).release();
		n_kept++;
	}
	before = used() - before;
	if (alive != (long)n_kept)
		bad("sessions were lost");
	park = false;
	while (parked)
		doze();
	printf("%zu %zu\n", n * (sizeof(session) + BUFFER), before);
}

void check()
{
	unsigned long sum = 0;

	for (auto &one : workers) {
		while (!wrong && one.rounds == one.seen)
			doze();
		one.seen = one.rounds;
		sum += one.seen;
	}
	for (std::size_t i = 0; i < n_kept; i++)
		if (!kept[i]->is_whole())
			bad("a kept session changed");
	if (wrong)
		printf("BAD %s\n", wrong.load());
	else
		printf("ok %lu\n", sum);
}

}

int main()
{
	char line[64];
	unsigned long n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	for (auto &one : workers)
		std::thread([&one] { work(one); }).detach();
	printf("READY\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "open %lu", &n) == 1)
			open_some(n);
		else
			check();
		fflush(stdout);
	}
	_exit(0);
}
