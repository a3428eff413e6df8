/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ht_check.h"
#include "symbol/jit-priv.h"

static void check(const char *text, const char *name, const char *file, uint32_t line)
{
	struct ht_jit_parts parts;

	ht_jit_parse(text, &parts);
	ck_assert_msg(parts.name_len == strlen(name) && !memcmp(parts.name, name, parts.name_len),
		      "%s: %.*s", text, (int)parts.name_len, parts.name);
	ck_assert_msg(!parts.file == !file, "%s", text);
	if (file)
		ck_assert_msg(parts.file_len == strlen(file) &&
			      !memcmp(parts.file, file, parts.file_len), "%s: %.*s", text,
			      (int)parts.file_len, parts.file);
	ck_assert_uint_eq(parts.line, line);
}

START_TEST(v8)
{
	check("JS:*keep /srv/app.js:12:3", "keep", "/srv/app.js", 12);
	check("JS:~keep /srv/app.js:12:3", "keep", "/srv/app.js", 12);
	check("JS:keep /srv/app.js:12:3", "keep", "/srv/app.js", 12);
	check("LazyCompile:^processTimers node:internal/timers:504:25", "processTimers",
	      "node:internal/timers", 504);
	check("JS:+get size /srv/a b/app.js:1:2", "get size", "/srv/a b/app.js", 1);
	check("JS:* /srv/app.js:7:1", "(anonymous)", "/srv/app.js", 7);
	check("Script:~evalmachine.<anonymous>:1:1", "evalmachine.<anonymous>:1:1", NULL, 0);
	check("Function:f file:///a.mjs:1:2", "f", "file:///a.mjs", 1);
	check("JS:*f", "f", NULL, 0);
	check("JS:*f repl:1:2", "f", "repl", 1);
	check("JS:", "(anonymous)", NULL, 0);
	check("JS:*", "(anonymous)", NULL, 0);
	check("JS:* ", " ", NULL, 0);
	check("JS:f /a.js:1234567890:1", "f /a.js:1234567890:1", NULL, 0);
	check("JS:f :1:2", "f", NULL, 1);
	check("JS::1:2", ":1:2", NULL, 0);
}
END_TEST

START_TEST(python)
{
	check("py::main:/srv/app.py", "main", "/srv/app.py", 0);
	check("py::<module>:<string>", "<module>", "<string>", 0);
	check("py::f", "f", NULL, 0);
	check("py::f:", "f", NULL, 0);
	check("py:::x", ":x", NULL, 0);
	check("py::", "py::", NULL, 0);
}
END_TEST

START_TEST(others)
{
	check("Builtin:ArrayMap", "Builtin:ArrayMap", NULL, 0);
	check("void Foo.bar(int)", "void Foo.bar(int)", NULL, 0);
	check("a b:1:2", "a b:1:2", NULL, 0);
}
END_TEST

int main(void)
{
	return ht_check_run("jitform", (const TTest *const[]){ v8, python, others, NULL });
}
