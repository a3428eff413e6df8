/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/blocks.h"

#include <errno.h>
#include <string.h>

#include "base/map.h"
#include "ht_check.h"

static struct ht_blocks live;

static int add(uint64_t addr, uint64_t seq)
{
	struct ht_block block = { .addr = addr, .size = addr * 3, .seq = seq, .site = 5 };

	return ht_blocks_add(&live, &block);
}

static uint32_t detach(uint64_t addr, uint64_t seq)
{
	bool younger;

	return ht_blocks_detach(&live, addr, seq, &younger);
}

START_TEST(a_block_is_found_once)
{
	uint32_t id;

	ck_ok(ht_blocks_init(&live, 1));
	ck_assert_uint_eq(detach(0x10, 9), 0);
	ck_ok(add(0x10, 1));
	ck_assert_uint_eq(live.count, 1);
	id = detach(0x10, 9);
	ck_assert_uint_ne(id, 0);
	ck_assert_uint_eq(ht_blocks_at(&live, id)->size, 0x30);
	ck_assert_uint_eq(ht_blocks_at(&live, id)->site, 5);
	ck_assert_uint_eq(detach(0x10, 9), 0);
	/* Detached still counts, and the address can be used by another. */
	ck_assert_uint_eq(live.count, 1);
	ck_ok(add(0x10, 10));
	ck_assert_uint_eq(live.count, 2);
	ht_blocks_drop(&live, id);
	ck_assert_uint_eq(live.count, 1);
	ck_assert_uint_eq(detach(0x10, 11) == id, 0);
	ht_blocks_fini(&live);
}
END_TEST

/* Whatever is there, and when nothing is there yet. */
START_TEST(expecting_changes_nothing)
{
	ck_ok(ht_blocks_init(&live, 1));
	ht_blocks_expect(&live, 0x10);
	ck_ok(add(0x10, 1));
	for (uint64_t addr = 0; addr < 0x10000; addr += 8)
		ht_blocks_expect(&live, addr);
	ht_blocks_expect(&live, UINT64_MAX);
	ck_assert_uint_eq(live.count, 1);
	ck_assert_uint_ne(detach(0x10, 2), 0);
	ht_blocks_expect(&live, 0x10);
	ck_assert_uint_eq(detach(0x10, 2), 0);
	ht_blocks_fini(&live);
}
END_TEST

START_TEST(a_younger_block_stays)
{
	bool younger;

	ck_ok(ht_blocks_init(&live, 1));
	ck_assert_uint_eq(ht_blocks_detach(&live, 0x10, 4, &younger), 0);
	ck_assert(!younger);
	ck_ok(add(0x10, 5));
	ck_assert_uint_eq(ht_blocks_detach(&live, 0x10, 4, &younger), 0);
	ck_assert(younger);
	ck_assert_uint_ne(ht_blocks_detach(&live, 0x10, 5, &younger), 0);
	ck_assert(!younger);
	ht_blocks_fini(&live);
}
END_TEST

#define ADDRESSES 60000

/* Growing, shrinking and churning, against an array. */
START_TEST(random_blocks_as_in_an_array)
{
	static uint64_t seq_at[ADDRESSES];
	uint64_t random = 3, seq = 0;
	uint32_t held = 0, most = 0, id;

	ck_ok(ht_blocks_init(&live, 7));
	for (int round = 0; round < 600000; round++) {
		uint32_t i, odds = round < 200000 ? 80 : round < 400000 ? 50 : 20;

		random = ht_hash64(random + 1);
		i = (uint32_t)(random % ADDRESSES);
		if (!seq_at[i] && (random >> 32) % 100 < odds) {
			ck_ok(add(i * UINT64_C(16), ++seq));
			seq_at[i] = seq;
			most = ht_max(most, ++held);
		} else if ((random >> 32) % 100 >= odds) {
			id = detach(i * UINT64_C(16), UINT64_MAX);
			ck_assert_int_eq(id != 0, seq_at[i] != 0);
			if (!id)
				continue;
			ck_assert_uint_eq(ht_blocks_at(&live, id)->seq, seq_at[i]);
			ht_blocks_drop(&live, id);
			seq_at[i] = 0;
			held--;
		}
		ck_assert_uint_eq(live.count, held);
	}
	/* What the header promises: ids are used again, a bucket a block. */
	ck_assert_uint_eq(live.used, most + 1);
	ck_assert_uint_le(live.heads.len, ht_max(most, 1024u));
	ck_assert_uint_gt(most, 30000);
	ht_blocks_fini(&live);
}
END_TEST

START_TEST(a_full_table_says_so_and_goes_on)
{
	uint32_t id;

	ck_ok(ht_blocks_init(&live, 1));
	live.max = 3;
	for (uint64_t i = 1; i <= 3; i++)
		ck_ok(add(i, i));
	ck_assert_int_eq(add(4, 4), -ENOSPC);
	id = detach(2, 9);
	ht_blocks_drop(&live, id);
	ck_ok(add(4, 5));
	ck_assert_int_eq(add(5, 6), -ENOSPC);
	ck_assert_uint_ne(detach(4, 9), 0);
	ck_assert_uint_eq(detach(5, 9), 0);
	ht_blocks_fini(&live);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		a_block_is_found_once, expecting_changes_nothing, a_younger_block_stays,
		random_blocks_as_in_an_array, a_full_table_says_so_and_goes_on, NULL
	};

	return ht_check_run("blocks", tests);
}
