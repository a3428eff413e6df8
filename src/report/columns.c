/* SPDX-License-Identifier: Apache-2.0
 *
 * columns.c: text in the columns of a terminal. The texts are UTF-8 already; everything
 * that comes from outside went through ht_symbol_clean().
 */
#include <string.h>

#include "report/report-priv.h"

/* The length of the character at @s and the columns that it takes. */
static size_t next(const char *s, size_t *ret_columns)
{
	static const struct {
		uint32_t first, last;
	} wide[] = {
		{ 0x1100, 0x115f },   { 0x2e80, 0x303e },   { 0x3041, 0xa4cf },
		{ 0xac00, 0xd7a3 },   { 0xf900, 0xfaff },   { 0xfe30, 0xfe6f },
		{ 0xff00, 0xff60 },   { 0xffe0, 0xffe6 },   { 0x1f300, 0x1f64f },
		{ 0x1f900, 0x1f9ff }, { 0x20000, 0x3fffd },
	};
	const uint8_t *u = (const uint8_t *)s;
	size_t len = u[0] < 0xc0 ? 1 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4, i;
	uint32_t code = len == 1 ? u[0] : u[0] & (0x7f >> len);

	for (i = 1; i < len && (u[i] & 0xc0) == 0x80; i++)
		code = code << 6 | (u[i] & 0x3f);
	*ret_columns = code >= 0x300 && code < 0x370 ? 0 : 1;
	for (size_t w = 0; w < ARRAY_SIZE(wide); w++)
		if (code >= wide[w].first && code <= wide[w].last)
			*ret_columns = 2;
	return i;
}

size_t ht_columns(const char *text)
{
	size_t sum = 0, columns;

	while (*text) {
		text += next(text, &columns);
		sum += columns;
	}
	return sum;
}

void ht_columns_cut(struct ht_buf *out, const char *text, size_t max)
{
	size_t used = 0, columns, len;

	if (max == 0 || ht_columns(text) <= max) {
		ht_buf_puts(out, text);
		return;
	}
	for (; *text; text += len) {
		len = next(text, &columns);
		if (used + columns > max - 1)
			break;
		ht_buf_append(out, text, len);
		used += columns;
	}
	ht_buf_puts(out, "\342\200\246");
}

static void spaces(struct ht_buf *out, size_t n)
{
	ht_buf_printf(out, "%*s", (int)ht_min(n, (size_t)1024), "");
}

void ht_columns_left(struct ht_buf *out, const char *text, size_t columns)
{
	size_t width = ht_columns(text);

	ht_buf_puts(out, text);
	if (width < columns)
		spaces(out, columns - width);
}

void ht_columns_right(struct ht_buf *out, const char *text, size_t columns)
{
	size_t width = ht_columns(text);

	if (width < columns)
		spaces(out, columns - width);
	ht_buf_puts(out, text);
}

void ht_columns_wrap(struct ht_buf *out, const char *text, size_t max, size_t indent)
{
	size_t used = 0, columns, len;
	const char *word, *end;

	for (word = text; *word; word = end) {
		size_t blanks = strspn(word, " ");

		end = word + blanks;
		for (columns = blanks; *end && *end != ' '; end += len) {
			size_t one;

			len = next(end, &one);
			columns += one;
		}
		if (max && used && used + columns > max) {
			ht_buf_putc(out, '\n');
			spaces(out, indent);
			used = indent + columns - blanks;
			word += blanks;
		} else {
			used += columns;
		}
		ht_buf_append(out, word, (size_t)(end - word));
	}
	ht_buf_putc(out, '\n');
}

/* The end of the bracket that opens at @s, or NULL when it doesn't close. */
static const char *closing(const char *s, char open, char close)
{
	unsigned depth = 0;

	for (; *s; s++) {
		if (*s == open)
			depth++;
		/* "->" and "operator>" aren't brackets. */
		if (*s == close && s[-1] != '-' && --depth == 0)
			return s;
	}
	return NULL;
}

static bool ends_in(const struct ht_buf *out, size_t start, const char *word)
{
	size_t len = strlen(word);

	return out->len - start >= len &&
	       memcmp(out->data + out->len - len, word, len) == 0;
}

void ht_columns_short_name(struct ht_buf *out, const char *name)
{
	size_t start = out->len;
	const char *end;

	for (; *name; name++) {
		bool operator_ = ends_in(out, start, "operator");

		end = NULL;
		if (*name == '<' && out->len > start && !operator_ &&
		    !ends_in(out, start, "operator<") && !ends_in(out, start, "::"))
			end = closing(name, '<', '>');
		if (end)
			ht_buf_puts(out, "<\342\200\246>");
		else if (*name == '(' && !operator_ &&
			 strncmp(name, "(anonymous namespace)", 21) != 0)
			end = closing(name, '(', ')');
		if (!end)
			ht_buf_putc(out, *name);
		else if (*end == ')' && strcmp(end, ") const") == 0)
			return;
		else
			name = end;
	}
}

void ht_style_on(struct ht_buf *out, const struct ht_report_options *options,
		 enum ht_style style)
{
	static const char *const codes[] = {
		[HT_STYLE_HEAD] = "\033[1m",
		[HT_STYLE_ALARM] = "\033[1;31m",
		[HT_STYLE_DIM] = "\033[2m",
		[HT_STYLE_STRONG] = "\033[36m",
	};

	if (options->color)
		ht_buf_puts(out, codes[style]);
}

void ht_style_off(struct ht_buf *out, const struct ht_report_options *options)
{
	if (options->color)
		ht_buf_puts(out, "\033[0m");
}
