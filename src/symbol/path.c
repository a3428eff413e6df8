/* SPDX-License-Identifier: Apache-2.0
 *
 * path.c: one spelling for a source file. What debug information says depends on where the
 * compiler was started ("../src/a.c"), which would make several files of one. Symbolic
 * links are not looked at: the files needn't be here.
 */
#include <errno.h>
#include <string.h>

#include "symbol/symbol-priv.h"

#define MAX_PATH 8192

/* Take the last part of [start, out->len) off; false if there is none to take. */
static bool pop(struct ht_buf *out, size_t start)
{
	size_t len = out->len;

	while (len > start && out->data[len - 1] != '/')
		len--;
	if (len == out->len || strcmp(out->data + len, "..") == 0)
		return false;
	while (len > start + 1 && out->data[len - 1] == '/')
		len--;
	out->len = len;
	out->data[len] = '\0';
	return true;
}

static void push(struct ht_buf *out, size_t start, const char *part, size_t len)
{
	bool root = out->len == start + 1 && out->data[start] == '/';

	if (out->len > start && !root)
		ht_buf_putc(out, '/');
	ht_buf_append(out, part, len);
}

static void append(struct ht_buf *out, size_t start, const char *path)
{
	size_t len;

	for (path += strspn(path, "/"); *path; path += strspn(path, "/")) {
		len = strcspn(path, "/");
		if (len == 2 && memcmp(path, "..", 2) == 0) {
			bool root = out->len == start + 1 && out->data[start] == '/';

			if (!root && !(out->len > start && pop(out, start)))
				push(out, start, path, len);
		} else if (len != 1 || *path != '.') {
			push(out, start, path, len);
		}
		path += len;
	}
}

int ht_path_join(const char *dir, const char *file, struct ht_buf *out)
{
	size_t start = out->len;

	if (file[0] == '/' || !dir || strnlen(dir, MAX_PATH) == MAX_PATH)
		dir = NULL;
	if ((dir ? dir : file)[0] == '/')
		ht_buf_putc(out, '/');
	if (dir)
		append(out, start, dir);
	/* Absurdly long: as it is, whoever shows it cuts it. */
	if (strnlen(file, MAX_PATH) < MAX_PATH)
		append(out, start, file);
	else
		ht_buf_puts(out, file);
	return out->failed ? -ENOMEM : 0;
}
