/* SPDX-License-Identifier: Apache-2.0
 *
 * facts.h: what /proc says about a process, and whether and why not it can be tapped. The
 * one source of the texts that `doctor` and a refusing `attach` print.
 */
#ifndef HT_ATTACH_FACTS_H
#define HT_ATTACH_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/err.h"

enum ht_libc {
	HT_LIBC_UNKNOWN,
	HT_LIBC_GLIBC,
	HT_LIBC_MUSL,
	HT_LIBC_STATIC,
};

/* As /proc/PID/status numbers them. */
enum ht_seccomp {
	HT_SECCOMP_NONE,
	HT_SECCOMP_STRICT,
	HT_SECCOMP_FILTER,
};

struct ht_facts {
	pid_t pid;
	pid_t tgid;		/* differs from pid when that is a thread's id */
	pid_t ppid;
	pid_t live_tid;		/* pid, or a live thread when the leader is a zombie */
	pid_t tracer;		/* its process; 0: not traced, or by ourselves */
	char tracer_name[32];
	char name[32];		/* comm, made printable */
	char exe[256];		/* as the target sees it; "" when unreadable */
	uid_t uid;		/* real uid of the target */
	uid_t euid;
	char user[32];		/* name of uid, or the number */
	char state;		/* as in /proc/PID/stat */
	bool kernel_thread;
	bool zombie_leader;	/* main thread gone, others live */
	bool elf_known;		/* its program file could be read */
	bool is_64bit;		/* its ELF class and machine are ours */
	bool same_user;
	bool dumpable;		/* /proc/PID is owned by its uid */
	bool may_attach;	/* the kernel let us open its memory for writing */
	bool no_memory;		/* there was none to open */
	bool has_cap_ptrace;	/* ours */
	bool has_cap_dac;	/* to open files of others, too */
	bool has_cap_admin;	/* ours; lets us suspend its seccomp filter */
	bool more_caps;		/* it has capabilities that we haven't */
	uid_t our_uid;
	bool frozen;		/* cgroup freezer */
	bool core_dumping;
	bool is_self;
	bool is_self_or_tracer;	/* ourselves, or what traces us */
	bool shadow_stacks;	/* enforced in all its threads */
	unsigned seccomp;	/* enum ht_seccomp; highest of all threads */
	unsigned seccomp_least;	/* lowest of all threads */
	unsigned seccomp_filters;	/* of the thread with the most */
	unsigned our_seccomp;
	unsigned our_seccomp_filters;
	int yama;		/* ptrace_scope, -1: no yama */
	unsigned threads;
	uint64_t lib_kib;	/* code of its libraries that is mapped; 0: unknown */
	enum ht_libc libc;
	uint64_t start_time;	/* clock ticks, field 22 of stat */
	unsigned kernel_major, kernel_minor;
};

/* True, and @err says so: there's no /proc to look into, so nobody is known to be gone. */
bool ht_facts_no_proc(struct ht_err *err);

/* Root of the proc file system; "/proc" but in tests. */
extern const char *ht_proc_root;
/* Where cgroup file systems are mounted; "/sys/fs/cgroup" but in tests. */
extern const char *ht_cgroup_root;

/* 0, or HT_ERR_GONE in err. Never needs permission: what can't be read stays zero. */
int ht_facts_read(pid_t pid, struct ht_facts *ret_facts, struct ht_err *err)
	_must_check_ _nonnull_args_(2);

/* Only those that matter while it is tapped, and that can change then: name, seccomp, threads
 * and lib_kib. Cheap: it reads no memory map. -ESRCH. */
int ht_facts_read_again(pid_t pid, struct ht_facts *ret_facts) _must_check_ _nonnull_;

/* The process that the thread @tid is of, and its name, made printable; @tid itself and ""
 * when that can't be read. */
pid_t ht_facts_process_of(pid_t tid, char ret_name[static 32]) _nonnull_;

/* What a process is wanted for. */
enum ht_purpose {
	HT_TO_TAP,
	HT_TO_CURE,
	HT_TO_RUN,	/* tap, from its launch on */
};

/* "tap", "cure" */
const char *ht_purpose_verb(enum ht_purpose purpose);

/* The oldest Linux that will do: the first with pidfd_getfd. */
#define HT_KERNEL_MAJOR 5
#define HT_KERNEL_MINOR 6

bool ht_facts_kernel_too_old(const struct ht_facts *facts) _nonnull_;

/* No thread of it lives. */
bool ht_facts_is_dead(const struct ht_facts *facts) _nonnull_;

/* A thread in seccomp mode @mode with @filters filters can't be borrowed: a filter may kill it
 * for any call. It can where we may suspend the filter, or live under the same one ourselves
 * (in the same container) and have made the same calls. */
bool ht_facts_filter_stays(const struct ht_facts *facts, unsigned mode, unsigned filters)
	_nonnull_;
/* Refuse for that reason. -EPERM. */
int ht_facts_refuse_filter(const struct ht_facts *facts, enum ht_purpose purpose,
			   struct ht_err *err) _nonnull_args_(1);

/* 0 when nothing known forbids it, else the refusal in err: what, why, next step. */
int ht_facts_obstacle(const struct ht_facts *facts, enum ht_purpose purpose,
		      struct ht_err *err) _must_check_ _nonnull_args_(1);

#endif
