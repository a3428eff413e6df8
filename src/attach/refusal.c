/* SPDX-License-Identifier: Apache-2.0
 *
 * refusal.c: the sentences for what can't be tapped: what, why, and the next step. A pure
 * function of the facts.
 */
#include <stdarg.h>
#include <stdio.h>

#include "attach/facts.h"

#define YAMA_ADMIN_ONLY 2
#define YAMA_NO_ATTACH 3

#define RIGHTS_TEXT 128

/* Who is asked for, and what for. */
struct request {
	const struct ht_facts *facts;
	enum ht_purpose purpose;
	struct ht_err *err;
};

const char *ht_purpose_verb(enum ht_purpose purpose)
{
	return purpose == HT_TO_CURE ? "cure" : "tap";
}

/* The subcommand. */
static const char *command(const struct request *request)
{
	return request->purpose == HT_TO_CURE ? "cure" : "attach";
}

static int refuse(const struct request *request, enum ht_err_kind kind, int error,
		  const char *fmt, ...) _printf_format_(4, 5);

static int refuse(const struct request *request, enum ht_err_kind kind, int error,
		  const char *fmt, ...)
{
	const struct ht_facts *facts = request->facts;
	char why[HT_ERR_TEXT];
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	return ht_err_set(request->err, kind, error, "can't %s %d (%s): %s",
			  ht_purpose_verb(request->purpose), facts->pid, facts->name, why);
}

/* Who may, when we may not. Root without the capability is root of a container. */
static const char *with_rights(const struct request *request, const char *capability,
			       char text[static RIGHTS_TEXT])
{
	const struct ht_facts *facts = request->facts;

	if (facts->our_uid == 0)
		snprintf(text, RIGHTS_TEXT,
			 "give heaptap CAP_%s (docker run --cap-add=%s), or run it on the host",
			 capability, capability);
	else if (request->purpose == HT_TO_RUN)
		snprintf(text, RIGHTS_TEXT, "start heaptap as root");
	else
		snprintf(text, RIGHTS_TEXT, "use sudo heaptap %s %d", command(request),
			 facts->pid);
	return text;
}

bool ht_facts_kernel_too_old(const struct ht_facts *facts)
{
	return facts->kernel_major < HT_KERNEL_MAJOR ||
	       (facts->kernel_major == HT_KERNEL_MAJOR &&
		facts->kernel_minor < HT_KERNEL_MINOR);
}

/* Things that no right would help against. */
static int obstacle_of_kind(const struct request *request)
{
	const struct ht_facts *facts = request->facts;

	if (facts->tgid && facts->tgid != facts->pid)
		return refuse(request, HT_ERR_USAGE, -EINVAL,
			      "it's a thread of process %d; give that", facts->tgid);
	if (ht_facts_kernel_too_old(facts))
		return refuse(request, HT_ERR_UNSUPPORTED, -ENOSYS,
			      "Linux %u.%u is too old: heaptap needs pidfd_getfd, so %d.%d or later",
			      facts->kernel_major, facts->kernel_minor, HT_KERNEL_MAJOR,
			      HT_KERNEL_MINOR);
	if (facts->is_self)
		return refuse(request, HT_ERR_UNSUPPORTED, -EDEADLK,
			      "it's heaptap itself; give another process");
	if (facts->is_self_or_tracer)
		return refuse(request, HT_ERR_UNSUPPORTED, -EDEADLK,
			      "it traces heaptap, and two that trace each other can't be ended; start heaptap outside of it");
	if (facts->kernel_thread)
		return refuse(request, HT_ERR_UNSUPPORTED, -ENOTSUP,
			      "it's a kernel thread, which has no heap; give a process that runs a program");
	if (ht_facts_is_dead(facts))
		return refuse(request, HT_ERR_GONE, -ESRCH,
			      "it's a zombie: it has ended, and only waits for its parent (pid %d) to collect its status; its heap is gone",
			      facts->ppid);
	if (facts->core_dumping)
		return refuse(request, HT_ERR_GONE, -ESRCH,
			      "it has crashed and its core is being written; only the core can tell more");
	if (facts->tracer)
		return refuse(request, HT_ERR_PERM, -EBUSY,
			      "it's traced by %s (pid %d); end that first",
			      facts->tracer_name[0] ? facts->tracer_name : "another process",
			      facts->tracer);
	return 0;
}

static int obstacle_of_yama(const struct request *request)
{
	const struct ht_facts *facts = request->facts;

	if (request->purpose == HT_TO_CURE)
		return refuse(request, HT_ERR_PERM, -EPERM,
			      "kernel.yama.ptrace_scope is 1 and %s isn't your child; use any of: sudo heaptap cure %d, sudo sysctl kernel.yama.ptrace_scope=0",
			      facts->name, facts->pid);
	return refuse(request, HT_ERR_PERM, -EPERM,
		      "kernel.yama.ptrace_scope is 1 and %s isn't your child; use any of: sudo heaptap attach %d, heaptap run -- %s, sudo sysctl kernel.yama.ptrace_scope=0",
		      facts->name, facts->pid, facts->name);
}

static int obstacle_of_user(const struct request *request)
{
	const struct ht_facts *facts = request->facts;
	char text[RIGHTS_TEXT];

	if (facts->uid == facts->our_uid)
		return refuse(request, HT_ERR_PERM, -EPERM,
			      "it's set-user-ID or set-group-ID and has rights that you lack; %s",
			      with_rights(request, "SYS_PTRACE", text));
	return refuse(request, HT_ERR_PERM, -EPERM,
		      "it belongs to %s and you're uid %u; %s, or %s a process of your own",
		      facts->user, facts->our_uid, with_rights(request, "SYS_PTRACE", text),
		      ht_purpose_verb(request->purpose));
}

/* The kernel didn't let us open its memory: why not, and who may. */
static int obstacle_of_permission(const struct request *request)
{
	const struct ht_facts *facts = request->facts;
	char text[RIGHTS_TEXT];

	if (facts->may_attach)
		return 0;
	if (facts->no_memory)
		return refuse(request, HT_ERR_GONE, -ESRCH,
			      "it's ending: its memory is gone already, and its heap with it");
	if (facts->yama >= YAMA_NO_ATTACH)
		return refuse(request, HT_ERR_PERM, -EPERM,
			      "kernel.yama.ptrace_scope is %d: nobody may trace until the next boot; set a lower value in /etc/sysctl.d and boot again",
			      facts->yama);
	if (facts->has_cap_ptrace && !facts->has_cap_dac)
		return refuse(request, HT_ERR_PERM, -EPERM,
			      "CAP_SYS_PTRACE lets heaptap trace it, but its memory, a file of %s, is opened by CAP_DAC_OVERRIDE only; %s",
			      facts->dumpable ? facts->user : "root",
			      with_rights(request, "DAC_OVERRIDE", text));
	if (facts->has_cap_ptrace)
		return refuse(request, HT_ERR_PERM, -EPERM,
			      "the kernel refuses in spite of CAP_SYS_PTRACE: a security module (AppArmor, SELinux) forbids it, or it's in a user namespace outside of ours; run heaptap on the host, or see the audit log");
	if (facts->yama == YAMA_ADMIN_ONLY)
		return refuse(request, HT_ERR_PERM, -EPERM,
			      "kernel.yama.ptrace_scope is 2 and you lack CAP_SYS_PTRACE; %s",
			      with_rights(request, "SYS_PTRACE", text));
	if (!facts->same_user)
		return obstacle_of_user(request);
	if (facts->more_caps)
		return refuse(request, HT_ERR_PERM, -EPERM,
			      "it has capabilities that you lack; %s",
			      with_rights(request, "SYS_PTRACE", text));
	if (!facts->dumpable)
		return refuse(request, HT_ERR_PERM, -EPERM,
			      "it's closed to other processes (not dumpable: set-user-ID, unreadable program file, or its own wish); %s",
			      with_rights(request, "SYS_PTRACE", text));
	if (facts->yama == 1)
		return obstacle_of_yama(request);
	return refuse(request, HT_ERR_PERM, -EPERM,
		      "the kernel refuses access and doesn't say why; %s",
		      with_rights(request, "SYS_PTRACE", text));
}

bool ht_facts_is_dead(const struct ht_facts *facts)
{
	return facts->state == 'X' || (facts->state == 'Z' && !facts->zombie_leader);
}

bool ht_facts_filter_stays(const struct ht_facts *facts, unsigned mode, unsigned filters)
{
	if (mode == HT_SECCOMP_NONE || (facts->has_cap_admin && !facts->our_seccomp))
		return false;
	return mode != HT_SECCOMP_FILTER || !filters || filters != facts->our_seccomp_filters;
}

int ht_facts_refuse_filter(const struct ht_facts *facts, enum ht_purpose purpose,
			   struct ht_err *err)
{
	const struct request request = { facts, purpose, err };
	const char *kind = facts->seccomp == HT_SECCOMP_STRICT ? "it's in strict seccomp mode" :
								 "it has a seccomp filter";
	char text[RIGHTS_TEXT];

	if (facts->our_seccomp)
		return refuse(&request, HT_ERR_PERM, -EPERM,
			      "%s, which can't be suspended from under a filter of one's own; run heaptap outside of this sandbox or container, as root",
			      kind);
	if (facts->has_cap_admin)
		return refuse(&request, HT_ERR_PERM, -EPERM,
			      "%s, which the kernel doesn't let heaptap suspend (in a user namespace, or without CONFIG_CHECKPOINT_RESTORE); run heaptap as root of the host",
			      kind);
	return refuse(&request, HT_ERR_PERM, -EPERM,
		      "%s, which only CAP_SYS_ADMIN may suspend; %s", kind,
		      with_rights(&request, "SYS_ADMIN", text));
}

int ht_facts_obstacle(const struct ht_facts *facts, enum ht_purpose purpose,
		      struct ht_err *err)
{
	const struct request request = { facts, purpose, err };
	int r = obstacle_of_kind(&request);

	if (r == 0)
		r = obstacle_of_permission(&request);
	if (r < 0)
		return r;
	if (facts->elf_known && !facts->is_64bit)
		return refuse(&request, HT_ERR_UNSUPPORTED, -ENOTSUP,
			      "it's a 32-bit program; heaptap taps x86_64 only, so run a 64-bit build of it");
	if (facts->frozen)
		return refuse(&request, HT_ERR_FAILED, -EBUSY,
			      "its control group is frozen (a paused container?); thaw it first");
	if (facts->shadow_stacks)
		return refuse(&request, HT_ERR_UNSUPPORTED, -ENOTSUP,
			      "its threads have shadow stacks, which heaptap can't handle yet; start it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off");
	if (ht_facts_filter_stays(facts, facts->seccomp_least, facts->seccomp_filters))
		return ht_facts_refuse_filter(facts, purpose, err);
	return 0;
}
