/* SPDX-License-Identifier: Apache-2.0
 *
 * session.c: see session.h.
 */
#include "session.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "ht_patience.h"

const struct allocator allocators[] = {
	{ "glibc", NULL, "" },
	{ "jemalloc", "libjemalloc.so.2", "" },
	{ "tcmalloc", "libtcmalloc.so.4", "" },
	{ "tcmalloc minimal", "libtcmalloc_minimal.so.4", "" },
	{ "mimalloc", "libmimalloc.so.2", "" },
	{ "musl", NULL, "-musl" },
	{ "glibc static", NULL, "-static" },
	{ "musl static", NULL, "-musl-static" },
};
const size_t n_allocators = ARRAY_SIZE(allocators);
const size_t n_preloads = 5, n_dynamic = 6;

const struct allocator sized_allocators[] = {
	{ "sized", "tests/targets/sized.so", "" },
	{ "sized by free", "tests/targets/sized_forward.so", "" },
};
const size_t n_sized = ARRAY_SIZE(sized_allocators);

struct ht_tap_options options_exact(void)
{
	return (struct ht_tap_options){
		.ring_size = HT_DEFAULT_RING_SIZE,
		.max_stack = HT_DEFAULT_MAX_STACK,
		/* The machine may be busy: no loss until a test would time out. */
		.block_us = 20000000,
	};
}

struct ht_tap_options options_sampled(uint64_t interval)
{
	struct ht_tap_options options = options_exact();

	options.interval = interval;
	options.block = true;
	return options;
}

/* The program's path under @allocator, which is set in the environment. */
static bool prepare(const char *program, const struct allocator *allocator, char *path,
		    size_t cap)
{
	const char *dir = getenv("HT_BUILDDIR"), *preload = allocator->preload;
	char built[4096];

	dir = dir ? dir : ".";
	if (preload && strchr(preload, '/')) {
		snprintf(built, sizeof(built), "%s/%s", dir, preload);
		preload = built;
	}
	snprintf(path, cap, "%s/tests/targets/%s%s", dir, program, allocator->suffix);
	return ht_check_have(!access(path, X_OK), path) &&
	       (!preload || ht_check_preload(preload));
}

bool session_start(struct session *s, const char *program, const struct allocator *allocator,
		   const char *const args[])
{
	char path[4096];

	*s = (struct session){ .state = HT_TAP_CURED };
	if (!prepare(program, allocator, path, sizeof(path)))
		return false;
	ck_ok(ht_test_target_start(&s->target, path, args));
	unsetenv("LD_PRELOAD");
	return true;
}

void session_attach(struct session *s, const struct ht_tap_options *options)
{
	struct ht_err err = { HT_ERR_NONE, "" };
	int r = ht_tap_attach(s->target.pid, options, &s->tap, &err);

	ck_assert_msg(r == 0, "attach: %s", err.text);
	s->options = *options;
	s->state = HT_TAP_RUNNING;
}

static void plumb(int saved[2], const int in[2], const int out[2])
{
	saved[0] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
	saved[1] = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
	ck_assert_int_ge(saved[0], 0);
	ck_assert_int_ge(saved[1], 0);
	ck_assert_int_eq(dup2(in[0], STDIN_FILENO), STDIN_FILENO);
	ck_assert_int_eq(dup2(out[1], STDOUT_FILENO), STDOUT_FILENO);
}

static void unplumb(const int saved[2])
{
	dup2(saved[0], STDIN_FILENO);
	dup2(saved[1], STDOUT_FILENO);
	close(saved[0]);
	close(saved[1]);
}

bool session_launch(struct session *s, const char *program,
		    const struct allocator *allocator, const char *const args[],
		    const struct ht_tap_options *options)
{
	struct ht_err err = { HT_ERR_NONE, "" };
	struct ht_tap_result result;
	int in[2], out[2], saved[2], r;
	char path[4096], *argv[16] = { path };

	*s = (struct session){ .state = HT_TAP_CURED, .launched = true };
	if (!prepare(program, allocator, path, sizeof(path)))
		return false;
	for (int i = 0; args[i]; i++)
		argv[i + 1] = (char *)args[i];
	ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	fflush(stdout);
	plumb(saved, in, out);
	r = ht_tap_launch(argv, options, &s->tap, &err);
	unplumb(saved);
	unsetenv("LD_PRELOAD");
	close(in[0]);
	close(out[1]);
	ck_assert_msg(r == 0, "launch %s: %s", path, err.text);
	ht_tap_result(s->tap, &result);
	s->target = (struct ht_test_target){
		.pid = result.pid, .to = in[1], .from = out[0], .pending = HT_BUF_INIT
	};
	s->options = *options;
	s->state = HT_TAP_RUNNING;
	session_read(s, s->target.ready, sizeof(s->target.ready));
	ck_assert_int_eq(strncmp(s->target.ready, "READY", 5), 0);
	return true;
}

/* Account for records until the target says something. Then once more, for what came between
 * the last look and its words. */
static void serve(struct session *s)
{
	struct ht_err err = { HT_ERR_NONE, "" };

	if (s->state != HT_TAP_RUNNING || s->target.pending.len)
		return;
	for (int i = 0; i < 2; i++) {
		int r = ht_tap_serve(s->tap, ht_test_deadline_ns(),
				     s->target.from, &s->state, &err);

		ck_assert_msg(r == 0, "serve: %s", err.text);
		ck_assert_int_eq(s->state, HT_TAP_RUNNING);
	}
}

void session_send(struct session *s, const char *line)
{
	ck_ok(ht_test_target_send(&s->target, line));
}

void session_read(struct session *s, char *line, size_t cap)
{
	serve(s);
	ck_ok(ht_test_target_read(&s->target, line, cap));
}

void session_ask(struct session *s, const char *line)
{
	char reply[128], want[64];

	snprintf(want, sizeof(want), "%s done", line);
	session_send(s, line);
	session_read(s, reply, sizeof(reply));
	ck_assert_str_eq(reply, want);
}

void session_cure(struct session *s)
{
	struct ht_err err = { HT_ERR_NONE, "" };
	int r = ht_tap_cure(s->tap, &err);

	ck_assert_msg(r == 0, "cure: %s", err.text);
	s->state = HT_TAP_CURED;
}

void session_end(struct session *s)
{
	int status;

	ck_ok(ht_test_target_stop(&s->target, &status));
	ck_assert_int_eq(status, 0);
	if (s->tap)
		s->tap = ht_tap_free(s->tap);
}
