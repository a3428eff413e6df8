/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/elfview.h"

#include <errno.h>
#include <string.h>

#include "ht_check.h"
#include "ht_elf.h"

static struct ht_elf elf;
static uint8_t *image;
static size_t len;
static struct ht_elfview view;

static Elf64_Ehdr *header(void)
{
	return (Elf64_Ehdr *)image;
}

static Elf64_Phdr *phdrs(void)
{
	return (Elf64_Phdr *)(image + header()->e_phoff);
}

static Elf64_Shdr *shdrs(void)
{
	return (Elf64_Shdr *)(image + header()->e_shoff);
}

static void build(void)
{
	ht_elf_init(&elf);
	free(image);
	image = ht_elf_build(&elf, &len);
}

static void reopen(void)
{
	ck_ok(ht_elfview_open(image, len, &view));
}

static unsigned count_sections(void)
{
	struct ht_elfview_section section;
	unsigned n = 0;

	reopen();
	while (ht_elfview_section(&view, n, &section))
		n++;
	return n;
}

static unsigned count_phdrs(void)
{
	Elf64_Phdr phdr;
	unsigned n = 0;

	reopen();
	while (ht_elfview_phdr(&view, n, &phdr))
		n++;
	return n;
}

#define REFUSED(change)                                                                   \
	do {                                                                              \
		build();                                                                  \
		change;                                                                   \
		ck_assert_int_eq(ht_elfview_open(image, len, &view), -EINVAL);            \
	} while (0)

START_TEST(refuses_what_is_not_ours)
{
	REFUSED(image[0] = 0);
	REFUSED(header()->e_ident[EI_CLASS] = ELFCLASS32);
	REFUSED(header()->e_ident[EI_DATA] = ELFDATA2MSB);
	REFUSED(header()->e_machine = EM_AARCH64);
	REFUSED(header()->e_type = ET_REL);
	REFUSED(header()->e_type = ET_CORE);
	REFUSED(len = sizeof(Elf64_Ehdr) - 1);
	REFUSED(len = 0);
	build();
	header()->e_type = ET_EXEC;
	reopen();
}
END_TEST

START_TEST(program_headers_that_fit)
{
	build();
	ck_assert_uint_eq(count_phdrs(), 4);
	/* None rather than some. */
	header()->e_phentsize++;
	ck_assert_uint_eq(count_phdrs(), 0);
	build();
	header()->e_phnum = 128;
	ck_assert_uint_eq(count_phdrs(), 128);
	header()->e_phnum = 129;
	ck_assert_uint_eq(count_phdrs(), 0);
	build();
	header()->e_phoff = len - 4 * sizeof(Elf64_Phdr);
	ck_assert_uint_eq(count_phdrs(), 4);
	header()->e_phoff++;
	ck_assert_uint_eq(count_phdrs(), 0);
	header()->e_phoff = UINT64_MAX;
	ck_assert_uint_eq(count_phdrs(), 0);
}
END_TEST

START_TEST(section_headers_that_fit)
{
	unsigned n;

	build();
	n = header()->e_shnum;
	ck_assert_uint_eq(count_sections(), n);
	header()->e_shnum++;
	ck_assert_uint_eq(count_sections(), 0);
	build();
	header()->e_shoff = 0;
	ck_assert_uint_eq(count_sections(), 0);
	header()->e_shoff = UINT64_MAX - 8;
	ck_assert_uint_eq(count_sections(), 0);
	build();
	header()->e_shentsize--;
	ck_assert_uint_eq(count_sections(), 0);
	/* Numbers that don't fit in the header are in section 0. */
	build();
	shdrs()[0].sh_size = n;
	shdrs()[0].sh_link = header()->e_shstrndx;
	header()->e_shnum = 0;
	header()->e_shstrndx = SHN_XINDEX;
	ck_assert_uint_eq(count_sections(), n);
	ck_assert_ptr_nonnull(view.names);
	shdrs()[0].sh_size = UINT64_MAX / sizeof(Elf64_Shdr) + 2;
	ck_assert_uint_eq(count_sections(), 0);
}
END_TEST

static struct ht_elfview_section section_at(unsigned i)
{
	struct ht_elfview_section section;

	reopen();
	ck_assert(ht_elfview_section(&view, i, &section));
	return section;
}

START_TEST(sections_and_their_names)
{
	struct ht_elfview_section s;
	uint64_t names;

	build();
	s = section_at(1);
	ck_assert_str_eq(s.name, ".text");
	ck_assert_uint_eq(s.addr, HT_ELF_TEXT);
	ck_assert_uint_eq(s.len, HT_ELF_TEXT_LEN);
	ck_assert_ptr_eq(s.data, image + HT_ELF_TEXT);
	shdrs()[1].sh_link = 7;
	ck_assert_uint_eq(section_at(1).link, 7);
	/* A name that nothing ends, and one outside. */
	names = shdrs()[header()->e_shstrndx].sh_offset;
	shdrs()[header()->e_shstrndx].sh_size = 16 + 3;
	ck_assert_str_eq(section_at(0).name, "");
	ck_assert_str_eq(section_at(1).name, "");
	shdrs()[header()->e_shstrndx].sh_size = 16 + 6;
	ck_assert_str_eq(section_at(1).name, ".text");
	ck_assert_str_eq(section_at(2).name, "");
	memset(image + names, 'x', 16 + 6);
	ck_assert_str_eq(section_at(1).name, "");
	/* No names: sections all the same. */
	build();
	header()->e_shstrndx = header()->e_shnum;
	ck_assert_uint_eq(count_sections(), header()->e_shnum);
	ck_assert_str_eq(section_at(1).name, "");
	build();
	shdrs()[header()->e_shstrndx].sh_type = SHT_PROGBITS;
	ck_assert_str_eq(section_at(1).name, "");
	ck_assert_ptr_nonnull(section_at(1).data);
}
END_TEST

START_TEST(sections_without_bytes)
{
	build();
	shdrs()[1].sh_type = SHT_NOBITS;
	ck_assert_ptr_null(section_at(1).data);
	ck_assert_uint_eq(section_at(1).len, HT_ELF_TEXT_LEN);
	shdrs()[1].sh_type = SHT_NULL;
	ck_assert_ptr_null(section_at(1).data);
	shdrs()[1].sh_type = SHT_PROGBITS;
	shdrs()[1].sh_size = len - HT_ELF_TEXT;
	ck_assert_ptr_nonnull(section_at(1).data);
	shdrs()[1].sh_size++;
	ck_assert_ptr_null(section_at(1).data);
	shdrs()[1].sh_size = UINT64_MAX;
	ck_assert_ptr_null(section_at(1).data);
	shdrs()[1].sh_offset = UINT64_MAX;
	shdrs()[1].sh_size = 2;
	ck_assert_ptr_null(section_at(1).data);
}
END_TEST

START_TEST(bytes_at_an_address)
{
	size_t left = 0;

	build();
	reopen();
	ck_assert_ptr_eq(ht_elfview_at(&view, HT_ELF_TEXT + 5, &left),
			 image + HT_ELF_TEXT + 5);
	ck_assert_uint_eq(left, HT_ELF_TEXT_LEN - 5);
	ck_assert_ptr_null(ht_elfview_at(&view, HT_ELF_TEXT - 1, &left));
	ck_assert_ptr_null(ht_elfview_at(&view, UINT64_MAX, &left));
	/* What memory has more is no bytes of the file. */
	phdrs()[1].p_memsz = 0x10000;
	ck_assert_ptr_null(ht_elfview_at(&view, HT_ELF_EH + 0x3000, &left));
	/* A segment that the file ends in. */
	phdrs()[1].p_filesz = UINT64_MAX;
	ck_assert_ptr_eq(ht_elfview_at(&view, len - 1, &left), image + len - 1);
	ck_assert_uint_eq(left, 1);
	ck_assert_ptr_null(ht_elfview_at(&view, len, &left));
	phdrs()[1].p_offset = UINT64_MAX;
	ck_assert_ptr_null(ht_elfview_at(&view, HT_ELF_EH, &left));
	/* Only what is loaded. */
	phdrs()[0].p_type = PT_NOTE;
	ck_assert_ptr_null(ht_elfview_at(&view, HT_ELF_TEXT, &left));
}
END_TEST

/* ---- notes ---- */

struct notes {
	uint8_t at[4096];
	size_t len;
};

static void add_note(struct notes *n, uint32_t type, const char *name, const char *desc,
		     size_t align)
{
	const Elf64_Nhdr note = { (uint32_t)strlen(name) + 1, (uint32_t)strlen(desc), type };

	memcpy(n->at + n->len, &note, sizeof(note));
	n->len += sizeof(note);
	memcpy(n->at + n->len, name, note.n_namesz);
	n->len = ht_align_up(n->len + note.n_namesz, align);
	memcpy(n->at + n->len, desc, note.n_descsz);
	n->len = ht_align_up(n->len + note.n_descsz, align);
}

static const char *id_of(const struct notes *n, size_t cut, size_t align)
{
	static char text[64];
	uint8_t *exact = malloc(cut ? cut : 1);
	const uint8_t *id;
	size_t id_len;

	ck_assert_ptr_nonnull(exact);
	memcpy(exact, n->at, cut);
	id_len = ht_elfview_build_id(exact, cut, align, &id);
	ck_assert_uint_lt(id_len, sizeof(text));
	if (id_len)
		memcpy(text, id, id_len);
	text[id_len] = '\0';
	free(exact);
	return text;
}

START_TEST(build_id_among_notes)
{
	size_t align, cut;

	for (align = 4; align <= 8; align += 4) {
		struct notes n = { .len = 0 };

		/* GNU properties are padded to 8, and so is what shares their segment. */
		add_note(&n, NT_GNU_PROPERTY_TYPE_0, "GNU", "12345678901", align);
		add_note(&n, NT_GNU_BUILD_ID, "Go", "another", align);
		add_note(&n, NT_GNU_ABI_TAG, "GNU", "", align);
		add_note(&n, NT_GNU_BUILD_ID, "GNU", "this one", align);
		ck_assert_str_eq(id_of(&n, n.len, align), "this one");
		for (cut = 0; cut < n.len; cut++)
			ck_assert_str_eq(id_of(&n, cut, align), "");
	}
}
END_TEST

START_TEST(notes_that_lie)
{
	struct notes n = { .len = 0 };
	Elf64_Nhdr note;
	unsigned i;

	add_note(&n, NT_GNU_ABI_TAG, "GNU", "tag.", 4);
	add_note(&n, NT_GNU_BUILD_ID, "GNU", "id", 4);
	memcpy(&note, n.at, sizeof(note));
	note.n_namesz = UINT32_MAX;
	memcpy(n.at, &note, sizeof(note));
	ck_assert_str_eq(id_of(&n, n.len, 4), "");
	note.n_namesz = 4;
	note.n_descsz = UINT32_MAX;
	memcpy(n.at, &note, sizeof(note));
	ck_assert_str_eq(id_of(&n, n.len, 4), "");
	/* 64 are looked at. */
	n.len = 0;
	for (i = 0; i < 63; i++)
		add_note(&n, NT_GNU_ABI_TAG, "GNU", "tag.", 4);
	add_note(&n, NT_GNU_BUILD_ID, "GNU", "id", 4);
	ck_assert_str_eq(id_of(&n, n.len, 4), "id");
	memmove(n.at + 20, n.at, n.len);
	ck_assert_str_eq(id_of(&n, n.len + 20, 4), "");
}
END_TEST

int main(void)
{
	return ht_check_run("elfview", (const TTest *const[]){
		refuses_what_is_not_ours, program_headers_that_fit, section_headers_that_fit,
		sections_and_their_names, sections_without_bytes, bytes_at_an_address,
		build_id_among_notes, notes_that_lie, NULL });
}
