/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fake_recording.h"
#include "ht_check.h"
#include "report/report-priv.h"

START_TEST(allocators_and_wrappers)
{
	static const char *const yes[] = {
		"malloc", "operator new(unsigned long)", "operator new[](unsigned long)",
		"xmalloc", "g_malloc0", "zmalloc", "ztrymalloc_usable_internal", "PyMem_RawMalloc",
		"sqlite3MallocZero", "je_malloc", "_int_malloc", "__libc_memalign",
		"std::allocator_traits<std::allocator<int> >::allocate(std::allocator<int>&)",
		"std::__new_allocator<int>::allocate(unsigned long, void const*)",
		"__rust_alloc", "alloc::alloc::Global::alloc_impl", "reallocarray",
		"<alloc::alloc::Global>::alloc_impl_runtime", "alloc::alloc::realloc_nonnull",
		"<alloc::alloc::Global as core::alloc::Allocator>::grow",
		"__rustc::__rust_alloc_zeroed", "__rustc::__rdl_realloc", "__rg_realloc",
		"<std::alloc::System as core::alloc::global::GlobalAlloc>::alloc",
		"std::sys::alloc::unix::<impl core::alloc::global::GlobalAlloc for std::alloc::System>::alloc",
		"<app::Counting as core::alloc::global::GlobalAlloc>::realloc",
		"app::<impl core::alloc::Allocator for app::Arena<T>>::allocate",
		"alloc::raw_vec::RawVec<T,A>::grow_one", "alloc::raw_vec::finish_grow",
		"<alloc::raw_vec::RawVecInner>::try_allocate_in",
		"<alloc::raw_vec::RawVecInner<_>>::reserve::do_reserve_and_handle::<alloc::alloc::Global>",
		"<alloc::raw_vec::RawVec<alloc::vec::Vec<u8>>>::grow_one",
		"alloc::boxed::box_new_uninit", "alloc::boxed::Box<T>::new",
		"alloc::boxed::Box<T,A>::try_new_uninit_in", "<alloc::boxed::Box<[u64, 20]>>::new",
		"<alloc::boxed::Box<alloc::rc::RcInner<[u64, 9]>>>::new_uninit_in",
		"hashbrown::raw::alloc::inner::do_alloc",
		"hashbrown::alloc::inner::do_alloc::<alloc::alloc::Global>",
	};
	static const char *const no[] = {
		"main", "reallocate", "mallocate_things", "parse", "operator delete(void*)",
		"box::malloc_like(int)", "strdup", "allocate", "std::string::append(char)", "",
		"<alloc::boxed::Box<str> as core::convert::From<&str>>::from",
		"<alloc::boxed::Box<dyn app::Shape>>::newest::{closure#0}", "app::Box<T>::new",
		"<alloc::boxed::Box<T> as app::Make>::new",
		"<alloc::vec::Vec<u8>>::with_capacity", "alloc::vec::Vec<T,A>::push",
		"<alloc::rc::Rc<[u64, 9]>>::new", "alloc::fmt::format::format_inner",
		"<app::Pool<app::Counting> as app::Source>::next", "<str>::repeat",
		"app::walk::<<app::A as core::alloc::Allocator>::allocate::{closure#0}>",
		"__rustc::rust_begin_unwind", "hashbrown::raw::RawTable<T,A>::reserve",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(yes); i++)
		ck_assert_msg(ht_step_is_allocator(yes[i], NULL), "%s", yes[i]);
	for (i = 0; i < ARRAY_SIZE(no); i++)
		ck_assert_msg(!ht_step_is_allocator(no[i], "libc.so.6"), "%s", no[i]);
	ck_assert(ht_step_is_allocator("whatever", "libjemalloc.so.2"));
}
END_TEST

static void check(struct fake *fake, uint32_t site, bool trim, const char *expected)
{
	struct ht_buf out = HT_BUF_INIT;
	ht_steps steps = HT_VEC_INIT;
	struct ht_step *step;

	ck_ok(ht_steps_of_site(&fake->recording, site, trim, &steps));
	ht_vec_foreach(step, &steps)
		ht_buf_printf(&out, step->placeholder ? "[%s] " : "%s ", step->name);
	ck_assert_str_eq(out.data, expected);
	ht_buf_fini(&out);
	ht_vec_fini(&steps);
}

START_TEST(trimming)
{
	struct ht_symbol inlined[] = { { .name = "operator new(unsigned long)", .inlined = true },
				       { .name = "make" } };
	struct fake fake;
	uint32_t site;

	fake_init(&fake);
	struct ht_frame make = fake_code(&fake, 0, inlined, 2);
	struct ht_frame malloc_ = fake_function(&fake, 1, "malloc", NULL, 0);
	struct ht_frame mainf = fake_function(&fake, 0, "main", NULL, 0);
	struct ht_frame start = fake_function(&fake, 1, "__libc_start_call_main", NULL, 0);
	struct ht_frame start2 = fake_function(&fake, 0, "_start", NULL, 0);
	struct ht_frame all[] = { malloc_, make, mainf, start, start2 };

	site = fake_site(&fake, all, 5, HT_STACK_COMPLETE, 1, 1, 1, 1);
	check(&fake, site, true, "make main ");
	check(&fake, site, false, "malloc operator new(unsigned long) make main "
				  "__libc_start_call_main _start ");
	/* Never down to nothing. */
	site = fake_site(&fake, all, 1, HT_STACK_COMPLETE, 1, 1, 1, 1);
	check(&fake, site, true, "malloc ");
	site = fake_site(&fake, all, 1, HT_STACK_NO_CFI, 1, 1, 1, 1);
	check(&fake, site, true, "malloc [no unwind data] ");
	site = fake_site(&fake, all + 4, 1, HT_STACK_COMPLETE, 1, 1, 1, 1);
	check(&fake, site, true, "_start ");
	site = fake_site(&fake, all, 0, HT_STACK_COMPLETE, 1, 1, 1, 1);
	check(&fake, site, true, "[no stack] ");
	fake_fini(&fake);
}
END_TEST

START_TEST(signal_frames)
{
	struct fake fake;
	uint32_t site;

	fake_init(&fake);
	struct ht_frame f[] = { fake_function(&fake, 0, "handler", NULL, 0),
				fake_function(&fake, 1, "__restore_rt", NULL, 0),
				fake_function(&fake, 0, "main", NULL, 0) };

	f[1].flags = HT_FRAME_SIGNAL | HT_FRAME_EXACT;
	site = fake_site(&fake, f, 3, HT_STACK_COMPLETE, 1, 1, 1, 1);
	check(&fake, site, true, "handler <signal handler called> main ");
	fake_fini(&fake);
}
END_TEST

int main(void)
{
	return ht_check_run("steps", (const TTest *const[]){ allocators_and_wrappers, trimming,
							     signal_frames, NULL });
}
