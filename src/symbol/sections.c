/* SPDX-License-Identifier: Apache-2.0
 *
 * sections.c: debug sections as libelf hands them out, unpacked. What a section says of its
 * own size is believed only so far as somebody is ready to give it that much memory.
 */
#include "symbol/symbol-priv.h"

#include <endian.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEBUG_BYTES (UINT64_C(4) << 30)
/* What libdw makes for itself of a small file; half of it of a large one. */
#define OWN_BYTES (UINT64_C(1) << 20)

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

static bool is_debug(const char *name)
{
	return strncmp(name, ".debug_", 7) == 0 || strncmp(name, ".zdebug_", 8) == 0 ||
	       strncmp(name, ".gnu.debuglto_", 14) == 0;
}

/* libdw may ask for its bytes; of packed ones it has names of its own (.gnu_debugaltlink). */
static bool counts(const struct ht_elf *elf, size_t i)
{
	return elf->sections[i].sh_type != SHT_NOBITS &&
	       (is_debug(ht_elf_section_name(elf, i)) ||
		(elf->sections[i].sh_flags & SHF_COMPRESSED));
}

/* How large a debug section is when it is unpacked. */
static uint64_t unpacked(const struct ht_elf *elf, size_t i, bool *ret_zstd)
{
	const Elf64_Shdr *section = &elf->sections[i];
	Elf64_Chdr header;
	uint8_t old[12];
	uint64_t size;

	*ret_zstd = false;
	if (section->sh_flags & SHF_COMPRESSED) {
		if (ht_elf_read(elf, section->sh_offset, &header, sizeof(header)) < 0)
			return UINT64_MAX;
		*ret_zstd = header.ch_type == ELFCOMPRESS_ZSTD;
		return header.ch_size;
	}
	if (ht_elf_section_name(elf, i)[1] == 'z') {
		if (ht_elf_read(elf, section->sh_offset, old, sizeof(old)) < 0)
			return UINT64_MAX;
		memcpy(&size, old + 4, sizeof(size));
		return be64toh(size);
	}
	return section->sh_size;
}

int ht_sections_failure(void)
{
	return errno == ENOMEM ? -ENOMEM : -EBADMSG;
}

const char *ht_sections_reason(int r)
{
	return r == -ENOMEM ? HT_LINES_MEMORY : HT_LINES_BAD;
}

bool ht_sections_fit(const struct ht_elf *elf)
{
	uint64_t sum = 0, size;
	void *volatile probe;	/* not to be left out by the compiler */
	bool zstd, fits;

	for (size_t i = 1; i < elf->n_sections; i++) {
		if (!counts(elf, i))
			continue;
		size = unpacked(elf, i, &zstd);
		if (size > MAX_DEBUG_BYTES || (sum += size) > MAX_DEBUG_BYTES)
			return true;
	}
	probe = malloc(sum + sum / 2 + OWN_BYTES);
	fits = probe;
	free(probe);
	return fits;
}

const char *ht_sections_objection(const struct ht_elf *elf, Elf *handle)
{
	uint64_t sum = 0, size;
	bool zstd;
	size_t i;

	for (i = 1; i < elf->n_sections; i++) {
		Elf_Scn *section;

		if (!counts(elf, i))
			continue;
		size = unpacked(elf, i, &zstd);
		if (size > MAX_DEBUG_BYTES || (sum += size) > MAX_DEBUG_BYTES)
			return HT_LINES_LARGE;
		/* libelf knows zstd from 0.189 on, if it was built so: ask it. */
		section = zstd ? elf_getscn(handle, i) : NULL;
		errno = 0;
		if (zstd && (!section || elf_compress(section, 0, 0) < 0))
			return ht_sections_failure() == -ENOMEM ? HT_LINES_MEMORY :
								  HT_LINES_ZSTD;
	}
	return NULL;
}

/* The first section of that name which isn't one of a group's: those are type units'. */
static Elf_Scn *find(Elf *handle, const char *name, GElf_Shdr *ret_header)
{
	Elf_Scn *section = NULL;
	const char *found;
	size_t names;

	if (elf_getshdrstrndx(handle, &names) < 0)
		return NULL;
	while ((section = elf_nextscn(handle, section))) {
		if (!gelf_getshdr(section, ret_header) || ret_header->sh_type == SHT_NOBITS ||
		    (ret_header->sh_flags & SHF_GROUP))
			continue;
		found = elf_strptr(handle, names, ret_header->sh_name);
		if (found && strcmp(found, name) == 0)
			return section;
	}
	return NULL;
}

int ht_sections_get(Elf *handle, const char *name, size_t max, struct ht_span *ret_span)
{
	GElf_Shdr header;
	Elf_Scn *section = find(handle, name, &header);
	Elf_Data *data;
	GElf_Chdr packed;

	*ret_span = (struct ht_span){ NULL, 0 };
	if (!section || !header.sh_size)
		return 0;
	if (header.sh_flags & SHF_COMPRESSED) {
		if (!gelf_getchdr(section, &packed))
			return -EBADMSG;
		if (packed.ch_size > max)
			return -E2BIG;
		errno = 0;
		if (elf_compress(section, 0, 0) < 0) {
			int r = ht_sections_failure();

			return r == -EBADMSG && packed.ch_type == ELFCOMPRESS_ZSTD ? -EOPNOTSUPP : r;
		}
	} else if (header.sh_size > max) {
		return -E2BIG;
	}
	errno = 0;
	data = elf_getdata(section, NULL);
	if (!data || !data->d_buf)
		return ht_sections_failure();
	*ret_span = (struct ht_span){ data->d_buf, data->d_size };
	return 0;
}

void ht_texts_add(struct ht_texts *texts, Elf *handle)
{
	static const char *const names[] = { ".debug_info", ".debug_types", ".debug_str",
					     ".debug_line_str", ".zdebug_info", ".zdebug_types",
					     ".zdebug_str", ".zdebug_line_str" };
	struct ht_span span;

	for (size_t i = 0; i < ARRAY_SIZE(names) && texts->n < ARRAY_SIZE(texts->at); i++)
		if (ht_sections_get(handle, names[i], SIZE_MAX, &span) == 0 && span.len)
			texts->at[texts->n++] = span;
}

const char *ht_texts_check(const struct ht_texts *texts, const char *text)
{
	uintptr_t at = (uintptr_t)text;

	for (size_t i = 0; text && i < texts->n; i++) {
		uintptr_t start = (uintptr_t)texts->at[i].data;

		if (at >= start && at - start < texts->at[i].len)
			return memchr(text, '\0', texts->at[i].len - (at - start)) ? text : NULL;
	}
	return NULL;
}
