/* SPDX-License-Identifier: Apache-2.0
 *
 * test_ht_snapshot.c: the sentinel must see each kind of trace; one that sees nothing
 * would make every attach test worthless.
 */
#include "ht_snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "ht_check.h"

/* A child that does one thing between two snapshots. */
struct subject {
	pid_t pid;
	int go;		/* write a byte: do it */
	int done;	/* read a byte: it's done */
};

static void start(struct subject *ret_subject, void (*act)(void))
{
	int go[2], done[2];
	char byte = 0;
	pid_t pid;

	ck_ok(pipe(go));
	ck_ok(pipe(done));
	pid = fork();
	if (pid == 0) {
		if (write(done[1], &byte, 1) == 1 && read(go[0], &byte, 1) == 1) {
			act();
			if (write(done[1], &byte, 1) != 1)
				_exit(1);
		}
		for (;;)
			pause();
	}
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(read(done[0], &byte, 1), 1);
	*ret_subject = (struct subject){ pid, go[1], done[0] };
}

/* Differences that @act makes; the text about them is in @why. */
static size_t differences(void (*act)(void), unsigned ignore, struct ht_buf *why)
{
	struct ht_snapshot *before, *after;
	struct subject s;
	char byte = 0;
	size_t n;

	start(&s, act);
	ck_ok(ht_snapshot_take(s.pid, &before));
	ck_assert_int_eq(write(s.go, &byte, 1), 1);
	ck_assert_int_eq(read(s.done, &byte, 1), 1);
	ck_ok(ht_snapshot_take(s.pid, &after));
	n = ht_snapshot_compare(before, after, ignore, why);
	ht_snapshot_free(before);
	ht_snapshot_free(after);
	kill(s.pid, SIGKILL);
	waitpid(s.pid, NULL, 0);
	return n;
}

static const char *said(const struct ht_buf *why)
{
	return why->data ? why->data : "";
}

#define ck_seen(act, ignore, text)                                                        \
	do {                                                                              \
		struct ht_buf why_ = HT_BUF_INIT;                                         \
		ck_assert_uint_gt(differences(act, ignore, &why_), 0);                    \
		ck_assert_msg(strstr(said(&why_), text), "%s", said(&why_));                  \
		ht_buf_fini(&why_);                                                       \
	} while (0)

#define ck_unseen(act, ignore)                                                            \
	do {                                                                              \
		struct ht_buf why_ = HT_BUF_INIT;                                         \
		ck_assert_msg(!differences(act, ignore, &why_), "%s", said(&why_));         \
		ht_buf_fini(&why_);                                                       \
	} while (0)

static void nothing(void)
{
}

static void open_file(void)
{
	if (open("/dev/null", O_RDONLY) < 0)
		_exit(1);
}

static void close_stdin(void)
{
	close(0);
}

static void block_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static void ignore_signal(void)
{
	signal(SIGUSR2, SIG_IGN);
}

static void map_anonymous(void)
{
	if (mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		 0) == MAP_FAILED)
		_exit(1);
}

static void map_memfd(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 8192) < 0 ||
	    mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
		_exit(1);
	close(fd);
}

static void map_other(void)
{
	map_memfd("other");
}

static void map_ours(void)
{
	map_memfd("heaptap:hook");
}

/* A page of text of this program, as a patched function would be. */
static void *text_page(void)
{
	return (void *)ht_align_down((uintptr_t)nothing, (uintptr_t)4096);
}

static void patch_text(void)
{
	unsigned char *p = (unsigned char *)(uintptr_t)nothing;

	if (mprotect(text_page(), 8192, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
		_exit(1);
	p[0] ^= 1;
	if (mprotect(text_page(), 8192, PROT_READ | PROT_EXEC) < 0)
		_exit(1);
}

static const unsigned char constants[4096] __attribute__((aligned(4096))) = { 1 };

static void patch_constants(void)
{
	unsigned char *p = (unsigned char *)(uintptr_t)constants;

	if (mprotect(p, sizeof(constants), PROT_READ | PROT_WRITE) < 0)
		_exit(1);
	p[1] ^= 1;
	if (mprotect(p, sizeof(constants), PROT_READ) < 0)
		_exit(1);
}

static void unprotect_text(void)
{
	if (mprotect(text_page(), 4096, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
		_exit(1);
}

static void *sleeper(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void start_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, sleeper, NULL))
		_exit(1);
}

START_TEST(nothing_is_no_difference)
{
	ck_unseen(nothing, 0);
}
END_TEST

START_TEST(files)
{
	ck_seen(open_file, 0, "new fd");
	ck_seen(close_stdin, 0, "fd 0: closed");
	ck_unseen(open_file, HT_SNAPSHOT_FDS);
}
END_TEST

static void open_and_close_many(void)
{
	int fds[64];

	for (;;) {
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
			fds[i] = open("/dev/null", O_RDONLY);
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
			close(fds[i]);
	}
}

/* What is closed between listing and asking isn't a file without a name. */
START_TEST(files_that_come_and_go)
{
	struct ht_snapshot *before, *now;
	struct ht_buf why = HT_BUF_INIT;
	pid_t pid = fork();

	if (pid == 0)
		open_and_close_many();
	ck_assert_int_gt(pid, 0);
	ck_ok(ht_snapshot_take(pid, &before));
	for (int i = 0; i < 20; i++) {
		ck_ok(ht_snapshot_take(pid, &now));
		ht_snapshot_compare(before, now, 0, &why);
		ht_snapshot_free(now);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ck_assert_msg(!strstr(said(&why), ": \n"), "%s", said(&why));
	ht_snapshot_free(before);
	ht_buf_fini(&why);
}
END_TEST

START_TEST(signals)
{
	ck_seen(block_signal, 0, "SigBlk");
	ck_seen(ignore_signal, 0, "SigIgn");
}
END_TEST

START_TEST(memory)
{
	ck_seen(map_anonymous, 0, "");
	ck_unseen(map_anonymous, HT_SNAPSHOT_ANON);
	ck_seen(map_other, 0, "memfd:other");
	ck_unseen(map_ours, 0);
}
END_TEST

START_TEST(text)
{
	ck_seen(patch_text, 0, "bytes changed");
	ck_seen(patch_text, HT_SNAPSHOT_ANON, "bytes changed");
	ck_seen(unprotect_text, 0, "");
	ck_seen(patch_constants, 0, "bytes changed");
}
END_TEST

START_TEST(threads)
{
	ck_seen(start_thread, HT_SNAPSHOT_ANON, "new thread");
	ck_unseen(start_thread, HT_SNAPSHOT_ANON | HT_SNAPSHOT_THREADS);
}
END_TEST

START_TEST(leftovers_are_counted)
{
	struct ht_snapshot *snapshot;

	map_ours();
	ck_ok(ht_snapshot_take(getpid(), &snapshot));
	ck_assert_uint_eq(ht_snapshot_leftovers(snapshot), 8192);
	ht_snapshot_free(snapshot);
	ck_assert_int_eq(ht_snapshot_take(999999999, &snapshot), -ESRCH);
}
END_TEST

static void *end_at_once(void *arg)
{
	return arg;
}

int main(void)
{
	pthread_t thread;

	/* The first thread of a glibc program installs a signal handler. */
	if (!pthread_create(&thread, NULL, end_at_once, NULL))
		pthread_join(thread, NULL);
	return ht_check_run("ht_snapshot",
			    (const TTest *const[]){ nothing_is_no_difference, files,
						    files_that_come_and_go, signals,
						    memory, text, threads,
						    leftovers_are_counted, NULL });
}
