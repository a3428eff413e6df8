/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/undo.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "ht_check.h"

#define STOP_NS (10 * HT_NS_PER_SEC)

static struct ht_target *target;
static struct ht_remote *remote;
static pid_t pid;

__attribute__((noinline, aligned(64))) static int some_text(int x)
{
	return x * 31 + 7;
}

static void start(void)
{
	struct ht_err err = { 0 };
	int r;

	pid = fork();
	if (pid == 0) {
		for (;;)
			pause();
	}
	ck_ok(ht_target_open(pid, &target, &err));
	do {
		ht_target_resume(target);
		r = ht_target_stop(target, ht_deadline_ns(STOP_NS), &err);
		ck_assert_msg(r == 0, "%s", err.text);
	} while (ht_regs_syscall(ht_target_regs(target, 0)) != SYS_pause);
	r = ht_remote_begin(target, 0, 0, &remote, &err);
	ck_assert_msg(r == 0, "%s", err.text);
}

static void end(void)
{
	ck_ok(ht_remote_end(remote));
	ht_target_close(target);
	ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static ht_addr_t addr_of(const void *p)
{
	return (ht_addr_t)(uintptr_t)p;
}

/* As inject does it: patched, and what was there. */
static void patch(struct ht_undo *undo, uint8_t before[8])
{
	uint8_t jump[8] = { 0xe9, 1, 2, 3, 4 };
	uint64_t word;

	ck_ok(ht_target_read(target, addr_of(some_text), before, 8));
	ck_ok(ht_undo_text(undo, addr_of(some_text), jump, 5));
	memcpy(&word, before, 8);
	memcpy(&word, jump, 5);
	ck_ok(ht_target_poke(target, addr_of(some_text), word));
}

static void is_as(const uint8_t before[8])
{
	uint8_t now[8];

	ck_ok(ht_target_read(target, addr_of(some_text), now, 8));
	ck_assert_mem_eq(before, now, 8);
}

/* An entry for what the target has just mapped. */
static ht_addr_t map(struct ht_undo *undo)
{
	const uint64_t args[6] = { 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS,
				   UINT64_MAX };
	size_t slot;
	long result;

	ck_ok(ht_undo_mapping(undo, &slot));
	ck_ok(ht_remote_syscall(remote, SYS_mmap, args, &result));
	ht_undo_set_mapping(undo, slot, (ht_addr_t)result, 4096);
	return (ht_addr_t)result;
}

START_TEST(takes_all_back)
{
	struct ht_undo *undo = NULL;
	uint8_t before[8], now[8];
	ht_addr_t mapping;
	size_t unused;

	start();
	ck_ok(ht_undo_new(target, 3, &undo));
	patch(undo, before);
	mapping = map(undo);
	/* Never made. */
	ck_ok(ht_undo_mapping(undo, &unused));

	ck_ok(ht_undo_play(undo, remote, NULL));
	is_as(before);
	ck_assert_int_eq(ht_target_read(target, mapping, now, 8), -EFAULT);
	ck_assert_int_eq(some_text(1), 38);
	/* Once. */
	ck_ok(ht_undo_play(undo, NULL, NULL));
	ht_undo_free(undo);
	end();
}
END_TEST

/* An entry for a number that the target has just given to its copy of our socket. */
static int open_socket(struct ht_undo *undo, int pair[2])
{
	const uint64_t args[6] = { (uint64_t)pair[0], F_DUPFD_CLOEXEC, 50 };
	struct stat st;
	size_t slot;
	long result;

	ck_assert_int_eq(fstat(pair[0], &st), 0);
	ck_ok(ht_undo_socket(undo, st.st_ino, &slot));
	ck_ok(ht_remote_syscall(remote, SYS_fcntl, args, &result));
	ck_assert_int_ge(result, 50);
	ht_undo_set_socket(undo, slot, (int)result);
	ck_assert(ht_target_is_socket(target, (int)result, st.st_ino));
	ck_assert(!ht_target_is_socket(target, (int)result, st.st_ino + 1));
	ck_assert(!ht_target_is_socket(target, (int)result + 1, st.st_ino));
	return (int)result;
}

static bool has_file(int fd)
{
	char path[64], link[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	return readlink(path, link, sizeof(link)) > 0;
}

START_TEST(closes_a_socket_that_is_ours)
{
	struct ht_undo *undo = NULL;
	uint64_t args[6] = { 0 };
	int pair[2], fd;
	size_t slot;
	long result;

	/* Its child has them by the same numbers. */
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	start();
	ck_ok(ht_undo_new(target, 2, &undo));
	fd = open_socket(undo, pair);
	/* Never made. */
	ck_ok(ht_undo_socket(undo, 1, &slot));
	ck_assert_int_eq(ht_undo_socket(undo, 1, &slot), -ENOSPC);
	ck_ok(ht_undo_play(undo, remote, NULL));
	ck_assert(!has_file(fd));
	/* It was closed meanwhile, and is another file. */
	fd = open_socket(undo, pair);
	args[0] = (uint64_t)pair[1];
	args[1] = (uint64_t)fd;
	ck_ok(ht_remote_syscall(remote, SYS_dup2, args, &result));
	ck_ok(ht_undo_play(undo, remote, NULL));
	ck_assert(has_file(fd));
	/* No thread to make calls with. */
	fd = open_socket(undo, pair);
	ck_assert_int_eq(ht_undo_play(undo, NULL, NULL), -EBUSY);
	ck_assert(has_file(fd));
	ht_undo_free(undo);
	end();
}
END_TEST

START_TEST(goes_on_past_failures)
{
	struct ht_undo *undo = NULL;
	struct ht_err err = { 0 };
	uint8_t before[8];
	size_t slot;

	start();
	ck_ok(ht_undo_new(target, 3, &undo));
	patch(undo, before);
	ck_ok(ht_undo_mapping(undo, &slot));
	ht_undo_set_mapping(undo, slot, 1, 4096);
	ck_assert_int_eq(ht_undo_play(undo, remote, &err), -EINVAL);
	ck_assert_int_eq(err.kind, HT_ERR_FAILED);
	ck_assert_ptr_nonnull(strstr(err.text, "can't take back a mapping in"));
	is_as(before);
	/* No thread to make calls with. */
	(void)map(undo);
	ck_assert_int_eq(ht_undo_play(undo, NULL, &err), -EBUSY);
	ck_assert(!ht_undo_is_clean(undo));
	ht_undo_free(undo);
	end();
}
END_TEST

START_TEST(leaves_what_others_patched)
{
	uint8_t ours[5] = { 0xe9, 1, 2, 3, 4 }, theirs[5] = { 0xe9, 9, 9, 9, 9 }, now[8];
	struct ht_undo *undo = NULL;

	start();
	ck_ok(ht_undo_new(target, 3, &undo));
	ck_ok(ht_undo_text(undo, addr_of(some_text), ours, 5));
	ck_ok(ht_target_poke_bytes(target, addr_of(some_text), theirs, 5));
	ck_assert_int_eq(ht_undo_play(undo, NULL, NULL), -EEXIST);
	ck_ok(ht_target_read(target, addr_of(some_text), now, 8));
	ck_assert_mem_eq(now, theirs, 5);
	ht_undo_free(undo);
	end();
}
END_TEST

START_TEST(room_and_forgetting)
{
	struct ht_undo *undo = NULL;
	uint8_t before[8], now[8];
	ht_addr_t mapping;
	size_t slot;

	start();
	ck_ok(ht_undo_new(target, 1, &undo));
	ck_assert_int_eq(ht_undo_text(undo, addr_of(some_text), "x", 9), -EINVAL);
	ck_assert_int_eq(ht_undo_text(undo, 8, before, 8), -EFAULT);
	ck_assert(ht_undo_is_clean(undo));
	mapping = map(undo);
	ck_assert(!ht_undo_is_clean(undo));
	ck_assert_int_eq(ht_undo_mapping(undo, &slot), -ENOSPC);
	ck_assert_int_eq(ht_undo_text(undo, addr_of(some_text), before, 8), -ENOSPC);
	ht_undo_forget(undo);
	ck_ok(ht_undo_play(undo, NULL, NULL));
	ck_ok(ht_target_read(target, mapping, now, 8));
	ck_assert_ptr_null(ht_undo_free(undo));
	ck_assert_ptr_null(ht_undo_free(NULL));
	end();
}
END_TEST

int main(void)
{
	return ht_check_run("undo", (const TTest *const[]){ takes_all_back, goes_on_past_failures,
							    closes_a_socket_that_is_ours,
							    leaves_what_others_patched,
							    room_and_forgetting, NULL });
}
