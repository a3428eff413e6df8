/* SPDX-License-Identifier: Apache-2.0
 *
 * made_target.h: a directory that looks like /proc/PID for those who read perf maps: its
 * status, and a root with a /tmp.
 */
#ifndef HT_TESTS_UNIT_MADE_TARGET_H
#define HT_TESTS_UNIT_MADE_TARGET_H

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "ht_check.h"
#include "tool.h"

struct made_target {
	char dir[64];
	int procfd;
};

/* As pid 4711 in its own namespace, and @uid. */
static inline void made_target_status(const struct made_target *t, unsigned uid)
{
	ck_assert_int_eq(tool_run("printf 'Name:\\tmade\\nTgid:\\t99\\nUid:\\t1\\t2\\t3\\t%u\\n"
				  "NStgid:\\t99\\t4711\\nNSpid:\\t98\\t12\\n' >%s/status",
				  uid, t->dir), 0);
}

static inline void made_target_start(struct made_target *t)
{
	tool_mkdir(t->dir);
	ck_assert_int_eq(tool_run("mkdir -p %s/root/tmp", t->dir), 0);
	made_target_status(t, geteuid());
	t->procfd = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(t->procfd, 0);
}

static inline void made_target_stop(struct made_target *t)
{
	ht_fd_close(t->procfd);
	tool_rmdir(t->dir);
}

/* Write @text behind what is in a file of its /tmp. */
static inline void made_target_append(const struct made_target *t, const char *name,
				      const char *text)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/root/tmp/%s", t->dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	ck_assert_int_ge(fd, 0);
	ck_ok(ht_fd_write_all(fd, text, strlen(text)));
	ht_fd_close(fd);
}

/* Its start, as /proc/PID/stat tells it: now. */
static inline uint64_t made_target_ticks(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * (uint64_t)sysconf(_SC_CLK_TCK);
}

#endif
