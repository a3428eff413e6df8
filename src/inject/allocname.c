/* SPDX-License-Identifier: Apache-2.0
 *
 * allocname.c: see allocname.h. By symbols that only one allocator has, else by strings;
 * the version by strings, or by the code that returns it.
 */
#include "inject/allocname.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "inject/elfsym.h"

#define SEARCH_MAX (UINT64_C(64) << 20)
#define VERSION_MAX 24

static bool has_symbol(const struct ht_elfdyn *view, const char *const names[],
		       struct ht_elf_symbol *ret)
{
	for (; *names; names++) {
		if (!ht_elfdyn_symbol(view, *names, ret))
			return true;
	}
	return false;
}

/* Where the read-only data of the file has @needle, and how many bytes follow it. */
static const char *find_bytes(const struct ht_elfdyn *view, const char *needle,
			      size_t needle_len, size_t *ret_left)
{
	for (unsigned i = 0; i < view->n_loads; i++) {
		const struct ht_elf_load *load = &view->loads[i];
		size_t len = ht_min(load->filesz, SEARCH_MAX);
		const uint8_t *at;

		if (load->write)
			continue;
		at = memmem(load->bytes, len, needle, needle_len);
		if (at) {
			*ret_left = len - (size_t)(at - load->bytes) - needle_len;
			return (const char *)at + needle_len;
		}
	}
	return NULL;
}

/* Digits and dots at @s, beginning with a digit and with a dot in them; 0: none. */
static size_t version_len(const char *s, size_t max)
{
	size_t n = 0, dots = 0;

	while (n < max && n < VERSION_MAX && ((s[n] >= '0' && s[n] <= '9') || s[n] == '.'))
		dots += s[n++] == '.';
	while (n && s[n - 1] == '.') {
		n--;
		dots--;
	}
	return dots && *s != '.' ? n : 0;
}

static void set_name(char *name, size_t cap, const char *family, const char *version,
		     size_t len)
{
	snprintf(name, cap, "%s%s%.*s", family, len ? " " : "", (int)len, len ? version : "");
}

/* The version that stands right behind @before. */
static void name_by_string(const struct ht_elfdyn *view, const char *family,
			   const char *before, char *name, size_t cap)
{
	const char *s;
	size_t left = 0;

	s = find_bytes(view, before, strlen(before), &left);
	set_name(name, cap, family, s, s ? version_len(s, left) : 0);
}

/* What may stand behind the version in jemalloc's string: -0-g and a commit. */
static bool jemalloc_tail(const char *s, size_t max)
{
	size_t n = 1;

	if (max < 4 || s[0] != '-')
		return false;
	while (n < max && s[n] >= '0' && s[n] <= '9')
		n++;
	return max - n >= 2 && s[n] == '-' && s[n + 1] == 'g';
}

static bool no_tail(const char *s, size_t max)
{
	return !max;
}

/* A string of its own that begins with a version. */
static const char *whole_string(const char *s, const char *end,
				bool (*tail)(const char *s, size_t max), size_t *ret_len)
{
	const char *nul;
	size_t n;

	for (; s < end; s = nul + 1) {
		nul = memchr(s, 0, end - s);
		if (!nul)
			return NULL;
		n = version_len(s, nul - s);
		if (n && tail(s + n, nul - s - n)) {
			*ret_len = n;
			return s;
		}
	}
	return NULL;
}

static void name_by_whole_string(const struct ht_elfdyn *view, const char *family,
				 bool (*tail)(const char *s, size_t max), char *name,
				 size_t cap)
{
	const char *found = NULL;
	size_t n = 0;

	for (unsigned i = 0; !found && i < view->n_loads; i++) {
		const struct ht_elf_load *load = &view->loads[i];
		const char *s = (const char *)load->bytes;

		if (!load->write && !load->exec)
			found = whole_string(s, s + ht_min(load->filesz, SEARCH_MAX), tail, &n);
	}
	set_name(name, cap, family, found, n);
}

/* int mi_version(void) { return 209; }: mov $imm32, %eax, maybe behind an endbr64. */
static void name_mimalloc(const struct ht_elfdyn *view, char *name, size_t cap)
{
	static const char *const version_fn[] = { "mi_version", NULL };
	struct ht_elf_symbol sym;
	char version[VERSION_MAX];
	const uint8_t *code = NULL;
	size_t len = 0, at = 0;
	uint32_t n;

	if (has_symbol(view, version_fn, &sym))
		code = ht_elfdyn_at(view, sym.value, &len);
	if (code && len >= 16 && code[0] == 0xf3)
		at = 4;
	if (!code || len < 16 || code[at] != 0xb8) {
		set_name(name, cap, "mimalloc", NULL, 0);
		return;
	}
	memcpy(&n, code + at + 1, sizeof(n));
	snprintf(version, sizeof(version), "%u.%u.%u", n / 100, n / 10 % 10, n % 10);
	set_name(name, cap, "mimalloc", version, strlen(version));
}

enum ht_family ht_allocator_name(const struct ht_elfdyn *view, const char *module_name,
				 char *name, size_t cap)
{
	static const char *const jemalloc[] = { "mallocx", "je_mallocx", "_rjem_mallocx", NULL };
	static const char *const tcmalloc[] = { "tc_version", "tc_malloc",
						"TCMalloc_SystemAlloc", NULL };
	/* heaptrack's own library has mi_malloc, and a few more that it intercepts. */
	static const char *const mimalloc[] = { "mi_version", "mi_heap_malloc", NULL };
	static const char *const glibc[] = { "gnu_get_libc_version", NULL };
	static const char *const glibc_malloc[] = { "__libc_malloc", NULL };
	static const char *const glibc_memalign[] = { "__libc_memalign", NULL };
	struct ht_elf_symbol sym;
	size_t left;

	if (has_symbol(view, jemalloc, &sym)) {
		name_by_whole_string(view, "jemalloc", jemalloc_tail, name, cap);
		return HT_FAMILY_JEMALLOC;
	}
	if (has_symbol(view, tcmalloc, &sym)) {
		name_by_string(view, "tcmalloc", "gperftools ", name, cap);
		return HT_FAMILY_TCMALLOC;
	}
	if (has_symbol(view, mimalloc, &sym)) {
		name_mimalloc(view, name, cap);
		return HT_FAMILY_MIMALLOC;
	}
	/* Static programs don't always link the first; sanitizers have only the last. */
	if (has_symbol(view, glibc, &sym) || (has_symbol(view, glibc_malloc, &sym) &&
					      has_symbol(view, glibc_memalign, &sym))) {
		name_by_string(view, "glibc", "stable release version ", name, cap);
		return HT_FAMILY_GLIBC;
	}
	if (find_bytes(view, "musl libc (", 11, &left)) {
		name_by_whole_string(view, "musl", no_tail, name, cap);
		return HT_FAMILY_MUSL;
	}
	snprintf(name, cap, "malloc in %s", module_name);
	return HT_FAMILY_OTHER;
}
