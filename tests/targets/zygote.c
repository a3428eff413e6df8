/* SPDX-License-Identifier: Apache-2.0
 *
 * zygote: a thread looks all the time for files that nobody here opened, closes them, and
 * opens its own, which get their numbers.
 *
 * Only sockets and empty files: what is there already to be loaded is the loader's as well,
 * and between heaptap's last look at its file and the closing nobody can tell.
 *
 * READY
 * check: "ok N" files were closed so far, or "BAD N" is not its own file any more.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FILES 64	/* looked at; the first three are the standard streams */
#define KEPT 16		/* then the oldest go */

static bool mine[FILES];
static atomic_uint closed, bad;

static bool is_null(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static bool is_strange(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 &&
	       (S_ISSOCK(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size == 0));
}

static void open_one(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd >= 3 && fd < FILES)
		mine[fd] = true;
	else
		close(fd);
}

static unsigned look(void)
{
	unsigned kept = 0;

	for (int fd = 3; fd < FILES; fd++) {
		if (mine[fd]) {
			kept++;
			if (!is_null(fd))
				atomic_store(&bad, (unsigned)fd);
		} else if (is_strange(fd) && close(fd) == 0) {
			open_one();
			atomic_fetch_add(&closed, 1);
		}
	}
	return kept;
}

static void *look_for_ever(void *arg)
{
	for (;;) {
		if (look() < KEPT)
			continue;
		for (int fd = 3; fd < FILES; fd++)
			if (mine[fd]) {
				mine[fd] = false;
				close(fd);
			}
	}
	return arg;
}

/* For heaptap to borrow. */
static void *idle(void *arg)
{
	for (;;)
		pause();
	return arg;
}

int main(void)
{
	pthread_t thread;
	char line[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (pthread_create(&thread, NULL, idle, NULL) ||
	    pthread_create(&thread, NULL, look_for_ever, NULL))
		return 1;
	printf("READY\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		free(malloc(100));
		if (atomic_load(&bad))
			printf("BAD %u\n", atomic_load(&bad));
		else
			printf("ok %u\n", atomic_load(&closed));
		fflush(stdout);
	}
	_exit(0);
}
