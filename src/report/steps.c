/* SPDX-License-Identifier: Apache-2.0
 *
 * steps.c: a site's stack as the functions that people know: inlined calls are functions,
 * the allocator isn't shown as the caller of itself, and a stack that ended early says why.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "report/report-priv.h"
#include "unwind/unwind.h"

static const char signal_name[] = "<signal handler called>";

/* Whole names, and beginnings of names (with a '*'). */
static const char *const allocator_names[] = {
	"operator new(*", "operator new[](*", "operator new*",
	"malloc", "free", "cfree", "posix_memalign", "valloc", "pvalloc", "aligned_alloc",
	"_int_malloc", "_int_realloc", "_int_memalign", "_mid_memalign", "sysmalloc",
	"tcache_init", "malloc_consolidate", "__default_morecore",
	"je_*", "mi_*", "_mi_*", "tc_*", "tcmalloc::*", "mallocx", "rallocx", "xallocx",
	"imalloc*", "arena_malloc*", "do_rallocx", "(anonymous namespace)::do_malloc*",
	"std::allocator<*", "std::allocator_traits<*", "std::__new_allocator<*",
	"__gnu_cxx::new_allocator<*", "void* std::__1::__libcpp_operator_new<*",
	"std::__1::allocator<*", "std::__1::allocator_traits<*",
	"std::__1::__libcpp_allocate*",
	"__rust_alloc*", "__rust_realloc", "__rdl_alloc*", "__rdl_realloc", "__rg_alloc*",
	"__rg_realloc", "__rustc::__rust_alloc*", "__rustc::__rust_realloc",
	"__rustc::__rdl_alloc*", "__rustc::__rdl_realloc", "__rustc::__rg_alloc*",
	"__rustc::__rg_realloc", "std::alloc::__default_lib_allocator::*",
	"alloc::alloc::alloc*", "alloc::alloc::realloc*", "alloc::alloc::exchange_malloc",
	"alloc::alloc::Global::*", "<alloc::alloc::Global>::*", "<alloc::alloc::Global as *",
	"alloc::raw_vec::*", "<alloc::raw_vec::*", "alloc::boxed::box_new*",
	"hashbrown::alloc::*", "hashbrown::raw::alloc::*",
	"std::sys::alloc::*", "std::sys::unix::alloc::*", "std::sys::pal::unix::alloc::*",
	"std::sys_common::alloc::*", "std::sys::pal::common::alloc::*",
	"std::alloc::System::*", "<std::alloc::System>::*", "<std::alloc::System as *",
	"_d_allocmemory", "gc_malloc",
};

static const char *const allocator_modules[] = {
	"libjemalloc", "libtcmalloc", "libmimalloc", "libsnmalloc", "librpmalloc",
	"libhoard",
};

/* xmalloc, g_malloc0, ztrymalloc_usable, PyMem_RawMalloc, sqlite3MallocZero: a C name that
 * has one of the words as a word of its own; not "reallocate". */
static bool is_wrapper(const char *name)
{
	static const char *const words[] = { "malloc", "calloc", "realloc", "memalign",
					     "reallocarray" };
	const char *at;
	size_t i, len;

	if (strpbrk(name, ":(<."))
		return false;
	for (i = 0; i < ARRAY_SIZE(words); i++) {
		len = strlen(words[i]);
		for (at = name; (at = strcasestr(at, words[i])); at++)
			if (at[len] < 'a' || at[len] > 'z')
				return true;
	}
	return false;
}

static bool begins(const char *name, const char *beginning)
{
	return strncmp(name, beginning, strlen(beginning)) == 0;
}

/* Rust's Box<T>::new and its kin, which is its operator new; and what implements the trait
 * of allocators, or that of the one that "#[global_allocator]" puts in place of another. */
static bool is_rust(const char *name)
{
	static const char *const traits[] = {
		" as core::alloc::global::GlobalAlloc", "<impl core::alloc::global::GlobalAlloc for ",
		" as core::alloc::Allocator", "<impl core::alloc::Allocator for ",
	};
	const char *last = NULL, *at, *of_trait;
	size_t i;

	for (at = name; (at = strstr(at, ">::")); at += 3)
		last = at;
	if (!last || strpbrk(last + 3, ":<"))
		return false;
	if (begins(name, "alloc::boxed::Box<") || begins(name, "<alloc::boxed::Box<"))
		return !strstr(name, " as ") &&
		       (begins(last + 3, "new") || begins(last + 3, "try_new"));
	for (i = 0; i < ARRAY_SIZE(traits); i++) {
		of_trait = strstr(name, traits[i]);
		if (of_trait && (traits[i][0] == '<' || of_trait + strlen(traits[i]) == last))
			return true;
	}
	return false;
}

bool ht_step_is_allocator(const char *name, const char *module_name)
{
	size_t i, len;

	for (i = 0; i < ARRAY_SIZE(allocator_names); i++) {
		len = strlen(allocator_names[i]);
		if (allocator_names[i][len - 1] == '*' ?
			    strncmp(name, allocator_names[i], len - 1) == 0 :
			    strcmp(name, allocator_names[i]) == 0)
			return true;
	}
	for (i = 0; module_name && i < ARRAY_SIZE(allocator_modules); i++)
		if (strncmp(module_name, allocator_modules[i],
			    strlen(allocator_modules[i])) == 0)
			return true;
	return is_wrapper(name) || is_rust(name);
}

static int push(ht_steps *steps, struct ht_step step)
{
	struct ht_step *slot = ht_vec_push(steps);

	if (!slot)
		return -ENOMEM;
	*slot = step;
	return 0;
}

static int push_frame(const struct ht_recording *recording, const struct ht_frame *frame,
		      ht_steps *steps)
{
	const struct ht_symbol *symbols;
	size_t n, i;
	int r;

	if (frame->flags & HT_FRAME_SIGNAL)
		return push(steps, (struct ht_step){ .name = signal_name,
						     .module = frame->module });
	r = ht_symbols_lookup(recording->symbols, frame, &symbols, &n);
	for (i = 0; r == 0 && i < n; i++)
		r = push(steps, (struct ht_step){ .name = symbols[i].name,
						  .file = symbols[i].file,
						  .line = symbols[i].line,
						  .module = frame->module,
						  .unknown = symbols[i].unknown });
	return r;
}

/* What runs before main(), and the kernel's side of a thread's start. */
static bool is_start(const char *name)
{
	static const char *const names[] = {
		"_start", "__libc_start_main", "__libc_start_main_impl",
		"__libc_start_call_main",
		"libc_start_main_stage2", "clone", "clone3", "__clone", "__clone3",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static void trim_start(ht_steps *steps)
{
	while (steps->len > 1 && is_start(steps->at[steps->len - 1].name))
		steps->len--;
}

/* Never all of it: an allocator that allocates for itself is a caller too. */
static void trim_leaf(const struct ht_recording *recording, ht_steps *steps)
{
	const struct ht_module *module;
	size_t n = 0;

	while (n + 1 < steps->len && !steps->at[n + 1].placeholder) {
		module = ht_modules_at(recording->modules, steps->at[n].module);
		if (!ht_step_is_allocator(steps->at[n].name,
					  module ? ht_module_name(module) : NULL))
			break;
		n++;
	}
	if (n == 0)
		return;
	memmove(steps->at, steps->at + n, (steps->len - n) * sizeof(*steps->at));
	steps->len -= n;
}

int ht_steps_of_site(const struct ht_recording *recording, uint32_t site, bool trim,
		     ht_steps *steps)
{
	struct ht_stack stack;
	uint32_t i;
	int r = 0;

	ht_ledger_site_stack(recording->ledger, site, &stack, NULL);
	ht_vec_clear(steps);
	for (i = 0; r == 0 && i < stack.n_frames && i < HT_MAX_FRAMES; i++)
		r = push_frame(recording, &stack.frames[i], steps);
	if (r == 0 && (stack.end != HT_STACK_COMPLETE || steps->len == 0)) {
		const char *why = stack.end == HT_STACK_COMPLETE ?
					  "no stack" : ht_stack_end_text(stack.end);

		r = push(steps, (struct ht_step){ .name = why, .module = HT_MODULE_NONE,
						  .placeholder = true });
	}
	if (r == 0 && trim) {
		trim_start(steps);
		trim_leaf(recording, steps);
	}
	return r;
}
