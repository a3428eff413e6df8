/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/module-priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "ht_check.h"

/* A file in memory with the bytes of this test program, @grow zeros behind them, and byte
 * @flip changed (0: none). */
static int copy_of_self(size_t grow, size_t flip)
{
	struct ht_buf buf = HT_BUF_INIT;
	int fd = memfd_create("copy", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_ok(ht_buf_read_file(&buf, AT_FDCWD, "/proc/self/exe", SIZE_MAX / 4));
	if (flip)
		buf.data[flip] ^= 1;
	ck_assert_int_eq(write(fd, buf.data, buf.len), (ssize_t)buf.len);
	ck_assert_int_eq(ftruncate(fd, (off_t)(buf.len + grow)), 0);
	ht_buf_fini(&buf);
	return fd;
}

static int add(struct ht_modules *modules, int fd, const char *path,
	       struct ht_module **ret_module)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	return ht_modules_add_file(modules, fd, &st, path, false, ret_module);
}

static struct ht_modules *new_registry(void)
{
	struct ht_modules *modules;

	ck_ok(ht_modules_new(&modules));
	ck_assert_uint_eq(ht_modules_count(modules), 0);
	return modules;
}

START_TEST(tells_what_it_is)
{
	struct ht_modules *modules = new_registry();
	struct ht_module *module;
	const uint8_t *image;
	size_t len;
	int fd = copy_of_self(0, 0);

	ck_ok(add(modules, fd, "/usr/bin/some thing", &module));
	ck_assert_str_eq(ht_module_path(module), "/usr/bin/some thing");
	ck_assert_str_eq(ht_module_name(module), "some thing");
	ck_assert(!ht_module_deleted(module));
	ck_assert_ptr_eq(ht_modules_at(modules, ht_module_id(module)), module);
	ck_assert_ptr_null(ht_modules_at(modules, ht_module_id(module) + 1));
	ck_assert_ptr_null(ht_modules_at(modules, UINT32_MAX));
	image = ht_module_image(module, &len);
	ck_assert_mem_eq(image, "\177ELF", 4);
	/* Read whole, it needs to be open no more. */
	ck_assert_int_eq(ht_module_fd(module), -1);
	ht_module_build_id(module, &len);
	ck_assert_uint_ge(len, 8);
	ht_modules_free(modules);
}
END_TEST

START_TEST(one_module_per_content)
{
	struct ht_modules *modules = new_registry();
	struct ht_module *a, *b, *c, *d;
	size_t len, flip;

	ck_ok(add(modules, copy_of_self(0, 0), "/a", &a));
	ck_ok(add(modules, copy_of_self(0, 0), "/b", &b));
	ck_assert_ptr_eq(a, b);
	ck_assert_str_eq(ht_module_path(b), "/a");
	/* The same build-id on another size, or on other bytes, is another module. */
	ck_ok(add(modules, copy_of_self(4096, 0), "/c", &c));
	ck_assert_ptr_ne(a, c);
	ht_module_image(a, &len);
	flip = len / 2;
	ck_ok(add(modules, copy_of_self(0, flip), "/d", &d));
	ck_assert_ptr_ne(a, d);
	ck_assert_uint_eq(ht_modules_count(modules), 3);
	ht_modules_free(modules);
}
END_TEST

START_TEST(truncation_later_is_harmless)
{
	struct ht_modules *modules = new_registry();
	int fd = copy_of_self(0, 0), other = dup(fd);
	struct ht_module *module;
	const uint8_t *image;
	size_t len, i;
	unsigned sum = 0;

	ck_ok(add(modules, fd, "/a", &module));
	ck_assert_int_eq(ftruncate(other, 0), 0);
	image = ht_module_image(module, &len);
	for (i = 0; i < len; i += 4096)
		sum += image[i];
	ck_assert_uint_ne(sum, 0);
	close(other);
	ht_modules_free(modules);
}
END_TEST

/* More than is read into memory: mapped, and truncated under our feet. */
START_TEST(large_files_are_guarded)
{
	struct ht_modules *modules = new_registry();
	int fd = copy_of_self((size_t)65 << 20, 0), other = dup(fd);
	struct ht_module *module;
	const uint8_t *image;
	size_t len;

	ck_ok(add(modules, fd, "/large", &module));
	image = ht_module_image(module, &len);
	ck_assert_uint_gt(len, (size_t)64 << 20);
	ck_assert_int_eq(ftruncate(other, 4096), 0);
	ck_assert_uint_eq(image[len - 1], 0);
	ck_assert_ptr_null(ht_module_table(module));
	close(other);
	ht_modules_free(modules);
}
END_TEST

START_TEST(refuses_what_is_no_elf)
{
	struct ht_modules *modules = new_registry();
	struct ht_module *module = NULL;
	int fd = memfd_create("text", MFD_CLOEXEC), again = dup(fd), dir;
	struct stat st;

	ck_assert_int_eq(ftruncate(fd, 10000), 0);
	ck_assert_int_eq(add(modules, fd, "/text", &module), -ENOEXEC);
	ck_assert_int_eq(fstat(again, &st), 0);
	ck_assert_int_eq(ht_modules_find_file(modules, &st, &module), -ENOEXEC);
	close(again);
	dir = open("/", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(add(modules, dir, "/", &module), -ENOEXEC);
	ck_assert_ptr_null(module);
	ck_assert_uint_eq(ht_modules_count(modules), 0);
	ht_modules_free(modules);
}
END_TEST

START_TEST(unreadable_has_a_name_only)
{
	struct ht_modules *modules = new_registry();
	struct ht_module *a, *b;
	size_t len;

	ck_ok(ht_modules_add_unreadable(modules, "/x/liba.so", true, &a));
	ck_ok(ht_modules_add_unreadable(modules, "/x/liba.so", true, &b));
	ck_assert_ptr_eq(a, b);
	ck_assert_str_eq(ht_module_name(a), "liba.so");
	ck_assert(ht_module_deleted(a));
	ck_assert_ptr_nonnull(ht_module_image(a, &len));
	ck_assert_uint_eq(len, 0);
	ht_module_build_id(a, &len);
	ck_assert_uint_eq(len, 0);
	ck_assert_int_eq(ht_module_fd(a), -1);
	ck_assert_ptr_null(ht_module_table(a));
	ht_modules_free(modules);
	ht_modules_free(NULL);
}
END_TEST

START_TEST(table_is_made_once)
{
	struct ht_modules *modules = new_registry();
	struct ht_module *module;

	ck_ok(add(modules, copy_of_self(0, 0), "/a", &module));
	ck_assert_ptr_nonnull(ht_module_table(module));
	ck_assert_ptr_eq(ht_module_table(module), ht_module_table(module));
	ht_modules_free(modules);
}
END_TEST

int main(void)
{
	return ht_check_run("module",
			    (const TTest *const[]){
				    tells_what_it_is, one_module_per_content,
				    truncation_later_is_harmless, large_files_are_guarded,
				    refuses_what_is_no_elf, unreadable_has_a_name_only,
				    table_is_made_once, NULL });
}
