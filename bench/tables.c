/* SPDX-License-Identifier: Apache-2.0
 *
 * tables FILE...: how long the unwind tables of files take to compile, and how large they are.
 * A line for each: ms (CPU time, the median), and bytes of the table, of the text and of
 * .eh_frame with its header; "none FILE" where there is no unwind data.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "unwind/elfview.h"
#include "unwind/table.h"

#define ROUNDS 9

static double cpu_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static uint64_t eh_frame_bytes(const uint8_t *elf, size_t len)
{
	struct ht_elfview_section section;
	struct ht_elfview view;
	uint64_t bytes = 0;

	if (ht_elfview_open(elf, len, &view) < 0)
		return 0;
	for (unsigned i = 0; ht_elfview_section(&view, i, &section); i++)
		if (strcmp(section.name, ".eh_frame") == 0 ||
		    strcmp(section.name, ".eh_frame_hdr") == 0)
			bytes += section.len;
	return bytes;
}

static bool measure(const uint8_t *elf, size_t len, const char *path)
{
	struct ht_table_stats stats;
	struct ht_table *table;
	double ms[ROUNDS];
	size_t size;

	/* One more: the first reads the file. */
	for (int i = -1; i < ROUNDS; i++) {
		double start = cpu_ms();

		if (ht_table_compile(elf, len, NULL, 0, &table) < 0)
			return false;
		ms[ht_max(i, 0)] = cpu_ms() - start;
		ht_table_image(table, &size);
		ht_table_stats(table, &stats);
		ht_table_free(table);
	}
	qsort(ms, ROUNDS, sizeof(*ms), by_value);
	printf("%.2f %zu %llu %llu %s\n", ms[ROUNDS / 2], size,
	       (unsigned long long)stats.text_bytes,
	       (unsigned long long)eh_frame_bytes(elf, len), path);
	return true;
}

static bool measure_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	uint8_t *elf;

	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	elf = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	ht_fd_close(fd);
	return elf != MAP_FAILED && measure(elf, (size_t)st.st_size, path);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!measure_file(argv[i]))
			printf("none %s\n", argv[i]);
	return 0;
}
