/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/image.h"

#include <errno.h>

#include "made_images.h"

START_TEST(code_of_an_area)
{
	struct ht_image *image = NULL;
	const uint8_t *code;
	size_t len = 0;

	init_functions();
	put_branch(F(3), CALL, F(4));
	start_images(NULL, 0);
	code = ht_images_code(&images, made_pc(&made, F(3)), &image, &len);
	ck_assert_ptr_nonnull(code);
	ck_assert_ptr_eq(image, &images.all.at[0]);
	ck_assert_mem_eq(code, elf.text + F(3), 0x40);
	ck_assert_uint_eq(len, HT_ELF_TEXT_LEN - F(3));
	ck_assert_uint_eq(image->bias, (uint64_t)(uintptr_t)made.at);
	ck_assert_ptr_eq(ht_images_of(&images, made_pc(&made, 0)), image);
	/* Not executable; not mapped; of a module that isn't among these. */
	ck_assert_ptr_null(ht_images_code(&images, made_pc(&made, HT_ELF_TEXT_LEN), &image,
					  &len));
	ck_assert_ptr_null(ht_images_code(&images, 8, &image, &len));
	ck_assert_ptr_null(ht_images_of(&images, 8));
	ck_assert_ptr_null(ht_images_code(&images, (ht_addr_t)(uintptr_t)open_images, &image,
					  &len));
	stop_images();
}
END_TEST

static bool function(uint64_t at, ht_addr_t *ret_start, size_t *ret_len)
{
	return ht_images_function(&images, made_pc(&made, at), ret_start, ret_len);
}

START_TEST(functions_by_unwind_data)
{
	ht_addr_t start = 0;
	size_t len = 0;

	init_functions();
	start_images(NULL, 0);
	/* From anywhere in it; the same when it's asked again. */
	for (unsigned again = 0; again < 2; again++) {
		for (uint64_t at = F(3); at < F(4); at += 21) {
			ck_assert(function(at, &start, &len));
			ck_assert_uint_eq(start, made_pc(&made, F(3)));
			ck_assert_uint_eq(len, 0x40);
		}
		ck_assert(!function(F(N_FUNCTIONS), &start, &len));
		ck_assert(!ht_images_function(&images, 8, &start, &len));
	}
	stop_images();
}
END_TEST

START_TEST(jumps_that_forward)
{
	struct ht_slot slot = { .target = 1 };

	init_functions();
	put_branch(F(0), JUMP, F(7));
	memcpy(elf.text + F(1), "\xf3\x0f\x1e\xfa\xeb\x10", 6);	/* endbr64; jmp short */
	put_branch(F(2), CALL, F(7));
	memcpy(elf.text + F(3), "\xff\xe0", 2);			/* jmp *%rax */
	start_images(NULL, 0);
	ck_assert(ht_images_forward(&images, made_pc(&made, F(0)), &slot));
	ck_assert_uint_eq(slot.target, made_pc(&made, F(7)));
	ck_assert_str_eq(slot.name, "");
	ck_assert(ht_images_forward(&images, made_pc(&made, F(1)), &slot));
	ck_assert_uint_eq(slot.target, made_pc(&made, F(1) + 0x16));
	ck_assert(!ht_images_forward(&images, made_pc(&made, F(2)), &slot));
	ck_assert(!ht_images_forward(&images, made_pc(&made, F(3)), &slot));
	ck_assert(!ht_images_forward(&images, made_pc(&made, F(4)), &slot));
	ck_assert(!ht_images_forward(&images, 8, &slot));
	stop_images();
}
END_TEST

START_TEST(calls_that_pass_on)
{
	struct ht_slot slot = { .target = 1 };

	init_functions();
	put_branch(F(0), CALL, F(7));
	put_branch(F(1), JUMP, F(7));
	start_images(NULL, 0);
	ck_assert(ht_images_wraps(&images, made_pc(&made, F(0)), 0x40, &slot));
	ck_assert_uint_eq(slot.target, made_pc(&made, F(7)));
	ck_assert_str_eq(slot.name, "");
	/* It ends before its return; a jump; no code. */
	ck_assert(!ht_images_wraps(&images, made_pc(&made, F(0)), 5, &slot));
	ck_assert(!ht_images_wraps(&images, made_pc(&made, F(1)), 0x40, &slot));
	ck_assert(!ht_images_wraps(&images, 8, 0x40, &slot));
	stop_images();
}
END_TEST

/* A pointer without a relocation: what it leads to counts if it is code. */
START_TEST(pointers_of_no_name)
{
	struct ht_slot slot = { .target = 1 };

	init_functions();
	start_images(NULL, 0);
	/* In the text, which says 0xc3c3.... */
	ck_assert(!ht_images_slot(&images, made_pc(&made, F(0)), &slot));
	ck_assert(!ht_images_slot(&images, 8, &slot));
	ck_assert_uint_eq(slot.target, 1);
	stop_images();
}
END_TEST

/* This program's own: each has its relocation's name, and leads to what it holds. */
START_TEST(slots_of_a_real_program)
{
	const struct ht_mapping *m;
	struct ht_slot slot;
	struct ht_image *image;
	unsigned bound = 0, n = 0;
	ht_addr_t value;

	init_functions();
	start_images(NULL, 0);
	ht_images_fini(&images);
	ck_ok(ht_images_open(made.space, made.memfd, &images));
	m = ht_space_find(made.space, (ht_addr_t)(uintptr_t)open_images);
	ck_assert_ptr_nonnull(m);
	image = ht_images_of(&images, m->start);
	ck_assert_ptr_nonnull(image);
	for (size_t i = 0; i < image->view.jmprel.count; i++) {
		Elf64_Rela rela = ht_elf_relas_at(&image->view.jmprel, i);
		ht_addr_t at = rela.r_offset + image->bias;

		if (ELF64_R_TYPE(rela.r_info) != R_X86_64_JUMP_SLOT ||
		    !ht_images_slot(&images, at, &slot))
			continue;
		n++;
		ck_assert_str_ne(slot.name, "");
		ck_ok(ht_images_read(&images, at, &value, sizeof(value)));
		ck_assert(slot.target == 0 || slot.target == value);
		bound += slot.target != 0;
	}
	ck_assert_uint_gt(n, 5);
	ck_assert_uint_gt(bound, 0);
	ck_assert_int_eq(ht_images_read(&images, 8, &value, sizeof(value)), -EIO);
	stop_images();
}
END_TEST

int main(void)
{
	return ht_check_run("image", (const TTest *const[]){
		code_of_an_area, functions_by_unwind_data, jumps_that_forward, calls_that_pass_on,
		pointers_of_no_name, slots_of_a_real_program, NULL });
}
