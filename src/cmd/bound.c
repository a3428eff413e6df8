/* SPDX-License-Identifier: Apache-2.0
 *
 * bound.c: how much memory the process may take that reads hostile files.
 *
 * libdw makes a hundred bytes of some that it reads, and reads some as often as a file says that
 * they are used. So there has to be an end that no file can move: what the machine has
 * to give, or else this process is the first that the kernel takes it from.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "cmd/record.h"

#define FILE_MAX 65536
/* So much even if less seems to be left: it's a guess, and others give back. */
#define LEAST (UINT64_C(1) << 30)

/* The number of KiB behind @key, in bytes; 0: there's none. */
static uint64_t kib_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	uint64_t kib;

	return at && sscanf(at + strlen(key), "%" SCNu64, &kib) == 1 ? kib << 10 : 0;
}

static uint64_t sum_of(const char *path, const char *const keys[2])
{
	_cleanup_(ht_buf_fini) struct ht_buf text = HT_BUF_INIT;

	if (ht_buf_read_file(&text, AT_FDCWD, path, FILE_MAX) < 0 || !text.data)
		return 0;
	return kib_after(text.data, keys[0]) + kib_after(text.data, keys[1]);
}

void ht_bound_memory(void)
{
	static const char first[] = "1000";
	static const char *const free_keys[] = { "MemAvailable:", "SwapFree:" };
	static const char *const size_keys[] = { "VmSize:", "\nno other:" };
	uint64_t left = sum_of("/proc/meminfo", free_keys), size, most;
	_cleanup_(ht_fd_closep) int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	struct rlimit limit;
	int r = fd < 0 ? 0 : ht_fd_write_all(fd, first, strlen(first));

	(void)r;
	size = sum_of("/proc/self/status", size_keys);
	if (!left || !size || getrlimit(RLIMIT_AS, &limit) < 0 ||
	    __builtin_add_overflow(size, ht_max(left, LEAST), &most) || most >= limit.rlim_cur)
		return;
	limit.rlim_cur = most;
	(void)setrlimit(RLIMIT_AS, &limit);
}
