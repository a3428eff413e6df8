/* SPDX-License-Identifier: Apache-2.0
 *
 * elf.c: the sections of an ELF file. Own code and not libelf's: what we need is small,
 * and the symbol tables of hostile files shouldn't need a big parser.
 */
#include "symbol/symbol-priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "unwind/elfview.h"

/* Images above this size may be mappings of a file that can shrink: read those by fd. */
#define MAX_IMAGE ((size_t)64 << 20)
#define MAX_SECTIONS (1 << 20)
#define MAX_NAMES (16 << 20)
#define MAX_NOTES (1 << 16)	/* bytes of a section of them */
#define MAX_NOTE_SECTIONS 64	/* real files have up to a dozen */
#define PAGE 4096

int ht_elf_read(const struct ht_elf *elf, uint64_t offset, void *data, size_t len)
{
	if (offset > elf->len || len > elf->len - offset)
		return -EBADMSG;
	if (!elf->image)
		return ht_fd_pread_all(elf->fd, data, len, offset);
	if (len)
		memcpy(data, elf->image + offset, len);
	return 0;
}

int ht_elf_load(const struct ht_elf *elf, const Elf64_Shdr *section, size_t max,
		uint8_t **ret_data, size_t *ret_len)
{
	uint8_t *data;
	int r;

	if (section->sh_type == SHT_NOBITS || section->sh_offset > elf->len ||
	    section->sh_size > elf->len - section->sh_offset)
		return -EBADMSG;
	if (section->sh_size > max)
		return -EFBIG;
	data = malloc(section->sh_size + 1);
	if (!data)
		return -ENOMEM;
	r = ht_elf_read(elf, section->sh_offset, data, section->sh_size);
	if (r < 0) {
		free(data);
		return r;
	}
	data[section->sh_size] = '\0';
	*ret_data = data;
	*ret_len = section->sh_size;
	return 0;
}

const char *ht_elf_section_name(const struct ht_elf *elf, size_t i)
{
	uint32_t name = elf->sections[i].sh_name;

	return name < elf->names_len ? elf->names + name : "";
}

const Elf64_Shdr *ht_elf_section(const struct ht_elf *elf, const char *name)
{
	size_t i;

	for (i = 1; i < elf->n_sections; i++)
		if (elf->sections[i].sh_type != SHT_NOBITS &&
		    strcmp(ht_elf_section_name(elf, i), name) == 0)
			return &elf->sections[i];
	return NULL;
}

/* Section headers that aren't whole are as good as none; only memory can fail. */
static int load_sections(struct ht_elf *elf)
{
	const Elf64_Ehdr *h = &elf->header;
	uint64_t n = h->e_shnum, strings = h->e_shstrndx;
	Elf64_Shdr first;
	int r;

	if (h->e_shoff == 0 || h->e_shentsize != sizeof(Elf64_Shdr) ||
	    ht_elf_read(elf, h->e_shoff, &first, sizeof(first)) < 0)
		return 0;
	if (n == 0)
		n = first.sh_size;
	if (strings == SHN_XINDEX)
		strings = first.sh_link;
	if (n == 0 || n > MAX_SECTIONS ||
	    n * sizeof(Elf64_Shdr) > elf->len - h->e_shoff)
		return 0;
	elf->sections = malloc(n * sizeof(Elf64_Shdr));
	if (!elf->sections)
		return -ENOMEM;
	if (ht_elf_read(elf, h->e_shoff, elf->sections, n * sizeof(Elf64_Shdr)) < 0)
		return 0;
	elf->n_sections = n;
	if (strings >= n)
		return 0;
	r = ht_elf_load(elf, &elf->sections[strings], MAX_NAMES, (uint8_t **)&elf->names,
			&elf->names_len);
	return r == -ENOMEM ? r : 0;
}

static int init(struct ht_elf *elf)
{
	const Elf64_Ehdr *h = &elf->header;
	int r;

	if (ht_elf_read(elf, 0, &elf->header, sizeof(elf->header)) < 0 ||
	    memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 ||
	    h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
	    (h->e_type != ET_EXEC && h->e_type != ET_DYN && h->e_type != ET_REL))
		r = -ENOEXEC;
	else
		r = load_sections(elf);
	if (r < 0)
		ht_elf_fini(elf);
	return r;
}

int ht_elf_init_image(struct ht_elf *elf, const uint8_t *image, size_t len)
{
	*elf = (struct ht_elf){ .image = image, .len = len, .fd = -1 };
	return init(elf);
}

int ht_elf_init_fd(struct ht_elf *elf, int fd)
{
	struct stat st;

	*elf = (struct ht_elf){ .fd = fd };
	if (fstat(fd, &st) == 0 && st.st_size > 0)
		elf->len = (uint64_t)st.st_size;
	return init(elf);
}

int ht_elf_init_module(struct ht_elf *elf, const struct ht_module *module)
{
	int fd = ht_module_fd(module);
	const uint8_t *image;
	size_t len;

	image = ht_module_image(module, &len);
	if (image && (len <= MAX_IMAGE || fd < 0))
		return ht_elf_init_image(elf, image, len);
	fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? -ENOEXEC : ht_elf_init_fd(elf, fd);
}

void ht_elf_fini(struct ht_elf *elf)
{
	ht_fd_close(elf->fd);
	free(elf->sections);
	free(elf->names);
	*elf = (struct ht_elf)HT_ELF_INIT;
}

/* A GNU build-id of at most @max bytes in the notes at @section; 0 if there is none. */
static size_t id_in_notes(const struct ht_elf *elf, const Elf64_Shdr *section, uint8_t *id,
			  size_t max)
{
	const uint8_t *found;
	uint8_t *notes;
	size_t len, n;

	if (ht_elf_load(elf, section, MAX_NOTES, &notes, &len) < 0)
		return 0;
	n = ht_elfview_build_id(notes, len, section->sh_addralign, &found);
	if (n > max)
		n = 0;
	if (n)
		memcpy(id, found, n);
	free(notes);
	return n;
}

/* Debug files keep the section but not the segment's place; both forms exist. */
size_t ht_elf_build_id(const struct ht_elf *elf, uint8_t *id, size_t max)
{
	Elf64_Shdr segment = { .sh_type = SHT_NOTE };
	size_t i, n = 0, left = MAX_NOTE_SECTIONS;
	Elf64_Phdr ph;

	for (i = 1; !n && left && i < elf->n_sections; i++) {
		if (elf->sections[i].sh_type != SHT_NOTE)
			continue;
		n = id_in_notes(elf, &elf->sections[i], id, max);
		left--;
	}
	for (i = 0; !n && left && i < elf->header.e_phnum; i++) {
		if (ht_elf_read(elf, elf->header.e_phoff + i * sizeof(ph), &ph, sizeof(ph)) < 0)
			break;
		segment.sh_offset = ph.p_offset;
		segment.sh_size = ph.p_filesz;
		segment.sh_addralign = ph.p_align;
		if (ph.p_type != PT_NOTE)
			continue;
		n = id_in_notes(elf, &segment, id, max);
		left--;
	}
	return n;
}

bool ht_elf_text(const struct ht_elf *elf, struct ht_symbol_text *ret_text)
{
	struct ht_symbol_text text = { .vaddr = UINT64_MAX };
	Elf64_Phdr ph;
	size_t i;

	if (elf->header.e_phentsize != sizeof(ph))
		return false;
	for (i = 0; i < elf->header.e_phnum; i++) {
		uint64_t end, down;

		if (elf->header.e_phoff > elf->len ||
		    ht_elf_read(elf, elf->header.e_phoff + i * sizeof(ph), &ph, sizeof(ph)) < 0)
			break;
		if (ph.p_type != PT_LOAD || !(ph.p_flags & PF_X) ||
		    __builtin_add_overflow(ph.p_vaddr, ph.p_memsz, &end) ||
		    end > UINT64_MAX - PAGE)
			continue;
		down = ph.p_vaddr % PAGE;
		if (down > ph.p_offset)
			continue;
		if (ph.p_vaddr - down < text.vaddr) {
			text.vaddr = ph.p_vaddr - down;
			text.file_offset = ph.p_offset - down;
		}
		text.end = ht_max(text.end, ht_align_up(end, (uint64_t)PAGE));
	}
	text.fixed = elf->header.e_type == ET_EXEC;
	if (text.vaddr >= text.end)
		return false;
	*ret_text = text;
	return true;
}
