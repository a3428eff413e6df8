/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame is tried on the kernel itself: a child under ptrace is led onto it, from the
 * stub and by the words, with nobody there to give it its registers back.
 */
#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch/arch.h"

#include "ht_check.h"

#define AREA_LEN 65536
#define XSTATE_CAP 16384

static void build(const struct ht_regs *regs, void *xstate, size_t len, ht_addr_t top,
		  uint8_t *buf, size_t cap, size_t *ret_len, ht_addr_t *ret_sp)
{
	ck_ok(ht_sigframe_build(regs, xstate, len, 0x200, top, buf, cap, ret_len, ret_sp));
}

static uint64_t word_at(const uint8_t *frame, size_t offset)
{
	uint64_t word;

	memcpy(&word, frame + offset, sizeof(word));
	return word;
}

/* Offsets in struct ucontext: asm/ucontext.h. */
#define AT_MCONTEXT 40
#define AT_RIP (AT_MCONTEXT + offsetof(struct sigcontext, rip))
#define AT_RAX (AT_MCONTEXT + offsetof(struct sigcontext, rax))
#define AT_FPSTATE (AT_MCONTEXT + offsetof(struct sigcontext, fpstate))
#define AT_SIGMASK (AT_MCONTEXT + sizeof(struct sigcontext))

START_TEST(layout_and_restart)
{
	static const struct {
		long rax, orig_rax;
		long want_rax;
		int want_back;
	} rows[] = {
		{ -512, SYS_read, SYS_read, 2 },
		{ -513, SYS_read, SYS_read, 2 },
		{ -514, SYS_epoll_wait, SYS_epoll_wait, 2 },
		{ -516, SYS_poll, SYS_poll, 2 },
		{ 17, SYS_read, 17, 0 },
		{ -4, SYS_read, -4, 0 },
		{ -512, -1, -512, 0 },
	};
	uint8_t xstate[576] = { 0 }, frame[4096];
	uint64_t features = 3;
	struct ht_regs regs;
	size_t len;
	ht_addr_t sp;

	memcpy(xstate + 464, &features, sizeof(features));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		memset(&regs, 0, sizeof(regs));
		regs.raw.rip = 0x5000;
		regs.raw.rax = (uint64_t)rows[i].rax;
		regs.raw.orig_rax = (uint64_t)rows[i].orig_rax;
		build(&regs, xstate, sizeof(xstate), 0x100001, frame, sizeof(frame), &len, &sp);
		ck_assert_uint_eq(sp % 16, 0);
		ck_assert_uint_le(sp + len, 0x100001);
		ck_assert_uint_eq(word_at(frame, AT_RIP), 0x5000u - (unsigned)rows[i].want_back);
		ck_assert_int_eq((long)word_at(frame, AT_RAX), rows[i].want_rax);
		ck_assert_uint_eq(word_at(frame, AT_SIGMASK), 0x200);
		ck_assert_uint_eq(word_at(frame, AT_FPSTATE) % 64, 0);
		ck_assert_uint_ge(word_at(frame, AT_FPSTATE), sp);
	}
}
END_TEST

START_TEST(refuses_what_does_not_fit)
{
	uint8_t xstate[576] = { 0 }, frame[4096];
	struct ht_regs regs = { 0 };
	size_t len;
	ht_addr_t sp;

	ck_assert_int_eq(ht_sigframe_build(&regs, xstate, sizeof(xstate), 0, 0x100000, frame,
					   700, &len, &sp), -ENOSPC);
	ck_assert_int_eq(ht_sigframe_build(&regs, xstate, sizeof(xstate), 0, 100, frame,
					   sizeof(frame), &len, &sp), -ENOSPC);
	ck_assert_int_eq(ht_sigframe_build(&regs, xstate, 100, 0, 0x100000, frame,
					   sizeof(frame), &len, &sp), -EINVAL);
}
END_TEST

START_TEST(finds_code)
{
	static const uint8_t code[] = { 0x90, 0x0f, 0x05, 0x90, 0x0f, 0x05, 0xc3, 0x41, 0x58,
					0xc3 };
	/* One whose check doesn't lead to a ret, and one that does. */
	static const uint8_t checked[] = { 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff,
					   0x73, 0x10, 0x90, 0x90, 0x90, 0x90,
					   0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff,
					   0x0f, 0x83, 0, 0, 0, 0, 0xc3 };
	size_t offset = 99;

	ck_assert(ht_find_syscall_ret(code, sizeof(code), &offset));
	ck_assert_uint_eq(offset, 4);
	ck_assert(ht_find_pop_result(code, sizeof(code), &offset));
	ck_assert_uint_eq(offset, 8);
	ck_assert(ht_find_checked_syscall(checked, sizeof(checked), &offset));
	ck_assert_uint_eq(offset, 14);
	ck_assert(!ht_find_checked_syscall(checked, sizeof(checked) - 1, &offset));
	offset = 8;
	ck_assert(!ht_find_syscall_ret(code, 6, &offset));
	ck_assert(!ht_find_syscall_ret(code, 0, &offset));
	ck_assert_uint_eq(offset, 8);
}
END_TEST

/* A child that counts in shared memory with a pattern in its vector registers, and tells
 * when that is gone. */
struct shared {
	volatile uint64_t rounds;
	volatile uint64_t broken;
};

static void count_with_pattern(struct shared *shared)
{
	uint64_t pattern[4] = { 1, 2, 3, 4 }, seen[4];

	__asm__ volatile("vmovdqu %0, %%ymm7" : : "m"(pattern) : "xmm7");
	for (;;) {
		__asm__ volatile("vmovdqu %%ymm7, %0" : "=m"(seen));
		if (memcmp(pattern, seen, sizeof(seen)) != 0)
			shared->broken = 1;
		shared->rounds++;
	}
}

struct led {
	pid_t pid;
	struct shared *shared;
	uint8_t *area;		/* the same address in both */
	struct ht_regs regs;
	uint8_t xstate[XSTATE_CAP];
	size_t xstate_len;
	uint64_t mask;
};

static void start_led(struct led *led)
{
	struct iovec iov = { &led->regs.raw, sizeof(led->regs.raw) };

	led->shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	led->area = mmap(NULL, AREA_LEN, PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(led->shared != MAP_FAILED && led->area != MAP_FAILED);
	led->pid = fork();
	ck_assert_int_ge(led->pid, 0);
	if (led->pid == 0)
		count_with_pattern(led->shared);
	while (!led->shared->rounds)
		sched_yield();
	ck_assert_int_eq(ptrace(PTRACE_SEIZE, led->pid, 0, PTRACE_O_TRACESYSGOOD), 0);
	ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, led->pid, 0, 0), 0);
	ck_assert_int_eq(waitpid(led->pid, NULL, __WALL), led->pid);
	ck_assert_int_eq(ptrace(PTRACE_GETREGSET, led->pid, NT_PRSTATUS, &iov), 0);
	iov = (struct iovec){ led->xstate, sizeof(led->xstate) };
	ck_assert_int_eq(ptrace(PTRACE_GETREGSET, led->pid, HT_REGSET_XSTATE, &iov), 0);
	led->xstate_len = iov.iov_len;
	ck_assert_int_eq(ptrace(PTRACE_GETSIGMASK, led->pid, 8, &led->mask), 0);
}

static void set_regs(struct led *led, const struct ht_regs *regs)
{
	struct ht_regs copy = *regs;
	struct iovec iov = { &copy.raw, sizeof(copy.raw) };
	uint64_t all = UINT64_MAX;

	ck_assert_int_eq(ptrace(PTRACE_SETREGSET, led->pid, NT_PRSTATUS, &iov), 0);
	ck_assert_int_eq(ptrace(PTRACE_SETSIGMASK, led->pid, 8, &all), 0);
	/* The vector registers are lost too, but for the frame. */
	memset(led->xstate + 576, 0x5a, 256);
	iov = (struct iovec){ led->xstate, led->xstate_len };
	ck_assert_int_eq(ptrace(PTRACE_SETREGSET, led->pid, HT_REGSET_XSTATE, &iov), 0);
	ck_assert_int_eq(ptrace(PTRACE_DETACH, led->pid, 0, 0), 0);
}

/* It must go on counting, with its pattern and mask. */
static void check_healed(struct led *led)
{
	uint64_t rounds = led->shared->rounds, mask;
	int status;

	while (led->shared->rounds < rounds + 1000000) {
		ck_assert_int_eq(waitpid(led->pid, &status, WNOHANG), 0);
		sched_yield();
	}
	ck_assert_uint_eq(led->shared->broken, 0);
	ck_assert_int_eq(ptrace(PTRACE_SEIZE, led->pid, 0, 0), 0);
	ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, led->pid, 0, 0), 0);
	ck_assert_int_eq(waitpid(led->pid, &status, __WALL), led->pid);
	ck_assert_int_eq(ptrace(PTRACE_GETSIGMASK, led->pid, 8, &mask), 0);
	ck_assert_uint_eq(mask, led->mask);
	kill(led->pid, SIGKILL);
	waitpid(led->pid, &status, __WALL);
}

START_TEST(stub_leads_back)
{
	static uint8_t frame[XSTATE_CAP + HT_SIGFRAME_EXTRA];
	struct led led;
	struct ht_regs regs;
	size_t len;
	ht_addr_t sp;

	start_led(&led);
	ck_ok(ht_sigframe_build(&led.regs, led.xstate, led.xstate_len, led.mask,
				(ht_addr_t)(uintptr_t)led.area + AREA_LEN, frame,
				sizeof(frame), &len, &sp));
	memcpy(led.area, ht_deadman_stub, ht_deadman_stub_len);
	memcpy((void *)(uintptr_t)sp, frame, len);
	regs = led.regs;
	ht_regs_prepare_syscall(&regs, (ht_addr_t)(uintptr_t)led.area, SYS_getpid,
				(const uint64_t[6]){ 0 });
	ht_regs_set_sp(&regs, sp);
	set_regs(&led, &regs);
	check_healed(&led);
}
END_TEST

START_TEST(words_lead_back)
{
	static const uint8_t gadgets[] = { 0x0f, 0x05, 0xc3, 0x58, 0xc3 };
	static uint8_t frame[XSTATE_CAP + HT_SIGFRAME_EXTRA];
	struct led led;
	struct ht_regs regs;
	uint64_t words[HT_DEADMAN_WORDS];
	ht_addr_t sp, code;
	size_t len, n;

	start_led(&led);
	code = (ht_addr_t)(uintptr_t)led.area;
	ck_ok(ht_sigframe_build(&led.regs, led.xstate, led.xstate_len, led.mask,
				code + AREA_LEN, frame, sizeof(frame), &len, &sp));
	memcpy(led.area, gadgets, sizeof(gadgets));
	memcpy((void *)(uintptr_t)sp, frame, len);
	n = ht_deadman_words(code + 3, code, words);
	memcpy((void *)(uintptr_t)(sp - 8 * n), words, 8 * n);
	regs = led.regs;
	ht_regs_prepare_syscall(&regs, code, SYS_getpid, (const uint64_t[6]){ 0 });
	ht_regs_set_sp(&regs, sp - 8 * n);
	set_regs(&led, &regs);
	check_healed(&led);
}
END_TEST

/* Of how many places in its ucontext a handler of ours finds that they are it. */
static volatile int seen_at;
static volatile int places;

static void look_for_frame(int sig, siginfo_t *info, void *context)
{
	const uint64_t *words = context;
	ht_addr_t sp;

	(void)sig;
	(void)info;
	for (int i = 0; i + HT_SIGFRAME_WORDS <= (int)(sizeof(struct sigcontext) + 40) / 8; i++) {
		if (!ht_sigframe_is_at(words + i, &sp))
			continue;
		places++;
		seen_at = i * 8;
		ck_assert_uint_eq(sp, words[(AT_MCONTEXT + offsetof(struct sigcontext, rsp)) / 8]);
	}
}

START_TEST(is_found_on_a_stack)
{
	struct sigaction action = { .sa_sigaction = look_for_frame, .sa_flags = SA_SIGINFO };
	uint64_t words[HT_SIGFRAME_WORDS] = { 1, 2, 0x246, UINT64_C(0x002b000000000033) };
	ht_addr_t sp = 0;

	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	ck_assert_int_eq(places, 1);
	ck_assert_int_eq(seen_at, AT_MCONTEXT + offsetof(struct sigcontext, rsp));
	ck_assert(ht_sigframe_is_at(words, &sp) && sp == 1);
	words[2] = 0x46;		/* interrupts are off */
	ck_assert(!ht_sigframe_is_at(words, &sp));
	words[2] = 0x400246;
	ck_assert(!ht_sigframe_is_at(words, &sp));
	words[2] = 0x246;
	words[3] = 0x33;
	ck_assert(!ht_sigframe_is_at(words, &sp));
}
END_TEST

int main(void)
{
	return ht_check_run("sigframe",
			    (const TTest *const[]){ layout_and_restart,
						    refuses_what_does_not_fit, finds_code,
						    stub_leads_back, words_lead_back,
						    is_found_on_a_stack, NULL });
}
