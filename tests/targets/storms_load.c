/* SPDX-License-Identifier: Apache-2.0
 *
 * storms_load.c: see storms.h.
 */
#include "storms.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

/* Parts of glibc that nothing here needs. */
static const char *const libraries[] = { "libresolv.so.2", "libanl.so.1", "libutil.so.1",
					 "libnss_files.so.2" };

static void load_round(void *arg)
{
	for (int i = 0; i < 4; i++) {
		void *library = dlopen(libraries[storms_random(4)], RTLD_NOW);

		if (!library) {
			rounds_bad("dlopen: %s", dlerror());
			continue;
		}
		if (dlsym(library, "no such thing"))
			rounds_bad("dlsym found what isn't there");
		storms_free(storms_alloc());
		if (dlclose(library))
			rounds_bad("dlclose: %s", dlerror());
	}
}

static int count_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	/* The loader's lock is held. */
	for (int i = 0; i < 20; i++)
		storms_free(storms_alloc());
	++*(int *)arg;
	return 0;
}

static void iterate_round(void *arg)
{
	int n = 0;

	dl_iterate_phdr(count_object, &n);
	if (n < 3)
		rounds_bad("%d loaded objects", n);
}

void storms_load(void)
{
	storms_start("load", 2, load_round);
	storms_start("iterate", 2, iterate_round);
}

static void *(*other_malloc)(size_t size);
static void (*other_free)(void *memory);

static void dlmopen_round(void *arg)
{
	for (int i = 0; i < 100; i++) {
		size_t size = 1 + storms_random(2000);
		char *block = other_malloc(size);

		if (!block) {
			rounds_bad("the other libc is out of memory");
			return;
		}
		memset(block, 'x', size);
		storms_free(storms_alloc());
		other_free(block);
	}
}

void storms_dlmopen(void)
{
	void *libc = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);

	if (!libc) {
		rounds_bad("dlmopen: %s", dlerror());
		return;
	}
	*(void **)&other_malloc = dlsym(libc, "malloc");
	*(void **)&other_free = dlsym(libc, "free");
	storms_start("dlmopen", 2, dlmopen_round);
}

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *context, void *arg)
{
	++*(int *)arg;
	return _Unwind_GetIP(context) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* Frames find out where they end, as an exception does, below an allocation. */
static void __attribute__((noinline)) throw_deep(int depth, int *frames)
{
	void *block = storms_alloc();

	if (depth)
		throw_deep(depth - 1, frames);
	else
		_Unwind_Backtrace(count_frame, frames);
	storms_free(block);
}

static void throw_round(void *arg)
{
	int frames = 0;

	throw_deep(20, &frames);
	if (frames < 22)
		rounds_bad("an unwinder saw %d frames", frames);
}

void storms_throw(void)
{
	storms_start("throw", 4, throw_round);
}
