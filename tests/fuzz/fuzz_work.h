/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_work.h: how much work an input makes, which must be bounded: bytes that are allocated, by
 * anybody (seen by a sanitizer only), and steps, which is what the harness counts, mostly
 * by --wrap. Never time, of which a busy machine takes any amount.
 */
#ifndef HT_TESTS_FUZZ_WORK_H
#define HT_TESTS_FUZZ_WORK_H

#include <inttypes.h>
#include <stdbool.h>

#include "fuzz.h"

/* In the sanitizers' runtimes. */
extern int __sanitizer_install_malloc_and_free_hooks(
	void (*on_malloc)(const volatile void *at, size_t len),
	void (*on_free)(const volatile void *at)) __attribute__((weak));

static uint64_t fuzz_bytes, fuzz_steps;

static inline void fuzz_on_malloc(const volatile void *at, size_t len)
{
	fuzz_bytes += len;
}

static inline void fuzz_on_free(const volatile void *at)
{
}

static inline void fuzz_work_start(void)
{
	static bool installed;

	if (!installed && __sanitizer_install_malloc_and_free_hooks)
		__sanitizer_install_malloc_and_free_hooks(fuzz_on_malloc, fuzz_on_free);
	installed = true;
	fuzz_bytes = fuzz_steps = 0;
}

static inline void fuzz_work_end(uint64_t max_bytes, uint64_t max_steps)
{
	if (fuzz_bytes <= max_bytes && fuzz_steps <= max_steps)
		return;
	fprintf(stderr, "%" PRIu64 " bytes of %" PRIu64 ", %" PRIu64 " steps of %" PRIu64 "\n",
		fuzz_bytes, max_bytes, fuzz_steps, max_steps);
	abort();
}

#endif
