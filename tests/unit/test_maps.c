/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ht_check.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static struct ht_maps *parse(const char *text)
{
	struct ht_maps *maps = NULL;

	ck_ok(ht_maps_parse(text, strlen(text), &maps));
	return maps;
}

static void refuse(const char *text, size_t len)
{
	struct ht_maps *maps = NULL;

	ck_assert_msg(ht_maps_parse(text, len, &maps) == -EINVAL, "accepted: %s", text);
	ck_assert_ptr_null(maps);
}

START_TEST(reads_every_field)
{
	struct ht_maps *maps =
		parse("00400000-00452000 r-xp 00001000 fd:1a 173521      /usr/bin/a b\n"
		      "7f0000000000-7f0000001000 rw-s 00000000 00:00 0 \n"
		      "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0          "
		      "[vsyscall]\n");
	const struct ht_area *area;

	ck_assert_uint_eq(ht_maps_count(maps), 3);
	area = ht_maps_at(maps, 0);
	ck_assert_uint_eq(area->start, 0x400000);
	ck_assert_uint_eq(area->end, 0x452000);
	ck_assert_uint_eq(area->offset, 0x1000);
	ck_assert_uint_eq(area->dev_major, 0xfd);
	ck_assert_uint_eq(area->dev_minor, 0x1a);
	ck_assert_uint_eq(area->inode, 173521);
	ck_assert_uint_eq(area->prot, HT_PROT_READ | HT_PROT_EXEC);
	ck_assert_str_eq(area->path, "/usr/bin/a b");
	ck_assert(!area->deleted);
	area = ht_maps_at(maps, 1);
	ck_assert_uint_eq(area->prot, HT_PROT_READ | HT_PROT_WRITE | HT_PROT_SHARED);
	ck_assert_str_eq(area->path, "");
	ck_assert_str_eq(ht_maps_at(maps, 2)->path, "[vsyscall]");
	ck_assert_ptr_null(ht_maps_at(maps, 3));
	ht_maps_free(maps);
}
END_TEST

START_TEST(undoes_what_the_kernel_escapes)
{
	struct ht_maps *maps = parse(
		"1000-2000 r-xp 00000000 08:01 1 /a\\012b  c (deleted) (deleted)\n"
		"2000-3000 r-xp 00000000 08:01 2 /x\\01 (deleted)\n"
		"3000-4000 r-xp 00000000 08:01 3  (deleted)\n"
		"4000-5000 r-xp 00000000 08:01 4 /end\\012");

	ck_assert_str_eq(ht_maps_at(maps, 0)->path, "/a\nb  c (deleted)");
	ck_assert(ht_maps_at(maps, 0)->deleted);
	ck_assert_str_eq(ht_maps_at(maps, 1)->path, "/x\\01");
	ck_assert(ht_maps_at(maps, 1)->deleted);
	ck_assert_str_eq(ht_maps_at(maps, 2)->path, "(deleted)");
	ck_assert_str_eq(ht_maps_at(maps, 3)->path, "/end\n");
	ht_maps_free(maps);
}
END_TEST

START_TEST(refuses_what_no_kernel_writes)
{
	static const char *const bad[] = {
		"\n",
		"1000-2000\n",
		"2000-1000 r-xp 00000000 00:00 0 \n",
		"1000-1000 r-xp 00000000 00:00 0 \n",
		"1000-2000 r-xq 00000000 00:00 0 \n",
		"1000-2000 rwx 00000000 00:00 0 \n",
		"1000-2000 r-xp 00000000 00:0 x\n",
		"1000-2000 r-xp 00000000 00:00 0/usr\n",
		"-2000 r-xp 00000000 00:00 0 \n",
		"1000-10000000000000000 r-xp 00000000 00:00 0 \n",
		"1000-2000 r-xp 00000000 100000000:00 0 \n",
		"1000-2000 r-xp 00000000 00:00 99999999999999999999 \n",
		"1000-3000 r-xp 00000000 00:00 0 \n2000-4000 r-xp 00000000 00:00 0 \n",
		"3000-4000 r-xp 00000000 00:00 0 \n1000-2000 r-xp 00000000 00:00 0 \n",
		"1000-2000 R-xp 00000000 00:00 0 \n",
		"1000-2000 r-xp 00000000 00:00 0 \n\n",
	};
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refuse(bad[i], strlen(bad[i]));
	refuse("1000-2000 r-xp 00000000 00:00 0 /a\0b\n", 38);
}
END_TEST

START_TEST(finds_by_address)
{
	struct ht_maps *maps = parse("1000-2000 r--p 00000000 00:00 0 \n"
				     "2000-3000 rw-p 00000000 00:00 0 \n"
				     "5000-6000 r-xp 00000000 00:00 0 \n");

	ck_assert_ptr_null(ht_maps_find(maps, 0));
	ck_assert_ptr_null(ht_maps_find(maps, 0xfff));
	ck_assert_ptr_eq(ht_maps_find(maps, 0x1000), ht_maps_at(maps, 0));
	ck_assert_ptr_eq(ht_maps_find(maps, 0x1fff), ht_maps_at(maps, 0));
	ck_assert_ptr_eq(ht_maps_find(maps, 0x2000), ht_maps_at(maps, 1));
	ck_assert_ptr_null(ht_maps_find(maps, 0x3000));
	ck_assert_ptr_eq(ht_maps_find(maps, 0x5fff), ht_maps_at(maps, 2));
	ck_assert_ptr_null(ht_maps_find(maps, UINT64_MAX));
	ht_maps_free(maps);
}
END_TEST

START_TEST(gap_is_near_and_whole)
{
	struct ht_maps *maps = parse("400000-500000 r-xp 00000000 00:00 0 \n"
				     "501000-600000 r-xp 00000000 00:00 0 \n"
				     "700000-800000 r-xp 00000000 00:00 0 \n");

	/* One page fits between, two don't. */
	ck_assert_uint_eq(ht_maps_gap(maps, 0x480000, 0x580000, GIB, 0x1000), 0x500000);
	ck_assert_uint_eq(ht_maps_gap(maps, 0x580000, 0x590000, GIB, 0x2000), 0x600000);
	ck_assert_uint_eq(ht_maps_gap(maps, 0x400000, 0x410000, GIB, 0x2000), 0x3fe000);
	/* Every byte of it is within reach of every byte of the range. */
	ck_assert_uint_eq(ht_maps_gap(maps, 0x400000, 0x410000, 0x12000, 0x2000),
			  0x3fe000);
	ck_assert_uint_eq(ht_maps_gap(maps, 0x400000, 0x410000, 0x11000, 0x2000), 0);
	/* Nonsense. */
	ck_assert_uint_eq(ht_maps_gap(maps, 0x400000, 0x410000, GIB, 0), 0);
	ck_assert_uint_eq(ht_maps_gap(maps, 0x400000, 0x410000, GIB, 0x800), 0);
	ck_assert_uint_eq(ht_maps_gap(maps, 0x400000, 0x400000, GIB, 0x1000), 0);
	ht_maps_free(maps);
}
END_TEST

START_TEST(gap_keeps_clear)
{
	struct ht_maps *low = parse("20000-30000 r-xp 00000000 00:00 0 \n");
	struct ht_maps *heap = parse("400000-500000 r-xp 00000000 00:00 0 \n"
				     "500000-600000 rw-p 00000000 00:00 0 [heap]\n");
	struct ht_maps *full = parse("10000-400000 ---p 00000000 00:00 0 \n"
				     "400000-500000 r-xp 00000000 00:00 0 \n"
				     "500000-600000 rw-p 00000000 00:00 0 [heap]\n");
	struct ht_maps *stack = parse("10000-400000 r-xp 00000000 00:00 0 \n"
				      "8000000-9000000 rw-p 00000000 00:00 0 [stack]\n");
	struct ht_maps *top = parse("7ffffff00000-7fffffffe000 r-xp 00000000 00:00 0 \n");
	ht_addr_t at;

	ck_assert_uint_eq(ht_maps_gap(low, 0x20000, 0x30000, GIB, 0x10000), 0x10000);
	ck_assert_uint_eq(ht_maps_gap(low, 0x20000, 0x30000, GIB, 0x11000), 0x30000);
	/* Above the heap only when nothing else is left. */
	ck_assert_uint_eq(ht_maps_gap(heap, 0x4ff000, 0x500000, 2 * GIB, 0x1000),
			  0x3ff000);
	ck_assert_uint_eq(ht_maps_gap(full, 0x4ff000, 0x500000, GIB, 0x1000), 0x600000);
	ck_assert_uint_eq(ht_maps_gap(full, 0x4ff000, 0x500000, 2 * GIB, 0x1000),
			  0x600000 + GIB);
	/* 1 MiB below the stack at least. */
	at = ht_maps_gap(stack, 0x7f00000, 0x8000000, 8 * MIB, 0x1000);
	ck_assert_uint_eq(at, 0x8000000 - MIB - 0x1000);
	/* Not above user space. */
	ck_assert_uint_eq(ht_maps_gap(top, 0x7ffffffff000 - 0x2000,
				      0x7ffffffff000 - 0x1000, GIB, 0x1000),
			  0x7fffffffe000);
	ck_assert_uint_eq(ht_maps_gap(top, 0x7fffffffd000, 0x7fffffffe000, GIB, 0x2000),
			  0x7ffffff00000 - 0x2000);
	ht_maps_free(low);
	ht_maps_free(heap);
	ht_maps_free(full);
	ht_maps_free(stack);
	ht_maps_free(top);
}
END_TEST

START_TEST(reads_a_live_process)
{
	int procfd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const struct ht_area *area;
	struct ht_maps *maps;
	ht_addr_t gap;

	ck_assert_int_ge(procfd, 0);
	ck_ok(ht_maps_read(procfd, &maps));
	area = ht_maps_find(maps, (ht_addr_t)(uintptr_t)&reads_a_live_process);
	ck_assert_ptr_nonnull(area);
	area = ht_maps_find(maps, (ht_addr_t)(uintptr_t)ht_maps_read);
	ck_assert_ptr_nonnull(area);
	ck_assert(area->prot & HT_PROT_EXEC);
	ck_assert_ptr_nonnull(strstr(area->path, "test_maps"));
	/* The gap can be mapped, there. */
	gap = ht_maps_gap(maps, area->start, area->end, 2 * GIB - MIB, 0x10000);
	ck_assert_uint_ne(gap, 0);
	ck_assert_ptr_eq(mmap((void *)(uintptr_t)gap, 0x10000, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
			 (void *)(uintptr_t)gap);
	ht_maps_free(maps);
	close(procfd);
}
END_TEST

/* Two pipes under one name: who has read the first to its end finds the second. */
static void write_maps(const char *torn, const char *whole)
{
	int fd = open("maps", O_WRONLY | O_CLOEXEC);
	bool failed = write(fd, torn, strlen(torn)) < 0 || rename("next", "maps");

	close(fd);
	fd = open("maps", O_WRONLY | O_CLOEXEC);
	failed |= write(fd, whole, strlen(whole)) < 0;
	close(fd);
	_exit(failed);
}

/* An area that grew downward between two pages of the text. */
START_TEST(reads_again_what_was_torn)
{
	const char *whole = "5000-8000 rw-p 00000000 00:00 0 \n";
	const char *torn = "6000-8000 rw-p 00000000 00:00 0 \n"
			   "5000-8000 rw-p 00000000 00:00 0 \n";
	char dir[] = "/tmp/ht-maps-XXXXXX";
	struct ht_maps *maps;
	int dirfd, status;
	pid_t pid;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_ok(chdir(dir));
	ck_ok(mkfifo("maps", 0600));
	ck_ok(mkfifo("next", 0600));
	pid = fork();
	if (!pid)
		write_maps(torn, whole);
	dirfd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ck_ok(ht_maps_read(dirfd, &maps));
	ck_assert_uint_eq(ht_maps_count(maps), 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ht_maps_free(maps);
	close(dirfd);
	ck_ok(unlink("maps"));
	ck_ok(chdir("/"));
	ck_ok(rmdir(dir));
}
END_TEST

START_TEST(says_when_the_process_is_gone)
{
	struct ht_maps *maps = NULL;
	char path[32];
	int procfd;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	snprintf(path, sizeof(path), "/proc/%d", pid);
	procfd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(procfd, 0);
	/* A zombie has no memory either. */
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT),
			 0);
	ck_assert_int_eq(ht_maps_read(procfd, &maps), -ESRCH);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_int_eq(ht_maps_read(procfd, &maps), -ESRCH);
	ck_assert_ptr_null(maps);
	close(procfd);
}
END_TEST

int main(void)
{
	return ht_check_run(
		"maps",
		(const TTest *const[]){ reads_every_field, undoes_what_the_kernel_escapes,
					refuses_what_no_kernel_writes, finds_by_address,
					gap_is_near_and_whole, gap_keeps_clear,
					reads_a_live_process, reads_again_what_was_torn,
					says_when_the_process_is_gone, NULL });
}
