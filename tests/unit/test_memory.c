/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/attach-priv.h"
#include "base/clock.h"
#include "ht_check.h"

#define STOP_NS (10 * HT_NS_PER_SEC)
#define PAGE ((size_t)4096)

static uint8_t *page;	/* read-only in the child, nothing behind it */
static pid_t child;
static struct ht_target *target;

static ht_addr_t addr(size_t offset)
{
	return (ht_addr_t)(uintptr_t)page + offset;
}

/* A stopped child that has the page with @prot. */
static void start(int prot)
{
	struct ht_err err = { 0 };
	size_t i;

	page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(page != MAP_FAILED);
	munmap(page + PAGE, PAGE);
	for (i = 0; i < PAGE; i++)
		page[i] = (uint8_t)i;
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		mprotect(page, PAGE, prot);
		raise(SIGSTOP);
		for (;;)
			pause();
	}
	ck_assert_int_eq(waitpid(child, NULL, WUNTRACED), child);
	ck_assert_msg(!ht_target_open(child, &target, &err), "%s", err.text);
	ck_assert_msg(!ht_target_stop(target, ht_deadline_ns(STOP_NS), &err), "%s", err.text);
}

static void end(void)
{
	target = ht_target_close(target);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	munmap(page, PAGE);
}

/* Only [@at, @at + @len) differs from what start() filled in. */
static void check_only(size_t at, const uint8_t *bytes, size_t len)
{
	static uint8_t now[4096];
	size_t i;

	ck_ok(ht_target_read(target, addr(0), now, PAGE));
	for (i = 0; i < PAGE; i++) {
		uint8_t want = i >= at && i < at + len ? bytes[i - at] : (uint8_t)i;

		ck_assert_msg(now[i] == want, "byte %zu", i);
	}
}

START_TEST(pokes_whole_words)
{
	static const uint8_t bytes[20] = { 0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6,
					   0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd,
					   0xfe, 0xff, 0xe0, 0xe1, 0xe2, 0xe3 };
	static const size_t lens[] = { 0, 1, 7, 8, 9, 16, 20 };
	uint8_t before[20];
	size_t i, at;

	/* Text that nobody may write. */
	start(PROT_READ | PROT_EXEC);
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		for (at = 101; at < 111; at++) {
			ck_ok(ht_target_read(target, addr(at), before, sizeof(before)));
			ck_ok(ht_target_poke_bytes(target, addr(at), bytes, lens[i]));
			check_only(at, bytes, lens[i]);
			ck_ok(ht_target_poke_bytes(target, addr(at), before, sizeof(before)));
		}
	}
	check_only(0, NULL, 0);
	end();
}
END_TEST

/* A word is read to be written, so that one must be there. */
START_TEST(at_the_end_of_memory)
{
	static const uint8_t bytes[9] = { 0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8 };

	start(PROT_READ);
	ck_ok(ht_target_poke_bytes(target, addr(PAGE - 8), bytes, 3));
	check_only(PAGE - 8, bytes, 3);
	ck_assert_int_eq(ht_target_poke_bytes(target, addr(PAGE - 7), bytes, 3), -EFAULT);
	check_only(PAGE - 8, bytes, 3);
	ck_assert_int_eq(ht_target_poke(target, addr(PAGE - 7), 0), -EFAULT);
	ck_assert_int_eq(ht_target_poke(target, addr(PAGE), 0), -EFAULT);
	ck_assert_int_eq(ht_target_poke(target, 0, 0), -EFAULT);
	/* Words are written one by one: those before a bad one are. */
	ck_assert_int_eq(ht_target_poke_bytes(target, addr(PAGE - 8), bytes, 9), -EFAULT);
	check_only(PAGE - 8, bytes, 8);
	end();
}
END_TEST

/* By the mem file too: what a tracer writes doesn't ask for permission. */
START_TEST(writes_what_is_read_only)
{
	uint8_t buf[2] = { 1, 2 };

	start(PROT_READ);
	ck_ok(ht_target_write(target, addr(PAGE - 2), buf, 2));
	check_only(PAGE - 2, buf, 2);
	ck_assert_int_eq(ht_target_write(target, addr(PAGE - 1), buf, 2), -EFAULT);
	ck_ok(ht_target_write(target, addr(PAGE), buf, 0));
	ck_ok(ht_target_read(target, addr(PAGE), buf, 0));
	ck_assert_int_eq(ht_target_read(target, UINT64_MAX, buf, 2), -EFAULT);
	end();
}
END_TEST

/* By any thread that is stopped, past those that are gone. */
START_TEST(needs_a_stopped_thread)
{
	start(PROT_READ);
	ck_assert_uint_eq(target->n_threads, 1);
	target->threads[0].state = HT_THREAD_SEIZED;
	ck_assert_int_eq(ht_target_poke(target, addr(0), 0), -ESRCH);
	target->threads[0].state = HT_THREAD_GONE;
	ck_assert_int_eq(ht_target_poke(target, addr(0), 0), -ESRCH);
	check_only(0, NULL, 0);
	target->threads[0].state = HT_THREAD_STOPPED;
	ck_ok(ht_target_poke(target, addr(0), UINT64_C(0x0706050403020100)));
	end();
}
END_TEST

START_TEST(of_one_that_is_gone)
{
	uint8_t byte = 0;

	start(PROT_READ);
	kill(child, SIGKILL);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	ck_assert_int_eq(ht_target_read(target, addr(0), &byte, 1), -ESRCH);
	ck_assert_int_eq(ht_target_write(target, addr(0), &byte, 1), -ESRCH);
	ck_assert_int_eq(ht_target_poke(target, addr(0), 0), -ESRCH);
	ck_assert_int_eq(ht_target_poke_bytes(target, addr(0), &byte, 1), -ESRCH);
	end();
}
END_TEST

int main(void)
{
	return ht_check_run("memory", (const TTest *const[]){
		pokes_whole_words, at_the_end_of_memory, writes_what_is_read_only,
		needs_a_stopped_thread, of_one_that_is_gone, NULL });
}
