/* SPDX-License-Identifier: Apache-2.0
 *
 * fd.h: file descriptors that close themselves, and whole reads and writes.
 */
#ifndef HT_BASE_FD_H
#define HT_BASE_FD_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Close @fd if it is one, keep errno, return -1 for the variable that held it. */
int ht_fd_close(int fd);

/* For _cleanup_(ht_fd_closep) int fd = -1; */
static inline void ht_fd_closep(int *fd)
{
	*fd = ht_fd_close(*fd);
}

/* Write all of @data; short writes and EINTR are continued. 0 or negative errno. */
int ht_fd_write_all(int fd, const void *data, size_t len) _must_check_;

/* Read exactly @len bytes at @offset. 0, -ENODATA when the file ends before, or
 * negative errno. */
int ht_fd_pread_all(int fd, void *data, size_t len, uint64_t offset) _must_check_;

/* Raise the soft limit on open files to the hard one. The limit from now on. */
uint64_t ht_fd_limit_raise(void);
/* In a child: give it the limits from before. */
void ht_fd_limit_restore(void);

#endif
