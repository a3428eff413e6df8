/* SPDX-License-Identifier: Apache-2.0
 *
 * session.c: see session.h.
 */
#include "inject/session.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "inject/room.h"

_Static_assert(sizeof(((struct ht_deadman_fds *)0)->files) == HT_SESSION_FILES * sizeof(int),
	       "the table has room for them");
_Static_assert(sizeof(((struct ht_deadman_fds *)0)->header) == sizeof(struct cmsghdr) &&
		       CMSG_LEN(0) == sizeof(struct cmsghdr),
	       "the kernel puts the numbers into the table");

int ht_session_begin(struct ht_session *session, struct ht_target *target, size_t i,
		     struct ht_err *err)
{
	*session = (struct ht_session){ .target = target, .err = err };
	return ht_remote_begin(target, i, 0, &session->remote, err);
}

static int no_file_left(struct ht_session *s, int error)
{
	if (error == -EMFILE)
		return ht_room_no_file(s->target, s->err);
	return ht_err_set(s->err, HT_ERR_FAILED, error,
			  "can't tap %d (%s): no process of this machine may open more files; raise it: sysctl fs.file-max",
			  ht_target_pid(s->target), ht_target_name(s->target));
}

/* Whether the call could be made (@r), and was good (@result). */
static int check_call(struct ht_session *s, const char *what, int r, long result)
{
	if (r < 0)
		return ht_err_set(s->err, HT_ERR_FAILED, r, "%s in the target: %s", what,
				  strerror(-r));
	if (result == -EMFILE || result == -ENFILE)
		return no_file_left(s, (int)result);
	/* Not what EAGAIN is elsewhere: trying again is no use. */
	if (result == -EAGAIN && !strcmp(what, "mmap"))
		return ht_err_set(s->err, HT_ERR_FAILED, -ENOMEM,
				  "can't tap %d (%s): it locks all that it maps (mlockall), and may lock no more; let it: prlimit --pid %d --memlock=unlimited",
				  ht_target_pid(s->target), ht_target_name(s->target),
				  ht_target_pid(s->target));
	if (result < 0 && result > -4096)
		return ht_err_set(s->err, HT_ERR_FAILED, (int)result,
				  "%s failed in the target: %s", what, strerror((int)-result));
	return 0;
}

static const char *name_of(int64_t nr)
{
	switch (nr) {
	case SYS_mmap: return "mmap";
	case SYS_mprotect: return "mprotect";
	case SYS_madvise: return "madvise";
	case SYS_munmap: return "munmap";
	case SYS_close: return "close";
	case SYS_socketpair: return "socketpair";
	case SYS_recvmsg: return "recvmsg";
	default: return "a system call";
	}
}

int ht_session_calls(struct ht_session *s, struct ht_syscall *calls, size_t n)
{
	int r = ht_target_check_time(s->target, s->err);

	if (r < 0)
		return r;
	r = ht_remote_calls(s->remote, calls, n);
	for (size_t i = 0; i < n; i++) {
		r = check_call(s, name_of(calls[i].nr), r, (long)calls[i].result);
		if (r < 0)
			return r;
		/* Before Linux 4.17 MAP_FIXED_NOREPLACE is only a hint. */
		if (calls[i].expect && (uint64_t)calls[i].result != calls[i].expect)
			return ht_err_set(s->err, HT_ERR_FAILED, -EEXIST,
					  "address %#jx is taken in the target",
					  (uintmax_t)calls[i].expect);
	}
	return 0;
}

int ht_session_call(struct ht_session *s, long nr, const uint64_t args[6], long *ret_result)
{
	struct ht_syscall call = { .nr = nr };
	int r;

	memcpy(call.args, args, sizeof(call.args));
	r = ht_session_calls(s, &call, 1);
	if (r == 0 && ret_result)
		*ret_result = (long)call.result;
	return r;
}

/* Is @fd the memory file @name? */
static bool is_memfd(int fd, const char *name)
{
	char path[48], link[64], want[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	len = readlink(path, link, sizeof(link));
	snprintf(want, sizeof(want), "/memfd:%s (deleted)", name);
	return len == (ssize_t)strlen(want) && !memcmp(link, want, (size_t)len);
}

/* Whoever closes @remote must know which file it is. Other threads run: one may have closed it
 * and been given its number. Then zeros, which no file has, say that none is ours. */
static int take_file(struct ht_session *s, const char *name, int remote, int *ret_local)
{
	ht_addr_t at = ht_remote_fds(s->remote) + offsetof(struct ht_deadman_fds, device);
	_cleanup_(ht_fd_closep) int local = -1;
	struct stat st = { 0 };
	int r = ht_fault("session.take");

	if (r == 0)
		r = ht_target_take_fd(s->target, remote, &local);
	if (r == 0 && !is_memfd(local, name))
		r = -EBADF;
	if (r == 0)
		r = ht_errno_of(fstat(local, &st));
	if (r == 0 || r == -EBADF) {
		const uint64_t id[2] = { st.st_dev, st.st_ino };
		int noted = ht_target_write(s->target, at, id, sizeof(id));

		r = noted < 0 ? noted : r;
	}
	if (r < 0)
		return ht_err_set(s->err, HT_ERR_FAILED, r,
				  "can't take a file from the target: %s", strerror(-r));
	*ret_local = local;
	local = -1;
	return 0;
}

int ht_session_make_file(struct ht_session *s, const char *name, int *ret_local,
			 int *ret_remote)
{
	ht_addr_t at = ht_remote_scratch(s->remote, strlen(name) + 1);
	long fd = 0;
	int r = at ? ht_target_write(s->target, at, name, strlen(name) + 1) : -ENOMEM;

	s->has_fds = true;
	if (r == 0)
		r = ht_remote_open(s->remote, SYS_memfd_create,
				   (uint64_t[6]){ at, MFD_CLOEXEC | MFD_ALLOW_SEALING }, &fd);
	r = check_call(s, "memfd_create", r, fd);
	if (r == 0)
		r = take_file(s, name, (int)fd, ret_local);
	if (r == 0)
		*ret_remote = (int)fd;
	return r;
}

/* Nothing else may be written to: a process that shares the target's files may have closed
 * ours, and been given its number. */
static int check_channel(int fd, int type)
{
	const int want[] = { AF_UNIX, type }, option[] = { SO_DOMAIN, SO_TYPE };
	struct sockaddr_un name;
	socklen_t len = sizeof(name);

	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		int value = -1;
		socklen_t size = sizeof(value);

		if (getsockopt(fd, SOL_SOCKET, option[i], &value, &size) < 0 ||
		    value != want[i])
			return -EBADF;
	}
	/* A pair's ends have no names. */
	if (getpeername(fd, (struct sockaddr *)&name, &len) < 0 ||
	    len > offsetof(struct sockaddr_un, sun_path))
		return -EBADF;
	return 0;
}

/* Our end of a fresh socketpair; the other stays in the target for now. */
static int open_channel(struct ht_session *s, int type, int *ret_local, int *ret_remote)
{
	ht_addr_t at = ht_remote_fds(s->remote) + offsetof(struct ht_deadman_fds, pair);
	int pair[2], r;

	s->has_fds = true;
	r = ht_session_call(s, SYS_socketpair,
			    (uint64_t[6]){ AF_UNIX, (uint64_t)(type | SOCK_CLOEXEC), 0, at },
			    NULL);
	if (r < 0)
		return r;
	r = ht_target_read(s->target, at, pair, sizeof(pair));
	if (r == 0)
		r = ht_fault("session.take");
	if (r == 0)
		r = ht_target_take_fd(s->target, pair[0], ret_local);
	if (r == 0)
		r = check_channel(*ret_local, type);
	if (r < 0)
		return ht_err_set(s->err, HT_ERR_FAILED, r,
				  "can't take a socket from the target: %s", strerror(-r));
	*ret_remote = pair[1];
	return 0;
}

union fd_message {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(HT_SESSION_FILES * sizeof(int))];
};

static int send_files(int socket, const int *fds, unsigned n)
{
	char byte = 'h';
	struct iovec iov = { &byte, 1 };
	union fd_message control = { 0 };
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)),
	};

	control.header = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(n * sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
	};
	memcpy(CMSG_DATA(&control.header), fds, n * sizeof(int));
	return ht_errno_of(sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

/* What the target's recvmsg() is given; the numbers of the files go into the table. */
struct remote_message {
	struct msghdr message;
	struct iovec iov;
	char byte;
};

static int prepare_message(struct ht_session *s, unsigned n, ht_addr_t *ret_at)
{
	ht_addr_t at = ht_remote_scratch(s->remote, sizeof(struct remote_message));
	ht_addr_t control = ht_remote_fds(s->remote) + offsetof(struct ht_deadman_fds, header);
	struct remote_message m = { 0 };

	if (!at)
		return -ENOMEM;
	m.iov.iov_base = (void *)(at + offsetof(struct remote_message, byte));
	m.iov.iov_len = 1;
	m.message.msg_iov = (void *)(at + offsetof(struct remote_message, iov));
	m.message.msg_iovlen = 1;
	m.message.msg_control = (void *)control;
	m.message.msg_controllen = CMSG_LEN(n * sizeof(int));
	*ret_at = at;
	return ht_target_write(s->target, at, &m, sizeof(m));
}

static int receive_files(struct ht_session *s, int remote_socket, unsigned n, int *ret_fds)
{
	ht_addr_t at, fds = ht_remote_fds(s->remote);
	struct ht_deadman_fds table;
	struct cmsghdr header;
	int r = prepare_message(s, n, &at);

	if (r == 0)
		r = ht_fault("session.receive");
	if (r < 0)
		return ht_err_set(s->err, HT_ERR_FAILED, r,
				  "can't pass files to the target: %s", strerror(-r));
	r = ht_session_call(s, SYS_recvmsg,
			    (uint64_t[6]){ (uint64_t)remote_socket, at,
					   MSG_CMSG_CLOEXEC | MSG_DONTWAIT }, NULL);
	if (r == 0)
		r = ht_target_read(s->target, fds, &table, sizeof(table));
	if (r < 0)
		return r;
	memcpy(&header, table.header, sizeof(header));
	if (header.cmsg_type != SCM_RIGHTS || header.cmsg_len != CMSG_LEN(n * sizeof(int)))
		return no_file_left(s, -EMFILE);
	memcpy(ret_fds, table.files, n * sizeof(int));
	return 0;
}

static int pass(struct ht_session *s, const int *fds, unsigned n, int local,
		int remote_socket, int *ret_remote)
{
	int r = ht_fault("session.pass");

	if (r == 0)
		r = send_files(local, fds, n);
	if (r < 0)
		return ht_err_set(s->err, HT_ERR_FAILED, r,
				  "can't pass files to the target: %s", strerror(-r));
	return receive_files(s, remote_socket, n, ret_remote);
}

int ht_session_pass(struct ht_session *s, const int *fds, unsigned n, int *ret_remote)
{
	_cleanup_(ht_fd_closep) int local = -1;
	int remote_socket = -1, r;

	if (n > HT_SESSION_FILES)
		return -EINVAL;
	r = open_channel(s, SOCK_STREAM, &local, &remote_socket);
	return r < 0 ? r : pass(s, fds, n, local, remote_socket, ret_remote);
}

int ht_session_pass_and_keep(struct ht_session *s, const int *fds, unsigned n,
			     int *ret_remote, int *ret_local, int *ret_remote_end)
{
	int local = -1, remote_end = -1, r;

	if (n > HT_SESSION_FILES)
		return -EINVAL;
	r = open_channel(s, SOCK_SEQPACKET, &local, &remote_end);
	if (r == 0)
		r = pass(s, fds, n, local, remote_end, ret_remote);
	if (r < 0) {
		ht_fd_close(local);
		return r;
	}
	*ret_local = local;
	*ret_remote_end = remote_end;
	return 0;
}

int ht_session_end(struct ht_session *s)
{
	int r = 0, end;

	/* Nothing may stay: what failed for a passing reason is tried once more. */
	if (s->has_fds && (r = ht_remote_close_fds(s->remote)) < 0)
		r = ht_remote_close_fds(s->remote);
	end = ht_remote_end(s->remote);
	if (end < 0)
		return ht_err_set(s->err, HT_ERR_GONE, end, "lost the target: %s",
				  strerror(-end));
	if (r < 0)
		return ht_err_set(s->err, HT_ERR_FAILED, r,
				  "can't close files in the target: %s", strerror(-r));
	return 0;
}
