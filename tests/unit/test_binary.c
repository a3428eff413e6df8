/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/binary.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "ht_check.h"

/* An ELF file made by hand: header, program headers, then one page a segment. */
struct made {
	_Alignas(8) uint8_t bytes[16384];
	unsigned n;
};

static void make(struct made *m)
{
	Elf64_Ehdr ehdr = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN, .e_machine = EM_X86_64, .e_entry = 0x1234,
		.e_phoff = sizeof(ehdr), .e_phentsize = sizeof(Elf64_Phdr),
	};

	memset(m, 0, sizeof(*m));
	memcpy(m->bytes, &ehdr, sizeof(ehdr));
}

static void add_phdr(struct made *m, uint32_t type, uint32_t flags, uint64_t offset,
		     uint64_t vaddr, uint64_t size)
{
	Elf64_Phdr phdr = { .p_type = type, .p_flags = flags, .p_offset = offset,
			    .p_vaddr = vaddr, .p_filesz = size, .p_memsz = size,
			    .p_align = 4 };
	Elf64_Ehdr *ehdr = (Elf64_Ehdr *)m->bytes;

	memcpy(m->bytes + sizeof(*ehdr) + m->n * sizeof(phdr), &phdr, sizeof(phdr));
	ehdr->e_phnum = (uint16_t)++m->n;
}

static uint64_t bias_of(const struct made *m, uint64_t start, uint64_t offset,
			unsigned prot, const uint64_t *hint)
{
	struct ht_area area = { .start = start, .end = start + 0x1000, .offset = offset,
				.prot = prot, .path = "/x" };
	struct ht_binary binary;
	uint64_t bias = 1;

	ck_ok(ht_binary_read(m->bytes, sizeof(m->bytes), &binary));
	ck_ok(ht_binary_bias(&binary, &area, hint, &bias));
	return bias;
}

START_TEST(bias_of_gnu_layout)
{
	struct made m;

	make(&m);
	add_phdr(&m, PT_LOAD, PF_R, 0, 0, 0x1000);
	add_phdr(&m, PT_LOAD, PF_R | PF_X, 0x1000, 0x1000, 0x1800);
	add_phdr(&m, PT_LOAD, PF_R | PF_W, 0x2d00, 0x4d00, 0x400);
	ck_assert_uint_eq(bias_of(&m, 0x7f0000000000, 0, HT_PROT_READ, NULL),
			  0x7f0000000000);
	ck_assert_uint_eq(
		bias_of(&m, 0x7f0000001000, 0x1000, HT_PROT_READ | HT_PROT_EXEC, NULL),
		0x7f0000000000);
	ck_assert_uint_eq(
		bias_of(&m, 0x7f0000004000, 0x2000, HT_PROT_READ | HT_PROT_WRITE, NULL),
		0x7f0000000000);
	/* The loader made the start of the data read-only. */
	ck_assert_uint_eq(bias_of(&m, 0x7f0000004000, 0x2000, HT_PROT_READ,
				  &(uint64_t){ 0x7f0000000000 }), 0x7f0000000000);
	/* A part of the text that mprotect split off. */
	ck_assert_uint_eq(
		bias_of(&m, 0x7f0000002000, 0x2000, HT_PROT_READ | HT_PROT_EXEC, NULL),
		0x7f0000000000);
}
END_TEST

/* lld puts all segments into one run of bytes; offsets aren't page aligned, and a page of
 * the file belongs to two segments. */
START_TEST(bias_of_lld_layout)
{
	struct made m;

	make(&m);
	add_phdr(&m, PT_LOAD, PF_R, 0, 0x200000, 0x5a4);
	add_phdr(&m, PT_LOAD, PF_R | PF_X, 0x5b0, 0x2015b0, 0x130);
	add_phdr(&m, PT_LOAD, PF_R | PF_W, 0x6e0, 0x2026e0, 0x100);
	ck_assert_uint_eq(bias_of(&m, 0x200000, 0, HT_PROT_READ, NULL), 0);
	ck_assert_uint_eq(bias_of(&m, 0x201000, 0, HT_PROT_READ | HT_PROT_EXEC, NULL), 0);
	ck_assert_uint_eq(bias_of(&m, 0x202000, 0, HT_PROT_READ | HT_PROT_WRITE, NULL),
			  0);
	ck_assert_uint_eq(bias_of(&m, 0x202000, 0, HT_PROT_READ, &(uint64_t){ 0 }), 0);
	/* Without the hint the protection misleads; with it nothing does. */
	ck_assert_uint_ne(bias_of(&m, 0x202000, 0, HT_PROT_READ, NULL), 0);
}
END_TEST

START_TEST(bias_of_two_texts_and_prelink)
{
	struct made m;

	make(&m);
	add_phdr(&m, PT_LOAD, PF_R | PF_X, 0, 0x3a00000000, 0x1000);
	add_phdr(&m, PT_LOAD, PF_R | PF_X, 0x2000, 0x3a00400000, 0x1000);
	ck_assert_uint_eq(bias_of(&m, 0x3a00000000, 0, HT_PROT_READ | HT_PROT_EXEC, NULL),
			  0);
	ck_assert_uint_eq(
		bias_of(&m, 0x3a00400000, 0x2000, HT_PROT_READ | HT_PROT_EXEC, NULL), 0);
	/* Loaded elsewhere than it was prelinked to: the bias is negative. */
	ck_assert_uint_eq(
		bias_of(&m, 0x10400000, 0x2000, HT_PROT_READ | HT_PROT_EXEC, NULL),
		0x10000000 - UINT64_C(0x3a00000000));
}
END_TEST

START_TEST(area_of_no_segment)
{
	struct ht_area area = { .start = 0x10000, .end = 0x11000, .offset = 0x3000,
				.prot = HT_PROT_READ, .path = "/x" };
	struct ht_binary binary;
	struct made m;
	uint64_t bias;

	make(&m);
	add_phdr(&m, PT_LOAD, PF_R, 0, 0, 0x1000);
	ck_ok(ht_binary_read(m.bytes, sizeof(m.bytes), &binary));
	ck_assert_int_eq(ht_binary_bias(&binary, &area, NULL, &bias), -ENOENT);
	ck_assert(!ht_binary_is_text(&binary, 0, 0x1000));
	ck_assert_ptr_nonnull(ht_binary_at(&binary, 0xfff, 1));
	ck_assert_ptr_null(ht_binary_at(&binary, 0xfff, 2));
	ck_assert_ptr_null(ht_binary_at(&binary, UINT64_MAX, 2));
}
END_TEST

START_TEST(build_id_from_note)
{
	static const uint8_t note[] = {
		4,   0, 0, 0, 3,   0,	0,   0, 9,   0,	  0,   0,   'G', 'N',
		'U', 0, 1, 2, 3,   0,	4,   0, 0,   0,	  5,   0,   0,	 0,
		3,   0, 0, 0, 'G', 'N', 'U', 0, 'h', 'e', 'l', 'l', 'o',
	};
	struct ht_binary binary;
	struct made m;

	make(&m);
	add_phdr(&m, PT_NOTE, PF_R, 0x1000, 0x1000, sizeof(note));
	memcpy(m.bytes + 0x1000, note, sizeof(note));
	ck_ok(ht_binary_read(m.bytes, sizeof(m.bytes), &binary));
	ck_assert_uint_eq(binary.build_id_len, 5);
	ck_assert_mem_eq(binary.build_id, "hello", 5);
	ck_assert_uint_eq(binary.build_id_offset, 0x1000 + 36);
	/* Cut short, the id isn't believed. */
	make(&m);
	add_phdr(&m, PT_NOTE, PF_R, 0x1000, 0x1000, sizeof(note) - 1);
	memcpy(m.bytes + 0x1000, note, sizeof(note));
	ck_ok(ht_binary_read(m.bytes, sizeof(m.bytes), &binary));
	ck_assert_uint_eq(binary.build_id_len, 0);
}
END_TEST

/* Headers full of random values: nothing is read outside of the image (a sanitizer
 * watches), and answers lie inside. */
START_TEST(survives_noise)
{
	struct ht_area area = { .start = 0x10000, .end = 0x11000, .path = "/x" };
	uint64_t seed = 42, bias;
	struct ht_binary binary;
	struct made m;
	unsigned i, j;

	for (i = 0; i < 20000; i++) {
		uint8_t *copy;
		size_t len = 200 + i % 1000;

		make(&m);
		for (j = 0; j < 6; j++)
			add_phdr(&m, j & 1 ? PT_LOAD : PT_NOTE, PF_R | PF_X, 0x100, 0x100,
				 0x200);
		for (j = 0; j < 8; j++) {
			seed = seed * UINT64_C(6364136223846793005) +
			       1442695040888963407u;
			m.bytes[16 + (seed >> 33) % 700] = (uint8_t)(seed >> 20);
		}
		copy = malloc(len);
		ck_assert_ptr_nonnull(copy);
		memcpy(copy, m.bytes, len);
		if (!ht_binary_read(copy, len, &binary)) {
			const uint8_t *at = ht_binary_at(&binary, 0x100, 64);

			ck_assert(!at || (at >= copy && at + 64 <= copy + len));
			area.offset = seed & 0xf000;
			(void)!ht_binary_bias(&binary, &area, NULL, &bias);
			ht_binary_is_text(&binary, seed, 0x1000);
		}
		free(copy);
	}
}
END_TEST

int main(void)
{
	return ht_check_run("binary", (const TTest *const[]){
		bias_of_gnu_layout, bias_of_lld_layout, bias_of_two_texts_and_prelink,
		area_of_no_segment, build_id_from_note, survives_noise, NULL });
}
