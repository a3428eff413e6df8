/* SPDX-License-Identifier: Apache-2.0
 *
 * send.c: a record goes through the socket, as one message, or not at all. Never waits.
 *
 * The program doesn't know of the socket: it may close all files, and be given the number for
 * one of its own. So what has the number is asked for its identity before each use. Between
 * that and the sending another thread may still change it. Therefore the message is such that
 * others refuse it: what is no socket; sockets of other families and those of AF_UNIX that are
 * streams or datagrams, for the address, which nobody has; TCP, which doesn't look at
 * addresses, for MSG_FASTOPEN. Those of AF_UNIX that are SOCK_SEQPACKET look at neither; only
 * another one of these, made in that very moment, would take what wasn't meant for it.
 */
#include "hook/hook.h"

#define MSG_DONTWAIT 0x40
#define MSG_NOSIGNAL 0x4000
#define MSG_FASTOPEN 0x20000000

static const struct {
	uint16_t family;
	char name[6];
} nobody = { 1, "\0htap" };	/* AF_UNIX, abstract */

static bool is_ours(const struct ht_socket_id *id)
{
	struct ht_hook_stat st;

	return ht_hook_syscall(HT_NR_FSTAT, id->fd, (uint64_t)&st, 0, 0, 0, 0) == 0 &&
	       st.device == id->device && st.inode == id->inode;
}

/* Not a child that shares its memory, as one of vfork(2) does, or has a copy. */
static bool is_target(void)
{
	return !ht_hook_config.pid ||
	       (uint64_t)ht_hook_syscall(HT_NR_GETPID, 0, 0, 0, 0, 0, 0) == ht_hook_config.pid;
}

static void end(enum ht_ended why)
{
	__atomic_store_n(&ht_ring()->ended, (uint32_t)why, __ATOMIC_RELAXED);
	__atomic_store_n((uint64_t *)ht_hook_config.gate, HT_GATE_OFF, __ATOMIC_RELEASE);
}

enum ht_sent ht_send(const struct ht_record *record)
{
	const struct ht_socket_id *id = &ht_hook_config.socket;
	long n;

	if (unlikely(!ht_hook_may_call())) {
		end(HT_ENDED_FILTER);
		return HT_SENT_NOT;
	}
	/* Forked while it was here, in a signal handler: it has the socket, until it execs. */
	if (unlikely(!ht_gate_open()) && !is_target())
		return HT_SENT_NOT;
	if (likely(is_ours(id))) {
		n = ht_hook_syscall(HT_NR_SENDTO, id->fd, (uint64_t)record, record->size,
				    MSG_DONTWAIT | MSG_NOSIGNAL | MSG_FASTOPEN, (uint64_t)&nobody,
				    sizeof(nobody));
		if (likely(n == (long)record->size))
			return HT_SENT;
		if (n == -HT_EAGAIN || n == -HT_ENOBUFS || n == -HT_ENOMEM)
			return HT_SENT_FULL;
	}
	/* It was closed, or heaptap is gone. A child that shares the memory has files of its own,
	 * and closes them before an exec. */
	if (is_target())
		end(HT_ENDED_SOCKET);
	return HT_SENT_NOT;
}
