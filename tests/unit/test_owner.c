/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/owner.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heaptap/wire.h"
#include "ht_check.h"

static uint32_t *shared_word(void)
{
	uint32_t *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			      -1, 0);

	ck_assert_ptr_ne(word, MAP_FAILED);
	return word;
}

/* The child holds the word, says so by a pipe and waits to be killed. */
static pid_t start_owner(uint32_t *word)
{
	int ready[2];
	char c;
	pid_t pid;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (ht_owner_hold(word) < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(ready[0], &c, 1), 1);
	return pid;
}

START_TEST(sigkill_is_seen)
{
	uint32_t *word = shared_word();
	pid_t pid = start_owner(word);

	ck_assert_uint_eq(*word, (uint32_t)pid);
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	ck_assert_msg(!(*word & HT_OWNER_DIED), "a stopped owner is not a dead one");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ck_assert_msg(*word & HT_OWNER_DIED, "word %x", *word);
}
END_TEST

START_TEST(stray_write_is_seen)
{
	uint32_t *word = shared_word();

	ck_ok(ht_owner_hold(word));
	ck_assert(ht_owner_intact(word));
	*word |= HT_OWNER_DIED;
	ck_assert(!ht_owner_intact(word));
	ck_assert_uint_eq(*word, (uint32_t)getpid());
	ck_assert(ht_owner_intact(word));
	ht_owner_drop(word);
}
END_TEST

START_TEST(drop_is_seen)
{
	uint32_t *word = shared_word();

	ck_ok(ht_owner_hold(word));
	ck_assert_uint_eq(*word, (uint32_t)gettid());
	ht_owner_drop(word);
	ck_assert_msg(*word & HT_OWNER_DIED, "word %x", *word);
}
END_TEST

int main(void)
{
	return ht_check_run("owner", (const TTest *const[]){ sigkill_is_seen,
					    stray_write_is_seen, drop_is_seen,
							     NULL });
}
