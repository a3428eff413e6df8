/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_image.c: see hook_image.h. The file is our own, but a broken build of it must be a
 * message and not a crash in somebody's process, so it is checked all the same.
 */
#include "inject/hook_image.h"

#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "heaptap/wire.h"

#define PAGE UINT64_C(4096)
#define IMAGE_MAX (UINT64_C(1) << 20)

extern const uint8_t ht_hook_blob[] _hidden_;
extern const uint8_t ht_hook_blob_end[] _hidden_;

const uint8_t *ht_hook_file(size_t *ret_len)
{
	*ret_len = (size_t)(ht_hook_blob_end - ht_hook_blob);
	return ht_hook_blob;
}

static bool in_file(size_t len, uint64_t offset, uint64_t size)
{
	return offset <= len && size <= len - offset;
}

static int add_segment(struct ht_hook_image *image, const uint8_t *file, size_t len,
		       const Elf64_Phdr *ph)
{
	struct ht_hook_segment *segment = &image->segments[image->n_segments];

	if (image->n_segments == HT_HOOK_SEGMENTS || ph->p_filesz > ph->p_memsz ||
	    !in_file(len, ph->p_offset, ph->p_filesz) ||
	    ph->p_vaddr + ph->p_memsz > image->size)
		return -EINVAL;
	memcpy(image->bytes + ph->p_vaddr, file + ph->p_offset, ph->p_filesz);
	segment->offset = ht_align_down(ph->p_vaddr, PAGE);
	segment->size = ht_align_up(ph->p_vaddr + ph->p_memsz, PAGE) - segment->offset;
	segment->prot = (ph->p_flags & PF_R ? PROT_READ : 0) |
			(ph->p_flags & PF_W ? PROT_WRITE : 0) |
			(ph->p_flags & PF_X ? PROT_EXEC : 0);
	image->n_segments++;
	return 0;
}

static int load_segments(struct ht_hook_image *image, const uint8_t *file, size_t len)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)file;
	const Elf64_Phdr *ph = (const Elf64_Phdr *)(file + eh->e_phoff);
	int r;

	for (unsigned i = 0; i < eh->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD)
			image->size = ht_max(image->size, ph[i].p_vaddr + ph[i].p_memsz);
	image->size = ht_align_up(image->size, PAGE);
	if (!image->size || image->size > IMAGE_MAX)
		return -EINVAL;
	image->bytes = calloc(1, image->size);
	if (!image->bytes)
		return -ENOMEM;
	for (unsigned i = 0; i < eh->e_phnum; i++) {
		if (ph[i].p_type != PT_LOAD)
			continue;
		r = add_segment(image, file, len, &ph[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The hook has few symbols, so its dynamic table is simply walked. */
static uint64_t find_symbol(const uint8_t *file, size_t len, const char *name)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)file;
	const Elf64_Shdr *sh = (const Elf64_Shdr *)(file + eh->e_shoff);

	for (unsigned i = 0; i < eh->e_shnum; i++) {
		const Elf64_Sym *sym = (const Elf64_Sym *)(file + sh[i].sh_offset);
		const Elf64_Shdr *strings;

		if (sh[i].sh_type != SHT_DYNSYM || sh[i].sh_link >= eh->e_shnum ||
		    !in_file(len, sh[i].sh_offset, sh[i].sh_size))
			continue;
		strings = &sh[sh[i].sh_link];
		for (size_t n = sh[i].sh_size / sizeof(*sym); n--; sym++)
			if (in_file(len, strings->sh_offset, sym->st_name + strlen(name) + 1) &&
			    !strcmp((const char *)file + strings->sh_offset + sym->st_name, name))
				return sym->st_value;
	}
	return 0;
}

int ht_hook_image_load(struct ht_hook_image *ret_image, struct ht_err *err)
{
	struct ht_hook_image image = { 0 };
	size_t len;
	const uint8_t *file = ht_hook_file(&len);
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)file;
	int r = -EINVAL;

	if (len > sizeof(*eh) && !memcmp(eh->e_ident, ELFMAG, SELFMAG) &&
	    in_file(len, eh->e_phoff, eh->e_phnum * sizeof(Elf64_Phdr)) &&
	    in_file(len, eh->e_shoff, eh->e_shnum * sizeof(Elf64_Shdr)))
		r = load_segments(&image, file, len);
	if (r == 0) {
		image.config = find_symbol(file, len, "ht_hook_config");
		image.enter = find_symbol(file, len, "ht_hook_enter");
		if (!image.config || !image.enter ||
		    image.config + sizeof(struct ht_hook_config) > image.size)
			r = -EINVAL;
	}
	if (r < 0) {
		ht_hook_image_fini(&image);
		return ht_err_set(err, HT_ERR_FAILED, r, "the embedded hook is broken: %s",
				  strerror(-r));
	}
	*ret_image = image;
	return 0;
}

void ht_hook_image_fini(struct ht_hook_image *image)
{
	free(image->bytes);
	image->bytes = NULL;
}
