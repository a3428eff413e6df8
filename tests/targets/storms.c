/* SPDX-License-Identifier: Apache-2.0
 *
 * storms KIND: threads that do one thing as fast as they can, most of the time while they
 * hold a lock of libc's or the loader's, and see that it goes as it should.
 *
 * READY
 * check: once each thread went on, "ok ROUNDS" or "BAD what; what".
 */
#include "storms.h"

#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

#define MAX_SIZE 3000

unsigned storms_random(unsigned below)
{
	static atomic_uint state = 12345;
	unsigned x = atomic_fetch_add(&state, 0x9e3779b9u);

	x = (x ^ x >> 16) * 0x45d9f3bu;
	return (x ^ x >> 16) % below;
}

struct block {
	size_t size;
	unsigned char bytes[];
};

void *storms_alloc(void)
{
	size_t size = sizeof(struct block) + storms_random(MAX_SIZE);
	struct block *block = NULL;
	void *aligned;

	switch (storms_random(4)) {
	case 0:
		block = calloc(1, size);
		break;
	case 1:
		block = realloc(malloc(1), size);
		break;
	case 2:
		if (!posix_memalign(&aligned, 64, size))
			block = aligned;
		break;
	default:
		block = malloc(size);
	}
	if (!block) {
		rounds_bad("out of memory");
		return NULL;
	}
	block->size = size - sizeof(*block);
	memset(block->bytes, (unsigned char)block->size, block->size);
	return block;
}

void storms_free(void *memory)
{
	struct block *block = memory;

	if (!block)
		return;
	for (size_t i = 0; i < block->size; i++)
		if (block->bytes[i] != (unsigned char)block->size) {
			rounds_bad("a block of %zu bytes was overwritten", block->size);
			break;
		}
	free(block);
}

void storms_start(const char *name, int n, void (*round)(void *arg))
{
	static struct rounds_thread threads[16];
	static int used;

	for (int i = 0; i < n && used < 16; i++) {
		threads[used] = (struct rounds_thread){ .name = name, .round = round,
							.arg = (void *)(intptr_t)i };
		rounds_start(&threads[used++]);
	}
}

static void malloc_round(void *arg)
{
	void *blocks[64];

	for (int i = 0; i < 64; i++)
		blocks[i] = storms_alloc();
	for (int i = 0; i < 64; i++)
		storms_free(blocks[(i * 7) % 64]);
}

/* All from one arena, whose lock is always taken. */
static void storms_malloc(void)
{
	mallopt(M_ARENA_MAX, 1);
	storms_start("malloc", 4, malloc_round);
}

static FILE *out;
static atomic_ulong lines;

static void stdio_round(void *arg)
{
	for (int i = 0; i < 100; i++) {
		flockfile(out);
		fprintf(out, "line %lu", (unsigned long)lines);
		fprintf(out, " of %d\n", (int)(intptr_t)arg);
		lines++;
		storms_free(storms_alloc());
		funlockfile(out);
	}
}

static void storms_stdio(void)
{
	out = fopen("/dev/null", "we");
	if (!out)
		rounds_bad("no /dev/null");
	else
		storms_start("stdio", 4, stdio_round);
}

/* The time-stamp counter faults. */
static void storms_tsc(void)
{
	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0))
		rounds_bad("can't forbid the time-stamp counter");
	storms_start("malloc", 4, malloc_round);
}

/* Nothing may become executable that was writable. */
static void storms_mdwe(void)
{
	/* Linux before 6.3 knows none, and then it's a storm like the first. */
	(void)prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0);
	storms_start("malloc", 4, malloc_round);
}

static const struct {
	const char *name;
	void (*start)(void);
} kinds[] = {
	{ "malloc", storms_malloc },
	{ "stdio", storms_stdio },
	{ "load", storms_load },
	{ "dlmopen", storms_dlmopen },
	{ "throw", storms_throw },
	{ "fork", storms_fork },
	{ "spawn", storms_spawn },
	{ "coroutine", storms_coroutine },
	{ "altstack", storms_altstack },
	{ "cancel", storms_cancel },
	{ "tiny", storms_tiny },
	{ "timers", storms_timers },
	{ "tsc", storms_tsc },
	{ "mdwe", storms_mdwe },
};

int main(int argc, char **argv)
{
	char line[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (argc == 2 && !strcmp(argv[1], kinds[i].name))
			kinds[i].start();
	if (!rounds_n)
		rounds_bad("no such storm");
	rounds_await(2, NULL);
	rounds_ready("storms");
	while (rounds_next_line(line, sizeof(line))) {
		unsigned long rounds = rounds_await(2, NULL);

		rounds_answer("ok %lu", rounds);
	}
	_exit(0);
}
