/* SPDX-License-Identifier: Apache-2.0
 *
 * harm.h: taps of each kind of a target that watches itself.
 */
#ifndef HT_TESTS_HARM_H
#define HT_TESTS_HARM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "ht_target.h"
#include "ht_tool.h"

#define HT_HARM_REPLY 2200

struct ht_harm_kind {
	const char *name;
	enum ht_loader loader;
	bool exact;
	enum ht_transport transport;
};

#define HT_HARM_KINDS 8
extern const struct ht_harm_kind ht_harm_kinds[HT_HARM_KINDS];

/* @few, times HT_HARM of the environment. */
int ht_harm_rounds(int few);
struct ht_test_work ht_harm_work(const struct ht_test_target *t,
				 const struct ht_harm_kind *kind) _nonnull_;
/* The reply must begin with "ok"; @when says what was tried, if not. */
void ht_harm_ask(struct ht_test_target *t, const char *what, const char *when,
		 char reply[HT_HARM_REPLY]) _nonnull_;
/* Attach, ask it @during while it is recorded, detach, ask it @after. false: it wasn't tapped,
 * since no thread was found in time that could be borrowed for dlopen: a busy machine. */
bool ht_harm_tap(struct ht_test_target *t, const struct ht_harm_kind *kind,
		 const char *during, const char *after, char reply[HT_HARM_REPLY]) _nonnull_;
/* Nor is there anything of heaptap in it. On a busy machine a thread may wait for a CPU in the
 * midst of the hook, whose code stays mapped then: until a later cure, which finds it gone on. */
void ht_harm_nothing_left(const struct ht_test_target *t, const char *what) _nonnull_;

#endif
