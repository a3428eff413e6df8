/* SPDX-License-Identifier: Apache-2.0
 *
 * module-priv.h: the inside of a module, for those in unwind/ that register or read them.
 */
#ifndef HT_UNWIND_MODULE_PRIV_H
#define HT_UNWIND_MODULE_PRIV_H

#include <sys/stat.h>

#include "unwind/binary.h"
#include "unwind/cfi.h"
#include "unwind/module.h"

struct ht_module {
	uint32_t id;
	char *path;
	bool deleted;
	bool is_elf;		/* bytes and binary are meant */
	bool is_guarded;	/* mapped by guard.h, not allocated */
	bool is_memory;		/* copied from a target's memory */
	bool has_tried_table;
	bool has_tried_cfi;
	bool entry_has_cfi;	/* once that was tried */
	int fd;
	const uint8_t *bytes;
	size_t len;
	struct ht_binary binary;
	struct ht_table *table;
	struct ht_cfi *cfi;
};

/* Register the file open at @fd, whose fstat() is @st. Takes @fd over in any case.
 * -ENOEXEC: it is no ELF file (remembered: the next time costs one look-up). */
int ht_modules_add_file(struct ht_modules *modules, int fd, const struct stat *st,
			const char *path, bool deleted, struct ht_module **ret_module)
	_must_check_ _nonnull_;
/* The module of a file seen before, without reading it. 0, -ENOEXEC as above,
 * or -ENOENT. */
int ht_modules_find_file(const struct ht_modules *modules, const struct stat *st,
			 struct ht_module **ret_module) _must_check_ _nonnull_;
/* Register an image that was copied from a target's memory. Takes @bytes
 * (malloc) over. */
int ht_modules_add_memory(struct ht_modules *modules, uint8_t *bytes, size_t len,
			  const char *path, bool deleted, struct ht_module **ret_module)
	_must_check_ _nonnull_;
/* Register a file that can't be read: a module that has only its path. */
int ht_modules_add_unreadable(struct ht_modules *modules, const char *path, bool deleted,
			      struct ht_module **ret_module) _must_check_ _nonnull_;

/* The sections with its unwind data, found at the first call. NULL: it has none. */
const struct ht_cfi *ht_module_cfi(struct ht_module *module) _nonnull_;

#endif
