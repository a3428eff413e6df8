/* SPDX-License-Identifier: Apache-2.0
 *
 * walkers.c: see walkers.h.
 */
#include "walkers.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <libelf.h>
#include <libunwind.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/interp.h"
#include "unwind/module-priv.h"

#define MODULES_MAX 256

/* ---- libdw ---- */

struct bench_libdw {
	const struct bench_stacks *stacks;
	Dwarf_CFI *cfi[MODULES_MAX];	/* by the module's id */
};

int bench_libdw_new(const struct bench_stacks *stacks, struct bench_libdw **ret_libdw)
{
	struct bench_libdw *libdw = calloc(1, sizeof(*libdw));
	size_t i, n = ht_modules_count(stacks->modules);

	if (!libdw || n > MODULES_MAX)
		return -ENOMEM;
	elf_version(EV_CURRENT);
	libdw->stacks = stacks;
	for (i = 0; i < n; i++) {
		const struct ht_module *module = ht_modules_at(stacks->modules, (uint32_t)i);
		Elf *elf = module->is_elf ? elf_memory((char *)(uintptr_t)module->bytes,
						       module->len) : NULL;

		libdw->cfi[i] = elf ? dwarf_getcfi_elf(elf) : NULL;
	}
	*ret_libdw = libdw;
	return 0;
}

static bool libdw_cfa(Dwarf_Frame *frame, const uint64_t *regs, uint64_t *ret_cfa)
{
	Dwarf_Op *ops;
	size_t n;

	if (dwarf_frame_cfa(frame, &ops, &n) != 0 || n != 1)
		return false;
	if (ops->atom == DW_OP_bregx)
		*ret_cfa = regs[ops->number % HT_UNWIND_REGS] + ops->number2;
	else
		*ret_cfa = regs[(ops->atom - DW_OP_breg0) % HT_UNWIND_REGS] + ops->number;
	return true;
}

/* False: the return address is undefined, where stacks end. Registers with stranger rules stay
 * as they are: on the way from call to call there are none. */
static bool libdw_register(Dwarf_Frame *frame, int reg, uint64_t cfa,
			   const struct ht_unwind_input *in, uint64_t *value)
{
	Dwarf_Op mem[3], *ops;
	size_t n;

	if (dwarf_frame_register(frame, reg, mem, &ops, &n) != 0)
		return false;
	if (n == 0)
		return !ops || reg != HT_REG_RIP;
	if (ops[0].atom != DW_OP_call_frame_cfa)
		return true;
	return bench_read_stack((void *)(uintptr_t)in, cfa + (n > 1 ? ops[1].number : 0),
				value) == 0;
}

static bool libdw_step(struct bench_libdw *libdw, const struct ht_unwind_input *in,
		       uint64_t regs[HT_UNWIND_REGS], unsigned depth)
{
	static const uint8_t saved[] = { HT_REG_RBX, HT_REG_RBP, HT_REG_R12, HT_REG_R13,
					 HT_REG_R14, HT_REG_R15, HT_REG_RIP };
	uint64_t pc = regs[HT_REG_RIP] - (depth > 0), cfa;
	const struct ht_mapping *m = ht_space_find(libdw->stacks->space, pc);
	Dwarf_CFI *cfi = m && m->module ? libdw->cfi[ht_module_id(m->module)] : NULL;
	Dwarf_Frame *frame;
	bool going;

	if (!cfi || dwarf_cfi_addrframe(cfi, pc - m->bias, &frame) != 0)
		return false;
	going = libdw_cfa(frame, regs, &cfa);
	for (size_t i = 0; going && i < sizeof(saved); i++)
		going = libdw_register(frame, saved[i], cfa, in, &regs[saved[i]]);
	regs[HT_REG_RSP] = cfa;
	free(frame);
	return going;
}

void bench_libdw_walk(struct bench_libdw *libdw, struct bench_walk *walk)
{
	const struct ht_unwind_input *in = &walk->stack->input;
	uint64_t regs[HT_UNWIND_REGS];

	memcpy(regs, in->regs, sizeof(regs));
	walk->n = 0;
	do
		walk->pcs[walk->n++] = regs[HT_REG_RIP];
	while (walk->n < BENCH_FRAMES && libdw_step(libdw, in, regs, walk->n - 1));
}

/* ---- libdwfl ---- */

struct bench_libdwfl {
	Dwfl *dwfl;
	struct bench_walk *walk;	/* that is under way */
};

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	return 0;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	*thread_arg = arg;
	return true;
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *ret_value, void *arg)
{
	struct bench_libdwfl *libdwfl = arg;
	uint64_t value;

	if (bench_read_stack((void *)(uintptr_t)&libdwfl->walk->stack->input, addr, &value))
		return false;
	*ret_value = value;
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	struct bench_libdwfl *libdwfl = arg;
	const uint64_t *regs = libdwfl->walk->stack->input.regs;
	Dwarf_Word words[HT_UNWIND_REGS];

	for (int i = 0; i < HT_UNWIND_REGS; i++)
		words[i] = regs[i];
	return dwfl_thread_state_registers(thread, 0, HT_UNWIND_REGS, words);
}

static int no_debuginfo(Dwfl_Module *module, void **userdata, const char *name,
			Dwarf_Addr base, const char *file, const char *link, GElf_Word crc,
			char **ret_name)
{
	return -1;
}

int bench_libdwfl_new(const struct bench_stacks *stacks, struct bench_libdwfl **ret_libdwfl)
{
	static const Dwfl_Callbacks callbacks = { .find_elf = dwfl_linux_proc_find_elf,
						  .find_debuginfo = no_debuginfo };
	static const Dwfl_Thread_Callbacks threads = {
		.next_thread = next_thread, .get_thread = get_thread,
		.memory_read = read_memory, .set_initial_registers = set_registers,
	};
	struct bench_libdwfl *libdwfl = calloc(1, sizeof(*libdwfl));

	if (!libdwfl)
		return -ENOMEM;
	libdwfl->dwfl = dwfl_begin(&callbacks);
	if (!libdwfl->dwfl || dwfl_linux_proc_report(libdwfl->dwfl, stacks->pid) != 0 ||
	    dwfl_report_end(libdwfl->dwfl, NULL, NULL) != 0 ||
	    !dwfl_attach_state(libdwfl->dwfl, NULL, stacks->pid, &threads, libdwfl))
		return -EINVAL;
	*ret_libdwfl = libdwfl;
	return 0;
}

static int take_frame(Dwfl_Frame *frame, void *arg)
{
	struct bench_walk *walk = arg;
	Dwarf_Addr pc;

	if (walk->n == BENCH_FRAMES || !dwfl_frame_pc(frame, &pc, NULL))
		return DWARF_CB_ABORT;
	walk->pcs[walk->n++] = pc;
	return DWARF_CB_OK;
}

void bench_libdwfl_walk(struct bench_libdwfl *libdwfl, struct bench_walk *walk)
{
	libdwfl->walk = walk;
	walk->n = 0;
	dwfl_getthread_frames(libdwfl->dwfl, walk->stack->stopped.tid, take_frame, walk);
}

/* ---- libunwind ---- */

/* Exported for those who bring their own accessors, but in no header. */
extern int _Ux86_64_dwarf_search_unwind_table(unw_addr_space_t as, unw_word_t ip,
					      unw_dyn_info_t *di, unw_proc_info_t *info,
					      int need_unwind_info, void *arg);

struct bench_libunwind {
	const struct bench_stacks *stacks;
	const struct ht_unwind_input *input;	/* of the walk that is under way */
	const struct ht_mapping *last;		/* memory is read near to where it was */
	unw_addr_space_t as;
};

static const struct ht_mapping *mapping_of(struct bench_libunwind *u, uint64_t addr)
{
	if (!u->last || addr < u->last->start || addr >= u->last->end)
		u->last = ht_space_find(u->stacks->space, addr);
	return u->last && u->last->module && u->last->module->is_elf ? u->last : NULL;
}

static int access_mem(unw_addr_space_t as, unw_word_t addr, unw_word_t *value, int write,
		      void *arg)
{
	struct bench_libunwind *u = arg;
	const struct ht_mapping *m;
	const uint8_t *bytes;
	uint64_t word;

	if (write)
		return -UNW_EINVAL;
	if (!bench_read_stack((void *)(uintptr_t)u->input, addr, &word)) {
		*value = word;
		return 0;
	}
	m = mapping_of(u, addr);
	bytes = m ? ht_binary_at(&m->module->binary, addr - m->bias, sizeof(*value)) : NULL;
	if (!bytes)
		return -UNW_EINVAL;
	memcpy(value, bytes, sizeof(*value));
	return 0;
}

/* Where the file has its .eh_frame_hdr. */
static bool find_header(const struct ht_module *module, uint64_t *ret_addr)
{
	Elf64_Phdr phdr;

	for (unsigned i = 0; ht_elfview_phdr(&module->binary.view, i, &phdr); i++) {
		if (phdr.p_type != PT_GNU_EH_FRAME)
			continue;
		*ret_addr = phdr.p_vaddr;
		return true;
	}
	return false;
}

/* The search table, in the only format that linkers write. */
static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *info,
			  int need_unwind_info, void *arg)
{
	static const uint8_t format[] = { 1, 0x1b, 0x03, 0x3b };
	struct bench_libunwind *u = arg;
	const struct ht_mapping *m = mapping_of(u, ip);
	unw_dyn_info_t di = { .format = UNW_INFO_FORMAT_REMOTE_TABLE };
	const uint8_t *header;
	uint64_t addr;
	uint32_t n;

	if (!m || !find_header(m->module, &addr))
		return -UNW_ENOINFO;
	header = ht_binary_at(&m->module->binary, addr, 12);
	if (!header || memcmp(header, format, sizeof(format)) != 0)
		return -UNW_ENOINFO;
	memcpy(&n, header + 8, sizeof(n));
	di.start_ip = m->start;
	di.end_ip = m->end;
	di.u.rti.segbase = addr + m->bias;
	di.u.rti.table_data = di.u.rti.segbase + 12;
	di.u.rti.table_len = n;
	return _Ux86_64_dwarf_search_unwind_table(as, ip, &di, info, need_unwind_info, arg);
}

static void put_unwind_info(unw_addr_space_t as, unw_proc_info_t *info, void *arg)
{
	free(info->unwind_info);
	info->unwind_info = NULL;
}

static int no_dyn_info(unw_addr_space_t as, unw_word_t *addr, void *arg)
{
	return -UNW_ENOINFO;
}

static int access_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *value, int write,
		      void *arg)
{
	const struct bench_libunwind *u = arg;

	if (write || reg < 0 || reg >= HT_UNWIND_REGS)
		return -UNW_EBADREG;
	*value = u->input->regs[reg];
	return 0;
}

static int no_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *value, int write,
		    void *arg)
{
	return -UNW_EBADREG;
}

static int no_resume(unw_addr_space_t as, unw_cursor_t *cursor, void *arg)
{
	return -UNW_EINVAL;
}

static int no_name(unw_addr_space_t as, unw_word_t addr, char *name, size_t cap,
		   unw_word_t *offset, void *arg)
{
	return -UNW_ENOINFO;
}

int bench_libunwind_new(const struct bench_stacks *stacks, bool cached,
			struct bench_libunwind **ret_libunwind)
{
	static unw_accessors_t accessors = {
		find_proc_info, put_unwind_info, no_dyn_info, access_mem,
		access_reg, no_fpreg, no_resume, no_name,
	};
	struct bench_libunwind *u = calloc(1, sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->stacks = stacks;
	u->as = unw_create_addr_space(&accessors, 0);
	if (!u->as)
		return -ENOMEM;
	unw_set_caching_policy(u->as, cached ? UNW_CACHE_GLOBAL : UNW_CACHE_NONE);
	*ret_libunwind = u;
	return 0;
}

void bench_libunwind_walk(struct bench_libunwind *u, struct bench_walk *walk)
{
	unw_cursor_t cursor;
	unw_word_t pc;

	u->input = &walk->stack->input;
	walk->n = 0;
	if (unw_init_remote(&cursor, u->as, u) < 0)
		return;
	do {
		if (unw_get_reg(&cursor, UNW_REG_IP, &pc) < 0 || !pc)
			return;
		walk->pcs[walk->n++] = pc;
	} while (walk->n < BENCH_FRAMES && unw_step(&cursor) > 0);
}
