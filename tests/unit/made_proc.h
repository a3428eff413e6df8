/* SPDX-License-Identifier: Apache-2.0
 *
 * made_proc.h: a /proc with process 42, "server" of the user that we are too, for tests
 * of what the command line makes of such facts. made_proc_put() changes one of its files.
 */
#ifndef HT_TESTS_UNIT_MADE_PROC_H
#define HT_TESTS_UNIT_MADE_PROC_H

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "attach/facts.h"
#include "deny.h"
#include "tool.h"

static char made_proc_root[64];

static inline void made_proc_write(const char *path, const void *data, size_t len)
{
	char full[256], *slash;
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", made_proc_root, path);
	slash = full + strlen(made_proc_root) + 1;
	for (; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		(void)mkdir(full, 0755);
		*slash = '/';
	}
	f = fopen(full, "we");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(data, 1, len, f), len);
	fclose(f);
}

static inline void made_proc_put(const char *path, const char *text)
{
	made_proc_write(path, text, strlen(text));
}

#define MADE_PROC_IDS                                                                     \
	"TracerPid:\t0\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\n"
#define MADE_PROC_STATUS "Name:\tserver\nTgid:\t42\nThreads:\t3\nCapPrm:\t0\n" MADE_PROC_IDS
#define MADE_PROC_SELF "Tgid:\t9\nCapPrm:\t0\n" MADE_PROC_IDS

static inline void made_proc_init(void)
{
	Elf64_Ehdr header = { .e_machine = EM_X86_64 };

	tool_mkdir(made_proc_root);
	ht_proc_root = made_proc_root;
	ht_cgroup_root = made_proc_root;
	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	made_proc_put("self/status", MADE_PROC_SELF "CapEff:\t0\n");
	made_proc_put("42/status", MADE_PROC_STATUS);
	made_proc_put("42/stat", "42 (server) S 7 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 "
				 "555 1 1 1 1 1 9");
	made_proc_put("42/comm", "server\n");
	made_proc_put("42/maps", "");
	made_proc_put("42/mem", "");
	made_proc_put("42/task/42/status", "Name:\tserver\nState:\tS (sleeping)\n");
	made_proc_write("42/exe", &header, sizeof(header));
}

/* From now on the kernel refuses to open its memory. */
static inline void made_proc_close(void)
{
	ck_assert(deny_syscall(SYS_openat, 2, O_RDWR, DENY_WITH(EACCES)));
}

static inline void made_proc_fini(void)
{
	tool_rmdir(made_proc_root);
}

#endif
