/* SPDX-License-Identifier: Apache-2.0
 *
 * debuginfod.c: see debuginfod.h. By libdebuginfod, which caches what it gets, loaded only when
 * it is wanted: it brings an HTTP client and all that this needs, which a heaptap that is one
 * file can't contain, and most will never use.
 */
#include "symbol/debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

#define LIBRARY "libdebuginfod.so.1"
#define MAX_FILE "4294967296"

struct ht_debuginfod {
	struct ht_debuginfod_options options;
	void *library, *client;
	int (*find)(void *client, const unsigned char *id, int len, char **path);
	void (*end)(void *client);
	void *(*get_user_data)(void *client);
	uint64_t left_ns, deadline_ns, next_ns;
	const char *module;
	const char *reason;
};

/* libdebuginfod hands its caller's data out by a function of its own. */
static void *(*user_data_of)(void *client);

static int on_progress(void *client, long done, long total)
{
	struct ht_debuginfod *d = user_data_of(client);
	uint64_t now = ht_now_ns();

	if (now >= d->deadline_ns)
		return 1;
	if (d->options.progress && total > 0 && now >= d->next_ns) {
		d->next_ns = now + HT_NS_PER_SEC;
		d->options.progress(d->options.arg, d->module, (uint64_t)ht_max(done, 0L),
				    (uint64_t)total);
	}
	return 0;
}

/* Who started heaptap may have set other limits than ours, which are for when he didn't. */
static void set_environment(const struct ht_debuginfod_options *options)
{
	char seconds[32];

	snprintf(seconds, sizeof(seconds), "%llu",
		 (unsigned long long)ht_max(options->limit_ns / HT_NS_PER_SEC, UINT64_C(1)));
	setenv("DEBUGINFOD_URLS", options->urls, 1);
	setenv("DEBUGINFOD_TIMEOUT", seconds, 0);
	setenv("DEBUGINFOD_MAXTIME", seconds, 0);
	setenv("DEBUGINFOD_MAXSIZE", MAX_FILE, 0);
	/* It would print by itself. */
	unsetenv("DEBUGINFOD_PROGRESS");
	unsetenv("DEBUGINFOD_VERBOSE");
}

static void *function(struct ht_debuginfod *d, const char *name)
{
	return d->library ? dlsym(d->library, name) : NULL;
}

static int load(struct ht_debuginfod *d)
{
	void *(*begin)(void);
	void (*set_progress)(void *client, int (*fn)(void *, long, long));
	void (*set_user_data)(void *client, void *data);

	/* Never closed: TLS libraries don't survive that. */
	d->library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
	begin = function(d, "debuginfod_begin");
	d->find = function(d, "debuginfod_find_debuginfo");
	set_progress = function(d, "debuginfod_set_progressfn");
	set_user_data = function(d, "debuginfod_set_user_data");
	user_data_of = function(d, "debuginfod_get_user_data");
	d->end = function(d, "debuginfod_end");
	if (!begin || !d->find || !set_progress || !set_user_data || !user_data_of || !d->end)
		return -ENOENT;
	set_environment(&d->options);
	d->client = begin();
	if (!d->client)
		return -ENOMEM;
	set_user_data(d->client, d);
	set_progress(d->client, on_progress);
	return 0;
}

int ht_debuginfod_new(const struct ht_debuginfod_options *options,
		      struct ht_debuginfod **ret_debuginfod)
{
	struct ht_debuginfod *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return -ENOMEM;
	d->options = *options;
	d->left_ns = options->limit_ns;
	r = load(d);
	if (r < 0)
		d = ht_debuginfod_free(d);
	else
		*ret_debuginfod = d;
	return r;
}

struct ht_debuginfod *ht_debuginfod_free(struct ht_debuginfod *d)
{
	if (d && d->client)
		d->end(d->client);
	free(d);
	return NULL;
}

/* Servers that don't answer now won't answer for the next file, which would wait as long. */
static int give_up(struct ht_debuginfod *d, const char *reason)
{
	d->reason = reason;
	return -ETIME;
}

int ht_debuginfod_find(struct ht_debuginfod *d, const uint8_t *id, size_t len,
		       const char *module)
{
	uint64_t now = ht_now_ns(), spent;
	int fd;

	if (d->reason)
		return -ETIME;
	d->module = module;
	d->deadline_ns = now + d->left_ns;
	d->next_ns = now + HT_NS_PER_SEC;
	if (d->options.progress)
		d->options.progress(d->options.arg, module, 0, 0);
	fd = d->find(d->client, id, (int)len, NULL);
	spent = ht_now_ns() - now;
	d->left_ns -= ht_min(d->left_ns, spent);
	if (fd >= 0) {
		fcntl(fd, F_SETFD, FD_CLOEXEC);
		return fd;
	}
	if (!d->left_ns)
		return give_up(d, "its servers took too long");
	switch (fd) {
	case -ETIME:
	case -ETIMEDOUT:
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
		return give_up(d, "its servers don't answer");
	default:
		return -ENOENT;
	}
}

const char *ht_debuginfod_reason(const struct ht_debuginfod *d)
{
	return d->reason;
}
