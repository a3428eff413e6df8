/* SPDX-License-Identifier: Apache-2.0
 *
 * malloc_pair.c: what a malloc/free pair costs here, untapped or tapped.
 *
 *	malloc_pair [ROUNDS [PAIRS]]
 *
 * Prints READY, waits for a line on stdin (so that a profiler can attach in between), then
 * times ROUNDS rounds of PAIRS pairs, of sizes up to 1 KiB from a fixed sequence, one line
 * of ns a pair each, and the median as the last line. Further lines repeat it, EOF ends.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIZES 1024

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The compiler must not see that nothing is done with the block. */
static void use(void *block)
{
	__asm__ volatile("" : : "r"(block) : "memory");
}

static double round_ns(const uint16_t *sizes, unsigned long pairs)
{
	uint64_t start = now_ns();
	unsigned long i;

	for (i = 0; i < pairs; i++) {
		void *block = malloc(sizes[i % SIZES]);

		use(block);
		free(block);
	}
	return (double)(now_ns() - start) / (double)pairs;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void run(const uint16_t *sizes, unsigned long rounds, unsigned long pairs,
		double *ns)
{
	unsigned long i;

	round_ns(sizes, pairs); /* warm-up */
	for (i = 0; i < rounds; i++) {
		ns[i] = round_ns(sizes, pairs);
		printf("%.2f\n", ns[i]);
	}
	qsort(ns, rounds, sizeof(*ns), by_value);
	printf("median %.2f\n", ns[rounds / 2]);
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 5;
	unsigned long pairs = argc > 2 ? strtoul(argv[2], NULL, 10) : 5000000;
	uint16_t sizes[SIZES];
	uint32_t random = 1;
	char line[16];
	double *ns;
	int i;

	if (!rounds || !pairs) {
		fputs("usage: malloc_pair [ROUNDS [PAIRS]]\n", stderr);
		return 2;
	}
	for (i = 0; i < SIZES; i++) {
		random = random * 1664525u + 1013904223u;
		sizes[i] = (uint16_t)(1 + (random >> 16) % 1024);
	}
	ns = calloc(rounds, sizeof(*ns));
	if (!ns)
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("READY");
	while (fgets(line, sizeof(line), stdin))
		run(sizes, rounds, pairs, ns);
	free(ns);
	return 0;
}
