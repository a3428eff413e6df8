/* SPDX-License-Identifier: Apache-2.0
 *
 * blocked_fuse.c: calls that wait for a file system which is a process of its own, and which
 * gives up what its user doesn't wait for any more; see blocked.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "blocked.h"

/* Made in a mount namespace of its own, where nobody else comes to it by chance. */
static int mount_it(void)
{
	char options[64];
	int fd = open("/dev/fuse", O_RDWR);

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (fd < 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("blocked", "/tmp", "fuse", MS_NODEV | MS_NOSUID, options) < 0)
		return -1;
	return fd;
}

static void answer(int fd, uint64_t unique, int error, const void *data, size_t len)
{
	struct fuse_out_header out = { (uint32_t)(sizeof(out) + len), error, unique };
	struct iovec iov[2] = { { &out, sizeof(out) }, { (void *)(uintptr_t)data, len } };

	(void)!writev(fd, iov, 2);
}

static void serve(int fd)
{
	static char request[FUSE_MIN_READ_BUFFER + (1 << 17)] __attribute__((aligned(8)));
	const struct fuse_in_header *in = (const void *)request;
	const struct fuse_interrupt_in *interrupt = (const void *)(in + 1);
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31,
				      .max_write = 1 << 16 };

	while (read(fd, request, sizeof(request)) > 0) {
		if (in->opcode == FUSE_INIT)
			answer(fd, in->unique, 0, &init, sizeof(init));
		else if (in->opcode == FUSE_INTERRUPT)
			answer(fd, interrupt->unique, -EINTR, NULL, 0);
	}
}

#define AT(name) AT_##name,
enum { FUSE_CALLS(AT) N_MOUNTS };

/* Paths to files that are never found, each in a file system of its own. */
static char paths[N_MOUNTS][64];

static int start_one(char path[64])
{
	int fds[2];
	pid_t pid;
	char c;

	if (pipe(fds) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (dup2(mount_it(), STDIN_FILENO) < 0 || write(fds[1], "x", 1) != 1)
			_exit(1);
		close_range(3, ~0U, 0);
		serve(STDIN_FILENO);
		_exit(0);
	}
	close(fds[1]);
	snprintf(path, 64, "/proc/%d/root/tmp/file", (int)pid);
	return read(fds[0], &c, 1) == 1 ? 0 : -1;
}

void start_fuse(void)
{
	for (int i = 0; i < N_MOUNTS; i++)
		if (start_one(paths[i]) < 0)
			paths[i][0] = 0;
}

static struct sockaddr_un address(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	strcpy(address.sun_path, path);
	return address;
}

static long with_socket(int (*call)(int, const struct sockaddr *, socklen_t), const char *path)
{
	const struct sockaddr_un to = address(path);

	return call(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), (const struct sockaddr *)&to,
		    sizeof(to));
}

static struct stat st;
static struct statfs fs;
static char value[64];
static char *const none[] = { NULL };
static const struct open_how how = { .flags = O_RDONLY };
static struct file_handle handle;
static int mount_id;

#define CALL(name, result)                                                                \
	long do_##name##_fuse(void)                                                       \
	{                                                                                 \
		const char *path = paths[AT_##name##_fuse];                               \
                                                                                          \
		return result;                                                            \
	}
CALL(stat, stat(path, &st))
CALL(open, open(path, O_RDONLY | O_CLOEXEC))
CALL(openat2, syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)))
CALL(creat, creat(path, 0600))
CALL(access, access(path, R_OK))
CALL(readlink, readlink(path, value, sizeof(value)))
CALL(truncate, truncate(path, 1))
CALL(chmod, chmod(path, 0600))
CALL(chown, chown(path, 1, 1))
CALL(utimensat, utimensat(AT_FDCWD, path, NULL, 0))
CALL(statfs, statfs(path, &fs))
CALL(chdir, chdir(path))
CALL(chroot, chroot(path))
CALL(getxattr, getxattr(path, "user.x", value, sizeof(value)))
CALL(setxattr, setxattr(path, "user.x", value, sizeof(value), 0))
CALL(listxattr, listxattr(path, value, sizeof(value)))
CALL(removexattr, removexattr(path, "user.x"))
CALL(symlink, symlink("x", path))
CALL(link, link("/proc/self/exe", path))
CALL(mknod, mknod(path, S_IFIFO | 0600, 0))
CALL(mkdir, mkdir(path, 0700))
CALL(rmdir, rmdir(path))
CALL(unlink, unlink(path))
CALL(rename, rename(path, path))
CALL(execve, execve(path, none, none))
CALL(inotify, inotify_add_watch(inotify_init1(IN_CLOEXEC), path, IN_OPEN))
CALL(fanotify, fanotify_mark(fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC, O_RDONLY),
			     FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, path))
CALL(bind, with_socket(bind, path))
CALL(connect, with_socket(connect, path))
CALL(handle, name_to_handle_at(AT_FDCWD, path, &handle, &mount_id, 0))
CALL(umount, umount(path))
