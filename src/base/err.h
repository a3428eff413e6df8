/* SPDX-License-Identifier: Apache-2.0
 *
 * err.h: how a failure travels from where it happened to the one place that prints it.
 *
 * Functions return 0 or a negative errno. Entry points of a module also fill a
 * struct ht_err with a kind (which decides the exit status) and one sentence: what
 * failed, why, the next step; lower case, no full stop. On success it is untouched.
 */
#ifndef HT_BASE_ERR_H
#define HT_BASE_ERR_H

#include <errno.h>
#include <stdarg.h>

#include "base/compiler.h"

/* The values are the exit statuses of heaptap(1). */
enum ht_err_kind {
	HT_ERR_NONE = 0,
	HT_ERR_FAILED = 1,	/* anything else: a system call, a full disk, a bug */
	HT_ERR_USAGE = 2,	/* the command line or an input file is wrong */
	HT_ERR_GONE = 3,	/* no such target, or it vanished */
	HT_ERR_PERM = 4,	/* not permitted to touch the target */
	HT_ERR_UNSUPPORTED = 5,	/* heaptap can't handle this target */
};

#define HT_ERR_TEXT 512

struct ht_err {
	enum ht_err_kind kind;
	char text[HT_ERR_TEXT];
};

/* Fill @err (may be NULL) and return @error, which is a negative errno. A text that
 * doesn't fit is cut. */
int ht_err_set(struct ht_err *err, enum ht_err_kind kind, int error, const char *fmt, ...)
	_printf_format_(4, 5);

/* Put "@fmt: " before the text that a callee left in @err. Returns @error. */
int ht_err_prefix(struct ht_err *err, int error, const char *fmt, ...)
	_printf_format_(3, 4);

/* Put "; @fmt" behind it. Returns @error. */
int ht_err_suffix(struct ht_err *err, int error, const char *fmt, ...)
	_printf_format_(3, 4);

/* "; NEXT STEP" if @error (negative errno) says that too many files are open, else "". */
const char *ht_err_advice(int error);
/* The same if a file, be it in memory, was to become larger than is allowed. */
const char *ht_err_write_advice(int error);

/* The result of a libc call that says -1 and sets errno, as 0/positive or negative
 * errno. Use it on the same line as the call: errno is never read later. */
static inline int ht_errno_of(long result)
{
	return result < 0 ? -errno : (int)result;
}

#endif
