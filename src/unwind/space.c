/* SPDX-License-Identifier: Apache-2.0
 *
 * space.c: see space.h.
 *
 * Where the bytes of a mapped file come from, best first:
 *
 *	map_files/START-END	the very file, even if it was deleted or replaced, and in
 *				any mount namespace; needs a capability
 *	root/ + path		if it is the same inode, or has the same first pages
 *	exe			the main program, also when it was deleted
 *	memory			what is mapped of it: enough for unwinding
 */
#include "unwind/space.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/vec.h"
#include "unwind/module-priv.h"

#define PAGE 4096
/* The areas of one module lie together. */
#define MODULE_AREAS 256
#define MEMORY_IMAGE_MAX ((size_t)64 << 20)

struct mappings {
	struct ht_mapping *at;
	size_t len;
	size_t cap;
};

struct ht_space {
	int procfd;
	int memfd;
	struct ht_modules *modules;
	struct ht_maps *maps;
	struct mappings mappings;
	struct mappings made;		/* by address, without overlaps */
	uint64_t generation;
};

/* A file that the target has mapped at least once with execute permission. */
struct file {
	const struct ht_area *area;	/* the first of its areas */
	bool executable;
	bool resolved;
	struct ht_module *module;
	bool has_bias;
	uint64_t bias;			/* of its last area */
};

/* One re-read while it is under way. */
struct reading {
	struct ht_space *space;
	struct ht_maps *maps;
	int rootfd;
	ht_vec(struct file) files;
	struct ht_map by_key;		/* hash to index in files */
	struct mappings mappings;
};

static bool is_file(const struct ht_area *area)
{
	return area->path[0] == '/' && area->inode;
}

static bool same_file(const struct ht_area *a, const struct ht_area *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && a->deleted == b->deleted &&
	       !strcmp(a->path, b->path);
}

static uint64_t file_key(const struct ht_area *area)
{
	uint64_t dev = (uint64_t)area->dev_major << 32 | area->dev_minor;
	uint64_t h = ht_hash64(ht_hash64(dev) ^ area->inode);
	const char *p;

	for (p = area->path; *p; p++)
		h = (h ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
	return h;
}

/* ---- opening ---- */

/* Nothing that the file could help: we are short of memory or files. */
static bool is_shortage(int error)
{
	return error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}

static bool same_inode(const struct stat *st, const struct ht_area *area)
{
	return st->st_ino == area->inode && major(st->st_dev) == area->dev_major &&
	       minor(st->st_dev) == area->dev_minor;
}

/* Take hold of the file without opening it: opening a device does things. */
static int grab_map_files(const struct reading *reading, const struct ht_area *area)
{
	char path[64];

	snprintf(path, sizeof(path), "map_files/%" PRIx64 "-%" PRIx64, area->start,
		 area->end);
	return ht_errno_of(openat(reading->space->procfd, path, O_PATH | O_CLOEXEC));
}

/* Links in the path are the target's, and must not lead out of its root. */
static int grab_path(const struct reading *reading, const struct ht_area *area)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	int fd;

	if (reading->rootfd < 0)
		return -ENOENT;
	fd = ht_errno_of(
		syscall(SYS_openat2, reading->rootfd, area->path, &how, sizeof(how)));
	if (fd != -ENOSYS)
		return fd;
	return ht_errno_of(openat(reading->rootfd, area->path + 1,
				  O_PATH | O_CLOEXEC | O_NOFOLLOW));
}

static int reopen(int grabbed)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", grabbed);
	return ht_errno_of(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

/* Behind the last area that may belong to the instance of the file that starts
 * at @first. */
static const struct ht_area *end_of_module(const struct ht_maps *maps,
					   const struct ht_area *first)
{
	const struct ht_area *all = ht_maps_at(maps, 0);
	size_t left = ht_maps_count(maps) - (size_t)(first - all), i;

	for (i = 1; i < ht_min(left, (size_t)MODULE_AREAS); i++)
		if (!first[i].offset && same_file(&first[i], first) && !first->offset &&
		    !(first[i].prot & HT_PROT_EXEC))
			break;
	return first + ht_min(i, left);
}

static bool page_in_memory_is(const struct ht_space *space, int fd,
			      const struct ht_area *area)
{
	uint8_t file[PAGE] = { 0 }, memory[PAGE];

	if (pread(fd, file, PAGE, (off_t)area->offset) <= 0 || space->memfd < 0)
		return false;
	return !ht_fd_pread_all(space->memfd, memory, PAGE, area->start) &&
	       !memcmp(file, memory, PAGE);
}

/* The file at the path, which isn't the mapped inode as far as numbers tell (btrfs and
 * overlayfs report other devices; an upgrade replaces the file), has the mapped content:
 * the first page, with headers and mostly the build-id, and the first page of text. */
static bool has_content(const struct reading *reading, int fd,
			const struct ht_area *first)
{
	const struct ht_area *area = first, *end = end_of_module(reading->maps, first);
	bool text = false, header = false;

	for (; area < end && !(text && header); area++) {
		if (!same_file(area, first))
			continue;
		if (area->offset && !(area->prot & HT_PROT_EXEC))
			continue;
		if (!page_in_memory_is(reading->space, fd, area))
			return false;
		header |= !area->offset;
		text |= (area->prot & HT_PROT_EXEC) != 0;
	}
	return header;
}

/* Register what @grabbed (an O_PATH fd) is. @checked: it is known to be the
 * right file. */
static int add_grabbed(const struct reading *reading, const struct ht_area *area,
		       int grabbed, bool checked, struct ht_module **ret_module)
{
	_cleanup_(ht_fd_closep) int fd = -1;
	struct stat st;
	int r;

	r = ht_errno_of(fstat(grabbed, &st));
	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode))
		return checked ? -ENOEXEC : -ENOENT;
	checked |= same_inode(&st, area);
	if (checked) {
		r = ht_modules_find_file(reading->space->modules, &st, ret_module);
		if (r != -ENOENT)
			return r;
	}
	fd = reopen(grabbed);
	if (fd < 0)
		return fd;
	if (!checked && !has_content(reading, fd, area))
		return -ENOENT;
	r = ht_modules_add_file(reading->space->modules, fd, &st, area->path,
				area->deleted, ret_module);
	fd = -1;
	return r;
}

static int from_file(const struct reading *reading, const struct ht_area *area,
		     struct ht_module **ret_module)
{
	enum { MAP_FILES, PATH, EXE, WAYS } way;
	int r = -ENOENT;

	for (way = MAP_FILES; way < WAYS; way++) {
		_cleanup_(ht_fd_closep) int fd = -1;

		if (way == MAP_FILES)
			fd = grab_map_files(reading, area);
		else if (way == PATH)
			fd = grab_path(reading, area);
		else
			fd = ht_errno_of(openat(reading->space->procfd, "exe",
						O_PATH | O_CLOEXEC));
		if (is_shortage(fd))
			return fd;
		if (fd < 0)
			continue;
		r = add_grabbed(reading, area, fd, way == MAP_FILES, ret_module);
		if (!r || r == -ENOEXEC || is_shortage(r))
			return r;
	}
	return r;
}

/* ---- images from memory ---- */

static void copy_area(const struct ht_space *space, const struct ht_area *area,
		      uint8_t *image)
{
	ht_addr_t at;

	for (at = area->start; at < area->end; at += PAGE) {
		uint8_t *to = image + area->offset + (at - area->start);

		/* Pages of the mapping beyond the end of the file can't be read. */
		if (pread(space->memfd, to, PAGE, (off_t)at) != PAGE)
			memset(to, 0, PAGE);
	}
}

static int from_memory(const struct reading *reading, const struct ht_area *first,
		       struct ht_module **ret_module)
{
	const struct ht_area *end = end_of_module(reading->maps, first), *area;
	uint64_t len = 0, area_end;
	uint8_t *image;

	if (reading->space->memfd < 0 || first->offset)
		return -ENOENT;
	for (area = first; area < end; area++) {
		if (!same_file(area, first))
			continue;
		if (__builtin_add_overflow(area->offset, area->end - area->start,
					   &area_end) ||
		    area_end > MEMORY_IMAGE_MAX)
			return -EFBIG;
		len = ht_max(len, area_end);
	}
	image = calloc(1, len);
	if (!image)
		return -ENOMEM;
	/* A page of the file may be mapped twice, the writable one relocated:
	 * that first. */
	for (area = first; area < end; area++)
		if (same_file(area, first) && (area->prot & HT_PROT_WRITE))
			copy_area(reading->space, area, image);
	for (area = first; area < end; area++)
		if (same_file(area, first) && !(area->prot & HT_PROT_WRITE))
			copy_area(reading->space, area, image);
	return ht_modules_add_memory(reading->space->modules, image, len, first->path,
				     first->deleted, ret_module);
}

/* A copy from memory made earlier, if the same area still stands there. */
static struct ht_module *earlier_copy(const struct reading *reading,
				      const struct ht_area *area)
{
	const struct ht_space *space = reading->space;
	const struct ht_mapping *mapping = ht_space_find(space, area->start);
	const struct ht_area *then;

	if (!mapping || !mapping->module || !mapping->module->is_memory)
		return NULL;
	then = ht_maps_find(space->maps, area->start);
	return then && then->start == area->start && same_file(then, area)
		       ? mapping->module
		       : NULL;
}

/* ---- building the snapshot ---- */

/* Find the module of @file. Leaves NULL when it is no ELF file. 0 or a shortage. */
static int resolve(const struct reading *reading, struct file *file)
{
	int r;

	file->resolved = true;
	file->module = earlier_copy(reading, file->area);
	if (file->module)
		return 0;
	r = is_file(file->area) ? from_file(reading, file->area, &file->module) : -ENOENT;
	if (r < 0 && r != -ENOEXEC && !is_shortage(r))
		r = from_memory(reading, file->area, &file->module);
	if (r < 0 && r != -ENOEXEC && !is_shortage(r))
		r = ht_modules_add_unreadable(reading->space->modules, file->area->path,
					      file->area->deleted, &file->module);
	if (r < 0)
		file->module = NULL;
	return is_shortage(r) ? r : 0;
}

static struct file *find_file(const struct reading *reading, const struct ht_area *area)
{
	uint64_t *index = ht_map_get(&reading->by_key, file_key(area));

	if (!index || !same_file(reading->files.at[*index].area, area))
		return NULL;
	return &reading->files.at[*index];
}

static int list_files(struct reading *reading)
{
	size_t i;
	int r;

	for (i = 0; i < ht_maps_count(reading->maps); i++) {
		const struct ht_area *area = ht_maps_at(reading->maps, i);
		struct file *file = find_file(reading, area);

		if (!is_file(area) && strcmp(area->path, "[vdso]") != 0)
			continue;
		if (!file) {
			file = ht_vec_push(&reading->files);
			if (!file)
				return -ENOMEM;
			file->area = area;
			r = ht_map_put(&reading->by_key, file_key(area),
				       reading->files.len - 1);
			if (r < 0)
				return r;
		}
		file->executable |= (area->prot & HT_PROT_EXEC) != 0;
	}
	return 0;
}

/* Text that was moved to huge pages is anonymous memory in the middle of its module. */
static void claim_moved_text(const struct reading *reading, struct ht_mapping *mapping)
{
	const struct ht_mapping *below;

	if (!reading->mappings.len)
		return;
	below = &reading->mappings.at[reading->mappings.len - 1];
	if (!below->module || !below->module->is_elf ||
	    !ht_binary_is_text(&below->module->binary, mapping->start - below->bias,
			      mapping->end - mapping->start))
		return;
	mapping->module = below->module;
	mapping->bias = below->bias;
}

static void place(struct file *file, const struct ht_area *area,
		  struct ht_mapping *mapping)
{
	mapping->module = file->module;
	mapping->bias = area->start - area->offset;
	if (!file->module || !file->module->is_elf)
		return;
	if (ht_binary_bias(&file->module->binary, area,
			   file->has_bias ? &file->bias : NULL, &mapping->bias) < 0) {
		mapping->module = NULL;
		return;
	}
	file->bias = mapping->bias;
	file->has_bias = true;
}

static int add_area(struct reading *reading, const struct ht_area *area)
{
	struct file *file = find_file(reading, area);
	struct ht_mapping mapping = { .start = area->start, .end = area->end,
				      .prot = area->prot };
	struct ht_mapping *slot;
	int r;

	if (file && !file->executable)
		return 0;
	if (!file && !(area->prot & HT_PROT_EXEC))
		return 0;
	if (file && !file->resolved) {
		r = resolve(reading, file);
		if (r < 0)
			return r;
	}
	if (file)
		place(file, area, &mapping);
	if (!mapping.module && (area->prot & HT_PROT_EXEC))
		claim_moved_text(reading, &mapping);
	if (!mapping.module && !(area->prot & HT_PROT_EXEC))
		return 0;
	slot = ht_vec_push(&reading->mappings);
	if (!slot)
		return -ENOMEM;
	*slot = mapping;
	return 0;
}

static void reading_fini(struct reading *reading)
{
	ht_vec_fini(&reading->files);
	ht_vec_fini(&reading->mappings);
	ht_map_fini(&reading->by_key);
	ht_fd_close(reading->rootfd);
	ht_maps_free(reading->maps);
}

static bool same_mappings(const struct mappings *a, const struct mappings *b)
{
	size_t i;

	if (a->len != b->len)
		return false;
	for (i = 0; i < a->len; i++)
		if (a->at[i].start != b->at[i].start || a->at[i].end != b->at[i].end ||
		    a->at[i].module != b->at[i].module ||
		    a->at[i].bias != b->at[i].bias || a->at[i].prot != b->at[i].prot)
			return false;
	return true;
}

/* Only areas that could become mappings, or make others ones, are worth a look. */
static bool matters(const struct ht_area *area)
{
	return (area->prot & HT_PROT_EXEC) || is_file(area);
}

static const struct ht_area *next_that_matters(const struct ht_maps *maps, size_t *i)
{
	while (*i < ht_maps_count(maps)) {
		const struct ht_area *area = ht_maps_at(maps, (*i)++);

		if (matters(area))
			return area;
	}
	return NULL;
}

/* Nothing changed but data: the heap grew, a stack came. Then no file needs a look. */
static bool same_code(const struct ht_maps *a, const struct ht_maps *b)
{
	const struct ht_area *x, *y;
	size_t i = 0, j = 0;

	for (;;) {
		x = next_that_matters(a, &i);
		y = next_that_matters(b, &j);
		if (!x || !y)
			return x == y;
		if (x->start != y->start || x->end != y->end || x->offset != y->offset ||
		    x->prot != y->prot || !same_file(x, y))
			return false;
	}
}

static int build(struct reading *reading)
{
	size_t i;
	int r = list_files(reading);

	for (i = 0; !r && i < ht_maps_count(reading->maps); i++)
		r = add_area(reading, ht_maps_at(reading->maps, i));
	return r;
}

int ht_space_refresh(struct ht_space *space)
{
	_cleanup_(reading_fini) struct reading reading = { .space = space, .rootfd = -1 };
	bool changed;
	int r = ht_maps_read(space->procfd, &reading.maps);

	if (r < 0)
		return r;
	changed = !space->maps || !same_code(space->maps, reading.maps);
	if (changed) {
		reading.rootfd = ht_errno_of(openat(space->procfd, "root",
						    O_PATH | O_DIRECTORY | O_CLOEXEC));
		if (is_shortage(reading.rootfd))
			return reading.rootfd;
		r = build(&reading);
		if (r < 0)
			return r;
		changed = !space->maps ||
			  !same_mappings(&space->mappings, &reading.mappings);
	}
	if (changed) {
		struct mappings old = space->mappings;

		space->mappings = reading.mappings;
		reading.mappings = old;
		space->generation++;
	}
	ht_maps_free(space->maps);
	space->maps = reading.maps;
	reading.maps = NULL;
	return changed;
}

int ht_space_new(int procfd, int memfd, struct ht_modules *modules,
		 struct ht_space **ret_space)
{
	struct ht_space *space = calloc(1, sizeof(*space));
	int r;

	if (!space)
		return -ENOMEM;
	space->procfd = procfd;
	space->memfd = memfd;
	space->modules = modules;
	r = ht_space_refresh(space);
	if (r < 0) {
		ht_space_free(space);
		return r;
	}
	*ret_space = space;
	return 0;
}

struct ht_space *ht_space_free(struct ht_space *space)
{
	if (!space)
		return NULL;
	ht_vec_fini(&space->mappings);
	ht_vec_fini(&space->made);
	ht_maps_free(space->maps);
	free(space);
	return NULL;
}

uint64_t ht_space_generation(const struct ht_space *space)
{
	return space->generation;
}

const struct ht_maps *ht_space_maps(const struct ht_space *space)
{
	return space->maps;
}

/* The number of the first one that ends behind @addr. */
static size_t first_behind(const struct mappings *mappings, ht_addr_t addr)
{
	size_t lo = 0, hi = mappings->len;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (mappings->at[mid].end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static const struct ht_mapping *find(const struct mappings *mappings, ht_addr_t addr)
{
	size_t i = first_behind(mappings, addr);

	return i < mappings->len && mappings->at[i].start <= addr ? &mappings->at[i] : NULL;
}

const struct ht_mapping *ht_space_find(const struct ht_space *space, ht_addr_t addr)
{
	return find(&space->mappings, addr);
}

const struct ht_mapping *ht_space_find_made(const struct ht_space *space, ht_addr_t addr)
{
	return find(&space->made, addr);
}

/* ---- code made at run time ---- */

/* In the place of all that it overlaps. */
static int put_made(struct mappings *made, const struct ht_mapping *mapping)
{
	size_t first = first_behind(made, mapping->start), end = first;

	while (end < made->len && made->at[end].start < mapping->end)
		end++;
	if (first == end && !ht_vec_push(made))
		return -ENOMEM;
	/* Push has counted the new one already. */
	memmove(&made->at[first + 1], &made->at[end],
		(made->len - (first == end) - end) * sizeof(*made->at));
	if (end > first)
		made->len -= end - first - 1;
	made->at[first] = *mapping;
	return 0;
}

int ht_space_add_made(struct ht_space *space, uint8_t *image, size_t len,
		      struct ht_module **ret_module)
{
	struct ht_module *module;
	unsigned i;
	int r = ht_modules_add_memory(space->modules, image, len, "[jit]", false, &module);

	for (i = 0; r == 0 && i < module->binary.n_segments; i++) {
		const struct ht_binary_segment *s = &module->binary.segments[i];
		struct ht_mapping mapping = { .start = s->vaddr, .end = s->vaddr + s->memsz,
					      .module = module, .prot = s->prot,
					      .made = true };

		if (s->prot & HT_PROT_EXEC)
			r = put_made(&space->made, &mapping);
	}
	if (r < 0)
		return r;
	space->generation++;
	*ret_module = module;
	return 0;
}

void ht_space_drop_made(struct ht_space *space, const struct ht_module *module)
{
	size_t kept = 0, i;

	for (i = 0; i < space->made.len; i++)
		if (space->made.at[i].module != module)
			space->made.at[kept++] = space->made.at[i];
	if (kept == space->made.len)
		return;
	space->made.len = kept;
	space->generation++;
}

size_t ht_space_count(const struct ht_space *space)
{
	return space->mappings.len;
}

const struct ht_mapping *ht_space_at(const struct ht_space *space, size_t i)
{
	return i < space->mappings.len ? &space->mappings.at[i] : NULL;
}
