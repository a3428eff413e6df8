/* SPDX-License-Identifier: Apache-2.0
 *
 * jitform.c: what names in perf maps are made of. V8 and Python put the file there as well,
 * and V8 one of its compilers, so that a function would be several ones:
 *
 *	JS:*keep /srv/app.js:12:3	also LazyCompile, Function, Script, Eval, and the marks ~^+
 *	py::main:/srv/app.py
 */
#include <string.h>

#include "symbol/jit-priv.h"

/* The number at the end of @text behind a colon; *len is lowered to the colon. */
static bool take_number(const char *text, size_t *len, uint32_t *ret)
{
	size_t at = *len;
	uint32_t value = 0, unit = 1;

	while (at > 0 && *len - at < 9 && text[at - 1] >= '0' && text[at - 1] <= '9') {
		value += unit * (uint32_t)(text[--at] - '0');
		unit *= 10;
	}
	if (at == *len || at < 2 || text[at - 1] != ':')
		return false;
	*len = at - 1;
	*ret = value;
	return true;
}

/* The space before the file: names of functions and files may have spaces, too. */
static const char *find_file(const char *text, size_t len)
{
	static const char *const starts[] = { "/", "node:", "file:", "http:", "https:" };
	const char *space = memrchr(text, ' ', len), *at;
	size_t i;

	for (at = space; at; at = at == text ? NULL : memrchr(text, ' ', (size_t)(at - text)))
		for (i = 0; i < ARRAY_SIZE(starts); i++)
			if (!strncmp(at + 1, starts[i], strlen(starts[i])))
				return at;
	return space;
}

static bool is_v8(const char *name, size_t *ret_prefix)
{
	static const char *const kinds[] = { "JS:", "LazyCompile:", "Function:", "Script:",
					     "Eval:" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		*ret_prefix = strlen(kinds[i]);
		if (!strncmp(name, kinds[i], *ret_prefix))
			return true;
	}
	return false;
}

static void parse_v8(const char *name, struct ht_jit_parts *ret)
{
	size_t len;
	const char *space;
	uint32_t line, column;

	name += *name && strchr("*~^+", *name) ? 1 : 0;
	len = strlen(name);
	*ret = (struct ht_jit_parts){ .name = name, .name_len = len };
	if (take_number(name, &len, &column) && take_number(name, &len, &line) &&
	    (space = find_file(name, len))) {
		ret->name_len = (size_t)(space - name);
		ret->file = space + 1;
		ret->file_len = (size_t)(name + len - ret->file);
		ret->line = line;
	}
	if (!ret->name_len) {
		ret->name = "(anonymous)";
		ret->name_len = strlen(ret->name);
	}
}

static void parse_python(const char *name, struct ht_jit_parts *ret)
{
	const char *colon = strchr(name, ':');

	*ret = (struct ht_jit_parts){ .name = name, .name_len = strlen(name) };
	if (!colon || colon == name)
		return;
	ret->name_len = (size_t)(colon - name);
	ret->file = colon + 1;
	ret->file_len = strlen(ret->file);
}

void ht_jit_parse(const char *name, struct ht_jit_parts *ret_parts)
{
	size_t prefix;

	if (is_v8(name, &prefix))
		parse_v8(name + prefix, ret_parts);
	else if (!strncmp(name, "py::", 4) && name[4])
		parse_python(name + 4, ret_parts);
	else
		*ret_parts = (struct ht_jit_parts){ .name = name, .name_len = strlen(name) };
	if (!ret_parts->file_len)
		ret_parts->file = NULL;
}
