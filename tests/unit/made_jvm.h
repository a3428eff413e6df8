/* SPDX-License-Identifier: Apache-2.0
 *
 * made_jvm.h: this process with the JVM of fake_jvm.c in it, as the target of a test.
 */
#ifndef HT_TESTS_UNIT_MADE_JVM_H
#define HT_TESTS_UNIT_MADE_JVM_H

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "fake_jvm.h"
#include "ht_check.h"
#include "tool.h"
#include "unwind/space.h"

struct made_jvm {
	char dir[64];
	void *library;
	fake_jvm_make_fn make;
	fake_jvm_add_fn add;
	fake_jvm_inline_fn add_scopes;
	struct fake_jvm *jvm;
	uint8_t *code;
	struct ht_modules *modules;
	struct ht_space *space;
	int procfd, memfd;
};

static inline void *made_jvm_symbol(const struct made_jvm *m, const char *name)
{
	void *found = dlsym(m->library, name);

	ck_assert_ptr_nonnull(found);
	return found;
}

static inline void made_jvm_start(struct made_jvm *m)
{
	const char *srcdir = getenv("HT_SRCDIR") ? getenv("HT_SRCDIR") : "..";
	char path[128];

	tool_mkdir(m->dir);
	ck_assert_int_eq(tool_run("${CC:-cc} -O1 -shared -fPIC %s/tests/unit/fake_jvm.c -o "
				  "%s/libjvm.so", srcdir, m->dir), 0);
	snprintf(path, sizeof(path), "%s/libjvm.so", m->dir);
	m->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(m->library != NULL, "%s", dlerror());
	m->code = mmap(NULL, FAKE_SEGMENT * FAKE_SEGMENTS, PROT_READ | PROT_WRITE | PROT_EXEC,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(m->code != MAP_FAILED);
	*(void **)&m->make = made_jvm_symbol(m, "fake_jvm_make");
	*(void **)&m->add = made_jvm_symbol(m, "fake_jvm_add");
	*(void **)&m->add_scopes = made_jvm_symbol(m, "fake_jvm_inline");
	m->jvm = m->make(m->code);
	m->procfd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	m->memfd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	ck_ok(ht_modules_new(&m->modules));
	ck_ok(ht_space_new(m->procfd, m->memfd, m->modules, &m->space));
}

static inline void made_jvm_stop(struct made_jvm *m)
{
	ht_space_free(m->space);
	ht_modules_free(m->modules);
	ht_fd_close(m->memfd);
	ht_fd_close(m->procfd);
	munmap(m->code, FAKE_SEGMENT * FAKE_SEGMENTS);
	dlclose(m->library);
	tool_rmdir(m->dir);
}

/* In the middle of a segment. */
static inline uint64_t made_jvm_pc(const struct made_jvm *m, unsigned segment)
{
	return (uintptr_t)m->code + segment * FAKE_SEGMENT + 100;
}

#endif
