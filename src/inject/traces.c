/* SPDX-License-Identifier: Apache-2.0
 *
 * traces.c: see traces.h.
 */
#include "inject/traces.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/facts.h"
#include "attach/remote.h"
#include "base/fd.h"

#define PAGE UINT64_C(4096)

static bool is_memfd(const struct ht_area *area, const char *name)
{
	return area->deleted && !strncmp(area->path, "/memfd:", 7) &&
	       !strcmp(area->path + 7, name);
}

static void add_range(struct ht_traces *traces, ht_addr_t start, ht_addr_t end)
{
	if (traces->n_ranges < HT_TRACES_RANGES)
		traces->ranges[traces->n_ranges++] = (struct ht_journal_range){ start, end };
}

/* All of it is mapped from one of our files, but for the gate's page. */
static bool is_ours(const struct ht_maps *maps, const struct ht_journal_range *range,
		    const char *name, ht_addr_t gate)
{
	ht_addr_t at = range->start;

	if (range->start >= range->end || (range->start | range->end) & (PAGE - 1))
		return false;
	while (at < range->end) {
		const struct ht_area *area = ht_maps_find(maps, at);

		if (!area)
			return false;
		if (!is_memfd(area, name)) {
			if (at != gate || area->start != gate || area->end != gate + PAGE ||
			    *area->path || area->inode || gate == range->start)
				return false;
		}
		at = area->end;
	}
	return true;
}

static bool holds(const struct ht_journal_range *range, ht_addr_t addr, uint64_t len)
{
	return addr >= range->start && addr < range->end && len <= range->end - addr;
}

/* What we write is a jump into our code; nothing else is taken for a patch. */
static bool leads_to_us(const struct ht_journal *journal, const struct ht_journal_patch *p)
{
	int32_t rel;
	ht_addr_t to;

	if (p->patched[0] != 0xe9)
		return false;
	memcpy(&rel, p->patched + 1, sizeof(rel));
	to = p->addr + 5 + (ht_addr_t)(int64_t)rel;
	for (uint32_t i = 0; i < journal->n_code; i++)
		if (holds(&journal->ranges[i], to, 1))
			return true;
	return false;
}

/* Ranges that aren't mapped (yet, or any more) are dropped. False: it is no journal. */
static bool check(struct ht_journal *journal, const struct ht_maps *maps, ht_addr_t at)
{
	struct ht_journal_range dl = { journal->dl_start, journal->dl_end };
	uint32_t kept = 0;

	if (journal->n_patches > HT_JOURNAL_MAX || !journal->n_ranges ||
	    journal->n_ranges > ARRAY_SIZE(journal->ranges) ||
	    journal->n_code != journal->n_ranges || journal->ranges[0].start != at ||
	    !is_ours(maps, &journal->ranges[0], HT_CODE_NAME, journal->gate) ||
	    !holds(&journal->ranges[0], journal->gate, PAGE))
		return false;
	for (uint32_t i = 0; i < journal->n_ranges; i++)
		if (i == 0 || is_ours(maps, &journal->ranges[i], HT_CODE_NAME, 0))
			journal->ranges[kept++] = journal->ranges[i];
	journal->n_ranges = journal->n_code = kept;
	if (dl.start && !is_ours(maps, &dl, HT_HOOK_NAME, 0))
		dl = (struct ht_journal_range){ 0, 0 };
	journal->dl_start = dl.start;
	journal->dl_end = dl.end;
	if (!holds(&journal->ranges[0], journal->hook_config, sizeof(struct ht_hook_config)) &&
	    !holds(&dl, journal->hook_config, sizeof(struct ht_hook_config)))
		journal->hook_config = 0;
	for (uint32_t i = 0; i < journal->n_patches;) {
		if (leads_to_us(journal, &journal->patches[i]))
			i++;
		else
			journal->patches[i] = journal->patches[--journal->n_patches];
	}
	return true;
}

static int take_journal(struct ht_traces *traces, const struct ht_target *target,
			const struct ht_maps *maps, const struct ht_area *area,
			struct ht_err *err)
{
	struct ht_journal *journal;

	/* Blocks begin with their file, other stubs don't. */
	if (area->offset || traces->n_journals == HT_TRACES_JOURNALS)
		return 0;
	journal = malloc(sizeof(*journal));
	if (!journal)
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	if (ht_target_read(target, area->start, journal, sizeof(*journal)) < 0 ||
	    journal->magic != HT_JOURNAL_MAGIC) {
		free(journal);
		return 0;
	}
	if (journal->version != HT_WIRE_VERSION) {
		int r = ht_err_set(err, HT_ERR_UNSUPPORTED, -EPROTO,
				   "another version of heaptap (format %u) left something in %d; use that one's heaptap cure",
				   journal->version, ht_target_pid(target));

		free(journal);
		return r;
	}
	if (!check(journal, maps, area->start)) {
		free(journal);
		return 0;
	}
	traces->journals[traces->n_journals++] = journal;
	return 0;
}

static bool owner_lives(const struct ht_target *target, ht_addr_t ring, uint32_t *ret_owner)
{
	struct ht_ring_header header;

	if (ht_target_read(target, ring, &header, sizeof(header)) < 0 ||
	    header.magic != HT_RING_MAGIC || header.owner & HT_OWNER_DIED || !header.owner)
		return false;
	*ret_owner = header.owner;
	return true;
}

static void take_hook(struct ht_traces *traces, const struct ht_area *area)
{
	struct ht_journal_range *last =
		traces->n_hooks ? &traces->hooks[traces->n_hooks - 1] : NULL;

	if (last && area->offset && last->end == area->start)
		last->end = area->end;
	else if (!area->offset && traces->n_hooks < HT_TRACES_HOOKS)
		traces->hooks[traces->n_hooks++] =
			(struct ht_journal_range){ area->start, area->end };
}

/* Has the process @pid the file of @ring mapped, too? */
static bool maps_ring(pid_t pid, const struct ht_area *ring)
{
	_cleanup_(ht_fd_closep) int procfd = -1;
	struct ht_maps *maps;
	char path[64];
	bool found = false;

	snprintf(path, sizeof(path), "%s/%d", ht_proc_root, (int)pid);
	procfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (procfd < 0 || ht_maps_read(procfd, &maps) < 0)
		return false;
	for (size_t i = 0; i < ht_maps_count(maps) && !found; i++) {
		const struct ht_area *area = ht_maps_at(maps, i);

		found = is_memfd(area, HT_RING_NAME) && area->inode == ring->inode &&
			area->dev_major == ring->dev_major &&
			area->dev_minor == ring->dev_minor;
	}
	ht_maps_free(maps);
	return found;
}

/* The number in the ring is the target's to forge, and people will end the process that is
 * named here: it must have the ring too. */
static int refuse_for_owner(const struct ht_target *target, const struct ht_area *ring,
			    uint32_t owner, struct ht_err *err)
{
	char name[32];
	pid_t pid = ht_facts_process_of((pid_t)owner, name);

	if (!maps_ring(pid, ring) || pid == ht_target_pid(target))
		return ht_traces_refuse(target, err);
	return ht_err_set(err, HT_ERR_PERM, -EBUSY,
			  "can't %s %d (%s): %s (pid %d) is tapping it; end that first",
			  ht_target_verb(target), ht_target_pid(target),
			  ht_target_name(target), name, (int)pid);
}

int ht_traces_refuse(const struct ht_target *target, struct ht_err *err)
{
	return ht_err_set(err, HT_ERR_PERM, -EBUSY,
			  "can't %s %d (%s): another heaptap is tapping it; end that first",
			  ht_target_verb(target), ht_target_pid(target),
			  ht_target_name(target));
}

/* *ret_ring: one that is in use, by the thread *ret_owner; NULL: none is. */
static int take_areas(struct ht_traces *traces, struct ht_target *target,
		      const struct ht_maps *maps, const struct ht_area **ret_ring,
		      uint32_t *ret_owner, struct ht_err *err)
{
	uint32_t owner = 0;
	ht_addr_t end;
	int r = 0;

	*ret_ring = NULL;
	for (size_t i = 0; i < ht_maps_count(maps) && r == 0; i++) {
		const struct ht_area *area = ht_maps_at(maps, i);

		if (is_memfd(area, HT_CODE_NAME)) {
			r = take_journal(traces, target, maps, area, err);
		} else if (is_memfd(area, HT_HOOK_NAME)) {
			take_hook(traces, area);
		} else if (ht_remote_leftover(target, area, &end)) {
			add_range(traces, area->start, end);
		} else if (is_memfd(area, HT_RING_NAME)) {
			if (owner_lives(target, area->start, &owner)) {
				*ret_ring = area;
				*ret_owner = owner;
			} else {
				add_range(traces, area->start, area->end);
			}
		}
	}
	return r;
}

static bool is_our_socket(const struct ht_traces *traces, const struct ht_target *target, int fd)
{
	for (unsigned i = 0; i < traces->n_journals; i++) {
		uint64_t inode = traces->journals[i]->socket;

		if (inode && ht_target_is_socket(target, fd, inode))
			return true;
	}
	return false;
}

/* Somebody holds the other end. */
static bool is_connected(const struct ht_target *target, int fd)
{
	_cleanup_(ht_fd_closep) int copy = -1;
	struct pollfd p = { .events = 0 };

	if (ht_target_take_fd(target, fd, &copy) < 0)
		return false;
	p.fd = copy;
	return poll(&p, 1, 0) >= 0 && !(p.revents & POLLHUP);
}

static bool any_connected(const struct ht_traces *traces, const struct ht_target *target)
{
	for (unsigned i = 0; i < traces->n_fds; i++)
		if (is_our_socket(traces, target, traces->fds[i]) &&
		    is_connected(target, traces->fds[i]))
			return true;
	return false;
}

bool ht_traces_is_our_fd(const struct ht_traces *traces, const struct ht_target *target, int fd)
{
	static const char *const names[] = { HT_CODE_NAME, HT_HOOK_NAME, HT_RING_NAME };
	char path[32], link[64], want[64];
	ssize_t n;

	snprintf(path, sizeof(path), "fd/%d", fd);
	n = readlinkat(ht_target_procfd(target), path, link, sizeof(link) - 1);
	if (n < 0)
		return false;
	link[n] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(want, sizeof(want), "/memfd:%s (deleted)", names[i]);
		if (!strcmp(link, want))
			return true;
	}
	return is_our_socket(traces, target, fd);
}

static void take_fds(struct ht_traces *traces, const struct ht_target *target)
{
	int fd = openat(ht_target_procfd(target), "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	traces->n_fds = 0;
	if (!dir) {
		ht_fd_close(fd);
		return;
	}
	while ((entry = readdir(dir)) && traces->n_fds < HT_TRACES_FDS) {
		int number = atoi(entry->d_name);

		if (*entry->d_name != '.' && ht_traces_is_our_fd(traces, target, number))
			traces->fds[traces->n_fds++] = number;
	}
	closedir(dir);
}

static void add_journal_ranges(struct ht_traces *traces, const struct ht_journal *journal)
{
	for (uint32_t i = journal->n_ranges; i-- > 0;)
		add_range(traces, journal->ranges[i].start, journal->ranges[i].end);
}

int ht_traces_find(struct ht_target *target, const struct ht_space *space,
		   struct ht_traces **ret_traces, struct ht_err *err)
{
	struct ht_traces *traces = calloc(1, sizeof(*traces));
	const struct ht_area *ring;
	uint32_t owner = 0;
	int r;

	if (!traces)
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	r = take_areas(traces, target, ht_space_maps(space), &ring, &owner, err);
	if (r == 0 && ring && traces->n_journals)
		r = refuse_for_owner(target, ring, owner, err);
	if (r == 0)
		/* A ring alone that is in use: it is a heaptap itself, with files of its own. */
		r = ring || (!traces->n_ranges && !traces->n_hooks && !traces->n_journals) ?
			    -ENOENT : 0;
	if (r == 0)
		take_fds(traces, target);
	if (r == 0 && any_connected(traces, target))
		r = ht_traces_refuse(target, err);
	if (r < 0) {
		ht_traces_free(traces);
		return r;
	}
	for (unsigned i = 0; i < traces->n_journals; i++)
		add_journal_ranges(traces, traces->journals[i]);
	*ret_traces = traces;
	return 0;
}

int ht_traces_of(const struct ht_journal *journal, const struct ht_journal_range *ring,
		 struct ht_traces **ret_traces)
{
	struct ht_traces *traces = calloc(1, sizeof(*traces));
	struct ht_journal *copy = malloc(sizeof(*copy));

	if (!traces || !copy) {
		free(traces);
		free(copy);
		return -ENOMEM;
	}
	*copy = *journal;
	traces->own = true;
	traces->journals[traces->n_journals++] = copy;
	if (ring->end)
		add_range(traces, ring->start, ring->end);
	add_journal_ranges(traces, copy);
	if (copy->dl_start)
		traces->hooks[traces->n_hooks++] =
			(struct ht_journal_range){ copy->dl_start, copy->dl_end };
	*ret_traces = traces;
	return 0;
}

struct ht_traces *ht_traces_free(struct ht_traces *traces)
{
	if (!traces)
		return NULL;
	for (unsigned i = 0; i < traces->n_journals; i++)
		free(traces->journals[i]);
	free(traces);
	return NULL;
}

static bool still_ours(const struct ht_traces *traces, const struct ht_target *target,
		       const struct ht_maps *maps, const struct ht_journal_range *range)
{
	const struct ht_area *area = ht_maps_find(maps, range->start);
	ht_addr_t end;

	if (is_ours(maps, range, HT_RING_NAME, 0) || is_ours(maps, range, HT_CODE_NAME, 0))
		return true;
	for (unsigned i = 0; i < traces->n_journals; i++)
		if (is_ours(maps, range, HT_CODE_NAME, traces->journals[i]->gate))
			return true;
	return area && area->start == range->start && ht_remote_leftover(target, area, &end) &&
	       end == range->end;
}

static bool has_range(const struct ht_traces *traces, const struct ht_journal_range *range)
{
	for (unsigned i = 0; i < traces->n_ranges; i++)
		if (traces->ranges[i].start == range->start)
			return true;
	return false;
}

void ht_traces_refresh(struct ht_traces *traces, struct ht_target *target,
		       const struct ht_space *space)
{
	const struct ht_maps *maps = ht_space_maps(space);
	unsigned n = 0;

	for (unsigned i = 0; i < traces->n_journals; i++) {
		if (traces->journals[i]->socket) {
			take_fds(traces, target);
			break;
		}
	}
	for (unsigned i = 0; i < traces->n_ranges; i++)
		if (still_ours(traces, target, maps, &traces->ranges[i]))
			traces->ranges[n++] = traces->ranges[i];
	traces->n_ranges = n;
	for (unsigned i = 0; i < traces->n_journals;) {
		if (has_range(traces, &traces->journals[i]->ranges[0])) {
			i++;
			continue;
		}
		free(traces->journals[i]);
		traces->journals[i] = traces->journals[--traces->n_journals];
	}
	n = 0;
	for (unsigned i = 0; i < traces->n_hooks; i++)
		if (is_ours(maps, &traces->hooks[i], HT_HOOK_NAME, 0))
			traces->hooks[n++] = traces->hooks[i];
	traces->n_hooks = n;
}

bool ht_traces_alive(const struct ht_traces *traces, const struct ht_target *target)
{
	for (unsigned i = 0; i < traces->n_journals; i++) {
		const struct ht_journal *journal = traces->journals[i];
		struct ht_hook_config config;
		uint32_t owner;

		if (journal->hook_config &&
		    ht_target_read(target, journal->hook_config, &config, sizeof(config)) == 0 &&
		    config.magic == HT_HOOK_MAGIC && config.ring.base &&
		    owner_lives(target, config.ring.base, &owner))
			return true;
	}
	return any_connected(traces, target);
}
