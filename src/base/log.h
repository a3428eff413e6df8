/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h: debug tracing by domain, for developers: HEAPTAP_DEBUG=attach,inject or =all.
 *
 * A file that traces defines HT_LOG_DOMAIN (its folder's name) before including this.
 * Off costs one load. Never on a hot path, never while a target is stopped (the target
 * may be the terminal that stderr goes to). Messages for users are cmd/'s alone.
 */
#ifndef HT_BASE_LOG_H
#define HT_BASE_LOG_H

#include <stdbool.h>

#include "base/compiler.h"

/* Read @spec (a comma list of domains, "all", or NULL for none) once, at start. */
void ht_log_init(const char *spec);
bool ht_log_enabled(const char *domain) _nonnull_;
void ht_log_write(const char *domain, const char *fmt, ...) _printf_format_(2, 3);

extern bool ht_log_any;

#define ht_debug(...)                                                                     \
	do {                                                                              \
		if (unlikely(ht_log_any) && ht_log_enabled(HT_LOG_DOMAIN))                \
			ht_log_write(HT_LOG_DOMAIN, __VA_ARGS__);                         \
	} while (0)

#endif
