/* SPDX-License-Identifier: Apache-2.0
 *
 * The profile as protoc reads it, by a schema of our own writing.
 */
#include "pprof_tool.h"

START_TEST(protoc_reads_it)
{
	struct ht_buf out = HT_BUF_INIT;
	struct fake fake;

	fake_init(&fake);
	fake_redis(&fake);
	read_back(&fake, "gzip -dc $PROFILE | protoc --decode=heaptap.test.Profile"
			 " -I $TESTS/tests/unit profile.proto", &out);
	has(&out, "string_table: \"inuse_space\"\n");
	has(&out, "period: 65536\n");
	has(&out, "  has_inline_frames: true\n");
	has(&out, "  value: 251658240\n");
	has(&out, "string_table: \"peak_space\"\n");
	has(&out, "  value: 325058560\n");
	/* Fields that the schema doesn't know are printed with their number only. */
	ck_assert_ptr_null(strstr(out.data, "\n1: "));
	ck_assert_ptr_null(strstr(out.data, "\n  11: "));
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

int main(void)
{
	if (!tool_present("protoc"))
		ht_check_skip("protoc (protobuf-compiler) is needed");
	return ht_check_run("pprof_protoc", (const TTest *const[]){ protoc_reads_it, NULL });
}
