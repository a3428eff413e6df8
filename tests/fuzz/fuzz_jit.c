/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_jit.c: any memory as what compilers of code at run time leave there: GDB's list of ELF
 * files (gdbjit.c, jitobject.c), or HotSpot's description of itself with all that it leads to
 * (hotspot.c). The first byte says which; the rest is memory, from BASE on.
 */
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "fuzz_work.h"
#include "symbol/jit-priv.h"
#include "unwind/hotspot.h"
#include "unwind/table.h"

#define BASE UINT64_C(0x10000000)
#define CODE UINT64_C(0x20000000)	/* where made code may be */
#define JVM "30000000-30001000"
#define SPACE_USES 256

/* A list of 65536 entries is read, and each of their files copied a few times. */
#define GDB_BYTES (UINT64_C(256) << 20)
#define GDB_STEPS (2 * 65536 + 64)
#define JAVA_BYTES (UINT64_C(1) << 20)
#define PCS 64
/* The description once, then some reads for each address. */
#define JAVA_STEPS (8192 * 4 + PCS * 128)

int __real_ht_fd_pread_all(int fd, void *data, size_t len, uint64_t offset);
int __wrap_ht_fd_pread_all(int fd, void *data, size_t len, uint64_t offset);
int __wrap_ht_fd_pread_all(int fd, void *data, size_t len, uint64_t offset)
{
	fuzz_steps++;
	return __real_ht_fd_pread_all(fd, data, len, offset);
}

/* ---- the target ---- */

static const char maps[] =
	"20000000-20100000 r-xp 00000000 00:00 0\n"
	JVM " r-xp 00000000 00:01 77 /made/libjvm.so\n";

/* Its symbols lead to the first two words of the memory. */
struct libjvm {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	Elf64_Shdr sections[3];
	Elf64_Sym symbols[3];
	char names[40];
};

static struct libjvm make_libjvm(void)
{
	/* The file is mapped at 0x30000000, and module addresses begin at 0. */
	const uint64_t bias = 0x30000000;
	struct libjvm file = {
		.header = { .e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
			    .e_ehsize = sizeof(Elf64_Ehdr),
			    .e_phoff = offsetof(struct libjvm, segment),
			    .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1,
			    .e_shoff = offsetof(struct libjvm, sections),
			    .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3 },
		.segment = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = 4096,
			     .p_memsz = 4096, .p_align = 4096 },
		.sections = {
			[1] = { .sh_type = SHT_DYNSYM, .sh_link = 2,
				.sh_offset = offsetof(struct libjvm, symbols),
				.sh_size = sizeof(file.symbols), .sh_entsize = sizeof(Elf64_Sym) },
			[2] = { .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct libjvm, names),
				.sh_size = sizeof(file.names) },
		},
		.symbols = { [1] = { .st_name = 1, .st_shndx = 1, .st_value = BASE - bias },
			     [2] = { .st_name = 19, .st_shndx = 1, .st_value = BASE + 8 - bias } },
		.names = "\0gHotSpotVMStructs\0gHotSpotVMTypes",
	};

	memcpy(file.header.e_ident, ELFMAG, SELFMAG);
	file.header.e_ident[EI_CLASS] = ELFCLASS64;
	file.header.e_ident[EI_DATA] = ELFDATA2LSB;
	file.header.e_ident[EI_VERSION] = EV_CURRENT;
	return file;
}

static struct ht_modules *modules;
static struct ht_space *space;

static void write_file(int dir, const char *name, const void *data, size_t len)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	close(fd);
}

/* A folder as /proc/PID, which is gone once it was read. */
static void make_space(void)
{
	static int dir = -1;
	char path[] = "/tmp/heaptap-fuzz-XXXXXX", page[4096] = "";
	struct libjvm libjvm = make_libjvm();

	memcpy(page, &libjvm, sizeof(libjvm));
	ht_space_free(space);
	ht_modules_free(modules);
	ht_fd_close(dir);
	CHECK(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir >= 0 && mkdirat(dir, "map_files", 0700) == 0);
	write_file(dir, "maps", maps, sizeof(maps) - 1);
	write_file(dir, "map_files/" JVM, page, sizeof(page));
	CHECK(ht_modules_new(&modules) == 0 && ht_space_new(dir, -1, modules, &space) == 0);
	CHECK(ht_space_count(space) == 2);
	unlinkat(dir, "map_files/" JVM, 0);
	unlinkat(dir, "map_files", AT_REMOVEDIR);
	unlinkat(dir, "maps", 0);
	rmdir(path);
}

static int make_memory(const uint8_t *data, size_t len)
{
	static int memfd = -1;

	if (memfd < 0)
		memfd = memfd_create("fuzz-memory", MFD_CLOEXEC);
	CHECK(memfd >= 0 && ftruncate(memfd, 0) == 0);
	CHECK(pwrite(memfd, data, len, (off_t)BASE) == (ssize_t)len);
	return memfd;
}

/* ---- GDB's list ---- */

static void use_made(const struct ht_gdbjit *gdb)
{
	const struct ht_gdbjit_file *file;
	struct ht_rule rule;

	ht_vec_foreach(file, &gdb->files)
		if (file->module && ht_module_table(file->module))
			(void)ht_table_lookup(ht_module_table(file->module), CODE + 16, &rule, NULL);
	(void)ht_space_find_made(space, CODE + 16);
}

static void gdb(int memfd)
{
	struct ht_gdbjit jit;
	ht_addr_t *descriptor;

	ht_gdbjit_init(&jit, memfd, space);
	jit.generation = ht_space_generation(space);
	descriptor = ht_vec_push(&jit.descriptors);
	CHECK(descriptor);
	*descriptor = BASE;
	fuzz_work_start();
	CHECK(!ht_gdbjit_read(&jit));
	fuzz_work_end(GDB_BYTES, GDB_STEPS);
	CHECK(!ht_ranges_index(&jit.ranges));
	(void)ht_ranges_find(&jit.ranges, CODE + 16);
	use_made(&jit);
	/* The space stays, the list is read no more. */
	for (size_t i = 0; i < jit.files.len; i++)
		if (jit.files.at[i].module)
			ht_space_drop_made(space, jit.files.at[i].module);
	ht_gdbjit_fini(&jit);
}

/* ---- HotSpot ---- */

static void java(int memfd)
{
	struct ht_buf name = HT_BUF_INIT;
	struct ht_hotspot *hotspot;
	uint32_t bytes;

	CHECK(!ht_hotspot_new(space, memfd, &hotspot));
	fuzz_work_start();
	for (uint64_t i = 0; i < PCS; i++) {
		enum ht_java kind = ht_hotspot_find(hotspot, BASE + 128 * i, &bytes);

		CHECK(kind != HT_JAVA_COMPILED || (bytes >= 16 && bytes <= 256 * 1024));
		if (!ht_hotspot_code_name(hotspot, BASE + 128 * i, &name) && name.len)
			CHECK(strlen(name.data) == name.len);
		(void)!ht_hotspot_method_name(hotspot, BASE + 8 * i, &name);
	}
	fuzz_work_end(JAVA_BYTES, JAVA_STEPS);
	CHECK(name.len <= 2 * PCS * 2 * 1100);
	ht_buf_fini(&name);
	ht_hotspot_free(hotspot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static unsigned uses;

	if (!len)
		return 0;
	if (uses++ % SPACE_USES == 0)
		make_space();
	if (data[0] & 1)
		gdb(make_memory(data + 1, len - 1));
	else
		java(make_memory(data + 1, len - 1));
	return 0;
}

const unsigned fuzz_runs = 3000;

/* ---- what to begin with ---- */

static uint64_t put(struct fuzz_output *out, const void *data, size_t len)
{
	static const uint8_t zeros[8];
	uint64_t at;

	fuzz_put(out, zeros, (8 - (out->len - 1) % 8) % 8);
	at = BASE + out->len - 1;
	fuzz_put(out, data, len);
	return at;
}

static uint64_t put_text(struct fuzz_output *out, const char *text)
{
	return put(out, text, strlen(text) + 1);
}

static void set(struct fuzz_output *out, uint64_t at, uint64_t value)
{
	memcpy(out->at + 1 + (at - BASE), &value, sizeof(value));
}

/* As jitobject.c wants it: text, its unwind data, relocations of that, symbols. */
struct object {
	Elf64_Ehdr header;
	Elf64_Shdr sections[7];
	Elf64_Sym symbols[3];
	Elf64_Rela rela;
	uint8_t text[64];
	uint8_t eh_frame[56];
	char names[64];
};

static struct object make_object(void)
{
	static const uint8_t eh_frame[52] = {
		20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1,
		0, 0, 24, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0 };
	struct object o = {
		.header = { .e_type = ET_REL, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
			    .e_ehsize = sizeof(Elf64_Ehdr),
			    .e_shoff = offsetof(struct object, sections),
			    .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 7, .e_shstrndx = 6 },
		.sections = {
			[1] = { .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_addr = CODE,
				.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				.sh_offset = offsetof(struct object, text), .sh_size = 64 },
			[2] = { .sh_name = 7, .sh_type = SHT_PROGBITS, .sh_addr = CODE + 4096,
				.sh_flags = SHF_ALLOC,
				.sh_offset = offsetof(struct object, eh_frame), .sh_size = 52 },
			[3] = { .sh_type = SHT_RELA, .sh_link = 4, .sh_info = 2,
				.sh_offset = offsetof(struct object, rela),
				.sh_size = sizeof(Elf64_Rela), .sh_entsize = sizeof(Elf64_Rela) },
			[4] = { .sh_type = SHT_SYMTAB, .sh_link = 6,
				.sh_offset = offsetof(struct object, symbols),
				.sh_size = sizeof(o.symbols), .sh_entsize = sizeof(Elf64_Sym) },
			[6] = { .sh_type = SHT_STRTAB,
				.sh_offset = offsetof(struct object, names),
				.sh_size = sizeof(o.names) },
		},
		.symbols = { [1] = { .st_name = 17, .st_shndx = 1, .st_size = 32,
				     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC) },
			     [2] = { .st_shndx = 1,
				     .st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION) } },
		.rela = { 32, ELF64_R_INFO(2, R_X86_64_64), 0 },
		.names = "\0.text\0.eh_frame\0made_function",
	};

	memcpy(o.header.e_ident, ELFMAG, SELFMAG);
	o.header.e_ident[EI_CLASS] = ELFCLASS64;
	o.header.e_ident[EI_DATA] = ELFDATA2LSB;
	o.header.e_ident[EI_VERSION] = EV_CURRENT;
	memcpy(o.eh_frame, eh_frame, sizeof(eh_frame));
	return o;
}

static void put_list(struct fuzz_output *out)
{
	const uint64_t descriptor[3] = { 1, 0, BASE + 24 };
	struct object object = make_object();
	uint64_t entries[2][4] = { { BASE + 24 + 32 }, { 0, BASE + 24 } };

	fuzz_put(out, "\1", 1);
	put(out, descriptor, sizeof(descriptor));
	put(out, entries, sizeof(entries));
	for (unsigned i = 0; i < 2; i++) {
		object.sections[1].sh_addr = CODE + 4096 * i;
		set(out, BASE + 24 + 32 * i + 16, put(out, &object, sizeof(object)));
		set(out, BASE + 24 + 32 * i + 24, sizeof(object));
	}
}

/* Offsets in what follows. */
enum { LOW = 16, HIGH = 8, SEGMAP = 40, LOG2 = 72 };

static const struct {
	const char *type, *field;
	uint32_t offset;
} described[] = {
	{ "GrowableArrayBase", "_len", 0 }, { "GrowableArray<int>", "_data", 8 },
	{ "CodeHeap", "_memory", 8 }, { "CodeHeap", "_segmap", SEGMAP },
	{ "CodeHeap", "_log2_segment_size", LOG2 }, { "VirtualSpace", "_low", LOW },
	{ "VirtualSpace", "_high_boundary", HIGH }, { "StubQueue", "_stub_buffer", 8 },
	{ "StubQueue", "_buffer_limit", 16 }, { "CodeBlob", "_name", 0 }, { "CodeBlob", "_size", 8 },
	{ "CodeBlob", "_frame_size", 12 }, { "nmethod", "_method", 16 },
	{ "Method", "_constMethod", 8 }, { "ConstMethod", "_constants", 8 },
	{ "ConstMethod", "_name_index", 16 }, { "ConstantPool", "_pool_holder", 8 },
	{ "ConstantPool", "_length", 16 }, { "Klass", "_name", 8 }, { "Symbol", "_length", 4 },
	{ "Symbol", "_body", 6 },
};

static void put_struct(struct fuzz_output *out, uint64_t type, uint64_t field, uint64_t offset,
		       uint64_t address)
{
	const uint64_t entry[6] = { type, field, 0, address != 0, offset, address };

	put(out, entry, sizeof(entry));
}

static void put_jvm(struct fuzz_output *out)
{
	uint64_t names[ARRAY_SIZE(described)][2], at, heap, array, queue, symbol, klass, pool;
	uint64_t constant, method, blob_name, code_cache, heaps, interpreter, code, types[2];
	static const uint8_t segmap[8] = { 0, 1, 2, 3, 0, 1, 0xff, 0 };

	fuzz_put(out, "\0", 1);
	put(out, (uint64_t[2]){ 0, 0 }, 16);
	for (size_t i = 0; i < ARRAY_SIZE(described); i++) {
		names[i][0] = put_text(out, described[i].type);
		names[i][1] = put_text(out, described[i].field);
	}
	code_cache = put_text(out, "CodeCache");
	heaps = put_text(out, "_heaps");
	interpreter = put_text(out, "AbstractInterpreter");
	code = put_text(out, "_code");
	types[0] = put_text(out, "HeapBlock");
	types[1] = put_text(out, "ConstantPool");
	blob_name = put_text(out, "nmethod");
	symbol = put(out, "\0\0\0\0\4\0work", 10);
	klass = put(out, (uint64_t[2]){ 0, symbol }, 16);
	pool = put(out, (uint64_t[5]){ 0, klass, 2, 0, symbol }, 40);
	constant = put(out, (uint64_t[3]){ 0, pool, 1 }, 24);
	method = put(out, (uint64_t[2]){ 0, constant }, 16);
	/* HeapBlock, CodeBlob; the code of it is all that follows. */
	at = put(out, (uint64_t[5]){ 4, 1, blob_name, 4096 | UINT64_C(6) << 32, method }, 40);
	heap = put(out, (uint64_t[10]){ 0, 0, at + 4096, at, 0, 0, 0,
					put(out, segmap, sizeof(segmap)), 0, 9 }, 80);
	array = put(out, (uint64_t[2]){ 1, put(out, &heap, 8) }, 16);
	queue = put(out, (uint64_t[3]){ 0, BASE + 512, 512 }, 24);
	array = put(out, &array, 8);
	queue = put(out, &queue, 8);
	at = put(out, "", 0);
	for (size_t i = 0; i < ARRAY_SIZE(described); i++)
		put_struct(out, names[i][0], names[i][1], described[i].offset, 0);
	put_struct(out, code_cache, heaps, 0, array);
	put_struct(out, interpreter, code, 0, queue);
	put_struct(out, 0, 0, 0, 0);
	set(out, BASE, at);
	at = put(out, (uint64_t[15]){ types[0], 0, 0, 0, 16, types[1], 0, 0, 0, 24 }, 120);
	set(out, BASE + 8, at);
}

void fuzz_seed(unsigned i, struct fuzz_output *out)
{
	if (i == 0)
		put_list(out);
	else if (i == 1)
		put_jvm(out);
}
