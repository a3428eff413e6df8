/* SPDX-License-Identifier: Apache-2.0
 *
 * vma.c: see vma.h. Linux 6.11 has an ioctl for this; before, the maps are read in pieces.
 */
#include "attach/vma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"

/* <linux/fs.h> of older headers lacks it. */
struct procmap_query {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t vma_start;
	uint64_t vma_end;
	uint64_t vma_flags;
	uint64_t vma_page_size;
	uint64_t vma_offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t vma_name_size;
	uint32_t build_id_size;
	uint64_t vma_name_addr;
	uint64_t build_id_addr;
};
#define HT_PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)
#define VMA_WRITABLE 0x02

static int find_by_query(int fd, ht_addr_t addr, struct ht_vma *ret_vma)
{
	char name[64] = "";
	struct procmap_query query = {
		.size = sizeof(query),
		.query_addr = addr,
		.vma_name_size = sizeof(name),
		.vma_name_addr = (uintptr_t)name,
	};
	int r = ht_errno_of(ioctl(fd, HT_PROCMAP_QUERY, &query));

	/* The name, a file's, is longer: not what we look for, ask for the rest. */
	if (r == -ENAMETOOLONG) {
		query.vma_name_size = 0;
		query.vma_name_addr = 0;
		r = ht_errno_of(ioctl(fd, HT_PROCMAP_QUERY, &query));
	}
	if (r < 0)
		return r;
	*ret_vma = (struct ht_vma){
		.start = query.vma_start,
		.end = query.vma_end,
		.writable = query.vma_flags & VMA_WRITABLE,
		.is_stack = query.vma_name_size && !strncmp(name, "[stack]", sizeof(name)),
	};
	return 0;
}

/* 1: it is this line's; 0: not. */
static int match_line(const char *line, ht_addr_t addr, struct ht_vma *ret_vma)
{
	struct ht_vma vma = { 0 };
	const char *name = strchr(line, '[');
	char prot[5] = "";

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &vma.start, &vma.end, prot) != 3)
		return 0;
	if (addr < vma.start || addr >= vma.end)
		return 0;
	vma.writable = prot[1] == 'w';
	vma.is_stack = name && !strcmp(name, "[stack]");
	*ret_vma = vma;
	return 1;
}

static int find_in_text(int fd, ht_addr_t addr, struct ht_vma *ret_vma)
{
	char buf[8192];
	size_t len = 0;

	for (;;) {
		ssize_t n = read(fd, buf + len, sizeof(buf) - 1 - len);
		char *line = buf, *end;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENOENT;
		len += (size_t)n;
		buf[len] = '\0';
		for (; (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			if (match_line(line, addr, ret_vma))
				return 0;
		}
		/* What is left begins a line; a path can't fill the buffer. */
		len -= (size_t)(line - buf);
		if (len == sizeof(buf) - 1)
			return -E2BIG;
		memmove(buf, line, len);
	}
}

static int open_maps(int procfd)
{
	return ht_errno_of(openat(procfd, "maps", O_RDONLY | O_CLOEXEC));
}

int ht_vma_find_in_text(int procfd, ht_addr_t addr, struct ht_vma *ret_vma)
{
	_cleanup_(ht_fd_closep) int fd = open_maps(procfd);

	return fd < 0 ? fd : find_in_text(fd, addr, ret_vma);
}

int ht_vma_find(int procfd, ht_addr_t addr, struct ht_vma *ret_vma)
{
	_cleanup_(ht_fd_closep) int fd = open_maps(procfd);
	int r;

	if (fd < 0)
		return fd;
	r = find_by_query(fd, addr, ret_vma);
	return r == -ENOTTY ? find_in_text(fd, addr, ret_vma) : r;
}
