/* SPDX-License-Identifier: Apache-2.0
 *
 * record_rig.h: what stands around the hook's writer in its test: a gate, a ring or a socket of
 * the test's own, the reader that takes what came.
 */
#ifndef HT_TESTS_RECORD_RIG_H
#define HT_TESTS_RECORD_RIG_H

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hook/hook.h"
#include "ht_check.h"
#include "ipc/ring.h"

struct ht_hook_config ht_hook_config;

static struct ht_ring *ring;
static const struct ht_ring_map *const map = &ht_hook_config.ring;

/* --- the gate: asked once in each step of waiting --- */

static bool is_open;
static unsigned asked;
static void (*when_asked)(void);

bool ht_gate_open(void)
{
	asked++;
	if (when_asked)
		when_asked();
	return is_open;
}

/* --- a signal handler's child, in which the ring is gone at the n-th look --- */

static unsigned wiped_in;
static bool is_wiped;

bool ht_gate_wiped(void)
{
	if (wiped_in && !--wiped_in) {
		ck_assert_int_eq(mprotect((char *)ht_ring(), ht_ring_map_size(ring), PROT_NONE), 0);
		is_wiped = true;
		is_open = false;
	}
	return is_wiped;
}

/* --- what the tool knows of the thread's stack --- */

static struct ht_thread slot;

struct ht_thread *ht_thread_find(uint64_t thread)
{
	return thread == ht_hook_thread_pointer() ? &slot : NULL;
}

/* --- what came --- */

static _Alignas(8) char last[2 << 20];
static struct ht_record_alloc *const got = (struct ht_record_alloc *)last;
static unsigned records;

static int keep(void *arg, const struct ht_record *record)
{
	memcpy(last, record, record->size);
	records++;
	return 0;
}

static int read_head(void *arg, void *buf, size_t len)
{
	memcpy(buf, (void *)(uintptr_t)map->base, len);
	return 0;
}

static void drain(void)
{
	records = 0;
	if (ht_hook_config.flags & HT_CONFIG_SOCKET)
		ck_ok(ht_ring_look(ring, read_head, NULL));
	ck_ok(ht_ring_drain(ring, keep, NULL));
}

static struct ht_ring_counters counters(void)
{
	struct ht_ring_counters c;

	if (ht_hook_config.flags & HT_CONFIG_SOCKET)
		ck_ok(ht_ring_look(ring, read_head, NULL));
	ht_ring_counters(ring, &c);
	return c;
}

static void use_ring(uint32_t flags, int how)
{
	char *base = mmap(NULL, ht_ring_map_size(ring), PROT_READ | PROT_WRITE, how,
			  ht_ring_fd(ring), 0);

	ck_assert_ptr_ne(base, MAP_FAILED);
	ht_hook_config = (struct ht_hook_config){
		.flags = flags, .max_stack = 64 << 10, .block_us = 1000,
		.pid = (uint64_t)getpid(),
		.ring = ht_ring_map_at(ring, (uint64_t)(uintptr_t)base),
	};
	is_open = true;
	is_wiped = false;
	wiped_in = 0;
	asked = 0;
	when_asked = NULL;
	slot = (struct ht_thread){ 0 };
}

static void start(uint64_t ring_size, uint32_t flags)
{
	ck_ok(ht_ring_new(ring_size, &ring, NULL));
	use_ring(flags, MAP_SHARED);
}

static uint64_t gate;

static void start_socket(uint32_t flags)
{
	struct stat st;
	int pair[2];

	ck_ok(ht_ring_new_private(&ring, NULL));
	use_ring(flags | HT_CONFIG_SYSCALLS | HT_CONFIG_SOCKET, MAP_PRIVATE | MAP_ANONYMOUS);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(fstat(pair[0], &st), 0);
	ht_ring_set_socket(ring, pair[1], 1 << 20);
	ht_hook_config.socket =
		(struct ht_socket_id){ (uint64_t)pair[0], st.st_dev, st.st_ino };
	ht_hook_config.gate = (uint64_t)(uintptr_t)&gate;
	gate = HT_GATE_ON;
}

static void end(void)
{
	if (ht_hook_config.flags & HT_CONFIG_SOCKET)
		close((int)ht_hook_config.socket.fd);
	munmap((char *)ht_ring(), ht_ring_map_size(ring));
	ring = ht_ring_free(ring);
}

#endif
