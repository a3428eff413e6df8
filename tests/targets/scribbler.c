/* SPDX-License-Identifier: Apache-2.0
 *
 * scribbler data|lanes|header: a program with stray writes. While it allocates it writes
 * nonsense over a part of the mapping of heaptap's ring. The protocol is that of truth.c;
 * blocks are filled, and looked through before they are freed: "go" aborts when one was
 * changed. Nothing happens as long as there is no ring.
 */
#include "truth_count.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RING "/memfd:heaptap:ring"
#define PAGE 4096
#define HELD 500

static struct truth_block held[HELD];
static uint64_t random_state = 88172645463325252u;

static uint64_t draw(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static struct {
	char *start, *end;
} ring;

/* "7f0000-7f8000 rw-s 00000000 00:01 1 /memfd:heaptap:ring (deleted)" */
static void take_line(const char *line)
{
	char *next;

	if (!strstr(line, RING) || ring.start)
		return;
	ring.start = (char *)strtoul(line, &next, 16);
	ring.end = (char *)strtoul(next + 1, NULL, 16);
}

/* By hand, because stdio would allocate. */
static void find_ring(void)
{
	static char text[1 << 16];
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;

	ring.start = NULL;
	while ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	close(fd);
	text[len] = '\0';
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		take_line(line);
}

/* Any of many values, some of them likely to be taken for good. */
static uint64_t nonsense(void)
{
	static const uint64_t values[] = { 0, 1, 8, 32, 152, UINT64_MAX, 1 << 20,
					   0x200000098, 0x300000020 };
	uint64_t n = draw();

	return n & 1 ? draw() : values[(n >> 1) % (sizeof(values) / sizeof(*values))];
}

/* A few words in [from, to) of the ring, at places with any alignment. */
static void scribble(size_t from, size_t to)
{
	for (int i = 0; i < 8 && ring.start; i++) {
		uint64_t value = nonsense();
		size_t at = from + draw() % (to - from - sizeof(value));

		memcpy(ring.start + at, &value, sizeof(value));
	}
}

static __attribute__((noinline)) struct truth_block site_work(size_t size)
{
	TRUTH_SITE(site);
	struct truth_block block = truth_took(&site, malloc(size), size);

	memset(block.ptr, (int)size, size);
	return block;
}

static void drop(struct truth_block *block)
{
	unsigned char *bytes = block->ptr;

	for (size_t i = 0; bytes && i < block->size; i++)
		if (bytes[i] != (unsigned char)block->size)
			abort();
	truth_gone(block);
	free(bytes);
}

static void work(size_t from, size_t to)
{
	find_ring();
	for (int i = 0; i < 20000; i++) {
		struct truth_block *block = &held[draw() % HELD];

		drop(block);
		*block = site_work(1 + draw() % 2000);
		if (i % 10 == 0)
			scribble(from, to);
	}
}

static void run_data(void)
{
	find_ring();
	work(3 * PAGE, ring.start ? (size_t)(ring.end - ring.start) : 4 * PAGE);
}

static void run_lanes(void)
{
	work(PAGE, PAGE + 8 * 256);
}

static void run_header(void)
{
	work(0, PAGE);
}

int main(int argc, char **argv)
{
	static const struct truth_workload workloads[] = {
		{ "data", NULL, run_data, 0 },
		{ "lanes", NULL, run_lanes, 0 },
		{ "header", NULL, run_header, 0 },
	};

	return truth_main(argc, argv, workloads, 3);
}
