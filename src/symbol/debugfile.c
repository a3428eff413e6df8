/* SPDX-License-Identifier: Apache-2.0
 *
 * debugfile.c: the separate debug file of a module, as distributions install it. Looks at
 * the local disk only; there is no debuginfod here.
 */
#include "symbol/symbol-priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/fd.h"

#define MAX_CRC_FILE (UINT64_C(4) << 30)
#define MAX_LINK (PATH_MAX + 64)

/* O_PATH touches nothing: what isn't a regular file is never really opened (opening a FIFO
 * blocks, opening some devices acts). */
int ht_debugfile_open(const char *path)
{
	_cleanup_(ht_fd_closep) int place = open(path, O_PATH | O_CLOEXEC);
	char self[64];
	struct stat st;
	int fd;

	if (place < 0)
		return -errno;
	if (fstat(place, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOENT;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", place);
	fd = open(self, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* Open @path if it is an ELF file with this build-id. */
static int open_with_id(const char *path, const uint8_t *id, size_t len)
{
	struct ht_elf elf;
	uint8_t found[HT_BUILD_ID_MAX];
	int fd = ht_debugfile_open(path), r;

	if (fd < 0)
		return fd;
	r = ht_elf_init_fd(&elf, fd);
	if (r < 0)
		return r;
	if (ht_elf_build_id(&elf, found, sizeof(found)) == len &&
	    memcmp(found, id, len) == 0) {
		elf.fd = -1;	/* keep it open */
		ht_elf_fini(&elf);
		return fd;
	}
	ht_elf_fini(&elf);
	return -ENOENT;
}

static bool crc_fits(int fd, uint32_t crc)
{
	enum { CHUNK = 64 * 1024 };
	uint8_t *chunk = malloc(CHUNK);
	uint64_t at = 0;
	uLong sum = crc32(0, NULL, 0);
	ssize_t n = 0;

	while (chunk && at < MAX_CRC_FILE && (n = pread(fd, chunk, CHUNK, (off_t)at)) > 0) {
		sum = crc32(sum, chunk, (uInt)n);
		at += (uint64_t)n;
	}
	free(chunk);
	return n == 0 && at && sum == crc;
}

/* What the parts of @dirs (separated by colons) are, one after the other. */
static bool next_dir(const char **dirs, struct ht_buf *out)
{
	size_t len;

	while (**dirs == ':')
		(*dirs)++;
	len = strcspn(*dirs, ":");
	if (len == 0)
		return false;
	ht_buf_clear(out);
	ht_buf_append(out, *dirs, len);
	*dirs += len;
	return true;
}

static int find_by_id(const uint8_t *id, size_t len, const char *dirs)
{
	_cleanup_(ht_buf_fini) struct ht_buf path = HT_BUF_INIT;
	size_t i;
	int fd;

	if (len < 2)
		return -ENOENT;
	while (next_dir(&dirs, &path)) {
		ht_buf_printf(&path, "/.build-id/%02x/", id[0]);
		for (i = 1; i < len; i++)
			ht_buf_printf(&path, "%02x", id[i]);
		ht_buf_puts(&path, ".debug");
		if (path.failed)
			return -ENOMEM;
		fd = open_with_id(path.data, id, len);
		if (fd >= 0)
			return fd;
	}
	return -ENOENT;
}

static int open_with_crc(const struct ht_buf *path, uint32_t crc)
{
	int fd;

	if (path->failed)
		return -ENOMEM;
	fd = ht_debugfile_open(path->data);
	if (fd < 0 || crc_fits(fd, crc))
		return fd;
	ht_fd_close(fd);
	return -ENOENT;
}

/* Beside the file, in .debug/ there, and under each debug directory with the file's own
 * directory repeated. */
static int find_by_link(const char *name, uint32_t crc, const char *module,
			const char *dirs)
{
	_cleanup_(ht_buf_fini) struct ht_buf path = HT_BUF_INIT;
	const char *slash = strrchr(module, '/');
	int dir_len = slash ? (int)ht_min(slash - module, (ptrdiff_t)PATH_MAX) : 0;
	int fd;

	if (!slash || strchr(name, '/') || !*name)
		return -ENOENT;
	ht_buf_printf(&path, "%.*s/%s", dir_len, module, name);
	fd = open_with_crc(&path, crc);
	if (fd >= 0)
		return fd;
	ht_buf_clear(&path);
	ht_buf_printf(&path, "%.*s/.debug/%s", dir_len, module, name);
	fd = open_with_crc(&path, crc);
	while (fd < 0 && next_dir(&dirs, &path)) {
		ht_buf_printf(&path, "%.*s/%s", dir_len, module, name);
		fd = open_with_crc(&path, crc);
	}
	return fd;
}

int ht_debugfile_find(const struct ht_elf *elf, const char *path, const char *dirs,
		      int *ret_fd)
{
	const Elf64_Shdr *section = ht_elf_section(elf, ".gnu_debuglink");
	uint8_t id[HT_BUILD_ID_MAX], *link;
	uint32_t crc;
	size_t len, name;
	int fd, r;

	fd = find_by_id(id, ht_elf_build_id(elf, id, sizeof(id)), dirs);
	if (fd >= 0) {
		*ret_fd = fd;
		return 0;
	}
	if (!section)
		return fd == -ENOMEM ? fd : -ENOENT;
	r = ht_elf_load(elf, section, MAX_LINK, &link, &len);
	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	/* A name, its NUL, padding to 4, the CRC. */
	name = ht_align_up(strlen((char *)link) + 1, 4);
	fd = -ENOENT;
	if (name + sizeof(crc) <= len) {
		memcpy(&crc, link + name, sizeof(crc));
		fd = find_by_link((char *)link, crc, path, dirs);
	}
	free(link);
	if (fd < 0)
		return fd == -ENOMEM ? fd : -ENOENT;
	*ret_fd = fd;
	return 0;
}

static int find_alt(const char *name, const uint8_t *id, size_t len, const char *path,
		    const char *dirs)
{
	_cleanup_(ht_buf_fini) struct ht_buf full = HT_BUF_INIT;
	const char *slash = strrchr(path, '/');
	int fd = find_by_id(id, len, dirs);

	if (fd >= 0 || !*name)
		return fd;
	if (*name != '/' && slash)
		ht_buf_append(&full, path, (size_t)(slash - path) + 1);
	ht_buf_puts(&full, name);
	return full.failed ? -ENOMEM : open_with_id(full.data, id, len);
}

int ht_debugfile_find_alt(const struct ht_elf *elf, const char *path, const char *dirs,
			  int *ret_fd)
{
	const Elf64_Shdr *section = ht_elf_section(elf, ".gnu_debugaltlink");
	uint8_t *link;
	size_t len, name;
	int fd = -ENOENT, r;

	if (!section) {
		*ret_fd = -1;
		return 0;
	}
	r = ht_elf_load(elf, section, MAX_LINK, &link, &len);
	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	/* A name, its NUL, then the build-id to the end. */
	name = strlen((char *)link) + 1;
	if (name < len && len - name <= HT_BUILD_ID_MAX)
		fd = find_alt((char *)link, link + name, len - name, path, dirs);
	free(link);
	if (fd < 0)
		return fd == -ENOMEM ? fd : -ENOENT;
	*ret_fd = fd;
	return 0;
}

static int open_dwp(const char *path)
{
	_cleanup_(ht_buf_fini) struct ht_buf full = HT_BUF_INIT;

	ht_buf_printf(&full, "%s.dwp", path);
	return full.failed ? -ENOMEM : ht_debugfile_open(full.data);
}

int ht_debugfile_find_dwp(const char *path, const char *debug_path, int *ret_fd)
{
	int fd = *path == '/' ? open_dwp(path) : -ENOENT;

	if (fd < 0 && fd != -ENOMEM && debug_path)
		fd = open_dwp(debug_path);
	if (fd == -ENOMEM)
		return fd;
	*ret_fd = ht_max(fd, -1);
	return 0;
}
