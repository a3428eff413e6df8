/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_elfsym.c: any bytes as the image of a module: symbols, relocations, the name of the
 * allocator; and as code: moving, scanning, following. The first byte says which, the rest
 * is the input.
 */
#include "arch/arch.h"
#include "fuzz.h"
#include "ht_elf.h"
#include "inject/allocname.h"
#include "inject/elfsym.h"

#define ENTRY UINT64_C(0x7f0000000010)

static void image(const uint8_t *data, size_t len)
{
	static const char *const names[] = { "malloc", "_Znwm", "", "mi_heap_recalloc_aligned_at" };
	struct ht_elf_symbol sym;
	struct ht_elfdyn view;
	char name[64];

	if (ht_elfdyn_open(data, len, &view) < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)!ht_elfdyn_symbol(&view, names[i], &sym);
	for (size_t i = 0; i < view.rela.count; i++)
		(void)ht_elf_relas_at(&view.rela, i);
	for (size_t i = 0; i < view.jmprel.count; i++)
		(void)ht_elf_relas_at(&view.jmprel, i);
	ht_allocator_name(&view, "fuzz", name, sizeof(name));
}

static void on_flow(void *arg, const struct ht_flow *flow)
{
}

static void on_hit(void *arg, ht_addr_t pc, ht_addr_t target)
{
	const struct ht_code_range *range = arg;

	if (target < range->start || target >= range->end)
		__builtin_trap();
}

static void code(const uint8_t *data, size_t len)
{
	struct ht_code_range range = { ENTRY + len / 2, ENTRY + len / 2 + 5 };
	struct ht_moved moved;
	ht_addr_t target;
	bool indirect;

	if (!ht_insn_move(data, len, ENTRY, ENTRY + (64 << 20), &moved) &&
	    (moved.replaced_len < HT_JUMP_LEN || moved.len > sizeof(moved.bytes) ||
	     moved.patch_addr - ENTRY + moved.replaced_len > len))
		__builtin_trap();
	(void)ht_insn_flow(data, len, ENTRY, on_flow, NULL);
	(void)ht_insn_is_forwarder(data, len, ENTRY, &target, &indirect);
	(void)ht_insn_is_wrapper(data, len, ENTRY, &target, &indirect);
	ht_insn_scan_into(data, len, ENTRY, &range, 1, on_hit, &range);
	(void)!ht_insn_boundary(data, len, len / 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (!len)
		return 0;
	if (data[0] & 1)
		image(data + 1, len - 1);
	else
		code(data + 1, len - 1);
	return 0;
}

const unsigned fuzz_runs = 3000;

/* A file without symbols, so that there's a beginning; and the code of a function. */
void fuzz_seed(unsigned i, struct fuzz_output *out)
{
	static const uint8_t push_call_jump[] = { 0, 0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x57, 0x48, 0x8d,
						  0x05, 1, 2, 3, 0, 0x48, 0x85, 0xff, 0x74, 5,
						  0xe8, 9, 0, 0, 0, 0xeb, 0xe0, 0xc3 };
	static struct ht_elf elf;
	uint8_t *image;
	size_t len;

	if (i == 0) {
		fuzz_put(out, push_call_jump, sizeof(push_call_jump));
	} else if (i == 1) {
		fuzz_put(out, "\1", 1);
		ht_elf_init(&elf);
		image = ht_elf_build(&elf, &len);
		fuzz_put(out, image, len);
		free(image);
	}
}
