/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "ht_check.h"
#include "made_code.h"

#define PUT(at, ...) put_code(at, HT_ELF_CODE(__VA_ARGS__))

static struct ht_elf elf;
static struct made made;

static void put_code(uint64_t at, const uint8_t *code, size_t len)
{
	memcpy(elf.text + at, code, len);
}

static void init(void)
{
	ht_elf_init(&elf);
	ht_elf_plain_cie(&elf.eh);
}

/* A function of 16 bytes that has unwind data: CFA = SP + @cfa. */
static void add_function(uint64_t at, uint8_t cfa)
{
	ht_elf_fde(&elf.eh, 0, HT_ELF_TEXT + at, 16, HT_ELF_CODE(0x0e, cfa));
}

static struct ht_located locate(uint64_t pc, bool exact)
{
	struct ht_located located;

	made_walk(&made, 0, exact);
	ht_walk_locate(&made.walk, pc, exact, &located);
	return located;
}

static struct ht_located locate_at(uint64_t at, bool exact)
{
	return locate(made_pc(&made, at), exact);
}

START_TEST(return_addresses_belong_to_the_call)
{
	struct ht_located l;

	init();
	add_function(0, 16);
	add_function(16, 32);
	made_start(&made, &elf);
	l = locate_at(16, true);
	ck_assert_int_eq(l.entry.cfa_offset, 32);
	l = locate_at(16, false);
	ck_assert_int_eq(l.entry.cfa_offset, 16);
	ck_assert_int_eq(l.entry.flags, 0);
	ck_assert_uint_eq(l.entry.pc, made_pc(&made, 16));
	ck_assert_uint_eq(l.entry.offset, HT_ELF_TEXT + 16);
	ck_assert_uint_eq(l.entry.module, ht_module_id(l.mapping->module));
	/* The last call of a text returns behind it. */
	l = locate_at(HT_ELF_TEXT_LEN, false);
	ck_assert_int_eq(l.entry.kind, HT_PC_GAP);
	l = locate_at(HT_ELF_TEXT_LEN, true);
	ck_assert_int_eq(l.entry.kind, HT_PC_UNMAPPED);
	made_stop(&made);
}
END_TEST

/* What a coroutine or a signal handler returns to: no call is before it. */
START_TEST(made_up_return_addresses)
{
	struct ht_located l;

	init();
	add_function(0, 16);
	add_function(64, 32);
	made_start(&made, &elf);
	l = locate_at(0, false);
	ck_assert_int_eq(l.entry.cfa_offset, 16);
	ck_assert_int_eq(l.entry.flags, HT_PC_EXACT);
	l = locate_at(64, false);
	ck_assert_int_eq(l.entry.cfa_offset, 32);
	ck_assert_int_eq(l.entry.flags, HT_PC_EXACT);
	/* Not the start of anything. */
	l = locate_at(65, false);
	ck_assert_int_eq(l.entry.flags, 0);
	l = locate_at(32, false);
	ck_assert_int_eq(l.entry.kind, HT_PC_GAP);
	ck_assert_int_eq(l.entry.flags, 0);
	made_stop(&made);
}
END_TEST

START_TEST(kinds_follow_the_rule)
{
	static const struct {
		uint8_t code[8];
		int kind;
	} rows[] = {
		{ { 0 }, 0 },
		{ { 0x86, 2, 0x0e, 16 }, HT_PC_FAST_BP_SAVED },
		{ { 0x0c, 6, 16 }, HT_PC_FAST_CFA_BP },
		{ { 0x0c, 6, 16, 0x86, 2 }, HT_PC_FAST_CFA_BP | HT_PC_FAST_BP_SAVED },
		{ { 0x0c, 3, 16 }, HT_PC_GENERAL },	/* CFA by rbx */
		{ { 0x90, 2 }, HT_PC_GENERAL },		/* return address elsewhere */
		{ { 0x07, 6 }, HT_PC_GENERAL },		/* BP lost */
		{ { 0x07, 16 }, HT_PC_END },
	};
	size_t i;

	init();
	for (i = 0; i < ARRAY_SIZE(rows); i++)
		ht_elf_fde(&elf.eh, 0, HT_ELF_TEXT + 16 * i, 16, rows[i].code,
			   sizeof(rows[i].code));
	made_start(&made, &elf);
	for (i = 0; i < ARRAY_SIZE(rows); i++)
		ck_assert_msg(locate_at(16 * i + 1, true).entry.kind == rows[i].kind,
			      "row %zu", i);
	made_stop(&made);
}
END_TEST

START_TEST(code_known_by_its_looks)
{
	init();
	/* Signal trampolines, in and out of functions. */
	PUT(0x00, 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05);
	PUT(0x20, 0xb8, 15, 0, 0, 0, 0x0f, 0x05);
	PUT(0x40, 0xb8, 16, 0, 0, 0, 0x0f, 0x05);
	/* makecontext()'s end, whatever unwind data says. */
	PUT(0x60, 0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85, 0xff);
	/* The three ends of a clone(), which are believed in gaps only. */
	PUT(0x80, 0x89, 0xc7, 0xb8, 60, 0, 0, 0, 0x0f, 0x05);
	PUT(0xa0, 0x48, 0x89, 0xc7, 0xb8, 60, 0, 0, 0, 0x0f, 0x05);
	PUT(0xc0, 0x89, 0xc7, 0x31, 0xc0, 0xb0, 60, 0x0f, 0x05);
	PUT(0xe0, 0x89, 0xc7, 0xb8, 60, 0, 0, 0, 0x0f, 0x05);
	PUT(0x100, 0x89, 0xc7, 0xb8, 61, 0, 0, 0, 0x0f, 0x05);
	/* Cut off by the end of the text. */
	PUT(HT_ELF_TEXT_LEN - 8, 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f);
	add_function(0x20, 16);
	add_function(0x60, 16);
	add_function(0xe0, 16);
	made_start(&made, &elf);
	ck_assert_int_eq(locate_at(0x00, true).entry.kind, HT_PC_SIGNAL);
	ck_assert_int_eq(locate_at(0x20, true).entry.kind, HT_PC_SIGNAL);
	ck_assert_int_eq(locate_at(0x20, false).entry.kind, HT_PC_SIGNAL);
	ck_assert_int_eq(locate_at(0x40, true).entry.kind, HT_PC_GAP);
	ck_assert_int_eq(locate_at(0x60, false).entry.kind, HT_PC_END);
	ck_assert(locate_at(0x60, false).entry.flags & HT_PC_EXACT);
	ck_assert_int_eq(locate_at(0x80, false).entry.kind, HT_PC_END);
	ck_assert_int_eq(locate_at(0xa0, false).entry.kind, HT_PC_END);
	ck_assert_int_eq(locate_at(0xc0, false).entry.kind, HT_PC_END);
	ck_assert_int_lt(locate_at(0xe1, false).entry.kind, HT_PC_GENERAL);
	ck_assert_int_eq(locate_at(0x100, false).entry.kind, HT_PC_GAP);
	ck_assert_int_eq(locate_at(HT_ELF_TEXT_LEN - 8, true).entry.kind, HT_PC_GAP);
	made_stop(&made);
}
END_TEST

static bool outermost(uint64_t at, bool gap)
{
	const struct ht_mapping *m = ht_space_find(made.space, made_pc(&made, 0));

	ck_assert_ptr_nonnull(m);
	return ht_code_is_outermost(m, made.memfd, made_pc(&made, at), gap);
}

/* Where the kernel enters a program; musl's and the loader's have no unwind data. */
START_TEST(entry_point_is_the_end)
{
	uint8_t *image;
	size_t len;

	init();
	add_function(0x800, 16);
	image = ht_elf_build(&elf, &len);
	((Elf64_Ehdr *)image)->e_entry = HT_ELF_TEXT + 0x100;
	made_map(&made, image, len);
	ck_assert_int_eq(locate_at(0xff, true).entry.kind, HT_PC_GAP);
	ck_assert_int_eq(locate_at(0x105, false).entry.kind, HT_PC_END);
	ck_assert_int_eq(locate_at(0x15f, false).entry.kind, HT_PC_END);
	ck_assert_int_eq(locate_at(0x160, false).entry.kind, HT_PC_GAP);
	ck_assert(outermost(0x105, true));
	ck_assert(!outermost(0x105, false));
	ck_assert(!outermost(0x160, true));
	made_stop(&made);
}
END_TEST

/* That of crt1.o has unwind data; what the linker put behind it has none. */
START_TEST(entry_point_with_unwind_data)
{
	uint8_t *image;
	size_t len;

	init();
	add_function(0x100, 32);
	image = ht_elf_build(&elf, &len);
	((Elf64_Ehdr *)image)->e_entry = HT_ELF_TEXT + 0x100;
	made_map(&made, image, len);
	ck_assert_int_eq(locate_at(0x130, true).entry.kind, HT_PC_GAP);
	ck_assert(!outermost(0x130, true));
	made_stop(&made);
}
END_TEST

START_TEST(code_that_is_none)
{
	struct ht_located l;

	init();
	add_function(0, 16);
	made_start(&made, &elf);
	/* Not executable: unwind data. Nothing at all. */
	ck_assert_int_eq(locate_at(HT_ELF_EH - HT_ELF_TEXT + 8, true).entry.kind,
			 HT_PC_UNMAPPED);
	l = locate(8, true);
	ck_assert_int_eq(l.entry.kind, HT_PC_UNMAPPED);
	ck_assert_uint_eq(l.entry.module, HT_MODULE_NONE);
	ck_assert_uint_eq(l.entry.offset, 8);
	ck_assert_ptr_null(l.mapping);
	made_stop(&made);
}
END_TEST

START_TEST(hidden_ranges)
{
	init();
	add_function(0, 16);
	made_start(&made, &elf);
	ck_ok(ht_unwinder_hide(made.unwinder, made_pc(&made, 0x20), made_pc(&made, 0x30)));
	ck_assert(!(locate_at(0x1f, true).entry.flags & HT_PC_HIDDEN));
	ck_assert(locate_at(0x20, true).entry.flags & HT_PC_HIDDEN);
	ck_assert(!(locate_at(0x30, true).entry.flags & HT_PC_HIDDEN));
	/* By the call. */
	ck_assert(!(locate_at(0x20, false).entry.flags & HT_PC_HIDDEN));
	ck_assert(locate_at(0x30, false).entry.flags & HT_PC_HIDDEN);
	made_stop(&made);
}
END_TEST

START_TEST(code_is_read_within_its_mapping)
{
	const struct ht_mapping *found;
	struct ht_mapping bare;
	uint8_t buf[16];

	init();
	PUT(0, 1, 2, 3, 4);
	made_start(&made, &elf);
	found = ht_space_find(made.space, made_pc(&made, 0));
	ck_assert(ht_code_read(found, -1, made_pc(&made, 0), buf, 4));
	ck_assert_mem_eq(buf, "\1\2\3\4", 4);
	ck_assert(!ht_code_read(found, -1, found->start - 1, buf, 1));
	ck_assert(!ht_code_read(found, -1, found->end, buf, 1));
	ck_assert(ht_code_read(found, -1, found->end - 16, buf, 16));
	ck_assert(!ht_code_read(found, -1, found->end - 15, buf, 16));
	/* Of no file: from memory, if there is any. */
	bare = *found;
	bare.module = NULL;
	memset(buf, 0, sizeof(buf));
	ck_assert(ht_code_read(&bare, made.memfd, made_pc(&made, 0), buf, 4));
	ck_assert_mem_eq(buf, "\1\2\3\4", 4);
	ck_assert(!ht_code_read(&bare, -1, made_pc(&made, 0), buf, 4));
	made_stop(&made);
}
END_TEST

#define RETURN_AT 0x40

/* Does an address count as behind a call when these are the bytes before it? */
static bool after(const uint8_t *code, size_t len)
{
	bool yes;

	init();
	/* Nothing in front that could help. */
	memset(elf.text, 0xcc, 0x80);
	put_code(RETURN_AT - len, code, len);
	made_start(&made, &elf);
	made_walk(&made, 0, false);
	yes = ht_walk_after_call(&made.walk, made_pc(&made, RETURN_AT));
	made_stop(&made);
	return yes;
}

#define AFTER(...) after(HT_ELF_CODE(__VA_ARGS__))

START_TEST(calls_are_recognised)
{
	ck_assert(AFTER(0xe8, 1, 2, 3, 4));
	ck_assert(AFTER(0xff, 0xd0));			/* *%rax */
	ck_assert(AFTER(0x41, 0xff, 0xd3));		/* *%r11 */
	ck_assert(AFTER(0xff, 0x10));			/* *(%rax) */
	ck_assert(AFTER(0xff, 0x14, 0xc8));		/* *(%rax,%rcx,8) */
	ck_assert(AFTER(0xff, 0x14, 0xc5, 1, 2, 3, 4));	/* *disp32(,%rax,8) */
	ck_assert(AFTER(0xff, 0x15, 1, 2, 3, 4));	/* *disp32(%rip) */
	ck_assert(AFTER(0xff, 0x50, 8));		/* *8(%rax) */
	ck_assert(AFTER(0xff, 0x54, 0x24, 8));		/* *8(%rsp) */
	ck_assert(AFTER(0xff, 0x90, 1, 2, 3, 4));	/* *disp32(%rax) */
	ck_assert(AFTER(0xff, 0x94, 0x24, 1, 2, 3, 4));	/* *disp32(%rsp) */
	/* Jumps, a far call, a push; half of a call; one that ended before. */
	ck_assert(!AFTER(0xe9, 1, 2, 3, 4));
	ck_assert(!AFTER(0xff, 0xe0));
	ck_assert(!AFTER(0xff, 0x18));
	ck_assert(!AFTER(0xff, 0x30));
	ck_assert(!AFTER(0xe8, 1, 2, 3));
	ck_assert(!AFTER(0xff, 0x15, 1, 2, 3));
	ck_assert(!AFTER(0xff, 0xd0, 0x90));
	ck_assert(!AFTER(0xe8, 1, 2, 3, 4, 0x90));
}
END_TEST

START_TEST(calls_are_looked_for_in_code_only)
{
	init();
	memset(elf.text, 0xcc, 0x80);
	PUT(0, 0xff, 0xd0);
	made_start(&made, &elf);
	made_walk(&made, 0, false);
	ck_assert(!ht_walk_after_call(&made.walk, made_pc(&made, 0)));
	ck_assert(!ht_walk_after_call(&made.walk, made_pc(&made, 1)));
	ck_assert(ht_walk_after_call(&made.walk, made_pc(&made, 2)));
	ck_assert(!ht_walk_after_call(&made.walk, 0));
	ck_assert(!ht_walk_after_call(&made.walk, 1));
	ck_assert(!ht_walk_after_call(&made.walk, UINT64_MAX));
	made_stop(&made);
}
END_TEST

#define ENDS(call_len, ...) ends(call_len, HT_ELF_CODE(__VA_ARGS__))

static bool ends(size_t call_len, const uint8_t *code, size_t len)
{
	const struct ht_mapping *m;
	bool yes;

	init();
	memset(elf.text, 0xcc, 0x80);
	put_code(RETURN_AT - call_len, code, len);
	made_start(&made, &elf);
	m = ht_space_find(made.space, made_pc(&made, 0));
	yes = ht_code_ends_program(m, made.memfd, made_pc(&made, RETURN_AT));
	made_stop(&made);
	return yes;
}

START_TEST(ends_of_musl)
{
	/* exit(main()), pthread_exit(start()), and that of thrd_create(). */
	ck_assert(ENDS(2, 0xff, 0xd3, 0x89, 0xc7, 0xe8, 1, 2, 3, 4));
	ck_assert(ENDS(2, 0xff, 0x13, 0x48, 0x89, 0xc7, 0xe8, 1, 2, 3, 4));
	ck_assert(ENDS(2, 0xff, 0x10, 0x48, 0x63, 0xf8, 0xe8, 1, 2, 3, 4));
	/* Not what was called by name; no second call; another register. */
	ck_assert(!ENDS(5, 0xe8, 1, 2, 3, 4, 0x89, 0xc7, 0xe8, 1, 2, 3, 4));
	ck_assert(!ENDS(2, 0xff, 0xd3, 0x89, 0xc7, 0xe9, 1, 2, 3, 4));
	ck_assert(!ENDS(2, 0xff, 0xd3, 0x89, 0xc6, 0xe8, 1, 2, 3, 4));
	ck_assert(!ENDS(2, 0xff, 0xe3, 0x89, 0xc7, 0xe8, 1, 2, 3, 4));
}
END_TEST

static uint64_t refreshes(void)
{
	struct ht_unwind_stats stats;

	ht_unwinder_stats(made.unwinder, &stats);
	return stats.refreshes;
}

/* Libraries that are loaded one after the other, each of which allocates at once. */
START_TEST(code_that_came_in_a_row_is_found)
{
	const size_t page = 4096;
	const int n = 100;

	init();
	made_start(&made, &elf);
	/* Guesses that were wrong are no reason to be blind, nor is a little garbage. */
	made.unwinder->paid_ns[HT_PURSE_GUESS] = UINT64_MAX;
	for (int i = 0; i < n; i++) {
		uint8_t *code = mmap(NULL, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		ck_assert_ptr_ne(code, MAP_FAILED);
		ck_ok(mprotect(code, page, PROT_READ | PROT_EXEC));
		made.unwinder->paid_ns[HT_PURSE_PC] = ht_now_ns() + 10 * HT_NS_PER_MS;
		ck_assert_ptr_nonnull(locate((uintptr_t)code + 16, true).mapping);
	}
	made_stop(&made);
}
END_TEST

START_TEST(garbage_does_not_buy_refreshes)
{
	uint64_t before, paid_ns;

	init();
	made_start(&made, &elf);
	made_walk(&made, 0, true);
	paid_ns = ht_now_ns() + 10 * HT_NS_PER_MS;
	made.unwinder->paid_ns[HT_PURSE_PC] = paid_ns;
	/* One walk asks once. */
	for (unsigned i = 0; i < 3; i++) {
		struct ht_located l;

		ht_walk_locate(&made.walk, 8 + i, true, &l);
	}
	ck_assert_uint_eq(refreshes(), 1);
	/* It is paid for; what many owe has to be first. What might be code owes for itself. */
	ck_assert_uint_gt(made.unwinder->paid_ns[HT_PURSE_PC], paid_ns);
	ck_assert_uint_eq(made.unwinder->paid_ns[HT_PURSE_GUESS], 0);
	before = refreshes();
	made.unwinder->paid_ns[HT_PURSE_PC] = UINT64_MAX;
	for (unsigned i = 0; i < 10; i++)
		locate(8 + i, true);
	ck_assert_uint_eq(refreshes(), before);
	made_walk(&made, 0, false);
	ck_assert(!ht_walk_after_call(&made.walk, 8));
	ck_assert_uint_eq(refreshes(), before + 1);
	made_stop(&made);
}
END_TEST

int main(void)
{
	return ht_check_run("locate", (const TTest *const[]){
		return_addresses_belong_to_the_call, made_up_return_addresses,
		kinds_follow_the_rule, code_known_by_its_looks, entry_point_is_the_end,
		entry_point_with_unwind_data,
		code_that_is_none, hidden_ranges, code_is_read_within_its_mapping,
		calls_are_recognised, calls_are_looked_for_in_code_only, ends_of_musl,
		code_that_came_in_a_row_is_found, garbage_does_not_buy_refreshes, NULL });
}
