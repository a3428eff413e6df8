/* SPDX-License-Identifier: Apache-2.0
 *
 * inject.c: see inject.h.
 */
#include "inject/inject.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "attach/undo.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "inject/cure.h"
#include "inject/dlopen.h"
#include "inject/hook_image.h"
#include "inject/layout.h"
#include "inject/place.h"
#include "inject/scan.h"

/* Patches, mappings and passed files; what was under the patches. */
#define UNDO_ENTRIES (HT_JOURNAL_MAX + 64)
#define PATIENCE_NS (5 * HT_NS_PER_SEC)
/* For a program that is being started. */
#define STARTING_NS (2 * HT_NS_PER_SEC)
#define STARTING_NAP_MS 20
#define MESSAGE_OVERHEAD 64
/* How long to look for a thread that isn't in a call with a restart block. */
#define PICKY_NS (50 * HT_NS_PER_MS)

struct ht_injection {
	struct ht_target *target;
	struct ht_space *space;
	const struct ht_plan *plan;
	struct ht_inject_options options;
	struct ht_hook_image image;
	struct ht_layout *layout;
	ht_addr_t dl_base;	/* where dlopen put the hook; 0: it is mapped */
	struct ht_scanner *scanner;
	struct ht_undo *undo;
	struct ht_journal_range *windows;	/* inside the bytes that patches replace */
	struct ht_hook_config config;
	struct ht_journal_range ring;	/* a shared one */
	struct ht_place_socket socket;
	bool launched;		/* it has never run: it stays stopped */
	uint64_t inner_pid;	/* its pid as it knows it itself */
	struct ht_cure_stats stats;
};

/* ---- think ---- */

/* The last of the numbers behind NSpid: the innermost name space's. 0: not known, then
 * the hook finds its process by a thread id. */
static uint64_t inner_pid(const struct ht_target *target)
{
	struct ht_buf status = HT_BUF_INIT;
	uint64_t pid = 0;
	char *at, *next;

	if (ht_buf_read_file(&status, ht_target_procfd(target), "status", 1 << 16) == 0) {
		at = strstr(status.data, "\nNSpid:");
		for (at = at ? at + 7 : NULL; at; at = next) {
			unsigned long value = strtoul(at, &next, 10);

			if (next == at || memchr(at, '\n', (size_t)(next - at)))
				break;
			pid = value;
		}
	}
	ht_buf_fini(&status);
	return pid;
}

static bool uses_socket(const struct ht_injection *in)
{
	return in->options.flags & HT_CONFIG_SOCKET;
}

static int think(struct ht_injection *in, struct ht_place_files *ret_files,
		 struct ht_err *err)
{
	const struct ht_layout_options options = {
		.flags = in->options.flags,
		.min_size = in->options.min_size,
		.hook = in->dl_base,
		.ring_size = uses_socket(in) ? in->options.ring_size : 0,
	};
	int r = ht_space_refresh(in->space);

	if (r < 0)
		return ht_err_set(err, HT_ERR_GONE, r, "can't read the target's maps: %s",
				  strerror(-r));
	in->layout = ht_layout_free(in->layout);
	r = ht_layout_new(ht_space_maps(in->space), ht_target_memfd(in->target), in->plan,
			  &in->image, &options, &in->layout, err);
	if (r < 0)
		return ht_err_prefix(err, r, "can't tap %d (%s)", ht_target_pid(in->target),
				     ht_target_name(in->target));
	free(in->windows);
	in->windows = calloc(in->layout->n_patches, sizeof(*in->windows));
	if (!in->windows)
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	for (size_t i = 0; i < in->layout->n_patches; i++) {
		const struct ht_patch *p = &in->layout->patches[i];

		in->windows[i] = (struct ht_journal_range){ p->addr + 1,
							    p->addr + p->replaced_len };
	}
	r = ht_place_files_make(in->layout, in->options.ring_fd, in->options.ring_size,
				ret_files, err);
	if (r == 0 && uses_socket(in))
		ret_files->socket = &in->socket;
	return r;
}

/* ---- stop ---- */

static int stop(struct ht_injection *in, struct ht_err *err)
{
	return in->launched ? 0 : ht_stop_all(in->target, &in->stats, err);
}

static void resume(struct ht_injection *in)
{
	if (!in->launched)
		ht_resume_all(in->target, &in->stats);
}

/* The area that the kernel made for the main thread: it gives the name to that alone. */
static void find_stack(const struct ht_maps *maps, struct ht_hook_config *config)
{
	config->stack_low = HT_NO_STACK;
	config->stack_high = 0;
	for (size_t i = ht_maps_count(maps); i-- > 0;) {
		const struct ht_area *area = ht_maps_at(maps, i);

		if (!strcmp(area->path, "[stack]") && area->prot & HT_PROT_READ) {
			config->stack_low = area->start;
			config->stack_high = area->end;
			return;
		}
	}
}

/* A message must fit into the socket, with what the kernel adds; the rest of the stack is
 * cut. */
static uint64_t max_stack(const struct ht_injection *in)
{
	uint64_t room = in->socket.capacity;

	if (!uses_socket(in))
		return in->options.max_stack;
	room -= ht_min(room, (uint64_t)sizeof(struct ht_record_alloc) + MESSAGE_OVERHEAD);
	return ht_min(in->options.max_stack, room);
}

static int write_config(struct ht_injection *in, ht_addr_t ring, struct ht_err *err)
{
	const struct ht_layout *l = in->layout;
	int r;

	ht_target_begin_phase(in->target, HT_STOP_WRITE);
	in->config = (struct ht_hook_config){
		.magic = HT_HOOK_MAGIC,
		.version = HT_WIRE_VERSION,
		.flags = in->options.flags,
		.interval = in->options.interval,
		.min_size = in->options.min_size,
		.max_stack = max_stack(in),
		.block_us = in->options.block_us,
		.pid = in->inner_pid,
		.gate = l->gate,
		.ring = in->options.ring_map,
		.threads = l->threads,
		.filter = l->filter,
		.set = l->set,
		.set_mask = l->set_mask,
		.socket = in->socket.id,
	};
	in->config.ring.base = ring;
	find_stack(ht_space_maps(in->space), &in->config);
	if (getrandom(&in->config.seed, sizeof(in->config.seed), 0) < 0)
		in->config.seed = ht_now_ns();
	r = ht_target_write(in->target, l->hook + in->image.config, &in->config,
			    sizeof(in->config));
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "can't configure the hook: %s",
				  strerror(-r));
	return 0;
}

static int patch_one(struct ht_injection *in, const struct ht_patch *p, struct ht_err *err)
{
	uint64_t now;
	int r = ht_target_read(in->target, p->addr, &now, sizeof(now));

	if (r == 0 && now != p->original)
		return ht_err_set(err, HT_ERR_UNSUPPORTED, -EILSEQ,
				  "can't tap %d (%s): somebody else changed the code of %s meanwhile; try again",
				  ht_target_pid(in->target), ht_target_name(in->target),
				  p->site->kind->name);
	if (r == 0)
		r = ht_undo_text(in->undo, p->addr, &p->patched, sizeof(p->patched));
	if (r == 0)
		r = ht_fault("patch.poke");
	if (r == 0)
		r = ht_target_poke(in->target, p->addr, p->patched);
	if (r == 0)
		r = ht_target_read(in->target, p->addr, &now, sizeof(now));
	if (r == 0 && now != p->patched)
		r = -EIO;
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "can't patch %s: %s",
				  p->site->kind->name, strerror(-r));
	return 0;
}

/* All patches, then the gate. Everything or nothing. */
static int patch_all(struct ht_injection *in, struct ht_err *err)
{
	const uint64_t on = HT_GATE_ON;
	int r = 0;

	ht_target_begin_phase(in->target, HT_STOP_WRITE);
	for (size_t i = 0; i < in->layout->n_patches && r == 0; i++)
		r = patch_one(in, &in->layout->patches[i], err);
	if (r < 0)
		return r;
	r = ht_fault("patch.gate");
	if (r == 0)
		r = ht_target_write(in->target, in->layout->gate, &on, sizeof(on));
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "can't open the gate: %s", strerror(-r));
	return 0;
}

static int not_clear(struct ht_injection *in, int r, struct ht_err *err)
{
	if (r == -ETIME)
		return ht_target_check_time(in->target, err);
	return ht_err_set(err, HT_ERR_FAILED, -ETIMEDOUT,
			  "can't tap %d (%s): a thread stays in the first bytes of an allocator function; try again later",
			  ht_target_pid(in->target), ht_target_name(in->target));
}

/* Stopped, placed: patch as soon as no thread stands in the bytes. Stays stopped. */
static int patch_when_clear(struct ht_injection *in, struct ht_err *err)
{
	uint64_t deadline = ht_deadline_ns(PATIENCE_NS);
	int r;

	for (;;) {
		ht_target_begin_phase(in->target, HT_STOP_CHECK);
		r = ht_scan_threads(in->scanner, in->target, in->windows,
				    in->layout->n_patches);
		if (r == -ESRCH)
			return ht_err_set(err, HT_ERR_GONE, r, "the target is gone");
		if (r == 0)
			r = ht_target_check_time(in->target, NULL);
		if (r == 0)
			return patch_all(in, err);
		if (ht_deadline_passed(deadline))
			return not_clear(in, r, err);
		resume(in);
		ht_target_nap(in->target, 2);
		r = stop(in, err);
		if (r < 0)
			return r;
	}
}

/* The target may be stopped or not. If this fails too, the journal stays for cure. */
static void take_back(struct ht_injection *in)
{
	size_t i;

	in->socket.local = ht_fd_close(in->socket.local);
	if (!in->launched && ht_stop_all(in->target, &in->stats, NULL) < 0)
		return;
	if (ht_find_victim(in->target, true, &i) == 0)
		(void)!ht_place_undo(in->target, i, in->undo, NULL);
	else
		(void)!ht_undo_play(in->undo, NULL, NULL);
}

static int refuse_socket(const struct ht_target *target, size_t i, const char *why,
			 struct ht_err *err)
{
	return ht_err_set(err, HT_ERR_UNSUPPORTED, -ENOTSUP,
			  "can't tap %d (%s) with --transport=socket: its thread %d %s; use --transport=ring",
			  ht_target_pid(target), ht_target_name(target), ht_target_tid(target, i),
			  why);
}

/* What the hook does in a thread may not be what that thread forbids: it makes no system call
 * where some are dispatched, and sends on a number that all threads mean the same file by. */
static int adapt_to_threads(struct ht_injection *in, struct ht_err *err)
{
	const struct ht_target *target = in->target;

	for (size_t i = 0; i < ht_target_threads(target); i++) {
		if (ht_target_dispatches_syscalls(target, i)) {
			in->options.flags &= ~(uint32_t)HT_CONFIG_SYSCALLS;
			if (uses_socket(in))
				return refuse_socket(target, i, "handles its system calls itself",
						     err);
		}
		if (uses_socket(in) && !ht_target_shares_files(target, i))
			return refuse_socket(target, i, "has a table of open files of its own",
					     err);
	}
	return 0;
}

static void explain_no_victim(const struct ht_target *target, int error, struct ht_err *err)
{
	const char *why = NULL;
	size_t i = 0;

	/* The first thread's reason stands for all. */
	if (ht_target_threads(target))
		why = ht_target_unborrowable(target, i);
	ht_err_set(err, HT_ERR_FAILED, error,
		   "can't tap %d (%s): none of its threads is where it can be borrowed: thread %d %s; try again later",
		   ht_target_pid(target), ht_target_name(target),
		   why ? ht_target_tid(target, i) : ht_target_pid(target),
		   why ?: "waits in a system call");
}

/* One try. -EAGAIN: no thread can be borrowed now; -EEXIST: an address was taken; -ETIME: the
 * stop would have lasted too long. */
static int try_inject(struct ht_injection *in, bool any_victim, struct ht_err *err)
{
	struct ht_place_files files;
	ht_addr_t ring;
	size_t victim;
	int r;

	r = think(in, &files, err);
	if (r < 0)
		return r;
	r = stop(in, err);
	if (r < 0) {
		ht_place_files_fini(&files);
		return r;
	}
	r = adapt_to_threads(in, err);
	if (r == 0) {
		r = ht_find_victim(in->target, any_victim || in->launched, &victim);
		if (r < 0)
			explain_no_victim(in->target, r, err);
	}
	if (r == 0)
		r = ht_place(in->target, victim, in->layout, &files, in->undo,
			     &ring, err);
	if (r == 0) {
		if (!uses_socket(in))
			in->ring = (struct ht_journal_range){ ring,
							      ring + in->options.ring_size };
		r = write_config(in, ring, err);
		if (r == 0)
			r = patch_when_clear(in, err);
		if (r < 0)
			take_back(in);
	}
	resume(in);
	ht_place_files_fini(&files);
	return r;
}

/* Code that changed while we thought was mostly changed by another heaptap. */
static int explain_change(struct ht_target *target, struct ht_space *space, int error,
			  struct ht_err *err)
{
	struct ht_traces *traces;
	int r = ht_space_refresh(space);

	if (r >= 0)
		r = ht_traces_find(target, space, &traces, err);
	if (r == 0)
		ht_traces_free(traces);
	return r == -EBUSY ? r : error;
}

/* Take back what no try did. */
static void give_up(struct ht_injection *in, struct ht_err *err)
{
	bool clean = !in->undo || ht_undo_is_clean(in->undo);

	if (in->dl_base)
		clean &= ht_dlclose_hook(in->target, in->space, in->plan, in->dl_base,
					 NULL) == 0;
	if (!clean && ht_target_alive(in->target))
		(void)ht_err_suffix(err, 0, "a part of heaptap stays in it, inert: 'heaptap cure %d' takes it out",
				    ht_target_pid(in->target));
}

int ht_inject(struct ht_target *target, struct ht_space *space, const struct ht_plan *plan,
	      const struct ht_inject_options *options, struct ht_injection **ret_injection,
	      struct ht_err *err)
{
	uint64_t deadline = ht_deadline_ns(PATIENCE_NS);
	uint64_t picky = ht_deadline_ns(PICKY_NS);
	struct ht_injection *in = calloc(1, sizeof(*in));
	int r;

	if (!in)
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	in->target = target;
	in->space = space;
	in->plan = plan;
	in->options = *options;
	in->socket = (struct ht_place_socket){ .wanted = options->socket_size, .local = -1 };
	in->launched = ht_target_threads(target) > 0;
	in->inner_pid = inner_pid(target);
	r = ht_hook_image_load(&in->image, err);
	if (r == 0 && (ht_scanner_new(space, ht_target_memfd(target), &in->scanner) < 0 ||
		       ht_undo_new(target, UNDO_ENTRIES, &in->undo) < 0))
		r = ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	if (r == 0 && options->dlopen && !in->launched)
		r = ht_dlopen_hook(target, space, plan, &in->image, &in->dl_base, err);
	while (r == 0) {
		r = try_inject(in, ht_deadline_passed(picky), err);
		if ((r != -EAGAIN && r != -EEXIST && r != -ETIME) ||
		    !ht_undo_is_clean(in->undo) || ht_deadline_passed(deadline))
			break;
		ht_target_nap(target, 5);
		r = 0;
	}
	if (r == -EILSEQ)
		r = explain_change(target, space, r, err);
	if (r < 0) {
		give_up(in, err);
		ht_injection_free(in);
		return r;
	}
	/* From here on the journal says how to take it back, not this run's log. */
	ht_undo_forget(in->undo);
	*ret_injection = in;
	return 0;
}

/* ---- afterwards ---- */

int ht_inject_cure(struct ht_injection *in, bool *ret_left, struct ht_err *err)
{
	struct ht_traces *traces;
	int r;

	/* A launched target that never ran is let go first. */
	if (in->launched && ht_target_threads(in->target) > 0)
		ht_target_resume(in->target);
	in->launched = false;
	r = ht_traces_of(in->layout->journal, &in->ring, &traces);
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "out of memory");
	traces->on_look = in->options.on_cure;
	traces->on_look_arg = in->options.on_cure_arg;
	r = ht_cure(in->target, in->space, traces, &in->stats, err);
	ht_traces_free(traces);
	if (r == 0)
		*ret_left = in->stats.left;
	return r;
}

struct ht_injection *ht_injection_free(struct ht_injection *in)
{
	if (!in)
		return NULL;
	ht_layout_free(in->layout);
	ht_hook_image_fini(&in->image);
	ht_scanner_free(in->scanner);
	ht_undo_free(in->undo);
	ht_fd_close(in->socket.local);
	free(in->windows);
	free(in);
	return NULL;
}

int ht_inject_take_socket(struct ht_injection *in, uint64_t *ret_capacity)
{
	int fd = in->socket.local;

	in->socket.local = -1;
	*ret_capacity = in->socket.capacity;
	return fd;
}

int ht_inject_read_ring(const struct ht_injection *in, void *buf, size_t len)
{
	return ht_target_read(in->target, in->config.ring.base, buf, len);
}

int ht_inject_set_flags(struct ht_injection *in, uint32_t flags)
{
	in->config.flags = flags;
	return ht_target_write(in->target,
			       in->layout->hook + in->image.config +
				       offsetof(struct ht_hook_config, flags),
			       &flags, sizeof(flags));
}

const struct ht_site *ht_inject_disturbed(const struct ht_injection *in)
{
	const struct ht_layout *l = in->layout;

	for (size_t i = 0; i < l->n_patches; i++) {
		const struct ht_journal_patch *p = &l->journal->patches[i];
		uint8_t now[8], back[8];

		if (ht_target_read(in->target, p->addr, now, sizeof(now)) == 0 &&
		    memcmp(now, p->patched, sizeof(now)) && ht_cure_word(p, now, back) &&
		    memcmp(now, p->original, sizeof(now)))
			return l->patches[i].site;
	}
	return NULL;
}

int ht_inject_update_stack(struct ht_injection *in)
{
	struct ht_hook_config now = { 0 };
	int r = ht_space_refresh(in->space);

	if (r < 0)
		return r;
	find_stack(ht_space_maps(in->space), &now);
	if (now.stack_low == in->config.stack_low && now.stack_high == in->config.stack_high)
		return 0;
	in->config.stack_low = now.stack_low;
	in->config.stack_high = now.stack_high;
	return ht_target_write(in->target,
			       in->layout->hook + in->image.config +
				       offsetof(struct ht_hook_config, stack_low),
			       &now.stack_low, 2 * sizeof(now.stack_low));
}

int ht_inject_set_stack_top(struct ht_injection *in, uint64_t thread_pointer, uint64_t top)
{
	uint32_t home = ht_thread_home(thread_pointer);

	for (uint32_t i = 0; i < HT_THREAD_PROBES; i++) {
		ht_addr_t slot = in->layout->threads +
				 (home + i) % HT_THREAD_SLOTS * sizeof(struct ht_thread);
		uint64_t owner;
		int r = ht_target_read(in->target, slot, &owner, sizeof(owner));

		if (r < 0)
			return r;
		if (owner == thread_pointer)
			return ht_target_write(in->target,
					       slot + offsetof(struct ht_thread, stack_top),
					       &top, sizeof(top));
	}
	return 0;
}

uint32_t ht_inject_flags(const struct ht_injection *in)
{
	return in->config.flags;
}

size_t ht_inject_ranges(const struct ht_injection *in, struct ht_journal_range *ranges,
			size_t cap)
{
	const struct ht_journal *journal = in->layout->journal;
	size_t n = 0;

	for (; n < journal->n_code && n < cap; n++)
		ranges[n] = journal->ranges[n];
	if (journal->dl_start && n < cap)
		ranges[n++] = (struct ht_journal_range){ journal->dl_start, journal->dl_end };
	return n;
}

void ht_inject_stats(const struct ht_injection *in, struct ht_inject_stats *ret_stats)
{
	*ret_stats = (struct ht_inject_stats){
		.stops = in->stats.stops,
		.log = in->stats.log,
		.n_log = ht_min(in->stats.stops, (unsigned)HT_STOPS_LOGGED),
		.stop_max_ns = in->stats.stop_max_ns,
		.stop_total_ns = in->stats.stop_total_ns,
		.threads = in->stats.threads,
	};
}

/* Nothing of another heaptap is in the way (any more), and why else @error. */
static int explain_no_plan(struct ht_target *target, struct ht_space *space, int error,
			   struct ht_err *err)
{
	struct ht_err busy;
	bool found;

	if (ht_space_refresh(space) >= 0 &&
	    ht_inject_find_leftover(target, space, &found, &busy) == -EBUSY) {
		if (err)
			*err = busy;
		return -EBUSY;
	}
	return error;
}

int ht_inject_plan(struct ht_target *target, struct ht_space *space, struct ht_plan **ret_plan,
		   struct ht_err *err)
{
	uint64_t deadline = ht_deadline_ns(STARTING_NS);
	unsigned refused = 0;	/* in a row */
	int r;

	for (;;) {
		r = ht_plan_new(space, ht_target_memfd(target), ret_plan, err);
		if (r < 0)
			r = explain_no_plan(target, space, r, err);
		if (r == 0 || r == -EBUSY)
			return r;
		/* One refusal proves nothing: the libraries may have come between the look
		 * at what is mapped and the one at whether more is to come. */
		refused = r == -EAGAIN ? 0 : refused + 1;
		if (refused == 2 || (!refused && ht_deadline_passed(deadline)))
			break;
		ht_target_nap(target, STARTING_NAP_MS);
	}
	return ht_err_prefix(err, r, "can't tap %d (%s)", ht_target_pid(target),
			     ht_target_name(target));
}

int ht_inject_find_leftover(struct ht_target *target, struct ht_space *space,
			    bool *ret_found, struct ht_err *err)
{
	struct ht_traces *traces;
	int r = ht_traces_find(target, space, &traces, err);

	if (r < 0 && r != -ENOENT)
		return r;
	*ret_found = r == 0;
	if (r == 0)
		ht_traces_free(traces);
	return 0;
}

int ht_inject_cure_leftover(struct ht_target *target, struct ht_space *space,
			    bool *ret_found, bool *ret_left, struct ht_err *err)
{
	struct ht_cure_stats stats = { 0 };
	struct ht_traces *traces;
	int r;

	*ret_found = false;
	*ret_left = false;
	r = ht_traces_find(target, space, &traces, err);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	r = ht_cure(target, space, traces, &stats, err);
	ht_traces_free(traces);
	*ret_found = true;
	*ret_left = stats.left;
	return r;
}
