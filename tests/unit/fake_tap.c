/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_tap.h"

#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include "ht_check.h"
#include "inject/plan.h"

#define LOG_MAX 4096

struct ht_tap fake_tap;
char *fake_tap_log;

static const struct ht_plan no_plan;
static bool lines;	/* does the report have them? */

void fake_tap_init(void)
{
	fake_tap = (struct ht_tap){ .served = 0 };
	fake_init(&fake_tap.fake);
	fake_tap.result = (struct ht_tap_result){
		.pid = 42, .command = "server", .exe = "/usr/bin/server",
		.allocators = "libc", .duration_ns = UINT64_C(12500000000), .samples = 41210,
		.threads = 4, .plan = &no_plan, .ledger = fake_tap.fake.ledger,
		.modules = fake_tap.fake.modules,
	};
	fake_tap_log = mmap(NULL, LOG_MAX, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(fake_tap_log, MAP_FAILED);
}

void fake_tap_fini(void)
{
	fake_fini(&fake_tap.fake);
	munmap(fake_tap_log, LOG_MAX);
}

void fake_tap_note(const char *fmt, ...)
{
	size_t len = strlen(fake_tap_log);
	va_list args;

	va_start(args, fmt);
	vsnprintf(fake_tap_log + len, LOG_MAX - len, fmt, args);
	va_end(args);
	strncat(fake_tap_log, "; ", LOG_MAX - 1 - strlen(fake_tap_log));
}

int ht_tap_attach(pid_t pid, const struct ht_tap_options *options, struct ht_tap **ret_tap,
		  struct ht_err *err)
{
	int r = 0;

	fake_tap_note("attach %d", (int)pid);
	fake_tap.options = *options;
	fake_tap.result.pid = pid;
	if (fake_tap.attach)
		r = fake_tap.attach(&fake_tap, pid, err);
	if (r == 0)
		*ret_tap = &fake_tap;
	return r;
}

int ht_tap_launch(char *const argv[], const struct ht_tap_options *options,
		  struct ht_tap **ret_tap, struct ht_err *err)
{
	int r = 0;

	fake_tap_note("launch");
	fake_tap.options = *options;
	if (fake_tap.launch)
		r = fake_tap.launch(&fake_tap, argv, err);
	if (r == 0)
		*ret_tap = &fake_tap;
	return r;
}

struct ht_tap *ht_tap_free(struct ht_tap *tap)
{
	fake_tap_note("free");
	return NULL;
}

int ht_tap_serve(struct ht_tap *tap, uint64_t deadline_ns, int wake_fd,
		 enum ht_tap_state *ret_state, struct ht_err *err)
{
	if (!tap->served++)
		fake_tap_note(deadline_ns ? "serve until" : "serve");
	*ret_state = HT_TAP_EXITED;
	return tap->serve ? tap->serve(tap, wake_fd, ret_state, err) : 0;
}

int ht_tap_cure(struct ht_tap *tap, struct ht_err *err)
{
	fake_tap_note("cure");
	return tap->cure ? tap->cure(tap, err) : 0;
}

void ht_tap_result(const struct ht_tap *tap, struct ht_tap_result *ret_result)
{
	*ret_result = tap->result;
}

int ht_tap_wait_status(const struct ht_tap *tap)
{
	return tap->wait_status;
}

int ht_tap_cure_pid(pid_t pid, bool *ret_found, bool *ret_left, struct ht_err *err)
{
	fake_tap_note("cure %d", (int)pid);
	*ret_found = true;
	*ret_left = false;
	return fake_tap.cure_pid ? fake_tap.cure_pid(pid, ret_found, ret_left, err) : 0;
}

int ht_symbols_new(const struct ht_modules *modules,
		   const struct ht_symbol_options *options, struct ht_symbols **ret_symbols)
{
	lines = !options->no_lines;
	if (fake_tap.symbols)
		fake_tap.symbols(lines);
	*ret_symbols = fake_tap.fake.symbols;
	return 0;
}

struct ht_symbols *ht_symbols_free(struct ht_symbols *symbols)
{
	return NULL;
}

static int write_fake(const struct ht_recording *recording,
		      const struct ht_report_options *options, struct ht_buf *out,
		      struct ht_err *err)
{
	return ht_buf_printf(out, "report: %s, %s, %s\n", recording->command,
			     recording->ended, lines ? "with lines" : "names only");
}

const struct ht_report_format fake_format = { "fake", ".fake", "", write_fake };
