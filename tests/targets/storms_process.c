/* SPDX-License-Identifier: Apache-2.0
 *
 * storms_process.c: see storms.h.
 */
#include "storms.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void expect_status(const char *what, pid_t pid, int expected)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		rounds_bad("%s: no status: %s", what, strerrorname_np(errno));
	else if (!WIFEXITED(status) || WEXITSTATUS(status) != expected)
		rounds_bad("%s: status %#x", what, status);
}

static void handler_allocates(void)
{
	for (int i = 0; i < 5; i++)
		storms_free(storms_alloc());
}

/* A child has one thread, all memory of its parent, and allocates from it. */
static int in_child(void *inherited)
{
	void *blocks[50];

	for (int i = 0; i < 50; i++)
		blocks[i] = storms_alloc();
	for (int i = 0; i < 50; i++)
		storms_free(blocks[i]);
	storms_free(inherited);
	return 7;
}

static void fork_round(void *arg)
{
	void *block = storms_alloc();
	pid_t pid = fork();

	if (pid == 0)
		_exit(in_child(block));
	if (pid < 0)
		rounds_bad("fork: %s", strerrorname_np(errno));
	else
		expect_status("a forked child", pid, 7);
	storms_free(block);
}

static void allocate_round(void *arg)
{
	for (int i = 0; i < 100; i++)
		storms_free(storms_alloc());
}

void storms_fork(void)
{
	pthread_atfork(handler_allocates, handler_allocates, handler_allocates);
	storms_start("fork", 2, fork_round);
	storms_start("allocate", 1, allocate_round);
}

static void spawn_one(void)
{
	char *args[] = { (char *)"true", NULL };
	pid_t pid;
	int r = posix_spawnp(&pid, "true", NULL, NULL, args, environ);

	if (r)
		rounds_bad("posix_spawn: %s", strerrorname_np(r));
	else
		expect_status("posix_spawn", pid, 0);
}

static void vfork_one(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		execlp("false", "false", (char *)NULL);
		_exit(99);
	}
	if (pid < 0)
		rounds_bad("vfork: %s", strerrorname_np(errno));
	else
		expect_status("vfork", pid, 1);
}

static void popen_one(void)
{
	char line[64] = "";
	FILE *pipe = popen("echo one line", "re");

	if (!pipe) {
		rounds_bad("popen: %s", strerrorname_np(errno));
		return;
	}
	if (!fgets(line, sizeof(line), pipe) || strcmp(line, "one line\n"))
		rounds_bad("popen read \"%s\"", line);
	if (pclose(pipe))
		rounds_bad("pclose failed");
}

static void spawn_round(void *arg)
{
	int status;

	spawn_one();
	vfork_one();
	popen_one();
	status = system("exit 3");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 3)
		rounds_bad("system: status %#x", status);
}

void storms_spawn(void)
{
	storms_start("spawn", 2, spawn_round);
	storms_start("allocate", 1, allocate_round);
}
