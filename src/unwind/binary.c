/* SPDX-License-Identifier: Apache-2.0
 *
 * binary.c: see binary.h.
 */
#include "unwind/binary.h"

#include <errno.h>
#include <string.h>

#define PAGE UINT64_C(4096)

static unsigned prot_of(uint32_t flags)
{
	return (flags & PF_R ? HT_PROT_READ : 0) | (flags & PF_W ? HT_PROT_WRITE : 0) |
	       (flags & PF_X ? HT_PROT_EXEC : 0);
}

/* Look for the build-id in the notes at [@offset, @offset + @len) of the file. */
static void read_notes(struct ht_binary *binary, uint64_t offset, uint64_t len,
		       uint64_t align)
{
	const uint8_t *id;
	size_t id_len;

	if (offset > binary->view.len || len > binary->view.len - offset ||
	    binary->build_id_len)
		return;
	id_len = ht_elfview_build_id(binary->view.image + offset, len, align, &id);
	if (id_len == 0 || id_len > HT_BUILD_ID_MAX)
		return;
	memcpy(binary->build_id, id, id_len);
	binary->build_id_len = id_len;
	binary->build_id_offset = (uint64_t)(id - binary->view.image);
}

static void add_segment(struct ht_binary *binary, const Elf64_Phdr *phdr)
{
	uint64_t end;

	if (binary->n_segments == HT_BINARY_SEGMENTS || !phdr->p_memsz ||
	    phdr->p_filesz > phdr->p_memsz ||
	    __builtin_add_overflow(phdr->p_vaddr, phdr->p_memsz, &end) ||
	    __builtin_add_overflow(phdr->p_offset, phdr->p_filesz, &end))
		return;
	binary->segments[binary->n_segments++] = (struct ht_binary_segment){
		.vaddr = phdr->p_vaddr,
		.memsz = phdr->p_memsz,
		.offset = phdr->p_offset,
		.filesz = phdr->p_filesz,
		.prot = prot_of(phdr->p_flags),
	};
}

static void read_phdrs(struct ht_binary *binary)
{
	Elf64_Phdr phdr;
	unsigned i;

	for (i = 0; ht_elfview_phdr(&binary->view, i, &phdr); i++) {
		if (phdr.p_type == PT_LOAD)
			add_segment(binary, &phdr);
		if (phdr.p_type == PT_NOTE)
			read_notes(binary, phdr.p_offset, phdr.p_filesz, phdr.p_align);
	}
}

static void read_sections(struct ht_binary *binary)
{
	struct ht_elfview_section s;
	unsigned i;

	for (i = 0; ht_elfview_section(&binary->view, i, &s); i++) {
		/* 4: whoever made a note by hand and gave it no segment was that old. */
		if (s.type == SHT_NOTE && s.data)
			read_notes(binary, (uint64_t)(s.data - binary->view.image), s.len,
				   4);
		if (!strcmp(s.name, ".gopclntab") ||
		    !strcmp(s.name, ".data.rel.ro.gopclntab"))
			binary->is_go = true;
	}
}

int ht_binary_read(const uint8_t *bytes, size_t len, struct ht_binary *ret_binary)
{
	struct ht_binary binary = { .n_segments = 0 };
	Elf64_Ehdr ehdr;
	int r = ht_elfview_open(bytes, len, &binary.view);

	if (r < 0)
		return r;
	memcpy(&ehdr, bytes, sizeof(ehdr));
	binary.entry = ehdr.e_entry;
	read_phdrs(&binary);
	read_sections(&binary);
	*ret_binary = binary;
	return 0;
}

const uint8_t *ht_binary_at(const struct ht_binary *binary, uint64_t vaddr, size_t len)
{
	size_t left;
	const uint8_t *at = ht_elfview_at(&binary->view, vaddr, &left);

	return at && left >= len ? at : NULL;
}

bool ht_binary_is_text(const struct ht_binary *binary, uint64_t vaddr, uint64_t len)
{
	unsigned i;

	for (i = 0; i < binary->n_segments; i++) {
		const struct ht_binary_segment *s = &binary->segments[i];
		uint64_t start = ht_align_down(s->vaddr, PAGE);
		uint64_t end = s->vaddr + s->memsz;

		end = end > UINT64_MAX - PAGE ? end : ht_align_up(end, PAGE);
		if ((s->prot & HT_PROT_EXEC) && vaddr >= start && vaddr <= end &&
		    len <= end - vaddr)
			return true;
	}
	return false;
}

/* How well @area fits segment @s: 0 not at all. The loader maps whole pages, from the one
 * that holds the segment's first byte; a later mprotect may have split the area off. */
static unsigned fit_of(const struct ht_binary_segment *s, const struct ht_area *area)
{
	const unsigned rwx = HT_PROT_READ | HT_PROT_WRITE | HT_PROT_EXEC;
	uint64_t first = ht_align_down(s->offset, PAGE);

	if (!s->filesz || area->offset < first || area->offset >= s->offset + s->filesz ||
	    (s->vaddr - s->offset) % PAGE)
		return 0;
	return 1 + (area->offset == first) + 2 * ((s->prot & rwx) == (area->prot & rwx)) +
	       4 * ((s->prot & HT_PROT_EXEC) == (area->prot & HT_PROT_EXEC));
}

int ht_binary_bias(const struct ht_binary *binary, const struct ht_area *area,
		  const uint64_t *hint, uint64_t *ret_bias)
{
	unsigned i, fit, best = 0;
	uint64_t bias;

	for (i = 0; i < binary->n_segments; i++) {
		const struct ht_binary_segment *s = &binary->segments[i];

		fit = fit_of(s, area);
		bias = area->start - area->offset - (s->vaddr - s->offset);
		if (fit && hint && bias == *hint)
			fit += 8;
		if (fit <= best)
			continue;
		best = fit;
		*ret_bias = bias;
	}
	return best ? 0 : -ENOENT;
}
