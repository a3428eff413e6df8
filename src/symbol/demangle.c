/* SPDX-License-Identifier: Apache-2.0
 *
 * demangle.c: C++, Rust (legacy and v0) and D names by libiberty, held in bounds.
 *
 * A name of 100 bytes can stand for gigabytes of text (a substitution that doubles at each
 * step). The demanglers hand their output to a callback in pieces but it can't tell them
 * to stop, so it jumps out. That is safe: with a callback they keep everything on the
 * stack, save for the short-lived copy of a punycode identifier.
 */
#include "symbol/symbol-priv.h"

#include <errno.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* D has no callback; its back references ("Q") are what multiplies, at most e^(n/e)-fold. */
#define MAX_D_INPUT 2048
#define MAX_D_REFERENCES 16

struct sink {
	struct ht_buf out;
	bool complete;
	jmp_buf too_large;
};

static void take(const char *piece, size_t len, void *opaque)
{
	struct sink *sink = opaque;

	if (sink->out.len + len > HT_NAME_DEMANGLED_MAX ||
	    ht_buf_append(&sink->out, piece, len) < 0)
		longjmp(sink->too_large, 1);
}

static char *by_callback(const char *name,
			 int (*demangle)(const char *, int, demangle_callbackref, void *))
{
	struct sink *sink = calloc(1, sizeof(*sink));
	char *text;

	if (!sink)
		return NULL;
	/* @sink doesn't change between setjmp and longjmp, only what it points to. */
	if (setjmp(sink->too_large) == 0)
		sink->complete = demangle(name, DMGL_PARAMS | DMGL_ANSI, take, sink);
	text = sink->out.data;
	if (!sink->complete) {
		ht_buf_fini(&sink->out);
		text = NULL;
	}
	free(sink);
	return text;
}

static char *demangle_d(const char *name, size_t len)
{
	size_t references = 0;
	const char *at;
	char *text;

	for (at = name; (at = strchr(at, 'Q')); at++)
		references++;
	if (len > MAX_D_INPUT || references > MAX_D_REFERENCES)
		return NULL;
	text = dlang_demangle(name, DMGL_PARAMS | DMGL_ANSI);
	if (text && strlen(text) > HT_NAME_DEMANGLED_MAX) {
		free(text);
		text = NULL;
	}
	return text;
}

/* Rust's older names are C++ names with a hash as their last part, "17h" and 16 digits. */
static bool may_be_rust(const char *name)
{
	return strncmp(name, "_R", 2) == 0 ||
	       (strncmp(name, "_ZN", 3) == 0 && strstr(name, "17h"));
}

char *ht_demangle(const char *name)
{
	size_t len = strnlen(name, HT_NAME_MANGLED_MAX + 1);
	char *text;

	if (len > HT_NAME_MANGLED_MAX || name[0] != '_')
		return NULL;
	if (may_be_rust(name)) {
		text = by_callback(name, rust_demangle_callback);
		if (text)
			return text;
	}
	if (strncmp(name, "_Z", 2) == 0 || strncmp(name, "_GLOBAL_", 8) == 0)
		return by_callback(name, cplus_demangle_v3_callback);
	if (strncmp(name, "_D", 2) == 0)
		return demangle_d(name, len);
	return NULL;
}
