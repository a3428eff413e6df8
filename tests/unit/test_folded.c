/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fake_recording.h"
#include "ht_check.h"

static void write_format(const struct ht_report_format *format, struct fake *fake,
			 struct ht_buf *out)
{
	struct ht_report_options options = { 0 };
	struct ht_err err = { HT_ERR_NONE, "" };

	ht_buf_puts(out, "");
	ck_ok(format->write(&fake->recording, &options, out, &err));
}

static void write_folded(struct fake *fake, struct ht_buf *out)
{
	write_format(&ht_report_folded, fake, out);
}

START_TEST(stacks_and_bytes)
{
	struct ht_buf out = HT_BUF_INIT;
	struct fake fake;

	fake_init(&fake);
	fake.recording.interval = 0;
	fake_redis(&fake);
	write_folded(&fake, &out);
	ck_assert_str_eq(out.data,
		"[no unwind data];libplugin.so+0x1234;libplugin.so+0x1234 262144\n"
		"__libc_start_call_main;main;aeProcessEvents;readQueryFromClient;processCommand;"
		"call;appendCommand;sdsnewlen;zmalloc 63963197\n"
		"__libc_start_call_main;main;aeProcessEvents;readQueryFromClient;processCommand;"
		"call;setGenericCommand;createStringObject;sdsnewlen;zmalloc 251658480\n"
		"__libc_start_call_main;main;aeProcessEvents;readQueryFromClient;processCommand;"
		"call;setGenericCommand;dictAdd;dictAddRaw;dictExpand;zmalloc 67108928\n"
		"main;aeProcessEvents;aeProcessEvents;aeProcessEvents;aeProcessEvents;"
		"aeProcessEvents;zmalloc 131072\n");
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

/* Sites that read the same are one line; nothing live is none. */
START_TEST(equal_stacks_are_one_line)
{
	struct ht_buf out = HT_BUF_INIT;
	struct fake fake;

	fake_init(&fake);
	fake.recording.interval = 0;
	struct ht_frame f[] = { fake_function(&fake, 0, "f", "a.c", 1),
				fake_function(&fake, 0, "main", "a.c", 5) };
	struct ht_frame g[] = { fake_function(&fake, 0, "f", "a.c", 2), f[1] };
	struct ht_frame h[] = { fake_function(&fake, 0, "h", "a.c", 3), f[1] };

	fake_site(&fake, f, 2, HT_STACK_COMPLETE, 100, 1, 1, 1);
	fake_site(&fake, h, 2, HT_STACK_COMPLETE, 0, 0, 0, 1);
	fake_site(&fake, g, 2, HT_STACK_COMPLETE, 11, 1, 1, 1);
	write_folded(&fake, &out);
	ck_assert_str_eq(out.data, "main;f 111\n");
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

START_TEST(bytes_at_the_peak)
{
	struct ht_buf out = HT_BUF_INIT;
	struct fake fake;

	fake_init(&fake);
	fake.recording.interval = 0;
	fake_redis(&fake);
	write_format(&ht_report_folded_peak, &fake, &out);
	ck_assert_str_eq(out.data,
		"[no unwind data];libplugin.so+0x1234;libplugin.so+0x1234 262144\n"
		"__libc_start_call_main;main;aeProcessEvents;readQueryFromClient;processCommand;"
		"call;appendCommand;sdsnewlen;zmalloc 63963197\n"
		"__libc_start_call_main;main;aeProcessEvents;readQueryFromClient;processCommand;"
		"call;setGenericCommand;createStringObject;sdsnewlen;zmalloc 325058870\n"
		"__libc_start_call_main;main;aeProcessEvents;readQueryFromClient;processCommand;"
		"call;setGenericCommand;dictAdd;dictAddRaw;dictExpand;zmalloc 100663392\n");
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

/* Each line must stay "frames, one blank, digits", whatever the names are. */
START_TEST(hostile_names)
{
	struct ht_buf out = HT_BUF_INIT;
	size_t lines = 0, digits;
	char *line, *end, *blank;
	struct fake fake;

	fake_init(&fake);
	fake_hostile(&fake);
	write_folded(&fake, &out);
	ck_assert_ptr_nonnull(strstr(out.data, "evil\\x1b[2J\\x0d\\x0a,name 77 "));
	for (line = out.data; *line; line = end + 1) {
		end = strchr(line, '\n');
		ck_assert_ptr_nonnull(end);
		*end = '\0';
		blank = strrchr(line, ' ');
		ck_assert_ptr_nonnull(blank);
		ck_assert_ptr_ne(blank, line);
		digits = strspn(blank + 1, "0123456789");
		ck_assert(digits > 0 && blank[1 + digits] == '\0');
		ck_assert_ptr_null(strstr(line, ";;"));
		lines++;
	}
	ck_assert_uint_eq(lines, 5);
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

int main(void)
{
	return ht_check_run("folded", (const TTest *const[]){
		stacks_and_bytes, bytes_at_the_peak, equal_stacks_are_one_line,
		hostile_names, NULL });
}
