/* SPDX-License-Identifier: Apache-2.0
 *
 * err.c: see err.h.
 */
#include "base/err.h"

#include <stdio.h>
#include <string.h>

int ht_err_set(struct ht_err *err, enum ht_err_kind kind, int error, const char *fmt, ...)
{
	va_list args;

	if (!err)
		return error;
	err->kind = kind;
	va_start(args, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, args);
	va_end(args);
	return error;
}

int ht_err_prefix(struct ht_err *err, int error, const char *fmt, ...)
{
	char old[HT_ERR_TEXT];
	va_list args;
	size_t len;

	if (!err)
		return error;
	memcpy(old, err->text, sizeof(old));
	va_start(args, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, args);
	va_end(args);
	len = strlen(err->text);
	snprintf(err->text + len, sizeof(err->text) - len, ": %s", old);
	return error;
}

int ht_err_suffix(struct ht_err *err, int error, const char *fmt, ...)
{
	va_list args;
	size_t len;

	if (!err)
		return error;
	len = strlen(err->text);
	len += (size_t)snprintf(err->text + len, sizeof(err->text) - len, "; ");
	if (len >= sizeof(err->text))
		return error;
	va_start(args, fmt);
	vsnprintf(err->text + len, sizeof(err->text) - len, fmt, args);
	va_end(args);
	return error;
}

const char *ht_err_advice(int error)
{
	if (error == -EMFILE)
		return "; start heaptap with a higher limit (ulimit -n)";
	if (error == -ENFILE)
		return "; raise sysctl fs.file-max";
	return "";
}

const char *ht_err_write_advice(int error)
{
	return error == -EFBIG ? "; start heaptap with a higher limit (ulimit -f)" : "";
}
