/* SPDX-License-Identifier: Apache-2.0
 *
 * tap.c: see tap.h.
 */
#define HT_LOG_DOMAIN "tap"
#include "tap/tap.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attach/facts.h"
#include "attach/launch.h"
#include "attach/target.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "inject/inject.h"
#include "inject/late.h"
#include "inject/plan.h"
#include "inject/room.h"
#include "ipc/owner.h"
#include "ipc/ring.h"
#include "symbol/jit.h"
#include "tap/intake.h"

#define BLOCK_US_DEFAULT 200000
/* How long the reader sleeps between looks at the ring: from hardly, when it fills, to
 * what a person at the progress line doesn't notice. */
#define NAP_MIN_MS UINT64_C(1)
#define NAP_MAX_MS UINT64_C(32)
/* Longer than a thread waits for room in the ring. */
#define SETTLE_NS (300 * HT_NS_PER_MS)
#define STUCK_NS (20 * HT_NS_PER_SEC)
#define WRAPPER_NS HT_NS_PER_SEC	/* so long after a launch it is looked at more often */
#define LOOK_NS (100 * HT_NS_PER_MS)	/* between looks at seccomp and identity */
/* Between looks at the memory map, in which the main thread's stack grows; when code came or
 * went there is one at once. Together they take a thousandth of a core, which may be taken
 * for so long ahead. */
#define MAPS_NS HT_NS_PER_SEC
#define MAPS_SHARE 1000
#define MAPS_AHEAD_NS (10 * HT_NS_PER_SEC)

struct ht_tap {
	struct ht_target *target;
	struct ht_modules *modules;
	struct ht_space *space;
	struct ht_plan *plan;
	struct ht_ring *ring;
	bool owner_held;
	uint64_t owner_damaged;	/* times that its word was overwritten */
	struct ht_injection *injection;
	struct ht_late *late;
	const struct ht_site *disturbed;	/* NULL: none */
	struct ht_intake *intake;
	struct ht_jit *jit;
	struct ht_tap_options options;
	struct ht_buf allocators;
	char name[32];
	char exe[256];
	char seen_name[32];	/* comm at the last look */
	char successor[32];	/* "": none */
	bool successor_likely;
	enum ht_tap_state state;
	uint64_t start_ns, end_ns;
	uint64_t start_unix_ns;
	uint64_t next_look_ns;
	uint64_t next_maps_ns;
	uint64_t maps_paid_ns;	/* until when looks at the map have used up their share */
	uint64_t lib_kib, seen_lib_kib;	/* now, and at the last look at the map */
	uint64_t next_settle_ns;
	uint64_t nap_ms;
	uint64_t seen_bytes, seen_ns;	/* of the ring, at the last nap */
	bool news;		/* to be told now */
	bool launched;
	enum ht_ended cut;	/* why it was before its end */
	bool blind;		/* losses at the end may not have been seen */
	uint64_t looked_ns;	/* when they were seen last */
	bool left;		/* code stayed mapped, ours or that of an earlier tap */
	int wait_status;
};

static uint64_t unix_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * HT_NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

static int name_allocators(struct ht_tap *tap)
{
	for (size_t i = 0; i < tap->plan->n_allocators; i++) {
		const struct ht_allocator *a = &tap->plan->allocators[i];

		if (a->n_sites)
			ht_buf_printf(&tap->allocators, "%s%s", tap->allocators.len ? ", " : "",
				      a->name);
	}
	return tap->allocators.failed ? -ENOMEM : 0;
}

/* Unwind tables of all code, now: with a big program they take longer than the ring lasts
 * once records come in. */
static void build_tables(const struct ht_space *space)
{
	for (size_t i = 0; i < ht_space_count(space); i++) {
		const struct ht_mapping *mapping = ht_space_at(space, i);

		if (mapping->module && mapping->prot & HT_PROT_EXEC)
			(void)ht_module_table(mapping->module);
	}
}

/* Modules and the plan: what can be thought out while the target runs. */
static int study(struct ht_tap *tap, struct ht_err *err)
{
	struct ht_target *target = tap->target;
	bool found;
	int r;

	r = ht_modules_new(&tap->modules);
	if (r == 0)
		r = ht_space_new(ht_target_procfd(target), ht_target_memfd(target),
				 tap->modules, &tap->space);
	if (r < 0)
		return ht_err_set(err, r == -ESRCH ? HT_ERR_GONE : HT_ERR_FAILED, r,
				  "can't read the memory map of %d (%s): %s%s",
				  ht_target_pid(target), ht_target_name(target),
				  strerror(-r), ht_err_advice(r));
	r = ht_inject_cure_leftover(target, tap->space, &found, &tap->left, err);
	if (r < 0)
		return r;
	if (found) {
		r = ht_space_refresh(tap->space);
		if (r < 0)
			return ht_err_set(err, HT_ERR_GONE, r, "the target is gone");
	}
	r = ht_inject_plan(target, tap->space, &tap->plan, err);
	if (r == 0)
		r = ht_room_check(target, tap->space,
				  tap->ring ? ht_ring_map_size(tap->ring) :
					      tap->options.ring_size, err);
	if (r < 0)
		return r;
	r = ht_late_new(tap->space, ht_target_memfd(target), tap->plan, &tap->late);
	if (r == 0)
		r = ht_jit_new(ht_target_procfd(target), ht_target_memfd(target), tap->space,
			       ht_target_facts(target)->start_time, &tap->jit);
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "out of memory");
	build_tables(tap->space);
	return name_allocators(tap);
}

static uint32_t choose_flags(const struct ht_tap *tap, const struct ht_facts *facts)
{
	const struct ht_tap_options *o = &tap->options;
	uint32_t flags = 0;

	if (facts->seccomp == 0)
		flags |= HT_CONFIG_SYSCALLS;
	if (o->min_size)
		flags |= HT_CONFIG_MIN_SIZE | HT_CONFIG_BLOCK;
	else if (o->interval == 0)
		flags |= HT_CONFIG_EXACT | HT_CONFIG_BLOCK;
	if (o->block)
		flags |= HT_CONFIG_BLOCK;
	if (o->transport == HT_TRANSPORT_SOCKET)
		flags |= HT_CONFIG_SOCKET;
	return flags;
}

static bool uses_socket(const struct ht_tap *tap)
{
	return tap->options.transport == HT_TRANSPORT_SOCKET;
}

/* There's something of ours to take out. */
static bool is_tapped(const struct ht_tap *tap)
{
	return tap->state == HT_TAP_RUNNING || tap->state == HT_TAP_CUT;
}

static int read_ring(void *arg, void *buf, size_t len)
{
	const struct ht_tap *tap = arg;

	return ht_inject_read_ring(tap->injection, buf, len);
}

/* If it lies in the target's own memory. False: that is gone, and what it told since the last
 * look. */
static bool look_at_ring(struct ht_tap *tap)
{
	if (uses_socket(tap) && ht_ring_look(tap->ring, read_ring, tap) < 0)
		return false;
	tap->looked_ns = ht_now_ns();
	return true;
}

static uint64_t block_us(const struct ht_tap *tap)
{
	return tap->options.block_us ? tap->options.block_us : BLOCK_US_DEFAULT;
}

/* Of what came after the last look. Who waits for room loses nothing so soon. */
static bool may_have_lost(const struct ht_tap *tap)
{
	bool waits = ht_inject_flags(tap->injection) & HT_CONFIG_BLOCK;

	return ht_ring_was_full(tap->ring) &&
	       !(waits && tap->end_ns - tap->looked_ns < block_us(tap) * 1000);
}

/* A gap in the order of events is given up when the writers and reallocs of its time are done. */
static int settle(struct ht_tap *tap, bool final)
{
	struct ht_ledger *ledger = ht_intake_ledger(tap->intake);

	if (final)
		return ht_ledger_settle(ledger, true);
	if (!ht_deadline_passed(tap->next_settle_ns))
		return 0;
	/* A thread that died or was frozen in the hook must not hold up the rest for ever. */
	if (!ht_ring_quiesced(tap->ring) &&
	    !ht_deadline_passed(tap->next_settle_ns + STUCK_NS))
		return 0;
	tap->next_settle_ns = ht_deadline_ns(SETTLE_NS);
	return ht_ledger_settle(ledger, false);
}

static int drain(struct ht_tap *tap, bool final, struct ht_err *err)
{
	int r;

	if (is_tapped(tap))
		(void)look_at_ring(tap);
	if (tap->owner_held && !ht_owner_intact(ht_ring_owner_word(tap->ring)))
		tap->owner_damaged++;
	ht_intake_tick(tap->intake);
	r = ht_fault("tap.drain");
	if (r == 0)
		r = ht_ring_drain(tap->ring, ht_intake_record, tap->intake);
	if (r == 0)
		r = ht_fault("tap.settle");
	if (r == 0)
		r = settle(tap, final);
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "can't account for a record: %s",
				  strerror(-r));
	return 0;
}

/* A ring in shared memory, and the word in it that tells the hook whether we live. */
static int make_ring(struct ht_tap *tap, struct ht_err *err)
{
	int r = ht_ring_new(tap->options.ring_size, &tap->ring, err);

	if (r < 0)
		return r;
	r = ht_owner_hold(ht_ring_owner_word(tap->ring));
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r,
				  "can't register with the kernel as the ring's owner: %s",
				  strerror(-r));
	tap->owner_held = true;
	return 0;
}

/* Each record is a system call of the target's, which a filter might kill it for. */
static int refuse_socket(const struct ht_tap *tap, const struct ht_facts *facts,
			 struct ht_err *err)
{
	if (!facts->seccomp)
		return 0;
	return ht_err_set(err, HT_ERR_UNSUPPORTED, -ENOTSUP,
			  "can't tap %d (%s) with --transport=socket: it has a seccomp filter, which may forbid it to send; use --transport=ring",
			  ht_target_pid(tap->target), ht_target_name(tap->target));
}

/* What fails is tried again later, and told then. */
static void on_cure(void *arg)
{
	struct ht_tap *tap = arg;

	if (tap->intake)
		(void)!drain(tap, false, NULL);
}

static int inject(struct ht_tap *tap, const struct ht_facts *facts, struct ht_err *err)
{
	const struct ht_tap_options *o = &tap->options;
	struct ht_inject_options options = {
		.dlopen = o->loader == HT_LOADER_DLOPEN,
		.flags = choose_flags(tap, facts),
		.interval = o->interval,
		.min_size = o->min_size,
		.max_stack = o->max_stack,
		.block_us = block_us(tap),
		.on_cure = on_cure,
		.on_cure_arg = tap,
	};
	uint64_t capacity;
	int r = tap->ring ? 0 : make_ring(tap, err);

	if (r < 0)
		return r;
	options.socket_size = o->ring_size;
	options.ring_fd = ht_ring_fd(tap->ring);
	options.ring_size = ht_ring_map_size(tap->ring);
	options.ring_map = ht_ring_map_at(tap->ring, 0);
	r = ht_inject(tap->target, tap->space, tap->plan, &options, &tap->injection, err);
	if (r == 0 && uses_socket(tap)) {
		int fd = ht_inject_take_socket(tap->injection, &capacity);

		ht_ring_set_socket(tap->ring, fd, capacity);
	}
	return r;
}

static void tell_top(void *arg, uint64_t thread_pointer, uint64_t top)
{
	struct ht_tap *tap = arg;

	ht_debug("the stack of thread %#" PRIx64 " ends at %#" PRIx64, thread_pointer, top);
	/* A target that dies meanwhile needs no telling. */
	(void)ht_inject_set_stack_top(tap->injection, thread_pointer, top);
}

static int listen(struct ht_tap *tap, struct ht_err *err)
{
	struct ht_journal_range ranges[16];
	size_t n = ht_inject_ranges(tap->injection, ranges, ARRAY_SIZE(ranges));
	int r;

	r = ht_fault("tap.listen");
	if (r == 0)
		r = ht_intake_new(tap->space, ht_target_memfd(tap->target),
				  tap->options.interval, tap->options.min_size, &tap->intake);
	for (size_t i = 0; i < n && r == 0; i++)
		r = ht_intake_hide(tap->intake, ranges[i].start, ranges[i].end);
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "can't prepare the unwinder: %s",
				  strerror(-r));
	ht_intake_on_top(tap->intake, tell_top, tap);
	ht_intake_set_jit(tap->intake, tap->jit);
	tap->start_ns = ht_now_ns();
	tap->start_unix_ns = unix_ns();
	tap->nap_ms = NAP_MIN_MS;
	tap->seen_ns = tap->start_ns;
	tap->next_look_ns = tap->start_ns + LOOK_NS;
	tap->next_maps_ns = tap->start_ns + MAPS_NS;
	tap->next_settle_ns = tap->start_ns + SETTLE_NS;
	return 0;
}

/* From an open target to a running tap. */
static int begin(struct ht_tap *tap, struct ht_err *err)
{
	struct ht_facts facts;
	int r;

	r = ht_facts_read(ht_target_pid(tap->target), &facts, err);
	if (r < 0)
		return r;
	memcpy(tap->name, facts.name, sizeof(tap->name));
	memcpy(tap->seen_name, facts.name, sizeof(tap->seen_name));
	memcpy(tap->exe, facts.exe, sizeof(tap->exe));
	if (uses_socket(tap)) {
		r = refuse_socket(tap, &facts, err);
		if (r == 0)
			r = ht_ring_new_private(&tap->ring, err);
	}
	if (r == 0)
		r = study(tap, err);
	if (r == 0)
		r = inject(tap, &facts, err);
	if (r == 0) {
		/* From here on ht_tap_free() has something to take out. */
		tap->state = HT_TAP_RUNNING;
		r = listen(tap, err);
	}
	return r;
}

static struct ht_tap *new_tap(const struct ht_tap_options *options)
{
	struct ht_tap *tap = calloc(1, sizeof(*tap));

	if (!tap)
		return NULL;
	tap->options = *options;
	/* What min_size lets through isn't sampled. */
	if (options->min_size)
		tap->options.interval = 0;
	tap->state = HT_TAP_CURED;
	return tap;
}

/* Whatever failed, it failed because the target ended, or became another program,
 * meanwhile: say that. */
static int explain_end(struct ht_target *target, int error, struct ht_err *err)
{
	pid_t pid = ht_target_pid(target);
	const char *name = ht_target_name(target);
	int r = ht_target_fate(target, error);

	if (r == -EXDEV)
		return ht_err_set(err, HT_ERR_GONE, r, "%d (%s) runs another program now; try again", pid,
				  name);
	if (r < 0)
		return ht_err_set(err, HT_ERR_GONE, r, "%d (%s) has ended meanwhile", pid,
				  name);
	return error;
}

int ht_tap_attach(pid_t pid, const struct ht_tap_options *options, struct ht_tap **ret_tap,
		  struct ht_err *err)
{
	struct ht_tap *tap = new_tap(options);
	int r;

	if (!tap)
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	r = ht_target_open(pid, &tap->target, err);
	if (r == 0) {
		r = begin(tap, err);
		if (r < 0)
			r = explain_end(tap->target, r, err);
	}
	if (r < 0) {
		ht_tap_free(tap);
		return r;
	}
	*ret_tap = tap;
	return 0;
}

int ht_tap_launch(char *const argv[], const struct ht_tap_options *options,
		  struct ht_tap **ret_tap, struct ht_err *err)
{
	struct ht_tap *tap = new_tap(options);
	int r;

	if (!tap)
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	tap->launched = true;
	r = ht_launch(argv, &tap->target, err);
	if (r == 0) {
		r = begin(tap, err);
		if (r < 0) {
			/* It hasn't begun. Better not at all than unseen and unwatched. */
			kill(ht_target_pid(tap->target), SIGKILL);
			ht_err_prefix(err, r, "%s was not run", argv[0]);
		}
	}
	if (r < 0) {
		ht_tap_free(tap);
		return r;
	}
	ht_target_resume(tap->target);
	*ret_tap = tap;
	return 0;
}

struct ht_tap *ht_tap_free(struct ht_tap *tap)
{
	if (!tap)
		return NULL;
	if (is_tapped(tap))
		ht_tap_cure(tap, NULL);
	ht_injection_free(tap->injection);
	ht_late_free(tap->late);
	if (tap->owner_held)
		ht_owner_drop(ht_ring_owner_word(tap->ring));
	ht_ring_free(tap->ring);
	ht_intake_free(tap->intake);
	ht_jit_free(tap->jit);
	ht_plan_free(tap->plan);
	ht_space_free(tap->space);
	ht_modules_free(tap->modules);
	ht_target_close(tap->target);
	ht_buf_fini(&tap->allocators);
	free(tap);
	return NULL;
}

/* A seccomp filter that came after the attach: the hook may make no system call any more. */
static void look_for_seccomp(struct ht_tap *tap, const struct ht_facts *facts)
{
	uint32_t flags = ht_inject_flags(tap->injection);

	if (!(flags & HT_CONFIG_SYSCALLS) || !facts->seccomp)
		return;
	if (ht_inject_set_flags(tap->injection, flags & ~HT_CONFIG_SYSCALLS) < 0)
		return;	/* it is dying */
}

/* For want of memory it's looked for again next time. */
static void look_for_late(struct ht_tap *tap)
{
	tap->news |= ht_late_look(tap->late) > 0;
}

/* The main thread went deeper than the hook may read, or somebody changed what is there; or
 * an allocator came that isn't tapped. What was read is the target's only if it's the same
 * program afterwards: the caller has just made sure of that. */
static int look_at_maps(struct ht_tap *tap, bool last)
{
	uint64_t cpu_ns = ht_cpu_ns();
	int r = 0;

	if (!last && tap->maps_paid_ns > ht_deadline_ns(MAPS_AHEAD_NS))
		return 0;
	/* Read by the unwinder: what it saw may be gone by now. */
	look_for_late(tap);
	if (last || tap->lib_kib != tap->seen_lib_kib ||
	    ht_deadline_passed(tap->next_maps_ns)) {
		tap->next_maps_ns = ht_deadline_ns(MAPS_NS);
		tap->seen_lib_kib = tap->lib_kib;
		(void)ht_inject_update_stack(tap->injection);
		r = ht_target_verify(tap->target);
		if (r == 0)
			look_for_late(tap);
	}
	tap->maps_paid_ns = ht_max(tap->maps_paid_ns, ht_now_ns()) +
			    MAPS_SHARE * (ht_cpu_ns() - cpu_ns);
	return r;
}

/* What is there now instead of the program, if it's another one. One that execs and ends
 * between two looks shows by the name of its zombie only. */
static void note_successor(struct ht_tap *tap, enum ht_tap_state state)
{
	const struct ht_facts *before = ht_target_facts(tap->target);
	struct ht_facts facts;
	bool there;

	if (state != HT_TAP_EXECED && state != HT_TAP_EXITED)
		return;
	there = !ht_facts_read(ht_target_pid(tap->target), &facts, NULL) &&
		facts.start_time == before->start_time;
	if (state == HT_TAP_EXECED)
		snprintf(tap->successor, sizeof(tap->successor), "%s",
			 there ? facts.name : "ended since");
	if (state != HT_TAP_EXITED || !there || !strcmp(facts.name, tap->seen_name))
		return;
	memcpy(tap->successor, facts.name, sizeof(tap->successor));
	tap->successor_likely = true;
}

/* Wrappers exec early in their life. */
static bool may_exec_soon(const struct ht_tap *tap)
{
	return tap->launched && ht_now_ns() - tap->start_ns < WRAPPER_NS;
}

/* Why the hook can tell nothing more. */
static enum ht_ended ended(const struct ht_tap *tap)
{
	if (!uses_socket(tap))
		return HT_ENDED_NOT;
	if (!(ht_inject_flags(tap->injection) & HT_CONFIG_SYSCALLS))
		return HT_ENDED_FILTER;
	return ht_ring_ended(tap->ring);
}

static enum ht_tap_state running_or_cut(struct ht_tap *tap)
{
	tap->cut = ended(tap);
	if (tap->cut == HT_ENDED_NOT)
		return HT_TAP_RUNNING;
	tap->end_ns = ht_now_ns();
	return HT_TAP_CUT;
}

static enum ht_tap_state look(struct ht_tap *tap)
{
	struct ht_facts facts;
	int r;

	if (!ht_target_alive(tap->target))
		return HT_TAP_EXITED;
	/* The socket goes at an exit and an exec, too. */
	if (!ht_deadline_passed(tap->next_look_ns) && !may_exec_soon(tap) &&
	    ended(tap) == HT_ENDED_NOT)
		return HT_TAP_RUNNING;
	tap->next_look_ns = ht_deadline_ns(LOOK_NS);
	r = ht_facts_read_again(ht_target_pid(tap->target), &facts);
	if (r == 0) {
		tap->lib_kib = facts.lib_kib;
		look_for_seccomp(tap, &facts);
		tap->disturbed = ht_inject_disturbed(tap->injection);
		r = ht_target_verify(tap->target);
	}
	if (r == 0)
		r = look_at_maps(tap, false);
	/* A name that was read while it still was the same program. */
	if (r == 0)
		memcpy(tap->seen_name, facts.name, sizeof(tap->seen_name));
	if (r == 0)
		return running_or_cut(tap);
	/* One that is ending has lost its memory, too: it takes a moment to know which. */
	tap->end_ns = ht_now_ns();
	r = ht_target_fate(tap->target, r);
	if (r == 0)
		tap->end_ns = 0;
	return r == 0 ? HT_TAP_RUNNING : r == -EXDEV ? HT_TAP_EXECED : HT_TAP_EXITED;
}

/* Sleep so long that the ring fills by a tenth at the rate of the last while. */
static void nap(struct ht_tap *tap, uint64_t deadline_ns, int wake_fd)
{
	struct pollfd fds[] = {
		{ .fd = ht_target_pidfd(tap->target), .events = POLLIN },
		{ .fd = wake_fd, .events = POLLIN },
		{ .fd = ht_ring_socket(tap->ring), .events = POLLIN },
	};
	uint64_t now = ht_now_ns(), bytes, ns;
	struct ht_ring_counters ring;
	int left = ht_deadline_poll_ms(deadline_ns);
	uint64_t ms = NAP_MAX_MS;

	ht_ring_counters(tap->ring, &ring);
	bytes = ring.bytes - tap->seen_bytes;
	ns = now - tap->seen_ns;
	if (bytes)
		ms = ht_min(ms, tap->options.ring_size / 10 * ns / bytes / HT_NS_PER_MS);
	tap->seen_bytes = ring.bytes;
	tap->seen_ns = now;
	ms = ht_min(ms, 2 * tap->nap_ms);
	tap->nap_ms = ht_max(ms, NAP_MIN_MS);
	poll(fds, ARRAY_SIZE(fds), left < 0 ? (int)tap->nap_ms : ht_min(left, (int)tap->nap_ms));
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return fd >= 0 && poll(&p, 1, 0) > 0;
}

/* Who allocates now may crash: the sooner it's taken out the better. */
static int end_disturbed(const struct ht_tap *tap, struct ht_err *err)
{
	return ht_err_set(err, HT_ERR_FAILED, -EBUSY,
			  "somebody put a uprobe or a breakpoint at '%s' of '%s', which would crash %d (%s) while it's tapped: the recording ends",
			  tap->disturbed->kind->name, ht_module_name(tap->disturbed->module),
			  ht_target_pid(tap->target), tap->name);
}

int ht_tap_serve(struct ht_tap *tap, uint64_t deadline_ns, int wake_fd,
		 enum ht_tap_state *ret_state, struct ht_err *err)
{
	int r;

	tap->news = false;
	while (tap->state == HT_TAP_RUNNING) {
		r = drain(tap, false, err);
		if (r < 0)
			return r;
		(void)ht_fault("tap.look");
		tap->state = look(tap);
		note_successor(tap, tap->state);
		if (tap->state == HT_TAP_RUNNING)
			ht_jit_look(tap->jit);
		if (tap->state == HT_TAP_RUNNING && tap->disturbed)
			return end_disturbed(tap, err);
		if (tap->state != HT_TAP_RUNNING || ht_deadline_passed(deadline_ns) ||
		    readable(wake_fd) || tap->news)
			break;
		nap(tap, deadline_ns, wake_fd);
	}
	*ret_state = tap->state;
	return 0;
}

static void trace_ring(const struct ht_tap *tap)
{
	struct ht_ring_counters ring;

	ht_ring_counters(tap->ring, &ring);
	ht_debug("%" PRIu64 " records, %" PRIu64 " bytes each, %" PRIu64 " waits",
		 ring.records, ring.bytes / ht_max(ring.records, UINT64_C(1)), ring.waits);
}

int ht_tap_cure(struct ht_tap *tap, struct ht_err *err)
{
	bool left = false, exited = tap->state == HT_TAP_EXITED, seen;
	int r = 0, r2, fate;

	/* What came since the last look; and if it's another program, curing finds out. */
	if (is_tapped(tap) && ht_target_verify(tap->target) == 0)
		(void)look_at_maps(tap, true);
	seen = look_at_ring(tap);
	if (tap->state == HT_TAP_RUNNING && ht_target_alive(tap->target))
		tap->cut = ended(tap);
	if (is_tapped(tap) && ht_target_alive(tap->target))
		r = ht_inject_cure(tap->injection, &left, err);
	else if (is_tapped(tap))
		note_successor(tap, HT_TAP_EXITED);
	tap->left |= left;
	if (left)
		(void)look_at_ring(tap);
	if (!tap->end_ns)
		tap->end_ns = ht_now_ns();
	/* Dying meanwhile is no failure to cure. */
	if (r < 0) {
		fate = ht_target_fate(tap->target, r);
		note_successor(tap, fate == -EXDEV ? HT_TAP_EXECED :
				    fate < 0 ? HT_TAP_EXITED : HT_TAP_RUNNING);
		r = fate < 0 ? 0 : r;
	}
	tap->state = HT_TAP_CURED;
	(void)ht_fault("tap.cured");
	if (tap->owner_held)
		ht_owner_drop(ht_ring_owner_word(tap->ring));
	tap->owner_held = false;
	r2 = tap->intake ? drain(tap, true, r < 0 ? NULL : err) : 0;
	/* The files of another program would tell wrong names. */
	if (tap->jit && !*tap->successor)
		ht_jit_look_last(tap->jit);
	tap->blind = !seen && may_have_lost(tap);
	trace_ring(tap);
	if (tap->launched && (exited || !ht_target_alive(tap->target)))
		r2 = r2 < 0 ? r2 : ht_target_wait(tap->target, &tap->wait_status);
	return r < 0 ? r : r2;
}

static const char *why_cut(const struct ht_tap *tap)
{
	static const char *const texts[] = {
		[HT_ENDED_SOCKET] = "the program closed the socket that its records went through",
		[HT_ENDED_FILTER] = "the program set up a seccomp filter, under which it may not send",
	};

	if (tap->blind && tap->cut == HT_ENDED_NOT)
		return "the socket that its records went through may have been full at the program's end";
	return texts[tap->cut];
}

void ht_tap_result(const struct ht_tap *tap, struct ht_tap_result *ret_result)
{
	struct ht_ring_counters ring;
	struct ht_inject_stats stops;
	struct ht_intake_counters intake;
	const struct ht_module *const *late;
	size_t n_late = ht_late_found(tap->late, &late);

	ht_ring_counters(tap->ring, &ring);
	ht_inject_stats(tap->injection, &stops);
	ht_intake_counters(tap->intake, &intake);
	*ret_result = (struct ht_tap_result){
		.pid = ht_target_pid(tap->target),
		.command = tap->name,
		.exe = tap->exe,
		.allocators = tap->allocators.data,
		.start_unix_ns = tap->start_unix_ns,
		.duration_ns = (tap->end_ns ? tap->end_ns : ht_now_ns()) - tap->start_ns,
		.samples = intake.allocs,
		.lost_allocs = ring.lost_allocs,
		.lost_frees = ring.lost_frees,
		.lost_corrupt = ring.corrupt + intake.corrupt + tap->owner_damaged,
		.cut_stacks = intake.cut_stacks,
		.drops = ring.drops,
		.waits = ring.waits,
		.stops = stops.stops,
		.threads = stops.threads,
		.stop_max_ns = stops.stop_max_ns,
		.stop_total_ns = stops.stop_total_ns,
		.stop_log = stops.log,
		.n_stop_log = stops.n_log,
		.left = tap->left,
		.successor = *tap->successor ? tap->successor : NULL,
		.successor_likely = tap->successor_likely,
		.cut = why_cut(tap),
		.late = late,
		.n_late = n_late,
		.plan = tap->plan,
		.ledger = ht_intake_ledger(tap->intake),
		.jit = tap->jit,
		.modules = tap->modules,
	};
}

int ht_tap_wait_status(const struct ht_tap *tap)
{
	return tap->wait_status;
}

int ht_tap_cure_pid(pid_t pid, bool *ret_found, bool *ret_left, struct ht_err *err)
{
	struct ht_target *target;
	struct ht_modules *modules = NULL;
	struct ht_space *space = NULL;
	int r;

	r = ht_target_open_to_cure(pid, &target, err);
	if (r < 0)
		return r;
	r = ht_modules_new(&modules);
	if (r == 0)
		r = ht_space_new(ht_target_procfd(target), ht_target_memfd(target), modules,
				 &space);
	if (r < 0)
		ht_err_set(err, HT_ERR_FAILED, r, "can't read the memory map of %d (%s): %s",
			   pid, ht_target_name(target), strerror(-r));
	else
		r = ht_inject_cure_leftover(target, space, ret_found, ret_left, err);
	if (r < 0)
		r = explain_end(target, r, err);
	ht_space_free(space);
	ht_modules_free(modules);
	ht_target_close(target);
	return r;
}
