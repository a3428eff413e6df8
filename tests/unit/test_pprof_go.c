/* SPDX-License-Identifier: Apache-2.0
 *
 * The profile as go tool pprof reads it.
 */
#include "pprof_tool.h"

#define PPROF "HOME=/nonexistent PPROF_TMPDIR=/tmp go tool pprof "

START_TEST(go_reads_it)
{
	struct ht_buf out = HT_BUF_INIT;
	struct fake fake;

	fake_init(&fake);
	fake_redis(&fake);
	/* The default sample type, sums and names. */
	read_back(&fake, PPROF "-top $PROFILE 2>/dev/null", &out);
	has(&out, "Type: inuse_space\n");
	has(&out, "of 365.38MB total");
	has(&out, "365MB 99.90%");
	has(&out, "  zmalloc\n");
	ht_buf_fini(&out);
	read_back(&fake, PPROF "-top -sample_index=alloc_objects -cum $PROFILE 2>/dev/null", &out);
	has(&out, "19260003");
	ht_buf_fini(&out);
	/* Those behind the four that every heap profile has. */
	read_back(&fake, PPROF "-top -sample_index=peak_space $PROFILE 2>/dev/null", &out);
	has(&out, "Type: peak_space\n");
	has(&out, "of 467.25MB total");
	ht_buf_fini(&out);
	read_back(&fake, PPROF "-top -inuse_objects $PROFILE 2>/dev/null", &out);
	has(&out, "Type: inuse_objects\n");
	has(&out, "1605003");
	ht_buf_fini(&out);
	read_back(&fake, PPROF "-raw $PROFILE 2>/dev/null", &out);
	has(&out, "PeriodType: space bytes");
	has(&out, "Period: 65536");
	has(&out, "dictAddRaw /build/redis/src/dict.c:301 s=290");
	has(&out, "/usr/bin/redis-server 1234ab [FN][FL][LN][IN]");
	ht_buf_fini(&out);
	fake_fini(&fake);
	fake_init(&fake);
	fake_hostile(&fake);
	read_back(&fake, PPROF "-top $PROFILE 2>/dev/null", &out);
	has(&out, "240MB total");
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

int main(void)
{
	if (!tool_present("go"))
		ht_check_skip("go (golang-go) is needed");
	return ht_check_run("pprof_go", (const TTest *const[]){ go_reads_it, NULL });
}
