/* SPDX-License-Identifier: Apache-2.0
 *
 * fd.c: see fd.h.
 */
#include "base/fd.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

/* For a program that is launched. */
static struct rlimit limit_at_start;

int ht_fd_close(int fd)
{
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
	return -1;
}

int ht_fd_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int ht_fd_pread_all(int fd, void *data, size_t len, uint64_t offset)
{
	char *p = data;

	while (len) {
		ssize_t n = pread(fd, p, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ENODATA;
		p += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

uint64_t ht_fd_limit_raise(void)
{
	struct rlimit raised;

	if (getrlimit(RLIMIT_NOFILE, &limit_at_start) < 0)
		return 0;
	raised = limit_at_start;
	raised.rlim_cur = raised.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &raised) < 0 ? limit_at_start.rlim_cur :
						       raised.rlim_cur;
}

void ht_fd_limit_restore(void)
{
	if (limit_at_start.rlim_max)
		(void)setrlimit(RLIMIT_NOFILE, &limit_at_start);
}
