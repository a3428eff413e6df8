/* SPDX-License-Identifier: Apache-2.0
 *
 * chain SCENARIO [DEPTH]: a stack whose return addresses are known. Each function of the
 * chain notes its own with __builtin_return_address(), outermost first; the innermost
 *says READY with the address and the length of the notes, and waits for a line.
 *
 *	plain	DEPTH recursive functions with locals
 *	qsort	through the C library and back			large	frames of 64 KiB
 *	realign	alloca and locals aligned to 64			noreturn  calls that never
 *return fp	functions with frame pointers under code without unwind data
 *	rbx	code whose CFA is a callee-saved register	expr	... by an
 *expression
 *	bomb	unwind data that loops for ever
 *	signal	a signal handler on the same stack		altstack  on another one
 *	ill	a signal at the first byte of a function	jump	a call to address
 *8 context	a coroutine of makecontext()			thread	a thread leaf
 *spins in code without unwind data or frame
 *	work	waits; then does all sorts of things for each line that it gets
 */
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __clang__	/* it makes no clones, and can't change its mind for one function */
#define noinline __attribute__((noinline))
#define with_frame_pointer
#else
#define noinline __attribute__((noinline, noclone))
#define with_frame_pointer __attribute__((optimize("no-omit-frame-pointer")))
#endif

typedef void (*next_fn)(void);

static volatile uintptr_t notes[2048];
static volatile unsigned n_notes;
static volatile int sink;
static int depth = 10;
static int spin_flag = 1;

#define NOTE() (notes[n_notes++] = (uintptr_t)__builtin_return_address(0))
/* After a call, so that it is no tail call. */
#define STAY() __asm__ volatile("" ::: "memory")

void chain_no_cfi(next_fn next);
void chain_rbx(next_fn next);
void chain_expr(next_fn next);
void chain_bomb(next_fn next);
void chain_ill(void);
void chain_leaf(volatile int *flag);

__asm__(".text\n"
	".type chain_no_cfi, @function\n"
	"chain_no_cfi:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	sub $48, %rsp\n"
	"	call *%rdi\n"
	"	leave\n"
	"	ret\n"
	"	.skip 64, 0x90\n"
	".type chain_rbx, @function\n"
	"chain_rbx:\n"
	"	.cfi_startproc\n"
	"	push %rbx\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset rbx, -16\n"
	"	mov %rsp, %rbx\n"
	"	.cfi_def_cfa_register rbx\n"
	"	sub $80, %rsp\n"
	"	and $-64, %rsp\n"
	"	call *%rdi\n"
	"	mov %rbx, %rsp\n"
	"	.cfi_def_cfa_register rsp\n"
	"	pop %rbx\n"
	"	.cfi_def_cfa_offset 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.skip 64, 0x90\n"
	".type chain_expr, @function\n"
	"chain_expr:\n"
	"	.cfi_startproc\n"
	"	push %rbx\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset rbx, -16\n"
	"	mov %rsp, %rbx\n"
	/* CFA: breg3 8, lit8, plus */
	"	.cfi_escape 0x0f, 0x04, 0x73, 0x08, 0x38, 0x22\n"
	"	sub $80, %rsp\n"
	"	and $-64, %rsp\n"
	"	call *%rdi\n"
	"	mov %rbx, %rsp\n"
	"	.cfi_def_cfa rsp, 16\n"
	"	pop %rbx\n"
	"	.cfi_def_cfa_offset 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.skip 64, 0x90\n"
	/* Its CFA expression skips back to its own start, for ever. */
	".type chain_bomb, @function\n"
	"chain_bomb:\n"
	"	.cfi_startproc\n"
	"	.cfi_escape 0x0f, 0x03, 0x2f, 0xfd, 0xff\n"
	"	sub $8, %rsp\n"
	"	call *%rdi\n"
	"	add $8, %rsp\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.skip 64, 0x90\n"
	/* A function that ends where the next begins: pc - 1 is the wrong one. */
	".type chain_before_ill, @function\n"
	"chain_before_ill:\n"
	"	.cfi_startproc\n"
	"	.cfi_def_cfa rsp, 4096\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".type chain_ill, @function\n"
	"chain_ill:\n"
	"	.cfi_startproc\n"
	"	ud2\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.skip 64, 0x90\n"
	".type chain_leaf, @function\n"
	"chain_leaf:\n"
	"1:	mov (%rdi), %eax\n"
	"	test %eax, %eax\n"
	"	jne 1b\n"
	"	ret\n"
	"	.skip 64, 0x90\n");

static noinline void wait_here(void)
{
	char c;

	NOTE();
	printf("READY %p %u\n", (void *)(uintptr_t)notes, n_notes);
	fflush(stdout);
	/* A line may come in pieces. */
	while (read(0, &c, 1) == 1 && c != '\n')
		;
}

static noinline void middle(void)
{
	NOTE();
	wait_here();
	STAY();
}

static noinline int plain(int n)
{
	volatile int locals[8] = { n };
	int a = n * 3, b = n ^ 5, c = n + 7, d = n - 9;

	NOTE();
	if (n > 1)
		sink += plain(n - 1) + a + b;
	else
		wait_here();
	return locals[0] + a + b + c + d;
}

static void run_plain(void)
{
	NOTE();
	sink = plain(depth);
}

static noinline int large(int n)
{
	volatile char locals[64 * 1024];

	NOTE();
	locals[n * 999] = (char)n;
	if (n > 1)
		sink += large(n - 1);
	else
		wait_here();
	return locals[n * 999];
}

static void run_large(void)
{
	NOTE();
	sink = large(depth);
}

static int compare(const void *a, const void *b)
{
	static int once;

	if (!once++) {
		NOTE();
		wait_here();
	}
	return *(const int *)a - *(const int *)b;
}

static void run_qsort(void)
{
	int values[100], i;

	NOTE();
	for (i = 0; i < 100; i++)
		values[i] = i * 37 % 100;
	qsort(values, 100, sizeof(values[0]), compare);
	sink = values[5];
}

static noinline void realign(int n)
{
	_Alignas(64) volatile char aligned[128];
	volatile char *more = alloca((size_t)(n * 40));

	NOTE();
	aligned[n] = 1;
	more[n] = 2;
	if (n > 1)
		realign(n - 1);
	else
		wait_here();
	sink += aligned[n] + more[n];
}

static void run_realign(void)
{
	NOTE();
	realign(depth);
	STAY();
}

static noinline __attribute__((noreturn)) void never(int n);

static noinline __attribute__((noreturn)) void never_again(int n)
{
	NOTE();
	never(n - 1);
}

static void never(int n)
{
	NOTE();
	if (n > 0)
		never_again(n);
	wait_here();
	exit(0);
}

static void run_noreturn(void)
{
	NOTE();
	never(depth);
}

static noinline with_frame_pointer void fp_below(void)
{
	NOTE();
	middle();
	STAY();
}

static noinline with_frame_pointer void run_fp(void)
{
	NOTE();
	chain_no_cfi(fp_below);
	STAY();
}

static void run_rbx(void)
{
	NOTE();
	chain_rbx(run_plain);
	STAY();
}

static void run_expr(void)
{
	NOTE();
	chain_expr(run_plain);
	STAY();
}

static void run_bomb(void)
{
	NOTE();
	chain_bomb(run_plain);
	STAY();
}

/* The kernel calls this: what it returns to is no call. */
static void on_signal(int sig)
{
	if (sig == SIGUSR1 || sig == SIGILL || sig == SIGSEGV)
		middle();
	_exit(0);
}

static void handle(int sig, int flags)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };

	sigaction(sig, &action, NULL);
}

static void run_signal(void)
{
	NOTE();
	handle(SIGUSR1, 0);
	raise(SIGUSR1);
	STAY();
}

static void run_altstack(void)
{
	static char stack[256 * 1024];
	stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };

	NOTE();
	sigaltstack(&alt, NULL);
	handle(SIGUSR1, SA_ONSTACK);
	raise(SIGUSR1);
	STAY();
}

static void run_ill(void)
{
	NOTE();
	handle(SIGILL, 0);
	chain_ill();
	STAY();
}

static void run_jump(void)
{
	volatile uintptr_t bad = 8;

	NOTE();
	handle(SIGSEGV, 0);
	((next_fn)bad)();
	STAY();
}

static ucontext_t main_context, other_context;

static void in_context(void)
{
	NOTE();
	middle();
}

static void run_context(void)
{
	static char stack[256 * 1024];

	getcontext(&other_context);
	other_context.uc_stack.ss_sp = stack;
	other_context.uc_stack.ss_size = sizeof(stack);
	other_context.uc_link = &main_context;
	makecontext(&other_context, in_context, 0);
	swapcontext(&main_context, &other_context);
}

static void *in_thread(void *arg)
{
	NOTE();
	middle();
	return arg;
}

static void run_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, in_thread, NULL);
	pthread_join(thread, NULL);
}

/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
static const unsigned char frame_code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff,
					    0xd7, 0x5d, 0xc3 };

static void run_late(void)
{
	void (*code)(next_fn);

	wait_here();
	n_notes = 1;
	code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy((void *)code, frame_code, sizeof(frame_code));
	code(middle);
	STAY();
}

static void run_leaf(void)
{
	NOTE();
	printf("READY %p %u %p\n", (void *)(uintptr_t)notes, n_notes, (void *)&spin_flag);
	fflush(stdout);
	chain_leaf(&spin_flag);
	STAY();
}

static int by_value(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Prologues, epilogues, the loader's lazy binding, the vdso, string functions. */
static noinline void work(int round)
{
	int values[4] = { 3, 1, round, 2 };
	struct timespec now;
	char text[256];
	void *block;

	qsort(values, 4, sizeof(values[0]), by_value);
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(text, sizeof(text), "%d %ld %s %.3f", values[0], now.tv_nsec, "word",
		 (double)round / 3);
	block = malloc(strlen(text) * 100);
	memset(block, 0, 1000);
	free(block);
	chain_rbx((next_fn)getpid);
	chain_expr((next_fn)getppid);
	sink += (int)strtol(text, NULL, 10) + (int)strcspn(text, "w");
}

static void run_work(void)
{
	int round = 0;
	char c;

	NOTE();
	printf("READY %p %u\n", (void *)(uintptr_t)notes, n_notes);
	fflush(stdout);
	while (read(0, &c, 1) == 1)
		if (c == '\n')
			work(round++);
}

int main(int argc, char **argv)
{
	static const struct { const char *name; next_fn run;
	} scenarios[] = {
		{ "plain", run_plain },	      { "large", run_large },
		{ "qsort", run_qsort },	      { "realign", run_realign },
		{ "noreturn", run_noreturn }, { "fp", run_fp },
		{ "rbx", run_rbx },	      { "expr", run_expr }, { "bomb", run_bomb },
		{ "signal", run_signal },     { "altstack", run_altstack },
		{ "ill", run_ill },	      { "jump", run_jump },
		{ "context", run_context },   { "thread", run_thread },
		{ "leaf", run_leaf },	      { "work", run_work }, { "late", run_late },
	};
	size_t i;

	if (argc > 2)
		depth = atoi(argv[2]);
	NOTE();
	for (i = 0; argc > 1 && i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		if (strcmp(scenarios[i].name, argv[1]) != 0)
			continue;
		scenarios[i].run();
		return 0;
	}
	return 2;
}
