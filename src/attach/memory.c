/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c: reading and writing the target's memory through /proc/PID/mem, and text through
 * ptrace.
 *
 * The mem file is bound to the address space that the process had when it was opened:
 * after an exec it reads as empty, and a write can't hit the new program.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "attach/attach-priv.h"

/* EIO is what the mem file says for an address where nothing is mapped, EINVAL is what the
 * kernel says before it asks it, for the upper half of all addresses. */
static int result_of(ssize_t n, int error)
{
	if (n == 0)
		return -ESRCH;
	if (error == EIO || error == EFAULT || error == EINVAL)
		return -EFAULT;
	return -error;
}

int ht_target_read(const struct ht_target *target, ht_addr_t addr, void *buf, size_t len)
{
	char *p = buf;

	while (len) {
		ssize_t n = pread(target->memfd, p, len, (off_t)addr);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return result_of(n, errno);
		p += n;
		addr += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

int ht_target_write(const struct ht_target *target, ht_addr_t addr, const void *buf,
		    size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = pwrite(target->memfd, p, len, (off_t)addr);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return result_of(n, errno);
		p += n;
		addr += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

int ht_target_poke(const struct ht_target *target, ht_addr_t addr, uint64_t word)
{
	long r = -ESRCH;

	for (size_t i = 0; i < target->n_threads && r == -ESRCH; i++) {
		const struct ht_thread *thread = &target->threads[i];

		if (thread->state == HT_THREAD_STOPPED)
			r = ht_ptrace(PTRACE_POKEDATA, thread->tid, addr, word);
	}
	return r == -EIO ? -EFAULT : (int)r;
}

int ht_target_poke_bytes(const struct ht_target *target, ht_addr_t addr, const void *bytes,
			 size_t len)
{
	const uint8_t *p = bytes;

	while (len) {
		size_t n = ht_min(len, sizeof(uint64_t));
		uint64_t word;
		int r = ht_target_read(target, addr, &word, sizeof(word));

		if (r < 0)
			return r;
		memcpy(&word, p, n);
		r = ht_target_poke(target, addr, word);
		if (r < 0)
			return r;
		p += n;
		addr += n;
		len -= n;
	}
	return 0;
}
