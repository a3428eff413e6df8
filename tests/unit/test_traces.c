/* SPDX-License-Identifier: Apache-2.0
 *
 * What is taken for ours, and above all what isn't.
 */
#include "inject/traces.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "forger.h"
#include "ht_check.h"

static struct forger f;
static struct ht_target *target;
static struct ht_modules *modules;
static struct ht_space *space;
static struct ht_traces *traces;
static struct ht_err err;

static int find(const char *kinds, const struct ht_journal *journal,
		const struct ht_ring_header *ring, bool fds)
{
	f = forge(kinds, journal, ring, fds);
	ck_ok(ht_target_open(f.pid, &target, NULL));
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_space_new(ht_target_procfd(target), ht_target_memfd(target), modules, &space));
	traces = NULL;
	err = (struct ht_err){ HT_ERR_NONE, "" };
	return ht_traces_find(target, space, &traces, &err);
}

static void end(void)
{
	traces = ht_traces_free(traces);
	ht_space_free(space);
	ht_modules_free(modules);
	ht_target_close(target);
	ck_assert(forger_is_well(&f));
	forger_end(&f);
}

static void has_range(unsigned i, unsigned start, unsigned end_page)
{
	ck_assert_uint_lt(i, traces->n_ranges);
	ck_assert_uint_eq(traces->ranges[i].start, FORGER_PAGE(start));
	ck_assert_uint_eq(traces->ranges[i].end, FORGER_PAGE(end_page));
}

static void finds_nothing(const char *kinds, const struct ht_journal *journal)
{
	ck_assert_int_eq(find(kinds, journal, NULL, true), -ENOENT);
	end();
}

START_TEST(nothing)
{
	finds_nothing("mmm", NULL);
	/* Files of these names alone mean nothing. */
	finds_nothing("cccc", NULL);
}
END_TEST

START_TEST(a_block_with_its_gate)
{
	struct ht_journal *journal = a_journal(0, 7, 5);

	/* The journal alone takes four pages. */
	ck_ok(find("cccccgcm", journal, NULL, false));
	ck_assert_uint_eq(traces->n_journals, 1);
	ck_assert_uint_eq(traces->n_ranges, 1);
	has_range(0, 0, 7);
	ck_assert_uint_eq(traces->n_fds, 0);
	end();
	/* Killed before the gate got its own page. */
	ck_ok(find("cccccccm", journal, NULL, true));
	has_range(0, 0, 7);
	ck_assert_uint_eq(traces->n_fds, 3);
	end();
}
END_TEST

START_TEST(further_ranges_and_their_order)
{
	struct ht_journal *journal = a_journal(0, 6, 4);
	const struct ht_ring_header ring = { .magic = HT_RING_MAGIC,
					     .owner = HT_OWNER_DIED | 77 };

	journal->n_ranges = journal->n_code = 3;
	journal->ranges[1] = (struct ht_journal_range){ FORGER_PAGE(7), FORGER_PAGE(8) };
	/* Not mapped any more. */
	journal->ranges[2] = (struct ht_journal_range){ FORGER_PAGE(20), FORGER_PAGE(21) };
	ck_ok(find("ccccgcmcmr", journal, &ring, false));
	ck_assert_uint_eq(traces->n_ranges, 3);
	has_range(0, 9, 10);
	has_range(1, 7, 8);
	has_range(2, 0, 6);
	end();
}
END_TEST

START_TEST(journals_that_claim_what_is_not_ours)
{
	struct ht_journal *journal = a_journal(0, 7, 4);

	/* Memory of its own inside the block, behind it, next to the gate; none there. */
	finds_nothing("ccccgcmc", journal);
	finds_nothing("ccccgcm", journal);
	finds_nothing("ccccgmc", journal);
	finds_nothing("cccc.cc", journal);
	/* Another block than the one it lies in. */
	ck_ok(find("ccccgcCcccm", a_journal(0, 6, 4), NULL, false));
	ck_assert_uint_eq(traces->n_journals, 1);
	end();
	/* A gate elsewhere. */
	journal = a_journal(0, 5, 6);
	finds_nothing("cccccmm", journal);
	journal = a_journal(0, 6, 4);
	journal->gate += 8;
	finds_nothing("ccccgc", journal);
	/* The first page as gate. */
	finds_nothing("ccccc", a_journal(0, 5, 0xfffff));
}
END_TEST

START_TEST(a_further_range_that_is_not_ours)
{
	struct ht_journal *journal = a_journal(0, 6, 4);

	journal->n_ranges = journal->n_code = 2;
	journal->ranges[1] = (struct ht_journal_range){ FORGER_PAGE(6), FORGER_PAGE(7) };
	ck_ok(find("ccccgcm", journal, NULL, false));
	ck_assert_uint_eq(traces->n_ranges, 1);
	has_range(0, 0, 6);
	end();
}
END_TEST

START_TEST(numbers_that_cannot_be)
{
	struct ht_journal *journal = a_journal(0, 6, 4);

	journal->n_patches = HT_JOURNAL_MAX + 1;
	finds_nothing("ccccgc", journal);
	journal = a_journal(0, 6, 4);
	journal->n_ranges = journal->n_code = 17;
	finds_nothing("ccccgc", journal);
	journal->n_ranges = journal->n_code = 0;
	finds_nothing("ccccgc", journal);
	journal->n_ranges = 1;
	finds_nothing("ccccgc", journal);
	journal = a_journal(0, 6, 4);
	journal->ranges[0].end++;
	finds_nothing("ccccgc", journal);
	journal->ranges[0].end = 0;
	finds_nothing("ccccgc", journal);
	journal->ranges[0].end = UINT64_MAX & ~UINT64_C(4095);
	finds_nothing("ccccgc", journal);
	journal = a_journal(0, 6, 4);
	journal->magic++;
	finds_nothing("ccccgc", journal);
}
END_TEST

START_TEST(another_version)
{
	struct ht_journal *journal = a_journal(0, 6, 4);

	journal->version = HT_WIRE_VERSION + 1;
	ck_assert_int_eq(find("ccccgc", journal, NULL, false), -EPROTO);
	ck_assert_int_eq(err.kind, HT_ERR_UNSUPPORTED);
	ck_assert_ptr_nonnull(strstr(err.text, "another version of heaptap"));
	end();
}
END_TEST

START_TEST(patches_that_lead_elsewhere)
{
	struct ht_journal *journal = a_journal(0, 6, 4);
	const uint64_t good = FORGER_PAGE(7) + 16;
	int32_t rel = (int32_t)(FORGER_PAGE(2) - (good + 5));

	journal->n_patches = 4;
	for (int i = 0; i < 4; i++) {
		journal->patches[i].addr = i == 2 ? good : FORGER_PAGE(7);
		journal->patches[i].patched[0] = 0xe9;
	}
	/* No jump; a jump to itself; ours; one that goes astray. */
	journal->patches[0].patched[0] = 0x90;
	memcpy(&journal->patches[2].patched[1], &rel, 4);
	memset(&journal->patches[3].patched[1], 0x7f, 4);
	ck_ok(find("ccccgc", journal, NULL, false));
	ck_assert_uint_eq(traces->journals[0]->n_patches, 1);
	ck_assert_uint_eq(traces->journals[0]->patches[0].addr, good);
	end();
}
END_TEST

START_TEST(the_configuration_must_be_ours)
{
	struct ht_journal *journal = a_journal(0, 6, 4);

	journal->hook_config = FORGER_PAGE(6) - 8;
	journal->dl_start = FORGER_PAGE(6);
	journal->dl_end = FORGER_PAGE(7);
	ck_ok(find("ccccgcm", journal, NULL, false));
	ck_assert_uint_eq(traces->journals[0]->hook_config, 0);
	ck_assert_uint_eq(traces->journals[0]->dl_start, 0);
	ck_assert(!ht_traces_alive(traces, target));
	end();
	journal->hook_config = FORGER_PAGE(7);
	journal->dl_end = FORGER_PAGE(8);
	ck_ok(find("ccccgchh", journal, NULL, false));
	ck_assert_uint_eq(traces->journals[0]->hook_config, FORGER_PAGE(7));
	ck_assert_uint_eq(traces->n_hooks, 1);
	ck_assert_uint_eq(traces->hooks[0].start, FORGER_PAGE(6));
	ck_assert_uint_eq(traces->hooks[0].end, FORGER_PAGE(8));
	end();
}
END_TEST

START_TEST(a_ring_in_use)
{
	struct ht_ring_header ring = { .magic = HT_RING_MAGIC, .owner = 4711 };
	struct ht_journal *journal = a_journal(0, 6, 4);

	ck_assert_int_eq(find("ccccgcr", journal, &ring, false), -EBUSY);
	ck_assert_int_eq(err.kind, HT_ERR_PERM);
	/* Nobody of that number has the ring: it isn't told, as people would end it. */
	ck_assert_ptr_nonnull(strstr(err.text, "another heaptap is tapping it; end that first"));
	end();
	ring.owner = (uint32_t)getpid();
	ck_assert_int_eq(find("ccccgcr", journal, &ring, false), -EBUSY);
	ck_assert_ptr_nonnull(strstr(err.text, "another heaptap is tapping it; end that first"));
	end();
	/* One that has a ring and files, but isn't tapped, is a heaptap. */
	ck_assert_int_eq(find("r", NULL, &ring, true), -ENOENT);
	end();
	ring.owner |= HT_OWNER_DIED;
	ck_ok(find("r", NULL, &ring, true));
	ck_assert_uint_eq(traces->n_ranges, 1);
	end();
}
END_TEST

/* That of the forger, who has it from us: its other end says whether a heaptap lives. */
START_TEST(a_socket)
{
	struct ht_journal *journal = a_journal(0, 6, 4);
	struct stat st;
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	ck_assert_int_eq(fstat(pair[0], &st), 0);
	journal->socket = st.st_ino;
	ck_assert_int_eq(find("ccccgc", journal, NULL, false), -EBUSY);
	ck_assert_int_eq(err.kind, HT_ERR_PERM);
	ck_assert_ptr_nonnull(strstr(err.text, "another heaptap is tapping it; end that first"));
	end();
	close(pair[1]);
	ck_ok(find("ccccgc", journal, NULL, false));
	ck_assert_uint_eq(traces->n_fds, 1);
	ck_assert_int_eq(traces->fds[0], pair[0]);
	ck_assert(ht_traces_is_our_fd(traces, target, pair[0]));
	ck_assert(!ht_traces_is_our_fd(traces, target, 0));
	ck_assert(!ht_traces_alive(traces, target));
	traces->n_fds = 0;
	ht_traces_refresh(traces, target, space);
	ck_assert_uint_eq(traces->n_fds, 1);
	end();
	/* Any other is the program's. */
	journal->socket++;
	ck_ok(find("ccccgc", journal, NULL, false));
	ck_assert_uint_eq(traces->n_fds, 0);
	ck_assert(!ht_traces_is_our_fd(traces, target, pair[0]));
	end();
	close(pair[0]);
}
END_TEST

START_TEST(executable_memory_is_not_ours_for_being_blank)
{
	finds_nothing("xx", NULL);
}
END_TEST

START_TEST(what_is_gone_is_dropped)
{
	struct ht_journal *journal = a_journal(0, 6, 4);

	ck_ok(find("ccccgch", journal, NULL, false));
	ck_assert_uint_eq(traces->n_journals, 1);
	/* Another process's map, in which there is nothing of it. */
	ht_space_free(space);
	forger_end(&f);
	f = forge("mmmmmm", NULL, NULL, false);
	ht_target_close(target);
	ck_ok(ht_target_open(f.pid, &target, NULL));
	ck_ok(ht_space_new(ht_target_procfd(target), ht_target_memfd(target), modules, &space));
	ht_traces_refresh(traces, target, space);
	ck_assert_uint_eq(traces->n_ranges, 0);
	ck_assert_uint_eq(traces->n_hooks, 0);
	ck_assert_uint_eq(traces->n_journals, 0);
	end();
}
END_TEST

int main(void)
{
	return ht_check_run("traces", (const TTest *const[]){
		nothing, a_block_with_its_gate, further_ranges_and_their_order,
		journals_that_claim_what_is_not_ours, a_further_range_that_is_not_ours,
		numbers_that_cannot_be, another_version, patches_that_lead_elsewhere,
		the_configuration_must_be_ours, a_ring_in_use, a_socket,
		executable_memory_is_not_ours_for_being_blank, what_is_gone_is_dropped,
		NULL });
}
