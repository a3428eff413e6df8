/* SPDX-License-Identifier: Apache-2.0
 *
 * fetch.c: debug files from servers. Only by --debuginfod, never because of the environment,
 * and only when the report is made: the target was let go then.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/record.h"
#include "symbol/debuginfod.h"
#include "symbol/symbol.h"

#define LIMIT_NS (60 * HT_NS_PER_SEC)
/* What the system's administrator chose; login shells make DEBUGINFOD_URLS of it, but sudo
 * takes that away. */
#define SYSTEM_URLS "/etc/debuginfod/*.urls"
#define MAX_URLS 65536

static void add_file(const char *path, struct ht_buf *urls)
{
	_cleanup_(ht_buf_fini) struct ht_buf text = HT_BUF_INIT;

	if (ht_buf_read_file(&text, AT_FDCWD, path, MAX_URLS) < 0 || !text.len)
		return;
	for (size_t i = 0; i < text.len; i++)
		if (strchr("\n\t\r", text.data[i]))
			text.data[i] = ' ';
	if (urls->len)
		ht_buf_putc(urls, ' ');
	ht_buf_append(urls, text.data, text.len);
}

/* Empty: none is known. */
static void find_urls(const struct ht_record_options *options, struct ht_buf *urls)
{
	const char *named = options->debuginfod_urls;
	glob_t files;

	if (!named)
		named = getenv("DEBUGINFOD_URLS");
	if (named && named[strspn(named, " ")]) {
		ht_buf_puts(urls, named);
		return;
	}
	if (glob(SYSTEM_URLS, 0, NULL, &files) == 0) {
		for (size_t i = 0; i < files.gl_pathc; i++)
			add_file(files.gl_pathv[i], urls);
		globfree(&files);
	}
	if (urls->len && strspn(urls->data, " ") == urls->len)
		ht_buf_clear(urls);
}

static void tell(void *arg, const char *module, uint64_t done, uint64_t total)
{
	_cleanup_(ht_buf_fini) struct ht_buf name = HT_BUF_INIT;
	char some[32], all[32];

	if (ht_symbol_clean(module, 64, &name) < 0 || !name.data)
		return;
	if (total)
		ht_cmd_talk("debuginfod: %s: %s of %s", name.data,
			    ht_format_bytes((double)done, some),
			    ht_format_bytes((double)total, all));
	else
		ht_cmd_talk("debuginfod: asking for %s", name.data);
}

static int start(const struct ht_record_options *options, const char *urls,
		 struct ht_debuginfod **ret_debuginfod)
{
	struct ht_debuginfod_options how = { .urls = urls, .limit_ns = LIMIT_NS };

	if (!options->quiet && !options->no_progress)
		how.progress = tell;
	return ht_debuginfod_new(&how, ret_debuginfod);
}

/* In a child: the library brings TLS and Kerberos, which make themselves at home in a process.
 * The child is as small as we are now. */
static int try(const struct ht_record_options *options)
{
	struct ht_debuginfod *debuginfod;
	int status;
	pid_t child = fork();

	if (child < 0)
		return -errno;
	if (child == 0)
		_exit(start(options, "", &debuginfod) < 0);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ENOENT;
}

int ht_fetch_check(const struct ht_record_options *options, struct ht_err *err)
{
	_cleanup_(ht_buf_fini) struct ht_buf urls = HT_BUF_INIT;

	if (!options->debuginfod)
		return 0;
	find_urls(options, &urls);
	if (!urls.len)
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
				  "--debuginfod: no server is known; set DEBUGINFOD_URLS or say --debuginfod=URL");
	if (try(options) < 0)
		return ht_err_set(err, HT_ERR_FAILED, -ENOENT,
				  "--debuginfod: libdebuginfod.so.1 can't be loaded; install libdebuginfod1 or your system's elfutils-debuginfod-client");
	return 0;
}

struct ht_debuginfod *ht_fetch_start(const struct ht_record_options *options)
{
	/* Lives as long as the process. */
	struct ht_buf urls = HT_BUF_INIT;
	struct ht_debuginfod *debuginfod = NULL;

	if (!options->debuginfod)
		return NULL;
	find_urls(options, &urls);
	if (!urls.len || start(options, urls.data, &debuginfod) < 0)
		debuginfod = NULL;
	ht_buf_fini(&urls);
	return debuginfod;
}
