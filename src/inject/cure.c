/* SPDX-License-Identifier: Apache-2.0
 *
 * cure.c: see cure.h.
 */
#define HT_LOG_DOMAIN "inject"
#include "inject/cure.h"

#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "attach/facts.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "inject/dlopen.h"
#include "inject/plan.h"
#include "inject/scan.h"
#include "inject/session.h"

#define STOP_NS (100 * HT_NS_PER_MS)	/* one stop, for each thousand threads */
#define PATIENCE_NS (5 * HT_NS_PER_SEC)	/* all of them */
#define STOP_TRIES 3			/* at least, however long they took */
#define STOP_PAUSE_MS 10		/* after the first stop that failed */
#define SCANS 8				/* until two in a row are clean */
#define TRIES 3
#define SCAN_PAUSE_MS 20		/* the first ones, then longer: on a busy machine a
					 * thread that was preempted in the hook stays there */
#define SCAN_PAUSE_MAX_MS 200

void ht_target_nap(const struct ht_target *target, int ms)
{
	struct pollfd p = { .fd = ht_target_pidfd(target), .events = POLLIN };

	poll(&p, 1, ms);
}

int ht_stop_all(struct ht_target *target, struct ht_cure_stats *stats, struct ht_err *err)
{
	uint64_t deadline = ht_deadline_ns(PATIENCE_NS);
	uint64_t thousands = 1 + ht_target_facts(target)->threads / 1000;
	int r, pause = STOP_PAUSE_MS;

	for (int tries = 1;; tries++) {
		r = ht_target_stop(target, ht_deadline_ns(thousands * STOP_NS), err);
		if (r == 0)
			break;
		/* Who traces it may do so for a moment: another heaptap that finds it tapped. And
		 * the whole machine may have stood still. */
		if ((r != -ETIMEDOUT && r != -EBUSY) ||
		    (tries >= STOP_TRIES && ht_deadline_passed(deadline)))
			return r == -EBUSY ? -EPERM : r;
		ht_target_nap(target, pause);
		pause = ht_min(2 * pause, SCAN_PAUSE_MAX_MS);
	}
	r = ht_target_verify(target);
	if (r < 0) {
		ht_target_resume(target);
		return ht_err_set(err, HT_ERR_GONE, r, r == -EXDEV ?
				  "the target runs another program now; try again" :
				  "the target is gone");
	}
	stats->threads = (unsigned)ht_target_threads(target);
	return 0;
}

void ht_resume_all(struct ht_target *target, struct ht_cure_stats *stats)
{
	uint64_t ns;

	ht_target_resume(target);
	if (stats->stops < HT_STOPS_LOGGED)
		stats->log[stats->stops] = *ht_target_last_stop(target);
	ns = ht_target_last_stop(target)->ns;
	stats->stops++;
	stats->stop_total_ns += ns;
	stats->stop_max_ns = ht_max(stats->stop_max_ns, ns);
	ht_debug("stop %u lasted %llu us (%u threads)", stats->stops,
		 (unsigned long long)(ns / HT_NS_PER_US), stats->threads);
}

int ht_find_victim(const struct ht_target *target, bool any, size_t *ret_i)
{
	size_t n = ht_target_threads(target);

	for (size_t i = 0; i < n; i++)
		if (ht_target_hijackable(target, i)) {
			*ret_i = i;
			return 0;
		}
	for (size_t i = 0; any && i < n; i++)
		if (ht_target_hijackable_waiting(target, i)) {
			*ret_i = i;
			return 0;
		}
	return -EAGAIN;
}

/* A uprobe that goes puts the file's byte back, into the middle of our jump. */
bool ht_cure_word(const struct ht_journal_patch *p, const uint8_t now[8], uint8_t ret_word[8])
{
	for (size_t i = 0; i < 8; i++) {
		if (now[i] == p->patched[i])
			ret_word[i] = p->original[i];
		else if (now[i] == HT_BREAKPOINT || now[i] == p->original[i])
			ret_word[i] = now[i];
		else
			return false;
	}
	return true;
}

/* Write back what was under each patch, where the patch is still ours. */
static int restore_bytes(struct ht_target *target, const struct ht_journal *journal,
			 struct ht_cure_stats *stats)
{
	for (uint32_t i = 0; i < journal->n_patches; i++) {
		const struct ht_journal_patch *p = &journal->patches[i];
		uint8_t now[8], back[8];
		uint64_t word;
		int r = ht_target_read(target, p->addr, now, sizeof(now));

		if (r == -ESRCH)
			return r;
		/* Unmapped: the library was closed. */
		if (r < 0)
			continue;
		/* Somebody patched over us, and may have kept our jump to go on with. */
		if (!ht_cure_word(p, now, back)) {
			stats->foreign++;
			continue;
		}
		if (!memcmp(now, back, sizeof(now)))
			continue;
		memcpy(&word, back, sizeof(word));
		r = ht_fault("cure.restore");
		if (r == 0)
			r = ht_target_poke(target, p->addr, word);
		if (r < 0)
			return r;
	}
	return 0;
}

static int switch_off(struct ht_target *target, const struct ht_traces *traces,
		      struct ht_cure_stats *stats)
{
	const uint64_t off = HT_GATE_OFF;
	int r = 0;

	ht_target_begin_phase(target, HT_STOP_WRITE);
	for (unsigned i = 0; i < traces->n_journals && r == 0; i++) {
		r = ht_target_write(target, traces->journals[i]->gate, &off, sizeof(off));
		if (r == 0)
			r = restore_bytes(target, traces->journals[i], stats);
	}
	return r;
}

struct cure {
	struct ht_target *target;
	struct ht_space *space;
	struct ht_traces *traces;
	struct ht_cure_stats *stats;
	struct ht_scanner *scanner;
	/* Where no stack may lead when it is taken away. */
	struct ht_journal_range ranges[HT_TRACES_RANGES + HT_TRACES_HOOKS];
	size_t n_ranges;
	unsigned clean;		/* looks in a row that saw nothing */
};

/* While the target runs: what is ours now. */
static int look(struct cure *c)
{
	struct ht_traces *traces = c->traces;
	int r = ht_space_refresh(c->space);

	if (r < 0)
		return r;
	if (traces->on_look)
		traces->on_look(traces->on_look_arg);
	ht_traces_refresh(traces, c->target, c->space);
	memcpy(c->ranges, traces->ranges, traces->n_ranges * sizeof(*c->ranges));
	memcpy(c->ranges + traces->n_ranges, traces->hooks,
	       traces->n_hooks * sizeof(*c->ranges));
	c->n_ranges = traces->n_ranges + traces->n_hooks;
	return 0;
}

static int scan(struct cure *c)
{
	int r;

	ht_target_begin_phase(c->target, HT_STOP_CHECK);
	r = ht_scan_threads(c->scanner, c->target, c->ranges, c->n_ranges);
	c->clean = r == 0 ? c->clean + 1 : 0;
	return r < 0 && r != -ETIME ? r : 0;
}

static int close_files(struct cure *c, struct ht_session *s)
{
	const struct ht_traces *traces = c->traces;
	struct ht_syscall calls[HT_TRACES_FDS];
	size_t n = 0;
	int r = 0;

	for (unsigned i = 0; i < traces->n_fds && r == 0; i++) {
		if (!ht_traces_is_our_fd(traces, c->target, traces->fds[i]))
			continue;
		r = ht_fault("cure.close");
		calls[n++] = (struct ht_syscall){ .nr = SYS_close,
						  .args = { (uint64_t)traces->fds[i] } };
	}
	return r < 0 ? r : ht_session_calls(s, calls, n);
}

static int unmap(struct cure *c, struct ht_session *s)
{
	const struct ht_traces *traces = c->traces;
	struct ht_syscall calls[HT_TRACES_RANGES];
	size_t n = 0;
	int r = 0;

	for (unsigned i = 0; i < traces->n_ranges && r == 0; i++) {
		const struct ht_journal_range *range = &traces->ranges[i];

		r = ht_fault("cure.unmap");
		calls[n++] = (struct ht_syscall){
			.nr = SYS_munmap,
			.args = { range->start, range->end - range->start },
		};
	}
	return r < 0 ? r : ht_session_calls(s, calls, n);
}

/* Twice, some time apart. */
static bool is_clean(const struct cure *c)
{
	return c->clean >= 2;
}

/* Its memory may have grown to a limit, which what we mapped counts against: then the first
 * piece goes without a stack, which has room afterwards. */
static int begin(struct cure *c, size_t i, struct ht_session *s, struct ht_err *err)
{
	const struct ht_journal_range *first = &c->traces->ranges[0];
	int r = ht_session_begin(s, c->target, i, err);

	if (r != -ENOMEM || !is_clean(c) || !c->traces->n_ranges)
		return r;
	r = ht_remote_unmap(c->target, i, first->start, first->end - first->start, err);
	return r < 0 ? r : ht_session_begin(s, c->target, i, err);
}

static bool is_idle(const struct ht_target *target, ht_addr_t lane)
{
	uint64_t owner;

	return ht_target_read(target, lane + offsetof(struct ht_lane, owner), &owner,
			      sizeof(owner)) == 0 && !owner;
}

/* No thread stands between a look at the socket and its use, which it has a lane for. Those
 * that come look first, and find that it's gone. */
static bool nobody_sends(const struct cure *c)
{
	for (unsigned i = 0; i < c->traces->n_journals; i++) {
		const struct ht_journal *journal = c->traces->journals[i];
		struct ht_hook_config config;

		if (!journal->socket)
			continue;
		if (!journal->hook_config ||
		    ht_target_read(c->target, journal->hook_config, &config, sizeof(config)) < 0 ||
		    config.ring.lanes > HT_MAX_LANES)
			return false;
		for (uint32_t k = 0; k < config.ring.lanes; k++)
			if (!is_idle(c->target, config.ring.base + HT_RING_PAGE +
							k * (uint64_t)HT_LANE_HEADER))
				return false;
	}
	return true;
}

/* Stopped. What isn't clean stays mapped. */
static int take_out(struct cure *c, struct ht_err *err)
{
	struct ht_session s;
	size_t i;
	int r, end;

	if (!c->traces->n_fds && !(is_clean(c) && c->traces->n_ranges))
		return 0;
	r = ht_find_victim(c->target, true, &i);
	if (r == 0)
		r = begin(c, i, &s, err);
	if (r < 0)
		return r;
	r = close_files(c, &s);
	if (r == 0 && is_clean(c))
		r = unmap(c, &s);
	if (r < 0)
		s.err = NULL;
	end = ht_session_end(&s);
	return r < 0 ? r : end;
}

static int take_out_when_clean(struct cure *c, struct ht_err *err)
{
	uint64_t deadline = ht_deadline_ns(PATIENCE_NS);
	int r = 0, pause = SCAN_PAUSE_MS;

	/* Let go because the machine is busy: that says nothing about the stacks. */
	for (int tries = 0; !c->stats->foreign &&
			    (tries < SCANS || (r == -ETIME && !ht_deadline_passed(deadline)));
	     tries++) {
		ht_target_nap(c->target, pause);
		if (tries >= 3)
			pause = ht_min(2 * pause, SCAN_PAUSE_MAX_MS);
		r = look(c);
		if (r == 0)
			r = ht_stop_all(c->target, c->stats, err);
		if (r < 0)
			return r;
		r = scan(c);
		if (r == 0 && (is_clean(c) || (tries + 1 == SCANS && nobody_sends(c))))
			r = take_out(c, err);
		if (r == 0 && !is_clean(c))
			r = -EAGAIN;
		ht_resume_all(c->target, c->stats);
		if (r != -EAGAIN && r != -ETIME)
			return r;
	}
	c->stats->left = true;
	return 0;
}

static int cure_once(struct cure *c, struct ht_err *err)
{
	int r;

	c->stats->left = false;
	c->stats->foreign = 0;
	c->clean = 0;
	r = look(c);
	if (r == 0)
		r = ht_stop_all(c->target, c->stats, err);
	if (r < 0)
		return r;
	if (!c->traces->own && ht_traces_alive(c->traces, c->target))
		r = -EBUSY;
	if (r == 0)
		r = switch_off(c->target, c->traces, c->stats);
	if (r == 0)
		r = scan(c);
	ht_resume_all(c->target, c->stats);
	return r < 0 ? r : take_out_when_clean(c, err);
}

static int unload_last(struct cure *c)
{
	struct ht_traces *traces = c->traces;
	struct ht_plan *plan;
	int r = ht_space_refresh(c->space);

	if (r >= 0)
		r = ht_plan_new(c->space, ht_target_memfd(c->target), &plan, NULL);
	if (r < 0)
		return r;
	r = ht_dlclose_hook(c->target, c->space, plan,
			    traces->hooks[traces->n_hooks - 1].start, NULL);
	ht_plan_free(plan);
	traces->n_hooks -= r == 0;
	return r;
}

static int unload(struct cure *c)
{
	int r = 0;

	for (int tries = 0; tries < TRIES && c->traces->n_hooks; tries++) {
		r = unload_last(c);
		if (r == 0)
			tries = -1;
	}
	return r;
}

/* What wasn't in the way when the target was opened: somebody traces it now, it is frozen, or
 * has closed itself to us. */
static int find_obstacle(const struct cure *c, struct ht_err *err)
{
	struct ht_facts facts;
	int r = ht_facts_read(ht_target_pid(c->target), &facts, err);

	return r < 0 ? r : ht_facts_obstacle(&facts, HT_TO_CURE, err);
}

static bool is_final(const struct cure *c, int r)
{
	struct ht_err unused;

	return r == -EXDEV || r == -EBUSY || !ht_target_alive(c->target) ||
	       find_obstacle(c, &unused) < 0;
}

static int explain(const struct cure *c, int r, struct ht_err *err)
{
	pid_t pid = ht_target_pid(c->target);
	const char *name = ht_target_name(c->target);
	struct ht_err obstacle = { HT_ERR_NONE, "" };

	if (!ht_target_alive(c->target))
		return ht_err_set(err, HT_ERR_GONE, -ESRCH, "%d (%s) has ended", pid, name);
	switch (find_obstacle(c, &obstacle)) {
	case 0:
		break;
	case -EBUSY:
		return ht_err_set(err, obstacle.kind, r, "%.400s, then heaptap cure %d",
				  obstacle.text, pid);
	default:
		return ht_err_set(err, obstacle.kind, r, "%s", obstacle.text);
	}
	if (r == -EBUSY)
		return ht_traces_refuse(c->target, err);
	if (err->kind != HT_ERR_NONE)
		return r;
	return ht_err_set(err, HT_ERR_FAILED, r,
			  "can't make %d (%s) what it was: %s; try heaptap cure %d", pid, name,
			  strerror(-r), pid);
}

int ht_cure(struct ht_target *target, struct ht_space *space, struct ht_traces *traces,
	    struct ht_cure_stats *stats, struct ht_err *err)
{
	struct cure c = { .target = target, .space = space, .traces = traces, .stats = stats };
	struct ht_err said;
	int r = ht_scanner_new(space, ht_target_memfd(target), &c.scanner);

	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "out of memory");
	for (int tries = 0; tries < TRIES; tries++) {
		if (tries)
			ht_target_nap(target, SCAN_PAUSE_MS);
		said = (struct ht_err){ HT_ERR_NONE, "" };
		r = cure_once(&c, &said);
		if (r == 0 || is_final(&c, r))
			break;
	}
	ht_scanner_free(c.scanner);
	if (r < 0) {
		r = explain(&c, r, &said);
		return ht_err_set(err, said.kind, r, "%s", said.text);
	}
	/* The loader may well want to keep it: then it stays. */
	if (!stats->left && traces->n_hooks)
		stats->left = unload(&c) < 0;
	return 0;
}
