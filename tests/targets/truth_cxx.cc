/* SPDX-License-Identifier: Apache-2.0
 *
 * truth_cxx: as truth, for the ways that C++ has: new and delete, arrays, nothrow,
 * aligned, sized. The protocol is that of truth.c.
 *
 * What the runtime allocates for an exception isn't counted: who throws is named
 * otherwise than site_..., so that it isn't compared.
 */
#include "truth_count.h"

#include <dlfcn.h>

#include <cstdint>
#include <new>

#define SITE __attribute__((noinline))

namespace {

volatile std::size_t huge = PTRDIFF_MAX / 2;

constexpr unsigned EACH = 50;
constexpr auto ALIGN = std::align_val_t{ 128 };

struct truth_block plain[EACH], array[EACH], quiet[EACH], quiet_array[EACH];
struct truth_block aligned[EACH], aligned_array[EACH];

/* The allocator's own operators are tapped themselves. Those of the C++ library are not, and
 * this is what libstdc++ asks malloc and aligned_alloc for. */
bool own_operators;
/* In a static program, where no nothrow sibling is linked, the aligned ones aren't. */
bool own_aligned;

std::size_t asked(std::size_t size)
{
	return own_operators || size ? size : 1;
}

std::size_t asked_aligned(std::size_t size)
{
	constexpr auto align = static_cast<std::size_t>(ALIGN);

	return own_aligned ? size : (size + align - 1) / align * align;
}

SITE struct truth_block site_new(std::size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, ::operator new(size), asked(size));
}

SITE struct truth_block site_new_array(std::size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, ::operator new[](size), asked(size));
}

SITE struct truth_block site_new_nothrow(std::size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, ::operator new(size, std::nothrow), asked(size));
}

SITE struct truth_block site_new_array_nothrow(std::size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, ::operator new[](size, std::nothrow), asked(size));
}

SITE struct truth_block site_new_aligned(std::size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, ::operator new(size, ALIGN), asked_aligned(size));
}

SITE struct truth_block site_new_array_aligned(std::size_t size)
{
	TRUTH_SITE(site);

	return truth_took(&site, ::operator new[](size, ALIGN), asked_aligned(size));
}

/* The exception allocates too, as it likes. */
SITE struct truth_block provoke_bad_alloc(std::size_t size)
{
	TRUTH_SITE(site);

	try {
		return truth_took(&site, ::operator new(size), size);
	} catch (const std::bad_alloc &) {
		return truth_took(&site, nullptr, size);
	}
}

template <typename Delete> void drop(struct truth_block *block, Delete del)
{
	void *ptr = block->ptr;
	std::size_t size = block->size;

	truth_gone(block);
	if (ptr)
		del(ptr, size);
}

/* Every form of delete, each with what its form of new gave. */
void drop_at(unsigned i)
{
	bool sized = i % 4 < 2;

	drop(&plain[i], [=](void *p, std::size_t n) {
		sized ? ::operator delete(p, n) : ::operator delete(p);
	});
	drop(&array[i], [=](void *p, std::size_t n) {
		sized ? ::operator delete[](p, n) : ::operator delete[](p);
	});
	drop(&quiet[i], [=](void *p, std::size_t) {
		sized ? ::operator delete(p, std::nothrow) : ::operator delete(p);
	});
	drop(&quiet_array[i], [=](void *p, std::size_t) {
		sized ? ::operator delete[](p, std::nothrow) : ::operator delete[](p);
	});
	drop(&aligned[i], [=](void *p, std::size_t n) {
		sized ? ::operator delete(p, n, ALIGN) : ::operator delete(p, ALIGN);
	});
	drop(&aligned_array[i], [=](void *p, std::size_t n) {
		sized ? ::operator delete[](p, n, ALIGN) : ::operator delete[](p, ALIGN);
	});
}

void prepare_new()
{
	void *malloc = dlsym(RTLD_DEFAULT, "malloc"), *new_ = dlsym(RTLD_DEFAULT, "_Znwm");
	Dl_info a, b;

	own_aligned = malloc && dladdr(malloc, &a) && dladdr(new_, &b) &&
		      a.dli_fbase == b.dli_fbase;
	/* In a static program no name is found, and all of it is one module. */
	own_operators = own_aligned || !malloc;
}

void run_new()
{
	for (unsigned i = 0; i < EACH; i++) {
		drop_at(i);
		plain[i] = site_new(1 + i * 37);
		array[i] = site_new_array(8 * i);
		quiet[i] = site_new_nothrow(3 + i);
		quiet_array[i] = site_new_array_nothrow(500 + i);
		aligned[i] = site_new_aligned(100 + i);
		aligned_array[i] = site_new_array_aligned(1000 * (i + 1));
	}
	for (unsigned i = 0; i < EACH; i += 3)
		drop_at(i);
}

bool throws;

/* mimalloc built as C can't throw: its new ends the program. */
void prepare_fail()
{
	throws = !dlsym(RTLD_DEFAULT, "mi_malloc");
}

void run_fail()
{
	for (unsigned i = 0; i < 20; i++) {
		site_new_nothrow(huge);
		if (throws)
			provoke_bad_alloc(huge);
	}
}

} /* namespace */

int main(int argc, char **argv)
{
	static const struct truth_workload workloads[] = {
		{ "new", prepare_new, run_new, 0 },
		{ "fail", prepare_fail, run_fail, 0 },
	};

	return truth_main(argc, argv, workloads, 2);
}
