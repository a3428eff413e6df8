/* SPDX-License-Identifier: Apache-2.0
 *
 * module.c: see module.h.
 *
 * A build-id is what a file says of itself, so it alone doesn't make two files one: a
 * hostile target could else put its own unwind data under the name of libc for all
 * others. Images that were read are compared whole, mapped ones by their first pages.
 */
#include "unwind/module-priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/vec.h"
#include "unwind/cfi.h"
#include "unwind/guard.h"
#include "unwind/interp.h"
#include "unwind/table.h"

#define READ_MAX ((size_t)64 << 20)
#define MAP_MAX ((size_t)16 << 30)
/* What a target can make us hold: beyond it files are mapped, then not opened. */
#define READ_ALL_MAX ((size_t)1 << 30)
#define MODULES_MAX 65536
#define COMPARE_MAPPED ((size_t)16384)
#define DEBUG_DIR "/usr/lib/debug/.build-id"

/* A file as fstat() tells it. Good to recognise it again, not to trust it. */
struct identity {
	uint64_t dev;
	uint64_t ino;
	uint64_t size;
	uint64_t mtime_ns;
	struct ht_module *module;	/* NULL: no ELF file */
};

struct ht_modules {
	ht_vec(struct ht_module *) modules;
	ht_vec(struct identity) identities;
	struct ht_map by_identity;	/* hash of an identity to its index */
	struct ht_map by_build_id;	/* hash of build-id and size to the module's id */
	struct ht_map by_path;		/* unreadable ones: hash of the path to the id */
	size_t read_bytes;		/* held in memory by all modules */
};

static uint64_t hash_bytes(const void *data, size_t len, uint64_t seed)
{
	const uint8_t *p = data;
	uint64_t h = seed;

	while (len--)
		h = (h ^ *p++) * UINT64_C(0x100000001b3);
	return ht_hash64(h);
}

int ht_modules_new(struct ht_modules **ret_modules)
{
	struct ht_modules *modules = calloc(1, sizeof(*modules));

	if (!modules)
		return -ENOMEM;
	*ret_modules = modules;
	return 0;
}

static struct ht_module *module_free(struct ht_module *module)
{
	if (!module)
		return NULL;
	ht_table_free(module->table);
	if (module->cfi)
		ht_cfi_close(module->cfi);
	free(module->cfi);
	if (module->is_guarded)
		ht_guard_unmap(module->bytes, module->len);
	else
		free((void *)module->bytes);
	ht_fd_close(module->fd);
	free(module->path);
	free(module);
	return NULL;
}

static void module_freep(struct ht_module **module)
{
	*module = module_free(*module);
}

struct ht_modules *ht_modules_free(struct ht_modules *modules)
{
	struct ht_module **module;

	if (!modules)
		return NULL;
	ht_vec_foreach(module, &modules->modules)
		module_free(*module);
	ht_vec_fini(&modules->modules);
	ht_vec_fini(&modules->identities);
	ht_map_fini(&modules->by_identity);
	ht_map_fini(&modules->by_build_id);
	ht_map_fini(&modules->by_path);
	free(modules);
	return NULL;
}

size_t ht_modules_count(const struct ht_modules *modules)
{
	return modules->modules.len;
}

struct ht_module *ht_modules_at(const struct ht_modules *modules, uint32_t id)
{
	return id < modules->modules.len ? modules->modules.at[id] : NULL;
}

/* A module that isn't registered yet. Takes nothing over but on success. */
static int module_new(const char *path, bool deleted, struct ht_module **ret_module)
{
	struct ht_module *module = calloc(1, sizeof(*module));

	if (!module)
		return -ENOMEM;
	module->fd = -1;
	module->deleted = deleted;
	module->path = strdup(path);
	if (!module->path) {
		free(module);
		return -ENOMEM;
	}
	*ret_module = module;
	return 0;
}

/* Give @module its id. Takes it over in any case. */
static int enter(struct ht_modules *modules, struct ht_module *module,
		 struct ht_module **ret_module)
{
	struct ht_module **slot = NULL;

	if (modules->modules.len < MODULES_MAX)
		slot = ht_vec_push(&modules->modules);
	if (!slot) {
		module_free(module);
		return modules->modules.len < MODULES_MAX ? -ENOMEM : -ENOSPC;
	}
	if (!module->is_guarded)
		modules->read_bytes += module->len;
	module->id = (uint32_t)(modules->modules.len - 1);
	*slot = module;
	*ret_module = module;
	return 0;
}

static uint64_t identity_hash(const struct identity *id)
{
	uint64_t key[] = { id->dev, id->ino, id->size, id->mtime_ns };

	return hash_bytes(key, sizeof(key), 1);
}

static struct identity identity_of(const struct stat *st)
{
	return (struct identity){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000 +
			    (uint64_t)st->st_mtim.tv_nsec,
	};
}

int ht_modules_find_file(const struct ht_modules *modules, const struct stat *st,
			 struct ht_module **ret_module)
{
	struct identity want = identity_of(st), *have;
	uint64_t *index = ht_map_get(&modules->by_identity, identity_hash(&want));

	if (!index)
		return -ENOENT;
	have = &modules->identities.at[*index];
	if (have->dev != want.dev || have->ino != want.ino || have->size != want.size ||
	    have->mtime_ns != want.mtime_ns)
		return -ENOENT;
	if (!have->module)
		return -ENOEXEC;
	*ret_module = have->module;
	return 0;
}

/* @module NULL: the file is no ELF file. */
static int remember(struct ht_modules *modules, const struct stat *st,
		    struct ht_module *module)
{
	struct identity *id = ht_vec_push(&modules->identities);

	if (!id)
		return -ENOMEM;
	*id = identity_of(st);
	id->module = module;
	return ht_map_put(&modules->by_identity, identity_hash(id),
			  modules->identities.len - 1);
}

static uint64_t build_id_hash(const struct ht_module *module)
{
	return hash_bytes(module->binary.build_id, module->binary.build_id_len,
			  module->len);
}

static bool same_content(const struct ht_module *a, const struct ht_module *b)
{
	size_t len = a->len;

	if (a->len != b->len || a->is_memory != b->is_memory ||
	    a->binary.build_id_len != b->binary.build_id_len ||
	    memcmp(a->binary.build_id, b->binary.build_id, a->binary.build_id_len) != 0)
		return false;
	/* A copy from memory holds data that differs from process to process. */
	if (a->is_guarded || a->is_memory)
		len = ht_min(len, COMPARE_MAPPED);
	return !memcmp(a->bytes, b->bytes, len);
}

/* Register @module, or find that it's there already. Takes it over in any case. */
static int enter_elf(struct ht_modules *modules, struct ht_module *module,
		     struct ht_module **ret_module)
{
	uint64_t hash = build_id_hash(module), *id;
	int r;

	module->is_elf = true;
	if (!module->binary.build_id_len)
		return enter(modules, module, ret_module);
	id = ht_map_get(&modules->by_build_id, hash);
	if (id && same_content(modules->modules.at[*id], module)) {
		*ret_module = modules->modules.at[*id];
		module_free(module);
		return 0;
	}
	r = enter(modules, module, &module);
	if (r < 0)
		return r;
	*ret_module = module;
	return id ? 0 : ht_map_put(&modules->by_build_id, hash, module->id);
}

static int read_whole(int fd, size_t len, const uint8_t **ret_bytes)
{
	uint8_t *bytes = malloc(len);
	int r;

	if (!bytes)
		return -ENOMEM;
	r = ht_fd_pread_all(fd, bytes, len, 0);
	if (r < 0) {
		free(bytes);
		return r;
	}
	*ret_bytes = bytes;
	return 0;
}

/* -ENOEXEC when it can't be an ELF file of use. Else the header alone has been read. */
static int check_header(int fd, const struct stat *st)
{
	uint8_t header[sizeof(Elf64_Ehdr)];
	struct ht_elfview unused;
	int r;

	if (!S_ISREG(st->st_mode) || st->st_size < (off_t)sizeof(header) ||
	    (uint64_t)st->st_size > MAP_MAX)
		return -ENOEXEC;
	r = ht_fd_pread_all(fd, header, sizeof(header), 0);
	if (r < 0)
		return r;
	return ht_elfview_open(header, sizeof(header), &unused) < 0 ? -ENOEXEC : 0;
}

/* @budget: bytes that may be read; a file that is larger gets mapped. */
static int load_file(struct ht_module *module, const struct stat *st, size_t budget)
{
	int r = check_header(module->fd, st);

	if (r < 0)
		return r;
	module->len = (size_t)st->st_size;
	module->is_guarded = module->len > ht_min(READ_MAX, budget);
	if (module->is_guarded)
		r = ht_guard_map(module->fd, module->len, &module->bytes);
	else
		r = read_whole(module->fd, module->len, &module->bytes);
	if (r < 0)
		return r;
	/* A program may have thousands of files mapped, and we may not have as many open. */
	if (!module->is_guarded)
		module->fd = ht_fd_close(module->fd);
	return ht_binary_read(module->bytes, module->len, &module->binary) < 0 ? -ENOEXEC
									       : 0;
}

int ht_modules_add_file(struct ht_modules *modules, int fd, const struct stat *st,
			const char *path, bool deleted, struct ht_module **ret_module)
{
	_cleanup_(ht_fd_closep) int owned = fd;
	_cleanup_(module_freep) struct ht_module *module = NULL;
	int r = ht_modules_find_file(modules, st, ret_module);

	if (r != -ENOENT)
		return r;
	r = module_new(path, deleted, &module);
	if (r < 0)
		return r;
	module->fd = owned;
	owned = -1;
	r = load_file(module, st,
		      READ_ALL_MAX - ht_min(modules->read_bytes, READ_ALL_MAX));
	if (r == -ENOEXEC) {
		r = remember(modules, st, NULL);
		return r < 0 ? r : -ENOEXEC;
	}
	if (r < 0)
		return r;
	r = enter_elf(modules, module, ret_module);
	module = NULL;
	return r < 0 ? r : remember(modules, st, *ret_module);
}

int ht_modules_add_memory(struct ht_modules *modules, uint8_t *bytes, size_t len,
			  const char *path, bool deleted, struct ht_module **ret_module)
{
	struct ht_module *module;
	int r = -ENOSPC;

	if (modules->read_bytes + len <= READ_ALL_MAX)
		r = module_new(path, deleted, &module);
	if (r < 0) {
		free(bytes);
		return r;
	}
	module->bytes = bytes;
	module->len = len;
	module->is_memory = true;
	if (ht_binary_read(bytes, len, &module->binary) < 0) {
		module_free(module);
		return -ENOEXEC;
	}
	return enter_elf(modules, module, ret_module);
}

int ht_modules_add_unreadable(struct ht_modules *modules, const char *path, bool deleted,
			      struct ht_module **ret_module)
{
	uint64_t hash = hash_bytes(path, strlen(path), 2);
	uint64_t *id = ht_map_get(&modules->by_path, hash);
	struct ht_module *module;
	int r;

	if (id && !strcmp(modules->modules.at[*id]->path, path)) {
		*ret_module = modules->modules.at[*id];
		return 0;
	}
	r = module_new(path, deleted, &module);
	if (r < 0)
		return r;
	r = enter(modules, module, ret_module);
	return r < 0 ? r : ht_map_put(&modules->by_path, hash, (*ret_module)->id);
}

uint32_t ht_module_id(const struct ht_module *module)
{
	return module->id;
}

const char *ht_module_path(const struct ht_module *module)
{
	return module->path;
}

bool ht_module_deleted(const struct ht_module *module)
{
	return module->deleted;
}

const char *ht_module_name(const struct ht_module *module)
{
	const char *slash = strrchr(module->path, '/');

	return slash ? slash + 1 : module->path;
}

const uint8_t *ht_module_build_id(const struct ht_module *module, size_t *ret_len)
{
	*ret_len = module->binary.build_id_len;
	return module->binary.build_id;
}

const uint8_t *ht_module_image(const struct ht_module *module, size_t *ret_len)
{
	*ret_len = module->is_elf ? module->len : 0;
	return module->is_elf ? module->bytes : (const uint8_t *)"";
}

int ht_module_fd(const struct ht_module *module)
{
	return module->fd;
}

/* Open the file with the separate debug info, as distributions install it. */
static int open_debug(const struct ht_module *module)
{
	char path[sizeof(DEBUG_DIR) + 2 * HT_BUILD_ID_MAX + 16];
	size_t i;
	int n;

	if (module->binary.build_id_len < 2)
		return -ENOENT;
	n = snprintf(path, sizeof(path), DEBUG_DIR "/%02x/", module->binary.build_id[0]);
	for (i = 1; i < module->binary.build_id_len; i++)
		n += snprintf(path + n, sizeof(path) - (size_t)n, "%02x",
			      module->binary.build_id[i]);
	snprintf(path + n, sizeof(path) - (size_t)n, ".debug");
	return ht_errno_of(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

/*
 * Code without .eh_frame (musl's libc, say) may have a .debug_frame in its debug file.
 * Only then is that file, which may be huge, worth a look.
 */
static void compile_with_debug(struct ht_module *module)
{
	_cleanup_(module_freep) struct ht_module *debug = NULL;
	struct ht_table *table;
	struct stat st;

	if (module_new("", false, &debug) < 0)
		return;
	debug->fd = open_debug(module);
	if (debug->fd < 0 || fstat(debug->fd, &st) < 0 ||
	    load_file(debug, &st, READ_MAX) < 0)
		return;
	if (ht_table_compile(module->bytes, module->len, debug->bytes, debug->len,
			     &table) < 0)
		return;
	ht_table_free(module->table);
	module->table = table;
}

const struct ht_table *ht_module_table(struct ht_module *module)
{
	struct ht_table_stats stats;

	if (likely(module->has_tried_table) || !module->is_elf)
		return module->table;
	module->has_tried_table = true;
	if (ht_table_compile(module->bytes, module->len, NULL, 0, &module->table) < 0)
		module->table = NULL;
	if (module->table)
		ht_table_stats(module->table, &stats);
	if (!module->table || stats.gap_bytes > stats.text_bytes / 2)
		compile_with_debug(module);
	return module->table;
}

static bool describes_entry(const struct ht_module *module)
{
	size_t budget = HT_INTERP_BUDGET;
	struct ht_cfi_reader reader;
	struct ht_cfi_fde fde;

	return ht_cfi_find(module->cfi, module->binary.entry, &budget, &reader, &fde) == 0;
}

const struct ht_cfi *ht_module_cfi(struct ht_module *module)
{
	if (likely(module->has_tried_cfi) || !module->is_elf)
		return module->cfi;
	module->has_tried_cfi = true;
	module->cfi = calloc(1, sizeof(*module->cfi));
	if (module->cfi && ht_cfi_open(&module->binary.view, module->cfi) < 0) {
		free(module->cfi);
		module->cfi = NULL;
	}
	module->entry_has_cfi = module->cfi && describes_entry(module);
	return module->cfi;
}
