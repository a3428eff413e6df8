/* SPDX-License-Identifier: Apache-2.0 */
#include "base/resident.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "ht_check.h"

/* KiB of libm's code, and of that in memory; of the smaps file. */
static void measure(unsigned long *ret_size, unsigned long *ret_resident)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	char line[512];
	bool is_it = false;

	*ret_size = *ret_resident = 0;
	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof(line), file)) {
		if (strstr(line, " r-xp "))
			is_it = strstr(line, "libm.so") != NULL;
		else if (strchr(line, '-') && strchr(line, ' ') > strchr(line, '-'))
			is_it = false;
		if (is_it && !*ret_size)
			(void)!sscanf(line, "Size: %lu kB", ret_size);
		if (is_it)
			(void)!sscanf(line, "Rss: %lu kB", ret_resident);
	}
	fclose(file);
}

START_TEST(code_that_never_ran_is_there)
{
	unsigned long size, resident;

	ck_assert_ptr_nonnull(dlopen("libm.so.6", RTLD_LAZY));
	ht_resident_code();
	measure(&size, &resident);
	ck_assert_uint_gt(size, 100);
	ck_assert_uint_eq(resident, size);
}
END_TEST

int main(void)
{
	return ht_check_run("resident",
			    (const TTest *const[]){ code_that_never_ran_is_there, NULL });
}
