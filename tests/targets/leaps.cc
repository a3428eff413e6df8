/* SPDX-License-Identifier: Apache-2.0
 *
 * leaps: all ways in which a stack grows and shrinks other than by calls and returns, to be
 * run one instruction at a time: exceptions through frames with and without destructors,
 * rethrown, and thrown by destructors' callers; longjmp() out of functions, of a signal
 * handler, and of one on an alternate stack; coroutines; vfork(); lazy binding; frames that
 * are realigned or of no fixed size. Ends by itself, with status 0 if all went as it should.
 */
#include <alloca.h>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define noinline __attribute__((noinline, noclone))

static volatile int sink;
static int failures;

static void expect(bool good, const char *what)
{
	if (!good) {
		fprintf(stderr, "leaps: %s\n", what);
		failures++;
	}
}

struct counted {
	static int live;
	std::string text = "a destructor that has something to do, and frees it";

	counted() { live++; }
	~counted()
	{
		live--;
		sink = (int)text.size();
	}
};
int counted::live;

static noinline int throw_at(int depth)
{
	volatile char room[200];

	room[depth] = 1;
	if (depth == 0)
		throw std::runtime_error("from below");
	if (depth % 2)
		return throw_at(depth - 1) + room[depth];
	counted here;
	return throw_at(depth - 1) + room[depth] + counted::live;
}

static noinline int rethrow(int depth)
{
	counted here;

	try {
		return throw_at(depth);
	} catch (const std::runtime_error &error) {
		sink = (int)strlen(error.what());
		throw;
	}
}

static noinline void exceptions()
{
	int caught = 0;

	for (int depth = 0; depth < 6; depth++) {
		try {
			rethrow(depth);
		} catch (const std::exception &) {
			caught++;
		}
	}
	expect(caught == 6 && counted::live == 0, "exceptions");
}

static jmp_buf jump;
static sigjmp_buf signal_jump;

static noinline void jump_at(int depth)
{
	volatile char room[100];

	room[depth] = 1;
	if (depth > 0)
		jump_at(depth - 1);
	else if (sink != -1)
		longjmp(jump, 1);
	sink += room[depth];
}

static noinline void jumps()
{
	volatile int jumped = 0;

	if (setjmp(jump) == 0)
		jump_at(8);
	else
		jumped = 1;
	expect(jumped == 1, "longjmp");
}

static volatile int handled;

static noinline void in_handler(int n)
{
	char text[64];

	snprintf(text, sizeof(text), "%d %s", n, "in a handler");
	sink += (int)strlen(text);
	handled++;
}

static void on_signal(int)
{
	in_handler(1);
}

static void on_signal_jump(int)
{
	in_handler(2);
	siglongjmp(signal_jump, 1);
}

static void handle(void (*handler)(int), int flags)
{
	struct sigaction action = {};

	action.sa_handler = handler;
	action.sa_flags = flags;
	sigaction(SIGUSR1, &action, nullptr);
}

static noinline void raise_below(int depth)
{
	volatile char room[60];

	room[depth] = 1;
	if (depth == 0)
		raise(SIGUSR1);
	else
		raise_below(depth - 1);
	sink += room[depth];
}

static noinline void signals()
{
	static char stack[64 * 1024];
	const int flags[] = { 0, SA_ONSTACK };
	stack_t alternate = {};
	volatile int jumped = 0;

	alternate.ss_sp = stack;
	alternate.ss_size = sizeof(stack);
	sigaltstack(&alternate, nullptr);
	for (int flag : flags) {
		handle(on_signal, flag);
		raise_below(3);
		handle(on_signal_jump, flag);
		if (sigsetjmp(signal_jump, 1) == 0)
			raise_below(3);
		else
			jumped = jumped + 1;
	}
	expect(handled == 4 && jumped == 2, "signals");
}

static ucontext_t here, there;

static void in_context()
{
	sink += 1;
	swapcontext(&there, &here);
	sink += 2;
}

static noinline void contexts()
{
	static char stack[64 * 1024];
	int before = sink = 0;

	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	there.uc_link = &here;
	makecontext(&there, in_context, 0);
	swapcontext(&here, &there);
	swapcontext(&here, &there);
	expect(sink == before + 3, "contexts");
}

static noinline int realigned(int n)
{
	alignas(64) volatile char aligned[128];
	volatile char *more = (volatile char *)alloca((size_t)n * 40 + 1);

	aligned[n] = 1;
	more[n] = 2;
	if (n > 0)
		sink += realigned(n - 1);
	return aligned[n] + more[n];
}

static noinline void children()
{
	int status = -1;
	pid_t pid = vfork();

	if (pid == 0) {
		execl("/bin/true", "true", nullptr);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	expect(status == 0, "vfork");
}

static noinline void libraries()
{
	void *library = dlopen("libm.so.6", RTLD_LAZY);
	double (*cosine)(double) = nullptr;

	if (library)
		*(void **)&cosine = dlsym(library, "cos");
	if (cosine)
		sink += (int)cosine(1.0);
	if (library)
		dlclose(library);
}

static int by_value(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static noinline void callbacks()
{
	int values[40];

	for (int i = 0; i < 40; i++)
		values[i] = i * 17 % 40;
	qsort(values, 40, sizeof(values[0]), by_value);
	expect(values[39] == 39, "qsort");
}

int main()
{
	/* What comes before is of no interest. */
	getppid();
	exceptions();
	jumps();
	signals();
	contexts();
	sink += realigned(5);
	children();
	libraries();
	callbacks();
	return failures;
}
