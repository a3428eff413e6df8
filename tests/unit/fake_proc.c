/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_proc.c: see fake_proc.h.
 */
#include "fake_proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "ht_check.h"

void fake_proc_start(struct fake_proc *fake)
{
	memset(fake, 0, sizeof(*fake));
	strcpy(fake->dir, "/tmp/fake-proc-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(fake->dir));
	fake->target.procfd = open(fake->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fake->target.taskfd = open(fake->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fake->target.memfd = memfd_create("fake-mem", MFD_CLOEXEC);
	ck_assert_int_ge(fake->target.memfd, 0);
}

void fake_proc_stop(struct fake_proc *fake)
{
	char cmd[64];

	ht_fd_close(fake->target.procfd);
	ht_fd_close(fake->target.taskfd);
	ht_fd_close(fake->target.memfd);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", fake->dir);
	ck_assert_int_eq(system(cmd), 0);
}

void fake_proc_put(struct fake_proc *fake, const char *name, const void *data, size_t len)
{
	const char *slash = strchr(name, '/');
	char dir[64];
	int fd;

	if (slash) {
		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - name), name);
		(void)mkdirat(fake->target.procfd, dir, 0700);
	}
	fd = openat(fake->target.procfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, data, len), (ssize_t)len);
	close(fd);
}

void fake_proc_text(struct fake_proc *fake, const char *name, const char *text)
{
	fake_proc_put(fake, name, text, strlen(text));
}

void fake_proc_poke(struct fake_proc *fake, ht_addr_t addr, const void *data, size_t len)
{
	ck_assert_int_eq(pwrite(fake->target.memfd, data, len, (off_t)addr), (ssize_t)len);
}
