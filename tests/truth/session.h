/* SPDX-License-Identifier: Apache-2.0
 *
 * session.h: a truth program, tapped. Its lines are answered while its records are read,
 * so that it never waits for room in the ring. Asserts by Check.
 */
#ifndef HT_TESTS_TRUTH_SESSION_H
#define HT_TESTS_TRUTH_SESSION_H

#include <stdbool.h>

#include "ht_check.h"
#include "ht_target.h"
#include "tap/tap.h"

/* What a program runs on. */
struct allocator {
	const char *name;
	const char *preload;	/* library; with a slash, one of the build; NULL: none */
	const char *suffix;	/* of the program's name, "-musl" */
};

/* All that may be installed: glibc first, then what is preloaded, then other builds, static
 * ones last. */
extern const struct allocator allocators[];
extern const size_t n_allocators, n_preloads, n_dynamic;
/* Of our own, for entries that those don't have. */
extern const struct allocator sized_allocators[];
extern const size_t n_sized;

struct session {
	struct ht_test_target target;
	struct ht_tap *tap;
	enum ht_tap_state state;
	struct ht_tap_options options;
	bool launched;
};

/* Exact, sampled with @interval. */
struct ht_tap_options options_exact(void);
struct ht_tap_options options_sampled(uint64_t interval);

/* False, and nothing runs: this allocator, or a build for it, isn't here; that makes a skip
 * of the test program (ht_check_have()). */
bool session_start(struct session *s, const char *program, const struct allocator *allocator,
		   const char *const args[]);
/* Tap the program. */
void session_attach(struct session *s, const struct ht_tap_options *options);
/* Both at once: tapped before its first allocation. */
bool session_launch(struct session *s, const char *program,
		    const struct allocator *allocator, const char *const args[],
		    const struct ht_tap_options *options);

/* Send a line, wait for "LINE done"; everything that was recorded by then is accounted for,
 * but for events that wait for an older one. */
void session_ask(struct session *s, const char *line);
/* Send a line and read the answer. */
void session_send(struct session *s, const char *line);
void session_read(struct session *s, char *line, size_t cap);
void session_cure(struct session *s);
/* The program ends well; then everything is freed. */
void session_end(struct session *s);

#endif
