/* SPDX-License-Identifier: Apache-2.0
 *
 * busy.h: the target "busy" (tests/targets/busy.c) under a tap that fails, dies or goes
 * well: whether it works, and whether it is as it was. Says on stdout what is wrong, so that
 * a test can go on.
 */
#ifndef HT_TESTS_BUSY_H
#define HT_TESTS_BUSY_H

#include <stdbool.h>

#include "base/compiler.h"
#include "ht_snapshot.h"
#include "ht_target.h"
#include "ht_tool.h"

extern struct ht_test_target ht_busy;
extern char ht_busy_when[128];	/* what is tried, for what is said */

/* False. */
bool ht_busy_wrong(const char *fmt, ...) _printf_format_(1, 2);

/* Start it, and note how it looks. */
void ht_busy_start(void);
void ht_busy_stop(void);
bool ht_busy_ask(const char *line, char *reply, size_t cap);
/* *ret_n: how many of its calls have failed with EINTR. */
bool ht_busy_check(unsigned *ret_n);
bool ht_busy_as_before(void);
/* Nothing of ours is in it, be it who it wants. */
bool ht_busy_is_clean(void);
/* Another process has the program text that it had. */
bool ht_busy_has_text(pid_t pid);
/* A tap or cure that must go well. */
bool ht_busy_works(const struct ht_test_work *work);

#endif
