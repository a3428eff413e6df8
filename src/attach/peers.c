/* SPDX-License-Identifier: Apache-2.0
 *
 * peers.c: other processes that run in the target's memory (CLONE_VM without CLONE_THREAD).
 *
 * They aren't in task/ and go on while all threads are stopped, perhaps right through the
 * bytes that are being patched. Nothing in /proc tells of them, so all processes are
 * compared, in about a microsecond each. Those of other users, whom we may not look at,
 * don't share memory with one that we may.
 */
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/attach-priv.h"
#include "attach/proc.h"
#include "base/fd.h"

static bool shares_memory(const struct ht_target *target, pid_t pid)
{
	return syscall(SYS_kcmp, target->live_tid, pid, KCMP_VM, 0, 0) == 0;
}

pid_t ht_target_find_peer(const struct ht_target *target)
{
	_cleanup_(ht_fd_closep) int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t first, found = 0, *pids;
	int n = fd < 0 ? -1 : ht_proc_tasks(fd, &first, 1);

	pids = n > 0 ? calloc((size_t)n, sizeof(*pids)) : NULL;

	/* Some come and go in between. */
	n = pids ? ht_min(ht_proc_tasks(fd, pids, (size_t)n), n) : 0;
	for (int i = 0; i < n && !found; i++)
		if (pids[i] != target->pid && shares_memory(target, pids[i]))
			found = pids[i];
	free(pids);
	return found;
}

int ht_target_refuse_peer(const struct ht_target *target, pid_t peer, struct ht_err *err)
{
	char name[32];

	peer = ht_facts_process_of(peer, name);
	return ht_err_set(err, HT_ERR_UNSUPPORTED, -ETIMEDOUT,
			  "can't %s %d (%s): %s (pid %d) shares its memory and would run on; end that one first",
			  ht_purpose_verb(target->purpose), target->pid, target->facts.name,
			  *name ? name : "another process", (int)peer);
}
