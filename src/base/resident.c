/* SPDX-License-Identifier: Apache-2.0
 *
 * resident.c: see resident.h.
 */
#include "base/resident.h"

#include <errno.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static void read_in(uintptr_t start, uintptr_t end)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *at = (void *)ht_align_down(start, page);
	size_t len = end - (uintptr_t)at;

	if (madvise(at, len, MADV_POPULATE_READ) < 0 && errno == EINVAL)
		(void)madvise(at, len, MADV_WILLNEED);
}

static int read_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD)
			read_in(start, start + phdr->p_memsz);
	}
	return 0;
}

void ht_resident_code(void)
{
	dl_iterate_phdr(read_object, NULL);
}
