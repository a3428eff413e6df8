/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_unwind.c: any registers, any stack, any unwind data: whole walks, with the frames that the
 * table can't express too, which the interpreter and libunwind are asked for. A walk ends,
 * in bounded work, and a second one, from the cache, says the same.
 *
 *	1 byte of enum flags; a word of known registers; 17 words, each a register; a word, the
 *	length of the unwind data; the unwind data; 4 bytes for each word of the stack
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "fuzz_work.h"
#include "ht_elf.h"
#include "unwind/cfi.h"
#include "unwind/unwind.h"

enum flags { RETURN = 1, CUT = 2, HIDE = 4, DEBUG_FRAME = 8, SEARCH_TABLE = 16 };

#define STACK 0x100000
#define STACK_WORDS 4096
/* A registry holds a GiB at most. */
#define SPACE_USES 1024
#define MAX_BYTES (UINT64_C(32) << 20)
/* What a walk may look at, twice; and compiling the table, where a byte is a row at most. */
#define MAX_STEPS (2 * (UINT64_C(1) << 20) + 4 * HT_ELF_EH_MAX)

int __real_ht_cfi_reader_next(struct ht_cfi_reader *reader, struct ht_cfi_fde *ret_fde,
			      size_t *ret_offset);
int __wrap_ht_cfi_reader_next(struct ht_cfi_reader *reader, struct ht_cfi_fde *ret_fde,
			      size_t *ret_offset);
int __real_ht_cfi_run_next(struct ht_cfi_run *run, uint64_t *ret_start, uint64_t *ret_end);
int __wrap_ht_cfi_run_next(struct ht_cfi_run *run, uint64_t *ret_start, uint64_t *ret_end);

int __wrap_ht_cfi_reader_next(struct ht_cfi_reader *reader, struct ht_cfi_fde *ret_fde,
			      size_t *ret_offset)
{
	fuzz_steps++;
	return __real_ht_cfi_reader_next(reader, ret_fde, ret_offset);
}

int __wrap_ht_cfi_run_next(struct ht_cfi_run *run, uint64_t *ret_start, uint64_t *ret_end)
{
	fuzz_steps++;
	return __real_ht_cfi_run_next(run, ret_start, ret_end);
}

static struct ht_elf elf;
static struct ht_modules *modules;
static struct ht_space *space;
static int memfd = -1;

/* The text is memory without a file; each input brings its unwind data. */
static const char maps[] =
	"00001000-00002000 r-xp 00000000 00:00 0\n"
	"00100000-00200000 rw-p 00000000 00:00 0 [stack]\n";

static void make_space(void)
{
	static int dir = -1;
	char path[] = "/tmp/heaptap-fuzz-XXXXXX";
	int fd;

	ht_space_free(space);
	ht_modules_free(modules);
	ht_fd_close(dir);
	CHECK(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = openat(dir, "maps", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, maps, sizeof(maps) - 1) == sizeof(maps) - 1);
	close(fd);
	CHECK(ht_modules_new(&modules) == 0 && ht_space_new(dir, memfd, modules, &space) == 0);
	unlinkat(dir, "maps", 0);
	rmdir(path);
}

/* Calls before each 8th byte, and code that is known by its looks. */
static void make_text(void)
{
	static const uint8_t sigreturn[] = { 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05 };
	static const uint8_t context[] = { 0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24,
					   0x48, 0x85, 0xff };
	static const uint8_t program[] = { 0x48, 0xff, 0xd0, 0x89, 0xc7, 0xe8 };

	for (size_t i = 0; i + 8 <= sizeof(elf.text); i += 8)
		elf.text[i + 3] = 0xe8;
	memcpy(elf.text + 0xf00, sigreturn, sizeof(sigreturn));
	memcpy(elf.text + 0xf20, context, sizeof(context));
	memcpy(elf.text + 0xf40, program, sizeof(program));
}

static void prepare(void)
{
	static unsigned uses;

	ht_elf_init(&elf);
	make_text();
	if (memfd < 0) {
		memfd = memfd_create("fuzz-memory", MFD_CLOEXEC);
		CHECK(memfd >= 0 && pwrite(memfd, elf.text, sizeof(elf.text), HT_ELF_TEXT) ==
					    sizeof(elf.text));
	}
	if (uses++ % SPACE_USES == 0)
		make_space();
}

/* Of all the table has no search table, which makes each slow step a walk over all. */
static struct ht_module *add_unwind_data(struct fuzz_input *in, uint8_t flags)
{
	struct ht_elf_bytes *to = flags & DEBUG_FRAME ? &elf.debug : &elf.eh;
	size_t n = fuzz_u16(in), left = (size_t)(in->end - in->at);
	const uint64_t pair[1][2] = { { HT_ELF_TEXT, 0 } };
	struct ht_module *module;
	uint8_t *image;
	size_t len;

	n = ht_min(n, left);
	n = ht_min(n, sizeof(to->at));
	ht_elf_put(to, in->at, n);
	in->at += n;
	if (flags & SEARCH_TABLE)
		ht_elf_make_hdr(&elf, pair, 1);
	image = ht_elf_build(&elf, &len);
	return ht_space_add_made(space, image, len, &module) < 0 ? NULL : module;
}

/* Mostly places in the text or the stack. */
static uint64_t value_of(uint16_t word)
{
	if (word < 0x8000)
		return STACK + word;
	if (word < 0xf000)
		return HT_ELF_TEXT + (word & 0xfff);
	return (uint64_t)(int64_t)(int16_t)word;
}

static void check(const struct ht_stack *stack)
{
	CHECK(stack->n_frames <= HT_MAX_FRAMES && stack->end < HT_STACK_ENDS);
	CHECK(ht_stack_end_text(stack->end));
	for (uint32_t i = 0; i < stack->n_frames; i++)
		CHECK(stack->frames[i].module == HT_MODULE_NONE);
}

static void unwind(struct fuzz_input *in, const struct ht_unwind_input *input, uint8_t flags)
{
	struct ht_stack first, second;
	struct ht_unwinder *unwinder;

	CHECK(ht_unwinder_new(space, memfd, &unwinder) == 0);
	if (flags & HIDE)
		CHECK(ht_unwinder_hide(unwinder, HT_ELF_TEXT + 0x400, HT_ELF_TEXT + 0x480) == 0);
	fuzz_work_start();
	ht_unwind(unwinder, input, &first);
	check(&first);
	ht_unwind(unwinder, input, &second);
	fuzz_work_end(MAX_BYTES, MAX_STEPS);
	CHECK(first.n_frames == second.n_frames && first.end == second.end);
	for (uint32_t i = 0; i < first.n_frames; i++)
		CHECK(first.frames[i].offset == second.frames[i].offset &&
		      first.frames[i].flags == second.frames[i].flags);
	ht_unwinder_free(unwinder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static uint64_t words[STACK_WORDS];
	struct fuzz_input in = { data, data + len };
	struct ht_unwind_input input = { .stack_base = STACK };
	struct ht_module *module;
	uint8_t flags = fuzz_byte(&in), *stack;
	size_t n = 0;

	prepare();
	input.rip_is_return = flags & RETURN;
	input.stack_cut = flags & CUT;
	input.known = fuzz_u16(&in) | 1u << HT_REG_RIP;
	for (unsigned i = 0; i < HT_UNWIND_REGS; i++)
		input.regs[i] = value_of(fuzz_u16(&in));
	module = add_unwind_data(&in, flags);
	for (; in.at < in.end && n < STACK_WORDS; n++) {
		uint32_t word;

		fuzz_read(&in, &word, sizeof(word));
		words[n] = (uint64_t)(int64_t)(int32_t)word;
	}
	/* From memory that ends with it, for the sanitizers. */
	input.stack_len = 8 * n;
	stack = malloc(input.stack_len + 1);
	CHECK(stack);
	memcpy(stack, words, input.stack_len);
	input.stack = stack;
	unwind(&in, &input, flags);
	free(stack);
	if (module)
		ht_space_drop_made(space, module);
	return 0;
}

const unsigned fuzz_runs = 2000;

static void put_u16(struct fuzz_output *out, unsigned value)
{
	fuzz_put(out, &(uint16_t){ (uint16_t)value }, 2);
}

/* One of each kind, as calls would stack them. */
static void put_functions(struct ht_elf_bytes *b)
{
	size_t cie = ht_elf_plain_cie(b), signal;

	ht_elf_fde(b, cie, HT_ELF_TEXT, 256, HT_ELF_CODE(0x0e, 16, 0x86, 2));
	ht_elf_fde(b, cie, HT_ELF_TEXT + 256, 256, HT_ELF_CODE(0x0c, 6, 16, 0x86, 2, 0x83, 2));
	/* CFA = rbx + 16; CFA = *(rsp + 8) + 16; CFA = (rsp + 16) by a jump and arithmetic */
	ht_elf_fde(b, cie, HT_ELF_TEXT + 512, 128, HT_ELF_CODE(0x0c, 3, 16));
	ht_elf_fde(b, cie, HT_ELF_TEXT + 640, 128, HT_ELF_CODE(0x0f, 5, 0x77, 8, 6, 0x23, 16));
	ht_elf_fde(b, cie, HT_ELF_TEXT + 768, 128,
		   HT_ELF_CODE(0x0f, 9, 0x77, 0, 0x31, 0x28, 1, 0, 0x96, 0x40, 0x22));
	ht_elf_fde(b, cie, HT_ELF_TEXT + 896, 128, HT_ELF_CODE(0x07, 16));
	signal = ht_elf_cie(b, b->eh ? "zRS" : "", HT_ELF_CODE(0x0c, 7, 8, 0x90, 1));
	/* A loop, and a register of the millions. */
	ht_elf_fde(b, signal, HT_ELF_TEXT + 1024, 64, HT_ELF_CODE(0x0f, 3, 0x2f, 0xfd, 0xff));
	ht_elf_fde(b, cie, HT_ELF_TEXT + 1088, 64,
		   HT_ELF_CODE(0x05, 0xff, 0xff, 0xff, 0x3f, 2, 0x0a, 0x0e, 32, 0x0b));
}

void fuzz_seed(unsigned i, struct fuzz_output *out)
{
	static const uint32_t stack[] = {
		0x100010, 0x1108, 0x100020, 0x1208, 0, 0x1288, 0, 0x100038, 0x1308, 0, 0x1388,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	};
	static const uint16_t starts[] = { 0x8008, 0x8108, 0x8208, 0x8288, 0x8308, 0x8f00, 0x8448 };

	if (i >= ARRAY_SIZE(starts))
		return;
	ht_elf_init(&elf);
	put_functions(i & 1 ? &elf.debug : &elf.eh);
	fuzz_put(out, &(uint8_t){ (uint8_t)(i % 4 + (i & 1 ? DEBUG_FRAME : 0)) }, 1);
	put_u16(out, 0xffff);
	for (unsigned reg = 0; reg < HT_UNWIND_REGS; reg++)
		put_u16(out, reg == HT_REG_RIP ? starts[i] : reg == HT_REG_RBP ? 16 :
			     reg == HT_REG_RBX ? 24 : 0);
	put_u16(out, (unsigned)(i & 1 ? elf.debug.len : elf.eh.len));
	fuzz_put(out, i & 1 ? elf.debug.at : elf.eh.at, i & 1 ? elf.debug.len : elf.eh.len);
	fuzz_put(out, stack, sizeof(stack));
}
