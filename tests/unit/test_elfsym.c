/* SPDX-License-Identifier: Apache-2.0
 *
 * test_elfsym.c: symbol lookup against a plain walk over real libraries, and on broken
 * images.
 */
#include "inject/elfsym.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "ht_check.h"

#define LIBDIR "/usr/lib/x86_64-linux-gnu/"

extern const char ht_asm_unsized[], ht_asm_after[];

__asm__(".text\n"
	".globl ht_asm_unsized\n"
	".type ht_asm_unsized, @function\n"
	"ht_asm_unsized: .skip 24, 0x90\n"
	".globl ht_asm_after\n"
	"ht_asm_after: ret\n");

struct file {
	struct ht_buf buf;
	struct ht_elfdyn view;
};

static void file_open(struct file *f, const char *path)
{
	f->buf = (struct ht_buf)HT_BUF_INIT;
	ck_ok(ht_buf_read_file(&f->buf, AT_FDCWD, path, 64 << 20));
	ck_ok(ht_elfdyn_open((const uint8_t *)f->buf.data, f->buf.len, &f->view));
}

/* What a walk over .dynsym says @name is: the default version, else the last one. */
static uint64_t walked(const struct ht_elfdyn *v, const char *wanted, bool *ret_several)
{
	uint64_t hidden = 0, value = 0;

	*ret_several = false;
	for (size_t i = 0; i < v->dynsym.count; i++) {
		uint16_t version = 0;
		Elf64_Sym sym = ht_elf_symtab_at(&v->dynsym, i);

		if (!ht_elf_symbol_usable(&sym) ||
		    !ht_elf_symtab_is(&v->dynsym, &sym, wanted, strlen(wanted)))
			continue;
		if (v->dynsym.versym)
			memcpy(&version, v->dynsym.versym + 2 * i, 2);
		*ret_several |= value || hidden;
		if (version & 0x8000)
			hidden = sym.st_value;
		else
			value = sym.st_value;
	}
	return value ? value : hidden;
}

static void check_library(const char *path, size_t at_least)
{
	struct file f;
	size_t n = 0;
	bool several;

	file_open(&f, path);
	ck_assert_msg(f.view.dynsym.count > at_least, "%s: %zu symbols", path,
		      f.view.dynsym.count);
	for (size_t i = 0; i < f.view.dynsym.count; i += 1 + f.view.dynsym.count / 400) {
		struct ht_elf_symbol found;
		Elf64_Sym sym = ht_elf_symtab_at(&f.view.dynsym, i);
		uint64_t value;
		size_t max;
		const char *name = ht_elf_symtab_name(&f.view.dynsym, &sym, &max);

		if (!ht_elf_symbol_usable(&sym))
			continue;
		value = walked(&f.view, name, &several);
		ck_ok(ht_elfdyn_symbol(&f.view, name, &found));
		/* Of several hidden versions any will do. */
		if (!several)
			ck_assert_msg(found.value == value, "%s: %s", path, name);
		ck_assert_msg(found.size > 0, "%s: %s: no size", path, name);
		n++;
	}
	ck_assert_uint_gt(n, 20);
	ht_buf_fini(&f.buf);
}

START_TEST(finds_what_libraries_export)
{
	check_library(LIBDIR "libc.so.6", 3000);
	check_library(LIBDIR "libjemalloc.so.2", 40);
	check_library(LIBDIR "libstdc++.so.6", 4000);
	check_library(LIBDIR "libmimalloc.so.2", 150);
	if (ht_check_have(!access("/lib/ld-musl-x86_64.so.1", R_OK), "musl"))
		check_library("/lib/ld-musl-x86_64.so.1", 1000);
}
END_TEST

START_TEST(prefers_the_default_version)
{
	struct ht_elf_symbol sym;
	struct file f;
	bool several;
	uint64_t value;

	file_open(&f, LIBDIR "libc.so.6");
	value = walked(&f.view, "memcpy", &several);
	ck_assert(several);
	ck_ok(ht_elfdyn_symbol(&f.view, "memcpy", &sym));
	ck_assert_uint_eq(sym.value, value);
	ck_assert(sym.ifunc);
	/* Only under an old version, still found. */
	ck_ok(ht_elfdyn_symbol(&f.view, "cfree", &sym));
	value = sym.value;
	ck_ok(ht_elfdyn_symbol(&f.view, "free", &sym));
	ck_assert_uint_eq(sym.value, value);
	ck_assert(!sym.ifunc && !sym.object);
	ck_ok(ht_elfdyn_symbol(&f.view, "environ", &sym));
	ck_assert(sym.object);
	ck_assert_int_eq(ht_elfdyn_symbol(&f.view, "no_such_function", &sym), -ENOENT);
	ck_assert_int_eq(ht_elfdyn_symbol(&f.view, "", &sym), -ENOENT);
	/* Thread-local, and undefined here: neither has an address. */
	ck_assert_int_eq(ht_elfdyn_symbol(&f.view, "errno", &sym), -ENOENT);
	ck_assert_int_eq(ht_elfdyn_symbol(&f.view, "__tls_get_addr", &sym), -ENOENT);
	ht_buf_fini(&f.buf);
}
END_TEST

START_TEST(reads_symtab_and_guesses_sizes)
{
	struct ht_elf_symbol sym, after;
	struct file f;

	file_open(&f, "/proc/self/exe");
	ck_ok(ht_elfdyn_symbol(&f.view, "ht_asm_unsized", &sym));
	ck_ok(ht_elfdyn_symbol(&f.view, "ht_asm_after", &after));
	ck_assert_uint_eq(sym.size, 24);
	ck_assert_uint_eq(after.value - sym.value, ht_asm_after - ht_asm_unsized);
	/* A static function of this file is known as well. */
	ck_ok(ht_elfdyn_symbol(&f.view, "check_library", &sym));
	ht_buf_fini(&f.buf);
}
END_TEST

/* The same answers by the other ways to find a symbol. */
START_TEST(every_way_finds_the_same)
{
	static const char *const names[] = { "malloc", "free", "cfree", "memcpy", "nothing" };
	struct ht_elf_symbol by[3];
	struct file f;

	file_open(&f, LIBDIR "libc.so.6");
	ck_assert_uint_gt(f.view.gnu_hash.len, 0);
	ck_assert_uint_gt(f.view.sysv_hash.len, 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct ht_elfdyn view = f.view;
		int r[3];

		r[0] = ht_elfdyn_symbol(&view, names[i], &by[0]);
		view.gnu_hash.len = 0;
		r[1] = ht_elfdyn_symbol(&view, names[i], &by[1]);
		view.sysv_hash.len = 0;
		r[2] = ht_elfdyn_symbol(&view, names[i], &by[2]);
		ck_assert_int_eq(r[0], r[1]);
		ck_assert_int_eq(r[0], r[2]);
		if (r[0] < 0)
			continue;
		ck_assert_uint_eq(by[0].value, by[1].value);
		ck_assert_uint_eq(by[0].value, by[2].value);
	}
	ht_buf_fini(&f.buf);
}
END_TEST

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void use(const uint8_t *image, size_t len)
{
	static const char *const names[] = { "mi_malloc", "free", "_Znwm", "absent", "mi_heap_new" };
	struct ht_elf_symbol sym;
	struct ht_elfdyn view;

	if (ht_elfdyn_open(image, len, &view) < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)!ht_elfdyn_symbol(&view, names[i], &sym);
	for (size_t i = 0; i < view.jmprel.count; i++)
		(void)ht_elf_relas_at(&view.jmprel, i);
}

START_TEST(broken_images_are_survived)
{
	uint64_t x = 88172645463325252u;
	struct file f;
	uint8_t *copy;

	file_open(&f, LIBDIR "libmimalloc.so.2");
	for (int round = 0; round < 400; round++) {
		/* Exactly as long, on the heap: ASan sees the first byte too far. */
		size_t len = round % 2 ? f.buf.len : next_random(&x) % f.buf.len;

		copy = malloc(len ? len : 1);
		memcpy(copy, f.buf.data, len);
		for (int i = 0; i < 4 + round % 60 && len > 64; i++) {
			/* Headers, hash tables and symbols are in the first 12 KiB. */
			size_t at = next_random(&x) % (i % 4 ? ht_min(len, (size_t)12288) : len);

			copy[at < 20 ? at + 20 : at] = i % 3 ? next_random(&x) : 0xff;
		}
		use(copy, len);
		free(copy);
	}
	use(NULL, 0);
	ht_buf_fini(&f.buf);
}
END_TEST

int main(void)
{
	return ht_check_run("elfsym", (const TTest *const[]){
					      finds_what_libraries_export,
					      prefers_the_default_version,
					      reads_symtab_and_guesses_sizes,
					      every_way_finds_the_same,
					      broken_images_are_survived,
					      NULL });
}
