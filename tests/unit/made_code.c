/* SPDX-License-Identifier: Apache-2.0
 *
 * made_code.c: see made_code.h.
 */
#include "made_code.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "ht_check.h"

void made_map(struct made *made, uint8_t *image, size_t len)
{
	char path[] = "/tmp/made-code-XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);

	memset(made, 0, sizeof(*made));
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, image, len), (ssize_t)len);
	made->len = ht_align_up(len, (size_t)4096);
	made->at = mmap(NULL, made->len, PROT_READ, MAP_PRIVATE, fd, 0);
	ck_assert(made->at != MAP_FAILED);
	ck_assert_int_eq(mprotect(made->at + HT_ELF_TEXT, HT_ELF_TEXT_LEN,
				  PROT_READ | PROT_EXEC), 0);
	close(fd);
	free(image);
	made->procfd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	made->memfd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	ck_ok(ht_modules_new(&made->modules));
	ck_ok(ht_space_new(made->procfd, made->memfd, made->modules, &made->space));
	unlink(path);
	ck_ok(ht_unwinder_new(made->space, made->memfd, &made->unwinder));
}

void made_start(struct made *made, const struct ht_elf *elf)
{
	uint8_t *image;
	size_t len;

	image = ht_elf_build(elf, &len);
	made_map(made, image, len);
}

void made_stop(struct made *made)
{
	ht_unwinder_free(made->unwinder);
	ht_space_free(made->space);
	ht_modules_free(made->modules);
	ht_fd_close(made->memfd);
	ht_fd_close(made->procfd);
	munmap(made->at, made->len);
}

uint64_t made_pc(const struct made *made, uint64_t at)
{
	return (uint64_t)(uintptr_t)made->at + HT_ELF_TEXT + at;
}

void made_walk(struct made *made, uint64_t pc, bool exact)
{
	unsigned i;

	made->input = (struct ht_unwind_input){
		.known = (1u << HT_UNWIND_REGS) - 1,
		.rip_is_return = !exact,
		.stack = (const uint8_t *)made->words,
		.stack_len = sizeof(made->words),
		.stack_base = MADE_STACK,
	};
	for (i = 0; i < HT_UNWIND_REGS; i++)
		made->input.regs[i] = 0x100 + i;
	made->input.regs[HT_REG_RSP] = MADE_STACK;
	made->input.regs[HT_REG_RBP] = MADE_STACK + 16;
	made->input.regs[HT_REG_RIP] = made_pc(made, pc);
	made->walk = (struct ht_walk){
		.unwinder = made->unwinder,
		.input = &made->input,
		.window = { made->input.stack, MADE_STACK, sizeof(made->words) - 7 },
		.pc = made_pc(made, pc),
		.sp = MADE_STACK,
		.bp = MADE_STACK + 16,
		.bp_known = true,
		.exact = exact,
		.full_exact = exact,
		.budget = HT_INTERP_BUDGET,
	};
	memcpy(made->walk.full.regs, made->input.regs, sizeof(made->input.regs));
	made->walk.full.known = made->input.known;
}
