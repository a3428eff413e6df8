/* SPDX-License-Identifier: Apache-2.0
 *
 * reach.h: does an entry get to another entry that will be patched? For this folder only.
 */
#ifndef HT_INJECT_REACH_H
#define HT_INJECT_REACH_H

#include "inject/image.h"

/* What the search looks for. */
struct ht_reach_goal {
	bool (*at)(void *arg, ht_addr_t addr);		/* something patched is at @addr */
	bool (*named)(void *arg, const char *name);	/* something patched has @name */
	void *arg;
};

enum ht_reach {
	HT_REACH_NONE,		/* proven: all that it can run was seen */
	HT_REACH_UNKNOWN,	/* a call through a pointer, or too much code */
	HT_REACH_SITE,		/* yes */
};

struct ht_reach_result {
	enum ht_reach reach;
	bool blind;		/* code on the way couldn't be decoded or bounded */
};

/* Follow the direct branches and the PLT calls of the function at @addr (@len bytes)
 * through @levels levels of calls. @stay_home: functions of other modules are taken to
 * reach nothing, unless they are what is looked for. */
struct ht_reach_result ht_reach_from(const struct ht_images *images, ht_addr_t addr,
				     size_t len, unsigned levels, bool stay_home,
				     const struct ht_reach_goal *goal) _nonnull_;

/* The function at @addr is a bare jump, or a chain of them, to something patched. */
bool ht_reach_forwards(const struct ht_images *images, ht_addr_t addr,
		       const struct ht_reach_goal *goal) _nonnull_;

#endif
