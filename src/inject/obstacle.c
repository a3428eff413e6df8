/* SPDX-License-Identifier: Apache-2.0
 *
 * obstacle.c: why there is nothing to patch in a target, for people: what it is, and what to
 * do instead.
 */
#include <link.h>
#include <string.h>

#include "inject/draft.h"

#define MAGIC_MAX ((size_t)64 << 20)	/* bytes searched of a segment */

bool ht_planner_is_static(const struct ht_planner *p)
{
	const struct ht_image *image;
	Elf64_Phdr phdr;

	ht_vec_foreach(image, &p->images.all) {
		for (unsigned i = 0; ht_elfview_phdr(&image->view.elf, i, &phdr); i++) {
			if (phdr.p_type == PT_INTERP)
				return false;
		}
	}
	return true;
}

static bool defines(const struct ht_planner *p, const char *name)
{
	const struct ht_image *image;

	ht_vec_foreach(image, &p->images.all) {
		if (ht_elfdyn_find_dynamic(&image->view, name) >= 0)
			return true;
	}
	return false;
}

static bool has_module(const struct ht_planner *p, const char *prefix)
{
	const struct ht_image *image;

	ht_vec_foreach(image, &p->images.all) {
		if (!strncmp(ht_module_name(image->module), prefix, strlen(prefix)))
			return true;
	}
	return false;
}

/* The mark that Go's linker leaves for debug/buildinfo, in stripped programs too. */
static bool is_go(const struct ht_planner *p)
{
	static const char magic[] = "\xff Go buildinf:";
	const struct ht_image *image;

	ht_vec_foreach(image, &p->images.all) {
		for (unsigned i = 0; i < image->view.n_loads; i++) {
			const struct ht_elf_load *load = &image->view.loads[i];

			if (!load->exec && memmem(load->bytes, ht_min(load->filesz, MAGIC_MAX),
						  magic, strlen(magic)))
				return true;
		}
	}
	return false;
}

static bool has_symbols(const struct ht_planner *p)
{
	const struct ht_image *image;

	ht_vec_foreach(image, &p->images.all) {
		if (image->view.symtab.count)
			return true;
	}
	return false;
}

int ht_planner_obstacle(const struct ht_planner *p, struct ht_err *err)
{
	static const struct {
		const char *symbol, *name, *option;
	} sanitizers[] = {
		{ "__asan_init", "AddressSanitizer", "address" },
		{ "__hwasan_init", "HWAddressSanitizer", "hwaddress" },
		{ "__lsan_init", "LeakSanitizer", "leak" },
		{ "__msan_init", "MemorySanitizer", "memory" },
		{ "__tsan_init", "ThreadSanitizer", "thread" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(sanitizers); i++) {
		if (defines(p, sanitizers[i].symbol))
			return ht_err_set(err, HT_ERR_UNSUPPORTED, -ENOTSUP,
					  "it runs with %s, whose own allocator can't be tapped; build it without -fsanitize=%s",
					  sanitizers[i].name, sanitizers[i].option);
	}
	if (has_module(p, "vgpreload_core"))
		return ht_err_set(err, HT_ERR_UNSUPPORTED, -ENOTSUP,
				  "it runs under Valgrind, which runs a translation of its code; start it without");
	return 0;
}

/* glibc's loader is still at work on what the program was linked with. (While it loads more for
 * dlopen() an allocator is there.) */
static bool is_starting(const struct ht_planner *p)
{
	const struct ht_image *image;

	ht_vec_foreach(image, &p->images.all) {
		struct r_debug debug;
		Elf64_Sym sym;
		int64_t i = ht_elfdyn_find_dynamic(&image->view, "_r_debug");

		if (i < 0)
			continue;
		sym = ht_elf_symtab_at(&image->view.dynsym, (size_t)i);
		if (ht_images_read(&p->images, sym.st_value + image->bias, &debug,
				   sizeof(debug)) < 0)
			continue;
		return !debug.r_version || debug.r_state == RT_ADD;
	}
	return false;
}

int ht_planner_no_allocator(const struct ht_planner *p, struct ht_err *err)
{
	const struct ht_draft *broken = p->broken;

	if (p->unreadable && p->unreadable == p->compared)
		return ht_err_set(err, HT_ERR_GONE, -ESRCH, "the target's memory can't be read: it is gone");
	if (broken)
		return ht_err_set(err, HT_ERR_UNSUPPORTED, -ENOTSUP, "no allocator can be patched: '%s' of '%s': %s",
				  broken->site.kind->name, ht_module_name(broken->site.module),
				  broken->site.refused);
	if (is_starting(p))
		return ht_err_set(err, HT_ERR_FAILED, -EAGAIN, "it's being started, and its libraries aren't loaded yet; try again in a moment");
	if (is_go(p))
		return ht_err_set(err, HT_ERR_UNSUPPORTED, -ENOTSUP, "it's a Go program, whose memory comes from Go's runtime and not from malloc; use Go's own heap profile (runtime/pprof)");
	if (ht_planner_is_static(p) && !has_symbols(p))
		return ht_err_set(err, HT_ERR_UNSUPPORTED, -ENOTSUP, "it's a static program without symbols, so its malloc can't be found; run a build of it that isn't stripped");
	return ht_err_set(err, HT_ERR_UNSUPPORTED, -ENOTSUP, "it has no malloc and free; heaptap taps what is allocated by these");
}
