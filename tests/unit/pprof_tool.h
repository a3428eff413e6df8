/* SPDX-License-Identifier: Apache-2.0
 *
 * pprof_tool.h: give a profile to a reader that isn't ours.
 */
#ifndef HT_TESTS_UNIT_PPROF_TOOL_H
#define HT_TESTS_UNIT_PPROF_TOOL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_recording.h"
#include "ht_check.h"
#include "tool.h"

static inline void write_profile(struct fake *fake, const char *path)
{
	struct ht_report_options options = { 0 };
	struct ht_err err = { HT_ERR_NONE, "" };
	struct ht_buf out = HT_BUF_INIT;
	FILE *f = fopen(path, "we");

	ck_assert_ptr_nonnull(f);
	ck_ok(ht_report_pprof.write(&fake->recording, &options, &out, &err));
	ck_assert_uint_eq(fwrite(out.data, 1, out.len, f), out.len);
	ck_assert_int_eq(fclose(f), 0);
	ht_buf_fini(&out);
}

/* What @reader prints, a shell command that finds the profile in $PROFILE. */
static inline void read_back(struct fake *fake, const char *reader, struct ht_buf *out)
{
	char dir[64], path[128];

	tool_mkdir(dir);
	snprintf(path, sizeof(path), "%s/x.pb.gz", dir);
	write_profile(fake, path);
	setenv("PROFILE", path, 1);
	setenv("TESTS", getenv("HT_SRCDIR") ? getenv("HT_SRCDIR") : "..", 1);
	tool_output(reader, out);
	tool_rmdir(dir);
}

static inline void has(const struct ht_buf *text, const char *line)
{
	ck_assert_msg(strstr(text->data, line) != NULL, "no \"%s\" in\n%.3000s", line,
		      text->data);
}

#endif
