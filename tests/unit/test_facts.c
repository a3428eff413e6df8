/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts are read from made-up /proc trees, and from the real one for what runs here.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/facts.h"
#include "base/fd.h"

#include "ht_check.h"

static char root[64];

static void put(const char *path, const void *data, size_t len)
{
	char full[256], *slash;
	int fd;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		(void)mkdir(full, 0755);
		*slash = '/';
	}
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	ck_assert_int_ge(fd, 0);
	ck_ok(ht_fd_write_all(fd, data, len));
	close(fd);
}

static void put_text(const char *path, const char *text)
{
	put(path, text, strlen(text));
}

static void put_elf(int class, int machine)
{
	Elf64_Ehdr header = { .e_machine = (Elf64_Half)machine };

	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = (unsigned char)class;
	put("42/exe", &header, sizeof(header));
}

#define STATUS(extra)                                                                     \
	"Name:\tapp\nTgid:\t42\nTracerPid:\t0\nUid:\t1000\t1000\t1000\t1000\n"             \
	"Gid:\t1000\t1000\t1000\t1000\nThreads:\t3\nCapPrm:\t0000000000000000\n" extra
#define STAT(state, flags)                                                                \
	"42 (app) " state " 7 42 42 0 -1 " flags " 1 2 3 4 5 6 7 8 20 0 3 0 555 1 1 1 1 1 9"

static void make_tree(void)
{
	strcpy(root, "/tmp/test_facts.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	ht_proc_root = root;
	ht_cgroup_root = root;
	put_text("self/status", "Tgid:\t9\nTracerPid:\t8\nUid:\t1000\t1000\t1000\t1000\n"
				"Gid:\t1000\t1000\t1000\t1000\nCapPrm:\t0\nCapEff:\t0\n");
	put_text("8/status", "Tgid:\t8\nTracerPid:\t6\n");
	put_text("6/status", "Tgid:\t6\nTracerPid:\t0\n");
	put_text("42/status", STATUS("VmLib:\t    2048 kB\nSeccomp:\t0\n"));
	put_text("42/stat", STAT("S", "4194304"));
	put_text("42/comm", "a\x1b\xc3pp\n");
	put_text("42/maps", "");
	put_text("42/mem", "");
	put_text("42/task/42/status", "Name:\tapp\nState:\tS (sleeping)\nSeccomp:\t0\n");
	put_elf(ELFCLASS64, EM_X86_64);
}

static void remove_tree(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	ck_assert_int_eq(system(command), 0);
}

static struct ht_facts facts_of(pid_t pid)
{
	struct ht_facts facts;
	struct ht_err err = { 0 };

	ck_ok(ht_facts_read(pid, &facts, &err));
	return facts;
}

START_TEST(plain_process)
{
	struct ht_facts facts;

	make_tree();
	facts = facts_of(42);
	ck_assert_str_eq(facts.name, "a??pp");
	ck_assert_int_eq(facts.tgid, 42);
	ck_assert_int_eq(facts.ppid, 7);
	ck_assert_int_eq(facts.live_tid, 42);
	ck_assert_uint_eq(facts.uid, 1000);
	ck_assert_uint_eq(facts.threads, 3);
	ck_assert_uint_eq(facts.start_time, 555);
	ck_assert_uint_eq(facts.lib_kib, 2048);
	ck_assert_int_eq(facts.state, 'S');
	ck_assert(facts.same_user && facts.is_64bit && facts.elf_known && facts.may_attach);
	ck_assert(!facts.kernel_thread && !facts.zombie_leader && !facts.frozen &&
		  !facts.is_self_or_tracer && !facts.core_dumping && !facts.more_caps);
	ck_assert_int_eq(facts.yama, -1);
	ck_assert_int_eq(facts.libc, HT_LIBC_UNKNOWN);
	ck_assert_uint_ge(facts.kernel_major, 5);
	remove_tree();
}
END_TEST

START_TEST(what_may_change)
{
	struct ht_facts facts;

	make_tree();
	put_text("42/task/43/status", "Name:\tapp\nState:\tS (sleeping)\nSeccomp:\t2\n");
	ck_ok(ht_facts_read_again(42, &facts));
	ck_assert_str_eq(facts.name, "a??pp");
	ck_assert_uint_eq(facts.seccomp, HT_SECCOMP_FILTER);
	ck_assert_uint_eq(facts.lib_kib, 2048);
	ck_assert_int_eq(ht_facts_read_again(43, &facts), -ESRCH);
	remove_tree();
}
END_TEST

START_TEST(other_people)
{
	struct ht_facts facts;

	make_tree();
	put_text("42/status", "Tgid:\t42\nUid:\t0\t1000\t1000\t1000\nCapPrm:\t0000000000000400\n"
			      "Gid:\t1000\t1000\t1000\t1000\n");
	facts = facts_of(42);
	ck_assert(!facts.same_user && facts.more_caps);
	ck_assert_uint_eq(facts.our_uid, 1000);
	ck_assert_str_eq(facts.user, "root");
	put_text("42/status", "Tgid:\t42\nUid:\t54321\t54321\t54321\t54321\n");
	ck_assert_str_eq(facts_of(42).user, "uid 54321");
	put_text("self/status", "Tgid:\t9\nCapEff:\t0000000000280000\n");
	facts = facts_of(42);
	ck_assert(facts.has_cap_ptrace && facts.has_cap_admin);
	remove_tree();
}
END_TEST

START_TEST(kinds)
{
	struct ht_facts facts;

	make_tree();
	put_text("42/stat", STAT("I", "2129984"));
	ck_assert(facts_of(42).kernel_thread);
	put_text("42/stat", STAT("Z", "4194304"));
	put_text("42/task/42/status", "Name:\tapp\nState:\tZ (zombie)\n");
	facts = facts_of(42);
	ck_assert_int_eq(facts.state, 'Z');
	ck_assert(!facts.zombie_leader);
	put_text("42/task/43/status", "Name:\tapp\nState:\tS (sleeping)\nSeccomp:\t2\n"
				      "Seccomp_filters:\t3\n");
	facts = facts_of(42);
	ck_assert(facts.zombie_leader);
	ck_assert_int_eq(facts.live_tid, 43);
	ck_assert_uint_eq(facts.seccomp, 2);
	ck_assert_uint_eq(facts.seccomp_filters, 3);
	/* The dead one has none, but can't be borrowed either. */
	ck_assert_uint_eq(facts.seccomp_least, 2);
	put_text("42/task/44/status", "Name:\tapp\nState:\tS (sleeping)\nSeccomp:\t0\n");
	facts = facts_of(42);
	ck_assert_uint_eq(facts.seccomp, 2);
	ck_assert_uint_eq(facts.seccomp_least, 0);
	ck_assert(!facts.shadow_stacks);
	put_text("42/task/43/status", "Name:\tx\nState:\tS (sleeping)\n"
				      "x86_Thread_features:\tshstk wrss \n");
	put_text("42/task/44/status", "Name:\tx\nState:\tS (sleeping)\nx86_Thread_features:\t\n"
				      "x86_Thread_features_locked:\tshstk \n");
	ck_assert(!facts_of(42).shadow_stacks);
	put_text("42/task/44/status", "Name:\tx\nState:\tS (sleeping)\n"
				      "x86_Thread_features:\tshstk \n");
	ck_assert(facts_of(42).shadow_stacks);
	put_text("42/status", STATUS("CoreDumping:\t1\n"));
	ck_assert(facts_of(42).core_dumping);
	put_elf(ELFCLASS32, EM_386);
	put_text("42/stat", STAT("S", "4194304"));
	facts = facts_of(42);
	ck_assert(facts.elf_known && !facts.is_64bit);
	put_elf(ELFCLASS32, EM_X86_64);
	ck_assert(!facts_of(42).is_64bit);
	put_text("42/exe", "");
	ck_assert(!facts_of(42).elf_known);
	remove_tree();
}
END_TEST

START_TEST(tracers_and_self)
{
	struct ht_facts facts;

	make_tree();
	put_text("42/status", "Tgid:\t42\nTracerPid:\t8\n");
	put_text("8/comm", "gdb\n");
	facts = facts_of(42);
	ck_assert_int_eq(facts.tracer, 8);
	ck_assert_str_eq(facts.tracer_name, "gdb");
	ck_assert(!facts.is_self_or_tracer);
	/* A thread of a debugger, under a name of its own. */
	put_text("8/status", "Tgid:\t7\nTracerPid:\t6\n");
	put_text("7/comm", "ll\ndb\n");
	facts = facts_of(42);
	ck_assert_int_eq(facts.tracer, 7);
	ck_assert_str_eq(facts.tracer_name, "ll");
	/* Traces what traces us. */
	put_text("6/status", "Tgid:\t42\n");
	ck_assert(facts_of(42).is_self_or_tracer && !facts_of(42).is_self);
	put_text("self/status", "Tgid:\t42\nTracerPid:\t0\n");
	ck_assert(facts_of(42).is_self);
	/* What we trace ourselves is in nobody's way. */
	put_text("self/status", "Tgid:\t7\nTracerPid:\t0\n");
	facts = facts_of(42);
	ck_assert_int_eq(facts.tracer, 0);
	ck_assert(!facts.is_self_or_tracer);
	remove_tree();
}
END_TEST

START_TEST(surroundings)
{
	make_tree();
	put_text("sys/kernel/yama/ptrace_scope", "2\n");
	ck_assert_int_eq(facts_of(42).yama, 2);
	put_text("42/cgroup", "0::/a/b\n");
	put_text("a/b/cgroup.events", "populated 1\nfrozen 1\n");
	ck_assert(facts_of(42).frozen);
	put_text("a/b/cgroup.events", "populated 1\nfrozen 0\n");
	ck_assert(!facts_of(42).frozen);
	put_text("42/cgroup", "3:cpu:/x\n2:freezer:/y\n");
	put_text("freezer/y/freezer.state", "FROZEN\n");
	ck_assert(facts_of(42).frozen);
	put_text("freezer/y/freezer.state", "THAWED\n");
	ck_assert(!facts_of(42).frozen);
	remove_tree();
}
END_TEST

START_TEST(libc_is_known_by_its_maps)
{
	static const struct {
		const char *path;
		enum ht_libc libc;
	} rows[] = {
		{ "/lib/x86_64-linux-gnu/libc.so.6", HT_LIBC_GLIBC },
		{ "/lib/libc-2.28.so", HT_LIBC_GLIBC },
		{ "/lib/ld-musl-x86_64.so.1", HT_LIBC_MUSL },
		{ "/usr/lib/x86_64-linux-musl/libc.so", HT_LIBC_MUSL },
		{ "/lib64/ld-linux-x86-64.so.2", HT_LIBC_UNKNOWN },
		{ "/usr/bin/static", HT_LIBC_STATIC },
	};
	char line[256];

	make_tree();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		snprintf(line, sizeof(line),
			 "400000-401000 r-xp 00000000 00:00 1 /x\n"
			 "500000-501000 r-xp 00000000 00:00 2   %s\n",
			 rows[i].path);
		put_text("42/maps", line);
		ck_assert_int_eq(facts_of(42).libc, rows[i].libc);
	}
	remove_tree();
}
END_TEST

START_TEST(what_is_missing_is_zero_or_gone)
{
	struct ht_facts facts;
	struct ht_err err = { 0 };

	make_tree();
	ck_assert_int_eq(ht_facts_read(43, &facts, &err), -ESRCH);
	ck_assert_int_eq(err.kind, HT_ERR_GONE);
	ck_assert_str_eq(err.text, "no process 43: it ended, or has another pid here (in a container); see ps -e");
	ck_assert_int_eq(ht_facts_read(-1, &facts, NULL), -ESRCH);
	put_text("43/status", "garbage");
	ck_assert_int_eq(ht_facts_read(43, &facts, NULL), -ESRCH);
	put_text("43/stat", STAT("S", "0"));
	facts = facts_of(43);
	ck_assert(!facts.may_attach && !facts.elf_known);
	ck_assert_str_eq(facts.exe, "");
	remove_tree();
}
END_TEST

/* Only two errors are a refusal. */
START_TEST(memory_that_cannot_be_opened)
{
	struct ht_facts facts;
	struct ht_err err = { 0 };
	char path[128];

	make_tree();
	ck_assert(!facts_of(42).no_memory);
	snprintf(path, sizeof(path), "%s/42/mem", root);
	ck_assert_int_eq(unlink(path), 0);
	facts = facts_of(42);
	ck_assert(!facts.may_attach && facts.no_memory);
	ck_assert_int_eq(symlink("mem", path), 0);
	ck_assert_int_eq(ht_facts_read(42, &facts, &err), -ELOOP);
	ck_assert_int_eq(err.kind, HT_ERR_FAILED);
	ck_assert_str_eq(err.text,
			 "can't look at process 42: Too many levels of symbolic links");
	remove_tree();
}
END_TEST

START_TEST(no_more_files)
{
	struct rlimit limit, few;
	struct ht_facts facts;
	struct ht_err err = { 0 };

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = limit;
	few.rlim_cur = 0;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	ck_assert_int_eq(ht_facts_read(getpid(), &facts, &err), -EMFILE);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(err.kind, HT_ERR_FAILED);
	ck_assert_ptr_nonnull(strstr(
		err.text, ": Too many open files; start heaptap with a higher limit (ulimit -n)"));
}
END_TEST

START_TEST(without_proc)
{
	struct ht_facts facts;
	struct ht_err err = { 0 };

	make_tree();
	remove_tree();
	ck_assert_int_eq(ht_facts_read(42, &facts, &err), -ENODEV);
	ck_assert_int_eq(err.kind, HT_ERR_FAILED);
	ck_assert_ptr_nonnull(strstr(err.text, " isn't mounted, or is that of another"));
}
END_TEST

START_TEST(real_ones)
{
	struct ht_facts facts = facts_of(getpid());
	pid_t pid;

	ck_assert(facts.is_self && facts.is_64bit && facts.same_user && facts.may_attach);
	ck_assert_str_eq(facts.name, "test_facts");
	ck_assert_int_eq(facts.libc, HT_LIBC_GLIBC);
	pid = fork();
	if (pid == 0)
		_exit(0);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	facts = facts_of(pid);
	ck_assert_int_eq(facts.state, 'Z');
	ck_assert_int_eq(facts.ppid, getpid());
	waitpid(pid, NULL, 0);
	if (facts_of(1).pid == 1 && access("/proc/2/stat", F_OK) == 0)
		ck_assert(facts_of(2).kernel_thread || facts_of(2).ppid != 0);
}
END_TEST

START_TEST(closed_by_its_own_wish)
{
	int ready[2];
	pid_t pid;
	char c;

	/* Of root's processes the files in /proc belong to root in any case. */
	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		bool closed = (geteuid() != 0 || setuid(65534) == 0) &&
			      prctl(PR_SET_DUMPABLE, 0) == 0;

		if (write(ready[1], closed ? "y" : "n", 1) == 1)
			pause();
		_exit(0);
	}
	ck_assert_int_eq(read(ready[0], &c, 1), 1);
	ck_assert_int_eq(c, 'y');
	ck_assert(!facts_of(pid).dumpable);
	ck_assert(facts_of(getpid()).dumpable);
}
END_TEST

int main(void)
{
	return ht_check_run("facts", (const TTest *const[]){
					     plain_process, what_may_change, other_people, kinds,
					     tracers_and_self, surroundings,
					     libc_is_known_by_its_maps,
					     what_is_missing_is_zero_or_gone,
					     memory_that_cannot_be_opened,
					     no_more_files, without_proc, real_ones,
					     closed_by_its_own_wish, NULL });
}
