/* SPDX-License-Identifier: Apache-2.0
 *
 * watcher_cpu.c: threads that fill all registers, the red zone and the bases of fs and gs,
 * have rights of their own to memory with a protection key, and an alternate stack, and look whether they stay: in a loop, in system calls that fail or
 * restart in different ways when they are stopped, and in malloc and free as far as the ABI
 * promises it.
 */
#include <asm/prctl.h>
#include <errno.h>
#include <immintrin.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "watcher.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15, N_GPRS };
enum { SPIN, SYSCALL, CALL };

/* The offsets are those of watcher_cpu_asm.S. */
struct watcher_cpu {
	struct watcher_cpu *self;
	uint64_t sp;
	uint64_t gpr[N_GPRS], gpr_seen[N_GPRS];
	uint64_t flags, flags_seen;
	uint32_t mxcsr, mxcsr_seen;
	uint16_t cw, cw_seen, sw_seen, pad;
	void *fn;
	uint64_t fs_seen;
	uint64_t what[2];
	uint8_t x87[8][16], x87_seen[8][16];
	uint64_t mask[8], mask_seen[8];
	uint64_t pad2[6];
	uint8_t vector[32][64], vector_seen[32][64];
	uint64_t red[16], red_seen[16];
	uint32_t mxcsr_default;
	char signal_stack[1 << 14];
};

_Static_assert(offsetof(struct watcher_cpu, flags) == 0x110, "FLAGS");
_Static_assert(offsetof(struct watcher_cpu, fn) == 0x130, "FN");
_Static_assert(offsetof(struct watcher_cpu, x87) == 0x150, "X87");
_Static_assert(offsetof(struct watcher_cpu, mask_seen) == 0x290, "K_S");
_Static_assert(offsetof(struct watcher_cpu, vector) == 0x300, "VEC");
_Static_assert(offsetof(struct watcher_cpu, red) == 0x1300, "RED");

void watcher_cpu_run_sse(long what);
void watcher_cpu_run_avx(long what);
void watcher_cpu_run_avx512(long what);

static struct {
	void (*run)(long what);
	size_t vectors, vector_size;
	int has_masks;
} cpu = { watcher_cpu_run_sse, 16, 16, 0 };

/* Carry, parity, adjust, zero, sign, direction, overflow, alignment check, identification. */
#define FLAGS_MASK 0x240cd5u
#define FLAGS_SET 0x240c95u		/* without zero */
/* Rounds towards zero, all masked, and some exceptions noted already. */
#define MXCSR_SET 0x7fa1u
/* Double precision, rounds up. */
#define CW_SET 0x0a7fu

static uint64_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state ^ *state >> 29;
}

static void fill(struct watcher_cpu *c, uint64_t seed)
{
	uint64_t state = seed;

	for (int i = 0; i < N_GPRS; i++)
		c->gpr[i] = next(&state);
	for (int i = 0; i < 8; i++) {
		uint64_t mantissa = next(&state) | UINT64_C(1) << 63;
		uint16_t exponent = (uint16_t)(0x3fff + i);

		memcpy(c->x87[i], &mantissa, 8);
		memcpy(c->x87[i] + 8, &exponent, 2);
		c->mask[i] = next(&state) & 0xffff;
	}
	for (int i = 0; i < 32; i++) {
		for (int k = 0; k < 64; k++)
			c->vector[i][k] = (uint8_t)next(&state);
	}
	for (int i = 0; i < 16; i++)
		c->red[i] = next(&state);
	c->flags = 0x202 | FLAGS_SET;
	c->mxcsr = MXCSR_SET;
	c->mxcsr_default = 0x1f80;
	c->cw = CW_SET;
}

/* ---- protection keys ---- */

static int key = -1;
static __thread int rights;

static void take_rights(uint64_t seed)
{
	rights = (int)(seed % 4);
	if (key >= 0)
		pkey_set(key, (unsigned)rights);
}

static void look_at_rights(const char *who)
{
	int now = key < 0 ? rights : pkey_get(key);

	if (now != rights)
		rounds_bad("%s: rights of the protection key %d, were %d", who, now, rights);
}

/* ---- matrix tiles, which nothing but their thread ever loads ---- */

#ifndef ARCH_REQ_XCOMP_PERM
#define ARCH_REQ_XCOMP_PERM 0x1023
#endif
#define XFEATURE_XTILEDATA 18

struct tiles {
	uint8_t config[64];
	uint8_t first[1024], last[1024];
};

static int has_tiles;
static __thread struct tiles tiles;

__attribute__((target("amx-tile"))) static void load_tiles(uint64_t seed)
{
	if (!has_tiles)
		return;
	/* Palette 1: eight tiles of 16 rows of 64 bytes. */
	tiles.config[0] = 1;
	for (int i = 0; i < 8; i++) {
		tiles.config[16 + 2 * i] = 64;
		tiles.config[48 + i] = 16;
	}
	for (size_t i = 0; i < sizeof(tiles.first); i++) {
		tiles.first[i] = (uint8_t)next(&seed);
		tiles.last[i] = (uint8_t)next(&seed);
	}
	_tile_loadconfig(tiles.config);
	_tile_loadd(0, tiles.first, 64);
	_tile_loadd(7, tiles.last, 64);
}

__attribute__((target("amx-tile"))) static void look_at_tiles(const char *who)
{
	struct tiles now = { .config = { 0 } };

	if (!has_tiles)
		return;
	_tile_storeconfig(now.config);
	if (memcmp(now.config, tiles.config, sizeof(now.config))) {
		rounds_bad("%s: configuration of tiles", who);
		return;
	}
	_tile_stored(0, now.first, 64);
	_tile_stored(7, now.last, 64);
	if (memcmp(&now, &tiles, sizeof(now)))
		rounds_bad("%s: tiles", who);
}

/* ---- all of them ---- */

static void look_at_state(const struct watcher_cpu *c, const char *who)
{
	look_at_rights(who);
	look_at_tiles(who);
	if (c->mxcsr_seen != c->mxcsr)
		rounds_bad("%s: mxcsr %#x, was %#x", who, c->mxcsr_seen, c->mxcsr);
	if (c->cw_seen != c->cw)
		rounds_bad("%s: x87 control word %#x, was %#x", who, c->cw_seen, c->cw);
	/* Full: top of stack is register 0. */
	if (c->sw_seen & 0x3800)
		rounds_bad("%s: x87 status word %#x", who, c->sw_seen);
	for (int i = 0; i < 8; i++) {
		if (memcmp(c->x87[i], c->x87_seen[i], 10))
			rounds_bad("%s: x87 register %d", who, i);
		if (cpu.has_masks && c->mask[i] != (c->mask_seen[i] & 0xffff))
			rounds_bad("%s: k%d", who, i);
	}
	for (size_t i = 0; i < cpu.vectors; i++) {
		if (memcmp(c->vector[i], c->vector_seen[i], cpu.vector_size))
			rounds_bad("%s: vector register %zu", who, i);
	}
}

static void look_at_gprs(const struct watcher_cpu *c, const char *who, unsigned changed)
{
	static const char *const names[N_GPRS] = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp",
						   "rsi", "rdi", "r8",	"r9",  "r10", "r11",
						   "r12", "r13", "r14", "r15" };

	for (int i = 0; i < N_GPRS; i++) {
		if (!(changed >> i & 1) && c->gpr[i] != c->gpr_seen[i])
			rounds_bad("%s: %s %#lx, was %#lx", who, names[i], c->gpr_seen[i],
				   c->gpr[i]);
	}
}

static void look_at_bases(const struct watcher_cpu *c, const char *who)
{
	unsigned long fs = 0, gs = 0;
	stack_t stack;

	syscall(SYS_arch_prctl, ARCH_GET_FS, &fs);
	syscall(SYS_arch_prctl, ARCH_GET_GS, &gs);
	if (gs != (uintptr_t)c)
		rounds_bad("%s: gs base %#lx, was %p", who, gs, (const void *)c);
	if (fs != c->fs_seen)
		rounds_bad("%s: fs base %#lx, was %#lx", who, fs, c->fs_seen);
	sigaltstack(NULL, &stack);
	if (stack.ss_sp != c->signal_stack || stack.ss_flags)
		rounds_bad("%s: alternate stack %p %#x", who, stack.ss_sp, stack.ss_flags);
}

static struct watcher_cpu *here(void)
{
	static __thread struct watcher_cpu *c;
	static atomic_ulong seed = 1;

	if (!c) {
		c = aligned_alloc(64, sizeof(*c));
		memset(c, 0, sizeof(*c));
		c->self = c;
		fill(c, ++seed);
		take_rights(seed);
		load_tiles(seed);
		syscall(SYS_arch_prctl, ARCH_SET_GS, c);
		sigaltstack(&(stack_t){ .ss_sp = c->signal_stack,
					.ss_size = sizeof(c->signal_stack) }, NULL);
	}
	return c;
}

#define BIT(reg) (1u << (reg))

static void spin(void *arg)
{
	struct watcher_cpu *c = here();

	(void)arg;
	cpu.run(SPIN);
	look_at_gprs(c, "spin", BIT(RSP) | BIT(RCX));
	look_at_state(c, "spin");
	look_at_bases(c, "spin");
	if ((c->flags_seen & FLAGS_MASK) != FLAGS_SET)
		rounds_bad("spin: flags %#lx", c->flags_seen);
	if (memcmp(c->red, c->red_seen, sizeof(c->red)))
		rounds_bad("spin: red zone");
}

/* A call by number, whose result is to be @want. */
static void in_syscall(const char *who, long nr, const uint64_t args[4], long want)
{
	struct watcher_cpu *c = here();

	c->gpr[RAX] = (uint64_t)nr;
	c->gpr[RDI] = args[0];
	c->gpr[RSI] = args[1];
	c->gpr[RDX] = args[2];
	c->gpr[R10] = args[3];
	errno = 77;
	cpu.run(SYSCALL);
	if (errno != 77)
		rounds_bad("%s: errno %d", who, errno);
	if ((long)c->gpr_seen[RAX] != want)
		rounds_bad("%s: result %ld, not %ld", who, (long)c->gpr_seen[RAX], want);
	look_at_gprs(c, who, BIT(RSP) | BIT(RAX) | BIT(RCX) | BIT(R11));
	look_at_state(c, who);
	look_at_bases(c, who);
	if ((c->flags_seen & FLAGS_MASK) != FLAGS_SET)
		rounds_bad("%s: flags %#lx", who, c->flags_seen);
	if (memcmp(c->red, c->red_seen, sizeof(c->red)))
		rounds_bad("%s: red zone", who);
}

static void in_nanosleep(void *arg)
{
	const struct timespec ts = { 0, 2000000 };

	(void)arg;
	in_syscall("nanosleep", SYS_nanosleep, (uint64_t[4]){ (uintptr_t)&ts, 0 }, 0);
}

/* Those that last until they are poked, so each tap finds them. */
enum { IN_READ, IN_EPOLL, IN_POLL, N_POKED };
static int poked_fd[N_POKED];

static void in_read(void *arg)
{
	uint64_t n;

	(void)arg;
	in_syscall("read", SYS_read,
		   (uint64_t[4]){ (uint64_t)poked_fd[IN_READ], (uintptr_t)&n, 8 }, 8);
}

static void take_poke(int which)
{
	uint64_t n;

	if (read(poked_fd[which], &n, sizeof(n)) != sizeof(n))
		rounds_bad("read of an event");
}

static void in_epoll_wait(void *arg)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int fd = *(int *)arg;

	in_syscall("epoll_wait", SYS_epoll_wait,
		   (uint64_t[4]){ (uint64_t)fd, (uintptr_t)&ev, 1, (uint64_t)-1 }, 1);
	take_poke(IN_EPOLL);
}

/* With a time-out: a stop leaves a restart block. */
static void in_poll(void *arg)
{
	struct pollfd p = { poked_fd[IN_POLL], POLLIN, 0 };

	(void)arg;
	in_syscall("poll", SYS_poll, (uint64_t[4]){ (uintptr_t)&p, 1, 100000000 }, 1);
	take_poke(IN_POLL);
}

void watcher_cpu_poke(void)
{
	uint64_t one = 1;

	for (int i = 0; i < N_POKED; i++) {
		if (write(poked_fd[i], &one, sizeof(one)) != sizeof(one))
			rounds_bad("write of an event");
	}
}

/* What a call must keep. A malloc needs no vector and no x87 registers, so that a hook
 * that used them would show. */
#define SCRATCH                                                                           \
	(BIT(RSP) | BIT(RAX) | BIT(RCX) | BIT(RDX) | BIT(RSI) | BIT(RDI) | BIT(R8) |        \
	 BIT(R9) | BIT(R10) | BIT(R11))

static uint64_t in_call(const char *who, void *fn, uint64_t a, uint64_t b)
{
	struct watcher_cpu *c = here();

	c->fn = fn;
	c->gpr[RDI] = a;
	c->gpr[RSI] = b;
	/* Calls want the direction flag clear. */
	c->flags = 0x202;
	errno = 77;
	cpu.run(CALL);
	if (errno != 77)
		rounds_bad("%s: errno %d", who, errno);
	look_at_gprs(c, who, SCRATCH);
	if (c->mxcsr_seen != c->mxcsr || c->cw_seen != c->cw)
		rounds_bad("%s: mxcsr %#x, control word %#x", who, c->mxcsr_seen, c->cw_seen);
	for (int i = 0; i < 8; i++) {
		if (memcmp(c->x87[i], c->x87_seen[i], 10))
			rounds_bad("%s: x87 register %d", who, i);
	}
	look_at_rights(who);
	look_at_tiles(who);
	return c->gpr_seen[RAX];
}

#define SLOTS 16

static void allocate(void *arg)
{
	static void *blocks[SLOTS];
	static uint64_t state = 3;

	(void)arg;
	for (int i = 0; i < 4 * SLOTS; i++) {
		uint64_t r = next(&state), size = 1 + (r >> 8) % 2000;
		void **b = &blocks[r % SLOTS];

		if (!*b)
			*b = (void *)in_call("malloc", (void *)(uintptr_t)malloc, size, 0);
		else if (r & 64)
			*b = (void *)in_call("realloc", (void *)(uintptr_t)realloc,
					     (uintptr_t)*b, size);
		else
			*b = (void *)(in_call("free", (void *)(uintptr_t)free, (uintptr_t)*b,
					      0) & 0);
	}
	nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
}

const char *watcher_cpu_lacks(void)
{
	static const char *const lacks[] = { "nothing", "protection-keys", "tiles",
					     "protection-keys,tiles" };

	return lacks[(key < 0) + 2 * !has_tiles];
}

static int epoll_fd;

void watcher_cpu_start(void)
{
	static struct rounds_thread threads[] = {
		{ .name = "spin", .round = spin },
		{ .name = "nanosleep", .round = in_nanosleep },
		{ .name = "read", .round = in_read },
		{ .name = "epoll_wait", .round = in_epoll_wait, .arg = &epoll_fd },
		{ .name = "poll", .round = in_poll },
		{ .name = "allocate", .round = allocate },
	};
	struct epoll_event ev = { .events = EPOLLIN };

	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx")) {
		cpu.run = watcher_cpu_run_avx;
		cpu.vector_size = 32;
	}
	if (__builtin_cpu_supports("avx512f")) {
		cpu.run = watcher_cpu_run_avx512;
		cpu.vectors = 32;
		cpu.vector_size = 64;
		cpu.has_masks = 1;
	}
	/* Not what every machine has. */
	key = pkey_alloc(0, 0);
	has_tiles = !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
	for (int i = 0; i < N_POKED; i++)
		poked_fd[i] = eventfd(0, 0);
	epoll_fd = epoll_create1(0);
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, poked_fd[IN_EPOLL], &ev);
	for (size_t i = 0; i < sizeof(threads) / sizeof(*threads); i++)
		rounds_start(&threads[i]);
}
