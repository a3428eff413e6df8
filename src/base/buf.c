/* SPDX-License-Identifier: Apache-2.0
 *
 * buf.c: see buf.h.
 */
#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

void ht_buf_fini(struct ht_buf *buf)
{
	free(buf->data);
	*buf = (struct ht_buf)HT_BUF_INIT;
}

void ht_buf_clear(struct ht_buf *buf)
{
	buf->len = 0;
	buf->failed = false;
	if (buf->data)
		buf->data[0] = '\0';
}

int ht_buf_reserve(struct ht_buf *buf, size_t more)
{
	size_t need, cap;
	char *data;

	if (__builtin_add_overflow(buf->len, more, &need) || need > SIZE_MAX / 2 - 1) {
		buf->failed = true;
		return -ENOMEM;
	}
	if (buf->data && need + 1 <= buf->cap)
		return 0;
	cap = ht_max(buf->cap * 2, need + 1);
	cap = ht_max(cap, (size_t)64);
	data = realloc(buf->data, cap);
	if (!data) {
		buf->failed = true;
		return -ENOMEM;
	}
	data[buf->len] = '\0';
	buf->data = data;
	buf->cap = cap;
	return 0;
}

int ht_buf_append(struct ht_buf *buf, const void *data, size_t len)
{
	int r = ht_buf_reserve(buf, len);

	if (r < 0)
		return r;
	if (len)
		memcpy(buf->data + buf->len, data, len);
	buf->len += len;
	buf->data[buf->len] = '\0';
	return 0;
}

int ht_buf_puts(struct ht_buf *buf, const char *s)
{
	return ht_buf_append(buf, s, strlen(s));
}

int ht_buf_putc(struct ht_buf *buf, char c)
{
	return ht_buf_append(buf, &c, 1);
}

int ht_buf_vprintf(struct ht_buf *buf, const char *fmt, va_list args)
{
	va_list again;
	int len, r;

	va_copy(again, args);
	len = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (len < 0) {
		buf->failed = true;
		return -EINVAL;
	}
	r = ht_buf_reserve(buf, (size_t)len);
	if (r < 0)
		return r;
	vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, args);
	buf->len += (size_t)len;
	return 0;
}

int ht_buf_printf(struct ht_buf *buf, const char *fmt, ...)
{
	va_list args;
	int r;

	va_start(args, fmt);
	r = ht_buf_vprintf(buf, fmt, args);
	va_end(args);
	return r;
}

static int read_all(struct ht_buf *buf, int fd, size_t max)
{
	size_t start = buf->len;
	ssize_t n;
	int r;

	for (;;) {
		r = ht_buf_reserve(buf, 4096);
		if (r < 0)
			return r;
		n = read(fd, buf->data + buf->len, buf->cap - buf->len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		buf->len += (size_t)n;
		if (buf->len - start > max)
			return -EFBIG;
	}
}

int ht_buf_read_fd(struct ht_buf *buf, int fd, size_t max)
{
	size_t start = buf->len;
	int r = read_all(buf, fd, max);

	/* Half a file is no file: what came before the failure must not be taken for it. */
	if (r < 0)
		buf->len = start;
	if (buf->data)
		buf->data[buf->len] = '\0';
	return r;
}

int ht_buf_read_file(struct ht_buf *buf, int dirfd, const char *path, size_t max)
{
	_cleanup_(ht_fd_closep) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return ht_buf_read_fd(buf, fd, max);
}
