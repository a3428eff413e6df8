/* SPDX-License-Identifier: Apache-2.0
 *
 * symbols FILE: the functions, files and lines of the addresses on its standard input, one in
 * a line, printed as addr2line -fi does: for bench/run to measure, and to compare.
 * symbols -- COMMAND [ARG...]: run it; the seconds of CPU it took and its most KiB go to stderr.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbol/symbol.h"

/* The one module: what unwind/module.c would make of a mapping of it. */
struct ht_module {
	const char *path;
	int fd;
};

static struct ht_module module;

struct ht_module *ht_modules_at(const struct ht_modules *modules, uint32_t id)
{
	return id == 0 ? &module : NULL;
}

const char *ht_module_path(const struct ht_module *m)
{
	return m->path;
}

const char *ht_module_name(const struct ht_module *m)
{
	return m->path;
}

int ht_module_fd(const struct ht_module *m)
{
	return m->fd;
}

const uint8_t *ht_module_image(const struct ht_module *m, size_t *ret_len)
{
	*ret_len = 0;
	return NULL;
}

static int print(struct ht_symbols *symbols, uint64_t addr)
{
	struct ht_frame frame = { addr, 0, HT_FRAME_EXACT };
	const struct ht_symbol *found;
	size_t n;
	int r = ht_symbols_lookup(symbols, &frame, &found, &n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		printf("%s\n%s:%u\n", found[i].unknown ? "??" : found[i].name,
		       found[i].file ? found[i].file : "??", found[i].line);
	return 0;
}

static double seconds(const struct timeval *time)
{
	return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static int run(char **command)
{
	struct rusage usage;
	int status;
	pid_t child = fork();

	if (child == 0) {
		execvp(command[0], command);
		_exit(127);
	}
	/* Some end with 1 for what has no symbol. */
	if (child < 0 || wait4(child, &status, 0, &usage) < 0 || !WIFEXITED(status) ||
	    WEXITSTATUS(status) > 1)
		return 1;
	fprintf(stderr, "%.6f %ld\n", seconds(&usage.ru_utime) + seconds(&usage.ru_stime),
		usage.ru_maxrss);
	return 0;
}

int main(int argc, char **argv)
{
	struct ht_symbols *symbols;
	uint64_t addr;
	int r;

	if (argc > 2 && strcmp(argv[1], "--") == 0)
		return run(argv + 2);
	if (argc != 2) {
		fprintf(stderr, "usage: symbols FILE <ADDRESSES; or symbols -- COMMAND\n");
		return 2;
	}
	module.path = argv[1];
	module.fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	/* The fake doesn't look at what it is given. */
	r = ht_symbols_new((const struct ht_modules *)&module, NULL, &symbols);
	if (module.fd < 0 || r < 0) {
		fprintf(stderr, "symbols: can't read %s\n", argv[1]);
		return 1;
	}
	while (r == 0 && scanf("%" SCNx64, &addr) == 1)
		r = print(symbols, addr);
	ht_symbols_free(symbols);
	return r < 0;
}
