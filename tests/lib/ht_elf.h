/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_elf.h: small ELF files with hand-made call frame information, for tests.
 *
 *	static struct ht_elf elf;
 *	ht_elf_init(&elf);
 *	cie = ht_elf_cie(&elf.eh, "zR", HT_ELF_CODE(0x0c, 7, 8, 0x90, 1));
 *	ht_elf_fde(&elf.eh, cie, 0x1000, 0x10, HT_ELF_CODE(0x41, 0x0e, 16));
 *	image = ht_elf_build(&elf, &len);	malloced and not a byte longer than needed
 *
 *	0x0000	headers		0x2000	.eh_frame	0x5000	.debug_frame, names, section
 *	0x1000	.text, exec	0x4000	.eh_frame_hdr		headers
 *	Module addresses are file offsets.
 */
#ifndef HT_TESTS_HT_ELF_H
#define HT_TESTS_HT_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define HT_ELF_TEXT 0x1000
#define HT_ELF_TEXT_LEN 0x1000
#define HT_ELF_EH 0x2000
#define HT_ELF_EH_MAX 0x2000
#define HT_ELF_HDR 0x4000
#define HT_ELF_DEBUG 0x5000
#define HT_ELF_MAX_SECTIONS 16

#define HT_ELF_CODE(...)                                                                  \
	(const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })
#define HT_ELF_NO_CODE NULL, 0

struct ht_elf_bytes {
	uint8_t at[0x2000];
	size_t len;
	uint64_t addr;
	bool eh;
};

struct ht_elf_section {
	const char *name;
	uint32_t type;
	uint64_t flags, addr, offset, len;
};

struct ht_elf {
	struct ht_elf_bytes eh, debug;
	uint8_t text[HT_ELF_TEXT_LEN];
	uint8_t hdr[64];
	size_t hdr_len;			/* 0: no .eh_frame_hdr */
	bool no_sections;		/* leave the section headers out */
	const char *debug_name;
	uint64_t debug_flags;
	struct ht_elf_section more[8];	/* further sections */
	unsigned n_more;
	/* A second executable segment: the text again, at this address. */
	uint64_t far_text;
};

static inline void ht_elf_init(struct ht_elf *elf)
{
	memset(elf, 0, sizeof(*elf));
	memset(elf->text, 0x90, sizeof(elf->text));
	elf->eh.addr = HT_ELF_EH;
	elf->eh.eh = true;
	elf->debug.addr = 0;
	elf->debug_name = ".debug_frame";
}

static inline void ht_elf_put(struct ht_elf_bytes *b, const void *data, size_t len)
{
	if (len > sizeof(b->at) - b->len)
		abort();
	if (len > 0)
		memcpy(b->at + b->len, data, len);
	b->len += len;
}

static inline void ht_elf_u8(struct ht_elf_bytes *b, uint8_t value)
{
	ht_elf_put(b, &value, sizeof(value));
}

static inline void ht_elf_u32(struct ht_elf_bytes *b, uint32_t value)
{
	ht_elf_put(b, &value, sizeof(value));
}

static inline void ht_elf_u64(struct ht_elf_bytes *b, uint64_t value)
{
	ht_elf_put(b, &value, sizeof(value));
}

/* Close the entry whose 4-byte length is at @start, padded to 4 with nops. */
static inline void ht_elf_close(struct ht_elf_bytes *b, size_t start)
{
	uint32_t len;

	while (b->len % 4 != 0)
		ht_elf_u8(b, 0);
	len = (uint32_t)(b->len - start - 4);
	memcpy(b->at + start, &len, sizeof(len));
}

/* A CIE as compilers make it: code alignment 1, data alignment -8, return address in 16;
 * "zR" and its like give pc-relative 4-byte addresses, "" gives 8-byte ones. Returns its
 * offset. */
static inline size_t ht_elf_cie(struct ht_elf_bytes *b, const char *augmentation,
				const uint8_t *code, size_t len)
{
	size_t start = b->len;
	const char *letter;
	uint8_t n = 0;

	ht_elf_u32(b, 0);
	ht_elf_u32(b, b->eh ? 0 : UINT32_MAX);
	ht_elf_u8(b, 1);
	ht_elf_put(b, augmentation, strlen(augmentation) + 1);
	ht_elf_u8(b, 1);
	ht_elf_u8(b, 0x78);
	ht_elf_u8(b, 16);
	if (augmentation[0] == 'z') {
		for (letter = augmentation + 1; *letter; letter++)
			n += *letter == 'P' ? 5 : *letter == 'R' || *letter == 'L';
		ht_elf_u8(b, n);
		for (letter = augmentation + 1; *letter; letter++) {
			if (*letter == 'P')
				ht_elf_put(b, "\x1b\1\2\3\4", 5);
			else if (*letter == 'R' || *letter == 'L')
				ht_elf_u8(b, 0x1b);
		}
	}
	ht_elf_put(b, code, len);
	ht_elf_close(b, start);
	return start;
}

/* The CIE of gcc: CFA = rsp + 8, return address at CFA - 8. */
static inline size_t ht_elf_plain_cie(struct ht_elf_bytes *b)
{
	return ht_elf_cie(b, b->eh ? "zR" : "", HT_ELF_CODE(0x0c, 7, 8, 0x90, 1));
}

/* An FDE of the CIE at @cie. Returns its offset. */
static inline size_t ht_elf_fde(struct ht_elf_bytes *b, size_t cie, uint64_t start_pc,
				uint32_t size, const uint8_t *code, size_t len)
{
	size_t start = b->len;

	ht_elf_u32(b, 0);
	ht_elf_u32(b, (uint32_t)(b->eh ? b->len - cie : cie));
	if (b->eh) {
		ht_elf_u32(b, (uint32_t)(start_pc - (b->addr + b->len)));
		ht_elf_u32(b, size);
		ht_elf_u8(b, 0);
	} else {
		ht_elf_u64(b, start_pc);
		ht_elf_u64(b, size);
	}
	ht_elf_put(b, code, len);
	ht_elf_close(b, start);
	return start;
}

static inline void ht_elf_add_section(struct ht_elf *elf, const char *name, uint32_t type,
				      uint64_t flags, uint64_t addr, uint64_t len)
{
	if (elf->n_more == ARRAY_SIZE(elf->more))
		abort();
	elf->more[elf->n_more++] =
		(struct ht_elf_section){ name, type, flags, addr, addr, len };
}

static inline size_t ht_elf_place_sections(const struct ht_elf *elf, uint8_t *image,
					   size_t at)
{
	struct ht_elf_section list[HT_ELF_MAX_SECTIONS] = {
		{ "", SHT_NULL, 0, 0, 0, 0 },
		{ ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, HT_ELF_TEXT,
		  HT_ELF_TEXT, HT_ELF_TEXT_LEN },
		{ ".eh_frame", SHT_PROGBITS, SHF_ALLOC, HT_ELF_EH, HT_ELF_EH, elf->eh.len },
		{ elf->debug_name, SHT_PROGBITS, elf->debug_flags, 0, HT_ELF_DEBUG,
		  elf->debug.len },
	};
	Elf64_Ehdr *ehdr = (Elf64_Ehdr *)image;
	unsigned i, n = 4;
	Elf64_Shdr shdr;
	size_t names = at;

	for (i = 0; i < elf->n_more; i++)
		list[n++] = elf->more[i];
	list[n++] = (struct ht_elf_section){ ".shstrtab", SHT_STRTAB, 0, 0, names, 512 };
	at += 512;
	ehdr->e_shoff = at;
	ehdr->e_shentsize = sizeof(shdr);
	ehdr->e_shnum = (uint16_t)n;
	ehdr->e_shstrndx = (uint16_t)(n - 1);
	for (i = 0; i < n; i++) {
		shdr = (Elf64_Shdr){ .sh_name = i * 16,
				     .sh_type = list[i].type,
				     .sh_flags = list[i].flags,
				     .sh_addr = list[i].addr,
				     .sh_offset = list[i].offset,
				     .sh_size = list[i].len };
		memcpy(image + names + i * 16, list[i].name, strlen(list[i].name) + 1);
		memcpy(image + at, &shdr, sizeof(shdr));
		at += sizeof(shdr);
	}
	return at;
}

static inline uint8_t *ht_elf_build(const struct ht_elf *elf, size_t *ret_len)
{
	const Elf64_Phdr phdrs[] = {
		{ PT_LOAD, PF_R | PF_X, HT_ELF_TEXT, HT_ELF_TEXT, 0, HT_ELF_TEXT_LEN,
		  HT_ELF_TEXT_LEN, 0x1000 },
		{ PT_LOAD, PF_R, HT_ELF_EH, HT_ELF_EH, 0, 0x3000, 0x3000, 0x1000 },
		{ elf->hdr_len ? PT_GNU_EH_FRAME : PT_NULL, PF_R, HT_ELF_HDR, HT_ELF_HDR, 0,
		  elf->hdr_len, elf->hdr_len, 4 },
		{ elf->far_text ? PT_LOAD : PT_NULL, PF_R | PF_X, HT_ELF_TEXT, elf->far_text,
		  0, HT_ELF_TEXT_LEN, HT_ELF_TEXT_LEN, 0x1000 },
	};
	const Elf64_Ehdr ehdr = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(ehdr),
		.e_ehsize = sizeof(ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = ARRAY_SIZE(phdrs),
	};
	uint8_t *image = calloc(1, 0x8000), *exact;
	size_t len = HT_ELF_DEBUG + elf->debug.len;

	if (!image)
		abort();
	memcpy(image, &ehdr, sizeof(ehdr));
	memcpy(image + sizeof(ehdr), phdrs, sizeof(phdrs));
	memcpy(image + HT_ELF_TEXT, elf->text, sizeof(elf->text));
	memcpy(image + HT_ELF_EH, elf->eh.at, elf->eh.len);
	memcpy(image + HT_ELF_HDR, elf->hdr, elf->hdr_len);
	memcpy(image + HT_ELF_DEBUG, elf->debug.at, elf->debug.len);
	if (!elf->no_sections)
		len = ht_elf_place_sections(elf, image, ht_align_up(len, (size_t)8));
	/* Not a byte more, so that the sanitizer sees any read behind it. */
	exact = malloc(len);
	if (!exact)
		abort();
	memcpy(exact, image, len);
	free(image);
	*ret_len = len;
	return exact;
}

/* .eh_frame_hdr with a search table of @n pairs (start, offset of the FDE), in order. */
static inline void ht_elf_make_hdr(struct ht_elf *elf, const uint64_t (*pairs)[2], uint32_t n)
{
	struct ht_elf_bytes b = { .len = 0 };
	uint32_t i;

	ht_elf_put(&b, "\x01\x1b\x03\x3b", 4);
	ht_elf_u32(&b, (uint32_t)(HT_ELF_EH - (HT_ELF_HDR + 4)));
	ht_elf_u32(&b, n);
	for (i = 0; i < n; i++) {
		ht_elf_u32(&b, (uint32_t)(pairs[i][0] - HT_ELF_HDR));
		ht_elf_u32(&b, (uint32_t)(HT_ELF_EH + pairs[i][1] - HT_ELF_HDR));
	}
	if (b.len > sizeof(elf->hdr))
		abort();
	memcpy(elf->hdr, b.at, b.len);
	elf->hdr_len = b.len;
}

#endif
