/* SPDX-License-Identifier: Apache-2.0
 *
 * cfi-file.c: where a file keeps its call frame information, and finding one FDE in it.
 */
#include "unwind/cfi.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* The largest .debug_frame seen is 10 MB; deflate can't do better than 1032 to 1. */
#define MAX_INFLATED ((uint64_t)256 << 20)
#define MAX_RATIO 1032

#define ENC_DATAREL_SDATA4 0x3b
#define ENC_FORMAT 0x0f

static void add_section(struct ht_cfi *cfi, const struct ht_cfi_section *section)
{
	if (cfi->n_sections < HT_CFI_MAX_SECTIONS)
		cfi->sections[cfi->n_sections++] = *section;
	else
		cfi->n_skipped++;
}

/* Inflate @len bytes to @size bytes and add them. 0 or -ENOMEM; a bad stream is counted. */
static int add_deflated(struct ht_cfi *cfi, const uint8_t *data, uint64_t len, uint64_t size)
{
	struct ht_cfi_section section = { .len = size };
	uLongf inflated = size;
	uint8_t *mem;

	if (cfi->n_sections == HT_CFI_MAX_SECTIONS || size == 0 || size > MAX_INFLATED ||
	    size / MAX_RATIO > len) {
		cfi->n_skipped++;
		return 0;
	}
	mem = malloc(size);
	if (!mem)
		return -ENOMEM;
	if (uncompress(mem, &inflated, data, len) != Z_OK || inflated != size) {
		free(mem);
		cfi->n_skipped++;
		return 0;
	}
	section.data = mem;
	cfi->inflated[cfi->n_sections] = mem;
	add_section(cfi, &section);
	return 0;
}

static int add_compressed(struct ht_cfi *cfi, const struct ht_elfview_section *section)
{
	Elf64_Chdr chdr;

	if (section->len < sizeof(chdr))
		goto skip;
	memcpy(&chdr, section->data, sizeof(chdr));
	if (chdr.ch_type != ELFCOMPRESS_ZLIB)
		goto skip;
	return add_deflated(cfi, section->data + sizeof(chdr), section->len - sizeof(chdr),
			    chdr.ch_size);
skip:
	cfi->n_skipped++;
	return 0;
}

/* GNU's older way: "ZLIB", the size in eight bytes, most significant first. */
static int add_zdebug(struct ht_cfi *cfi, const struct ht_elfview_section *section)
{
	uint64_t size = 0;
	int i;

	if (section->len < 12 || memcmp(section->data, "ZLIB", 4) != 0) {
		cfi->n_skipped++;
		return 0;
	}
	for (i = 4; i < 12; i++)
		size = size << 8 | section->data[i];
	return add_deflated(cfi, section->data + 12, section->len - 12, size);
}

static int add_by_sections(const struct ht_elfview *view, bool eh, struct ht_cfi *cfi)
{
	struct ht_elfview_section section;
	unsigned i;
	int r = 0;

	for (i = 0; r == 0 && ht_elfview_section(view, i, &section); i++) {
		struct ht_cfi_section plain = { section.data, section.len, section.addr, eh,
						false };

		if (!section.data || section.len == 0)
			continue;
		if (!eh && strcmp(section.name, ".zdebug_frame") == 0)
			r = add_zdebug(cfi, &section);
		else if (strcmp(section.name, eh ? ".eh_frame" : ".debug_frame") != 0)
			continue;
		else if (section.flags & SHF_COMPRESSED)
			r = add_compressed(cfi, &section);
		else
			add_section(cfi, &plain);
	}
	return r;
}

/* .eh_frame_hdr: where .eh_frame is, and its search table if there is one that we read
 * (ld leaves it out when it didn't understand an FDE). */
static void read_header(const struct ht_elfview *view, uint64_t addr, struct ht_cfi *cfi)
{
	struct ht_cfi_section header = { .addr = addr, .eh = true };
	struct ht_cfi_section section = { .eh = true, .open_end = true };
	uint8_t ptr_enc, count_enc, table_enc;
	struct ht_cursor c = { .bad = false };
	uint64_t count;

	header.data = ht_elfview_at(view, addr, &header.len);
	if (!header.data)
		return;
	c.p = header.data;
	c.end = header.data + header.len;
	if (ht_cursor_u8(&c) != 1)
		return;
	ptr_enc = ht_cursor_u8(&c);
	count_enc = ht_cursor_u8(&c);
	table_enc = ht_cursor_u8(&c);
	section.addr = ht_cfi_pointer(&c, ptr_enc, &header);
	if (c.bad)
		return;
	if (cfi->n_sections == 0) {
		section.data = ht_elfview_at(view, section.addr, &section.len);
		if (section.data)
			add_section(cfi, &section);
	}
	count = ht_cfi_pointer(&c, count_enc & ENC_FORMAT, &header);
	if (c.bad || table_enc != ENC_DATAREL_SDATA4 || count > ht_cursor_left(&c) / 8)
		return;
	cfi->search = c.p;
	cfi->n_search = (size_t)count;
	cfi->search_base = addr;
}

int ht_cfi_open(const struct ht_elfview *view, struct ht_cfi *ret_cfi)
{
	struct ht_cfi cfi = { .n_sections = 0 };
	Elf64_Phdr phdr;
	unsigned i;
	int r;

	r = add_by_sections(view, true, &cfi);
	for (i = 0; r == 0 && ht_elfview_phdr(view, i, &phdr); i++) {
		if (phdr.p_type != PT_GNU_EH_FRAME)
			continue;
		read_header(view, phdr.p_vaddr, &cfi);
		break;
	}
	if (r == 0)
		r = add_by_sections(view, false, &cfi);
	if (r < 0) {
		ht_cfi_close(&cfi);
		return r;
	}
	*ret_cfi = cfi;
	return 0;
}

void ht_cfi_close(struct ht_cfi *cfi)
{
	unsigned i;

	for (i = 0; i < HT_CFI_MAX_SECTIONS; i++) {
		free(cfi->inflated[i]);
		cfi->inflated[i] = NULL;
	}
	cfi->n_sections = 0;
	cfi->n_search = 0;
}

static int32_t search_word(const struct ht_cfi *cfi, size_t i)
{
	int32_t value;

	memcpy(&value, cfi->search + i * 4, sizeof(value));
	return value;
}

static bool covers(const struct ht_cfi_fde *fde, uint64_t pc)
{
	return fde->start <= pc && pc < fde->end;
}

static bool find_by_table(const struct ht_cfi *cfi, uint64_t pc,
			  struct ht_cfi_reader *reader, struct ht_cfi_fde *ret_fde)
{
	const struct ht_cfi_section *section = &cfi->sections[0];
	int64_t want = (int64_t)(pc - cfi->search_base);
	size_t low = 0, high = cfi->n_search;
	uint64_t addr;

	if (cfi->n_search == 0 || cfi->n_sections == 0 || !section->eh)
		return false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (search_word(cfi, middle * 2) <= want)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return false;
	addr = cfi->search_base + (uint64_t)(int64_t)search_word(cfi, low * 2 - 1);
	if (addr < section->addr || addr - section->addr >= section->len)
		return false;
	ht_cfi_reader_init(reader, section);
	return ht_cfi_reader_at(reader, (size_t)(addr - section->addr), ret_fde) > 0 &&
	       covers(ret_fde, pc);
}

/* Where FDEs overlap, the one that starts first wins, as in the table. */
static int find_by_walk(const struct ht_cfi_section *section, uint64_t pc, size_t *budget,
			struct ht_cfi_reader *reader, struct ht_cfi_fde *ret_fde)
{
	size_t offset, best = SIZE_MAX;
	struct ht_cfi_fde fde;
	uint64_t start = 0;
	int r;

	ht_cfi_reader_init(reader, section);
	while ((r = ht_cfi_reader_next(reader, &fde, &offset)) != 0) {
		if (!ht_cfi_spend(budget))
			return -E2BIG;
		if (r < 0 || !covers(&fde, pc) || (best != SIZE_MAX && fde.start >= start))
			continue;
		best = offset;
		start = fde.start;
	}
	return best != SIZE_MAX && ht_cfi_reader_at(reader, best, ret_fde) > 0 ? 0 : -ENODATA;
}

int ht_cfi_find(const struct ht_cfi *cfi, uint64_t pc, size_t *budget,
		struct ht_cfi_reader *reader, struct ht_cfi_fde *ret_fde)
{
	int r = -ENODATA;
	unsigned i;

	if (find_by_table(cfi, pc, reader, ret_fde))
		return 0;
	for (i = 0; i < cfi->n_sections && r == -ENODATA; i++)
		r = find_by_walk(&cfi->sections[i], pc, budget, reader, ret_fde);
	return r;
}
