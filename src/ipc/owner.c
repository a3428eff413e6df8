/* SPDX-License-Identifier: Apache-2.0
 *
 * owner.c: see owner.h. The robust list's ABI: Documentation/locking/robust-futex-ABI.rst
 * of the kernel.
 */
#include "ipc/owner.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "heaptap/wire.h"

_Static_assert(HT_OWNER_DIED == FUTEX_OWNER_DIED, "the kernel's bit");

static _Thread_local struct {
	struct robust_list_head head;
	struct robust_list entry;
	struct robust_list_head *before;	/* the C library's */
	size_t before_len;
} held;

int ht_owner_hold(uint32_t *word)
{
	int r;

	r = ht_errno_of(syscall(SYS_get_robust_list, 0, &held.before, &held.before_len));
	if (r < 0)
		return r;
	held.head.list.next = &held.entry;
	held.entry.next = &held.head.list;
	/* The word lies at this distance from the entry, wherever both are. */
	held.head.futex_offset = (long)((uintptr_t)word - (uintptr_t)&held.entry);
	held.head.list_op_pending = NULL;
	__atomic_store_n(word, (uint32_t)gettid(), __ATOMIC_SEQ_CST);
	r = ht_errno_of(syscall(SYS_set_robust_list, &held.head, sizeof(held.head)));
	if (r < 0)
		ht_owner_drop(word);
	return r;
}

bool ht_owner_intact(uint32_t *word)
{
	uint32_t me = (uint32_t)gettid();

	if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == me)
		return true;
	__atomic_store_n(word, me, __ATOMIC_SEQ_CST);
	return false;
}

void ht_owner_drop(uint32_t *word)
{
	__atomic_store_n(word, HT_OWNER_DIED, __ATOMIC_SEQ_CST);
	if (held.before)
		syscall(SYS_set_robust_list, held.before, held.before_len);
}
