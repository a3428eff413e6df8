/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_modules.h: a registry of modules for tests of symbol/ and report/, filled by hand:
 * from a file, or from nothing but a name.
 */
#ifndef HT_TESTS_UNIT_FAKE_MODULES_H
#define HT_TESTS_UNIT_FAKE_MODULES_H

#include "unwind/module.h"

/* The id is the number of the call. @image_file may be NULL: a module without bytes. */
uint32_t fake_modules_add(struct ht_modules *modules, const char *path,
			  const char *image_file, const char *build_id);
/* A module that is only behind an fd, as the large ones are. */
uint32_t fake_modules_add_fd(struct ht_modules *modules, const char *path);

#endif
