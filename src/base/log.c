/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c: see log.h.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static char domains[256];
bool ht_log_any;

void ht_log_init(const char *spec)
{
	ht_log_any = spec && *spec;
	snprintf(domains, sizeof(domains), ",%s,", spec ? spec : "");
}

bool ht_log_enabled(const char *domain)
{
	char key[64];

	if (strstr(domains, ",all,"))
		return true;
	snprintf(key, sizeof(key), ",%s,", domain);
	return strstr(domains, key) != NULL;
}

void ht_log_write(const char *domain, const char *fmt, ...)
{
	char line[1024];
	va_list args;
	uint64_t us = ht_now_ns() / 1000;
	int len;

	len = snprintf(line, sizeof(line), "[%llu.%06llu %s] ",
		       (unsigned long long)(us / 1000000),
		       (unsigned long long)(us % 1000000), domain);
	va_start(args, fmt);
	vsnprintf(line + len, sizeof(line) - (size_t)len, fmt, args);
	va_end(args);
	fprintf(stderr, "%s\n", line);
}
