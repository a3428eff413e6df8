/* SPDX-License-Identifier: Apache-2.0
 *
 * parent: children end all the time, and nobody handles SIGCHLD; meanwhile threads wait in
 * a call that fails with EINTR for any signal that stops them.
 *
 * READY. check: "ok N CHILDREN", N calls having failed so far.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned failed, children;

static void *wait_for_nothing(void *arg)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event;

	for (;;)
		if (epoll_wait(fd, &event, 1, -1) < 0)
			__atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
	return arg;
}

static void *make_children(void *arg)
{
	for (;;) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		if (pid > 0) {
			while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
				;
			__atomic_fetch_add(&children, 1, __ATOMIC_RELAXED);
		}
	}
	return arg;
}

int main(void)
{
	char line[64];
	pthread_t thread;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < 8; i++)
		if (pthread_create(&thread, NULL, wait_for_nothing, NULL))
			return 1;
	if (pthread_create(&thread, NULL, make_children, NULL))
		return 1;
	printf("READY\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		printf("ok %u %u\n", __atomic_load_n(&failed, __ATOMIC_RELAXED),
		       __atomic_load_n(&children, __ATOMIC_RELAXED));
		fflush(stdout);
	}
	return 0;
}
