/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_symbols.c: any bytes as the files that names and lines are read from, by the functions
 * that the report uses: a program, its separate debug file, what dwz took out of it, its .dwo and
 * .dwp file. All of these are in memory; that of the program is named by /proc/self/fd, and
 * so are the others in it.
 *
 *	1 byte of enum flags, then one of
 *	   \x7f ELF ...			the program as it is
 *	   sections, as many as fit:	1 byte: the file; 1 byte: number of the name, and PACKED;
 *					a word, the length; the bytes
 */
#include <elf.h>
#include <fcntl.h>
#include <lzma.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/fd.h"
#include "fuzz_work.h"
#include "symbol/symbol-priv.h"
#include "unwind/module-priv.h"

enum flags { NAMES_ONLY = 1, WITH_DWP = 2, WITH_ALT = 4 };

enum { PROGRAM, DEBUG, ALT, DWO, DWP, FILES };

/* Of the descriptors. No harness has so many open by itself. */
#define FD(file) (200 + (file))
#define FD_NAME(file) "/proc/self/fd/20" #file

#define PACKED 0x80	/* by zlib; .gnu_debugdata, which is an ELF file, by xz */
#define TEXT 0x1000
#define ADDRESSES 24

static const char *const names[] = {
	"", ".symtab", ".strtab", ".dynsym", ".dynstr", ".gnu_debugdata", ".gnu_debuglink",
	".gnu_debugaltlink", ".note.gnu.build-id", ".debug_info", ".debug_abbrev", ".debug_line",
	".debug_str", ".debug_line_str", ".debug_ranges", ".debug_rnglists", ".debug_addr",
	".debug_str_offsets", ".debug_cu_index", ".debug_info.dwo", ".debug_abbrev.dwo",
	".debug_line.dwo", ".debug_str.dwo", ".debug_str_offsets.dwo", ".debug_rnglists.dwo",
	".zdebug_info", ".debug_types", ".text",
};
enum { NONE, SYMTAB, STRTAB, DYNSYM, DYNSTR, DEBUGDATA, DEBUGLINK, ALTLINK, BUILD_ID, INFO,
       ABBREV, LINE, STR, LINE_STR, RANGES, RNGLISTS, ADDR, STR_OFFSETS, CU_INDEX, INFO_DWO,
       ABBREV_DWO, LINE_DWO, STR_DWO, STR_OFFSETS_DWO, RNGLISTS_DWO };

/* ---- work ---- */

#define COUNT(type, name, parameters, arguments)                                         \
	type __real_##name parameters;                                                   \
	type __wrap_##name parameters;                                                   \
	type __wrap_##name parameters                                                    \
	{                                                                                \
		fuzz_steps++;                                                            \
		return __real_##name arguments;                                          \
	}

COUNT(int, dwarf_siblingof, (Dwarf_Die *die, Dwarf_Die *ret), (die, ret))
COUNT(int, dwarf_child, (Dwarf_Die *die, Dwarf_Die *ret), (die, ret))
COUNT(ptrdiff_t, dwarf_ranges,
      (Dwarf_Die *die, ptrdiff_t at, Dwarf_Addr *base, Dwarf_Addr *lo, Dwarf_Addr *hi),
      (die, at, base, lo, hi))
COUNT(int, dwarf_get_units,
      (Dwarf *dwarf, Dwarf_CU *cu, Dwarf_CU **next, Dwarf_Half *version, uint8_t *type,
       Dwarf_Die *die, Dwarf_Die *sub),
      (dwarf, cu, next, version, type, die, sub))

/* It only asks whether there's so much memory, which a fuzzer takes for a use of it. */
bool __wrap_ht_sections_fit(const struct ht_elf *elf);
bool __wrap_ht_sections_fit(const struct ht_elf *elf)
{
	return true;
}

/* Decompressing takes most: xz at most 64 MiB, in a buffer that grows; zlib a thousandfold. */
#define MAX_BYTES (UINT64_C(512) << 20)
/* Of the units each once; then so many of the DIEs around each address. */
#define MAX_STEPS(len) (UINT64_C(64) * (len) * (ADDRESSES + 1) + 4096)

/* ---- files ---- */

struct section {
	uint8_t *data;
	size_t len;
	uint64_t flags;
};

struct file {
	struct section sections[ARRAY_SIZE(names)];
};

/* A struct Elf64_Chdr, then the bytes. */
static void pack(struct section *section)
{
	Elf64_Chdr header = { .ch_type = ELFCOMPRESS_ZLIB, .ch_size = section->len,
			      .ch_addralign = 1 };
	uLongf len = compressBound(section->len);
	uint8_t *packed = malloc(sizeof(header) + len);

	CHECK(packed && compress(packed + sizeof(header), &len, section->data, section->len) ==
				Z_OK);
	memcpy(packed, &header, sizeof(header));
	free(section->data);
	*section = (struct section){ packed, sizeof(header) + len, SHF_COMPRESSED };
}

static void pack_xz(struct section *section)
{
	size_t max = lzma_stream_buffer_bound(section->len), len = 0;
	uint8_t *packed = malloc(max);

	CHECK(packed && lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, section->data,
						section->len, packed, &len, max) == LZMA_OK);
	free(section->data);
	*section = (struct section){ packed, len, 0 };
}

static void read_sections(struct fuzz_input *in, struct file files[FILES])
{
	while (in->at < in->end) {
		struct file *file = &files[fuzz_byte(in) % FILES];
		uint8_t number = fuzz_byte(in);
		size_t which = (number & ~PACKED) % ARRAY_SIZE(names), len = fuzz_u16(in);
		struct section *section = &file->sections[which];

		len = ht_min(len, (size_t)(in->end - in->at));
		if (section->data || which == NONE)
			break;
		section->data = malloc(len + 1);
		CHECK(section->data);
		memcpy(section->data, in->at, len);
		section->len = len;
		in->at += len;
		if ((number & PACKED) && which == DEBUGDATA)
			pack_xz(section);
		else if (number & PACKED)
			pack(section);
	}
}

static Elf64_Shdr header_of(size_t i, const struct section *section, uint64_t offset)
{
	Elf64_Shdr header = { .sh_name = (uint32_t)i * 32, .sh_type = SHT_PROGBITS,
			      .sh_flags = section->flags, .sh_offset = offset,
			      .sh_size = section->len, .sh_addralign = 1 };

	if (i == SYMTAB || i == DYNSYM) {
		header.sh_type = i == SYMTAB ? SHT_SYMTAB : SHT_DYNSYM;
		header.sh_link = (uint32_t)i + 1;
		header.sh_entsize = sizeof(Elf64_Sym);
	} else if (i == STRTAB || i == DYNSTR) {
		header.sh_type = SHT_STRTAB;
	} else if (i == BUILD_ID) {
		header.sh_type = SHT_NOTE;
	}
	/* One that isn't there. */
	if (!section->data && i < ARRAY_SIZE(names))
		header = (Elf64_Shdr){ .sh_type = SHT_NULL };
	return header;
}

/* An ELF file of all sections, empty ones without bytes; malloced. */
static uint8_t *build(const struct file *file, size_t *ret_len)
{
	enum { N = ARRAY_SIZE(names) };
	const Elf64_Phdr text = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = 0,
				  .p_vaddr = 0, .p_filesz = 64, .p_memsz = 0x10000,
				  .p_align = 0x1000 };
	Elf64_Ehdr header = { .e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
			      .e_ehsize = sizeof(header), .e_phoff = sizeof(header),
			      .e_phentsize = sizeof(text), .e_phnum = 1,
			      .e_shoff = sizeof(header) + sizeof(text),
			      .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = N + 1,
			      .e_shstrndx = N };
	const size_t names_at = header.e_shoff + (N + 1) * sizeof(Elf64_Shdr);
	size_t at = names_at + N * 32, len = at;
	const struct section all_names = { (uint8_t *)"", N * 32, 0 };
	uint8_t *image;
	Elf64_Shdr section;

	for (size_t i = 0; i < N; i++)
		len += file->sections[i].len;
	image = calloc(1, len);
	CHECK(image);
	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	header.e_ident[EI_VERSION] = EV_CURRENT;
	memcpy(image, &header, sizeof(header));
	memcpy(image + sizeof(header), &text, sizeof(text));
	section = header_of(STRTAB, &all_names, names_at);
	section.sh_name = 0;
	memcpy(image + header.e_shoff + N * sizeof(section), &section, sizeof(section));
	for (size_t i = 0; i < N; i++) {
		const struct section *s = &file->sections[i];

		section = header_of(i, s, at);
		memcpy(image + header.e_shoff + i * sizeof(section), &section, sizeof(section));
		memcpy(image + names_at + i * 32, names[i], strlen(names[i]));
		if (s->len)
			memcpy(image + at, s->data, s->len);
		at += s->len;
	}
	*ret_len = len;
	return image;
}

/* What FD_NAME() names, until the next one. */
static void offer(int file, const uint8_t *image, size_t len)
{
	int fd = memfd_create("fuzz-file", MFD_CLOEXEC);

	CHECK(fd >= 0 && write(fd, image, len) == (ssize_t)len);
	CHECK(dup3(fd, FD(file), O_CLOEXEC) == FD(file));
	close(fd);
}

/* The sum that .gnu_debuglink ends with is right. */
static void set_crc(struct section *link, const uint8_t *image, size_t len)
{
	uint32_t crc = (uint32_t)crc32(0, image, (uInt)len);

	if (link->len >= sizeof(crc) && !link->flags)
		memcpy(link->data + link->len - sizeof(crc), &crc, sizeof(crc));
}

static uint8_t *make_files(struct fuzz_input *in, size_t *ret_len)
{
	struct file files[FILES] = { 0 };
	uint8_t *image = NULL;

	read_sections(in, files);
	for (int i = FILES - 1; i >= PROGRAM; i--) {
		free(image);
		image = build(&files[i], ret_len);
		if (i == DEBUG)
			set_crc(&files[PROGRAM].sections[DEBUGLINK], image, *ret_len);
		offer(i, image, *ret_len);
		for (size_t j = 0; j < ARRAY_SIZE(names); j++)
			free(files[i].sections[j].data);
	}
	return image;
}

/* ---- what is asked ---- */

static uint64_t address(unsigned i)
{
	return i < ADDRESSES - 2 ? TEXT + 8 * i : i == ADDRESSES - 1 ? UINT64_MAX : 1;
}

static void check_text(const char *text)
{
	struct ht_buf clean = HT_BUF_INIT;

	if (!text)
		return;
	CHECK(!ht_symbol_clean(text, SIZE_MAX, &clean));
	CHECK(!strcmp(text, clean.data ? clean.data : ""));
	ht_buf_fini(&clean);
}

static void ask_symbols(uint8_t *image, size_t len, uint8_t flags)
{
	const struct ht_symbol_options options = { .debug_dirs = "/nonexistent",
						   .no_lines = flags & NAMES_ONLY };
	const struct ht_symbol *found;
	struct ht_modules *modules;
	struct ht_symbols *symbols;
	struct ht_module *module;
	size_t n;

	CHECK(!ht_modules_new(&modules));
	if (ht_modules_add_memory(modules, image, len, FD_NAME(0), false, &module) < 0) {
		ht_modules_free(modules);
		return;
	}
	CHECK(!ht_symbols_new(modules, &options, &symbols));
	for (unsigned i = 0; i < ADDRESSES; i++) {
		struct ht_frame frame = { address(i), 0, HT_FRAME_EXACT };

		CHECK(!ht_symbols_lookup(symbols, &frame, &found, &n));
		CHECK(n >= 1 && n <= HT_LINES_MAX);
		for (size_t j = 0; j < n; j++) {
			CHECK(found[j].name);
			check_text(found[j].name);
			check_text(found[j].linkage_name);
			check_text(found[j].file);
		}
	}
	(void)ht_symbols_module_reason(symbols, 0);
	ht_symbols_free(symbols);
	ht_modules_free(modules);
}

static int copy_of(int file)
{
	return fcntl(FD(file), F_DUPFD_CLOEXEC, 3);
}

/* With a .dwp file, for which there's no such name; from the file, not from memory. */
static void ask_lines(uint8_t flags)
{
	const struct ht_beside beside = { flags & WITH_ALT ? copy_of(ALT) : -1, copy_of(DWP),
					  "/proc/self/fd/" };
	struct ht_line found[HT_LINES_MAX];
	struct ht_lines *lines;
	const char *reason;
	struct ht_elf elf;

	if (ht_elf_init_fd(&elf, copy_of(PROGRAM)) < 0) {
		ht_fd_close(beside.alt_fd);
		ht_fd_close(beside.dwp_fd);
		return;
	}
	CHECK(!ht_lines_new(&elf, &beside, &lines, &reason));
	for (unsigned i = 0; lines && i < ADDRESSES; i++)
		CHECK(ht_lines_lookup(lines, address(i), found, HT_LINES_MAX) <= HT_LINES_MAX);
	ht_lines_free(lines);
	ht_elf_fini(&elf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_input in = { data, data + len };
	uint8_t flags = fuzz_byte(&in), *image;
	size_t left = (size_t)(in.end - in.at);

	fuzz_work_start();
	if (left >= SELFMAG && !memcmp(in.at, ELFMAG, SELFMAG)) {
		image = malloc(left);
		CHECK(image);
		memcpy(image, in.at, left);
		for (int i = PROGRAM; i < FILES; i++)
			offer(i, image, left);
	} else {
		image = make_files(&in, &left);
	}
	if (flags & (WITH_DWP | WITH_ALT)) {
		free(image);
		ask_lines(flags);
	} else {
		ask_symbols(image, left, flags);
	}
	fuzz_work_end(MAX_BYTES, MAX_STEPS(len));
	return 0;
}

const unsigned fuzz_runs = 1500;

/* ---- what to begin with ---- */

#define BYTES(part, text) fuzz_put(part, text, sizeof(text) - 1)

static void u16(struct fuzz_output *part, unsigned value)
{
	fuzz_put(part, &(uint16_t){ (uint16_t)value }, 2);
}

static void u32(struct fuzz_output *part, uint32_t value)
{
	fuzz_put(part, &value, 4);
}

static void u64(struct fuzz_output *part, uint64_t value)
{
	fuzz_put(part, &value, 8);
}

/* The length before it, which was left out. */
static void close_part(struct fuzz_output *part)
{
	uint32_t len = (uint32_t)part->len - 4;

	memcpy(part->at, &len, sizeof(len));
}

static void put_section(struct fuzz_output *out, int file, uint8_t number,
			struct fuzz_output *part)
{
	fuzz_put(out, &(uint8_t){ (uint8_t)file }, 1);
	fuzz_put(out, &number, 1);
	u16(out, (unsigned)part->len);
	fuzz_put(out, part->at, part->len);
	part->len = 0;
}

static struct fuzz_output part;

/* A function in a namespace, with a call inlined in a block with ranges. */
static void put_dwarf4(struct fuzz_output *out, int file, uint8_t packed)
{
	BYTES(&part, "\1\x11\1\3\10\x1b\10\x10\x17\x11\1\x12\6\0\0"
		     "\2\x2e\1\3\10\x3b\xb\x11\1\x12\6\0\0"
		     "\3\x1d\0\x31\x13\x11\1\x12\xb\x58\xb\x59\xb\0\0"
		     "\4\x2e\0\3\10\x20\xb\x6e\10\0\0"
		     "\5\x39\1\1\x13\3\10\0\0"
		     "\6\xb\1\x55\x17\0\0\0");
	put_section(out, file, ABBREV | packed, &part);
	BYTES(&part, "....\4\0\0\0\0\0\10\1u.c\0/src\0\0\0\0\0");
	u64(&part, TEXT);
	BYTES(&part, "\0\1\0\0\4inl\0\1_Z3inlv\0\5\x64\0\0\0ns\0\2fn\0\5");
	u64(&part, TEXT);
	BYTES(&part, "\x40\0\0\0\6\0\0\0\0\3\x25\0\0\0");
	u64(&part, TEXT + 8);
	BYTES(&part, "\x10\1\7\0\0\0\0");
	close_part(&part);
	put_section(out, file, INFO | packed, &part);
	u64(&part, 8);
	u64(&part, 0x20);
	u64(&part, 0);
	u64(&part, 0);
	put_section(out, file, RANGES, &part);
	BYTES(&part, "....\4\0\x1b\0\0\0\1\1\1\xfb\xe\xd\0\1\1\1\1\0\0\0\1\0\0\1\0"
		     "u.c\0\0\0\0\0\0\11\2");
	u64(&part, TEXT);
	BYTES(&part, "\x13\x4b\x83\2\x10\x13\0\1\1");
	close_part(&part);
	put_section(out, file, LINE | packed, &part);
}

static void put_symbols(struct fuzz_output *out, int file)
{
	const Elf64_Sym symbols[] = {
		{ 0 },
		{ .st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1,
		  .st_value = TEXT, .st_size = 0x40 },
		{ .st_name = 13, .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC), .st_shndx = 1,
		  .st_value = TEXT + 0x40 },
	};

	fuzz_put(&part, symbols, sizeof(symbols));
	put_section(out, file, SYMTAB, &part);
	BYTES(&part, "\0_ZN2ns2fnEv\0part.part.0.cold\0");
	put_section(out, file, STRTAB, &part);
}

#define ID "\x11\x22\x33\x44\x55\x66\x77\x88"

/* The skeleton of a unit, and the unit: a function by an index into the addresses, with a list
 * of ranges inside. */
static void put_split(struct fuzz_output *out, int file)
{
	BYTES(&part, "\1\x4a\0\x76\10\x1b\10\x73\x17\x11\x1b\x12\6\0\0\0");
	put_section(out, PROGRAM, ABBREV, &part);
	BYTES(&part, "....\5\0\4\10\0\0\0\0" ID "\1" FD_NAME(3) "\0/\0\10\0\0\0\0\0\1\0\0");
	close_part(&part);
	put_section(out, PROGRAM, INFO, &part);
	BYTES(&part, "\x14\0\0\0\5\0\10\0");
	u64(&part, TEXT);
	u64(&part, TEXT + 0x20);
	put_section(out, PROGRAM, ADDR, &part);
	BYTES(&part, "\1\x11\1\3\x25\0\0\2\x2e\1\3\10\x11\x1b\x12\xb\0\0"
		     "\3\x1d\0\x55\x23\x31\x13\x58\xb\x59\xb\0\0\4\x2e\0\3\x25\x20\xb\0\0\0");
	put_section(out, file, ABBREV_DWO, &part);
	BYTES(&part, "....\5\0\5\10\0\0\0\0" ID "\1\0\4\1\1\2fn\0\0\x40\3\0\x16\0\0\0\1\7\0\0");
	close_part(&part);
	put_section(out, file, INFO_DWO, &part);
	BYTES(&part, "u.c\0inl\0");
	put_section(out, file, STR_DWO, &part);
	BYTES(&part, "\x0c\0\0\0\5\0\0\0\0\0\0\0\4\0\0\0");
	put_section(out, file, STR_OFFSETS_DWO, &part);
	BYTES(&part, "\x14\0\0\0\5\0\10\0\1\0\0\0\4\0\0\0\4\10\x10\3\1\4\0\0");
	put_section(out, file, RNGLISTS_DWO, &part);
}

/* The index of a .dwp file with the unit above, of which all sections are that unit's. */
static void put_index(struct fuzz_output *out)
{
	static const uint32_t sizes[] = { 0x2a, 0x2f, 0x10, 0x18 };
	uint64_t id;

	memcpy(&id, ID, sizeof(id));
	for (unsigned i = 0; i < 4; i++)
		u32(&part, (uint32_t[]){ 5, 4, 1, 2 }[i]);
	u64(&part, id & 1 ? 0 : id);
	u64(&part, id & 1 ? id : 0);
	u32(&part, id & 1 ? 0 : 1);
	u32(&part, id & 1 ? 1 : 0);
	for (unsigned i = 0; i < 4; i++)
		u32(&part, (uint32_t[]){ 1, 3, 6, 8 }[i]);
	for (unsigned i = 0; i < 4; i++)
		u32(&part, 0);
	for (unsigned i = 0; i < 4; i++)
		u32(&part, sizes[i]);
	put_section(out, DWP, CU_INDEX, &part);
}

static void put_packed_split(struct fuzz_output *out)
{
	put_split(out, DWP);
	put_index(out);
}

static void put_program_as_it_is(struct fuzz_output *out)
{
	static struct fuzz_output sections;
	struct fuzz_input in;
	uint8_t *image;
	size_t len;

	sections.len = 0;
	put_dwarf4(&sections, PROGRAM, 0);
	put_symbols(&sections, PROGRAM);
	in = (struct fuzz_input){ sections.at, sections.at + sections.len };
	image = make_files(&in, &len);
	fuzz_put(out, image, len);
	free(image);
}

/* A table of symbols, packed. */
static void put_debugdata(struct fuzz_output *out)
{
	static struct fuzz_output program;

	program.len = 0;
	put_program_as_it_is(&program);
	put_section(out, PROGRAM, DEBUGDATA | PACKED, &program);
}

static void put_beside(struct fuzz_output *out)
{
	BYTES(&part, "201\0....");
	put_section(out, PROGRAM, DEBUGLINK, &part);
	put_dwarf4(out, DEBUG, PACKED);
	put_symbols(out, DEBUG);
	BYTES(&part, FD_NAME(2) "\0" ID);
	put_section(out, DEBUG, ALTLINK, &part);
	BYTES(&part, "\4\0\0\0\10\0\0\0\3\0\0\0GNU\0" ID);
	put_section(out, ALT, BUILD_ID, &part);
	put_dwarf4(out, ALT, 0);
}

void fuzz_seed(unsigned i, struct fuzz_output *out)
{
	static const uint8_t flags[] = { 0, WITH_ALT, 0, WITH_DWP, 0, 0, NAMES_ONLY };

	if (i >= ARRAY_SIZE(flags))
		return;
	fuzz_put(out, &flags[i], 1);
	if (i < 2)
		put_dwarf4(out, PROGRAM, i ? PACKED : 0);
	else if (i == 2)
		put_split(out, DWO);
	else if (i == 3)
		put_packed_split(out);
	else if (i == 4)
		put_beside(out);
	else if (i == 5)
		put_program_as_it_is(out);
	else
		put_debugdata(out);
}
