/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_socket.c: the reader of the socket against a target that sends whatever it likes, with
 * files or without, while the lanes in its memory say something else at each look. Records go
 * on to the ledger. The input is what they do, one after the other.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "fuzz_tap.h"
#include "ipc/ring.h"
#include "ipc/writer.h"

#define CAPACITY (256 * 1024)
#define HEAD_MAX (HT_RING_PAGE + HT_MAX_LANES * HT_LANE_HEADER)

/* The first byte of each act. The target's are those before DRAIN. */
enum act { SEND, SEND_LONG, SEND_FILES, SEND_NOTHING, LANE_WORD, ENDED, CLOSE, DRAIN, LOOK,
	   ACTS };

static struct fuzz_input in;
static struct ht_ring *ring;
static int target;		/* its end */
static int pipe_ends[2];
static uint8_t head[HEAD_MAX];	/* in the target */
static uint8_t message[300 * 1024];
static bool draining, failing;
static uint64_t visits;

static void send_bytes(size_t len)
{
	(void)!send(target, message, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void send_message(void)
{
	size_t len = fuzz_u16(&in) & 4095;

	fuzz_read(&in, message, len);
	send_bytes(len);
}

/* A record that says how long it is, or nearly. */
static void send_long(void)
{
	struct ht_record_alloc *record = (struct ht_record_alloc *)message;
	size_t len = (size_t)fuzz_u16(&in) * 8 % sizeof(message);

	memset(record, 0, sizeof(*record));
	record->head.size = (uint32_t)len + (uint32_t)((int8_t)fuzz_byte(&in) / 16 * 8);
	record->head.type = fuzz_byte(&in) % HT_RECORD_TYPES;
	record->head.seq = fuzz_byte(&in);
	record->addr = fuzz_u16(&in);
	record->size = fuzz_u16(&in);
	record->interval = FUZZ_INTERVAL;
	record->pc = FUZZ_TEXT + fuzz_u16(&in) % FUZZ_TEXT_LEN;
	record->stack_len = record->head.size - (uint32_t)sizeof(*record) + fuzz_byte(&in) % 2;
	send_bytes(len);
}

/* Some of them the socket itself. */
static void send_files(void)
{
	union { struct cmsghdr header; char bytes[CMSG_SPACE(8 * sizeof(int))]; } control = { 0 };
	size_t len = fuzz_u16(&in) & 255, n = fuzz_byte(&in) % 9;
	struct iovec iov = { message, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
			    .msg_controllen = CMSG_SPACE(n * sizeof(int)) };
	int fds[8];

	control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(n * sizeof(int)),
					   .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	if (pipe_ends[0] < 0)
		CHECK(pipe(pipe_ends) == 0);
	for (size_t i = 0; i < n; i++)
		fds[i] = i % 4 == 3 ? target : pipe_ends[1];
	memcpy(CMSG_DATA(&control.header), fds, n * sizeof(int));
	fuzz_read(&in, message, len);
	(void)!sendmsg(target, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void put_word(void)
{
	size_t lane = fuzz_byte(&in) % HT_MAX_LANES, word = fuzz_byte(&in) % 9;
	uint64_t value = fuzz_byte(&in) % 2 ? fuzz_u64(&in) : fuzz_byte(&in);

	memcpy(head + HT_RING_PAGE + lane * HT_LANE_HEADER + word * 8, &value, sizeof(value));
}

static void target_acts(void)
{
	switch ((enum act)(fuzz_byte(&in) % DRAIN)) {
	case SEND:
		send_message();
		break;
	case SEND_LONG:
		send_long();
		break;
	case SEND_FILES:
		send_files();
		break;
	case SEND_NOTHING:
		send_bytes(0);
		break;
	case LANE_WORD:
		put_word();
		break;
	case ENDED:
		head[offsetof(struct ht_ring_header, ended)] = fuzz_byte(&in);
		break;
	default:
		target = ht_fd_close(target);
		break;
	}
}

static int visit(void *arg, const struct ht_record *record)
{
	int r = fuzz_tap_record(NULL, record);

	visits++;
	if (draining && in.at < in.end && fuzz_byte(&in) % 2)
		target_acts();
	return failing ? -EIO : r;
}

static int read_head(void *arg, void *to, size_t len)
{
	CHECK(len <= sizeof(head));
	if (draining && in.at < in.end && fuzz_byte(&in) % 4 == 0)
		target_acts();
	memcpy(to, head, len);
	return in.at < in.end && fuzz_byte(&in) % 8 == 7 ? -ESRCH : 0;
}

static void drain(void)
{
	int r;

	visits = 0;
	draining = true;
	failing = fuzz_byte(&in) % 8 == 7;
	r = ht_ring_drain(ring, visit, NULL);
	CHECK(r == 0 || (failing && r == -EIO));
	draining = failing = false;
	/* Whatever is sent meanwhile. */
	CHECK(visits <= 1 + CAPACITY / 256);
	if (ht_ring_quiesced(ring))
		fuzz_tap_settle();
}

static void one_act(void)
{
	const uint8_t *at = in.at;

	switch ((enum act)(fuzz_byte(&in) % ACTS)) {
	case DRAIN:
		drain();
		break;
	case LOOK:
		(void)ht_ring_look(ring, read_head, NULL);
		break;
	default:
		in.at = at;
		target_acts();
		break;
	}
}

static void start(const uint8_t *data, size_t len)
{
	int pair[2], half = CAPACITY / 2;
	uint8_t how;

	in = (struct fuzz_input){ data, data + len };
	how = fuzz_byte(&in);
	memset(head, 0, sizeof(head));
	pipe_ends[0] = pipe_ends[1] = -1;
	CHECK(ht_ring_new_private(&ring, NULL) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &half, sizeof(half)) == 0);
	/* Where we may: what is longer than a record. */
	half = 1 << 20;
	if (how & 2)
		(void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &half, sizeof(half));
	target = pair[0];
	ht_ring_set_socket(ring, pair[1], CAPACITY);
	fuzz_tap_start(how);
}

/* No file that came is open here: the pipe has come to its end. */
static void check_files(void)
{
	char byte;

	if (pipe_ends[0] < 0)
		return;
	pipe_ends[1] = ht_fd_close(pipe_ends[1]);
	CHECK(read(pipe_ends[0], &byte, 1) == 0);
	pipe_ends[0] = ht_fd_close(pipe_ends[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct ht_ring_counters counters;

	start(data, len);
	while (in.at < in.end)
		one_act();
	drain();
	ht_ring_counters(ring, &counters);
	CHECK(ht_ring_ended(ring) != HT_ENDED_NOT || ht_ring_socket(ring) >= 0);
	fuzz_tap_end();
	target = ht_fd_close(target);
	ring = ht_ring_free(ring);
	check_files();
	return 0;
}

/* ---- to begin with ---- */

static void put_byte(struct fuzz_output *out, unsigned byte)
{
	uint8_t b = (uint8_t)byte;

	fuzz_put(out, &b, 1);
}

static void send_record(void *arg, const struct ht_record *record)
{
	uint16_t len = (uint16_t)record->size;

	put_byte(arg, SEND);
	fuzz_put(arg, &len, sizeof(len));
	fuzz_put(arg, record, record->size);
}

const unsigned fuzz_runs = 400;

/* What the hook wrote, exact or sampled, and then files; or an end; each with the ledger behind
 * the reader and without. */
void fuzz_seed(unsigned i, struct fuzz_output *out)
{
	static const uint8_t files[] = { SEND_FILES, 24, 0, 4, 24, 0, 0, 0, HT_RECORD_FREE, 0, 0,
					 0, 9, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0 };

	if (i > 7)
		return;
	put_byte(out, i);
	put_byte(out, LOOK);
	fuzz_hook_writes(i & 1, send_record, out);
	put_byte(out, DRAIN);
	put_byte(out, 0);
	if (i & 2)
		fuzz_put(out, files, sizeof(files));
	else
		put_byte(out, CLOSE);
	put_byte(out, DRAIN);
	put_byte(out, 0);
}
