/* SPDX-License-Identifier: Apache-2.0
 *
 * elfview.c: see elfview.h.
 */
#include "unwind/elfview.h"

#include <errno.h>
#include <string.h>

/* More headers than any linker makes; each look-up walks them all. */
#define MAX_PHDRS 128
#define MAX_SECTIONS 65536
#define MAX_NOTES 64

static bool inside(size_t len, uint64_t offset, uint64_t size)
{
	return offset <= len && size <= len - offset;
}

static void open_names(struct ht_elfview *view, uint64_t shstrndx)
{
	Elf64_Shdr shdr;
	uint64_t end;

	if (shstrndx >= view->n_sections)
		return;
	memcpy(&shdr, view->image + view->shoff + shstrndx * sizeof(shdr), sizeof(shdr));
	if (shdr.sh_type != SHT_STRTAB || !inside(view->len, shdr.sh_offset, shdr.sh_size))
		return;
	/* Cut behind the last NUL, so that every name that starts inside ends inside. */
	end = shdr.sh_offset + shdr.sh_size;
	while (end > shdr.sh_offset && view->image[end - 1] != '\0')
		end--;
	view->names = (const char *)view->image + shdr.sh_offset;
	view->names_len = end - shdr.sh_offset;
}

static void open_sections(struct ht_elfview *view, const Elf64_Ehdr *ehdr)
{
	uint64_t n = ehdr->e_shnum, shstrndx = ehdr->e_shstrndx;
	Elf64_Shdr first;

	if (ehdr->e_shoff == 0 || ehdr->e_shentsize != sizeof(Elf64_Shdr) ||
	    !inside(view->len, ehdr->e_shoff, sizeof(first)))
		return;
	memcpy(&first, view->image + ehdr->e_shoff, sizeof(first));
	if (n == 0)
		n = first.sh_size;
	if (shstrndx == SHN_XINDEX)
		shstrndx = first.sh_link;
	if (n > MAX_SECTIONS ||
	    !inside(view->len, ehdr->e_shoff, n * sizeof(Elf64_Shdr)))
		return;
	view->shoff = ehdr->e_shoff;
	view->n_sections = (unsigned)n;
	open_names(view, shstrndx);
}

int ht_elfview_open(const uint8_t *image, size_t len, struct ht_elfview *ret_view)
{
	struct ht_elfview view = { .image = image, .len = len };
	Elf64_Ehdr ehdr;

	if (len < sizeof(ehdr))
		return -EINVAL;
	memcpy(&ehdr, image, sizeof(ehdr));
	if (memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 ||
	    ehdr.e_ident[EI_CLASS] != ELFCLASS64 || ehdr.e_ident[EI_DATA] != ELFDATA2LSB ||
	    ehdr.e_machine != EM_X86_64 ||
	    (ehdr.e_type != ET_EXEC && ehdr.e_type != ET_DYN))
		return -EINVAL;
	if (ehdr.e_phentsize == sizeof(Elf64_Phdr) && ehdr.e_phnum <= MAX_PHDRS &&
	    inside(len, ehdr.e_phoff, ehdr.e_phnum * sizeof(Elf64_Phdr))) {
		view.phoff = ehdr.e_phoff;
		view.n_phdrs = ehdr.e_phnum;
	}
	open_sections(&view, &ehdr);
	*ret_view = view;
	return 0;
}

bool ht_elfview_phdr(const struct ht_elfview *view, unsigned i, Elf64_Phdr *ret_phdr)
{
	if (i >= view->n_phdrs)
		return false;
	memcpy(ret_phdr, view->image + view->phoff + i * sizeof(*ret_phdr),
	       sizeof(*ret_phdr));
	return true;
}

bool ht_elfview_section(const struct ht_elfview *view, unsigned i,
			struct ht_elfview_section *ret_section)
{
	Elf64_Shdr shdr;

	if (i >= view->n_sections)
		return false;
	memcpy(&shdr, view->image + view->shoff + i * sizeof(shdr), sizeof(shdr));
	*ret_section = (struct ht_elfview_section){
		.name = shdr.sh_name < view->names_len ? view->names + shdr.sh_name : "",
		.type = shdr.sh_type,
		.link = shdr.sh_link,
		.flags = shdr.sh_flags,
		.addr = shdr.sh_addr,
		.len = shdr.sh_size,
	};
	if (shdr.sh_type != SHT_NOBITS && shdr.sh_type != SHT_NULL &&
	    inside(view->len, shdr.sh_offset, shdr.sh_size))
		ret_section->data = view->image + shdr.sh_offset;
	return true;
}

const uint8_t *ht_elfview_at(const struct ht_elfview *view, uint64_t addr,
			     size_t *ret_left)
{
	Elf64_Phdr phdr;
	unsigned i;

	for (i = 0; ht_elfview_phdr(view, i, &phdr); i++) {
		uint64_t skip = addr - phdr.p_vaddr, left;

		if (phdr.p_type != PT_LOAD || addr < phdr.p_vaddr ||
		    skip >= phdr.p_filesz || phdr.p_offset >= view->len ||
		    skip >= view->len - phdr.p_offset)
			continue;
		left = ht_min(phdr.p_filesz - skip, view->len - phdr.p_offset - skip);
		*ret_left = (size_t)left;
		return view->image + phdr.p_offset + skip;
	}
	return NULL;
}


size_t ht_elfview_build_id(const uint8_t *notes, size_t len, uint64_t align,
			   const uint8_t **ret_id)
{
	uint64_t name, desc, next;
	Elf64_Nhdr note;
	size_t at = 0;
	unsigned i;

	align = align == 8 ? 8 : 4;
	for (i = 0; i < MAX_NOTES && len - at >= sizeof(note); i++) {
		memcpy(&note, notes + at, sizeof(note));
		name = at + sizeof(note);
		/* Each part starts aligned: behind "GNU", at 16 either way. */
		desc = ht_align_up(name + note.n_namesz, align);
		next = ht_align_up(desc + note.n_descsz, align);
		if (desc > len || note.n_descsz > len - desc)
			return 0;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    memcmp(notes + name, "GNU", 4) == 0) {
			*ret_id = notes + desc;
			return note.n_descsz;
		}
		if (next > len)
			return 0;
		at = next;
	}
	return 0;
}
