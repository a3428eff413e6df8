/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/vma.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ht_check.h"

typedef int (*find_fn)(int procfd, ht_addr_t addr, struct ht_vma *ret_vma);

static const find_fn finds[] = { ht_vma_find, ht_vma_find_in_text };

static ht_addr_t addr_of(const void *p)
{
	return (ht_addr_t)(uintptr_t)p;
}

START_TEST(finds_the_right_one)
{
	int procfd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char *area = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ht_vma vma;

	munmap(area + 4096, 4096);
	mprotect(area + 8192, 4096, PROT_READ);
	ck_ok(finds[_i](procfd, addr_of(area) + 4095, &vma));
	ck_assert(vma.writable && !vma.is_stack);
	ck_assert_uint_eq(vma.end, addr_of(area) + 4096);
	ck_assert_int_eq(finds[_i](procfd, addr_of(area) + 4096, &vma), -ENOENT);
	ck_ok(finds[_i](procfd, addr_of(area) + 8192, &vma));
	ck_assert(!vma.writable);
	ck_assert_uint_eq(vma.start, addr_of(area) + 8192);
	ck_ok(finds[_i](procfd, addr_of((const void *)(uintptr_t)getpid), &vma));
	ck_assert(!vma.writable && !vma.is_stack);
	ck_assert_int_eq(finds[_i](procfd, 0, &vma), -ENOENT);
	close(procfd);
}
END_TEST

START_TEST(knows_the_stack)
{
	int procfd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct ht_vma vma;

	/* The strings that the kernel put at its top. */
	ck_ok(finds[_i](procfd, addr_of(getenv("PATH")), &vma));
	ck_assert(vma.is_stack && vma.writable);
	close(procfd);
	ck_assert_int_lt(finds[_i](-1, 0, &vma), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("vma");
	TCase *tcase = tcase_create("vma");

	tcase_add_loop_test(tcase, finds_the_right_one, 0, 2);
	tcase_add_loop_test(tcase, knows_the_stack, 0, 2);
	suite_add_tcase(suite, tcase);
	return ht_check_run_suite(suite);
}
