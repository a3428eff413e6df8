/* SPDX-License-Identifier: Apache-2.0
 *
 * locate.c: what is known about a pc: its module, its rule, and whether the code there is
 * of the few kinds that unwind data says nothing or wrong things about.
 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "unwind/walk-priv.h"

#define MAX_CALL_LEN 7

bool ht_code_read(const struct ht_mapping *mapping, int memfd, uint64_t addr,
		  uint8_t *buf, size_t len)
{
	const uint8_t *code;

	if (addr < mapping->start || addr >= mapping->end || len > mapping->end - addr)
		return false;
	if (mapping->module && mapping->module->is_elf) {
		code = ht_binary_at(&mapping->module->binary, addr - mapping->bias, len);
		if (!code)
			return false;
		memcpy(buf, code, len);
		return true;
	}
	return memfd >= 0 && pread(memfd, buf, len, (off_t)addr) == (ssize_t)len;
}

/* Starts the code with these bytes? Zeros stand behind code that is shorter. */
#define STARTS_WITH(code, ...)                                                           \
	(!memcmp(code, (const uint8_t[]){ __VA_ARGS__ },                                 \
		 sizeof((const uint8_t[]){ __VA_ARGS__ })))
#define CODE_LEN 12
/* A look at the maps in vain costs so many times what it took. */
#define PRICE 16
#define OWED_MAX_NS (20 * HT_NS_PER_MS)

static void read_code(const struct ht_mapping *m, int memfd, uint64_t pc,
		      uint8_t *ret_code)
{
	memset(ret_code, 0, CODE_LEN);
	if (pc >= m->start && pc < m->end)
		(void)!ht_code_read(m, memfd, pc, ret_code,
				    ht_min(m->end - pc, (uint64_t)CODE_LEN));
}

/* mov $15, %rax (or %eax); syscall: what a signal handler returns to. */
static bool is_sigreturn(const uint8_t *code)
{
	return STARTS_WITH(code, 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05) ||
	       STARTS_WITH(code, 0xb8, 15, 0, 0, 0, 0x0f, 0x05);
}

/* Where the function of a coroutine made by glibc's makecontext() returns to. Its unwind
 * data describes a caller that isn't there. mov %rbx,%rsp; mov (%rsp),%rdi; test
 * %rdi,%rdi */
static bool is_start_context(const uint8_t *code)
{
	return STARTS_WITH(code, 0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85,
			   0xff);
}

/* Behind the call of a thread's function in a clone() without unwind data: exit with
 * what it returned. glibc, then musl. */
static bool is_thread_exit(const uint8_t *code)
{
	return STARTS_WITH(code, 0x89, 0xc7, 0xb8, 60, 0, 0, 0, 0x0f, 0x05) ||
	       STARTS_WITH(code, 0x48, 0x89, 0xc7, 0xb8, 60, 0, 0, 0, 0x0f, 0x05) ||
	       STARTS_WITH(code, 0x89, 0xc7, 0x31, 0xc0, 0xb0, 60, 0x0f, 0x05);
}

/* A pc in the first instructions of a file's entry point: _start of musl and of ld.so,
 * which have no unwind data. Behind a _start that has some are other functions of crt1.o. */
static bool is_in_entry(const struct ht_mapping *m, uint64_t pc)
{
	const uint64_t entry_len = 96;
	struct ht_module *module = m->module;

	if (!module || !module->is_elf || !module->binary.entry ||
	    pc - m->bias - module->binary.entry >= entry_len)
		return false;
	return !ht_module_cfi(module) || !module->entry_has_cfi;
}

bool ht_code_is_outermost(const struct ht_mapping *mapping, int memfd, uint64_t pc,
			  bool gap)
{
	uint8_t code[CODE_LEN];

	read_code(mapping, memfd, pc, code);
	return is_start_context(code) ||
	       (gap && (is_in_entry(mapping, pc) || is_thread_exit(code)));
}

static const struct ht_mapping *find_text(const struct ht_unwinder *u, uint64_t addr)
{
	const struct ht_mapping *mapping = ht_space_find(u->space, addr), *made;

	if (!mapping || !(mapping->prot & HT_PROT_EXEC))
		return NULL;
	made = mapping->module ? NULL : ht_space_find_made(u->space, addr);
	return made ? made : mapping;
}

/* The executable mapping of @pc: for a return address that of the call before it, unless
 * there is none (a made-up one at the start of a mapping). */
static const struct ht_mapping *mapping_of(const struct ht_unwinder *u, uint64_t pc,
					   bool exact)
{
	const struct ht_mapping *mapping = exact ? NULL : find_text(u, pc - 1);

	return mapping ? mapping : find_text(u, pc);
}

/*
 * Reading maps and opening files takes a while, and a stack full of garbage asks for it at
 * each sample. So a look that was in vain has to be paid for with time in which there is none,
 * though several may be owed. One that found the code was needed, and costs nothing: a program
 * that loads many libraries has many of these in a row. What only might be code has a purse
 * of its own.
 */
static const struct ht_mapping *look_again(struct ht_walk *walk, uint64_t pc, bool exact,
					   enum ht_purse purse)
{
	struct ht_unwinder *u = walk->unwinder;
	uint64_t now = ht_now_ns(), *paid_ns = &u->paid_ns[purse], before;
	const struct ht_mapping *m = NULL;

	if (walk->refreshed || *paid_ns > now + OWED_MAX_NS)
		return NULL;
	walk->refreshed = true;
	u->stats.refreshes++;
	before = ht_cpu_ns();
	if (ht_space_refresh(u->space) == 1) {
		ht_unwinder_sync(u);
		m = mapping_of(u, pc, exact);
	}
	if (!m)
		*paid_ns = ht_max(*paid_ns, now) + PRICE * (ht_cpu_ns() - before);
	return m;
}

static bool is_hidden(const struct ht_unwinder *u, uint64_t pc)
{
	unsigned i;

	for (i = 0; i < u->n_hidden; i++)
		if (pc >= u->hidden[i].start && pc < u->hidden[i].end)
			return true;
	return false;
}

/* Turn the rule into what the fast loop understands, if it can be. */
static void classify(const struct ht_rule *rule, struct ht_pc_entry *entry)
{
	bool fast = (rule->cfa_kind == HT_CFA_SP || rule->cfa_kind == HT_CFA_BP) &&
		    rule->ra_kind == HT_RA_CFA && rule->aux == -8 &&
		    (rule->bp_kind == HT_BP_SAME || rule->bp_kind == HT_BP_CFA);

	entry->cfa_offset = rule->cfa_offset;
	entry->bp_offset = rule->bp_offset;
	if (rule->cfa_kind == HT_CFA_GAP)
		entry->kind = HT_PC_GAP;
	else if (rule->cfa_kind == HT_CFA_END || rule->ra_kind == HT_RA_UNDEF)
		entry->kind = HT_PC_END;
	else if (rule->cfa_kind == HT_CFA_SIGNAL)
		entry->kind = HT_PC_SIGNAL;
	else if (!fast)
		entry->kind = HT_PC_GENERAL;
	else
		entry->kind = (rule->bp_kind == HT_BP_CFA ? HT_PC_FAST_BP_SAVED : 0) |
			      (rule->cfa_kind == HT_CFA_BP ? HT_PC_FAST_CFA_BP : 0);
}

static struct ht_rule gap_rule(void)
{
	return (struct ht_rule){ .cfa_kind = HT_CFA_GAP };
}

/* The rule for @pc. A return address is looked up at the call before it; where nothing is
 * known there and a function starts at the address itself, somebody made it up. */
static void find_rule(const struct ht_mapping *mapping, uint64_t pc, bool exact,
		      struct ht_located *located)
{
	const struct ht_table *table =
		mapping->module ? ht_module_table(mapping->module) : NULL;
	uint64_t addr = pc - mapping->bias;

	located->rule = gap_rule();
	if (!table)
		return;
	if (!ht_table_lookup(table, exact ? addr : addr - 1, &located->rule, NULL))
		located->rule = gap_rule();
	if (exact || located->rule.cfa_kind != HT_CFA_GAP ||
	    !ht_table_starts_at(table, addr))
		return;
	if (ht_table_lookup(table, addr, &located->rule, NULL))
		located->entry.flags |= HT_PC_EXACT;
	else
		located->rule = gap_rule();
}

/* Code that is known by its looks, whatever unwind data says. */
static void know_code(const struct ht_mapping *mapping, int memfd,
		      struct ht_pc_entry *entry)
{
	uint8_t code[CODE_LEN];
	bool gap = entry->kind == HT_PC_GAP;

	read_code(mapping, memfd, entry->pc, code);
	if (is_sigreturn(code)) {
		entry->kind = HT_PC_SIGNAL;
		entry->cfa_offset = 0;
	} else if (is_start_context(code)) {
		entry->kind = HT_PC_END;
		entry->flags |= HT_PC_EXACT;
	} else if (gap && (is_in_entry(mapping, entry->pc) || is_thread_exit(code))) {
		entry->kind = HT_PC_END;
	}
}

void ht_walk_locate(struct ht_walk *walk, uint64_t pc, bool exact,
		    struct ht_located *ret_located)
{
	struct ht_unwinder *u = walk->unwinder;
	const struct ht_mapping *m = mapping_of(u, pc, exact) ?:
				     look_again(walk, pc, exact, HT_PURSE_PC);
	struct ht_pc_entry *entry = &ret_located->entry;

	*ret_located = (struct ht_located){
		.mapping = m,
		.entry = { .pc = pc,
			   .offset = pc,
			   .module = HT_MODULE_NONE,
			   .generation = (uint16_t)u->generation,
			   .kind = HT_PC_UNMAPPED },
	};
	if (is_hidden(u, exact ? pc : pc - 1))
		entry->flags |= HT_PC_HIDDEN;
	if (!m)
		return;
	if (m->module && !m->made) {
		entry->offset = pc - m->bias;
		entry->module = ht_module_id(m->module);
	}
	find_rule(m, pc, exact, ret_located);
	classify(&ret_located->rule, entry);
	know_code(m, u->memfd, entry);
}

/* Length of the instruction "call *..." at @code, of which @len bytes are there; 0: it is
 * another one. FF /2, the length follows from ModRM. */
static size_t indirect_call_len(const uint8_t *code, size_t len)
{
	uint8_t mod, rm;
	size_t need = 2;

	if (len < 2 || code[0] != 0xff || (code[1] >> 3 & 7) != 2)
		return 0;
	mod = code[1] >> 6;
	rm = code[1] & 7;
	if (mod != 3 && rm == 4) {
		need++;
		if (len < 3)
			return 0;
		if (mod == 0 && (code[2] & 7) == 5)
			need += 4;
	}
	if (mod == 0 && rm == 5)
		need += 4;
	return need + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

static bool ends_with_indirect_call(const uint8_t *code, size_t len)
{
	size_t n;

	for (n = 2; n <= len; n++)
		if (indirect_call_len(code + len - n, n) == n)
			return true;
	return false;
}

static bool ends_with_call(const uint8_t *code, size_t len)
{
	return (len >= 5 && code[len - 5] == 0xe8) || ends_with_indirect_call(code, len);
}

/* Read the code before @addr: up to MAX_CALL_LEN bytes, whose number is returned. */
static size_t read_code_before(const struct ht_mapping *m, int memfd, uint64_t addr,
			       uint8_t code[MAX_CALL_LEN])
{
	size_t len = ht_min(addr - m->start, (uint64_t)MAX_CALL_LEN);

	return ht_code_read(m, memfd, addr - len, code, len) ? len : 0;
}

bool ht_walk_after_call(struct ht_walk *walk, uint64_t ra)
{
	struct ht_unwinder *u = walk->unwinder;
	struct ht_pc_entry *cached = &u->cache[ht_pc_slot(ra)];
	const struct ht_mapping *m;
	uint8_t code[MAX_CALL_LEN];

	if (ra < 2)
		return false;
	if (cached->pc == ra && cached->generation == (uint16_t)u->generation &&
	    (cached->flags & HT_PC_AFTER_CALL))
		return true;
	m = mapping_of(u, ra, false) ?: look_again(walk, ra, false, HT_PURSE_GUESS);
	if (!m || ra <= m->start)
		return false;
	return ends_with_call(code, read_code_before(m, u->memfd, ra, code));
}

/* call *...; mov %eax, %edi (or %rax, %rdi, or movslq); call */
bool ht_code_ends_program(const struct ht_mapping *mapping, int memfd, uint64_t pc)
{
	uint8_t before[MAX_CALL_LEN], code[CODE_LEN];

	read_code(mapping, memfd, pc, code);
	if (!STARTS_WITH(code, 0x89, 0xc7, 0xe8) &&
	    !STARTS_WITH(code, 0x48, 0x89, 0xc7, 0xe8) &&
	    !STARTS_WITH(code, 0x48, 0x63, 0xf8, 0xe8))
		return false;
	return ends_with_indirect_call(before, read_code_before(mapping, memfd, pc, before));
}
