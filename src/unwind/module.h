/* SPDX-License-Identifier: Apache-2.0
 *
 * module.h: the ELF files that targets have mapped, each opened once per build-id (or, for
 * want of one, per device, inode and size) and shared between targets.
 *
 * All that a file says is checked before use; a malformed file makes a module without
 * unwind data, never a failure of the tool.
 */
#ifndef HT_UNWIND_MODULE_H
#define HT_UNWIND_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/maps.h"

#define HT_BUILD_ID_MAX 32

struct ht_modules;	/* the registry; owns the modules */
struct ht_module;
struct ht_table;	/* table.h */

int ht_modules_new(struct ht_modules **ret_modules) _must_check_ _nonnull_;
struct ht_modules *ht_modules_free(struct ht_modules *modules);
size_t ht_modules_count(const struct ht_modules *modules) _nonnull_;
/* NULL for an id that was never given out (HT_MODULE_NONE too). */
struct ht_module *ht_modules_at(const struct ht_modules *modules, uint32_t id) _nonnull_;

uint32_t ht_module_id(const struct ht_module *module) _nonnull_;
/* The path as the target sees it, and whether that file was deleted or replaced. */
const char *ht_module_path(const struct ht_module *module) _nonnull_;
bool ht_module_deleted(const struct ht_module *module) _nonnull_;
/* The last part of the path. */
const char *ht_module_name(const struct ht_module *module) _nonnull_;
/* Length 0 when the file has none. */
const uint8_t *ht_module_build_id(const struct ht_module *module, size_t *ret_len)
	_nonnull_;
/* The ELF image, read-only and whole; lives as long as the registry. Files of up to
 * 64 MiB are read into memory, so that truncating one later can't fault the tool; larger
 * ones are mapped, and a guard turns such a fault into an error. */
const uint8_t *ht_module_image(const struct ht_module *module, size_t *ret_len) _nonnull_;
/* An fd open on the file, owned by the module, if it is mapped; -1 for what was read into
 * memory, and for what couldn't be read at all. */
int ht_module_fd(const struct ht_module *module) _nonnull_;
/* The unwind table, compiled at the first call. NULL: it has none. */
const struct ht_table *ht_module_table(struct ht_module *module) _nonnull_;

#endif
