/* SPDX-License-Identifier: Apache-2.0
 *
 * proc.h: the few things that this folder wants from text files of /proc, read into buffers
 * of the caller: nothing here allocates, so all may run while the target is stopped.
 */
#ifndef HT_ATTACH_PROC_H
#define HT_ATTACH_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"

/* Enough for /proc/PID/status and stat; what is longer is cut. */
#define HT_PROC_TEXT 4096

/* Read the file at @path under @dirfd as a string. Its length, or negative errno; -ESRCH
 * for a process that is gone. */
int ht_proc_read(int dirfd, const char *path, char *buf, size_t cap) _must_check_
	_nonnull_;

/* The number behind "\nKEY:" (@key with its colon) in base @base; false: no such line. */
bool ht_proc_field(const char *text, const char *key, int base, uint64_t *ret_value)
	_nonnull_;

struct ht_proc_stat {
	char state;
	pid_t ppid;
	uint64_t flags;		/* PF_* of the kernel */
	uint64_t threads;
	uint64_t start_time;	/* ticks since boot */
	uint64_t start_stack;	/* 0 without permission */
};

#define HT_PF_KTHREAD UINT64_C(0x00200000)

/* @text is that of /proc/PID/stat. False when it isn't one. */
bool ht_proc_parse_stat(const char *text, struct ht_proc_stat *ret_stat) _nonnull_;
/* Read and parse @path. 0 or negative errno. */
int ht_proc_stat(int dirfd, const char *path, struct ht_proc_stat *ret_stat)
	_must_check_ _nonnull_;

/* The thread ids in the open directory /proc/PID/task, at most @cap: how many there are,
 * which may be more than @cap; or negative errno. */
int ht_proc_tasks(int taskfd, pid_t *tids, size_t cap) _must_check_
	_nonnull_args_(2);

#endif
