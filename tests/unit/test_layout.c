/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/layout.h"

#include <string.h>
#include <sys/mman.h>

#include "arch/stub.h"
#include "attach/target.h"
#include "ht_check.h"
#include "ht_target.h"

#define PAGE UINT64_C(4096)

static struct ht_test_target t;
static struct ht_target *target;
static struct ht_modules *modules;
static struct ht_space *space;
static struct ht_plan *plan;
static struct ht_hook_image image;

static void start(void)
{
	ck_ok(ht_test_target_start(&t, "keeper", NULL));
	ck_ok(ht_target_open(t.pid, &target, NULL));
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_space_new(ht_target_procfd(target), ht_target_memfd(target), modules, &space));
	ck_ok(ht_plan_new(space, ht_target_memfd(target), &plan, NULL));
	ck_ok(ht_hook_image_load(&image, NULL));
}

static void stop(void)
{
	ht_hook_image_fini(&image);
	ht_plan_free(plan);
	ht_space_free(space);
	ht_modules_free(modules);
	ht_target_close(target);
	ht_test_target_kill(&t);
}

static struct ht_layout *layout_of(uint32_t flags, ht_addr_t hook)
{
	const struct ht_layout_options options = { .flags = flags, .min_size = 100,
						   .hook = hook };
	struct ht_layout *layout = NULL;
	struct ht_err err = { 0 };
	int r = ht_layout_new(ht_space_maps(space), ht_target_memfd(target), plan, &image,
			      &options, &layout, &err);

	ck_assert_msg(r == 0, "%s", err.text);
	return layout;
}

static bool is_free(ht_addr_t start, ht_addr_t end)
{
	for (ht_addr_t at = start; at < end; at += PAGE)
		if (ht_maps_find(ht_space_maps(space), at))
			return false;
	return true;
}

static const struct ht_region *region_of(const struct ht_layout *l, ht_addr_t addr)
{
	for (unsigned i = 0; i < l->n_regions; i++)
		if (addr >= l->regions[i].addr && addr < l->regions[i].addr + l->region_size)
			return &l->regions[i];
	return NULL;
}

/* Where the jump at a patch leads, and the entry in front of that place. */
static struct ht_entry follow(const struct ht_layout *l, const struct ht_patch *p,
			      const uint8_t **ret_code)
{
	const struct ht_region *region;
	const uint8_t *at;
	struct ht_entry entry;
	uint8_t bytes[8];
	ht_addr_t to;
	int32_t rel;

	memcpy(bytes, &p->patched, 8);
	ck_assert_uint_eq(bytes[0], 0xe9);
	memcpy(&rel, bytes + 1, 4);
	to = p->addr + 5 + (ht_addr_t)(int64_t)rel;
	region = region_of(l, to);
	ck_assert_ptr_nonnull(region);
	at = l->file + region->file_offset + (to - region->addr);
	memcpy(&entry, at - sizeof(entry), sizeof(entry));
	*ret_code = at;
	return entry;
}

START_TEST(pieces_lie_side_by_side_in_free_space)
{
	struct ht_layout *l;

	start();
	l = layout_of(0, 0);
	ck_assert_uint_eq(l->block % PAGE, 0);
	ck_assert_uint_gt(l->data, l->block);
	ck_assert_uint_gt(l->gate, l->data);
	ck_assert_uint_eq(l->gate, l->block + l->head_size);
	ck_assert_uint_le(l->set + (l->set_mask + 1) * HT_SET_BUCKET * 8, l->block + l->size);
	ck_assert(is_free(l->block, l->block + l->size));
	/* The hook is in the file where memory will have it. */
	ck_assert_mem_eq(l->file + (l->hook - l->block), image.bytes, image.size);
	ht_layout_free(l);
	stop();
}
END_TEST

START_TEST(patches_lead_to_their_stubs)
{
	struct ht_layout *l;
	size_t wanted = 0;

	start();
	l = layout_of(0, 0);
	for (size_t i = 0; i < plan->n_sites; i++)
		wanted += !plan->sites[i].refused;
	ck_assert_uint_gt(wanted, 5);
	ck_assert_uint_eq(l->n_patches, wanted);
	for (size_t i = 0; i < l->n_patches; i++) {
		const struct ht_patch *p = &l->patches[i];
		const uint8_t *code;
		struct ht_entry entry = follow(l, p, &code);
		uint64_t now;

		ck_assert_ptr_eq(&plan->sites[entry.index], p->site);
		ck_assert_uint_eq(entry.call, p->site->kind->call);
		ck_assert_ptr_nonnull(region_of(l, entry.real));
		ck_assert_uint_ge(p->replaced_len, HT_JUMP_LEN);
		ck_ok(ht_target_read(target, p->addr, &now, 8));
		ck_assert_uint_eq(now, p->original);
		ck_assert_mem_eq(l->journal->patches[i].original, &p->original, 8);
		ck_assert_mem_eq(l->journal->patches[i].patched, &p->patched, 8);
	}
	ck_assert_uint_eq(l->journal->n_patches, wanted);
	ht_layout_free(l);
	stop();
}
END_TEST

START_TEST(exact_stubs_go_straight_to_the_hook)
{
	struct ht_layout *l;

	start();
	l = layout_of(HT_CONFIG_EXACT, 0);
	for (size_t i = 0; i < l->n_patches; i++) {
		const uint8_t *code;

		follow(l, &l->patches[i], &code);
		ck_assert_uint_eq(code[0], 0xe9);
	}
	ht_layout_free(l);
	stop();
}
END_TEST

START_TEST(a_loaded_hook_is_not_mapped_again)
{
	ht_addr_t hook = 0x7e0000000000;
	struct ht_layout *l;
	uint64_t enter;

	start();
	l = layout_of(0, hook);
	ck_assert_uint_eq(l->gate, l->data);
	ck_assert_uint_eq(l->gate, l->block + l->head_size);
	ck_assert_uint_eq(l->journal->dl_start, hook);
	memcpy(&enter, l->file + l->regions[0].file_offset, 8);
	ck_assert_uint_eq(enter, hook + image.enter);
	ht_layout_free(l);
	stop();
}
END_TEST

/* One that isn't shared lies at the end of the block. */
START_TEST(room_for_a_ring)
{
	struct ht_layout_options options = { 0 };
	struct ht_layout *without, *with;

	start();
	ck_ok(ht_layout_new(ht_space_maps(space), ht_target_memfd(target), plan, &image,
			    &options, &without, NULL));
	ck_assert_uint_eq(without->ring, 0);
	options.ring_size = 1 << 20;
	ck_ok(ht_layout_new(ht_space_maps(space), ht_target_memfd(target), plan, &image,
			    &options, &with, NULL));
	ck_assert_uint_eq(with->size, without->size + (1 << 20));
	ck_assert_uint_eq(with->ring, with->block + without->size);
	ck_assert_uint_eq(with->ring % PAGE, 0);
	ck_assert_uint_eq(with->journal->ranges[0].end, with->ring + (1 << 20));
	ck_assert_uint_eq(with->journal->socket, 0);
	ht_layout_free(without);
	ht_layout_free(with);
	stop();
}
END_TEST

START_TEST(no_room_in_reach_is_said)
{
	const struct ht_layout_options options = { 0 };
	ht_addr_t near;
	struct ht_layout *l = NULL;
	struct ht_maps *full = NULL;
	struct ht_err err = { 0 };
	char text[128];
	int len;

	start();
	near = plan->sites[0].addr & ~(PAGE - 1);
	len = snprintf(text, sizeof(text), "%llx-%llx r--p 00000000 00:00 0 \n",
		       (unsigned long long)(near - (UINT64_C(3) << 30)),
		       (unsigned long long)(near + (UINT64_C(3) << 30)));
	ck_ok(ht_maps_parse(text, (size_t)len, &full));
	ck_assert_int_eq(ht_layout_new(full, ht_target_memfd(target), plan, &image, &options,
				       &l, &err), -ENOSPC);
	ck_assert_int_eq(err.kind, HT_ERR_UNSUPPORTED);
	ht_maps_free(full);
	stop();
}
END_TEST

START_TEST(code_that_changed_is_refused)
{
	const struct ht_layout_options options = { 0 };
	struct ht_layout *l = NULL;
	struct ht_err err = { 0 };
	size_t i = 0;

	start();
	while (plan->sites[i].refused)
		i++;
	plan->sites[i].original[0] ^= 1;
	ck_assert_int_lt(ht_layout_new(ht_space_maps(space), ht_target_memfd(target), plan,
				       &image, &options, &l, &err), 0);
	ck_assert_int_eq(err.kind, HT_ERR_UNSUPPORTED);
	stop();
}
END_TEST

int main(void)
{
	return ht_check_run("layout", (const TTest *const[]){
		pieces_lie_side_by_side_in_free_space, patches_lead_to_their_stubs,
		exact_stubs_go_straight_to_the_hook, a_loaded_hook_is_not_mapped_again,
		room_for_a_ring, no_room_in_reach_is_said, code_that_changed_is_refused, NULL });
}
