/* SPDX-License-Identifier: Apache-2.0
 *
 * jitter: makes code at run time, in places 0 to 3, that allocates when it is told to, by
 * lines on stdin, and says DONE.
 *
 *	keep PLACE N SIZE	by the code there
 *	map PLACE NAME		in /tmp/perf-PID.map, as interpreters do for perf
 *	register PLACE NAME	to GDB, as LLVM does: an ELF file in memory, with unwind data
 *	unregister		the last one
 *	leave PLACE NAME	map it, and exit
 *
 * The code in places 1 and 3 has no frame pointer, and something else in %rbp. Prints "READY
 * PID"; exits at EOF, and removes the map. __jit_debug_descriptor is in no table
 * of dynamic symbols.
 */
#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PLACES 4
#define PLACE_LEN 64

struct entry {
	struct entry *next, *previous;
	const void *file;
	uint64_t size;
};

struct {
	uint32_t version, action;
	struct entry *relevant, *first;
} __jit_debug_descriptor = { 1, 0, NULL, NULL };

struct object {
	Elf64_Ehdr header;
	Elf64_Shdr sections[7];
	uint8_t text[PLACE_LEN];
	uint8_t eh_frame[80];
	Elf64_Rela relas[1];
	Elf64_Sym symbols[3];
	char names[64];
	char section_names[16];
};

#define SECTION(member) .sh_offset = offsetof(struct object, member), \
			.sh_size = sizeof(((struct object *)0)->member)

static uint8_t *code;

static __attribute__((noinline)) void keep_blocks(unsigned long n, unsigned long size)
{
	while (n--)
		*(volatile char *)malloc(size) = 1;
}

static uint8_t *put(uint8_t *at, const void *bytes, size_t len)
{
	memcpy(at, bytes, len);
	return at + len;
}
#define PUT(at, ...) put(at, (const uint8_t[]){ __VA_ARGS__ },                            \
			 sizeof((const uint8_t[]){ __VA_ARGS__ }))

static void make_code(uint8_t *at, int frame_pointer)
{
	uint64_t to = (uintptr_t)keep_blocks;

	at = PUT(at, 0x55);					/* push %rbp */
	if (frame_pointer)
		at = PUT(at, 0x48, 0x89, 0xe5);			/* mov %rsp,%rbp */
	else
		at = PUT(at, 0x31, 0xed, 0x48, 0x83, 0xec, 16);	/* xor %ebp,%ebp; sub $16,%rsp */
	at = PUT(at, 0x48, 0xb8);				/* movabs $keep_blocks,%rax */
	at = put(at, &to, sizeof(to));
	at = PUT(at, 0xff, 0xd0);				/* call *%rax */
	if (!frame_pointer)
		at = PUT(at, 0x48, 0x83, 0xc4, 16);		/* add $16,%rsp */
	PUT(at, 0x5d, 0xc3);					/* pop %rbp; ret */
}

/* Of code without a frame pointer. Where it is has still to be filled in. */
static void make_unwind_data(uint8_t *at)
{
	const uint64_t len = PLACE_LEN;

	at = PUT(at, 20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0,
		 0x0c, 7, 8, 0x90, 1, 0, 0);
	at = PUT(at, 36, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	at = put(at, &len, sizeof(len));
	/* Behind push: CFA is SP + 16, BP at CFA - 16; behind sub: SP + 32. */
	PUT(at, 0, 0x41, 0x0e, 16, 0x86, 2, 0x46, 0x0e, 32);
}

static void run_code(unsigned place, unsigned long n, unsigned long size)
{
	void (*fn)(unsigned long, unsigned long);

	*(void **)&fn = code + place * PLACE_LEN;
	fn(n, size);
	__asm__ volatile("");	/* no jump: it is to return here */
}

static const char *map_path(void)
{
	static char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	return path;
}

static void write_map(unsigned place, const char *name)
{
	FILE *map = fopen(map_path(), "ae");

	if (!map)
		return;
	fprintf(map, "%lx %x %s\n", (unsigned long)(uintptr_t)(code + place * PLACE_LEN),
		PLACE_LEN, name);
	fclose(map);
}

static void tell_gdb(unsigned place, const char *name)
{
	struct object *o = calloc(1, sizeof(*o));
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!o || !entry)
		abort();
	memcpy(o->header.e_ident, ELFMAG, SELFMAG);
	o->header.e_ident[EI_CLASS] = ELFCLASS64;
	o->header.e_ident[EI_DATA] = ELFDATA2LSB;
	o->header.e_type = ET_REL;
	o->header.e_shoff = offsetof(struct object, sections);
	o->header.e_shentsize = sizeof(Elf64_Shdr);
	o->header.e_machine = EM_X86_64;
	o->header.e_shnum = 7;
	o->header.e_shstrndx = 6;
	o->sections[1] = (Elf64_Shdr){ .sh_type = SHT_PROGBITS, SECTION(text),
				       .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				       .sh_addr = (uintptr_t)(code + place * PLACE_LEN) };
	o->sections[2] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB, .sh_link = 3, SECTION(symbols),
				       .sh_entsize = sizeof(Elf64_Sym) };
	o->sections[3] = (Elf64_Shdr){ .sh_type = SHT_STRTAB, SECTION(names) };
	o->sections[4] = (Elf64_Shdr){ .sh_type = SHT_PROGBITS, SECTION(eh_frame), .sh_name = 1,
				       .sh_addr = (uintptr_t)o->eh_frame };
	o->sections[5] = (Elf64_Shdr){ .sh_type = SHT_RELA, .sh_link = 2, .sh_info = 4,
				       SECTION(relas), .sh_entsize = sizeof(Elf64_Rela) };
	o->sections[6] = (Elf64_Shdr){ .sh_type = SHT_STRTAB, SECTION(section_names) };
	memcpy(o->section_names, "\0.eh_frame", 11);
	memcpy(o->text, code + place * PLACE_LEN, PLACE_LEN);
	make_unwind_data(o->eh_frame);
	o->relas[0] = (Elf64_Rela){ 32, ELF64_R_INFO(2, R_X86_64_64), 0 };
	o->symbols[1] = (Elf64_Sym){ .st_name = 1, .st_shndx = 1, .st_size = PLACE_LEN,
				     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC) };
	o->symbols[2] = (Elf64_Sym){ .st_shndx = 1,
				     .st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION) };
	snprintf(o->names + 1, sizeof(o->names) - 1, "%s", name);
	*entry = (struct entry){ __jit_debug_descriptor.first, NULL, o, sizeof(*o) };
	__jit_debug_descriptor.first = entry;
}

static void obey(const char *line)
{
	unsigned long n, size;
	unsigned place;
	char name[48];

	if (sscanf(line, "keep %u %lu %lu", &place, &n, &size) == 3) {
		run_code(place % PLACES, n, size);
	} else if (sscanf(line, "map %u %47[^\n]", &place, name) == 2) {
		write_map(place % PLACES, name);
	} else if (sscanf(line, "register %u %47[^\n]", &place, name) == 2) {
		tell_gdb(place % PLACES, name);
	} else if (!strncmp(line, "unregister", 10)) {
		__jit_debug_descriptor.first = __jit_debug_descriptor.first->next;
	} else if (sscanf(line, "leave %u %47[^\n]", &place, name) == 2) {
		write_map(place % PLACES, name);
		exit(0);
	}
}

int main(void)
{
	char line[128];
	unsigned i;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED)
		return 1;
	for (i = 0; i < PLACES; i++)
		make_code(code + i * PLACE_LEN, i % 2 == 0);
	printf("READY %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		obey(line);
		puts("DONE");
		fflush(stdout);
	}
	unlink(map_path());
	return 0;
}
