/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <libelf.h>
#include <string.h>

#include "base/fd.h"
#include "ht_check.h"
#include "symbol/symbol-priv.h"
#include "tool.h"

#define MAX ((size_t)1 << 20)

struct file {
	int fd;
	Elf *elf;
};

static void open_file(struct file *file, const char *dir)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/prog", dir);
	elf_version(EV_CURRENT);
	file->fd = open(path, O_RDONLY | O_CLOEXEC);
	file->elf = elf_begin(file->fd, ELF_C_READ, NULL);
	ck_assert_ptr_nonnull(file->elf);
}

static void close_file(struct file *file)
{
	elf_end(file->elf);
	ht_fd_close(file->fd);
}

START_TEST(packed_or_not)
{
	struct ht_span plain, span;
	struct file a, b;
	char dir[64];

	tool_mkdir(dir);
	ck_assert_int_eq(tool_run("cp %s %s/prog", TOOL_INLINES, dir), 0);
	open_file(&a, dir);
	ck_ok(ht_sections_get(a.elf, ".debug_info", MAX, &plain));
	ck_assert_uint_gt(plain.len, 100);
	ck_assert_int_eq(ht_sections_get(a.elf, ".debug_info", plain.len - 1, &span), -E2BIG);
	ck_ok(ht_sections_get(a.elf, ".debug_nothing", MAX, &span));
	ck_assert_uint_eq(span.len, 0);
	/* There is one, without bytes in the file. */
	ck_ok(ht_sections_get(a.elf, ".bss", MAX, &span));
	ck_assert_uint_eq(span.len, 0);

	ck_assert_int_eq(tool_run("cd %s && objcopy --compress-debug-sections=zlib prog p &&"
				  " mv p prog", dir), 0);
	open_file(&b, dir);
	/* What it is when unpacked counts. */
	ck_assert_int_eq(ht_sections_get(b.elf, ".debug_info", plain.len - 1, &span), -E2BIG);
	ck_ok(ht_sections_get(b.elf, ".debug_info", MAX, &span));
	ck_assert_uint_eq(span.len, plain.len);
	ck_assert_int_eq(memcmp(span.data, plain.data, span.len), 0);
	/* And again, now that it is unpacked. */
	ck_ok(ht_sections_get(b.elf, ".debug_info", MAX, &span));
	ck_assert_uint_eq(span.len, plain.len);
	close_file(&b);
	close_file(&a);
	tool_rmdir(dir);
}
END_TEST

static const char *objection_to(struct ht_buf *bytes)
{
	const char *objection;
	struct ht_elf elf;
	Elf *handle;

	ck_ok(ht_elf_init_image(&elf, (uint8_t *)bytes->data, bytes->len));
	handle = elf_memory(bytes->data, bytes->len);
	ck_assert_ptr_nonnull(handle);
	objection = ht_sections_objection(&elf, handle);
	elf_end(handle);
	ht_elf_fini(&elf);
	return objection;
}

/* The header of the packed .debug_info, to change it. */
static Elf64_Chdr *packed_header(struct ht_buf *bytes)
{
	const Elf64_Shdr *section;
	struct ht_elf elf;
	uint64_t offset;

	ck_ok(ht_elf_init_image(&elf, (uint8_t *)bytes->data, bytes->len));
	section = ht_elf_section(&elf, ".debug_info");
	ck_assert(section && (section->sh_flags & SHF_COMPRESSED));
	offset = section->sh_offset;
	ht_elf_fini(&elf);
	return (Elf64_Chdr *)(bytes->data + offset);
}

START_TEST(objections)
{
	struct ht_buf bytes = HT_BUF_INIT;
	Elf64_Chdr header, *place;
	char dir[64], path[128];

	tool_mkdir(dir);
	elf_version(EV_CURRENT);
	ck_assert_int_eq(tool_run("cp %s %s/prog && cd %s &&"
				  " objcopy --compress-debug-sections=zlib prog",
				  TOOL_INLINES, dir, dir), 0);
	snprintf(path, sizeof(path), "%s/prog", dir);
	ck_ok(ht_buf_read_file(&bytes, AT_FDCWD, path, 64 << 20));
	ck_assert_ptr_null(objection_to(&bytes));
	/* A bomb: some bytes that say they are very many. */
	place = packed_header(&bytes);
	memcpy(&header, place, sizeof(header));
	header.ch_size = (Elf64_Xword)1 << 40;
	memcpy(place, &header, sizeof(header));
	ck_assert_str_eq(objection_to(&bytes), HT_LINES_LARGE);
	/* By the number for zstd: this isn't any, whoever knows it. */
	memcpy(&header, place, sizeof(header));
	header.ch_size = 1000;
	header.ch_type = 2;
	memcpy(place, &header, sizeof(header));
	ck_assert_str_eq(objection_to(&bytes), HT_LINES_ZSTD);
	ht_buf_fini(&bytes);
	tool_rmdir(dir);
}
END_TEST

/* libdw unpacks what names the supplementary file, too. */
START_TEST(other_packed_sections)
{
	const Elf64_Chdr packed = { .ch_type = ELFCOMPRESS_ZLIB, .ch_size = UINT64_C(1) << 40 };
	static struct {
		Elf64_Ehdr header;
		Elf64_Shdr sections[3];
		Elf64_Chdr packed;
		char names[64];
	} image;
	struct ht_buf bytes = HT_BUF_INIT;

	elf_version(EV_CURRENT);
	image.header = (Elf64_Ehdr){ .e_type = ET_DYN, .e_machine = EM_X86_64,
				     .e_version = EV_CURRENT, .e_ehsize = sizeof(image.header),
				     .e_shoff = offsetof(__typeof__(image), sections),
				     .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3,
				     .e_shstrndx = 2 };
	memcpy(image.header.e_ident, ELFMAG, SELFMAG);
	image.header.e_ident[EI_CLASS] = ELFCLASS64;
	image.header.e_ident[EI_DATA] = ELFDATA2LSB;
	image.header.e_ident[EI_VERSION] = EV_CURRENT;
	image.packed = packed;
	memcpy(image.names, "\0.gnu_debugaltlink\0.shstrtab", 29);
	image.sections[1] = (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_PROGBITS,
					  .sh_flags = SHF_COMPRESSED,
					  .sh_offset = offsetof(__typeof__(image), packed),
					  .sh_size = sizeof(packed), .sh_addralign = 1 };
	image.sections[2] = (Elf64_Shdr){ .sh_name = 19, .sh_type = SHT_STRTAB,
					  .sh_offset = offsetof(__typeof__(image), names),
					  .sh_size = sizeof(image.names), .sh_addralign = 1 };
	ck_ok(ht_buf_append(&bytes, &image, sizeof(image)));
	ck_assert_str_eq(objection_to(&bytes), HT_LINES_LARGE);
	ht_buf_fini(&bytes);
}
END_TEST

START_TEST(texts_that_do_not_end)
{
	static const char bytes[] = { 'a', 'b', 0, 'c', 'd' };
	struct ht_texts texts = { .at = { { (const uint8_t *)bytes, 5 } }, .n = 1 };

	ck_assert_ptr_eq(ht_texts_check(&texts, bytes), bytes);
	ck_assert_ptr_eq(ht_texts_check(&texts, bytes + 2), bytes + 2);
	ck_assert_ptr_null(ht_texts_check(&texts, bytes + 3));
	ck_assert_ptr_null(ht_texts_check(&texts, bytes + 5));
	ck_assert_ptr_null(ht_texts_check(&texts, "elsewhere"));
	ck_assert_ptr_null(ht_texts_check(&texts, NULL));
}
END_TEST

START_TEST(failures)
{
	struct ht_elf elf = HT_ELF_INIT;

	errno = ENOMEM;
	ck_assert_int_eq(ht_sections_failure(), -ENOMEM);
	errno = 0;
	ck_assert_int_eq(ht_sections_failure(), -EBADMSG);
	ck_assert_str_eq(ht_sections_reason(-ENOMEM), HT_LINES_MEMORY);
	ck_assert_str_eq(ht_sections_reason(-EBADMSG), HT_LINES_BAD);
	ck_assert(ht_sections_fit(&elf));
}
END_TEST

int main(void)
{
	if (!tool_present("objcopy"))
		ht_check_skip("objcopy (binutils) is needed");
	return ht_check_run("sections", (const TTest *const[]){
		packed_or_not, objections, other_packed_sections,
		texts_that_do_not_end, failures, NULL });
}
