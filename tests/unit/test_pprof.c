/* SPDX-License-Identifier: Apache-2.0
 *
 * The profile as a small decoder in Python reads it, which checks all references too.
 */
#include "pprof_tool.h"

#define PYTHON "python3 $TESTS/tests/unit/pprof_read.py $PROFILE"

START_TEST(all_that_was_recorded)
{
	struct ht_buf out = HT_BUF_INIT;
	struct fake fake;

	fake_init(&fake);
	fake_redis(&fake);
	fake_label(&fake, 4711);
	fake.recording.lost_frees = 3;
	read_back(&fake, PYTHON, &out);
	has(&out, "types alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes "
		  "peak_objects/count peak_space/bytes\n");
	has(&out, "period space/bytes 65536\n");
	has(&out, "default inuse_space\n");
	has(&out, "time 1700000000000000000 duration 30000000000\n");
	has(&out, "comment NOT COMPLETE: 3 frees of samples were lost; leaks can't be told from lost frees.\n");
	has(&out, "comment heaptap: redis-server (pid 4242), 1 sample per 64 KiB, 102,118 samples\n");
	has(&out, "mapping 1 /usr/bin/redis-server id=1234ab FNLI\n");
	has(&out, "mapping 2 /lib/libc.so.6 id= F---\n");
	has(&out, "mapping 3 /opt/lib/libplugin.so id= ----\n");
	/* Inlined first; total, live, at the peak. */
	has(&out, "sample 3 67108864 3 67108864 4 100663296 zmalloc@/build/redis/src/zmalloc.c:101;"
		  "dictExpand@/build/redis/src/dict.c:188;"
		  "dictAddRaw@/build/redis/src/dict.c:301+dictAdd@/build/redis/src/dict.c:269;");
	has(&out, "sample 15360000 3019898880 1280000 251658240 1640000 325058560 "
		  "zmalloc@");
	/* No name: the reader may know it. A stack that ended early says so. */
	has(&out, "?;?;[no unwind data]@:0\n");
	has(&out, " thread=4711 zmalloc@");
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

START_TEST(exact_numbers)
{
	struct ht_buf out = HT_BUF_INIT;
	struct fake fake;

	fake_init(&fake);
	fake.recording.interval = 0;
	fake.recording.exe = "/nonexistent";
	fake_redis(&fake);
	read_back(&fake, PYTHON, &out);
	has(&out, "period space/bytes 1\n");
	has(&out, "sample 3 67108928 3 67108928 4 100663392 ");
	has(&out, "every allocation recorded\n");
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

START_TEST(hostile_names)
{
	struct ht_buf out = HT_BUF_INIT;
	struct fake fake;
	size_t i;

	fake_init(&fake);
	fake_hostile(&fake);
	read_back(&fake, "PYTHONIOENCODING=utf-8 " PYTHON, &out);
	has(&out, "evil\\x1b[2J\\x0d\\x0a;name 77@");
	has(&out, "[no stack]");
	for (i = 0; i < out.len; i++)
		ck_assert((unsigned char)out.data[i] >= ' ' || out.data[i] == '\n');
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

int main(void)
{
	if (!tool_present("python3"))
		ht_check_skip("python3 is needed");
	return ht_check_run("pprof", (const TTest *const[]){
		all_that_was_recorded, exact_numbers, hostile_names, NULL });
}
