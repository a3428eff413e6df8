/* SPDX-License-Identifier: Apache-2.0
 *
 * blocked_net.c: calls that wait for a socket; see blocked.h.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "blocked.h"

static const struct timeval long_timeval = { LONG_S, 0 };

static int listener(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 1) < 0)
		return -1;
	return fd;
}

static int with_timeout(int fd, int option)
{
	setsockopt(fd, SOL_SOCKET, option, &long_timeval, sizeof(long_timeval));
	return fd;
}

static int a_socket(void)
{
	int fds[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0 ? -1 : fds[0];
}

static int a_udp_socket(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	return bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -1 : fd;
}

static int a_full_socket(void)
{
	int fd = a_socket();

	while (send(fd, big, sizeof(big), MSG_DONTWAIT) > 0)
		;
	return fd;
}

long do_accept(void)
{
	return accept(listener(), NULL, NULL);
}

long do_accept_timeout(void)
{
	return accept(with_timeout(listener(), SO_RCVTIMEO), NULL, NULL);
}

long do_recv(void)
{
	char c;

	return recv(a_socket(), &c, 1, 0);
}

long do_recv_timeout(void)
{
	char c;

	return recv(with_timeout(a_socket(), SO_RCVTIMEO), &c, 1, 0);
}

long do_read_socket_timeout(void)
{
	char c;

	return read(with_timeout(a_socket(), SO_RCVTIMEO), &c, 1);
}

long do_readv_socket_timeout(void)
{
	char c;
	struct iovec iov = { &c, 1 };

	return readv(with_timeout(a_socket(), SO_RCVTIMEO), &iov, 1);
}

long do_recvmsg_timeout(void)
{
	char c;
	struct iovec iov = { &c, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return recvmsg(with_timeout(a_udp_socket(), SO_RCVTIMEO), &msg, 0);
}

long do_recv_tcp_timeout(void)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	int l = listener(), fd = socket(AF_INET, SOCK_STREAM, 0);
	char c;

	getsockname(l, (struct sockaddr *)&a, &len);
	if (connect(fd, (struct sockaddr *)&a, len) < 0)
		return -1;
	return recv(with_timeout(fd, SO_RCVTIMEO), &c, 1, 0);
}

long do_send_full(void)
{
	return send(a_full_socket(), big, sizeof(big), 0);
}

long do_send_full_timeout(void)
{
	return send(with_timeout(a_full_socket(), SO_SNDTIMEO), big, 4096, 0);
}

long do_write_full_timeout(void)
{
	return write(with_timeout(a_full_socket(), SO_SNDTIMEO), big, 4096);
}

long do_sendmsg_full_timeout(void)
{
	struct iovec iov = { big, 4096 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return sendmsg(with_timeout(a_full_socket(), SO_SNDTIMEO), &msg, 0);
}

static long connect_full(int option, int number)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	long r = 0;

	snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "blocked%d.%d", getpid(), number);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 0) < 0)
		return -1;
	for (int i = 0; i < 4 && r == 0; i++) {
		int c = socket(AF_UNIX, SOCK_STREAM, 0);

		if (option)
			with_timeout(c, option);
		r = connect(c, (struct sockaddr *)&a, sizeof(a));
	}
	return r;
}

long do_connect_full(void)
{
	return connect_full(0, 1);
}

long do_connect_full_timeout(void)
{
	return connect_full(SO_SNDTIMEO, 2);
}

static long recvmmsg_on(int fd, struct timespec *time)
{
	char c;
	struct iovec iov = { &c, 1 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } };

	return recvmmsg(fd, &m, 1, 0, time);
}

long do_recvmmsg(void)
{
	struct timespec ts = long_time;

	return recvmmsg_on(a_udp_socket(), &ts);
}

long do_recvmmsg_timeout(void)
{
	return recvmmsg_on(with_timeout(a_udp_socket(), SO_RCVTIMEO), NULL);
}

long do_accept4_timeout(void)
{
	return accept4(with_timeout(listener(), SO_RCVTIMEO), NULL, NULL, SOCK_CLOEXEC);
}

long do_preadv2_socket_timeout(void)
{
	char c;
	struct iovec iov = { &c, 1 };

	return preadv2(with_timeout(a_socket(), SO_RCVTIMEO), &iov, 1, -1, 0);
}

long do_pwritev2_full_timeout(void)
{
	struct iovec iov = { big, 4096 };

	return pwritev2(with_timeout(a_full_socket(), SO_SNDTIMEO), &iov, 1, -1, 0);
}

long do_sendmmsg_full_timeout(void)
{
	struct iovec iov = { big, 4096 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } };

	return sendmmsg(with_timeout(a_full_socket(), SO_SNDTIMEO), &m, 1, 0);
}

/* Both ends of a TCP connection. */
static void connect_tcp(int fds[2])
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	int l = listener();

	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	getsockname(l, (struct sockaddr *)&a, &len);
	fds[1] = connect(fds[0], (struct sockaddr *)&a, len) < 0 ? -1 : accept(l, NULL, NULL);
}

long do_splice_from_socket_timeout(void)
{
	return splice(with_timeout(a_socket(), SO_RCVTIMEO), NULL, a_pipe(1), NULL, 10, 0);
}

long do_splice_from_tcp_timeout(void)
{
	int fds[2];

	connect_tcp(fds);
	return splice(with_timeout(fds[0], SO_RCVTIMEO), NULL, a_pipe(1), NULL, 10, 0);
}

long do_splice_to_full_timeout(void)
{
	int fds[2];

	if (pipe(fds) < 0 || write(fds[1], big, 4096) != 4096)
		return -1;
	return splice(fds[0], NULL, with_timeout(a_full_socket(), SO_SNDTIMEO), NULL, 4096, 0);
}

static int a_file_with_text(void)
{
	char path[64];
	int fd = a_temp_file(path);

	unlink(path);
	return write(fd, big, 4096) == 4096 ? fd : -1;
}

long do_sendfile_full_timeout(void)
{
	off_t from = 0;

	return sendfile(with_timeout(a_full_socket(), SO_SNDTIMEO), a_file_with_text(), &from,
			4096);
}

static long send_tcp_full(int option)
{
	int fds[2];
	long r;

	connect_tcp(fds);
	if (option)
		with_timeout(fds[0], option);
	/* Its buffer grows for a while. */
	do
		r = send(fds[0], big, sizeof(big), 0);
	while (r > 0);
	return r;
}

long do_send_tcp_full(void)
{
	return send_tcp_full(0);
}

long do_send_tcp_full_timeout(void)
{
	return send_tcp_full(SO_SNDTIMEO);
}

/* Nobody answers where the queue of those that wait for accept() is full. */
static long connect_tcp_full(int option)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	int l = listener();
	long r = 0;

	listen(l, 0);
	getsockname(l, (struct sockaddr *)&a, &len);
	for (int i = 0; i < 8 && r == 0; i++) {
		int c = socket(AF_INET, SOCK_STREAM, 0);

		if (option)
			with_timeout(c, option);
		r = connect(c, (struct sockaddr *)&a, len);
	}
	return r;
}

long do_connect_tcp(void)
{
	return connect_tcp_full(0);
}

long do_connect_tcp_timeout(void)
{
	return connect_tcp_full(SO_SNDTIMEO);
}

/* ---- with a part done ---- */

long do_send_halfway(void)
{
	return send(a_socket(), big, sizeof(big), 0);
}

long do_recv_waitall(void)
{
	char text[2];
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0 || write(fds[1], "x", 1) != 1)
		return -1;
	return recv(fds[0], text, sizeof(text), MSG_WAITALL);
}

long do_recvmmsg_halfway(void)
{
	char text[2];
	struct iovec iov[2] = { { &text[0], 1 }, { &text[1], 1 } };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = &iov[0], .msg_iovlen = 1 } },
				{ .msg_hdr = { .msg_iov = &iov[1], .msg_iovlen = 1 } } };
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) < 0 || write(fds[1], "x", 1) != 1)
		return -1;
	return recvmmsg(fds[0], m, 2, 0, NULL);
}

long do_close_lingering(void)
{
	struct linger linger = { .l_onoff = 1, .l_linger = LONG_S / 10 };
	int fds[2];

	connect_tcp(fds);
	setsockopt(fds[0], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	while (send(fds[0], big, sizeof(big), MSG_DONTWAIT) > 0)
		;
	return close(fds[0]);
}
