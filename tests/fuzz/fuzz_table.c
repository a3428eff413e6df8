/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_table.c: any bytes for the table compiler, the reader and the interpreter.
 *
 * An input that starts like an ELF file is one; anything else becomes the .eh_frame of a
 * small file, so that the fuzzer needn't find its way through headers first.
 */
#include "fuzz.h"
#include "ht_elf.h"
#include "unwind/image.h"
#include "unwind/interp.h"
#include "unwind/table.h"

static int read_any(void *arg, uint64_t addr, uint64_t *ret_value)
{
	*ret_value = addr * UINT64_C(0x9e3779b97f4a7c15);
	return addr % 64 == 0 ? -1 : 0;
}

static void interpret(const uint8_t *file, size_t len, uint64_t pc)
{
	const struct ht_interp_memory memory = { read_any, NULL };
	struct ht_interp_frame frame = { .known = 0xffff7 };
	int r;

	r = ht_interp_step(file, len, 0, pc, &memory, &frame);
	if (r == 0 && !frame.end && !(frame.known & (1u << HT_REG_RIP)))
		abort();
}

static void look(const struct ht_table *table, const uint8_t *file, size_t file_len)
{
	unsigned slow = 0;
	const struct ht_image_header *header;
	struct ht_image_view view;
	struct ht_rule rule;
	uint64_t pc, start;
	size_t len;
	uint32_t i;

	header = ht_table_image(table, &len);
	if (!ht_table_valid(header, len) || !ht_image_open(header, len, &view))
		abort();
	for (i = 0; i < view.n_ranges; i++) {
		uint64_t step = (view.ranges[i].end - view.ranges[i].start) / 512 + 1;

		for (pc = view.ranges[i].start; pc < view.ranges[i].end; pc += step) {
			/* Inside of the text there is always a row, at or before the pc. */
			if (!ht_table_lookup(table, pc, &rule, &start) || start > pc ||
			    start < view.ranges[i].start)
				abort();
			if (rule.cfa_kind >= HT_CFA_EXPR && slow++ < 16)
				interpret(file, file_len, pc);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct ht_elf elf;
	struct ht_table *table;
	uint8_t *built = NULL;

	if (len < 4 || memcmp(data, ELFMAG, SELFMAG) != 0) {
		ht_elf_init(&elf);
		ht_elf_put(&elf.eh, data, ht_min(len, sizeof(elf.eh.at)));
		built = ht_elf_build(&elf, &len);
		data = built;
	}
	if (ht_table_compile(data, len, data, len, &table) == 0) {
		look(table, data, len);
		ht_table_free(table);
	}
	free(built);
	return 0;
}

const unsigned fuzz_runs = 3000;

/* The same unwind data alone, and in a file. */
void fuzz_seed(unsigned i, struct fuzz_output *out)
{
	static struct ht_elf elf;
	uint8_t *image;
	size_t cie, len;

	ht_elf_init(&elf);
	cie = ht_elf_plain_cie(&elf.eh);
	ht_elf_fde(&elf.eh, cie, HT_ELF_TEXT, 64,
		   HT_ELF_CODE(0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x0a, 0x4a, 0x0c, 7, 8));
	ht_elf_fde(&elf.eh, cie, HT_ELF_TEXT + 64, 64, HT_ELF_CODE(0x0f, 3, 0x77, 8, 0x06));
	if (i == 0) {
		fuzz_put(out, elf.eh.at, elf.eh.len);
	} else if (i == 1) {
		image = ht_elf_build(&elf, &len);
		fuzz_put(out, image, len);
		free(image);
	}
}
