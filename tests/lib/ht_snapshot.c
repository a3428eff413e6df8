/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_snapshot.c: see ht_snapshot.h.
 */
#include "ht_snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/vec.h"

#define OUR_NAME "heaptap:"
#define MAX_PROC_FILE (16u << 20)
#define MAX_BYTES (256u << 20)

struct area {
	uint64_t start, end, offset, inode;
	char prot[5];
	char path[512];		/* "" when unnamed */
	uint8_t *bytes;		/* copy of code and constants, or NULL */
};

struct fd {
	int number;
	char link[512];
};

struct thread {
	pid_t tid;
	char status[1024];	/* the fields below, one a line */
};

struct ht_snapshot {
	ht_vec(struct area) areas;
	ht_vec(struct fd) fds;
	ht_vec(struct thread) threads;
};

/* Fields of /proc/PID/task/TID/status that a tap must leave as they were. */
static const char *const status_fields[] = {
	"TracerPid:", "SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:",
	"NoNewPrivs:", "Seccomp:", "Seccomp_filters:", "THP_enabled:", "CoreDumping:",
};

static bool is_ours(const struct area *area)
{
	return strstr(area->path, OUR_NAME) != NULL;
}

/* "pipe:[123]" and "[heap]" have brackets or no slash; files have a path. */
static bool is_file(const struct area *area)
{
	return area->inode && area->path[0] == '/';
}

/* Code and constants: of files, or the vdso. */
static bool is_constant(const struct area *area)
{
	return (is_file(area) || !strcmp(area->path, "[vdso]")) && !is_ours(area) &&
	       (area->prot[2] == 'x' || !strcmp(area->prot, "r--p"));
}

/* ---- taking ---- */

/* The kernel cuts mappings in pieces and joins them as it likes; joined they compare. */
static bool joins(const struct area *a, const struct area *b)
{
	return a->end == b->start && !strcmp(a->prot, b->prot) &&
	       !strcmp(a->path, b->path) && a->inode == b->inode &&
	       (!a->inode || a->offset + (a->end - a->start) == b->offset);
}

static int parse_area(const char *line, struct area *ret_area)
{
	struct area area = { 0 };
	int path_at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64 " %n",
		   &area.start, &area.end, area.prot, &area.offset, &area.inode,
		   &path_at) != 5 || !path_at)
		return -EINVAL;
	snprintf(area.path, sizeof(area.path), "%s", line + path_at);
	*ret_area = area;
	return 0;
}

static int take_areas(int procfd, struct ht_snapshot *snapshot)
{
	_cleanup_(ht_buf_fini) struct ht_buf text = HT_BUF_INIT;
	char *line, *save = NULL;
	struct area area, *last = NULL;
	int r;

	r = ht_buf_read_file(&text, procfd, "maps", MAX_PROC_FILE);
	if (r < 0)
		return r;
	if (!text.len)
		return -ESRCH;
	for (line = strtok_r(text.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		r = parse_area(line, &area);
		if (r < 0)
			return r;
		if (last && joins(last, &area)) {
			last->end = area.end;
			continue;
		}
		last = ht_vec_push(&snapshot->areas);
		if (!last)
			return -ENOMEM;
		*last = area;
	}
	return 0;
}

static int copy_bytes(int mem, struct area *area)
{
	size_t len = (size_t)(area->end - area->start);

	area->bytes = malloc(len);
	if (!area->bytes)
		return -ENOMEM;
	return ht_fd_pread_all(mem, area->bytes, len, area->start);
}

static int take_bytes(int procfd, struct ht_snapshot *snapshot)
{
	_cleanup_(ht_fd_closep) int mem = openat(procfd, "mem", O_RDONLY | O_CLOEXEC);
	uint64_t sum = 0;
	struct area *area;
	int r;

	if (mem < 0)
		return -errno;
	ht_vec_foreach(area, &snapshot->areas) {
		if (!is_constant(area))
			continue;
		sum += area->end - area->start;
		if (sum > MAX_BYTES)
			return -EFBIG;
		r = copy_bytes(mem, area);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_fds(int procfd, struct ht_snapshot *snapshot)
{
	int dirfd = openat(procfd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char link[sizeof(((struct fd *)0)->link)];
	struct dirent *entry;
	struct fd *slot;
	ssize_t n;
	DIR *dir;

	dir = dirfd < 0 ? NULL : fdopendir(dirfd);
	if (!dir) {
		ht_fd_close(dirfd);
		return -errno;
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		n = readlinkat(dirfd, entry->d_name, link, sizeof(link) - 1);
		if (n < 0)
			continue; /* closed meanwhile */
		slot = ht_vec_push(&snapshot->fds);
		if (!slot) {
			closedir(dir);
			return -ENOMEM;
		}
		slot->number = atoi(entry->d_name);
		snprintf(slot->link, sizeof(slot->link), "%.*s", (int)n, link);
	}
	closedir(dir);
	return 0;
}

static void pick_fields(char *text, char *out, size_t cap)
{
	size_t len = 0, i;
	char *line, *save = NULL;

	out[0] = '\0';
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		for (i = 0; i < ARRAY_SIZE(status_fields); i++)
			if (!strncmp(line, status_fields[i], strlen(status_fields[i])) &&
			    len + strlen(line) + 2 < cap)
				len += (size_t)sprintf(out + len, "%s\n", line);
}

static int take_thread(int procfd, const char *tid, struct ht_snapshot *snapshot)
{
	_cleanup_(ht_buf_fini) struct ht_buf text = HT_BUF_INIT;
	struct thread *slot;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "task/%.20s/status", tid);
	r = ht_buf_read_file(&text, procfd, path, MAX_PROC_FILE);
	if (r == -ENOENT || r == -ESRCH)
		return 0; /* ended meanwhile */
	if (r < 0)
		return r;
	slot = ht_vec_push(&snapshot->threads);
	if (!slot || !text.data)
		return -ENOMEM;
	slot->tid = (pid_t)atoi(tid);
	pick_fields(text.data, slot->status, sizeof(slot->status));
	return 0;
}

static int take_threads(int procfd, struct ht_snapshot *snapshot)
{
	int dirfd = openat(procfd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *entry;
	int r = 0;
	DIR *dir;

	dir = dirfd < 0 ? NULL : fdopendir(dirfd);
	if (!dir) {
		ht_fd_close(dirfd);
		return -errno;
	}
	while (r >= 0 && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			r = take_thread(procfd, entry->d_name, snapshot);
	closedir(dir);
	return r;
}

int ht_snapshot_take(pid_t pid, struct ht_snapshot **ret_snapshot)
{
	struct ht_snapshot *snapshot;
	char path[64];
	int procfd, r;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	procfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (procfd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	snapshot = calloc(1, sizeof(*snapshot));
	r = snapshot ? take_areas(procfd, snapshot) : -ENOMEM;
	if (r >= 0)
		r = take_bytes(procfd, snapshot);
	if (r >= 0)
		r = take_fds(procfd, snapshot);
	if (r >= 0)
		r = take_threads(procfd, snapshot);
	close(procfd);
	if (r < 0) {
		ht_snapshot_free(snapshot);
		return r;
	}
	*ret_snapshot = snapshot;
	return 0;
}

struct ht_snapshot *ht_snapshot_free(struct ht_snapshot *snapshot)
{
	struct area *area;

	if (!snapshot)
		return NULL;
	ht_vec_foreach(area, &snapshot->areas)
		free(area->bytes);
	ht_vec_fini(&snapshot->areas);
	ht_vec_fini(&snapshot->fds);
	ht_vec_fini(&snapshot->threads);
	free(snapshot);
	return NULL;
}

/* ---- comparing ---- */

/* The twin of @area in @snapshot: what starts there under the same name, or, for what may
 * grow, what has the name. musl's heap has a page of another protection. */
static const struct area *twin(const struct ht_snapshot *snapshot, const struct area *area)
{
	bool grows = !strcmp(area->path, "[heap]") || !strcmp(area->path, "[stack]");
	const struct area *it, *found = NULL;

	ht_vec_foreach(it, &snapshot->areas) {
		if (strcmp(it->path, area->path) != 0)
			continue;
		if (it->start == area->start)
			return it;
		if (grows)
			found = it;
	}
	return found;
}

static bool passed_over(const struct area *area, unsigned ignore)
{
	if (is_ours(area))
		return true;
	if (!area->path[0])
		return ignore & HT_SNAPSHOT_ANON;
	return is_file(area) && (ignore & HT_SNAPSHOT_FILES);
}

static size_t say_area(struct ht_buf *why, const char *what, const struct area *area)
{
	ht_buf_printf(why, "%s: %" PRIx64 "-%" PRIx64 " %s %s\n", what, area->start,
		      area->end, area->prot, area->path);
	return 1;
}

static size_t compare_bytes(const struct area *a, const struct area *b, struct ht_buf *why)
{
	size_t i, len = (size_t)(a->end - a->start);

	if (!a->bytes || !b->bytes || !memcmp(a->bytes, b->bytes, len))
		return 0;
	for (i = 0; a->bytes[i] == b->bytes[i]; i++)
		;
	ht_buf_printf(why, "bytes changed: %" PRIx64 " (%s + 0x%" PRIx64 "): %02x, was %02x\n",
		      a->start + i, a->path, a->offset + i, b->bytes[i], a->bytes[i]);
	return 1;
}

static size_t compare_areas(const struct ht_snapshot *before,
			    const struct ht_snapshot *after, unsigned ignore,
			    struct ht_buf *why)
{
	const struct area *a, *b;
	size_t n = 0;

	ht_vec_foreach(a, &before->areas) {
		if (passed_over(a, ignore))
			continue;
		b = twin(after, a);
		if (!b)
			n += say_area(why, "mapping gone", a);
		else if (strcmp(a->prot, b->prot))
			n += say_area(why, "protection changed, now", b);
		else if (a->path[0] != '[' && a->end != b->end)
			n += say_area(why, "size changed, now", b);
		else
			n += compare_bytes(a, b, why);
	}
	ht_vec_foreach(b, &after->areas)
		if (!passed_over(b, ignore) && !twin(before, b))
			n += say_area(why, "new mapping", b);
	return n;
}

static const struct fd *fd_of(const struct ht_snapshot *snapshot, int number)
{
	const struct fd *fd;

	ht_vec_foreach(fd, &snapshot->fds)
		if (fd->number == number)
			return fd;
	return NULL;
}

static size_t compare_fds(const struct ht_snapshot *before,
			  const struct ht_snapshot *after, struct ht_buf *why)
{
	const struct fd *a, *b;
	size_t n = 0;

	ht_vec_foreach(a, &before->fds) {
		b = fd_of(after, a->number);
		if (b && !strcmp(a->link, b->link))
			continue;
		ht_buf_printf(why, "fd %d: %s, was %s\n", a->number,
			      b ? b->link : "closed", a->link);
		n++;
	}
	ht_vec_foreach(b, &after->fds) {
		if (fd_of(before, b->number))
			continue;
		ht_buf_printf(why, "new fd %d: %s\n", b->number, b->link);
		n++;
	}
	return n;
}

static const struct thread *thread_of(const struct ht_snapshot *snapshot, pid_t tid)
{
	const struct thread *thread;

	ht_vec_foreach(thread, &snapshot->threads)
		if (thread->tid == tid)
			return thread;
	return NULL;
}

static size_t compare_threads(const struct ht_snapshot *before,
			      const struct ht_snapshot *after, bool may_come_and_go,
			      struct ht_buf *why)
{
	const struct thread *a, *b;
	size_t n = 0;

	ht_vec_foreach(a, &before->threads) {
		b = thread_of(after, a->tid);
		if (b ? !strcmp(a->status, b->status) : may_come_and_go)
			continue;
		n++;
		if (!b)
			ht_buf_printf(why, "thread %d is gone\n", (int)a->tid);
		else
			ht_buf_printf(why, "thread %d: status is\n%swas\n%s", (int)a->tid,
				      b->status, a->status);
	}
	ht_vec_foreach(b, &after->threads) {
		if (may_come_and_go || thread_of(before, b->tid))
			continue;
		ht_buf_printf(why, "new thread %d\n", (int)b->tid);
		n++;
	}
	return n;
}

size_t ht_snapshot_compare(const struct ht_snapshot *before,
			   const struct ht_snapshot *after, unsigned ignore,
			   struct ht_buf *why)
{
	size_t n;

	n = compare_areas(before, after, ignore, why);
	if (!(ignore & HT_SNAPSHOT_FDS))
		n += compare_fds(before, after, why);
	return n + compare_threads(before, after, ignore & HT_SNAPSHOT_THREADS, why);
}

size_t ht_snapshot_leftovers(const struct ht_snapshot *snapshot)
{
	const struct area *area;
	size_t bytes = 0;

	ht_vec_foreach(area, &snapshot->areas)
		if (is_ours(area))
			bytes += (size_t)(area->end - area->start);
	return bytes;
}
