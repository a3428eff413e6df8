/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_traces.c: any memory map, and any memory, as what a killed heaptap left in a target. What
 * is taken for ours is mapped as ours, page by page, and no patch leads anywhere else.
 *
 * Bytes up to the first NUL are the maps, those behind it memory, from BASE on.
 */
#include <errno.h>

#include "fuzz_work.h"
#include "inject/traces.h"

#define BASE UINT64_C(0x10000000)
#define PAGE UINT64_C(4096)
#define MAX_BYTES (UINT64_C(32) << 20)

/* ---- the target: no process, but a map and memory; of /proc/PID there is nothing ---- */

static const struct ht_maps *maps;
static struct fuzz_input memory;

/* Only ever given to the functions below. */
#define TARGET ((struct ht_target *)(uintptr_t)8)
#define SPACE ((const struct ht_space *)(uintptr_t)8)

const struct ht_maps *__wrap_ht_space_maps(const struct ht_space *space);
int __wrap_ht_target_read(const struct ht_target *target, ht_addr_t addr, void *buf, size_t len);
int __wrap_ht_target_procfd(const struct ht_target *target);
pid_t __wrap_ht_target_pid(const struct ht_target *target);
const char *__wrap_ht_target_name(const struct ht_target *target);
const char *__wrap_ht_target_verb(const struct ht_target *target);

const struct ht_maps *__wrap_ht_space_maps(const struct ht_space *space)
{
	return maps;
}

int __wrap_ht_target_read(const struct ht_target *target, ht_addr_t addr, void *buf, size_t len)
{
	uint64_t at = addr - BASE, there = (uint64_t)(memory.end - memory.at);

	fuzz_steps++;
	if (at > there || len > there - at)
		return -EFAULT;
	memcpy(buf, memory.at + at, len);
	return 0;
}

int __wrap_ht_target_procfd(const struct ht_target *target)
{
	return -1;
}

pid_t __wrap_ht_target_pid(const struct ht_target *target)
{
	return 4194304;
}

const char *__wrap_ht_target_name(const struct ht_target *target)
{
	return "made";
}

const char *__wrap_ht_target_verb(const struct ht_target *target)
{
	return "cure";
}

/* ---- what is found in it ---- */

/* By the map alone: @name, a borrowed thread's stack, or a gate. */
static bool is_ours(ht_addr_t addr)
{
	const struct ht_area *area = ht_maps_find(maps, addr);

	if (!area)
		return false;
	if (!strncmp(area->path, "/memfd:heaptap:", 15))
		return area->deleted;
	return (!*area->path || !strncmp(area->path, "[anon:", 6)) && !area->inode;
}

static void check_range(const struct ht_journal_range *range)
{
	ht_addr_t at = range->start, pages = 0;

	CHECK(range->start < range->end && range->start % PAGE == 0 && range->end % PAGE == 0);
	for (; at < range->end && pages < 4096; at += PAGE, pages++)
		CHECK(is_ours(at));
}

static void check_journal(const struct ht_journal *journal)
{
	CHECK(journal->n_patches <= HT_JOURNAL_MAX && journal->n_ranges &&
	      journal->n_ranges <= ARRAY_SIZE(journal->ranges));
	for (uint32_t i = 0; i < journal->n_ranges; i++)
		check_range(&journal->ranges[i]);
	for (uint32_t i = 0; i < journal->n_patches; i++) {
		const struct ht_journal_patch *patch = &journal->patches[i];
		int32_t rel;

		memcpy(&rel, patch->patched + 1, sizeof(rel));
		CHECK(patch->patched[0] == 0xe9);
		CHECK(is_ours(patch->addr + 5 + (ht_addr_t)(int64_t)rel));
	}
	if (journal->hook_config)
		CHECK(is_ours(journal->hook_config));
}

static void check(const struct ht_traces *traces)
{
	CHECK(traces->n_journals <= HT_TRACES_JOURNALS && traces->n_ranges <= HT_TRACES_RANGES &&
	      traces->n_hooks <= HT_TRACES_HOOKS && !traces->n_fds);
	for (unsigned i = 0; i < traces->n_journals; i++)
		check_journal(traces->journals[i]);
	for (unsigned i = 0; i < traces->n_ranges; i++)
		check_range(&traces->ranges[i]);
	for (unsigned i = 0; i < traces->n_hooks; i++)
		check_range(&traces->hooks[i]);
}

static void look(void)
{
	struct ht_traces *traces;
	struct ht_err err;

	if (ht_traces_find(TARGET, SPACE, &traces, &err) < 0)
		return;
	check(traces);
	(void)ht_traces_alive(traces, TARGET);
	ht_traces_refresh(traces, TARGET, SPACE);
	check(traces);
	ht_traces_free(traces);
}

/* As the kernel makes them. */
static bool in_pages(void)
{
	for (size_t i = 0; i < ht_maps_count(maps); i++) {
		const struct ht_area *area = ht_maps_at(maps, i);

		if ((area->start | area->end) % PAGE)
			return false;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const uint8_t *zero = memchr(data, 0, len);
	size_t maps_len = zero ? (size_t)(zero - data) : len;
	struct ht_maps *parsed;

	if (ht_maps_parse((const char *)data, maps_len, &parsed) < 0)
		return 0;
	maps = parsed;
	memory = (struct fuzz_input){ zero ? zero + 1 : data + len, data + len };
	fuzz_work_start();
	if (in_pages())
		look();
	/* Some reads for each mapping. */
	fuzz_work_end(MAX_BYTES, 4 * ht_maps_count(maps) + 64);
	ht_maps_free(parsed);
	return 0;
}

const unsigned fuzz_runs = 3000;

/* What lies in a target of which the heaptap was killed: a block with its gate, a ring, a hook, and
 * a stack of a borrowed thread. */
static const char left[] =
	"f000-10000000 r-xp 00000000 00:01 9 /made\n"
	"10000000-10004000 r-xs 00000000 00:01 77 /memfd:heaptap:code (deleted)\n"
	"10004000-10005000 rw-p 00000000 00:00 0\n"
	"10005000-10006000 rw-s 00000000 00:01 79 /memfd:heaptap:ring (deleted)\n"
	"10006000-10007000 rw-p 00000000 00:01 78 /memfd:heaptap:hook (deleted)\n"
	"1000a000-1000b000 r-xp 00000000 00:00 0 [anon:heaptap]\n";

static void put_memory(struct fuzz_output *out, size_t start, uint64_t at, const void *data,
		       size_t len)
{
	size_t offset = start + (size_t)(at - BASE);

	CHECK(offset + len <= sizeof(out->at));
	memcpy(out->at + offset, data, len);
	out->len = ht_max(out->len, offset + len);
}

void fuzz_seed(unsigned i, struct fuzz_output *out)
{
	struct ht_journal journal = {
		.magic = HT_JOURNAL_MAGIC, .version = HT_WIRE_VERSION, .size = 0x5000,
		.n_patches = 2, .n_ranges = 2, .n_code = 2, .gate = 0x10004000,
		.hook_config = 0x10006000, .dl_start = 0x10006000, .dl_end = 0x10007000,
		.ranges = { { 0x10000000, 0x10005000 }, { 0x10000000, 0x10004000 } },
		.patches = { { 0xf000, { 0x55 }, { 0xe9, 0x00, 0x10, 0xff, 0x0f } },
			     { 0xf010, { 0x55 }, { 0xe9, 0x00, 0x20, 0xff, 0x0f } } },
	};
	const struct ht_hook_config config = { .magic = HT_HOOK_MAGIC,
					       .ring = { .base = 0x10005000 } };
	const struct ht_ring_header ring = { .magic = HT_RING_MAGIC,
					     .owner = i ? HT_OWNER_DIED : 0 };
	size_t start = sizeof(left);

	if (i > 1)
		return;
	memcpy(out->at, left, sizeof(left));
	put_memory(out, start, 0x10000000, &journal, sizeof(journal));
	put_memory(out, start, 0x10006000, &config, sizeof(config));
	put_memory(out, start, 0x10005000, &ring, sizeof(ring));
}
