/* SPDX-License-Identifier: Apache-2.0
 *
 * loader: loads libraries when it is told to, by lines on stdin, and says DONE, or why not.
 *
 *	open PATH	for itself alone, as plugins are loaded
 *	again PATH	with libraries of its own (dlmopen)
 *	close		the last one
 *	keep N SIZE	from its malloc
 *
 * An argument is opened before anything else. Prints "READY PID"; exits at EOF.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define HOW (RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)

static void *library;

static void say(const char *text)
{
	puts(text);
	fflush(stdout);
}

static const char *opened(void *handle)
{
	library = handle;
	return handle ? "DONE" : dlerror();
}

static __attribute__((noinline)) const char *keep(unsigned long n, unsigned long size)
{
	void *(*its_malloc)(size_t) = (void *(*)(size_t))dlsym(library, "malloc");

	while (its_malloc && n--)
		*(volatile char *)its_malloc(size) = 1;
	return its_malloc ? "DONE" : dlerror();
}

static const char *obey(char *line)
{
	unsigned long n, size;

	line[strcspn(line, "\n")] = '\0';
	if (!strncmp(line, "open ", 5))
		return opened(dlopen(line + 5, HOW));
	if (!strncmp(line, "again ", 6))
		return opened(dlmopen(LM_ID_NEWLM, line + 6, RTLD_NOW));
	if (!strcmp(line, "close"))
		return dlclose(library) ? dlerror() : "DONE";
	if (sscanf(line, "keep %lu %lu", &n, &size) == 2)
		return keep(n, size);
	return "unknown";
}

int main(int argc, char **argv)
{
	char line[512];

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (argc > 1 && !dlopen(argv[1], HOW)) {
		say(dlerror());
		return 1;
	}
	snprintf(line, sizeof(line), "READY %d", (int)getpid());
	say(line);
	while (fgets(line, sizeof(line), stdin))
		say(obey(line));
	return 0;
}
