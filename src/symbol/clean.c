/* SPDX-License-Identifier: Apache-2.0
 *
 * clean.c: names that a target or a file chose, made fit for people's terminals and for
 * formats that want UTF-8.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "symbol/symbol.h"

/* The length of the UTF-8 sequence at @s, and its code point; 0 if it isn't one. The
 * string's NUL is no continuation byte, so this never reads behind it. */
static size_t decode(const uint8_t *s, uint32_t *ret_code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 :
		     s[0] < 0xf5 ? 4 : 0;
	uint32_t code;
	size_t i;

	if (len == 0)
		return 0;
	code = len == 1 ? s[0] : s[0] & (0x7f >> len);
	for (i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	if (code < least[len] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	*ret_code = code;
	return len;
}

/* Characters that move the cursor, start an escape sequence, hide, or turn the direction
 * of what follows. */
static bool harmful(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c ||
	       (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2060 && code <= 0x206f) || code == 0xfeff ||
	       (code >= 0xfff0 && code <= 0xfffb) || (code & 0xfffe) == 0xfffe ||
	       (code >= 0xe0000 && code <= 0xe007f);
}

int ht_symbol_clean(const char *text, size_t max, struct ht_buf *out)
{
	const uint8_t *s = (const uint8_t *)text, *end;
	size_t len = strlen(text), i, n;
	uint32_t code;

	end = s + ht_min(len, max);
	while (s < end) {
		/* Nearly always all of it. */
		for (n = 0; s + n < end && s[n] >= 0x20 && s[n] < 0x7f; n++)
			;
		if (n) {
			ht_buf_append(out, s, n);
			s += n;
			continue;
		}
		n = decode(s, &code);
		if (n && (size_t)(end - s) < n)
			break;	/* cut before a character, not in it */
		if (n && !harmful(code)) {
			ht_buf_append(out, s, n);
			s += n;
			continue;
		}
		n = n ? n : 1;
		for (i = 0; i < n; i++)
			ht_buf_printf(out, "\\x%02x", s[i]);
		s += n;
	}
	if (len > max)
		ht_buf_printf(out, "... [%zu bytes]", len);
	return out->failed ? -ENOMEM : 0;
}
