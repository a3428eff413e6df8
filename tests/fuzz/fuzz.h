/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz.h: what a harness gives to whoever runs it (fuzz_main.c: libFuzzer, or a test with a
 * fixed number of inputs), and how it reads its input.
 */
#ifndef HT_TESTS_FUZZ_H
#define HT_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline _Noreturn void fuzz_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
	abort();
}

#define CHECK(condition)                                                                 \
	do {                                                                             \
		if (!(condition))                                                        \
			fuzz_failed(__FILE__, __LINE__, #condition);                     \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* How many inputs the test makes: a second's worth. */
extern const unsigned fuzz_runs;

/* Where inputs are written to. What doesn't fit is left out. */
struct fuzz_output {
	uint8_t at[1 << 16];
	size_t len;
};

static inline void fuzz_put(struct fuzz_output *out, const void *data, size_t len)
{
	if (len > sizeof(out->at) - out->len)
		return;
	memcpy(out->at + out->len, data, len);
	out->len += len;
}

/* Write the ith input to begin with; nothing: there are no more. */
void fuzz_seed(unsigned i, struct fuzz_output *out);

struct fuzz_input {
	const uint8_t *at, *end;
};

/* As many bytes as there are; the others are 0. */
static inline void fuzz_read(struct fuzz_input *in, void *to, size_t len)
{
	size_t left = (size_t)(in->end - in->at), n = len < left ? len : left;

	memset(to, 0, len);
	if (n > 0)
		memcpy(to, in->at, n);
	in->at += n;
}

static inline uint8_t fuzz_byte(struct fuzz_input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static inline uint16_t fuzz_u16(struct fuzz_input *in)
{
	uint16_t value;

	fuzz_read(in, &value, sizeof(value));
	return value;
}

static inline uint64_t fuzz_u64(struct fuzz_input *in)
{
	uint64_t value;

	fuzz_read(in, &value, sizeof(value));
	return value;
}

#endif
