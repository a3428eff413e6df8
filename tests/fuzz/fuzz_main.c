/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_main.c: who runs a harness. Linked with libFuzzer (HACKING, Fuzzers) it only writes the
 * inputs to begin with; otherwise it is a test, that makes always the same inputs of these.
 *
 *	fuzz_x seeds=DIR	write them
 *	fuzz_x [RUNS]		the test
 *	fuzz_x FILE		one input
 */
#include <stdio.h>

#include "fuzz.h"

#define SEEDS_MAX 8

static struct fuzz_output seeds[SEEDS_MAX];
static unsigned n_seeds;

static void make_seeds(void)
{
	while (n_seeds < SEEDS_MAX && (fuzz_seed(n_seeds, &seeds[n_seeds]), seeds[n_seeds].len))
		n_seeds++;
}

static void write_seeds(const char *dir)
{
	for (unsigned i = 0; i < n_seeds; i++) {
		char path[512];
		FILE *f;

		snprintf(path, sizeof(path), "%s/seed-%u", dir, i);
		f = fopen(path, "we");
		if (!f || fwrite(seeds[i].at, 1, seeds[i].len, f) != seeds[i].len || fclose(f)) {
			perror(path);
			exit(1);
		}
	}
}

static void be_asked(int argc, char **argv)
{
	make_seeds();
	if (argc == 2 && !strncmp(argv[1], "seeds=", 6)) {
		write_seeds(argv[1] + 6);
		exit(0);
	}
}

#ifdef HT_FUZZING
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	be_asked(*argc, *argv);
	return 0;
}
#else
static struct fuzz_output input;
static uint64_t state = 1;

/* xorshift64* */
static size_t dice(size_t n)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return n ? (state * UINT64_C(0x2545f4914f6cdd1d) >> 33) % n : 0;
}

static void overwrite(size_t at, const void *with, size_t len)
{
	if (at < input.len)
		memcpy(input.at + at, with, len < input.len - at ? len : input.len - at);
}

/* A piece of any seed, put in at @at. */
static void splice(size_t at)
{
	const struct fuzz_output *seed = &seeds[dice(n_seeds)];
	size_t from = dice(seed->len), len = 1 + dice(64);

	len = len < seed->len - from ? len : seed->len - from;
	len = len < sizeof(input.at) - input.len ? len : sizeof(input.at) - input.len;
	memmove(input.at + at + len, input.at + at, input.len - at);
	memcpy(input.at + at, seed->at + from, len);
	input.len += len;
}

static void cut(size_t at)
{
	size_t len = 1 + dice(64);

	len = len < input.len - at ? len : input.len - at;
	memmove(input.at + at, input.at + at + len, input.len - at - len);
	input.len -= len;
}

static void change(void)
{
	static const uint64_t odd[] = { 0, 1, 7, 8, 255, UINT64_MAX, UINT32_MAX, INT64_MAX,
					INT32_MAX, UINT64_MAX - 7, 1 << 16, 1 << 15 };
	size_t at = dice(input.len);

	switch (dice(6)) {
	case 0:
		overwrite(at, &odd[dice(sizeof(odd) / sizeof(*odd))], (size_t)1 << dice(4));
		break;
	case 1:
		splice(at);
		break;
	case 2:
		cut(at);
		break;
	case 3:
		input.at[at] ^= (uint8_t)(1 << dice(8));
		break;
	default:
		input.at[at] = (uint8_t)dice(256);
		break;
	}
}

static void make_input(void)
{
	size_t changes = dice(12);

	if (n_seeds > 0 && dice(16)) {
		input = seeds[dice(n_seeds)];
	} else {
		input.len = 1 + dice(2048);
		for (size_t i = 0; i < input.len; i++)
			input.at[i] = (uint8_t)dice(256);
	}
	while (changes-- && input.len)
		change();
}

/* From memory that ends with it, for the sanitizers. */
static void run(void)
{
	uint8_t *exact = malloc(input.len);

	if (!exact)
		exit(1);
	memcpy(exact, input.at, input.len);
	LLVMFuzzerTestOneInput(exact, input.len);
	free(exact);
}

static void run_file(const char *path)
{
	FILE *f = fopen(path, "re");

	if (!f) {
		perror(path);
		exit(1);
	}
	input.len = fread(input.at, 1, sizeof(input.at), f);
	fclose(f);
	run();
}

int main(int argc, char **argv)
{
	unsigned long runs = argc > 1 ? strtoul(argv[1], NULL, 10) : fuzz_runs;

	be_asked(argc, argv);
	if (argc > 1 && !runs) {
		run_file(argv[1]);
		return 0;
	}
	for (unsigned i = 0; i < n_seeds; i++) {
		input = seeds[i];
		run();
	}
	while (runs--) {
		make_input();
		run();
	}
	return 0;
}
#endif
