/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture.h"
#include "ht_check.h"

static int talk(void *arg)
{
	ht_cmd_talk("%s", (const char *)arg);
	return 0;
}

static void said(const char *text, const char *want)
{
	struct captured c;

	capture(talk, (char *)text, &c);
	captured_is(&c, 0, "", want);
	captured_fini(&c);
}

START_TEST(talk_is_a_line)
{
	said("can't do it", "heaptap: can't do it\n");
	said("", "heaptap: \n");
	said("two\nlines", "heaptap: two\nlines\n");
}
END_TEST

/* A terminal must not be told what to do by the name of a program. */
START_TEST(talk_is_made_harmless)
{
	said("a\x1b[2J\tb\r\x07\x7f", "heaptap: a?[2J?b???\n");
	said("\302\265s \xff", "heaptap: \302\265s \xff\n");
}
END_TEST

START_TEST(long_talk_is_cut)
{
	char text[5000];
	struct captured c;

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	capture(talk, text, &c);
	ck_assert_uint_gt(c.err.len, HT_ERR_TEXT);
	ck_assert_uint_lt(c.err.len, 2 * HT_ERR_TEXT);
	ck_assert_int_eq(c.err.data[c.err.len - 1], '\n');
	captured_fini(&c);
}
END_TEST

/* Lines of several programs on one stderr must not mix. */
START_TEST(talk_is_one_write)
{
	char line[1024];
	ssize_t len;
	int pair[2];
	pid_t child;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	child = fork();
	if (child == 0) {
		dup2(pair[1], STDERR_FILENO);
		ht_cmd_talk("%d lines\nof %s", 2, "text");
		_exit(0);
	}
	len = read(pair[0], line, sizeof(line));
	ck_assert_int_eq(len, (int)strlen("heaptap: 2 lines\nof text\n"));
	ck_assert(!memcmp(line, "heaptap: 2 lines\nof text\n", (size_t)len));
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	close(pair[0]);
	close(pair[1]);
}
END_TEST

static int talk_to_nobody(void *arg)
{
	close(STDERR_FILENO);
	ht_cmd_talk("anybody?");
	return 3;
}

START_TEST(talk_to_nobody_goes_on)
{
	struct captured c;

	capture(talk_to_nobody, NULL, &c);
	captured_is(&c, 3, "", "");
	captured_fini(&c);
}
END_TEST

/* More than a pipe holds, to a reader who takes it in small pieces. */
START_TEST(write_is_whole)
{
	size_t len = 1 << 20, seen = 0;
	char *data = malloc(len), piece[7001];
	int fds[2], status;
	pid_t child;
	ssize_t n;

	ck_assert_ptr_nonnull(data);
	for (size_t i = 0; i < len; i++)
		data[i] = (char)(i * 7 ^ i >> 9);
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		close(fds[0]);
		_exit(ht_cmd_write(fds[1], "the pipe", data, len, NULL) == 0 ? 0 : 1);
	}
	close(fds[1]);
	while ((n = read(fds[0], piece, sizeof(piece))) > 0) {
		ck_assert(!memcmp(piece, data + seen, (size_t)n));
		seen += (size_t)n;
	}
	ck_assert_uint_eq(seen, len);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	close(fds[0]);
	free(data);
}
END_TEST

START_TEST(write_tells_why_not)
{
	struct ht_err err = { HT_ERR_NONE, "" };
	int fds[2], full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	ht_signals_init();
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	close(fds[0]);
	ck_assert_int_eq(ht_cmd_write(fds[1], "x.txt", "a", 1, &err), -EPIPE);
	ck_assert_str_eq(err.text, "can't write x.txt: its reader went away");
	ck_assert_int_eq(err.kind, HT_ERR_FAILED);
	close(fds[1]);
	ck_assert_int_eq(ht_cmd_write(fds[1], "x.txt", "a", 1, &err), -EBADF);
	ck_assert_str_eq(err.text, "can't write x.txt: Bad file descriptor");
	if (full >= 0) {
		ck_assert_int_eq(ht_cmd_write(full, "y", "a", 1, &err), -ENOSPC);
		ck_assert_str_eq(err.text, "can't write y: No space left on device");
		/* Nothing is nothing lost. */
		ck_ok(ht_cmd_write(full, "y", "", 0, &err));
		close(full);
	}
}
END_TEST

static int print(void *arg)
{
	struct ht_err err = { HT_ERR_NONE, "" };
	int r = ht_cmd_print(arg, &err);

	if (r < 0)
		ht_cmd_talk("%s", err.text);
	return r < 0;
}

/* Half a text is worse than none. */
START_TEST(print_is_all_or_nothing)
{
	struct ht_buf out = HT_BUF_INIT;
	struct captured c;

	capture(print, &out, &c);
	captured_is(&c, 0, "", "");
	captured_fini(&c);
	ck_ok(ht_buf_append(&out, "a\0b\n", 4));
	capture(print, &out, &c);
	ck_assert_int_eq(c.status, 0);
	ck_assert_uint_eq(c.out.len, 4);
	ck_assert(!memcmp(c.out.data, "a\0b\n", 4));
	captured_fini(&c);
	out.failed = true;
	capture(print, &out, &c);
	captured_is(&c, 1, "", "heaptap: out of memory\n");
	captured_fini(&c);
	ht_buf_fini(&out);
}
END_TEST

int main(void)
{
	return ht_check_run("print", (const TTest *const[]){
		talk_is_a_line, talk_is_made_harmless, long_talk_is_cut, talk_is_one_write,
		talk_to_nobody_goes_on, write_is_whole, write_tells_why_not,
		print_is_all_or_nothing, NULL });
}
