/* SPDX-License-Identifier: Apache-2.0
 *
 * oom.c: libdw out of memory. It then calls a handler that must not return; its own one ends the
 * process. Ours jumps back to whoever made the call. That is safe: libdw keeps what it has in
 * blocks that it frees with the Dwarf, and is in no lock when it asks for one.
 *
 * The handler gets no argument, so where to jump to is in a global.
 */
#include <assert.h>
#include <setjmp.h>

#include "symbol/symbol-priv.h"

static _Thread_local jmp_buf *back;

/* The attribute and not the keyword: for clang only that is part of the type. */
static _noreturn_ void on_no_memory(void)
{
	assert(back);
	longjmp(*back, 1);
}

void ht_oom_guard(Dwarf *dwarf)
{
	if (dwarf)
		dwarf_new_oom_handler(dwarf, on_no_memory);
}

bool ht_oom_try(void (*call)(void *arg), void *arg)
{
	jmp_buf here, *outer = back;

	/* Neither @outer nor the arguments change from here on. */
	if (setjmp(here)) {
		back = outer;
		return false;
	}
	back = &here;
	call(arg);
	back = outer;
	return true;
}
