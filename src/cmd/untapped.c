/* SPDX-License-Identifier: Apache-2.0
 *
 * untapped.c: what a plan left out, or came after it, in the words of reports.
 */
#include <errno.h>

#include "cmd/record.h"
#include "inject/plan.h"

static int add(ht_untapped_list *list, const char *names, const struct ht_module *module,
	       const char *why, bool counted)
{
	struct ht_untapped *u = ht_vec_push(list);

	if (!u)
		return -ENOMEM;
	*u = (struct ht_untapped){ names, module ? ht_module_name(module) : "?", why, counted,
				   NULL };
	return 0;
}

static int add_sites(const struct ht_plan *plan, const struct ht_module *module, bool counted,
		     ht_untapped_list *list)
{
	int r = 0;

	for (size_t i = 0; i < plan->n_sites && r == 0; i++) {
		const struct ht_site *s = &plan->sites[i];

		if (s->module == module && s->refused && s->counted == counted)
			r = add(list, s->names, module, s->refused, counted);
	}
	return r;
}

static int add_late(const struct ht_plan *plan, const struct ht_module *module,
		    ht_untapped_list *list)
{
	struct ht_untapped *u = ht_vec_push(list);

	if (!u)
		return -ENOMEM;
	*u = (struct ht_untapped){ .module = ht_module_name(module), .late = "loaded" };
	for (size_t i = 0; i < plan->n_allocators; i++)
		if (plan->allocators[i].module == module)
			u->late = "loaded again";
	return 0;
}

int ht_untapped_of(const struct ht_tap_result *result, ht_untapped_list *list)
{
	const struct ht_plan *plan = result->plan;
	int r = 0;

	for (size_t i = 0; i < result->n_late && r == 0; i++)
		r = add_late(plan, result->late[i], list);
	for (size_t i = 0; i < plan->n_allocators && r == 0; i++) {
		const struct ht_allocator *a = &plan->allocators[i];

		if (a->left_out) {
			r = add(list, NULL, a->module, a->left_out, false);
			continue;
		}
		r = add_sites(plan, a->module, false, list);
		if (r == 0)
			r = add_sites(plan, a->module, true, list);
	}
	return r;
}
