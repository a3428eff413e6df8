/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool's end of a socket: what comes is checked, and who is at work is known.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "ht_check.h"
#include "ipc/ring.h"
#include "ipc/writer.h"

#define LANE_SIZE (256 * 1024)

static struct ht_ring *ring;
static struct ht_ring_map map;	/* as the target has it */
static int target;		/* its end */
static _Alignas(8) char message[LANE_SIZE + 8];
static struct ht_record_alloc *const alloc = (struct ht_record_alloc *)message;
static struct ht_record_free *const one_free = (struct ht_record_free *)message;

static int read_head(void *arg, void *buf, size_t len)
{
	ck_assert_ptr_eq(arg, &map);
	memcpy(buf, (void *)(uintptr_t)map.base, len);
	return 0;
}

static int read_nothing(void *arg, void *buf, size_t len)
{
	memset(buf, 0xff, len);
	return -ESRCH;
}

static void look(void)
{
	ck_ok(ht_ring_look(ring, read_head, &map));
}

static struct ht_ring_counters counters(void)
{
	struct ht_ring_counters c;

	ht_ring_counters(ring, &c);
	return c;
}

static uint64_t seen, seen_bytes;
static int seen_result;

static int count(void *arg, const struct ht_record *record)
{
	seen++;
	seen_bytes += record->size;
	return seen_result;
}

static uint64_t drain(void)
{
	seen = 0;
	ck_ok(ht_ring_drain(ring, count, NULL));
	return seen;
}

static void start(void)
{
	int half = 100000, pair[2];
	void *base;

	ck_ok(ht_ring_new_private(&ring, NULL));
	ck_assert_int_eq(ht_ring_fd(ring), -1);
	ck_assert_int_eq(ht_ring_socket(ring), -1);
	base = mmap(NULL, ht_ring_map_size(ring), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(base, MAP_FAILED);
	map = ht_ring_map_at(ring, (uint64_t)(uintptr_t)base);
	ck_assert_uint_eq(map.lane_size, LANE_SIZE);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	target = pair[0];
	ck_assert_int_eq(setsockopt(target, SOL_SOCKET, SO_SNDBUF, &half, sizeof(half)), 0);
	ht_ring_set_socket(ring, pair[1], 200000);
	ck_assert_int_eq(ht_ring_socket(ring), pair[1]);
	*one_free = (struct ht_record_free){
		.head = { .size = sizeof(*one_free), .type = HT_RECORD_FREE, .seq = 1 },
	};
	seen_result = 0;
}

static void end(void)
{
	munmap((void *)(uintptr_t)map.base, ht_ring_map_size(ring));
	ht_fd_close(target);
	ring = ht_ring_free(ring);
}

static void send_bytes(size_t len)
{
	ck_assert_int_eq(send(target, message, len, MSG_DONTWAIT | MSG_NOSIGNAL), (ssize_t)len);
}

static void make_alloc(uint32_t stack_len)
{
	memset(message, 0, sizeof(message));
	alloc->head.size = (uint32_t)sizeof(*alloc) + stack_len;
	alloc->head.type = HT_RECORD_ALLOC;
	alloc->stack_len = stack_len;
}

START_TEST(what_is_sent_comes)
{
	start();
	ck_assert_uint_eq(drain(), 0);
	send_bytes(sizeof(*one_free));
	send_bytes(sizeof(*one_free));
	make_alloc(65536);
	send_bytes(alloc->head.size);
	seen_bytes = 0;
	ck_assert_uint_eq(drain(), 3);
	ck_assert_uint_eq(seen_bytes, 2 * sizeof(*one_free) + sizeof(*alloc) + 65536);
	ck_assert_uint_eq(counters().records, 3);
	ck_assert_uint_eq(counters().bytes, seen_bytes);
	ck_assert_uint_eq(counters().corrupt, 0);
	ck_assert_int_eq(ht_ring_ended(ring), HT_ENDED_NOT);
	end();
}
END_TEST

START_TEST(the_visitor_ends_it)
{
	start();
	send_bytes(sizeof(*one_free));
	send_bytes(sizeof(*one_free));
	seen = 0;
	seen_result = -EIO;
	ck_assert_int_eq(ht_ring_drain(ring, count, NULL), -EIO);
	ck_assert_uint_eq(seen, 1);
	seen_result = 0;
	ck_assert_uint_eq(drain(), 1);
	end();
}
END_TEST

/* Too short, too long, not what it says, of no kind: each is dropped, and counted. */
START_TEST(no_records)
{
	uint64_t bad = 0;

	start();
	for (size_t len = 1; len < sizeof(*one_free); len++, bad++)
		send_bytes(len);
	send_bytes(sizeof(*one_free) + 8);
	bad++;
	one_free->head.size += 8;
	send_bytes(sizeof(*one_free) + 8);
	bad++;
	ck_assert_uint_eq(drain(), 0);
	for (unsigned type = 0; type < 9; type++) {
		if (type == HT_RECORD_FREE)
			continue;
		one_free->head.size = sizeof(*one_free);
		one_free->head.type = (uint16_t)type;
		send_bytes(sizeof(*one_free));
		bad++;
	}
	make_alloc(64);
	alloc->stack_len = 65;
	send_bytes(alloc->head.size);
	bad++;
	alloc->stack_len = UINT32_MAX;
	send_bytes(alloc->head.size);
	bad++;
	make_alloc(60);
	send_bytes(alloc->head.size);
	bad++;
	ck_assert_uint_eq(drain(), 0);
	ck_assert_uint_eq(counters().corrupt, bad);
	end();
}
END_TEST

START_TEST(longer_than_a_record)
{
	int half = 1 << 20;

	start();
	if (!ht_check_have(setsockopt(target, SOL_SOCKET, SO_SNDBUFFORCE, &half,
				      sizeof(half)) == 0, "CAP_NET_ADMIN"))
		return;
	make_alloc(LANE_SIZE - (uint32_t)sizeof(*alloc));
	send_bytes(LANE_SIZE);
	ck_assert_uint_eq(drain(), 1);
	make_alloc(LANE_SIZE + 8 - (uint32_t)sizeof(*alloc));
	send_bytes(LANE_SIZE + 8);
	ck_assert_uint_eq(drain(), 0);
	ck_assert_uint_eq(counters().corrupt, 1);
	end();
}
END_TEST

/* What a message carries besides is not taken. */
START_TEST(files_are_not_taken)
{
	union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control = { 0 };
	struct iovec iov = { message, sizeof(*one_free) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
			    .msg_controllen = sizeof(control.bytes) };
	int fds[2];

	start();
	ck_assert_int_eq(pipe(fds), 0);
	control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
					   .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.header), &fds[1], sizeof(int));
	ck_assert_int_eq(sendmsg(target, &m, 0), (ssize_t)sizeof(*one_free));
	ht_fd_close(fds[1]);
	ck_assert_uint_eq(drain(), 1);
	/* Nobody has its other end any more. */
	ck_assert_int_eq(read(fds[0], message, 1), 0);
	ht_fd_close(fds[0]);
	end();
}
END_TEST

/* A target that sends as fast as we read doesn't hold us. */
static int send_another(void *arg, const struct ht_record *record)
{
	seen++;
	send_bytes(sizeof(*one_free));
	return 0;
}

START_TEST(a_drain_has_an_end)
{
	uint64_t n = 0;

	start();
	send_bytes(sizeof(*one_free));
	seen = 0;
	ck_ok(ht_ring_drain(ring, send_another, NULL));
	ck_assert_uint_gt(seen, 100);
	ck_assert_uint_eq(drain(), 1);
	/* But all that can be there at once comes at once. */
	while (send(target, message, sizeof(*one_free), MSG_DONTWAIT) > 0)
		n++;
	ck_assert_uint_gt(n, 100);
	ck_assert_uint_eq(drain(), n);
	end();
}
END_TEST

/* Even of the smallest messages, whose overhead is most of what the kernel counts. */
START_TEST(what_was_full_is_known)
{
	static const uint32_t stacks[] = { 0, 4096, 65536 };

	start();
	for (size_t i = 0; i < ARRAY_SIZE(stacks); i++) {
		make_alloc(stacks[i]);
		send_bytes(alloc->head.size);
		drain();
		ck_assert(!ht_ring_was_full(ring));
		while (send(target, message, alloc->head.size, MSG_DONTWAIT) > 0)
			continue;
		drain();
		ck_assert(ht_ring_was_full(ring));
		ck_assert_int_eq(ht_ring_look(ring, read_nothing, NULL), -ESRCH);
		ck_assert(ht_ring_was_full(ring));
		look();
		ck_assert(!ht_ring_was_full(ring));
	}
	end();
}
END_TEST

static struct ht_lane *lane(uint32_t i)
{
	return ht_lane_at(&map, i);
}

START_TEST(losses_are_seen)
{
	start();
	lane(0)->lost_allocs = 3;
	lane(1)->lost_allocs = 4;
	lane(1)->lost_bytes = 500;
	lane(2)->lost_frees = 6;
	lane(3)->waits = 7;
	lane(4)->drops = 8;
	ck_assert_uint_eq(counters().lost_allocs, 0);
	look();
	ck_assert_uint_eq(counters().lost_allocs, 7);
	ck_assert_uint_eq(counters().lost_bytes, 500);
	ck_assert_uint_eq(counters().lost_frees, 6);
	ck_assert_uint_eq(counters().waits, 7);
	ck_assert_uint_eq(counters().drops, 8);
	/* What can't be read any more stays as it was seen. */
	ck_assert_int_eq(ht_ring_look(ring, read_nothing, &map), -ESRCH);
	ck_assert_uint_eq(counters().lost_allocs, 7);
	end();
}
END_TEST

static bool quiesced(void)
{
	look();
	(void)drain();
	return ht_ring_quiesced(ring);
}

/* Whoever was in a lane must have left it, or gone on to another record. */
START_TEST(writers_are_waited_for)
{
	start();
	ck_assert(quiesced());
	lane(2)->owner = 1;
	ck_assert(quiesced());
	ck_assert(!quiesced());
	ck_assert(!quiesced());
	lane(2)->owner = 0;
	ck_assert(quiesced());
	lane(2)->owner = 1;
	ck_assert(quiesced());
	lane(2)->head += LANE_SIZE;
	lane(2)->tail += LANE_SIZE;
	ck_assert(quiesced());
	ck_assert(!quiesced());
	lane(2)->owner = 0;
	lane(1)->resizing = 1;
	ck_assert(quiesced());
	ck_assert(!quiesced());
	lane(1)->resizing = 0;
	ck_assert(!quiesced());
	ck_assert(quiesced());
	end();
}
END_TEST

static int begin_to_write(void *arg, const struct ht_record *record)
{
	lane(5)->owner = 1;
	return 0;
}

/* One who came during the drain may have a place before what was drained. */
START_TEST(writers_that_come_meanwhile)
{
	start();
	look();
	send_bytes(sizeof(*one_free));
	ck_ok(ht_ring_drain(ring, begin_to_write, NULL));
	ck_assert(ht_ring_quiesced(ring));
	ck_assert(!quiesced());
	lane(5)->owner = 0;
	ck_assert(quiesced());
	end();
}
END_TEST

START_TEST(why_it_ended)
{
	struct ht_ring_header *head;

	start();
	head = (struct ht_ring_header *)(uintptr_t)map.base;
	head->ended = HT_ENDED_FILTER;
	look();
	ck_assert_int_eq(ht_ring_ended(ring), HT_ENDED_FILTER);
	head->ended = HT_ENDED_SOCKET;
	look();
	ck_assert_int_eq(ht_ring_ended(ring), HT_ENDED_SOCKET);
	head->ended = 77;
	look();
	ck_assert_int_eq(ht_ring_ended(ring), HT_ENDED_SOCKET);
	head->ended = 0;
	look();
	ck_assert_int_eq(ht_ring_ended(ring), HT_ENDED_NOT);
	/* Closed, but what was sent before still comes. */
	send_bytes(sizeof(*one_free));
	target = ht_fd_close(target);
	ck_assert_uint_eq(drain(), 1);
	ck_assert_int_eq(ht_ring_ended(ring), HT_ENDED_SOCKET);
	ck_assert_int_eq(ht_ring_socket(ring), -1);
	ck_assert_uint_eq(drain(), 0);
	end();
}
END_TEST

int main(void)
{
	return ht_check_run("socket", (const TTest *const[]){
		what_is_sent_comes, the_visitor_ends_it, no_records, longer_than_a_record,
		files_are_not_taken, a_drain_has_an_end, what_was_full_is_known, losses_are_seen, writers_are_waited_for,
		writers_that_come_meanwhile, why_it_ended, NULL });
}
