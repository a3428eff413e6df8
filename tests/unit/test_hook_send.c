/* SPDX-License-Identifier: Apache-2.0
 *
 * The hook's way to the socket: whole messages, and never one into a file of the program's.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ht_check.h"

#undef errno	/* a macro, which can't be poisoned */
#include "hook/hook.h"

struct ht_hook_config ht_hook_config;

static struct ht_ring_header header;
static uint64_t gate;
static int pair[2];
static const struct ht_record_free record = {
	.head = { .size = sizeof(record), .type = HT_RECORD_FREE, .seq = 9 }, .addr = 0x1234,
};

bool ht_gate_open(void)
{
	return gate == HT_GATE_ON;
}

/* What has the number @fd is taken for ours. */
static void trust(int fd)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	ht_hook_config.socket = (struct ht_socket_id){ (uint64_t)fd, st.st_dev, st.st_ino };
	gate = HT_GATE_ON;
	header.ended = HT_ENDED_NOT;
}

static void start(void)
{
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ht_hook_config = (struct ht_hook_config){
		.flags = HT_CONFIG_SYSCALLS | HT_CONFIG_SOCKET,
		.pid = (uint64_t)getpid(),
		.gate = (uint64_t)(uintptr_t)&gate,
		.ring.base = (uint64_t)(uintptr_t)&header,
	};
	trust(pair[0]);
}

static enum ht_sent send_one(void)
{
	return ht_send(&record.head);
}

static void ended(enum ht_ended why)
{
	ck_assert_uint_eq(gate, HT_GATE_OFF);
	ck_assert_uint_eq(header.ended, why);
}

static void still_open(void)
{
	ck_assert_uint_eq(gate, HT_GATE_ON);
	ck_assert_uint_eq(header.ended, HT_ENDED_NOT);
}

static ssize_t received(void)
{
	struct ht_record_free got;
	ssize_t n = recv(pair[1], &got, sizeof(got), MSG_DONTWAIT | MSG_TRUNC);

	if (n > 0)
		ck_assert(!memcmp(&got, &record, sizeof(got)));
	return n;
}

START_TEST(a_record_is_a_message)
{
	start();
	ck_assert_int_eq(send_one(), HT_SENT);
	ck_assert_int_eq(send_one(), HT_SENT);
	still_open();
	ck_assert_int_eq(received(), sizeof(record));
	ck_assert_int_eq(received(), sizeof(record));
	ck_assert_int_eq(received(), -1);
}
END_TEST

START_TEST(a_full_socket)
{
	unsigned n = 0;

	start();
	while (send_one() == HT_SENT)
		n++;
	ck_assert_uint_gt(n, 10);
	ck_assert_int_eq(send_one(), HT_SENT_FULL);
	still_open();
	ck_assert_int_eq(received(), sizeof(record));
	ck_assert_int_eq(send_one(), HT_SENT);
}
END_TEST

/* No signal, either. */
START_TEST(heaptap_is_gone)
{
	start();
	close(pair[1]);
	ck_assert_int_eq(send_one(), HT_SENT_NOT);
	ended(HT_ENDED_SOCKET);
}
END_TEST

START_TEST(the_program_closed_it)
{
	start();
	close(pair[0]);
	ck_assert_int_eq(send_one(), HT_SENT_NOT);
	ended(HT_ENDED_SOCKET);
}
END_TEST

/* Sockets, too, be they made by the same call. */
START_TEST(the_number_is_anothers)
{
	int other[2], ours;
	char c;

	start();
	ours = (int)ht_hook_config.socket.fd;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, other), 0);
	/* It lives on by another number. */
	ck_assert_int_ge(dup(ours), 0);
	ck_assert_int_eq(dup2(other[0], ours), ours);
	ck_assert_int_eq(send_one(), HT_SENT_NOT);
	ended(HT_ENDED_SOCKET);
	ck_assert_int_eq(recv(other[1], &c, 1, MSG_DONTWAIT), -1);
	ck_assert_int_eq(received(), -1);
}
END_TEST

/* As if it had been changed between the look and the use. */
static void refused_by(const char *what, int fd)
{
	ck_assert_msg(fd >= 0, "%s", what);
	trust(fd);
	ck_assert_msg(send_one() == HT_SENT_NOT, "%s", what);
	ended(HT_ENDED_SOCKET);
}

static int a_file(char path[])
{
	int fd = mkstemp(path);

	unlink(path);
	return fd;
}

START_TEST(others_refuse_it)
{
	char path[] = "/tmp/ht-send.XXXXXX";
	int fds[2], fd, n = 0;

	start();
	fd = a_file(path);
	refused_by("a file", fd);
	ck_assert_int_eq(lseek(fd, 0, SEEK_END), 0);
	ck_assert_int_eq(pipe(fds), 0);
	refused_by("a pipe", fds[1]);
	ck_assert_int_eq(ioctl(fds[0], FIONREAD, &n), 0);
	ck_assert_int_eq(n, 0);
	refused_by("an eventfd", eventfd(0, EFD_NONBLOCK));
	refused_by("a terminal", open("/dev/ptmx", O_RDWR | O_NOCTTY));
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	refused_by("a stream", fds[0]);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
	refused_by("datagrams", fds[0]);
	ck_assert_int_eq(recv(fds[1], path, 1, MSG_DONTWAIT), -1);
	refused_by("datagrams to nobody", socket(AF_UNIX, SOCK_DGRAM, 0));
}
END_TEST

static int bind_to_loopback(int type, struct sockaddr_in *address)
{
	socklen_t len = sizeof(*address);
	int fd = socket(AF_INET, type, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (fd < 0 || bind(fd, (struct sockaddr *)address, len) < 0 ||
	    getsockname(fd, (struct sockaddr *)address, &len) < 0)
		return -1;
	return fd;
}

START_TEST(the_network_refuses_it)
{
	struct sockaddr_in address;
	int listener, client, server;
	char c;

	start();
	listener = bind_to_loopback(SOCK_STREAM, &address);
	if (!ht_check_have(listener >= 0, "a loopback interface"))
		return;
	ck_assert_int_eq(listen(listener, 1), 0);
	refused_by("who listens", listener);
	client = socket(AF_INET, SOCK_STREAM, 0);
	refused_by("not connected", client);
	ck_assert_int_eq(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	server = accept(listener, NULL, NULL);
	refused_by("a client", client);
	refused_by("a server", server);
	ck_assert_int_eq(recv(server, &c, 1, MSG_DONTWAIT), -1);
	ck_assert_int_eq(recv(client, &c, 1, MSG_DONTWAIT), -1);
	/* They work as before. */
	ck_assert_int_eq(send(client, "x", 1, 0), 1);
	ck_assert_int_eq(recv(server, &c, 1, 0), 1);
	server = bind_to_loopback(SOCK_DGRAM, &address);
	client = socket(AF_INET, SOCK_DGRAM, 0);
	refused_by("UDP", client);
	ck_assert_int_eq(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	refused_by("UDP, connected", client);
	ck_assert_int_eq(recv(server, &c, 1, MSG_DONTWAIT), -1);
}
END_TEST

START_TEST(a_filter_came)
{
	start();
	ht_hook_config.flags = HT_CONFIG_SOCKET;
	ck_assert_int_eq(send_one(), HT_SENT_NOT);
	ended(HT_ENDED_FILTER);
	ck_assert_int_eq(received(), -1);
}
END_TEST

/* Its gate is closed; that of a target, too, at the recording's end, but what has its place
 * already is sent. */
START_TEST(a_child_sends_nothing)
{
	pid_t child;
	int status;

	start();
	gate = HT_GATE_OFF;
	ck_assert_int_eq(send_one(), HT_SENT);
	ck_assert_int_eq(received(), sizeof(record));
	child = fork();
	if (child == 0)
		_exit(send_one() == HT_SENT_NOT ? 0 : 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(received(), -1);
}
END_TEST

/* As a program's child does before it runs another program: files of its own, memory that is
 * its parent's. */
START_TEST(a_child_closes_its_own)
{
	pid_t child;
	int status;

	start();
	child = vfork();
	if (child == 0) {
		syscall(SYS_close, pair[0]);
		_exit(send_one() == HT_SENT_NOT ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	still_open();
	ck_assert_int_eq(send_one(), HT_SENT);
	/* And one that closes nothing counts as its parent. */
	child = vfork();
	if (child == 0)
		_exit(send_one() == HT_SENT ? 0 : 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(received(), sizeof(record));
	ck_assert_int_eq(received(), sizeof(record));
}
END_TEST

int main(void)
{
	return ht_check_run("hook_send", (const TTest *const[]){
		a_record_is_a_message, a_full_socket, heaptap_is_gone, the_program_closed_it,
		the_number_is_anothers, others_refuse_it, the_network_refuses_it, a_filter_came,
		a_child_sends_nothing, a_child_closes_its_own, NULL });
}
