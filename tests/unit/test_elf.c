/* SPDX-License-Identifier: Apache-2.0
 *
 * Sections, build-ids and code of ELF files made by hand, most of them badly.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "ht_check.h"
#include "symbol/symbol-priv.h"

enum { TEXT = 1, NOTES, BSS, NAMES, SECTIONS };

static struct image {
	Elf64_Ehdr header;
	Elf64_Phdr segments[4];
	Elf64_Shdr sections[SECTIONS];
	uint8_t notes[256];
	char text[16];
	char names[40];
} image;

static struct ht_elf elf;

static void fresh(void)
{
	image = (struct image){
		.header = { .e_type = ET_DYN, .e_phoff = offsetof(struct image, segments),
			    .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 4,
			    .e_shoff = offsetof(struct image, sections),
			    .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = SECTIONS,
			    .e_shstrndx = NAMES },
		.text = "fifteen letters",
		.names = "\0.text\0.note\0.bss\0.shstrtab",
	};
	memcpy(image.header.e_ident, ELFMAG, SELFMAG);
	image.header.e_ident[EI_CLASS] = ELFCLASS64;
	image.header.e_ident[EI_DATA] = ELFDATA2LSB;
	image.sections[TEXT] = (Elf64_Shdr){
		.sh_name = 1, .sh_type = SHT_PROGBITS,
		.sh_offset = offsetof(struct image, text), .sh_size = 15 };
	image.sections[NOTES] = (Elf64_Shdr){
		.sh_name = 7, .sh_type = SHT_NOTE,
		.sh_offset = offsetof(struct image, notes) };
	image.sections[BSS] = (Elf64_Shdr){
		.sh_name = 13, .sh_type = SHT_NOBITS, .sh_offset = 0, .sh_size = 1 << 30 };
	image.sections[NAMES] = (Elf64_Shdr){
		.sh_name = 18, .sh_type = SHT_STRTAB,
		.sh_offset = offsetof(struct image, names),
		.sh_size = sizeof(image.names) };
}

static int init(void)
{
	return ht_elf_init_image(&elf, (const uint8_t *)&image, sizeof(image));
}

static void good(void)
{
	ck_ok(init());
}

START_TEST(kinds)
{
	static const struct {
		int at, value, r;
	} cases[] = {
		{ offsetof(Elf64_Ehdr, e_type), ET_EXEC, 0 },
		{ offsetof(Elf64_Ehdr, e_type), ET_REL, 0 },
		{ offsetof(Elf64_Ehdr, e_type), ET_CORE, -ENOEXEC },
		{ offsetof(Elf64_Ehdr, e_type), ET_NONE, -ENOEXEC },
		{ EI_CLASS, ELFCLASS32, -ENOEXEC },
		{ EI_DATA, ELFDATA2MSB, -ENOEXEC },
		{ EI_MAG3, 'f', -ENOEXEC },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fresh();
		((uint8_t *)&image)[cases[i].at] = (uint8_t)cases[i].value;
		ck_assert_int_eq(init(), cases[i].r);
		ht_elf_fini(&elf);
	}
	fresh();
	ck_assert_int_eq(ht_elf_init_image(&elf, (const uint8_t *)&image, 0), -ENOEXEC);
	ck_assert_int_eq(ht_elf_init_image(&elf, (const uint8_t *)&image, 63), -ENOEXEC);
	/* A header and nothing else is still one. */
	ck_ok(ht_elf_init_image(&elf, (const uint8_t *)&image, 64));
	ck_assert_uint_eq(elf.n_sections, 0);
	ht_elf_fini(&elf);
	ht_elf_fini(&elf);
}
END_TEST

static int image_fd(void)
{
	int fd = memfd_create("image", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_ok(ht_fd_write_all(fd, &image, sizeof(image)));
	return fd;
}

/* The fd is taken in any case, and who truncates the file makes an error, not a SIGBUS. */
START_TEST(behind_an_fd)
{
	char text[16] = "";
	uint8_t *data;
	size_t len;
	int fd;

	fresh();
	fd = image_fd();
	ck_ok(ht_elf_init_fd(&elf, fd));
	ck_ok(ht_elf_read(&elf, offsetof(struct image, text), text, 15));
	ck_assert_str_eq(text, "fifteen letters");
	ck_assert_ptr_nonnull(ht_elf_section(&elf, ".text"));
	ck_assert_int_eq(ht_elf_read(&elf, sizeof(image), text, 1), -EBADMSG);
	ck_assert_int_eq(ftruncate(fd, 100), 0);
	ck_assert_int_lt(ht_elf_read(&elf, offsetof(struct image, text), text, 15), 0);
	ck_assert_int_lt(ht_elf_load(&elf, ht_elf_section(&elf, ".text"), 100, &data, &len), 0);
	ht_elf_fini(&elf);
	ck_assert_int_lt(fcntl(fd, F_GETFD), 0);
	image.header.e_type = ET_CORE;
	fd = image_fd();
	ck_assert_int_eq(ht_elf_init_fd(&elf, fd), -ENOEXEC);
	ck_assert_int_lt(fcntl(fd, F_GETFD), 0);
	/* One that could not be opened. */
	ck_assert_int_eq(ht_elf_init_fd(&elf, -ENOENT), -ENOEXEC);
	ht_elf_fini(&elf);
}
END_TEST

START_TEST(sections_by_name)
{
	fresh();
	good();
	ck_assert_uint_eq(elf.n_sections, SECTIONS);
	ck_assert_ptr_eq(ht_elf_section(&elf, ".text"), &elf.sections[TEXT]);
	ck_assert_str_eq(ht_elf_section_name(&elf, NAMES), ".shstrtab");
	ck_assert_ptr_null(ht_elf_section(&elf, ".text.hot"));
	ck_assert_ptr_null(ht_elf_section(&elf, ".bss"));
	/* The first one is none. */
	ck_assert_ptr_null(ht_elf_section(&elf, ""));
	ht_elf_fini(&elf);
}
END_TEST

START_TEST(names_that_lead_astray)
{
	fresh();
	image.sections[TEXT].sh_name = sizeof(image.names);
	image.sections[NOTES].sh_name = UINT32_MAX;
	good();
	ck_assert_str_eq(ht_elf_section_name(&elf, TEXT), "");
	ck_assert_str_eq(ht_elf_section_name(&elf, NOTES), "");
	ht_elf_fini(&elf);
	/* The last byte of the table is no NUL. */
	memset(image.names, 'x', sizeof(image.names));
	image.sections[TEXT].sh_name = sizeof(image.names) - 1;
	good();
	ck_assert_str_eq(ht_elf_section_name(&elf, TEXT), "x");
	ht_elf_fini(&elf);
	/* Names that can't be had are as good as none. */
	fresh();
	image.sections[NAMES].sh_size = UINT64_MAX;
	good();
	ck_assert_uint_eq(elf.n_sections, SECTIONS);
	ck_assert_ptr_null(ht_elf_section(&elf, ".text"));
	ht_elf_fini(&elf);
	fresh();
	image.header.e_shstrndx = SECTIONS;
	good();
	ck_assert_str_eq(ht_elf_section_name(&elf, TEXT), "");
	ht_elf_fini(&elf);
}
END_TEST

/* More sections than the header has room for are counted in the first one. */
START_TEST(counts_in_the_first_section)
{
	fresh();
	image.header.e_shnum = 0;
	image.header.e_shstrndx = SHN_XINDEX;
	image.sections[0].sh_size = SECTIONS;
	image.sections[0].sh_link = NAMES;
	good();
	ck_assert_uint_eq(elf.n_sections, SECTIONS);
	ck_assert_ptr_nonnull(ht_elf_section(&elf, ".text"));
	ht_elf_fini(&elf);
	image.sections[0].sh_size = 0;
	good();
	ck_assert_uint_eq(elf.n_sections, 0);
	ht_elf_fini(&elf);
	image.sections[0].sh_size = UINT64_C(1) << 58;	/* times 64 is 0 */
	good();
	ck_assert_uint_eq(elf.n_sections, 0);
	ht_elf_fini(&elf);
}
END_TEST

START_TEST(section_headers_that_are_not_there)
{
	fresh();
	image.header.e_shentsize = 63;
	good();
	ck_assert_uint_eq(elf.n_sections, 0);
	ht_elf_fini(&elf);
	fresh();
	image.header.e_shoff = UINT64_MAX - 63;
	good();
	ck_assert_uint_eq(elf.n_sections, 0);
	ht_elf_fini(&elf);
	/* One more than there's room for in the file. */
	fresh();
	image.header.e_shoff = sizeof(image) - 3 * sizeof(Elf64_Shdr);
	image.header.e_shnum = 4;
	good();
	ck_assert_uint_eq(elf.n_sections, 0);
	ht_elf_fini(&elf);
}
END_TEST

static int load(Elf64_Shdr section, size_t max, const char *want)
{
	size_t len = 77;
	uint8_t *data = NULL;
	int r = ht_elf_load(&elf, &section, max, &data, &len);

	ck_assert(r == 0 || (!data && len == 77));
	if (r == 0) {
		ck_assert_uint_eq(len, strlen(want));
		ck_assert_str_eq((char *)data, want);
	}
	free(data);
	return r;
}

START_TEST(loading)
{
	Elf64_Shdr section;

	fresh();
	good();
	section = elf.sections[TEXT];
	ck_ok(load(section, 15, "fifteen letters"));
	ck_assert_int_eq(load(section, 14, ""), -EFBIG);
	section.sh_size = 7;
	ck_ok(load(section, 100, "fifteen"));
	section.sh_size = 0;
	ck_ok(load(section, 0, ""));
	section.sh_offset = sizeof(image);
	ck_ok(load(section, 0, ""));
	section.sh_size = 1;
	ck_assert_int_eq(load(section, 100, ""), -EBADMSG);
	section.sh_offset = UINT64_MAX;
	ck_assert_int_eq(load(section, 100, ""), -EBADMSG);
	section.sh_offset = 8;
	section.sh_size = UINT64_MAX - 4;
	ck_assert_int_eq(load(section, SIZE_MAX, ""), -EBADMSG);
	ck_assert_int_eq(load(elf.sections[BSS], SIZE_MAX, ""), -EBADMSG);
	ht_elf_fini(&elf);
}
END_TEST

/* --- build-ids --- */

static size_t note_at;

static void put_note(uint32_t type, const char *name, uint32_t namesz, const char *desc,
		     uint32_t descsz)
{
	Elf64_Nhdr note = { namesz, descsz, type };
	uint8_t *at = image.notes + note_at;

	memcpy(at, &note, sizeof(note));
	memcpy(at + sizeof(note), name, strlen(name));
	memcpy(at + sizeof(note) + ((namesz + 3) & ~3u), desc, strlen(desc));
	note_at += sizeof(note) + ((namesz + 3) & ~3u) + ((descsz + 3) & ~3u);
	image.sections[NOTES].sh_size = note_at;
}

static void fresh_notes(void)
{
	fresh();
	note_at = 0;
}

static void has_id(size_t max, const char *want)
{
	char id[HT_BUILD_ID_MAX + 1] = "";

	good();
	ck_assert_uint_eq(ht_elf_build_id(&elf, (uint8_t *)id, max), strlen(want));
	ck_assert_str_eq(id, want);
	ht_elf_fini(&elf);
}

START_TEST(build_ids)
{
	fresh_notes();
	has_id(HT_BUILD_ID_MAX, "");
	/* Behind others, one of them with a name that must be padded. */
	put_note(1, "GNU", 4, "abi", 4);
	put_note(NT_GNU_BUILD_ID, "stapsdt", 8, "nope", 4);
	put_note(NT_GNU_BUILD_ID, "GNUX", 5, "nope", 4);
	put_note(NT_GNU_BUILD_ID, "GNU", 4, "twenty bytes of a id", 20);
	has_id(HT_BUILD_ID_MAX, "twenty bytes of a id");
	has_id(20, "twenty bytes of a id");
	/* Half an id would be that of another file. */
	has_id(19, "");
	/* Without section headers the segment has it. */
	image.segments[2] = (Elf64_Phdr){ .p_type = PT_NOTE, .p_filesz = note_at,
					  .p_offset = offsetof(struct image, notes) };
	image.header.e_shoff = 0;
	has_id(HT_BUILD_ID_MAX, "twenty bytes of a id");
	image.segments[2].p_type = PT_LOAD;
	has_id(HT_BUILD_ID_MAX, "");
	image.segments[2].p_type = PT_NOTE;
	image.segments[2].p_offset = UINT64_MAX - 8;
	has_id(HT_BUILD_ID_MAX, "");
	image.header.e_phoff = UINT64_MAX - 8;
	has_id(HT_BUILD_ID_MAX, "");
}
END_TEST

START_TEST(notes_that_lie)
{
	static const uint32_t sizes[] = { 0xffffffff, 0xfffffffd, 0x7fffffff, 300, 0 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		fresh_notes();
		put_note(NT_GNU_BUILD_ID, "GNU", 4, "id", 2);
		((Elf64_Nhdr *)(void *)image.notes)->n_namesz = sizes[i];
		has_id(HT_BUILD_ID_MAX, "");
		fresh_notes();
		put_note(NT_GNU_BUILD_ID, "GNU", 4, "id", 2);
		((Elf64_Nhdr *)(void *)image.notes)->n_descsz = sizes[i];
		has_id(HT_BUILD_ID_MAX, "");
	}
	/* Cut anywhere, at the very end of the image. */
	for (size_t len = 0; len < 20; len++) {
		fresh_notes();
		put_note(NT_GNU_BUILD_ID, "GNU", 4, "idid", 4);
		memcpy((uint8_t *)&image + sizeof(image) - len, image.notes, len);
		image.sections[NOTES].sh_offset = sizeof(image) - len;
		image.sections[NOTES].sh_size = len;
		has_id(HT_BUILD_ID_MAX, "");
	}
}
END_TEST

/* Each may be read whole for nothing: after so many none is believed. */
START_TEST(notes_without_end)
{
	enum { MANY = 100 };
	static struct {
		struct image image;
		Elf64_Shdr sections[MANY];
	} many;
	uint8_t id[HT_BUILD_ID_MAX];

	fresh_notes();
	put_note(NT_GNU_BUILD_ID, "GNU", 4, "idid", 4);
	many.image = image;
	many.image.header.e_shoff = offsetof(__typeof__(many), sections);
	many.image.header.e_shnum = MANY;
	for (size_t i = 1; i < MANY; i++)
		many.sections[i] = (Elf64_Shdr){ .sh_type = SHT_NOTE };
	many.sections[2] = image.sections[NOTES];
	ck_ok(ht_elf_init_image(&elf, (const uint8_t *)&many, sizeof(many)));
	ck_assert_uint_eq(ht_elf_build_id(&elf, id, sizeof(id)), 4);
	ht_elf_fini(&elf);
	many.sections[MANY - 1] = many.sections[2];
	many.sections[2] = many.sections[1];
	ck_ok(ht_elf_init_image(&elf, (const uint8_t *)&many, sizeof(many)));
	ck_assert_uint_eq(ht_elf_build_id(&elf, id, sizeof(id)), 0);
	ht_elf_fini(&elf);
}
END_TEST

/* --- where the code is --- */

static void segment(int i, uint64_t vaddr, uint64_t offset, uint64_t memsz, uint32_t flags)
{
	image.segments[i] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = flags,
					  .p_vaddr = vaddr, .p_offset = offset,
					  .p_memsz = memsz, .p_filesz = memsz };
}

static void text_is(uint64_t vaddr, uint64_t end, uint64_t offset, bool fixed)
{
	struct ht_symbol_text text = { 1, 2, 3, false };

	good();
	ck_assert(ht_elf_text(&elf, &text));
	ck_assert_uint_eq(text.vaddr, vaddr);
	ck_assert_uint_eq(text.end, end);
	ck_assert_uint_eq(text.file_offset, offset);
	ck_assert(text.fixed == fixed);
	ht_elf_fini(&elf);
}

static void no_text(void)
{
	struct ht_symbol_text text = { 1, 2, 3, false };

	good();
	ck_assert(!ht_elf_text(&elf, &text));
	ck_assert(text.vaddr == 1 && text.end == 2 && text.file_offset == 3);
	ht_elf_fini(&elf);
}

START_TEST(text)
{
	fresh();
	no_text();
	segment(0, 0, 0, 0x1000, PF_R);
	segment(1, 0x2345, 0x1345, 0x100, PF_R | PF_X);
	text_is(0x2000, 0x3000, 0x1000, false);
	/* In any order; data between them doesn't count. */
	segment(2, 0x201000, 0x9000, 0x1001, PF_R | PF_X);
	segment(3, 0x1010, 0x10, 0x10, PF_X);
	text_is(0x1000, 0x203000, 0, false);
	image.header.e_type = ET_EXEC;
	text_is(0x1000, 0x203000, 0, true);
}
END_TEST

START_TEST(text_that_cannot_be)
{
	fresh();
	/* Around the end of the address space, or before the start of the file. */
	segment(0, UINT64_MAX - 0xfff, 0xffff000, 0x2000, PF_X);
	segment(1, UINT64_MAX - 0x1fff, 0, 0x1500, PF_X);
	segment(2, 0x2345, 0x344, 0x100, PF_X);
	no_text();
	segment(3, 0x4000, 0x1000, 0x100, PF_X);
	text_is(0x4000, 0x5000, 0x1000, false);
	segment(3, 0x4000, 0x1000, 0, PF_X);
	no_text();
	segment(3, 0x4000, 0x1000, 0x100, PF_X);
	image.header.e_phentsize = 55;
	no_text();
	image.header.e_phentsize = sizeof(Elf64_Phdr);
	image.header.e_phoff = UINT64_MAX;
	no_text();
	/* The table goes on behind the end of the file: what is there counts. */
	image.header.e_phoff = offsetof(struct image, segments);
	image.header.e_phnum = UINT16_MAX;
	good();
	ht_elf_fini(&elf);
}
END_TEST

int main(void)
{
	return ht_check_run("elf", (const TTest *const[]){
		kinds, behind_an_fd, sections_by_name, names_that_lead_astray,
		counts_in_the_first_section, section_headers_that_are_not_there, loading,
		build_ids, notes_that_lie, notes_without_end, text, text_that_cannot_be, NULL });
}
