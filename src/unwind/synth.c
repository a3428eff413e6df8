/* SPDX-License-Identifier: Apache-2.0
 *
 * synth.c: unwind rules for code that has no CFI but looks the same everywhere: PLTs of
 * linkers that don't describe them (lld, mold) and signal trampolines (musl, Go).
 */
#include "unwind/image-priv.h"

#include <string.h>

static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

static bool is_code(const uint8_t *code, uint64_t len, uint64_t at, const void *bytes,
		    size_t n)
{
	return at <= len && n <= len - at && memcmp(code + at, bytes, n) == 0;
}

unsigned ht_synth_find_plts(const struct ht_elfview *view, struct ht_synth_plt *ret_plts,
			    unsigned max)
{
	struct ht_elfview_section section;
	unsigned i, j, n = 0;

	for (i = 0; n < max && ht_elfview_section(view, i, &section); i++) {
		struct ht_synth_plt plt = { .start = section.addr, .code = section.data };

		if (strcmp(section.name, ".plt") == 0 || strcmp(section.name, ".iplt") == 0)
			plt.kind = HT_SYNTH_LAZY_PLT;
		else if (strcmp(section.name, ".plt.sec") == 0 ||
			 strcmp(section.name, ".plt.got") == 0)
			plt.kind = HT_SYNTH_SP8;
		else
			continue;
		if (!section.data || !(section.flags & SHF_EXECINSTR) || section.len == 0 ||
		    __builtin_add_overflow(section.addr, section.len, &plt.end))
			continue;
		for (j = n++; j > 0 && ret_plts[j - 1].start > plt.start; j--)
			ret_plts[j] = ret_plts[j - 1];
		ret_plts[j] = plt;
	}
	return n;
}

/* How far into a 16-byte entry its number has been pushed; 0: it pushes none. */
static int32_t pushed_at(const uint8_t *code, uint64_t len, uint64_t entry)
{
	static const uint8_t jmp_mem[] = { 0xff, 0x25 }, push[] = { 0x68 };

	if (is_code(code, len, entry, jmp_mem, sizeof(jmp_mem)) &&
	    is_code(code, len, entry + 6, push, sizeof(push)))
		return 11;
	if (is_code(code, len, entry, endbr64, sizeof(endbr64)) &&
	    is_code(code, len, entry + 4, push, sizeof(push)))
		return 9;
	return 0;
}

static struct ht_synth_row plt_row(uint64_t start, int32_t cfa_offset)
{
	return (struct ht_synth_row){ start, { .cfa_kind = HT_CFA_SP,
					       .cfa_offset = cfa_offset, .aux = -8 } };
}

unsigned ht_synth_plt_rows(const struct ht_synth_plt *plt,
			   struct ht_synth_row ret_rows[HT_SYNTH_PLT_ROWS])
{
	static const uint8_t push_got[] = { 0xff, 0x35 };
	static const uint8_t mold[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x53, 0xff, 0x35 };
	uint64_t start = plt->start, len = plt->end - start, first = 0;
	int32_t pushed;
	unsigned n = 0;

	if (plt->kind == HT_SYNTH_LAZY_PLT && (start & 15) == 0) {
		if (len > 16 && is_code(plt->code, len, 0, push_got, sizeof(push_got))) {
			/* Entered from an entry, with its number pushed. */
			ret_rows[n++] = plt_row(start, 16);
			ret_rows[n++] = plt_row(start + 6, 24);
			first = 16;
		} else if (len > 32 && is_code(plt->code, len, 0, mold, sizeof(mold))) {
			ret_rows[n++] = plt_row(start, 8);
			ret_rows[n++] = plt_row(start + 6, 16);
			ret_rows[n++] = plt_row(start + 12, 24);
			first = 32;
		}
		pushed = pushed_at(plt->code, len, first);
		if (pushed > 0) {
			ret_rows[n++] = (struct ht_synth_row){
				start + first, { .cfa_kind = HT_CFA_PLT, .aux = pushed } };
			return n;
		}
	}
	ret_rows[n++] = plt_row(start + first, 8);
	return n;
}

size_t ht_synth_find_sigreturn(const uint8_t *code, size_t len)
{
	static const uint8_t bytes[HT_SYNTH_SIGRETURN] = { 0x48, 0xc7, 0xc0, 15,   0,
							   0,	 0,    0x0f, 0x05 };
	const uint8_t *found = memmem(code, len, bytes, sizeof(bytes));

	return found ? (size_t)(found - code) : len;
}
