/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "ht_check.h"

struct ht_module {
	uint32_t id;
	char *path;
	char *build_id;
	struct ht_buf image;
	int fd;
};

struct ht_modules {
	struct ht_module *at[16];
	size_t n;
};

int ht_modules_new(struct ht_modules **ret_modules)
{
	*ret_modules = calloc(1, sizeof(**ret_modules));
	return *ret_modules ? 0 : -ENOMEM;
}

struct ht_modules *ht_modules_free(struct ht_modules *modules)
{
	size_t i;

	for (i = 0; modules && i < modules->n; i++) {
		ht_buf_fini(&modules->at[i]->image);
		ht_fd_close(modules->at[i]->fd);
		free(modules->at[i]->build_id);
		free(modules->at[i]->path);
		free(modules->at[i]);
	}
	free(modules);
	return NULL;
}

uint32_t fake_modules_add(struct ht_modules *modules, const char *path,
			  const char *image_file, const char *build_id)
{
	struct ht_module *module = calloc(1, sizeof(*module));

	ck_assert_ptr_nonnull(module);
	ck_assert_uint_lt(modules->n, 16);
	module->id = (uint32_t)modules->n;
	module->fd = -1;
	module->path = strdup(path);
	module->build_id = strdup(build_id);
	if (image_file)
		ck_ok(ht_buf_read_file(&module->image, AT_FDCWD, image_file, 64 << 20));
	modules->at[modules->n++] = module;
	return module->id;
}

uint32_t fake_modules_add_fd(struct ht_modules *modules, const char *path)
{
	uint32_t id = fake_modules_add(modules, path, NULL, "");

	modules->at[id]->fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(modules->at[id]->fd, 0);
	return id;
}

size_t ht_modules_count(const struct ht_modules *modules)
{
	return modules->n;
}

struct ht_module *ht_modules_at(const struct ht_modules *modules, uint32_t id)
{
	return id < modules->n ? modules->at[id] : NULL;
}

uint32_t ht_module_id(const struct ht_module *module)
{
	return module->id;
}

const char *ht_module_path(const struct ht_module *module)
{
	return module->path;
}

const char *ht_module_name(const struct ht_module *module)
{
	const char *slash = strrchr(module->path, '/');

	return slash ? slash + 1 : module->path;
}

const uint8_t *ht_module_build_id(const struct ht_module *module, size_t *ret_len)
{
	*ret_len = strlen(module->build_id);
	return (const uint8_t *)module->build_id;
}

const uint8_t *ht_module_image(const struct ht_module *module, size_t *ret_len)
{
	*ret_len = module->image.len;
	return (const uint8_t *)module->image.data;
}

int ht_module_fd(const struct ht_module *module)
{
	return module->fd;
}
