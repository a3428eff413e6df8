/* SPDX-License-Identifier: Apache-2.0
 *
 * buf.h: a growing byte buffer, for text and for files read whole.
 *
 * Invariants: data is NULL and cap 0 until the first append; otherwise data[len] is a
 * NUL that len doesn't count. A failed append leaves the buffer as it was and sets
 * failed, so a long series of appends can be checked once at its end.
 */
#ifndef HT_BASE_BUF_H
#define HT_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

struct ht_buf {
	char *data;
	size_t len;
	size_t cap;
	bool failed;
};

#define HT_BUF_INIT { NULL, 0, 0, false }

void ht_buf_fini(struct ht_buf *buf) _nonnull_;
void ht_buf_clear(struct ht_buf *buf) _nonnull_;

/* 0 or -ENOMEM. Growing is geometric. */
int ht_buf_reserve(struct ht_buf *buf, size_t more) _nonnull_;
int ht_buf_append(struct ht_buf *buf, const void *data, size_t len) _nonnull_args_(1);
int ht_buf_puts(struct ht_buf *buf, const char *s) _nonnull_;
int ht_buf_putc(struct ht_buf *buf, char c) _nonnull_;
int ht_buf_printf(struct ht_buf *buf, const char *fmt, ...) _printf_format_(2, 3);
int ht_buf_vprintf(struct ht_buf *buf, const char *fmt, va_list args)
	_printf_format_(2, 0);

/* Append all of @fd's file (also /proc ones, whose size is not known), at most @max
 * bytes: -EFBIG when it is longer. 0 or negative errno; then @buf is as it was. */
int ht_buf_read_fd(struct ht_buf *buf, int fd, size_t max) _must_check_ _nonnull_;

/* The same for a path. @dirfd as in openat(2). */
int ht_buf_read_file(struct ht_buf *buf, int dirfd, const char *path, size_t max)
	_must_check_ _nonnull_;

#endif
