/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor.c: heaptap doctor: whether a process can be tapped, with what, and if not, what
 * to change. It looks only: nothing is stopped or written.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "attach/facts.h"
#include "attach/proc.h"
#include "attach/target.h"
#include "base/fd.h"
#include "cmd/cmd.h"
#include "inject/dlopen.h"
#include "inject/inject.h"
#include "inject/plan.h"
#include "inject/room.h"
#include "symbol/symbol.h"
#include "tap/tap.h"
#include "unwind/module.h"
#include "unwind/space.h"

struct doctor {
	bool all;		/* -v: every entry by name */
};

static int set_verbose(void *data, const char *value, struct ht_err *err)
{
	((struct doctor *)data)->all = true;
	return 0;
}

static const struct ht_option own_options[] = {
	{ 'v', "verbose", NULL, "every entry of every allocator, and every module",
	  set_verbose },
	{ 0 }
};

static const struct ht_option *const options[] = { own_options, NULL };

/* What was looked at; all of it may be missing. */
struct view {
	struct ht_target *target;
	struct ht_modules *modules;
	struct ht_space *space;
	struct ht_plan *plan;
	bool leftover;		/* of a heaptap; there's no plan then */
};

static void view_fini(struct view *view)
{
	if (view->plan)
		view->plan = ht_plan_free(view->plan);
	if (view->space)
		view->space = ht_space_free(view->space);
	if (view->modules)
		view->modules = ht_modules_free(view->modules);
	if (view->target)
		view->target = ht_target_close(view->target);
}

static void item(struct ht_buf *out, const char *label)
{
	ht_buf_printf(out, "  %-14s", label);
}

static void put_yama(struct ht_buf *out, int yama)
{
	static const char *const meanings[] = {
		"0: processes of the same user",
		"1: own children only, others need root or CAP_SYS_PTRACE",
		"2: root or CAP_SYS_PTRACE only",
		"3: nobody, until the next boot",
	};

	if (yama < 0)
		ht_buf_puts(out, "no kernel.yama.ptrace_scope: processes of the same user");
	else
		ht_buf_printf(out, "kernel.yama.ptrace_scope %s",
			      meanings[ht_min((size_t)yama, ARRAY_SIZE(meanings) - 1)]);
}

static void put_permission(struct ht_buf *out, const struct ht_facts *facts)
{
	/* What has no memory isn't permitted to anybody, and that's not the reason. */
	if (facts->kernel_thread || facts->no_memory || ht_facts_is_dead(facts))
		return;
	item(out, "permission");
	ht_buf_printf(out, "%s: %s%s%s\n", facts->may_attach ? "granted" : "refused",
		      facts->same_user ? "same user" : "another user",
		      facts->has_cap_ptrace ? ", CAP_SYS_PTRACE" : "",
		      facts->more_caps ? ", it has capabilities that you lack" : "");
	item(out, "");
	put_yama(out, facts->yama);
	ht_buf_putc(out, '\n');
}

static void put_program(struct ht_buf *out, const struct ht_facts *facts)
{
	static const char *const libcs[] = {
		[HT_LIBC_UNKNOWN] = "libc not known",
		[HT_LIBC_GLIBC] = "dynamic, glibc",
		[HT_LIBC_MUSL] = "dynamic, musl",
		[HT_LIBC_STATIC] = "static",
	};

	if (*facts->exe) {
		item(out, "program");
		ht_buf_printf(out, "%s, %s, %s, %u thread%s\n", facts->exe,
			      !facts->elf_known ? "unreadable" :
			      facts->is_64bit ? "x86_64" : "not x86_64",
			      libcs[facts->libc], facts->threads,
			      facts->threads == 1 ? "" : "s");
	}
	if (facts->seccomp) {
		item(out, "seccomp");
		ht_buf_printf(out, "%s: the hook makes no system call, and with --block and -i 0 spins when the ring is full\n",
			      facts->seccomp == HT_SECCOMP_STRICT ? "strict" : "filter");
	}
}

static const char *dlopen_obstacle(const struct ht_facts *facts, const struct view *view)
{
	const char *obstacle = ht_dlopen_obstacle(view->target, view->space);

	if (!obstacle && facts->state == 'T')
		return "the process is stopped; continue it first (SIGCONT)";
	return obstacle;
}

static void put_loader(struct ht_buf *out, const struct ht_facts *facts,
		       const struct view *view)
{
	item(out, "loader");
	ht_buf_puts(out, dlopen_obstacle(facts, view) ?
				 "map, the only one that works now\n" :
				 "map, as auto does everywhere; --loader=dlopen works, too\n");
}

/* Options that would have no effect, or not the whole one. */
static void put_not_possible(struct ht_buf *out, const struct ht_facts *facts,
			     const struct view *view)
{
	const char *obstacle = dlopen_obstacle(facts, view);
	const char *label = "not possible";

	if (obstacle) {
		item(out, label);
		ht_buf_printf(out, "--loader=dlopen: %s\n", obstacle);
		label = "";
	}
	if (facts->seccomp) {
		item(out, label);
		ht_buf_puts(out, "--transport=socket: it has a seccomp filter, which may forbid it to send\n");
		item(out, "");
		ht_buf_puts(out, "--max-stack over 4K but for the main thread: without a system call the rest of a stack can't be read safely\n");
	}
}

static const char *module_name(const struct ht_module *module)
{
	return module ? ht_module_name(module) : "?";
}

static void put_allocators(struct ht_buf *out, const struct ht_plan *plan)
{
	for (size_t i = 0; i < plan->n_allocators; i++) {
		const struct ht_allocator *a = &plan->allocators[i];

		item(out, i ? "" : "allocators");
		if (a->left_out) {
			ht_buf_printf(out, "%s in %s: nothing of it is seen: %s\n", a->name,
				      module_name(a->module), a->left_out);
			continue;
		}
		ht_buf_printf(out, "%s in %s: %u entries", a->name, module_name(a->module),
			      a->n_sites);
		if (a->n_refused)
			ht_buf_printf(out, ", %u refused", a->n_refused);
		ht_buf_putc(out, '\n');
	}
}

static bool sees_all(const struct ht_plan *plan)
{
	bool all = true;

	for (size_t i = 0; i < plan->n_allocators; i++)
		all = all && plan->allocators[i].n_sites && !plan->allocators[i].n_unseen;
	return all;
}

static void put_sites(struct ht_buf *out, const struct ht_plan *plan, bool all)
{
	bool first = true;

	for (size_t i = 0; i < plan->n_sites; i++) {
		const struct ht_site *site = &plan->sites[i];

		if (!all && !site->refused)
			continue;
		item(out, !first ? "" : all ? "entries" : "not tapped");
		first = false;
		ht_buf_printf(out, "%s (%s)", site->names, module_name(site->module));
		if (site->refused)
			ht_buf_printf(out, ": %s%s", site->refused,
				      site->counted ? "; what it calls is counted" : "");
		ht_buf_putc(out, '\n');
	}
}

/* The modules that code runs from, each once. */
static void put_unwinding(struct ht_buf *out, struct view *view, bool all)
{
	_cleanup_(ht_buf_fini) struct ht_buf bare = HT_BUF_INIT;
	size_t n = ht_modules_count(view->modules), with = 0, seen = 0;

	for (size_t i = 0; i < n; i++) {
		struct ht_module *module = ht_modules_at(view->modules, (uint32_t)i);
		bool executable = false;

		for (size_t m = 0; m < ht_space_count(view->space) && !executable; m++) {
			const struct ht_mapping *mapping = ht_space_at(view->space, m);

			executable = mapping->module == module &&
				     (mapping->prot & HT_PROT_EXEC);
		}
		if (!executable)
			continue;
		seen++;
		if (ht_module_table(module))
			with++;
		else
			ht_buf_printf(&bare, "%s%s", bare.len ? ", " : "",
				      ht_module_name(module));
		if (all)
			ht_buf_printf(out, "  %-14s%s%s\n", seen == 1 ? "modules" : "",
				      ht_module_path(module),
				      ht_module_deleted(module) ? " (deleted)" : "");
	}
	item(out, "unwinding");
	ht_buf_printf(out, "%zu of %zu modules have unwind tables", with, seen);
	if (bare.len)
		ht_buf_printf(out, "; frame pointers must do for %s", bare.data);
	ht_buf_putc(out, '\n');
}

/* The target chose names in it. */
static int print_clean(struct ht_buf *out, struct ht_err *err)
{
	_cleanup_(ht_buf_fini) struct ht_buf clean = HT_BUF_INIT;
	char *save = NULL;

	if (!out->failed)
		for (char *line = strtok_r(out->data, "\n", &save); line;
		     line = strtok_r(NULL, "\n", &save)) {
			ht_symbol_clean(line, SIZE_MAX, &clean);
			ht_buf_putc(&clean, '\n');
		}
	clean.failed |= out->failed;
	return ht_cmd_print(&clean, err);
}

static int look(const struct ht_facts *facts, struct view *view, struct ht_err *err)
{
	int r = ht_target_open(facts->pid, &view->target, err);

	if (r == 0)
		r = ht_target_check_alone(view->target, err);
	if (r < 0)
		return r;
	r = ht_modules_new(&view->modules);
	if (r == 0)
		r = ht_space_new(ht_target_procfd(view->target),
				 ht_target_memfd(view->target), view->modules,
				 &view->space);
	if (r < 0)
		return ht_err_set(err, r == -ESRCH ? HT_ERR_GONE : HT_ERR_FAILED, r,
				  "can't read the memory map of %d (%s): %s%s", facts->pid,
				  facts->name, strerror(-r), ht_err_advice(r));
	r = ht_inject_find_leftover(view->target, view->space, &view->leftover, err);
	/* What is under its patches can't be seen from here. */
	if (r < 0 || view->leftover)
		return r;
	r = ht_inject_plan(view->target, view->space, &view->plan, err);
	if (r == 0)
		r = ht_room_check(view->target, view->space, HT_DEFAULT_RING_SIZE, err);
	return r;
}

static int examine(int pid, const struct doctor *doctor, int *ret_status,
		   struct ht_err *err)
{
	_cleanup_(view_fini) struct view view = { 0 };
	_cleanup_(ht_buf_fini) struct ht_buf out = HT_BUF_INIT;
	struct ht_err refusal = { HT_ERR_NONE, "" };
	struct ht_facts facts;
	int r;

	r = ht_facts_read(pid, &facts, err);
	if (r < 0)
		return r;
	r = ht_facts_obstacle(&facts, HT_TO_TAP, &refusal);
	if (r == 0)
		r = look(&facts, &view, &refusal);
	if (r < 0)
		ht_buf_printf(&out, "%s\n", refusal.text);
	else
		ht_buf_printf(&out, "%s (%d) can be tapped%s\n", facts.name, pid,
			      !view.plan || sees_all(view.plan) ?
				      "" : ", but not all of its allocations are seen");
	put_permission(&out, &facts);
	put_program(&out, &facts);
	if (view.leftover) {
		item(&out, "left over");
		ht_buf_puts(&out, "code of a heaptap that was killed, or that tapped its parent; attach takes it out first\n");
	}
	if (view.plan) {
		put_allocators(&out, view.plan);
		put_sites(&out, view.plan, doctor->all);
	}
	if (view.space) {
		put_loader(&out, &facts, &view);
		put_not_possible(&out, &facts, &view);
		put_unwinding(&out, &view, doctor->all);
	}
	if (r == 0)
		ht_buf_printf(&out, "  %-14sheaptap attach %d\n", "next", pid);
	if (r < 0)
		*ret_status = refusal.kind;
	return print_clean(&out, err);
}

/* Capabilities count for one user namespace and those made in it; the first one has all ids. */
static bool in_first_user_namespace(void)
{
	char path[64], text[128];
	unsigned inside = 0, outside = 0, count = UINT32_MAX;

	snprintf(path, sizeof(path), "%s/self/uid_map", ht_proc_root);
	if (ht_proc_read(AT_FDCWD, path, text, sizeof(text)) > 0)
		(void)sscanf(text, "%u %u %u", &inside, &outside, &count);
	return inside == 0 && outside == 0 && count == UINT32_MAX;
}

static void put_machine_permission(struct ht_buf *out, const struct ht_facts *self)
{
	item(out, "permission");
	ht_buf_printf(out, "uid %d, %s\n", (int)geteuid(),
		      self->has_cap_ptrace ? "CAP_SYS_PTRACE" : "without CAP_SYS_PTRACE");
	item(out, "");
	put_yama(out, self->yama);
	ht_buf_putc(out, '\n');
	item(out, "attach");
	if (ht_facts_kernel_too_old(self))
		ht_buf_printf(out, "not possible: Linux %u.%u is too old, boot %d.%d or later\n",
			      self->kernel_major, self->kernel_minor, HT_KERNEL_MAJOR,
			      HT_KERNEL_MINOR);
	else if (self->yama >= 3)
		ht_buf_puts(out, "not possible\n");
	else if (self->has_cap_ptrace && !self->has_cap_dac)
		ht_buf_puts(out, "own processes; for those of others CAP_DAC_OVERRIDE is needed, too\n");
	else if (self->has_cap_ptrace)
		ht_buf_puts(out, in_first_user_namespace() ?
					 "any process\n" :
					 "the processes of this user namespace; for others run heaptap on the host\n");
	else if (self->our_uid == 0)
		ht_buf_printf(out, "%s; give heaptap CAP_SYS_PTRACE (docker run --cap-add=SYS_PTRACE), or run it on the host\n",
			      self->yama > 0 ? "not possible" : "only processes of root");
	else if (self->yama == 2)
		ht_buf_puts(out, "not possible; use sudo, or sudo sysctl kernel.yama.ptrace_scope=0\n");
	else if (self->yama == 1)
		ht_buf_puts(out, "not possible but by heaptap run; use sudo, or sudo sysctl kernel.yama.ptrace_scope=0\n");
	else
		ht_buf_puts(out, "own processes; use sudo for those of others\n");
}

static int examine_machine(struct ht_err *err)
{
	_cleanup_(ht_buf_fini) struct ht_buf out = HT_BUF_INIT;
	struct ht_facts self;
	struct utsname name;
	int r;

	r = ht_facts_read(getpid(), &self, err);
	if (r < 0)
		return r;
	if (uname(&name) < 0)
		return ht_err_set(err, HT_ERR_FAILED, -errno, "uname: %s", strerror(errno));
	ht_buf_printf(&out, "heaptap %s on %s %s %s\n", PACKAGE_VERSION, name.sysname,
		      name.release, name.machine);
	put_machine_permission(&out, &self);
	item(&out, "symbols");
	ht_buf_puts(&out, access("/usr/lib/debug/.build-id", F_OK) == 0 ?
				  "separate debug files are in /usr/lib/debug\n" :
				  "no separate debug files; install -dbgsym packages for lines and inlined calls\n");
	return ht_cmd_print(&out, err);
}

static int run(const struct ht_command *command, int argc, char **argv, int *ret_status,
	       struct ht_err *err)
{
	struct doctor doctor = { 0 };
	char **operands;
	int pid, r;

	r = ht_cmd_parse(command, argc, argv, &doctor, &operands, err);
	if (r != 0)
		return r;
	if (!operands[0])
		return examine_machine(err);
	r = ht_cmd_parse_one_pid(operands, &pid, err);
	if (r < 0)
		return r;
	return examine(pid, &doctor, ret_status, err);
}

const struct ht_command ht_cmd_doctor = {
	.name = "doctor",
	.synopsis = "[PID]",
	.summary = "tell whether a process can be tapped, and if not, what to change",
	.details = "Without PID: what this machine permits. Nothing is stopped or changed.",
	.options = options,
	.run = run,
};
