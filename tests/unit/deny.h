/* SPDX-License-Identifier: Apache-2.0
 *
 * deny.h: let a system call fail from now on, as on another kernel or file system.
 */
#ifndef HT_TESTS_UNIT_DENY_H
#define HT_TESTS_UNIT_DENY_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>

/* System call @nr ends in @action, DENY_WITH(EPERM) or DENY_DEADLY, when all @bits are set
 * in its argument @arg. False: this can't be had here. There is no way back. */
#define DENY_WITH(error) (SECCOMP_RET_ERRNO | (error))
#define DENY_DEADLY SECCOMP_RET_KILL_PROCESS
static inline bool deny_syscall(unsigned nr, unsigned arg, unsigned bits, unsigned action)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 (unsigned)offsetof(struct seccomp_data, args) + 8 * arg),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bits, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#endif
