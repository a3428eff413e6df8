/* SPDX-License-Identifier: Apache-2.0
 *
 * The handler that is given to libdw, called as libdw would.
 */
#include <fcntl.h>
#include <libelf.h>
#include <unistd.h>

#include "ht_check.h"
#include "symbol/symbol-priv.h"
#include "tool.h"

static Dwarf *dwarf;
static Elf *elf;
static int fd;

static void start(void)
{
	fd = open(TOOL_INLINES, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	ck_assert_ptr_nonnull(dwarf);
	ht_oom_guard(dwarf);
	ht_oom_guard(NULL);
}

static void stop(void)
{
	dwarf_end(dwarf);
	elf_end(elf);
	close(fd);
}

static void run_out(void *arg)
{
	Dwarf_OOM ours = dwarf_new_oom_handler(dwarf, NULL);
	int *steps = arg;

	dwarf_new_oom_handler(dwarf, ours);
	++*steps;
	ours();
	++*steps;
}

static void go_on(void *arg)
{
	int *steps = arg;

	++*steps;
}

static void nest(void *arg)
{
	int *steps = arg;

	ck_assert(!ht_oom_try(run_out, arg));
	ck_assert(ht_oom_try(go_on, arg));
	run_out(arg);
	*steps = 100;
}

START_TEST(back_to_the_caller)
{
	int steps = 0;

	start();
	ck_assert(ht_oom_try(go_on, &steps));
	ck_assert_int_eq(steps, 1);
	ck_assert(!ht_oom_try(run_out, &steps));
	ck_assert_int_eq(steps, 2);
	/* And once more, from inside of another. */
	ck_assert(!ht_oom_try(nest, &steps));
	ck_assert_int_eq(steps, 5);
	stop();
}
END_TEST

/* What was open can be used on, and closed. */
START_TEST(and_on)
{
	Dwarf_CU *cu = NULL;
	int steps = 0;

	start();
	ck_assert(!ht_oom_try(run_out, &steps));
	ck_assert_int_eq(dwarf_get_units(dwarf, cu, &cu, NULL, NULL, NULL, NULL), 0);
	stop();
}
END_TEST

int main(void)
{
	return ht_check_run("oom", (const TTest *const[]){ back_to_the_caller, and_on, NULL });
}
