/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fake_recording.h"
#include "ht_check.h"
#include "report/report-priv.h"

static void says(struct fake *fake, const char *expected)
{
	struct ht_buf out = HT_BUF_INIT;
	bool lost = ht_losses(&fake->recording, &out);

	ck_assert_str_eq(out.data ? out.data : "", expected);
	ck_assert_int_eq(lost, *expected != '\0');
	ht_buf_fini(&out);
}

START_TEST(each_loss_is_named)
{
	struct fake fake;
	struct ht_recording *r = &fake.recording;

	fake_init(&fake);
	says(&fake, "");
	r->cut_stacks = 5;		/* no number is wrong by that */
	says(&fake, "");
	r->interval = 0;
	r->lost_allocs = 1;
	says(&fake, "NOT COMPLETE, so not exact: 1 allocation was lost.");
	r->lost_frees = 2;
	says(&fake, "NOT COMPLETE, so not exact: 1 allocation and 2 frees were lost; "
		    "leaks can't be told from lost frees.");
	r->lost_allocs = 0;
	r->lost_corrupt = 1;
	says(&fake, "NOT COMPLETE, so not exact: 2 frees were lost; "
		    "1 damaged record was dropped; leaks can't be told from lost frees.");
	r->lost_frees = r->lost_corrupt = 0;
	fake_counters(&fake)->untracked = 3;
	says(&fake, "NOT COMPLETE, so not exact: 3 allocations were not followed to a free and so not live.");
	r->untracked = 4;
	says(&fake, "NOT COMPLETE, so not exact: 4 allocations were not followed to a free and so not live.");
	fake_counters(&fake)->untracked = r->untracked = 0;
	fake_counters(&fake)->replaced = 1;
	fake_counters(&fake)->late = 2;
	says(&fake, "NOT COMPLETE, so not exact: 1 free was missed; "
		    "2 events came too late for their place in time; "
		    "leaks can't be told from lost frees.");
	fake_fini(&fake);
}
END_TEST

/* They are samples, each of which stands for many allocations. */
START_TEST(lost_samples_are_a_share)
{
	struct fake fake;
	struct ht_recording *r = &fake.recording;

	fake_init(&fake);
	r->samples = 304100;
	r->lost_allocs = 52148;
	says(&fake, "NOT COMPLETE: 52,148 of 356,248 samples (15 %) were lost, so the figures "
		    "are too low by about as much, on top of their error.");
	r->samples = 2;
	r->lost_allocs = 1;
	r->lost_frees = 310;
	says(&fake, "NOT COMPLETE: 1 of 3 samples (33 %) was lost, so the figures "
		    "are too low by about as much, on top of their error; "
		    "310 frees of samples were lost; leaks can't be told from lost frees.");
	r->lost_allocs = 0;
	r->lost_frees = 1;
	says(&fake, "NOT COMPLETE: 1 free of a sample was lost; "
		    "leaks can't be told from lost frees.");
	r->lost_frees = 0;
	r->untracked = 4;
	says(&fake, "NOT COMPLETE: 4 samples were not followed to a free and so not live.");
	/* The target may have written any number there. */
	r->untracked = 0;
	r->lost_allocs = r->samples = UINT64_MAX;
	says(&fake, "NOT COMPLETE: 18,446,744,073,709,551,615 of 18,446,744,073,709,551,615 "
		    "samples (50 %) were lost, so the figures are too low by about as much, "
		    "on top of their error.");
	fake_fini(&fake);
}
END_TEST

START_TEST(what_is_not_seen)
{
	static const struct ht_untapped untapped[] = {
		{ NULL, "libfoo.so", "'free' can't be patched: it's too short", false },
		{ "mi_strdup, strdup2", "libmimalloc.so", "a call is in the way", false },
		{ "mi_valloc", "libmimalloc.so", "a call is in the way", true },
		{ "mi_pvalloc", "libmimalloc.so", "a call is in the way", true },
		{ "a", "libbar.so", "x", false },
		{ "b", "libbar.so", "x", false },
		{ "c", "libbar.so", "y", false },
		{ "d", "libbar.so", "y", false },
	};
	struct ht_buf out = HT_BUF_INIT;
	struct ht_recording *r;
	struct fake fake;
	size_t i = 0;

	fake_init(&fake);
	r = &fake.recording;
	r->interval = 0;
	r->untapped = untapped + 2;
	r->n_untapped = 2;
	/* These count all the same. */
	says(&fake, "");
	r->untapped = untapped + 1;
	r->n_untapped = 1;
	says(&fake, "NOT COMPLETE, so not exact: mi_strdup of libmimalloc.so isn't seen.");
	r->untapped = untapped;
	r->n_untapped = ARRAY_SIZE(untapped);
	r->lost_allocs = 1;
	says(&fake, "NOT COMPLETE, so not exact: nothing of libfoo.so is seen; "
		    "mi_strdup of libmimalloc.so isn't seen; "
		    "a, b, c and 1 more of libbar.so aren't seen; 1 allocation was lost.");
	while (ht_untapped_line(r, &i, true, &out))
		ht_buf_putc(&out, '\n');
	ck_assert_str_eq(out.data,
			 "Not tapped: libfoo.so: 'free' can't be patched: it's too short.\n"
			 "Not tapped: mi_strdup, strdup2 of libmimalloc.so: a call is in the way.\n"
			 "Not tapped: mi_valloc and mi_pvalloc of libmimalloc.so: "
			 "a call is in the way; what they call is counted.\n"
			 "Not tapped: a and b of libbar.so: x.\n"
			 "Not tapped: c and d of libbar.so: y.\n");
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

START_TEST(what_came_late)
{
	static const struct ht_untapped untapped[] = {
		{ .module = "libfoo.so", .late = "loaded" },
		{ .module = "libc.so.6", .late = "loaded again" },
		{ "mi_strdup", "libmimalloc.so", "a call is in the way", false },
	};
	struct ht_buf out = HT_BUF_INIT;
	struct fake fake;
	size_t i = 0;

	fake_init(&fake);
	fake.recording.interval = 0;
	fake.recording.untapped = untapped;
	fake.recording.n_untapped = ARRAY_SIZE(untapped);
	says(&fake, "NOT COMPLETE, so not exact: "
		    "libfoo.so was loaded during the recording and isn't seen; "
		    "libc.so.6 was loaded again during the recording and isn't seen; "
		    "mi_strdup of libmimalloc.so isn't seen.");
	while (ht_untapped_line(&fake.recording, &i, false, &out))
		ht_buf_putc(&out, '\n');
	ck_assert_str_eq(out.data,
			 "Not tapped: libfoo.so: it was loaded during the recording; "
			 "attach after that to tap it.\n"
			 "Not tapped: libc.so.6: it was loaded again during the recording; "
			 "attach after that to tap it.\n"
			 "Not tapped: mi_strdup of libmimalloc.so: a call is in the way.\n");
	ht_buf_fini(&out);
	fake_fini(&fake);
}
END_TEST

START_TEST(heaps_that_go_whole)
{
	struct fake fake;

	fake_init(&fake);
	fake.recording.interval = 0;
	fake.recording.drops = 2;
	says(&fake, "NOT COMPLETE, so not exact: 2 calls freed blocks without naming them, "
		    "which still count as live; leaks can't be told from lost frees.");
	fake_fini(&fake);
}
END_TEST

START_TEST(nothing_comes_any_more)
{
	struct fake fake;

	fake_init(&fake);
	fake.recording.cut = "it closed the socket";
	fake.recording.duration_ns = UINT64_C(2500000000);
	says(&fake, "NOT COMPLETE: it closed the socket, so that nothing is seen from 2.5 s on.");
	fake.recording.interval = 0;
	fake.recording.lost_allocs = 1;
	says(&fake, "NOT COMPLETE, so not exact: it closed the socket, so that nothing is seen "
		    "from 2.5 s on; 1 allocation was lost.");
	fake_fini(&fake);
}
END_TEST

START_TEST(another_program_took_its_place)
{
	struct fake fake;

	fake_init(&fake);
	fake.recording.duration_ns = UINT64_C(12000000);
	fake.recording.successor = "python3";
	says(&fake, "NOT COMPLETE: another program (python3) took its place within 12.0 ms, "
		    "and isn't tapped.");
	fake.recording.successor_likely = true;
	says(&fake, "NOT COMPLETE: it ended under another name (python3), and a program that "
		    "took its place isn't tapped.");
	fake_fini(&fake);
}
END_TEST

static void sampling(struct fake *fake, bool complete, const char *expected)
{
	struct ht_buf out = HT_BUF_INIT;

	ht_sampling(&fake->recording, complete, &out);
	ck_assert_str_eq(out.data, expected);
	ht_buf_fini(&out);
}

START_TEST(how_it_was_sampled)
{
	struct fake fake;

	fake_init(&fake);
	sampling(&fake, true, "1 sample per 64 KiB, 102,118 samples");
	fake.recording.min_size = 512;
	sampling(&fake, true, "1 sample per 64 KiB, 102,118 samples, none below 512 B");
	fake.recording.interval = 0;
	sampling(&fake, true, "every allocation of 512 B and more recorded, none below 512 B");
	fake.recording.min_size = 0;
	sampling(&fake, true, "every allocation recorded");
	sampling(&fake, false, "every allocation was to be recorded");
	fake_fini(&fake);
}
END_TEST

int main(void)
{
	return ht_check_run("losses", (const TTest *const[]){ each_loss_is_named,
							      lost_samples_are_a_share,
							      what_is_not_seen, what_came_late,
							      heaps_that_go_whole,
							      nothing_comes_any_more, another_program_took_its_place,
							      how_it_was_sampled, NULL });
}
