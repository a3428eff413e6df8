/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ht_check.h"
#include "ht_stopped.h"
#include "ht_target.h"
#include "made_code.h"

#define S(i) (MADE_STACK + 8 * (i))
#define END_OF_COPY S(MADE_WORDS)
/* Offsets in the text: behind a call; not. */
#define CALLED 0x10
#define NOT_CALLED 0x20

static struct ht_elf elf;
static struct made made;
static struct ht_walk *const walk = &made.walk;

/* A fresh walk over words that are no addresses. */
static void again(bool exact)
{
	memset(made.words, 1, sizeof(made.words));
	made_walk(&made, 0, exact);
}

static void start(void)
{
	ht_elf_init(&elf);
	memset(elf.text, 0xcc, 0x100);
	elf.text[CALLED - 5] = 0xe8;
	made_start(&made, &elf);
	again(false);
}

static struct ht_rule sp_rule(int32_t cfa_offset)
{
	return (struct ht_rule){ .cfa_kind = HT_CFA_SP, .cfa_offset = cfa_offset, .aux = -8 };
}

/* ---- by a rule ---- */

static void check_cfa(struct ht_rule rule, uint64_t cfa)
{
	ck_assert(ht_walk_by_rule(walk, &rule));
	ck_assert_uint_eq(walk->sp, cfa);
	ck_assert_uint_eq(walk->pc, 0xabcd);
	ck_assert_uint_eq(walk->depth, 1);
	ck_assert(!walk->exact);
}

START_TEST(cfa_of_each_kind)
{
	start();
	made.words[3] = 0xabcd;
	check_cfa(sp_rule(32), S(4));
	again(true);
	made.words[4] = 0xabcd;
	check_cfa((struct ht_rule){ .cfa_kind = HT_CFA_BP, .cfa_offset = 24, .aux = -8 }, S(5));
	again(false);
	made.words[5] = 0xabcd;
	check_cfa((struct ht_rule){ .cfa_kind = HT_CFA_SP, .cfa_offset = 16, .aux = 24 }, S(2));
	/* Before and behind the push of a PLT entry, by the low bits of pc. */
	again(false);
	made.words[0] = 0xabcd;
	walk->pc = 0x100a;
	check_cfa((struct ht_rule){ .cfa_kind = HT_CFA_PLT, .aux = 11 }, S(1));
	again(false);
	made.words[1] = 0xabcd;
	walk->pc = 0x100b;
	check_cfa((struct ht_rule){ .cfa_kind = HT_CFA_PLT, .aux = 11 }, S(2));
	again(false);
	made.words[1] = S(6);
	made.words[7] = 0xabcd;
	check_cfa((struct ht_rule){ .cfa_kind = HT_CFA_DEREF_BP, .cfa_offset = -8, .aux = 16 },
		  S(8));
	again(false);
	made.words[1] = S(6);
	made.words[5] = 0xabcd;
	check_cfa((struct ht_rule){ .cfa_kind = HT_CFA_DEREF_SP, .cfa_offset = 8 }, S(6));
	made_stop(&made);
}
END_TEST

static void check_bp(struct ht_rule rule, bool known, uint64_t bp)
{
	again(false);
	made.words[1] = 0xb1;
	made.words[2] = 0xb2;
	made.words[3] = 0xabcd;
	ck_assert(ht_walk_by_rule(walk, &rule));
	ck_assert_int_eq(walk->bp_known, known);
	if (known)
		ck_assert_uint_eq(walk->bp, bp);
}

START_TEST(bp_of_each_kind)
{
	struct ht_rule rule = sp_rule(32);

	start();
	check_bp(rule, true, S(2));
	rule.bp_kind = HT_BP_CFA;
	rule.bp_offset = -16;
	check_bp(rule, true, 0xb2);
	/* Popped already. */
	rule.bp_offset = -40;
	check_bp(rule, true, S(2));
	/* Not in the copy: nobody may need it. */
	rule.bp_offset = 1 << 20;
	check_bp(rule, false, 0);
	rule.bp_kind = HT_BP_BP;
	rule.bp_offset = -8;
	check_bp(rule, true, 0xb1);
	/* The same, by a BP that is the caller's. */
	rule.bp_offset = 16;
	check_bp(rule, true, S(2));
	rule.bp_kind = HT_BP_UNDEF;
	check_bp(rule, false, 0);
	made_stop(&made);
}
END_TEST

static void check_end(struct ht_rule rule, enum ht_stack_end end)
{
	ck_assert(!ht_walk_by_rule(walk, &rule));
	ck_assert_msg(walk->end == end, "%s (not: %s)", ht_stack_end_text(walk->end),
		      ht_stack_end_text(end));
}

START_TEST(ends_of_rules)
{
	start();
	/* A stack that doesn't rise. */
	check_end(sp_rule(0), HT_STACK_LOOP);
	check_end(sp_rule(-8), HT_STACK_LOOP);
	walk->sp = UINT64_MAX - 8;
	check_end(sp_rule(64), HT_STACK_LOOP);
	/* A return address that isn't there, or just so. */
	again(false);
	check_end(sp_rule(8 * MADE_WORDS + 8), HT_STACK_WINDOW);
	ck_assert_uint_eq(walk->fault_addr, END_OF_COPY);
	walk->switched = true;
	check_end(sp_rule(8 * MADE_WORDS + 1), HT_STACK_SWITCHED);
	again(false);
	made.words[MADE_WORDS - 1] = 0xabcd;
	check_cfa(sp_rule(8 * MADE_WORDS), END_OF_COPY);
	/* A CFA that isn't there. */
	again(false);
	check_end((struct ht_rule){ .cfa_kind = HT_CFA_DEREF_SP, .cfa_offset = -4096 },
		  HT_STACK_WINDOW);
	/* 0 is where the outermost function returns to. */
	again(false);
	made.words[0] = 0;
	check_end(sp_rule(8), HT_STACK_COMPLETE);
	ck_assert_uint_eq(walk->depth, 1);
	/* BP is needed, but lost; there is no CFI for the slow way. */
	again(false);
	walk->bp_known = false;
	check_end((struct ht_rule){ .cfa_kind = HT_CFA_BP, .cfa_offset = 16, .aux = -8 },
		  HT_STACK_BAD_CFI);
	made_stop(&made);
}
END_TEST

/* ---- memory ---- */

START_TEST(memory_outside_of_the_copy)
{
	static const uint64_t constant = 0x1122334455667788;
	uint64_t value = 0;

	start();
	made.words[0] = 7;
	ck_assert(ht_walk_read(walk, S(0), &value));
	ck_assert_uint_eq(value, 7);
	/* What the target can't have written since. */
	ck_assert(ht_walk_read(walk, (uint64_t)(uintptr_t)&constant, &value));
	ck_assert_uint_eq(value, constant);
	ck_assert(!ht_walk_read(walk, (uint64_t)(uintptr_t)&made.words[0], &value));
	ck_assert_uint_eq(walk->fault_addr, (uint64_t)(uintptr_t)&made.words[0]);
	ck_assert(!ht_walk_read(walk, 8, &value));
	ck_assert(!ht_walk_read(walk, UINT64_MAX - 3, &value));
	/* Half of it in the copy. */
	ck_assert(!ht_walk_read(walk, END_OF_COPY - 4, &value));
	made.unwinder->memfd = -1;
	ck_assert(!ht_walk_read(walk, (uint64_t)(uintptr_t)&constant, &value));
	made_stop(&made);
}
END_TEST

/* ---- signals ---- */

static const struct ht_pc_entry at_sp = { .kind = HT_PC_SIGNAL };

START_TEST(out_of_a_signal_frame)
{
	const struct ht_pc_entry further = { .kind = HT_PC_SIGNAL, .cfa_offset = 8 };
	static const unsigned order[] = { 8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16 };
	unsigned i;

	start();
	for (i = 0; i < 17; i++)
		made.words[6 + i] = 0xc00 + order[i];
	made.words[6 + 15] = S(40);
	ck_assert(ht_walk_signal(walk, &further));
	for (i = 0; i < HT_UNWIND_REGS; i++)
		ck_assert_uint_eq(walk->full.regs[i], i == HT_REG_RSP ? S(40) : 0xc00 + i);
	ck_assert_uint_eq(walk->full.known, (1u << HT_UNWIND_REGS) - 1);
	ck_assert_uint_eq(walk->pc, 0xc10);
	ck_assert_uint_eq(walk->sp, S(40));
	ck_assert_uint_eq(walk->bp, 0xc06);
	ck_assert(walk->exact && walk->full_exact && walk->bp_known && !walk->switched);
	ck_assert_uint_eq(walk->full_depth, walk->depth);
	/* A copy that ends within. */
	made_walk(&made, 0, false);
	walk->sp = END_OF_COPY - 40 - 17 * 8;
	made.words[MADE_WORDS - 2] = S(40);
	ck_assert(ht_walk_signal(walk, &at_sp));
	made_walk(&made, 0, false);
	walk->sp = END_OF_COPY - 40 - 17 * 8 + 8;
	ck_assert(!ht_walk_signal(walk, &at_sp));
	ck_assert_int_eq(walk->end, HT_STACK_WINDOW);
	made_stop(&made);
}
END_TEST

static bool switches(uint64_t to, bool cut)
{
	again(false);
	made.input.stack_cut = cut;
	made.words[5 + 15] = to;
	ck_assert(ht_walk_signal(walk, &at_sp));
	return walk->switched;
}

START_TEST(from_another_stack)
{
	start();
	ck_assert(!switches(S(30), false));
	ck_assert(!switches(END_OF_COPY - 8, false));
	ck_assert(switches(S(0) - 8, false));
	ck_assert(switches(END_OF_COPY, false));
	/* Above a copy that was cut it may be the same one. */
	ck_assert(!switches(END_OF_COPY, true));
	ck_assert(switches(S(0) - 8, true));
	made_stop(&made);
}
END_TEST

/* ---- guesses ---- */

static struct ht_pc_entry gap_entry(unsigned flags)
{
	return (struct ht_pc_entry){ .kind = HT_PC_GAP, .flags = (uint8_t)flags };
}

static bool guess(unsigned flags)
{
	struct ht_pc_entry entry = gap_entry(flags);

	return ht_walk_guess(walk, &entry);
}

static void check_guess(bool found, uint64_t sp)
{
	ck_assert(found);
	ck_assert_uint_eq(walk->pc, made_pc(&made, CALLED));
	ck_assert_uint_eq(walk->sp, sp);
	ck_assert(walk->guessed);
	/* Nothing else is known from here on. */
	ck_assert_uint_eq(walk->full.known,
			  1u << HT_REG_RIP | 1u << HT_REG_RSP | 1u << HT_REG_RBP);
	ck_assert_uint_eq(walk->full_depth, 1);
}

START_TEST(leaf_without_a_frame)
{
	start();
	again(true);
	made.words[0] = made_pc(&made, CALLED);
	check_guess(guess(0), S(1));
	/* Of an interrupted function only, and behind a call only. */
	again(false);
	made.words[0] = made_pc(&made, CALLED);
	ck_assert(!guess(0));
	again(true);
	made.words[0] = made_pc(&made, NOT_CALLED);
	ck_assert(!guess(0));
	ck_assert_int_eq(walk->end, HT_STACK_NO_CFI);
	made_stop(&made);
}
END_TEST

/* A frame pointer to word @at, and behind it a return address. */
static bool guess_from(uint64_t bp, unsigned at, uint64_t next_bp, uint64_t ra)
{
	again(false);
	walk->bp = bp;
	made.words[at] = next_bp;
	made.words[at + 1] = ra;
	return guess(0);
}

START_TEST(frame_pointers)
{
	uint64_t called;

	start();
	called = made_pc(&made, CALLED);
	check_guess(guess_from(S(4), 4, S(9), called), S(6));
	ck_assert_uint_eq(walk->bp, S(9));
	/* The frame may be empty, not upside down, nor crooked. */
	check_guess(guess_from(S(0), 0, S(9), called), S(2));
	ck_assert(!guess_from(S(0) - 8, 0, called, called));
	ck_assert(!guess_from(S(4) + 4, 4, S(9), called));
	ck_assert(!guess_from(S(4), 4, S(9), made_pc(&made, NOT_CALLED)));
	/* Its return address must be in the copy. */
	check_guess(guess_from(END_OF_COPY - 16, MADE_WORDS - 2, S(9), called), END_OF_COPY);
	ck_assert(!guess_from(END_OF_COPY - 8, MADE_WORDS - 2, S(9), called));
	/* The outermost frame: neither a caller nor its frame. */
	ck_assert(!guess_from(S(4), 4, 0, 0));
	ck_assert_int_eq(walk->end, HT_STACK_COMPLETE);
	ck_assert(!guess_from(S(4), 4, S(9), 0));
	ck_assert_int_eq(walk->end, HT_STACK_NO_CFI);
	again(false);
	walk->bp_known = false;
	made.words[3] = called;
	ck_assert(!guess(0));
	made_stop(&made);
}
END_TEST

START_TEST(frame_pointers_span_256_KiB)
{
	static uint64_t large[(256 << 10) / 8 + 4];
	unsigned i;

	start();
	for (i = 0; i < 2; i++) {
		again(false);
		made.input.stack = (const uint8_t *)large;
		made.input.stack_len = sizeof(large);
		walk->window.bytes = made.input.stack;
		walk->window.limit = sizeof(large) - 7;
		walk->bp = MADE_STACK + (256 << 10) + 8 * i;
		large[(256 << 10) / 8 + i + 1] = made_pc(&made, CALLED);
		ck_assert_int_eq(guess(0), i == 0);
	}
	made_stop(&made);
}
END_TEST

/* Our own code: the return address is near, but nobody knows where. */
START_TEST(hidden_code)
{
	start();
	again(false);
	made.words[63] = made_pc(&made, CALLED);
	check_guess(guess(HT_PC_HIDDEN), S(64));
	again(false);
	made.words[63] = made_pc(&made, CALLED);
	ck_assert(!guess(0));
	again(false);
	made.words[64] = made_pc(&made, CALLED);
	ck_assert(!guess(HT_PC_HIDDEN));
	again(false);
	walk->sp = END_OF_COPY - 8;
	made.words[MADE_WORDS - 1] = made_pc(&made, CALLED);
	check_guess(guess(HT_PC_HIDDEN), END_OF_COPY);
	made_stop(&made);
}
END_TEST

static void check_no_guess(unsigned module, enum ht_stack_end end)
{
	struct ht_pc_entry entry = gap_entry(0);

	entry.module = module;
	ck_assert(!ht_walk_guess(walk, &entry));
	ck_assert_msg(walk->end == end, "%s (not: %s)", ht_stack_end_text(walk->end),
		      ht_stack_end_text(end));
}

START_TEST(reasons_to_stop)
{
	start();
	again(false);
	check_no_guess(0, HT_STACK_NO_CFI);
	check_no_guess(HT_MODULE_NONE, HT_STACK_NO_MODULE);
	/* A frame pointer behind the end of a copy that was cut. */
	walk->bp = END_OF_COPY;
	check_no_guess(0, HT_STACK_NO_CFI);
	made.input.stack_cut = true;
	check_no_guess(0, HT_STACK_WINDOW);
	walk->switched = true;
	check_no_guess(0, HT_STACK_SWITCHED);
	made_stop(&made);
}
END_TEST

START_TEST(go_has_other_stacks)
{
	ht_elf_init(&elf);
	ht_elf_add_section(&elf, ".gopclntab", SHT_PROGBITS, SHF_ALLOC, HT_ELF_EH, 8);
	made_start(&made, &elf);
	again(false);
	walk->bp = 0xc000012340;
	check_no_guess(0, HT_STACK_SWITCHED);
	walk->bp = 0;
	check_no_guess(0, HT_STACK_NO_CFI);
	made_stop(&made);
}
END_TEST

/* exit(main()) is the end when nothing better is found, a caller is better. */
START_TEST(end_of_a_program_by_its_looks)
{
	static const uint8_t code[] = { 0xff, 0xd3, 0x89, 0xc7, 0xe8, 1, 2, 3, 4 };

	ht_elf_init(&elf);
	memset(elf.text, 0xcc, 0x100);
	memcpy(elf.text, code, sizeof(code));
	elf.text[CALLED - 5] = 0xe8;
	made_start(&made, &elf);
	again(false);
	walk->pc = made_pc(&made, 2);
	check_no_guess(0, HT_STACK_COMPLETE);
	walk->exact = true;
	check_no_guess(0, HT_STACK_NO_CFI);
	again(false);
	walk->pc = made_pc(&made, 2);
	made.words[3] = made_pc(&made, CALLED);
	check_guess(guess(0), S(4));
	made_stop(&made);
}
END_TEST

/* Nothing was executed since the call: all registers are as they were. */
START_TEST(jump_to_nowhere)
{
	start();
	again(true);
	walk->pc = 8;
	made.words[0] = made_pc(&made, CALLED);
	ck_assert(ht_walk_jumped(walk));
	ck_assert_uint_eq(walk->sp, S(1));
	ck_assert_uint_eq(walk->full.known, (1u << HT_UNWIND_REGS) - 1);
	ck_assert_uint_eq(walk->full.regs[HT_REG_RBX], 0x100 + HT_REG_RBX);
	ck_assert_uint_eq(walk->full.regs[HT_REG_RIP], walk->pc);
	ck_assert_uint_eq(walk->full.regs[HT_REG_RSP], walk->sp);
	/* Unless some had been passed without. */
	again(true);
	walk->pc = 8;
	walk->depth = 2;
	made.words[0] = made_pc(&made, CALLED);
	ck_assert(ht_walk_jumped(walk));
	ck_assert(!(walk->full.known & 1u << HT_REG_RBX));
	again(true);
	walk->pc = 8;
	ck_assert(!ht_walk_jumped(walk));
	ck_assert_int_eq(walk->end, HT_STACK_BAD_RETURN);
	made_stop(&made);
}
END_TEST

/* ---- the real thing ---- */

/* Does @tid of @pid wait in a read()? */
static bool is_reading(pid_t pid, pid_t tid)
{
	char path[64], text[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	return !strncmp(text, "0 ", 2);
}

/* The thread that has come to its wait. */
static pid_t waiting_thread(pid_t pid)
{
	struct dirent *entry;
	char path[64];
	pid_t tid = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	for (; !tid; sched_yield()) {
		dir = opendir(path);
		ck_assert_ptr_nonnull(dir);
		while ((entry = readdir(dir)))
			if (atoi(entry->d_name) && is_reading(pid, atoi(entry->d_name)))
				tid = atoi(entry->d_name);
		closedir(dir);
	}
	return tid;
}

static void check_outermost(const char *program, const char *how)
{
	struct ht_unwinder *unwinder;
	struct ht_modules *modules;
	struct ht_stopped stopped;
	struct ht_test_target t;
	struct ht_space *space;
	struct ht_stack stack;

	ck_ok(ht_test_target_start(&t, program, (const char *[]){ how, NULL }));
	ck_ok(ht_stopped_open(t.pid, waiting_thread(t.pid), &stopped));
	ck_ok(ht_stopped_sample(&stopped, 1 << 20));
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_space_new(stopped.procfd, stopped.memfd, modules, &space));
	ck_ok(ht_unwinder_new(space, stopped.memfd, &unwinder));
	ht_unwind(unwinder, &stopped.input, &stack);
	ck_assert_msg(stack.end == HT_STACK_COMPLETE, "%s %s: %s after %u frames", program, how,
		      ht_stack_end_text(stack.end), stack.n_frames);
	/* The wait, its caller, libc's. */
	ck_assert_uint_eq(stack.n_frames, 3);
	ht_unwinder_free(unwinder);
	ht_space_free(space);
	ht_modules_free(modules);
	ht_stopped_close(&stopped);
	ht_test_target_kill(&t);
}

START_TEST(stacks_of_musl_are_complete)
{
	static const char *const flags[] = { "", "-static" };
	static const char *const hows[] = { "main", "pthread", "thrd" };
	const char *src = getenv("HT_SRCDIR");
	char dir[] = "/tmp/outermost-XXXXXX", path[64], cmd[1024];
	size_t i, j;

	if (!ht_check_have(!system("command -v musl-gcc >/dev/null"), "musl-gcc"))
		return;
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/outermost", dir);
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		snprintf(cmd, sizeof(cmd),
			 "musl-gcc -O2 -fasynchronous-unwind-tables %s -o %s %s/tests/targets/outermost.c",
			 flags[i], path, src ? src : "..");
		ck_assert_int_eq(system(cmd), 0);
		for (j = 0; j < ARRAY_SIZE(hows); j++)
			check_outermost(path, hows[j]);
	}
	unlink(path);
	rmdir(dir);
}
END_TEST

int main(void)
{
	return ht_check_run("step", (const TTest *const[]){
		cfa_of_each_kind, bp_of_each_kind, ends_of_rules, memory_outside_of_the_copy,
		out_of_a_signal_frame, from_another_stack, leaf_without_a_frame,
		frame_pointers, frame_pointers_span_256_KiB, hidden_code, reasons_to_stop,
		go_has_other_stacks, end_of_a_program_by_its_looks, jump_to_nowhere,
		stacks_of_musl_are_complete, NULL });
}
