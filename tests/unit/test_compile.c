/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "ht_table.h"
#include "unwind/cfi.h"
#include "unwind/image-priv.h"

static struct ht_elf elf;

/* ---------------------------------------------------- what the linker lets us count */

/* The test is linked with --wrap for these: time is counted in rows and entries, memory
 * in bytes that were asked for. */
static struct {
	uint64_t rows, entries, bytes;
} counted;

int __real_ht_cfi_run_next(struct ht_cfi_run *run, uint64_t *ret_start, uint64_t *ret_end);
int __wrap_ht_cfi_run_next(struct ht_cfi_run *run, uint64_t *ret_start, uint64_t *ret_end);
int __real_ht_cfi_reader_next(struct ht_cfi_reader *reader, struct ht_cfi_fde *ret_fde,
			      size_t *ret_offset);
int __wrap_ht_cfi_reader_next(struct ht_cfi_reader *reader, struct ht_cfi_fde *ret_fde,
			      size_t *ret_offset);
void *__real_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);

int __wrap_ht_cfi_run_next(struct ht_cfi_run *run, uint64_t *ret_start, uint64_t *ret_end)
{
	counted.rows++;
	return __real_ht_cfi_run_next(run, ret_start, ret_end);
}

int __wrap_ht_cfi_reader_next(struct ht_cfi_reader *reader, struct ht_cfi_fde *ret_fde,
			      size_t *ret_offset)
{
	counted.entries++;
	return __real_ht_cfi_reader_next(reader, ret_fde, ret_offset);
}

void *__wrap_realloc(void *at, size_t size)
{
	counted.bytes += size;
	return __real_realloc(at, size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	counted.bytes += n * size;
	return __real_calloc(n, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
	counted.bytes += size;
	return __real_aligned_alloc(align, size);
}

START_TEST(expressions_go_to_the_blob)
{
	struct ht_image_view view;
	struct ht_table *table;
	struct ht_rule rule;
	const void *image;
	size_t len;

	table = compile_one(HT_ELF_CODE(0x0f, 4, 0x77, 8, 0x06, 0x06, 0x41, 0x0e, 8, 0x41, 0x0f, 3,
					0x73, 8, 0x06, 0x41, 0x0f, 4, 0x77, 8, 0x06, 0x06));
	rule = lookup(table, TEXT + 0x100);
	ck_assert_int_eq(rule.cfa_kind, HT_CFA_EXPR);
	image = ht_table_image(table, &len);
	ck_assert(ht_image_open(image, len, &view));
	ck_assert_mem_eq(view.exprs + rule.aux, "\4\0\0\0\x77\x08\x06\x06", 8);
	/* The offset behind the expression made the FDE bad. */
	rule = lookup(table, TEXT + 0x101);
	ck_assert_int_eq(rule.cfa_kind, HT_CFA_GAP);
	ht_table_free(table);

	table = compile_one(HT_ELF_CODE(0x0f, 4, 0x77, 8, 0x06, 0x06, 0x41, 0x0f, 3, 0x73, 8, 0x06,
					0x41, 0x0f, 4, 0x77, 8, 0x06, 0x06));
	ck_assert_int_eq(lookup(table, TEXT + 0x100).aux, lookup(table, TEXT + 0x102).aux);
	ck_assert_int_ne(lookup(table, TEXT + 0x100).aux, lookup(table, TEXT + 0x101).aux);
	ht_table_free(table);
}
END_TEST

/* 64 of them, of up to 1024 bytes; the interpreter reads the rest from the file. */
START_TEST(expressions_have_limits)
{
	uint8_t code[1100] = { 0x0f, 0x80, 8, 0x77, 8 };
	struct ht_table_stats stats;
	struct ht_table *table;
	size_t cie, i;

	memset(code + 5, 0x96, sizeof(code) - 5);
	ht_elf_init(&elf);
	cie = ht_elf_plain_cie(&elf.eh);
	ht_elf_fde(&elf.eh, cie, TEXT, 16, code, 3 + 1024);
	code[1]++;
	ht_elf_fde(&elf.eh, cie, TEXT + 16, 16, code, 3 + 1025);
	for (i = 0; i < 70; i++)
		ht_elf_fde(&elf.eh, cie, TEXT + 32 + 16 * i, 16,
			   HT_ELF_CODE(0x0f, 5, 0x77, 0xc8, (uint8_t)(i & 0x7f), 0x06, 0x06));
	table = compile(&elf);
	ck_assert_int_eq(lookup(table, TEXT).cfa_kind, HT_CFA_EXPR);
	ck_assert_int_eq(lookup(table, TEXT + 16).cfa_kind, HT_CFA_SLOW);
	ck_assert_int_eq(lookup(table, TEXT + 32 + 16 * 62).cfa_kind, HT_CFA_EXPR);
	ck_assert_int_eq(lookup(table, TEXT + 32 + 16 * 63).cfa_kind, HT_CFA_SLOW);
	ht_table_stats(table, &stats);
	ck_assert_uint_eq(stats.exprs, 64);
	ht_table_free(table);
}
END_TEST

START_TEST(build_id_is_kept)
{
	static const Elf64_Nhdr note = { 4, 24, NT_GNU_BUILD_ID };
	const struct ht_image_header *header;
	struct ht_table *table;
	size_t len;

	ht_elf_init(&elf);
	memcpy(elf.text + 0x200, &note, sizeof(note));
	memcpy(elf.text + 0x20c, "GNU", 4);
	memcpy(elf.text + 0x210, "abcdefghijklmnopqrstuvwx", 24);
	ht_elf_add_section(&elf, ".note.gnu.b-id", SHT_NOTE, SHF_ALLOC, TEXT + 0x200, 40);
	ht_elf_fde(&elf.eh, ht_elf_plain_cie(&elf.eh), TEXT, 16, HT_ELF_NO_CODE);
	table = compile(&elf);
	header = ht_table_image(table, &len);
	/* As far as there is room; the length is the whole one's. */
	ck_assert_uint_eq(header->build_id_len, 24);
	ck_assert_mem_eq(header->build_id, "abcdefghijklmnopqrst", 20);
	ht_table_free(table);
}
END_TEST

START_TEST(overlaps_first_by_start_wins)
{
	struct ht_table_stats stats;
	struct ht_table *table;
	size_t cie;

	ht_elf_init(&elf);
	cie = ht_elf_plain_cie(&elf.eh);
	ht_elf_fde(&elf.eh, cie, TEXT + 0x18, 0x10, HT_ELF_CODE(0x0e, 24, 0x4c, 0x0e, 32));
	ht_elf_fde(&elf.eh, cie, TEXT + 0x10, 0x10, HT_ELF_CODE(0x0e, 16));
	ht_elf_fde(&elf.eh, cie, TEXT + 0x12, 4, HT_ELF_CODE(0x0e, 40));
	ht_elf_fde(&elf.eh, cie, TEXT + 0x10, 0x10, HT_ELF_CODE(0x0e, 48));
	table = compile(&elf);
	ck_assert_int_eq(lookup(table, TEXT + 0x10).cfa_offset, 16);
	ck_assert_int_eq(lookup(table, TEXT + 0x12).cfa_offset, 16);
	ck_assert_int_eq(lookup(table, TEXT + 0x1f).cfa_offset, 16);
	ck_assert_int_eq(lookup(table, TEXT + 0x20).cfa_offset, 24);
	ck_assert(!ht_table_starts_at(table, TEXT + 0x20));
	ck_assert_int_eq(lookup(table, TEXT + 0x24).cfa_offset, 32);
	ck_assert_int_eq(lookup(table, TEXT + 0x27).cfa_offset, 32);
	ck_assert_int_eq(lookup(table, TEXT + 0x28).cfa_kind, HT_CFA_GAP);
	ht_table_stats(table, &stats);
	ck_assert_uint_eq(stats.overlaps, 3);
	ht_table_free(table);
}
END_TEST

START_TEST(text_far_apart)
{
	const uint64_t far = UINT64_C(0x7fff00000000);
	struct ht_table *table;
	struct ht_rule rule;
	size_t len, cie;

	ht_elf_init(&elf);
	elf.far_text = far + 0x10;
	cie = ht_elf_plain_cie(&elf.debug);
	ht_elf_fde(&elf.debug, cie, far + 0x800, 16, HT_ELF_CODE(0x0e, 32));
	ht_elf_fde(&elf.debug, cie, TEXT + 0x800, 16, HT_ELF_CODE(0x0e, 16));
	table = compile(&elf);
	ht_table_image(table, &len);
	ck_assert_uint_lt(len, 1024);
	ck_assert_int_eq(lookup(table, TEXT + 0x800).cfa_offset, 16);
	ck_assert_int_eq(lookup(table, TEXT_END - 1).cfa_kind, HT_CFA_GAP);
	ck_assert(!ht_table_lookup(table, TEXT_END, &rule, NULL));
	ck_assert(!ht_table_lookup(table, far + 0xf, &rule, NULL));
	ck_assert_int_eq(lookup(table, far + 0x10).cfa_kind, HT_CFA_GAP);
	ck_assert_uint_eq(row_start(table, far + 0x7ff), far + 0x10);
	ck_assert_int_eq(lookup(table, far + 0x800).cfa_offset, 32);
	ck_assert_uint_eq(row_start(table, far + 0x80f), far + 0x800);
	ck_assert_int_eq(lookup(table, far + 0x100f).cfa_kind, HT_CFA_GAP);
	ck_assert(!ht_table_lookup(table, far + 0x1010, &rule, NULL));
	ht_table_free(table);
	/* Two segments that share a bucket become one range. */
	elf.far_text = TEXT_END - 0x10;
	table = compile(&elf);
	ck_assert_int_eq(lookup(table, TEXT_END + 0x8).cfa_kind, HT_CFA_GAP);
	ck_assert_uint_eq(row_start(table, TEXT_END + 0x8), TEXT + 0x810);
	ht_table_free(table);
	/* At the very end of the address space there is no room for a bucket. */
	elf.far_text = -(uint64_t)HT_ELF_TEXT_LEN;
	table = compile(&elf);
	ck_assert(!ht_table_lookup(table, UINT64_MAX, &rule, NULL));
	ht_table_free(table);
}
END_TEST

START_TEST(debug_frame_fills_gaps)
{
	struct ht_table *table;
	uint8_t *file, *debug;
	size_t len, debug_len, cie;
	static struct ht_elf other;

	ht_elf_init(&elf);
	ht_elf_fde(&elf.eh, ht_elf_plain_cie(&elf.eh), TEXT + 0x20, 0x10,
		   HT_ELF_CODE(0x0e, 16, 0x48, 0x3f));
	cie = ht_elf_plain_cie(&elf.debug);
	ht_elf_fde(&elf.debug, cie, TEXT + 0x10, 0x18, HT_ELF_CODE(0x0e, 24));
	ht_elf_fde(&elf.debug, cie, TEXT + 0x29, 4, HT_ELF_CODE(0x0e, 32));
	ht_elf_init(&other);
	cie = ht_elf_plain_cie(&other.debug);
	ht_elf_fde(&other.debug, cie, TEXT + 0x30, 0x10, HT_ELF_CODE(0x0e, 40));
	ht_elf_fde(&other.debug, cie, TEXT + 0x10, 0x10, HT_ELF_CODE(0x0e, 48));

	file = ht_elf_build(&elf, &len);
	debug = ht_elf_build(&other, &debug_len);
	ck_ok(ht_table_compile(file, len, debug, debug_len, &table));
	ck_assert_int_eq(lookup(table, TEXT + 0x10).cfa_offset, 24);
	ck_assert_int_eq(lookup(table, TEXT + 0x1f).cfa_offset, 24);
	ck_assert_int_eq(lookup(table, TEXT + 0x20).cfa_offset, 16);
	/* What the bad instruction left open is one of the gaps. */
	ck_assert_int_eq(lookup(table, TEXT + 0x27).cfa_offset, 16);
	ck_assert_int_eq(lookup(table, TEXT + 0x28).cfa_kind, HT_CFA_GAP);
	ck_assert_int_eq(lookup(table, TEXT + 0x29).cfa_offset, 32);
	ck_assert_int_eq(lookup(table, TEXT + 0x2d).cfa_kind, HT_CFA_GAP);
	ck_assert_int_eq(lookup(table, TEXT + 0x30).cfa_offset, 40);
	ck_assert_int_eq(lookup(table, TEXT + 0x40).cfa_kind, HT_CFA_GAP);
	ht_table_free(table);
	/* A debug file that is none. */
	ck_ok(ht_table_compile(file, len, debug, 40, &table));
	ck_assert_int_eq(lookup(table, TEXT + 0x30).cfa_kind, HT_CFA_GAP);
	ht_table_free(table);
	free(file);
	free(debug);
}
END_TEST

START_TEST(many_rules)
{
	struct ht_table_stats stats;
	struct ht_table *table;
	size_t cie, i;
	uint8_t code[3];

	ht_elf_init(&elf);
	cie = ht_elf_plain_cie(&elf.eh);
	for (i = 0; i < 300; i++) {
		code[0] = 0x0e;
		code[1] = (uint8_t)(i & 0x7f) | 0x80;
		code[2] = (uint8_t)(i >> 7);
		ht_elf_fde(&elf.eh, cie, TEXT + i * 8, 8, code, sizeof(code));
	}
	table = compile(&elf);
	ht_table_stats(table, &stats);
	ck_assert_uint_eq(stats.fdes, 300);
	/* Two fixed ones besides. */
	ck_assert_uint_eq(stats.rules, 302);
	for (i = 0; i < 300; i++)
		ck_assert_int_eq(lookup(table, TEXT + i * 8).cfa_offset, (int)i);
	ht_table_free(table);
}
END_TEST

START_TEST(nothing_to_compile)
{
	struct ht_table *table = NULL;
	uint8_t *file;
	size_t len;

	ht_elf_init(&elf);
	file = ht_elf_build(&elf, &len);
	ck_assert_int_eq(ht_table_compile(file, len, NULL, 0, &table), -ENODATA);
	ck_assert_int_eq(ht_table_compile(file, 0, NULL, 0, &table), -EINVAL);
	ck_assert_int_eq(ht_table_compile(file, 63, NULL, 0, &table), -EINVAL);
	file[EI_CLASS] = ELFCLASS32;
	ck_assert_int_eq(ht_table_compile(file, len, NULL, 0, &table), -EINVAL);
	ck_assert_ptr_null(table);
	ck_assert_ptr_null(ht_table_free(NULL));
	free(file);
}
END_TEST

START_TEST(bombs)
{
	struct ht_table_stats stats;
	struct ht_table *table;
	size_t cie;

	/* The register bomb of libdw, the expression loop of libunwind, the header byte of
	 * libunwind. */
	ht_elf_init(&elf);
	cie = ht_elf_plain_cie(&elf.eh);
	ht_elf_fde(&elf.eh, cie, TEXT, 16,
		   HT_ELF_CODE(0x05, 0xff, 0xff, 0xff, 0x3f, 0x02, 0x0e, 16));
	ht_elf_fde(&elf.eh, cie, TEXT + 16, 16, HT_ELF_CODE(0x0f, 3, 0x2f, 0xfd, 0xff));
	ht_elf_make_hdr(&elf, NULL, 0);
	elf.hdr[3] = 0xff;
	table = compile(&elf);
	ck_assert_int_eq(lookup(table, TEXT).cfa_offset, 16);
	ck_assert_int_eq(lookup(table, TEXT + 16).cfa_kind, HT_CFA_EXPR);
	ht_table_stats(table, &stats);
	ck_assert_uint_eq(stats.exprs, 1);
	ht_table_free(table);
}
END_TEST

static uint64_t next_random(uint64_t *state)
{
	*state += UINT64_C(0x9e3779b97f4a7c15);
	return ht_hash64(*state);
}

static bool read_real_file(struct ht_buf *buf)
{
	static const char *const paths[] = { "/usr/bin/true", "/bin/true", "/usr/bin/env" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(paths); i++) {
		ht_buf_clear(buf);
		if (ht_buf_read_file(buf, -1, paths[i], 1 << 20) == 0)
			return true;
	}
	return false;
}

/* Where in @image a single-byte mutation hurts: headers, .eh_frame_hdr, .eh_frame. */
static uint8_t *pick_byte(uint8_t *image, const struct ht_cfi_section *section, size_t i,
			  uint64_t *random)
{
	uint64_t value = next_random(random);

	if (i % 8 == 0)
		return image + value % (sizeof(Elf64_Ehdr) + 13 * sizeof(Elf64_Phdr));
	return (uint8_t *)section->data + value % section->len;
}

START_TEST(mutations_of_a_real_file)
{
	struct ht_buf buf = HT_BUF_INIT;
	struct ht_elfview view;
	struct ht_cfi cfi;
	uint64_t random = 1, rows = 0;
	unsigned compiled = 0;
	struct ht_table *table;
	const void *image;
	size_t i, len;
	uint8_t *byte, old;
	int r;

	if (!ht_check_have(read_real_file(&buf), "/usr/bin/true"))
		return;
	ck_ok(ht_elfview_open((uint8_t *)buf.data, buf.len, &view));
	ck_ok(ht_cfi_open(&view, &cfi));
	ck_assert_uint_gt(cfi.n_sections, 0);
	for (i = 0; i < 10000; i++) {
		byte = pick_byte((uint8_t *)buf.data, &cfi.sections[0], i, &random);
		old = *byte;
		*byte = (uint8_t)next_random(&random);
		memset(&counted, 0, sizeof(counted));
		r = ht_table_compile((uint8_t *)buf.data, buf.len, NULL, 0, &table);
		/* Each entry takes 4 bytes, each row at least 1, in at most two sections; the
		 * table is a few times the text. */
		ck_assert_uint_le(counted.entries, buf.len / 2);
		ck_assert_uint_le(counted.rows, 2 * buf.len);
		ck_assert_uint_le(counted.bytes, 64 * buf.len);
		*byte = old;
		if (r < 0) {
			ck_assert(r == -EINVAL || r == -ENODATA);
			continue;
		}
		compiled++;
		/* The counting works. */
		ck_assert_uint_gt(counted.entries, 0);
		ck_assert_uint_gt(counted.bytes, 0);
		rows += counted.rows;
		image = ht_table_image(table, &len);
		ck_assert(ht_table_valid(image, len));
		ck_assert_uint_le(len, 8 * buf.len);
		look_around(image, len);
		ht_table_free(table);
	}
	ck_assert_uint_gt(compiled, 5000);
	ck_assert_uint_gt(rows, compiled);
	ht_cfi_close(&cfi);
	ht_buf_fini(&buf);
}
END_TEST

START_TEST(truncations)
{
	struct ht_table *table;
	uint8_t *file, *part;
	size_t len, cut;

	ht_elf_init(&elf);
	ht_elf_fde(&elf.eh, ht_elf_plain_cie(&elf.eh), TEXT, 16, HT_ELF_CODE(0x41, 0x0e, 16));
	ht_elf_make_hdr(&elf, (const uint64_t[][2]){ { TEXT, 24 } }, 1);
	file = ht_elf_build(&elf, &len);
	for (cut = 0; cut < len; cut += cut < TEXT || cut >= HT_ELF_EH ? 1 : 256) {
		part = malloc(cut ? cut : 1);
		ck_assert_ptr_nonnull(part);
		memcpy(part, file, cut);
		if (ht_table_compile(part, cut, NULL, 0, &table) == 0)
			ht_table_free(table);
		free(part);
	}
	free(file);
}
END_TEST

int main(void)
{
	return ht_check_run("compile", (const TTest *const[]){
		expressions_go_to_the_blob, expressions_have_limits, build_id_is_kept,
		overlaps_first_by_start_wins,
		text_far_apart, debug_frame_fills_gaps, many_rules, nothing_to_compile,
		bombs, mutations_of_a_real_file, truncations, NULL });
}
