/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbols of what a process has mapped, through the real registry of modules: this very
 * process, a library that was deleted or replaced since, the vdso.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/fd.h"
#include "ht_check.h"
#include "symbol/symbol.h"
#include "tool.h"
#include "unwind/space.h"

struct fixture {
	int proc;
	int mem;
	struct ht_modules *modules;
	struct ht_space *space;
	struct ht_symbols *symbols;
};

static void setup(struct fixture *f)
{
	f->proc = open("/proc/self", O_DIRECTORY | O_PATH | O_CLOEXEC);
	f->mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	ck_assert(f->proc >= 0 && f->mem >= 0);
	ck_ok(ht_modules_new(&f->modules));
	ck_ok(ht_space_new(f->proc, f->mem, f->modules, &f->space));
	ck_ok(ht_symbols_new(f->modules, NULL, &f->symbols));
}

static void teardown(struct fixture *f)
{
	ht_symbols_free(f->symbols);
	ht_space_free(f->space);
	ht_modules_free(f->modules);
	ht_fd_close(f->proc);
	ht_fd_close(f->mem);
}

static const struct ht_symbol *lookup(struct fixture *f, ht_addr_t addr, size_t *n,
				      uint32_t *module)
{
	const struct ht_mapping *mapping = ht_space_find(f->space, addr);
	struct ht_frame frame = { .flags = HT_FRAME_EXACT };
	const struct ht_symbol *found;

	ck_assert_ptr_nonnull(mapping);
	ck_assert_ptr_nonnull(mapping->module);
	frame.module = *module = ht_module_id(mapping->module);
	frame.offset = addr - mapping->bias;
	ck_ok(ht_symbols_lookup(f->symbols, &frame, &found, n));
	return found;
}

START_TEST(own_functions)
{
	const struct ht_symbol *found;
	struct fixture f;
	uint32_t module;
	size_t n;

	setup(&f);
	found = lookup(&f, (uintptr_t)ht_symbols_new, &n, &module);
	ck_assert_str_eq(found[n - 1].name, "ht_symbols_new");
	ck_assert(!found[n - 1].unknown);
	found = lookup(&f, (uintptr_t)dlsym(RTLD_NEXT, "qsort"), &n, &module);
	ck_assert_ptr_nonnull(strstr(found[n - 1].name, "qsort"));
	ck_assert(!ht_symbols_module_bare(f.symbols, module));
	teardown(&f);
}
END_TEST

START_TEST(the_vdso)
{
	unsigned long base = getauxval(AT_SYSINFO_EHDR);
	const struct ht_symbol *found;
	struct fixture f;
	uint32_t module;
	void *self;
	size_t n;

	self = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (!ht_check_have(base && self && dlsym(self, "clock_gettime"), "vDSO"))
		return;
	setup(&f);
	found = lookup(&f, (uintptr_t)dlsym(self, "clock_gettime"), &n, &module);
	ck_assert_ptr_nonnull(strstr(found[n - 1].name, "clock_gettime"));
	teardown(&f);
	dlclose(self);
}
END_TEST

/* Replaced by another file, then deleted: what is mapped is what is named. */
START_TEST(a_deleted_library)
{
	const char *srcdir = getenv("HT_SRCDIR") ? getenv("HT_SRCDIR") : "..";
	const struct ht_symbol *found;
	char dir[64], path[128];
	struct fixture f;
	uint32_t module;
	void *plugin;
	size_t n;

	tool_mkdir(dir);
	ck_assert_int_eq(tool_run("${CC:-cc} -O2 -g -shared -fPIC %s/tests/unit/plugin.c"
				  " -o %s/plugin.so", srcdir, dir), 0);
	snprintf(path, sizeof(path), "%s/plugin.so", dir);
	plugin = dlopen(path, RTLD_NOW);
	ck_assert_msg(plugin != NULL, "%s", dlerror());
	ck_assert_int_eq(tool_run("cd %s && cp /bin/true other && mv other plugin.so", dir), 0);
	setup(&f);
	found = lookup(&f, (uintptr_t)dlsym(plugin, "plugin_work"), &n, &module);
	ck_assert(ht_module_deleted(ht_modules_at(f.modules, module)));
	ck_assert_str_eq(found[n - 1].name, "plugin_work");
	ck_assert_ptr_nonnull(found[n - 1].file);
	ck_assert_ptr_nonnull(strstr(found[n - 1].file, "plugin.c"));
	teardown(&f);
	dlclose(plugin);
	tool_rmdir(dir);
}
END_TEST

int main(void)
{
	return ht_check_run("symbol_live", (const TTest *const[]){
		own_functions, the_vdso, a_deleted_library, NULL });
}
