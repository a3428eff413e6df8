/* SPDX-License-Identifier: Apache-2.0
 *
 * unwind_rows.c: compare the compact tables of files, row by row, with what libdw says at
 * the first and the last byte of each row.
 *
 *	unwind_rows [-i] [-q] [-t] FILE...
 *
 * -i reads more file names from standard input, NUL behind each. -q prints nothing about
 * files without disagreement, -t also times the compiler and a pass of look-ups. Ends with a line of sums. Status: 0 no disagreement, 1 some, 77 when
 * no file had unwind data. Files that aren't ELF files for x86-64 are passed over.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "unwind/image.h"
#include "unwind/table.h"

#define MAX_PRINTED 10	/* disagreements of a file that are shown */

enum { RSP = 7, RBP = 6, RIP = 16 };

struct sums {
	uint64_t files, rows, checked, bad, overlapping, ours_only, bytes, image_bytes;
	uint64_t slow, gaps, compile_ns, lookup_ns;
	uint64_t kinds[HT_CFA_SLOW + 1];
};

struct file {
	const char *path;
	struct ht_image_view view;
	const struct ht_image_header *header;
	Dwarf_CFI *eh, *debug;
	unsigned printed;
	struct sums *sums;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* ------------------------------------------------- libdw's answer as one of our rules */

static bool is_breg(const Dwarf_Op *op, int *ret_reg, int64_t *ret_offset)
{
	if (op->atom == DW_OP_bregx) {
		*ret_reg = (int)op->number;
		*ret_offset = (int64_t)op->number2;
		return true;
	}
	if (op->atom < DW_OP_breg0 || op->atom > DW_OP_breg31)
		return false;
	*ret_reg = op->atom - DW_OP_breg0;
	*ret_offset = (int64_t)op->number;
	return true;
}

static bool is_plt(const Dwarf_Op *ops, size_t n, int32_t *ret_at)
{
	static const uint8_t atoms[] = { DW_OP_breg7, DW_OP_breg16, DW_OP_lit15, DW_OP_and,
					 0, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus };
	size_t i;

	if (n != sizeof(atoms) || ops[0].number != 8 || ops[1].number != 0)
		return false;
	for (i = 0; i < n; i++)
		if (i != 4 && ops[i].atom != atoms[i])
			return false;
	*ret_at = ops[4].atom - DW_OP_lit0;
	return true;
}

/* *(reg + offset) + add */
static bool is_deref(const Dwarf_Op *ops, size_t n, int *ret_reg, int64_t *ret_offset,
		     int64_t *ret_add)
{
	*ret_add = 0;
	if (n < 2 || !is_breg(&ops[0], ret_reg, ret_offset) || ops[1].atom != DW_OP_deref)
		return false;
	if (n == 3 && ops[2].atom == DW_OP_plus_uconst)
		*ret_add = (int64_t)ops[2].number;
	else if (n == 4 && ops[2].atom >= DW_OP_lit0 && ops[2].atom <= DW_OP_lit31 &&
		 ops[3].atom == DW_OP_plus)
		*ret_add = ops[2].atom - DW_OP_lit0;
	else
		return n == 2;
	return true;
}

static void want_cfa(const Dwarf_Op *ops, size_t n, struct ht_rule *rule)
{
	int64_t offset, add;
	int reg;

	if (n == 0) {
		rule->cfa_kind = HT_CFA_GAP;
	} else if (n == 1 && is_breg(ops, &reg, &offset) && reg <= 15) {
		rule->cfa_kind = reg == RSP ? HT_CFA_SP : reg == RBP ? HT_CFA_BP : HT_CFA_REG;
		rule->cfa_reg = rule->cfa_kind == HT_CFA_REG ? (uint8_t)reg : 0;
		rule->cfa_offset = (int32_t)offset;
	} else if (is_plt(ops, n, &rule->aux)) {
		rule->cfa_kind = HT_CFA_PLT;
	} else if (is_deref(ops, n, &reg, &offset, &add) && (reg == RSP || reg == RBP)) {
		rule->cfa_kind = reg == RBP ? HT_CFA_DEREF_BP : HT_CFA_DEREF_SP;
		rule->cfa_offset = (int32_t)offset;
		rule->aux = (int32_t)add;
	} else {
		rule->cfa_kind = HT_CFA_EXPR;
	}
}

enum place { UNDEFINED, SAME, AT_CFA, AT_REG, IN_REG, ELSEWHERE };

static enum place place_of(Dwarf_Frame *frame, int regno, int *ret_reg, int64_t *ret_offset)
{
	Dwarf_Op mem[3], *ops;
	size_t n;

	if (dwarf_frame_register(frame, regno, mem, &ops, &n) != 0)
		return ELSEWHERE;
	if (n == 0)
		return ops ? UNDEFINED : SAME;
	*ret_offset = 0;
	if (ops[0].atom == DW_OP_call_frame_cfa &&
	    (n == 1 || (n == 2 && ops[1].atom == DW_OP_plus_uconst))) {
		if (n == 2)
			*ret_offset = (int64_t)ops[1].number;
		return AT_CFA;
	}
	if (n == 1 && ops[0].atom == DW_OP_regx) {
		*ret_reg = (int)ops[0].number;
		return IN_REG;
	}
	if (n == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31) {
		*ret_reg = ops[0].atom - DW_OP_reg0;
		return IN_REG;
	}
	/* The CFA is what libdw pushes first. */
	if (ops[0].atom == DW_OP_call_frame_cfa && n == 2 &&
	    is_breg(&ops[1], ret_reg, ret_offset))
		return AT_REG;
	if (n == 1 && is_breg(&ops[0], ret_reg, ret_offset))
		return AT_REG;
	return ELSEWHERE;
}

static void want_bp_slot(struct ht_rule *rule, int64_t offset)
{
	/* Below SP: popped already. */
	if (rule->cfa_kind == HT_CFA_SP && rule->cfa_offset + offset < 0)
		return;
	rule->bp_kind = HT_BP_CFA;
	rule->bp_offset = (int32_t)offset;
}

static void want_bp(Dwarf_Frame *frame, struct ht_rule *rule)
{
	int64_t offset;
	int reg;

	switch (place_of(frame, RBP, &reg, &offset)) {
	case SAME:
		return;
	case UNDEFINED:
		rule->bp_kind = HT_BP_UNDEF;
		return;
	case AT_CFA:
		want_bp_slot(rule, offset);
		return;
	case AT_REG:
		if (reg == RBP) {
			rule->bp_kind = HT_BP_BP;
			rule->bp_offset = (int32_t)offset;
			return;
		}
		if (reg == RSP && rule->cfa_kind == HT_CFA_SP) {
			want_bp_slot(rule, offset - rule->cfa_offset);
			return;
		}
		break;
	default:
		break;
	}
	rule->bp_kind = HT_BP_SLOW;
}

static void want_ra(Dwarf_Frame *frame, struct ht_rule *rule)
{
	bool taken = rule->cfa_kind == HT_CFA_PLT || rule->cfa_kind == HT_CFA_EXPR ||
		     rule->cfa_kind == HT_CFA_DEREF_BP || rule->cfa_kind == HT_CFA_DEREF_SP;
	enum place place;
	int64_t offset;
	int reg;

	place = place_of(frame, RIP, &reg, &offset);
	if (place == AT_CFA && (!taken || offset == -8)) {
		if (!taken)
			rule->aux = (int32_t)offset;
		return;
	}
	if (place == IN_REG && !taken && reg <= RIP) {
		rule->ra_kind = HT_RA_REG;
		rule->aux = reg;
		return;
	}
	rule->ra_kind = HT_RA_SLOW;
}

static struct ht_rule want_rule(Dwarf_Frame *frame)
{
	struct ht_rule rule = { .cfa_kind = HT_CFA_GAP };
	Dwarf_Addr start, end;
	int64_t offset;
	Dwarf_Op *ops;
	bool signal;
	size_t n;
	int reg;

	if (place_of(frame, RIP, &reg, &offset) == UNDEFINED) {
		rule.cfa_kind = HT_CFA_END;
		return rule;
	}
	if (dwarf_frame_cfa(frame, &ops, &n) != 0)
		return rule;
	dwarf_frame_info(frame, &start, &end, &signal);
	want_cfa(ops, n, &rule);
	if (rule.cfa_kind == HT_CFA_GAP)
		return rule;
	if (signal && rule.cfa_kind == HT_CFA_DEREF_SP &&
	    place_of(frame, RIP, &reg, &offset) == AT_REG && reg == RSP &&
	    offset == rule.cfa_offset + 8) {
		rule = (struct ht_rule){ .cfa_kind = HT_CFA_SIGNAL,
					 .cfa_offset = rule.cfa_offset - 160 };
		return rule;
	}
	if (signal)
		return (struct ht_rule){ HT_CFA_SLOW, 0, HT_BP_SLOW, HT_RA_SLOW, 0, 0, 0 };
	want_bp(frame, &rule);
	want_ra(frame, &rule);
	return rule;
}

/* ---------------------------------------------------------------------- comparing */

static void print_rule(const char *who, const struct ht_rule *rule)
{
	printf(" %s cfa %d r%d%+d bp %d%+d ra %d aux %d", who, rule->cfa_kind, rule->cfa_reg,
	       rule->cfa_offset, rule->bp_kind, rule->bp_offset, rule->ra_kind, rule->aux);
}

static void check_at(struct file *file, uint64_t pc, uint32_t row)
{
	struct ht_rule got = file->view.rules[ht_image_row_rule(row)];
	bool debug = ht_image_row_flags(row) & HT_ROW_DEBUG;
	struct ht_rule want = { .cfa_kind = HT_CFA_GAP };
	Dwarf_CFI *cfi = debug ? file->debug : file->eh;
	Dwarf_Frame *frame = NULL;

	if (ht_image_row_flags(row) & HT_ROW_SYNTHETIC)
		return;
	file->sums->checked++;
	if (got.cfa_kind == HT_CFA_EXPR)
		got.aux = 0;
	if (cfi && dwarf_cfi_addrframe(cfi, pc, &frame) == 0)
		want = want_rule(frame);
	free(frame);
	if (memcmp(&got, &want, sizeof(got)) == 0)
		return;
	file->sums->bad++;
	/* Which of two FDEs wins is a matter of taste; libdw looks at one alone. */
	if (file->header->overlaps > 0)
		file->sums->overlapping++;
	/* libdw knows an .eh_frame only by a good search table. */
	if (want.cfa_kind == HT_CFA_GAP)
		file->sums->ours_only++;
	if (file->printed++ >= MAX_PRINTED)
		return;
	printf("%s: %#" PRIx64 "%s:", file->path, pc, debug ? " (debug)" : "");
	print_rule("ours", &got);
	print_rule(" libdw", &want);
	printf("\n");
}

static void check_range(struct file *file, const struct ht_image_range *range)
{
	uint64_t base = ht_align_down(range->start, HT_IMAGE_BUCKET), start = 0;
	uint32_t b, i, row = 0;
	bool first = true;

	for (b = 0; b < range->n_buckets; b++) {
		const uint32_t *bucket = &file->view.buckets[range->first_bucket + b];

		for (i = bucket[0]; i < bucket[1]; i++) {
			uint64_t next = base + (uint64_t)b * HT_IMAGE_BUCKET +
					ht_image_row_pc(file->view.rows[i]);

			if (!first && next - 1 != start)
				check_at(file, next - 1, row);
			first = false;
			row = file->view.rows[i];
			start = next;
			check_at(file, start, row);
			file->sums->kinds[file->view.rules[ht_image_row_rule(row)].cfa_kind]++;
		}
	}
	if (range->end - 1 != start)
		check_at(file, range->end - 1, row);
}

/* One look-up a row, in an order that the caches don't like. */
static void time_lookups(const struct file *file, const struct ht_table *table)
{
	const struct ht_image_range *range = file->view.ranges;
	uint64_t pc, i, n = file->view.n_rows, size = range->end - range->start, sum = 0;
	uint64_t start = now_ns();
	struct ht_rule rule;

	for (i = 0; i < n; i++) {
		pc = range->start + (i * UINT64_C(0x9e3779b97f4a7c15) >> 16) % size;
		if (ht_table_lookup(table, pc, &rule, NULL))
			sum += rule.cfa_kind;
	}
	file->sums->lookup_ns += now_ns() - start + (sum == UINT64_MAX);
}

static void check_file(struct file *file, const struct ht_table *table, bool timed)
{
	struct sums *sums = file->sums;
	size_t len;
	uint32_t i;

	file->header = ht_table_image(table, &len);
	if (!ht_table_valid(file->header, len) ||
	    !ht_image_open(file->header, len, &file->view)) {
		printf("%s: the image isn't valid\n", file->path);
		sums->bad++;
		return;
	}
	if (timed)
		time_lookups(file, table);
	for (i = 0; i < file->view.n_ranges; i++)
		check_range(file, &file->view.ranges[i]);
	sums->files++;
	sums->rows += file->view.n_rows;
	sums->bytes += file->header->text_bytes;
	sums->gaps += file->header->gap_bytes;
	sums->slow += file->header->slow_rows;
	sums->image_bytes += len;
}

static struct ht_table *compile(const uint8_t *image, size_t len, struct sums *sums)
{
	struct ht_table *table;
	uint64_t start = now_ns();

	if (ht_table_compile(image, len, NULL, 0, &table) < 0)
		return NULL;
	sums->compile_ns += now_ns() - start;
	return table;
}

static void do_file(const char *path, bool quiet, bool timed, struct sums *sums)
{
	_cleanup_(ht_fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct file file = { .path = path, .sums = sums };
	uint64_t bad = sums->bad, checked = sums->checked;
	struct ht_table *table;
	struct stat st;
	Dwarf *dwarf;
	void *image;
	Elf *elf;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < 64)
		return;
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (image == MAP_FAILED)
		return;
	table = compile(image, (size_t)st.st_size, sums);
	elf = table ? elf_begin(fd, ELF_C_READ_MMAP, NULL) : NULL;
	if (elf) {
		dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
		file.eh = dwarf_getcfi_elf(elf);
		file.debug = dwarf ? dwarf_getcfi(dwarf) : NULL;
		check_file(&file, table, timed);
		if (!quiet || sums->bad != bad)
			printf("%s: %" PRIu32 " rows, %" PRIu32 " rules, %" PRIu32
			       " FDEs (%" PRIu32 " bad, %" PRIu32 " overlap), %" PRIu64
			       " checks, %" PRIu64 " disagree\n",
			       path, file.view.n_rows, file.view.n_rules, file.header->fdes,
			       file.header->bad_fdes, file.header->overlaps,
			       sums->checked - checked, sums->bad - bad);
		if (file.eh)
			dwarf_cfi_end(file.eh);
		dwarf_end(dwarf);
		elf_end(elf);
	}
	ht_table_free(table);
	munmap(image, (size_t)st.st_size);
}

static void do_input(bool quiet, bool timed, struct sums *sums)
{
	char *name = NULL;
	size_t size = 0;

	while (getdelim(&name, &size, '\0', stdin) > 0)
		do_file(name, quiet, timed, sums);
	free(name);
}

static void print_sums(const struct sums *sums, bool timed)
{
	static const char *const kinds[] = { "gap", "end", "sp", "bp", "reg", "plt",
					     "deref bp", "deref sp", "signal", "expr", "slow" };
	int i;

	printf("%" PRIu64 " files, %" PRIu64 " rows (%" PRIu64 " slow), %" PRIu64
	       " checks, %" PRIu64 " disagree (%" PRIu64 " in files with overlaps, %" PRIu64
	       " where libdw has nothing)\n", sums->files, sums->rows, sums->slow, sums->checked,
	       sums->bad, sums->overlapping, sums->ours_only);
	printf("text %" PRIu64 " bytes, gaps %" PRIu64 ", tables %" PRIu64 ";", sums->bytes,
	       sums->gaps, sums->image_bytes);
	for (i = 0; i <= HT_CFA_SLOW; i++)
		printf(" %s %" PRIu64, kinds[i], sums->kinds[i]);
	printf("\n");
	if (timed && sums->rows > 0)
		printf("compile %.1f ms, %.1f million rows/s, look-up %.1f ns\n",
		       (double)sums->compile_ns / 1e6,
		       (double)sums->rows * 1e3 / (double)sums->compile_ns,
		       (double)sums->lookup_ns / (double)sums->rows);
}

int main(int argc, char **argv)
{
	bool quiet = false, timed = false, input = false;
	struct sums sums = { .files = 0 };
	int opt, i;

	while ((opt = getopt(argc, argv, "iqt")) != -1) {
		input |= opt == 'i';
		quiet |= opt == 'q';
		timed |= opt == 't';
		if (opt == '?')
			return 2;
	}
	elf_version(EV_CURRENT);
	for (i = optind; i < argc; i++)
		do_file(argv[i], quiet, timed, &sums);
	if (input)
		do_input(quiet, timed, &sums);
	print_sums(&sums, timed);
	if (sums.files == 0)
		return 77;
	return sums.bad == 0 ? 0 : 1;
}
