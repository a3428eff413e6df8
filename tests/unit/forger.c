/* SPDX-License-Identifier: Apache-2.0
 *
 * forger.c: see forger.h.
 */
#include "forger.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "ht_check.h"

#define PAGE 4096
#define FILE_SIZE (64 * PAGE)

static int a_file(const char *name, const void *head, size_t len)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, FILE_SIZE) < 0 ||
	    (head && write(fd, head, len) != (ssize_t)len))
		_exit(1);
	return fd;
}

static void map_page(void *at, int prot, int flags, int fd, off_t offset)
{
	if (mmap(at, PAGE, prot, flags | MAP_FIXED, fd, offset) != at)
		_exit(1);
}

struct files {
	int code, ring, hook;
	off_t hook_at;
};

static volatile int waits;

static void wait_for_ever(void)
{
	waits = 1;
	for (;;)
		pause();
}

static void *runner(void *at)
{
	((void (*)(void (*)(void)))at)(wait_for_ever);
	return NULL;
}

/* A loop; a call with a loop behind it. */
static void run_in(unsigned i, char kind, int code)
{
	static const uint8_t loop[] = { 0xeb, 0xfe }, call[] = { 0xff, 0xd7, 0xeb, 0xfe };
	char *at = (char *)(uintptr_t)FORGER_PAGE(i);
	pthread_t thread;

	if (pwrite(code, kind == 'l' ? loop : call, kind == 'l' ? 2 : 4, (off_t)i * PAGE) < 0)
		_exit(1);
	map_page(at, PROT_READ | PROT_EXEC, MAP_PRIVATE, code, (off_t)i * PAGE);
	if (pthread_create(&thread, NULL, runner, at))
		_exit(1);
	while (kind == 'k' && !waits)
		sched_yield();
}

static void lay(char kind, unsigned i, struct files *f)
{
	char *at = (char *)(uintptr_t)FORGER_PAGE(i);

	switch (kind) {
	case 'l':
	case 'k':
		run_in(i, kind, f->code);
		break;
	case 'c':
		map_page(at, PROT_READ | PROT_EXEC, MAP_PRIVATE, f->code, (off_t)i * PAGE);
		break;
	case 'C':
		map_page(at, PROT_READ | PROT_EXEC, MAP_PRIVATE, f->code, 0);
		break;
	case 'r':
		map_page(at, PROT_READ | PROT_WRITE, MAP_SHARED, f->ring, 0);
		break;
	case 'h':
		map_page(at, PROT_READ | PROT_EXEC, MAP_PRIVATE, f->hook, f->hook_at);
		f->hook_at += PAGE;
		break;
	case 'x':
		map_page(at, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		break;
	case 'g':
	case 'm':
		map_page(at, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (kind == 'm')
			memset(at, 0x5a, PAGE);
		break;
	}
}

static bool is_well(const char *kinds)
{
	for (unsigned i = 0; kinds[i]; i++) {
		const char *at = (const char *)(uintptr_t)FORGER_PAGE(i);

		for (unsigned k = 0; kinds[i] == 'm' && k < PAGE; k++)
			if (at[k] != 0x5a)
				return false;
	}
	return true;
}

static _noreturn_ void be_forger(const char *kinds, const struct ht_journal *journal,
				 const struct ht_ring_header *ring, bool fds, int in, int out)
{
	struct files f = { 0 };
	char byte = 'r';

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	f.code = a_file(HT_CODE_NAME, journal, sizeof(*journal));
	f.ring = a_file(HT_RING_NAME, ring, sizeof(*ring));
	f.hook = a_file(HT_HOOK_NAME, NULL, 0);
	for (unsigned i = 0; kinds[i]; i++)
		lay(kinds[i], i, &f);
	if (!fds) {
		close(f.code);
		close(f.ring);
		close(f.hook);
	}
	do {
		if (write(out, &byte, 1) != 1)
			_exit(1);
		if (read(in, &byte, 1) != 1)
			_exit(0);
		byte = is_well(kinds) ? 'w' : 'b';
	} while (true);
}

static char answer(struct forger *f)
{
	char byte = 0;

	return read(f->from, &byte, 1) == 1 ? byte : 0;
}

struct forger forge(const char *kinds, const struct ht_journal *journal,
		    const struct ht_ring_header *ring, bool fds)
{
	int in[2], out[2];
	struct forger f;

	ck_assert_int_eq(pipe(in) | pipe(out), 0);
	f.pid = fork();
	ck_assert_int_ge(f.pid, 0);
	if (f.pid == 0) {
		close(in[1]);
		close(out[0]);
		be_forger(kinds, journal, ring, fds, in[0], out[1]);
	}
	close(in[0]);
	close(out[1]);
	f.to = in[1];
	f.from = out[0];
	ck_assert_int_eq(answer(&f), 'r');
	return f;
}

bool forger_is_well(struct forger *f)
{
	return write(f->to, "?", 1) == 1 && answer(f) == 'w';
}

void forger_end(struct forger *f)
{
	ht_fd_close(f->to);
	ht_fd_close(f->from);
	kill(f->pid, SIGKILL);
	ck_assert_int_eq(waitpid(f->pid, NULL, 0), f->pid);
}

struct ht_journal *a_journal(unsigned start, unsigned end, unsigned gate)
{
	static struct ht_journal journal;

	memset(&journal, 0, sizeof(journal));
	journal.magic = HT_JOURNAL_MAGIC;
	journal.version = HT_WIRE_VERSION;
	journal.size = PAGE;
	journal.gate = FORGER_PAGE(gate);
	journal.n_ranges = journal.n_code = 1;
	journal.ranges[0] = (struct ht_journal_range){ FORGER_PAGE(start), FORGER_PAGE(end) };
	return &journal;
}
