/* SPDX-License-Identifier: Apache-2.0
 *
 * Debug files from a server on this machine.
 */
#include "symbol/debuginfod.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "fake_modules.h"
#include "ht_check.h"
#include "symbol/symbol.h"
#include "tool.h"

static char dir[64], url[64], id[128];
static FILE *server;
static int server_stdin = -1;

/* One of the libraries that libdebuginfod brings along keeps a stream of its own. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:_IO_file_doallocate\n";
}

/* prog in dir, stripped; its debug file, by its build-id, in dir/s. */
static uint64_t make_program(void)
{
	struct ht_buf out = HT_BUF_INIT;
	unsigned long addr;
	char command[512];

	tool_mkdir(dir);
	snprintf(command, sizeof(command), "nm %s | grep ' complain$'", TOOL_INLINES);
	tool_output(command, &out);
	ck_assert_int_eq(sscanf(out.data, "%lx", &addr), 1);
	ht_buf_clear(&out);
	ck_assert_int_eq(tool_run("mkdir %s/s && cp %s %s/prog && cd %s &&"
				  " objcopy --only-keep-debug prog debug && strip prog",
				  dir, TOOL_INLINES, dir, dir), 0);
	snprintf(command, sizeof(command),
		 "readelf -n %s/prog | sed -n 's/.*Build ID: *//p'", dir);
	tool_output(command, &out);
	ck_assert_int_eq(sscanf(out.data, "%127s", id), 1);
	ht_buf_fini(&out);
	return addr;
}

/* Nothing of what the machine has set may matter, and nothing may be left in its home. */
static void start_server(const char *how)
{
	const char *top = getenv("HT_SRCDIR");
	char command[512];
	unsigned port;
	int ends[2];

	ck_assert_int_eq(pipe(ends), 0);
	server_stdin = ends[1];
	snprintf(command, sizeof(command), "exec '%s/tests/lib/debuginfod_server' %s/s %s <&%d %d>&-",
		 top ? top : "..", dir, how, ends[0], ends[1]);
	server = popen(command, "r");
	ck_assert_ptr_nonnull(server);
	close(ends[0]);
	ck_assert_int_eq(fscanf(server, "%u", &port), 1);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
	snprintf(command, sizeof(command), "%s/cache", dir);
	setenv("DEBUGINFOD_CACHE_PATH", command, 1);
	setenv("no_proxy", "127.0.0.1", 1);
	unsetenv("DEBUGINFOD_MAXTIME");
	unsetenv("DEBUGINFOD_TIMEOUT");
}

static void stop_server(void)
{
	ht_fd_close(server_stdin);
	ck_assert_int_eq(pclose(server), 0);
	tool_rmdir(dir);
}

static size_t told;

static void on_progress(void *arg, const char *module, uint64_t done, uint64_t total)
{
	ck_assert_str_eq(arg, "arg");
	ck_assert_str_eq(module, "prog");
	ck_assert(done <= total);
	told++;
}

static struct ht_debuginfod *make(uint64_t limit_ns)
{
	struct ht_debuginfod_options options = { url, limit_ns, on_progress,
						 (void *)(uintptr_t)"arg" };
	struct ht_debuginfod *debuginfod;

	told = 0;
	ck_ok(ht_debuginfod_new(&options, &debuginfod));
	return debuginfod;
}

/* What a look-up of "complain" says; the caller frees the modules and symbols. */
static struct ht_symbol look(struct ht_debuginfod *debuginfod, uint64_t addr, bool no_lines)
{
	struct ht_symbol_options options = { .debug_dirs = "/nonexistent",
					     .no_lines = no_lines,
					     .debuginfod = debuginfod };
	static struct ht_modules *modules;
	static struct ht_symbols *symbols;
	struct ht_frame frame = { addr, 0, HT_FRAME_EXACT };
	const struct ht_symbol *found;
	static char name[64];
	struct ht_symbol copy;
	char path[128];
	size_t n;

	snprintf(path, sizeof(path), "%s/prog", dir);
	ck_ok(ht_modules_new(&modules));
	fake_modules_add(modules, path, path, "");
	ck_ok(ht_symbols_new(modules, &options, &symbols));
	ck_ok(ht_symbols_lookup(symbols, &frame, &found, &n));
	copy = found[n - 1];
	snprintf(name, sizeof(name), "%s", copy.name);
	copy.name = name;
	ck_assert_ptr_eq(ht_symbols_debuginfod_reason(symbols),
			 debuginfod && !no_lines ? ht_debuginfod_reason(debuginfod) : NULL);
	ht_symbols_free(symbols);
	ht_modules_free(modules);
	return copy;
}

static bool was_asked(void)
{
	return tool_run("test -e %s/s/asked", dir) == 0;
}

START_TEST(names_and_lines)
{
	struct ht_debuginfod *debuginfod;
	uint64_t addr = make_program();
	struct ht_symbol s;

	start_server("");
	ck_assert_int_eq(tool_run("cp %s/debug %s/s/%s", dir, dir, id), 0);
	debuginfod = make(60 * HT_NS_PER_SEC);
	s = look(debuginfod, addr, false);
	ck_assert_str_eq(s.name, "complain");
	ck_assert_uint_gt(s.line, 0);
	ck_assert_uint_ge(told, 1);
	ck_assert_ptr_null(ht_debuginfod_reason(debuginfod));
	/* A second time from its cache: the server hasn't got it any more. */
	ck_assert_int_eq(tool_run("rm %s/s/%s", dir, id), 0);
	ck_assert_str_eq(look(debuginfod, addr, false).name, "complain");
	ck_assert_ptr_null(ht_debuginfod_free(debuginfod));
	stop_server();
}
END_TEST

START_TEST(not_asked)
{
	struct ht_debuginfod *debuginfod;
	uint64_t addr = make_program();

	start_server("");
	ck_assert_int_eq(tool_run("cp %s/debug %s/s/%s", dir, dir, id), 0);
	setenv("DEBUGINFOD_URLS", url, 1);
	ck_assert(look(NULL, addr, false).unknown);
	debuginfod = make(60 * HT_NS_PER_SEC);
	ck_assert(look(debuginfod, addr, true).unknown);
	/* Nor is it when what is needed is here. */
	ck_assert_int_eq(tool_run("cp %s %s/prog", TOOL_INLINES, dir), 0);
	ck_assert_str_eq(look(debuginfod, addr, false).name, "complain");
	ck_assert(!was_asked());
	ht_debuginfod_free(debuginfod);
	stop_server();
}
END_TEST

START_TEST(what_is_no_debug_file)
{
	struct ht_debuginfod *debuginfod;
	uint64_t addr = make_program();

	start_server("");
	debuginfod = make(60 * HT_NS_PER_SEC);
	ck_assert(look(debuginfod, addr, false).unknown);
	ck_assert(was_asked());
	/* Another one would be wrong names. */
	ck_assert_int_eq(tool_run("rm -rf %s/cache; cp ./tests/unit/test_debuginfod %s/s/%s", dir,
				  dir, id), 0);
	ck_assert(look(debuginfod, addr, false).unknown);
	ck_assert_int_eq(tool_run("rm -rf %s/cache; echo text >%s/s/%s", dir, dir, id), 0);
	ck_assert(look(debuginfod, addr, false).unknown);
	ck_assert_ptr_null(ht_debuginfod_reason(debuginfod));
	ht_debuginfod_free(debuginfod);
	stop_server();
}
END_TEST

START_TEST(a_server_that_never_answers)
{
	struct ht_debuginfod *debuginfod;
	uint64_t addr = make_program();

	start_server("mute");
	debuginfod = make(HT_NS_PER_SEC / 2);
	ck_assert(look(debuginfod, addr, false).unknown);
	ck_assert(was_asked());
	ck_assert_ptr_nonnull(ht_debuginfod_reason(debuginfod));
	/* It isn't asked again. */
	ck_assert_int_eq(tool_run("rm %s/s/asked", dir), 0);
	ck_assert(look(debuginfod, addr, false).unknown);
	ck_assert_int_eq(ht_debuginfod_find(debuginfod, (const uint8_t *)"12345678", 8, "prog"),
			 -ETIME);
	ck_assert(!was_asked());
	ht_debuginfod_free(debuginfod);
	stop_server();
}
END_TEST

START_TEST(no_server)
{
	struct ht_debuginfod *debuginfod;
	uint64_t addr = make_program();

	start_server("");
	/* Nobody listens there. */
	strcpy(url, "http://127.0.0.1:1");
	debuginfod = make(60 * HT_NS_PER_SEC);
	ck_assert(look(debuginfod, addr, false).unknown);
	ck_assert_str_eq(ht_debuginfod_reason(debuginfod), "its servers don't answer");
	ht_debuginfod_free(debuginfod);
	stop_server();
}
END_TEST

/* Sanitizers see what TLS libraries never free. */
static bool library_present(void)
{
	struct ht_debuginfod_options options = { .urls = "", .limit_ns = HT_NS_PER_SEC };
	struct ht_debuginfod *debuginfod;
	pid_t child = fork();
	int status = 1;

	if (child == 0)
		_exit(ht_debuginfod_new(&options, &debuginfod) < 0);
	waitpid(child, &status, 0);
	return status == 0;
}

int main(void)
{
	if (!library_present())
		ht_check_skip("libdebuginfod.so.1 is needed");
	if (!tool_present("objcopy") || !tool_present("readelf") || !tool_present("python3"))
		ht_check_skip("objcopy and readelf (binutils) and python3 are needed");
	return ht_check_run("debuginfod", (const TTest *const[]){
		names_and_lines, not_asked, what_is_no_debug_file, a_server_that_never_answers,
		no_server, NULL });
}
