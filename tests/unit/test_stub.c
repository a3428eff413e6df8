/* SPDX-License-Identifier: Apache-2.0
 *
 * Stubs are run in test_hook; here it's their shape that is looked at: every jump must land
 * where it should, whatever fast path is in front.
 */
#include "arch/stub.h"

#include <errno.h>
#include <string.h>

#include "ht_check.h"

#define AT UINT64_C(0x7f0000001020)
#define HOOK UINT64_C(0x7f0000001000)
#define FUNCTION UINT64_C(0x7f0000402000)

static const struct ht_moved moved = {
	.patch_addr = FUNCTION,
	.replaced_len = 6,
	.bytes = { 0x53, 0x48, 0x83, 0xec, 0x10, 0x90 },
	.len = 6,
};

static int32_t rel32(const uint8_t *at)
{
	int32_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

static void check_shape(enum ht_fast_path fast, int arg)
{
	struct ht_stub stub = { .fast = fast, .arg = arg, .threads = 0x1111111111111111,
				.filter = 0x2222222222222222, .min_size = 4096,
				.hook_pointer = HOOK, .at = AT };
	struct ht_entry entry = { .index = 7, .call = HT_CALL_ALLOC };
	size_t real = ht_stub_real_offset(&stub), slow;
	uint8_t out[HT_STUB_MAX];
	struct ht_entry copy;

	ck_ok(ht_stub_emit(&stub, &entry, &moved, out));
	ck_assert_uint_eq(entry.real, AT + real);
	memcpy(&copy, out, sizeof(copy));
	ck_assert_mem_eq(&copy, &entry, sizeof(copy));
	ck_assert_mem_eq(out + real, moved.bytes, moved.len);
	/* jmp back behind the replaced bytes */
	ck_assert_uint_eq(out[real + 6], 0xe9);
	ck_assert_uint_eq(AT + real + 11 + (int64_t)rel32(out + real + 7), FUNCTION + 6);
	slow = real + 11;
	if (fast == HT_FAST_FILTER) {
		/* The first look's jump, its last instruction, leads to the second. */
		ck_assert_mem_eq(out + real - 6, "\x0f\x85", 2);
		ck_assert_int_eq((int64_t)real + rel32(out + real - 4), (int64_t)slow);
		/* cmpb $0, filter-front(%r10,%rax); je real; and on to slow */
		slow += 37;
		ck_assert_mem_eq(out + slow - 15, "\x41\x80\xbc\x02", 4);
		ck_assert_int_eq(rel32(out + slow - 11), -(int32_t)HT_FRONT_OFFSET);
		ck_assert_mem_eq(out + slow - 7, "\x00\x0f\x84", 3);
		ck_assert_int_eq((int64_t)slow + rel32(out + slow - 4), (int64_t)real);
	}
	/* lea entry(%rip), %r11; jmp *hook(%rip) */
	ck_assert_mem_eq(out + slow, "\x4c\x8d\x1d", 3);
	ck_assert_int_eq((int64_t)slow + 7 + rel32(out + slow + 3), 0);
	ck_assert_mem_eq(out + slow + 7, "\xff\x25", 2);
	ck_assert_uint_eq(AT + slow + 13 + (int64_t)rel32(out + slow + 9), HOOK);
	/* The first jump of every fast path leads to slow. */
	if (fast == HT_FAST_NONE)
		ck_assert_int_eq(32 + 5 + rel32(out + 33), (int64_t)slow);
	for (size_t i = slow + 13; i < HT_STUB_MAX; i++)
		ck_assert_uint_eq(out[i], 0xcc);
}

START_TEST(every_jump_lands)
{
	for (int fast = HT_FAST_NONE; fast <= HT_FAST_FILTER; fast++)
		for (int arg = 0; arg < 3; arg++)
			check_shape((enum ht_fast_path)fast, arg);
}
END_TEST

START_TEST(a_head_that_jumps_away_gets_no_way_back)
{
	struct ht_stub stub = { .hook_pointer = HOOK, .at = AT };
	struct ht_moved away = moved;
	struct ht_entry entry = { 0 };
	uint8_t out[HT_STUB_MAX];
	size_t real = ht_stub_real_offset(&stub);

	away.jumps_away = true;
	ck_ok(ht_stub_emit(&stub, &entry, &away, out));
	ck_assert_mem_eq(out + real + away.len, "\x4c\x8d\x1d", 3);
}
END_TEST

START_TEST(out_of_reach_is_refused)
{
	struct ht_stub stub = { .hook_pointer = HOOK, .at = AT };
	struct ht_moved far = moved;
	struct ht_entry entry = { 0 };
	uint8_t out[HT_STUB_MAX];

	far.patch_addr = 0x400000;
	ck_assert_int_eq(ht_stub_emit(&stub, &entry, &far, out), -ERANGE);
}
END_TEST

START_TEST(the_longest_stub_fits)
{
	struct ht_stub stub = { .fast = HT_FAST_COUNTDOWN };
	struct ht_stub two = { .fast = HT_FAST_FILTER };

	ck_assert_uint_le(ht_stub_real_offset(&stub) + HT_MOVED_MAX + HT_JUMP_LEN + 13,
			  HT_STUB_MAX);
	ck_assert_uint_le(ht_stub_real_offset(&two) + HT_MOVED_MAX + HT_JUMP_LEN + 37 + 13,
			  HT_STUB_MAX);
}
END_TEST

int main(void)
{
	return ht_check_run("stub", (const TTest *const[]){
		every_jump_lands, a_head_that_jumps_away_gets_no_way_back,
		out_of_reach_is_refused, the_longest_stub_fits, NULL });
}
