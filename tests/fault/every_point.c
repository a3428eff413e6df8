/* SPDX-License-Identifier: Apache-2.0
 *
 * every_point: heaptap fails, or is killed, at every named fault point that it passes, at the
 * first, second and last passing, while it attaches by either loader, cures, and launches.
 * The target must go on as if nothing had happened; after a failure it is as it was, after a
 * kill "heaptap cure" makes it so. And the target dies, ends, becomes another program, or
 * gets a signal that it ignores, while heaptap is there; or it is stopped as a job, or
 * continued, or heaptap is killed while it is stopped.
 *
 * HT_SWEEP=all takes every way at every passing instead of some of them, HT_SWEEP=POINT the
 * same at one point. (sweep.test does the plain attach with the command itself.)
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/vec.h"
#include "busy.h"
#include "ht_check.h"
#include "ht_patience.h"

#ifdef HT_FAULTS

struct point {
	char name[32];
	unsigned passings;
};

static ht_vec(struct point) points;
static unsigned scenarios, killed, failed, survived, bad;
static bool dies;		/* the target, not heaptap */
static bool is_job;		/* the target is stopped or continued */

struct scenario {
	struct ht_test_work *work;
	struct ht_test_work *mess;	/* before it; NULL: none */
	const struct point *point;
	const char *way;
	unsigned passing;
};

static struct point *find_point(const char *name)
{
	struct point *p;

	ht_vec_foreach(p, &points)
		if (!strcmp(p->name, name))
			return p;
	p = ht_vec_push(&points);
	ck_assert_ptr_nonnull(p);
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->passings = 0;
	return p;
}

/* A run without a fault tells which points there are. */
static void list_points(struct ht_test_work work)
{
	_cleanup_(ht_buf_fini) struct ht_buf text = HT_BUF_INIT;
	char path[64], *line, *save = NULL;

	snprintf(ht_busy_when, sizeof(ht_busy_when), "without a fault");
	work.trace_fd = memfd_create("trace", 0);
	ck_assert_int_ge(work.trace_fd, 0);
	ck_assert(ht_busy_works(&work));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", work.trace_fd);
	ck_ok(ht_buf_read_file(&text, AT_FDCWD, path, 1 << 20));
	ht_fd_close(work.trace_fd);
	ht_vec_fini(&points);
	for (line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		find_point(line)->passings++;
	ck_assert_uint_gt(points.len, 0);
}

/* Between a thread's stop and the repair of what it does to its call a kill can't be
 * mended; nor can it while a thread with a restart block is borrowed. */
static bool may_interrupt(const char *point)
{
	static const char *const folders[] = { "attach.", "remote.", "session.", "place.",
					       "dlopen.", "cure.unmap", "undo." };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (!strncmp(point, folders[i], strlen(folders[i])))
			return true;
	return false;
}

static bool well_said(const struct ht_test_tool *tool)
{
	const char *text = tool->err.text;
	size_t len = strlen(text);

	if (tool->err.kind == HT_ERR_NONE || tool->err.kind > HT_ERR_UNSUPPORTED)
		return ht_busy_wrong("exit status %d", (int)tool->err.kind);
	return (len > 10 && !strchr(text, '\n') && text[len - 1] != '.') ||
	       ht_busy_wrong("\"%s\"", text);
}

/* What a killed heaptap left. */
static void make_mess(const struct ht_test_work *work)
{
	struct ht_test_tool tool;

	ck_ok(ht_test_tool_start(&tool, work, NULL));
	ck_ok(ht_test_tool_await_tap(&tool));
	kill(tool.pid, SIGKILL);
	ck_ok(ht_test_tool_wait(&tool));
}

static bool after_kill(const struct point *point, const struct ht_test_tool *tool,
		       unsigned eintr)
{
	const struct ht_test_work cure = { .pid = ht_busy.pid };
	unsigned n = 0;
	bool ok = true;

	if (!WIFSIGNALED(tool->status) || WTERMSIG(tool->status) != SIGKILL)
		return ht_busy_wrong("heaptap's status is %#x", (unsigned)tool->status);
	if (!ht_busy_check(&n))
		return false;
	if (n != eintr && !may_interrupt(point->name))
		ok = ht_busy_wrong("%u calls failed with EINTR", n - eintr);
	eintr = n;
	if (!ht_busy_works(&cure) || !ht_busy_check(&n))
		return false;
	if (n != eintr)
		ok = ht_busy_wrong("%u calls failed with EINTR by cure", n - eintr);
	return ht_busy_as_before() && ok;
}

static bool after_failure(const struct ht_test_tool *tool, const struct ht_test_work *work,
			  unsigned eintr)
{
	const struct ht_test_work cure = { .pid = ht_busy.pid };
	unsigned n = 0;
	bool ok = true;

	if (!ht_busy_check(&n))
		return false;
	if (n != eintr)
		ok = ht_busy_wrong("%u calls failed with EINTR", n - eintr);
	if (tool->result < 0)
		ok = well_said(tool) && ok;
	/* A cure that failed is to be tried again. */
	if (!work->attach)
		ok = ht_busy_works(&cure) && ok;
	return ht_busy_as_before() && ok;
}

/* A launched program runs from its constructor to its end, or not at all. */
static bool launched_well(struct ht_test_tool *tool, struct ht_test_work *work,
			  const char *fault)
{
	struct pollfd pfd = { .events = POLLIN };
	char text[256] = "";
	size_t len = 0;
	ssize_t n = 1;
	int fds[2];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	work->launch_out = fds[1];
	ck_ok(ht_test_tool_run(tool, work, fault));
	close(fds[1]);
	pfd.fd = fds[0];
	while (n > 0 && len < sizeof(text) - 1) {
		if (poll(&pfd, 1, ht_deadline_poll_ms(ht_test_deadline_ns())) <= 0)
			break;
		n = read(fds[0], text + len, sizeof(text) - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	close(fds[0]);
	if (n)
		return ht_busy_wrong("the program lives on, after \"%s\"", text);
	if (!strcmp(text, "constructor\nplain\n"))
		return true;
	return *text || (tool->finished && tool->result == 0) ?
		       ht_busy_wrong("the program said \"%s\"", text) : true;
}

static void start_anew(const struct scenario *s)
{
	ht_busy_stop();
	ht_busy_start();
	s->work->pid = ht_busy.pid;
	if (s->mess)
		s->mess->pid = ht_busy.pid;
}

static void name_it(const struct scenario *s, const char *mode)
{
	snprintf(ht_busy_when, sizeof(ht_busy_when), "%s:%s@%u %s%s", s->point->name, s->way,
		 s->passing, mode, s->work->loader == HT_LOADER_DLOPEN ? " dlopen" : "");
}

static void count(const struct ht_test_tool *tool)
{
	scenarios++;
	killed += !tool->finished;
	failed += tool->finished && tool->result < 0;
	survived += tool->finished && tool->result == 0;
	fflush(stdout);
}

static bool try_launch(const struct scenario *s, const char *fault)
{
	struct ht_test_tool tool;
	bool ok;

	name_it(s, "run");
	ok = launched_well(&tool, s->work, fault);
	count(&tool);
	return (tool.result == 0 || well_said(&tool)) && ok;
}

static bool try_failure(const struct scenario *s, const char *fault)
{
	struct ht_test_tool tool;
	unsigned eintr = 0;
	bool ok;

	name_it(s, s->work->attach ? "attach" : "cure");
	if (s->mess)
		make_mess(s->mess);
	ck_assert(ht_busy_check(&eintr));
	ck_ok(ht_test_tool_run(&tool, s->work, fault));
	count(&tool);
	ok = tool.finished ? after_failure(&tool, s->work, eintr) :
			     after_kill(s->point, &tool, eintr);
	if (!ok && tool.finished)
		printf("heaptap had ended with %d: \"%s\"\n", tool.result, tool.err.text);
	return ok;
}

/* With heaptap stopped at the point. */
static void meet_fate(const char *way)
{
	if (!strcmp(way, "die"))
		kill(ht_busy.pid, SIGKILL);
	else if (!strcmp(way, "winch"))
		kill(ht_busy.pid, SIGWINCH);
	else
		ck_ok(ht_test_target_send(&ht_busy, way));
}

static bool after_fate(const struct ht_test_tool *tool, const char *way)
{
	bool ends = !strcmp(way, "die") || !strcmp(way, "quit");
	char line[128];
	unsigned n = 0;

	if (!tool->finished)
		return ht_busy_wrong("heaptap's status is %#x", (unsigned)tool->status);
	if (tool->result < 0 && !well_said(tool))
		return false;
	if (tool->result < 0 && ends && tool->err.kind != HT_ERR_GONE)
		return ht_busy_wrong("exit status %d: %s", (int)tool->err.kind, tool->err.text);
	if (ends)
		return true;
	if (!strcmp(way, "winch")) {
		if (tool->result < 0)
			return ht_busy_wrong("%s", tool->err.text);
		if (!ht_busy_check(&n))
			return false;
		return n ? ht_busy_wrong("%u calls failed with EINTR", n) : ht_busy_as_before();
	}
	if (ht_test_target_read(&ht_busy, line, sizeof(line)) < 0 || strcmp(line, "READY"))
		return ht_busy_wrong("no new program");
	return ht_busy_check(&n) && ht_busy_is_clean();
}

static bool try_fate(const struct scenario *s)
{
	struct ht_test_tool tool;
	char fault[64];
	siginfo_t info;
	bool ok;
	int r;

	snprintf(fault, sizeof(fault), "%s:stop@%u", s->point->name, s->passing);
	name_it(s, s->work->attach ? "attach" : "cure");
	if (s->mess)
		make_mess(s->mess);
	ck_ok(ht_test_tool_start(&tool, s->work, fault));
	/* Some points are passed less often at times: then it comes to its end. */
	ck_assert_int_eq(waitid(P_PID, (id_t)tool.pid, &info, WSTOPPED | WEXITED | WNOWAIT), 0);
	meet_fate(s->way);
	kill(tool.pid, SIGCONT);
	r = ht_test_tool_wait(&tool);
	count(&tool);
	if (r < 0)
		ht_busy_wrong("heaptap doesn't end: %s", strerror(-r));
	ok = r == 0 && after_fate(&tool, s->way);
	start_anew(s);
	return ok;
}

/* ---- a job that is stopped ---- */

static bool is_thread_stopped(const char *tid)
{
	_cleanup_(ht_buf_fini) struct ht_buf text = HT_BUF_INIT;
	char path[64];
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stat", (int)ht_busy.pid, tid);
	if (ht_buf_read_file(&text, AT_FDCWD, path, 4096) < 0 || !text.len)
		return false;
	p = strrchr(text.data, ')');
	return p && p[2] == 'T';
}

static bool are_all_stopped(void)
{
	const struct dirent *entry;
	bool ok = true;
	char path[32];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)ht_busy.pid);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir)))
		ok = (entry->d_name[0] == '.' || is_thread_stopped(entry->d_name)) && ok;
	closedir(dir);
	return ok;
}

/* The kernel wakes a thread that is let go, for it to stop again. */
static bool is_stopped(void)
{
	uint64_t deadline = ht_test_deadline_ns();

	while (!are_all_stopped()) {
		if (ht_deadline_passed(deadline))
			return ht_busy_wrong("a thread of a stopped job runs");
		poll(NULL, 0, 1);
	}
	return true;
}

/* What a shell that started it is told next: @want, or nothing if that is 0. */
static bool is_told(int want)
{
	uint64_t deadline = ht_test_deadline_ns();
	siginfo_t info = { 0 };

	for (;;) {
		ck_assert_int_eq(waitid(P_PID, (id_t)ht_busy.pid, &info,
					WSTOPPED | WCONTINUED | WEXITED | WNOHANG), 0);
		if (info.si_pid || !want)
			break;
		if (ht_deadline_passed(deadline))
			return ht_busy_wrong("its parent isn't told of %d", want);
		poll(NULL, 0, 1);
	}
	return (info.si_pid ? info.si_code : 0) == want ||
	       ht_busy_wrong("its parent is told of %d, not of %d", info.si_code, want);
}

static bool stop_job(void)
{
	kill(ht_busy.pid, SIGTSTP);
	return is_told(CLD_STOPPED) && is_stopped();
}

static bool continue_job(void)
{
	kill(ht_busy.pid, SIGCONT);
	return is_told(CLD_CONTINUED);
}

/* With heaptap stopped at the point, or killed there. */
static bool meet_job(const struct scenario *s, pid_t heaptap)
{
	if (!strcmp(s->way, "stop"))
		kill(ht_busy.pid, SIGSTOP);
	else if (!strcmp(s->way, "stop+kill"))
		return !kill(ht_busy.pid, SIGSTOP) && !kill(heaptap, SIGKILL);
	else if (!strcmp(s->way, "bounce"))
		return !kill(ht_busy.pid, SIGSTOP) && !kill(ht_busy.pid, SIGCONT);
	else if (!strcmp(s->way, "fg"))
		return continue_job();
	return true;
}

static bool after_job(const struct scenario *s)
{
	const struct ht_test_work cure = { .pid = ht_busy.pid };
	bool stops = !strncmp(s->way, "stop", 4), ok = !stops || is_told(CLD_STOPPED);
	unsigned n;

	if (stops || !strcmp(s->way, "kill"))
		ok = ok && is_stopped() && ht_busy_works(&cure) && is_stopped() && is_told(0) &&
		     continue_job();
	/* A stopped job can't call dlclose(): what was loaded goes with a later cure. */
	if (!ok || !ht_busy_check(&n) || !ht_busy_works(&cure) || !ht_busy_as_before())
		return false;
	if (strcmp(s->way, "bounce") != 0)
		return is_told(0);
	/* Of a stop that ends at once it may be told or not. */
	(void)waitpid(ht_busy.pid, NULL, WUNTRACED | WCONTINUED | WNOHANG);
	return is_told(0);
}

static bool try_job(const struct scenario *s)
{
	bool is_kill = !strcmp(s->way, "kill"), ok = true;
	struct ht_test_tool tool;
	char fault[64];
	siginfo_t info;

	snprintf(fault, sizeof(fault), "%s:%s@%u", s->point->name, is_kill ? "kill" : "stop",
		 s->passing);
	name_it(s, s->work->attach ? "attach" : "cure");
	if (s->mess)
		make_mess(s->mess);
	if (is_kill || !strcmp(s->way, "fg"))
		ok = stop_job();
	ck_ok(ht_test_tool_start(&tool, s->work, fault));
	ck_assert_int_eq(waitid(P_PID, (id_t)tool.pid, &info, WSTOPPED | WEXITED | WNOWAIT), 0);
	ok = ok && meet_job(s, tool.pid);
	kill(tool.pid, SIGCONT);
	ck_ok(ht_test_tool_wait(&tool));
	count(&tool);
	if (tool.finished && tool.result < 0)
		ok = well_said(&tool) && ok;
	return ok && after_job(s);
}

static void try(const struct scenario *s)
{
	char fault[64];
	bool ok;

	snprintf(fault, sizeof(fault), "%s:%s@%u", s->point->name, s->way, s->passing);
	if (dies) {
		bad += !try_fate(s);
		return;
	}
	if (s->work->launch) {
		bad += !try_launch(s, fault);
		return;
	}
	ok = is_job ? try_job(s) : try_failure(s, fault);
	if (ok)
		return;
	bad++;
	start_anew(s);
}

static bool is_wanted(const char *only, const char *name, unsigned turn)
{
	/* Has nothing in common with the number of ways: each of them gets its turn. */
	if (!only)
		return turn % 11 == 0;
	return !strcmp(only, "all") || !strcmp(only, name);
}

static void sweep(struct ht_test_work *work, struct ht_test_work *mess)
{
	static const char *const failures[] = { "kill", "12", "1" };
	static const char *const fates[] = { "die", "quit", "exec", "winch" };
	static const char *const jobs[] = { "stop", "stop+kill", "bounce", "fg", "kill" };
	const char *const *ways = dies ? fates : is_job ? jobs : failures;
	size_t n_ways = dies ? ARRAY_SIZE(fates) : is_job ? ARRAY_SIZE(jobs) :
							    ARRAY_SIZE(failures);
	const char *only = getenv("HT_SWEEP");
	unsigned turn = 0;
	struct point *p;

	ht_vec_foreach(p, &points) {
		unsigned passings[] = { 1, 2, p->passings };

		for (size_t i = 0; i < 3; i++) {
			if (passings[i] > p->passings || (i == 2 && passings[i] <= 2))
				continue;
			for (size_t w = 0; w < n_ways; w++)
				if (is_wanted(only, p->name, turn++))
					try(&(struct scenario){ work, mess, p, ways[w],
								passings[i] });
		}
	}
	printf("%u scenarios so far: %u killed, %u failed, %u survived; %u bad\n", scenarios,
	       killed, failed, survived, bad);
	ck_assert_uint_eq(bad, 0);
}

START_TEST(attach)
{
	struct ht_test_work work = { .attach = true, .loader = HT_LOADER_MAP, .serve_ms = 10 };

	ht_busy_start();
	work.pid = ht_busy.pid;
	list_points(work);
	ck_assert(ht_busy_as_before());
	sweep(&work, NULL);
	ht_busy_stop();
}
END_TEST

START_TEST(attach_by_dlopen)
{
	struct ht_test_work work = { .attach = true, .loader = HT_LOADER_DLOPEN,
				     .serve_ms = 10 };

	ht_busy_start();
	work.pid = ht_busy.pid;
	list_points(work);
	sweep(&work, NULL);
	ht_busy_stop();
}
END_TEST

START_TEST(cure)
{
	struct ht_test_work mess = { .attach = true, .loader = HT_LOADER_MAP };
	struct ht_test_work work = { 0 };

	ht_busy_start();
	work.pid = mess.pid = ht_busy.pid;
	make_mess(&mess);
	list_points(work);
	sweep(&work, &mess);
	ht_busy_stop();
}
END_TEST

START_TEST(target_ends)
{
	struct ht_test_work work = { .attach = true, .serve_ms = 10 };

	dies = true;
	ht_busy_start();
	for (work.loader = HT_LOADER_DLOPEN; work.loader <= HT_LOADER_MAP; work.loader++) {
		work.pid = ht_busy.pid;
		list_points(work);
		sweep(&work, NULL);
	}
	ht_busy_stop();
	dies = false;
}
END_TEST

/* The exec waits for threads that heaptap has, and heaptap for the exec. */
START_TEST(exec_meets_seize)
{
	struct ht_test_work work = { .attach = true, .loader = HT_LOADER_MAP, .serve_ms = 10 };

	dies = true;
	ht_busy_start();
	work.pid = ht_busy.pid;
	for (unsigned i = 2; i <= 4; i++)
		try(&(struct scenario){ &work, NULL, find_point("attach.seize"), "exec", i });
	ck_assert_uint_eq(bad, 0);
	ht_busy_stop();
	dies = false;
}
END_TEST

/* Ctrl-Z and fg, by either loader and during a cure. */
START_TEST(job_control)
{
	struct ht_test_work mess = { .attach = true, .loader = HT_LOADER_MAP };
	struct ht_test_work work = { .attach = true, .serve_ms = 10 };
	struct ht_test_work undo = { 0 };

	is_job = true;
	ht_busy_start();
	for (work.loader = HT_LOADER_DLOPEN; work.loader <= HT_LOADER_MAP; work.loader++) {
		work.pid = ht_busy.pid;
		list_points(work);
		sweep(&work, NULL);
	}
	undo.pid = mess.pid = ht_busy.pid;
	make_mess(&mess);
	list_points(undo);
	sweep(&undo, &mess);
	ht_busy_stop();
	is_job = false;
}
END_TEST

START_TEST(target_ends_during_cure)
{
	struct ht_test_work mess = { .attach = true, .loader = HT_LOADER_MAP };
	struct ht_test_work work = { 0 };

	dies = true;
	ht_busy_start();
	work.pid = mess.pid = ht_busy.pid;
	make_mess(&mess);
	list_points(work);
	sweep(&work, &mess);
	ht_busy_stop();
	dies = false;
}
END_TEST

START_TEST(run)
{
	char path[512];
	char *argv[] = { path, NULL };
	struct ht_test_work work = { .launch = argv, .exact = true };
	struct ht_test_tool tool;
	const char *dir = getenv("HT_BUILDDIR");

	snprintf(path, sizeof(path), "%s/tests/targets/starter", dir ? dir : ".");
	ck_assert(launched_well(&tool, &work, NULL));
	ck_assert_uint_gt(tool.samples, 0);
	ck_assert_int_eq(WEXITSTATUS(tool.wait_status), 7);
	work.launch_out = open("/dev/null", O_WRONLY | O_CLOEXEC);
	list_points(work);
	close(work.launch_out);
	sweep(&work, NULL);
}
END_TEST

int main(void)
{
	return ht_check_run_for("every_point", 600, (const TTest *const[]){
		attach, attach_by_dlopen, cure, target_ends, exec_meets_seize,
		job_control, target_ends_during_cure, run, NULL });
}

#else

int main(void)
{
	ht_check_skip("fault points are not compiled in");
}

#endif
