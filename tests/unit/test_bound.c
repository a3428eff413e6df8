/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/buf.h"
#include "cmd/record.h"
#include "ht_check.h"

static uint64_t limit_now(void)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
	return limit.rlim_cur;
}

/* Whether so much can be mapped. */
static bool may_have(uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return false;
	munmap(at, bytes);
	return true;
}

/* Check runs it in a process of its own. */
START_TEST(what_the_machine_has_and_no_more)
{
	struct ht_buf score = HT_BUF_INIT;
	struct sysinfo info;
	uint64_t all;

	ck_assert_int_eq(sysinfo(&info), 0);
	all = (uint64_t)info.mem_unit * (info.totalram + info.totalswap);
	ht_bound_memory();
	ck_assert(may_have(UINT64_C(512) << 20));
	ck_assert(!may_have(all + (UINT64_C(2) << 30)));
	ck_ok(ht_buf_read_file(&score, AT_FDCWD, "/proc/self/oom_score_adj", 64));
	ck_assert_str_eq(score.data, "1000\n");
	ht_buf_fini(&score);
}
END_TEST

/* A lower one that is there already stays. */
START_TEST(what_the_user_said)
{
	struct rlimit limit;
	uint64_t before;

	ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
	ht_bound_memory();
	before = limit_now();
	if (before == RLIM_INFINITY)
		return;
	limit.rlim_cur = before - (UINT64_C(64) << 20);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	ht_bound_memory();
	ck_assert_uint_eq(limit_now(), limit.rlim_cur);
}
END_TEST

int main(void)
{
	return ht_check_run("bound", (const TTest *const[]){
		what_the_machine_has_and_no_more, what_the_user_said, NULL });
}
