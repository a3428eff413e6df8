/* SPDX-License-Identifier: Apache-2.0
 *
 * proc.c: see proc.h.
 */
#include "attach/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"

int ht_proc_read(int dirfd, const char *path, char *buf, size_t cap)
{
	_cleanup_(ht_fd_closep) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	while (len < cap - 1) {
		ssize_t n = read(fd, buf + len, cap - 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	buf[len] = '\0';
	return (int)len;
}

bool ht_proc_field(const char *text, const char *key, int base, uint64_t *ret_value)
{
	size_t key_len = strlen(key);
	const char *line = text;

	while (line && *line) {
		if (!strncmp(line, key, key_len)) {
			*ret_value = strtoull(line + key_len, NULL, base);
			return true;
		}
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return false;
}

bool ht_proc_parse_stat(const char *text, struct ht_proc_stat *ret_stat)
{
	/* The name may hold anything, also ") R 1": its end is the last parenthesis. */
	const char *p = strrchr(text, ')');
	uint64_t field[29] = { 0 };
	char *end;

	if (!p || p[1] != ' ' || !p[2])
		return false;
	ret_stat->state = p[2];
	p += 3;
	/* Numbers as proc(5) counts them. Signed ones are not among those that matter. */
	for (unsigned i = 4; i < ARRAY_SIZE(field); i++) {
		field[i] = strtoull(p, &end, 10);
		if (end == p)
			return false;
		p = end;
	}
	ret_stat->ppid = (pid_t)field[4];
	ret_stat->flags = field[9];
	ret_stat->threads = field[20];
	ret_stat->start_time = field[22];
	ret_stat->start_stack = field[28];
	return true;
}

int ht_proc_stat(int dirfd, const char *path, struct ht_proc_stat *ret_stat)
{
	char text[HT_PROC_TEXT];
	struct ht_proc_stat stat;
	int r = ht_proc_read(dirfd, path, text, sizeof(text));

	if (r < 0)
		return r;
	if (!ht_proc_parse_stat(text, &stat))
		return -EINVAL;
	*ret_stat = stat;
	return 0;
}

/* As getdents64(2) gives it; libc's readdir() would allocate. */
struct dirent_record {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

static size_t take_tids(const char *buf, size_t len, pid_t *tids, size_t cap, size_t n)
{
	for (size_t at = 0; at < len;) {
		const struct dirent_record *d = (const void *)(buf + at);
		long tid = strtol(d->name, NULL, 10);

		at += d->reclen;
		if (tid <= 0 || tid > INT_MAX)
			continue;
		if (n < cap)
			tids[n] = (pid_t)tid;
		n++;
	}
	return n;
}

int ht_proc_tasks(int taskfd, pid_t *tids, size_t cap)
{
	char buf[8192] _aligned_(8);
	size_t n = 0;

	if (lseek(taskfd, 0, SEEK_SET) < 0)
		return -errno;
	for (;;) {
		long len = syscall(SYS_getdents64, taskfd, buf, sizeof(buf));

		/* Of a process that is gone. */
		if (len < 0)
			return errno == ENOENT ? -ESRCH : -errno;
		if (len == 0)
			break;
		n = take_tids(buf, (size_t)len, tids, cap, n);
	}
	return n ? (int)n : -ESRCH;
}
