/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_tap.c: see fuzz_tap.h. From the reader to the ledger.
 */
#include "fuzz_tap.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ht_elf.h"
#include "ipc/ring.h"
#include "tap/intake.h"

/* ---- the target ---- */

#define AREA "555500001000-555500002000"

static const char maps[] =
	AREA " r-xp 00001000 00:01 77 /made\n"
	"555500002000-555500005000 r--p 00002000 00:01 77 /made\n"
	"7ffc00000000-7ffc00010000 rw-p 00000000 00:00 0 [stack]\n";

_Static_assert(FUZZ_TEXT == UINT64_C(0x555500001000), "maps");

/* A frame by SP, one by BP, one whose CFA is an expression, and one that is the outermost. */
static uint8_t *make_module(size_t *ret_len)
{
	static struct ht_elf elf;
	size_t cie;

	ht_elf_init(&elf);
	/* What return addresses follow: calls. */
	for (size_t i = 0; i + 8 <= sizeof(elf.text); i += 8)
		elf.text[i + 3] = 0xe8;
	cie = ht_elf_plain_cie(&elf.eh);
	ht_elf_fde(&elf.eh, cie, HT_ELF_TEXT, 256, HT_ELF_CODE(0x0e, 16, 0x86, 2));
	ht_elf_fde(&elf.eh, cie, HT_ELF_TEXT + 256, 256, HT_ELF_CODE(0x0c, 6, 16, 0x86, 2));
	/* DW_CFA_def_cfa_expression: deref(rsp + 8) + 16 */
	ht_elf_fde(&elf.eh, cie, HT_ELF_TEXT + 512, 256,
		   HT_ELF_CODE(0x0f, 5, 0x77, 8, 0x06, 0x23, 16));
	ht_elf_fde(&elf.eh, cie, HT_ELF_TEXT + 768, 256, HT_ELF_CODE(0x07, 16));
	return ht_elf_build(&elf, ret_len);
}

static void write_file(int dir, const char *name, const void *data, size_t len)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	close(fd);
}

/* A folder as /proc/PID, which is gone once it was read. */
static struct ht_space *make_space(void)
{
	char path[] = "/tmp/heaptap-fuzz-XXXXXX";
	struct ht_modules *modules;
	struct ht_space *space;
	uint8_t *module;
	size_t len;
	int dir;

	CHECK(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir >= 0 && mkdirat(dir, "map_files", 0700) == 0);
	module = make_module(&len);
	write_file(dir, "maps", maps, sizeof(maps) - 1);
	write_file(dir, "map_files/" AREA, module, len);
	free(module);
	CHECK(ht_modules_new(&modules) == 0 && ht_space_new(dir, -1, modules, &space) == 0);
	CHECK(ht_space_count(space) > 0);
	unlinkat(dir, "map_files/" AREA, 0);
	unlinkat(dir, "map_files", AT_REMOVEDIR);
	unlinkat(dir, "maps", 0);
	rmdir(path);
	return space;
}

/* ---- the way on ---- */

#define RECORDS_MAX (1 << 20)	/* no lane and no socket holds so many */

static struct ht_intake *intake;
static uint64_t records, tops;
static bool far;

static void on_top(void *arg, uint64_t thread_pointer, uint64_t top)
{
	tops++;
}

void fuzz_tap_start(uint8_t how)
{
	static struct ht_space *space;

	records = 0;
	far = (how & FUZZ_FAR) == FUZZ_FAR;
	if (how & FUZZ_READER_ALONE)
		return;
	if (!space)
		space = make_space();
	CHECK(ht_intake_new(space, -1, how & FUZZ_EXACT ? 0 : FUZZ_INTERVAL, 0, &intake) == 0);
	CHECK(ht_intake_hide(intake, FUZZ_TEXT + 0xc00, FUZZ_TEXT + 0xc80) == 0);
	ht_intake_on_top(intake, on_top, NULL);
}

/* Each byte is looked at, so that a sanitizer sees one that isn't there. */
static uint64_t sum_up(const struct ht_record *record)
{
	const uint64_t *words = (const uint64_t *)record;
	uint64_t sum = 0;

	for (size_t i = 0; i < record->size / 8; i++)
		sum += words[i];
	return sum;
}

#define NEAR 4095

static void bring_near(struct ht_record_alloc *record)
{
	record->head.seq &= NEAR;
	if (record->head.type == HT_RECORD_REALLOC)
		record->old_seq &= NEAR;
}

int fuzz_tap_record(void *arg, const struct ht_record *record)
{
	const struct ht_record_alloc *alloc = (const struct ht_record_alloc *)record;
	uint64_t sum = sum_up(record);

	CHECK(++records < RECORDS_MAX);
	CHECK((uintptr_t)record % 8 == 0 && record->size % 8 == 0);
	/* The compiler must not leave it out. */
	__asm__ volatile("" : : "r"(sum));
	switch (record->type) {
	case HT_RECORD_FREE:
		CHECK(record->size == sizeof(struct ht_record_free));
		break;
	case HT_RECORD_ALLOC:
	case HT_RECORD_REALLOC:
		CHECK(record->size >= sizeof(*alloc));
		CHECK(alloc->stack_len <= record->size - sizeof(*alloc));
		break;
	default:
		abort();
	}
	if (!intake)
		return 0;
	/* It's a copy. */
	if (!far)
		bring_near((struct ht_record_alloc *)(uintptr_t)record);
	return ht_intake_record(intake, record);
}

void fuzz_tap_settle(void)
{
	CHECK(!intake || ht_ledger_settle(ht_intake_ledger(intake), false) == 0);
}

/* Sums of whole bytes are exact; of samples, nearly. */
static bool is_sum(double parts, double whole)
{
	return fabs(parts - whole) <= 1e-6 * fabs(whole);
}

static void check_ledger(struct ht_ledger *ledger)
{
	struct ht_intake_counters taken;
	struct ht_ledger_counters counters;
	struct ht_figures all, site;
	double total = 0;

	ht_intake_tick(intake);
	CHECK(ht_ledger_settle(ledger, true) == 0);
	ht_intake_counters(intake, &taken);
	ht_ledger_counters(ledger, &counters);
	ht_ledger_total(ledger, &all);
	CHECK(counters.allocs + counters.reallocs == taken.allocs);
	CHECK(counters.allocs + counters.frees + counters.reallocs + taken.corrupt == records);
	CHECK(all.total.samples == taken.allocs);
	CHECK(isfinite(all.total.bytes) && all.live.bytes >= 0 && all.freed.bytes >= 0);
	CHECK(all.live.bytes <= all.total.bytes && all.peak.bytes <= 2 * all.total.bytes);
	for (uint32_t i = 0; i < ht_ledger_site_count(ledger); i++) {
		ht_ledger_site_figures(ledger, i, &site);
		CHECK(site.live.bytes >= 0 && site.live.objects >= 0);
		total += site.total.bytes;
	}
	CHECK(is_sum(total, all.total.bytes));
}

void fuzz_tap_end(void)
{
	if (intake)
		check_ledger(ht_intake_ledger(intake));
	intake = ht_intake_free(intake);
}
