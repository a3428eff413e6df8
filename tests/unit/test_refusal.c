/* SPDX-License-Identifier: Apache-2.0
 *
 * Each refusal: its sentence, its kind.
 */
#include <string.h>

#include "attach/facts.h"

#include "ht_check.h"

static struct ht_facts good(void)
{
	return (struct ht_facts){
		.pid = 4242, .tgid = 4242, .ppid = 17, .live_tid = 4242, .name = "app",
		.user = "root", .our_uid = 1000, .state = 'S', .elf_known = true,
		.is_64bit = true, .same_user = true, .dumpable = true, .may_attach = true,
		.yama = -1, .threads = 1, .kernel_major = 6, .kernel_minor = 1,
	};
}

static void refused(const struct ht_facts *facts, enum ht_err_kind kind, const char *text)
{
	struct ht_err err = { 0 };

	ck_assert_int_lt(ht_facts_obstacle(facts, HT_TO_TAP, &err), 0);
	ck_assert_int_eq(err.kind, kind);
	ck_assert_str_eq(err.text, text);
	/* Also without anybody who wants to know why. */
	ck_assert_int_lt(ht_facts_obstacle(facts, HT_TO_TAP, NULL), 0);
}

#define REFUSED(kind, why, ...)                                                           \
	do {                                                                              \
		struct ht_facts f = good();                                               \
		__VA_ARGS__;                                                              \
		refused(&f, kind, "can't tap 4242 (app): " why);                          \
	} while (0)

START_TEST(nothing_forbids_a_plain_one)
{
	struct ht_facts facts = good();
	struct ht_err err = { 0 };

	ck_ok(ht_facts_obstacle(&facts, HT_TO_TAP, &err));
	ck_assert_int_eq(err.kind, HT_ERR_NONE);
	facts.kernel_major = 5;
	facts.kernel_minor = 6;
	facts.state = 'Z';
	facts.zombie_leader = true;
	facts.yama = 1;
	ck_ok(ht_facts_obstacle(&facts, HT_TO_TAP, &err));
}
END_TEST

START_TEST(kinds_of_process)
{
	REFUSED(HT_ERR_USAGE, "it's a thread of process 4200; give that", f.tgid = 4200);
	REFUSED(HT_ERR_UNSUPPORTED,
		"Linux 5.5 is too old: heaptap needs pidfd_getfd, so 5.6 or later",
		f.kernel_major = 5; f.kernel_minor = 5);
	REFUSED(HT_ERR_UNSUPPORTED,
		"Linux 4.19 is too old: heaptap needs pidfd_getfd, so 5.6 or later",
		f.kernel_major = 4; f.kernel_minor = 19);
	REFUSED(HT_ERR_UNSUPPORTED, "it's heaptap itself; give another process",
		f.is_self = f.is_self_or_tracer = true);
	REFUSED(HT_ERR_UNSUPPORTED,
		"it traces heaptap, and two that trace each other can't be ended; start heaptap outside of it",
		f.is_self_or_tracer = true);
	REFUSED(HT_ERR_UNSUPPORTED, "it's a kernel thread, which has no heap; give a process that runs a program",
		f.kernel_thread = true);
	REFUSED(HT_ERR_GONE,
		"it's a zombie: it has ended, and only waits for its parent (pid 17) to collect its status; its heap is gone",
		f.state = 'Z');
	REFUSED(HT_ERR_GONE, "it has crashed and its core is being written; only the core can tell more",
		f.core_dumping = true);
	REFUSED(HT_ERR_UNSUPPORTED, "it's a 32-bit program; heaptap taps x86_64 only, so run a 64-bit build of it",
		f.is_64bit = false);
	REFUSED(HT_ERR_UNSUPPORTED,
		"its threads have shadow stacks, which heaptap can't handle yet; start it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off",
		f.shadow_stacks = true);
	REFUSED(HT_ERR_FAILED,
		"its control group is frozen (a paused container?); thaw it first",
		f.frozen = true);
}
END_TEST

START_TEST(tracers)
{
	REFUSED(HT_ERR_PERM, "it's traced by gdb (pid 977); end that first", f.tracer = 977;
		strcpy(f.tracer_name, "gdb"));
	REFUSED(HT_ERR_PERM, "it's traced by another process (pid 977); end that first",
		f.tracer = 977);
}
END_TEST

START_TEST(permissions)
{
	REFUSED(HT_ERR_PERM,
		"it belongs to root and you're uid 1000; use sudo heaptap attach 4242, or tap a process of your own",
		f.may_attach = f.same_user = false);
	REFUSED(HT_ERR_PERM,
		"it's set-user-ID or set-group-ID and has rights that you lack; use sudo heaptap attach 4242",
		f.may_attach = f.same_user = false; f.uid = 1000);
	REFUSED(HT_ERR_PERM,
		"it has capabilities that you lack; use sudo heaptap attach 4242",
		f.may_attach = false; f.more_caps = true);
	REFUSED(HT_ERR_PERM,
		"it's closed to other processes (not dumpable: set-user-ID, unreadable program file, or its own wish); use sudo heaptap attach 4242",
		f.may_attach = f.dumpable = false);
	REFUSED(HT_ERR_PERM,
		"kernel.yama.ptrace_scope is 1 and app isn't your child; use any of: sudo heaptap attach 4242, heaptap run -- app, sudo sysctl kernel.yama.ptrace_scope=0",
		f.may_attach = false; f.yama = 1);
	REFUSED(HT_ERR_PERM,
		"kernel.yama.ptrace_scope is 2 and you lack CAP_SYS_PTRACE; use sudo heaptap attach 4242",
		f.may_attach = false; f.yama = 2);
	REFUSED(HT_ERR_PERM,
		"kernel.yama.ptrace_scope is 3: nobody may trace until the next boot; set a lower value in /etc/sysctl.d and boot again",
		f.may_attach = false; f.yama = 3; f.has_cap_ptrace = true);
	REFUSED(HT_ERR_PERM,
		"the kernel refuses in spite of CAP_SYS_PTRACE: a security module (AppArmor, SELinux) forbids it, or it's in a user namespace outside of ours; run heaptap on the host, or see the audit log",
		f.may_attach = false; f.has_cap_ptrace = f.has_cap_dac = true);
	REFUSED(HT_ERR_PERM,
		"CAP_SYS_PTRACE lets heaptap trace it, but its memory, a file of root, is opened by CAP_DAC_OVERRIDE only; use sudo heaptap attach 4242",
		f.may_attach = f.same_user = false; f.has_cap_ptrace = true);
	REFUSED(HT_ERR_GONE, "it's ending: its memory is gone already, and its heap with it",
		f.may_attach = false; f.no_memory = f.has_cap_ptrace = true);
	REFUSED(HT_ERR_PERM,
		"the kernel refuses access and doesn't say why; use sudo heaptap attach 4242",
		f.may_attach = false);
}
END_TEST

/* sudo is no help to the root of a container. */
START_TEST(root_without_the_capability)
{
#define GIVE_PTRACE                                                                       \
	"give heaptap CAP_SYS_PTRACE (docker run --cap-add=SYS_PTRACE), or run it on the host"
	REFUSED(HT_ERR_PERM, "it has capabilities that you lack; " GIVE_PTRACE,
		f.may_attach = false; f.more_caps = true; f.our_uid = 0);
	REFUSED(HT_ERR_PERM,
		"it belongs to www and you're uid 0; " GIVE_PTRACE ", or tap a process of your own",
		f.may_attach = f.same_user = false; f.our_uid = 0; f.uid = 33;
		strcpy(f.user, "www"));
	REFUSED(HT_ERR_PERM,
		"it has a seccomp filter, which only CAP_SYS_ADMIN may suspend; give heaptap CAP_SYS_ADMIN (docker run --cap-add=SYS_ADMIN), or run it on the host",
		f.seccomp = f.seccomp_least = 2; f.our_uid = 0);
}
END_TEST

START_TEST(seccomp)
{
	struct ht_facts facts = good();

	REFUSED(HT_ERR_PERM,
		"it's in strict seccomp mode, which only CAP_SYS_ADMIN may suspend; use sudo heaptap attach 4242",
		f.seccomp = f.seccomp_least = 1);
	REFUSED(HT_ERR_PERM,
		"it has a seccomp filter, which only CAP_SYS_ADMIN may suspend; use sudo heaptap attach 4242",
		f.seccomp = f.seccomp_least = 2; f.seccomp_filters = 2;
		f.our_seccomp_filters = 1);
	REFUSED(HT_ERR_PERM,
		"it has a seccomp filter, which can't be suspended from under a filter of one's own; run heaptap outside of this sandbox or container, as root",
		f.seccomp = f.seccomp_least = f.our_seccomp = 2; f.seccomp_filters = 2;
		f.our_seccomp_filters = 1; f.has_cap_admin = true);
	/* Filters that may be suspended, and the one that we live under too. */
	facts.seccomp = facts.seccomp_least = 2;
	facts.seccomp_filters = 3;
	facts.has_cap_admin = true;
	ck_ok(ht_facts_obstacle(&facts, HT_TO_TAP, NULL));
	facts.has_cap_admin = false;
	facts.our_seccomp = 2;
	facts.our_seccomp_filters = 3;
	ck_ok(ht_facts_obstacle(&facts, HT_TO_TAP, NULL));
	/* Another thread can be borrowed. */
	facts.our_seccomp = facts.our_seccomp_filters = facts.seccomp_least = 0;
	ck_ok(ht_facts_obstacle(&facts, HT_TO_TAP, NULL));
}
END_TEST

/* Known only when the kernel said no. */
START_TEST(filters_that_stay_all_the_same)
{
	struct ht_facts facts = good();
	struct ht_err err = { 0 };

	facts.seccomp = 2;
	facts.has_cap_admin = true;
	ck_assert_int_eq(ht_facts_refuse_filter(&facts, HT_TO_CURE, &err), -EPERM);
	ck_assert_int_eq(err.kind, HT_ERR_PERM);
	ck_assert_str_eq(err.text,
			 "can't cure 4242 (app): it has a seccomp filter, which the kernel doesn't let heaptap suspend (in a user namespace, or without CONFIG_CHECKPOINT_RESTORE); run heaptap as root of the host");
}
END_TEST

static void not_cured(const struct ht_facts *facts, const char *text)
{
	struct ht_err err = { 0 };

	ck_assert_int_lt(ht_facts_obstacle(facts, HT_TO_CURE, &err), 0);
	ck_assert_str_eq(err.text, text);
}

/* In the words of who asks. */
START_TEST(cures)
{
	struct ht_facts facts = good();

	facts.may_attach = false;
	facts.yama = 2;
	not_cured(&facts,
		  "can't cure 4242 (app): kernel.yama.ptrace_scope is 2 and you lack CAP_SYS_PTRACE; use sudo heaptap cure 4242");
	facts.yama = 1;
	not_cured(&facts,
		  "can't cure 4242 (app): kernel.yama.ptrace_scope is 1 and app isn't your child; use any of: sudo heaptap cure 4242, sudo sysctl kernel.yama.ptrace_scope=0");
	facts.same_user = false;
	not_cured(&facts,
		  "can't cure 4242 (app): it belongs to root and you're uid 1000; use sudo heaptap cure 4242, or cure a process of your own");
}
END_TEST

int main(void)
{
	return ht_check_run("refusal", (const TTest *const[]){ nothing_forbids_a_plain_one,
							       kinds_of_process, tracers,
							       permissions,
							       root_without_the_capability,
							       seccomp,
							       filters_that_stay_all_the_same,
							       cures, NULL });
}
