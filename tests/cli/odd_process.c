/* SPDX-License-Identifier: Apache-2.0
 *
 * odd_process.c KIND: a process that heaptap must refuse, or just any. Prints "READY PID",
 * or "SKIP why" when the kernel can't have one, and exits when its stdin ends.
 *
 *	plain		nothing is odd
 *	zombie		dead, not waited for
 *	traced		a worker that is traced by this program
 *	undumpable	a worker, by prctl(PR_SET_DUMPABLE, 0)
 *	bits32		runs 32-bit code
 *	strict		allocates once for each line on stdin and says "DONE", in strict seccomp
 *			mode
 *	filter		a worker that a seccomp filter kills for calls that it doesn't need
 *	terminal FILE	a terminal: allocates for each byte written to it, and keeps those in
 *			FILE; its path follows on the first line
 *	logger FILE	the same for what is written to the pipe that is its descriptor 7
 *	worker		allocates when told to, by lines on stdin; "DONE" when it's done:
 *			keep N SIZE, exit STATUS, abort; thread N SIZE, which does it in
 *			one, below some pages of stack; map N, as many mappings more, or as
 *			it gets; unmap; lock, what it will map; exec [PROGRAM], else itself; close,
 *			to other processes; forbid, all system calls that it doesn't need; shut,
 *			all files that it doesn't know; take FILE,
 *			in the place of each of these; dispatch, to itself, all system calls that
 *			aren't libc's, or unshare, its files: a thread that allocates on; fork, which says "CHILD PID", and that one
 *			"WORKED" at each SIGUSR1, when it has; hold, which keeps an address
 *			in heaptap's code on a stack that nobody can walk, until release
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ADDRESS32 0x10000u

extern char **environ;

static void say(const char *word, const char *text)
{
	printf("%s %s\n", word, text);
	fflush(stdout);
}

static void ready(pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)pid);
	say("READY", text);
}

static void until_stdin_ends(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) > 0)
		;
}

/* In the child 0. It never outlives us. */
static pid_t fork_child(void)
{
	pid_t parent = getpid(), child = fork();

	if (child < 0) {
		perror("fork");
		exit(99);
	}
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(99);
	}
	return child;
}

static int plain(void)
{
	ready(getpid());
	until_stdin_ends();
	return 0;
}

static int zombie(void)
{
	pid_t child = fork_child();
	siginfo_t info;

	if (child == 0)
		_exit(0);
	if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) < 0)
		return 99;
	ready(child);
	until_stdin_ends();
	return 0;
}

/* The smallest program: for (;;) pause(); */
static int make_program32(void)
{
	static const unsigned char code[] = { 0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7 };
	struct {
		Elf32_Ehdr header;
		Elf32_Phdr segment;
		unsigned char code[sizeof(code)];
	} file = {
		.header = {
			.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32,
				     ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_EXEC,
			.e_machine = EM_386,
			.e_version = EV_CURRENT,
			.e_entry = ADDRESS32 + sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr),
			.e_phoff = sizeof(Elf32_Ehdr),
			.e_ehsize = sizeof(Elf32_Ehdr),
			.e_phentsize = sizeof(Elf32_Phdr),
			.e_phnum = 1,
		},
		.segment = {
			.p_type = PT_LOAD,
			.p_vaddr = ADDRESS32,
			.p_filesz = sizeof(file),
			.p_memsz = sizeof(file),
			.p_flags = PF_R | PF_X,
			.p_align = 0x1000,
		},
	};
	int fd = memfd_create("bits32", MFD_CLOEXEC);

	memcpy(file.code, code, sizeof(code));
	if (fd < 0 || write(fd, &file, sizeof(file)) != sizeof(file)) {
		perror("memfd");
		exit(99);
	}
	return fd;
}

static int bits32(void)
{
	char *argv[] = { (char []){ "bits32" }, NULL };
	int fd = make_program32(), ends[2];
	pid_t child;
	char c;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return 99;
	child = fork_child();
	if (child == 0) {
		fexecve(fd, argv, environ);
		c = 1;
		_exit(write(ends[1], &c, 1) != 1);
	}
	/* A successful exec closes the writing end. */
	close(ends[1]);
	if (read(ends[0], &c, 1) == 1)
		say("SKIP", "this kernel runs no 32-bit programs");
	else
		ready(child);
	until_stdin_ends();
	kill(child, SIGKILL);
	return 0;
}

/* The call site of the report. */
static __attribute__((noinline)) void keep_blocks(size_t n, size_t size)
{
	static void *volatile kept;

	for (size_t i = 0; i < n; i++)
		kept = malloc(size);
	(void)kept;
}

struct order {
	size_t n, size;
};

static __attribute__((noinline)) void *thread_keeps(void *arg)
{
	const struct order *order = arg;
	volatile char pages[2 * 4096] = { 0 };

	keep_blocks(order->n, order->size);
	return pages[0] ? arg : NULL;
}

static void keep_in_thread(size_t n, size_t size)
{
	struct order order = { n, size };
	pthread_t thread;

	if (pthread_create(&thread, NULL, thread_keeps, &order))
		abort();
	pthread_join(thread, NULL);
}

static char *pages;
static size_t n_pages;

/* Neighbours that differ are two mappings. */
static void map_pages(size_t n)
{
	n_pages = n;
	pages = mmap(NULL, n * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 1; pages != MAP_FAILED && i < n; i += 2)
		if (mprotect(pages + i * 4096, 4096, PROT_NONE) < 0)
			return;
}

static int holding[2];

static void held(void)
{
	char c;

	(void)!read(holding[0], &c, 1);
}

static uintptr_t heaptap_code(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "heaptap:code") && sscanf(line, "%lx", &start) == 1)
			break;
	if (maps)
		fclose(maps);
	return start;
}

/* Below a frame of code that is in no file. */
static void *hold(void *arg)
{
	/* push %rsi; call *%rdi; pop %rsi; ret */
	static const unsigned char code[] = { 0x56, 0xff, 0xd7, 0x5e, 0xc3 };
	void *copy = mmap(NULL, sizeof(code), PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		abort();
	memcpy(copy, code, sizeof(code));
	((void (*)(void (*)(void), uintptr_t))copy)(held, heaptap_code() + 64);
	munmap(copy, sizeof(code));
	return arg;
}

static pthread_t holder;

static int start_holding(void)
{
	return pipe2(holding, O_CLOEXEC) < 0 || pthread_create(&holder, NULL, hold, NULL);
}

static void stop_holding(void)
{
	close(holding[1]);
	pthread_join(holder, NULL);
	close(holding[0]);
}

static void work_when_told(const sigset_t *set)
{
	int sig;

	while (!sigwait(set, &sig)) {
		keep_blocks(10, 100);
		say("WORKED", "");
	}
	_exit(99);
}

static void fork_one(void)
{
	char text[16];
	sigset_t set, old;
	pid_t child;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &old);
	child = fork_child();
	if (child == 0)
		work_when_told(&set);
	sigprocmask(SIG_SETMASK, &old, NULL);
	snprintf(text, sizeof(text), "%d", (int)child);
	say("CHILD", text);
}

/* What daemons do that close what isn't theirs, and what happens to those who have it open. */
static void take_files(const char *path)
{
	int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;

	for (int fd = STDERR_FILENO + 1; fd < 4096; fd++) {
		if (fd == file || fcntl(fd, F_GETFD) < 0)
			continue;
		if (path)
			dup2(file, fd);
		else
			close(fd);
	}
}

/* A seccomp filter that kills for what it doesn't need. */
static bool forbid_calls(void)
{
	static const int allowed[] = {
		SYS_read, SYS_write, SYS_brk, SYS_mmap, SYS_munmap, SYS_getpid, SYS_newfstatat,
		SYS_rt_sigreturn, SYS_exit_group,
	};
	enum { N = sizeof(allowed) / sizeof(allowed[0]) };
	struct sock_filter code[N + 3] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = { N + 3, code };

	for (unsigned i = 0; i < N; i++)
		code[1 + i] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], (unsigned char)(N - i), 0);
	code[N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	code[N + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Syscall User Dispatch; a SIGSYS ends it. */
static void dispatch_calls(void)
{
	static char blocks = 1;
	unsigned long start, end, low = 0, high = 0;
	char line[512], mode[5];
	FILE *maps = fopen("/proc/self/maps", "r");

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %4s", &start, &end, mode) == 3 && mode[2] == 'x' &&
		    strstr(line, "/libc")) {
			low = start;
			high = end;
		}
	}
	if (!maps || fclose(maps) ||
	    prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, low, high - low, &blocks))
		say("SKIP", "no Syscall User Dispatch");
}

/* Numbers that mean another file in this thread. */
static void unshare_files(void)
{
	if (unshare(CLONE_FILES))
		say("SKIP", "no unshare");
	for (int i = 0; i < 64; i++)
		if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
			break;
}

static sem_t is_odd;

static void *allocate_oddly(void *arg)
{
	void (*const *become_odd)(void) = arg;

	(*become_odd)();
	sem_post(&is_odd);
	for (;;) {
		keep_blocks(1, 10);
		usleep(1000);
	}
	return NULL;
}

static void start_odd_thread(void (*become_odd)(void))
{
	pthread_t thread;

	sem_init(&is_odd, 0, 0);
	if (!pthread_create(&thread, NULL, allocate_oddly, &become_odd))
		while (sem_wait(&is_odd) < 0)
			;
}

static int worker(void)
{
	unsigned long n, size;
	char line[256], path[256];

	ready(getpid());
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "keep %lu %lu", &n, &size) == 2)
			keep_blocks(n, size);
		else if (sscanf(line, "thread %lu %lu", &n, &size) == 2)
			keep_in_thread(n, size);
		else if (sscanf(line, "map %lu", &n) == 1)
			map_pages(n);
		else if (!strcmp(line, "unmap\n"))
			munmap(pages, n_pages * 4096);
		else if (!strcmp(line, "dispatch\n"))
			start_odd_thread(dispatch_calls);
		else if (!strcmp(line, "unshare\n"))
			start_odd_thread(unshare_files);
		else if (!strcmp(line, "lock\n"))
			mlockall(MCL_FUTURE);
		else if (sscanf(line, "exit %lu", &n) == 1)
			exit((int)n);
		else if (!strcmp(line, "abort\n"))
			abort();
		else if (!strcmp(line, "exec\n"))
			execl("/proc/self/exe", "odd_process", "worker", NULL);
		else if (sscanf(line, "exec %255s", path) == 1)
			execl(path, "odd_process", "worker", NULL);
		else if (!strcmp(line, "close\n"))
			prctl(PR_SET_DUMPABLE, 0);
		else if (!strcmp(line, "forbid\n")) {
			if (!forbid_calls())
				return 99;
		} else if (!strcmp(line, "shut\n"))
			take_files(NULL);
		else if (sscanf(line, "take %255s", path) == 1)
			take_files(path);
		else if (!strcmp(line, "fork\n"))
			fork_one();
		else if (!strcmp(line, "hold\n")) {
			if (start_holding())
				return 99;
		} else if (!strcmp(line, "release\n"))
			stop_holding();
		else
			return 99;
		say("DONE", "");
	}
	return 0;
}

static int undumpable(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	return worker();
}

static int traced(void)
{
	int go[2];
	pid_t child;
	char c = 0;

	if (pipe2(go, O_CLOEXEC) < 0)
		return 99;
	child = fork_child();
	if (child == 0)
		return read(go[0], &c, 1) == 1 ? worker() : 99;
	if (ptrace(PTRACE_SEIZE, child, 0, 0) < 0)
		say("SKIP", "tracing is not permitted here");
	else if (write(go[1], &c, 1) != 1)
		return 99;
	close(go[0]);
	close(go[1]);
	return waitpid(child, NULL, 0) == child ? 0 : 99;
}

/* Of all calls only read, write and _exit are left, so no stream is used, and no memory but
 * what the first allocation got. */
static int strict(void)
{
	char line[64];
	int len = snprintf(line, sizeof(line), "READY %d\n", (int)getpid());

	keep_blocks(1, 1);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) < 0) {
		say("SKIP", "no seccomp here");
		return 0;
	}
	while (write(STDOUT_FILENO, line, (size_t)len) == len) {
		if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
			break;
		keep_blocks(1, 1000);
		len = snprintf(line, sizeof(line), "DONE\n");
	}
	syscall(SYS_exit, 0);
	return 0;
}

static int filter(void)
{
	keep_blocks(1, 1);
	if (!forbid_calls()) {
		say("SKIP", "no seccomp here");
		return 0;
	}
	return worker();
}

/* Until stdin ends, and nothing is left to read. */
static int copy_bytes(int from, const char *path)
{
	struct pollfd fds[2] = { { .fd = from, .events = POLLIN },
				 { .fd = STDIN_FILENO, .events = POLLIN } };
	int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	for (;;) {
		char *byte = malloc(1);

		/* A thread in poll() isn't borrowed for dlopen. */
		if (ppoll(fds, 2, NULL, NULL) < 0)
			return 99;
		if (fds[0].revents & POLLIN) {
			if (read(from, byte, 1) != 1 || write(to, byte, 1) != 1)
				return 99;
		} else if (fds[1].revents)
			return 0;
		free(byte);
	}
}

static const char *file;

static int terminal(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	char text[256];

	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0) {
		say("SKIP", "no pseudo terminals here");
		return 0;
	}
	snprintf(text, sizeof(text), "%d %s", (int)getpid(), ptsname(master));
	/* Held, or the end of its first user would be the end of it. */
	if (open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC) < 0)
		return 99;
	say("READY", text);
	return copy_bytes(master, file);
}

static int logger(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0 || dup2(ends[1], 7) < 0)
		return 99;
	ready(getpid());
	return copy_bytes(ends[0], file);
}

static const struct {
	const char *name;
	int (*run)(void);
} kinds[] = {
	{ "plain", plain },
	{ "zombie", zombie },
	{ "traced", traced },
	{ "undumpable", undumpable },
	{ "bits32", bits32 },
	{ "strict", strict },
	{ "filter", filter },
	{ "worker", worker },
	{ "terminal", terminal },
	{ "logger", logger },
};

int main(int argc, char **argv)
{
	file = argc > 2 ? argv[2] : "/dev/null";
	for (size_t i = 0; argc > 1 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].name, argv[1]))
			return kinds[i].run();
	fprintf(stderr, "odd_process: no such kind\n");
	return 99;
}
