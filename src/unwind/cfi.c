/* SPDX-License-Identifier: Apache-2.0
 *
 * cfi.c: the entries of .eh_frame and .debug_frame, CIEs and FDEs. Their programs are
 * run by cfi-run.c, the sections are found by cfi-file.c.
 */
#include "unwind/cfi.h"

#include <errno.h>
#include <string.h>

/* "zPLRSBG" is the longest augmentation that means something. */
#define MAX_AUGMENTATION 16

/* DWARF's exception header encodings, as in the Linux Standard Base. */
enum {
	ENC_ABSPTR = 0x00, ENC_ULEB = 0x01, ENC_UDATA2 = 0x02, ENC_UDATA4 = 0x03,
	ENC_UDATA8 = 0x04, ENC_SLEB = 0x09, ENC_SDATA2 = 0x0a, ENC_SDATA4 = 0x0b,
	ENC_SDATA8 = 0x0c, ENC_FORMAT = 0x0f, ENC_PCREL = 0x10, ENC_BASE = 0x70,
	ENC_INDIRECT = 0x80, ENC_OMIT = 0xff,
};

struct entry {
	struct ht_cursor body;	/* behind the id */
	uint64_t id;
	uint64_t id_pos;
	bool is_cie;
};

static uint64_t read_format(struct ht_cursor *c, uint8_t encoding)
{
	switch (encoding & ENC_FORMAT) {
	case ENC_ABSPTR:
	case ENC_UDATA8:
	case ENC_SDATA8:
		return ht_cursor_u64(c);
	case ENC_ULEB:
		return ht_cursor_uleb(c);
	case ENC_SLEB:
		return (uint64_t)ht_cursor_sleb(c);
	case ENC_UDATA2:
		return ht_cursor_u16(c);
	case ENC_SDATA2:
		return (uint64_t)(int64_t)(int16_t)ht_cursor_u16(c);
	case ENC_UDATA4:
		return ht_cursor_u32(c);
	case ENC_SDATA4:
		return (uint64_t)(int64_t)(int32_t)ht_cursor_u32(c);
	default:
		c->bad = true;
		return 0;
	}
}

uint64_t ht_cfi_pointer(struct ht_cursor *c, uint8_t encoding,
			const struct ht_cfi_section *section)
{
	uint64_t here = section->addr + (uint64_t)(c->p - section->data);
	uint64_t value = read_format(c, encoding);

	if ((encoding & ENC_BASE) == ENC_PCREL)
		value += here;
	else if ((encoding & ENC_BASE) != 0)
		c->bad = true;
	if (encoding & ENC_INDIRECT)
		c->bad = true;
	return value;
}

/* The entry at @pos: 1, its end in @ret_next; 0: a terminator; -EINVAL: it isn't inside of
 * the section, so nothing behind it can be found either. */
static int read_entry(const struct ht_cfi_section *section, size_t pos,
		      struct entry *ret_entry, size_t *ret_next)
{
	struct ht_cursor c = { section->data + pos, section->data + section->len, false };
	uint64_t len = ht_cursor_u32(&c);
	bool wide = len == UINT32_MAX;
	struct entry entry;

	if (wide)
		len = ht_cursor_u64(&c);
	if (c.bad || len > ht_cursor_left(&c))
		return -EINVAL;
	c.end = c.p + len;
	*ret_next = (size_t)(c.end - section->data);
	if (len == 0)
		return 0;
	entry.id_pos = (uint64_t)(c.p - section->data);
	/* .eh_frame keeps a 4-byte id behind a 64-bit length. */
	if (wide && !section->eh) {
		entry.id = ht_cursor_u64(&c);
		entry.is_cie = entry.id == UINT64_MAX;
	} else {
		entry.id = ht_cursor_u32(&c);
		entry.is_cie = entry.id == (section->eh ? 0 : UINT32_MAX);
	}
	entry.body = c;
	*ret_entry = entry;
	return 1;
}

/* The 'z' augmentation: @c holds its data, @letters what is behind the z. */
static bool read_augmentation(struct ht_cursor *c, const char *letters,
			      struct ht_cfi_cie *cie)
{
	uint8_t encoding;

	for (; *letters != '\0'; letters++) {
		switch (*letters) {
		case 'R':
			cie->encoding = ht_cursor_u8(c);
			break;
		case 'L':
			ht_cursor_u8(c);
			break;
		case 'P':
			/* Only its size matters; where it points to doesn't. */
			encoding = ht_cursor_u8(c);
			if (encoding != ENC_OMIT)
				read_format(c, encoding);
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B':
		case 'G':
			break;
		default:
			/* The length leads behind what we don't know. */
			return !c->bad;
		}
	}
	return !c->bad;
}

static const char *read_string(struct ht_cursor *c)
{
	size_t max = ht_min(ht_cursor_left(c), (size_t)MAX_AUGMENTATION + 1);
	const uint8_t *start = c->p, *nul = memchr(start, '\0', max);

	if (!nul) {
		c->bad = true;
		return "";
	}
	c->p = nul + 1;
	return (const char *)start;
}

static int parse_cie(const struct ht_cfi_section *section, uint64_t offset,
		     struct ht_cfi_cie *cie)
{
	struct ht_cursor c, data;
	struct entry entry;
	const char *letters;
	uint8_t version;
	uint64_t ra, len;
	size_t next;

	if (offset >= section->len ||
	    read_entry(section, (size_t)offset, &entry, &next) <= 0 || !entry.is_cie)
		return -EINVAL;
	c = entry.body;
	version = ht_cursor_u8(&c);
	if (version != 1 && version != 3 && version != 4)
		return -EINVAL;
	letters = read_string(&c);
	/* gcc 2 put a pointer to its exception table here. */
	if (letters[0] == 'e' && letters[1] == 'h') {
		ht_cursor_u64(&c);
		letters += 2;
	}
	/* Address size and segment size. */
	if (version == 4 && (ht_cursor_u8(&c) != 8 || ht_cursor_u8(&c) != 0))
		return -EINVAL;
	cie->code_align = ht_cursor_uleb(&c);
	cie->data_align = ht_cursor_sleb(&c);
	ra = version == 1 ? ht_cursor_u8(&c) : ht_cursor_uleb(&c);
	cie->encoding = ENC_ABSPTR;
	cie->signal = false;
	cie->augmented = letters[0] == 'z';
	if (cie->augmented) {
		len = ht_cursor_uleb(&c);
		data.bad = false;
		data.p = ht_cursor_take(&c, len);
		if (!data.p)
			return -EINVAL;
		data.end = c.p;
		if (!read_augmentation(&data, letters + 1, cie))
			return -EINVAL;
	} else if (letters[0] != '\0') {
		return -EINVAL;
	}
	if (c.bad || ra >= HT_CFI_REGS)
		return -EINVAL;
	cie->ra_reg = (uint8_t)ra;
	return ht_cfi_run_cie(c, cie);
}

static const struct ht_cfi_cie *find_cie(struct ht_cfi_reader *reader, uint64_t offset)
{
	struct ht_cfi_cie_slot *slot = &reader->cies[(offset ^ offset >> 4) / 4 % HT_CFI_CIES];

	if (slot->state == HT_CFI_CIE_FREE || slot->offset != offset) {
		slot->offset = offset;
		slot->state = parse_cie(reader->section, offset, &slot->cie) < 0
				      ? HT_CFI_CIE_BAD : HT_CFI_CIE_GOOD;
	}
	return slot->state == HT_CFI_CIE_GOOD ? &slot->cie : NULL;
}

/* 1, 0 for one without code, or -EINVAL. */
static int parse_fde(struct ht_cfi_reader *reader, const struct entry *entry,
		     struct ht_cfi_fde *ret_fde)
{
	const struct ht_cfi_section *section = reader->section;
	uint64_t offset = section->eh ? entry->id_pos - entry->id : entry->id;
	const struct ht_cfi_cie *cie = find_cie(reader, offset);
	struct ht_cursor c = entry->body;
	struct ht_cfi_fde fde = { .section = section, .cie = cie };
	uint64_t size;

	if (!cie)
		return -EINVAL;
	fde.start = ht_cfi_pointer(&c, cie->encoding, section);
	size = read_format(&c, cie->encoding);
	if (cie->augmented)
		ht_cursor_take(&c, ht_cursor_uleb(&c));
	if (c.bad || __builtin_add_overflow(fde.start, size, &fde.end))
		return -EINVAL;
	if (size == 0)
		return 0;
	fde.code = c.p;
	fde.code_end = c.end;
	*ret_fde = fde;
	return 1;
}

void ht_cfi_reader_init(struct ht_cfi_reader *reader, const struct ht_cfi_section *section)
{
	unsigned i;

	reader->section = section;
	reader->pos = 0;
	for (i = 0; i < HT_CFI_CIES; i++)
		reader->cies[i].state = HT_CFI_CIE_FREE;
}

int ht_cfi_reader_next(struct ht_cfi_reader *reader, struct ht_cfi_fde *ret_fde,
		       size_t *ret_offset)
{
	const struct ht_cfi_section *section = reader->section;
	struct entry entry;
	size_t pos;
	int r;

	while (reader->pos < section->len) {
		pos = reader->pos;
		r = read_entry(section, pos, &entry, &reader->pos);
		if (r < 0 || (r == 0 && section->open_end))
			reader->pos = section->len;
		/* Up to three bytes of padding aren't worth a complaint. */
		if (r < 0 && section->len - pos >= 4)
			return r;
		/* Relocatable links leave terminators in the middle (crtend.o). */
		if (r <= 0 || entry.is_cie)
			continue;
		r = parse_fde(reader, &entry, ret_fde);
		if (r == 0)
			continue;
		*ret_offset = pos;
		return r;
	}
	return 0;
}

int ht_cfi_reader_at(struct ht_cfi_reader *reader, size_t offset, struct ht_cfi_fde *ret_fde)
{
	struct entry entry;
	size_t next;

	if (offset >= reader->section->len ||
	    read_entry(reader->section, offset, &entry, &next) <= 0 || entry.is_cie ||
	    parse_fde(reader, &entry, ret_fde) <= 0)
		return -EINVAL;
	return 1;
}
