/* SPDX-License-Identifier: Apache-2.0
 *
 * facts.c: reading the facts of facts.h. What they mean for a tap is in refusal.c.
 *
 * All text comes from the kernel, but names and paths in it were chosen by the target.
 */
#include "attach/facts.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "attach/proc.h"
#include "base/buf.h"
#include "base/fd.h"

#define CAP_DAC_OVERRIDE_BIT 1
#define CAP_SYS_PTRACE_BIT 19
#define CAP_SYS_ADMIN_BIT 21
#define MAPS_MAX (16 * 1024 * 1024)
#define TRACERS_MAX 16

const char *ht_proc_root = "/proc";
const char *ht_cgroup_root = "/sys/fs/cgroup";

static unsigned long number(const char *text, const char *key, int base)
{
	uint64_t value = 0;

	(void)ht_proc_field(text, key, base, &value);
	return value;
}

/* Real, effective and saved id on a "Uid:" or "Gid:" line. */
static void three_ids(const char *text, const char *key, unsigned ids[3])
{
	const char *line = strstr(text, key);

	ids[0] = ids[1] = ids[2] = 0;
	if (line)
		(void)sscanf(line + strlen(key), "%u %u %u", &ids[0], &ids[1], &ids[2]);
}

static void make_printable(char *s)
{
	for (; *s; s++) {
		if (*s < 0x20 || *s > 0x7e)
			*s = '?';
	}
}

static void read_name(int dirfd, char *name, size_t cap)
{
	if (ht_proc_read(dirfd, "comm", name, cap) < 0)
		name[0] = '\0';
	name[strcspn(name, "\n")] = '\0';
	make_printable(name);
}

static int open_proc(const char *path)
{
	_cleanup_(ht_fd_closep) int root = open(ht_proc_root, O_DIRECTORY | O_CLOEXEC);
	int fd;

	if (root < 0)
		return -errno;
	fd = openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void read_user(struct ht_facts *facts)
{
	const struct passwd *pw = getpwuid(facts->uid);

	if (pw)
		snprintf(facts->user, sizeof(facts->user), "%s", pw->pw_name);
	else
		snprintf(facts->user, sizeof(facts->user), "uid %u", facts->uid);
	make_printable(facts->user);
}

/* The kernel's rule without CAP_SYS_PTRACE: our real ids are all six of the target's, and
 * it has no capability that we lack. */
static void compare_credentials(struct ht_facts *facts, const char *status,
				const char *self_status)
{
	unsigned uid[3], gid[3], our_uid[3], our_gid[3];
	uint64_t our_caps = number(self_status, "CapEff:", 16);

	three_ids(status, "\nUid:", uid);
	three_ids(status, "\nGid:", gid);
	three_ids(self_status, "\nUid:", our_uid);
	three_ids(self_status, "\nGid:", our_gid);
	facts->uid = uid[0];
	facts->euid = uid[1];
	facts->our_uid = our_uid[0];
	facts->same_user = true;
	for (int i = 0; i < 3; i++) {
		if (uid[i] != our_uid[0] || gid[i] != our_gid[0])
			facts->same_user = false;
	}
	facts->more_caps = number(status, "CapPrm:", 16) & ~number(self_status, "CapPrm:", 16);
	facts->has_cap_ptrace = our_caps & (UINT64_C(1) << CAP_SYS_PTRACE_BIT);
	facts->has_cap_dac = our_caps & (UINT64_C(1) << CAP_DAC_OVERRIDE_BIT);
	facts->has_cap_admin = our_caps & (UINT64_C(1) << CAP_SYS_ADMIN_BIT);
}

static void read_kernel_facts(struct ht_facts *facts)
{
	char text[32];
	struct utsname name;
	_cleanup_(ht_fd_closep) int yama = open_proc("sys/kernel/yama");

	facts->yama = -1;
	if (yama >= 0 && ht_proc_read(yama, "ptrace_scope", text, sizeof(text)) > 0)
		facts->yama = atoi(text);
	if (!uname(&name))
		(void)sscanf(name.release, "%u.%u", &facts->kernel_major,
			     &facts->kernel_minor);
}

/* Is @pid ourselves, or in the chain of those that trace us? */
static void compare_with_self(struct ht_facts *facts, const char *self_status)
{
	char text[HT_PROC_TEXT], path[32];
	pid_t tracer = (pid_t)number(self_status, "TracerPid:", 10);
	pid_t self = (pid_t)number(self_status, "Tgid:", 10);

	if (!self)
		self = getpid();
	facts->is_self = facts->tgid == self;
	facts->is_self_or_tracer = facts->is_self;
	/* Our child, or a thread that we couldn't stop in time. */
	if (facts->tracer == self)
		facts->tracer = 0;
	for (int i = 0; tracer && i < TRACERS_MAX; i++) {
		_cleanup_(ht_fd_closep) int fd = -1;

		snprintf(path, sizeof(path), "%d", tracer);
		fd = open_proc(path);
		if (fd < 0 || ht_proc_read(fd, "status", text, sizeof(text)) < 0)
			return;
		if ((pid_t)number(text, "Tgid:", 10) == facts->tgid)
			facts->is_self_or_tracer = true;
		tracer = (pid_t)number(text, "TracerPid:", 10);
	}
}

/* Since Linux 6.6, where the CPU has them. */
static bool has_shadow_stack(const char *status)
{
	const char *line = strstr(status, "\nx86_Thread_features:");

	return line && memmem(line + 1, strcspn(line + 1, "\n"), "shstk", 5);
}

/* Seccomp is a thread's affair; and a zombie leader has a live thread somewhere. */
static void read_threads(int dirfd, struct ht_facts *facts)
{
	_cleanup_(ht_fd_closep) int taskfd =
		openat(dirfd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char text[HT_PROC_TEXT], path[32];
	unsigned least = UINT_MAX, alive = 0, shadowed = 0;
	pid_t *tids = NULL;
	int n;

	facts->live_tid = facts->pid;
	n = taskfd < 0 ? -errno : ht_proc_tasks(taskfd, (pid_t[1]){ 0 }, 1);
	if (n <= 0)
		return;
	tids = calloc((size_t)n, sizeof(*tids));
	if (!tids)
		return;
	n = ht_min(ht_proc_tasks(taskfd, tids, (size_t)n), n);
	for (int i = 0; i < n; i++) {
		unsigned seccomp;
		const char *state;

		snprintf(path, sizeof(path), "%d/status", tids[i]);
		if (ht_proc_read(taskfd, path, text, sizeof(text)) < 0)
			continue;
		state = strstr(text, "\nState:\t");
		if (state && strchr("ZX", state[8]))
			continue;
		alive++;
		shadowed += has_shadow_stack(text);
		seccomp = (unsigned)number(text, "Seccomp:", 10);
		facts->seccomp = ht_max(facts->seccomp, seccomp);
		least = ht_min(least, seccomp);
		facts->seccomp_filters =
			(unsigned)ht_max((unsigned long)facts->seccomp_filters,
					 number(text, "Seccomp_filters:", 10));
		if (state && facts->state == 'Z') {
			facts->live_tid = tids[i];
			facts->zombie_leader = true;
		}
	}
	facts->shadow_stacks = alive && shadowed == alive;
	facts->seccomp_least = least == UINT_MAX ? HT_SECCOMP_NONE : least;
	free(tids);
}

/* A process that ends loses its memory, and each file of it, long before its pid. */
static bool is_gone(int error)
{
	return error == -ENOENT || error == -ESRCH;
}

/* Whether we may: only two errors are a refusal. */
static int try_memory(int threadfd, struct ht_facts *facts)
{
	_cleanup_(ht_fd_closep) int mem =
		threadfd < 0 ? threadfd :
			       ht_errno_of(openat(threadfd, "mem", O_RDWR | O_CLOEXEC));

	facts->may_attach = mem >= 0;
	facts->no_memory = is_gone(mem);
	if (mem >= 0 || facts->no_memory || mem == -EACCES || mem == -EPERM)
		return 0;
	return mem;
}

static void read_program(int threadfd, struct ht_facts *facts)
{
	_cleanup_(ht_fd_closep) int exe = openat(threadfd, "exe", O_RDONLY | O_CLOEXEC);
	Elf64_Ehdr header;
	ssize_t n = readlinkat(threadfd, "exe", facts->exe, sizeof(facts->exe) - 1);

	facts->exe[ht_max(n, (ssize_t)0)] = '\0';
	make_printable(facts->exe);
	if (exe < 0 || ht_fd_pread_all(exe, &header, sizeof(header), 0) < 0)
		return;
	facts->elf_known = !memcmp(header.e_ident, ELFMAG, SELFMAG);
	facts->is_64bit = facts->elf_known && header.e_ident[EI_CLASS] == ELFCLASS64 &&
			  header.e_machine == EM_X86_64;
}

static enum ht_libc libc_of_line(const char *line, size_t len)
{
	static const struct {
		const char *name;
		enum ht_libc libc;
	} known[] = {
		{ "/ld-musl-", HT_LIBC_MUSL },
		{ "/libc.musl-", HT_LIBC_MUSL },
		{ "/libc.so.6", HT_LIBC_GLIBC },
		{ "/libc-2.", HT_LIBC_GLIBC },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (memmem(line, len, known[i].name, strlen(known[i].name)))
			return known[i].libc;
	}
	/* The file that musl's ld-musl-*.so.1 often is a link to; glibc's libc.so is text. */
	if (len > 8 && !memcmp(line + len - 8, "/libc.so", 8))
		return HT_LIBC_MUSL;
	return HT_LIBC_UNKNOWN;
}

static void read_libc(int threadfd, struct ht_facts *facts)
{
	_cleanup_(ht_buf_fini) struct ht_buf maps = HT_BUF_INIT;
	bool has_loader = false;

	if (ht_buf_read_file(&maps, threadfd, "maps", MAPS_MAX) < 0 || !maps.len)
		return;
	for (const char *line = maps.data; *line;) {
		size_t len = strcspn(line, "\n");

		facts->libc = libc_of_line(line, len);
		if (facts->libc != HT_LIBC_UNKNOWN)
			return;
		if (memmem(line, len, "/ld-linux", 9))
			has_loader = true;
		line += len + (line[len] == '\n');
	}
	facts->libc = has_loader ? HT_LIBC_UNKNOWN : HT_LIBC_STATIC;
}

/* "0::/path" is cgroup v2, "7:freezer:/path" v1. */
static bool is_frozen_group(const char *line, size_t len)
{
	char path[1024], text[256];
	const char *group = memchr(line, ':', len);
	uint64_t frozen = 0;
	bool v1;

	if (!group || !memchr(group + 1, ':', len - (size_t)(group + 1 - line)))
		return false;
	v1 = !strncmp(group, ":freezer:", 9);
	if (!v1 && strncmp(line, "0::", 3))
		return false;
	group = (const char *)memchr(group + 1, ':', len) + 1;
	len -= (size_t)(group - line);
	for (int unified = 0; unified < 2; unified++) {
		snprintf(path, sizeof(path), "%s%s%.*s/%s", ht_cgroup_root,
			 v1 ? "/freezer" : (unified ? "/unified" : ""), (int)len, group,
			 v1 ? "freezer.state" : "cgroup.events");
		if (ht_proc_read(AT_FDCWD, path, text, sizeof(text)) < 0)
			continue;
		if (v1)
			return strncmp(text, "THAWED", 6) != 0;
		return ht_proc_field(text, "frozen ", 10, &frozen) && frozen;
	}
	return false;
}

static void read_cgroup(int dirfd, struct ht_facts *facts)
{
	char text[HT_PROC_TEXT];

	if (ht_proc_read(dirfd, "cgroup", text, sizeof(text)) < 0)
		return;
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");

		if (is_frozen_group(line, len))
			facts->frozen = true;
		line += len + (line[len] == '\n');
	}
}

pid_t ht_facts_process_of(pid_t tid, char ret_name[static 32])
{
	_cleanup_(ht_fd_closep) int fd = -1;
	char path[32], text[HT_PROC_TEXT];
	pid_t tgid;

	ret_name[0] = '\0';
	snprintf(path, sizeof(path), "%d", tid);
	fd = open_proc(path);
	if (fd < 0 || ht_proc_read(fd, "status", text, sizeof(text)) < 0)
		return tid;
	tgid = (pid_t)number(text, "Tgid:", 10);
	if (tgid <= 0)
		return tid;
	if (tgid != tid) {
		/* A thread may have a name of its own. */
		(void)ht_fd_close(fd);
		snprintf(path, sizeof(path), "%d", tgid);
		fd = open_proc(path);
	}
	if (fd >= 0)
		read_name(fd, ret_name, 32);
	return tgid;
}

/* The thread that still has memory and a program: see injection of zombie leaders. */
static int open_live_thread(int dirfd, const struct ht_facts *facts)
{
	char path[32];

	snprintf(path, sizeof(path), "task/%d", facts->live_tid);
	return ht_errno_of(openat(dirfd, facts->zombie_leader ? path : ".",
				  O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static void read_status(struct ht_facts *facts, const char *status)
{
	facts->tgid = (pid_t)number(status, "Tgid:", 10);
	facts->tracer = (pid_t)number(status, "TracerPid:", 10);
	facts->threads = (unsigned)number(status, "Threads:", 10);
	facts->lib_kib = number(status, "VmLib:", 10);
	facts->core_dumping = number(status, "CoreDumping:", 10);
}

bool ht_facts_no_proc(struct ht_err *err)
{
	_cleanup_(ht_fd_closep) int self = open_proc("self");

	if (!is_gone(self))
		return false;
	ht_err_set(err, HT_ERR_FAILED, self,
		   "%s isn't mounted, or is that of another PID namespace; mount it: mount -t proc proc /proc",
		   ht_proc_root);
	return true;
}

static int cant_look(pid_t pid, int error, struct ht_err *err)
{
	if (!is_gone(error))
		return ht_err_set(err, HT_ERR_FAILED, error, "can't look at process %d: %s%s",
				  pid, strerror(-error), ht_err_advice(error));
	if (ht_facts_no_proc(err))
		return -ENODEV;
	return ht_err_set(err, HT_ERR_GONE, -ESRCH,
			  "no process %d: it ended, or has another pid here (in a container); see ps -e",
			  pid);
}

int ht_facts_read_again(pid_t pid, struct ht_facts *ret_facts)
{
	_cleanup_(ht_fd_closep) int dirfd = -1;
	struct ht_facts facts = { .pid = pid };
	char status[HT_PROC_TEXT], path[32];

	snprintf(path, sizeof(path), "%d", pid);
	dirfd = open_proc(path);
	if (dirfd < 0 || ht_proc_read(dirfd, "status", status, sizeof(status)) < 0)
		return -ESRCH;
	read_status(&facts, status);
	read_name(dirfd, facts.name, sizeof(facts.name));
	read_threads(dirfd, &facts);
	*ret_facts = facts;
	return 0;
}

int ht_facts_read(pid_t pid, struct ht_facts *ret_facts, struct ht_err *err)
{
	_cleanup_(ht_fd_closep) int dirfd = -1;
	_cleanup_(ht_fd_closep) int selffd = open_proc("self");
	_cleanup_(ht_fd_closep) int threadfd = -1;
	char status[HT_PROC_TEXT], self_status[HT_PROC_TEXT] = "", path[32];
	struct ht_facts facts = { .pid = pid };
	struct ht_proc_stat stat_file = { 0 };
	struct stat st;
	int r;

	snprintf(path, sizeof(path), "%d", pid);
	r = dirfd = pid > 0 ? open_proc(path) : -ENOENT;
	if (r >= 0)
		r = ht_proc_read(dirfd, "status", status, sizeof(status));
	if (r >= 0)
		r = ht_proc_stat(dirfd, "stat", &stat_file);
	if (r < 0)
		return cant_look(pid, r, err);
	if (selffd >= 0 && ht_proc_read(selffd, "status", self_status, HT_PROC_TEXT) < 0)
		self_status[0] = '\0';
	facts.state = stat_file.state;
	facts.ppid = stat_file.ppid;
	facts.kernel_thread = stat_file.flags & HT_PF_KTHREAD;
	facts.start_time = stat_file.start_time;
	read_status(&facts, status);
	read_name(dirfd, facts.name, sizeof(facts.name));
	compare_credentials(&facts, status, self_status);
	read_user(&facts);
	/* The folder itself is its owner's in any case. */
	facts.dumpable = !fstatat(dirfd, "status", &st, 0) && st.st_uid == facts.euid;
	facts.our_seccomp = (unsigned)number(self_status, "Seccomp:", 10);
	facts.our_seccomp_filters = (unsigned)number(self_status, "Seccomp_filters:", 10);
	/* The kernel names the thread that traces; people end processes. */
	if (facts.tracer)
		facts.tracer = ht_facts_process_of(facts.tracer, facts.tracer_name);
	compare_with_self(&facts, self_status);
	read_threads(dirfd, &facts);
	threadfd = open_live_thread(dirfd, &facts);
	r = try_memory(threadfd, &facts);
	if (r < 0)
		return cant_look(pid, r, err);
	if (threadfd >= 0) {
		read_program(threadfd, &facts);
		read_libc(threadfd, &facts);
	}
	read_cgroup(dirfd, &facts);
	read_kernel_facts(&facts);
	*ret_facts = facts;
	return 0;
}
