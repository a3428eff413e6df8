/* SPDX-License-Identifier: Apache-2.0
 *
 * mapfile.c: the file that the target writes its perf map to: /tmp/perf-PID.map as it sees
 * it, with the pid that it has in its own namespace.
 *
 * /tmp is for everybody, so the file may be anything, and anybody's. It is opened only if
 * it is a regular file of the target's user or of root, and written since the target
 * began: the file of an earlier process with that pid stays there for ever. It grows, and
 * it may be written anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "symbol/jit-priv.h"

#define STATUS_MAX 65536
#define CHUNK ((size_t)256 << 10)
#define CHUNKS 16
/* Clocks are set, and file systems round. */
#define SLACK_S 2

/* --- who the target is, and where ------------------------------------------------------ */

/* The last number of a line of /proc/PID/status that starts with @key, or of @n numbers the
 * @n-th; -1: there is none. */
static long number_of(const char *status, const char *key, unsigned n)
{
	const char *at = strstr(status, key), *end;
	long value = -1;
	char *next;

	if (!at)
		return -1;
	at += strlen(key);
	end = at + strcspn(at, "\n");
	for (; at < end; at = next) {
		long number = strtol(at, &next, 10);

		if (next == at || next > end)
			break;
		value = number;
		if (n && !--n)
			break;
	}
	return value;
}

static void read_status(struct ht_mapfile *file)
{
	_cleanup_(ht_buf_fini) struct ht_buf status = HT_BUF_INIT;
	long pid, uid;

	if (ht_buf_read_file(&status, file->procfd, "status", STATUS_MAX) < 0 || !status.data)
		return;
	/* In the innermost namespace it comes last. */
	pid = number_of(status.data, "\nNStgid:", 0);
	if (pid <= 0)
		pid = number_of(status.data, "\nTgid:", 0);
	/* Files belong to the fourth, which follows the effective one. */
	uid = number_of(status.data, "\nUid:", 4);
	if (pid <= 0 || pid > INT32_MAX || uid < 0 || uid > UINT32_MAX)
		return;
	file->pid = (pid_t)pid;
	file->uid = (uid_t)uid;
	snprintf(file->name, sizeof(file->name), "perf-%d.map", file->pid);
}

/* Links in the path are the target's, and must not lead out of its root. */
static int open_tmp(int procfd)
{
	_cleanup_(ht_fd_closep) int root = -1;
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	int fd;

	root = ht_errno_of(openat(procfd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (root < 0)
		return root;
	fd = ht_errno_of(syscall(SYS_openat2, root, "tmp", &how, sizeof(how)));
	if (fd != -ENOSYS && fd != -EPERM)
		return fd;
	return ht_errno_of(openat(root, "tmp", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/* It may have moved to another root, or changed its user. What was known of one that has
 * ended stays. */
static void look_at_target(struct ht_mapfile *file)
{
	int fd = open_tmp(file->procfd);

	if (fd >= 0) {
		ht_fd_close(file->tmpfd);
		file->tmpfd = fd;
	}
	read_status(file);
}

static struct timespec wall_time_of(uint64_t ticks)
{
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK), since;
	struct timespec wall, boot;
	int64_t seconds;

	clock_gettime(CLOCK_REALTIME, &wall);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	since = ticks / (hz ? hz : 100);
	seconds = wall.tv_sec - boot.tv_sec + (int64_t)ht_min(since, (uint64_t)INT32_MAX);
	return (struct timespec){ .tv_sec = seconds };
}

void ht_mapfile_init(struct ht_mapfile *file, int procfd, uint64_t start_ticks)
{
	*file = (struct ht_mapfile){ .procfd = procfd, .tmpfd = -1, .fd = -1,
				     .began = wall_time_of(start_ticks) };
	look_at_target(file);
}

void ht_mapfile_fini(struct ht_mapfile *file)
{
	ht_fd_close(file->fd);
	ht_fd_close(file->tmpfd);
	file->fd = file->tmpfd = -1;
	ht_perfmap_fini(&file->map);
}

/* --- the file ---------------------------------------------------------------------------- */

/* Tell why names may be missing. */
static int refuse(struct ht_mapfile *file, const char *before, const char *behind)
{
	snprintf(file->reason, sizeof(file->reason), "%s/tmp/%s%s", before,
		 *file->name ? file->name : "perf-PID.map", behind);
	return -ENOENT;
}

static int check(struct ht_mapfile *file, const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return refuse(file, "", " is no regular file");
	if (st->st_uid != file->uid && st->st_uid != 0)
		return refuse(file, "", " belongs to another user");
	if (st->st_mtim.tv_sec + SLACK_S < file->began.tv_sec)
		return refuse(file, "", " is older than the program");
	return 0;
}

static void restart(struct ht_mapfile *file, uint64_t start)
{
	file->start = file->offset = start;
	ht_perfmap_restart(&file->map, start > 0);
}

/* O_PATH touches nothing: what isn't a regular file is never really opened. */
static int find(struct ht_mapfile *file)
{
	_cleanup_(ht_fd_closep) int place = -1;
	char self[64];
	struct stat st;
	int r;

	place = file->tmpfd < 0 || !*file->name ? -ENOENT :
		ht_errno_of(openat(file->tmpfd, file->name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
	if (place < 0)
		return refuse(file, place == -ENOENT ? "there is no " : "can't open ", "");
	if (fstat(place, &st) < 0)
		return refuse(file, "", " can't be read");
	r = check(file, &st);
	if (r < 0)
		return r;
	*file->reason = '\0';
	if (file->fd >= 0 && st.st_dev == file->dev && st.st_ino == file->ino)
		return 0;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", place);
	r = ht_errno_of(open(self, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
	if (r < 0)
		return refuse(file, "", " can't be read");
	ht_fd_close(file->fd);
	file->fd = r;
	file->dev = st.st_dev;
	file->ino = st.st_ino;
	restart(file, 0);
	return 0;
}

/* The same bytes are before the offset as when they were read? Else it was written anew. */
static bool is_continued(const struct ht_mapfile *file)
{
	size_t len = (size_t)ht_min(file->offset - file->start, (uint64_t)HT_MAPFILE_CHECK);
	char now[HT_MAPFILE_CHECK];

	return ht_fd_pread_all(file->fd, now, len, file->offset - len) == 0 &&
	       memcmp(now, file->check + HT_MAPFILE_CHECK - len, len) == 0;
}

/* Keep the last bytes before the offset at the end of check. */
static void note(struct ht_mapfile *file, const char *text, size_t len)
{
	size_t n = ht_min(len, (size_t)HT_MAPFILE_CHECK);

	memmove(file->check, file->check + n, HT_MAPFILE_CHECK - n);
	memcpy(file->check + HT_MAPFILE_CHECK - n, text + len - n, n);
}

/* From where to go on in a file of that size. The newest names are at the end. */
static void choose_start(struct ht_mapfile *file, uint64_t size)
{
	if (size < file->offset || !is_continued(file))
		restart(file, 0);
	if (size - file->start > HT_MAPFILE_MAX)
		restart(file, size - HT_MAPFILE_MAX / 2);
}

static int read_chunks(struct ht_mapfile *file, uint64_t size)
{
	char *chunk = malloc(CHUNK);
	unsigned i;
	int r = chunk ? 0 : -ENOMEM;

	for (i = 0; r == 0 && i < CHUNKS && file->offset < size; i++) {
		ssize_t n = pread(file->fd, chunk, CHUNK, (off_t)file->offset);

		if (n <= 0)
			break;
		r = ht_perfmap_add(&file->map, chunk, (size_t)n);
		note(file, chunk, (size_t)n);
		file->offset += (uint64_t)n;
	}
	free(chunk);
	return r < 0 ? r : i == CHUNKS && file->offset < size;
}

static int read_on(struct ht_mapfile *file)
{
	struct stat st;
	uint64_t size;

	if (file->fd < 0 || fstat(file->fd, &st) < 0 || st.st_size < 0)
		return 0;
	size = (uint64_t)st.st_size;
	if (size == file->offset && st.st_mtim.tv_sec == file->mtime.tv_sec &&
	    st.st_mtim.tv_nsec == file->mtime.tv_nsec)
		return 0;
	choose_start(file, size);
	file->mtime = st.st_mtim;
	return read_chunks(file, size);
}

int ht_mapfile_read(struct ht_mapfile *file)
{
	int r;

	look_at_target(file);
	/* One that was removed, or replaced by what isn't ours, is still open. */
	(void)find(file);
	r = read_on(file);
	if (!*file->reason && (file->start || file->map.full))
		(void)refuse(file, "", " is too large, not all of it was read");
	return r;
}
