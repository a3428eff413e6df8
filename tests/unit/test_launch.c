/* SPDX-License-Identifier: Apache-2.0
 *
 * Launched programs stop before any of their code has run, and then run as if nothing was.
 */
#include "attach/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/facts.h"
#include "attach/faults.h"
#include "attach/remote.h"
#include "base/clock.h"
#include "ht_check.h"

static int out = -1;
static bool may_print;

static const char *built(const char *name)
{
	static char path[512];
	const char *dir = getenv("HT_BUILDDIR");

	snprintf(path, sizeof(path), "%s/tests/targets/%s", dir ? dir : ".", name);
	return path;
}

/* With its stdout in a pipe. */
static int launch(const char *program, struct ht_target **ret_target, struct ht_err *err)
{
	char *argv[] = { (char *)(uintptr_t)program, NULL };
	int fds[2], saved = dup(1), r;

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	fflush(stdout);
	dup2(fds[1], 1);
	r = ht_launch(argv, ret_target, err);
	dup2(saved, 1);
	close(saved);
	close(fds[1]);
	if (out >= 0)
		close(out);
	out = fds[0];
	return r;
}

static bool has_output(void)
{
	struct pollfd pfd = { out, POLLIN, 0 };

	return poll(&pfd, 1, 0) > 0 && pfd.revents & POLLIN;
}

static void read_output(char *buf, size_t cap)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(out, buf + len, cap - 1 - len)) > 0)
		len += (size_t)n;
	buf[len] = '\0';
}

static void launch_starter(const char *path, enum ht_libc libc, const char *output)
{
	struct ht_target *target = NULL;
	struct ht_remote *remote = NULL;
	struct ht_err err = { 0 };
	char text[128];
	int status = 0, r = launch(path, &target, &err);
	long result;

	ck_assert_msg(r == 0, "%s", err.text);
	ck_assert_uint_eq(ht_target_threads(target), 1);
	ck_assert_int_eq(ht_target_tid(target, 0), ht_target_pid(target));
	ck_assert_int_eq(ht_target_facts(target)->libc, libc);
	ck_ok(ht_target_verify(target));
	ck_assert(may_print || !has_output());
	/* It can be worked on where it is. */
	r = ht_remote_begin(target, 0, 0, &remote, &err);
	ck_assert_msg(r == 0, "%s", err.text);
	ck_ok(ht_remote_syscall(remote, SYS_getpid, (const uint64_t[6]){ 0 }, &result));
	ck_assert_int_eq(result, ht_target_pid(target));
	ck_ok(ht_remote_end(remote));
	ck_assert(may_print || !has_output());
	ht_target_resume(target);
	read_output(text, sizeof(text));
	ck_assert_str_eq(text, output);
	ck_ok(ht_target_wait(target, &status));
	ck_assert_int_eq(WEXITSTATUS(status), 7);
	ck_ok(ht_target_wait(target, &status));
	ck_assert(!ht_target_alive(target));
	ht_target_close(target);
}

START_TEST(glibc_before_constructors)
{
	launch_starter(built("starter"), HT_LIBC_GLIBC, "constructor\nplain\n");
}
END_TEST

START_TEST(static_at_the_entry)
{
	launch_starter(built("starter-static"), HT_LIBC_STATIC, "constructor\nplain\n");
}
END_TEST

static const char library_source[] =
	"#include <unistd.h>\n"
	"__attribute__((constructor)) static void c(void)\n"
	"{ if (write(1, NAME, sizeof(NAME) - 1) < 0) _exit(9); }\n"
	"unsigned la_version(unsigned v) { return v; }\n";

static void _printf_format_(1, 2) run_command(const char *fmt, ...)
{
	char command[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(command, sizeof(command), fmt, args);
	va_end(args);
	ck_assert_msg(system(command) == 0, "%s", command);
}

/* A library's constructors run before the program's entry; and an auditor's before the
 * loader has begun with the program, in a namespace of its own. */
START_TEST(glibc_before_constructors_of_libraries)
{
	static const struct {
		const char *variable, *name;
	} rows[] = { { "LD_PRELOAD", "preloaded" }, { "LD_AUDIT", "auditor" } };
	char dir[] = "/tmp/test_launch.XXXXXX", path[64], output[64];
	const char *cc = getenv("CC");
	FILE *f;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/l.c", dir);
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	fputs(library_source, f);
	fclose(f);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		run_command("%s -shared -fPIC -DNAME='\"%s\\n\"' -o %s/%s.so %s/l.c",
			    cc ? cc : "cc", rows[i].name, dir, rows[i].name, dir);
		snprintf(path, sizeof(path), "%s/%s.so", dir, rows[i].name);
		setenv(rows[i].variable, path, 1);
		snprintf(output, sizeof(output), "%s\nconstructor\nplain\n", rows[i].name);
		/* The auditor is code that was told to run before all else. */
		may_print = i == 1;
		launch_starter(built("starter"), HT_LIBC_GLIBC, output);
		unsetenv(rows[i].variable);
	}
	run_command("rm -rf %s", dir);
}
END_TEST

START_TEST(musl_at_the_entry)
{
	char dir[] = "/tmp/test_launch.XXXXXX", program[64];
	const char *source = getenv("HT_SRCDIR");

	if (!ht_check_have(!system("command -v musl-gcc >/dev/null"), "musl-gcc"))
		return;
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(program, sizeof(program), "%s/starter", dir);
	run_command("musl-gcc -O1 -o %s %s/tests/targets/starter.c >%s/log 2>&1", program,
		    source ? source : "..", dir);
	launch_starter(program, HT_LIBC_MUSL, "constructor\nplain\n");
	run_command("rm -rf %s", dir);
}
END_TEST

START_TEST(inherits_mask_and_ignored_signals)
{
	sigset_t set, old, now;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	signal(SIGTRAP, SIG_IGN);
	sigprocmask(SIG_BLOCK, &set, &old);
	launch_starter(built("starter"), HT_LIBC_GLIBC, "constructor\nmask\n");
	sigprocmask(SIG_BLOCK, NULL, &now);
	ck_assert(sigismember(&now, SIGUSR1) && !sigismember(&now, SIGCHLD));
	sigprocmask(SIG_SETMASK, &old, NULL);
	signal(SIGTRAP, SIG_DFL);
}
END_TEST

START_TEST(path_is_searched)
{
	struct ht_target *target = NULL;
	struct ht_err err = { 0 };
	int status = -1, r = launch("true", &target, &err);

	ck_assert_msg(r == 0, "%s", err.text);
	/* Closing lets it run. */
	ht_target_resume(target);
	ck_ok(ht_target_wait(target, &status));
	ck_assert_int_eq(status, 0);
	ht_target_close(target);
}
END_TEST

START_TEST(what_cannot_run)
{
	struct ht_target *target = NULL;
	struct ht_err err = { 0 };

	ck_assert_int_eq(launch("/nowhere/at/all", &target, &err), -ENOENT);
	ck_assert_str_eq(err.text, "can't run /nowhere/at/all: No such file or directory");
	setenv("PATH", "/usr/bin:/bin", 1);
	ck_assert_int_eq(launch("no-such-program-in-path", &target, &err), -ENOENT);
	ck_assert_int_eq(launch("/etc/passwd", &target, &err), -EACCES);
	ck_assert_ptr_null(target);
	/* Nothing is left of any of them. */
	ck_assert_int_eq(waitpid(-1, NULL, __WALL | WNOHANG), -1);
}
END_TEST

START_TEST(wait_is_for_launched_ones)
{
	struct ht_target *target = NULL;
	struct ht_err err = { 0 };
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		for (;;)
			pause();
	}
	ck_ok(ht_target_open(pid, &target, &err));
	ck_assert_int_eq(ht_target_wait(target, &status), -ECHILD);
	ht_target_close(target);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
END_TEST

START_TEST(loader_that_gives_up)
{
	struct ht_target *target = NULL;
	struct ht_err err = { 0 };
	int r;

	/* The loader ends by itself: all it does is to say what it'd load. */
	setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
	r = launch("/bin/true", &target, &err);
	unsetenv("LD_TRACE_LOADED_OBJECTS");
	ck_assert_int_eq(r, -ESRCH);
	ck_assert_str_eq(err.text, "/bin/true exited with status 0 before its program began");
	ck_assert_int_eq(waitpid(-1, NULL, __WALL | WNOHANG), -1);
}
END_TEST

#ifdef HT_FAULTS
/* Faults count per process. True: it fired, and nothing was left. */
static bool launch_with_fault(const char *fault)
{
	int status = 0;
	pid_t tool = fork();

	ck_assert_int_ge(tool, 0);
	if (tool == 0) {
		struct ht_target *target = NULL;
		struct ht_err err = { 0 };
		int r;

		setenv("HEAPTAP_FAULT", fault, 1);
		r = launch(built("starter"), &target, &err);
		if (r == 0) {
			ht_target_resume(target);
			(void)!ht_target_wait(target, &r);
			_exit(r == 7 << 8 ? 0 : 2);
		}
		_exit(err.text[0] && waitpid(-1, NULL, __WALL | WNOHANG) < 0 ? 1 : 2);
	}
	ck_assert_int_eq(waitpid(tool, &status, 0), tool);
	ck_assert_msg(WIFSIGNALED(status) || WEXITSTATUS(status) < 2, "%s: %#x", fault, status);
	return status != 0;
}

START_TEST(faults)
{
	char fault[64];
	int fired = 0;

	for (const char *const *point = ht_launch_faults; *point; point++) {
		snprintf(fault, sizeof(fault), "%s:12", *point);
		fired += launch_with_fault(fault);
	}
	/* All but launch.break, which can only die. */
	ck_assert_int_eq(fired, 6);
}
END_TEST
#endif

int main(void)
{
	return ht_check_run("launch", (const TTest *const[]){
					      glibc_before_constructors,
					      glibc_before_constructors_of_libraries,
					      static_at_the_entry,
					      musl_at_the_entry,
					      inherits_mask_and_ignored_signals,
					      path_is_searched, what_cannot_run,
					      wait_is_for_launched_ones, loader_that_gives_up,
#ifdef HT_FAULTS
					      faults,
#endif
					      NULL });
}
