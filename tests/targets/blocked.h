/* SPDX-License-Identifier: Apache-2.0
 *
 * blocked.h: the ways to block in the kernel that the target "blocked" knows. Each do_x()
 * makes what it waits for and waits; all that it opens stays open, as it mustn't return.
 */
#ifndef HT_TESTS_BLOCKED_H
#define HT_TESTS_BLOCKED_H

#include <time.h>

#define LONG_S 100000
#define BIG (1 << 20)

extern const struct timespec long_time;	/* in memory that can't be written */
extern char big[BIG];

/* One end, 0 or 1, of a new pipe. */
int a_pipe(int end);
int a_full_pipe(void);
int a_temp_file(char path[64]);
/*
 * Starts the file systems that are processes. To be called while nobody has opened a file
 * yet: such a process must not be the last to close another's socket that lingers, for it
 * would never serve.
 */
void start_fuse(void);

#define BLOCKED_CALLS(CALL)                                                               \
	CALL(read_pipe) CALL(preadv2_pipe) CALL(write_pipe) CALL(read_tty)                \
	CALL(write_tty) CALL(read_eventfd) CALL(write_eventfd)                            \
	CALL(read_timerfd) CALL(read_signalfd) CALL(read_inotify) CALL(read_fanotify)     \
	CALL(read_userfaultfd) CALL(accept) CALL(accept_timeout) CALL(accept4_timeout)    \
	CALL(recv) CALL(recv_timeout) CALL(read_socket_timeout)                           \
	CALL(readv_socket_timeout) CALL(preadv2_socket_timeout) CALL(recvmsg_timeout)     \
	CALL(recv_tcp_timeout) CALL(splice_from_socket_timeout)                           \
	CALL(splice_from_tcp_timeout) CALL(send_full) CALL(send_full_timeout)             \
	CALL(send_tcp_full) CALL(send_tcp_full_timeout) CALL(write_full_timeout)          \
	CALL(pwritev2_full_timeout) CALL(sendmsg_full_timeout)                            \
	CALL(sendmmsg_full_timeout) CALL(splice_to_full_timeout)                          \
	CALL(sendfile_full_timeout) CALL(connect_full) CALL(connect_full_timeout)         \
	CALL(connect_tcp) CALL(connect_tcp_timeout) CALL(recvmmsg)                        \
	CALL(recvmmsg_timeout) CALL(poll_forever) CALL(poll_timeout)                      \
	CALL(ppoll_forever) CALL(ppoll_timeout) CALL(ppoll_mask) CALL(ppoll_readonly)     \
	CALL(select_forever) CALL(select_timeout) CALL(select_readonly) CALL(pselect)     \
	CALL(pselect_mask) CALL(pselect_readonly) CALL(epoll_wait_forever)                \
	CALL(epoll_wait_timeout) CALL(epoll_pwait) CALL(epoll_pwait2) CALL(nanosleep)     \
	CALL(clock_nanosleep) CALL(clock_nanosleep_absolute) CALL(futex_forever)          \
	CALL(futex_timeout) CALL(futex_absolute) CALL(futex_waitv)                        \
	CALL(futex_waitv_timeout) CALL(futex_wait) CALL(futex_lock_pi)                    \
	CALL(futex_lock_pi_timeout) CALL(futex_wait_requeue_pi) CALL(sem_wait)            \
	CALL(sem_timedwait) CALL(semop) CALL(semtimedop) CALL(msgrcv) CALL(msgsnd)        \
	CALL(mq_receive) CALL(mq_timedreceive) CALL(mq_send) CALL(mq_timedsend)           \
	CALL(sigtimedwait) CALL(sigwaitinfo) CALL(pause) CALL(sigsuspend) CALL(waitpid)   \
	CALL(wait4) CALL(waitid) CALL(flock) CALL(setlkw) CALL(ofd_setlkw)                \
	CALL(open_fifo) CALL(open_leased) CALL(io_getevents) CALL(io_pgetevents)          \
	CALL(io_uring_enter) CALL(io_uring_enter_timeout) CALL(splice) CALL(tee)          \
	CALL(vmsplice_full) CALL(sendfile_full) CALL(ioctl_seccomp)                       \
	FUSE_CALLS(CALL)

/* Each for a file that a process is asked for. */
#define FUSE_CALLS(CALL)                                                                  \
	CALL(stat_fuse) CALL(open_fuse) CALL(openat2_fuse) CALL(creat_fuse)               \
	CALL(access_fuse) CALL(readlink_fuse) CALL(truncate_fuse) CALL(chmod_fuse)        \
	CALL(chown_fuse) CALL(utimensat_fuse) CALL(statfs_fuse) CALL(chdir_fuse)          \
	CALL(chroot_fuse) CALL(getxattr_fuse) CALL(setxattr_fuse) CALL(listxattr_fuse)    \
	CALL(removexattr_fuse) CALL(symlink_fuse) CALL(link_fuse) CALL(mknod_fuse)        \
	CALL(mkdir_fuse) CALL(rmdir_fuse) CALL(unlink_fuse) CALL(rename_fuse)             \
	CALL(execve_fuse) CALL(inotify_fuse) CALL(fanotify_fuse) CALL(bind_fuse)          \
	CALL(connect_fuse) CALL(handle_fuse) CALL(umount_fuse)

/* Those that have done a part, which no tracer can keep from coming back with it. */
#define HALFWAY_CALLS(CALL)                                                               \
	CALL(write_halfway) CALL(send_halfway) CALL(recv_waitall) CALL(read_tty_min)      \
	CALL(recvmmsg_halfway) CALL(io_uring_submit_and_wait) CALL(close_lingering)

#define DECLARE(x) long do_##x(void);
BLOCKED_CALLS(DECLARE)
HALFWAY_CALLS(DECLARE)
#undef DECLARE

#endif
