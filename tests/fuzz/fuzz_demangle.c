/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_demangle.c: any bytes as a mangled name, and as a text that is to be shown. What comes out
 * is bounded, and fit to be shown.
 */
#include "fuzz_work.h"
#include "symbol/symbol-priv.h"

/* Growing buffers, and what the demanglers take for one name. */
#define MAX_BYTES (UINT64_C(16) << 20)

static void check_clean(const char *text, size_t max)
{
	struct ht_buf once = HT_BUF_INIT, twice = HT_BUF_INIT;

	CHECK(!ht_symbol_clean(text, max, &once));
	/* A byte makes \x12 at most; then what was cut. */
	CHECK(once.len <= 4 * ht_min(strlen(text), max) + 40);
	CHECK(!ht_symbol_clean(once.data ? once.data : "", SIZE_MAX, &twice));
	CHECK(once.len == twice.len && !memcmp(once.data ? once.data : "",
					       twice.data ? twice.data : "", once.len));
	ht_buf_fini(&once);
	ht_buf_fini(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *name = strndup((const char *)data, len), *text;

	CHECK(name);
	fuzz_work_start();
	text = ht_demangle(name);
	if (text) {
		CHECK(strlen(text) <= HT_NAME_DEMANGLED_MAX);
		check_clean(text, HT_NAME_SHOWN_MAX);
	}
	check_clean(name, 64);
	fuzz_work_end(MAX_BYTES, 0);
	free(text);
	free(name);
	return 0;
}

const unsigned fuzz_runs = 5000;

static const char *const names[] = {
	"_ZNSt6vectorIiSaIiEE9push_backEOi",
	"_ZN1aIXadL_Z1fIiEvT_EEE1bINS_1cIJiS1_EEEEEvDpOT_U14enable_ifILb1EE",
	"_ZN4core3ptr42drop_in_place$LT$alloc..vec..Vec$u5b$u8$u5d$$GT$17h0123456789abcdefE",
	"_RINvNtCs1234_7mycrate3foo3barNtB4_3BazKj1f_NvYNtB2_3QuxNtB4_5Trait1fE",
	"_D3std5stdio__T7writelnTAyaZQnFNfQjZv",
	"_GLOBAL__sub_I__ZN3foo3barE",
	"\xe2\x80\xae\x1b[31m\xf0\x9f\x98\x80\x7f\xc3(",
};

void fuzz_seed(unsigned i, struct fuzz_output *out)
{
	if (i < ARRAY_SIZE(names))
		fuzz_put(out, names[i], strlen(names[i]));
}
